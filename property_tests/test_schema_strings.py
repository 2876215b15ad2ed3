"""String conditions: the decoded sets, the JSON text of their members, and the terminals made of them."""

import itertools
import json
import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from engine.errors import ErrorKind, LimitExceeded, RefusedConstruct, SyntaxFault
from engine.text import automaton
from engine.text.expr import EPSILON, NOTHING, chars, literal, repeat, seq
from engine.text.lengths import ANY, ANYTHING
from engine.text.limits import LIMITS
from engine.text.schema.strings import (
    FREE,
    StringSet,
    json_text,
    literal_language,
    search_language,
    string_lexeme,
)
from property_tests.ir_words import expr_words
from property_tests.strategies_text import (
    ALPHABET,
    accepted,
    canonical,
    expressions,
    in_lexeme,
    python_regex,
    texts,
)

HAS_ALL = ALPHABET + "\x7f/\u2028\x1f\t"


def sets(alphabet=ALPHABET):
    conditions = st.lists(expressions(alphabet, max_leaves=3), max_size=2).map(tuple)
    return st.builds(StringSet, conditions, conditions, st.integers(0, 2), st.none() | st.integers(0, 4))


@pytest.mark.clause("JSON-17")
def test_every_character_has_the_spelling_of_a_json_writer():
    for code in [*range(0x300), 0x2028, 0x2029, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF]:
        expected = canonical(chr(code))
        assert expected == json.dumps(chr(code), ensure_ascii=False)[1:-1]
        assert json_text(literal(chr(code))) == literal(expected)
        assert python_regex(json_text(chars([(code, code)]))).fullmatch(expected)


@pytest.mark.clause("JSON-14", "JSON-17")
@given(expressions(HAS_ALL, max_leaves=5))
def test_json_text_holds_the_canonical_text_of_the_members_and_nothing_else(expr):
    written, inside = accepted(json_text(expr)), expr_words(expr, HAS_ALL, 2)
    for text in texts(HAS_ALL, 2):
        assert bool(written.fullmatch(canonical(text))) == (text in inside)
        other = json.dumps(text)[1:-1].upper().replace("\\U", "\\u")
        if other != canonical(text) and "\\" in other:
            assert not written.fullmatch(other) or other in map(canonical, inside)


@pytest.mark.clause("JSON-17")
@pytest.mark.parametrize(
    "text", ["\\/", "\\u0061", "\\u000a", "\\u000A", "\\u001F", "\\u0022", "\\ud83d\\ude00", "\n", '"', "\\x"]
)
def test_no_other_spelling_is_canonical(text):
    lexeme = string_lexeme(FREE, canonical=True)
    assert not in_lexeme(lexeme, f'"{text}"')
    assert in_lexeme(lexeme, '"\\u001f\\n/é😀\x7f\u2028"')


ESCAPES = [
    "a",
    "é",
    "😀",
    "\\n",
    "\\/",
    "\\u0041",
    "\\uD83D",
    "\\uDE00",
    "\\ud7ff",
    "\\uE000",
    "\\udbff",
    "\\uDfFf",
]
BROKEN = ["\\", "\\x", "\\u12", "\\u00G0", '"', "\n", "\x1f", "\\u", "\\'"]


@pytest.mark.clause("JSON-14")
def test_a_free_string_takes_every_spelling_of_every_string_and_no_lone_surrogate():
    lexeme = string_lexeme(FREE)
    assert not lexeme.also + lexeme.never
    for parts in itertools.chain(
        *(itertools.product(ESCAPES, repeat=n) for n in range(4)), itertools.product(BROKEN, ESCAPES[:5])
    ):
        text = f'"{"".join(parts)}"'
        try:
            is_string = not re.search("[\ud800-\udfff]", json.loads(text))
        except json.JSONDecodeError:
            is_string = False
        assert in_lexeme(lexeme, text) == is_string, text


@pytest.mark.clause("JSON-13", "JSON-14", "JSON-39")
@given(sets())
def test_the_terminal_holds_the_text_of_the_members_and_nothing_else(strings):
    assume(strings != FREE and not strings.is_empty())
    lexeme = string_lexeme(strings, seq([repeat(literal(" "), 0, 2), literal(":")]))
    for text in texts(ALPHABET, 3):
        inside = strings.contains(text)
        assert in_lexeme(lexeme, f'"{canonical(text)}" :') == inside
        assert not in_lexeme(lexeme, f'"{canonical(text)}"')


