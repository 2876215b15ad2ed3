"""What is sampled: legal candidates, the target law over them, and the draw (contract 3).

Illegal, banned and padding ids leave before anything else; float32 adjustment and ranking follow; from the
candidates on everything is float64. One 64-bit key orders candidates: the adjusted logit, then the smaller
id, so no two keys are equal and every selection is exact. Rows with little legal are compacted to their
non-zero mask words first, the others are searched word by word; both rank the same keys. Rows without a
usable candidate are told by a status, never by a token. No input is modified, no randomness lives here.
"""

import enum
from collections.abc import Sequence
from typing import Any

import attrs
import torch
from jaxtyping import Bool, Float, Float32, Float64, Int32, Int64
from torch import Tensor

from engine.request import SamplingSettings

WORD_BITS = 32
NO_KEY = -(2**63)
ORDERED_INFINITY = 0x7F800000  # where +inf stands among the ordered integers; -inf is its complement
NEGATIVE_INFINITY_BITS = ORDERED_INFINITY - 2**31
ID_MASK = 0xFFFFFFFF
CHUNK_WORDS = 8192  # how many words of 32 ids are searched at a time
SPARSE_FRACTION = 16  # a row is compacted when at most one mask word in 16 has a bit


class RowStatus(enum.IntEnum):
    """Whether a row has a law, and if not, why (contract 3 and 9)."""

    OK = 0
    EMPTY = 1
    NON_FINITE = 2
    EMPTY_BY_BANS = 3


@attrs.frozen(eq=False)
class SamplingBatch:
    """The numbers of the sampling law, one entry per row of logits."""

    temperature: Float64[Tensor, " rows"]
    top_k: Int64[Tensor, " rows"]
    top_p: Float64[Tensor, " rows"]
    min_p: Float64[Tensor, " rows"]
    presence_penalty: Float32[Tensor, " rows"]
    frequency_penalty: Float32[Tensor, " rows"]

    @classmethod
    def from_settings(
        cls, settings: Sequence[SamplingSettings], device: torch.device | str = "cpu"
    ) -> "SamplingBatch":
        """Stack the settings of several requests, one row each."""
        dtypes = {
            "temperature": torch.float64,
            "top_k": torch.int64,
            "top_p": torch.float64,
            "min_p": torch.float64,
            "presence_penalty": torch.float32,
            "frequency_penalty": torch.float32,
        }
        columns = {
            name: torch.tensor([getattr(s, name) for s in settings], dtype=dtype, device=device)
            for name, dtype in dtypes.items()
        }
        return cls(**columns)

    def expand(self, times: int) -> "SamplingBatch":
        """Repeat every row `times` times in place: row r becomes rows r*times .. r*times+times-1."""
        fields = (field.name for field in attrs.fields(SamplingBatch))
        return SamplingBatch(
            **{name: getattr(self, name)[:, None].expand(-1, times).reshape(-1) for name in fields}
        )


@attrs.frozen(eq=False)
class Candidates:
    """The ranked legal candidates of every row; past `count` ids are 0 and logits are -inf."""

    token_ids: Int64[Tensor, "rows cap"]
    logits: Float32[Tensor, "rows cap"]
    count: Int64[Tensor, " rows"]
    status: Int64[Tensor, " rows"]


@attrs.frozen(eq=False)
class TargetLaw:
    """The target law of every row in candidate order; probs are 0 past the support and in rows not OK."""

    token_ids: Int64[Tensor, "rows cap"]
    probs: Float64[Tensor, "rows cap"]
    status: Int64[Tensor, " rows"]


