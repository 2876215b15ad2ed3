"""What most drafters share: no state of their own, drafts that the host fixed, nothing kept for later."""

from typing import Any

from jaxtyping import Int64
from torch import Tensor

from engine.ops import OpSet
from engine.runtime.batch import Batch, Drafts, Lane, Rows, TargetPass


class StatelessDrafter:
    """A drafter whose proposals, if any, are fixed on the host; every part may be replaced."""

    num_drafts = 0
    on_device = False

    def on_host(self, lane: Lane) -> tuple[int, ...]:
        """Return no drafts."""
        return ()

    def draft(self, batch: Batch, ops: OpSet) -> Drafts:
        """Return what the host fixed."""
        return Drafts(batch.host_ids, batch.host_extents)

    def follow(
        self,
        rows: Rows,
        passed: TargetPass | None,
        next_ids: Int64[Tensor, "batch columns"],
        counts: Int64[Tensor, " batch"],
    ) -> Drafts | None:
        """Keep nothing."""
        return None

    def clear(self, slot: int) -> None:
        """Have nothing to forget."""

    def save(self, slot: int, length: int) -> Any:
        """Return nothing."""
        return None

    def load(self, slot: int, state: Any) -> None:
        """Take nothing."""
