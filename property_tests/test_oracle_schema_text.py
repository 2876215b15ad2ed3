"""The JSON reader of the schema oracle: nothing lost, nothing let through; against `json` and Fraction."""

import json
import random
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles.schema.text import TextError, identity, lone_surrogates, number, parse, repeated_names

LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
DOCUMENTS = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
)
SPELLINGS = st.from_regex(r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,2})?", fullmatch=True)


def plain(value):
    """Write a value of the reader as Python data, numbers as fractions."""
    if value.kind == "array":
        return [plain(item) for item in value.data]
    if value.kind == "object":
        return {name: plain(item) for name, item in value.data}
    return value.data.fraction if value.kind == "number" else value.data


def exact(data):
    """Write Python data with its numbers as the fractions that `json.dumps` spells."""
    if isinstance(data, bool) or not isinstance(data, int | float | list | dict):
        return data
    if isinstance(data, list):
        return [exact(item) for item in data]
    if isinstance(data, dict):
        return {name: exact(item) for name, item in data.items()}
    return Fraction(json.dumps(data))


@given(
    DOCUMENTS, st.booleans(), st.sampled_from([None, 0, 3]), st.sampled_from([(",", ":"), (" , ", "\t:\n")])
)
def test_what_json_writes_is_read_back_exactly(data, ascii_only, indent, separators):
    text = json.dumps(data, ensure_ascii=ascii_only, indent=indent, separators=separators)
    value = parse(text)
    assert plain(value) == exact(data)
    assert identity(parse(text[value.start : value.end])) == identity(value)
    assert repeated_names(value) == lone_surrogates(value) == []


def _strict(text):
    def refuse(word):
        raise ValueError(word)

    return json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize("seed", range(20))
def test_broken_texts_fall_like_those_of_json(seed):
    rng = random.Random(seed)
    texts = [
        '{"a": [1, -0.5e+7, "x\\u00e9\\n", true, null, {}], "b": ""}',
        '[[], [0], {"k": false}]',
        "-12.50E-3",
    ]
    outcomes = set()
    for _ in range(400):
        text = list(rng.choice(texts))
        for _ in range(rng.randint(1, 2)):
            at = rng.randrange(len(text))
            text[at : at + rng.randint(0, 1)] = rng.choice(
                ['"', "\\", "0", "1", "-", ".", "e", ",", "]", "}", ":", " ", "\x0b"]
            )
        outcomes.add(_agree("".join(text)))
    assert outcomes == {True, False}


def _agree(text):
    try:
        wanted = exact(_strict(text))
    except ValueError:
        wanted = None
    try:
        found = parse(text)
    except TextError:
        assert wanted is None, text
        return False
    # Values are compared where binary64 keeps them; that they parse at all is compared everywhere.
    assert wanted is not None or found.kind == "null", text
    return True


@pytest.mark.parametrize(
    "text",
    [
        *[
            "",
            " ",
            "01",
            "-01",
            "1.",
            ".5",
            "+1",
            "-",
            "1e",
            "NaN",
            "Infinity",
            "nul",
            "True",
            "1 1",
            "//\n1",
        ],
        *["'a'", '"', '"\x1f"', '"\\x"', '"\\u12g4"', "[", "[1,]", "[,1]", "[1}", "\ufeff1", "\u00a01"],
        *["{,}", '{"a"}', '{"a":}', "{a:1}"],
    ],
)
def test_what_is_not_json(text):
    with pytest.raises(TextError):
        parse(text)


def test_bytes_must_be_utf_8():
    assert parse('"é😀"'.encode()).data == "é😀"
    for data in (b'"\xff"', b'"\xed\xa0\x80"', b"\xef\xbb\xbf1", b'"\xc0\xaf"'):
        with pytest.raises(TextError):
            parse(data)


def test_names_pairs_and_halves():
    assert repeated_names(parse('{"a": {"b": 1, "\\u0062": 2}, "a": 3, "A": 4}')) == ["/a/b", "/a"]
    assert parse('"\\ud83d\\ude00"').data == "😀"
    assert lone_surrogates(parse('["\\ud83d", "\\ude00\\ud83d", "😀", {"\\udc00": 1}]')) == ["/0", "/1", "/3"]


@given(SPELLINGS, SPELLINGS)
def test_numbers_are_exact(left, right):
    first, second = number(left), number(right)
    assert first.fraction == Fraction(left)
    assert (first < second, first == second, first > second) == (
        Fraction(left) < Fraction(right),
        Fraction(left) == Fraction(right),
        Fraction(left) > Fraction(right),
    )
    assert first.is_integer == (Fraction(left).denominator == 1)
    if second.coefficient:
        assert first.is_multiple_of(second) == ((Fraction(left) / Fraction(right)).denominator == 1)


def test_huge_exponents_cost_nothing():
    tiny, huge = number("1e-999999999999"), number("3e999999999999")
    assert number("0") < tiny < number("1e-400") < number("1") < huge
    assert number("-3e999999999999") < tiny < huge
    assert huge.is_multiple_of(number("0.5")) and huge.is_multiple_of(number("1.5"))
    assert not huge.is_multiple_of(number("7")) and not tiny.is_multiple_of(number("1"))
    assert number("0e99999999999999999999") == number("-0") and number("0").is_multiple_of(tiny)
    assert number("1" * 20000).is_integer


SIMPLE = st.recursive(
    st.sampled_from([None, True, False, 0, 1, 1.0, -0.0, 10, 1e1, "", "1", "a", "1:a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["", "a", "b", "1:"]), inner),
    max_leaves=6,
)


def _same(left, right):
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if type(left) is not type(right) and not (
        isinstance(left, int | float) and isinstance(right, int | float)
    ):
        return False
    if isinstance(left, list):
        return len(left) == len(right) and all(map(_same, left, right))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(_same(left[name], right[name]) for name in left)
    return left == right


@pytest.mark.clause("JSON-35")
@given(SIMPLE, SIMPLE)
def test_equality_is_that_of_json_schema(left, right):
    keys = [identity(parse(json.dumps(data))) for data in (left, right)]
    assert (keys[0] == keys[1]) == _same(left, right)
    mirrored = dict(reversed(left.items())) if isinstance(left, dict) else left
    assert identity(parse(json.dumps(mirrored))) == keys[0]


def test_depth_is_no_limit():
    text = "[" * 50_000 + "]" * 50_000
    assert parse(text).kind == "array"
    assert repeated_names(parse(text)) == []
