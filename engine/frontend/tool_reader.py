"""The one reader of tool calls: it passes over committed text once, for stream and final calls (TOOL-31).

Opening and closing tokens come as calls of `open` and `close`, everything between them as text, cut anywhere.
A value ends at the first `VALUE_END` after its framing line feed, strict or not; string values flow as pieces
of their JSON string, strict JSON as it stands, other values when they close (TOOL-27, TOOL-30). What is no
call of the contract is a `MalformedCall`.
"""

import json
from collections.abc import Callable
from typing import NoReturn

import attrs

from engine.errors import IntegrityError
from engine.frontend.events import CallArguments, CallEnd, CallStart, Event
from engine.frontend.framing import (
    FUNCTION_CLOSE,
    FUNCTION_OPEN,
    NAME_END,
    NOT_IN_NAMES,
    PARAMETER_OPEN,
    VALUE_END,
    is_name,
)
from engine.frontend.tool_contract import Reading, Tool, ToolContract
from engine.request import ToolCall

JSON_SPACE = " \t\r\n"
VALUE_TAIL = "\n"  # between the end of a value and the next argument or the end of the function


@attrs.frozen
class MalformedCall(IntegrityError):
    """A call that its grammar cannot have let through; without a grammar, text that is no call (TOOL-33)."""


class ToolReader:
    """Reads the calls of one output, one after the other."""

    def __init__(self, contract: ToolContract) -> None:
        self._contract = contract
        self._call: _Call | None = None
        self._num_calls = 0

    @property
    def is_open(self) -> bool:
        """Whether a call has begun and not ended."""
        return self._call is not None

    @property
    def num_calls(self) -> int:
        """The number of calls that have ended."""
        return self._num_calls

    def open(self) -> None:
        """Take the opening token. Raises MalformedCall inside a call."""
        if self._call is not None:
            _malformed("a call opens inside a call")
        self._call = _Call(self._num_calls, self._contract)

    def feed(self, text: str) -> list[Event]:
        """Take a piece of an open call's text. Raises MalformedCall."""
        assert self._call is not None
        return self._call.feed(text)

    def close(self) -> CallEnd:
        """Take the closing token. Raises MalformedCall."""
        assert self._call is not None
        end = self._call.close()
        self._call = None
        self._num_calls += 1
        return end

    def drop(self) -> None:
        """Forget the open call."""
        self._call = None


