"""Candidate selection as two Triton kernels, the mask read inside (contract 3 steps 1, 2 and 4; contract 6).

Stage 1 ranks one block of the vocabulary and keeps its best `cap` keys; stage 2 merges the blocks of a row,
counts and sets the status. Keys are those of engine/ops/sample.py, so both give the same candidates, bit for
bit. The kernels serve caps up to MAX_CAP; a larger cap, or None, is ranked by the torch reference. The
target law over the candidates is shared code.
"""

# Kernel arguments have their types from the launch.
# mypy: disable-error-code="no-untyped-def"

import torch
import triton
import triton.language as tl
from jaxtyping import Bool, Float, Float32, Int32
from torch import Tensor

from engine.ops import sample
from engine.ops.sample import Candidates, RowStatus, SamplingBatch

MAX_CAP = 64
OPTIONS = {"num_warps": 8, "enable_fp_fusion": False}  # a product and its sum are rounded apart, as in torch
# Interpreted, every operation on a block costs Python time, so blocks are wide there.
BLOCK = 32768 if triton.knobs.runtime.interpret else 4096
_NO_KEY: tl.constexpr = tl.constexpr(sample.NO_KEY)
_INFINITY: tl.constexpr = tl.constexpr(sample.ORDERED_INFINITY)
_MINUS_INFINITY: tl.constexpr = tl.constexpr(~sample.ORDERED_INFINITY)
_ID_MASK: tl.constexpr = tl.constexpr(sample.ID_MASK)
_OK: tl.constexpr = tl.constexpr(int(RowStatus.OK))
_EMPTY: tl.constexpr = tl.constexpr(int(RowStatus.EMPTY))
_NON_FINITE: tl.constexpr = tl.constexpr(int(RowStatus.NON_FINITE))
_EMPTY_BY_BANS: tl.constexpr = tl.constexpr(int(RowStatus.EMPTY_BY_BANS))


