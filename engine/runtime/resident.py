"""A neural target over resident slots: its weights, the state of every slot, and what its drafter reads."""

from typing import Any

import attrs
import torch
from jaxtyping import Int64
from torch import Tensor

from engine.models.qwen3_5.attention import Placement
from engine.models.qwen3_5.target import TargetState
from engine.models.text_model import TextModel
from engine.runtime.batch import Batch, Drafts, Rows, TargetPass


@attrs.frozen(eq=False)
class ResidentTarget:
    """`state` has room for `max_context` positions and a window more; `feature_layers` are the drafter's."""

    model: TextModel
    state: TargetState
    max_context: int
    vocab_size: int
    feature_layers: tuple[int, ...] = ()

    @property
    def width(self) -> int:
        """Width of a row of logits."""
        return self.model.config.vocab_size

    @property
    def room(self) -> int:
        """Positions of a slot's keys and values."""
        return self.state.room

    def forward(self, batch: Batch, drafts: Drafts) -> TargetPass:
        """Run [anchor, d1..dk] of every row; what an id out of range reads is never reached."""
        token_ids = batch.anchors[:, None]
        if batch.num_columns > 1:
            token_ids = torch.cat([token_ids, drafts.token_ids.clamp(0, self.vocab_size - 1)], dim=1)
        return self._run(batch.rows, token_ids, batch.num_columns)

    def extend(self, rows: Rows, token_ids: Int64[Tensor, "batch columns"]) -> TargetPass:
        """Run and commit known tokens, without logits."""
        passed = self._run(rows, token_ids, 0)
        self.commit(rows, passed, torch.full_like(rows.slots, token_ids.shape[1]))
        return passed

    def _run(self, rows: Rows, token_ids: Int64[Tensor, "batch columns"], num_logits: int) -> TargetPass:
        placement = Placement(rows.slots, rows.starts, rows.context)
        out = self.model(
            token_ids, placement, self.state, num_logits=num_logits, feature_layers=self.feature_layers
        )
        return TargetPass(out.logits.flatten(0, 1), out.hidden, out.features, out.records)

    def commit(self, rows: Rows, passed: TargetPass, counts: Int64[Tensor, " batch"]) -> None:
        """Move the recurrent states by the first `counts` columns; keys and values need only the length."""
        self.state.commit(passed.records, rows.slots, counts)

    def clear(self, slot: int) -> None:
        """Empty a slot."""
        self.state.reset(slot)

    def save(self, slot: int, length: int) -> Any:
        """Return a copy of a slot's state."""
        return self.state.save(slot, length)

    def load(self, slot: int, state: Any) -> None:
        """Write a saved state back."""
        self.state.load(slot, state)
