"""No name twice in one JSON object: the companion that closes every token which would complete a used name.

The tracker reads the tokens as JSON syntax and knows no schema; the grammar sees to the syntax and to member
names in canonical escapes, so equal names are equal bytes. A name is complete at its closing quote. Exact: a
token's bit is cleared iff its bytes would complete a used name anywhere in them, also behind further names,
brackets and braces. A state is an immutable triple (mode, level, partial name); the names of an open object
stand in one table that grows along the tokens and is cut back when they are taken another way.
"""

import numpy as np

from engine.text.schema.names_index import (
    QUIET_INSIDE,
    QUIET_OUTSIDE,
    ClosedIds,
    NamesIndex,
    names_index,
)

__all__ = ["NamesIndex", "UniqueNames", "names_index"]

# Where the next byte stands; behind a backslash each kind of string has its own mode, one up.
OUTSIDE, BEFORE_NAME, IN_VALUE, IN_VALUE_ESCAPE, IN_NAME, IN_NAME_ESCAPE = range(6)
QUIET_IN_MODE = (QUIET_OUTSIDE, QUIET_OUTSIDE, QUIET_INSIDE, 0, QUIET_INSIDE, 0)
OPEN_OBJECT, CLOSE_OBJECT, OPEN_ARRAY, CLOSE_ARRAY = b"{}[]"
QUOTE, BACKSLASH, COMMA, COLON = b'"\\,:'
NO_NAME = b"\xff"  # no name begins with a byte that UTF-8 has not


class _Names:
    """The names of one object in order; a state sees the first so many and never those behind them."""

    __slots__ = ("_closing", "_index", "_order", "_places")

    def __init__(self, index: NamesIndex) -> None:
        self._index = index
        self._order: list[bytes] = []
        self._places: dict[bytes, int] = {}
        # By partial name: what closes a name up to and with this place, in the order of places.
        self._closing: dict[bytes, list[tuple[int, ClosedIds]]] = {}

    def has(self, name: bytes, count: int) -> bool:
        """Whether `name` is among the first `count`."""
        place = self._places.get(name)
        return place is not None and place < count

    def add(self, name: bytes, count: int) -> None:
        """Make `name`, which is new, the one behind the first `count`; what stood there is forgotten."""
        while len(self._order) > count:
            self._drop()
        self._order.append(name)
        self._places[name] = count
        for partial, closed in self._index.rests(name):
            entries = self._closing.setdefault(partial, [])
            entries.append((count, entries[-1][1] | closed if entries else closed))

    def _drop(self) -> None:
        name = self._order.pop()
        del self._places[name]
        for partial, _ in self._index.rests(name):
            self._closing[partial].pop()

    def closing(self, partial: bytes, count: int) -> ClosedIds | None:
        """The tokens that make one of the first `count` names out of `partial` with their first bytes."""
        for place, closed in reversed(self._closing.get(partial, ())):
            if place < count:
                return closed
        return None

    def copy(self, count: int) -> "_Names":
        """A table of its own with the first `count` names."""
        twin = _Names(self._index)
        for place, name in enumerate(self._order[:count]):
            twin.add(name, place)
        return twin


class _Level:
    """One open object, array (`names` is None) or the root, as it stands in one state; never changed.

    `holders` are the tokens that can hold whole a name used here or further out; `closed` keeps by mode what
    follows from the level alone.
    """

    __slots__ = ("closed", "count", "holders", "names", "parent")

    def __init__(
        self, names: _Names | None, count: int, parent: "_Level | None", holders: tuple[int, ...]
    ) -> None:
        self.names = names
        self.count = count
        self.parent = parent
        self.holders = holders
        self.closed: dict[int, ClosedIds | None] = {}

    def with_name(self, name: bytes, index: NamesIndex) -> "_Level | None":
        """The level with one more name; None where it has that name."""
        assert self.names is not None, "only an object's member has a name"
        if self.names.has(name, self.count):
            return None
        self.names.add(name, self.count)
        holders = self.holders + index.holders.get(name, ())
        return _Level(self.names, self.count + 1, self.parent, holders)

    def copy(self) -> "_Level":
        """A level, and all levels around it, with tables of its own."""
        inner_first = []
        level: _Level | None = self
        while level is not None:
            inner_first.append(level)
            level = level.parent
        twin = None
        for level in reversed(inner_first):
            names = None if level.names is None else level.names.copy(level.count)
            twin = _Level(names, level.count, twin, level.holders)
        assert twin is not None, "there is always a root"
        return twin


_State = tuple[int, _Level, bytes]


