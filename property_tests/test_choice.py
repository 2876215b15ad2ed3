"""Choice: exactly the listed strings, whatever their order, number, prefixes and characters."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import ErrorKind, LimitExceeded, RequestError
from engine.text.choice import choice_grammar, normalized_choices
from engine.text.limits import LIMITS
from engine.text.rules import EPSILON, Bytes, Repeat, features, fold, trim, walk
from property_tests.ir_words import words

choices = st.lists(st.text("abé€😀", max_size=5), min_size=1, max_size=8)


@given(choices)
@pytest.mark.clause("CHOICE-1", "CHOICE-2", "CHOICE-4")
def test_exactly_the_listed_strings(listed):
    assert words(choice_grammar(listed), "abé€😀", 6) == frozenset(listed)


@given(choices, st.randoms(use_true_random=False))
@pytest.mark.clause("CHOICE-3")
def test_order_and_repetition_leave_no_trace(listed, random):
    shuffled = listed + listed[:2]
    random.shuffle(shuffled)
    assert choice_grammar(shuffled) == choice_grammar(listed)
    assert normalized_choices(shuffled) == normalized_choices(listed)


@pytest.mark.clause("CHOICE-1")
@pytest.mark.parametrize(
    "text", ['"', "\\", "\n", "\r\n", "\x00", "a\x00b", " a ", "]", "[a-z]", "é", "e\u0301", "#x", "Aa", "É"]
)
def test_no_character_is_special(text):
    grammar = choice_grammar([text, text + "x"])
    assert words(grammar, "".join(sorted(set(text + "x"))), len(text) + 1) == {text, text + "x"}


@pytest.mark.clause("CHOICE-1")
def test_terminals_are_whole_characters():
    grammar = choice_grammar(["é", "è", "€", "₭"])  # shared lead bytes
    for expr in grammar.rules.values():
        for node in walk(expr):
            if isinstance(node, Bytes):
                node.data.decode()


@pytest.mark.clause("CHOICE-2")
def test_the_empty_string_is_an_option_and_the_empty_list_is_not():
    assert choice_grammar([""]).rules == {"root": EPSILON}
    for bad in ([], (), "abc"):
        with pytest.raises(RequestError) as error:
            choice_grammar(bad)
        assert error.value.kind is ErrorKind.INVALID_CHOICE


@pytest.mark.parametrize("bad", [None, 3, b"a", "\ud800"])
def test_an_item_that_is_not_text_is_named_by_its_index(bad):
    with pytest.raises(RequestError) as error:
        choice_grammar(["a", bad])
    assert error.value.kind is ErrorKind.INVALID_CHOICE
    assert error.value.location.index == 1


@pytest.mark.clause("SAFE-2", "SAFE-6")
def test_member_and_byte_limits_are_served_and_one_more_is_not():
    most = [f"item {i}" for i in range(LIMITS["choice_members"])]
    assert features(trim(choice_grammar(most))).num_rules >= 1
    assert len(normalized_choices(most * 2)) == len(most)  # repeats cost nothing
    with pytest.raises(LimitExceeded) as error:
        choice_grammar([*most, "one more"])
    assert (error.value.limit, error.value.maximum) == ("choice_members", LIMITS["choice_members"])
    longest = "x" * LIMITS["choice_bytes"]
    assert choice_grammar([longest]).rules["root"] == Bytes(longest.encode())
    with pytest.raises(LimitExceeded) as error:
        choice_grammar([longest + "x"])
    assert error.value.limit == "choice_bytes"


@pytest.mark.clause("SAFE-5")
def test_a_deep_trie_becomes_rules_and_not_deep_nesting():
    grammar = trim(choice_grammar(["a" * i for i in range(1200)]))
    depths = [fold(expr, lambda node, parts: 1 + max(parts, default=0)) for expr in grammar.rules.values()]
    assert max(depths) < 40
    assert not any(isinstance(node, Repeat) for expr in grammar.rules.values() for node in walk(expr))
    assert not features(grammar).recursive
