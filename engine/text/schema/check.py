"""Every keyword that can be reached is known and well formed, or the schema is refused at its pointer.

The walk starts at the root and follows subschemas and references; definitions that nothing refers to are not
reached. What it finds makes the ledger that explain-schema prints: every keyword occurrence with its fate.
"""

from collections.abc import Callable, Iterator

import attrs

from engine.errors import Location, RefusedConstruct, RequestError, SyntaxFault
from engine.request import Formats, JsonOptions, UnknownKeywords
from engine.text.limits import check_limit
from engine.text.schema.formats import REFUSED_FORMATS, format_language
from engine.text.schema.keywords import CONTENT, KEYWORDS, REFERENCES, TYPES, Dialect, Shape, find, shape_in
from engine.text.schema.nodes import UNSUPPORTED, Document, Schema
from engine.text.schema.source import INT64, KIND, Number, Value, text_of, walk_values
from engine.text.schema.strings import search_language
from engine.text.schema.unevaluated import ITEMS, MEMBERS, depends_on_instance

SHORT_INTEGER = 18  # characters that no integer past 64 bits fits
IN_PLACE = frozenset(
    {"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"}
)


@attrs.frozen
class Occurrence:
    """One keyword where it stands, and what becomes of it."""

    schema: Schema
    keyword: str
    fate: str

    @property
    def pointer(self) -> str:
        """The JSON Pointer of the keyword."""
        return self.schema.location(self.keyword).pointer


def check(document: Document, options: JsonOptions) -> list[Occurrence]:
    """Check everything reachable and return the ledger. Raises RequestError at the first fault."""
    ledger: list[Occurrence] = []
    members = listed = 0
    seen = {document.root.index}
    waiting = [document.root]
    while waiting:
        schema = waiting.pop()
        check_limit("schema_positions", len(seen), KIND)
        ledger += _check_schema(document, schema, options)
        members += len(schema.get("properties") or ())
        check_limit("schema_members", members, UNSUPPORTED, schema.location("properties"))
        for keyword in ("enum", "const"):
            listed += _num_values(schema.get(keyword))
            check_limit("enum_members", listed, UNSUPPORTED, schema.location(keyword))
        found = [part for name, part in document.subschemas(schema) if _is_reached(schema, name)]
        found += document.targets(schema)
        for part in reversed(found):
            if part.index not in seen:
                seen.add(part.index)
                waiting.append(part)
    reached = (document.positions[index] for index in sorted(seen))
    _check_descent(document, [part for part in reached if any(map(part.has, REFERENCES))])
    return ledger


def _num_values(listed: Value) -> int:
    """How many values stand in the argument of `enum` or `const`, those inside others too."""
    if not isinstance(listed, list | dict):
        return 0
    parts = listed if isinstance(listed, list) else listed.values()
    return len(listed) + sum(_num_values(part) for part in parts if isinstance(part, list | dict))


def _check_descent(document: Document, referring: list[Schema]) -> None:
    """Refuse references that come back without going into a member or an item (SERV-17)."""
    done: set[int] = set()
    for start in referring:
        path: dict[int, Iterator[Schema]] = {}  # the positions gone through, each with what is left of it
        waiting = [start] if start.index not in done else []
        while waiting or path:
            if waiting:
                schema = waiting.pop()
                path[schema.index] = _in_place(document, schema)
                check_limit("reference_chain", len(path), UNSUPPORTED, schema.location())
            index, parts = next(reversed(path.items()))
            part = next(parts, None)
            if part is None:
                done.add(index)
                del path[index]
            elif part.index in path:
                raise RefusedConstruct(
                    UNSUPPORTED,
                    "a reference comes back to itself without going into a member or an item",
                    part.location(),
                    allowed="recursion through properties or items",
                )
            elif part.index not in done:
                waiting.append(part)


def _in_place(document: Document, schema: Schema) -> Iterator[Schema]:
    """The schemas that a schema applies to the same value."""
    yield from document.targets(schema)
    if not IN_PLACE.isdisjoint(schema.active):
        yield from (part for name, part in document.subschemas(schema) if name in IN_PLACE)


def _is_reached(schema: Schema, keyword: str) -> bool:
    return keyword not in ("$defs", "definitions") and schema.has(keyword)