class UniqueNames:
    """The names tracker of one request, a Companion."""

    def __init__(self, index: NamesIndex) -> None:
        self._index = index
        self._now: _State = (OUTSIDE, _Level(None, 0, None, ()), b"")
        self._past: list[_State] = []  # the states before each token since the last `confirm`

    def accept(self, token_id: int) -> bool:
        """Take a token; False, and nothing has changed, where it would complete a used name."""
        data = self._index.token_bytes[token_id]
        now = self._now
        mode, level, partial = now
        if self._index.quiet[token_id] & QUIET_IN_MODE[mode]:
            if mode == IN_NAME and data is not None:
                self._now = (mode, level, partial + data)
        elif data is not None:
            after = self._walk(mode, level, partial, data)
            if after is None:
                return False
            self._now = after
        self._past.append(now)
        return True

    def rollback(self, num_tokens: int) -> None:
        """Take back the last tokens."""
        if num_tokens:
            self._now = self._past[-num_tokens]
            del self._past[-num_tokens:]

    def confirm(self) -> None:
        """Forget how to take back what was accepted so far."""
        self._past.clear()

    def fork(self) -> "UniqueNames":
        """An independent tracker in the same state."""
        twin = UniqueNames(self._index)
        mode, level, partial = self._now
        twin._now = (mode, level.copy(), partial)
        return twin

    def clear(self, words: np.ndarray) -> None:
        """Close every token that would complete a used name in a packed int32 row of shape (words,)."""
        self.clear_at(self._now, words)

    def begin(self) -> _State:
        """The state before a JSON text, for a companion that reads more than JSON."""
        return OUTSIDE, _Level(None, 0, None, ()), b""

    def walk(self, state: _State, data: bytes) -> _State | None:
        """The state behind some bytes; None where a name is repeated in them."""
        return self._walk(*state, data)

    def copied(self, state: _State) -> _State:
        """An independent state like this one."""
        mode, level, partial = state
        return mode, level.copy(), partial

    def clear_at(self, state: _State, words: np.ndarray) -> None:
        """`clear` in some state."""
        mode, level, partial = state
        if mode >= IN_NAME:
            self._clear_in_name(level, partial, mode, words)
        if level.holders or self._index.doubles:
            if mode not in level.closed:
                level.closed[mode] = self._closed_by_holders(mode, level)
            closed = level.closed[mode]
            if closed is not None:
                closed.clear(words)

    def _clear_in_name(self, level: _Level, partial: bytes, mode: int, words: np.ndarray) -> None:
        assert level.names is not None, "only an object's member has a name"
        closed = level.names.closing(partial, level.count)
        if closed is not None:
            closed.clear(words)
        for token_id in self._index.echoes:
            if self._repeats(mode, level, partial, token_id):
                ClosedIds.of([token_id]).clear(words)

    def _closed_by_holders(self, mode: int, level: _Level) -> ClosedIds | None:
        """The tokens that repeat a name which they hold whole, whatever the partial name is."""
        candidates = {*level.holders, *self._index.doubles}
        partial = NO_NAME if mode >= IN_NAME else b""
        closed = [token_id for token_id in candidates if self._repeats(mode, level, partial, token_id)]
        return ClosedIds.of(closed) if closed else None

    def _repeats(self, mode: int, level: _Level, partial: bytes, token_id: int) -> bool:
        data = self._index.token_bytes[token_id]
        return data is not None and self._walk(mode, level, partial, data) is None

    def _walk(self, mode: int, level: _Level, partial: bytes, data: bytes) -> _State | None:
        """The state behind `data`; None where a name is repeated in it.

        Trying a token this way changes nothing: names it adds stand behind those that any kept state sees.
        """
        begin = 0
        for at, byte in enumerate(data):
            if mode <= BEFORE_NAME:
                if byte == QUOTE:
                    mode, partial, begin = (IN_VALUE if mode == OUTSIDE else IN_NAME), b"", at + 1
                elif byte in b"{}[],:":
                    mode, level = self._pass_mark(byte, level)
            elif mode in (IN_NAME_ESCAPE, IN_VALUE_ESCAPE):
                mode -= 1
            elif byte == BACKSLASH:
                mode += 1
            elif byte == QUOTE:
                if mode == IN_NAME:
                    named = level.with_name(partial + data[begin:at], self._index)
                    if named is None:
                        return None
                    level, partial = named, b""
                mode = OUTSIDE
        return mode, level, (partial + data[begin:] if mode >= IN_NAME else b"")

    def _pass_mark(self, byte: int, level: _Level) -> tuple[int, _Level]:
        if byte == OPEN_OBJECT:
            return BEFORE_NAME, _Level(_Names(self._index), 0, level, level.holders)
        if byte == OPEN_ARRAY:
            return OUTSIDE, _Level(None, 0, level, level.holders)
        if byte == COMMA:
            return (OUTSIDE if level.names is None else BEFORE_NAME), level
        if byte == COLON:
            return OUTSIDE, level
        return OUTSIDE, level.parent or level
