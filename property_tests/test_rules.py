"""Trimming, features and regular form, each against a brute-force reading of the rules."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import EmptyLanguage, ErrorKind, Location
from engine.text.rules import (
    EPSILON,
    NOTHING,
    Alt,
    Chars,
    Grammar,
    Ref,
    Repeat,
    Seq,
    alt,
    chars,
    components,
    features,
    fold,
    literal,
    negated,
    productive_rules,
    references,
    repeat,
    seq,
    split_long,
    tidy_productive_rules,
    to_regular,
    trim,
    walk,
    without_dead_parts,
)
from property_tests.ir_words import expr_words, words

ALPHABET, MAX_LEN = "ab", 4
NAMES = ("root", "x", "y")
A, B = literal("a"), literal("b")


def expressions(names=NAMES):
    leaves = st.one_of(
        st.sampled_from([A, B, literal("ab"), EPSILON, NOTHING, Chars(((97, 98),)), Chars(())]),
        st.sampled_from(names).map(Ref) if names else st.nothing(),
    )
    bounds = st.sampled_from([(0, 1), (0, None), (1, None), (2, 2), (1, 3), (0, 0), (2, None)])
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3).map(lambda items: Seq(tuple(items))),
            st.lists(inner, max_size=3).map(lambda items: Alt(tuple(items))),
            st.tuples(inner, bounds).map(lambda pair: Repeat(pair[0], *pair[1])),
        ),
        max_leaves=6,
    )


grammars = st.fixed_dictionaries({name: expressions() for name in NAMES}).map(lambda r: Grammar(r, "root"))


@given(grammars)
@pytest.mark.clause("GBNF-7", "EMPTY-5")
def test_trim_keeps_the_language_and_leaves_only_what_is_needed(grammar):
    before = words(grammar, ALPHABET, MAX_LEN)
    try:
        trimmed = trim(grammar)
    except EmptyLanguage:
        assert not before
        return
    assert words(trimmed, ALPHABET, MAX_LEN) == before
    referred = {name for expr in trimmed.rules.values() for name in references(expr)}
    assert trimmed.root not in referred
    assert referred | {trimmed.root} == set(trimmed.rules)
    for name, expr in trimmed.rules.items():
        # Every part derives something: replaced by itself alone, the rule still has a word.
        for node in walk(expr):
            assert node != NOTHING
            assert not (isinstance(node, Chars) and not node.ranges)
        assert words(Grammar(trimmed.rules, name), ALPHABET, 12), "a rule that was kept derives nothing"
        assert not (isinstance(expr, Alt) and Ref(name) in expr.items)


@given(grammars)
@pytest.mark.clause("GBNF-7")
def test_trim_again_changes_nothing(grammar):
    try:
        trimmed = trim(grammar)
    except EmptyLanguage:
        return
    assert trim(trimmed) == trimmed


def tidy(node, parts):
    if isinstance(node, Seq):
        return seq(parts)
    if isinstance(node, Alt):
        return alt(parts)
    if isinstance(node, Repeat):
        return repeat(parts[0], node.min, node.max)
    return NOTHING if node == Chars(()) else node


@given(grammars)
@pytest.mark.clause("GBNF-7", "EMPTY-5")
def test_dead_parts_of_tidy_rules_are_found_and_dropped(grammar):
    rules = {name: fold(expr, tidy) for name, expr in grammar.rules.items()}
    tidied = Grammar(rules, "root")
    productive = tidy_productive_rules(tidied)
    assert productive == productive_rules(tidied)
    if "root" not in productive:
        return
    kept = without_dead_parts(tidied, productive)
    assert words(kept, ALPHABET, MAX_LEN) == words(tidied, ALPHABET, MAX_LEN)
    assert all(name in productive for name in kept.rules)
    assert {name for expr in kept.rules.values() for name in references(expr)} <= kept.rules.keys()
    assert not any(node == NOTHING for expr in kept.rules.values() for node in walk(expr))


def test_rules_in_a_bad_order_are_worked_through_all_the_same():
    """Each round shows one rule more, whichever way it goes."""
    names = [f"r{i}" for i in range(60)]
    order = [name for pair in zip(names[:30], names[:29:-1], strict=True) for name in pair]
    after = dict(itertools.pairwise(order[::2] + order[1::2]))
    rules = {name: seq([A, Ref(after[name])]) if name in after else A for name in order}
    assert tidy_productive_rules(Grammar(rules, order[0])) == set(order)
    dead = Grammar({**rules, order[-1]: seq([A, Ref(order[-1])])}, order[0])
    assert tidy_productive_rules(dead) == productive_rules(dead)


@given(grammars)
@pytest.mark.clause("SERV-6")
def test_the_regular_form_has_the_same_words(grammar):
    try:
        trimmed = trim(grammar)
    except EmptyLanguage:
        return
    regular = to_regular(trimmed)
    if regular is not None:
        assert not references(regular)
        assert expr_words(regular, ALPHABET, MAX_LEN) == words(trimmed, ALPHABET, MAX_LEN)


def grammar(**rules):
    return Grammar(rules, "root")


@pytest.mark.parametrize(
    "rules",
    [
        {"root": alt([seq([A, Ref("root")]), EPSILON])},
        {"root": alt([seq([Ref("root"), A]), B])},
        {"root": alt([seq([A, Ref("x")]), B]), "x": alt([seq([B, Ref("root")]), seq([A, Ref("x")])])},
        {"root": seq([Ref("x"), repeat(Ref("y"), 0, 2)]), "x": repeat(A, 2, 3), "y": alt([Ref("x"), B])},
        {"root": alt([Ref("x"), A]), "x": alt([Ref("root"), B])},
        {"root": repeat(seq([A, Ref("root")]), 0, 1)},
    ],
)
def test_linear_rules_are_found_regular(rules):
    trimmed = trim(Grammar(rules, "root"))
    assert expr_words(to_regular(trimmed), ALPHABET, 6) == words(trimmed, ALPHABET, 6)


def test_a_nested_recursion_is_not_taken_for_regular_and_a_large_form_is_not_built():
    assert to_regular(trim(grammar(root=alt([seq([A, Ref("root"), B]), EPSILON])))) is None
    chain = {f"x{i}": seq([Chars(((97, 98),)), Ref(f"x{i + 1}")]) for i in range(300)}
    small = Grammar({**chain, "x300": A}, "x0")
    assert to_regular(small) is not None
    assert to_regular(small, size_cap=200) is None


@pytest.mark.clause("GBNF-7", "EMPTY-5", "SAFE-11")
@pytest.mark.parametrize(
    "rules",
    [
        {"root": Ref("root")},
        {"root": Repeat(Ref("root"), 2, 2)},
        {"root": seq([A, Ref("x")]), "x": seq([B, Ref("x")])},
        {"root": Alt(())},
        {"root": Chars(())},
        {"root": Chars(((0xD800, 0xDFFF),))},
        {"root": Repeat(Ref("x"), 1, None), "x": seq([Ref("x"), Ref("x")])},
    ],
)
def test_the_empty_language_is_refused_with_its_place(rules):
    where = Location(line=3, column=7)
    with pytest.raises(EmptyLanguage) as error:
        trim(Grammar(rules, "root"), kind=ErrorKind.INVALID_REGEX, location=where)
    assert (error.value.kind, error.value.location) == (ErrorKind.INVALID_REGEX, where)


@pytest.mark.clause("GBNF-7")
def test_a_loop_beside_a_word_is_dropped_and_an_unproductive_optional_part_becomes_empty():
    assert trim(grammar(root=alt([Ref("root"), EPSILON]))).rules == {"root": EPSILON}
    dead = {"x": seq([A, Ref("x")])}
    assert trim(grammar(root=seq([A, Repeat(Ref("x"), 0, 5)]), **dead)).rules == {"root": A}
    assert trim(grammar(root=alt([seq([B, Ref("x")]), A]), **dead)).rules == {"root": A}
    assert trim(grammar(root=repeat(repeat(A, 0, 1), 3, 5))).rules["root"] == repeat(chars([(97, 97)]), 0, 5)


@pytest.mark.clause("SAFE-5")
def test_chains_of_rules_far_deeper_than_the_stack():
    names = [f"r{i}" for i in range(5_000)]
    rules = {n: alt([seq([A, Ref(m), B]), B]) for n, m in itertools.pairwise(names)} | {names[-1]: A}
    trimmed = trim(Grammar(rules, "r0"))
    assert features(trimmed).num_rules == len(names)
    assert not features(trimmed).recursive
    cycle = trim(Grammar(rules | {names[-1]: alt([A, Ref("r0")])}, "r0"))
    assert features(cycle).recursive
    assert max(len(group) for group in components(cycle)) == len(names)


def test_features_of_a_small_grammar():
    inner = repeat(alt([A, literal("bc")]), 0, 50)
    found = features(
        grammar(root=seq([repeat(Ref("x"), 2, 3), repeat(chars([(97, 99)]), 4, None), A]), x=inner)
    )
    assert [(c.min, c.max, c.single_character) for c in found.counted_repeats] == [
        (2, 3, False),
        (4, None, True),
        (0, 50, False),
    ]
    assert found.repeat_product == 150
    assert found.expanded_size == 3 * 50 * 3 + 4 + 1
    assert not found.recursive
    assert not found.has_tokens


@given(st.lists(st.tuples(st.integers(0, 0x10FFFF), st.integers(0, 300)), max_size=4))
def test_character_sets_hold_what_they_should(pairs):
    ranges = [(low, min(low + size, 0x10FFFF)) for low, size in pairs]
    expected = {c for low, high in ranges for c in range(low, high + 1) if not 0xD800 <= c <= 0xDFFF}
    members = chars(ranges).ranges
    assert {c for low, high in members for c in range(low, high + 1)} == expected
    assert all(after[0] > before[1] + 1 for before, after in itertools.pairwise(members))
    complement = negated(chars(ranges)).ranges
    assert sum(high - low + 1 for low, high in complement) == 0x110000 - 2048 - len(expected)
    assert all(not (low <= c <= high) for c in list(expected)[:50] for low, high in complement)


@given(grammars, st.integers(2, 3))
@pytest.mark.clause("SAFE-6")
def test_splitting_long_bodies_keeps_the_language(grammar, max_items):
    split = split_long(grammar, max_items)
    assert words(split, ALPHABET, MAX_LEN) == words(grammar, ALPHABET, MAX_LEN)
    nodes = [node for expr in split.rules.values() for node in walk(expr)]
    assert all(len(node.items) <= max_items for node in nodes if isinstance(node, Seq | Alt))
