"""What is sampled, in numpy for CPU tensors: the bits of engine/ops/sample.py in few calls (contract 3).

Instead of a key for every id, a bound is found that the row's best ids reach: the `cap`-th largest of the
maxima of groups of 16 ids, which the groups' own maxima reach at least `cap` times. Only what reaches it is
ranked. Exponentials are torch's: numpy's differ in the last bit.
"""

import attrs
import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Bool, Float, Float32, Float64, Int32, Int64
from torch import Tensor

from engine.ops import sample
from engine.ops.sample import (
    SPARSE_FRACTION,
    WORD_BITS,
    Candidates,
    RowStatus,
    SamplingBatch,
    TargetLaw,
    check_shapes,
)

Floats = npt.NDArray[np.float32]

OK = int(RowStatus.OK)  # numpy takes a plain number in a fifth of the time of an enum's member
CHUNK_WORDS = 1024  # as many words of 32 ids are searched at a time as stay in the CPU's cache
GROUP = 16
ZERO, MINUS_INFINITY = np.array(0.0, np.float32), np.array(-np.inf, np.float32)
LOWEST = np.finfo(np.float32).min
# Per byte of a mask the ceilings of its 8 ids: +inf where the bit is set, -inf where not.
_BITS_OF_BYTES = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
CEILINGS = np.where(_BITS_OF_BYTES, -MINUS_INFINITY, MINUS_INFINITY)