@triton.jit
def _bits_at(bitmask_ptr, token_ids, inside):
    words = tl.load(bitmask_ptr + token_ids // 32, mask=inside, other=0)
    return (words >> (token_ids % 32)) & 1


@triton.jit
def _keys(values, token_ids, legal):
    values = tl.where(values == 0.0, 0.0, values)  # +0 and -0 tie
    bits = values.to(tl.int32, bitcast=True)
    ordered = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    ordered = tl.where(values != values, _INFINITY, ordered)
    keys = (ordered.to(tl.int64) << 32) | (token_ids.to(tl.int64) ^ _ID_MASK)
    return tl.where(legal & (ordered > _MINUS_INFINITY), keys, _NO_KEY)


@triton.jit
def _store_best(keys, output_ptr, CAP: tl.constexpr):
    best = tl.max(keys, 0)
    rank = 0
    while (best != _NO_KEY) & (rank < CAP):
        tl.store(output_ptr + rank, best)
        keys = tl.where(keys == best, _NO_KEY, keys)
        best = tl.max(keys, 0)
        rank += 1


@triton.jit
def rank_block_kernel(
    logits_ptr,
    logits_row_stride,
    logits_column_stride,
    allowed_ptr,
    allowed_stride,
    constrained_ptr,
    banned_ptr,
    banned_stride,
    counts_ptr,
    counts_stride,
    bias_ptr,
    bias_stride,
    presence_ptr,
    frequency_ptr,
    keys_ptr,
    found_ptr,
    vocab_size,
    num_blocks,
    CAP: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write the best CAP keys of one block of one row, and if it holds an allowed (1) and a legal (2) id.

    `keys_ptr` is [rows, blocks, CAP], filled with NO_KEY before; `found_ptr` is [rows, blocks].
    """
    row = tl.program_id(0).to(tl.int64)
    block = tl.program_id(1)
    token_ids = block * BLOCK + tl.arange(0, BLOCK)
    allowed = token_ids < vocab_size
    if allowed_ptr is not None:
        opened = _bits_at(allowed_ptr + row * allowed_stride, token_ids, allowed)
        if constrained_ptr is not None:
            opened = opened | (tl.load(constrained_ptr + row).to(tl.int32) ^ 1)
        allowed = allowed & (opened != 0)
    legal = allowed
    if banned_ptr is not None:
        legal = allowed & (_bits_at(banned_ptr + row * banned_stride, token_ids, allowed) == 0)
    cell = row * num_blocks + block
    tl.store(found_ptr + cell, tl.max(allowed.to(tl.int32), 0) + 2 * tl.max(legal.to(tl.int32), 0))
    offsets = row * logits_row_stride + token_ids.to(tl.int64) * logits_column_stride
    values = tl.load(logits_ptr + offsets, mask=legal, other=0.0).to(tl.float32)
    if bias_ptr is not None:
        values = values + tl.load(bias_ptr + row * bias_stride + token_ids, mask=legal, other=0.0)
    if counts_ptr is not None:
        counts = tl.load(counts_ptr + row * counts_stride + token_ids, mask=legal, other=0)
        values = values - tl.load(presence_ptr + row) * (counts > 0).to(tl.float32)
        values = values - tl.load(frequency_ptr + row) * counts.to(tl.float32)
    _store_best(_keys(values, token_ids, legal), keys_ptr + cell * CAP, CAP)


@triton.jit
def merge_blocks_kernel(
    keys_ptr,
    found_ptr,
    top_k_ptr,
    token_ids_ptr,
    logits_ptr,
    count_ptr,
    status_ptr,
    num_blocks,
    CAP: tl.constexpr,
    MERGE: tl.constexpr,
    BLOCKS: tl.constexpr,
):
    """Merge the blocks of one row into its ranked candidates, their number and the row's status.

    MERGE and BLOCKS are powers of two that hold num_blocks * CAP keys and num_blocks flags. Outputs are
    [rows, CAP] and [rows]; ids and logits come prefilled with 0 and -inf.
    """
    row = tl.program_id(0).to(tl.int64)
    block = tl.arange(0, BLOCKS)
    found = tl.max(tl.load(found_ptr + row * num_blocks + block, mask=block < num_blocks, other=0), 0)
    slot = tl.arange(0, MERGE)
    num_keys = num_blocks * CAP
    keys = tl.load(keys_ptr + row * num_keys + slot, mask=slot < num_keys, other=_NO_KEY)
    best = tl.max(keys, 0)
    is_finite = (best != _NO_KEY) & ((best >> 32) < _INFINITY)
    status = tl.where(is_finite, _OK, _NON_FINITE)
    status = tl.where(found == 0, _EMPTY, tl.where(found == 1, _EMPTY_BY_BANS, status))
    tl.store(status_ptr + row, status.to(tl.int64))
    top_k = tl.load(top_k_ptr + row)
    row_cap = tl.where((top_k >= 1) & (top_k < CAP), top_k, CAP)
    row_cap = tl.where(status == _OK, row_cap, 0)
    rank = 0
    while (best != _NO_KEY) & (rank < row_cap):
        ordered = best >> 32
        bits = (ordered ^ ((ordered >> 63) & 0x7FFFFFFF)).to(tl.int32)
        tl.store(token_ids_ptr + row * CAP + rank, (best & _ID_MASK) ^ _ID_MASK)
        tl.store(logits_ptr + row * CAP + rank, bits.to(tl.float32, bitcast=True))
        keys = tl.where(keys == best, _NO_KEY, keys)
        best = tl.max(keys, 0)
        rank += 1
    tl.store(count_ptr + row, rank)


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
    """Rank the legal ids of every row, as `engine.ops.sample.select_candidates` does and bit for bit alike.

    A cap above MAX_CAP and None are served by that reference itself.
    """
    if candidate_cap is None or min(candidate_cap, vocab_size) > MAX_CAP:
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
    sample.check_shapes(logits, vocab_size, candidate_cap)
    cap = min(candidate_cap, vocab_size)
    keys, found = _rank_blocks(
        logits, settings, vocab_size, cap, allowed_bitmask, constrained_mask, banned_bitmask, counts, bias
    )
    return _merge_blocks(keys, found, settings)


def _rank_blocks(
    logits: Tensor,
    settings: SamplingBatch,
    vocab_size: int,
    cap: int,
    allowed_bitmask: Tensor | None,
    constrained_mask: Tensor | None,
    banned_bitmask: Tensor | None,
    counts: Tensor | None,
    bias: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Launch stage 1 over every block of every row; return its keys and its found flags."""
    rows = logits.shape[0]
    block = min(BLOCK, triton.next_power_of_2(vocab_size))
    num_blocks = triton.cdiv(vocab_size, block)
    keys = torch.full((rows, num_blocks, cap), sample.NO_KEY, dtype=torch.int64, device=logits.device)
    found = torch.empty((rows, num_blocks), dtype=torch.int32, device=logits.device)
    if rows == 0:
        return keys, found
    rank_block_kernel[(rows, num_blocks)](
        logits,
        *logits.stride(),
        *_rows_of(allowed_bitmask),
        None if constrained_mask is None else constrained_mask.contiguous().view(torch.uint8),
        *_rows_of(banned_bitmask),
        *_rows_of(counts),
        *_rows_of(bias),
        settings.presence_penalty,
        settings.frequency_penalty,
        keys,
        found,
        vocab_size,
        num_blocks,
        CAP=cap,
        BLOCK=block,
        **OPTIONS,
    )
    return keys, found


def _rows_of(table: Tensor | None) -> tuple[Tensor | None, int]:
    """Return a table whose columns are adjacent, with its row stride."""
    if table is None:
        return None, 0
    table = table if table.stride(1) == 1 else table.contiguous()
    return table, table.stride(0)


def _merge_blocks(keys: Tensor, found: Tensor, settings: SamplingBatch) -> Candidates:
    """Launch stage 2 over every row."""
    rows, num_blocks, cap = keys.shape
    device = keys.device
    candidates = Candidates(
        torch.zeros((rows, cap), dtype=torch.int64, device=device),
        torch.full((rows, cap), -torch.inf, dtype=torch.float32, device=device),
        torch.empty(rows, dtype=torch.int64, device=device),
        torch.empty(rows, dtype=torch.int64, device=device),
    )
    if rows == 0:
        return candidates
    merge_blocks_kernel[(rows,)](
        keys,
        found,
        settings.top_k,
        candidates.token_ids,
        candidates.logits,
        candidates.count,
        candidates.status,
        num_blocks,
        CAP=cap,
        MERGE=triton.next_power_of_2(num_blocks * cap),
        BLOCKS=triton.next_power_of_2(num_blocks),
        **OPTIONS,
    )
    return candidates
