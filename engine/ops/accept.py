"""What is accepted: one verification round of every row, drafts against target laws (contract 5).

p is the full target law of each column, q what really produced the draft; neither is ever masked, dropped or
renormalised here. An illegal draft has p = 0 and takes the normal rejection. The first rejection draws one
correction and ends the round; if all drafts hold, the bonus comes from the next column. Randomness arrives
as arguments; a column is judged only if every draft before it was accepted.
"""

import enum
import functools
from collections.abc import Callable

import attrs
import torch
from jaxtyping import Bool, Float64, Int32, Int64
from torch import Tensor

from engine.ops.rng import Purpose
from engine.ops.sample import WORD_BITS, RowStatus, TargetLaw, first_above


class RejectedBy(enum.IntEnum):
    """What refused the first refused draft of a row."""

    NONE = 0
    TARGET = 1
    GRAMMAR = 2


@attrs.frozen(eq=False)
class Proposal:
    """The drafts of every row, how many are real, and the law they were drawn from.

    `candidate_ids` and `draft_probs` None mean a one-hot law on the draft. `ends_mask` marks completion ids:
    accepting one ends the round without a further token.
    """

    token_ids: Int64[Tensor, "batch k"]
    extents: Int64[Tensor, " batch"]
    candidate_ids: Int64[Tensor, "batch k cand"] | None
    draft_probs: Float64[Tensor, "batch k cand"] | None
    ends_mask: Bool[Tensor, "batch k"]


@attrs.frozen(eq=False)
class RoundUniforms:
    """The uniforms of one round; every decision has its own."""

    accept: Float64[Tensor, "batch k"]
    correction: Float64[Tensor, "batch k"]
    bonus: Float64[Tensor, " batch"]


def round_uniforms(
    uniforms: Callable[..., Tensor],
    seeds: Int64[Tensor, " batch"],
    first_positions: Int64[Tensor, " batch"],
    extents: Int64[Tensor, " batch"],
    k: int,
    last: Purpose,
) -> RoundUniforms:
    """Draw all uniforms of a round in one call of an op set's `uniforms` (contract 4).

    Column i of a row decides `first_positions + i`; the draw behind all drafts has the purpose `last`.
    """
    purposes, columns = _draw_plan(k, last, seeds.device)
    positions = first_positions[:, None] + columns
    positions[:, -1] += extents
    by_draw = uniforms(
        seeds[:, None].expand_as(positions).reshape(-1),
        positions.view(-1),
        purposes.expand_as(positions).reshape(-1),
    ).view(-1, 2 * k + 1)
    return RoundUniforms(by_draw[:, :k], by_draw[:, k:-1], by_draw[:, -1])


