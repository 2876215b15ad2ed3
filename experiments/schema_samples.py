"""Sample members of a JSON grammar: seeded random walks over its rules that always end (short ones first).

Every rule has a least cost, so a walk knows what must still come and spends only what is left of its budget.
A terminal with further conditions is drawn again until it meets them, then asked of the automaton. Names that
an object has already are not drawn again. Walks never choose white space.
"""

import random
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

import attrs

from engine.errors import LimitExceeded
from engine.text import automaton
from engine.text.expr import Alt, Bytes, Chars, Expr, Grammar, Lexeme, Ref, Repeat, Seq, fold
from engine.text.lengths import length_range
from engine.text.schema.lower.layout import LONGEST_RUN, SPACE

WHITE_SPACE = Repeat(SPACE, 0, LONGEST_RUN)
INFINITE = 10**9
BUDGETS = (0, 40, 160)  # characters beyond the shortest member
WALKS = 6  # of which the longest new one is kept
TRIES = 60  # draws of one terminal
MORE = 8  # characters that a terminal may take beyond its shortest member
REPEATS = 3  # rounds beyond the least that a repetition may take
COLONS = (":", ": ")
READABLE = ((0x61, 0x7A), (0x30, 0x39), (0x41, 0x5A), (0x20, 0x7E))


@attrs.frozen
class NoSample(Exception):
    """No member was found in time: a terminal's conditions are too hard to meet by drawing."""


def samples(grammar: Grammar, seed: int = 0, budgets: tuple[int, ...] = BUDGETS) -> list[str]:
    """Different members of a JSON grammar, the shortest first; fewer than budgets where there are few."""
    walker = _Walker(grammar, random.Random(seed))
    found: dict[str, None] = {}
    for budget in budgets:
        walks = list(islice(_walks(walker, budget), WALKS if budget else 1))
        new = [text for text in walks if text not in found]
        if new:
            found[max(new, key=len)] = None
    return sorted(found, key=len)


def _walks(walker: "_Walker", budget: int) -> Iterator[str]:
    for _ in range(2 * WALKS):
        with suppress(NoSample):
            yield walker.text(budget)