def select_candidates(
    logits: Float[Tensor, "rows width"],
    settings: SamplingBatch,
    *,
    vocab_size: int,
    candidate_cap: int | None,
    allowed_bitmask: Int32[Tensor, "rows words"] | None = None,
    constrained_mask: Bool[Tensor, " rows"] | None = None,
    banned_bitmask: Int32[Tensor, "rows words"] | None = None,
    counts: Int32[Tensor, "rows vocab"] | None = None,
    bias: Float32[Tensor, "rows vocab"] | None = None,
) -> Candidates:
    """Rank the legal ids of every row, bit for bit as `engine.ops.sample.select_candidates` does."""
    check_shapes(logits, vocab_size, candidate_cap)
    cap = vocab_size if candidate_cap is None else min(candidate_cap, vocab_size)
    num_rows, step = logits.shape[0], max(1, CHUNK_WORDS * WORD_BITS // vocab_size)
    legal, status = _legal_words(num_rows, vocab_size, allowed_bitmask, constrained_mask, banned_bitmask)
    if legal is not None and _is_wide_and_sparse(legal):
        return sample.select_candidates(
            logits,
            settings,
            vocab_size=vocab_size,
            candidate_cap=candidate_cap,
            allowed_bitmask=allowed_bitmask,
            constrained_mask=constrained_mask,
            banned_bitmask=banned_bitmask,
            counts=counts,
            bias=bias,
        )
    tables = _Tables.of(logits, settings, counts, bias, vocab_size)
    ranking = _Ranking.empty(num_rows, cap)
    for start in range(0, num_rows, step):  # one chunk, where rows are not wide
        rows = slice(start, start + step)
        values = _capped_values(tables, legal, rows)
        maxima = values.reshape(values.shape[0], GROUP, -1).max(axis=1)
        best = maxima.max(axis=1)
        is_finite = (best > -np.inf) & (best < np.inf)
        status[rows] += (~is_finite & (status[rows] == OK)) * int(RowStatus.NON_FINITE)
        ranking.fill(rows, values, _bound(maxima, cap))
    return _candidates(ranking, status, settings.top_k.numpy(), trim=candidate_cap is None)


def _is_wide_and_sparse(legal: npt.NDArray[np.int32]) -> bool:
    """Tell whether the reference, which compacts such rows, is the faster one."""
    return legal.shape[1] > CHUNK_WORDS and int(np.count_nonzero(legal)) * SPARSE_FRACTION <= legal.size


@attrs.frozen(eq=False)
class _Tables:
    """The arrays that shape the adjusted logits, all [rows, vocab]."""

    logits: Floats
    bias: Floats | None
    counts: npt.NDArray[np.int32] | None
    presence: Floats
    frequency: Floats

    @classmethod
    def of(
        cls,
        logits: Tensor,
        settings: SamplingBatch,
        counts: Tensor | None,
        bias: Tensor | None,
        vocab_size: int,
    ) -> "_Tables":
        """View the tensors as arrays; half precision is widened."""
        return cls(
            logits.detach().float().numpy()[:, :vocab_size],
            None if bias is None else bias.numpy()[:, :vocab_size],
            None if counts is None else counts.numpy()[:, :vocab_size],
            settings.presence_penalty.numpy()[:, None],
            settings.frequency_penalty.numpy()[:, None],
        )

    @np.errstate(over="ignore", invalid="ignore")
    def adjusted(self, rows: slice) -> Floats:
        """Return the adjusted float32 logits of some rows (contract 3, step 2, in its order)."""
        values = self.logits[rows]
        if self.bias is not None:
            values = values + self.bias[rows]
        if self.counts is not None:
            counts = self.counts[rows]
            values = values - self.presence[rows] * (counts > 0)
            values = values - self.frequency[rows] * counts.astype(np.float32)
        return values


def _legal_words(
    num_rows: int,
    vocab_size: int,
    allowed_bitmask: Tensor | None,
    constrained_mask: Tensor | None,
    banned_bitmask: Tensor | None,
) -> tuple[npt.NDArray[np.int32] | None, npt.NDArray[np.int64]]:
    """Return the packed legal sets, None where every id is legal, and what an empty one is to be called."""
    status = np.zeros(num_rows, np.int64)
    if allowed_bitmask is None and banned_bitmask is None:
        return None, status
    num_words = -(-vocab_size // WORD_BITS)
    allowed = np.full((num_rows, num_words), -1, np.int32)
    if allowed_bitmask is not None:
        where = True if constrained_mask is None else constrained_mask.numpy()[:, None]
        np.copyto(allowed, allowed_bitmask.numpy()[:, :num_words], where=where)
    if vocab_size % WORD_BITS:
        allowed[:, -1] &= (1 << vocab_size % WORD_BITS) - 1
    legal = allowed if banned_bitmask is None else allowed & ~banned_bitmask.numpy()[:, :num_words]
    is_empty = ~legal.any(axis=1)
    if is_empty.any():
        empty_kind = np.where(allowed.any(axis=1), int(RowStatus.EMPTY_BY_BANS), int(RowStatus.EMPTY))
        status[is_empty] = empty_kind[is_empty]
    return legal, status


def _capped_values(tables: _Tables, legal: npt.NDArray[np.int32] | None, rows: slice) -> Floats:
    """Return the adjusted logits of whole mask words, -inf where illegal; only legal NaNs remain NaN."""
    adjusted = tables.adjusted(rows)
    num_rows, vocab_size = adjusted.shape
    padding = -vocab_size % WORD_BITS
    if legal is None and not padding:
        return adjusted
    values = np.empty((num_rows, vocab_size + padding), np.float32)
    values[:, vocab_size:] = -np.inf
    if legal is None:
        values[:, :vocab_size] = adjusted
    else:
        ceilings = CEILINGS.take(legal[rows].view(np.uint8), axis=0).reshape(values.shape)
        np.fmin(adjusted, ceilings[:, :vocab_size], out=values[:, :vocab_size])
    return values


def _bound(maxima: Floats, cap: int) -> Floats:
    """Return per row a finite number that the `cap` best finite values of the row reach."""
    num_groups = maxima.shape[1]
    if cap >= num_groups:
        return np.full((maxima.shape[0], 1), LOWEST)
    place = num_groups - cap
    return np.maximum(np.partition(maxima, place, axis=1)[:, place, None], LOWEST)


@attrs.frozen(eq=False)
class _Ranking:
    """The best ids of every row in order, with their values; `found` tells how many reached the bound."""

    token_ids: npt.NDArray[np.int64]
    values: Floats
    found: npt.NDArray[np.int64]

    @classmethod
    def empty(cls, num_rows: int, cap: int) -> "_Ranking":
        """Room for some rows."""
        return cls(
            np.empty((num_rows, cap), np.int64),
            np.empty((num_rows, cap), np.float32),
            np.empty(num_rows, np.int64),
        )

    def fill(self, rows: slice, values: Floats, bound: Floats) -> None:
        """Rank the ids that reach the bound of their row by falling value, then by id.

        Ids are packed in rising order and negated values sorted stably, so equal values keep it. Values are
        taken from 0 on both ways: no -0 arises, and the filler comes back as -inf.
        """
        (num_rows, width), cap = values.shape, self.values.shape[1]
        entry = (values >= bound).ravel().nonzero()[0]
        owner = entry // width
        token_ids = entry - owner * width
        found = np.bincount(owner, minlength=num_rows)
        column = np.arange(entry.size) - (found.cumsum() - found)[owner]
        shape = (num_rows, max(cap, int(found.max(initial=0))))
        packed_values, packed_ids = np.full(shape, np.inf, np.float32), np.empty(shape, np.int64)
        packed_values[owner, column] = ZERO - values[owner, token_ids]
        packed_ids[owner, column] = token_ids
        order = packed_values.argsort(axis=1, kind="stable")[:, :cap]
        row = np.arange(num_rows)[:, None]
        self.token_ids[rows] = packed_ids[row, order]
        self.values[rows] = ZERO - packed_values[row, order]
        self.found[rows] = found


def _candidates(
    ranking: _Ranking, status: npt.NDArray[np.int64], top_k: npt.NDArray[np.int64], trim: bool
) -> Candidates:
    """Cut the ranking to the counts; `trim` cuts the width to the largest count as well."""
    cap = ranking.values.shape[1]
    row_cap = np.where((top_k >= 1) & (top_k < cap), top_k, cap)
    count = np.minimum(ranking.found, row_cap) * (status == OK)
    width = max(1, int(count.max(initial=0))) if trim else cap
    used = np.arange(width) < count[:, None]
    return Candidates(
        token_ids=torch.from_numpy(np.where(used, ranking.token_ids[:, :width], 0)),
        logits=torch.from_numpy(np.where(used, ranking.values[:, :width], MINUS_INFINITY)),
        count=torch.from_numpy(count),
        status=torch.from_numpy(status),
    )


@np.errstate(over="ignore", invalid="ignore")
def target_law(candidates: Candidates, settings: SamplingBatch) -> TargetLaw:
    """Turn ranked candidates into the target law, bit for bit as `engine.ops.sample.target_law` does."""
    temperature = settings.temperature.numpy()[:, None]
    values = candidates.logits.numpy().astype(np.float64)
    used = np.arange(values.shape[1]) < candidates.count.numpy()[:, None]
    is_greedy = temperature <= 0
    exponents = (values - values[:, :1]) / np.where(is_greedy, 1.0, temperature)
    weights = np.where(used, torch.from_numpy(exponents).exp_().numpy(), 0.0)
    weights *= _kept(weights, settings)
    mass = weights.cumsum(axis=1)[:, -1:]
    probs = np.where(used, weights / mass, 0.0)
    if is_greedy.any():
        one_hot = used & (np.arange(values.shape[1]) == 0)
        probs = np.where(is_greedy, one_hot, probs)
    return TargetLaw(candidates.token_ids, torch.from_numpy(probs), candidates.status)


def _kept(weights: npt.NDArray[np.float64], settings: SamplingBatch) -> npt.NDArray[np.bool_]:
    """Tell which candidates min_p and top_p leave; both cut a tail and neither cuts the first."""
    running = weights.cumsum(axis=1)
    goes_on = running < settings.top_p.numpy()[:, None] * running[:, -1:]
    kept = weights >= settings.min_p.numpy()[:, None] * weights[:, :1]
    kept[:, 1:] &= goes_on[:, :-1]
    kept[:, 0] = True
    return np.logical_and.accumulate(kept, axis=1)


def draw(law: TargetLaw, uniforms: Float64[Tensor, " rows"]) -> Int64[Tensor, " rows"]:
    """Draw one id per row, as `engine.ops.sample.draw` does."""
    index = first_above(law.probs.numpy(), uniforms.numpy())
    token_ids = law.token_ids.numpy()[np.arange(index.size), index]
    return torch.from_numpy(token_ids * (law.status.numpy() == OK))


def first_above(weights: npt.NDArray[np.float64], goals: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return the index that `engine.ops.sample.first_above` gives."""
    positive = weights > 0
    hit = positive & (goals[:, None] < weights.cumsum(axis=1))
    last_positive = weights.shape[1] - 1 - positive[:, ::-1].argmax(axis=1)
    last_positive *= positive.any(axis=1)
    return np.where(hit.any(axis=1), hit.argmax(axis=1), last_positive)
