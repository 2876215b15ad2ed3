"""Acceptance: the engine's round against the oracle in every piece of its uniforms, and by hand.

The planted faults at the end change one rule each; every one must make a sweep fail.
"""

import attrs
import pytest
import torch

from engine.ops import get_ops
from engine.ops.accept import Proposal, RejectedBy, RoundUniforms
from engine.ops.sample import RowStatus, TargetLaw
from experiments.gates import exact_ops
from experiments.gates.exact_cases import literal_cases
from experiments.gates.exact_rounds import check_rounds, play_cases
from oracles import accept as oracle
from oracles.sample import Law

IMPLS = ["torch", "numpy", "triton"]
SWEEPS = ["single columns", "chains", "random rounds", "joint law"]
EDGE = 2**-24


@pytest.mark.clause(
    "SPEC-2", "SPEC-3", "SPEC-4", "SPEC-5", "SPEC-6", "SPEC-8", "SPEC-9", "SPEC-10", "SAMP-14"
)
@pytest.mark.clause("SPECG-1", "SPECG-3", "SPECG-4", "VER-4")
@pytest.mark.parametrize("impl, size", [("torch", "quick"), ("numpy", "quick"), ("triton", "tiny")])
@pytest.mark.parametrize("name", SWEEPS)
def test_rounds_equal_the_oracle(name, impl, size):
    record = exact_ops.run_check(get_ops(impl), name, size)
    assert record.passed, record.first_failure


@pytest.mark.clause("SPEC-8")
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_seeded_rounds_equal_the_oracle(seed):
    for name in ("random rounds", "joint law"):
        record = exact_ops.run_check(get_ops("torch"), name, "quick", seed)
        assert record.passed, record.first_failure


@pytest.mark.clause("SPEC-5", "SPEC-3", "SPEC-2", "SPEC-9")
@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize(
    "name, law",
    [
        ("draft a", {(0, 0): 1.0}),
        ("draft x", {(1,): 1.0}),  # refused, and the residual of p - q holds b alone
        # p(3)/q(3) = 1/3; max(p - q, 0) = (4, 1, 0, 0)/16
        ("sparse", {(3, 0): 1 / 3, (0,): 2 / 3 * 4 / 5, (1,): 2 / 3 * 1 / 5}),
        # p without 1 is (6, 3, 2)/11 of the 11/16 that are left
        ("one-hot", {(1, 0): 5 / 16, (0,): 6 / 16, (2,): 3 / 16, (3,): 2 / 16}),
        ("no residual mass", {(0, 0): 0.5, (1,): 0.5}),  # the last entry of p's support
    ],
)
def test_a_round_law_by_hand(impl, name, law):
    case = literal_cases()[name]
    (got,), failure, _ = play_cases(get_ops(impl), [case], seed=0, twice=False)
    assert failure is None
    assert got == pytest.approx(law, abs=1e-12)


@pytest.mark.clause("SPEC-5")
@pytest.mark.parametrize("impl", IMPLS)
def test_dropping_an_illegal_draft_would_show(impl):
    """q proposes a and x half the time each; the first token is a or b, 0.5 each, not 0.75 and 0.25."""
    cases = [literal_cases()["draft a"], literal_cases()["draft x"]]
    first = {0: 0.0, 1: 0.0}
    for case in cases:
        (law,), _, _ = play_cases(get_ops(impl), [case], seed=0, twice=False)
        for tokens, p in law.items():
            first[tokens[0]] += 0.5 * p
    assert first == {0: 0.5, 1: 0.5}


def one_round(ops, accept_uniforms, *, probs=0.5, drafts=(0, 0, 0), ends=(False,) * 3, extent=3, status=None):
    """Three drafts of id 0, each with p(0) = `probs`; the bonus column holds id 2 alone."""
    columns = [[probs, 1 - probs, 0.0]] * 3 + [[0.0, 0.0, 1.0]]
    law = TargetLaw(
        torch.arange(3).expand(4, 3).contiguous(),
        torch.tensor(columns, dtype=torch.float64),
        torch.tensor(status or [0, 0, 0, 0]),
    )
    proposal = Proposal(torch.tensor([drafts]), torch.tensor([extent]), None, None, torch.tensor([ends]))
    coins = torch.tensor([accept_uniforms], dtype=torch.float64)
    zero = torch.zeros(1, 3, dtype=torch.float64)
    outcome = ops.accept_round(law, proposal, RoundUniforms(coins, zero, zero[:, 0]), vocab_size=3)
    return (
        outcome.token_ids[0].tolist(),
        int(outcome.num_emitted),
        int(outcome.num_accepted),
        RowStatus(int(outcome.status)),
        RejectedBy(int(outcome.rejected_by)),
    )


