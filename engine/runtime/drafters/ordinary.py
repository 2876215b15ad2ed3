"""Ordinary decoding: a window without drafts, one token a round."""

from collections.abc import Sequence

from engine.ops import OpSet
from engine.runtime.contract import Drafts, Lane


class OrdinaryDrafter:
    """Proposes nothing."""

    num_drafts = 0

    def propose(self, lanes: Sequence[Lane], ops: OpSet) -> Drafts:
        """Return an empty window for every lane."""
        return Drafts(((),) * len(lanes))

    def follow(self, lane: Lane, token_ids: Sequence[int]) -> tuple[int, ...]:
        """Keep nothing."""
        return ()