@attrs.frozen(eq=False)
class _Inputs:
    """The tensors that shape the adjusted logits, all [rows, vocab]."""

    logits: Tensor
    bias: Tensor | None
    counts: Tensor | None
    presence: Tensor
    frequency: Tensor


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
    """Rank the legal ids of every row and keep at most the row's cap (contract 3, steps 1, 2 and 4).

    `candidate_cap` None means the whole legal set; then the result is as wide as the largest count.
    `constrained_mask` False rows ignore their bitmask row; None means all rows are constrained.
    A row that is not OK has count 0.
    """
    check_shapes(logits, vocab_size, candidate_cap)
    legal, empty_kind = legal_words(logits, vocab_size, allowed_bitmask, constrained_mask, banned_bitmask)
    inputs = _Inputs(
        logits[:, :vocab_size],
        None if bias is None else bias[:, :vocab_size],
        None if counts is None else counts[:, :vocab_size],
        settings.presence_penalty[:, None].expand(-1, vocab_size),
        settings.frequency_penalty[:, None].expand(-1, vocab_size),
    )
    cap = vocab_size if candidate_cap is None else min(candidate_cap, vocab_size)
    candidates = _candidates(_top_keys(inputs, legal, cap), empty_kind, settings.top_k)
    if candidate_cap is not None:
        return candidates
    width = max([1, *candidates.count.tolist()])
    return attrs.evolve(
        candidates, token_ids=candidates.token_ids[:, :width], logits=candidates.logits[:, :width]
    )


def check_shapes(logits: Tensor, vocab_size: int, candidate_cap: int | None) -> None:
    """Assert the invariants that shape words cannot state."""
    assert 1 <= vocab_size <= logits.shape[1], "the logits are narrower than the token domain"
    assert candidate_cap is None or candidate_cap >= 1, "a candidate cap below 1 leaves no candidate"
    assert logits.dtype in (torch.float32, torch.bfloat16, torch.float16), "logits widen to float32 exactly"


