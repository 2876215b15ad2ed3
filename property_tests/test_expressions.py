"""Does the neutral tree expand to the right bytes? Python's encoder and hand-worked trees judge it."""

import random

import pytest

from oracles.expressions import (
    MAX_SCALAR,
    Alt,
    CharClass,
    Literal,
    Ref,
    Repeat,
    Seq,
    TokenSet,
    merge_ranges,
    scalar_ranges,
    subtract_ranges,
    to_byte_grammar,
    utf8_alternatives,
)
from oracles.grammar_prefix import Earley, Tokens

EDGES = (
    0,
    0x7F,
    0x80,
    0x7FF,
    0x800,
    0xFFF,
    0x1000,
    0xD7FF,
    0xE000,
    0xFFFF,
    0x10000,
    0x3FFFF,
    0x40000,
    MAX_SCALAR,
)


def num_strings(alternatives):
    total = 0
    for alternative in alternatives:
        count = 1
        for item in alternative:
            count *= len(item)
        total += count
    return total


def random_ranges(rng):
    points = [min(max(edge + rng.randint(-3, 3), 0), MAX_SCALAR) for edge in rng.sample(EDGES, 4)]
    return tuple((min(pair), max(pair)) for pair in (points[:2], points[2:]))


@pytest.mark.parametrize("seed", range(40))
def test_utf8_forms_of_a_class_are_exactly_its_scalars(seed):
    node = CharClass(random_ranges(random.Random(seed)), negated=seed % 2 == 1)
    ranges = scalar_ranges(node)
    alternatives = utf8_alternatives(ranges)
    assert num_strings(alternatives) == sum(high - low + 1 for low, high in ranges)
    parser = Earley({"s": alternatives}, "s")
    near = {
        min(max(edge + step, 0), MAX_SCALAR) for pair in node.ranges for edge in pair for step in (-1, 0, 1)
    }
    for code in sorted({*near, *EDGES}):
        if not 0xD800 <= code <= 0xDFFF:
            inside = any(low <= code <= high for low, high in node.ranges)
            assert parser.member(chr(code).encode()) == (inside != node.negated), hex(code)


def test_a_negated_class_holds_no_surrogate_overlong_form_or_stray_byte():
    parser = Earley({"s": utf8_alternatives(scalar_ranges(CharClass(((0x61, 0x61),), negated=True)))}, "s")
    for data in (
        b"\xed\xa0\x80",
        b"\xed\xbf\xbf",
        b"\xc0\x80",
        b"\xc1\xbf",
        b"\xe0\x80\x80",
        b"\xf0\x80\x80\x80",
    ):
        assert not parser.viable(data), data
    for data in (b"\x80", b"\xff", b"\xf4\x90\x80\x80", b"\xf5", b"a"):
        assert not parser.viable(data), data
    assert parser.viable(b"\xed\x9f")
    assert not parser.member(b"\xed\x9f")


def test_range_arithmetic_by_hand():
    assert merge_ranges([(5, 7), (1, 2), (3, 3), (6, 9)]) == [(1, 3), (5, 9)]
    assert subtract_ranges([(1, 9)], [(0, 1), (4, 5), (9, 12)]) == [(2, 3), (6, 8)]


HAND_WORKED = {
    "ab{2}": (Seq((Literal("a"), Repeat(Literal("b"), 2, 2))), ["abb"], ["ab", "abbb", "abab"]),
    "(ab){1,2}": (Repeat(Literal("ab"), 1, 2), ["ab", "abab"], ["", "ababab", "abb"]),
    "(a?){2,}": (Repeat(Repeat(Literal("a"), 0, 1), 2, None), ["", "a", "aaa"], ["b"]),
    "(a|)b": (Seq((Alt((Literal("a"), Literal(""))), Literal("b"))), ["ab", "b"], ["a", ""]),
    "a{0}": (Repeat(Literal("a"), 0, 0), [""], ["a"]),
    "é": (Literal("é"), ["é"], ["e", "éé"]),
    "nothing": (Alt(()), [], ["", "a"]),
}


@pytest.mark.parametrize("name", HAND_WORKED)
def test_hand_worked_trees(name):
    node, inside, outside = HAND_WORKED[name]
    parser = Earley(to_byte_grammar({"root": node}), "root")
    assert [text for text in inside + outside if parser.member(text.encode())] == inside


def test_references_and_token_sets():
    rules = {"root": Seq((Ref("x"), TokenSet((3,)))), "x": Alt((Literal("a"), TokenSet((1,), exclude=True)))}
    parser = Earley(to_byte_grammar(rules, text_ids=(0, 1, 2)), "root")
    assert Tokens(frozenset({0, 2})) in {
        item for a in to_byte_grammar(rules, (0, 1, 2)).values() for x in a for item in x
    }
    for first, taken in (((0, b"z"), True), ((1, b"z"), False), ((1, b"a"), True), ((3, b"z"), False)):
        after = parser.advance_token(parser.start(), *first)
        assert (after is not None) == taken
        if taken:
            assert parser.accepting(parser.advance_token(after, 3, None))
