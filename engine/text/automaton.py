"""Grammars as bytes: UTF-8 of character sets, and which bytes may begin, continue or follow a part.

Needed where a part is fused into one longest-match terminal: no parse is lost when no byte that may follow
the part can also continue a finished word of it. All answers err on the large side: a byte (or END, or
TOKEN) is left out only when it cannot occur. Sets are 258-bit numbers inside, frozensets outside.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise

import attrs

from engine.text.expr import (
    Alt,
    Bytes,
    Chars,
    ExcludeToken,
    Expr,
    Grammar,
    Ref,
    Repeat,
    Seq,
    Token,
    fold,
    references,
    walk,
)
from engine.text.shape import components

END = 256  # the output may end
TOKEN = 257  # a token terminal may come
EVERYTHING = frozenset(range(258))
MAX_STATES = 2000  # of a deterministic automaton, before continuing_bytes answers EVERYTHING
_UTF8_LIMITS = (0x7F, 0x7FF, 0xFFFF, 0x10FFFF)

ByteRange = tuple[int, int]


def utf8_sequences(ranges: Iterable[tuple[int, int]]) -> list[tuple[ByteRange, ...]]:
    """The UTF-8 of inclusive code point ranges as products of byte ranges, disjoint and in order."""
    sequences: list[tuple[ByteRange, ...]] = []
    stack = sorted(ranges, reverse=True)
    while stack:
        low, high = stack.pop()
        cut = next((cut for cut in _cuts(low, high)), None)
        if cut is not None:
            stack += [(cut + 1, high), (low, cut)]
            continue
        sequences.append(tuple(zip(chr(low).encode(), chr(high).encode(), strict=True)))
    return sequences


def _cuts(low: int, high: int) -> Iterable[int]:
    """Where a range must be cut so that each continuation byte is free whenever an earlier byte varies."""
    yield from (limit for limit in _UTF8_LIMITS if low <= limit < high)
    if high <= _UTF8_LIMITS[0]:
        return
    for bits in (6, 12, 18):
        mask = (1 << bits) - 1
        if low & ~mask != high & ~mask:
            if low & mask:
                yield low | mask
            if high & mask != mask:
                yield (high & ~mask) - 1


def bytes_of(bits: int) -> frozenset[int]:
    """The members of a set held as a number."""
    return frozenset(index for index in range(258) if bits >> index & 1)


def _bits(low: int, high: int) -> int:
    return (1 << (high + 1)) - (1 << low)


@attrs.frozen
class _Start:
    """How an expression may begin: the first bytes of its words, and whether the empty word is one."""

    first: int
    nullable: bool


_NO_WORD = _Start(0, False)


def first_bytes(expr: Expr) -> frozenset[int]:
    """The bytes that may begin a non-empty word of an expression without references (TOKEN for an id)."""
    return bytes_of(fold(expr, lambda node, parts: _start(node, parts, {})).first)


def _start(node: Expr, parts: list[_Start], rules: Mapping[str, _Start]) -> _Start:
    if isinstance(node, Ref):
        return rules.get(node.name, _NO_WORD)
    if isinstance(node, Bytes):
        return _Start(1 << node.data[0] if node.data else 0, not node.data)
    if isinstance(node, Chars):
        return _Start(_union(_bits(*sequence[0]) for sequence in utf8_sequences(node.ranges)), False)
    if isinstance(node, Token | ExcludeToken):
        return _Start(1 << TOKEN, False)
    if isinstance(node, Alt):
        return _Start(_union(part.first for part in parts), any(part.nullable for part in parts))
    if isinstance(node, Repeat):
        return _Start(parts[0].first, parts[0].nullable or node.min == 0)
    found = 0
    for part in parts:
        found |= part.first
        if not part.nullable:
            return _Start(found, False)
    return _Start(found, True)


def _union(sets: Iterable[int]) -> int:
    found = 0
    for bits in sets:
        found |= bits
    return found


@attrs.define
class ByteAutomaton:
    """A nondeterministic automaton over bytes: `steps[state]` lists (low, high, target); one final state."""

    steps: list[list[tuple[int, int, int]]] = attrs.field(factory=list)
    silent: list[list[int]] = attrs.field(factory=list)
    start: int = 0
    final: int = 0

    @classmethod
    def of(cls, expr: Expr) -> "ByteAutomaton":
        """Build it for an expression without references; counted repeats count as any number.

        A token terminal is one step on TOKEN. The words are a superset of the expression's.
        """
        automaton = cls()
        automaton.start, automaton.final = fold(expr, automaton._piece)
        return automaton

    def _state(self) -> int:
        self.steps.append([])
        self.silent.append([])
        return len(self.steps) - 1

    def _piece(self, node: Expr, parts: list[tuple[int, int]]) -> tuple[int, int]:
        start, end = self._state(), self._state()
        if isinstance(node, Alt | Repeat):
            for first, last in parts:
                self.silent[start].append(first)
                self.silent[last].append(end)
        if isinstance(node, Seq):
            current = start
            for first, last in parts:
                self.silent[current].append(first)
                current = last
            self.silent[current].append(end)
        elif isinstance(node, Repeat):
            self.silent[start] += [end] if node.min == 0 else []
            self.silent[parts[0][1]] += [parts[0][0]] if node.max != 1 else []
        elif isinstance(node, Bytes):
            self._path(start, end, [(byte, byte) for byte in node.data])
        elif isinstance(node, Chars):
            for sequence in utf8_sequences(node.ranges):
                self._path(start, end, sequence)
        elif isinstance(node, Token | ExcludeToken):
            self._path(start, end, [(TOKEN, TOKEN)])
        return start, end

    def _path(self, start: int, end: int, ranges: Iterable[ByteRange]) -> None:
        current = start
        for low, high in ranges:
            target = self._state()
            self.steps[current].append((low, high, target))
            current = target
        self.silent[current].append(end)

    def closure(self, states: Iterable[int]) -> frozenset[int]:
        """All states reached without reading."""
        seen, stack = set(), list(states)
        while stack:
            state = stack.pop()
            if state not in seen:
                seen.add(state)
                stack += self.silent[state]
        return frozenset(seen)

    def successors(self, states: frozenset[int]) -> Iterable[tuple[int, frozenset[int]]]:
        """The bytes that can be read as disjoint sets (numbers), each with the states it leads to."""
        moves = [move for state in states for move in self.steps[state]]
        borders = sorted({low for low, _, _ in moves} | {high + 1 for _, high, _ in moves})
        for low, after in pairwise(borders):
            targets = [target for first, last, target in moves if first <= low <= last]
            if targets:
                yield _bits(low, after - 1), self.closure(targets)


def continuing_bytes(expr: Expr) -> frozenset[int]:
    """The bytes that may make a longer word's beginning out of some finished word of an expression.

    For expressions without references. Counted repeats count as any number; past MAX_STATES: EVERYTHING.
    """
    automaton = ByteAutomaton.of(expr)
    start = automaton.closure([automaton.start])
    seen, stack, found = {start}, [start], 0
    while stack:
        states = stack.pop()
        for read, targets in automaton.successors(states):
            found |= read if automaton.final in states else 0
            if targets not in seen:
                seen.add(targets)
                stack.append(targets)
        if len(seen) > MAX_STATES:
            return EVERYTHING
    return bytes_of(found)


@attrs.frozen
class ByteSets:
    """First and following bytes over a whole grammar; END and TOKEN may be members.

    `follow` is by rule; `repeats` lists every repetition with the rule it stands in and what may follow it.
    """

    first: Mapping[str, frozenset[int]]
    follow: Mapping[str, frozenset[int]]
    repeats: tuple[tuple[str, Repeat, frozenset[int]], ...]


def follow_bytes(grammar: Grammar) -> ByteSets:
    """Which bytes may begin a rule's words, and follow a rule or a repetition, by two least fixpoints."""
    flow = _Flow(grammar)
    flow.find_starts()
    flow.find_followers()
    repeats = [
        (name, node, bytes_of(flow.after.get(id(node), 0)))
        for name, expr in grammar.rules.items()
        for node in walk(expr)
        if isinstance(node, Repeat)
    ]
    first = {name: bytes_of(start.first) for name, start in flow.starts.items()}
    follow = {name: bytes_of(bits) for name, bits in flow.follow.items()}
    return ByteSets(first, follow, tuple(repeats))