def legal_words(
    logits: Tensor,
    vocab_size: int,
    allowed_bitmask: Tensor | None,
    constrained_mask: Tensor | None,
    banned_bitmask: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Return the packed legal set of every row and, per row, OK or the way in which the set is empty."""
    num_words = -(-vocab_size // WORD_BITS)
    domain = torch.full((num_words,), -1, dtype=torch.int32, device=logits.device)
    if vocab_size % WORD_BITS:
        domain[-1] = (1 << vocab_size % WORD_BITS) - 1
    allowed = domain.expand(logits.shape[0], num_words)
    if allowed_bitmask is not None:
        inside = allowed_bitmask[:, :num_words] & domain
        allowed = (
            inside if constrained_mask is None else torch.where(constrained_mask[:, None], inside, allowed)
        )
    legal = allowed if banned_bitmask is None else allowed & ~banned_bitmask[:, :num_words]
    empty_kind = torch.where((allowed != 0).any(dim=1), int(RowStatus.EMPTY_BY_BANS), int(RowStatus.EMPTY))
    return legal, torch.where((legal != 0).any(dim=1), int(RowStatus.OK), empty_kind)


def _top_keys(inputs: _Inputs, legal: Tensor, cap: int) -> Tensor:
    """Return the `cap` largest keys of every row in descending order, NO_KEY where there are fewer."""
    top = torch.full((legal.shape[0], cap), NO_KEY, dtype=torch.int64, device=legal.device)
    is_sparse = (legal != 0).sum(dim=1) * SPARSE_FRACTION <= legal.shape[1]
    sparse_rows = is_sparse.nonzero()[:, 0]
    if sparse_rows.numel():
        keys = _compacted_keys(inputs, legal, sparse_rows)
        num_kept = min(cap, keys.shape[1])
        top[sparse_rows, :num_kept] = keys.topk(num_kept, dim=1).values
    whole_rows = (~is_sparse).nonzero()[:, 0].tolist()
    num_words = legal.shape[1]
    step = max(1, CHUNK_WORDS // num_words)
    buffer = legal.new_empty((step, num_words, WORD_BITS), dtype=torch.float32)
    for start in range(0, len(whole_rows), step):  # one small buffer, so that it stays in the CPU's cache
        chunk = whole_rows[start : start + step]
        values = buffer[: len(chunk)]
        _fill_whole_rows(inputs, legal, chunk, values)
        keys = _keys_of_best_words(values, cap)
        num_kept = min(cap, keys.shape[1])
        top[chunk, :num_kept] = keys.topk(num_kept, dim=1).values
    return top


def _compacted_keys(inputs: _Inputs, legal: Tensor, rows: Tensor) -> Tensor:
    """Return the keys of the legal ids of `rows` alone, packed to the left, NO_KEY behind them."""
    owner, word_index = legal[rows].nonzero(as_tuple=True)
    word_bits = torch.arange(WORD_BITS, dtype=torch.int32, device=legal.device)
    bits = (legal[rows[owner], word_index][:, None] >> word_bits) & 1
    entry, bit_index = bits.nonzero(as_tuple=True)
    owner, token_ids = owner[entry], word_index[entry] * WORD_BITS + bit_index
    sizes = torch.bincount(owner, minlength=rows.numel())
    column = torch.arange(owner.numel(), device=owner.device) - (sizes.cumsum(0) - sizes)[owner]
    width = max(1, int(sizes.max()))
    packed = torch.full((rows.numel(), width), NO_KEY, dtype=torch.int64, device=legal.device)
    packed[owner, column] = _keys(_ordered(_adjusted(inputs, (rows[owner], token_ids))), token_ids)
    return packed


def _fill_whole_rows(inputs: _Inputs, legal: Tensor, rows: list[int], values: Tensor) -> None:
    """Write adjusted logits into `values` [rows, words, 32]: -inf where illegal, NaN as +inf."""
    index = slice(rows[0], rows[0] + 1) if len(rows) == 1 else rows  # one row is read where it lies
    flat, vocab_size = values.flatten(1), inputs.logits.shape[1]
    flat[:, vocab_size:] = -torch.inf
    flat[:, :vocab_size] = _adjusted(inputs, (index,))
    flat.nan_to_num_(nan=torch.inf, posinf=torch.inf, neginf=-torch.inf)
    shifts = torch.arange(WORD_BITS - 1, -1, -1, dtype=torch.int32, device=legal.device)
    signs = (legal[index][:, :, None] << shifts).bitwise_and_(-(2**31))
    ceiling = signs.bitwise_xor_(NEGATIVE_INFINITY_BITS).view(torch.float32)  # +inf legal, -inf illegal
    torch.minimum(values, ceiling, out=values)


def _keys_of_best_words(values: Tensor, cap: int) -> Tensor:
    """Return per row the keys of all ids in the `cap` words of 32 ids whose best key is largest.

    Every one of the `cap` best ids lies in such a word: a word outside has `cap` better ids before it.
    """
    num_rows, num_words, _ = values.shape
    device = values.device
    word_keys = _keys(_ordered(values.amax(dim=2)), torch.arange(num_words, device=device))
    words = ID_MASK - (word_keys.topk(min(cap, num_words), dim=1).values & ID_MASK)
    token_ids = words[:, :, None] * WORD_BITS + torch.arange(WORD_BITS, device=device)
    best = values[torch.arange(num_rows, device=device)[:, None], words]
    return _keys(_ordered(best), token_ids).flatten(1)


def _adjusted(inputs: _Inputs, source: tuple[Any, ...]) -> Tensor:
    """Return the adjusted float32 logits at an index of the tables (contract 3, step 2, in its order)."""
    values = inputs.logits[source].float()
    if inputs.bias is not None:
        values = values + inputs.bias[source]
    if inputs.counts is not None:
        counts = inputs.counts[source]
        values = values - inputs.presence[source] * (counts > 0).float()
        values = values - inputs.frequency[source] * counts.float()
    return values


def _ordered(values: Tensor) -> Tensor:
    """Map float32 to int32 so that integers compare as the floats do; +0 and -0 tie, NaN counts as +inf."""
    bits = (values.nan_to_num(nan=torch.inf, posinf=torch.inf, neginf=-torch.inf) + 0.0).view(torch.int32)
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


def _keys(ordered: Tensor, token_ids: Tensor) -> Tensor:
    """Join value and id into one key: a larger value first, at equal values the smaller id."""
    return (ordered.long() << 32) | (ID_MASK - token_ids)


def _candidates(keys: Tensor, empty_kind: Tensor, top_k: Tensor) -> Candidates:
    """Read candidates, counts and statuses back from the ranked keys."""
    cap = keys.shape[1]
    ordered = keys >> 32
    num_usable = (ordered > ~ORDERED_INFINITY).sum(dim=1)
    non_finite = (ordered[:, 0] >= ORDERED_INFINITY) | (num_usable == 0)
    status = torch.where((empty_kind == RowStatus.OK) & non_finite, int(RowStatus.NON_FINITE), empty_kind)
    row_cap = torch.where((top_k >= 1) & (top_k < cap), top_k, cap)
    count = torch.where(status == RowStatus.OK, torch.minimum(num_usable, row_cap), 0)
    used = torch.arange(cap, device=keys.device) < count[:, None]
    bits = (ordered ^ ((ordered >> 63) & 0x7FFFFFFF)).int()
    token_ids = torch.where(used, ID_MASK - (keys & ID_MASK), 0)
    return Candidates(token_ids, torch.where(used, bits.view(torch.float32), -torch.inf), count, status)


def target_law(candidates: Candidates, settings: SamplingBatch) -> TargetLaw:
    """Turn ranked candidates into the target law, in float64 (contract 3, steps 3 and 5).

    Greedy rows are one-hot on their first candidate. The weight exp(x/T - max/T) is taken as
    exp((x - max)/T): the same number, and finite at every positive temperature.
    """
    cap = candidates.token_ids.shape[1]
    index = torch.arange(cap, device=candidates.count.device)
    used = index < candidates.count[:, None]
    is_greedy = settings.temperature <= 0
    scale = torch.where(is_greedy, 1.0, settings.temperature)[:, None]
    values = candidates.logits.double()
    weights = torch.where(used, torch.exp((values - values[:, :1]) / scale), 0.0)
    weights = torch.where(_kept(weights, settings), weights, 0.0)
    mass = weights.cumsum(dim=1)[:, -1:]
    probs = torch.where(used, weights / mass, 0.0)
    one_hot = (used & (index == 0)).double()
    probs = torch.where(is_greedy[:, None], one_hot, probs)
    return TargetLaw(candidates.token_ids, probs, candidates.status)


def _kept(weights: Tensor, settings: SamplingBatch) -> Tensor:
    """Tell which candidates min_p and top_p leave; both cut a tail and neither cuts the first.

    Sums run in candidate order, so that top_p = 1 compares a running sum with itself.
    """
    below_min_p = weights < settings.min_p[:, None] * weights[:, :1]
    running = weights.cumsum(dim=1)
    reached_before = (running >= settings.top_p[:, None] * running[:, -1:]).roll(1, dims=1)
    stopped = below_min_p | reached_before
    stopped[:, 0] = False
    return stopped.cumsum(dim=1) == 0


def draw(law: TargetLaw, uniforms: Float64[Tensor, " rows"]) -> Int64[Tensor, " rows"]:
    """Draw one id per row by the inverse CDF in candidate order (contract 3, step 6).

    A row whose status is not OK gets 0, an in-range placeholder that its status forbids to commit.
    """
    index = first_above(law.probs, uniforms)
    token_ids = law.token_ids.gather(1, index[:, None])[:, 0]
    return torch.where(law.status == RowStatus.OK, token_ids, 0)


def first_above(
    weights: Float64[Tensor, "rows cap"], goals: Float64[Tensor, " rows"]
) -> Int64[Tensor, " rows"]:
    """Return the first index of positive weight whose running sum exceeds the goal, else the last such one.

    A row without positive weight gives 0.
    """
    positive = weights > 0
    hit = positive & (goals[:, None] < weights.cumsum(dim=1))
    index = torch.arange(weights.shape[1], device=weights.device)
    last_positive = torch.where(positive, index, 0).amax(dim=1)
    return torch.where(hit.any(dim=1), hit.int().argmax(dim=1), last_positive)


def sample(
    logits: Float[Tensor, "rows width"],
    settings: SamplingBatch,
    uniforms: Float64[Tensor, " rows"],
    *,
    vocab_size: int,
    candidate_cap: int | None,
    allowed_bitmask: Int32[Tensor, "rows words"] | None = None,
    constrained_mask: Bool[Tensor, " rows"] | None = None,
    banned_bitmask: Int32[Tensor, "rows words"] | None = None,
    counts: Int32[Tensor, "rows vocab"] | None = None,
    bias: Float32[Tensor, "rows vocab"] | None = None,
) -> tuple[Int64[Tensor, " rows"], Int64[Tensor, " rows"]]:
    """Select, shape and draw in one call; return the ids and the statuses (contract 3)."""
    candidates = select_candidates(
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
    law = target_law(candidates, settings)
    return draw(law, uniforms), law.status
