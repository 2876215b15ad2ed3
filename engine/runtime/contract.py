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
from jaxtyping import Float32, Float64, Int32, Int64
from torch import Tensor

from engine.errors import IntegrityError
from engine.ops import OpSet
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
class TargetModel(Protocol):
    """A model's forward pass over a verification window."""

    @property
    def width(self) -> int:
        """Width of a row of logits, at least the size of the token domain."""
        ...

    def forward(
        self, histories: Sequence[Sequence[int]], drafts: Sequence[Sequence[int]], num_columns: int
    ) -> Float32[Tensor, "rows width"]:
        """Return logits row-major: column i of a row follows its `history + drafts[:i]`."""
        ...


@attrs.define(eq=False)
class Lane:
    """The physical state of one resident request; a toy's history stands for caches and recurrent state.

    `history` is the prompt and everything committed; `drafts` are kept for the next round by drafters that
    propose at the end of a round. `counts`, `bias` and `banned` are None where the request needs none.
    """

    settings: SamplingSettings
    history: list[int]
    num_prompt: int
    drafts: tuple[int, ...] = ()
    counts: Int32[Tensor, " vocab"] | None = None
    bias: Float32[Tensor, " vocab"] | None = None
    banned: Int32[Tensor, " words"] | None = None

    @property
    def num_generated(self) -> int:
        """Logical position of the next token."""
        return len(self.history) - self.num_prompt

    @property
    def seed_bits(self) -> int:
        """The 64-bit seed as the int64 with the same bits."""
        return (int(self.settings.seed) + 2**63) % 2**64 - 2**63


@attrs.frozen(eq=False)
class Drafts:
    """The proposals of one batch: real ids per row, and for sparse q what they were drawn from."""

    ids: tuple[tuple[int, ...], ...]
    candidate_ids: Int64[Tensor, "batch k cand"] | None = None
    draft_probs: Float64[Tensor, "batch k cand"] | None = None


@runtime_checkable
class Drafter(Protocol):
    """One path's proposals; it sees lanes, never a constraint."""

    @property
    def num_drafts(self) -> int:
        """Largest number of drafts in a window."""
        ...

    def propose(self, lanes: Sequence[Lane], ops: OpSet) -> Drafts:
        """Return what this round verifies, for every lane of the batch."""
        ...

    def follow(self, lane: Lane, token_ids: Sequence[int]) -> tuple[int, ...]:
        """Return the drafts to keep for the round after `token_ids`; most drafters keep none."""
        ...


@runtime_checkable
class Program(Protocol):
    """The executor of rounds; lanes are fixed resident slots."""

    @property
    def num_free_lanes(self) -> int:
        """Number of lanes without a request."""
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
