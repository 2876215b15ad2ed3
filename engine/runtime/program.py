"""One round for a batch of lanes in two phases, over any target model and drafter.

Forward: the drafts (from the lanes, the host, or the drafter's block), the ready mark, and the target's
logits over the window [anchor, d1..dk]. Then the borrowed mask provider writes the legal sets along each
constrained row's drafts. Finish: selection with penalties, bias and bans of each column's own hypothetical
prefix, acceptance, and the drafter's realignment with the drafts for the next round. The result is a
`PendingBatch`; lanes move in `commit` only. Drafts are never masked, replaced or refilled; a window is only
as long as the budget licenses. A batch of free rows asks no provider, allocates no mask and runs no mask op.
"""

from collections.abc import Sequence
from typing import Any

import attrs
import torch
from jaxtyping import Int64
from torch import Tensor

from engine.errors import CoreFault, IntegrityError
from engine.ops import OpSet
from engine.ops.accept import RoundOutcome
from engine.ops.rng import Purpose
from engine.ops.sample import SamplingBatch
from engine.request import SamplingSettings
from engine.runtime.batch import Batch, Drafter, Drafts, Lane, Rows, TargetModel, TargetPass
from engine.runtime.contract import MaskProvider, PendingBatch, RowInput
from engine.runtime.finish import Consumers, Judge
from engine.runtime.lanes import Lanes, batch_bans, batch_bias, batch_counts
from engine.runtime.launch import EagerLauncher, Launcher
from engine.runtime.outcome import Window, read_results
from engine.text.masks import PositionState, words_for, write_filler

PREFILL_COLUMNS = 256  # of a history are run together when a lane is built


@attrs.frozen(eq=False)
class Forward:
    """The first phase's products, alive until the round is committed."""

    drafts: Drafts
    passed: TargetPass


@attrs.frozen(eq=False)
class Finished:
    """The second phase's products in one table, so that they come back to the host in one transfer.

    A row: ids, counts emitted and accepted, status and refuser, each column's status, drafts to keep.
    """

    table: Int64[Tensor, "batch packed"]

    @classmethod
    def pack(cls, outcome: RoundOutcome, status: Int64[Tensor, " rows"], kept: Drafts | None) -> "Finished":
        """Join what the round emits, the columns' statuses and the drafts to keep."""
        numbers = (outcome.num_emitted, outcome.num_accepted, outcome.status, outcome.rejected_by)
        parts = [outcome.token_ids, torch.stack(numbers, dim=1), status.view(len(outcome.status), -1)]
        if kept is not None:
            parts += [kept.extents[:, None], kept.token_ids]
        return cls(torch.cat(parts, dim=1))

    def unpack(self, num_columns: int) -> tuple[RoundOutcome, Int64[Tensor, " rows"], Drafts | None]:
        """Return on the host what was joined."""
        table = self.table.cpu()
        ids, numbers, status, extents, kept = table.tensor_split(
            [num_columns, num_columns + 4, 2 * num_columns + 4, 2 * num_columns + 5], dim=1
        )
        outcome = RoundOutcome(ids, *numbers.unbind(dim=1))
        return outcome, status.flatten(), Drafts(kept, extents[:, 0]) if extents.shape[1] else None


@attrs.frozen(eq=False)
class Snapshot:
    """A lane off its slot, with copies of its model states."""

    lane: Lane
    target: Any
    drafter: Any


