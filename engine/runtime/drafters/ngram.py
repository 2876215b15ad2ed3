"""n-gram copy: drafts looked up in the lane's own text on the host, before its verification; one-hot q."""

from collections.abc import Sequence

from engine.models.ngram import PromptLookup
from engine.ops import OpSet
from engine.runtime.contract import Drafts, Lane


class NgramDrafter:
    """Proposes what followed an earlier copy of the text's end; nothing where there is none."""

    def __init__(self, lookup: PromptLookup, num_drafts: int) -> None:
        self._lookup = lookup
        self.num_drafts = num_drafts

    def propose(self, lanes: Sequence[Lane], ops: OpSet) -> Drafts:
        """Return at most `num_drafts` copied ids per lane."""
        return Drafts(tuple(self._lookup.propose(lane.history, self.num_drafts) for lane in lanes))

    def follow(self, lane: Lane, token_ids: Sequence[int]) -> tuple[int, ...]:
        """Keep nothing."""
        return ()
