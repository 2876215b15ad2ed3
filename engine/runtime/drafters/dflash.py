"""DFlash: one block per round, drafted inside Forward from the committed context; one-hot q.

The context is the drafter's own keys and values of the target's features, written for every column of a pass
as a round finishes: what stands past the committed length is not context, and the next pass overwrites it.
"""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from engine.models.dflash import DFlash
from engine.models.qwen3_5.attention import KeyValues, Placement
from engine.models.qwen3_5.target import Target
from engine.ops import OpSet
from engine.runtime.batch import Batch, Drafts, Rows, TargetPass
from engine.runtime.drafters.base import StatelessDrafter


class BlockDrafter(StatelessDrafter):
    """The context and the block's forward pass, for DFlash and what is built on it."""

    on_device = True

    def __init__(
        self, model: DFlash, target: Target, caches: Sequence[KeyValues], num_drafts: int, vocab_size: int
    ) -> None:
        self._model, self._target, self._caches = model, target, tuple(caches)
        self._vocab_size = vocab_size
        self.num_drafts = num_drafts

    def block(self, batch: Batch) -> Float[Tensor, "batch k hidden"]:
        """Return the outputs of the drafting rows of the block [anchor, mask, ...] after the context."""
        config = self._model.config
        masks = batch.anchors.new_full((1, 1), config.mask_token_id)
        token_ids = torch.cat(
            [batch.anchors[:, None], masks.expand(len(batch.anchors), config.block_size - 1)], dim=1
        )
        placement = Placement(batch.rows.slots, batch.rows.starts, batch.rows.context)
        hidden = self._model.block(self._target.embed(token_ids), placement, self._caches)
        return hidden[:, 1 : self.num_drafts + 1]

    def scores(self, hidden: Float[Tensor, "batch k hidden"]) -> Float[Tensor, "batch k vocab"]:
        """Return the target head's logits of the block's outputs, padding left out."""
        return self._target.head(hidden)[..., : self._vocab_size]

    def whole(self, batch: Batch) -> Int64[Tensor, " batch"]:
        """Return the extents of a batch whose every window is full."""
        return torch.full_like(batch.limits, self.num_drafts)

    def follow(
        self,
        rows: Rows,
        passed: TargetPass | None,
        next_ids: Int64[Tensor, "batch columns"],
        counts: Int64[Tensor, " batch"],
    ) -> None:
        """Write the context of every column of the pass; keep no drafts."""
        assert passed is not None
        assert passed.features is not None, "DFlash needs the target's features"
        placement = Placement(rows.slots, rows.starts, rows.context)
        self._model.write(passed.features, placement, self._caches)

    def clear(self, slot: int) -> None:
        """Empty the slot's context."""
        for cache in self._caches:
            cache.reset(slot)

    def save(self, slot: int, length: int) -> Any:
        """Return the slot's context."""
        return [cache.save(slot, length) for cache in self._caches]

    def load(self, slot: int, state: Any) -> None:
        """Write a saved context back."""
        for cache, saved in zip(self._caches, state, strict=True):
            cache.load(slot, saved)


class DFlashDrafter(BlockDrafter):
    """Proposes the best token of every row of the block."""

    def draft(self, batch: Batch, ops: OpSet) -> Drafts:
        """Return one block per row."""
        return Drafts(self.scores(self.block(batch)).argmax(dim=-1), self.whole(batch))
