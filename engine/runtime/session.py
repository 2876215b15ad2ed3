"""One request's output: its matcher, committed tokens and budget; moved by preview, then confirm or discard.

`preview` takes the tokens that a round really produced, fixes the prefix that will be committed (completion
id, budget, cancellation) and leaves the matcher provisional. `confirm` makes it real, cannot fail; `discard`
restores everything. While a preview is open nothing else may be asked of the matcher.
A completion id ends the output and is committed but not published; it spends budget like any token.
"""

import time
from collections.abc import Sequence

import attrs
import numpy as np
from jaxtyping import Int32
from torch import Tensor

from engine.errors import TransactionError
from engine.request import CacheOutcome, ConstraintObservation, FinishReason
from engine.runtime.contract import CommitDecision
from engine.text.masks import PositionState, fill_window
from engine.text.matcher import Matcher

NOTHING = CommitDecision()
CANCELLED = CommitDecision(finish=FinishReason.CANCELLED)


@attrs.define
class MatcherCost:
    """What a request's matcher has cost so far; rolled-back work stays counted. Seconds are CPU time."""

    core: str = ""
    cache: CacheOutcome = CacheOutcome.HIT
    prepare_seconds: float = 0.0
    mask_positions: int = 0
    mask_upload_bytes: int = 0
    mask_seconds: float = 0.0
    matcher_seconds: float = 0.0


class OutputSession:
    """The committed output of one request; belongs to the request through waiting, running and pauses.

    `spent` says what ended an output that used up `max_tokens`: the request's own limit or the context.
    """

    def __init__(
        self,
        max_tokens: int,
        eos_ids: frozenset[int],
        matcher: Matcher | None = None,
        cost: MatcherCost | None = None,
        spent: FinishReason = FinishReason.LENGTH,
    ) -> None:
        self._max_tokens, self._spent = max_tokens, spent
        self._eos_ids = eos_ids
        self._matcher = matcher
        self._cost = cost or MatcherCost()
        self._open: tuple[tuple[int, ...], CommitDecision] | None = None  # token ids if confirmed
        self.token_ids: tuple[int, ...] = ()
        self.cancelled = False
        self.finish: FinishReason | None = None

    @property
    def constrained(self) -> bool:
        """Whether a matcher owns this output's legal sets."""
        return self._matcher is not None

    @property
    def num_generated(self) -> int:
        """Number of committed tokens, the completion id included."""
        return len(self.token_ids)

    @property
    def remaining(self) -> int:
        """Number of tokens that the budget still licenses."""
        return self._max_tokens - len(self.token_ids)

    def fill(
        self,
        drafts: Sequence[int],
        out: Int32[np.ndarray, "positions words"],
        banned: Int32[Tensor, " words"] | None = None,
    ) -> tuple[PositionState, ...]:
        """Write the legal sets along `drafts`; the matcher is as before afterwards, on exceptions too."""
        self._require_closed()
        if self._matcher is None:
            raise TransactionError("masks were asked for an unconstrained output")
        begin = time.thread_time()
        try:
            states = fill_window(self._matcher, drafts, out, banned_bitmask=banned)
        finally:
            self._cost.mask_seconds += time.thread_time() - begin
        computed = sum(state in (PositionState.READY, PositionState.DEAD_END) for state in states)
        self._cost.mask_positions += computed
        return states

    def preview(self, token_ids: Sequence[int]) -> CommitDecision:
        """Fix what of a round's tokens becomes real; raises CoreFault, and then nothing is open."""
        self._require_closed()
        decision = CANCELLED if self.cancelled else self._decide(token_ids)
        taken = tuple(token_ids[: decision.num_committed])
        if self._matcher is not None and taken:
            begin = time.thread_time()
            try:
                self._matcher.preview(taken)
            finally:
                self._cost.matcher_seconds += time.thread_time() - begin
        self._open = (self.token_ids + taken, decision)
        return decision

    def _decide(self, token_ids: Sequence[int]) -> CommitDecision:
        licensed = token_ids[: self.remaining]
        for index, token_id in enumerate(licensed):
            if token_id in self._eos_ids:
                return CommitDecision(index + 1, index, FinishReason.COMPLETED)
        finish = self._spent if len(licensed) == self.remaining else None
        return CommitDecision(len(licensed), len(licensed), finish)

    def confirm(self, upload_bytes: int = 0) -> None:
        """Make the open preview real, if there is one; checks nothing, cannot fail."""
        if self._open is None:
            return
        token_ids, decision = self._open
        if self._matcher is not None and decision.num_committed:
            self._matcher.confirm()
            self._cost.mask_upload_bytes += upload_bytes
        self.token_ids, self.finish, self._open = token_ids, decision.finish, None

    def discard(self) -> None:
        """Forget the open preview, if there is one; the matcher is as before it."""
        if self._open is None:
            return
        if self._matcher is not None and self._open[1].num_committed:
            self._matcher.discard()
        self._open = None

    def end(self, reason: FinishReason) -> None:
        """End the output at its committed state, outside any round."""
        self._require_closed()
        self.finish = reason

    def close(self) -> ConstraintObservation | None:
        """Return what the matcher committed and cost, and let go of it."""
        if self._matcher is None:
            return None
        cost, matcher = self._cost, self._matcher
        self._matcher = None
        return ConstraintObservation(
            complete=matcher.terminated or (bool(self.token_ids) and matcher.may_end),
            terminated=matcher.terminated,
            **attrs.asdict(cost),
        )

    def _require_closed(self) -> None:
        if self._open is not None:
            raise TransactionError("an output preview is open")