def _check_schema(document: Document, schema: Schema, options: JsonOptions) -> Iterator[Occurrence]:
    if not isinstance(schema.value, dict):
        return
    for keyword, argument in schema.value.items():
        if schema.is_only_reference and keyword != "$ref":
            yield Occurrence(schema, keyword, "ignored beside $ref in this dialect")
            continue
        row = find(keyword, schema.dialect)
        if row is None:
            _check_unknown(schema, keyword, options)
            yield Occurrence(schema, keyword, "annotation (unknown)")
            continue
        _check_argument(schema, keyword, argument, shape_in(keyword, schema.dialect))
        is_unevaluated = keyword in (MEMBERS, ITEMS) and argument not in (True, {})
        if is_unevaluated and depends_on_instance(document, schema, keyword):
            message = f"the keyword is not served {row.note}"
            raise _refusal(schema, keyword, message, keyword, "it beside references and allOf")
        fate = _check_format(schema, argument, options) if keyword == "format" else str(row.role)
        if keyword in CONTENT and schema.dialect is Dialect.DRAFT_7:
            _check_content(schema, keyword, options)
        yield Occurrence(schema, keyword, fate)


def _check_unknown(schema: Schema, keyword: str, options: JsonOptions) -> None:
    if options.unknown_keywords is UnknownKeywords.ANNOTATE:
        return
    dialects = KEYWORDS[keyword].since if keyword in KEYWORDS else None
    message = "the keyword is unknown" if dialects is None else f"{schema.dialect} has no such keyword"
    raise _refusal(schema, keyword, message, keyword, "unknown_keywords=annotate ignores it")


def _check_format(schema: Schema, name: str, options: JsonOptions) -> str:
    """What becomes of a format under the options. Raises RefusedConstruct."""
    if options.formats is Formats.ANNOTATE:
        return "annotation"
    if options.formats is Formats.REFUSE:
        allowed = "formats=assert enforces it, formats=annotate ignores it"
        raise _refusal(schema, "format", "format is not enforced by default", name, allowed)
    if format_language(name) is not None:
        return "assertion"
    if name in REFUSED_FORMATS:
        allowed = "formats=annotate ignores it"
        raise _refusal(
            schema, "format", f"the format cannot be enforced: {REFUSED_FORMATS[name]}", name, allowed
        )
    if options.unknown_keywords is UnknownKeywords.ANNOTATE:
        return "annotation (unknown format)"
    raise _refusal(schema, "format", "the format is unknown", name, "unknown_keywords=annotate ignores it")


def _check_content(schema: Schema, keyword: str, options: JsonOptions) -> None:
    """Draft 7 lets an implementation assert what a string contains; later drafts do not."""
    if options.formats is not Formats.ANNOTATE:
        message = "what a string contains is not enforced, and draft 7 lets it be an assertion"
        raise _refusal(schema, keyword, message, keyword, "formats=annotate ignores it")


def _refusal(
    schema: Schema, keyword: str, message: str, found: str, allowed: str, below: str = ""
) -> RefusedConstruct:
    """A refusal at a keyword, or at the JSON Pointer `below` its argument."""
    place = Location(pointer=schema.location(keyword).pointer + below)
    return RefusedConstruct(UNSUPPORTED, message, place, found[:80], allowed)


def _check_argument(schema: Schema, keyword: str, argument: Value, shape: Shape) -> None:
    test = _TESTS.get(shape)
    if test is not None and not test(argument):
        keys = _wrong_part(argument, shape)
        raise SyntaxFault(
            KIND,
            f"the argument of {keyword} has the wrong form",
            schema.location(keyword, *keys),
            text_of(argument[keys[0]] if keys else argument)[:40],
            shape,
        )
    if shape is Shape.COUNT:
        bound = min(int(argument.value), 10**12)
        check_limit("count", bound, UNSUPPORTED, schema.location(keyword))
    elif shape in (Shape.NUMBER, Shape.POSITIVE):
        _check_exact(schema, keyword, argument)
    elif keyword in ("enum", "const"):
        _check_values(schema, keyword, argument)
    elif shape is Shape.PATTERN:
        _check_pattern(schema, (keyword,), argument)
    elif shape is Shape.PATTERNS:
        for pattern in argument:
            _check_pattern(schema, (keyword, pattern), pattern)


