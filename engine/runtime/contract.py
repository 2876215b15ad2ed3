"""What engine, program and sessions say to each other during one round (the order is in `commit`).

Engine -> `Program.decode(rows, masks)` -> `PendingBatch` -> preview of every session -> `Program.commit` ->
confirm -> publish. A `PendingBatch` holds results that are not real yet: one `RowResult` per compact row.
The program sees a request as a lane with a history, numbers and drafts; it never sees a matcher. The mask
provider is borrowed for one call, and the compact row is the only name by which a program asks it.
"""

import enum
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import attrs
import numpy as np
from jaxtyping import Int32

from engine.errors import IntegrityError
from engine.ops.accept import RejectedBy
from engine.request import FinishReason, SamplingSettings
from engine.text.masks import PositionState


class RowFailure(enum.Enum):
    """Why a row commits nothing; the other rows of its batch go on by unchanged rules."""

    NONE = "none"
    DEAD_END = "dead_end"
    DEAD_END_BY_BANS = "dead_end_by_bans"
    NON_FINITE = "non_finite"
    CORE_FAULT = "core_fault"


@attrs.frozen
class RowInput:
    """One compact row of a round: its lane, whether masks apply, and how many tokens its budget licenses."""

    lane: int
    constrained: bool
    max_new: int


@attrs.frozen
class RowResult:
    """What one row of a round would emit; nothing of it is real before `commit_round`.

    `drafts` are the real proposals (never masked or replaced), `states` one per column of the window,
    `illegal_at` is the column of the first draft that its legal set refuses, `failed_at` that of the failure.
    """

    tokens: tuple[int, ...] = ()
    drafts: tuple[int, ...] = ()
    num_accepted: int = 0
    rejected_by: RejectedBy = RejectedBy.NONE
    failure: RowFailure = RowFailure.NONE
    states: tuple[PositionState, ...] = ()
    illegal_at: int | None = None
    failed_at: int = 0

    @property
    def num_drafted(self) -> int:
        """Number of drafts that the round verified."""
        return len(self.drafts)


@attrs.frozen(eq=False)
class PendingBatch:
    """The uncommitted outcome of one round, in compact row order; `next_drafts` hold if all is committed."""

    inputs: tuple[RowInput, ...]
    rows: tuple[RowResult, ...]
    next_drafts: tuple[tuple[int, ...], ...]


@attrs.frozen
class CommitDecision:
    """What one row's preview fixed: tokens that become real, how many of them are published, and the end."""

    num_committed: int = 0
    num_published: int = 0
    finish: FinishReason | None = None


@attrs.frozen
class PreviewFailed(IntegrityError):
    """One row's preview was refused by its matcher: `row` is the compact row; the batch was aborted."""

    row: int = 0


@runtime_checkable
class MaskProvider(Protocol):
    """The batch's sessions, lent to a program for one call."""

    def fill(
        self, row: int, drafts: Sequence[int], out: Int32[np.ndarray, "positions words"]
    ) -> tuple[PositionState, ...]:
        """Write the legal sets along `drafts` for compact row `row`; every row of `out` is written.

        Raises CoreFault (that row only) and IntegrityError (used after the call it was lent for).
        """
        ...


@runtime_checkable
class Program(Protocol):
    """The executor of rounds; lanes are fixed resident slots."""

    @property
    def num_free_lanes(self) -> int:
        """Number of lanes without a request."""
        ...

    @property
    def max_context(self) -> int | None:
        """Most tokens of a prompt and its output together, None without a bound."""
        ...

    def admit(self, prompt_ids: Sequence[int], settings: SamplingSettings, generated: Sequence[int]) -> int:
        """Give a request a lane, rebuilt from its history; no sampling, no matcher, no publication."""
        ...

    def prefill(self, rows: Sequence[RowInput], masks: MaskProvider | None) -> PendingBatch:
        """Sample every row's first token."""
        ...

    def decode(self, rows: Sequence[RowInput], masks: MaskProvider | None) -> PendingBatch:
        """Run one round: draft, target forward, masks, acceptance."""
        ...

    def commit(self, pending: PendingBatch, num_committed: Sequence[int]) -> None:
        """Make a prefix of every row's tokens part of its lane; all rows or, on an exception, none."""
        ...

    def abort(self, pending: PendingBatch) -> None:
        """Forget a round."""
        ...

    def snapshot(self, lane: int) -> Any:
        """Free a lane and return its state."""
        ...

    def restore(self, state: Any) -> int:
        """Give a snapshot a lane."""
        ...

    def release(self, lane: int) -> None:
        """Free a lane."""
        ...


Publisher = Callable[[int, tuple[int, ...], CommitDecision], None]