class _Call:
    """One call; `_step` reads what is due next from `_held` and says whether it got past it."""

    def __init__(self, index: int, contract: ToolContract) -> None:
        self._index = index
        self._contract = contract
        self._held = ""
        self._step: Callable[[], bool] = self._begin
        self._events: list[Event] = []
        self._fragments: list[str] = []
        self._names: list[str] = []
        self._value: list[str] = []
        self._reading = Reading.TEXT
        self._tool: Tool

    def feed(self, text: str) -> list[Event]:
        self._held += text
        while self._step():
            pass
        events, self._events = self._events, []
        return events

    def close(self) -> CallEnd:
        if self._step != self._done or self._held:
            _malformed("a call closes before its function does")
        arguments = "".join(self._fragments)
        if not is_json(arguments, when_too_deep=True):
            _malformed("the arguments of a call are not JSON")
        return CallEnd(self._index, ToolCall(self._tool.name, arguments))

    def _begin(self) -> bool:
        return self._literal(FUNCTION_OPEN, self._function)

    def _function(self) -> bool:
        name = self._name()
        if name is None:
            return False
        tool = self._contract.find(name)
        if tool is None:
            _malformed("a call names no tool that may be called")
        self._tool = tool
        self._events.append(CallStart(self._index, name))
        self._step = self._between
        return True

    def _between(self) -> bool:
        if self._held.startswith(PARAMETER_OPEN):
            self._held = self._held[len(PARAMETER_OPEN) :]
            self._step = self._parameter
            return True
        if PARAMETER_OPEN.startswith(self._held):
            return False
        if not self._literal(FUNCTION_CLOSE, self._done):
            return False
        self._check_required()
        self._emit("}" if self._fragments else "{}")
        return True

    def _parameter(self) -> bool:
        name = self._name()
        if name is None:
            return False
        reading = self._tool.reading(name)
        if reading is None or name in self._names:
            _malformed("an argument stands twice, or the tool does not have it")
        self._names.append(name)
        self._check_order()
        self._reading, self._value = reading, []
        if reading.flows:
            self._emit(self._lead() + ('"' if reading is Reading.TEXT else ""))
        self._step = self._inside
        return True

    def _inside(self) -> bool:
        end = self._held.find(VALUE_END)
        if end < 0:
            kept = _overlap(self._held, VALUE_END)
            self._piece(self._held[: len(self._held) - kept])
            self._held = self._held[len(self._held) - kept :]
            return False
        self._piece(self._held[:end])
        self._held = self._held[end + len(VALUE_END) :]
        self._end_value()
        self._step = self._tail
        return True

    def _piece(self, text: str) -> None:
        if not text:
            return
        if self._reading is Reading.TEXT:
            self._emit(_quoted(text)[1:-1])
        elif self._reading is Reading.JSON:
            self._emit(text)
        else:
            self._value.append(text)

    def _end_value(self) -> None:
        if self._reading is Reading.TEXT:
            self._emit('"')
        elif not self._reading.flows:
            value = value_json("".join(self._value), self._reading)
            if value is not None:
                self._emit(self._lead() + value)

    def _tail(self) -> bool:
        return self._literal(VALUE_TAIL, self._between)

    def _done(self) -> bool:
        if self._held:
            _malformed("text follows the end of a function")
        return False

    def _lead(self) -> str:
        """What stands before the value of the argument that was named last."""
        return (", " if self._fragments else "{") + _quoted(self._names[-1]) + ": "

    def _emit(self, fragment: str) -> None:
        self._fragments.append(fragment)
        self._events.append(CallArguments(self._index, fragment))

    def _literal(self, expected: str, following: Callable[[], bool]) -> bool:
        """Get past a fixed text, to the step that follows it."""
        if not self._held.startswith(expected[: len(self._held)]):
            _malformed("a call departs from its framing")
        if len(self._held) < len(expected):
            return False
        self._held = self._held[len(expected) :]
        self._step = following
        return True

    def _name(self) -> str | None:
        """Get past a name and what ends it; None while it is not there."""
        size = next((i for i, mark in enumerate(self._held) if mark in NOT_IN_NAMES), len(self._held))
        name, rest = self._held[:size], self._held[size:]
        if not NAME_END.startswith(rest[: len(NAME_END)]) or (rest and not is_name(name)):
            _malformed("a name holds a mark that names cannot hold, or is empty")
        if len(rest) < len(NAME_END):
            return None
        self._held = rest[len(NAME_END) :]
        return name

    def _check_order(self) -> None:
        """A strict call has its arguments in declared order."""
        if self._tool.arguments is not None:
            declared = [slot.name for slot in self._tool.arguments.slots]
            if len(self._names) > 1 and declared.index(self._names[-2]) > declared.index(self._names[-1]):
                _malformed("a strict call has its arguments out of order")

    def _check_required(self) -> None:
        if self._tool.arguments is not None:
            slots = self._tool.arguments.slots
            if any(slot.required and slot.name not in self._names for slot in slots):
                _malformed("a strict call lacks an argument")


def value_json(text: str, reading: Reading) -> str | None:
    """The JSON of a whole value of a tool that is not strict; None for a blank one that is left out."""
    if reading is Reading.TEXT:
        return _quoted(text)
    trimmed = text.strip(JSON_SPACE)
    if not trimmed and reading is not Reading.GUESSED:
        return None
    if reading is Reading.BOOLEAN and trimmed.lower() in ("true", "false"):
        return trimmed.lower()
    return trimmed if is_json(trimmed) else _quoted(text)


def is_json(text: str, *, when_too_deep: bool = False) -> bool:
    """Whether a text is one JSON value (RFC 8259); `when_too_deep` if it cannot be looked at."""
    try:
        json.loads(text, parse_int=len, parse_float=len, parse_constant=_refuse_constant)
    except RecursionError:
        return when_too_deep
    except ValueError:
        return False
    return True


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(text)


def _overlap(text: str, mark: str) -> int:
    """The length of the longest end of a text that a mark begins with, short of all of the mark."""
    sizes = range(min(len(text), len(mark) - 1), 0, -1)
    return next((size for size in sizes if text.endswith(mark[:size])), 0)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _malformed(message: str) -> NoReturn:
    raise MalformedCall(message)
