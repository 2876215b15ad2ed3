"""Number texts against fractions and floats: every bound from both sides, rounding, spellings, refusals."""

import math
import random
import re

import pytest

from engine.errors import EmptyLanguage, ErrorKind, LimitExceeded, RefusedConstruct
from engine.text.schema.numbers import NumberSet, literal_texts, number_language
from property_tests.number_texts import INT64, LARGEST, PARTS, F, dense, ends, is_int64, matcher, published

NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def interesting(numbers, extra):
    """Texts of both signs around everything a set mentions."""
    points = {numbers.low, numbers.high, *numbers.excluded, *extra} - {None}
    texts = {"0", "0.0", "-0.0", "0.000", "0.5", "1", "1.5", "1e5", "1e-5", "1E+16", "5e-324", "1e-324"}
    for point in points:
        texts |= set(dense(abs(point))) if point else set()
        texts |= {str(abs(int(point)) + step) for step in range(3)}
        texts |= {str(abs(abs(int(point)) - step)) for step in range(3)}
    texts |= {"-" + text for text in texts if text != "0" and not text.startswith("-")}
    return {text for text in texts if int(PARTS.fullmatch(text)[3] or 0) >= -324}


TINY_AND_HUGE = ends("5e-324", "-1e-323", "2.2250738585072014e-308", "1.7976931348623157e308", "1e16", "1e17")
SAMPLES = [*ends(0, 1, -1, 2, 10, 100, "0.1", "0.3", "-0.25", 360, "1e-5"), *TINY_AND_HUGE]
SAMPLES += ends(2**53, 2**53 + 1, INT64[0], INT64[1], 2**63)


def random_number(rng):
    kind = rng.random()
    if kind < 0.4:
        return rng.choice(SAMPLES)
    if kind < 0.6:
        return F(rng.randint(-1000, 1000), 10 ** rng.randint(0, 3))
    value = (
        rng.random() * 10.0 ** rng.randint(-20, 20) if kind < 0.8 else math.ldexp(1, rng.randint(-1074, 1023))
    )
    return F(repr(rng.choice([-1, 1]) * value))


def random_set(rng):
    one, other = sorted([random_number(rng), random_number(rng)])
    if rng.random() < 0.2 and 0 < one < LARGEST:
        other = F(repr(math.nextafter(float(one), math.inf)))
    low, high = (one if rng.random() < 0.8 else None), (other if rng.random() < 0.8 else None)
    return NumberSet(
        integer=rng.random() < 0.2,
        low=low,
        low_open=low is not None and rng.random() < 0.5,
        high=high,
        high_open=high is not None and rng.random() < 0.5,
        excluded=frozenset(random_number(rng) for _ in range(rng.choice([0, 0, 0, 1, 3]))),
    )


def judge(numbers, texts, expected):
    matches = matcher(numbers)
    wrong = [(text, matches(text)) for text in texts if matches(text) != expected(numbers, text)]
    assert not wrong, (numbers, wrong[:5])


@pytest.mark.clause("JSON-21", "JSON-22", "JSON-23", "JSON-24")
@pytest.mark.parametrize("seed", range(16))
def test_bounds_hold_as_written_and_as_written_again(seed):
    numbers = random_set(random.Random(seed))
    if not numbers.is_free:
        judge(numbers, interesting(numbers, [F(1)]), published)


@pytest.mark.clause("JSON-22")
@pytest.mark.parametrize("bound", [INT64[0], -(10**18), -10, -1, 0, 1, 9, 10, 99, 65535, 10**18, INT64[1]])
def test_integers_at_a_bound(bound):
    texts = {str(number) for number in range(bound - 12, bound + 13)}
    texts |= {text + tail for text in list(texts) for tail in ("0", ".0", "e0")} | {
        "-0",
        "00",
        "01",
        "+1",
        "",
    }
    for numbers in (
        NumberSet(integer=True, low=F(bound)),
        NumberSet(integer=True, high=F(2 * bound + 1, 2)),
        NumberSet(integer=True, low=F(bound), low_open=True, excluded=frozenset(ends(bound + 2, bound + 3))),
        NumberSet(integer=True, low=F(bound - 3), high=F(bound + 3), high_open=True),
    ):
        judge(numbers, texts, lambda numbers, text: is_int64(text) and numbers.contains(F(text)))


@pytest.mark.clause("JSON-22", "JSON-23")
def test_free_integers_and_numbers():
    integer, number = matcher(NumberSet(integer=True)), matcher(NumberSet())
    for text in ["0", "-1", str(INT64[0]), str(INT64[1])]:
        assert integer(text)
        assert number(text)
    for text in [str(INT64[0] - 1), str(INT64[1] + 1), "-0", "1.0", "1e400", "0.0", "-0.5E-07", "9" * 40]:
        assert not integer(text)
        assert number(text)
    for text in ["", "-", "00", "01", "1.", ".5", "1e", "+1", "1e+", "0x1", "Infinity", "NaN", "1 "]:
        assert not integer(text)
        assert not number(text)


@pytest.mark.clause("JSON-23")
def test_the_spellings_of_a_bounded_number():
    matches = matcher(NumberSet(low=F(0)))
    for text in [
        "0",
        "-0",
        "0.0",
        "-0.0",
        "1e5",
        "1E+05",
        "1e005",
        "1.25e-07",
        "1e0",
        "1e-0",
        "1e-00",
        "0.000001",
    ]:
        assert matches(text), text
    for text in [
        "1e0005",
        "0.0000001",
        "10e5",
        "0.5e1",
        "0e5",
        "1.e5",
        "12345678901234567.5",
        "1.12345678901234567",
    ]:
        assert not matches(text), text
    serialized = [repr(10.0**power * 1.5) for power in range(-300, 300)] + [repr(0.1 + 0.2), "1e-05", "1e+16"]
    assert all(matches(text) for text in serialized)


