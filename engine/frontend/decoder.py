"""Committed tokens to events: reasoning, content and calls, each once and without their framing (PHASE-1).

Phases change by token ids alone: the id of `</think>` ends thinking, two line feeds (as bytes) follow it, the
id of `<tool_call>` begins a call. Characters come out whole, control tokens never. White space before a call
and a line feed before the end of thinking are framing. Where a matcher follows the output (`is_enforced`) a
departure from the format is an IntegrityError; where none does, what is no call is content as it was written.
"""

import codecs
import enum
from collections.abc import Iterable, Sequence

import attrs

from engine.errors import IntegrityError
from engine.frontend.events import (
    CallArguments,
    CallEnd,
    CallStart,
    Content,
    Event,
    Finish,
    Reasoning,
    merged,
)
from engine.frontend.framing import BETWEEN_CALLS, REASONING_END, SEPARATOR, TOOL_OPEN, OutputIds
from engine.frontend.tool_contract import ToolContract
from engine.frontend.tool_reader import MalformedCall, ToolReader
from engine.request import Branch, FinishReason
from engine.text.vocabulary import TokenClass, Vocabulary

Piece = int | bytes  # a token id, or text that stands for no particular tokens
CALL_EVENTS = CallStart | CallArguments | CallEnd


class _Phase(enum.Enum):
    REASONING = enum.auto()
    SEPARATOR = enum.auto()
    CONTENT = enum.auto()
    CALL = enum.auto()


@attrs.frozen(eq=False)
class OutputForm:
    """What an output may hold, fixed before its first token.

    `starts_thinking`: the prompt ends inside thinking. `contract`: the tools, None without. `has_constraint`:
    a content constraint governs the content, so that content is published as it is. `is_enforced`: a matcher
    follows the output.
    """

    vocabulary: Vocabulary
    starts_thinking: bool = False
    contract: ToolContract | None = None
    has_constraint: bool = False
    is_enforced: bool = True


