"""Do reasoning, its end and the content behind it stand where the rule says, for matcher and window alike?"""

import numpy as np
import pytest
import torch

from engine.errors import RequestError
from engine.frontend.phases import Reasoning, ReasoningPhase, forced_close
from engine.request import OutputConstraint, ToolDeclaration
from engine.text.masks import PositionState, fill_window
from engine.text.vocabulary import TokenClass, toy_vocabulary
from property_tests.tool_words import EOS, IDS, TEXT_BYTES, VOCABULARY, call, language, legal, take, tokens

FREE = ToolDeclaration("go")
CLOSE = IDS.think_close
KINDS = {
    "regex": ([], OutputConstraint.regex("a*b")),
    "counted": ([], OutputConstraint.regex("(ab|c){0,40}d")),
    "choice": ([], OutputConstraint.choice([" a", "\nb", ""])),
    "grammar": ([], OutputConstraint.grammar('root ::= "a" root "b" | "c"')),
    "object": ([], OutputConstraint.json_object()),
    "tools": ([FREE], None),
    "union": ([FREE], OutputConstraint.json_object()),
}
INSIDE = {
    "regex": "aab", "counted": "abcd", "choice": "\nb", "grammar": "acb", "object": '{"a": 1}',
    "tools": "a\n" + call("go", ("a", "b")), "union": call("go", ("a", "b")),
}  # fmt: skip


def single(data):
    return TEXT_BYTES.index(data)


@pytest.mark.clause("PHASE-2", "PHASE-3", "PHASE-4", "PHASE-5", "PHASE-6", "WIN-13", "WIN-22", "REQ-1")
@pytest.mark.parametrize("kind", KINDS)
def test_reasoning_then_the_close_then_exactly_two_line_feeds_then_content(kind):
    tools, constraint = KINDS[kind]
    found = language(tools, constraint, thinking=True)
    matcher = found.new_matcher()
    generable = {i for i, c in enumerate(VOCABULARY.classes) if c in (TokenClass.TEXT, TokenClass.CONTROL)}
    spelled = [i for i, data in enumerate(TEXT_BYTES) if data == b"</think>"]
    for token_id in (IDS.tool_open, *spelled, single(b"a")):
        assert legal(matcher) == generable and not matcher.may_end
        take(matcher, [token_id])
    take(matcher, [CLOSE])
    opened = {TEXT_BYTES[i] for i in legal(matcher)}
    assert {b"\n", b"\n\n"} <= opened and all(data and b"\n\n".startswith(data[:2]) for data in opened)
    plain = language(tools, constraint).new_matcher()
    longer = {data for data in opened if len(data) > 2}
    assert longer == {b"\n\n" + data for data in (TEXT_BYTES[i] for i in legal(plain)) if data} & set(
        TEXT_BYTES
    )
    take(matcher, tokens("\n\n"))
    for token_id in [*tokens(INSIDE[kind]), EOS]:
        assert legal(matcher) == legal(plain)
        take(matcher, [token_id])
        take(plain, [token_id])
    assert matcher.terminated


@pytest.mark.clause("PHASE-13", "TXN-3", "PHASE-5")
@pytest.mark.parametrize("kind", ["regex", "object", "tools"])
def test_a_window_over_the_border_is_undone_whole(kind):
    tools, constraint = KINDS[kind]
    matcher = language(tools, constraint, thinking=True).new_matcher()
    before = legal(matcher)
    drafts = tokens("a</think>\n\n" + INSIDE[kind][:4])
    for size in range(len(drafts) + 1):
        matcher.preview(drafts[:size])
        matcher.discard()
        assert legal(matcher) == before
    take(matcher, drafts[:2])
    behind = legal(matcher)
    matcher.preview(drafts[2:])
    matcher.discard()
    assert legal(matcher) == behind
    twin = matcher.fork()
    take(twin, drafts[2:])
    assert legal(matcher) == behind


@pytest.mark.clause("PHASE-10", "PHASE-11", "PHASE-12")
def test_a_forced_close_reaches_the_state_of_a_natural_one():
    found = language([FREE], thinking=True)
    forced, natural = found.new_matcher(), found.new_matcher()
    token_ids = forced_close(found.reasoning, lambda text: tokens(text), text="\n\nno time\n")
    take(forced, tokens("ab"))
    forced.preview(token_ids)
    forced.confirm()
    take(natural, tokens("a</think>\n\n"))
    assert legal(forced) == legal(natural) and token_ids[-3:] == (CLOSE, *tokens("\n\n"))


def test_a_vocabulary_without_a_close_id_has_no_reasoning():
    with pytest.raises(RequestError) as error:
        Reasoning.of(toy_vocabulary(control=()))
    assert "</think>" in error.value.allowed


