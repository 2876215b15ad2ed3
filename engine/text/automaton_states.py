"""Deterministic states of one regular expression, made only when they are asked for.

The code points are cut into classes that no expression of a question tells apart; a set of them is a bit set.
A position is what is left of the expression: a part and the position after it, both numbered, so that equal
rests are one number. A counted repetition is one part with a smaller count after each copy and is never
written out. A state is a set of positions; what others of the set contain is dropped from it.
"""

import bisect
from collections.abc import Iterable, Sequence

import attrs

from engine.errors import ErrorKind
from engine.text.expr import Alt, Bytes, Chars, Expr, Repeat, Seq, fold, walk
from engine.text.limits import check_limit

KIND = ErrorKind.UNSUPPORTED_JSON_SCHEMA
END = 0  # the position with nothing left
DEAD = 0  # the state of no position
IDLE_STEPS = 24  # characters without growth before `overlap` gives up
Moves = tuple[tuple[int, int], ...]  # disjoint bit sets of classes, the state each leads to; the rest is DEAD


@attrs.define
class Budget:
    """What one question has used up of the static limits."""

    states: int = 0
    work: int = 0

    def new_state(self) -> None:
        """One more state. Raises LimitExceeded."""
        self.states += 1
        check_limit("automaton_states", self.states, KIND)

    def spend(self, work: int) -> None:
        """So many positions or edges looked at. Raises LimitExceeded."""
        self.work += work
        check_limit("automaton_work", self.work, KIND)


class Classes:
    """The code points in classes that no character set of the expressions tells apart."""

    def __init__(self, exprs: Iterable[Expr]) -> None:
        leaves = {node for expr in exprs for node in walk(expr) if isinstance(node, Bytes | Chars)}
        sets = {leaf.ranges for leaf in leaves if isinstance(leaf, Chars)}
        singles = {ord(c) for leaf in leaves if isinstance(leaf, Bytes) for c in leaf.data.decode()}
        ranges = sets | {((code, code),) for code in singles}
        edges = {0, 0xD800, 0xE000, 0x110000}
        edges |= {edge for pairs in ranges for low, high in pairs for edge in (low, high + 1)}
        self.starts = sorted(edges)[:-1]
        ends = sorted(edges)[1:]
        kinds = self._kinds(sets, singles)
        numbers: dict[object, int] = {}
        self.class_of = [numbers.setdefault(kind, len(numbers)) for kind in kinds]
        self.all = (1 << len(numbers)) - 1
        self.ranges: list[list[tuple[int, int]]] = [[] for _ in numbers]
        for number, low, end in zip(self.class_of, self.starts, ends, strict=True):
            self.ranges[number].append((low, end - 1))
        surrogates = self.of_code(0xD800)
        self.all &= ~surrogates

    def _kinds(self, sets: set[tuple[tuple[int, int], ...]], singles: set[int]) -> list[object]:
        """What tells each interval from the others: the sets that hold it, or its only character."""
        at = {start: index for index, start in enumerate(self.starts)}
        members = [0] * (len(self.starts) + 1)
        for number, pairs in enumerate(sets):
            for low, high in pairs:
                stop = at.get(high + 1, len(self.starts))
                for index in range(at[low], stop):
                    members[index] |= 1 << number
        return [
            ("surrogates",) if 0xD800 <= start < 0xE000 else (start if start in singles else -1, held)
            for start, held in zip(self.starts, members, strict=False)
        ]

    def of_code(self, code: int) -> int:
        """The class of one code point, as a bit set."""
        return 1 << self.class_of[bisect.bisect_right(self.starts, code) - 1]

    def of_chars(self, characters: Chars) -> int:
        """The classes a character set is made of, as a bit set."""
        found = 0
        for low, high in characters.ranges:
            first, stop = bisect.bisect_left(self.starts, low), bisect.bisect_left(self.starts, high + 1)
            for index in range(first, stop):
                found |= 1 << self.class_of[index]
        return found & self.all

    def ranges_of(self, mask: int) -> list[tuple[int, int]]:
        """The code points of a bit set of classes, as ranges."""
        return [pair for number, pairs in enumerate(self.ranges) if mask >> number & 1 for pair in pairs]


