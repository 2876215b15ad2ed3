"""JSON read as text, after RFC 8259 alone: nothing is rounded, dropped, merged or repaired.

`parse` gives a tree of `Value`s. Numbers keep their exact value (a decimal coefficient and exponent, so that
1e999999999 costs nothing) and their spelling; an object keeps its members as pairs in their order, repeated
names included; strings are code points, a lone surrogate staying the code point it is. Every value knows
where it stands. `identity` decides equality as JSON Schema means it: 1, 1.0 and 10e-1 are one number, members
have no order.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import total_ordering
from typing import Any


class TextError(ValueError):
    """The text is no JSON text; `position` is the index of the first character that cannot stand there."""

    def __init__(self, message: str, position: int):
        super().__init__(f"{message} at character {position}")
        self.position = position


@total_ordering
@dataclass(frozen=True, slots=True)
class Number:
    """coefficient * 10 ** exponent, the coefficient without trailing zeros; zero is Number(0, 0)."""

    coefficient: int
    exponent: int

    @property
    def fraction(self) -> Fraction:
        """The exact value; huge for huge exponents."""
        return Fraction(self.coefficient) * Fraction(10) ** self.exponent

    @property
    def is_integer(self) -> bool:
        """Whether the value is a whole number, however it was spelled."""
        return self.exponent >= 0

    def is_multiple_of(self, divisor: "Number") -> bool:
        """Whether self / divisor is a whole number; exact, without writing the powers of ten out."""
        shift = self.exponent - divisor.exponent
        modulus = abs(divisor.coefficient)
        if not self.coefficient:
            return True
        if shift >= 0:
            return self.coefficient * pow(10, shift, modulus) % modulus == 0
        if -shift > Decimal(self.coefficient).adjusted() + 1:
            return False  # ten to that power no longer fits into the coefficient
        return self.coefficient % (modulus * 10**-shift) == 0

    def __lt__(self, other: "Number") -> bool:
        mine, theirs = _sign(self), _sign(other)
        if mine != theirs or mine == 0:
            return mine < theirs
        sizes = _size(self), _size(other)
        if sizes[0] != sizes[1]:
            return (sizes[0] < sizes[1]) == (mine > 0)
        lowest = min(self.exponent, other.exponent)
        return self.coefficient * 10 ** (self.exponent - lowest) < other.coefficient * 10 ** (
            other.exponent - lowest
        )


def _sign(number: Number) -> int:
    return (number.coefficient > 0) - (number.coefficient < 0)


def _size(number: Number) -> int:
    """Give the position of the first significant digit."""
    return Decimal(number.coefficient).adjusted() + number.exponent


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """One JSON value.

    kind: "null", "boolean", "number", "string", "array" or "object".
    data: None, bool, Number, str, tuple of Values, or tuple of (name, Value) pairs.
    spelling: a number's own text, otherwise "". start, end: where it stands, in characters of the source.
    """

    kind: str
    data: Any
    start: int
    end: int
    spelling: str = ""

    def get(self, name: str) -> "Value | None":
        """Return an object's member of that name (the last one, if it is repeated), or None."""
        if self.kind != "object":
            return None
        return next((value for key, value in reversed(self.data) if key == name), None)


_SPACE = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"(-?)(0|[1-9][0-9]*)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?")
_PLAIN = re.compile(r'[^"\\\x00-\x1f]*')
_ESCAPE = re.compile(r'\\(?:(["\\/bfnrt])|u([0-9a-fA-F]{4}))')
_SIMPLE = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_WORDS = {"true": ("boolean", True), "false": ("boolean", False), "null": ("null", None)}
_SURROGATE = re.compile("[\ud800-\udfff]")


def parse(source: str | bytes) -> Value:
    """Read one JSON text; bytes must be UTF-8 without a byte order mark.

    Raises: TextError when the text is not JSON by RFC 8259.
    """
    if isinstance(source, bytes):
        source = _decoded(source)
    return _Reader(source).document()


def _decoded(source: bytes) -> str:
    try:
        return source.decode("utf-8")
    except UnicodeDecodeError as error:
        raise TextError("not UTF-8", error.start) from error


def number(spelling: str) -> Number:
    """Read a JSON number. Raises: TextError when the text is no JSON number."""
    match = _NUMBER.fullmatch(spelling)
    if match is None:
        raise TextError("not a number", 0)
    return _number(match)


def count(size: int) -> Number:
    """Write a length as a number."""
    return number(str(size))


def _number(match: re.Match[str]) -> Number:
    sign, whole, fraction, exponent = match.group(1, 2, 3, 4)
    digits = whole + (fraction or "")
    kept = digits.rstrip("0")
    if not kept.lstrip("0"):
        return Number(0, 0)
    # Through Decimal, because int refuses more than some thousand digits.
    coefficient = int(Decimal(kept))
    power = int(Decimal(exponent or "0")) - len(fraction or "") + len(digits) - len(kept)
    return Number(-coefficient if sign else coefficient, power)


class _Open:
    """An array or object whose closing bracket is still to come."""

    __slots__ = ("kind", "name", "parts", "start")

    def __init__(self, kind: str, start: int):
        self.kind, self.start = kind, start
        self.name = ""
        self.parts: list[Any] = []


