"""An output session: what a preview fixes, what confirm makes real, what discard leaves untouched."""

import time

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import CoreFault, TransactionError
from engine.request import CacheOutcome, FinishReason, OutputConstraint
from engine.runtime.contract import CommitDecision
from engine.runtime.session import MatcherCost, OutputSession
from engine.text.compiler import ConstraintCompiler
from engine.text.masks import PositionState, words_for
from engine.text.vocabulary import toy_vocabulary

VOCABULARY = toy_vocabulary()
COMPILER = ConstraintCompiler(VOCABULARY)
EOS = VOCABULARY.eos_ids
ID = {data: i for i, data in reversed(list(enumerate(VOCABULARY.token_bytes)))}
A, B, C, AB = ID[b"a"], ID[b"b"], ID[b"c"], ID[b"ab"]


def make(max_tokens=5, choices=("abc", "ab")):
    matcher = COMPILER.compile(OutputConstraint.choice(choices))[0].new_matcher() if choices else None
    return OutputSession(max_tokens, frozenset(EOS), matcher, MatcherCost(core="some"))


def rows(session, drafts=(), num_rows=4):
    out = torch.full((num_rows, words_for(VOCABULARY.size)), -1, dtype=torch.int32)
    return session.fill(drafts, out), out


@pytest.mark.clause("TXN-4", "TXN-10")
@pytest.mark.parametrize(
    "tokens, max_tokens, wanted",
    [
        ((A, B), 5, CommitDecision(2, 2, None)),
        ((A, B), 3, CommitDecision(2, 2, None)),
        ((A, B), 2, CommitDecision(2, 2, FinishReason.LENGTH)),
        ((A, B, C), 2, CommitDecision(2, 2, FinishReason.LENGTH)),
        ((A, B, EOS[0]), 5, CommitDecision(3, 2, FinishReason.COMPLETED)),
        ((A, B, EOS[1], A), 5, CommitDecision(3, 2, FinishReason.COMPLETED)),
        ((A, B, EOS[0]), 3, CommitDecision(3, 2, FinishReason.COMPLETED)),
        ((A, B, EOS[0]), 2, CommitDecision(2, 2, FinishReason.LENGTH)),
    ],
)
@pytest.mark.parametrize("constrained", [True, False])
def test_preview_cuts_at_the_completion_id_and_at_the_budget(tokens, max_tokens, wanted, constrained):
    session = make(max_tokens, ("abc", "ab") if constrained else ())
    assert session.preview(tokens) == wanted
    session.confirm()
    assert session.token_ids == tokens[: wanted.num_committed]
    assert session.finish is wanted.finish
    assert session.remaining == max_tokens - wanted.num_committed


@pytest.mark.clause("TXN-3", "TXN-4", "SPECG-2")
@given(st.lists(st.tuples(st.sampled_from([(A,), (A, B), (AB,), (A, B, C)]), st.booleans()), max_size=4))
def test_discard_and_look_ahead_leave_no_trace(steps):
    session = make(20, ("abc" * 8,))
    committed = ()
    for tokens, keep in steps:
        before = rows(session, tokens)
        try:
            session.preview(tokens)
        except CoreFault:
            keep = False
        else:
            (session.confirm if keep else session.discard)()
        committed += tokens if keep else ()
        fresh = make(20, ("abc" * 8,))
        if committed:
            fresh.preview(committed)
            fresh.confirm()
        states, words = rows(session, (A, B))
        wanted_states, wanted_words = rows(fresh, (A, B))
        assert states == wanted_states
        assert torch.equal(words, wanted_words)
        if not keep:
            again = rows(session, tokens)
            assert again[0] == before[0]
            assert torch.equal(again[1], before[1])
        assert session.token_ids == committed


@pytest.mark.clause("TXN-6")
def test_masks_and_a_second_preview_are_refused_while_a_preview_is_open():
    session = make()
    session.preview((A,))
    with pytest.raises(TransactionError):
        rows(session)
    with pytest.raises(TransactionError):
        session.preview((A,))
    session.confirm()
    assert rows(session)[0][0] is PositionState.READY


@pytest.mark.clause("EMPTY-8")
def test_a_refused_token_opens_nothing():
    session = make()
    with pytest.raises(CoreFault):
        session.preview((A, A))
    assert rows(session)[0][0] is PositionState.READY
    assert session.preview((A,)).num_committed == 1


@pytest.mark.clause("TXN-10", "FAIL-9")
def test_a_cancelled_row_commits_nothing():
    session = make()
    session.cancelled = True
    assert session.preview((A, B)) == CommitDecision(0, 0, FinishReason.CANCELLED)
    session.confirm()
    assert session.token_ids == ()


@pytest.mark.clause("DONE-1", "DONE-3", "DONE-4", "DONE-7")
@pytest.mark.parametrize(
    "tokens, max_tokens, complete, terminated",
    [
        ((A,), 5, False, False),
        ((A, B), 2, True, False),
        ((A, B, EOS[1]), 5, True, True),
        ((A, B, C), 5, True, False),
        ((), 0, False, False),
    ],
)
def test_observation_keeps_may_end_and_ended_apart(tokens, max_tokens, complete, terminated):
    session = make(max_tokens, ("abc", "ab", ""))
    if tokens:
        session.preview(tokens)
        session.confirm(upload_bytes=12)
    observation = session.close()
    assert (observation.complete, observation.terminated) == (complete, terminated)
    assert observation.mask_upload_bytes == (12 if tokens else 0)
    assert session.close() is None  # the matcher is let go


def test_observation_counts_positions_that_were_computed():
    session = make()
    rows(session, (A, B))
    rows(session, (C, B))  # the first draft is illegal: one position
    assert session.close().mask_positions == 3 + 1


@pytest.mark.clause("LIFE-9")
def test_observation_says_where_the_grammar_came_from_and_what_its_time_was():
    """Seconds are the thread's own: positive, and no more than what passed."""
    session = OutputSession(
        9,
        frozenset(EOS),
        COMPILER.compile(OutputConstraint.choice(["abc"]))[0].new_matcher(),
        MatcherCost("some core", CacheOutcome.WAITED, 0.25),
    )
    begin = time.thread_time()
    for token_id in (A, B):
        rows(session, (token_id,))
        session.preview((token_id,))
        session.confirm()
    passed = time.thread_time() - begin
    observation = session.close()
    assert (observation.core, observation.cache, observation.prepare_seconds) == (
        "some core",
        CacheOutcome.WAITED,
        0.25,
    )
    assert observation.mask_upload_bytes == 0  # nobody said that a mask was copied
    assert observation.mask_seconds > 0
    assert observation.matcher_seconds > 0
    assert observation.mask_seconds + observation.matcher_seconds <= passed


def test_an_unconstrained_output_has_no_masks_and_no_observation():
    session = make(choices=())
    with pytest.raises(TransactionError):
        rows(session)
    assert session.close() is None
