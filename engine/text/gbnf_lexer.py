"""The words of GBNF text: lexemes with their offsets, escapes, and the members of a class (GBNF-1, GBNF-2).

`\\xNN` takes exactly two digits, `\\uNNNN` four, `\\UNNNNNNNN` eight, and each names a code point. Raw line
breaks end neither a literal nor a class: they are faults; every other raw character, NUL too, is itself.
"""

import re
from collections.abc import Iterator, Mapping

import attrs

from engine.errors import ErrorKind, SyntaxFault
from engine.text.expr import Expr, chars, negated
from engine.text.limits import position

KIND = ErrorKind.INVALID_GRAMMAR

_LEXEME = re.compile(
    r"""(?P<space>[ \t\r\n]+|\#[^\n]*)
    | (?P<name>[A-Za-z_][A-Za-z0-9_.-]*)
    | (?P<assign>::=)
    | (?P<literal>"(?:[^"\\\r\n]|\\[^\r\n])*+")
    | (?P<class>\[(?:[^\]\\\r\n]|\\[^\r\n])*+\])
    | (?P<hint>\(=)
    | (?P<number>[0-9]+)
    | (?P<mark>[()|*+?{},.])""",
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))|([^\\])", re.DOTALL)
NAMED_ESCAPES = {
    **{"n": 10, "t": 9, "r": 13, "a": 7, "b": 8, "f": 12, "v": 11, "0": 0, "e": 27},
    **{c: ord(c) for c in "\\\"'/?[]"},
}
CLASS_ESCAPES = {**NAMED_ESCAPES, **{c: ord(c) for c in "^$.*+(){}|-"}}
_UNFINISHED = {'"': "a literal is not closed on its line", "[": "a class is not closed on its line"}


@attrs.frozen
class Lexeme:
    """One word of the source; `kind` is the group of the lexeme pattern that matched, or `end`."""

    kind: str
    text: str
    offset: int


def fault(source: str, message: str, offset: int, found: str, allowed: str) -> SyntaxFault:
    """A syntax fault at an offset of the source, with what stood there cut to a short piece."""
    return SyntaxFault(KIND, message, position(source, offset), found[:40], allowed)


def lexemes(source: str) -> Iterator[Lexeme]:
    """All lexemes of the source, comments and white space left out, then one of kind `end`."""
    offset = 0
    while offset < len(source):
        match = _LEXEME.match(source, offset)
        if match is None:
            message = _UNFINISHED.get(source[offset], "a character that begins nothing in GBNF")
            raise fault(source, message, offset, repr(source[offset]), "GBNF text")
        if match.lastgroup != "space":
            yield Lexeme(str(match.lastgroup), match.group(), offset)
        offset = match.end()
    yield Lexeme("end", "", offset)


def code_points(source: str, lexeme: Lexeme, named: Mapping[str, int]) -> Iterator[tuple[int, bool]]:
    """The code points between a lexeme's delimiters, and whether each was written as an escape."""
    for match in _ESCAPE.finditer(source, lexeme.offset + 1, lexeme.offset + len(lexeme.text) - 1):
        two, four, eight, other, plain = match.groups()
        digits = two or four or eight
        if plain is not None:
            yield ord(plain), False
        elif digits is None and other in named:
            yield named[other], True
        elif digits is None:
            raise _escape_fault(source, "an escape that GBNF does not have", match)
        elif int(digits, 16) > 0x10FFFF or 0xD800 <= int(digits, 16) <= 0xDFFF:
            raise _escape_fault(source, "an escape names no Unicode scalar value", match)
        else:
            yield int(digits, 16), True


def _escape_fault(source: str, message: str, match: re.Match[str]) -> SyntaxFault:
    allowed = r"\n \t \r \\ \" \' \[ \] \xNN \uNNNN \UNNNNNNNN (surrogates excluded)"
    return fault(source, message, match.start(), match.group(), allowed)


def class_members(source: str, lexeme: Lexeme) -> tuple[Expr, int]:
    """A class's character set and how many ranges were written; `-` makes a range, a first `^` negates."""
    points = list(code_points(source, lexeme, CLASS_ESCAPES))
    is_negated = points[:1] == [(ord("^"), False)]
    points = points[1:] if is_negated else points
    ranges, index = [], 0
    while index < len(points):
        low = high = points[index][0]
        if points[index + 1 : index + 2] == [(ord("-"), False)] and index + 2 < len(points):
            high, index = points[index + 2][0], index + 2
        if low > high:
            raise fault(
                source, "a class range runs backwards", lexeme.offset, lexeme.text, "[a-z] with a <= z"
            )
        ranges.append((low, high))
        index += 1
    return (negated(chars(ranges)) if is_negated else chars(ranges)), len(ranges)


def string_literal(source: str, lexeme: Lexeme) -> str:
    """The text a literal stands for."""
    return "".join(chr(code) for code, _ in code_points(source, lexeme, NAMED_ESCAPES))
