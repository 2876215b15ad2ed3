"""Regular expressions: characters code point by code point, full match against another engine, refusals."""

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import (
    EmptyLanguage,
    ErrorKind,
    LimitExceeded,
    RefusedConstruct,
    RequestError,
    SyntaxFault,
)
from engine.text.limits import LIMITS
from engine.text.regex import parse_pattern, regex_grammar
from engine.text.rules import EPSILON, Bytes, Chars
from property_tests.ir_words import expr_words, words


def root_of(pattern):
    grammar = regex_grammar(pattern)
    return grammar.rules[grammar.root]


def members(pattern):
    """The code points of an expression that is one character class."""
    expr = root_of(pattern)
    assert isinstance(expr, Chars)
    return {c for low, high in expr.ranges for c in range(low, high + 1)}


# ECMAScript's own lists, written out here once more: WhiteSpace (TAB VT FF SP NBSP ZWNBSP and category Zs)
# and LineTerminator (LF CR LS PS); digits and word characters are ASCII.
SCALARS = set(range(0xD800)) | set(range(0xE000, 0x110000))
ZS = {0x20, 0xA0, 0x1680, 0x202F, 0x205F, 0x3000} | set(range(0x2000, 0x200B))
SPACES = {0x09, 0x0B, 0x0C, 0xFEFF} | ZS | {0x0A, 0x0D, 0x2028, 0x2029}
DIGITS = {ord(c) for c in "0123456789"}
WORDS = {ord(c) for c in "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"}
DOTS = SCALARS - {0x0A, 0x0D, 0x2028, 0x2029}


@pytest.mark.clause("REGEX-4", "REGEX-5")
@pytest.mark.parametrize(
    "pattern, expected",
    [
        (r"\d", DIGITS),
        (r"\D", SCALARS - DIGITS),
        (r"\w", WORDS),
        (r"\W", SCALARS - WORDS),
        (r"\s", SPACES),
        (r"\S", SCALARS - SPACES),
        (".", DOTS),
        (r"[\d]", DIGITS),
        (r"[^\d]", SCALARS - DIGITS),
        (r"[\D]", SCALARS - DIGITS),
        (r"[^\D]", DIGITS),
        (r"[\w-]", WORDS | {0x2D}),
        (r"[^\s]", SCALARS - SPACES),
        (r"[\s\S]", SCALARS),
        ("[^]", SCALARS),
        ("[.]", {0x2E}),
        ("[^.]", SCALARS - {0x2E}),
        (r"[^\S]", SPACES),
        (r"[\d\s]", DIGITS | SPACES),
        ("[^a]", SCALARS - {0x61}),
        ("[é-ü]", set(range(0xE9, 0xFD))),
        ("[😀-😂]", {0x1F600, 0x1F601, 0x1F602}),
        (r"[\uD7FF-\uE000]", {0xD7FF, 0xE000}),
    ],
)
def test_character_sets_code_point_by_code_point(pattern, expected):
    assert members(pattern) == expected


@pytest.mark.clause("REGEX-4")
def test_the_python_tables_agree_where_they_claim_to():
    # An independent table for Zs: Python's own, from the Unicode data it ships.
    import unicodedata

    assert {c for c in range(0x110000) if unicodedata.category(chr(c)) == "Zs"} == ZS


ALPHABET = "abcd1"
STRINGS = ["".join(s) for n in range(5) for s in itertools.product(ALPHABET, repeat=n)]
PATTERNS = [
    "",
    "a",
    "ab|c",
    "a|bc",
    "(a|b)c",
    "(?:a|b)*",
    "a*",
    "a+",
    "a?",
    "a{2}",
    "a{1,3}",
    "a{2,}",
    "a{0}",
    "(ab)*",
    "(ab|a)(bc|c)?",
    "ab{2}",
    "[ab]c",
    "[^ab]",
    "[a-c]{2}",
    ".a.",
    r"\d\w",
    r"a\d*",
    "a|",
    "|a",
    "()",
    "(|a)b",
    "(a*)*b",
    "(a?){3}",
    "(a{1,2}){2}",
    "(a|ab)(c|bcd)(d*)",
    r"[\d-]|[a\-]",
    "((a)(b))*",
    "^a",
    "a$",
    "^a|b$",
    "^(?:a|b)+$",
    "^$",
    "^",
    "$",
    "a|^b",
    r"\x61\u0062",
    "[^1]{4}",
    "a.{2}|b",
    "(?:(?:a|b){2}|c){1,2}",
    r"\D\d?",
]


