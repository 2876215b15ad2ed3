"""GBNF: what every construct means, what is refused and where, and each limit served up to its number."""

import pytest

from engine.errors import (
    EmptyLanguage,
    ErrorKind,
    LimitExceeded,
    RefusedConstruct,
    RequestError,
    SyntaxFault,
    TokenReferenceError,
    UnknownRule,
)
from engine.text.gbnf import parse_gbnf
from engine.text.limits import LIMITS
from engine.text.rules import Bytes, Chars, ExcludeToken, Token, to_regular
from engine.text.vocabulary import TokenClass, toy_vocabulary
from property_tests.ir_words import words

VOCABULARY = toy_vocabulary()


def parse(source):
    return parse_gbnf(source, VOCABULARY)


def language(source, alphabet="abc", max_len=4):
    return words(parse(source), alphabet, max_len)


def root_of(source):
    grammar = parse(source)
    return grammar.rules[grammar.root]


MEANINGS = [
    ('root ::= "a"', {"a"}),
    ('root ::= ""', {""}),
    ("root ::= ()", {""}),
    ('root ::= "a" "b"', {"ab"}),
    ('root ::= "a" | "b"', {"a", "b"}),
    ('root ::= "a"\n  | "b"\n  | "c"', {"a", "b", "c"}),
    ('root ::= "a" |\n "b"', {"a", "b"}),
    ('root ::= "a" | "b" "c"', {"a", "bc"}),
    ('root ::= ("a" | "b") "c"', {"ac", "bc"}),
    ('root ::= (("a"))', {"a"}),
    ('root ::= ("a" ("b" | "c")?)', {"a", "ab", "ac"}),
    ('root ::= "a" "b"{2}', {"abb"}),
    ('root ::= "ab"{2}', {"abab"}),
    ('root ::= "a"?', {"", "a"}),
    ('root ::= "a"*', {"", "a", "aa", "aaa", "aaaa"}),
    ('root ::= "a"+', {"a", "aa", "aaa", "aaaa"}),
    ('root ::= "a"{3}', {"aaa"}),
    ('root ::= "a"{3,}', {"aaa", "aaaa"}),
    ('root ::= "a"{ 1 , 2 }', {"a", "aa"}),
    ('root ::= "a" {1,2}', {"a", "aa"}),
    ('root ::= "a"{0}', {""}),
    ('root ::= "a"{03}', {"aaa"}),
    ("root ::= [a-b]", {"a", "b"}),
    ("root ::= [^a]", {"b", "c"}),
    ("root ::= [^a-b]", {"c"}),
    ("root ::= .", {"a", "b", "c"}),
    ("root ::= [^]", {"a", "b", "c"}),
    ('root ::= [] | "a"', {"a"}),
    ('root ::= x "c"\nx ::= "a" | "b"', {"ac", "bc"}),
    ('x ::= "a"\nroot ::= x x', {"aa"}),
    ('root ::= "a" root "b" | ""', {"", "ab", "aabb"}),
    ('root ::= root "a" | "b"', {"b", "ba", "baa", "baaa"}),
    ('root ::= root | ""', {""}),
    ('root ::= x | "a"\nx ::= root | "b"', {"a", "b"}),
    ('root ::= "a" | "b" x\nx ::= "c" x', {"a"}),
    ('root ::= "a" # "b"\n"c"', {"ac"}),
    ('# root ::= "b"\nroot ::= "a"', {"a"}),
    ('root ::= "a" # no line feed at the end', {"a"}),
    ('root ::= "#" | "a"', {"a"}),
    ('root::="a"', {"a"}),
    ('root\n::=\n"a"', {"a"}),
    ('\troot ::= "a"\r\nx ::= "b"\r\n', {"a"}),
    ('root ::= a-b.c_1\na-b.c_1 ::= "a"', {"a"}),
    ('root ::= "a" (= "b")', {"a"}),
    ('root ::= "a" | "b" (= "c" | x)\nx ::= [a-z]{2}', {"a", "b"}),
    ('root ::= x "c"\nx ::= "a" (= "zzz")', {"ac"}),
]


@pytest.mark.clause("GBNF-1", "GBNF-6")
@pytest.mark.parametrize("source, expected", MEANINGS)
def test_meaning(source, expected):
    assert language(source) == frozenset(expected)