@given(sets("ab"), sets("ab"))
@pytest.mark.clause("JSON-39")
def test_sets_are_read_as_their_conditions(left, right):
    both = left.intersect(right)
    for text in texts("ab", 3):
        for strings in (left, right):
            expected = (
                all(text in expr_words(pattern, "ab", 3) for pattern in strings.patterns)
                and not any(text in expr_words(expr, "ab", 3) for expr in strings.excluded)
                and strings.min_length
                <= len(text)
                <= (3 if strings.max_length is None else strings.max_length)
            )
            assert strings.contains(text) == expected
        assert both.contains(text) == (left.contains(text) and right.contains(text))
    members = attempt(both)
    if members is not None:
        assert both.is_empty() == (not members)
        assert set(members) >= {text for text in texts("ab", 3) if both.contains(text)}
    assert both.is_empty() == (both.shortest_member() is None)


def attempt(strings):
    return strings.members(200)


SEARCHES = [
    *[
        "",
        "a",
        "^a",
        "a$",
        "^a$",
        "^",
        "$",
        "^$",
        "a|^b$",
        "a*",
        "a+b*",
        "^a*$",
        "(ab)+",
        "a?b+a?",
        "(a|b)+$",
    ],
    *["^b|a{2}", "[^a]", ".", ".b", "^.{2}$", "a{2,3}", "^(ab|a)(b|)$", "(a+)+", "b{0,1}a{1,2}", "|b"],
]


@pytest.mark.clause("JSON-13", "JSON-15")
@pytest.mark.parametrize("pattern", SEARCHES)
def test_a_pattern_is_searched_for(pattern):
    language = search_language(pattern)
    plain = python_regex(language)
    dollar = re.compile(pattern.replace("$", r"\Z").replace(".", "[^\n\r\u2028\u2029]"))
    for text in texts("ab\n", 4):
        assert automaton.matches(language, text) == bool(dollar.search(text)) == bool(plain.fullmatch(text))


@pytest.mark.clause("JSON-16")
@pytest.mark.parametrize(
    "pattern, error, kind",
    [
        (r"(a)\1", RefusedConstruct, ErrorKind.UNSUPPORTED_JSON_SCHEMA),
        (r"\bfoo", RefusedConstruct, ErrorKind.UNSUPPORTED_JSON_SCHEMA),
        ("(?=a)b", RefusedConstruct, ErrorKind.UNSUPPORTED_JSON_SCHEMA),
        (r"\p{L}", RefusedConstruct, ErrorKind.UNSUPPORTED_JSON_SCHEMA),
        (r"\ud83d", RefusedConstruct, ErrorKind.UNSUPPORTED_JSON_SCHEMA),
        (r"a\éb", RefusedConstruct, ErrorKind.UNSUPPORTED_JSON_SCHEMA),
        (r"\Z", RefusedConstruct, ErrorKind.UNSUPPORTED_JSON_SCHEMA),
        ("(^a)*", RefusedConstruct, ErrorKind.UNSUPPORTED_JSON_SCHEMA),
        ("a{9000}", LimitExceeded, ErrorKind.UNSUPPORTED_JSON_SCHEMA),
        ("(a", SyntaxFault, ErrorKind.INVALID_JSON_SCHEMA),
        ("[b-a]", SyntaxFault, ErrorKind.INVALID_JSON_SCHEMA),
        ("*", SyntaxFault, ErrorKind.INVALID_JSON_SCHEMA),
    ],
)
def test_what_a_pattern_may_not_hold(pattern, error, kind):
    with pytest.raises(error) as caught:
        search_language(pattern)
    assert caught.value.kind is kind
    assert "column" in caught.value.message
    assert caught.value.pointer == ""


@given(st.lists(st.text(ALPHABET, max_size=4), max_size=8))
def test_a_literal_language_is_exactly_its_strings(words):
    language = literal_language(words)
    assert expr_words(language, ALPHABET, 4) == set(words)
    assert (language == NOTHING) == (not words)