@pytest.mark.clause("REGEX-1", "REGEX-2", "REGEX-3")
@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_accepted_strings_are_those_of_a_full_match(pattern):
    reference = re.compile(pattern, re.ASCII)
    expected = {s for s in STRINGS if reference.fullmatch(s)}
    assert words(regex_grammar(pattern), ALPHABET, 4) == expected


@st.composite
def random_patterns(draw, depth=3):
    if depth == 0:
        return draw(st.sampled_from(["a", "b", "[ab]", "[^a]", r"\d", ".", "c"]))
    inner = random_patterns(depth=depth - 1)
    parts = draw(st.lists(inner, min_size=1, max_size=3))
    form = draw(st.sampled_from(["seq", "alt", "repeat"]))
    if form == "seq":
        return "".join(f"(?:{p})" if "|" in p else p for p in parts)
    if form == "alt":
        return "(" + "|".join(parts) + ")"
    quantifier = draw(st.sampled_from(["*", "+", "?", "{2}", "{0,2}", "{1,}", "{3}", "{0}"]))
    return f"(?:{parts[0]}){quantifier}"


@given(random_patterns())
@pytest.mark.clause("REGEX-1", "REGEX-3", "SAFE-6")
def test_random_expressions_match_as_python_does(pattern):
    reference = re.compile(pattern, re.ASCII)
    assert words(regex_grammar(pattern), ALPHABET, 4) == {s for s in STRINGS if reference.fullmatch(s)}


@given(random_patterns())
@pytest.mark.clause("REGEX-3")
def test_lazy_and_greedy_spellings_give_one_grammar(pattern):
    lazy = re.sub(r"(?<=[)])([*+?]|\{[0-9,]+\})", r"\1?", pattern)
    assert regex_grammar(lazy) == regex_grammar(pattern)


@pytest.mark.clause("REGEX-5")
@pytest.mark.parametrize(
    "pattern, text",
    [
        (r"\x41", "A"),
        (r"\x414", "A4"),
        (r"\xe9a", "éa"),
        (r"\u00e9", "é"),
        (r"\u20AC5", "€5"),
        (r"\n\r\t\v\f", "\n\r\t\v\f"),
        (r"\0", "\0"),
        (r"\0a", "\0a"),
        (r"\cA\cz", "\x01\x1a"),
        (r"\^\$\\\.\*\+\?\(\)\[\]\{\}\|\/", "^$\\.*+?()[]{}|/"),
        ("😀", "😀"),
        ("a\0b", "a\0b"),
        ("\n", "\n"),
        ('"', '"'),
        ("/", "/"),
        ("-", "-"),
        ("é€", "é€"),
        ("", ""),
    ],
)
def test_escapes_read_exactly_their_digits(pattern, text):
    assert root_of(pattern) == Bytes(text.encode())


@pytest.mark.clause("REGEX-5")
@pytest.mark.parametrize(
    "pattern, text",
    [
        (r"[\-a]", "-a"),
        (r"[\]]", "]"),
        ("[a-]", "a-"),
        ("[-a]", "-a"),
        ("[a^]", "a^"),
        (r"[\^a]", "^a"),
        (r"[\\]", "\\"),
        ("[[]", "["),
        ("[(){}|$.*+?]", "(){}|$.*+?"),
        (r"[\x41-\x43]", "ABC"),
        (r"[\n-\r]", "\n\x0b\x0c\r"),
        (r"[\cJ]", "\n"),
        ("[a-c-e]", "abc-e"),
        (r"[\d-]", "0123456789-"),
        (r"[\0]", "\0"),
    ],
)
def test_members_of_classes(pattern, text):
    assert members(pattern) == {ord(c) for c in text}


