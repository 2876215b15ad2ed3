"""Is the window view pure, are its rows those of the committed session, and are its starts compared right?"""

import attrs
import numpy as np
import pytest
import torch

from engine.errors import TransactionError
from engine.request import OutputConstraint
from engine.text.compiler import ConstraintCompiler
from engine.text.masks import PositionState, fill_window
from engine.text.vocabulary import toy_vocabulary
from engine.text.window import AlwaysContent, SessionWindow

VOCABULARY = toy_vocabulary()
COMPILER = ConstraintCompiler(VOCABULARY)
CORES = ("xgrammar", "xgrammar-dynamic", "llguidance")
CLOSE = VOCABULARY.control_id("</think>")
EOS = VOCABULARY.eos_ids[0]
READY, DEAD_END, UNREACHABLE = PositionState.READY, PositionState.DEAD_END, PositionState.UNREACHABLE


def ids(*tokens):
    return [VOCABULARY.token_bytes.index(token.encode()) for token in tokens]


A, B, C, ABC, X = ids("a", "b", "c", "abc", "x")


@attrs.define
class Thinking:
    """A phase that anything but EOS belongs to, until the closing id."""

    begun: bool = False

    def find_start(self, token_ids):
        if self.begun:
            return 0
        return token_ids.index(CLOSE) + 1 if CLOSE in token_ids else len(token_ids) + 1

    def allows(self, token_id):
        return 0 <= token_id < VOCABULARY.size and token_id not in VOCABULARY.eos_ids

    def fill(self, words):
        bits = np.zeros(len(words) * 32, dtype=np.uint8)
        bits[[i for i in range(VOCABULARY.size) if self.allows(i)]] = 1
        words[:] = np.packbits(bits, bitorder="little").view(np.int32)

    def begin_content(self):
        self.begun = True


def matcher_for(pattern="abc+", core="xgrammar"):
    return COMPILER.compile(OutputConstraint.regex(pattern), core=core)[0].new_matcher()


def rows(window, tokens, num_rows=6):
    out = torch.full((num_rows, VOCABULARY.num_words), -1431655766, dtype=torch.int32)
    return window.fill_bitmask(tokens, out), out


def bits(row):
    return set(np.flatnonzero(np.unpackbits(row.numpy().view(np.uint8), bitorder="little")).tolist())


@pytest.mark.clause("MASK-14", "WIN-13")
@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("tokens", [[], [A], [A, B], [A, B, C], [A, B, C, C], [ABC, C, EOS]])
def test_row_i_is_the_mask_after_committing_i_tokens(core, tokens):
    states, out = rows(SessionWindow(matcher_for(core=core)), tokens)
    ends = EOS in tokens
    assert states == (READY,) * (len(tokens) + 1 - ends) + (UNREACHABLE,) * (5 - len(tokens) + ends)
    for index in range(len(tokens) + 1 - ends):
        fresh = SessionWindow(matcher_for(core=core))
        assert fresh.accept_tokens(tokens[:index])
        assert torch.equal(rows(fresh, [])[1][0], out[index])


@pytest.mark.clause("MASK-14", "WIN-8")
@pytest.mark.parametrize("core", CORES)
def test_questions_in_any_order_and_number_change_nothing(core):
    matcher = matcher_for(core=core)
    window = SessionWindow(matcher)
    assert window.accept_tokens([A])
    tokens = [B, C, EOS, C]
    first_states, first = rows(window, tokens)
    for _ in range(3):
        assert window.constraint_start(tokens) == 0 and window.validate_tokens(tokens) == 3
        states, out = rows(window, tokens)
        assert states == first_states and torch.equal(out, first)
    assert (matcher.num_committed, matcher.terminated, matcher.may_end) == (1, False, False)


@pytest.mark.clause("WIN-2", "WIN-4")
def test_starts():
    window = SessionWindow(matcher_for(), Thinking())
    assert window.constraint_start([]) == 1
    assert window.constraint_start([A, B]) == 3
    assert window.constraint_start([CLOSE, A]) == 1
    assert window.constraint_start([A, CLOSE]) == 2
    assert SessionWindow(matcher_for()).constraint_start([A, B]) == 0


@pytest.mark.clause("WIN-3", "WIN-11", "WIN-14")
@pytest.mark.parametrize(
    ("tokens", "start", "valid"),
    [
        ([X, X], 3, 2),
        ([X, CLOSE], 2, 2),
        ([CLOSE, A, B], 1, 3),
        ([X, CLOSE, A, X], 2, 3),
        ([X, EOS, CLOSE, A], 3, 1),
        ([CLOSE, B], 1, 1),
        ([X, -1, CLOSE], 3, 1),
    ],
)
def test_rows_and_validation_around_the_boundary(tokens, start, valid):
    phase = Thinking()
    window = SessionWindow(matcher_for(), phase)
    assert window.constraint_start(tokens) == start and window.validate_tokens(tokens) == valid
    states, out = rows(window, tokens)
    assert states == (READY,) * (valid + 1) + (UNREACHABLE,) * (5 - valid)
    free = {i for i in range(VOCABULARY.size) if phase.allows(i)}
    content = SessionWindow(matcher_for())
    for index in range(valid + 1):
        if index < start:
            assert bits(out[index]) == free
        else:
            fresh = SessionWindow(matcher_for())
            assert fresh.accept_tokens(tokens[start:index])
            assert torch.equal(out[index], rows(fresh, [])[1][0])
    assert not phase.begun and content.matcher.num_committed == 0


