"""The served keywords, formats and options as tables, made from the code that serves them (SERV-13).

`markdown` is the text of KEYWORDS.md beside this file; a test keeps the two equal.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum

import attrs

from engine.request import Formats, JsonOptions, UnknownKeywords, Whitespace
from engine.text.schema.formats import REFUSED_FORMATS, SERVED_FORMATS
from engine.text.schema.keywords import CONTENT, KEYWORDS, Dialect, Role, find, shape_in

REGENERATE = "counterproof explain-schema --keywords --markdown > engine/text/schema/KEYWORDS.md"
ROLES = {
    Role.ASSERTION: "enforced",
    Role.APPLICATOR: "enforced",
    Role.ANNOTATION: "annotation",
    Role.IDENTITY: "identity",
}
FATES = {
    "enforced": "the masks admit what satisfies it and nothing else; a use without exact form is refused",
    "annotation": "read, and changes no mask",
    "identity": "names the schema, its dialect or a place in it",
    "refused": "a schema that uses it is refused with the keyword's JSON Pointer",
}
NOTES: Mapping[str, str] = {
    "format": "with --formats assert, see the formats",
    "uniqueItems": "over short lists of values, or where one item is the most",
    **dict.fromkeys(CONTENT, "draft-7: with --formats annotate only, as it may be an assertion there"),
    "$ref": "inside the document; nothing is fetched",
    "$dynamicRef": "where it can lead to one place only",
    "$recursiveRef": "where it can lead to one place only",
}
OPTIONS: Mapping[str, Mapping[StrEnum, str]] = {
    "--unknown-keywords": {
        UnknownKeywords.REFUSE: "a keyword that the dialect does not have is refused",
        UnknownKeywords.ANNOTATE: "it is an annotation; so is a format that nobody defines",
    },
    "--formats": {
        Formats.REFUSE: "a schema with format is refused",
        Formats.ANNOTATE: "format is an annotation",
        Formats.ASSERT: "a served format is enforced, a refused one refused",
    },
    "--whitespace": {
        Whitespace.BOUNDED: "runs of up to 32 spaces, tabs and line ends between JSON tokens",
        Whitespace.FIXED: "one space after each comma and colon, none elsewhere",
        Whitespace.COMPACT: "none",
    },
}


@attrs.frozen
class KeywordRow:
    """One keyword: what becomes of it, its argument in the newest dialect, the dialects that have it."""

    keyword: str
    fate: str
    argument: str
    dialects: tuple[str, ...]
    note: str


@attrs.frozen
class FormatRow:
    """One format: served or refused, where it is defined, and what is left out or why it is refused."""

    format: str
    fate: str
    definition: str
    note: str


@attrs.frozen
class OptionRow:
    """One word of an option."""

    option: str
    word: str
    meaning: str
    is_default: bool


def keyword_rows() -> list[KeywordRow]:
    """Every keyword of the table, in its order."""
    rows = []
    for name, row in KEYWORDS.items():
        dialects = [d for d in Dialect if find(name, d) is not None]
        shapes = {d: str(shape_in(name, d)) for d in dialects}
        argument = shapes[dialects[-1]]
        older = [d for d in dialects if shapes[d] != argument]
        note = f"refused {row.note}" if row.note else NOTES.get(name, "")
        if older:
            span = str(older[0]) if len(older) == 1 else f"up to {older[-1]}"
            note = f"{span}: {shapes[older[0]]}"
        rows.append(KeywordRow(name, ROLES[row.role], argument, tuple(map(str, dialects)), note))
    return rows


def format_rows() -> list[FormatRow]:
    """Every format that is served, then those that are refused."""
    rows = []
    for name, served in SERVED_FORMATS.items():
        left_out = f"left out: {served.narrower}" if served.narrower else ""
        longest = f"at most {served.max_length} characters" if served.max_length is not None else ""
        note = "; ".join(filter(None, [longest, left_out]))
        rows.append(FormatRow(name, "enforced", served.definition, note))
    return rows + [FormatRow(name, "refused", "", reason) for name, reason in REFUSED_FORMATS.items()]


def option_rows() -> list[OptionRow]:
    """Every word of every option."""
    defaults = attrs.astuple(JsonOptions())
    return [
        OptionRow(option, str(word), meaning, any(word is default for default in defaults))
        for option, words in OPTIONS.items()
        for word, meaning in words.items()
    ]


def markdown() -> str:
    """The tables as one Markdown page."""
    return "\n".join(_page()) + "\n"


def _page() -> Iterator[str]:
    dialects = [str(dialect) for dialect in Dialect]
    yield "# JSON Schema: what is served"
    yield ""
    yield f"Made by `{REGENERATE}`; do not edit."
    yield ""
    yield "Each keyword of a schema has one of these fates, wherever it stands:"
    yield ""
    yield from (f"- **{fate}**: {meaning}." for fate, meaning in FATES.items())
    yield ""
    yield "A dialect is chosen by `$schema`; without one it is the newest. Unless a column has a mark, the"
    yield "dialect does not know the keyword. Beside `$ref`, draft-4 to draft-7 ignore every other keyword."
    yield ""
    yield "## Keywords"
    yield ""
    rows = [
        [f"`{row.keyword}`", row.fate, row.argument, *_marks(row, dialects), row.note]
        for row in keyword_rows()
    ]
    yield from _table(["keyword", "fate", "argument", *dialects, "note"], rows)
    yield ""
    yield "## Formats"
    yield ""
    yield "With `--formats assert`. What is left out may be called valid by a reader and is never generated."
    yield ""
    formats = [[f"`{row.format}`", row.fate, row.definition, row.note] for row in format_rows()]
    yield from _table(["format", "fate", "definition", "note"], formats)
    yield ""
    yield "## Options"
    yield ""
    options = [[f"`{o.option} {o.word}`", _meaning(o)] for o in option_rows()]
    yield from _table(["option", "meaning"], options)


def _marks(row: KeywordRow, dialects: Sequence[str]) -> list[str]:
    return ["x" if dialect in row.dialects else "" for dialect in dialects]


def _meaning(row: OptionRow) -> str:
    return f"{row.meaning} (default)" if row.is_default else row.meaning


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"
