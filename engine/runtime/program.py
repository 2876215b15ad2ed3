"""One round for a batch of lanes in two phases, over any target model and drafter.

Forward: the drafts (from the lanes, the host, or the drafter's block) and the target's logits over the window
[anchor, d1..dk]. Then the borrowed mask provider writes the legal sets along each constrained row's drafts.
Finish: selection with penalties, bias and bans of each column's own hypothetical prefix, acceptance, and the
drafts kept for the next round. The result is a `PendingBatch`; lanes move in `commit` only. Drafts are never
masked, replaced or refilled; a window is only as long as the budget licenses. A batch of free rows asks no
provider, allocates no mask and runs no mask op.
"""

from collections.abc import Sequence

import attrs
import torch
from jaxtyping import Float32
from torch import Tensor

from engine.errors import CoreFault, IntegrityError
from engine.ops import OpSet
from engine.ops.accept import Proposal, RoundUniforms
from engine.ops.rng import Purpose
from engine.ops.sample import SamplingBatch, TargetLaw
from engine.request import SamplingSettings
from engine.runtime.contract import (
    Drafter,
    Drafts,
    Lane,
    MaskProvider,
    PendingBatch,
    RowInput,
    TargetModel,
)
from engine.runtime.lanes import Lanes, batch_bans, batch_bias, batch_counts
from engine.runtime.outcome import Window, read_results, with_dead_ends
from engine.text.masks import PositionState, words_for, write_filler


