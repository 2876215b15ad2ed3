"""Constrained JSON content as events of its members, from committed text cut anywhere (STREAM-3 to STREAM-5).

Every value has a JSON Pointer. It starts, a string comes in decoded pieces, and when its last character is
there it is complete, with its JSON as it was written. What is complete never changes; of a value that was cut
there is no such event. `released` keeps the members of the root object that are complete.
"""

import enum
import json
import re
from collections.abc import Iterable
from typing import NoReturn

import attrs

from engine.errors import IntegrityError
from engine.text.schema.source import join

SPACE = " \t\r\n"
WHOLE = (
    re.compile(  # the longest beginning of a string's text in which no escape, and no pair of them, is cut
        r"(?:[^\\]|\\[^u]|\\u(?:[dD][89abAB][0-9a-fA-F]{2}\\u[0-9a-fA-F]{4}|(?![dD][89abAB])[0-9a-fA-F]{4}))*"
    )
)


@attrs.frozen
class MemberStarted:
    """A value has begun; `opening` is its first character, which tells its type."""

    pointer: str
    opening: str


@attrs.frozen
class StringDelta:
    """A piece of a string, without escapes."""

    pointer: str
    text: str


@attrs.frozen
class MemberCompleted:
    """A value is complete; `json` is its text."""

    pointer: str
    json: str


FieldEvent = MemberStarted | StringDelta | MemberCompleted


def released(events: Iterable[FieldEvent]) -> tuple[MemberCompleted, ...]:
    """The complete members of the root object, for clients that wait for whole ones (STREAM-4)."""
    complete = (event for event in events if isinstance(event, MemberCompleted))
    return tuple(event for event in complete if event.pointer.count("/") == 1)


class _Due(enum.Enum):
    VALUE = enum.auto()
    NAME = enum.auto()
    COLON = enum.auto()
    NEXT = enum.auto()
    IN_STRING = enum.auto()
    IN_NAME = enum.auto()
    IN_SCALAR = enum.auto()


@attrs.define
class _Open:
    """A value that is not complete: where its text begins, and for an array how many items have begun."""

    pointer: str
    start: int
    opening: str
    num_items: int = 0


class FieldReader:
    """Reads one JSON text; its grammar has let through every character."""

    def __init__(self) -> None:
        self._text = ""
        self._place = 0
        self._due = _Due.VALUE
        self._open: list[_Open] = []
        self._name = ""
        self._decoded = 0  # where the part of the open string begins that no delta has shown
        self._is_escaped = False
        self._events: list[FieldEvent] = []

    def feed(self, text: str) -> tuple[FieldEvent, ...]:
        """Return the events of a piece of text. Raises IntegrityError where it is not JSON."""
        self._text += text
        while self._place < len(self._text):
            self._character(self._text[self._place])
            self._place += 1
        if self._due is _Due.IN_STRING:
            self._delta(self._place)
        events, self._events = self._events, []
        return tuple(events)

    def finish(self) -> tuple[FieldEvent, ...]:
        """Return what the end of a complete text completes: a number that is the root."""
        if self._due is _Due.IN_SCALAR and len(self._open) == 1:
            self._complete(self._place)
        events, self._events = self._events, []
        return tuple(events)

    def _character(self, character: str) -> None:
        if self._due in (_Due.IN_STRING, _Due.IN_NAME):
            self._in_string(character)
            return
        if self._due is _Due.IN_SCALAR:
            if character not in ",]}" + SPACE:
                return
            self._complete(self._place)
        if character in SPACE:
            return
        if self._due is _Due.VALUE:
            self._value(character)
        elif self._due is _Due.NAME:
            self._name_or_end(character)
        elif self._due is _Due.COLON:
            self._expect(character, ":")
            self._due = _Due.VALUE
        else:
            self._next(character)

    def _in_string(self, character: str) -> None:
        if self._is_escaped or character == "\\":
            self._is_escaped = not self._is_escaped
        elif character == '"':
            self._end_string()

    def _end_string(self) -> None:
        if self._due is _Due.IN_NAME:
            self._name = _text_of(self._text[self._decoded : self._place])
            self._due = _Due.COLON
            return
        self._delta(self._place, is_all=True)
        self._complete(self._place + 1)

    def _delta(self, end: int, *, is_all: bool = False) -> None:
        raw = self._text[self._decoded : end]
        if not is_all:
            found = WHOLE.match(raw)
            raw = found[0] if found else ""
        if raw:
            self._events.append(StringDelta(self._open[-1].pointer, _text_of(raw)))
            self._decoded += len(raw)

    def _value(self, character: str) -> None:
        parent = self._open[-1] if self._open else None
        if character == "]" and parent is not None and parent.opening == "[" and parent.num_items == 0:
            self._complete(self._place + 1)
            return
        self._open.append(_Open(self._pointer(parent), self._place, character))
        self._events.append(MemberStarted(self._open[-1].pointer, character))
        if character == '"':
            self._due, self._decoded = _Due.IN_STRING, self._place + 1
        elif character in "{[":
            self._due = _Due.NAME if character == "{" else _Due.VALUE
        else:
            self._due = _Due.IN_SCALAR

    def _pointer(self, parent: _Open | None) -> str:
        if parent is None:
            return ""
        if parent.opening == "{":
            return join(parent.pointer, self._name)
        parent.num_items += 1
        return join(parent.pointer, parent.num_items - 1)

    def _name_or_end(self, character: str) -> None:
        if character == "}":
            self._complete(self._place + 1)
            return
        self._expect(character, '"')
        self._due, self._decoded = _Due.IN_NAME, self._place + 1

    def _next(self, character: str) -> None:
        if not self._open:
            _broken()
        is_object = self._open[-1].opening == "{"
        if character == ",":
            self._due = _Due.NAME if is_object else _Due.VALUE
        else:
            self._expect(character, "}" if is_object else "]")
            self._complete(self._place + 1)

    def _complete(self, end: int) -> None:
        value = self._open.pop()
        self._events.append(MemberCompleted(value.pointer, self._text[value.start : end]))
        self._due = _Due.NEXT

    def _expect(self, character: str, expected: str) -> None:
        if character != expected:
            _broken()


def _text_of(raw: str) -> str:
    """The text that a piece of a JSON string stands for."""
    decoded: str = json.loads(f'"{raw}"')
    return decoded


def _broken() -> NoReturn:
    raise IntegrityError("content under a JSON constraint is not JSON")
