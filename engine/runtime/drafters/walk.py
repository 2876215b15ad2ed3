"""DFlash2's walk over 16 candidates per position: sparse q, recorded as it was drawn.

The score of a candidate is its unary score plus a pair term with the token chosen before it (the anchor at
first). Only the request's temperature and seed act on the draw: no filter, penalty, bias, ban or constraint.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float32, Int64
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
    chosen = batch.anchors
    draft_ids, draft_probs = [], []
    for j in range(candidate_ids.shape[1]):
        scores = unary[:, j] + pair(j, chosen, candidate_ids[:, j])
        uniforms = ops.uniforms(batch.seeds, batch.first_positions + j, Purpose.PROPOSAL)
        choice = ops.propose(scores, batch.settings.temperature, uniforms)
        chosen = candidate_ids[:, j].gather(1, choice.index[:, None])[:, 0]
        draft_ids.append(chosen)
        draft_probs.append(choice.probs)
    return Drafts(torch.stack(draft_ids, dim=1), extents, candidate_ids, torch.stack(draft_probs, dim=1))
