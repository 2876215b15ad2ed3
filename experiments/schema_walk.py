"""One instance against one language: the token walk that gives the verdict, and the search that explains it.

The walk is the test: every token's bit must be set in the mask of its position, then an EOS bit. The search
is only asked after a refusal, or for an invalid instance: it tries member orders piece by piece on forked
walkers, within a budget, so that "refused" and "refused in this order" are told apart. `rewritten` gives the
spellings that the contract asks for instead of others.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from attrs import define, field, frozen

from experiments.schema_data import Number, quoted, write
from experiments.schema_engines import Engine, Language, Walker

Encode = Callable[[str], Sequence[int]]
INT64 = range(-(2**63), 2**63)
MAX_DIGITS = 17


@frozen
class Walk:
    """How far an instance came: `index` of the token that lost its bit, None when the whole text is a member.

    `narrow`: the mask left a token out that the matcher takes, or left it in and the matcher refuses it.
    """

    index: int | None
    narrow: bool = False


def walk(
    engine: Engine, language: Language, token_ids: Sequence[int], eos_ids: Sequence[int], times: list[float]
) -> Walk:
    """Walk the tokens, then ask for an EOS bit; `times` gets the seconds of every mask."""
    walker = language.start()
    for index, token_id in enumerate(token_ids):
        if not _opened(engine, walker, (token_id,), times):
            return Walk(index, narrow=walker.fork().accept(token_id))
        if not walker.accept(token_id):
            return Walk(index, narrow=True)
    ended = _opened(engine, walker, eos_ids, times)
    narrow = ended is not walker.may_end()
    return Walk(None, narrow) if ended else Walk(len(token_ids), narrow)


def _opened(engine: Engine, walker: Walker, token_ids: Sequence[int], times: list[float]) -> bool:
    """Whether one of the ids is in the legal set of this position."""
    begin = time.perf_counter()
    walker.fill()
    times.append(time.perf_counter() - begin)
    row = engine.row
    return any(row.item(token_id >> 5) >> (token_id & 31) & 1 for token_id in token_ids)


# --- member orders ----------------------------------------------------------------------------------------


@define
class Budget:
    """What a search may spend: pieces pushed into walkers, and seconds."""

    pushes: int
    seconds: float
    _deadline: float = field(init=False)
    spent: bool = field(init=False, default=False)

    def __attrs_post_init__(self) -> None:
        self._deadline = time.perf_counter() + self.seconds

    def take(self) -> bool:
        """Whether one more piece may be pushed."""
        self.pushes -= 1
        self.spent = self.spent or self.pushes < 0 or time.perf_counter() > self._deadline
        return not self.spent


@frozen
class _Rest:
    """What is left of an object: members in the order to try them, and whether one was written."""

    members: tuple[tuple[str, Any], ...]
    begun: bool


Agenda = Any  # (first, rest) or None; the first thing is a piece of text, a _Value or a _Rest


@frozen
class _Value:
    """A value still to be written."""

    value: Any


def accepted_in_some_order(
    language: Language, value: Any, rank: Mapping[str, int], encode: Encode, budget: Budget
) -> bool:
    """Whether the language has the value in some order of its members; False also when the budget is spent.

    Members are tried by `rank`, names without one last, as the instance has them.
    """
    stack: list[tuple[Walker, Agenda]] = [(language.start(), (_Value(value), None))]
    while stack:
        walker, agenda = stack.pop()
        walker = walker.fork()  # the others on the stack may share it
        while agenda is not None:
            head, agenda = agenda
            if isinstance(head, str):
                if not budget.take() or not _push(walker, encode(head)):
                    break
            elif isinstance(head, _Value):
                agenda = _expanded(head.value, agenda, rank)
            else:
                agenda, *others = _choices(head, agenda)
                if others:
                    here = walker.fork()
                    stack.extend((here, other) for other in reversed(others))
        else:
            if walker.may_end():
                return True
        if budget.spent:
            return False
    return False


def _push(walker: Walker, token_ids: Sequence[int]) -> bool:
    return all(walker.accept(token_id) for token_id in token_ids)


def _expanded(value: Any, then: Agenda, rank: Mapping[str, int]) -> Agenda:
    """The pieces of a value in front of `then`; an object leaves its member order open."""
    if isinstance(value, dict) and value:
        members = sorted(value.items(), key=lambda member: rank.get(member[0], len(rank)))
        return "{", (_Rest(tuple(members), begun=False), then)
    if isinstance(value, list) and value:
        agenda: Agenda = ("]", then)
        for index in reversed(range(len(value))):
            agenda = (", " if index else "["), (_Value(value[index]), agenda)
        return agenda
    return write(value), then


def _choices(rest: _Rest, then: Agenda) -> Iterator[Agenda]:
    if not rest.members:
        yield "}", then
        return
    for index, (name, value) in enumerate(rest.members):
        others = _Rest(rest.members[:index] + rest.members[index + 1 :], begun=True)
        piece = f"{', ' if rest.begun else ''}{quoted(name)}: "
        yield piece, (_Value(value), (others, then))


def declared_order(schema: Any) -> dict[str, int]:
    """Every name under `properties`, then every required one, ranked by where it first stands."""
    ranks: dict[str, int] = {}
    required: list[str] = []
    stack = [schema]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            if isinstance(names := node.get("properties"), dict):
                for name in names:
                    ranks.setdefault(name, len(ranks))
            if isinstance(names := node.get("required"), list):
                required += [name for name in names if isinstance(name, str)]
            stack.extend(reversed(list(node.values())))
        elif isinstance(node, list):
            stack.extend(reversed(node))
    for name in required:
        ranks.setdefault(name, len(ranks))
    return ranks


# --- the contract's own spellings -------------------------------------------------------------------------


def _leaves(value: Any, change: Callable[[Number], Number]) -> Any:
    if isinstance(value, Number):
        return change(value)
    if isinstance(value, dict):
        return {name: _leaves(item, change) for name, item in value.items()}
    return [_leaves(item, change) for item in value] if isinstance(value, list) else value


def _plain_integer(number: Number) -> Number:
    """1.0 and 1e2 as 1 and 100; numbers with a fraction, and integers past int64, stay."""
    if number.lstrip("-").isdigit() or abs(float(number)) > 2.0**63:
        return number
    exact = Fraction(number)
    return Number(exact.numerator) if exact.denominator == 1 and exact.numerator in INT64 else number


def _short(number: Number) -> Number:
    """A number of more than 17 significant digits as binary64 writes it."""
    digits = number.lower().split("e")[0].replace(".", "").lstrip("-0")
    if len(digits) <= MAX_DIGITS or number.lstrip("-").isdigit() or not np.isfinite(float(number)):
        return number
    return Number(repr(float(number)))


REWRITES = {
    "integral float": _plain_integer,
    "more than 17 digits": lambda number: _plain_integer(_short(number)),
}


def rewritten(value: Any) -> Iterator[tuple[str, Any]]:
    """The value in the contract's spellings, named by what was changed; nothing where nothing changes."""
    seen = {write(value)}
    for name, change in REWRITES.items():
        other = _leaves(value, change)
        if (text := write(other)) not in seen:
            seen.add(text)
            yield name, other


def out_of_range(text: str) -> str | None:
    """How a number's text is too large for the contract: an integer past int64, or not finite in binary64."""
    if not text.lstrip("-").isdigit() and not np.isfinite(float(text)):
        return "past binary64"
    number = Fraction(text)
    return "integer past int64" if number.denominator == 1 and number.numerator not in INT64 else None
