"""The number texts whose value is a multiple of a decimal step: conditions beside a body that has the form.

A step is P / 10^s. Scaled by 10^s the value is an integer, and what it leaves on division by a factor of P
is an automaton over its digits. Factors of a power of ten look at the last digits, read from the right; the
others count residues from the left, digit by digit, which makes a finite graph because the digits are few.
Coprime factors are conditions of their own: the sizes add up instead of multiplying. A factor's expression
shares its parts; as a tree it may be huge. Two of them that are equal must be one object, because caches
compare their keys part by part: `_interned` sees to it.
"""

import functools
import math
import threading
from collections.abc import Callable
from fractions import Fraction
from weakref import WeakValueDictionary

from engine.errors import ErrorKind
from engine.text.expr import EPSILON, Bytes, Chars, Expr, alt, chars, repeat, seq
from engine.text.limits import LIMITS, check_limit
from engine.text.schema.numbers_digits import DIGIT, MINUS, POINT, ZERO, E, digits, exponents

MOST_DIGITS = 19  # of a signed 64-bit integer
ENDINGS = 4096  # sequences of last digits, beside zeros at the end, that are worth looking at from the right
SMALL_EXPONENTS = -5  # of the first digit, and below: serializers write such decimals with an exponent
SIGN = repeat(MINUS, 0, 1)
ANY_INTEGER = seq([SIGN, repeat(DIGIT, 0, None)])
ZEROS = repeat(seq([POINT, repeat(ZERO, 1, None)]), 0, 1)
SOME_DIGITS = repeat(DIGIT, 1, None)
LARGE = seq([SIGN, DIGIT, repeat(seq([POINT, SOME_DIGITS]), 0, 1), E, repeat(Bytes(b"+"), 0, 1), SOME_DIGITS])
_KNOWN: WeakValueDictionary[tuple[int, ...], Expr] = WeakValueDictionary()
_LOCK = threading.Lock()


def multiples(step: Fraction, large: bool) -> tuple[Expr, ...]:
    """Conditions that a text meets, all of them, just if its value is a multiple of the step.

    For plain texts, and where last digits tell the multiples also for small decimals as d.ddde-dd; with
    `large` all texts d.ddde+dd meet them as well. Raises LimitExceeded.
    """
    scaled, scale = scaled_step(step)
    return tuple(_condition(factor, scale, large) for factor in _factors(scaled, scale))


def one_condition(step: Fraction) -> Expr:
    """The same for plain texts alone, as a single condition: for complements. Raises LimitExceeded."""
    scaled, scale = scaled_step(step)
    check_residues(num_residues(step))
    return _interned((scaled, scale), lambda: _plain(scaled, scale))


def num_residues(step: Fraction) -> int:
    """How many residues one condition for a step has to tell apart, digits after the point counted in."""
    scaled, scale = scaled_step(step)
    return _num_states(scaled, scale) // MOST_DIGITS


def _num_states(factor: int, scale: int) -> int:
    return 0 if _has_few_endings(factor) else factor * (MOST_DIGITS + scale)


def check_residues(residues: int) -> None:
    """Raise LimitExceeded when there are too many."""
    check_limit("number_residues", residues, ErrorKind.UNSUPPORTED_JSON_SCHEMA)


def scaled_step(step: Fraction) -> tuple[int, int]:
    """P and the smallest s with step = P / 10^s. Raises LimitExceeded."""
    scale = 0
    while (step * 10**scale).denominator != 1:
        scale += 1
        check_limit("number_scale", scale, ErrorKind.UNSUPPORTED_JSON_SCHEMA)
    scaled = int(step * 10**scale)
    check_limit("number_step_digits", len(str(scaled)), ErrorKind.UNSUPPORTED_JSON_SCHEMA)
    return scaled, scale


