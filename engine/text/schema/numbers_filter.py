"""How multiples, and numbers that are no multiples, are written: the texts that are kept, and conditions.

Rounding must not bring a decimal into or out of a multiple. Decimals of at most 15 digits come back from
binary64 as they were; multiples that are not 64-bit integers are held to them, or to an exponent so large
that all decimals are multiples. A decimal of 16 or 17 digits that is no multiple keeps clear of every
multiple of the step's last digit by more than rounding can move it, or is smaller than the step.
"""

import functools
from fractions import Fraction

import attrs

from engine.text.expr import Expr, alt, repeat, seq
from engine.text.schema.numbers_binary64 import publishable
from engine.text.schema.numbers_digits import (
    DIGITS,
    MINUS,
    POINT,
    ZERO,
    Span,
    digit,
    digits,
    rank_at_least,
    rank_at_most,
    value_of,
)
from engine.text.schema.numbers_multiples import (
    SMALL_EXPONENTS,
    check_residues,
    multiples,
    num_residues,
    one_condition,
    scaled_step,
)
from engine.text.schema.numbers_set import NumberSet, common_multiple

INT64 = (-(2**63), 2**63 - 1)
FAITHFUL = 15  # decimals with so many digits are written again as they were
NEARBY = 12  # multiples looked at on either side
EVERY_RANK = (-(10**30), 10**30)
SIGN = repeat(MINUS, 0, 1)


@attrs.frozen
class Filter:
    """The digits of plain decimals, spans and digits of those with an exponent, conditions on all texts."""

    plain_digits: int = DIGITS
    with_exponent: tuple[tuple[Span, int], ...] = ((EVERY_RANK, DIGITS),)
    also: tuple[Expr, ...] = ()
    never: tuple[Expr, ...] = ()


def filter_of(numbers: NumberSet) -> Filter:
    """What a set's multiples and numbers that are no multiples ask of the texts. Raises LimitExceeded."""
    if numbers.integer:
        step = numbers.step
        assert step is not None
        return Filter(also=multiples(step, False) if step != 1 else (), never=_no_multiples(numbers))
    if numbers.multiples_of:
        return _multiples(numbers)
    if numbers.not_multiples_of:
        below = publishable(Fraction(0), True, min(numbers.not_multiples_of), True, ())
        near = tuple(_near_multiples(scaled_step(step)[1]) for step in numbers.not_multiples_of)
        return Filter(DIGITS, tuple((span, DIGITS) for span in below), (), (*_no_multiples(numbers), *near))
    return Filter()


def _multiples(numbers: NumberSet) -> Filter:
    """Multiples of a step that need not be integers."""
    step, never = functools.reduce(common_multiple, numbers.multiples_of), _no_multiples(numbers)
    zeros = _zeros_that_divide(step)
    also = multiples(step, large=zeros is not None and not never)
    if never or zeros is None:
        return Filter(FAITHFUL, (), also, never)
    small = EVERY_RANK[0], rank_at_least(Fraction(10) ** (SMALL_EXPONENTS + 1)) - 1
    large = rank_at_least(Fraction(10) ** (DIGITS - 1 + zeros)), EVERY_RANK[1]
    return Filter(FAITHFUL, ((small, FAITHFUL), (large, DIGITS)), also)


def _zeros_that_divide(step: Fraction) -> int | None:
    """The smallest t for which 10^t is a multiple of the step; None if there is none."""
    zeros = (zeros for zeros in range(step.numerator.bit_length() + 1) if 10**zeros % step == 0)
    return next(zeros, None)


def _no_multiples(numbers: NumberSet) -> tuple[Expr, ...]:
    """What texts must not be; of an integer only its numerator can divide it."""
    steps = [Fraction(s.numerator) if numbers.integer else s for s in numbers.not_multiples_of]
    check_residues(sum(num_residues(step) for step in steps))
    return tuple(one_condition(step) for step in steps)


def _near_multiples(scale: int) -> Expr:
    """Plain texts of more than 15 digits whose first 15 are a multiple of 10^-scale or just below one."""
    parts = []
    for whole in range(DIGITS):  # significant digits before the point
        head = seq([digit("1", "9"), digits(whole - 1, whole - 1)]) if whole else ZERO
        seen = max(FAITHFUL - whole - scale, 0)  # digits that are compared
        same = alt([repeat(ZERO, seen, seen), repeat(digit("9", "9"), seen, seen)])
        parts.append(seq([head, POINT, digits(scale, scale), same, digits(1, DIGITS)]))
    return seq([SIGN, alt(parts)])


def witness(numbers: NumberSet) -> Fraction | None:
    """A member that certainly has a text: an int64, or 15 digits near one; None: none was found.

    Looks around the bounds and the smallest numbers, at multiples of the step times powers of ten, or at what
    the powers of ten leave of a number whose multiples are denied.
    """
    anchors = [bound for bound in (numbers.low, numbers.high) if bound is not None]
    for unit in _units(numbers):
        for anchor in [*anchors, Fraction(0), Fraction(1), Fraction(-1)]:
            for k in range(anchor // unit - NEARBY, anchor // unit + NEARBY):
                if numbers.contains(k * unit) and _is_written(k * unit, numbers.integer):
                    return k * unit
    return None


def _units(numbers: NumberSet) -> list[Fraction]:
    step = numbers.step
    if step is None:
        return [min(numbers.not_multiples_of) / 10**power for power in range(1, 20)]
    return [step * 10**power for power in range(40)]


def _is_written(number: Fraction, integer: bool) -> bool:
    """Whether a member certainly has a text."""
    if number.denominator == 1 and INT64[0] <= number <= INT64[1]:
        return True
    if integer or not Fraction(1, 10**6) <= abs(number) < 10**13:
        return False
    rank = rank_at_most(abs(number))
    return rank % 10 ** (DIGITS - FAITHFUL) == 0 and value_of(rank) == abs(number)
