"""What a client sees of an output, as records in order; the same records make the final result (STREAM-1).

`Collector` adds the events of a request up, so a streamed and an aggregate answer cannot differ. A call
without its `CallEnd` was cut and is no call (TOOL-32).
"""

from collections.abc import Iterable

import attrs

from engine.request import FinishReason, ToolCall


@attrs.frozen
class Content:
    """A piece of the answer's text."""

    text: str


@attrs.frozen
class Reasoning:
    """A piece of the thinking before the answer."""

    text: str


@attrs.frozen
class CallStart:
    """A call has begun; `index` counts the calls of this output from 0."""

    index: int
    name: str


@attrs.frozen
class CallArguments:
    """A piece of a call's arguments; all of them together are its `arguments_json` (TOOL-29)."""

    index: int
    fragment: str


@attrs.frozen
class CallEnd:
    """A call is complete."""

    index: int
    call: ToolCall


@attrs.frozen
class Finish:
    """The last event of an output that ended without an error."""

    reason: FinishReason


Event = Content | Reasoning | CallStart | CallArguments | CallEnd | Finish


def merged(events: Iterable[Event]) -> tuple[Event, ...]:
    """The same events with neighbours of one kind joined."""
    found: list[Event] = []
    for event in events:
        last = found[-1] if found else None
        if isinstance(event, Content) and isinstance(last, Content):
            found[-1] = Content(last.text + event.text)
        elif isinstance(event, Reasoning) and isinstance(last, Reasoning):
            found[-1] = Reasoning(last.text + event.text)
        elif (
            isinstance(event, CallArguments) and isinstance(last, CallArguments) and event.index == last.index
        ):
            found[-1] = CallArguments(event.index, last.fragment + event.fragment)
        else:
            found.append(event)
    return tuple(found)


class Collector:
    """The final parts of an output, from its events."""

    def __init__(self) -> None:
        self._content: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[ToolCall] = []
        self._fragments: dict[int, list[str]] = {}
        self._names: dict[int, str] = {}

    def add(self, events: Iterable[Event]) -> None:
        """Take events in order."""
        for event in events:
            match event:
                case Content(text):
                    self._content.append(text)
                case Reasoning(text):
                    self._reasoning.append(text)
                case CallStart(index, name):
                    self._names[index], self._fragments[index] = name, []
                case CallArguments(index, fragment):
                    self._fragments[index].append(fragment)
                case CallEnd(index):
                    self._calls.append(ToolCall(self._names[index], "".join(self._fragments[index])))

    @property
    def content(self) -> str:
        """The answer's text."""
        return "".join(self._content)

    @property
    def reasoning(self) -> str:
        """The thinking's text."""
        return "".join(self._reasoning)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The finished calls, their arguments put together from the fragments."""
        return tuple(self._calls)