@pytest.mark.clause("WIN-19", "WIN-20")
def test_accept_moves_content_by_the_bound_tokens_alone():
    phase = Thinking()
    window = SessionWindow(matcher_for(), phase)
    assert window.accept_tokens([X, X]) and not phase.begun and window.matcher.num_committed == 0
    assert window.accept_tokens([X, CLOSE]) and phase.begun and window.matcher.num_committed == 0
    assert window.constraint_start([A]) == 0
    assert window.accept_tokens([A, B]) and window.matcher.num_committed == 2
    assert window.accept_tokens([C, EOS]) and window.matcher.terminated


@pytest.mark.clause("WIN-21")
@pytest.mark.parametrize("tokens", [[CLOSE, B], [X, EOS], [CLOSE, A, EOS], [CLOSE, A, VOCABULARY.size]])
def test_a_refused_accept_changes_nothing(tokens):
    phase = Thinking()
    window = SessionWindow(matcher_for(), phase)
    assert not window.accept_tokens(tokens)
    assert not phase.begun and window.matcher.num_committed == 0 and not window.matcher.previewing
    assert window.accept_tokens([CLOSE, A])


@pytest.mark.clause("WIN-16", "WIN-17", "MASK-12")
@pytest.mark.parametrize("core", CORES)
def test_nothing_is_asked_after_an_illegal_draft_or_an_eos(core):
    for tokens, fills in (([A, X, A], 2), ([ABC, EOS, C], 2), ([-1, A], 1), ([A, VOCABULARY.size, B], 2)):
        matcher = matcher_for(core=core)
        states, out = rows(SessionWindow(matcher), tokens)
        assert matcher.num_fills == fills and states[:fills] == (READY,) * fills
        assert all(bits(row) == {0} for row in out[fills:])
        assert not matcher.terminated and bits(rows(SessionWindow(matcher), [])[1][0]) == bits(out[0])


@pytest.mark.clause("WIN-22")
@pytest.mark.parametrize("core", CORES)
def test_after_the_validated_prefix_the_next_row_is_the_earlier_one(core):
    for tokens in ([A, B, X], [ABC, C, C], [X], [A, A]):
        window = SessionWindow(matcher_for(core=core))
        _, out = rows(window, tokens)
        valid = window.validate_tokens(tokens)
        assert window.accept_tokens(tokens[:valid])
        assert torch.equal(rows(window, [])[1][0], out[valid])


def test_a_terminated_session_has_no_reachable_row():
    window = SessionWindow(matcher_for())
    assert window.accept_tokens([ABC, EOS])
    states, out = rows(window, [C])
    assert set(states) == {UNREACHABLE} and all(bits(row) == {0} for row in out)
    assert window.validate_tokens([C]) == 0 and not window.accept_tokens([C])


def test_a_window_larger_than_its_buffer_is_refused():
    with pytest.raises(ValueError):
        rows(SessionWindow(matcher_for()), [A] * 6)


@pytest.mark.clause("TXN-6")
def test_no_question_while_a_preview_is_open():
    window = SessionWindow(matcher_for())
    window.matcher.preview([A])
    with pytest.raises(TransactionError):
        rows(window, [B])
    with pytest.raises(TransactionError):
        window.validate_tokens([B])
    window.matcher.discard()
    assert window.validate_tokens([A]) == 1


def test_bans_that_empty_a_set_are_told_apart():
    matcher = matcher_for("a|bc")
    out = torch.zeros((2, VOCABULARY.num_words), dtype=torch.int32)
    banned = torch.zeros(VOCABULARY.num_words, dtype=torch.int32)
    assert fill_window(matcher, (), out, banned_bitmask=banned)[0] is READY
    legal = out[0].clone()
    assert fill_window(matcher, (), out, banned_bitmask=legal)[0] is PositionState.DEAD_END_BY_BANS
    assert bits(out[0]) == {0}
    ban_a = torch.zeros_like(banned)
    ban_a[A // 32] = 1 << A % 32
    assert fill_window(matcher, [A], out, banned_bitmask=ban_a) == (READY, UNREACHABLE)


def test_the_default_rule_knows_no_phase_before_content():
    rule, words = AlwaysContent(), np.ones(2, dtype=np.int32)
    rule.fill(words)
    rule.begin_content()
    assert not words.any() and not rule.allows(A) and rule.find_start([A]) == 0
