"""Exact questions about strings that are members of every `also` and of no `never`, with length bounds.

All are regular expressions over decoded text; lengths count code points. The answer is searched in the
product of their deterministic states, which are made on demand; lengths that the shape of an expression tells
need no states, and a plain length needs no automaton at all. Equal questions are answered once. Static limits
bound every search: LimitExceeded (kind unsupported_json_schema), never a guess.
"""

import functools
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

import attrs

from engine.errors import LimitExceeded
from engine.text.automaton_states import DEAD, KIND, Budget, Classes, Machine
from engine.text.expr import NOTHING, Expr, Repeat, alt, fold, repeat, walk
from engine.text.lengths import ANY, ANYTHING, EMPTY_RANGE, length_range, of_length
from engine.text.limits import LIMITS, check_limit

__all__ = [
    "check_overlap",
    "every_prefix_stays_open",
    "is_empty",
    "length_range",
    "matches",
    "members",
    "shortest_member",
]

Exprs = tuple[Expr, ...]
Node = tuple[int, ...]  # a state of every machine: those of `also` in order, then that of `never`
PREFERRED = [(0x61, 0x7A), (0x30, 0x39), (0x41, 0x5A), (0x21, 0x7E), (0x20, 0x20)]
SMALL_STATES, SMALL_WORK = 500, 10_000  # what is spent on a question that may stay open
MANY_NODES = 500  # how far `members` counts before it asks which nodes lead to a member

_one_at_a_time = threading.Lock()  # for machines that outlive a question
P = ParamSpec("P")
T = TypeVar("T")


def cached(function: Callable[P, T]) -> Callable[P, T]:
    """Keep answers, and also that a question passes a limit: that is what takes long to find."""

    @functools.lru_cache(maxsize=4096)
    def outcome(*args: P.args, **kwargs: P.kwargs) -> T | LimitExceeded:
        try:
            return function(*args, **kwargs)
        except LimitExceeded as error:
            return error.with_traceback(None)

    @functools.wraps(function)
    def answer(*args: P.args, **kwargs: P.kwargs) -> T:
        found = outcome(*args, **kwargs)  # type: ignore[arg-type]
        if isinstance(found, LimitExceeded):
            raise attrs.evolve(found)
        return found

    answer.cache_clear = outcome.cache_clear  # type: ignore[attr-defined]
    return answer


@attrs.frozen
class _Question:
    """The expressions of a question after what the shape tells, or the answer that nothing is left."""

    also: Exprs
    never: Exprs
    impossible: bool = False


@cached
def _question(also: Exprs, never: Exprs, min_length: int, max_length: int | None) -> _Question:
    """Lengths are put into an expression where one takes them, else they are one more expression."""
    nothing = _Question((), (), impossible=True)
    if max_length is not None and min_length > max_length:
        return nothing
    if any(length_range(expr) == EMPTY_RANGE for expr in also):
        return nothing
    also = tuple(dict.fromkeys(expr for expr in also if expr != ANYTHING))
    never = tuple(dict.fromkeys(expr for expr in never if _lengths_meet(expr, min_length, max_length)))
    for index, expr in enumerate(also):
        bounded = of_length(expr, min_length, max_length)
        if bounded is not None:
            also = (*also[:index], bounded, *also[index + 1 :])
            return nothing if bounded == NOTHING else _Question(also, never)
    if (min_length, max_length) != (0, None):
        if also or never:
            check_limit("automaton_length", max(min_length, max_length or 0), KIND)
        also = (*also, repeat(ANY, min_length, max_length))
    return _Question(also, never)


def _lengths_meet(expr: Expr, min_length: int, max_length: int | None) -> bool:
    low, high = length_range(expr)
    fits = (low, high) != EMPTY_RANGE and (max_length is None or low <= max_length)
    return fits and (high is None or high >= min_length)


@cached
def is_empty(also: Exprs, never: Exprs, min_length: int = 0, max_length: int | None = None) -> bool:
    """Whether no string answers the question. Raises LimitExceeded."""
    question = _question(also, never, min_length, max_length)
    if question.impossible or (not question.never and len(question.also) <= 1):
        return question.impossible  # one expression with a length range has a member
    if _outgrows(question):
        return False
    return _Product(question).shortest() is None


@cached
def is_plainly_empty(also: Exprs, never: Exprs) -> bool:
    """Whether no string answers the question and a small search shows it; False may mean either."""
    question = _question(also, never, 0, None)
    budget = Budget(LIMITS["automaton_states"] - SMALL_STATES, LIMITS["automaton_work"] - SMALL_WORK)
    try:
        return question.impossible or (
            not _outgrows(question) and _Product(question, budget).shortest() is None
        )
    except LimitExceeded:
        return False


