"""n-gram copy: drafts looked up in the lane's own text on the host, before its verification; one-hot q."""

from engine.models.ngram import PromptLookup
from engine.runtime.batch import Lane
from engine.runtime.drafters.base import StatelessDrafter


class NgramDrafter(StatelessDrafter):
    """Proposes what followed an earlier copy of the text's end; nothing where there is none."""

    def __init__(self, lookup: PromptLookup, num_drafts: int) -> None:
        self._lookup = lookup
        self.num_drafts = num_drafts

    def on_host(self, lane: Lane) -> tuple[int, ...]:
        """Return at most `num_drafts` copied ids."""
        return self._lookup.propose(lane.history, self.num_drafts)
