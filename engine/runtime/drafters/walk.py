"""DFlash2's walk over 16 candidates per position: sparse q, recorded as it was drawn.

The score of a candidate is its unary score plus a pair term with the token chosen before it (the anchor at
first). Only the request's temperature and seed act on the draw: no filter, penalty, bias, ban or constraint.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float32, Float64, Int64
from torch import Tensor

from engine.ops import OpSet
from engine.ops.rng import Purpose
from engine.runtime.batch import Batch, Drafts

# (position in the window, token before it, its candidates) -> the pair term of every candidate.
PairTerm = Callable[
    [int, Int64[Tensor, " batch"], Int64[Tensor, "batch cand"]], Float32[Tensor, "batch cand"]
]


def walk(
    batch: Batch,
    candidate_ids: Int64[Tensor, "batch k cand"],
    unary: Float32[Tensor, "batch k cand"],
    pair: PairTerm,
    extents: Int64[Tensor, " batch"],
    ops: OpSet,
) -> Drafts:
    """Draw a chain position by position from q, keyed by (seed, logical position of the draft)."""
    chosen, uniforms = batch.anchors, _coins(batch, candidate_ids.shape[1], ops)
    draft_ids, draft_probs = [], []
    for j in range(candidate_ids.shape[1]):
        scores = unary[:, j] + pair(j, chosen, candidate_ids[:, j])
        choice = ops.propose(scores, batch.settings.temperature, uniforms[:, j])
        chosen = candidate_ids[:, j].gather(1, choice.index[:, None])[:, 0]
        draft_ids.append(chosen)
        draft_probs.append(choice.probs)
    return Drafts(torch.stack(draft_ids, dim=1), extents, candidate_ids, torch.stack(draft_probs, dim=1))


def _coins(batch: Batch, num_drafts: int, ops: OpSet) -> Float64[Tensor, "batch k"]:
    """Return the coin of every draft, keyed by its logical position, in one call."""
    columns = torch.arange(num_drafts, device=batch.anchors.device)
    positions = batch.first_positions[:, None] + columns
    seeds = batch.seeds.repeat_interleave(num_drafts)
    return ops.uniforms(seeds, positions.reshape(-1), Purpose.PROPOSAL).view_as(positions)
