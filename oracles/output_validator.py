"""Is a finished output a member of the JSON language that was asked for? Judged on the text alone.

One root value by RFC 8259, an object where one is asked for, white space by its policy, no name twice in an
object, no half of a surrogate pair, and valid under the schema. Keywords that the dialect does not define say
nothing here; whether such a schema should have been refused is not asked.
"""

import functools
import itertools
import re
from typing import Protocol

from oracles.schema.text import TextError, lone_surrogates, parse, repeated_names
from oracles.schema.validate import Validator

MAX_SPACE = 32
_PIECES = re.compile(r'"(?:[^"\\]|\\.)*"|[ \t\n\r]+|[^" \t\n\r]+', re.DOTALL)
_SPACE = " \t\n\r"


class Options(Protocol):
    """How the schema and the white space are read; the request's options fit."""

    @property
    def formats(self) -> str:
        """Give "refuse", "annotate" or "assert"."""

    @property
    def whitespace(self) -> str:
        """Give "bounded", "fixed" or "compact"."""


def validate_output(kind: str, source: str, text: str, options: Options) -> str | None:
    """Return None when the text is a member of the language, otherwise what is wrong with it.

    kind: "json_object" or "json_schema"; source: the schema's text, unread for "json_object".

    Raises: ValueError for another kind, and SchemaError, PatternError or Unsupported when the schema itself
    cannot be judged.
    """
    if kind not in ("json_object", "json_schema"):
        raise ValueError(f"no validator for outputs of kind {kind!r}")
    try:
        value = parse(text)
    except TextError as error:
        return f"not JSON: {error}"
    if kind == "json_object" and value.kind != "object":
        return f"the root is a {value.kind}, not an object"
    if not _spaced(text, options.whitespace):
        return f"white space that {options.whitespace!r} does not allow"
    for what, places in (("a repeated name", repeated_names(value)), ("half a pair", lone_surrogates(value))):
        if places:
            return f"{what} at {places[0]!r}"
    return _schema_failure(source, text, options.formats == "assert") if kind == "json_schema" else None


@functools.lru_cache(maxsize=64)
def _validator(source: str, assert_formats: bool) -> Validator:
    return Validator(source, assert_formats=assert_formats, legacy_keywords=True)


def _schema_failure(source: str, text: str, assert_formats: bool) -> str | None:
    failures = _validator(source, assert_formats).failures(text)
    if not failures:
        return None
    return f"{failures[0].instance!r} fails {failures[0].schema!r}"


def _spaced(text: str, policy: str) -> bool:
    """Whether every run of white space is one the policy allows."""
    pieces = _PIECES.findall(text)
    runs = [piece for piece in pieces if piece[0] in _SPACE]
    if policy == "bounded":
        return all(len(run) <= MAX_SPACE for run in runs)
    if policy == "compact":
        return not runs
    marks = sum(piece.count(",") + piece.count(":") for piece in pieces if piece[0] not in '"' + _SPACE)
    before = [first[-1] for first, second in itertools.pairwise(pieces) if second == " "]
    return len(before) == len(runs) == marks and set(before) <= {",", ":"} and set(runs) <= {" "}
