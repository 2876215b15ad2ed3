"""A naive Earley recogniser over bytes and token symbols: viable prefixes and membership.

A grammar maps each name to its alternatives; an alternative is a tuple of items; an item is a set of bytes, a
`Tokens` set of ids, or the name of a rule. Alternatives that derive no finite string are dropped first by the
module's own fixpoint, so a live state always means that a FINITE continuation exists (clause SERV-4).

The chart is a graph of nodes that point back at the nodes where their items began. A byte makes one new node;
a token makes one node per byte, and the last of them also receives the items that take the token as one
atomic symbol. Nodes never change once built, so keeping one is a fork and dropping one is a rollback.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Tokens:
    """A terminal that takes one whole token whose id is in `ids`, whatever its bytes."""

    ids: frozenset[int]


ByteSet = frozenset[int]
Item = ByteSet | Tokens | str
Alternative = tuple[Item, ...]
Grammar = Mapping[str, Sequence[Alternative]]

_START = "\0start"  # a name no caller uses: the fresh root, so that acceptance is one completed item


class State:
    """One node of the chart: everything that may be going on after one prefix."""

    __slots__ = ("_after_byte", "accepting", "byte_scans", "token_scans", "waiting")

    def __init__(self) -> None:
        self.accepting = False
        self.byte_scans: list[tuple[ByteSet, int, State]] = []
        self.token_scans: list[tuple[frozenset[int], int, State]] = []
        self.waiting: dict[str, list[tuple[int, State]]] = {}
        self._after_byte: dict[int, State | None] = {}


class Earley:
    """A recogniser for one grammar; `start` is the entry rule."""

    def __init__(self, grammar: Grammar, start: str) -> None:
        full: dict[str, Sequence[Alternative]] = {_START: [(start,)], **grammar}
        self._productive = productive_names(full)
        self._nullable = _nullable_names(full)
        self._symbols: list[Item | None] = []  # by slot = a production with a dot in it; None at its end
        self._left_side: list[str] = []
        self._first_slots: dict[str, list[int]] = {}
        self._first: State | None = None
        for name, alternatives in full.items():
            self._first_slots[name] = [self._add(name, a) for a in alternatives if self._can_finish(a)]

    def _can_finish(self, alternative: Alternative) -> bool:
        return all(_is_productive(item, self._productive) for item in alternative)

    def _add(self, name: str, alternative: Alternative) -> int:
        first = len(self._symbols)
        self._symbols += [*alternative, None]
        self._left_side += [name] * (len(alternative) + 1)
        return first

    @property
    def is_empty(self) -> bool:
        """Whether the language holds no string at all."""
        return _START not in self._productive

    def start(self) -> State | None:
        """Return the state before any input; None when the language is empty."""
        if self._first is None:
            node = State()
            self._first = self._close(node, [(slot, node) for slot in self._first_slots[_START]])
        return self._first

    def advance(self, state: State, byte: int) -> State | None:
        """Return the state after one byte, or None when no string of the language goes on so."""
        cache = state._after_byte
        if byte not in cache:
            kernel = [(slot + 1, origin) for allowed, slot, origin in state.byte_scans if byte in allowed]
            cache[byte] = self._close(State(), kernel)
        return cache[byte]

    def advance_bytes(self, state: State, data: bytes) -> State | None:
        """Return the state after all bytes of `data`, or None."""
        current: State | None = state
        for byte in data:
            if current is None:
                return None
            current = self.advance(current, byte)
        return current

    def advance_token(self, state: State, token_id: int, data: bytes | None) -> State | None:
        """Return the state after one token, taken as its bytes, as one atomic symbol, or as both at once.

        `data` is None for a token that no byte rule may see (control ids); b"" never counts as text.
        """
        kernel = [(slot + 1, origin) for ids, slot, origin in state.token_scans if token_id in ids]
        if not data:
            return self._close(State(), kernel)
        before_last = self.advance_bytes(state, data[:-1])
        if not kernel:
            return None if before_last is None else self.advance(before_last, data[-1])
        if before_last is not None:
            scans = before_last.byte_scans
            kernel += [(slot + 1, origin) for allowed, slot, origin in scans if data[-1] in allowed]
        return self._close(State(), kernel)

    def accepting(self, state: State | None) -> bool:
        """Whether the input so far is a whole string of the language."""
        return state is not None and state.accepting

    def viable(self, prefix: bytes) -> bool:
        """Whether some finite string of the language begins with `prefix`."""
        first = self.start()
        return first is not None and self.advance_bytes(first, prefix) is not None

    def member(self, data: bytes) -> bool:
        """Whether `data` is a string of the language."""
        first = self.start()
        return first is not None and self.accepting(self.advance_bytes(first, data))

    def _close(self, node: State, kernel: Iterable[tuple[int, State]]) -> State | None:
        """Predict and complete until nothing new appears; None when there was nothing to begin with."""
        todo = list(kernel)
        if not todo:
            return None
        seen = set(todo)
        predicted: set[str] = set()
        while todo:
            slot, origin = todo.pop()
            for item in self._consequences(node, slot, origin, predicted):
                if item not in seen:
                    seen.add(item)
                    todo.append(item)
        return node

    def _consequences(
        self, node: State, slot: int, origin: State, predicted: set[str]
    ) -> list[tuple[int, State]]:
        symbol = self._symbols[slot]
        if symbol is None:
            return self._complete(node, self._left_side[slot], origin)
        if isinstance(symbol, str):
            return self._predict(node, symbol, slot, origin, predicted)
        if isinstance(symbol, Tokens):
            node.token_scans.append((symbol.ids, slot, origin))
        else:
            node.byte_scans.append((symbol, slot, origin))
        return []

    def _complete(self, node: State, name: str, origin: State) -> list[tuple[int, State]]:
        if name == _START:
            node.accepting = True
        if origin is node:  # it derived the empty string: `_predict` already stepped over it
            return []
        return [(slot + 1, begun) for slot, begun in origin.waiting.get(name, ())]

    def _predict(
        self, node: State, name: str, slot: int, origin: State, predicted: set[str]
    ) -> list[tuple[int, State]]:
        node.waiting.setdefault(name, []).append((slot, origin))
        found: list[tuple[int, State]] = []
        if name in self._nullable:
            found.append((slot + 1, origin))
        if name not in predicted:
            predicted.add(name)
            found += [(first, node) for first in self._first_slots[name]]
        return found


def productive_names(grammar: Grammar) -> set[str]:
    """Return the names that derive at least one finite string; unknown names derive none."""
    return _least_fixpoint(grammar, _is_productive)


def _nullable_names(grammar: Grammar) -> set[str]:
    return _least_fixpoint(grammar, lambda item, known: isinstance(item, str) and item in known)


def _least_fixpoint(grammar: Grammar, holds: Callable[[Item, set[str]], bool]) -> set[str]:
    """Return the names with an alternative all of whose items hold, given the names found so far."""
    known: set[str] = set()
    while True:
        found = {
            name
            for name, alternatives in grammar.items()
            if name not in known and any(all(holds(item, known) for item in a) for a in alternatives)
        }
        if not found:
            return known
        known |= found


def _is_productive(item: Item, productive: set[str]) -> bool:
    if isinstance(item, str):
        return item in productive
    return bool(item.ids) if isinstance(item, Tokens) else bool(item)
