"""Decimal texts between two bounds, as regular expressions that read each digit once.

A decimal of 17 digits has a rank: one integer that counts all of them in order of size, so that the next
decimal has the next rank. `integers` writes plain integers; `scientific` and `plain` write the decimals of a
span of ranks. A text with fewer digits stands for the decimal that zeros at its end would make.
"""

import functools
from collections.abc import Iterator
from fractions import Fraction

from engine.text.expr import NOTHING, Bytes, Chars, Expr, alt, chars, repeat, seq

DIGITS = 17  # significant digits: enough to tell every binary64 value from its neighbours
SMALLEST = 10 ** (DIGITS - 1)  # the first coefficient of a decade
DECADE = 9 * SMALLEST  # decimals with one exponent
MIN_EXPONENT = -324  # of the first digit of the smallest decimal that binary64 does not read as zero
PLAIN_FROM = -6  # the first digit of the smallest decimals that may be written without an exponent
DIGIT = Chars(((0x30, 0x39),))
ZERO, MINUS, POINT = Bytes(b"0"), Bytes(b"-"), Bytes(b".")
E = chars([(0x45, 0x45), (0x65, 0x65)])
LEADING_ZEROS = repeat(ZERO, 0, 2)  # of an exponent: some serializers write e+07

Span = tuple[int, int]  # the first and the last rank


def rank_at_most(value: Fraction) -> int:
    """The rank of the largest decimal of 17 digits that is not above a positive value."""
    exponent = _exponent(value)
    return exponent * DECADE + int(value * Fraction(10) ** (DIGITS - 1 - exponent)) - SMALLEST


def rank_at_least(value: Fraction) -> int:
    """The rank of the smallest decimal of 17 digits that is not below a positive value."""
    rank = rank_at_most(value)
    return rank if value_of(rank) == value else rank + 1


def value_of(rank: int) -> Fraction:
    """The decimal with this rank."""
    exponent, offset = divmod(rank, DECADE)
    return (offset + SMALLEST) * Fraction(10) ** (exponent - DIGITS + 1)


def _exponent(value: Fraction) -> int:
    """The power of ten of a positive value's first digit."""
    guess = len(str(value.numerator)) - len(str(value.denominator))
    return guess if value >= Fraction(10) ** guess else guess - 1


@functools.lru_cache(maxsize=4096)
def integers(low: int, high: int) -> Expr:
    """The integers of a range from 0 up, without leading zeros."""
    if low > high:
        return NOTHING
    if low == 0:
        return alt([ZERO, integers(1, high)])
    parts, shortest, longest = [], len(str(low)), len(str(high))
    if shortest == longest:
        return padded(str(low), str(high), shortest)
    if low != 10 ** (shortest - 1):
        parts.append(padded(str(low), "9" * shortest, shortest))
        shortest += 1
    if high != 10**longest - 1:
        parts.append(padded(str(10 ** (longest - 1)), str(high), longest))
        longest -= 1
    if shortest <= longest:
        parts.append(seq([digit("1", "9"), digits(shortest - 1, longest - 1)]))
    return alt(parts)


def digits(least: int, most: int) -> Expr:
    """Any `least` to `most` digits."""
    return repeat(DIGIT, max(least, 0), most)


def digit(first: str, last: str) -> Expr:
    """One digit of a range."""
    return Bytes(first.encode()) if first == last else Chars(((ord(first), ord(last)),))


@functools.lru_cache(maxsize=16384)
def padded(low: str, high: str, least: int) -> Expr:
    """Strings of `least` to len(low) digits that lie between two bounds once zeros fill them up.

    `low` and `high` have one length and are in order.
    """
    if _is_all(low, "0") and _is_all(high, "9"):
        return digits(least, len(low))
    if _is_all(high, "0"):
        return repeat(ZERO, max(least, 0), len(low))
    body = alt(
        [
            seq([digit(first, last), padded(rest_low, rest_high, least - 1)])
            for first, last, rest_low, rest_high in _blocks(low, high, 1)
        ]
    )
    return repeat(body, 0, 1) if least <= 0 and _is_all(low, "0") else body


