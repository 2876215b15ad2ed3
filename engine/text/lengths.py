"""How long the members of a regular expression are, and the members of some lengths as an expression.

Lengths are in characters: the expressions are over decoded text (`Chars`, and `Bytes` that hold whole
characters), without references and token terminals. Both questions are answered from the shape alone, without
an automaton, however large the counts are.
"""

import functools
import itertools
import math

from engine.text.expr import (
    EPSILON,
    NOTHING,
    Alt,
    Bytes,
    Chars,
    Expr,
    Repeat,
    Seq,
    alt,
    chars,
    fold,
    repeat,
    seq,
)

ANY = chars([(0, 0x10FFFF)])
ANYTHING = Repeat(ANY, 0, None)
EMPTY_RANGE = (1, 0)
MOST_SPLITS = 16  # copies of a sequence, one for each way its parts can share a length
Lengths = tuple[int, int | None]


@functools.lru_cache(maxsize=4096)
def length_range(expr: Expr) -> Lengths:
    """The least and the greatest length of a member (None: unbounded); (1, 0) if there is no member."""
    return fold(expr, _lengths)


def _lengths(node: Expr, parts: list[Lengths]) -> Lengths:
    match node:
        case Bytes(data):
            return (len(data.decode()),) * 2
        case Chars(ranges):
            return (1, 1) if ranges else EMPTY_RANGE
        case Seq():
            return EMPTY_RANGE if EMPTY_RANGE in parts else _sum(parts)
        case Alt():
            some = [part for part in parts if part != EMPTY_RANGE]
            highs = [high for _, high in some]
            return (min(low for low, _ in some), _greatest(highs)) if some else EMPTY_RANGE
        case Repeat(_, minimum, maximum):
            return _repeated(parts[0], minimum, maximum)
    raise AssertionError(f"no part of a regular expression over text: {node!r}")


def _sum(parts: list[Lengths]) -> Lengths:
    highs = [high for _, high in parts]
    total = None if None in highs else sum(high for high in highs if high is not None)
    return sum(low for low, _ in parts), total


def _greatest(highs: list[int | None]) -> int | None:
    return None if None in highs else max(high for high in highs if high is not None)


def _repeated(body: Lengths, minimum: int, maximum: int | None) -> Lengths:
    if maximum == 0 or (body == EMPTY_RANGE and minimum == 0) or body == (0, 0):
        return (0, 0)
    if body == EMPTY_RANGE:
        return EMPTY_RANGE
    low, high = body
    return low * minimum, None if high is None or maximum is None else high * maximum


def of_length(expr: Expr, low: int, high: int | None) -> Expr | None:
    """The members of `low` to `high` characters; None where the shape does not tell (never wrong)."""
    shortest, longest = length_range(expr)
    if (high is not None and (low > high or shortest > high)) or (longest is not None and longest < low):
        return NOTHING
    if (shortest, longest) == EMPTY_RANGE:
        return NOTHING
    if shortest >= low and (high is None or (longest is not None and longest <= high)):
        return expr
    if isinstance(expr, Alt):
        return _every(tuple(of_length(item, low, high) for item in expr.items))
    if isinstance(expr, Seq):
        return _in_sequence(expr, low, high)
    return _in_repeat(expr, low, high) if isinstance(expr, Repeat) else None


def _every(options: tuple[Expr | None, ...]) -> Expr | None:
    known = [option for option in options if option is not None and option != NOTHING]
    return alt(known) if None not in options else None


def _in_sequence(expr: Seq, low: int, high: int | None) -> Expr | None:
    """The item of most lengths is left what the others do not take; the others, of few lengths, are split."""
    items = expr.items if high is None else _with_room(expr.items, high)
    spans = [_span(item) for item in items]
    index = spans.index(max(spans))
    others = (*items[:index], *items[index + 1 :])
    if math.prod(_span(item) for item in others) > MOST_SPLITS:
        return None
    options: list[Expr] = []
    for parts in itertools.product(*map(_by_length, others)):
        rest = sum(length for length, _ in parts)
        part = of_length(items[index], max(low - rest, 0), None if high is None else high - rest)
        exprs = [*(other for _, other in parts[:index]), part, *(other for _, other in parts[index:])]
        known = [item for item in exprs if item is not None]
        if len(known) < len(exprs):
            return None
        options += [seq(known)] if NOTHING not in known else []
    return alt(options)


def _with_room(items: tuple[Expr, ...], high: int) -> tuple[Expr, ...]:
    """The items without members that leave the others too little of `high` characters, where that is told."""
    least = [length_range(item)[0] for item in items]
    room = [high - sum(least) + own for own in least]
    return tuple(of_length(item, 0, most) or item for item, most in zip(items, room, strict=True))


def _span(expr: Expr) -> float:
    """How many lengths lie between a member's least and greatest."""
    least, most = length_range(expr)
    return math.inf if most is None else most - least + 1


def _by_length(expr: Expr) -> list[tuple[int, Expr | None]]:
    """The members of each length."""
    least, most = length_range(expr)
    assert most is not None
    return [(length, of_length(expr, length, length)) for length in range(least, most + 1)]


def _in_repeat(expr: Repeat, low: int, high: int | None) -> Expr | None:
    """A body of one length is counted; an optional body is bounded itself."""
    size, most = length_range(expr.body)
    if size == most and size > 0:
        minimum = max(expr.min, -(-low // size))
        counts = [count for count in (expr.max, None if high is None else high // size) if count is not None]
        maximum = min(counts, default=None)
        return repeat(expr.body, minimum, maximum) if maximum is None or minimum <= maximum else NOTHING
    if (expr.min, expr.max) == (0, 1):
        part = of_length(expr.body, max(low, 1), high)
        return _every((part, EPSILON if low == 0 else NOTHING))
    return None
