"""The sampling law of contract 3, one token id at a time, and the exact break points of its draw.

Adjusted logits are float32, everything after them float64. A law is its candidates in drawing order with
their probabilities; the draw is the inverse CDF in that order. Exact sweeps use dyadic laws (`dyadic_law`):
with numerators over 2**12 each sum, product and comparison of contracts 3 and 5 is exact in float64, and a
break a/b has b <= 2**12, so it lies on the grid of 2**-24 or at least 2**-36 away from it: oracle and op
must then agree at every uniform that the generator can produce. For laws that come out of exp, a grid
point nearer than 1e-12 to a break says nothing and is left out (`probe_uniforms(..., exact=False)`).
"""

import itertools
import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

GRID = 2**24
DYADIC_BITS = 12
NEAR = 1e-12


@dataclass(frozen=True)
class Settings:
    """The numbers of one request's sampling law; temperature <= 0 is greedy."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0


@dataclass(frozen=True)
class Law:
    """Candidates in drawing order with their probabilities; `status` other than "ok" has neither."""

    order: tuple[int, ...] = ()
    probs: tuple[float, ...] = ()
    status: str = "ok"

    def prob(self, token_id: int) -> float:
        """The probability of one id; 0 for an id that is no candidate, out of range included."""
        return sum((p for i, p in zip(self.order, self.probs, strict=True) if i == token_id), 0.0)

    def as_dict(self) -> dict[int, float]:
        """The ids of positive probability."""
        return {i: p for i, p in zip(self.order, self.probs, strict=True) if p > 0}


def adjust(
    logits: Sequence[float],
    settings: Settings,
    counts: Sequence[int] | None = None,
    bias: Mapping[int, float] | None = None,
) -> np.ndarray:
    """logit + bias - presence * [count > 0] - frequency * count, each step in float32 (contract 3.2)."""
    adjusted = np.array(logits, dtype=np.float32)
    presence, frequency = np.float32(settings.presence_penalty), np.float32(settings.frequency_penalty)
    with np.errstate(over="ignore", invalid="ignore"):
        for i in range(len(adjusted)):
            count = int(counts[i]) if counts is not None and i < len(counts) else 0
            value = adjusted[i] + np.float32((bias or {}).get(i, 0.0))
            value = value - presence * np.float32(count > 0)
            adjusted[i] = value - frequency * np.float32(count)
    return adjusted


def candidates(
    logits: Sequence[float],
    *,
    vocab_size: int,
    settings: Settings = Settings(),
    candidate_cap: int | None = 20,
    legal: Container[int] | None = None,
    banned: Container[int] = (),
    counts: Sequence[int] | None = None,
    bias: Mapping[int, float] | None = None,
) -> tuple[list[int], list[float], str]:
    """The candidates of one row in drawing order, their adjusted logits, and a status (contract 3.1 to 3.4).

    `legal` None means that no constraint acts. Any status but "ok" comes with no candidate.
    """
    adjusted = adjust(logits, settings, counts, bias)
    allowed = [i for i in range(vocab_size) if legal is None or i in legal]
    ids = [i for i in allowed if i not in banned]
    if not ids:
        return [], [], "empty_by_bans" if allowed else "empty"
    if any(np.isnan(adjusted[i]) or adjusted[i] == np.inf for i in ids):
        return [], [], "non_finite"
    finite = sorted((i for i in ids if np.isfinite(adjusted[i])), key=lambda i: (-adjusted[i], i))
    limit = math.inf if candidate_cap is None else candidate_cap
    cap = settings.top_k if 1 <= settings.top_k < limit else candidate_cap
    chosen = finite[: 1 if settings.temperature <= 0 else cap]
    return chosen, [float(adjusted[i]) for i in chosen], "ok" if finite else "non_finite"


def law(logits: Sequence[float], *, settings: Settings = Settings(), **rest: Any) -> Law:
    """The law of one row (contract 3, steps 1 to 5); arguments as in `candidates`."""
    chosen, adjusted, status = candidates(logits, settings=settings, **rest)
    if status != "ok":
        return Law(status=status)
    if settings.temperature <= 0:
        return Law((chosen[0],), (1.0,))
    kept = _kept_weights(adjusted, settings)
    return Law(tuple(chosen[: len(kept)]), tuple(w / sum(kept) for w in kept))


def _kept_weights(values: list[float], settings: Settings) -> list[float]:
    """exp(x/T - max/T) for the candidates that min_p and top_p leave; at least one stays (contract 3.5)."""
    weights = softmax_weights(values, settings.temperature)
    total = sum(weights)
    kept: list[float] = []
    for weight in weights:
        if kept and weight < settings.min_p * weights[0]:
            break
        kept.append(weight)
        if sum(kept) >= settings.top_p * total:
            break
    return kept


def softmax_weights(values: Sequence[float], temperature: float) -> list[float]:
    """exp(x/T - max/T); where x/T is past float64 the limit holds: 1 for the largest, 0 for the rest."""
    top = max(values)
    exponents = [0.0 if x == top else x / temperature - top / temperature for x in values]
    return [0.0 if math.isnan(x) else math.exp(x) for x in exponents]


def draw(law: Law, u: float) -> int:
    """Inverse CDF in candidate order: the first with u < cumulative, else the last (contract 3.6)."""
    cumulative = 0.0
    for token_id, p in zip(law.order, law.probs, strict=True):
        cumulative += p
        if u < cumulative:
            return token_id
    return law.order[-1]


def breakpoints(law: Law) -> list[float]:
    """The uniforms in (0, 1) at which `draw` changes."""
    return cumulative_breaks(law.probs, 1.0)


def cumulative_breaks(weights: Sequence[float], mass: float) -> list[float]:
    """Running sums over `mass` strictly inside (0, 1), each once; 1 but for rounding is not inside."""
    running, breaks = 0.0, set()
    for weight in weights:
        running += weight
        breaks.add(running / mass)
    return sorted(b for b in breaks if 0 < b < 1 - NEAR)


def pieces(breaks: Sequence[float]) -> list[tuple[float, float]]:
    """The intervals [low, high) into which the breaks cut [0, 1)."""
    edges = [0.0, *sorted({b for b in breaks if 0 < b < 1}), 1.0]
    return list(itertools.pairwise(edges))


def probe_uniforms(breaks: Sequence[float], exact: bool = True) -> list[float]:
    """0, the middle of each piece, the grid's multiples on both sides of each break, and the largest uniform.

    With `exact` False the grid points within 1e-12 of a break, and pieces as short as that, are left out.
    """
    cells = {0, GRID - 1}
    for b in breaks:
        k = math.floor(b * GRID)
        cells |= {k, k + 1} | ({k - 1} if k == b * GRID else set())
    points = {k / GRID for k in cells if 0 <= k < GRID}
    middles = {(low + high) / 2 for low, high in pieces(breaks) if exact or high - low > NEAR}
    if not exact:
        points = {u for u in points if all(abs(u - b) > NEAR for b in breaks)}
    return sorted(points | middles)


def dyadic_law(weights: Mapping[int, float], bits: int = DYADIC_BITS) -> Law:
    """The law near `weights` whose probabilities are whole multiples of 2**-bits, in the mapping's order.

    Every positive weight keeps at least one unit; the largest takes the rounding. No weight: status "empty".
    """
    positive = {i: w for i, w in weights.items() if w > 0}
    if not positive:
        return Law(status="empty")
    total, units = sum(positive.values()), 2**bits
    shares = {i: max(1, math.floor(w / total * units)) for i, w in positive.items()}
    shares[max(shares, key=lambda i: shares[i])] += units - sum(shares.values())
    return Law(tuple(shares), tuple(share / units for share in shares.values()))
