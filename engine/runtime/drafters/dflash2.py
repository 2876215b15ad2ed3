"""DFlash2: a walk over 16 candidates per position; sparse q, recorded as it was drawn.

The score of a candidate is its unary score plus a pair term with the token chosen before it (the anchor at
first). Only the request's temperature and seed act on the draw: no filter, penalty, bias, ban or constraint.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float32, Float64, Int64
from torch import Tensor

from engine.ops import OpSet
from engine.ops.rng import Purpose
from engine.runtime.contract import Drafts, Lane


@runtime_checkable
class CandidateModel(Protocol):
    """The drafter's forward pass and its candidate selector."""

    def extent(self, history: Sequence[int], num_drafts: int) -> int:
        """Return how many positions are proposed after `history`."""
        ...

    def unary(
        self, histories: Sequence[Sequence[int]], num_drafts: int
    ) -> tuple[Int64[Tensor, "batch k cand"], Float32[Tensor, "batch k cand"]]:
        """Return candidate ids and their unary scores for every position."""
        ...

    def pair(
        self, previous: Int64[Tensor, " batch"], candidate_ids: Int64[Tensor, "batch cand"]
    ) -> Float32[Tensor, "batch cand"]:
        """Return the score that each candidate gains after the token before it."""
        ...


class DFlash2Drafter:
    """Draws a chain position by position from q, keyed by (seed, logical position of the draft)."""

    def __init__(self, model: CandidateModel, num_drafts: int) -> None:
        self.model = model
        self.num_drafts = num_drafts

    def propose(self, lanes: Sequence[Lane], ops: OpSet) -> Drafts:
        """Return one chain per lane, with the candidates and probabilities that each draft came from."""
        histories = [lane.history for lane in lanes]
        candidate_ids, unary = self.model.unary(histories, self.num_drafts)
        temperature = torch.tensor([lane.settings.temperature for lane in lanes], dtype=torch.float64)
        seeds = torch.tensor([lane.seed_bits for lane in lanes])
        positions = torch.tensor([lane.num_generated for lane in lanes])
        chosen = torch.tensor([history[-1] for history in histories])
        draft_ids, draft_probs = [], []
        for j in range(self.num_drafts):
            scores = unary[:, j] + self.model.pair(chosen, candidate_ids[:, j])
            choice = ops.propose(scores, temperature, ops.uniforms(seeds, positions + j, Purpose.PROPOSAL))
            chosen = candidate_ids[:, j].gather(1, choice.index[:, None])[:, 0]
            draft_ids.append(chosen)
            draft_probs.append(choice.probs)
        return Drafts(self._extents(histories, draft_ids), candidate_ids, _stack(draft_probs))

    def follow(self, lane: Lane, token_ids: Sequence[int]) -> tuple[int, ...]:
        """Keep nothing: the walk starts anew from the committed context."""
        return ()

    def _extents(
        self, histories: Sequence[Sequence[int]], draft_ids: list[Int64[Tensor, " batch"]]
    ) -> tuple[tuple[int, ...], ...]:
        chains = torch.stack(draft_ids, dim=1).tolist()
        return tuple(
            tuple(chain[: self.model.extent(history, self.num_drafts)])
            for history, chain in zip(histories, chains, strict=True)
        )


def _stack(draft_probs: list[Float64[Tensor, "batch cand"]]) -> Float64[Tensor, "batch k cand"]:
    return torch.stack(draft_probs, dim=1)
