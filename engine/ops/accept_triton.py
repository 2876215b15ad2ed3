"""One verification round as a Triton kernel, one program per batch row, in float64 (contract 5).

Sums run one term after the other in candidate order, as in engine/ops/accept.py, so both give the same
tokens on the same uniforms. Laws wider than MAX_CAP go to the torch reference.
"""

# Kernel arguments have their types from the launch.
# mypy: disable-error-code="no-untyped-def"

import torch
import triton
import triton.language as tl
from jaxtyping import Bool, Int32
from torch import Tensor

from engine.ops import accept
from engine.ops.accept import Proposal, RejectedBy, RoundOutcome, RoundUniforms
from engine.ops.sample import RowStatus, TargetLaw

MAX_CAP = 128
OPTIONS = {"num_warps": 1, "enable_fp_fusion": False}
_OK: tl.constexpr = tl.constexpr(int(RowStatus.OK))
_NONE: tl.constexpr = tl.constexpr(int(RejectedBy.NONE))
_TARGET: tl.constexpr = tl.constexpr(int(RejectedBy.TARGET))
_GRAMMAR: tl.constexpr = tl.constexpr(int(RejectedBy.GRAMMAR))


@triton.jit
def _draft_prob_at(token_ids, candidate_ids_ptr, draft_probs_ptr, NUM_CANDIDATES: tl.constexpr):
    total = (token_ids * 0).to(tl.float64)
    for index in range(NUM_CANDIDATES):
        matches = token_ids == tl.load(candidate_ids_ptr + index)
        total = total + tl.where(matches, tl.load(draft_probs_ptr + index), 0.0)
    return total


@triton.jit
def _running_sums(weights, index, cap):
    """Return the running sums in candidate order and the last of them; no tree order, no fusion."""
    running = tl.sum(weights * 0.0, 0)
    sums = weights * 0.0
    for position in range(cap):
        running = running + tl.sum(tl.where(index == position, weights, 0.0), 0)
        sums = tl.where(index == position, running, sums)
    return sums, running


@triton.jit
def _first_above(weights, sums, goal, index, CAP_BLOCK: tl.constexpr):
    positive = weights > 0
    first_hit = tl.min(tl.where(positive & (goal < sums), index, CAP_BLOCK), 0)
    last_positive = tl.max(tl.where(positive, index, 0), 0)
    return tl.where(first_hit < CAP_BLOCK, first_hit, last_positive)


@triton.jit
def _count_accepted(
    row,
    k,
    extent,
    law_ids_ptr,
    law_probs_ptr,
    law_status_ptr,
    drafts_ptr,
    candidate_ids_ptr,
    draft_probs_ptr,
    ends_ptr,
    accept_uniforms_ptr,
    vocab_size,
    cap,
    NUM_CANDIDATES: tl.constexpr,
    CAP_BLOCK: tl.constexpr,
):
    """Walk the drafts until one is refused, ends the round, or none is left."""
    index = tl.arange(0, CAP_BLOCK)
    column = row * 0
    has_ended = row < 0
    is_walking = extent > 0
    while is_walking:
        cell = row * k + column
        law_row = row * (k + 1) + column
        draft = tl.load(drafts_ptr + cell)
        law_ids = tl.load(law_ids_ptr + law_row * cap + index, mask=index < cap, other=0)
        law_probs = tl.load(law_probs_ptr + law_row * cap + index, mask=index < cap, other=0.0)
        target_prob = tl.sum(tl.where(law_ids == draft, law_probs, 0.0), 0)
        goal = tl.load(accept_uniforms_ptr + cell)
        if candidate_ids_ptr is not None:
            cell_ids, cell_probs = (
                candidate_ids_ptr + cell * NUM_CANDIDATES,
                draft_probs_ptr + cell * NUM_CANDIDATES,
            )
            goal = goal * _draft_prob_at(draft, cell_ids, cell_probs, NUM_CANDIDATES)
        has_law = (tl.load(law_status_ptr + law_row) == _OK) & (draft >= 0) & (draft < vocab_size)
        is_accepted = has_law & (goal < target_prob)
        has_ended = is_accepted & (tl.load(ends_ptr + cell) != 0)
        column += is_accepted.to(tl.int64)
        is_walking = is_accepted & (has_ended == 0) & (column < extent)
    return column, has_ended


