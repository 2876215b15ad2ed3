"""No parameter name twice in one call: the companion of tool grammars (TOOL-17, TOOL-18, TOOL-25).

No grammar says that names from an open set differ. The tracker follows the framing of the calls that the core
lets through and closes every token whose bytes would complete a name the call has used, also one that goes on
behind the name. In the JSON values of strict tools it keeps the member names of objects apart the same way.
A state is a value; names are told by their bytes.
"""

import re
import threading
from collections import defaultdict
from collections.abc import Mapping
from functools import lru_cache

import attrs
import numpy as np

from engine.frontend.framing import NAME_END, PARAMETER_OPEN, VALUE_END, OutputIds
from engine.frontend.tool_contract import Reading, ToolContract
from engine.text.companion import Companion
from engine.text.schema.names_index import ClosedIds, names_index
from engine.text.schema.unique_names import UniqueNames
from engine.text.vocabulary import TokenClass, Vocabulary

# What the next byte belongs to: a function's name with its mark, what stands between parameters, a name, the
# line feed behind it, a value.
FUNCTION, BETWEEN, NAME, LINE_FEED, VALUE = range(5)
ENDS_NAME, BEGINS_NAME, END = NAME_END[0].encode(), PARAMETER_OPEN[-1].encode(), VALUE_END.encode()
NAME_INSIDE = re.compile(re.escape(BEGINS_NAME) + rb"[^<>\r\n]+" + re.escape(ENDS_NAME))
NEXT_NAME = (VALUE_END + "\n" + PARAMETER_OPEN).encode()


@attrs.frozen(eq=False)
class NameTokens:
    """What the TEXT tokens of a vocabulary can do to the names of parameters; others have no bytes here.

    `enders[rest]`: the tokens that begin with `rest` and the end of a name. `crossing`: those that may hold a
    whole name; `whole`: those of them that can stand in the middle of a value.
    """

    token_bytes: tuple[bytes | None, ...]
    enders: Mapping[bytes, ClosedIds]
    crossing: tuple[int, ...]
    whole: tuple[int, ...]

    @classmethod
    def build(cls, vocabulary: Vocabulary) -> "NameTokens":
        """Read every token of a vocabulary once."""
        pairs = zip(vocabulary.token_bytes, vocabulary.classes, strict=True)
        token_bytes = tuple(data if kind is TokenClass.TEXT else None for data, kind in pairs)
        enders: defaultdict[bytes, list[int]] = defaultdict(list)
        crossing = []
        for token_id, data in enumerate(token_bytes):
            if data is not None and ENDS_NAME in data:
                enders[data.partition(ENDS_NAME)[0]].append(token_id)
                if NAME_INSIDE.search(data):
                    crossing.append(token_id)
        return cls(
            token_bytes,
            {rest: ClosedIds.of(ids) for rest, ids in enders.items()},
            tuple(crossing),
            tuple(i for i in crossing if NEXT_NAME in (token_bytes[i] or b"")),
        )


_LOCK = threading.Lock()


def name_tokens(vocabulary: Vocabulary) -> NameTokens:
    """The tables of a vocabulary, built by the first of racing callers."""
    with _LOCK:
        return _built(vocabulary)


@lru_cache(maxsize=4)
def _built(vocabulary: Vocabulary) -> NameTokens:
    return NameTokens.build(vocabulary)


@attrs.frozen(eq=False)
class _State:
    """A place in a call. `seen`: the bytes of a name so far, or how much of END stands before this place."""

    mode: int = BETWEEN
    seen: bytes = b""
    matched: int = 0
    tool: bytes = b""
    used: tuple[bytes, ...] = ()
    json: object = None  # a state of UniqueNames inside a JSON value


