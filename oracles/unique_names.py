"""Is a byte string the beginning of a JSON text, and does an object in it repeat a member name?

Every answer reads all bytes again from the first one, by recursive descent, and keeps each object's names as
decoded strings. Member names must be in canonical escapes, the shortest way to write each character; values
may use every escape. A member name counts from its closing quote on, whatever follows.
"""

import codecs
import enum
import json
import re
from collections.abc import Iterable, Sequence

UNITS = {json.dumps(chr(code), ensure_ascii=False)[1:-1] for code in range(0x80)}
ESCAPED_UNITS = {unit for unit in UNITS if len(unit) > 1}
CUT_UNITS = {unit[:end] for unit in ESCAPED_UNITS for end in range(1, len(unit))}
ANY_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
CUT_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?")
NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
CUT_NUMBER = re.compile(r"-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*|(?:\.[0-9]+)?[eE][+-]?[0-9]*)?)?")
WORDS = ("true", "false", "null")
SPACES = " \t\n\r"
CUT_CHARACTER = "\ufffd"  # stands for a character whose last bytes are missing


class Reading(enum.Enum):
    """What a byte string is."""

    NO_PREFIX = "no JSON text begins like this"
    UNIQUE = "every object's names are different"
    REPEATED = "an object has two members of one name"


class _Wrong(Exception):
    """No JSON text begins like this."""


class _Cut(Exception):
    """The text ends where more could follow."""


def read(data: bytes) -> Reading:
    """Return what `data` is; a whole JSON text is a beginning of itself."""
    try:
        reader = _Reader(_decoded(data))
    except UnicodeDecodeError:
        return Reading.NO_PREFIX
    try:
        reader.text_value()
    except _Wrong:
        return Reading.NO_PREFIX
    except _Cut:
        pass
    return Reading.REPEATED if reader.repeated else Reading.UNIQUE


def read_each(data: bytes, token_bytes: Sequence[bytes | None], ids: Iterable[int]) -> dict[int, Reading]:
    """Return what `data` followed by each of the tokens is; a token without bytes changes nothing."""
    return {token_id: read(data + (token_bytes[token_id] or b"")) for token_id in ids}


def _decoded(data: bytes) -> str:
    decoder = codecs.getincrementaldecoder("utf-8")("strict")
    text = decoder.decode(data)
    return text + CUT_CHARACTER if decoder.getstate()[0] else text


class _Reader:
    """A recursive-descent reader over the decoded text; `repeated` says what it has seen so far."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.repeated = False

    def text_value(self) -> None:
        self.value()
        self.spaces()
        if self.at < len(self.text):
            raise _Wrong

    def value(self) -> None:
        first = self.peek()
        if first == "{":
            self.object()
        elif first == "[":
            self.array()
        elif first == '"':
            self.string(names=False)
        else:
            self.scalar()

    def object(self) -> None:
        names: list[str] = []
        self.take("{")
        if self.peek() == "}":
            return self.take("}")
        while True:
            self.peek()
            name = self.string(names=True)
            self.repeated = self.repeated or name in names
            names.append(name)
            self.take(":")
            self.value()
            if self.peek() == "}":
                return self.take("}")
            self.take(",")

    def array(self) -> None:
        self.take("[")
        if self.peek() == "]":
            return self.take("]")
        while True:
            self.value()
            if self.peek() == "]":
                return self.take("]")
            self.take(",")

    def string(self, *, names: bool) -> str:
        """Read a string; the bare quote at `at` opens it."""
        self.take('"')
        begin = self.at
        while self.character() != '"':
            if self.character() == "\\":
                self.escape(names)
            elif self.character() < " ":
                raise _Wrong
            else:
                self.at += 1
        self.at += 1
        text: str = json.loads(f'"{self.text[begin : self.at - 1]}"')
        return text

    def escape(self, names: bool) -> None:
        rest = self.text[self.at : self.at + 6]
        if rest in CUT_UNITS if names else CUT_ESCAPE.fullmatch(rest):
            raise _Cut  # shorter than any escape, so nothing stands behind it
        found = ANY_ESCAPE.match(rest)
        if found is None or (names and found[0] not in ESCAPED_UNITS):
            raise _Wrong
        self.at += len(found[0])

    def scalar(self) -> None:
        rest = self.text[self.at :]
        for word in WORDS:
            if word.startswith(rest):
                raise _Cut
            if rest.startswith(word):
                self.at += len(word)
                return
        if CUT_NUMBER.fullmatch(rest):
            raise _Cut
        found = NUMBER.match(rest)
        if found is None:
            raise _Wrong
        self.at += len(found[0])

    def spaces(self) -> None:
        while self.at < len(self.text) and self.text[self.at] in SPACES:
            self.at += 1

    def peek(self) -> str:
        self.spaces()
        return self.character()

    def character(self) -> str:
        if self.at == len(self.text):
            raise _Cut
        return self.text[self.at]

    def take(self, mark: str) -> None:
        if self.peek() != mark:
            raise _Wrong
        self.at += 1
