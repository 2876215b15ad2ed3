"""Acceptance, residual and one whole round of contract 5, as plain loops over plain numbers.

`q` None is a one-hot proposal (all its mass on the draft); a dict is the sparse law the draft was drawn
from, kept as recorded, mass on illegal ids included. Nothing here masks, drops, replaces or renormalises a
draft or its q: an illegal or out-of-range draft has p = 0 and takes the normal rejection.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from oracles.sample import Law, cumulative_breaks, draw

SparseLaw = Mapping[int, float] | None


@dataclass(frozen=True)
class Round:
    """What one round emits; a reached column without a law leaves no tokens and tells its status."""

    tokens: tuple[int, ...] = ()
    num_accepted: int = 0
    status: str = "ok"
    rejected_by: str = "none"


def accept(law: Law, draft: int, q: SparseLaw, u: float) -> bool:
    """One-hot: u < p(draft). Sparse: u * q(draft) < p(draft). Strict, so u = 0 never accepts p = 0."""
    proposed = 1.0 if q is None else q.get(draft, 0.0)
    return u * proposed < law.prob(draft)


def accept_break(law: Law, draft: int, q: SparseLaw) -> float:
    """The uniform below which the draft is accepted: min(1, p/q), the acceptance probability."""
    proposed = 1.0 if q is None else q.get(draft, 0.0)
    target = law.prob(draft)
    return 1.0 if target >= proposed and target > 0 else target / proposed if proposed else 0.0


def residual_weights(law: Law, draft: int, q: SparseLaw) -> list[float]:
    """p without the draft (one-hot) or max(p - q, 0) (sparse), in the law's own order, not normalised."""
    if q is None:
        return [0.0 if i == draft else p for i, p in zip(law.order, law.probs, strict=True)]
    return [max(p - q.get(i, 0.0), 0.0) for i, p in zip(law.order, law.probs, strict=True)]


def residual(law: Law, draft: int, q: SparseLaw) -> Law:
    """The normalised law of the correction; without mass it is the last entry of p's support with p > 0."""
    weights = residual_weights(law, draft, q)
    mass = sum(weights)
    if mass <= 0:
        return Law((_last_positive(law),), (1.0,))
    return Law(law.order, tuple(w / mass for w in weights))


def correction_breaks(law: Law, draft: int, q: SparseLaw) -> list[float]:
    """The uniforms in (0, 1) at which the correction changes."""
    weights = residual_weights(law, draft, q)
    return cumulative_breaks(weights, sum(weights)) if sum(weights) > 0 else []


def draw_correction(law: Law, draft: int, q: SparseLaw, u: float) -> int:
    """The first entry with u * mass < cumulative; without mass the last entry of p's support with p > 0."""
    weights = residual_weights(law, draft, q)
    mass, cumulative, last = sum(weights), 0.0, _last_positive(law)
    if mass <= 0:
        return last
    for token_id, weight in zip(law.order, weights, strict=True):
        cumulative += weight
        if weight > 0:
            last = token_id
        if u * mass < cumulative:
            return token_id
    return last


def _last_positive(law: Law) -> int:
    return [i for i, p in zip(law.order, law.probs, strict=True) if p > 0][-1]


def play_round(
    laws: Sequence[Law],
    drafts: Sequence[int],
    qs: Sequence[SparseLaw],
    accept_uniforms: Sequence[float],
    correction_uniforms: Sequence[float],
    bonus_uniform: float,
    ends: Container[int] = (),
    legal: Sequence[Container[int] | None] | None = None,
) -> Round:
    """One round: `drafts` is the real extent, `laws` has one more column; an accepted id of `ends` ends it.

    `legal` holds each column's legal set, None where no constraint acts; it only names who refused.
    """
    for i, draft in enumerate(drafts):
        if laws[i].status != "ok":
            return Round(status=laws[i].status)
        if not accept(laws[i], draft, qs[i], accept_uniforms[i]):
            token = draw_correction(laws[i], draft, qs[i], correction_uniforms[i])
            mask = legal[i] if legal is not None else None
            by = "grammar" if mask is not None and draft not in mask else "target"
            return Round((*drafts[:i], token), i, rejected_by=by)
        if draft in ends:
            return Round(tuple(drafts[: i + 1]), i + 1)
    last = laws[len(drafts)]
    if last.status != "ok":
        return Round(status=last.status)
    return Round((*drafts, draw(last, bonus_uniform)), len(drafts))