# The parts of an expression, numbered: a bit set of classes, parts in order, a choice, or a counted part.
Part = tuple[str, int | tuple[int, ...], int, int | None]


class Machine:
    """The states of one expression over the classes of a question."""

    def __init__(self, expr: Expr, classes: Classes, budget: Budget) -> None:
        self.classes = classes
        self.budget = budget
        self.parts: list[Part] = []
        self.nullable: list[bool] = []
        self._part_ids: dict[Part, int] = {}
        self.positions: list[tuple[int, int]] = [(-1, -1)]  # part, position after it; 0 is END
        self._position_ids: dict[tuple[int, int], int] = {}
        self._steps: dict[int, tuple[dict[int, int], bool]] = {}
        self._states: list[tuple[int, ...]] = [()]  # the positions of each state, sorted
        self._state_ids: dict[tuple[int, ...], int] = {(): DEAD}
        self._accepts: dict[int, bool] = {}
        self._moves: dict[int, Moves] = {}
        root = fold(expr, self._part_of)
        self._anything = self.position(self.repeat_part(self.part("set", classes.all), 0, None), END)
        self.universal = self.state({self._anything})
        self.start = self.state({self.position(root, END)})

    def part(self, kind: str, body: int | tuple[int, ...], low: int = 0, high: int | None = None) -> int:
        """The number of a part; equal parts have one number."""
        key = (kind, body, low, high)
        if key not in self._part_ids:
            self._part_ids[key] = len(self.parts)
            self.parts.append(key)
            self.nullable.append(self._is_nullable(key))
        return self._part_ids[key]

    def _is_nullable(self, part: Part) -> bool:
        kind, body, low, _ = part
        if kind == "repeat":
            return low == 0
        if isinstance(body, int):
            return False
        return (
            any(self.nullable[item] for item in body)
            if kind == "choice"
            else all(map(self.nullable.__getitem__, body))
        )

    def repeat_part(self, body: int, low: int, high: int | None) -> int:
        """A counted part; copies that may be empty need not be made."""
        return self.part("repeat", body, 0 if self.nullable[body] else low, high)

    def _part_of(self, node: Expr, parts: list[int]) -> int:
        self.budget.spend(1 + len(parts))
        match node:
            case Bytes(data):
                return self.part(
                    "order", tuple(self.part("set", self.classes.of_code(ord(c))) for c in data.decode())
                )
            case Chars():
                return self.part("set", self.classes.of_chars(node))
            case Seq():
                return self.part("order", tuple(parts))
            case Alt():
                return self.part("choice", tuple(dict.fromkeys(parts)))
            case Repeat(_, low, high):
                return self.repeat_part(parts[0], low, high)
        raise AssertionError(f"no part of a regular expression over text: {node!r}")

    def position(self, part: int, rest: int) -> int:
        """The number of the position before a part with `rest` after it."""
        key = (part, rest)
        if key not in self._position_ids:
            self._position_ids[key] = len(self.positions)
            self.positions.append(key)
        return self._position_ids[key]

    def steps(self, start: int) -> tuple[dict[int, int], bool]:
        """Where one character leads from a position (by a bit set), and whether it may be the end."""
        known = self._steps.get(start)
        if known is None:
            known = self._steps[start] = self._find_steps(start)
            self.budget.spend(1 + len(known[0]))
        return known

    def _find_steps(self, start: int) -> tuple[dict[int, int], bool]:
        found: dict[int, int] = {}
        waiting, seen, accepts = [start], set(), False
        while waiting:
            position = waiting.pop()
            if position in seen:
                continue
            seen.add(position)
            if position == END:
                accepts = True
                continue
            part, rest = self.positions[position]
            kind, body, low, high = self.parts[part]
            if kind == "set":
                found[rest] = found.get(rest, 0) | body  # type: ignore[operator]
            elif kind == "choice":
                waiting += [self.position(item, rest) for item in body]  # type: ignore[union-attr]
            elif kind == "order":
                waiting.append(self._in_order(body, rest))  # type: ignore[arg-type]
            else:
                waiting += self._copies(body, low, high, rest, seen)  # type: ignore[arg-type]
        return found, accepts

    def _in_order(self, items: Sequence[int], rest: int) -> int:
        for item in reversed(items):
            rest = self.position(item, rest)
        return rest

    def _copies(self, body: int, low: int, high: int | None, rest: int, seen: set[int]) -> list[int]:
        """The positions a counted part stands for: no further copy, or one more and the others after it."""
        if high == 0:
            return [rest]
        fewer = self.part("repeat", body, max(low - 1, 0), None if high is None else high - 1)
        after = self.position(fewer, rest)
        if self.nullable[body]:
            seen.add(
                after
            )  # an empty copy leads nowhere new: what is left now contains what would be left then
        return [self.position(body, after), *([rest] if low == 0 else [])]

    def state(self, positions: Iterable[int]) -> int:
        """The number of the state of a set of positions, without those that another one contains."""
        key = tuple(sorted(self._largest(set(positions))))
        if key not in self._state_ids:
            self._state_ids[key] = len(self._states)
            self._states.append(key)
        return self._state_ids[key]

    def _largest(self, unique: set[int]) -> set[int]:
        if self._anything in unique:
            return {self._anything}
        counted: dict[tuple[int, int], list[tuple[int, float, int]]] = {}
        for position in unique:
            part, rest = self.positions[position]
            if part >= 0 and self.parts[part][0] == "repeat":
                _, body, low, high = self.parts[part]
                entry = (low, float("-inf") if high is None else -high, position)
                counted.setdefault((body, rest), []).append(entry)  # type: ignore[arg-type]
        for entries in counted.values():
            unique -= _contained(entries) if len(entries) > 1 else set()
        return unique

    def accepts(self, state: int) -> bool:
        """Whether the characters so far are a member."""
        known = self._accepts.get(state)
        if known is None:
            known = self._accepts[state] = any(self.steps(position)[1] for position in self._states[state])
        return known

    def moves(self, state: int) -> Moves:
        """The next states, by disjoint sets of classes."""
        known = self._moves.get(state)
        if known is None:
            known = self._moves[state] = self._find_moves(state)
        return known

    def _find_moves(self, state: int) -> Moves:
        merged: dict[int, int] = {}
        for piece, together in self.ways_on(self._states[state]):
            if together:
                reached = self.state(together)
                merged[reached] = merged.get(reached, 0) | piece
        return tuple((piece, reached) for reached, piece in merged.items())

    def ways_on(self, positions: Iterable[int]) -> list[tuple[int, tuple[int, ...]]]:
        """The positions after one more character, by disjoint sets of classes."""
        by_mask: dict[int, list[int]] = {}
        for position in positions:
            for target, mask in self.steps(position)[0].items():
                by_mask.setdefault(mask, []).append(target)
        pieces: list[tuple[int, tuple[int, ...]]] = [(self.classes.all, ())]
        for mask, targets in by_mask.items():
            pieces = [
                (part, after)
                for piece, before in pieces
                for part, after in ((piece & mask, (*before, *targets)), (piece & ~mask, before))
                if part
            ]
            self.budget.spend(len(pieces) + len(targets))
        self.budget.spend(sum(len(together) for _, together in pieces))
        return pieces

    def overlap(self, enough: int) -> int:
        """How many positions one text may have been read up to, none dropped: found by taking the widest way.

        Looks no further than `enough`, nor on when nothing has grown for long; so it may say too little.
        """
        positions, widest, idle = frozenset(self._states[self.start]), 1, 0
        while widest < enough and idle < IDLE_STEPS:
            ways = (frozenset(together) - {END} for _, together in self.ways_on(positions))
            positions = max(ways, key=len, default=frozenset())
            idle = 0 if len(positions) > widest else idle + 1
            widest = max(widest, len(positions))
        return widest


def _contained(entries: list[tuple[int, float, int]]) -> set[int]:
    """The positions whose counts lie inside those of another one: (least, minus the most, position)."""
    dropped, most = set(), float("inf")
    for _, negative, position in sorted(entries):
        if negative < most:
            most = negative
        else:
            dropped.add(position)
    return dropped
