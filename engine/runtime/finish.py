"""The numbers of a round's second phase: the target law of every column, the coins, and the judgement.

Everything here is device work on tensors: what the host knows (dead ends, bans, counts) arrives as tensors,
and an absent table means that no row of the batch needs it. Columns are row-major, `num_columns` a row.
"""

import attrs
import torch
from jaxtyping import Bool, Float32, Int32, Int64
from torch import Tensor

from engine.ops import OpSet
from engine.ops.accept import Proposal, RoundOutcome, RoundUniforms, round_uniforms
from engine.ops.rng import Purpose
from engine.ops.sample import RowStatus, TargetLaw
from engine.runtime.batch import Batch, Drafts


@attrs.frozen(eq=False)
class Consumers:
    """The tables that a batch's columns consume; which are there is one of finitely many routes.

    `dead_mask` marks columns whose legal set is empty: their bitmask row is a filler.
    """

    bitmask: Int32[Tensor, "rows words"] | None = None
    constrained_mask: Bool[Tensor, " batch"] | None = None
    dead_mask: Bool[Tensor, " rows"] | None = None
    banned: Int32[Tensor, "rows words"] | None = None
    counts: Int32[Tensor, "rows vocab"] | None = None
    bias: Float32[Tensor, "rows vocab"] | None = None

    @property
    def route(self) -> tuple[bool, ...]:
        """Which tables are there, in order."""
        return tuple(getattr(self, field.name) is not None for field in attrs.fields(Consumers))


@attrs.frozen(eq=False)
class Judge:
    """The law and the judgement of one program's rounds."""

    ops: OpSet
    vocab_size: int
    candidate_cap: int | None
    eos_ids: Int64[Tensor, " ends"]

    def law(self, batch: Batch, logits: Tensor, consumers: Consumers) -> TargetLaw:
        """Return the target law of every column under its own hypothetical prefix."""
        settings = batch.settings.expand(batch.num_columns)
        constrained_mask = consumers.constrained_mask
        if constrained_mask is not None:
            constrained_mask = constrained_mask.repeat_interleave(batch.num_columns)
        candidates = self.ops.select_candidates(
            logits,
            settings,
            vocab_size=self.vocab_size,
            candidate_cap=self.candidate_cap,
            allowed_bitmask=consumers.bitmask,
            constrained_mask=constrained_mask,
            banned_bitmask=consumers.banned,
            counts=consumers.counts,
            bias=consumers.bias,
        )
        law = self.ops.target_law(candidates, settings)
        if consumers.dead_mask is None:
            return law
        return attrs.evolve(law, status=torch.where(consumers.dead_mask, int(RowStatus.EMPTY), law.status))

    def judge(
        self, batch: Batch, drafts: Drafts, law: TargetLaw, consumers: Consumers, last: Purpose
    ) -> RoundOutcome:
        """Return what the round emits; `last` is the purpose of the draw after all drafts."""
        proposal = self._proposal(batch, drafts)
        return self.ops.accept_round(
            law,
            proposal,
            self._uniforms(batch, proposal, last),
            allowed_bitmask=consumers.bitmask,
            constrained_mask=consumers.constrained_mask,
            vocab_size=self.vocab_size,
        )

    def _proposal(self, batch: Batch, drafts: Drafts) -> Proposal:
        return Proposal(
            token_ids=drafts.token_ids,
            extents=torch.minimum(drafts.extents, batch.limits),
            candidate_ids=drafts.candidate_ids,
            draft_probs=drafts.draft_probs,
            ends_mask=(drafts.token_ids[:, :, None] == self.eos_ids).any(dim=-1),
        )

    def _uniforms(self, batch: Batch, proposal: Proposal, last: Purpose) -> RoundUniforms:
        """Coins keyed by seed, logical position and purpose; column i decides `first_positions + i`."""
        num_drafts = proposal.token_ids.shape[1]
        return round_uniforms(
            self.ops.uniforms, batch.seeds, batch.first_positions, proposal.extents, num_drafts, last
        )
