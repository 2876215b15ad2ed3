"""Questions about strings under several conditions, against brute force over small alphabets."""

import functools
import itertools
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from engine.errors import ErrorKind, LimitExceeded
from engine.text import automaton
from engine.text.expr import EPSILON, NOTHING, chars, literal, repeat, seq
from engine.text.lengths import ANY, ANYTHING, length_range, of_length
from engine.text.limits import LIMITS
from engine.text.schema.strings import search_language
from property_tests.ir_words import expr_words
from property_tests.strategies_text import ALPHABET, expressions, words_of_length

SMALL = "ab"
IN_ALPHABET = repeat(chars([(ord(c), ord(c)) for c in ALPHABET]), 0, None)
LETTERS = repeat(chars([(0x61, 0x62)]), 0, None)
CONDITIONS = st.lists(expressions(max_leaves=4), max_size=2).map(tuple)


def brute(also, never, low, high, alphabet=ALPHABET):
    """All strings over the alphabet that answer a question."""
    found = words_of_length(repeat(ANY, 0, None), alphabet, low, high)
    for expr in also:
        found &= expr_words(expr, alphabet, high)
    for expr in never:
        found -= expr_words(expr, alphabet, high)
    return found


@pytest.mark.clause("JSON-13", "JSON-14", "JSON-39")
@given(CONDITIONS, CONDITIONS, st.integers(0, 3), st.integers(0, 3))
def test_members_of_intersections_and_complements_equal_brute_force(also, never, low, high):
    expected = brute(also, never, low, high)
    question = ((IN_ALPHABET, *also), never, low, high)
    assert automaton.members(*question, limit=10_000) == tuple(sorted(expected, key=lambda w: (len(w), w)))
    assert automaton.members(*question, limit=len(expected)) is not None
    if expected:
        assert automaton.members(*question, limit=len(expected) - 1) is None
    assert automaton.is_empty(*question) == (not expected)
    shortest = automaton.shortest_member(*question)
    assert (shortest is None) == (not expected)
    if shortest is not None:
        assert shortest in expected
        assert len(shortest) == min(map(len, expected))


@pytest.mark.clause("JSON-14")
@given(expressions())
def test_a_text_is_matched_as_brute_force_has_it(expr):
    inside = expr_words(expr, ALPHABET, 2)
    for text in map("".join, itertools.chain(*(itertools.product(ALPHABET, repeat=n) for n in range(3)))):
        assert automaton.matches(expr, text) == (text in inside)


def test_a_surrogate_is_no_character():
    assert not automaton.matches(ANYTHING, "a\ud800")
    assert automaton.matches(ANYTHING, "a\U0010ffff")


@given(expressions(max_leaves=8), st.integers(0, 4), st.none() | st.integers(0, 4))
def test_lengths_put_into_an_expression_leave_the_members_of_these_lengths(expr, low, high):
    bounded = of_length(expr, low, high)
    assume(bounded is not None)
    expected = {w for w in expr_words(expr, "ab", 5) if len(w) >= low and (high is None or len(w) <= high)}
    assert expr_words(bounded, "ab", 5) == expected


@given(expressions(unbounded=False, max_leaves=5))
def test_the_length_range_is_that_of_the_shortest_and_longest_member(expr):
    low, high = length_range(expr)
    assume(high is not None and high <= 7)
    lengths = {len(word) for word in expr_words(expr, "ab", 8)}
    assume(lengths and expr_words(expr, ALPHABET, min(high, 2)))
    assert low <= min(lengths)
    assert max(lengths) <= high


@pytest.mark.parametrize(
    "expr, expected",
    [
        (EPSILON, (0, 0)),
        (NOTHING, (1, 0)),
        (literal("é€😀"), (3, 3)),
        (repeat(literal("ab"), 2, 5), (4, 10)),
        (ANYTHING, (0, None)),
        (seq([literal("a"), NOTHING]), (1, 0)),
        (repeat(NOTHING, 0, 3), (0, 0)),
    ],
)
def test_length_ranges(expr, expected):
    assert length_range(expr) == expected


@pytest.mark.parametrize(
    "pattern, low, high, is_told",
    [
        ("^[a-z]+$", 2, 5, True),
        ("^[a-z][a-z0-9]*$", 0, 63, True),
        ("^x-", 0, 40, True),
        ("^data:(a|bc|def);[0-9]*$", 10, 32767, True),
        ("^(a|[bc]{2,9})$", 3, 4, True),
        ("[a-z]{3}", 3, 3, True),
        ("^a*b*$", 0, 100, False),
    ],
)
def test_common_shapes_take_a_length(pattern, low, high, is_told):
    assert (of_length(search_language(pattern), low, high) is not None) == is_told


def stays_open(words, longest):
    """From words up to 3 * longest: is every beginning up to `longest` continued past 2 * longest?"""
    beginnings = {word[:n] for word in words for n in range(min(len(word), longest) + 1)}
    long = {word[:n] for word in words if len(word) > 2 * longest for n in range(longest + 1)}
    return bool(words) and beginnings <= long


@pytest.mark.clause("JSON-30")
@settings(max_examples=40)
@given(
    st.lists(expressions("ab", max_leaves=2), min_size=1, max_size=2).map(tuple),
    st.lists(expressions("ab", max_leaves=2), max_size=1).map(tuple),
)
def test_prefixes_that_stay_open_are_found(also, never):
    expected = stays_open(brute(also, never, 0, 12, "ab"), 4)
    assert automaton.every_prefix_stays_open((LETTERS, *also), never) == expected