@pytest.mark.clause("GBNF-1")
@pytest.mark.parametrize(
    "written, text",
    [
        (r"\n", "\n"), (r"\t", "\t"), (r"\r", "\r"), (r"\\", "\\"), (r"\"", '"'), (r"\'", "'"), (r"\/", "/"),
        (r"\?", "?"), (r"\a", "\a"), (r"\b", "\b"), (r"\f", "\f"), (r"\v", "\v"), (r"\e", "\x1b"),
        (r"\0", "\0"),
        (r"\[", "["), (r"\]", "]"), (r"\x41", "A"), (r"\xe9", "é"), (r"\xE9", "é"), (r"\x414", "A4"),
        (r"\u00e9", "é"), (r"\u20AC5", "€5"), (r"\U0001F600", "😀"), ("é€😀", "é€😀"), ("\0", "\0"),
        ("a\0b", "a\0b"), (r"\x00", "\0"), (r"\01", "\x001"), ("'", "'"), ("]#", "]#"), ("\u2028", "\u2028"),
    ],
)  # fmt: skip
def test_escapes_in_literals_are_code_points(written, text):
    assert root_of(f'root ::= "{written}"') == Bytes(text.encode())


@pytest.mark.clause("GBNF-1")
@pytest.mark.parametrize(
    "written, members",
    [
        ("a-", "a-"), ("-a", "a-"), ("a-c-e", "abc-e"), (r"\-a", "-a"), (r"a\-c", "a-c"), ("^^", None),
        ("a^", "a^"), (r"\^a", "^a"), (r"\]", "]"), (r"\[\]", "[]"), ("(){}|.*+?$", "(){}|.*+?$"),
        (r"\(\)\{\}\|\.\*\+\?\$", "(){}|.*+?$"), (r"\x41-\x43", "ABC"), (r"\u00e9", "é"), ("é-ë", "éêë"),
        ("😀-😂", "😀😁😂"), (r"\\", "\\"), ('"', '"'), (r"\n", "\n"), ("#", "#"), ("aab-ca", "abc"),
        ("+--", "+,-"),
    ],
)  # fmt: skip
def test_members_of_classes(written, members):
    ranges = root_of(f"root ::= [{written}]").ranges
    found = {chr(c) for low, high in ranges[:9] for c in range(low, min(high, low + 200) + 1)}
    if members is None:  # negated: everything but the circumflex
        assert not any(low <= ord("^") <= high for low, high in ranges)
    else:
        assert found == set(members)


@pytest.mark.clause("GBNF-1", "SERV-23")
def test_no_class_and_no_dot_holds_a_surrogate():
    for source in ("root ::= .", "root ::= [^a]", "root ::= [^]", r"root ::= [\uD7FF-\uE000]"):
        assert not any(low <= 0xDFFF and high >= 0xD800 for low, high in root_of(source).ranges)


