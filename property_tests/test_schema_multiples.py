"""Multiples, and numbers that are no multiples: number texts against fractions, and in the core."""

import random

import pytest

from engine.text.cores.llguidance_core import LlguidanceCore
from engine.text.expr import Bytes, Grammar, Lexeme, Seq
from engine.text.schema.numbers import NumberSet, number_language
from engine.text.vocabulary import toy_vocabulary
from property_tests.number_texts import F, digits_of, ends, forms, is_int64, matcher, published


def is_faithful(text):
    """Plain texts that a filtered set must have when it has their value: int64, or 15 digits near one."""
    if is_int64(text):
        return True
    plain = "e" not in text.lower() and "." in text
    return plain and len(digits_of(text)) <= 15 and (F(text) == 0 or F(1, 10**4) <= abs(F(text)) < 10**14)


def judge_filter(numbers, texts):
    """Nothing outside the set, and everything inside that is written in few digits."""
    matches = matcher(numbers)
    outside = [text for text in texts if matches(text) and not published(numbers, text)]
    missing = [
        text
        for text in texts
        if is_faithful(text) and published(numbers, text) and text != "-0" and not matches(text)
    ]
    assert not outside, (numbers, outside[:5])
    assert not missing or numbers.finite(64) is not None, (numbers, missing[:5])


WHOLE_STEPS = ends(1, 2, 3, 5, 7, 8, 10, 11, 12, 25, 60, 77, 100, 1000)
STEPS = [*WHOLE_STEPS, *ends("0.5", "0.25", "2.5", "0.01", "0.1", "0.0001", "12.5", "0.3", "1e-8")]


def texts_near_multiples(step):
    rng = random.Random(str(step))
    texts = set(rng.sample(sorted({*multiples_and_others(step, rng)}), 90))
    texts |= {"0", "0.0", "1e+16", "1e22", "1e300", "1.5e-5", "1e-05"}
    return texts | {"-" + text for text in texts}


def multiples_and_others(step, rng):
    """Texts of multiples, of numbers just beside them, and of any numbers, in all forms."""
    for _ in range(4):
        factor = rng.randint(0, 10 ** rng.randint(0, 12))
        for number in (factor * step, factor * step + F(1, 10 ** rng.randint(0, 10)), factor * step / 3):
            yield from forms_near(number, rng)


def forms_near(number, rng):
    yield str(int(number))
    value = float(number)
    if value > 0:
        yield repr(value)
        for size in rng.sample(range(17), 3):
            mantissa, exponent = f"{value:.{size}e}".split("e")
            yield from forms(mantissa.replace(".", ""), int(exponent))


@pytest.mark.clause("JSON-21", "JSON-24")
@pytest.mark.parametrize("step", STEPS, ids=str)
def test_multiples_are_exact(step):
    texts = texts_near_multiples(step)
    judge_filter(NumberSet(multiples_of=(step,)), texts)
    judge_filter(NumberSet(integer=True, multiples_of=(step,)), texts)
    judge_filter(NumberSet(multiples_of=(step,), low=F(7), high=F("1234.5"), high_open=True), texts)


@pytest.mark.clause("JSON-21", "JSON-24")
@pytest.mark.parametrize("step", [step for step in STEPS if step < 20], ids=str)
def test_what_is_no_multiple_is_exact(step):
    texts = texts_near_multiples(step)
    judge_filter(NumberSet(not_multiples_of=(step,)), texts)
    judge_filter(NumberSet(not_multiples_of=(step,), low=F("-7.25"), excluded=frozenset([F("0.75")])), texts)
    judge_filter(NumberSet(integer=True, not_multiples_of=(step,)), texts)
    judge_filter(NumberSet(multiples_of=(step,), not_multiples_of=(2 * step,)), texts)


@pytest.mark.clause("JSON-21")
@pytest.mark.parametrize("step", ends(7, 64, "0.25", "0.00003"), ids=str)
def test_equal_conditions_are_one_object(step):
    numbers = NumberSet(multiples_of=(step,))
    first = number_language(numbers)
    number_language.cache_clear()
    again = number_language(numbers)
    assert first is not again
    assert first.also
    assert all(one is other for one, other in zip(first.also, again.also, strict=True))


@pytest.mark.clause("JSON-21", "JSON-24")
@pytest.mark.parametrize("step", ends(7, 11, "0.25", "0.3"), ids=str)
def test_the_core_reads_multiples_as_the_oracle_does(step):
    vocabulary = toy_vocabulary(alphabet="0123456789.eE+-,", merges=())
    ids = {vocabulary.core_bytes(token).decode(): token for token in range(len("0123456789.eE+-,"))}
    rng = random.Random(5)
    texts = rng.sample(sorted(texts_near_multiples(step)), 60)
    for numbers in (NumberSet(multiples_of=(step,)), NumberSet(low=F(1), not_multiples_of=(step,))):
        lexeme = number_language(numbers)
        compiled = LlguidanceCore(vocabulary).compile(
            Grammar({"root": Seq((lexeme, Lexeme(Bytes(b","))))}, "root")
        )
        for text in texts:
            core = compiled.new_matcher()
            assert all(core.accept(ids[c]) for c in text + ",") == matcher(numbers)(text)
