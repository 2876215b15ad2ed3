"""The texts that the numbers of a set are generated in, as one terminal.

Integers are plain signed 64-bit text (never `-0`); an unconstrained number is any RFC 8259 number text;
any other number is such an integer, or a decimal of at most 17 significant digits that binary64 can hold,
in the set as written and as written again after reading (numbers_binary64). Zero is `0` or `0.000`, with or
without a minus.
"""

import functools
from collections.abc import Iterable, Iterator
from fractions import Fraction

from engine.errors import EmptyLanguage, ErrorKind, RefusedConstruct
from engine.text.expr import NOTHING, Bytes, Expr, Lexeme, alt, literal, repeat, seq
from engine.text.limits import check_limit
from engine.text.schema.numbers_binary64 import LARGEST, publishable, written_again
from engine.text.schema.numbers_digits import (
    DIGIT,
    DIGITS,
    MINUS,
    POINT,
    ZERO,
    E,
    Span,
    digit,
    integers,
    plain,
    scientific,
)
from engine.text.schema.numbers_filter import Filter, filter_of, witness
from engine.text.schema.numbers_set import NumberSet, tighter

__all__ = ["NumberSet", "literal_texts", "number_language"]

INT64 = (-(2**63), 2**63 - 1)
LISTED = 64  # so few multiples are written one by one
SIGN = repeat(MINUS, 0, 1)
ANY_DIGITS = repeat(DIGIT, 1, None)
ANY_NUMBER = seq(
    [
        SIGN,
        alt([ZERO, seq([digit("1", "9"), repeat(DIGIT, 0, None)])]),
        repeat(seq([POINT, ANY_DIGITS]), 0, 1),
        repeat(seq([E, repeat(alt([Bytes(b"+"), MINUS]), 0, 1), ANY_DIGITS]), 0, 1),
    ]
)
ZERO_TEXT = seq([SIGN, ZERO, repeat(seq([POINT, repeat(ZERO, 1, DIGITS - 1)]), 0, 1)])


@functools.lru_cache(maxsize=4096)
def number_language(numbers: NumberSet) -> Lexeme:
    """The texts of a set's numbers.

    Raises EmptyLanguage where no number is in the set, RefusedConstruct where none can be published,
    LimitExceeded where too much has to be told apart.
    """
    if numbers.is_empty():
        raise EmptyLanguage(ErrorKind.UNSATISFIABLE_JSON_SCHEMA, "no number satisfies the numeric conditions")
    if numbers == NumberSet():
        return Lexeme(ANY_NUMBER)
    check_limit("number_holes", len(numbers.excluded), ErrorKind.UNSUPPORTED_JSON_SCHEMA)
    if not numbers.multiples_of and not numbers.not_multiples_of:
        return Lexeme(_body(numbers, Filter()))
    if numbers.integer:
        numbers = numbers.intersect(NumberSet(low=Fraction(INT64[0]), high=Fraction(INT64[1])))
    members = numbers.finite(LISTED)
    if members is not None:
        return Lexeme(
            _one_of(literal(text) for member in members for text in _texts(member, numbers.integer))
        )
    kept = filter_of(numbers)
    if witness(numbers) is None:
        raise _unpublishable()
    return Lexeme(_body(numbers, kept), kept.also, kept.never)


def _body(numbers: NumberSet, kept: Filter) -> Expr:
    """The texts between the bounds without the excluded numbers."""
    negative, positive = _magnitudes(numbers.mirrored(), kept), _magnitudes(numbers, kept)
    both = [part for part in positive if part in negative]
    parts = [
        *([ZERO if numbers.integer else ZERO_TEXT] if numbers.contains(Fraction(0)) else []),
        *([seq([SIGN, alt(both)])] if both else []),
        *(part for part in positive if part not in both),
        *(seq([MINUS, part]) for part in negative if part not in both),
        *([literal(str(INT64[0]))] if numbers.contains(Fraction(INT64[0])) else []),
    ]
    return _one_of(parts)


def _one_of(parts: Iterable[Expr]) -> Expr:
    found = alt([*parts])
    if found == NOTHING:
        raise _unpublishable()
    return found


def _unpublishable() -> RefusedConstruct:
    return RefusedConstruct(
        ErrorKind.UNSUPPORTED_JSON_SCHEMA,
        "no number that satisfies the numeric conditions can be published",
        allowed="signed 64-bit integers, and binary64 numbers of at most 17 significant digits",
    )


def _magnitudes(numbers: NumberSet, kept: Filter) -> list[Expr]:
    """The texts of a set's positive numbers, integers up to the largest of 64 bits; none for an empty set."""
    parts = [integers(low, high) for low, high in _integer_ranges(numbers)]
    if not numbers.integer:
        low, low_open = tighter((numbers.low, numbers.low_open), (Fraction(0), False), max)
        low_open = low_open or (low == 0 and not numbers.contains(Fraction(0)))
        assert low is not None
        for span in publishable(low, low_open, numbers.high, numbers.high_open, numbers.excluded):
            parts.append(plain(span, kept.plain_digits))
            parts += [scientific(_meet(span, other), size) for other, size in kept.with_exponent]
    return [part for part in parts if part != NOTHING]


def _meet(one: Span, other: Span) -> Span:
    return max(one[0], other[0]), min(one[1], other[1])


def _integer_ranges(numbers: NumberSet) -> Iterator[tuple[int, int]]:
    """The ranges of positive integers that are left between the bounds and the excluded ones."""
    first, last = numbers.multipliers(Fraction(1))
    low = 1 if first is None else max(first, 1)
    high = INT64[1] if last is None else min(last, INT64[1])
    for hole in sorted(int(n) for n in numbers.excluded if n.denominator == 1 and low <= n <= high):
        if low < hole:
            yield low, hole - 1
        low = hole + 1
    if low <= high:
        yield low, high


def literal_texts(decimal_text: str) -> tuple[str, ...]:
    """The spellings of one number: its own, plain int64 text, and the decimal a serializer writes."""
    if len(decimal_text) <= 15 and decimal_text.lstrip("-").isdecimal() and decimal_text != "-0":
        return decimal_text, f"{decimal_text}.0"  # binary64 holds it: long lists of integers are common
    return tuple(dict.fromkeys([decimal_text, *_texts(Fraction(decimal_text), integer=False)]))


def _texts(number: Fraction, integer: bool) -> Iterator[str]:
    """Plain int64 text and the decimal a serializer writes, as far as they are exact."""
    if number.denominator == 1 and INT64[0] <= number <= INT64[1]:
        yield str(number.numerator)
    if not integer and abs(number) <= LARGEST and written_again(float(number)) == number:
        yield repr(float(number))
