"""What is accepted, in numpy for CPU tensors: the bits of engine/ops/accept.py in few calls (contract 5)."""

import attrs
import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Bool, Int32
from torch import Tensor

from engine.ops.accept import Proposal, RejectedBy, RoundOutcome, RoundUniforms
from engine.ops.sample import WORD_BITS, TargetLaw
from engine.ops.sample_numpy import OK, first_above

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@attrs.frozen(eq=False)
class _Round:
    """One round as arrays; ids, probs and status are [batch, k + 1, ...], no law of a draft means one-hot."""

    ids: Ints
    probs: Floats
    status: Ints
    drafts: Ints
    extents: Ints
    candidate_ids: Ints | None
    draft_probs: Floats | None
    in_domain: Bools
    rows: Ints

    @classmethod
    def of(cls, law: TargetLaw, proposal: Proposal, vocab_size: int) -> "_Round":
        """View the tensors of a round as arrays."""
        batch, k = proposal.token_ids.shape
        assert law.probs.shape[0] == batch * (k + 1), "the law needs k + 1 columns per row"
        drafts, cap = proposal.token_ids.numpy(), law.probs.shape[1]
        candidate_ids, draft_probs = proposal.candidate_ids, proposal.draft_probs
        return cls(
            ids=law.token_ids.numpy().reshape(batch, k + 1, cap),
            probs=law.probs.numpy().reshape(batch, k + 1, cap),
            status=law.status.numpy().reshape(batch, k + 1),
            drafts=drafts,
            extents=proposal.extents.numpy(),
            candidate_ids=None if candidate_ids is None else candidate_ids.numpy(),
            draft_probs=None if draft_probs is None else draft_probs.numpy(),
            in_domain=(drafts >= 0) & (drafts < vocab_size),
            rows=np.arange(batch),
        )


def accept_round(
    law: TargetLaw,
    proposal: Proposal,
    uniforms: RoundUniforms,
    *,
    allowed_bitmask: Int32[Tensor, "columns words"] | None = None,
    constrained_mask: Bool[Tensor, " batch"] | None = None,
    vocab_size: int,
) -> RoundOutcome:
    """Judge the drafts of every row, bit for bit as `engine.ops.accept.accept_round` does."""
    one = _Round.of(law, proposal, vocab_size)
    k = one.drafts.shape[1]
    run = _accepted(one, uniforms.accept.numpy()) & (np.arange(k) < one.extents[:, None])
    run = np.logical_and.accumulate(run, axis=1)
    ends = run & proposal.ends_mask.numpy()
    has_ended = ends.any(axis=1)
    if has_ended.any():
        run &= ends.cumsum(axis=1) - ends == 0
    num_accepted = run.sum(axis=1)
    # A column without a law accepts nothing, so the only one that can be reached is where the run stopped.
    status = np.where(has_ended, OK, one.status[one.rows, num_accepted])
    is_ok = status == OK
    rejected = is_ok & ~has_ended & (num_accepted < one.extents)
    token = _final_token(one, uniforms, num_accepted, rejected)
    rejected_by = rejected * int(RejectedBy.TARGET)
    if allowed_bitmask is not None and k:
        by_grammar = rejected & _is_closed(one, allowed_bitmask.numpy(), num_accepted)
        if constrained_mask is not None:
            by_grammar &= constrained_mask.numpy()
        rejected_by[by_grammar] = int(RejectedBy.GRAMMAR)
    num_accepted *= is_ok
    num_emitted = (num_accepted + ~has_ended) * is_ok
    return RoundOutcome(
        token_ids=torch.from_numpy(_emitted(one, num_accepted, num_emitted, token)),
        num_emitted=torch.from_numpy(num_emitted),
        num_accepted=torch.from_numpy(num_accepted),
        status=torch.from_numpy(status),
        rejected_by=torch.from_numpy(rejected_by),
    )


def _accepted(one: _Round, coins: Floats) -> Bools:
    """Tell for every column whether its draft would be accepted: u * q(d) < p(d), strictly."""
    matches = one.ids[:, :-1] == one.drafts[:, :, None]
    target_prob = np.where(matches, one.probs[:, :-1], 0.0).sum(axis=2)
    target_prob *= one.in_domain & (one.status[:, :-1] == OK)
    if one.candidate_ids is None or one.draft_probs is None:
        return coins < target_prob
    q = draft_prob_at(one.candidate_ids, one.draft_probs, one.drafts[:, :, None])[:, :, 0]
    return coins * q < target_prob


def draft_prob_at(candidate_ids: Ints, draft_probs: Floats, token_ids: Ints) -> Floats:
    """Return q at the given ids [..., ids] from [..., cand]; sums run in candidate order."""
    matches = token_ids[..., None] == candidate_ids[..., None, :]
    return np.where(matches, draft_probs[..., None, :], 0.0).cumsum(axis=-1)[..., -1]


def _final_token(one: _Round, uniforms: RoundUniforms, column: Ints, rejected: Bools) -> Ints:
    """Draw the bonus from p, or after a rejection the correction from the residual."""
    ids, weights = one.ids[one.rows, column], one.probs[one.rows, column]
    goals = uniforms.bonus.numpy()
    if rejected.any():
        draft_column = np.minimum(column, one.drafts.shape[1] - 1)
        residual = _residual(one, ids, weights, draft_column)
        mass = residual.cumsum(axis=1)[:, -1]
        from_residual = rejected & (mass > 0)
        coins = uniforms.correction.numpy()[one.rows, draft_column]
        # Without mass an infinite goal is never passed: the last positive entry of p's support is taken.
        goals = np.where(rejected, np.where(from_residual, coins * mass, np.inf), goals)
        weights = np.where(from_residual[:, None], residual, weights)
    return ids[one.rows, first_above(weights, goals)]


def _residual(one: _Round, ids: Ints, probs: Floats, column: Ints) -> Floats:
    """Return max(p - q, 0) over p's candidates; for a one-hot q that is p without the draft."""
    if one.candidate_ids is None or one.draft_probs is None:
        return np.where(ids == one.drafts[one.rows, column, None], 0.0, probs)
    q = draft_prob_at(one.candidate_ids[one.rows, column], one.draft_probs[one.rows, column], ids)
    return np.maximum(probs - q, 0.0)


def _is_closed(one: _Round, bitmask: npt.NDArray[np.int32], column: Ints) -> Bools:
    """Tell whether the draft at `column` is closed by its mask or out of range."""
    k = one.drafts.shape[1]
    column = np.minimum(column, k - 1)
    in_domain = one.in_domain[one.rows, column]
    draft = one.drafts[one.rows, column] * in_domain
    words = bitmask[one.rows * (k + 1) + column, draft // WORD_BITS]
    return ~(in_domain & ((words >> (draft % WORD_BITS)) & 1).astype(bool))


def _emitted(one: _Round, num_accepted: Ints, num_emitted: Ints, token: Ints) -> Ints:
    """Lay the accepted drafts and the final token out."""
    batch, k = one.drafts.shape
    token_ids = np.empty((batch, k + 1), np.int64)
    token_ids[:, :k] = one.drafts
    token_ids[one.rows, num_accepted] = token
    token_ids *= np.arange(k + 1) < num_emitted[:, None]
    return token_ids
