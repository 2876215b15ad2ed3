"""Characters, escapes and classes of the served regular expressions (REGEX-4, REGEX-5, REGEX-8).

The one normaliser for both uses of an expression, whole-content match and schema search. Sets follow
ECMAScript: `\\d` and `\\w` are ASCII, `\\s` is WhiteSpace and LineTerminator, `.` is all but LF, CR, LS, PS.
No set holds a surrogate, negated or not. What is not in the tables is refused where it stands.
"""

import string

import attrs

from engine.errors import ErrorKind, Location, RefusedConstruct, SyntaxFault
from engine.text.expr import Chars, chars, negated

KIND = ErrorKind.INVALID_REGEX
DIGIT = chars([(0x30, 0x39)])
WORD = chars([(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)])
LINE_TERMINATORS = chars([(0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029)])
_SPACE_SEPARATORS = [(0x20, 0x20), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A), (0x202F, 0x202F)]
SPACE = chars(
    [(0x09, 0x0D), (0x2028, 0x2029), (0x205F, 0x205F), (0x3000, 0x3000), (0xFEFF, 0xFEFF), *_SPACE_SEPARATORS]
)
DOT = negated(LINE_TERMINATORS)
CLASS_ESCAPES = {
    **{"d": DIGIT, "w": WORD, "s": SPACE},
    **{"D": negated(DIGIT), "W": negated(WORD), "S": negated(SPACE)},
}
CONTROL_ESCAPES = {"n": 0x0A, "r": 0x0D, "t": 0x09, "v": 0x0B, "f": 0x0C}
MARKS = string.punctuation + " "  # without the u flag each means itself after a backslash
SYNTAX_CHARACTERS = "^$\\.*+?()[]{}|/"
ESCAPES_HELP = (
    r"\d \D \w \W \s \S \n \r \t \v \f \0 \cX \xNN \uNNNN and \ before one of ^ $ \ . * + ? ( ) [ ] { } | /"
)
REFUSED_ESCAPES = {
    **dict.fromkeys("bB", "word boundaries are not served"),
    **dict.fromkeys("123456789k", "back-references are not served"),
    **dict.fromkeys("pP", "Unicode property classes are not served"),
}


def where(offset: int) -> Location:
    """An offset in characters as a location; an expression is one line."""
    return Location(line=1, column=offset + 1)


@attrs.define
class Reader:
    """A place in an expression, moving forward; a `lenient` one takes a mark that needs no escape escaped."""

    pattern: str
    offset: int = 0
    lenient: bool = False

    def peek(self) -> str:
        """The next character, empty at the end."""
        return self.pattern[self.offset : self.offset + 1]

    def take(self) -> str:
        """The next character, stepping over it."""
        character = self.peek()
        self.offset += 1
        return character

    def skip(self, text: str) -> bool:
        """Step over `text` if it comes next, and tell whether it did."""
        found = self.pattern.startswith(text, self.offset)
        self.offset += len(text) if found else 0
        return found

    def fault(self, message: str, allowed: str, start: int | None = None) -> SyntaxFault:
        """A syntax fault at `start` (where the reader stands if not given), showing a few characters."""
        start = self.offset if start is None else start
        found = self.pattern[start : max(self.offset, start + 1)][:20] or "the end of the expression"
        return SyntaxFault(KIND, message, where(start), found, allowed)

    def refusal(self, message: str, allowed: str, start: int) -> RefusedConstruct:
        """A well-formed construct that is not served, shown up to where the reader stands."""
        return RefusedConstruct(KIND, message, where(start), self.pattern[start : self.offset][:20], allowed)


def read_escape(reader: Reader, *, in_class: bool) -> int | Chars:
    """Read what follows a backslash: one code point, or the set of a class escape.

    The reader stands after the backslash. Raises SyntaxFault or RefusedConstruct at the backslash.
    """
    start = reader.offset - 1
    letter = reader.take()
    if letter in CLASS_ESCAPES:
        return CLASS_ESCAPES[letter]
    if letter in CONTROL_ESCAPES:
        return CONTROL_ESCAPES[letter]
    if letter and (letter in SYNTAX_CHARACTERS or (letter == "-" and in_class)):
        return ord(letter)
    if letter and letter in MARKS and reader.lenient:
        return ord(letter)
    if letter in ("x", "u"):
        return _read_hex(reader, 2 if letter == "x" else 4, start)
    if letter == "c" and reader.peek() and reader.peek() in string.ascii_letters:
        return ord(reader.take()) % 32
    if letter == "0" and not (reader.peek() and reader.peek() in string.digits):
        return 0
    if letter in REFUSED_ESCAPES:
        raise reader.refusal(REFUSED_ESCAPES[letter], ESCAPES_HELP, start)
    raise reader.fault("an escape that is not served", ESCAPES_HELP, start)


def _read_hex(reader: Reader, num_digits: int, start: int) -> int:
    digits = reader.pattern[reader.offset : reader.offset + num_digits]
    if len(digits) < num_digits or not set(digits) <= set(string.hexdigits):
        raise reader.fault(f"an escape needs {num_digits} hexadecimal digits", r"\xNN, \uNNNN", start)
    reader.offset += num_digits
    code = int(digits, 16)
    if 0xD800 <= code <= 0xDFFF:
        raise reader.refusal(
            "surrogate escapes are not served", "write characters outside the BMP directly", start
        )
    return code


def read_class(reader: Reader) -> tuple[Chars, int]:
    """Read a class after its `[`: its set, and how many members were written.

    Raises SyntaxFault or RefusedConstruct at the member at fault, or at the `[` of a class never closed.
    """
    start = reader.offset - 1
    is_negated = reader.skip("^")
    ranges: list[tuple[int, int]] = []
    num_members = 0
    while not reader.skip("]"):
        member_start = reader.offset
        low = _read_member(reader, start)
        high = low
        if reader.peek() == "-" and reader.pattern[reader.offset + 1 : reader.offset + 2] not in ("]", ""):
            reader.take()
            high = _read_member(reader, start)
            if isinstance(low, Chars) or isinstance(high, Chars):
                raise reader.fault(
                    "a range ends in a class escape", "[a-z]; write - first or last", member_start
                )
            if low > high:
                raise reader.fault("a class range runs backwards", "[a-z] with a <= z", member_start)
        ranges += low.ranges if isinstance(low, Chars) else [(low, high)]  # type: ignore[list-item]
        num_members += 1
    members = chars(ranges)
    return (negated(members) if is_negated else members), num_members


def _read_member(reader: Reader, class_start: int) -> int | Chars:
    character = reader.take()
    if not character:
        reader.offset = class_start + 1
        raise reader.fault("a class is not closed", "]", class_start)
    return read_escape(reader, in_class=True) if character == "\\" else ord(character)
