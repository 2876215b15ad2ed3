"""Sets of numbers as schemas describe them: exact over the rational numbers, whatever text may hold them."""

import functools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction

import attrs

ENUMERATED = 4096  # grid points that are looked at one by one


@attrs.frozen(cache_hash=True)
class NumberSet:
    """The numbers that satisfy every condition: exact, whatever text or machine type may hold them.

    A bound that is None does not exist; an open one is itself outside. Steps are positive.
    """

    integer: bool = False
    low: Fraction | None = None
    low_open: bool = False
    high: Fraction | None = None
    high_open: bool = False
    multiples_of: tuple[Fraction, ...] = ()
    excluded: frozenset[Fraction] = frozenset()
    not_multiples_of: tuple[Fraction, ...] = ()

    @property
    def is_free(self) -> bool:
        """Whether nothing is asked but the type."""
        return self in (NumberSet(), NumberSet(integer=True))

    @property
    def step(self) -> Fraction | None:
        """The numbers are among the multiples of this; None: they are dense."""
        steps = [*self.multiples_of, *([Fraction(1)] if self.integer else [])]
        return functools.reduce(common_multiple, steps) if steps else None

    def intersect(self, other: "NumberSet") -> "NumberSet":
        """The numbers of both sets."""
        low, low_open = tighter((self.low, self.low_open), (other.low, other.low_open), max)
        high, high_open = tighter((self.high, self.high_open), (other.high, other.high_open), min)
        return NumberSet(
            self.integer or other.integer,
            low,
            low_open,
            high,
            high_open,
            tuple(sorted({*self.multiples_of, *other.multiples_of})),
            self.excluded | other.excluded,
            tuple(sorted({*self.not_multiples_of, *other.not_multiples_of})),
        )

    def contains(self, number: Fraction) -> bool:
        """Whether a number is in the set."""
        return self._has(number, self.step)

    def _has(self, number: Fraction, step: Fraction | None) -> bool:
        return (
            self._in_range(number)
            and number not in self.excluded
            and (step is None or number % step == 0)
            and all(number % divisor != 0 for divisor in self.not_multiples_of)
        )

    def _in_range(self, number: Fraction) -> bool:
        above = self.low is None or self.low < number or (self.low == number and not self.low_open)
        below = self.high is None or number < self.high or (self.high == number and not self.high_open)
        return above and below

    def is_empty(self) -> bool:
        """Whether no number is in the set. True is a proof.

        False can be wrong only where thousands of more than 4096 multiples in the range are excluded.
        """
        step = self.step
        if self._grid_size(step) <= ENUMERATED:
            return not any(self._has(number, step) for number in self._grid(step))
        return step is not None and any(step % divisor == 0 for divisor in self.not_multiples_of)

    def finite(self, limit: int) -> tuple[Fraction, ...] | None:
        """The numbers in order; None: more than `limit`, or too many points to look at."""
        step = self.step
        if self._grid_size(step) > 4 * limit + len(self.excluded):
            return None
        members = tuple(number for number in self._grid(step) if self._has(number, step))
        return members if len(members) <= limit else None

    def multipliers(self, step: Fraction) -> tuple[int | None, int | None]:
        """The first and the last k with k * step between the bounds; None: no bound. Crossed: no k."""
        first, last = None, None
        if self.low is not None:
            first = self.low // step + 1 if self.low_open else -(-self.low // step)
        if self.high is not None:
            last = -(-self.high // step) - 1 if self.high_open else self.high // step
        return first, last

    def _grid_size(self, step: Fraction | None) -> float:
        """How many numbers `_grid` gives."""
        if self.low is None or self.high is None:
            return math.inf
        if step is None:
            return math.inf if self.low < self.high else self.low == self.high
        first, last = self.multipliers(step)
        return last - first + 1  # type: ignore[operator]  # both bounds exist

    def _grid(self, step: Fraction | None) -> Iterator[Fraction]:
        """The multiples of the step between the bounds, or the only number there; asked for few ones."""
        if step is None:
            return iter([self.low] if self.low is not None and self.low == self.high else [])
        first, last = self.multipliers(step)
        return (step * k for k in range(first, last + 1))  # type: ignore[arg-type,operator]

    def mirrored(self) -> "NumberSet":
        """The numbers with the other sign."""
        return attrs.evolve(
            self,
            low=None if self.high is None else -self.high,
            low_open=self.high_open,
            high=None if self.low is None else -self.low,
            high_open=self.low_open,
            excluded=frozenset(-number for number in self.excluded),
        )


Bound = tuple[Fraction | None, bool]


def tighter(one: Bound, other: Bound, choose: Callable[[Fraction, Fraction], Fraction]) -> Bound:
    """The stricter of two bounds; where they are equal an open one is."""
    if one[0] is None or other[0] is None:
        return other if one[0] is None else one
    if one[0] == other[0]:
        return one[0], one[1] or other[1]
    return one if choose(one[0], other[0]) == one[0] else other


def common_multiple(one: Fraction, other: Fraction) -> Fraction:
    """The smallest positive number that is a multiple of both."""
    return Fraction(math.lcm(one.numerator, other.numerator), math.gcd(one.denominator, other.denominator))
