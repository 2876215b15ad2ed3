"""Philox4x32-10 as a Triton kernel: the same bits as engine/ops/rng.py (contract 4).

Words are 32-bit values in int64 and products are taken on 16-bit halves, exactly as in the reference.
"""

# Kernel arguments have their types from the launch.
# mypy: disable-error-code="no-untyped-def"

import torch
import triton
import triton.language as tl
from jaxtyping import Float64, Int64
from torch import Tensor

from engine.ops.rng import KEY_STEPS, MULTIPLIERS, NUM_ROUNDS, UNIFORM_BITS, Purpose, counters_and_keys

BLOCK = 128
_ROUNDS: tl.constexpr = tl.constexpr(NUM_ROUNDS)
_MULTIPLIER_0: tl.constexpr = tl.constexpr(MULTIPLIERS[0])
_MULTIPLIER_1: tl.constexpr = tl.constexpr(MULTIPLIERS[1])
_STEP_0: tl.constexpr = tl.constexpr(KEY_STEPS[0])
_STEP_1: tl.constexpr = tl.constexpr(KEY_STEPS[1])
_WORD_MASK: tl.constexpr = tl.constexpr(0xFFFFFFFF)


@triton.jit
def _product_words(words, MULTIPLIER: tl.constexpr):
    upper = words * (MULTIPLIER >> 16)
    lower = words * (MULTIPLIER & 0xFFFF)
    high_words = (upper + (lower >> 16)) >> 16
    low_words = (((upper & 0xFFFF) << 16) + lower) & _WORD_MASK
    return high_words, low_words


@triton.jit
def philox_kernel(counter_ptr, key_ptr, output_ptr, num_rows, BLOCK: tl.constexpr):
    """Write the four Philox words of BLOCK rows; counter and output are [rows, 4], key is [rows, 2]."""
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = row < num_rows
    word_0 = tl.load(counter_ptr + row * 4, mask=inside, other=0)
    word_1 = tl.load(counter_ptr + row * 4 + 1, mask=inside, other=0)
    word_2 = tl.load(counter_ptr + row * 4 + 2, mask=inside, other=0)
    word_3 = tl.load(counter_ptr + row * 4 + 3, mask=inside, other=0)
    key_0 = tl.load(key_ptr + row * 2, mask=inside, other=0)
    key_1 = tl.load(key_ptr + row * 2 + 1, mask=inside, other=0)
    for _ in range(_ROUNDS):
        high_0, low_0 = _product_words(word_0, _MULTIPLIER_0)
        high_1, low_1 = _product_words(word_2, _MULTIPLIER_1)
        word_0 = high_1 ^ word_1 ^ key_0
        word_2 = high_0 ^ word_3 ^ key_1
        word_1 = low_1
        word_3 = low_0
        key_0 = (key_0 + _STEP_0) & _WORD_MASK
        key_1 = (key_1 + _STEP_1) & _WORD_MASK
    tl.store(output_ptr + row * 4, word_0, mask=inside)
    tl.store(output_ptr + row * 4 + 1, word_1, mask=inside)
    tl.store(output_ptr + row * 4 + 2, word_2, mask=inside)
    tl.store(output_ptr + row * 4 + 3, word_3, mask=inside)


def philox4x32(counter: Int64[Tensor, "rows 4"], key: Int64[Tensor, "rows 2"]) -> Int64[Tensor, "rows 4"]:
    """Return the four output words of Philox4x32-10 for every row (contract 4)."""
    output = torch.empty_like(counter, memory_format=torch.contiguous_format)
    num_rows = counter.shape[0]
    grid = (triton.cdiv(num_rows, BLOCK),)
    if num_rows:
        philox_kernel[grid](counter.contiguous(), key.contiguous(), output, num_rows, BLOCK=BLOCK)
    return output


def uniforms(
    seeds: Int64[Tensor, " rows"],
    positions: Int64[Tensor, " rows"],
    purpose: Purpose | Int64[Tensor, " rows"],
    *,
    draw_index: int = 0,
    candidate_index: int = 0,
) -> Float64[Tensor, " rows"]:
    """Return one uniform in [0, 1) per row, bit for bit that of `engine.ops.rng.uniforms`."""
    words = philox4x32(*counters_and_keys(seeds, positions, purpose, draw_index, candidate_index))
    return (words[:, 0] >> (32 - UNIFORM_BITS)).double() / (1 << UNIFORM_BITS)