def _blocks(low: str, high: str, at: int) -> Iterator[tuple[str, str, str, str]]:
    """Split digit strings after `at` digits: ranges of heads, each with one range of tails."""
    size = len(low) - at
    first, last, zeros, nines = low[:at], high[:at], "0" * size, "9" * size
    if first == last:
        yield first, last, low[at:], high[at:]
        return
    if low[at:] != zeros:
        yield first, first, low[at:], nines
        first = f"{int(first) + 1:0{at}}"
    if high[at:] != nines:
        yield last, last, zeros, high[at:]
        last = f"{int(last) - 1:0{at}}"
    if first <= last:
        yield first, last, zeros, nines


def _is_all(text: str, character: str) -> bool:
    return text.strip(character) == ""


def scientific(span: Span, size: int = DIGITS) -> Expr:
    """The decimals of a span with at most `size` digits as d.ddde+dd, the first digit not zero."""
    parts = [
        (_pointed(low, high, 1), exponents(first, last)) for first, last, low, high in _decades(span, size)
    ]
    return alt([seq([coefficient, E, exponent]) for coefficient, exponent in parts])


def exponents(first: int, last: int) -> Expr:
    """The exponents of a range; zero may have either sign."""
    above = [repeat(Bytes(b"+"), 0, 1), LEADING_ZEROS, integers(max(first, 0), last)]
    below = [MINUS, LEADING_ZEROS, integers(max(-last, 0), -first)]
    return alt(([seq(above)] if last >= 0 else []) + ([seq(below)] if first <= 0 else []))


def plain(span: Span, size: int = DIGITS) -> Expr:
    """The decimals of a span that are near one, of at most `size` digits, with a point and no exponent."""
    parts = []
    for first, last, low, high in _decades(span, size):
        first, last = max(first, PLAIN_FROM), min(last, size - 2)
        if first <= min(last, -1):
            zeros = repeat(ZERO, -min(last, -1) - 1, -first - 1)
            parts.append(seq([ZERO, POINT, zeros, padded(low, high, 1)]))
        if max(first, 0) == last:
            parts.append(_pointed(low, high, last + 1, must=True))
        elif max(first, 0) < last:
            parts.append(_ladder(max(first, 0), last, size))
    return alt(parts)


def _decades(span: Span, size: int) -> Iterator[tuple[int, int, str, str]]:
    """A span's decimals of at most `size` digits: ranges of exponents, each with one of coefficients."""
    unit = 10 ** (DIGITS - size)  # such decimals have ranks that it divides
    (first, low), (last, high) = (
        divmod(-(-span[0] // unit), DECADE // unit),
        divmod(span[1] // unit, DECADE // unit),
    )
    bottom, top = SMALLEST // unit, 10 * SMALLEST // unit - 1
    if first == last and low <= high:
        yield first, last, str(low + bottom), str(high + bottom)
    if first >= last:
        return
    if low != 0:
        yield first, first, str(low + bottom), str(top)
        first += 1
    if high + bottom != top:
        yield last, last, str(bottom), str(high + bottom)
        last -= 1
    if first <= last:
        yield first, last, str(bottom), str(top)


def _pointed(low: str, high: str, point: int, *, must: bool = False) -> Expr:
    """Coefficients between two bounds, a point after `point` digits; without `must` it may be left out."""
    parts = []
    for first, last, rest_low, rest_high in _blocks(low, high, point):
        fraction = seq([POINT, padded(rest_low, rest_high, 1)])
        may_end = not must and _is_all(rest_low, "0")
        parts.append(seq([padded(first, last, point), repeat(fraction, 0, 1) if may_end else fraction]))
    return alt(parts)


@functools.lru_cache(maxsize=256)
def _ladder(first: int, last: int, size: int) -> Expr:
    """All decimals of at most `size` digits with a point, the first digit at 10^first to 10^last."""
    rest = seq([POINT, digits(1, size - 1 - last)])
    for exponent in range(last - 1, first - 1, -1):
        rest = alt([seq([POINT, digits(1, size - 1 - exponent)]), seq([DIGIT, rest])])
    return seq([digit("1", "9"), digits(first, first), rest])
