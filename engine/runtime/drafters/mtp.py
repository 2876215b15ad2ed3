"""MTP: a greedy chain made as a round finishes, kept with the sequence, verified by the next one; one-hot q.

Row p of the module's keys and values comes from the target's hidden at p and the token at p + 1. A round
first runs its committed rows that way, over whatever an earlier chain left there, and then chains from the
last of them, feeding the module's own output. The drafts belong to one history: the program keeps them only
where the whole round was committed, and a replay makes them again.
"""

from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from engine.models.qwen3_5.attention import KeyValues, Placement
from engine.models.qwen3_5.mtp import Mtp
from engine.models.qwen3_5.target import Target
from engine.runtime.batch import Drafts, Lane, Rows, TargetPass
from engine.runtime.drafters.base import StatelessDrafter


class MtpDrafter(StatelessDrafter):
    """Verifies the drafts that came back with the round before; `cache` has `num_drafts` columns to spare."""

    def __init__(
        self, model: Mtp, target: Target, cache: KeyValues, num_drafts: int, vocab_size: int
    ) -> None:
        self._model, self._target, self._cache = model, target, cache
        self._vocab_size = vocab_size
        self.num_drafts = num_drafts

    def on_host(self, lane: Lane) -> tuple[int, ...]:
        """Return the drafts that the lane holds already."""
        return lane.drafts

    def follow(
        self,
        rows: Rows,
        passed: TargetPass | None,
        next_ids: Int64[Tensor, "batch columns"],
        counts: Int64[Tensor, " batch"],
    ) -> Drafts:
        """Run the pass's rows with the target's hidden, then chain from the last one that is true."""
        assert passed is not None
        assert passed.hidden is not None, "MTP needs the target's hidden"
        placement = Placement(rows.slots, rows.starts, rows.context)
        outputs = self._model(self._target.embed(next_ids), passed.hidden, placement, self._cache)
        last = (counts - 1).clamp(min=0)
        hidden = outputs.take_along_dim(last[:, None, None], dim=1)
        token_ids = self._chain(hidden, rows, rows.starts + last)
        return Drafts(token_ids, torch.full_like(rows.starts, self.num_drafts))

    def _chain(
        self, hidden: Float[Tensor, "batch 1 hidden"], rows: Rows, positions: Int64[Tensor, " batch"]
    ) -> Int64[Tensor, "batch k"]:
        """Return the chain after the outputs at `positions`; each step stands one position further."""
        chain = [self._best(hidden)]
        for step in range(1, self.num_drafts):
            placement = Placement(rows.slots, positions + step, rows.context + step)
            hidden = self._model(self._target.embed(chain[-1]), hidden, placement, self._cache)
            chain.append(self._best(hidden))
        return torch.cat(chain, dim=1)

    def _best(self, hidden: Float[Tensor, "batch 1 hidden"]) -> Int64[Tensor, "batch 1"]:
        return self._target.head(hidden)[..., : self._vocab_size].argmax(dim=-1)

    def clear(self, slot: int) -> None:
        """Empty the slot's keys and values."""
        self._cache.reset(slot)

    def save(self, slot: int, length: int) -> Any:
        """Return the slot's first `length` keys and values."""
        return self._cache.save(slot, length)

    def load(self, slot: int, state: Any) -> None:
        """Write saved keys and values back."""
        self._cache.load(slot, state)