def _check_exact(schema: Schema, keyword: str, number: Number, below: str = "") -> None:
    if not number.is_exact:
        raise _refusal(
            schema,
            keyword,
            "a number would be rounded when it is read as binary64",
            number.text,
            "a decimal that binary64 gives back, such as 0.1",
            below,
        )


def _check_values(schema: Schema, keyword: str, argument: Value) -> None:
    for pointer, part in walk_values(argument):
        if not isinstance(part, Number):
            continue
        if part.is_integer_text and len(part.text) <= SHORT_INTEGER:
            continue
        if part.is_integer_text and not INT64[0] <= part.value <= INT64[1]:
            allowed = "integers of 64 bits, signed"
            raise _refusal(schema, keyword, "an integer is past 64 bits", part.text, allowed, pointer)
        _check_exact(schema, keyword, part, pointer)


def _check_pattern(schema: Schema, keys: tuple[str, ...], pattern: str) -> None:
    try:
        search_language(pattern)
    except RequestError as error:
        malformed = isinstance(error, SyntaxFault)
        kind = KIND if malformed else UNSUPPORTED
        raise attrs.evolve(error, kind=kind, location=schema.location(*keys)) from None


def _wrong_part(argument: Value, shape: Shape) -> tuple[str | int, ...]:
    """The key of the first part of an argument that has the wrong form; none where it is the whole."""
    test = _PARTS.get(shape)
    if test is None or not isinstance(argument, _CONTAINERS[shape]):
        return ()
    parts = argument.items() if isinstance(argument, dict) else enumerate(argument)
    return next(((key,) for key, part in parts if not test(part)), ())


def _is_count(value: Value) -> bool:
    return isinstance(value, Number) and value.value >= 0 and value.value.denominator == 1


def _are_names(value: Value) -> bool:
    return (
        isinstance(value, list)
        and all(isinstance(name, str) for name in value)
        and len(set(value)) == len(value)
    )


def _are_types(value: Value) -> bool:
    names = value if isinstance(value, list) else [value]
    return bool(names) and _are_names(names) and set(names) <= set(TYPES)


def _is_schema(value: Value) -> bool:
    return isinstance(value, dict | bool)


def _is_schema_or_names(value: Value) -> bool:
    return _is_schema(value) or _are_names(value)


_PARTS: dict[Shape, Callable[[Value], bool]] = {
    **dict.fromkeys((Shape.MEMBERS, Shape.PATTERNS, Shape.SCHEMAS, Shape.ITEMS), _is_schema),
    Shape.NEEDS: _are_names,
    Shape.DEPENDENCIES: _is_schema_or_names,
}
_CONTAINERS = {shape: list if shape in (Shape.SCHEMAS, Shape.ITEMS) else dict for shape in _PARTS}
_TESTS: dict[Shape, Callable[[Value], bool]] = {
    Shape.STRING: lambda value: isinstance(value, str),
    Shape.PATTERN: lambda value: isinstance(value, str),
    Shape.BOOLEAN: lambda value: isinstance(value, bool),
    Shape.LIMIT_FLAG: lambda value: isinstance(value, bool),
    Shape.COUNT: _is_count,
    Shape.NUMBER: lambda value: isinstance(value, Number),
    Shape.POSITIVE: lambda value: isinstance(value, Number) and value.value > 0,
    Shape.NAMES: _are_names,
    Shape.TYPES: _are_types,
    Shape.VALUES: lambda value: isinstance(value, list),
    Shape.SCHEMA: _is_schema,
    Shape.SCHEMAS: lambda value: isinstance(value, list) and bool(value) and all(map(_is_schema, value)),
    Shape.MEMBERS: lambda value: isinstance(value, dict) and all(map(_is_schema, value.values())),
    Shape.PATTERNS: lambda value: isinstance(value, dict) and all(map(_is_schema, value.values())),
    Shape.ITEMS: lambda value: all(map(_is_schema, value)) if isinstance(value, list) else _is_schema(value),
    Shape.NEEDS: lambda value: isinstance(value, dict) and all(map(_are_names, value.values())),
    Shape.DEPENDENCIES: lambda value: (
        isinstance(value, dict) and all(map(_is_schema_or_names, value.values()))
    ),
}