@attrs.frozen(eq=False)
class Forward:
    """The first phase's products, alive until Finish has read them; row-major, `stride` columns a row."""

    lanes: tuple[Lane, ...]
    drafts: Drafts
    logits: Float32[Tensor, "rows width"]
    stride: int
    last_purpose: Purpose


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
    ) -> None:
        if num_lanes < 1 or (candidate_cap is not None and candidate_cap < 1):
            raise ValueError(f"{num_lanes=} and {candidate_cap=} must be at least 1")
        self._target, self._drafter, self._ops = target, drafter, ops
        self._vocab_size, self._eos_ids, self._candidate_cap = vocab_size, eos_ids, candidate_cap
        self._lanes = Lanes(num_lanes, vocab_size)
        num_rows = num_lanes * (drafter.num_drafts + 1)
        self._bitmask = torch.zeros((num_rows, words_for(vocab_size)), dtype=torch.int32)
        self._bitmask_view = self._bitmask.numpy()  # the same memory: slicing it costs a tenth
        self._pending: PendingBatch | None = None

    # --- lanes ----------------------------------------------------------------------------------------

    @property
    def num_free_lanes(self) -> int:
        """Number of lanes without a request."""
        return self._lanes.num_free

    def admit(
        self, prompt_ids: Sequence[int], settings: SamplingSettings, generated: Sequence[int] = ()
    ) -> int:
        """Give a request a lane, built from its history alone; with `generated` this is a replay."""
        lane = self._lanes.build(prompt_ids, settings, generated)
        if generated:
            lane.drafts = self._drafter.follow(lane, ())
        return self._lanes.place(lane)

    def snapshot(self, lane: int) -> Lane:
        """Free a lane and return its state."""
        self._require_idle()
        return self._lanes.take(lane)

    def restore(self, state: Lane) -> int:
        """Give a snapshot a lane, not always the one it had."""
        return self._lanes.place(state)

    def release(self, lane: int) -> None:
        """Free a lane."""
        self._require_idle()
        self._lanes.take(lane)

    # --- one round ------------------------------------------------------------------------------------

    def prefill(self, rows: Sequence[RowInput], masks: MaskProvider | None) -> PendingBatch:
        """Sample every row's first token; the mask is that of the output's beginning."""
        return self._round(rows, masks, prefill=True)

    def decode(self, rows: Sequence[RowInput], masks: MaskProvider | None) -> PendingBatch:
        """Run one round; nothing of its result is real before `commit`."""
        return self._round(rows, masks, prefill=False)

    def commit(self, pending: PendingBatch, num_committed: Sequence[int]) -> None:
        """Append a prefix of every row's tokens to its lane; history, counts, kept drafts together."""
        self._require_pending(pending)
        for result, count in zip(pending.rows, num_committed, strict=True):
            if not 0 <= count <= len(result.tokens):
                raise IntegrityError(f"{count} of {len(result.tokens)} tokens cannot be committed")
        for i, count in enumerate(num_committed):
            if count:
                tokens = pending.rows[i].tokens
                whole = count == len(tokens)
                kept = pending.next_drafts[i] if whole else ()
                self._lanes.append(pending.inputs[i].lane, tokens[:count], kept)
        self._pending = None

    def abort(self, pending: PendingBatch) -> None:
        """Forget a round; lanes are as before it."""
        self._require_pending(pending)
        self._pending = None

    def _round(self, rows: Sequence[RowInput], masks: MaskProvider | None, *, prefill: bool) -> PendingBatch:
        self._require_idle()
        forward = self._forward(rows, prefill)
        window = self._fill(rows, forward, masks)
        self._pending = self._finish(rows, forward, window)
        return self._pending

    def _forward(self, rows: Sequence[RowInput], prefill: bool) -> Forward:
        lanes = tuple(self._lanes[row.lane] for row in rows)
        num_drafts = 0 if prefill else self._drafter.num_drafts
        proposed = self._drafter.propose(lanes, self._ops) if num_drafts else Drafts(((),) * len(rows))
        licensed = tuple(ids[: row.max_new - 1] for ids, row in zip(proposed.ids, rows, strict=True))
        safe = [[self._safe(token_id) for token_id in ids] for ids in licensed]
        logits = self._target.forward([lane.history for lane in lanes], safe, num_drafts + 1)
        drafts = attrs.evolve(proposed, ids=licensed)
        return Forward(lanes, drafts, logits, num_drafts + 1, self._last_purpose(prefill))

    def _last_purpose(self, prefill: bool) -> Purpose:
        """The purpose of the draw after all drafts: on the ordinary path it is the only draw."""
        if prefill:
            return Purpose.PREFILL
        return Purpose.BONUS if self._drafter.num_drafts else Purpose.DECODE

    def _safe(self, token_id: int) -> int:
        """The id a model may read in place of a draft that is out of range; its column is never reached."""
        return token_id if 0 <= token_id < self._vocab_size else 0

    def _fill(self, rows: Sequence[RowInput], forward: Forward, masks: MaskProvider | None) -> Window | None:
        constrained = [row.constrained for row in rows]
        if not any(constrained):
            return None
        if masks is None:
            raise IntegrityError("a constrained row came without a mask provider")
        bitmask = self._bitmask[: len(rows) * forward.stride]
        states, faults = [], set()
        for i, drafts in enumerate(forward.drafts.ids):
            out = self._bitmask_view[i * forward.stride : (i + 1) * forward.stride]
            try:
                states.append(
                    masks.fill(i, drafts, out)
                    if constrained[i]
                    else _all(forward, PositionState.UNCONSTRAINED)
                )
            except CoreFault:
                faults.add(i)
                write_filler(out)  # the row commits nothing
                states.append(_all(forward, PositionState.DEAD_END))
        return Window(bitmask, torch.tensor(constrained), tuple(states), frozenset(faults))

    def _finish(self, rows: Sequence[RowInput], forward: Forward, window: Window | None) -> PendingBatch:
        proposal = self._proposal(forward)
        bitmask = None if window is None else window.bitmask
        law = self._law(forward, window)
        outcome = self._ops.accept_round(
            law,
            proposal,
            self._uniforms(forward, proposal),
            allowed_bitmask=bitmask,
            constrained_mask=None if window is None else window.constrained_mask,
            vocab_size=self._vocab_size,
        )
        results = read_results(outcome, law, forward.drafts.ids, window, self._vocab_size)
        follow = self._drafter.follow
        kept = (
            follow(lane, r.tokens) if r.tokens else () for lane, r in zip(forward.lanes, results, strict=True)
        )
        return PendingBatch(tuple(rows), results, tuple(kept))

    def _law(self, forward: Forward, window: Window | None) -> TargetLaw:
        """The target law of every column under its own hypothetical prefix."""
        settings = SamplingBatch.from_settings([lane.settings for lane in forward.lanes]).expand(
            forward.stride
        )
        bitmask = constrained_mask = None
        if window is not None:
            bitmask = window.bitmask
            constrained_mask = window.constrained_mask.repeat_interleave(forward.stride)
        candidates = self._ops.select_candidates(
            forward.logits,
            settings,
            vocab_size=self._vocab_size,
            candidate_cap=self._candidate_cap,
            allowed_bitmask=bitmask,
            constrained_mask=constrained_mask,
            banned_bitmask=batch_bans(forward.lanes, forward.stride),
            counts=batch_counts(forward.lanes, forward.drafts.ids, forward.stride),
            bias=batch_bias(forward.lanes, forward.stride),
        )
        return with_dead_ends(self._ops.target_law(candidates, settings), window)

    def _proposal(self, forward: Forward) -> Proposal:
        num_drafts = forward.stride - 1
        ids = [[*row, *[0] * (num_drafts - len(row))] for row in forward.drafts.ids]
        ends = [[token_id in self._eos_ids for token_id in row] for row in ids]
        shape = (len(ids), num_drafts)
        return Proposal(
            token_ids=torch.tensor(ids, dtype=torch.int64).reshape(shape),
            extents=torch.tensor([len(row) for row in forward.drafts.ids]),
            candidate_ids=forward.drafts.candidate_ids,
            draft_probs=forward.drafts.draft_probs,
            ends_mask=torch.tensor(ends, dtype=torch.bool).reshape(shape),
        )

    def _uniforms(self, forward: Forward, proposal: Proposal) -> RoundUniforms:
        """Coins keyed by seed, logical position and purpose; column i decides `num_generated + i`."""
        seeds = torch.tensor([lane.seed_bits for lane in forward.lanes])
        first = torch.tensor([lane.num_generated for lane in forward.lanes])
        batch, num_drafts = proposal.token_ids.shape
        positions = (first[:, None] + torch.arange(num_drafts)).reshape(-1)
        by_column = seeds.repeat_interleave(num_drafts)
        draw = self._ops.uniforms
        return RoundUniforms(
            accept=draw(by_column, positions, Purpose.ACCEPT).reshape(batch, num_drafts),
            correction=draw(by_column, positions, Purpose.CORRECTION).reshape(batch, num_drafts),
            bonus=draw(seeds, first + proposal.extents, forward.last_purpose),
        )

    def _require_idle(self) -> None:
        if self._pending is not None:
            raise IntegrityError("a round is still uncommitted")

    def _require_pending(self, pending: PendingBatch) -> None:
        if pending is not self._pending:
            raise IntegrityError("this round is not the one that is pending")


def _all(forward: Forward, state: PositionState) -> tuple[PositionState, ...]:
    return (state,) * forward.stride
