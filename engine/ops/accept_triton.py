"""One verification round as two Triton kernels, one program per batch row, in float64 (contract 5).

The first walks the drafts, the second draws the correction or the bonus where the walk stopped. Sums run one
term after the other in candidate order, as in engine/ops/accept.py, so both give the same tokens on the same
uniforms. Laws wider than MAX_CAP go to the torch reference.
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
def _draw(law_ids, weights, goal, index, cap, CAP_BLOCK: tl.constexpr):
    """Return the id of the first positive weight whose running sum exceeds the goal, else of the last one."""
    sums, _ = _running_sums(weights, index, cap)
    positive = weights > 0
    first_hit = tl.min(tl.where(positive & (goal < sums), index, CAP_BLOCK), 0)
    last_positive = tl.max(tl.where(positive, index, 0), 0)
    choice = tl.where(first_hit < CAP_BLOCK, first_hit, last_positive)
    return tl.sum(tl.where(index == choice, law_ids, 0), 0)


@triton.jit
def _residual(
    weights, law_ids, draft, cell, candidate_ids_ptr, draft_probs_ptr, NUM_CANDIDATES: tl.constexpr
):
    if candidate_ids_ptr is not None:
        first = cell * NUM_CANDIDATES
        draft_probs = _draft_prob_at(
            law_ids, candidate_ids_ptr + first, draft_probs_ptr + first, NUM_CANDIDATES
        )
        residual = tl.where(weights > draft_probs, weights - draft_probs, 0.0)
    else:
        residual = tl.where(law_ids == draft, 0.0, weights)
    return residual


@triton.jit
def _closed_by_grammar(row, draft, vocab_size, bitmask_ptr, constrained_ptr):
    in_domain = (draft >= 0) & (draft < vocab_size)
    word = tl.load(bitmask_ptr + draft // 32, mask=in_domain, other=0)
    is_closed = ((word >> (draft % 32).to(tl.int32)) & 1) == 0
    if constrained_ptr is not None:
        is_closed = is_closed & (tl.load(constrained_ptr + row) != 0)
    return is_closed


@triton.jit
def _law_at(law_ids_ptr, law_probs_ptr, law_row, index, cap):
    law_ids = tl.load(law_ids_ptr + law_row * cap + index, mask=index < cap, other=0)
    law_probs = tl.load(law_probs_ptr + law_row * cap + index, mask=index < cap, other=0.0)
    return law_ids, law_probs


@triton.jit
def _store_results(row_ptr, num_emitted, num_accepted, status, rejected_by):
    tl.store(row_ptr, num_emitted)
    tl.store(row_ptr + 1, num_accepted)
    tl.store(row_ptr + 2, status)
    tl.store(row_ptr + 3, rejected_by)


@triton.jit
def walk_kernel(
    law_ids_ptr,
    law_probs_ptr,
    law_status_ptr,
    drafts_ptr,
    extents_ptr,
    candidate_ids_ptr,
    draft_probs_ptr,
    ends_ptr,
    uniforms_ptr,
    walked_ptr,
    k,
    vocab_size,
    cap,
    NUM_CANDIDATES: tl.constexpr,
    CAP_BLOCK: tl.constexpr,
):
    """Walk one row's drafts until one is refused, one ends the round, or none is left.

    Writes the number of accepted drafts and whether the last of them ended the round.
    """
    row = tl.program_id(0).to(tl.int64)
    extent = tl.load(extents_ptr + row)
    index = tl.arange(0, CAP_BLOCK)
    column = row * 0
    has_ended = row < 0
    is_walking = extent > 0
    while is_walking:
        cell = row * k + column
        law_row = row * (k + 1) + column
        draft = tl.load(drafts_ptr + cell)
        law_ids, law_probs = _law_at(law_ids_ptr, law_probs_ptr, law_row, index, cap)
        target_prob = tl.sum(tl.where(law_ids == draft, law_probs, 0.0), 0)
        goal = tl.load(uniforms_ptr + cell)
        if candidate_ids_ptr is not None:
            first = cell * NUM_CANDIDATES
            goal *= _draft_prob_at(draft, candidate_ids_ptr + first, draft_probs_ptr + first, NUM_CANDIDATES)
        has_law = (tl.load(law_status_ptr + law_row) == _OK) & (draft >= 0) & (draft < vocab_size)
        is_accepted = has_law & (goal < target_prob)
        has_ended = is_accepted & (tl.load(ends_ptr + cell) != 0)
        column += is_accepted.to(tl.int64)
        is_walking = is_accepted & (has_ended == 0) & (column < extent)
    tl.store(walked_ptr + row * 2, column)
    tl.store(walked_ptr + row * 2 + 1, has_ended.to(tl.int64))


@triton.jit
def settle_kernel(
    law_ids_ptr,
    law_probs_ptr,
    law_status_ptr,
    drafts_ptr,
    extents_ptr,
    candidate_ids_ptr,
    draft_probs_ptr,
    correction_ptr,
    bonus_ptr,
    allowed_ptr,
    allowed_stride,
    constrained_ptr,
    walked_ptr,
    token_ids_ptr,
    results_ptr,
    k,
    vocab_size,
    cap,
    NUM_CANDIDATES: tl.constexpr,
    CAP_BLOCK: tl.constexpr,
    K_BLOCK: tl.constexpr,
):
    """Draw one row's correction or bonus where its walk stopped, and write what the round emits.

    `results_ptr` is [rows, 4]: emitted, accepted, status, rejected by.
    """
    row = tl.program_id(0).to(tl.int64)
    column = tl.load(walked_ptr + row * 2)
    goes_on = tl.load(walked_ptr + row * 2 + 1) == 0
    law_row = row * (k + 1) + column
    status = tl.where(goes_on, tl.load(law_status_ptr + law_row), _OK)
    is_ok = status == _OK
    is_rejected = goes_on & is_ok & (column < tl.load(extents_ptr + row))
    index = tl.arange(0, CAP_BLOCK)
    law_ids, weights = _law_at(law_ids_ptr, law_probs_ptr, law_row, index, cap)
    goal = tl.load(bonus_ptr + row)
    rejected_by = is_rejected.to(tl.int64) * _TARGET
    if is_rejected:
        cell = row * k + column
        draft = tl.load(drafts_ptr + cell)
        residual = _residual(
            weights, law_ids, draft, cell, candidate_ids_ptr, draft_probs_ptr, NUM_CANDIDATES
        )
        _, mass = _running_sums(residual, index, cap)
        weights = tl.where(mass > 0, residual, weights)
        goal = tl.where(mass > 0, tl.load(correction_ptr + cell) * mass, float("inf"))
        if allowed_ptr is not None:
            bitmask_ptr = allowed_ptr + law_row * allowed_stride
            is_closed = _closed_by_grammar(row, draft, vocab_size, bitmask_ptr, constrained_ptr)
            rejected_by += is_closed.to(tl.int64) * (_GRAMMAR - _TARGET)
    token = _draw(law_ids, weights, goal, index, cap, CAP_BLOCK)
    num_accepted = tl.where(is_ok, column, 0)
    num_emitted = tl.where(is_ok, column + goes_on.to(tl.int64), 0)
    slot = tl.arange(0, K_BLOCK)
    drafts = tl.load(drafts_ptr + row * k + slot, mask=slot < num_accepted, other=0)
    tokens = tl.where(slot < num_accepted, drafts, tl.where(slot < num_emitted, token, 0))
    tl.store(token_ids_ptr + row * (k + 1) + slot, tokens, mask=slot <= k)
    _store_results(results_ptr + row * 4, num_emitted, num_accepted, status, rejected_by)


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
    token_ids = torch.zeros((batch, k + 1), dtype=torch.int64, device=device)
    results = torch.zeros((batch, 4), dtype=torch.int64, device=device)
    if batch:
        _launch(law, proposal, uniforms, allowed_bitmask, constrained_mask, vocab_size, token_ids, results)
    return RoundOutcome(token_ids, *results.unbind(dim=1))


def _launch(
    law: TargetLaw,
    proposal: Proposal,
    uniforms: RoundUniforms,
    allowed_bitmask: Tensor | None,
    constrained_mask: Tensor | None,
    vocab_size: int,
    token_ids: Tensor,
    results: Tensor,
) -> None:
    """Run both kernels over every batch row, writing into `token_ids` and `results`."""
    batch, k = proposal.token_ids.shape
    cap = law.probs.shape[1]
    candidate_ids, draft_probs = proposal.candidate_ids, proposal.draft_probs
    if candidate_ids is None or draft_probs is None:
        candidate_ids, draft_probs = None, None
    tables = [law.token_ids, law.probs, law.status, proposal.token_ids, proposal.extents]
    tables = [table.contiguous() for table in tables]
    sparse = [None if table is None else table.contiguous() for table in (candidate_ids, draft_probs)]
    walked = torch.empty((batch, 2), dtype=torch.int64, device=law.probs.device)
    sizes = {
        "NUM_CANDIDATES": 0 if candidate_ids is None else candidate_ids.shape[2],
        "CAP_BLOCK": triton.next_power_of_2(cap),
        **OPTIONS,
    }
    ends, accept_uniforms = proposal.ends_mask.contiguous().view(torch.uint8), uniforms.accept.contiguous()
    walk_kernel[(batch,)](*tables, *sparse, ends, accept_uniforms, walked, k, vocab_size, cap, **sizes)
    settle_kernel[(batch,)](
        *tables,
        *sparse,
        uniforms.correction.contiguous(),
        uniforms.bonus.contiguous(),
        None if allowed_bitmask is None else allowed_bitmask.contiguous(),
        0 if allowed_bitmask is None else allowed_bitmask.shape[1],
        None if constrained_mask is None else constrained_mask.contiguous().view(torch.uint8),
        walked,
        token_ids,
        results,
        k,
        vocab_size,
        cap,
        K_BLOCK=triton.next_power_of_2(k + 1),
        **sizes,
    )
