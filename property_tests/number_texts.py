"""Number texts for tests: full match of a lexeme, the contract as an oracle, texts around a number."""

import itertools
import math
import re
import sys
from fractions import Fraction

from engine.errors import EmptyLanguage, RefusedConstruct
from engine.text.expr import Alt, Bytes, Chars, Repeat, Seq
from engine.text.schema.numbers import number_language

F = Fraction
LARGEST = Fraction(repr(sys.float_info.max))
INT64 = (-(2**63), 2**63 - 1)
INTEGER = re.compile(r"0|-?[1-9][0-9]*")
PARTS = re.compile(r"-?([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?")


class Matcher:
    """Full match of one lexeme, by the set of positions where each part can end."""

    def __init__(self, lexeme):
        self.lexeme = lexeme

    def __call__(self, text):
        whole = [self._matches(part, text) for part in (self.lexeme.body, *self.lexeme.also)]
        return all(whole) and not any(self._matches(part, text) for part in self.lexeme.never)

    def _matches(self, expr, text):
        return len(text) in self._ends(expr, text, 0, {})

    def _ends(self, expr, text, start, seen):
        key = (id(expr), start)
        if key not in seen:
            seen[key] = self._step(expr, text, start, seen)
        return seen[key]

    def _step(self, expr, text, start, seen):
        match expr:
            case Bytes():
                return {start + len(expr.data)} if text.startswith(expr.data.decode(), start) else set()
            case Chars():
                inside = any(
                    low <= ord(c) <= high for c in text[start : start + 1] for low, high in expr.ranges
                )
                return {start + 1} if inside else set()
            case Seq():
                ends = {start}
                for item in expr.items:
                    ends = set().union(*(self._ends(item, text, end, seen) for end in ends))
                return ends
            case Alt():
                return set().union(*(self._ends(item, text, start, seen) for item in expr.items))
            case Repeat():
                return self._repeat(expr, text, start, seen)
        raise AssertionError(expr)

    def _repeat(self, expr, text, start, seen):
        ends, now = set(), {start}
        for count in range(min(len(text) + 1, math.inf if expr.max is None else expr.max) + 1):
            ends |= now if count >= expr.min else set()
            now = set().union(*(self._ends(expr.body, text, end, seen) for end in now))
        return ends


def matcher(numbers):
    """The texts of a set; a set that is refused has none."""
    try:
        return Matcher(number_language(numbers))
    except (EmptyLanguage, RefusedConstruct):
        return lambda text: False


def is_int64(text):
    return INTEGER.fullmatch(text) is not None and INT64[0] <= int(text) <= INT64[1]


def digits_of(text):
    """The significant digits of a number text, without the zeros in front."""
    whole, fraction, _ = PARTS.fullmatch(text).groups()
    return (whole + (fraction or "")).lstrip("0")


def published(numbers, text):
    """Whether a bounded number may be written so, by the contract; the form is taken for granted."""
    if is_int64(text):
        return numbers.contains(F(text))
    if numbers.integer or len(digits_of(text)) > 17 or not math.isfinite(float(text)):
        return False
    return numbers.contains(F(text)) and numbers.contains(F(repr(float(text))))


def forms(coefficient, exponent):
    """The texts of coefficient[0].coefficient[1:] times ten to the exponent."""
    mantissa = coefficient[0] + ("." + coefficient[1:] if len(coefficient) > 1 else "")
    yield f"{mantissa}e{exponent}"
    yield f"{mantissa}E{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
    yield f"{mantissa}e{'-' if exponent < 0 else ''}{abs(exponent):03d}"
    if -6 <= exponent < 0:
        yield "0." + "0" * (-exponent - 1) + coefficient
    elif 0 <= exponent <= 15:
        padded = coefficient.ljust(exponent + 1, "0")
        yield padded[: exponent + 1] + "." + (padded[exponent + 1 :] or "0")
        if len(padded) == exponent + 1 <= 17:
            yield padded


def dense(number):
    """Texts of up to 17 digits around a positive number, its binary64 neighbours and their middles."""
    value = float(min(number, LARGEST))
    values = [math.nextafter(value, 0), value, math.nextafter(value, math.inf)]
    exact = [F(v) for v in values if math.isfinite(v)]
    for point in [number, *exact, *((a + b) / 2 for a, b in itertools.pairwise(exact))]:
        yield from around(point) if point > 0 else ()


def around(point):
    exponent = len(str(int(point))) - 1 if point >= 1 else -len(str(int(1 / point)))
    scale = F(10) ** (exponent - 16)
    for coefficient in range(int(point / scale) - 2, int(point / scale) + 4):
        digits, power = str(coefficient), exponent + len(str(coefficient)) - 17
        for shorter in {digits[:17], digits[:16], digits.rstrip("0")[:17]}:
            yield from forms(shorter, power)


def ends(*bounds):
    return [F(bound) for bound in bounds]