@pytest.mark.clause("REGEX-6", "REGEX-8")
def test_anchors_are_reported_for_the_search_entry():
    def ends(pattern):
        return [(a.anchored_start, a.anchored_end) for a in parse_pattern(pattern)]

    assert ends("a") == [(False, False)]
    assert ends("^a|b$|^c$|d") == [(True, False), (False, True), (True, True), (False, False)]
    assert ends("^$") == [(True, True)]
    assert ends("") == [(False, False)]
    assert ends("|^") == [(False, False), (True, False)]
    assert ends("(a|b)$") == [(False, True)]
    assert [expr_words(a.expr, ALPHABET, 3) for a in parse_pattern("^ab|c$")] == [{"ab"}, {"c"}]
    assert parse_pattern("^$")[0].expr == EPSILON


REFUSALS = [
    # pattern, error type, column, a word of the message
    ("a^", RefusedConstruct, 2, "anchor"),
    ("a^b", RefusedConstruct, 2, "anchor"),
    ("(^a)", RefusedConstruct, 2, "anchor"),
    ("(a$)", RefusedConstruct, 3, "anchor"),
    ("a$b", RefusedConstruct, 2, "anchor"),
    ("$a", RefusedConstruct, 1, "anchor"),
    ("^^a", RefusedConstruct, 2, "anchor"),
    ("a$$", RefusedConstruct, 2, "anchor"),
    ("a|b^c", RefusedConstruct, 4, "anchor"),
    ("(?:a|^b)", RefusedConstruct, 6, "anchor"),
    ("$^", RefusedConstruct, 1, "anchor"),
    ("^*", SyntaxFault, 2, "repeat"),
    ("a$*", RefusedConstruct, 2, "anchor"),
    ("x(?=a)", RefusedConstruct, 2, "look-ahead"),
    ("(?!a)", RefusedConstruct, 1, "look-ahead"),
    ("(?<=a)b", RefusedConstruct, 1, "look-behind"),
    ("(?<!a)b", RefusedConstruct, 1, "look-behind"),
    ("(?<n>a)", RefusedConstruct, 1, "named"),
    ("(?P<n>a)", RefusedConstruct, 1, "named"),
    ("(?i)a", RefusedConstruct, 1, "flags"),
    ("a(?i:b)", RefusedConstruct, 2, "flags"),
    ("(?", RefusedConstruct, 1, "flags"),
    ("(?>a)", RefusedConstruct, 1, "flags"),
    (r"\bfoo", RefusedConstruct, 1, "boundaries"),
    (r"a\B", RefusedConstruct, 2, "boundaries"),
    (r"[\b]", RefusedConstruct, 2, "boundar"),
    (r"(a)\1", RefusedConstruct, 4, "back-references"),
    (r"\k<a>", RefusedConstruct, 1, "back-references"),
    (r"\p{L}", RefusedConstruct, 1, "property"),
    (r"[\P{L}]", RefusedConstruct, 2, "property"),
    (r"\uD83D\uDE00", RefusedConstruct, 1, "surrogate"),
    (r"[\uDC00]", RefusedConstruct, 2, "surrogate"),
    (r"\u{41}", SyntaxFault, 1, "4 hexadecimal"),
    (r"\u41", SyntaxFault, 1, "4 hexadecimal"),
    (r"a\x4", SyntaxFault, 2, "2 hexadecimal"),
    (r"\xg1", SyntaxFault, 1, "2 hexadecimal"),
    (r"\u00-1", SyntaxFault, 1, "hexadecimal"),
    (r"\01", SyntaxFault, 1, "escape"),
    (r"\a", SyntaxFault, 1, "escape"),
    (r"\e", SyntaxFault, 1, "escape"),
    (r"\-", SyntaxFault, 1, "escape"),
    (r"\Z", SyntaxFault, 1, "escape"),
    (r"\é", SyntaxFault, 1, "escape"),
    (r"\_", SyntaxFault, 1, "escape"),
    (r"\c1", SyntaxFault, 1, "escape"),
    ("a\\", SyntaxFault, 2, "escape"),
    (r"\ ", SyntaxFault, 1, "escape"),
    ("[\\", SyntaxFault, 2, "escape"),
    ("*a", SyntaxFault, 1, "repeat"),
    ("a**", SyntaxFault, 3, "repeat"),
    ("a*+", SyntaxFault, 3, "repeat"),
    ("a+??", SyntaxFault, 4, "repeat"),
    ("(*)", SyntaxFault, 2, "repeat"),
    ("a|?", SyntaxFault, 3, "repeat"),
    ("{2}", SyntaxFault, 1, "repeat"),
    ("a{2}{3}", SyntaxFault, 5, "repeat"),
    ("a{5,2}", SyntaxFault, 2, "out of order"),
    ("a{,3}", SyntaxFault, 2, "brace"),
    ("a{", SyntaxFault, 2, "brace"),
    ("a{x}", SyntaxFault, 2, "brace"),
    ("a{3", SyntaxFault, 2, "not closed"),
    ("a{3,", SyntaxFault, 2, "brace"),
    ("a{ 3}", SyntaxFault, 2, "brace"),
    ("a}", SyntaxFault, 2, "bracket"),
    ("a]", SyntaxFault, 2, "bracket"),
    ("a)", SyntaxFault, 2, "bracket"),
    ("b(a", SyntaxFault, 2, "group"),
    ("b[a", SyntaxFault, 2, "class"),
    ("[a-", SyntaxFault, 1, "class"),
    ("[", SyntaxFault, 1, "class"),
    ("x[z-a]", SyntaxFault, 3, "backwards"),
    (r"[a-\d]", SyntaxFault, 2, "range"),
    (r"[\w-z]", SyntaxFault, 2, "range"),
    ("é\ud800", SyntaxFault, 2, "surrogate"),
    ("[]", EmptyLanguage, 1, "no finite"),
    (r"[^\s\S]", EmptyLanguage, 1, "no finite"),
    ("a[]", EmptyLanguage, 1, "no finite"),
    ("a[]+|[]b", EmptyLanguage, 1, "no finite"),
]


