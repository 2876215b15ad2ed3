"""The texts that the numbers of a set are generated in, as one terminal.

Integers are plain signed 64-bit text (never `-0`); an unconstrained number is any RFC 8259 number text;
any other number is such an integer, or a decimal of at most 17 significant digits that binary64 can hold,
in the set as written and as written again after reading (numbers_binary64). Zero is `0` or `0.000`, with or
without a minus.
"""

import functools
import math
from collections.abc import Iterator
from fractions import Fraction

from engine.errors import EmptyLanguage, ErrorKind, RefusedConstruct
from engine.text.expr import Bytes, Expr, Lexeme, alt, repeat, seq
from engine.text.schema.numbers_binary64 import publishable, written_again
from engine.text.schema.numbers_digits import (
    DIGIT,
    DIGITS,
    MINUS,
    POINT,
    ZERO,
    E,
    digit,
    integers,
    plain,
    scientific,
)
from engine.text.schema.numbers_set import NumberSet, tighter

__all__ = ["NumberSet", "literal_texts", "number_language"]

INT64 = (-(2**63), 2**63 - 1)
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

    Raises EmptyLanguage where no number is in the set, RefusedConstruct where none can be published or the
    condition cannot be written.
    """
    if numbers.is_empty():
        raise EmptyLanguage(ErrorKind.UNSATISFIABLE_JSON_SCHEMA, "no number satisfies the numeric conditions")
    if numbers == NumberSet():
        return Lexeme(ANY_NUMBER)
    if numbers.multiples_of or numbers.not_multiples_of:
        raise RefusedConstruct(ErrorKind.UNSUPPORTED_JSON_SCHEMA, "multipleOf is not served")
    negative, positive = _magnitudes(numbers.mirrored(), -INT64[0]), _magnitudes(numbers, INT64[1])
    parts = [*positive, *([seq([MINUS, alt(negative)])] if negative else [])]
    if numbers.contains(Fraction(0)):
        parts.insert(0, ZERO if numbers.integer else ZERO_TEXT)
    if not parts:
        raise RefusedConstruct(
            ErrorKind.UNSUPPORTED_JSON_SCHEMA,
            "no number that satisfies the numeric conditions can be published",
            allowed="signed 64-bit integers, and binary64 numbers of at most 17 significant digits",
        )
    return Lexeme(alt(parts))


def _magnitudes(numbers: NumberSet, largest: int) -> list[Expr]:
    """The texts of a set's positive numbers, integers up to `largest`; none for an empty set."""
    parts = [integers(low, high) for low, high in _integer_ranges(numbers, largest)]
    if not numbers.integer:
        low, low_open = tighter((numbers.low, numbers.low_open), (Fraction(0), False), max)
        low_open = low_open or (low == 0 and not numbers.contains(Fraction(0)))
        assert low is not None
        for span in publishable(low, low_open, numbers.high, numbers.high_open, numbers.excluded):
            parts += [plain(span), scientific(span)]
    return [part for part in parts if part != alt([])]


def _integer_ranges(numbers: NumberSet, largest: int) -> Iterator[tuple[int, int]]:
    """The ranges of integers from 1 to `largest` that are left between the bounds and the excluded ones."""
    first, last = numbers.multipliers(Fraction(1))
    low = 1 if first is None else max(first, 1)
    high = largest if last is None else min(last, largest)
    for hole in sorted(int(n) for n in numbers.excluded if n.denominator == 1 and low <= n <= high):
        if low < hole:
            yield low, hole - 1
        low = hole + 1
    if low <= high:
        yield low, high


def literal_texts(decimal_text: str) -> tuple[str, ...]:
    """The spellings of one number: its own, plain int64 text, and the decimal a serializer writes."""
    number, value = Fraction(decimal_text), float(decimal_text)
    texts = [decimal_text]
    if number.denominator == 1 and INT64[0] <= number <= INT64[1]:
        texts.append(str(number.numerator))
    if math.isfinite(value) and written_again(value) == number:
        texts.append(repr(value))
    return tuple(dict.fromkeys(texts))
