"""DFlash: one block per round, drafted inside Forward from the committed context; one-hot q."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from engine.ops import OpSet
from engine.runtime.contract import Drafts, Lane


@runtime_checkable
class BlockModel(Protocol):
    """The drafter's forward pass over one block."""

    def block(self, history: Sequence[int], num_drafts: int) -> tuple[int, ...]:
        """Return at most `num_drafts` token ids; no position sees what another one holds."""
        ...


class DFlashDrafter:
    """Drafts a block from each lane's committed history, which ends with the anchor."""

    def __init__(self, model: BlockModel, num_drafts: int) -> None:
        self._model = model
        self.num_drafts = num_drafts

    def propose(self, lanes: Sequence[Lane], ops: OpSet) -> Drafts:
        """Return one block per lane."""
        return Drafts(tuple(self._model.block(lane.history, self.num_drafts) for lane in lanes))

    def follow(self, lane: Lane, token_ids: Sequence[int]) -> tuple[int, ...]:
        """Keep nothing: the block is drafted anew from the committed context."""
        return ()
