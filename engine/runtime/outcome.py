"""Reading a round's tensors back as one `RowResult` per compact row.

A row whose reached column has no law commits nothing and says why. The host's knowledge of dead ends comes
first: such a column holds a safe filler on the device, so Finish sets its status before it judges.
"""

from collections.abc import Sequence

import attrs
import torch
from jaxtyping import Bool, Int32, Int64
from torch import Tensor

from engine.errors import IntegrityError
from engine.ops.accept import RejectedBy, RoundOutcome
from engine.ops.sample import RowStatus
from engine.runtime.contract import RowFailure, RowResult
from engine.text.masks import PositionState

FAILURES = {
    RowStatus.OK: RowFailure.NONE,
    RowStatus.EMPTY: RowFailure.DEAD_END,
    RowStatus.EMPTY_BY_BANS: RowFailure.DEAD_END_BY_BANS,
    RowStatus.NON_FINITE: RowFailure.NON_FINITE,
}
LICENSED = (PositionState.READY, PositionState.UNCONSTRAINED)


@attrs.frozen(eq=False)
class Window:
    """The legal sets of a batch with at least one constrained row, and what each column's row means."""

    bitmask: Int32[Tensor, "rows words"]
    constrained_mask: Bool[Tensor, " batch"]
    states: tuple[tuple[PositionState, ...], ...]
    faults: frozenset[int] = frozenset()

    @property
    def dead_mask(self) -> Bool[Tensor, " rows"] | None:
        """The columns whose legal set is empty, None where there is none; their rows hold a filler."""
        dead = [state is PositionState.DEAD_END for states in self.states for state in states]
        if not any(dead):
            return None
        return torch.tensor(dead)


def read_results(
    outcome: RoundOutcome,
    column_status: Int64[Tensor, " rows"],
    drafts: Sequence[tuple[int, ...]],
    window: Window | None,
    vocab_size: int,
) -> tuple[RowResult, ...]:
    """Return one result per row; raises IntegrityError where a token comes from a column without meaning."""
    stride = column_status.shape[0] // len(drafts)
    column_is_bad = (column_status != RowStatus.OK).view(-1, stride).long()
    first_bad = column_is_bad.argmax(dim=1).tolist()  # a failed row was stopped by its first bad column
    columns = zip(
        outcome.token_ids.tolist(),
        outcome.num_emitted.tolist(),
        outcome.num_accepted.tolist(),
        outcome.status.tolist(),
        outcome.rejected_by.tolist(),
        strict=True,
    )
    free = (PositionState.UNCONSTRAINED,) * stride
    results = []
    for row, (token_ids, num_emitted, num_accepted, status, rejected_by) in enumerate(columns):
        states = free if window is None else window.states[row]
        failure = FAILURES[RowStatus(status)]
        if window is not None and row in window.faults:
            failure = RowFailure.CORE_FAULT
        if failure is RowFailure.NONE and states[num_emitted - 1] not in LICENSED:
            raise IntegrityError(f"row {row} emitted a token from an unlicensed column")
        results.append(
            RowResult(
                tokens=tuple(token_ids[:num_emitted]),
                drafts=drafts[row],
                num_accepted=num_accepted,
                rejected_by=RejectedBy(rejected_by),
                failure=failure,
                states=states,
                illegal_at=_first_illegal(row, drafts[row], states, window, vocab_size),
                failed_at=first_bad[row],
            )
        )
    return tuple(results)


def _first_illegal(
    row: int,
    drafts: Sequence[int],
    states: Sequence[PositionState],
    window: Window | None,
    vocab_size: int,
) -> int | None:
    """Return the position of the first draft that its column's legal set refuses."""
    for i, token_id in enumerate(drafts):
        if not 0 <= token_id < vocab_size:
            return i
        if states[i] is PositionState.UNCONSTRAINED or window is None:
            continue
        if states[i] is not PositionState.READY:
            return None
        word = int(window.bitmask[row * len(states) + i, token_id // 32])
        if not word >> (token_id % 32) & 1:
            return i
    return None
