"""A small synchronous engine: requests in, rounds over fixed lanes, results out.

`submit` compiles on the caller's thread and refuses what can never start. `step` fills free lanes, samples
first tokens, runs one round over all resident requests and commits it. More requests than lanes wait in
order. Pausing happens between steps: the session keeps its matcher, the lane is kept as a snapshot or built
again from the history. Which lane or row a request has never changes its tokens; `arrange` may permute the
rows of a round to show it. `observe` is told every committed row.
"""

import collections
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal

import attrs
import numpy as np
from jaxtyping import Int32

from engine.errors import ErrorKind, IntegrityError, RequestError
from engine.request import FinishReason, GenerationResult, RequestOptions, SamplingSettings
from engine.runtime.commit import commit_round
from engine.runtime.contract import (
    CommitDecision,
    PendingBatch,
    PreviewFailed,
    Program,
    RowFailure,
    RowInput,
    RowResult,
)
from engine.runtime.lanes import pack_ids
from engine.runtime.options import budget_of, check_options, dead_end, row_error
from engine.runtime.session import MatcherCost, OutputSession
from engine.runtime.stats import SpecStats
from engine.text.compiler import ConstraintCompiler
from engine.text.masks import PositionState, words_for
from engine.text.vocabulary import Vocabulary


@attrs.define(eq=False)
class RequestHandle:
    """One request as its caller sees it: published tokens, then a result or an error."""

    prompt_ids: tuple[int, ...]
    options: RequestOptions
    session: OutputSession
    token_ids: list[int] = attrs.field(factory=list)
    stats: SpecStats = attrs.field(factory=SpecStats)
    lane: int | None = None
    paused: bool = False
    kept: Any = None
    outcome: GenerationResult | RequestError | IntegrityError | None = None

    @property
    def done(self) -> bool:
        """Whether the request has ended, in whichever way."""
        return self.outcome is not None

    def result(self) -> GenerationResult:
        """Return the result; raises the error that ended the request."""
        if isinstance(self.outcome, Exception):
            raise self.outcome
        if self.outcome is None:
            raise IntegrityError("the request has not ended yet")
        return self.outcome


class LentMasks:
    """A mask provider over one batch's sessions, in compact row order, for one call of the program."""

    def __init__(self, sessions: Sequence[OutputSession]) -> None:
        self._sessions: Sequence[OutputSession] | None = sessions

    def fill(
        self, row: int, drafts: Sequence[int], out: Int32[np.ndarray, "positions words"]
    ) -> tuple[PositionState, ...]:
        """Write the legal sets of one row along its drafts."""
        if self._sessions is None:
            raise IntegrityError("the mask provider was used after the call it was lent for")
        return self._sessions[row].fill(drafts, out)

    def close(self) -> None:
        """End the loan."""
        self._sessions = None


def keep_order(handles: list[RequestHandle]) -> list[RequestHandle]:
    """Leave the compact rows as they are."""
    return handles


def see_nothing(handle: RequestHandle, result: RowResult) -> None:
    """Observe no round."""


SWITCH_SECONDS = 0.0005  # beside cold builds, p99 from token to token is 4 times as long at Python's 0.005