@cached
def shortest_member(
    also: Exprs, never: Exprs, min_length: int = 0, max_length: int | None = None
) -> str | None:
    """A shortest string that answers the question, of letters and digits where it can be; None if none does.

    Raises LimitExceeded.
    """
    question = _question(also, never, min_length, max_length)
    return None if question.impossible else _Product(question).shortest()


@cached
def members(
    also: Exprs, never: Exprs, min_length: int = 0, max_length: int | None = None, limit: int = 256
) -> tuple[str, ...] | None:
    """All strings that answer the question, by length and code points; None for more than `limit`.

    Raises LimitExceeded.
    """
    question = _question(also, never, min_length, max_length)
    return () if question.impossible else _Product(question).members(limit)


@cached
def every_prefix_stays_open(
    also: Exprs, never: Exprs, min_length: int = 0, max_length: int | None = None
) -> bool:
    """Whether there is a member, and every beginning of a member begins infinitely many members.

    Raises LimitExceeded.
    """
    question = _question(also, never, min_length, max_length)
    if question.impossible or any(length_range(expr)[1] is not None for expr in question.also):
        return False
    return _outgrows(question) or _Product(question).every_prefix_stays_open()


def _outgrows(question: _Question) -> bool:
    """Whether only lengths are asked for, and they go past every string of `never`."""
    longest = [length_range(expr)[1] for expr in question.never]
    most = max((high for high in longest if high is not None), default=0)
    return None not in longest and all(
        isinstance(expr, Repeat) and expr.body == ANY and (expr.max is None or expr.max > most)
        for expr in question.also
    )


def matches(expr: Expr, text: str) -> bool:
    """Whether the whole text is a member; text with a surrogate never is. Raises LimitExceeded."""
    machine = _machine(expr)
    with _one_at_a_time:
        machine.budget.work = 0
        state = machine.start
        for character in text:
            code = machine.classes.of_code(ord(character))
            state = next((target for mask, target in machine.moves(state) if mask & code), DEAD)
            if state == DEAD:
                return False
        return machine.accepts(state)


@cached
def check_overlap(expr: Expr) -> None:
    """Refuse an expression of which one text has many readings open at once, at different counts.

    A lexer by derivatives keeps them all, in every state. Raises LimitExceeded where many are found; cheap
    where no counts could make as many.
    """
    enough = LIMITS["string_overlap"] + 1
    if fold(expr, _count_product) >= enough and sum(isinstance(node, Repeat) for node in walk(expr)) > 1:
        with _one_at_a_time:
            readings = _machine(expr).overlap(enough)
        check_limit("string_overlap", readings, KIND)


def _count_product(node: Expr, parts: list[int]) -> int:
    """The counts of repetitions inside each other, multiplied."""
    most = max(parts, default=1)
    return most * max(node.min if node.max is None else node.max, 1) if isinstance(node, Repeat) else most


@functools.lru_cache(maxsize=512)
def _machine(expr: Expr) -> Machine:
    """The states of an expression, kept for the next text; to be used under the lock."""
    return Machine(expr, Classes([expr]), Budget())


