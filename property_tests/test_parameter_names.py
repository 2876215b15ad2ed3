"""Do the companions close exactly the tokens that repeat a name, and move with every transaction?"""

import random

import pytest

from engine.frontend.parameter_names import ParameterNames, Switched, name_tokens
from engine.frontend.tool_contract import tool_contract
from engine.request import OutputConstraint, ToolChoice, ToolDeclaration
from property_tests.tool_words import (
    EOS,
    IDS,
    TEXT_BYTES,
    VOCABULARY,
    call,
    language,
    legal,
    repeats_a_name,
    strict,
    take,
    text_of,
    tokens,
)

FREE = ToolDeclaration("go")
USED = "<tool_call>\n<function=go>\n<parameter=a>\n\n</parameter>\n"


@pytest.mark.clause("TOOL-17")
def test_every_token_that_would_complete_a_used_name_is_closed():
    found = language([FREE])
    matcher = found.new_matcher()
    take(matcher, tokens(USED + "<parameter="))
    opened = {TEXT_BYTES[i] for i in legal(matcher) if TEXT_BYTES[i] is not None}
    assert b"ab" in opened and b"a" in opened and b"parameter" in opened
    assert not {b"a>", b"a>\n"} & opened
    take(matcher, tokens("a"))
    opened = {TEXT_BYTES[i] for i in legal(matcher) if TEXT_BYTES[i] is not None}
    assert b"b>\na" in opened and b"x>" in opened and not {b">", b">\n", b">\n\n"} & opened
    inside = found.new_matcher()
    take(inside, tokens(USED + "<parameter"))
    opened = {TEXT_BYTES[i] for i in legal(inside) if TEXT_BYTES[i] is not None}
    assert {b"=a", b"=ab>"} <= opened and b"=a>" not in opened


@pytest.mark.clause("TOOL-17")
def test_a_token_that_ends_a_value_and_repeats_a_name_is_closed():
    matcher = language([FREE]).new_matcher()
    whole = TEXT_BYTES.index(b"a\n</parameter>\n<parameter=a>\n")
    assert whole in name_tokens(VOCABULARY).whole
    take(matcher, tokens("<tool_call>\n<function=go>\n<parameter=b>\n"))
    assert whole in legal(matcher)
    take(matcher, [whole])
    assert whole not in legal(matcher)


@pytest.mark.clause("TOOL-17")
def test_what_a_token_holds_behind_a_name_belongs_to_the_value():
    matcher = language([FREE]).new_matcher()
    begin = "<tool_call>\n<function=go>\n<parameter="
    ends_and_begins = TEXT_BYTES.index(b"b>\na")
    take(matcher, [*tokens(begin), ends_and_begins, *tokens("\n</parameter>\n<parameter=b")])
    assert not set(tokens(">")) & legal(matcher)
    matcher = language([FREE]).new_matcher()
    empty = [TEXT_BYTES.index(b"a>\n"), TEXT_BYTES.index(b"\n</parameter>"), *tokens("\n<parameter=a")]
    take(matcher, [*tokens(begin), *empty])
    assert not set(tokens(">")) & legal(matcher)


@pytest.mark.clause("TOOL-18", "TXN-3", "TXN-9")
def test_random_walks_with_detours_leave_no_trace():
    found, rng = language([FREE], thinking=True), random.Random(2)
    for _ in range(6):
        matcher, ids = found.new_matcher(), tokens("a</think>\n\n" + USED + "<parameter=")
        take(matcher, ids)
        for _ in range(40):
            options = sorted(legal(matcher))
            with matcher.look_ahead():
                for _ in range(3):
                    matcher.accept(rng.choice(sorted(legal(matcher)) or [EOS]))
            assert sorted(legal(matcher)) == options
            good = [i for i in options if TEXT_BYTES[i] and set(TEXT_BYTES[i]) & set(b"a=<>\n/bp")] or options
            ids.append(rng.choice(good))
            matcher.preview([ids[-1]])
            matcher.discard()
            assert sorted(legal(matcher)) == options
            take(matcher, [ids[-1]])
            if ids[-1] == EOS:
                break
            twin = matcher.fork()
            assert legal(twin) == legal(matcher)
        assert not repeats_a_name(text_of(ids).partition("</think>")[2])


def test_a_new_call_has_its_names_anew():
    found = language([FREE])
    matcher = found.new_matcher()
    take(matcher, tokens(call("go", ("a", "")) + "\n<tool_call>\n<function=go>\n<parameter=a"))
    assert TEXT_BYTES.index(b">\n") in legal(matcher)


@pytest.mark.clause("TOOL-18")
def test_no_companion_follows_content_that_no_call_has_begun():
    union = language([FREE], OutputConstraint.json_object(), prefix='{"<parameter=a>": "<parameter=a>"')
    assert EOS not in legal(union.new_matcher()) and TEXT_BYTES.index(b"}") in legal(union.new_matcher())


class Counting:
    """A companion that notes what it is told."""

    def __init__(self, seen=()):
        self.seen = list(seen)

    def accept(self, token_id):
        self.seen += [token_id] if token_id != 7 else []
        return token_id != 7

    def rollback(self, num_tokens):
        del self.seen[len(self.seen) - num_tokens :]

    def confirm(self):
        self.seen = [("kept", token_id) for token_id in self.seen]

    def fork(self):
        return Counting(self.seen)

    def clear(self, words):
        words.append(tuple(self.seen))


def test_a_switch_routes_tokens_and_takes_them_back_over_the_border():
    first, second = Counting(), Counting()
    both = Switched(first, second, 9)
    assert both.accept(1) and not both.accept(7) and both.accept(2) and both.accept(9) and both.accept(3)
    assert not both.accept(7) and (first.seen, second.seen) == ([1, 2], [9, 3])
    twin = both.fork()
    both.rollback(3)
    assert (first.seen, second.seen) == ([1], []) and both.accept(4) and first.seen == [1, 4]
    assert twin.accept(5) and second.seen == []
    assert both.accept(9) and both.accept(9) and second.seen == [9, 9]
    both.rollback(1)
    both.confirm()
    assert (first.seen, second.seen) == ([("kept", 1), ("kept", 4)], [("kept", 9)])
    rows = []
    both.clear(rows)
    Switched(None, second, 9).clear(rows)
    assert rows == [(("kept", 9),)] and Switched(None, None, 9).accept(9)


def test_a_switch_whose_second_companion_refuses_the_trigger_has_not_switched():
    both = Switched(None, Counting(), 7)
    assert not both.accept(7) and both.accept(1)
    both.rollback(1)


@pytest.mark.clause("JSON-28", "TOOL-25")
def test_forks_of_a_json_value_do_not_share_names():
    found = language([strict("get", {"o": {"type": "object"}})])
    matcher = found.new_matcher()
    take(matcher, tokens('<tool_call>\n<function=get>\n<parameter=o>\n{"a": 1, "'))
    twin = matcher.fork()
    take(twin, tokens('b": 1, "'))
    take(matcher, tokens("b"))
    assert TEXT_BYTES.index(b'"') in legal(matcher)
    take(twin, tokens("b"))
    assert TEXT_BYTES.index(b'"') not in legal(twin)


def test_ids_without_text_do_not_move_the_tracker():
    names = ParameterNames(VOCABULARY, tool_contract([FREE], ToolChoice()))
    assert names.accept(IDS.tool_open) and names.accept(IDS.tool_close)
    names.rollback(2)
    names.rollback(0)
