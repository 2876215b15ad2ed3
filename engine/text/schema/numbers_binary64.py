"""Which decimals of 17 digits may be published: those that keep their bounds when binary64 reads them.

A reader of JSON turns a decimal into the nearest binary64 value and a writer turns that into the shortest
decimal that reads back as the same value. Both the decimal as written and the one written again must be
in the set. Reading is monotone, so each bound is tightened to the middle between two neighbouring values
(ties go to the even one), and each excluded number takes with it all that is read as the same value.
"""

import functools
import math
import sys
from collections.abc import Iterable
from fractions import Fraction

from engine.text.schema.numbers_digits import DECADE, MIN_EXPONENT, Span, rank_at_least, rank_at_most

LARGEST = sys.float_info.max
PAST_LARGEST = Fraction(2) ** 1024  # where the next value would be: what is read as infinity starts halfway


def publishable(
    low: Fraction, low_open: bool, high: Fraction | None, high_open: bool, excluded: Iterable[Fraction]
) -> list[Span]:
    """The spans of positive decimals between the bounds (0 <= low), without the excluded numbers."""
    first, last = _first(low, low_open), _last(high, high_open)
    if first is None or last is None:
        return []
    spans = []
    for start, end in sorted(_reach(number) for number in excluded if number > 0):
        if start > first:
            spans.append((first, min(start - 1, last)))
        first = max(first, end + 1)
    return [span for span in [*spans, (first, last)] if span[0] <= span[1]]


def written_again(value: float) -> Fraction:
    """The decimal a serializer writes for a binary64 value."""
    return Fraction(repr(value))


@functools.lru_cache(maxsize=4096)
def _first(low: Fraction, is_open: bool) -> int | None:
    """The rank of the smallest decimal that keeps a lower bound; None if none does."""
    if low == 0 and not is_open:
        return MIN_EXPONENT * DECADE
    value = _nearest(low)
    while value > 0 and _keeps(low, is_open, written_again(value)):
        value = math.nextafter(value, 0)
    while not (value > 0 and _keeps(low, is_open, written_again(value))):
        if value == LARGEST:
            return None
        value = math.nextafter(value, math.inf)
    tightened = _rank_from(_middle(math.nextafter(value, 0)), not _is_even(value))
    return max(tightened, _rank_from(low, is_open)) if low > 0 else tightened


@functools.lru_cache(maxsize=4096)
def _last(high: Fraction | None, is_open: bool) -> int | None:
    """The rank of the largest decimal that keeps an upper bound; None if no positive one does."""
    if high is None:
        return _rank_to(_middle(LARGEST), True)
    if high <= 0:
        return None
    value = _nearest(high)
    while value < LARGEST and _keeps(written_again(value), is_open, high):
        value = math.nextafter(value, math.inf)
    while not _keeps(written_again(value), is_open, high):
        value = math.nextafter(value, 0)
    return min(_rank_to(_middle(value), not _is_even(value)), _rank_to(high, is_open))


def _keeps(low: Fraction, is_open: bool, high: Fraction) -> bool:
    return low < high or (low == high and not is_open)


def _reach(number: Fraction) -> Span:
    """The ranks of the decimals that are a positive number or are written again as it; may be empty."""
    value = _nearest(number)
    if value == 0 or written_again(value) != number:
        return rank_at_least(number), rank_at_most(number)
    is_open = not _is_even(value)
    below, above = _middle(math.nextafter(value, 0)), _middle(value)
    return _rank_from(below, is_open), _rank_to(above, is_open)


def _rank_from(bound: Fraction, is_open: bool) -> int:
    return rank_at_most(bound) + 1 if is_open else rank_at_least(bound)


def _rank_to(bound: Fraction, is_open: bool) -> int:
    return rank_at_least(bound) - 1 if is_open else rank_at_most(bound)


def _nearest(number: Fraction) -> float:
    """The binary64 value nearest to a number, the largest one for all above it."""
    return float(number) if number <= LARGEST else LARGEST


def _middle(value: float) -> Fraction:
    """The middle between a value and the next one above."""
    above = math.nextafter(value, math.inf)
    return (Fraction(value) + (PAST_LARGEST if above == math.inf else Fraction(above))) / 2


def _is_even(value: float) -> bool:
    """Whether the last bit of the significand is zero: such a value wins the ties."""
    return value / math.ulp(value) % 2 == 0  # the quotient is the significand as an integer: exact
