"""JSON text of a schema to values that lose nothing: order, exact decimals, and the place of every fault.

Objects are dicts in source order, numbers are `Number` with their own text. A repeated member name, a lone
surrogate, NaN and too deep nesting are errors of kind InvalidJsonSchema with a JSON Pointer (RFC 6901).
"""

import functools
import json
import math
import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import cached_property
from typing import Any

import attrs

from engine.errors import ErrorKind, Location, SyntaxFault
from engine.text.limits import LIMITS, check_limit, check_source, position

KIND = ErrorKind.INVALID_JSON_SCHEMA
Value = Any  # dict[str, Value] | list[Value] | str | bool | None | Number
INT64 = (-(2**63), 2**63 - 1)
_CONSTANTS = re.compile(r'"(?:[^"\\]|\\.)*"|NaN|-?Infinity')
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]')
LONGEST_NUMBER = 1000  # digits, sign and point of one number; past it nothing can be exact in binary64


@attrs.frozen(slots=False)
class Number:
    """A JSON number by its own text; `value` is exact. Compares by text: use `value` for arithmetic.

    One that is `plain` is written as in its text only, never as `1.0` for `1`.
    """

    text: str
    plain: bool = False

    @cached_property
    def value(self) -> Fraction:
        """The decimal, exactly; numbers outside binary64's exponents by a stand-in past its ends."""
        mantissa, _, exponent = self.text.lower().partition("e")
        if exponent and abs(int(exponent)) > 400:
            return _far_outside(mantissa, int(exponent))
        return Fraction(self.text)

    @property
    def is_integer_text(self) -> bool:
        """Whether it is written without fraction and exponent."""
        return not any(mark in self.text for mark in ".eE")

    @property
    def is_exact(self) -> bool:
        """Whether reading it keeps its value: an integer's text, or a decimal that binary64 gives back."""
        if self.is_integer_text:
            return True
        binary = float(self.text)
        return math.isfinite(binary) and Fraction(repr(binary)) == self.value


def _far_outside(mantissa: str, exponent: int) -> Fraction:
    """Exponents of any size cost no more than a few digits: only the side of binary64's range matters."""
    value = Fraction(mantissa)
    return value * Fraction(10) ** max(-2000, min(2000, exponent))


def parse(source: str) -> Value:
    """The value of a JSON text. Raises SyntaxFault with line and column, or pointer; LimitExceeded."""
    check_source(source, KIND, "schema_bytes")
    _check_depth(source)
    reader = _Reader(source)
    try:
        value = reader.decoder.decode(source)
    except json.JSONDecodeError as error:
        raise SyntaxFault(
            KIND,
            f"the schema is not JSON: {error.msg}",
            position(source, error.pos),
            source[error.pos : error.pos + 20] or "the end of the text",
            "one JSON value (RFC 8259)",
        ) from None
    reader.check_names(value)
    if "\\ud" in source or "\\uD" in source:
        _check_surrogates(value)
    return value


class _Reader:
    """The decoder with its hooks, and the objects in which a name stood twice."""

    def __init__(self, source: str) -> None:
        self.repeated: dict[int, str] = {}
        self.decoder = json.JSONDecoder(
            object_pairs_hook=self.members,
            parse_int=_number,
            parse_float=_number,
            parse_constant=functools.partial(_refuse_constant, source),
        )

    def members(self, pairs: list[tuple[str, Value]]) -> dict[str, Value]:
        members = dict(pairs)
        if len(members) < len(pairs):
            seen: set[str] = set()
            name = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
            self.repeated[id(members)] = name
        return members

    def check_names(self, value: Value) -> None:
        """Raise SyntaxFault at the first object with a repeated member name."""
        if not self.repeated:
            return
        for pointer, part in walk_values(value):
            if isinstance(part, dict) and id(part) in self.repeated:
                name = self.repeated[id(part)]
                raise SyntaxFault(
                    KIND,
                    "an object has two members of one name",
                    Location(pointer=join(pointer, name)),
                    json.dumps(name)[:40],
                    "every name once in an object",
                )


def _number(text: str) -> Number:
    if len(text) > LONGEST_NUMBER:
        check_limit("number_characters", len(text), KIND)
    return Number(text)


def _refuse_constant(source: str, text: str) -> Value:
    place = next(match.start() for match in _CONSTANTS.finditer(source) if match[0] == text)
    allowed = "numbers as RFC 8259 writes them"
    raise SyntaxFault(KIND, "the schema is not JSON", position(source, place), text, allowed)


def _check_depth(source: str) -> None:
    """Look for too deep nesting before anything reads the text on a stack."""
    if source.count("[") + source.count("{") <= LIMITS["schema_depth"]:
        return
    depth = 0
    for token in _BRACKETS.finditer(source):
        bracket = token[0]
        depth += (bracket in "[{") - (bracket in "]}")
        if depth > LIMITS["schema_depth"]:
            check_limit("schema_depth", depth, KIND, position(source, token.start()))


def _check_surrogates(value: Value) -> None:
    for pointer, part in walk_values(value):
        texts = list(part) if isinstance(part, dict) else [part] if isinstance(part, str) else []
        for text in texts:
            if any(0xD800 <= ord(character) <= 0xDFFF for character in text):
                raise SyntaxFault(
                    KIND,
                    "a string is not valid Unicode text: lone surrogate",
                    Location(pointer=pointer),
                    json.dumps(text)[:40],
                    "Unicode scalar values; pairs of surrogate escapes",
                )


def walk_values(value: Value) -> Iterator[tuple[str, Value]]:
    """Every value inside a value with its JSON Pointer, parents first, in source order."""
    stack: list[tuple[str, Value]] = [("", value)]
    while stack:
        pointer, part = stack.pop()
        yield pointer, part
        items: list[tuple[str, Value]] = []
        if isinstance(part, dict):
            items = list(part.items())
        elif isinstance(part, list):
            items = [(str(index), item) for index, item in enumerate(part)]
        stack += [(join(pointer, key), item) for key, item in reversed(items)]


def join(pointer: str, *keys: str | int) -> str:
    """A JSON Pointer with further reference tokens."""
    for key in keys:
        text = str(key)
        if "~" in text or "/" in text:
            text = text.replace("~", "~0").replace("/", "~1")
        pointer = f"{pointer}/{text}"
    return pointer


def text_of(value: Value) -> str:
    """A value as JSON text without insignificant white space, members in order, numbers as written."""
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{quoted(name)}:{text_of(part)}" for name, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(text_of, value)) + "]"
    if isinstance(value, str):
        return quoted(value)
    return value.text if isinstance(value, Number) else json.dumps(value)


def quoted(text: str) -> str:
    """A string as JSON text in canonical escapes."""
    return json.dumps(text, ensure_ascii=False)


def equality_key(value: Value) -> object:
    """A hashable stand-in: equal for two values iff JSON Schema calls them equal (numbers by value)."""
    if isinstance(value, bool) or value is None:
        return (type(value).__name__, value)
    if isinstance(value, Number):
        return ("number", value.value)
    if isinstance(value, list):
        return ("array", tuple(equality_key(part) for part in value))
    if isinstance(value, dict):
        return ("object", frozenset((name, equality_key(part)) for name, part in value.items()))
    return ("string", value)