@pytest.mark.parametrize(
    "also, never, bounds, expected",
    [
        ((), (), (0, None), True),
        ((), (), (0, 10**9), False),
        ((), ("^(ab|cd)$",), (5, None), True),
        ((), ("^a",), (0, None), True),
        ((), ("^[^a]",), (0, None), True),
        ((), ("^[^a]", "^a[^]"), (0, None), False),
        (("^a.*b$",), (), (0, None), True),
        (("^a.*b$|^c$",), (), (0, None), False),
        (("^[a-z]{1,8}$",), (), (0, None), False),
        (("^[a-z]+$",), ("^abc$",), (1, None), True),
        (("^a+$",), ("^b",), (3, None), True),
    ],
)
def test_prefixes_that_stay_open(also, never, bounds, expected):
    languages = tuple(map(search_language, also)), tuple(map(search_language, never))
    assert automaton.every_prefix_stays_open(*languages, *bounds) == expected


@pytest.mark.clause("JSON-47")
def test_plain_lengths_and_single_expressions_need_no_automaton(monkeypatch):
    monkeypatch.setattr(automaton, "_Product", None)
    assert not automaton.is_empty((), (), 10**8, 10**9)
    assert automaton.is_empty((), (), 3, 2)
    assert not automaton.is_empty((search_language("^a+b{3,9}$"),), ())
    assert automaton.is_empty((search_language("^[a-z]{3,90}$"),), (), 91, None)
    assert not automaton.every_prefix_stays_open((), (), 10**8, 10**9)
    assert automaton.every_prefix_stays_open((), (literal("a"),), 10**8, None)


def two_loops(length):
    """A question whose length bound no shape takes."""
    return (search_language("^a*b*$"), search_language("^b*a*$")), (), 1, length


@pytest.mark.clause("JSON-46", "CACHE-13")
def test_the_length_an_automaton_counts_has_a_limit():
    limit = LIMITS["automaton_length"]
    assert limit == 8192
    assert not automaton.is_empty(*two_loops(limit))
    with pytest.raises(LimitExceeded) as caught:
        automaton.is_empty(*two_loops(limit + 1))
    assert caught.value.limit == "automaton_length"
    assert (caught.value.value, caught.value.maximum) == (limit + 1, limit)
    assert caught.value.kind is ErrorKind.UNSUPPORTED_JSON_SCHEMA


@pytest.mark.clause("JSON-46")
def test_states_are_counted_up_to_their_limit(monkeypatch):
    also = (search_language("^(a|b)*a(a|b){5}$"), search_language("^(b|a)*b(a|b){6}$"))
    never = (search_language("^(b|c)*$"), search_language("^[^c]*$"))
    states = []
    original = automaton.Budget.new_state
    monkeypatch.setattr(automaton.Budget, "new_state", lambda self: states.append(original(self)))
    automaton.is_empty.cache_clear()
    assert automaton.is_empty(also, never)
    for maximum, fits in ((len(states), True), (len(states) - 1, False)):
        monkeypatch.setitem(LIMITS, "automaton_states", maximum)
        automaton.is_empty.cache_clear()
        if fits:
            assert automaton.is_empty(also, never)
        else:
            with pytest.raises(LimitExceeded) as caught:
                automaton.is_empty(also, never)
            assert caught.value.limit == "automaton_states"


HOSTILE = {
    "subsets": (("^(a|b)*a(a|b){40}$", "^(b|a)*b(a|b){41}$"), ("^([^]{7})*$",)),
    "long subsets": (("^(a|b)*a(a|b){8000}$", "^(b|a)*b(a|b){8001}$"), ()),
    "gaps": (("a.{0,4000}b.{0,4000}c$", "^[^d]*d{3}$"), ("[^a-d]",)),
    "nested": (("^((a{0,90}b{0,90}){0,9}c?){0,60}$", "^[a-c]*d$"), ()),
    "empty copies": (("^((a?){0,200}(b?){0,200}){0,200}$", "^[ab]*c$"), ()),
}


@pytest.mark.clause("JSON-46", "CACHE-13")
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_questions_end_soon(name):
    also, never = (tuple(map(search_language, patterns)) for patterns in HOSTILE[name])
    begin = time.process_time()
    try:
        automaton.members(also, never)
    except LimitExceeded as error:
        assert error.limit in ("automaton_states", "automaton_work")  # noqa: PT017
    assert time.process_time() - begin < 5  # seconds; a second or two on a free core


def test_answers_and_refusals_are_kept():
    question = tuple(map(search_language, HOSTILE["nested"][0])), ()
    errors = []
    for _ in range(50):
        begin = time.process_time()
        with pytest.raises(LimitExceeded) as caught:
            automaton.shortest_member(*question)
        errors.append(caught.value)
    assert time.process_time() - begin < 0.05  # seconds, for the last of them
    assert len(set(errors)) == 1


@pytest.mark.clause("JSON-13")
def test_many_threads_may_ask_about_one_expression():
    language = search_language("^(ab{1,40}c?){3,30}$")
    asked = ["abbc" * n + "ab" * m for n in range(20) for m in range(20)]
    expected = [3 <= n + m <= 30 for n in range(20) for m in range(20)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(functools.partial(automaton.matches, language), asked)) == expected


@pytest.mark.clause("JSON-13")
def test_large_counts_are_not_written_out():
    letters, digits = search_language("^[a-z]{1,8192}$"), search_language("^[0-9]{1,8192}$")
    assert automaton.is_empty((letters, digits), ())
    assert not automaton.is_empty((letters, search_language("^[a-c]{8192}$")), ())
    assert automaton.shortest_member((letters, search_language("z{3}")), (), 5) == "zzzaa"