class _Flow:
    """The two fixpoints; rules are looked at again only when something they depend on has grown."""

    def __init__(self, grammar: Grammar):
        self.grammar = grammar
        self.starts = dict.fromkeys(grammar.rules, _NO_WORD)
        self.follow = dict.fromkeys(grammar.rules, 0) | {grammar.root: 1 << END}
        self.after: dict[int, int] = {}
        self.start_of: dict[int, _Start] = {}

    def find_starts(self) -> None:
        users: dict[str, list[str]] = {name: [] for name in self.grammar.rules}
        for name, expr in self.grammar.rules.items():
            for target in references(expr):
                users[target].append(name)

        def look(name: str) -> Iterable[str]:
            start = fold(self.grammar.rules[name], self.visit)
            grown = start != self.starts[name]
            self.starts[name] = start
            return users[name] if grown else ()

        _settle([name for group in components(self.grammar) for name in reversed(group)], look)

    def visit(self, node: Expr, parts: list[_Start]) -> _Start:
        start = _start(node, parts, self.starts)
        self.start_of[id(node)] = start
        return start

    def find_followers(self) -> None:
        for expr in self.grammar.rules.values():
            fold(expr, self.visit)
        order = [name for group in reversed(components(self.grammar)) for name in group]
        _settle(order, lambda name: self.spread(self.grammar.rules[name], self.follow[name]))

    def spread(self, expr: Expr, follow: int) -> list[str]:
        """Hand what follows an expression down to its parts; the rules whose followers have grown."""
        grown: list[str] = []
        stack = [(expr, follow)]
        while stack:
            node, bits = stack.pop()
            if id(node) in self.after and bits | self.after[id(node)] == self.after[id(node)]:
                continue
            self.after[id(node)] = self.after.get(id(node), 0) | bits
            if isinstance(node, Ref) and bits | self.follow[node.name] != self.follow[node.name]:
                self.follow[node.name] |= bits
                grown.append(node.name)
            elif isinstance(node, Repeat):
                again = self.start_of[id(node.body)].first if node.max != 1 else 0
                stack.append((node.body, bits | again))
            elif isinstance(node, Alt):
                stack += [(item, bits) for item in node.items]
            elif isinstance(node, Seq):
                for item in reversed(node.items):
                    stack.append((item, bits))
                    start = self.start_of[id(item)]
                    bits = start.first | (bits if start.nullable else 0)
        return grown


def _settle(order: Iterable[str], look: Callable[[str], Iterable[str]]) -> None:
    """Look at every rule in order, then again at those that `look` names, first come first served."""
    waiting = dict.fromkeys(order)
    while waiting:
        batch, waiting = waiting, {}
        for name in batch:
            waiting |= dict.fromkeys(look(name))
