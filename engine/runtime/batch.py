"""What a program says to its target and its drafter: lanes on the host, rows of tensors on the device.

A round's Forward is `Drafter.draft`, then `TargetModel.forward`; its Finish judges the drafts and ends with
`Drafter.follow`, which realigns the drafter's own state and may propose for the next round. `commit` then
makes a prefix of every row part of the lanes. A pass writes caches past the committed lengths only, where no
later pass looks before it has overwritten them: forgetting a round needs no work.
"""

from typing import Any, Protocol, runtime_checkable

import attrs
from jaxtyping import Float, Float32, Float64, Int32, Int64
from torch import Tensor

from engine.ops import OpSet
from engine.ops.sample import SamplingBatch
from engine.request import SamplingSettings


@attrs.define(eq=False)
class Lane:
    """One resident request as its program keeps it; `slot` numbers the caches that hold its model state.

    `history` is the prompt and everything committed. The state of the target and of the drafter covers it
    without its last token, the anchor, which the next window starts with. `drafts` are kept for the next
    round by drafters that propose as a round finishes. `counts`, `bias` and `banned` are None where the
    request needs none.
    """

    settings: SamplingSettings
    history: list[int]
    num_prompt: int
    drafts: tuple[int, ...] = ()
    counts: Int32[Tensor, " vocab"] | None = None
    bias: Float32[Tensor, " vocab"] | None = None
    banned: Int32[Tensor, " words"] | None = None
    slot: int = -1

    @property
    def num_generated(self) -> int:
        """Logical position of the next token."""
        return len(self.history) - self.num_prompt

    @property
    def seed_bits(self) -> int:
        """The 64-bit seed as the int64 with the same bits."""
        return (int(self.settings.seed) + 2**63) % 2**64 - 2**63


@attrs.frozen(eq=False)
class Rows:
    """Where lanes stand in a pass: column i of a row is the token at position `starts + i` of its history.

    `context` is the number of positions that the pass may read, at least every start plus the columns.
    `lanes` are the host's; device work reads the tensors alone.
    """

    lanes: tuple[Lane, ...]
    slots: Int64[Tensor, " batch"]
    starts: Int64[Tensor, " batch"]
    context: int


@attrs.frozen(eq=False)
class Batch:
    """One round as the device reads it, an entry per compact row; `num_columns` is the window's width.

    `limits` are the drafts that each row's budget licenses; `host_ids` with `host_extents` are the drafts
    that were fixed on the host, ids 0 past the extent.
    """

    rows: Rows
    num_columns: int
    anchors: Int64[Tensor, " batch"]
    seeds: Int64[Tensor, " batch"]
    first_positions: Int64[Tensor, " batch"]
    limits: Int64[Tensor, " batch"]
    host_ids: Int64[Tensor, "batch k"]
    host_extents: Int64[Tensor, " batch"]
    settings: SamplingBatch


@attrs.frozen(eq=False)
class Drafts:
    """The proposals of one batch: real ids, how many of them, and for sparse q what they were drawn from."""

    token_ids: Int64[Tensor, "batch k"]
    extents: Int64[Tensor, " batch"]
    candidate_ids: Int64[Tensor, "batch k cand"] | None = None
    draft_probs: Float64[Tensor, "batch k cand"] | None = None


@attrs.frozen(eq=False)
class TargetPass:
    """One forward pass of a target: logits row-major, and what commit and drafters need of a neural one."""

    logits: Float[Tensor, "rows width"]
    hidden: Float[Tensor, "batch columns hidden"] | None = None
    features: Float[Tensor, "batch columns features"] | None = None
    records: Any = None


@runtime_checkable
class TargetModel(Protocol):
    """A model over resident slots; a pass changes nothing that a later pass can see before `commit`."""

    @property
    def width(self) -> int:
        """Width of a row of logits, at least the size of the token domain."""
        ...

    @property
    def max_context(self) -> int | None:
        """Most tokens of a history, None without a bound."""
        ...

    @property
    def room(self) -> int | None:
        """Positions that a pass may read, `max_context` and a window more; None without state."""
        ...

    def forward(self, batch: Batch, drafts: Drafts) -> TargetPass:
        """Run [anchor, d1..dk] of every row; ids out of range and columns past a row's drafts are padding."""
        ...

    def extend(self, rows: Rows, token_ids: Int64[Tensor, "batch columns"]) -> TargetPass | None:
        """Run and commit known tokens of a history, without logits; None where there is no state to build."""
        ...

    def commit(self, rows: Rows, passed: TargetPass, counts: Int64[Tensor, " batch"]) -> None:
        """Make the first `counts` columns of every row of a pass part of its lane's state."""
        ...

    def clear(self, slot: int) -> None:
        """Empty a slot before another request takes it."""
        ...

    def save(self, slot: int, length: int) -> Any:
        """Return a copy of the state of a slot whose state covers `length` tokens."""
        ...

    def load(self, slot: int, state: Any) -> None:
        """Write a saved state into a cleared slot."""
        ...


@runtime_checkable
class Drafter(Protocol):
    """One path's proposals and the state they need; it never sees a constraint."""

    @property
    def num_drafts(self) -> int:
        """Largest number of drafts in a window."""
        ...

    @property
    def on_device(self) -> bool:
        """Whether `draft` makes the ids; otherwise they are `on_host` before Forward."""
        ...

    def on_host(self, lane: Lane) -> tuple[int, ...]:
        """Return the drafts of a lane that are fixed before Forward; () where the device drafts."""
        ...

    def draft(self, batch: Batch, ops: OpSet) -> Drafts:
        """Return what this round verifies; part of Forward, before the target's pass."""
        ...

    def follow(
        self,
        rows: Rows,
        passed: TargetPass | None,
        next_ids: Int64[Tensor, "batch columns"],
        counts: Int64[Tensor, " batch"],
    ) -> Drafts | None:
        """Realign with a target's pass: column i is followed by `next_ids[:, i]`, true for i below `counts`.

        Returns the drafts to keep for the round after `next_ids[counts - 1]`; None: this drafter keeps none.
        """
        ...

    def clear(self, slot: int) -> None:
        """Empty a slot before another request takes it."""
        ...

    def save(self, slot: int, length: int) -> Any:
        """Return a copy of the state of a slot, as the target's `save`."""
        ...

    def load(self, slot: int, state: Any) -> None:
        """Write a saved state into a cleared slot."""
        ...