def test_deep_and_wide_literal_languages_stay_flat():
    words = ["a" * n for n in range(400)] + [f"name{n}" for n in range(3000)]
    language = literal_language(words)
    assert all(automaton.matches(language, word) for word in words[::37])
    assert not automaton.matches(language, "a" * 400)
    assert not automaton.matches(language, "name3000")
    assert not automaton.matches(literal_language(["\ud800"]), "\ud800")


@pytest.mark.clause("JSON-18", "JSON-47")
def test_a_length_is_one_counted_body():
    sizes = {len(repr(string_lexeme(StringSet((), (), 1, high)))) for high in (50_000, 99_999)}
    assert len(sizes) == 1
    for pattern in ("^[a-z]+$", "^[a-z][a-z0-9]*$", "^x-", "^[a-z]{3}$"):
        lexeme = string_lexeme(StringSet((search_language(pattern),), (), 1, 200))
        assert not lexeme.also + lexeme.never


@pytest.mark.parametrize(
    "strings, also, never",
    [
        (StringSet((search_language("^[a-z]+$"), search_language(r"\S"), ANYTHING)), 0, 0),
        (StringSet((search_language("^[a-z]+$"), search_language("^[a-z0-9]*$")), (), 1, None), 0, 0),
        (StringSet((search_language("^[a-z]+$"),), (literal_language(["A", "0"]),)), 0, 0),
        (StringSet((search_language("^[a-z]+$"),), (literal_language(["a"]), literal("b"))), 0, 1),
        (StringSet((), (literal("a"), search_language("^x-"))), 0, 1),
        (StringSet((search_language("a"), search_language("b"))), 1, 0),
        (StringSet((search_language("a+b+"),), (), 0, 5), 0, 0),
        (StringSet((search_language("a+b+"),), (), 0, 50), 1, 0),
    ],
)
def test_implied_conditions_are_left_out(strings, also, never):
    lexeme = string_lexeme(strings)
    assert (len(lexeme.also), len(lexeme.never)) == (also, never)


@pytest.mark.clause("JSON-46")
def test_a_condition_past_the_limits_is_refused():
    patterns = (search_language("^a*b*$"), search_language("^b*a*$"))
    assert not StringSet(patterns, (), 1, LIMITS["automaton_length"]).is_empty()
    with pytest.raises(LimitExceeded) as caught:
        StringSet(patterns, (), 1, LIMITS["automaton_length"] + 1).is_empty()
    assert caught.value.kind is ErrorKind.UNSUPPORTED_JSON_SCHEMA


@pytest.mark.clause("JSON-16", "CACHE-13")
@pytest.mark.parametrize(
    "pattern",
    ["[a-z].{0,1000}[A-Z]$", "^(.{1,300};){1,20}.{1,300}$", "^(a|b)*a(a|b){200}$", "^(a.{0,99}){2}$"],
)
def test_counts_that_overlap_in_many_ways_are_refused(pattern):
    for strings in (StringSet((search_language(pattern),)), StringSet((), (search_language(pattern),))):
        with pytest.raises(LimitExceeded) as caught:
            string_lexeme(strings)
        assert caught.value.limit == "string_overlap"
        assert caught.value.kind is ErrorKind.UNSUPPORTED_JSON_SCHEMA


@pytest.mark.parametrize(
    "pattern",
    [
        "^[a-z]{1,8192}$",
        "^([a-z]{1,99} ){1,50}$",
        r"^(?:\S+\s+){0,199}\S+$",
        "a{60}b",
        "^(a?){9}$",
    ],
)
def test_counts_of_which_one_text_has_few_readings_are_served(pattern):
    assert not string_lexeme(StringSet((search_language(pattern),))).also


def test_free_and_open_sets():
    assert FREE.is_free
    assert FREE.every_prefix_stays_open()
    assert FREE.intersect(FREE) == FREE
    assert not StringSet((ANYTHING,), (), 0, 5).every_prefix_stays_open()
    assert StringSet((), (literal_language(["a", "b"]),)).every_prefix_stays_open()
    assert StringSet((repeat(ANY, 0, 1),), (), 0, 0).members(5) == ("",)
    assert string_lexeme(StringSet((EPSILON,))).body == literal('""')