class OutputDecoder:
    """The publishing side of one output; it sees committed tokens only."""

    def __init__(self, form: OutputForm) -> None:
        contract = form.contract
        self._form = form
        self._ids = OutputIds.of(form.vocabulary)
        self._phase = _Phase.REASONING if form.starts_thinking else _Phase.CONTENT
        self._reader = ToolReader(contract) if contract is not None and contract.is_active else None
        self._characters = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._branch = Branch.UNDECIDED
        self._separator = SEPARATOR.encode()  # what is still to come of it
        self._space = ""  # text that is framing if a call, or the end of thinking, comes next
        self._written = ""  # the open call as text
        self._pending: list[Event] = []  # events of an open call that may yet turn out to be none
        self._events: list[Event] = []

    @property
    def branch(self) -> Branch:
        """What the output is so far; the first content token decides under a content constraint (TOOL-13)."""
        return self._branch

    @property
    def is_thinking(self) -> bool:
        """Whether the end of thinking, separator included, is still to come."""
        return self._phase in (_Phase.REASONING, _Phase.SEPARATOR)

    @property
    def num_calls(self) -> int:
        """The number of finished calls."""
        return self._reader.num_calls if self._reader else 0

    def resume(self, prefix: Iterable[Piece]) -> None:
        """Take what the output continues: its content is not published again, its open call is (CONT-7)."""
        for piece in prefix:
            self._take(piece)
        self._space = ""
        self._events = [event for event in self._events if isinstance(event, CALL_EVENTS)]

    def feed(self, token_ids: Sequence[int]) -> tuple[Event, ...]:
        """Return the events of committed tokens. Raises IntegrityError where the format is enforced."""
        for token_id in token_ids:
            self._take(token_id)
        events, self._events = self._events, []
        return merged(events)

    def finish(self, reason: FinishReason) -> tuple[Event, ...]:
        """Return the last events: what was held back, without an open call, and the reason."""
        if self._phase is _Phase.CALL:
            self._drop_call()
        else:
            self._flush()
        if not (self._phase is _Phase.CONTENT and self.num_calls):
            self._publish(self._space)
        self._space = ""
        events, self._events = [*self._events, Finish(reason)], []
        return merged(events)

    def _take(self, piece: Piece) -> None:
        if isinstance(piece, bytes):
            self._take_bytes(piece)
            return
        token_class = self._form.vocabulary.classes[piece]
        if token_class is TokenClass.TEXT:
            self._take_bytes(self._form.vocabulary.token_bytes[piece])
        else:
            self._take_control(piece, token_class)

    def _take_bytes(self, data: bytes) -> None:
        if self._phase is _Phase.SEPARATOR:
            data = self._after_separator(data)
        if data:
            self._decide(Branch.CONTENT)
            self._take_text(self._characters.decode(data))

    def _take_text(self, text: str) -> None:
        if not text:
            return
        if self._phase is _Phase.REASONING:
            text = self._space + text
            self._space = REASONING_END if text.endswith(REASONING_END) else ""
            self._publish(text.removesuffix(REASONING_END))
        elif self._phase is _Phase.CALL:
            self._written += text
            self._read(text)
        else:
            self._take_content(text)

    def _take_content(self, text: str) -> None:
        if self._reader is None:
            self._publish(text)
            return
        text = self._space + text
        shown = text.rstrip()
        if self.num_calls and self._form.is_enforced and text != BETWEEN_CALLS:
            raise IntegrityError("text stands between calls or after them")
        self._space = text[len(shown) :]
        self._publish(shown)

    def _take_control(self, token_id: int, token_class: TokenClass) -> None:
        self._flush()
        if self._phase is _Phase.REASONING:
            if token_id == self._ids.think_close:
                self._space = ""
                self._phase = _Phase.SEPARATOR
        elif self._phase is _Phase.CALL:
            self._end_call(token_id)
        elif token_class is not TokenClass.EOS:
            self._take_opener(token_id)

    def _take_opener(self, token_id: int) -> None:
        """A control id in or before content: a call where there are tools, else nothing."""
        if self._phase is _Phase.SEPARATOR:
            self._after_separator(b"\xff")  # no control id stands inside the separator
        if token_id == self._ids.tool_open and self._reader is not None:
            self._decide(Branch.TOOLS)
            self._space, self._written = "", self._space + TOOL_OPEN
            self._phase = _Phase.CALL
            self._reader.open()

    def _end_call(self, token_id: int) -> None:
        assert self._reader is not None
        try:
            if token_id != self._ids.tool_close:
                raise MalformedCall("a control token stands inside a call")
            self._pending.append(self._reader.close())
        except MalformedCall as fault:
            self._give_up(fault)
            if token_id == self._ids.tool_open:
                self._take_opener(token_id)
            return
        self._events += self._pending
        self._pending, self._phase = [], _Phase.CONTENT

    def _read(self, text: str) -> None:
        assert self._reader is not None
        try:
            self._pending += self._reader.feed(text)
        except MalformedCall as fault:
            self._give_up(fault)
            return
        if self._form.is_enforced:
            self._events += self._pending
            self._pending = []

    def _give_up(self, fault: MalformedCall) -> None:
        """What looked like a call is content, unless its grammar says that it cannot be."""
        if self._form.is_enforced:
            raise fault
        self._drop_call()
        self._phase = _Phase.CONTENT
        self._take_content(self._written)

    def _drop_call(self) -> None:
        assert self._reader is not None
        self._reader.drop()
        self._pending = []

    def _decide(self, branch: Branch) -> None:
        """Note what the output is: once beside a content constraint; else a call has the last word."""
        if self._phase is not _Phase.CONTENT:
            return
        is_late_call = branch is Branch.TOOLS and not self._form.has_constraint
        if self._branch is Branch.UNDECIDED or is_late_call:
            self._branch = branch
            if self._form.has_constraint and branch is Branch.CONTENT:
                self._reader = None

    def _after_separator(self, data: bytes) -> bytes:
        """What of these bytes is content: the separator may end inside a token (PHASE-5)."""
        size = min(len(data), len(self._separator))
        if self._form.is_enforced and data[:size] != self._separator[:size]:
            raise IntegrityError("the end of thinking is not followed by its separator")
        while data and self._separator and data[0] == self._separator[0]:
            data, self._separator = data[1:], self._separator[1:]
        if data or not self._separator:
            self._phase = _Phase.CONTENT
        return data

    def _flush(self) -> None:
        """Let go of a character that its bytes never complete."""
        self._take_text(self._characters.decode(b"", final=True))

    def _publish(self, text: str) -> None:
        if text:
            is_reasoning = self._phase is _Phase.REASONING
            self._events.append(Reasoning(text) if is_reasoning else Content(text))