class _Walker:
    """Walks over the rules of one grammar."""

    def __init__(self, grammar: Grammar, rng: random.Random) -> None:
        self._grammar = grammar
        self._rng = rng
        self._costs = self._costs_of_rules()
        self._least: dict[int, int] = {}  # by the identity of expressions, which the grammar keeps

    def _costs_of_rules(self) -> dict[str, int]:
        """The least cost of each rule: its shortest text, and one for each rule on the way."""
        costs = dict.fromkeys(self._grammar.rules, INFINITE)
        changed = True
        while changed:
            changed = False
            for name in reversed(self._grammar.rules):
                cost = _cost(self._grammar.rules[name], costs)
                if cost < costs[name]:
                    costs[name], changed = cost, True
        return costs

    def _cost(self, expr: Expr) -> int:
        known = self._least.get(id(expr))
        if known is None:
            known = self._least[id(expr)] = _cost(expr, self._costs)
        return known

    def text(self, budget: int) -> str:
        """One member. Raises NoSample."""
        writer = _Writer()
        stack: list[Expr] = [Ref(self._grammar.root)]
        slack = budget
        while stack:
            node = stack.pop()
            match node:
                case Ref(name):
                    stack.append(self._grammar.rules[name])
                case Seq(items):
                    stack += reversed(items)
                case Alt(items):
                    chosen, spent = self._choose(items, slack)
                    stack.append(chosen)
                    slack -= spent
                case Bytes() | Chars():  # of a whole value that is listed
                    writer.parts.append(self._regular(node, 0))
                case Repeat(body, low, high) if node != WHITE_SPACE:
                    cost = max(1, self._cost(body))
                    more = self._more(low, high, slack // cost)
                    stack += [body] * (low + more)
                    slack -= more * cost
                case Lexeme():
                    follows = stack[-1] if stack else None
                    text = self._draw(node, slack, writer.used_names(follows))
                    slack -= len(text) - self._cost(node)
                    writer.add(text)
        return "".join(writer.parts)

    def _choose(self, options: tuple[Expr, ...], slack: int) -> tuple[Expr, int]:
        """An option that can be afforded, and what it costs beyond the cheapest."""
        costs = [self._cost(option) for option in options]
        least = min(costs)
        open_ones = [
            (o, c - least) for o, c in zip(options, costs, strict=True) if c - least <= max(slack, 0)
        ]
        return self._rng.choice(open_ones)

    def _more(self, low: int, high: int | None, affordable: int) -> int:
        most = min(REPEATS, affordable, INFINITE if high is None else high - low)
        return self._rng.randint(0, most) if most > 0 else 0

    def _draw(self, lexeme: Lexeme, slack: int, taken: set[str] | None) -> str:
        """A member of a terminal that is not taken, and is from now on. Raises NoSample."""
        taken = set() if taken is None else taken
        for attempt in range(TRIES):
            text = self._regular(lexeme.body, min(MORE, max(slack, attempt // 4)))
            if text not in taken and _meets(lexeme, text):
                break
        else:
            text = _shortest(lexeme)
            if text in taken:
                raise NoSample
        taken.add(text)
        return text

    def _regular(self, body: Expr, slack: int) -> str:
        parts: list[str] = []
        stack = [body]
        while stack:
            node = stack.pop()
            match node:
                case Bytes(data):
                    parts.append(data.decode())
                case Chars():
                    parts.append(self._character(node))
                case Seq(items):
                    stack += reversed(items)
                case Alt(items):
                    plain = [item for item in items if isinstance(item, Chars) and _readable(item)]
                    chosen, spent = self._choose(tuple(plain) or items, slack)
                    stack.append(chosen)
                    slack -= spent
                case Repeat(part, low, high) if node != WHITE_SPACE:
                    cost = max(1, self._cost(part))
                    most = min(slack // cost, INFINITE if high is None else high - low)
                    more = self._rng.randint(0, most) if most > 0 else 0
                    stack += [part] * (low + more)
                    slack -= more * cost
        return "".join(parts)

    def _character(self, characters: Chars) -> str:
        low, high = self._rng.choice(_readable(characters) or list(characters.ranges))
        return chr(self._rng.randint(low, high))


def _cost(expr: Expr, costs: dict[str, int]) -> int:
    return fold(expr, lambda node, parts: _least(node, parts, costs))


def _least(node: Expr, parts: list[int], costs: dict[str, int]) -> int:
    match node:
        case Bytes(data):
            return len(data)
        case Seq():
            return min(INFINITE, sum(parts))
        case Alt():
            return min(parts, default=INFINITE)
        case Repeat(_, low, _):
            return min(INFINITE, low * parts[0]) if low else 0
        case Ref(name):
            return min(INFINITE, costs[name] + 1)
        case Lexeme(body):
            return max(1, length_range(body)[0])
    return 1


def _readable(characters: Chars) -> list[tuple[int, int]]:
    """The letters of a class; else its digits, and so on; empty for none that every terminal shows."""
    for first, last in READABLE:
        found = [(max(low, first), min(high, last)) for low, high in characters.ranges]
        kept = [pair for pair in found if pair[0] <= pair[1]]
        if kept:
            return kept
    return []


def _meets(lexeme: Lexeme, text: str) -> bool:
    inside = all(automaton.matches(part, text) for part in lexeme.also)
    return inside and not any(automaton.matches(part, text) for part in lexeme.never)


def _shortest(lexeme: Lexeme) -> str:
    """A shortest member. Raises NoSample."""
    try:
        found = automaton.shortest_member((lexeme.body, *lexeme.also), lexeme.never)
    except LimitExceeded:
        found = None
    if found is None:
        raise NoSample
    return found


class _Writer:
    """The text so far, and the names of each open object."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self._open: list[set[str]] = []

    def used_names(self, follows: Expr | None) -> set[str] | None:
        """The names of the innermost object where a colon makes the next terminal a name; else None."""
        is_name = isinstance(follows, Lexeme) and any(automaton.matches(follows.body, c) for c in COLONS)
        return self._open[-1] if is_name else None

    def add(self, text: str) -> None:
        """Add a terminal's text."""
        if text == "{":
            self._open.append(set())
        elif text == "}":
            self._open.pop()
        self.parts.append(text)