# source, error type, line, column, a word of the message
REFUSALS = [
    ("", UnknownRule, 1, 1, "entry rule"),
    ('x ::= "a"', UnknownRule, 1, 1, "entry rule"),
    ("root ::= ", SyntaxFault, 1, 10, "empty"),
    ("root ::=\n\n", SyntaxFault, 3, 1, "empty"),
    ('root ::= "a" |', SyntaxFault, 1, 15, "empty"),
    ('root ::= | "a"', SyntaxFault, 1, 10, "empty"),
    ('root ::= "a" | | "b"', SyntaxFault, 1, 16, "empty"),
    ('root ::= ("a" | )', SyntaxFault, 1, 17, "empty"),
    ('root ::= "a"\nx ::=\ny ::= "b"', SyntaxFault, 3, 1, "empty"),
    ('root ::= "a', SyntaxFault, 1, 10, "literal is not closed"),
    ('root ::= "a\nb"', SyntaxFault, 1, 10, "literal is not closed"),
    ('root ::= "\\"', SyntaxFault, 1, 10, "literal is not closed"),
    ("root ::= [a", SyntaxFault, 1, 10, "class is not closed"),
    ("root ::= [a\n]", SyntaxFault, 1, 10, "class is not closed"),
    ("root ::=\n  [z-a]", SyntaxFault, 2, 3, "backwards"),
    ('root ::= ("a"', SyntaxFault, 1, 14, "opened at line 1, column 10"),
    ('root ::= "a")', SyntaxFault, 1, 13, "no element"),
    ('root ::= "a" "\\q"', SyntaxFault, 1, 15, "escape"),
    ('root ::= "ab\\x4"', SyntaxFault, 1, 13, "escape"),
    ('root ::= "\\u12"', SyntaxFault, 1, 11, "escape"),
    ('root ::= "\\u{41}"', SyntaxFault, 1, 11, "escape"),
    ("root ::= [a\\d]", SyntaxFault, 1, 12, "escape"),
    ('root ::= "\\uD800"', SyntaxFault, 1, 11, "scalar"),
    ("root ::= [\\uDFFF]", SyntaxFault, 1, 11, "scalar"),
    ('root ::= "\\U00110000"', SyntaxFault, 1, 11, "scalar"),
    ('root ::= "a\ud800"', SyntaxFault, 1, 12, "surrogate"),
    ("root ::= 'a'", SyntaxFault, 1, 10, "begins nothing"),
    ('root := "a"', SyntaxFault, 1, 6, "begins nothing"),
    ('root = "a"', SyntaxFault, 1, 6, "begins nothing"),
    ('root ::= "a";', SyntaxFault, 1, 13, "begins nothing"),
    ('root ::= "a"\0', SyntaxFault, 1, 13, "begins nothing"),
    ('root ::= "é" ;', SyntaxFault, 1, 14, "begins nothing"),
    ('1 ::= "a"', SyntaxFault, 1, 1, "begins with its name"),
    ('"a" ::= "a"', SyntaxFault, 1, 1, "begins with its name"),
    ('root "a"', SyntaxFault, 1, 6, "'::=' is missing"),
    ('root ::= "x" a ::= "y"', SyntaxFault, 1, 14, "first thing on its line"),
    ('Token ::= "x"\nroot ::= "a"', SyntaxFault, 1, 1, "reserved"),
    ('root ::= "a"**', SyntaxFault, 1, 14, "nothing to repeat"),
    ("root ::= *", SyntaxFault, 1, 10, "nothing to repeat"),
    ('root ::= "a" | +', SyntaxFault, 1, 16, "nothing to repeat"),
    ("root ::= {2}", SyntaxFault, 1, 10, "nothing to repeat"),
    ('root ::= "a"{5,2}', SyntaxFault, 1, 13, "lower bound"),
    ('root ::= "a"{,3}', SyntaxFault, 1, 14, "not a number"),
    ('root ::= "a"{}', SyntaxFault, 1, 14, "not a number"),
    ('root ::= "a"{-1}', SyntaxFault, 1, 14, "begins nothing"),
    ('root ::= "a"{2 3}', SyntaxFault, 1, 16, "'}' is missing"),
    ('root ::= "a"{2,3', SyntaxFault, 1, 17, "'}' is missing"),
    ("root ::= b", UnknownRule, 1, 10, "not defined"),
    ('root ::= "a"\nx ::= (y)', UnknownRule, 2, 8, "not defined"),
    ('root ::= "a" (= y)', UnknownRule, 1, 17, "not defined"),
    ('root ::= "a"\nx ::= "b"\nx ::= "c"', UnknownRule, 3, 1, "defined twice, first at line 2, column 1"),
    ('root ::= "a" (= )', SyntaxFault, 1, 17, "empty"),
    ('root ::= "a" (= "b"', SyntaxFault, 1, 20, "not closed"),
    ('root ::= (= "b")', SyntaxFault, 1, 10, "may only end a rule"),
    ('root ::= ("a" (= "b"))', SyntaxFault, 1, 15, "may only end a rule"),
    ('root ::= "a" | (= "b")', SyntaxFault, 1, 16, "may only end a rule"),
    ('root ::= "a" (= "b") "c"', SyntaxFault, 1, 22, "last part"),
    ('root ::= "a" (= "b") | "c"', SyntaxFault, 1, 22, "last part"),
    ('root ::= "a" (= "b") (= "c")', SyntaxFault, 1, 22, "last part"),
    ('root ::= TagDispatch(("a", b))\nb ::= "x"', RefusedConstruct, 1, 10, "macro"),
    ('root ::= TokenTagDispatch((1, b))\nb ::= "x"', RefusedConstruct, 1, 10, "macro"),
    ('root ::= "a"\nx ::= Regex("a*")', RefusedConstruct, 2, 7, "macro"),
    ('root ::= Substring("abc")', RefusedConstruct, 1, 10, "macro"),
    ('root ::= "a" (= Regex("b"))', RefusedConstruct, 1, 17, "macro"),
    ('root[temperature=0.5] ::= "a"', RefusedConstruct, 1, 5, "options"),
    ('root[max_tokens=3] ::= "a"', RefusedConstruct, 1, 5, "options"),
    ('root[max_chars=3] ::= "a"', RefusedConstruct, 1, 5, "options"),
    ('root[capture="x"] ::= "a"', RefusedConstruct, 1, 5, "options"),
    ('root[lazy] ::= "a"', RefusedConstruct, 1, 5, "options"),
    ('root[max_tokens=3, temperature=1] ::= "a"', RefusedConstruct, 1, 5, "options"),
    ('root ::= x\nx [lazy] ::= "a"', RefusedConstruct, 2, 3, "options"),
    ("root ::= []", EmptyLanguage, 1, 1, "no finite string"),
    ('x ::= "a"\nroot ::= root', EmptyLanguage, 2, 1, "no finite string"),
    ("root ::= (root){2,2}", EmptyLanguage, 1, 1, "no finite string"),
    ('root ::= "a" x\nx ::= "b" x', EmptyLanguage, 1, 1, "no finite string"),
    ("root ::= Token", SyntaxFault, 1, 15, "'(' is missing"),
    ("root ::= Token()", SyntaxFault, 1, 16, "takes ids"),
    ("root ::= Token(1,)", SyntaxFault, 1, 18, "takes ids"),
    ('root ::= Token("a")', SyntaxFault, 1, 16, "takes ids"),
    ("root ::= Token(1 2)", SyntaxFault, 1, 18, "')' is missing"),
    ("root ::= Token(-1)", SyntaxFault, 1, 16, "begins nothing"),
]