@functools.lru_cache
def _draw_plan(k: int, last: Purpose, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return purpose and column of k acceptances, k corrections and the last draw, kept for every round."""
    purposes = [Purpose.ACCEPT] * k + [Purpose.CORRECTION] * k + [last]
    return torch.tensor(purposes, device=device), torch.tensor([*range(k), *range(k), 0], device=device)


@attrs.frozen(eq=False)
class RoundOutcome:
    """What one round emits; ids are 0 past `num_emitted`.

    `status` is that of the first reached column without a law; such a row emits nothing.
    """

    token_ids: Int64[Tensor, "batch k1"]
    num_emitted: Int64[Tensor, " batch"]
    num_accepted: Int64[Tensor, " batch"]
    status: Int64[Tensor, " batch"]
    rejected_by: Int64[Tensor, " batch"]


def accept_round(
    law: TargetLaw,
    proposal: Proposal,
    uniforms: RoundUniforms,
    *,
    allowed_bitmask: Int32[Tensor, "columns words"] | None = None,
    constrained_mask: Bool[Tensor, " batch"] | None = None,
    vocab_size: int,
) -> RoundOutcome:
    """Judge the drafts of every row and draw its correction or bonus (contract 5).

    Rows of `law` and `allowed_bitmask` are batch row * (k + 1) + column. The bitmask only tells who refused
    a draft: the law already carries the mask.
    """
    batch, k = proposal.token_ids.shape
    assert law.probs.shape[0] == batch * (k + 1), "the law needs k + 1 columns per row"
    accepted = _accepted(law, proposal, uniforms, vocab_size)
    is_real = torch.arange(k, device=accepted.device) < proposal.extents[:, None]
    run = (accepted & is_real).long().cumprod(dim=1).bool()
    ends = run & proposal.ends_mask
    run = run & (ends.long().cumsum(dim=1) - ends.long() == 0)
    num_accepted = run.sum(dim=1)
    has_ended = ends.any(dim=1)
    # A column without a law accepts nothing, so the only one that can be reached is where the run stopped.
    column_law = _column(law, num_accepted, k)
    status = torch.where(has_ended, int(RowStatus.OK), column_law.status)
    rejected = ~has_ended & (num_accepted < proposal.extents) & (status == RowStatus.OK)
    token = _final_token(column_law, proposal, uniforms, num_accepted, rejected)
    by_grammar = _closed_by_grammar(proposal, allowed_bitmask, constrained_mask, num_accepted, vocab_size)
    refuser = torch.where(by_grammar, int(RejectedBy.GRAMMAR), int(RejectedBy.TARGET))
    rejected_by = torch.where(rejected, refuser, int(RejectedBy.NONE))
    return _outcome(proposal, num_accepted, has_ended, token, status, rejected_by)


def _accepted(law: TargetLaw, proposal: Proposal, uniforms: RoundUniforms, vocab_size: int) -> Tensor:
    """Tell for every column whether its draft would be accepted: u * q(d) < p(d), strictly.

    An id outside the token domain has p = 0 whatever the law's filler entries say.
    """
    batch, k = proposal.token_ids.shape
    drafts = proposal.token_ids
    ids = law.token_ids.unflatten(0, (batch, k + 1))[:, :k]
    probs = law.probs.unflatten(0, (batch, k + 1))[:, :k]
    target_prob = torch.where(ids == drafts[:, :, None], probs, 0.0).sum(dim=2)
    in_domain = (drafts >= 0) & (drafts < vocab_size)
    has_law = law.status.view(batch, k + 1)[:, :k] == RowStatus.OK
    target_prob = torch.where(in_domain & has_law, target_prob, 0.0)
    if proposal.candidate_ids is None or proposal.draft_probs is None:
        return uniforms.accept < target_prob
    draft_prob = draft_prob_at(proposal.candidate_ids, proposal.draft_probs, drafts[:, :, None])[:, :, 0]
    return uniforms.accept * draft_prob < target_prob


def draft_prob_at(
    candidate_ids: Int64[Tensor, "*lead cand"],
    draft_probs: Float64[Tensor, "*lead cand"],
    token_ids: Int64[Tensor, "*lead ids"],
) -> Float64[Tensor, "*lead ids"]:
    """Return q at the given ids: 0 for an id that is no candidate, the sum for one listed twice."""
    total = torch.zeros_like(token_ids, dtype=torch.float64)
    for index in range(candidate_ids.shape[-1]):  # in candidate order, so that the sum is the same everywhere
        matches = token_ids == candidate_ids[..., index : index + 1]
        total = total + torch.where(matches, draft_probs[..., index : index + 1], 0.0)
    return total


def _column(law: TargetLaw, column: Tensor, k: int) -> TargetLaw:
    """Return, for every batch row, the law of one column of its window."""
    row = torch.arange(column.shape[0], device=column.device) * (k + 1) + column
    return TargetLaw(law.token_ids[row], law.probs[row], law.status[row])


def _final_token(
    law: TargetLaw, proposal: Proposal, uniforms: RoundUniforms, column: Tensor, rejected: Tensor
) -> Tensor:
    """Draw the bonus from p, or after a rejection the correction from the residual."""
    k = proposal.token_ids.shape[1]
    weights, goals = law.probs, uniforms.bonus
    if k:
        draft_column = column.clamp(max=k - 1)
        residual = _residual(law, proposal, draft_column)
        mass = residual.cumsum(dim=1)[:, -1]
        has_mass = mass > 0
        correction_goals = _at(uniforms.correction, draft_column) * mass
        # Without mass an infinite goal is never passed: the last positive entry of p's support is taken.
        correction_goals = torch.where(has_mass, correction_goals, torch.inf)
        residual = torch.where(has_mass[:, None], residual, law.probs)
        weights = torch.where(rejected[:, None], residual, weights)
        goals = torch.where(rejected, correction_goals, goals)
    return law.token_ids.gather(1, first_above(weights, goals)[:, None])[:, 0]


def _residual(law: TargetLaw, proposal: Proposal, column: Tensor) -> Tensor:
    """Return max(p - q, 0) over p's candidates; for a one-hot q that is p without the draft."""
    if proposal.candidate_ids is None or proposal.draft_probs is None:
        draft = _at(proposal.token_ids, column)
        return torch.where(law.token_ids == draft[:, None], 0.0, law.probs)
    rows = torch.arange(column.shape[0], device=column.device)
    draft_prob = draft_prob_at(
        proposal.candidate_ids[rows, column], proposal.draft_probs[rows, column], law.token_ids
    )
    return (law.probs - draft_prob).clamp(min=0.0)


def _at(table: Tensor, column: Tensor) -> Tensor:
    """Return one entry of every row."""
    return table.gather(1, column[:, None])[:, 0]


def _closed_by_grammar(
    proposal: Proposal,
    allowed_bitmask: Tensor | None,
    constrained_mask: Tensor | None,
    column: Tensor,
    vocab_size: int,
) -> Tensor:
    """Tell whether a constrained row's draft at `column` is closed by its mask or out of range."""
    batch, k = proposal.token_ids.shape
    if allowed_bitmask is None or k == 0:
        return torch.zeros_like(column, dtype=torch.bool)
    draft_column = column.clamp(max=k - 1)
    drafts = _at(proposal.token_ids, draft_column)
    in_domain = (drafts >= 0) & (drafts < vocab_size)
    safe = torch.where(in_domain, drafts, 0)
    rows = torch.arange(batch, device=column.device) * (k + 1) + draft_column
    words = allowed_bitmask[rows, safe // WORD_BITS]
    is_open = ((words >> (safe % WORD_BITS)) & 1).bool()
    is_closed = ~(in_domain & is_open)
    return is_closed if constrained_mask is None else is_closed & constrained_mask


def _outcome(
    proposal: Proposal,
    num_accepted: Tensor,
    has_ended: Tensor,
    token: Tensor,
    status: Tensor,
    rejected_by: Tensor,
) -> RoundOutcome:
    """Lay the accepted drafts and the final token out; a row without a law emits nothing."""
    is_ok = status == RowStatus.OK
    num_accepted = torch.where(is_ok, num_accepted, 0)
    num_emitted = torch.where(is_ok, num_accepted + (~has_ended).long(), 0)
    k = proposal.token_ids.shape[1]
    index = torch.arange(k + 1, device=token.device)
    drafts = torch.nn.functional.pad(proposal.token_ids, (0, 1))
    token_ids = torch.where(index == num_accepted[:, None], token[:, None], drafts)
    token_ids = torch.where(index < num_emitted[:, None], token_ids, 0)
    return RoundOutcome(token_ids, num_emitted, num_accepted, status, rejected_by)