class _Product:
    """The strings of a question as a graph: a node is a state of every machine."""

    def __init__(self, question: _Question, budget: Budget | None = None) -> None:
        self.budget = budget or Budget()
        self.classes = Classes([*question.also, *question.never])
        never = alt(question.never)
        self.also = [Machine(expr, self.classes, self.budget) for expr in question.also]
        self.never = Machine(never, self.classes, self.budget)
        self.start: Node = (*(machine.start for machine in self.also), self.never.start)

    def accepts(self, node: Node) -> bool:
        """Whether the characters that lead to a node make a member."""
        inside = all(machine.accepts(state) for machine, state in zip(self.also, node, strict=False))
        return inside and not self.never.accepts(node[-1])

    def moves(self, node: Node) -> dict[Node, int]:
        """The next nodes that may lead to a member, each with its classes of characters."""
        found: list[tuple[int, Node]] = [(self.classes.all, ())]
        for machine, state in zip(self.also, node, strict=False):
            found = [
                (mask & part, (*begun, target))
                for mask, begun in found
                for part, target in machine.moves(state)
                if mask & part
            ]
        self.budget.spend(2 * len(self.also) + len(found))
        moves: dict[Node, int] = {}
        for mask, begun in found:
            for part, target in self._outside(mask, node[-1]):
                moves[(*begun, target)] = moves.get((*begun, target), 0) | part
        return moves

    def _outside(self, mask: int, state: int) -> Iterator[tuple[int, int]]:
        """How `never` goes on with the classes of `mask`, without what can only be refused."""
        for part, target in self.never.moves(state):
            if mask & part and target != self.never.universal:
                yield mask & part, target
            mask &= ~part
        if mask:
            yield mask, DEAD

    def shortest(self) -> str | None:
        """A shortest member; None if there is none."""
        came: dict[Node, tuple[Node, int] | None] = {self.start: None}
        queue = deque([self.start])
        while queue:
            node = queue.popleft()
            if self.accepts(node):
                return self._word_to(node, came)
            for target, mask in self.moves(node).items():
                if target not in came:
                    self.budget.new_state()
                    came[target] = (node, mask)
                    queue.append(target)
        return None

    def _word_to(self, node: Node, came: dict[Node, tuple[Node, int] | None]) -> str:
        letters = []
        while (step := came[node]) is not None:
            node, mask = step
            letters.append(_preferred(self.classes.ranges_of(mask)))
        return "".join(reversed(letters))

    @functools.cached_property
    def live(self) -> dict[Node, dict[Node, int]]:
        """The nodes that lead to a member, each with its moves to such nodes."""
        graph: dict[Node, dict[Node, int]] = {}
        waiting = [self.start]
        while waiting:
            node = waiting.pop()
            if node not in graph:
                self.budget.new_state()
                graph[node] = self.moves(node)
                waiting += graph[node]
        back: dict[Node, list[Node]] = {}
        for node, moves in graph.items():
            for target in moves:
                back.setdefault(target, []).append(node)
        alive = _reached([node for node in graph if self.accepts(node)], lambda node: back.get(node, []))
        return {node: {t: m for t, m in graph[node].items() if t in alive} for node in graph if node in alive}

    def in_order(self) -> tuple[list[Node], set[Node]]:
        """The live nodes from which only finitely many members begin, later ones first; and all others."""
        missing = {node: len(moves) for node, moves in self.live.items()}
        back: dict[Node, list[Node]] = {}
        for node, moves in self.live.items():
            for target in moves:
                back.setdefault(target, []).append(node)
        finite = [node for node, count in missing.items() if count == 0]
        for node in finite:  # grows while it is read
            for before in back.get(node, ()):
                missing[before] -= 1
                if missing[before] == 0:
                    finite.append(before)
        return finite, self.live.keys() - set(finite)

    def every_prefix_stays_open(self) -> bool:
        """Whether there is a live node and a live cycle can be reached from every one."""
        finite, _ = self.in_order()
        return bool(self.live) and not finite

    def members(self, limit: int) -> tuple[str, ...] | None:
        """All members if there are at most `limit`."""
        if self._more_than(limit):
            return None
        _, infinite = self.in_order()
        if infinite:
            return None
        counts: dict[Node, int] = {}
        for node in self.in_order()[0]:
            ahead = sum(counts[target] * self._size(mask) for target, mask in self.live[node].items())
            counts[node] = ahead + self.accepts(node)
        if counts.get(self.start, 0) > limit:
            return None
        return tuple(sorted(self._words(), key=lambda word: (len(word), word)))

    def _words(self) -> Iterator[str]:
        """Every member; there are finitely many."""
        waiting = [(self.start, "")] if self.start in self.live else []
        while waiting:
            node, word = waiting.pop()
            if self.accepts(node):
                yield word
            for target, mask in self.live[node].items():
                for low, high in self.classes.ranges_of(mask):
                    waiting += [(target, word + chr(code)) for code in range(low, high + 1)]

    def _size(self, mask: int) -> int:
        return sum(high - low + 1 for low, high in self.classes.ranges_of(mask))

    def _more_than(self, limit: int) -> bool:
        """Whether the shorter members alone are more than `limit`; a quick way to say so."""
        layer, found, looked_at = {self.start: 1}, 0, 0
        while looked_at < MANY_NODES:
            looked_at += len(layer)
            found += sum(count for node, count in layer.items() if self.accepts(node))
            if found > limit or not layer:
                return found > limit
            ahead: dict[Node, int] = {}
            for node, count in layer.items():
                for target, mask in self.moves(node).items():
                    ahead[target] = ahead.get(target, 0) + count * self._size(mask)
            layer = ahead
        return False


def _reached(starts: list[Node], follow: Callable[[Node], list[Node]]) -> set[Node]:
    seen = set(starts)
    waiting = list(starts)
    while waiting:
        new = [node for node in follow(waiting.pop()) if node not in seen]
        seen.update(new)
        waiting += new
    return seen


def _preferred(ranges: list[tuple[int, int]]) -> str:
    """A character of the ranges that is pleasant to read, if there is one."""
    for low, high in PREFERRED:
        for first, last in ranges:
            if max(low, first) <= min(high, last):
                return chr(max(low, first))
    return chr(ranges[0][0])