@pytest.mark.clause("GBNF-2", "GBNF-3", "GBNF-5", "GBNF-6", "EMPTY-5")
@pytest.mark.parametrize("source, error_type, line, column, word", REFUSALS)
def test_refusals_have_a_type_and_a_place(source, error_type, line, column, word):
    with pytest.raises(RequestError) as error:
        parse(source)
    assert type(error.value) is error_type
    assert error.value.kind is ErrorKind.INVALID_GRAMMAR
    assert (error.value.location.line, error.value.location.column) == (line, column)
    assert word in error.value.message
    assert error.value.allowed


def ids_of(token_class):
    return VOCABULARY.ids_of(token_class)


@pytest.mark.clause("GBNF-4")
def test_token_terminals_take_ordinary_ids():
    assert root_of("root ::= Token(3)") == Token((3,))
    assert root_of("root ::= Token ( 5, 3 , 5 )") == Token((3, 5))
    assert root_of("root ::= ExcludeToken(3, 1)") == ExcludeToken((1, 3))
    assert len(parse('root ::= Token(1){2} "a" x\nx ::= ExcludeToken(2)*').rules) == 2


@pytest.mark.clause("GBNF-4", "GBNF-5", "VOC-4", "VOC-5")
@pytest.mark.parametrize("macro", ["Token", "ExcludeToken"])
@pytest.mark.parametrize(
    "token_id",
    [
        *ids_of(TokenClass.EOS),
        *ids_of(TokenClass.CONTROL),
        *ids_of(TokenClass.UNGENERABLE),
        VOCABULARY.size,
        VOCABULARY.logits_width,
        2**31,
        10**30,
    ],
)
def test_token_terminals_name_no_special_padding_or_unknown_id(macro, token_id):
    with pytest.raises(TokenReferenceError) as error:
        parse(f'root ::= "a"\n  | {macro}(1, {token_id})')
    assert (error.value.location.line, error.value.location.column) == (2, len(macro) + 9)