@pytest.mark.clause("JSON-24")
@pytest.mark.parametrize(
    "numbers, refused, taken",
    [
        (
            NumberSet(low=F(0), low_open=True),
            ["1e-324", "2.4703282292062327e-324"],
            ["2.4703282292062328e-324"],
        ),
        (
            NumberSet(high=F("0.1"), high_open=True),
            ["0.09999999999999999999", "0.1"],
            ["0.09999999999999999"],
        ),
        (NumberSet(low=F(1), low_open=True), ["1.0000000000000001"], ["1.0000000000000002"]),
        (
            NumberSet(excluded=frozenset([F(1)])),
            ["1.0", "1e0", "0.99999999999999999"],
            ["0.9999999999999999"],
        ),
        (NumberSet(high=LARGEST), ["1.7976931348623159e308"], ["1.7976931348623157e308"]),
    ],
)
def test_bounds_are_tightened_where_binary64_rounds(numbers, refused, taken):
    matches = matcher(numbers)
    assert not any(matches(text) for text in refused)
    assert all(matches(text) for text in taken)


@pytest.mark.clause("JSON-25")
@pytest.mark.parametrize(
    "numbers, error",
    [
        (NumberSet(low=F(1), high=F(0)), EmptyLanguage),
        (NumberSet(low=F(1), high=F(1), high_open=True), EmptyLanguage),
        (NumberSet(integer=True, low=F("0.2"), high=F("0.8")), EmptyLanguage),
        (NumberSet(low=F(1), high=F(1), excluded=frozenset([F(1)])), EmptyLanguage),
        (NumberSet(integer=True, not_multiples_of=(F(1),)), EmptyLanguage),
        (NumberSet(multiples_of=(F(7),), low=F(1), high=F(6)), EmptyLanguage),
        (NumberSet(multiples_of=(F(4),), not_multiples_of=(F(2),)), EmptyLanguage),
        (NumberSet(integer=True, low=F(INT64[1]), low_open=True), RefusedConstruct),
        (NumberSet(low=LARGEST, low_open=True), RefusedConstruct),
        (NumberSet(low=F("1e-400"), high=F("1e-399")), RefusedConstruct),
        (NumberSet(low=F(1, 3), high=F(1, 3)), RefusedConstruct),
        (NumberSet(multiples_of=(F(10) ** 30,), integer=True, low=F(1)), RefusedConstruct),
        (NumberSet(integer=True, multiples_of=(F(131),)), LimitExceeded),
        (NumberSet(multiples_of=(F(1, 10**40),)), LimitExceeded),
        (NumberSet(excluded=frozenset(F(k) for k in range(300))), LimitExceeded),
    ],
    ids=str,
)
def test_empty_unpublishable_and_too_large(numbers, error):
    with pytest.raises(error) as caught:
        number_language(numbers)
    unsatisfiable = caught.value.kind is ErrorKind.UNSATISFIABLE_JSON_SCHEMA
    assert unsatisfiable == (error is EmptyLanguage) == numbers.is_empty()


def random_grid_set(rng):
    """A small set with steps, whose members among the twentieths can be counted."""

    def steps():
        return tuple(
            F(rng.randint(1, 12), rng.choice([1, 1, 2, 4, 5])) for _ in range(rng.choice([0, 0, 1, 2]))
        )

    low, high = sorted([F(rng.randint(-40, 40), 4), F(rng.randint(-40, 40), 4)])
    return NumberSet(
        rng.random() < 0.5,
        low,
        rng.random() < 0.5,
        high,
        rng.random() < 0.5,
        tuple(sorted(set(steps()))),
        frozenset(F(rng.randint(-20, 20), 2) for _ in range(rng.randint(0, 4))),
        tuple(sorted(set(steps()))),
    )


@pytest.mark.clause("JSON-21")
def test_sets_against_their_definition():
    rng = random.Random(3)
    points = [F(k, 20) for k in range(-210, 211)]

    def inside(numbers, x):
        return (
            (not numbers.integer or x.denominator == 1)
            and (numbers.low < x or (numbers.low == x and not numbers.low_open))
            and (x < numbers.high or (numbers.high == x and not numbers.high_open))
            and all((x / step).denominator == 1 for step in numbers.multiples_of)
            and not any((x / step).denominator == 1 for step in numbers.not_multiples_of)
            and x not in numbers.excluded
        )

    for _ in range(150):
        one, other = random_grid_set(rng), random_grid_set(rng)
        both = one.intersect(other)
        assert [both.contains(x) for x in points] == [inside(one, x) and inside(other, x) for x in points]
        assert [one.mirrored().contains(-x) for x in points] == [inside(one, x) for x in points]
        members = one.finite(1000)
        if one.step is not None:
            assert members == tuple(x for x in points if inside(one, x))
            assert one.is_empty() == (not members)
        else:
            assert members is None or one.low == one.high


@pytest.mark.clause("JSON-22", "JSON-35")
@pytest.mark.parametrize(
    "text, texts",
    [
        ("1", ("1", "1.0")),
        ("1.50", ("1.50", "1.5")),
        ("1e2", ("1e2", "100", "100.0")),
        ("0.1", ("0.1",)),
        ("-0.0", ("-0.0", "0", "0.0")),
        ("1e-7", ("1e-7", "1e-07")),
        ("9223372036854775807", ("9223372036854775807",)),
        ("10000000000000000000000", ("10000000000000000000000", "1e+22")),
    ],
)
def test_the_spellings_of_one_number(text, texts):
    assert literal_texts(text) == texts
    assert all(NUMBER.fullmatch(spelling) and F(spelling) == F(text) for spelling in texts)