@pytest.mark.clause("SPEC-6", "SPEC-9", "SPEC-10")
@pytest.mark.parametrize("impl", IMPLS)
def test_coins_by_hand(impl):
    ops, ok, none, target = get_ops(impl), RowStatus.OK, RejectedBy.NONE, RejectedBy.TARGET
    below, at = 0.5 - EDGE, 0.5
    assert one_round(ops, (below, below, below)) == ([0, 0, 0, 2], 4, 3, ok, none)
    assert one_round(ops, (below, at, below)) == ([0, 1, 0, 0], 2, 1, ok, target)  # not the sum of flags
    assert one_round(ops, (at, below, below)) == ([1, 0, 0, 0], 1, 0, ok, target)
    assert one_round(ops, (0, 0, 0), probs=0.0) == ([1, 0, 0, 0], 1, 0, ok, target)  # u = 0 against p = 0
    ended = one_round(ops, (0, 0, 0), ends=(False, True, False), status=[0, 0, 1, 2])
    assert ended == ([0, 0, 0, 0], 2, 2, ok, none)
    assert one_round(ops, (0, 0, 0), extent=0, probs=0.25) == ([0, 0, 0, 0], 1, 0, ok, none)
    assert one_round(ops, (0, at, 0), status=[0, 0, 1, 2])[3] == ok  # the dead column is not reached
    assert one_round(ops, (0, 0, 0), status=[0, 0, 3, 2]) == ([0] * 4, 0, 0, RowStatus.EMPTY_BY_BANS, none)
    assert one_round(ops, (0, 0, 0), drafts=(0, -1, 0)) == ([0, 0, 0, 0], 2, 1, ok, target)
    assert one_round(ops, (0, 0, 0), drafts=(0, 3, 0)) == ([0, 0, 0, 0], 2, 1, ok, target)


@pytest.mark.clause("SPEC-12")
def test_a_window_without_columns_for_drafts():
    """K = 0: the bonus of column 0 is an ordinary draw."""
    law = TargetLaw(
        torch.tensor([[2, 1]]), torch.tensor([[0.5, 0.5]], dtype=torch.float64), torch.tensor([0])
    )
    none = torch.zeros(1, 0, dtype=torch.int64)
    proposal = Proposal(none, torch.tensor([0]), None, None, none.bool())
    for u, token in ((0.5 - EDGE, 2), (0.5, 1)):
        uniforms = RoundUniforms(none.double(), none.double(), torch.tensor([u], dtype=torch.float64))
        outcome = get_ops("torch").accept_round(law, proposal, uniforms, vocab_size=3)
        assert outcome.token_ids.tolist() == [[token]]
        assert (outcome.num_emitted.tolist(), outcome.num_accepted.tolist()) == ([1], [0])


@pytest.mark.clause("SPEC-9")
def test_the_oracle_by_hand():
    p = Law((0, 1, 2), (0.5, 0.5, 0.0))
    assert oracle.accept(p, 0, None, 0.5 - EDGE)
    assert not oracle.accept(p, 0, None, 0.5)
    assert not oracle.accept(p, 2, None, 0.0)
    assert not oracle.accept(p, 9, {9: 0.25, 0: 0.75}, 0.0)
    assert oracle.accept(p, 0, {0: 0.75, 1: 0.25}, 2 / 3 - EDGE)
    assert not oracle.accept(p, 0, {0: 0.75, 1: 0.25}, 2 / 3 + EDGE)
    assert oracle.residual_weights(p, 0, {0: 0.75, 1: 0.25}) == [0.0, 0.25, 0.0]
    assert oracle.residual(p, 0, {0: 1.0, 1: 1.0}) == Law((1,), (1.0,))
    assert oracle.draw_correction(p, 0, {0: 1.0, 1: 1.0}, 0.0) == 1
    played = oracle.play_round([p, p], [2], [None], [0.0], [0.0], 0.9, legal=[{0, 1}, {0, 1}])
    assert played == oracle.Round((0,), 0, rejected_by="grammar")


# --- planted faults -------------------------------------------------------------------------------------


def with_proposal(change):
    """The torch ops with a proposal that was tampered with before the round."""

    def plant(law, proposal, uniforms, **masks):
        return get_ops("torch").accept_round(law, change(proposal), uniforms, **masks)

    return plant


def with_uniforms(change):
    def plant(law, proposal, uniforms, **masks):
        return get_ops("torch").accept_round(law, proposal, change(uniforms), **masks)

    return plant


