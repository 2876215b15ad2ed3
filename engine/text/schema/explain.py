"""What the engine makes of a schema, as a record: the fate of every keyword and the reduced form.

Every keyword occurrence of the document stands in the ledger once (SERV-14). A schema that is refused has no
explanation but its error; `instead` says what to write for it.
"""

import difflib
from collections import Counter
from collections.abc import Iterator, Mapping

import attrs

from engine.errors import EmptyLanguage, LimitExceeded, RequestError, SyntaxFault
from engine.request import JsonOptions
from engine.text.expr import Lexeme
from engine.text.schema.check import Occurrence, check
from engine.text.schema.keywords import KEYWORDS
from engine.text.schema.lower.layout import Layout
from engine.text.schema.nodes import Document
from engine.text.schema.numbers import NumberSet, number_language
from engine.text.schema.reduce.reducer import Reducer
from engine.text.schema.reduced import Definition, definitions
from engine.text.schema.source import Value, join, parse, text_of
from engine.text.schema.strings import FREE, string_lexeme

DEFINITIONS = 60  # definitions of the reduced form that are written
ENFORCED, IDENTITY, ANNOTATION = "enforced", "identity", "annotation"
BESIDE_REFERENCE = "ignored beside $ref"
UNKNOWN = "unknown, ignored"
UNREACHED = "not reached"
UNKNOWN_KEYWORD = "the keyword is unknown"
FATES: Mapping[str, str] = {
    "assertion": ENFORCED,
    "applicator": ENFORCED,
    "identity": IDENTITY,
    "annotation": ANNOTATION,
    "ignored beside $ref in this dialect": BESIDE_REFERENCE,
    "annotation (unknown)": UNKNOWN,
    "annotation (unknown format)": UNKNOWN,
}
ORDER = (ENFORCED, IDENTITY, ANNOTATION, BESIDE_REFERENCE, UNKNOWN, UNREACHED)
INSTEAD: Mapping[str, str] = {
    "unevaluatedProperties": "one object with every property it may have, and additionalProperties",
    "unevaluatedItems": "one array with every position in prefixItems, and items",
    "$ref": "a reference into this document; copy what it needs into $defs",
    "$dynamicRef": "$ref to the schema that is meant",
    "$recursiveRef": "$ref to the schema that is meant",
    "required": "required names that the schemas beside it allow",
}


@attrs.frozen
class Entry:
    """One keyword occurrence: its JSON Pointer, its name, and what becomes of it (one of ORDER)."""

    pointer: str
    keyword: str
    fate: str


@attrs.frozen
class Explanation:
    """A schema that the reduction accepts; `is_whole` is false where definitions were left out."""

    dialect: str
    ledger: tuple[Entry, ...]
    reduced: tuple[Definition, ...]
    is_whole: bool

    def fates(self) -> dict[str, dict[str, int]]:
        """How often each keyword met each fate, in the order of ORDER."""
        counts = {fate: Counter(e.keyword for e in self.ledger if e.fate == fate) for fate in ORDER}
        return {fate: dict(count) for fate, count in counts.items() if count}


def explain(source: str, options: JsonOptions) -> Explanation:
    """Explain a schema that compiles. Raises RequestError."""
    document = Document(parse(source))
    reached = check(document, options)
    ledger = [*map(_entry, reached), *_unreached(document, reached)]
    found, is_whole = definitions(Reducer(document, options), DEFINITIONS)
    return Explanation(str(document.root.dialect), tuple(ledger), found, is_whole)


def dialect_of(source: str) -> str:
    """The dialect of a schema that may be faulty; empty where it cannot be told."""
    try:
        return str(Document(parse(source)).root.dialect)
    except RequestError:
        return ""


def _entry(occurrence: Occurrence) -> Entry:
    return Entry(occurrence.pointer, occurrence.keyword, FATES[occurrence.fate])


def _unreached(document: Document, reached: list[Occurrence]) -> Iterator[Entry]:
    """The keywords of schemas that nothing leads to: definitions that nobody refers to."""
    known = {occurrence.pointer for occurrence in reached}
    waiting = [document.root]
    while waiting:
        schema = waiting.pop(0)
        for keyword in schema.value if isinstance(schema.value, dict) else ():
            pointer = join(schema.pointer, keyword)
            if pointer not in known:
                yield Entry(pointer, keyword, UNREACHED)
        try:
            waiting += [part for _, part in document.subschemas(schema)]
        except SyntaxFault:  # where nothing is read, nothing need be well formed
            continue


def instead(error: RequestError) -> str:
    """What to write for a schema that is refused; never empty."""
    keyword = error.pointer.rsplit("/", 1)[-1]
    meant = difflib.get_close_matches(keyword, KEYWORDS, 1) if error.message == UNKNOWN_KEYWORD else []
    if error.allowed:
        return f"{meant[0]}, if that is meant; {error.allowed}" if meant else error.allowed
    if keyword in INSTEAD:
        return INSTEAD[keyword]
    if isinstance(error, EmptyLanguage):
        return "a schema that at least one finite value satisfies"
    if isinstance(error, LimitExceeded):
        return f"a schema within the limit {error.limit} ({error.maximum})"
    if isinstance(error, SyntaxFault):
        return "what the reason says; counterproof explain-schema --keywords lists every argument"
    return "the keywords that counterproof explain-schema --keywords lists"


def fragment(source: str, pointer: str, width: int = 200) -> str:
    """The part of a schema that a pointer names, as short JSON text; empty where there is none."""
    try:
        value: Value = parse(source)
        for token in pointer.split("/")[1:]:
            key = token.replace("~1", "/").replace("~0", "~")
            value = value[int(key)] if isinstance(value, list) else value[key]
    except (RequestError, KeyError, IndexError, ValueError, TypeError):
        return ""
    text = text_of(value)
    return text if len(text) <= width else text[: width - 1] + "…"


def terminal_names(options: JsonOptions) -> dict[Lexeme, str]:
    """Names for the terminals that stand in most grammars of JSON."""
    layout = Layout.of(options.whitespace)
    return {
        Lexeme(layout.comma): "comma",
        Lexeme(layout.colon): "colon",
        layout.opening("{"): "open-object",
        layout.closing("}"): "close-object",
        layout.empty("{}"): "empty-object",
        layout.opening("["): "open-array",
        layout.closing("]"): "close-array",
        layout.empty("[]"): "empty-array",
        string_lexeme(FREE): "string",
        string_lexeme(FREE, canonical=True): "name",
        number_language(NumberSet()): "number",
        number_language(NumberSet(integer=True)): "integer",
    }
