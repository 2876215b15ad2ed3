"""How acceptance reads a window: columns by stride, extents, statuses of reached columns, who refused.

Every law is one-hot, so each expectation is a literal; each test runs the torch reference and the kernels.
"""

import pytest
import torch

from engine.ops.accept import Proposal, RejectedBy, RoundUniforms
from engine.ops.sample import RowStatus, TargetLaw
from property_tests.test_ops_layout import device_of, ops, pack, to_device

__all__ = ["ops"]  # the fixture


def window_law(best_ids, cap=3):
    """A law per column that is one-hot on the given id."""
    token_ids = torch.zeros(len(best_ids), cap, dtype=torch.int64)
    token_ids[:, 0] = torch.tensor(best_ids)
    probs = torch.zeros(len(best_ids), cap, dtype=torch.float64)
    probs[:, 0] = 1.0
    return TargetLaw(token_ids, probs, torch.zeros(len(best_ids), dtype=torch.int64))


def play(ops, law, drafts, extents, **tables):
    """Run one round of one-hot drafts with uniforms of 0.5."""
    device = device_of(ops)
    token_ids = torch.as_tensor(drafts, dtype=torch.int64)
    batch, k = token_ids.shape
    ends = tables.pop("ends_mask", torch.zeros(batch, k, dtype=torch.bool))
    half = torch.full((batch, k), 0.5, dtype=torch.float64)
    uniforms = RoundUniforms(half, half, torch.full((batch,), 0.5, dtype=torch.float64))
    proposal = Proposal(token_ids, torch.tensor(extents, dtype=torch.int64), None, None, ends)
    outcome = ops.accept_round(
        to_device(law, device),
        to_device(proposal, device),
        to_device(uniforms, device),
        **{name: to_device(table, device) for name, table in tables.items()},
    )
    return to_device(outcome, "cpu")


@pytest.mark.clause("MASK-2", "MASK-3", "SPEC-6")
def test_window_rows_are_row_times_k_plus_1_plus_position(ops):
    """Two rows, K = 2, six different laws: each decision must read its own column, each row its extent."""
    law = window_law([10, 11, 12, 20, 21, 22])
    outcome = play(ops, law, [[10, 11], [20, 99]], [2, 2], vocab_size=100)
    assert outcome.token_ids.tolist() == [[10, 11, 12], [20, 21, 0]]
    assert outcome.num_emitted.tolist() == [3, 2]
    assert outcome.num_accepted.tolist() == [2, 1]
    shorter = play(ops, law, [[10, 11], [20, 21]], [0, 1], vocab_size=100)
    assert shorter.token_ids.tolist() == [[10, 0, 0], [20, 21, 0]]
    assert shorter.num_emitted.tolist() == [1, 2]
    assert shorter.rejected_by.tolist() == [RejectedBy.NONE] * 2


@pytest.mark.clause("SPEC-6")
def test_no_draft_column_at_all_is_a_bonus(ops):
    outcome = play(ops, window_law([7, 8]), [[], []], [0, 0], vocab_size=9)
    assert outcome.token_ids.tolist() == [[7], [8]]
    assert outcome.num_emitted.tolist() == [1, 1]


@pytest.mark.parametrize("k", [0, 2])
def test_no_rows_is_a_legal_round(ops, k):
    law = TargetLaw(torch.zeros(0, 3).long(), torch.zeros(0, 3).double(), torch.zeros(0).long())
    assert play(ops, law, torch.zeros(0, k), [], vocab_size=9).token_ids.shape == (0, k + 1)


@pytest.mark.clause("SPECG-3", "MASK-3")
def test_who_refused_is_read_from_the_refused_column_of_a_constrained_row(ops):
    """Column 1 refuses: open, closed, closed but free, out of range, the same but free; bits 31, 32."""
    law = window_law([5, 6, 7] * 5)
    drafts = [[5, 31], [5, 32], [5, 32], [5, -1], [5, 40]]
    bitmask = pack([{5}, {31}, set()] * 5, 2)
    constrained = torch.tensor([True, True, False, True, False])
    outcome = play(
        ops, law, drafts, [2] * 5, vocab_size=40, allowed_bitmask=bitmask, constrained_mask=constrained
    )
    target, grammar = int(RejectedBy.TARGET), int(RejectedBy.GRAMMAR)
    assert outcome.rejected_by.tolist() == [target, grammar, target, grammar, target]
    assert outcome.token_ids.tolist() == [[5, 6, 0]] * 5
    unmasked = play(ops, law, drafts, [2] * 5, vocab_size=40)
    assert unmasked.rejected_by.tolist() == [target] * 5


@pytest.mark.clause("SPEC-10", "FAIL-6")
def test_a_column_without_a_law_counts_only_if_reached(ops):
    """Reached directly, behind a refusal, behind an accepted end, behind a short extent."""
    law = window_law([5, 6] * 4)
    law.status[1::2] = int(RowStatus.EMPTY)
    law.probs[1::2] = 0.0
    ends = torch.tensor([[False], [False], [True], [False]])
    outcome = play(ops, law, [[5], [4], [5], [5]], [1, 1, 1, 0], vocab_size=9, ends_mask=ends)
    assert outcome.status.tolist() == [RowStatus.EMPTY, RowStatus.OK, RowStatus.OK, RowStatus.OK]
    assert outcome.num_emitted.tolist() == [0, 1, 1, 1]
    assert outcome.num_accepted.tolist() == [0, 0, 1, 0]
    assert outcome.token_ids.tolist() == [[0, 0], [5, 0], [5, 0], [5, 0]]


@pytest.mark.clause("SPEC-4")
def test_acceptance_writes_into_no_input(ops):
    law = window_law([5, 6])
    copies = [law.token_ids.clone(), law.probs.clone()]
    play(ops, law, [[4]], [1], vocab_size=9)
    assert torch.equal(law.token_ids, copies[0])
    assert torch.equal(law.probs, copies[1])
