"""Is every bit of every mask right where tokens cut characters, escapes, punctuation and several JSON tokens?

The oracle knows no grammar: over schemas with finitely many texts it lists them, from values that the schema
oracle judges and every spelling that the contract has for them, and an id is legal iff some text goes on that
way. Runs of white space are checked around their bound.
"""

import itertools
import json
import random
import re

import numpy as np
import pytest

from property_tests.schema_words import BYTES, END, JOINED, compact, compiled, is_member, is_valid, legal

TOKENS = (*BYTES, *JOINED)
CHARACTERS = ("a", "b", "é", "😀", '"', "\\", "\n", "\x01")
WORDS = ["".join(t) for size in range(3) for t in itertools.product(CHARACTERS, repeat=size)]
TEXT = {"type": "string", "pattern": '^[abé😀"\\\\\\n\\u0001]*$', "maxLength": 2}
ONE = {"const": 1}


def _objects(names, values):
    for size in range(len(names) + 1):
        for chosen in itertools.combinations(names, size):
            for parts in itertools.product(values, repeat=size):
                yield dict(zip(chosen, parts, strict=True))


FINITE = {
    "strings at the edge of a length": (TEXT, WORDS),
    "strings of a length inside arrays": (
        {"type": "array", "items": {**TEXT, "maxLength": 1}, "maxItems": 2},
        [list(t) for size in range(3) for t in itertools.product(["", *CHARACTERS], repeat=size)],
    ),
    "closed objects": (
        {"type": "object", "properties": {"a": ONE, "ab": ONE, "é": ONE}, "additionalProperties": False},
        list(_objects(("a", "ab", "é"), (1,))),
    ),
    "numbers of members": (
        {
            "type": "object",
            "properties": {"a": {"enum": [1, 10]}, "b": ONE, "ab": ONE},
            "minProperties": 2,
            "additionalProperties": False,
            "maxProperties": 2,
        },
        list(_objects(("a", "b", "ab"), (1, 10))),
    ),
    "listed values": (
        {
            "enum": [
                "a",
                "ab",
                'a"',
                "\\",
                "aa\n",
                1,
                10,
                -1,
                [1, "a"],
                [1],
                {"a": 1, "b": [True]},
                {"a": 10},
                None,
                True,
            ]
        },
        [
            "a",
            "ab",
            'a"',
            "\\",
            "aa\n",
            1,
            10,
            -1,
            [1, "a"],
            [1],
            {"a": 1, "b": [True]},
            {"a": 10},
            None,
            True,
        ],
    ),
    "listed beside free arrays": (
        {
            "anyOf": [
                {"const": [1, "a"]},
                {"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 2, "maxItems": 3},
            ]
        },
        [[1, "a"], *(list(t) for size in (2, 3) for t in itertools.product("ab", repeat=size))],
    ),
    "differing items": (
        {"type": "array", "items": {"enum": ["a", "aa", "ab"]}, "uniqueItems": True},
        [list(t) for size in range(4) for t in itertools.permutations(["a", "aa", "ab"], size)],
    ),
    "finite names": (
        {
            "type": "object",
            "propertyNames": {"pattern": "^[ab]$"},
            "additionalProperties": {"enum": [1, "a"]},
        },
        list(_objects(("a", "b"), (1, "a"))),
    ),
    "one of two": (
        {"oneOf": [{"enum": ["a", "ab", "b"]}, {"enum": ["ab", "aab", 1]}]},
        ["a", "b", "aab", 1],
    ),
}
SPELLED = {1: ("1", "1.0"), 10: ("10", "10.0"), -1: ("-1", "-1.0")}


class Tree:
    """All texts as one tree of bytes."""

    def __init__(self, texts):
        self.prefixes, self.members = {b""}, set()
        for text in texts:
            data = text.encode()
            self.members.add(data)
            self.prefixes.update(data[:end] for end in range(len(data) + 1))

    def legal(self, data: bytes) -> np.ndarray:
        bits = np.array([data + token in self.prefixes for token in TOKENS] + [data in self.members])
        return bits


def _walks(tree: Tree, name: str, count: int = 12):
    rng = random.Random(name)
    members = sorted(tree.members)
    for _ in range(count):
        yield rng, rng.choice(members)


def _spelled(text: str) -> list[str]:
    """A text with listed integers at scalar positions written as integers and as decimals."""
    pieces = re.split(r"(?<![\w.\"])(-?1|10)(?![\w.\"])", text)
    ways = [SPELLED.get(int(p), (p,)) if re.fullmatch(r"-?1|10", p) else (p,) for p in pieces]
    return ["".join(way) for way in itertools.product(*ways)]


@pytest.mark.clause("JSON-19", "JSON-20", "VER-2", "SERV-19", "TEST2-4")
@pytest.mark.parametrize("name", FINITE)
def test_every_bit_along_texts_that_tokens_cut(name):
    schema, values = FINITE[name]
    language = compiled(schema, whitespace="compact")
    for value in values:
        assert is_valid(schema, compact(value)) is is_member(language, compact(value)), value
    valid = [compact(value) for value in values if is_valid(schema, compact(value))]
    texts = {text for one in valid for text in _spelled(one) if is_member(language, text)}
    assert texts >= set(valid) and all(is_valid(schema, text) for text in texts)
    tree = Tree(texts)
    for rng, goal in _walks(tree, name):
        matcher, data = language.new_matcher(), b""
        while True:
            assert np.array_equal(legal(matcher), tree.legal(data)), (data, _difference(matcher, tree, data))
            steps = [i for i, token in enumerate(TOKENS) if token and goal.startswith(data + token)]
            if not steps:
                break
            token_id = rng.choice(steps)
            with matcher.look_ahead():  # taken and taken back: the row must be what it was
                assert matcher.accept(token_id)
                inside = legal(matcher)
                assert np.array_equal(inside, tree.legal(data + TOKENS[token_id]))
            assert np.array_equal(legal(matcher), tree.legal(data))
            matcher.preview([token_id])
            matcher.confirm()
            data += TOKENS[token_id]
        assert data == goal


def _difference(matcher, tree: Tree, data: bytes) -> list[bytes]:
    ids = np.flatnonzero(legal(matcher) != tree.legal(data))
    return [TOKENS[i] if i < END else b"<end>" for i in ids]


def _after(language, data: bytes):
    matcher = language.new_matcher()
    matcher.preview(list(data))
    matcher.confirm()
    return legal(matcher)


@pytest.mark.clause("JSON-10", "JSON-11", "SERV-18", "JSON-20")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"{", b'"a":1}'),
        (b'{"a"', b":1}"),
        (b'{"a":', b"1}"),
        (b'{"a":1', b',"b":1}'),
        (b'{"a":1,', b'"b":1}'),
        (b'{"a":1', b"}"),
        (b"{", b"}"),
    ],
)
def test_runs_of_white_space_end_at_32(before, after):
    schema = {"type": "object", "properties": {"a": ONE, "b": ONE}}
    language = compiled(schema)
    for size in (0, 1, 15, 16, 17, 28, 31, 32, 33):
        run = (b" \t\n\r" * 9)[:size]
        assert is_member(language, before + run + after) is (size <= 32), size
        if size > 32:
            continue
        bits = _after(language, before + run)
        for token_id, token in enumerate(TOKENS):
            if token and not token.strip(b" \t\n\r"):
                assert bits[token_id] == (size + len(token) <= 32), (size, token)
    compacted = compiled(schema, whitespace="compact")
    assert is_member(compacted, before + after) and not is_member(compacted, before + b" " + after)


