"""What speculation did: counts per round, summed per request and per engine."""

import collections

import attrs

from engine.ops.accept import RejectedBy
from engine.runtime.contract import RowFailure, RowResult


@attrs.define
class SpecStats:
    """Counts over rows of rounds that were not failures; positions are window columns from 0.

    A bonus is a token drawn after every draft of a non-empty window was accepted. `reached_at` counts the
    drafts judged, `illegal_at` the first draft of a window that its legal set refuses, judged or not.
    """

    num_rows: int = 0
    num_drafted: int = 0
    num_accepted: int = 0
    num_rejected_by_target: int = 0
    num_rejected_by_grammar: int = 0
    num_bonuses: int = 0
    drafted_at: collections.Counter[int] = attrs.field(factory=collections.Counter)
    reached_at: collections.Counter[int] = attrs.field(factory=collections.Counter)
    accepted_at: collections.Counter[int] = attrs.field(factory=collections.Counter)
    illegal_at: collections.Counter[int] = attrs.field(factory=collections.Counter)

    @property
    def num_rejected(self) -> int:
        """Rejections of either kind."""
        return self.num_rejected_by_target + self.num_rejected_by_grammar

    @property
    def num_illegal(self) -> int:
        """Windows that held an illegal draft."""
        return self.illegal_at.total()

    def add(self, result: RowResult) -> None:
        """Count one row of one round."""
        if result.failure is not RowFailure.NONE:
            return
        self.num_rows += 1
        self.num_drafted += result.num_drafted
        self.num_accepted += result.num_accepted
        self.num_rejected_by_target += result.rejected_by is RejectedBy.TARGET
        self.num_rejected_by_grammar += result.rejected_by is RejectedBy.GRAMMAR
        all_accepted = result.num_drafted > 0 and result.num_accepted == result.num_drafted
        self.num_bonuses += all_accepted and len(result.tokens) > result.num_accepted
        self.drafted_at.update(range(result.num_drafted))
        self.reached_at.update(range(min(result.num_drafted, len(result.tokens))))
        self.accepted_at.update(range(result.num_accepted))
        if result.illegal_at is not None:
            self.illegal_at[result.illegal_at] += 1

    def merge(self, other: "SpecStats") -> None:
        """Add another count to this one."""
        for field in attrs.fields(SpecStats):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))