@pytest.mark.clause("GBNF-6")
@pytest.mark.parametrize("hint", ["", '(= "x")', '(= [a-z]+ "q")', "(= root)", '(= "a" | "b")'])
def test_a_hint_changes_no_rule(hint):
    plain = 'root ::= x "c"\nx ::= "a" x | "b"'
    assert parse(plain + " " + hint) == parse(plain)


@pytest.mark.clause("SERV-6", "GBNF-1")
@pytest.mark.parametrize(
    "one, other",
    [
        ('root ::= "a" ("b" | "c")*', 'root ::= "a" x\nx ::= ("b" | "c") x | ""'),
        ('root ::= "a"{1,3}', 'root ::= "a" ("a" "a"?)?'),
        ("root ::= [a-c]", 'root ::= "a" | "b" | "c"'),
        ('root ::= ("a" "b")+', 'root ::= x "b"\nx ::= x "ba" | "a"'),
        ("root ::= [^b]", "root ::= [\\x00-ac-\\U0010FFFF]"),
    ],
)
def test_two_spellings_of_one_language(one, other):
    assert language(one, max_len=6) == language(other, max_len=6)
    assert to_regular(parse(other)) is not None


def nested(depth):
    return "root ::= " + "(" * depth + '"a"' + ")" * depth


def many_rules(count):
    return 'root ::= "a"\n' + "".join(f'r{i} ::= "a"\n' for i in range(count - 1))


def many_symbols(count):
    return "root ::= " + "[a]" + ' "a"' * (count - 2)  # a class of one range counts twice


def of_bytes(count):
    return 'root ::= "a" #' + "é" * ((count - 14) // 2) + "x" * (count % 2)


SIZED = {
    "nesting_depth": (nested, LIMITS["nesting_depth"]),
    "rules": (many_rules, LIMITS["rules"]),
    "symbols": (many_symbols, LIMITS["symbols"]),
    "source_bytes": (of_bytes, LIMITS["source_bytes"]),
    "repeat_count": (lambda n: f'root ::= "a"{{{n}}}', LIMITS["repeat_count"]),
    "repeat_product": (
        lambda n: f'root ::= x{{2}}\nx ::= ("a" "b"?){{{n // 2}}}',
        LIMITS["repeat_count"] * 2,
    ),
}


@pytest.mark.clause("SAFE-2", "SAFE-5")
@pytest.mark.parametrize("name", SIZED)
def test_the_limit_is_served_and_one_more_is_not(name):
    make, limit = SIZED[name]
    assert parse(make(limit)).rules
    if name == "repeat_product":
        source = f'root ::= x{{{LIMITS["repeat_product"] // 8192 + 1}}}\nx ::= ("a" "b"?){{8192}}'
    else:
        source = make(limit + 1)
    with pytest.raises(LimitExceeded) as error:
        parse(source)
    assert error.value.limit == name
    assert error.value.maximum == LIMITS[name]
    assert error.value.value > error.value.maximum
    assert name == "source_bytes" or error.value.location.line is not None


@pytest.mark.clause("SAFE-2")
def test_bounds_of_any_length_are_read_and_refused():
    for digits in ("1000000000", "9" * 30_000):
        with pytest.raises(LimitExceeded) as error:
            parse(f'root ::= "a"\n| "b"{{1,{digits}}}')
        assert (error.value.limit, str(error.value.location)) == ("repeat_count", "line 2, column 6")


@pytest.mark.clause("SAFE-9")
def test_what_is_shown_of_a_long_source_is_short():
    with pytest.raises(RequestError) as error:
        parse("root ::= " + "x" * 5000)
    assert len(str(error.value)) < 300


def test_a_class_is_one_set():
    assert root_of("root ::= [c-da-b]") == Chars(((97, 100),))


@pytest.mark.clause("GBNF-1")
def test_a_dot_is_every_scalar_value_line_feeds_too():
    everything = Chars(((0, 0xD7FF), (0xE000, 0x10FFFF)))
    assert list(parse_gbnf("root ::= .", VOCABULARY).rules.values()) == [everything]
    assert list(parse_gbnf("root ::= [^\\x00]", VOCABULARY).rules.values()) == [
        Chars(((1, 0xD7FF), (0xE000, 0x10FFFF)))
    ]