def drop_illegal(law, proposal, uniforms, *, vocab_size, allowed_bitmask=None, constrained_mask=None):
    """An illegal first draft is dropped and its column drawn from as a bonus."""
    extents = proposal.extents.clone()
    num_columns = uniforms.accept.shape[1] + 1
    for row in range(len(extents)):
        inside = law.token_ids[row * num_columns] == proposal.token_ids[row, 0]
        if not bool((inside & (law.probs[row * num_columns] > 0)).any()):
            extents[row] = 0
    more = {
        "vocab_size": vocab_size,
        "allowed_bitmask": allowed_bitmask,
        "constrained_mask": constrained_mask,
    }
    return get_ops("torch").accept_round(law, attrs.evolve(proposal, extents=extents), uniforms, **more)


def scale_q(proposal):
    if proposal.draft_probs is None:
        return proposal
    return attrs.evolve(proposal, draft_probs=proposal.draft_probs * 1.001)


def zero_q(proposal):
    if proposal.draft_probs is None:
        return proposal
    return attrs.evolve(proposal, draft_probs=torch.zeros_like(proposal.draft_probs))


def shift_q(proposal):
    """The next draft's q is used for this draft."""
    if proposal.draft_probs is None:
        return proposal
    probs, ids = proposal.draft_probs.roll(-1, 1), proposal.candidate_ids.roll(-1, 1)
    return attrs.evolve(proposal, draft_probs=probs, candidate_ids=ids)


def as_one_hot(proposal):
    return attrs.evolve(proposal, draft_probs=None, candidate_ids=None)


def shift_columns(law, proposal, uniforms, **masks):
    """Column i + 1 is read for draft i."""
    num_columns = uniforms.accept.shape[1] + 1

    def turned(x):
        return x.unflatten(0, (-1, num_columns)).roll(-1, 1).flatten(0, 1)

    law = TargetLaw(turned(law.token_ids), turned(law.probs), turned(law.status))
    return get_ops("torch").accept_round(law, proposal, uniforms, **masks)


def blame_target(law, proposal, uniforms, *, vocab_size, **masks):
    return get_ops("torch").accept_round(law, proposal, uniforms, vocab_size=vocab_size)


def spoil_law(law, proposal, uniforms, **masks):
    outcome = get_ops("torch").accept_round(law, proposal, uniforms, **masks)
    law.probs.mul_(0.5)
    return outcome


def one_coin(u):
    return attrs.evolve(u, accept=u.accept[:, :1].expand_as(u.accept).contiguous())


FAULTS = {
    "illegal draft dropped": drop_illegal,
    "q off by a thousandth": with_proposal(scale_q),
    "q forgotten": with_proposal(zero_q),
    "q of the next draft": with_proposal(shift_q),
    "sparse q taken as one-hot": with_proposal(as_one_hot),
    "ends ignored": with_proposal(lambda p: attrs.evolve(p, ends_mask=torch.zeros_like(p.ends_mask))),
    "extent ignored": with_proposal(
        lambda p: attrs.evolve(p, extents=torch.full_like(p.extents, p.token_ids.shape[1]))
    ),
    "one coin for all drafts": with_uniforms(one_coin),
    "accept coin reused": with_uniforms(lambda u: attrs.evolve(u, correction=u.accept)),
    "correction coin reused": with_uniforms(lambda u: attrs.evolve(u, bonus=u.correction[:, 0])),
    "coins one step too high": with_uniforms(lambda u: attrs.evolve(u, accept=u.accept + EDGE)),
    "coins one step too low": with_uniforms(lambda u: attrs.evolve(u, correction=u.correction - EDGE)),
    "columns shifted": shift_columns,
    "every refusal blamed on the target": blame_target,
    "law changed in place": spoil_law,
}


@pytest.mark.parametrize("name", FAULTS)
def test_planted_faults_are_caught(name):
    ops = attrs.evolve(get_ops("torch"), accept_round=FAULTS[name])
    assert not exact_ops.run_check(ops, "random rounds", "quick").passed


def test_a_sweep_without_events_is_inconclusive(monkeypatch):
    monkeypatch.setitem(exact_ops.CHECKS, "random rounds", (exact_ops.random_rounds, {"bonuses": 10**9}))
    record = exact_ops.run_check(get_ops("torch"), "random rounds", "quick")
    assert not record.passed
    assert "INCONCLUSIVE" in record.first_failure["inconclusive"]


def test_no_coin_may_depend_on_what_is_not_read():
    """The same round in a batch of others and alone gives the same outcome."""
    cases = [literal_cases()[name] for name in ("sparse", "no residual mass")]
    for case in cases:
        record = check_rounds(get_ops("torch"), "alone", [case], seed=4)
        assert record.passed, record.first_failure