@pytest.mark.clause("SERV-18")
def test_fixed_separators_are_the_only_ones():
    schema = {"type": "object", "properties": {"a": {"items": ONE}, "b": {"const": {"x": [1, 2]}}}}
    language = compiled(schema, whitespace="fixed")
    assert is_member(language, '{"a": [1, 1], "b": {"x": [1, 2]}}')
    for text in (
        '{"a":[1, 1]}',
        '{"a": [1,1]}',
        '{"a": [1,  1]}',
        '{ "a": []}',
        '{"b": {"x": [1,2]}}',
        '{"a": [ ]}',
    ):
        assert not is_member(language, text), text


@pytest.mark.clause("JSON-12")
def test_listed_values_have_white_space_between_their_tokens_only():
    value = {"a": [1, {"b c": "d e"}], "f": {}}
    language = compiled({"enum": [value, []]})
    for text in (
        compact(value),
        json.dumps(value),
        json.dumps(value, indent=4),
        json.dumps(value, indent=10),
        "[\n]",
    ):
        assert is_member(language, text), text
    for text in ('{"a":[1,{"b  c":"d e"}],"f":{}}', json.dumps(value, indent=16), " []", "[] "):
        assert not is_member(language, text), text


@pytest.mark.clause("JSON-14", "JSON-17", "JSON-19", "SERV-23")
def test_free_strings_take_every_escape_and_no_half_of_a_pair():
    free, bound = compiled({"type": "string"}), compiled({"type": "string", "maxLength": 4})
    for body in ("\\/", "\\u0061", "\\u00E9", "\\ud83d\\ude00", "\\uD83D\\uDE00"):
        assert is_member(free, f'"{body}"') and not is_member(bound, f'"{body}"')
    for body in ("\\n", '\\"', "\\\\", "\\u0001", "é", "😀", "\x7f", "\u2028"):
        assert is_member(free, f'"{body}"') and is_member(bound, f'"{body}"')
    for body in (
        "\\ud83d",
        "\\ude00",
        "\\ud83dx",
        "\\ud83d\\n",
        "\\ude00\\ud83d",
        "\n",
        "\x01",
        "\\x41",
        "\\u12",
        '"',
    ):
        assert not is_member(free, f'"{body}"') and not is_member(bound, f'"{body}"'), body
    for broken in (b'"\xc3"', b'"\xc3a"', b'"\xed\xa0\x80"', b'"\xf5\x80\x80\x80"', b'"\xc0\xaf"', b'"\x80"'):
        assert not is_member(free, broken), broken


@pytest.mark.clause("JSON-18", "JSON-19")
@pytest.mark.parametrize("length", [3, 50, 1000])
def test_the_length_edge_for_tokens_that_end_inside_or_go_past(length):
    language = compiled({"type": "array", "items": {"type": "string", "maxLength": length}})
    small = compiled({"type": "array", "items": {"type": "string", "maxLength": 3}})
    assert len(language.grammar.rules) == len(small.grammar.rules)
    for used in range(length - 2, length + 1):
        left = length - used
        bits = _after(language, b'["' + b"a" * used)
        wanted = {
            b"a": left >= 1,
            b"ab": left >= 2,
            b"aa": left >= 2,
            b'aa"': left >= 2,
            b"\xf0\x9f": left >= 1,
            b"\xc3\xa9": left >= 1,
            b"b\xc3": left >= 2,
            b'\\"': left >= 1,
            b'\\"a': left >= 2,
            b"\\u": left >= 1,
            b"\\u00": left >= 1,
            b"\\\\": left >= 1,
            b'\\n"': left >= 1,
            b'b","a': left >= 1,
            b'","': True,
            b'"a"': False,
            b'a"]': left >= 1,
            b'"]': True,
            b'""': False,
        }
        for token, is_legal in wanted.items():
            if token in TOKENS:
                assert bits[TOKENS.index(token)] == is_legal, (used, token)
