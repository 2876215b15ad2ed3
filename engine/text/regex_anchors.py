"""Anchors that stand anywhere in an expression, for the entry that searches (schema `pattern`).

The parser leaves a mark where an anchor stands. A reading of an expression is what it matches if those
anchors hold, by whether one asks for the text's start and whether one asks for its end: before the start and
after the end nothing may be matched, so what stands there is the empty string or the reading falls away.
"""

from collections.abc import Iterable
from itertools import product

from engine.text.expr import EPSILON, NOTHING, Alt, Expr, Ref, Repeat, Seq, alt, fold, seq, walk
from engine.text.lengths import length_range

START, END = Ref("^"), Ref("$")  # marks; no expression has a rule of these names
MOST_ANCHORS = 32  # inside one expression: each can double what is written for a sequence of optional parts
Anchors = tuple[bool, bool]
Readings = dict[Anchors, Expr]
NOWHERE: Anchors = (False, False)


def has_anchors(expr: Expr) -> bool:
    """Whether an anchor stands inside."""
    return any(node in (START, END) for node in walk(expr))


def readings(expr: Expr) -> Readings:
    """The language of an expression without marks, by the ends of the text it must touch.

    What repeats holds no anchor, unless it is optional.
    """
    return fold(expr, _readings)


def _readings(node: Expr, parts: list[Readings]) -> Readings:
    match node:
        case Ref():
            return {(node == START, node == END): EPSILON}
        case Seq():
            found: Readings = {NOWHERE: EPSILON}
            for part in parts:
                found = _followed(found, part)
            return found
        case Alt():
            return _gathered(pair for part in parts for pair in part.items())
        case Repeat(body, low, high):
            if parts[0] == {NOWHERE: body}:
                return {NOWHERE: node}
            assert (low, high) == (0, 1), "the parser lets nothing else repeat an anchor"
            return _gathered([(NOWHERE, EPSILON), *parts[0].items()])
    return {NOWHERE: node}


def _followed(first: Readings, second: Readings) -> Readings:
    """One after the other: nothing before what stands at the start, nothing after what stands at the end."""
    found = []
    for (one, before), (other, after) in product(first.items(), second.items()):
        before = _empty_part(before) if other[0] else before
        after = _empty_part(after) if one[1] else after
        found.append(((one[0] or other[0], one[1] or other[1]), seq([before, after])))
    return _gathered(found)


def _empty_part(expr: Expr) -> Expr:
    """The empty string where it is a member."""
    return EPSILON if length_range(expr)[0] == 0 else NOTHING


def _gathered(pairs: Iterable[tuple[Anchors, Expr]]) -> Readings:
    by_anchors: dict[Anchors, list[Expr]] = {}
    for anchors, expr in pairs:
        if expr != NOTHING:
            by_anchors.setdefault(anchors, []).append(expr)
    return {anchors: alt(exprs) for anchors, exprs in by_anchors.items()}