class TwoPhaseProgram:
    """Fixed lanes over one target and one drafter; every buffer of masks is allocated here, once."""

    def __init__(
        self,
        target: TargetModel,
        drafter: Drafter,
        ops: OpSet,
        *,
        vocab_size: int,
        eos_ids: frozenset[int],
        num_lanes: int,
        candidate_cap: int | None = 20,
        launcher: Launcher | None = None,
    ) -> None:
        if num_lanes < 1 or (candidate_cap is not None and candidate_cap < 1):
            raise ValueError(f"{num_lanes=} and {candidate_cap=} must be at least 1")
        self._target, self._drafter, self._ops = target, drafter, ops
        self._vocab_size = vocab_size
        self._launcher = launcher or EagerLauncher()
        device = self._launcher.device
        self._judge = Judge(ops, vocab_size, candidate_cap, torch.tensor(sorted(eos_ids), device=device))
        self._lanes = Lanes(num_lanes, vocab_size)
        num_rows = num_lanes * (drafter.num_drafts + 1)
        self._bitmask = torch.zeros(
            (num_rows, words_for(vocab_size)), dtype=torch.int32, pin_memory=device.type != "cpu"
        )
        self._bitmask_view = self._bitmask.numpy()  # the same memory: slicing it costs a tenth
        self._pending: PendingBatch | None = None
        self._uncommitted: tuple[Rows, TargetPass] | None = None

    # --- lanes ----------------------------------------------------------------------------------------

    @property
    def num_free_lanes(self) -> int:
        """Number of lanes without a request."""
        return self._lanes.num_free

    @property
    def max_context(self) -> int | None:
        """Most tokens of a history, None without a bound."""
        return self._target.max_context

    def admit(
        self, prompt_ids: Sequence[int], settings: SamplingSettings, generated: Sequence[int] = ()
    ) -> int:
        """Give a request a lane, built from its history alone; with `generated` this is a replay."""
        lane = self._lanes.build(prompt_ids, settings, generated)
        number = self._place(lane)
        kept = self._build_state(lane)
        if generated and kept is not None:
            lane.drafts = _read_kept(kept)[0]
        return number

    def snapshot(self, lane: int) -> Snapshot:
        """Free a lane and return its state."""
        self._require_idle()
        taken = self._lanes[lane]
        length = len(taken.history) - 1
        saved = self._target.save(taken.slot, length), self._drafter.save(taken.slot, length)
        return Snapshot(self._lanes.take(lane), *saved)

    def restore(self, state: Snapshot) -> int:
        """Give a snapshot a lane, not always the one it had."""
        number = self._place(state.lane)
        self._target.load(state.lane.slot, state.target)
        self._drafter.load(state.lane.slot, state.drafter)
        return number

    def release(self, lane: int) -> None:
        """Free a lane."""
        self._require_idle()
        self._lanes.take(lane)

    def _place(self, lane: Lane) -> int:
        number = self._lanes.place(lane)
        self._target.clear(lane.slot)
        self._drafter.clear(lane.slot)
        return number

    def _build_state(self, lane: Lane) -> Drafts | None:
        """Run a history without its anchor, chunk by chunk; returns the drafts that follow all of it."""
        kept, end = None, len(lane.history) - 1
        for start in range(0, end, PREFILL_COLUMNS):
            stop = min(start + PREFILL_COLUMNS, end)
            rows = Rows((lane,), torch.tensor([lane.slot]), torch.tensor([start]), stop)
            ids = torch.tensor([lane.history[start : stop + 1]])
            kept = self._launcher.run(None, self._extend_phase, rows, ids)
        return kept

    def _extend_phase(self, rows: Rows, ids: Int64[Tensor, "1 columns_and_next"]) -> Drafts | None:
        passed = self._target.extend(rows, ids[:, :-1])
        counts = torch.full_like(rows.starts, ids.shape[1] - 1)
        return self._drafter.follow(rows, passed, ids[:, 1:], counts)

    # --- one round ------------------------------------------------------------------------------------

    def prefill(self, rows: Sequence[RowInput], masks: MaskProvider | None) -> PendingBatch:
        """Sample every row's first token; the mask is that of the output's beginning."""
        return self._round(rows, masks, 0, Purpose.PREFILL)

    def decode(self, rows: Sequence[RowInput], masks: MaskProvider | None) -> PendingBatch:
        """Run one round; nothing of its result is real before `commit`."""
        num_drafts = self._drafter.num_drafts  # without drafts the last draw is the only one
        return self._round(rows, masks, num_drafts, Purpose.BONUS if num_drafts else Purpose.DECODE)

    def commit(self, pending: PendingBatch, num_committed: Sequence[int]) -> None:
        """Append a prefix of every row's tokens to its lane: model state, history, counts, kept drafts."""
        self._require_pending(pending)
        for result, count in zip(pending.rows, num_committed, strict=True):
            if not 0 <= count <= len(result.tokens):
                raise IntegrityError(f"{count} of {len(result.tokens)} tokens cannot be committed")
        assert self._uncommitted is not None
        counts = torch.tensor(list(num_committed), dtype=torch.int64)
        self._launcher.run(None, self._target.commit, *self._uncommitted, counts)
        for i, count in enumerate(num_committed):
            if count:
                tokens = pending.rows[i].tokens
                whole = count == len(tokens)
                kept = pending.next_drafts[i] if whole else ()
                self._lanes.append(pending.inputs[i].lane, tokens[:count], kept)
        self._pending = self._uncommitted = None

    def abort(self, pending: PendingBatch) -> None:
        """Forget a round; lanes are as before it."""
        self._require_pending(pending)
        self._pending = self._uncommitted = None

    def _round(
        self, rows: Sequence[RowInput], masks: MaskProvider | None, num_drafts: int, last: Purpose
    ) -> PendingBatch:
        self._require_idle()
        batch = self._batch(rows, num_drafts)
        num_drafts = batch.num_columns - 1
        key = (len(rows), num_drafts, batch.rows.context)
        forward = self._launcher.run(("forward", *key), self._forward_phase, batch)
        drafts = self._draft_ids(rows, batch)
        window = self._fill(rows, batch, drafts, masks)
        consumers = self._consumers(batch, drafts, window)
        finished = self._launcher.run(
            ("finish", *key, last, consumers.route), self._finish_phase, batch, forward, consumers, last
        )
        outcome, status, kept_drafts = finished.unpack(num_drafts + 1)
        results = read_results(outcome, status, drafts, window, self._vocab_size)
        kept = ((),) * len(rows) if kept_drafts is None else _read_kept(kept_drafts)
        self._uncommitted = batch.rows, forward.passed
        self._pending = PendingBatch(tuple(rows), results, kept)
        return self._pending

    def _forward_phase(self, batch: Batch) -> Forward:
        if batch.num_columns == 1:  # also of a drafting path: a request's first token
            drafts = Drafts(batch.host_ids, batch.host_extents)
        else:
            drafts = self._drafter.draft(batch, self._ops)
        if self._drafter.on_device:
            self._launcher.mark_ready(drafts)
        return Forward(drafts, self._target.forward(batch, drafts))

    def _finish_phase(self, batch: Batch, forward: Forward, consumers: Consumers, last: Purpose) -> Finished:
        law = self._judge.law(batch, forward.passed.logits, consumers)
        outcome = self._judge.judge(batch, forward.drafts, law, consumers, last)
        kept = self._drafter.follow(batch.rows, forward.passed, outcome.token_ids, outcome.num_emitted)
        return Finished.pack(outcome, law.status, kept)

    # --- what the host gives to the phases --------------------------------------------------------------

    def _batch(self, rows: Sequence[RowInput], num_drafts: int) -> Batch:
        lanes = tuple(self._lanes[row.lane] for row in rows)
        starts = [len(lane.history) - 1 for lane in lanes]
        on_host: list[tuple[int, ...]] = [()] * len(rows)
        if num_drafts and not self._drafter.on_device:
            pairs = zip(lanes, rows, strict=True)
            on_host = [self._drafter.on_host(lane)[: row.max_new - 1] for lane, row in pairs]
            num_drafts = max(len(ids) for ids in on_host)  # columns that no row fills are not run
        numbers = torch.tensor(
            [
                [lane.slot for lane in lanes],
                starts,
                [lane.history[-1] for lane in lanes],
                [lane.seed_bits for lane in lanes],
                [lane.num_generated for lane in lanes],
                [row.max_new - 1 for row in rows],
                [len(ids) for ids in on_host],
            ]
        )
        padded = [[*ids, *[0] * (num_drafts - len(ids))] for ids in on_host]
        slots, start, anchors, seeds, first, limits, extents = numbers.unbind()
        return Batch(
            rows=Rows(lanes, slots, start, self._context(max(starts) + num_drafts + 1)),
            num_columns=num_drafts + 1,
            anchors=anchors,
            seeds=seeds,
            first_positions=first,
            limits=limits,
            host_ids=torch.tensor(padded, dtype=torch.int64),
            host_extents=extents,
            settings=SamplingBatch.from_settings([lane.settings for lane in lanes]),
        )

    def _context(self, needed: int) -> int:
        """Return the positions that a pass reads: those it needs, rounded up so that few shapes occur."""
        step, room = self._launcher.context_step, self._target.room
        rounded = -(-needed // step) * step
        return rounded if room is None else min(rounded, room)

    def _draft_ids(self, rows: Sequence[RowInput], batch: Batch) -> tuple[tuple[int, ...], ...]:
        """Return the licensed drafts of every row; waits for the ready mark where the device drafts."""
        if self._drafter.on_device:
            ids, extents = self._launcher.wait_ready()
        else:
            ids, extents = batch.host_ids.tolist(), batch.host_extents.tolist()
        licensed = zip(ids, extents, rows, strict=True)
        return tuple(tuple(row_ids[: min(extent, row.max_new - 1)]) for row_ids, extent, row in licensed)

    def _fill(
        self,
        rows: Sequence[RowInput],
        batch: Batch,
        drafts: Sequence[tuple[int, ...]],
        masks: MaskProvider | None,
    ) -> Window | None:
        constrained = [row.constrained for row in rows]
        if not any(constrained):
            return None
        if masks is None:
            raise IntegrityError("a constrained row came without a mask provider")
        stride = batch.num_columns
        states, faults = [], set()
        for i, row_drafts in enumerate(drafts):
            out = self._bitmask_view[i * stride : (i + 1) * stride]
            try:
                states.append(
                    masks.fill(i, row_drafts, out)
                    if constrained[i]
                    else (PositionState.UNCONSTRAINED,) * stride
                )
            except CoreFault:
                faults.add(i)
                write_filler(out)  # the row commits nothing
                states.append((PositionState.DEAD_END,) * stride)
        bitmask = self._bitmask[: len(rows) * stride]
        return Window(bitmask, torch.tensor(constrained), tuple(states), frozenset(faults))

    def _consumers(self, batch: Batch, drafts: Sequence[tuple[int, ...]], window: Window | None) -> Consumers:
        lanes, stride = batch.rows.lanes, batch.num_columns
        return Consumers(
            bitmask=None if window is None else window.bitmask,
            constrained_mask=None if window is None else window.constrained_mask,
            dead_mask=None if window is None else window.dead_mask,
            banned=batch_bans(lanes, stride),
            counts=batch_counts(lanes, drafts, stride),
            bias=batch_bias(lanes, stride),
        )

    def _require_idle(self) -> None:
        if self._pending is not None:
            raise IntegrityError("a round is still uncommitted")

    def _require_pending(self, pending: PendingBatch) -> None:
        if pending is not self._pending:
            raise IntegrityError("this round is not the one that is pending")


def _read_kept(kept: Drafts) -> tuple[tuple[int, ...], ...]:
    pairs = zip(kept.token_ids.tolist(), kept.extents.tolist(), strict=True)
    return tuple(tuple(ids[:extent]) for ids, extent in pairs)