@pytest.mark.clause("WIN-1", "WIN-2", "WIN-4", "WIN-5", "WIN-31")
def test_starts_are_behind_the_first_close_and_nothing_else():
    phase = ReasoningPhase(Reasoning.of(VOCABULARY))
    open_id = VOCABULARY.control_id("<think>")
    for window, start in (
        ([], 1), ([5, 6], 3), ([CLOSE], 1), ([5, CLOSE], 2), ([CLOSE, 5, open_id], 1),
        ([CLOSE, open_id, CLOSE], 1), ([-1, CLOSE, VOCABULARY.size], 2),
    ):  # fmt: skip
        naive = next((i + 1 for i, t in enumerate(window) if t == CLOSE), len(window) + 1)
        assert phase.find_start(window) == start == naive
    phase.begin_content()
    assert phase.find_start([5, CLOSE]) == 0


@pytest.mark.clause("WIN-4", "PHASE-2")
def test_an_output_behind_thinking_is_content_from_its_first_token():
    view = language([], OutputConstraint.regex("ab")).new_window()
    assert view.constraint_start(tokens("ab")) == 0 and view.validate_tokens(tokens("ba")) == 0
    assert view.accept_tokens(tokens("ab")) and view.matcher.may_end


def rows_of(fill, size):
    out = torch.full((size + 1, VOCABULARY.num_words), 7, dtype=torch.int32)
    return fill(out), out


@pytest.mark.clause("WIN-6", "WIN-13", "WIN-14", "WIN-27", "WIN-28", "WIN-29", "WIN-30", "WIN-34")
@pytest.mark.parametrize("core", ["llguidance", "xgrammar"])
@pytest.mark.parametrize("kind", ["regex", "object", "tools"])
def test_the_window_view_and_the_whole_matcher_say_the_same(kind, core):
    tools, constraint = KINDS[kind]
    if kind == "object" and core == "xgrammar":
        pytest.skip("this core takes no complement of terminals")
    found = language(tools, constraint, thinking=True, core=core)
    good, open_id = tokens(INSIDE[kind]), VOCABULARY.control_id("<think>")
    bad = {"regex": tokens("x"), "object": tokens("x"), "tools": [IDS.tool_close]}[kind]
    border = tokens("\n\n")
    windows = [
        [], tokens("ab"), [*tokens("a"), CLOSE], [*tokens("a"), CLOSE, *border, *good[:3]],
        [CLOSE, *border, *bad, *good[:1]], [CLOSE, *bad, open_id], [CLOSE, open_id], [CLOSE, open_id, CLOSE],
        [CLOSE, *border, *good, EOS, *good[:1]], [*tokens("a"), EOS, CLOSE], [CLOSE, EOS],
        [CLOSE, *border[:1], -1],
        [CLOSE, *border, *good[:1], VOCABULARY.size, *good[:1]],
    ]  # fmt: skip
    for window in windows:
        view, matcher = found.new_window(), found.new_matcher()
        valid = view.validate_tokens(window)
        states, rows = rows_of(lambda out, v=view, w=window: v.fill_bitmask(w, out), len(window))
        whole_states, whole = rows_of(lambda out, m=matcher, w=window: fill_window(m, w, out), len(window))
        assert states == whole_states and torch.equal(rows, whole)
        assert (
            view.validate_tokens(window)
            == valid
            == next(
                (
                    i
                    for i, t in enumerate(window)
                    if states[i] is not PositionState.READY or not has(rows[i], t)
                ),
                len(window),
            )
        )
        assert view.accept_tokens(window[:valid])
        take(matcher, window[:valid])
        after, row = rows_of(lambda out, v=view: v.fill_bitmask([], out), 0)
        assert view.matcher.terminated == matcher.terminated
        if states[valid] is PositionState.READY:
            assert after == (PositionState.READY,) and torch.equal(row[0], rows[valid])
        assert view.phase.begun == (CLOSE in window[:valid])


def has(row, token_id):
    words = row.numpy().view(np.uint32)
    return 0 <= token_id < VOCABULARY.size and bool(words[token_id // 32] >> (token_id % 32) & 1)


@pytest.mark.clause("WIN-10", "WIN-22", "PHASE-5")
@pytest.mark.parametrize("cut", range(7))
def test_a_border_split_over_two_windows_is_the_same_border(cut):
    found = language([], OutputConstraint.regex("ab"), thinking=True)
    whole, split = found.new_window(), found.new_window()
    window = tokens("x</think>\n\na") + tokens("b")
    assert whole.accept_tokens(window)
    assert split.accept_tokens(window[:cut]) and split.accept_tokens(window[cut:])
    one, two = (rows_of(lambda out, v=v: v.fill_bitmask([], out), 0) for v in (whole, split))
    assert one[0] == two[0] and torch.equal(one[1], two[1])