@triton.jit
def _closed_by_grammar(
    row, cell, law_row, draft, vocab_size, allowed_ptr, allowed_stride, constrained_ptr, is_draft
):
    in_domain = (draft >= 0) & (draft < vocab_size)
    word = tl.load(allowed_ptr + law_row * allowed_stride + draft // 32, mask=is_draft & in_domain, other=0)
    is_open = in_domain & (((word >> (draft % 32).to(tl.int32)) & 1) != 0)
    is_closed = is_open == 0
    if constrained_ptr is not None:
        is_closed = is_closed & (tl.load(constrained_ptr + row) != 0)
    return is_closed


@triton.jit
def accept_round_kernel(
    law_ids_ptr,
    law_probs_ptr,
    law_status_ptr,
    drafts_ptr,
    extents_ptr,
    candidate_ids_ptr,
    draft_probs_ptr,
    ends_ptr,
    accept_uniforms_ptr,
    correction_uniforms_ptr,
    bonus_uniforms_ptr,
    allowed_ptr,
    allowed_stride,
    constrained_ptr,
    token_ids_ptr,
    num_emitted_ptr,
    num_accepted_ptr,
    status_ptr,
    rejected_by_ptr,
    k,
    vocab_size,
    cap,
    NUM_CANDIDATES: tl.constexpr,
    CAP_BLOCK: tl.constexpr,
    K_BLOCK: tl.constexpr,
):
    """Judge one batch row: walk its drafts, then draw the correction or the bonus where the walk stopped."""
    row = tl.program_id(0).to(tl.int64)
    extent = tl.load(extents_ptr + row)
    column, has_ended = _count_accepted(
        row,
        k,
        extent,
        law_ids_ptr,
        law_probs_ptr,
        law_status_ptr,
        drafts_ptr,
        candidate_ids_ptr,
        draft_probs_ptr,
        ends_ptr,
        accept_uniforms_ptr,
        vocab_size,
        cap,
        NUM_CANDIDATES,
        CAP_BLOCK,
    )
    cell = row * k + column
    law_row = row * (k + 1) + column
    status = tl.where(has_ended, _OK, tl.load(law_status_ptr + law_row))
    is_ok = status == _OK
    is_draft = (has_ended == 0) & (column < extent)
    draft = tl.load(drafts_ptr + cell, mask=is_draft, other=-1)
    index = tl.arange(0, CAP_BLOCK)
    law_ids = tl.load(law_ids_ptr + law_row * cap + index, mask=index < cap, other=0)
    weights = tl.load(law_probs_ptr + law_row * cap + index, mask=index < cap, other=0.0)
    goal = tl.load(bonus_uniforms_ptr + row)
    if is_draft:
        if candidate_ids_ptr is not None:
            cell_ids, cell_probs = (
                candidate_ids_ptr + cell * NUM_CANDIDATES,
                draft_probs_ptr + cell * NUM_CANDIDATES,
            )
            residual = weights - _draft_prob_at(law_ids, cell_ids, cell_probs, NUM_CANDIDATES)
            residual = tl.where(residual > 0, residual, 0.0)
        else:
            residual = tl.where(law_ids == draft, 0.0, weights)
        sums, mass = _running_sums(residual, index, cap)
        has_mass = mass > 0
        goal = tl.where(has_mass, tl.load(correction_uniforms_ptr + cell) * mass, float("inf"))
        weights = tl.where(has_mass, residual, weights)
    sums, mass = _running_sums(weights, index, cap)
    choice = _first_above(weights, sums, goal, index, CAP_BLOCK)
    token = tl.sum(tl.where(index == choice, law_ids, 0), 0)
    rejected_by = tl.where(is_draft & is_ok, _TARGET, _NONE)
    if allowed_ptr is not None:
        is_closed = _closed_by_grammar(
            row, cell, law_row, draft, vocab_size, allowed_ptr, allowed_stride, constrained_ptr, is_draft
        )
        rejected_by = tl.where(is_draft & is_ok & is_closed, _GRAMMAR, rejected_by)
    num_accepted = tl.where(is_ok, column, 0)
    num_emitted = tl.where(is_ok, column + (has_ended == 0).to(tl.int64), 0)
    slot = tl.arange(0, K_BLOCK)
    drafts = tl.load(drafts_ptr + row * k + slot, mask=slot < num_accepted, other=0)
    tokens = tl.where(slot < num_accepted, drafts, tl.where(slot < num_emitted, token, 0))
    tl.store(token_ids_ptr + row * (k + 1) + slot, tokens, mask=slot <= k)
    tl.store(num_emitted_ptr + row, num_emitted)
    tl.store(num_accepted_ptr + row, num_accepted)
    tl.store(status_ptr + row, status.to(tl.int64))
    tl.store(rejected_by_ptr + row, rejected_by.to(tl.int64))


def accept_round(
    law: TargetLaw,
    proposal: Proposal,
    uniforms: RoundUniforms,
    *,
    allowed_bitmask: Int32[Tensor, "columns words"] | None = None,
    constrained_mask: Bool[Tensor, " batch"] | None = None,
    vocab_size: int,
) -> RoundOutcome:
    """Judge the drafts of every row, as `engine.ops.accept.accept_round` does (contract 5)."""
    batch, k = proposal.token_ids.shape
    cap = law.probs.shape[1]
    assert law.probs.shape[0] == batch * (k + 1), "the law needs k + 1 columns per row"
    if cap > MAX_CAP:
        return accept.accept_round(
            law,
            proposal,
            uniforms,
            allowed_bitmask=allowed_bitmask,
            constrained_mask=constrained_mask,
            vocab_size=vocab_size,
        )
    device = law.probs.device
    outcome = RoundOutcome(
        torch.empty((batch, k + 1), dtype=torch.int64, device=device),
        *(torch.empty(batch, dtype=torch.int64, device=device) for _ in range(4)),
    )
    if batch:
        _launch(law, proposal, uniforms, allowed_bitmask, constrained_mask, vocab_size, outcome)
    return outcome


def _launch(
    law: TargetLaw,
    proposal: Proposal,
    uniforms: RoundUniforms,
    allowed_bitmask: Tensor | None,
    constrained_mask: Tensor | None,
    vocab_size: int,
    outcome: RoundOutcome,
) -> None:
    """Run the kernel over every batch row, writing into `outcome`."""
    batch, k = proposal.token_ids.shape
    cap = law.probs.shape[1]
    is_sparse = proposal.candidate_ids is not None and proposal.draft_probs is not None
    inputs = [
        law.token_ids,
        law.probs,
        law.status,
        proposal.token_ids,
        proposal.extents,
        proposal.candidate_ids if is_sparse else None,
        proposal.draft_probs if is_sparse else None,
        proposal.ends_mask.contiguous().view(torch.uint8),
        uniforms.accept,
        uniforms.correction,
        uniforms.bonus,
        allowed_bitmask,
    ]
    accept_round_kernel[(batch,)](
        *(None if tensor is None else tensor.contiguous() for tensor in inputs),
        0 if allowed_bitmask is None else allowed_bitmask.shape[1],
        None if constrained_mask is None else constrained_mask.contiguous().view(torch.uint8),
        outcome.token_ids,
        outcome.num_emitted,
        outcome.num_accepted,
        outcome.status,
        outcome.rejected_by,
        k,
        vocab_size,
        cap,
        NUM_CANDIDATES=proposal.candidate_ids.shape[2] if proposal.candidate_ids is not None else 0,
        CAP_BLOCK=triton.next_power_of_2(cap),
        K_BLOCK=triton.next_power_of_2(k + 1),
        **OPTIONS,
    )