class _Reader:
    """One pass over the text; open brackets stand on a list, so nesting costs no recursion."""

    def __init__(self, source: str):
        self.source = source
        self.at = 0
        self.open: list[_Open] = []

    def document(self) -> Value:
        self._skip()
        while True:
            value = self._value()
            while value is not None:
                if not self.open:
                    return self._end(value)
                value = self._place(value)

    def _end(self, value: Value) -> Value:
        self._skip()
        if self.at != len(self.source):
            raise TextError("text after the value", self.at)
        return value

    def _skip(self) -> str:
        """Pass white space; return the next character, or the empty string at the end."""
        self.at = _SPACE.match(self.source, self.at).end()  # type: ignore[union-attr]
        return self.source[self.at : self.at + 1]

    def _value(self) -> Value | None:
        """Read a scalar or an empty bracket pair; None when a bracket opened and its first value follows."""
        start = self.at
        character = self._skip()
        if character == '"':
            return Value("string", self._string(), start, self.at)
        if character in ("[", "{") and character:
            return self._opened("array" if character == "[" else "object")
        for word, (kind, data) in _WORDS.items():
            if self.source.startswith(word, self.at):
                self.at += len(word)
                return Value(kind, data, start, self.at)
        match = _NUMBER.match(self.source, self.at)
        if match is None:
            raise TextError("no value", self.at)
        self.at = match.end()
        return Value("number", _number(match), start, self.at, match.group())

    def _opened(self, kind: str) -> Value | None:
        start = self.at
        self.at += 1
        if self._skip() == ("]" if kind == "array" else "}"):
            self.at += 1
            return Value(kind, (), start, self.at)
        self.open.append(_Open(kind, start))
        if kind == "object":
            self._name()
        return None

    def _name(self) -> None:
        if self._skip() != '"':
            raise TextError("no member name", self.at)
        self.open[-1].name = self._string()
        if self._skip() != ":":
            raise TextError("no colon", self.at)
        self.at += 1
        self._skip()

    def _place(self, value: Value) -> Value | None:
        """Put a finished value where it belongs; return the bracket it closes, or None when more follows."""
        around = self.open[-1]
        around.parts.append(value if around.kind == "array" else (around.name, value))
        character = self._skip()
        if character == ",":
            self.at += 1
            self._skip()
            if around.kind == "object":
                self._name()
            return None
        if character != ("]" if around.kind == "array" else "}"):
            raise TextError("neither comma nor closing bracket", self.at)
        self.at += 1
        self.open.pop()
        return Value(around.kind, tuple(around.parts), around.start, self.at)

    def _string(self) -> str:
        self.at += 1
        pieces: list[str] = []
        while True:
            match = _PLAIN.match(self.source, self.at)
            pieces.append(match.group())  # type: ignore[union-attr]
            self.at = match.end()  # type: ignore[union-attr]
            character = self.source[self.at : self.at + 1]
            if character == '"':
                self.at += 1
                return "".join(pieces)
            if character != "\\":
                raise TextError("string not closed", self.at)
            pieces.append(self._escape())

    def _escape(self) -> str:
        match = _ESCAPE.match(self.source, self.at)
        if match is None:
            raise TextError("no escape", self.at)
        self.at = match.end()
        if match.group(1):
            return _SIMPLE[match.group(1)]
        unit = int(match.group(2), 16)
        if 0xD800 <= unit < 0xDC00:
            low = _ESCAPE.match(self.source, self.at)
            if low is not None and low.group(2) and 0xDC00 <= int(low.group(2), 16) < 0xE000:
                self.at = low.end()
                return chr(0x10000 + ((unit - 0xD800) << 10) + int(low.group(2), 16) - 0xDC00)
        return chr(unit)


# Names and indices from the inside out, as pairs (outer path, last step): a path shares what leads to it.
Path = tuple[Any, str] | None


def walk(value: Value) -> Iterator[tuple[Path, Value]]:
    """Visit the value and everything inside it, each with its path."""
    waiting: list[tuple[Path, Value]] = [(None, value)]
    while waiting:
        path, current = waiting.pop()
        yield path, current
        if current.kind == "array":
            waiting += [((path, str(index)), item) for index, item in enumerate(current.data)]
        elif current.kind == "object":
            waiting += [((path, name), item) for name, item in current.data]


def pointer(path: Path) -> str:
    """Write a path as a JSON Pointer (RFC 6901)."""
    tokens: list[str] = []
    while path is not None:
        path, token = path
        tokens += [token.replace("~", "~0").replace("/", "~1"), "/"]
    return "".join(reversed(tokens))


def repeated_names(value: Value) -> list[str]:
    """Give the pointer of every name that its object already had, in the order of the text."""
    found: list[tuple[int, str]] = []
    for path, current in walk(value):
        if current.kind != "object":
            continue
        seen: set[str] = set()
        for name, member in current.data:
            if name in seen:
                found.append((member.start, pointer((path, name))))
            seen.add(name)
    return [place for _, place in sorted(found)]


def lone_surrogates(value: Value) -> list[str]:
    """Give the pointer of every string, or object with a name, that holds half a surrogate pair, in order."""
    found: list[tuple[int, str]] = []
    for path, current in walk(value):
        texts = [current.data] if current.kind == "string" else []
        if current.kind == "object":
            texts = [name for name, _ in current.data]
        if any(_SURROGATE.search(text) for text in texts):
            found.append((current.start, pointer(path)))
    return [place for _, place in sorted(found)]


def identity(value: Value) -> str:
    """Return a key; two values are equal in the sense of JSON Schema iff their keys are equal.

    It is a text, length before content, because comparing deep tuples would recurse in C. Of a repeated
    name the last value counts.
    """
    if value.kind == "array":
        parts = [identity(item) for item in value.data]
        return "".join([f"[{len(parts)}:", *parts])
    if value.kind == "object":
        members = {name: identity(item) for name, item in value.data}
        return "".join(
            [f"{{{len(members)}:", *[f"{len(name)}:{name}{members[name]}" for name in sorted(members)]]
        )
    if value.kind == "number":
        return f"{value.data.coefficient:x}e{value.data.exponent};"
    if value.kind == "string":
        return f'"{len(value.data)}:{value.data}'
    return f"{value.data};"