def _factors(number: int, scale: int) -> list[int]:
    """Coprime factors: what has only 2 and 5 in it, and the powers of the other primes."""
    smooth = math.gcd(number, 10 ** number.bit_length())
    found, rest, prime = [smooth], number // smooth, 3
    while rest > 1 and prime <= LIMITS["number_residues"]:
        power = math.gcd(rest, prime ** rest.bit_length())
        found += [power] if power > 1 else []
        rest //= power
        prime += 2
    check_residues(rest)
    check_residues(sum(_num_states(factor, scale) for factor in found) // MOST_DIGITS)
    together = math.prod(factor for factor in found if not _has_few_endings(factor))
    check_limit("number_modulus", together, ErrorKind.UNSUPPORTED_JSON_SCHEMA)
    return [factor for factor in found if factor > 1] or [1]


def _has_few_endings(factor: int) -> bool:
    """Whether a few sequences of last digits tell the multiples: the factor divides a small power of ten."""
    rest = factor // 10 ** (len(str(factor)) - len(str(factor).rstrip("0")))
    return any(10**size % rest == 0 and 10**size // rest <= ENDINGS for size in range(MOST_DIGITS))


def _condition(factor: int, scale: int, large: bool) -> Expr:
    """Texts whose value times 10^scale is a multiple of a factor."""
    if not _has_few_endings(factor):
        return _interned((factor, scale), lambda: _plain(factor, scale))
    return _interned((factor, scale, large), lambda: _with_exponents(factor, scale, large))


def _interned(key: tuple[int, ...], build: Callable[[], Expr]) -> Expr:
    """What was built for a key, as long as anything holds it; whoever is first if two build at once."""
    found = _KNOWN.get(key)
    if found is None:
        built = build()
        with _LOCK:
            found = _KNOWN.setdefault(key, built)
    return found


def _with_exponents(factor: int, scale: int, large: bool) -> Expr:
    small = [
        seq([_plain(factor, scale + exponent), E, exponents(exponent, exponent)])
        for exponent in range(-scale, SMALL_EXPONENTS + 1)
    ]
    return alt([_plain(factor, scale), *small, *([LARGE] if large else [])])


def _plain(factor: int, scale: int) -> Expr:
    if factor == 1:
        fraction = seq([POINT, digits(0, scale), repeat(ZERO, 0, None)])
        return seq([ANY_INTEGER, repeat(fraction, 0, 1)])
    return _by_last_digits(factor, scale) if _has_few_endings(factor) else _by_residues(factor, scale)


# From the right: the value without its last digit d is (c - d) / 10 -----------------------------------------


def _by_last_digits(factor: int, scale: int) -> Expr:
    """Texts with up to `scale` fraction digits, any more being zero, whose scaled value is a multiple."""
    ends: list[Expr] = []
    for missing in range(scale + 1):  # fraction digits that are not written: zeros
        fraction = (
            _ends_with(factor, 0, scale - missing) if missing < scale else _integer_ends_with(factor, 0)
        )
        ends.append(seq([fraction, ZEROS if missing == scale else repeat(ZERO, 0, None)]))
        factor //= math.gcd(factor, 10)
    return alt(ends)


@functools.lru_cache(maxsize=4096)
def _ends_with(factor: int, residue: int, fraction: int) -> Expr:
    """Numbers with so many fraction digits whose digits, read as an integer, leave the residue."""
    if fraction == 0:
        return seq([_integer_ends_with(factor, residue), POINT])
    groups = _without_last_digit(factor, residue)
    return alt([seq([_ends_with(*rest, fraction - 1), last]) for rest, last in groups])


@functools.lru_cache(maxsize=4096)
def _integer_ends_with(factor: int, residue: int) -> Expr:
    """Integers, or nothing for zero, that leave the residue."""
    if factor == 1:
        return ANY_INTEGER
    groups = _without_last_digit(factor, residue)
    longer = [seq([_integer_ends_with(*rest), last]) for rest, last in groups]
    return alt([*longer, *([SIGN] if residue == 0 else [])])


def _without_last_digit(factor: int, residue: int) -> list[tuple[tuple[int, int], Chars]]:
    """What the number before its last digit must leave on division by what, with the digits it holds for."""
    common = math.gcd(factor, 10)
    smaller = factor // common
    groups: dict[int, list[int]] = {}
    for last in range(residue % common, 10, common):
        before = (residue - last) // common * pow(10 // common, -1, smaller) % smaller
        groups.setdefault(before, []).append(last)
    return [((smaller, before), _digit_class(tuple(last))) for before, last in groups.items()]


@functools.lru_cache(maxsize=1024)  # all digit sets there are
def _digit_class(values: tuple[int, ...]) -> Chars:
    return chars((0x30 + value, 0x30 + value) for value in values)


# From the left: a digit takes the residue r to 10 r + d -----------------------------------------------------


def _by_residues(factor: int, scale: int) -> Expr:
    """The same for any factor, of integers with at most 19 digits."""
    fractions = _fractions(factor, scale)
    rest: list[Expr | None] = [fractions[residue] for residue in range(factor)]
    for _ in range(MOST_DIGITS):
        rest = [_next_digit(factor, residue, rest, fractions[residue]) for residue in range(factor)]
    whole = rest[0]
    assert whole is not None  # zero is a multiple
    return seq([SIGN, whole])


def _fractions(factor: int, scale: int) -> list[Expr | None]:
    """For each residue of the integer part the point and the digits, or the end, that make a multiple."""
    rest: list[Expr | None] = [repeat(ZERO, 0, None), *[None] * (factor - 1)]
    for missing in range(1, scale + 1):
        ends = [repeat(ZERO, 0, None) if r * 10**missing % factor == 0 else None for r in range(factor)]
        rest = [_next_digit(factor, residue, rest, ends[residue]) for residue in range(factor)]
    ends = [EPSILON if residue * 10**scale % factor == 0 else None for residue in range(factor)]
    pointed = [None if part is None else seq([POINT, part]) for part in rest]
    return [_either(end, part) for end, part in zip(ends, pointed, strict=True)]


def _next_digit(factor: int, residue: int, rest: list[Expr | None], other: Expr | None) -> Expr | None:
    """One more digit and what may follow it, or something else; None if there is neither."""
    groups: dict[int, list[int]] = {}
    for value in range(10):
        groups.setdefault((10 * residue + value) % factor, []).append(value)
    found = [
        seq([_digit_class(tuple(values)), part])
        for after, values in groups.items()
        if (part := rest[after]) is not None
    ]
    return _either(other, alt(found) if found else None)


def _either(one: Expr | None, other: Expr | None) -> Expr | None:
    if one is None or other is None:
        return other if one is None else one
    return repeat(other, 0, 1) if one == EPSILON else alt([one, other])
