"""MTP: a greedy chain made as a round finishes, kept with the sequence, verified by the next round.

The drafts belong to one history: the program keeps them only where the whole round was committed, and makes
them again after a replay. One-hot q.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from engine.ops import OpSet
from engine.runtime.contract import Drafts, Lane


@runtime_checkable
class ChainModel(Protocol):
    """The module that continues a history greedily."""

    def chain(self, history: Sequence[int], num_drafts: int) -> tuple[int, ...]:
        """Return at most `num_drafts` token ids that may follow `history`."""
        ...


class MtpDrafter:
    """Verifies the drafts that came back with the round before."""

    def __init__(self, model: ChainModel, num_drafts: int) -> None:
        self._model = model
        self.num_drafts = num_drafts

    def propose(self, lanes: Sequence[Lane], ops: OpSet) -> Drafts:
        """Return the drafts that each lane holds already."""
        return Drafts(tuple(lane.drafts for lane in lanes))

    def follow(self, lane: Lane, token_ids: Sequence[int]) -> tuple[int, ...]:
        """Return the next round's drafts for the lane's history with this round's tokens at its end."""
        return self._model.chain([*lane.history, *token_ids], self.num_drafts)