class ParameterNames(Companion):
    """The names tracker of one request; it sees the tokens of calls, from the first opening id on."""

    def __init__(self, vocabulary: Vocabulary, contract: ToolContract) -> None:
        self._tokens = name_tokens(vocabulary)
        self._open_id = OutputIds.of(vocabulary).tool_open
        self._json = UniqueNames(names_index(vocabulary))
        strict = [tool for tool in contract.callable if tool.strict]
        self._json_values = {
            tool.name.encode(): frozenset(k.encode() for k, r in tool.readings.items() if r is Reading.JSON)
            for tool in strict
        }
        self._now = _State()
        self._past: list[_State] = []

    def accept(self, token_id: int) -> bool:
        """Take a token; False, and nothing has changed, where it would complete a used name."""
        data = self._tokens.token_bytes[token_id]
        after: _State | None = self._now
        if token_id == self._open_id:
            after = _State(FUNCTION)
        elif data is not None:
            after = self._walk(self._now, data)
        if after is None:
            return False
        self._past.append(self._now)
        self._now = after
        return True

    def rollback(self, num_tokens: int) -> None:
        """Take back the last tokens."""
        if num_tokens:
            self._now = self._past[-num_tokens]
            del self._past[-num_tokens:]

    def confirm(self) -> None:
        """Forget how to take back what was accepted so far."""
        self._past.clear()

    def fork(self) -> "ParameterNames":
        """An independent tracker in the same state."""
        twin = object.__new__(ParameterNames)
        twin.__dict__.update(self.__dict__)
        twin._past = []
        if self._now.json is not None:
            twin._now = attrs.evolve(self._now, json=self._json.copied(self._now.json))  # type: ignore[arg-type]
        return twin

    def clear(self, words: np.ndarray) -> None:
        """Close every token that would complete a used name in a packed int32 row of shape (words,)."""
        now = self._now
        if now.json is not None:
            self._json.clear_at(now.json, words)  # type: ignore[arg-type]
        if now.mode == NAME:
            for name in now.used:
                if name.startswith(now.seen):
                    closed = self._tokens.enders.get(name[len(now.seen) :])
                    if closed is not None:
                        closed.clear(words)
        in_middle = now.mode == VALUE and now.matched == 0
        for token_id in self._tokens.whole if in_middle else self._tokens.crossing:
            data = self._tokens.token_bytes[token_id]
            if data is not None and self._walk(now, data) is None:
                ClosedIds.of([token_id]).clear(words)

    def _walk(self, state: _State, data: bytes) -> _State | None:
        """The state behind some bytes; None where a used name is completed in them."""
        at = 0
        while at < len(data):
            if state.mode == VALUE:
                step = self._value_step(state, data, at)
            elif state.mode == LINE_FEED:
                step = self._begin_value(state), at + 1
            else:
                step = self._framing_step(state, data, at)
            if step[0] is None:
                return None
            state, at = step[0], step[1]
        return state

    def _framing_step(self, state: _State, data: bytes, at: int) -> tuple[_State | None, int]:
        """Up to the next mark: the end of a name, or, between parameters, the beginning of one."""
        mark = BEGINS_NAME if state.mode == BETWEEN else ENDS_NAME
        found = data.find(mark, at)
        end = len(data) if found < 0 else found
        if state.mode == BETWEEN:
            return (state, end) if found < 0 else (attrs.evolve(state, mode=NAME, seen=b""), end + 1)
        seen = state.seen + data[at:end]
        if found < 0:
            return attrs.evolve(state, seen=seen), end
        if state.mode == FUNCTION:
            return _State(BETWEEN, tool=seen.partition(BEGINS_NAME)[2]), end + 1
        if seen in state.used:
            return None, end
        used = state.used if state.tool in self._json_values else (*state.used, seen)
        return attrs.evolve(state, mode=LINE_FEED, seen=seen, used=used), end + 1

    def _begin_value(self, state: _State) -> _State:
        is_json = state.seen in self._json_values.get(state.tool, ())
        return attrs.evolve(state, mode=VALUE, matched=0, json=self._json.begin() if is_json else None)

    def _value_step(self, state: _State, data: bytes, at: int) -> tuple[_State | None, int]:
        """Up to the end of the value, or of the bytes."""
        matched, end = state.matched, at
        while end < len(data) and matched < len(END):
            byte = data[end]
            matched = matched + 1 if byte == END[matched] else int(byte == END[0])
            end += 1
        json = state.json
        if json is not None:
            json = self._json.walk(json, data[at:end])  # type: ignore[arg-type]
            if json is None:
                return None, end
        if matched == len(END):
            return attrs.evolve(state, mode=BETWEEN, matched=0, json=None), end
        return attrs.evolve(state, matched=matched, json=json), end


class Switched(Companion):
    """One companion up to a token id, another from that id on; either may be absent."""

    def __init__(self, first: Companion | None, second: Companion | None, trigger: int) -> None:
        self._first, self._second, self._trigger = first, second, trigger
        self._num_second: int | None = None  # tokens that the second one has seen

    @property
    def _current(self) -> Companion | None:
        return self._first if self._num_second is None else self._second

    def accept(self, token_id: int) -> bool:
        """Take a token, the one that switches included."""
        before = self._num_second
        if before is None and token_id == self._trigger:
            self._num_second = 0
        current = self._current
        if current is not None and not current.accept(token_id):
            self._num_second = before
            return False
        if self._num_second is not None:
            self._num_second += 1
        return True

    def rollback(self, num_tokens: int) -> None:
        """Take back the last tokens, over the switch too."""
        behind = min(num_tokens, self._num_second or 0)
        if behind and self._second is not None:
            self._second.rollback(behind)
        if num_tokens > behind and self._first is not None:
            self._first.rollback(num_tokens - behind)
        if behind and self._num_second is not None:
            self._num_second = self._num_second - behind or None

    def confirm(self) -> None:
        """What was accepted so far is never taken back."""
        for companion in (self._first, self._second):
            if companion is not None:
                companion.confirm()

    def fork(self) -> "Switched":
        """An independent companion in the same state."""
        first = None if self._first is None else self._first.fork()
        second = None if self._second is None else self._second.fork()
        twin = Switched(first, second, self._trigger)
        twin._num_second = self._num_second
        return twin

    def clear(self, words: np.ndarray) -> None:
        """Close what the companion in charge closes."""
        if self._current is not None:
            self._current.clear(words)