@pytest.mark.clause("REGEX-6", "REGEX-7", "EMPTY-5")
@pytest.mark.parametrize("pattern, error_type, column, word", REFUSALS)
def test_refusals_have_a_type_and_an_offset(pattern, error_type, column, word):
    with pytest.raises(RequestError) as error:
        regex_grammar(pattern)
    assert type(error.value) is error_type
    assert error.value.kind is ErrorKind.INVALID_REGEX
    assert (error.value.location.line, error.value.location.column) == (1, column)
    assert word in error.value.message
    assert error.value.allowed


@pytest.mark.clause("EMPTY-5")
def test_an_impossible_branch_beside_a_word_is_served():
    assert words(regex_grammar("a[]|b"), ALPHABET, 4) == {"b"}
    assert words(regex_grammar("a[]*"), ALPHABET, 4) == {"a"}


SIZED = {
    "nesting_depth": lambda n: "(" * n + "a" + ")" * n,
    "symbols": lambda n: "a" * n,
    "repeat_count": lambda n: f"(ab){{{n}}}",
    "source_bytes": lambda n: "[" + "b" * (n - 2) + "]",
}


@pytest.mark.clause("SAFE-2", "SAFE-5", "SAFE-6")
@pytest.mark.parametrize("name", SIZED)
def test_one_past_a_limit_names_the_limit(name):
    with pytest.raises(LimitExceeded) as error:
        regex_grammar(SIZED[name](LIMITS[name] + 1))
    assert (error.value.limit, error.value.maximum) == (name, LIMITS[name])
    if name != "source_bytes":
        assert regex_grammar(SIZED[name](LIMITS[name])).rules


@pytest.mark.clause("SAFE-2", "SAFE-6")
@pytest.mark.parametrize("pattern", ["(a{0,8192}){0,8192}", "((a{2,100}b){100}c){100}", "(a{8192}|b){9}"])
def test_nested_counts_are_limited_by_their_product(pattern):
    with pytest.raises(LimitExceeded) as error:
        regex_grammar(pattern)
    assert error.value.limit == "repeat_product"
    assert regex_grammar("(a{8192}|b){8}").rules
