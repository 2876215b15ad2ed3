"""The legal-set oracle for vocabularies of a quarter of a million tokens: every token tried, in seconds.

Tokens are walked in byte order, so that a common beginning is parsed once and a dead one is left at once.
Equal states of the Earley parse are merged, so that after a while a step is one look-up.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from oracles.grammar_prefix import Earley, State

ALIVE = 2**31  # deeper than any token is long


class MergedEarley:
    """An Earley parser whose equal states are one object: for a regular language, a finite automaton.

    Two chart nodes are equal when their items, the nodes these began at and their acceptance are equal:
    nothing else decides what may follow.
    """

    def __init__(self, parser: Earley) -> None:
        self._parser = parser
        self._states: dict[Any, State] = {}
        self._next: dict[tuple[int, int], State | None] = {}

    def start(self) -> State | None:
        """The merged state before any input."""
        return self._merged(self._parser.start())

    def advance(self, state: State, byte: int) -> State | None:
        """The merged state after one byte."""
        key = (id(state), byte)
        if key not in self._next:
            self._next[key] = self._merged(self._parser.advance(state, byte))
        return self._next[key]

    def after(self, data: bytes) -> State | None:
        """The merged state after a whole prefix."""
        state = self.start()
        for byte in data:
            state = None if state is None else self.advance(state, byte)
        return state

    def _merged(self, state: State | None) -> State | None:
        if state is None:
            return None

        def origin(begun: State) -> int:
            return 0 if begun is state else id(begun)

        key = (
            state.accepting,
            frozenset((allowed, slot, origin(begun)) for allowed, slot, begun in state.byte_scans),
            frozenset((ids, slot, origin(begun)) for ids, slot, begun in state.token_scans),
            frozenset(
                (name, slot, origin(begun)) for name, items in state.waiting.items() for slot, begun in items
            ),
        )
        return self._states.setdefault(key, state)


class SortedTokens:
    """The text tokens of a vocabulary in byte order, and how many bytes each shares with the one before."""

    def __init__(self, token_bytes: Sequence[bytes | None]) -> None:
        self._tokens = sorted((data, token_id) for token_id, data in enumerate(token_bytes) if data)
        self._shared: list[int] = []
        previous = b""
        for data, _ in self._tokens:
            self._shared.append(_common_length(previous, data))
            previous = data

    def legal_ids(self, parser: MergedEarley, state: State, eos_ids: Iterable[int]) -> set[int]:
        """The ids that may follow in `state`: by their bytes, as whole tokens, or as an end."""
        legal = set().union(*(ids for ids, _, _ in state.token_scans))
        legal |= set(self._by_bytes(parser, state))
        return legal | set(eos_ids) if state.accepting else legal

    def _by_bytes(self, parser: MergedEarley, state: State) -> Iterator[int]:
        states, dead_at = [state], ALIVE
        for (data, token_id), shared in zip(self._tokens, self._shared, strict=True):
            if shared > dead_at:  # it begins with the bytes that were refused already
                continue
            del states[shared + 1 :]
            dead_at = ALIVE
            for depth in range(shared, len(data)):
                after = parser.advance(states[-1], data[depth])
                if after is None:
                    dead_at = depth
                    break
                states.append(after)
            else:
                yield token_id


def _common_length(one: bytes, other: bytes) -> int:
    length = min(len(one), len(other))
    if one[:length] == other[:length]:
        return length
    return next(i for i in range(length) if one[i] != other[i])