class Engine:
    """One vocabulary, one program, one compiler."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        program: Program,
        compiler: ConstraintCompiler,
        *,
        arrange: Callable[[list[RequestHandle]], list[RequestHandle]] = keep_order,
        observe: Callable[[RequestHandle, RowResult], None] = see_nothing,
    ) -> None:
        self._vocabulary, self._program, self._compiler = vocabulary, program, compiler
        self._arrange, self._observe = arrange, observe
        self._eos_ids = frozenset(vocabulary.eos_ids)
        self._waiting: collections.deque[RequestHandle] = collections.deque()
        self._resident: list[RequestHandle] = []
        self._fault: IntegrityError | None = None
        self._in_step = False
        self.stats = SpecStats()
        # Builds are Python on callers' threads: the step's thread must not wait long for the interpreter.
        sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_SECONDS))

    # --- requests -------------------------------------------------------------------------------------

    def submit(self, prompt_ids: Sequence[int], options: RequestOptions) -> RequestHandle:
        """Prepare a request on the caller's thread and queue it.

        Raises RequestError: a constraint that cannot be served, ids out of range, a prompt that fills the
        context, or no legal first token.
        """
        self._require_available()
        check_options(prompt_ids, options, self._vocabulary.size)
        budget = budget_of(len(prompt_ids), options.max_tokens, self._program.max_context)
        handle = RequestHandle(tuple(int(i) for i in prompt_ids), options, self._session(options, *budget))
        if options.max_tokens == 0:
            self._finish(handle, FinishReason.LENGTH)
        else:
            self._waiting.append(handle)
        return handle

    def _session(self, options: RequestOptions, max_tokens: int, spent: FinishReason) -> OutputSession:
        if options.constraint is None:
            return OutputSession(max_tokens, self._eos_ids, spent=spent)
        begin = time.thread_time()
        compiled, outcome = self._compiler.compile(options.constraint)
        cost = MatcherCost(core=compiled.core_name, cache=outcome)
        session = OutputSession(max_tokens, self._eos_ids, compiled.new_matcher(), cost, spent)
        self._refuse_dead_start(session, options.sampling)
        cost.prepare_seconds = time.thread_time() - begin
        return session

    def _refuse_dead_start(self, session: OutputSession, settings: SamplingSettings) -> None:
        words = np.empty((1, words_for(self._vocabulary.size)), dtype=np.int32)
        banned = settings.banned_token_ids
        state = session.fill((), words, pack_ids(banned, self._vocabulary.size) if banned else None)[0]
        if state is not PositionState.READY:
            raise dead_end(0, 0, by_bans=state is PositionState.DEAD_END_BY_BANS)

    def cancel(self, handle: RequestHandle) -> None:
        """End a request; a round in flight commits nothing for it."""
        handle.session.cancelled = True
        if not self._in_step and not handle.done:
            self._finish(handle, FinishReason.CANCELLED)

    def pause(self, handle: RequestHandle, mode: Literal["snapshot", "replay"] = "snapshot") -> None:
        """Take a request off its lane at this commit boundary; its session stays with it."""
        self._require_between_steps()
        handle.paused = True
        if handle.lane is not None:
            state = self._program.snapshot(handle.lane)
            handle.kept = state if mode == "snapshot" else None
            handle.lane = None
            self._resident.remove(handle)
            self._waiting.append(handle)

    def resume(self, handle: RequestHandle) -> None:
        """Let a paused request have a lane again; without a snapshot its lane is built from the history."""
        handle.paused = False

    # --- rounds ---------------------------------------------------------------------------------------

    def step(self) -> SpecStats:
        """Fill free lanes, sample first tokens, run and commit one round; return what the round drafted."""
        self._require_available()
        self._require_between_steps()
        self._in_step = True
        stats = SpecStats()
        try:
            self._admit()
            self._round(
                [h for h in self._resident if not h.session.num_generated], self._program.prefill, stats
            )
            self._round([h for h in self._resident if h.session.num_generated], self._program.decode, stats)
            self._settle_cancelled()
        except Exception as fault:
            raise self._become_unavailable(fault) from fault
        finally:
            self._in_step = False
        self.stats.merge(stats)
        return stats

    def run_until_done(self) -> None:
        """Step until no request can go on; paused requests stay paused."""
        while self._resident or any(not handle.paused for handle in self._waiting):
            self.step()

    def _admit(self) -> None:
        ready = [handle for handle in self._waiting if not handle.paused]
        for handle in ready[: self._program.num_free_lanes]:
            self._waiting.remove(handle)
            self._resident.append(handle)
            if handle.kept is not None:
                handle.lane, handle.kept = self._program.restore(handle.kept), None
            else:
                settings, generated = handle.options.sampling, handle.session.token_ids
                handle.lane = self._program.admit(handle.prompt_ids, settings, generated)

    def _round(
        self,
        handles: list[RequestHandle],
        run: Callable[[Sequence[RowInput], LentMasks | None], PendingBatch],
        stats: SpecStats,
    ) -> None:
        handles = self._arrange([handle for handle in handles if not handle.session.cancelled])
        if not handles:
            return
        try:
            pending = self._run(handles, run)
            self._commit(handles, pending, stats)
        except PreviewFailed as fault:
            self._end(handles[fault.row], fault)  # its neighbours are as before and take the round again

    def _run(
        self,
        handles: list[RequestHandle],
        run: Callable[[Sequence[RowInput], LentMasks | None], PendingBatch],
    ) -> PendingBatch:
        sessions = [handle.session for handle in handles]
        rows = [RowInput(_lane(h), h.session.constrained, h.session.remaining) for h in handles]
        if not any(session.constrained for session in sessions):
            return run(rows, None)
        masks = LentMasks(sessions)
        try:
            return run(rows, masks)
        finally:
            masks.close()

    def _commit(self, handles: list[RequestHandle], pending: PendingBatch, stats: SpecStats) -> None:
        num_words = words_for(self._vocabulary.size)
        upload_bytes = 4 * num_words * len(pending.rows[0].states)
        sessions = [handle.session for handle in handles]

        def publish(row: int, token_ids: tuple[int, ...], decision: CommitDecision) -> None:
            if decision.num_committed:
                handles[row].token_ids.extend(token_ids)
                handles[row].stats.add(pending.rows[row])
                stats.add(pending.rows[row])
                self._observe(handles[row], pending.rows[row])
            if decision.finish is not None:
                self._finish(handles[row], decision.finish)

        commit_round(self._program, pending, sessions, publish, upload_bytes)
        for handle, result in zip(handles, pending.rows, strict=True):
            if result.failure is not RowFailure.NONE and not handle.done:
                self._end(handle, row_error(result, handle.session.num_generated))

    # --- ends -----------------------------------------------------------------------------------------

    def _settle_cancelled(self) -> None:
        for handle in [h for h in (*self._resident, *self._waiting) if h.session.cancelled]:
            self._finish(handle, FinishReason.CANCELLED)

    def _finish(self, handle: RequestHandle, reason: FinishReason) -> None:
        stats = handle.stats
        result = GenerationResult(
            tuple(handle.token_ids), reason, stats.num_drafted, stats.num_accepted, handle.session.close()
        )
        self._end(handle, result)

    def _end(self, handle: RequestHandle, outcome: GenerationResult | RequestError | IntegrityError) -> None:
        """Settle a request and let go of everything it held."""
        handle.outcome = outcome
        handle.session.close()
        if handle.lane is not None:
            self._program.release(handle.lane)
            self._resident.remove(handle)
        elif handle in self._waiting:
            self._waiting.remove(handle)
        handle.lane = handle.kept = None

    def _become_unavailable(self, fault: Exception) -> IntegrityError:
        """Close the engine after a fault that may have split its state; what was published stays."""
        self._fault = fault if isinstance(fault, IntegrityError) else IntegrityError(repr(fault))
        held = (*self._resident, *self._waiting)
        self._resident.clear()
        self._waiting.clear()
        for handle in held:
            handle.outcome, handle.lane, handle.kept = self._fault, None, None
        for handle in held:
            handle.session.close()
        return self._fault

    def _require_between_steps(self) -> None:
        if self._in_step:
            raise IntegrityError("this can be done between steps only")

    def _require_available(self) -> None:
        if self._fault is not None:
            raise RequestError(
                ErrorKind.UNAVAILABLE, f"the engine stopped after a fault: {self._fault}", source="request"
            )


def _lane(handle: RequestHandle) -> int:
    if handle.lane is None:
        raise IntegrityError("a row stands for a request without a lane")
    return handle.lane
