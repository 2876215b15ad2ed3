"""Counter-based random numbers: Philox4x32-10 and the uniforms cut from it (contract 4).

The key is the request's 64-bit seed; the counter is (logical position, purpose, draw index, candidate index).
A number depends on nothing else: not on lane, row, batch or retry. Words are 32-bit values held in int64,
and every product is taken on 16-bit halves, so no intermediate leaves the signed 64-bit range.
"""

import enum

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

NUM_ROUNDS = 10
WORD_MASK = 0xFFFFFFFF
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
UNIFORM_BITS = 24


class Purpose(enum.IntEnum):
    """What a uniform is for; the second word of the counter (contract 4)."""

    PREFILL = 0
    DECODE = 1
    ACCEPT = 2
    CORRECTION = 3
    BONUS = 4
    PROPOSAL = 5


def philox4x32(counter: Int64[Tensor, "rows 4"], key: Int64[Tensor, "rows 2"]) -> Int64[Tensor, "rows 4"]:
    """Return the four output words of Philox4x32-10 for every row.

    All words are in [0, 2**32). Words 0 and 2 are multiplied, words 1 and 3 mixed in; each pair
    travels as one tensor of two columns. Source: Salmon et al., "Parallel random numbers: as easy as
    1, 2, 3" (2011).
    """
    multiplied, mixed = counter[:, 0::2], counter[:, 1::2]
    device = counter.device
    multiplier = torch.tensor(MULTIPLIERS, device=device)
    multiplier_low, multiplier_high = multiplier & 0xFFFF, multiplier >> 16
    key_step = torch.tensor(KEY_STEPS, device=device)
    for round_index in range(NUM_ROUNDS):
        round_key = (key + round_index * key_step) & WORD_MASK
        high, low = _product_words(multiplied, multiplier_low, multiplier_high)
        multiplied = high.flip(1) ^ mixed ^ round_key
        mixed = low.flip(1)
    return torch.stack((multiplied, mixed), dim=2).flatten(1)


def _product_words(words: Tensor, low_half: Tensor, high_half: Tensor) -> tuple[Tensor, Tensor]:
    """Split words * (high_half * 2**16 + low_half) into its upper and lower 32 bits without overflow."""
    upper, lower = words * high_half, words * low_half  # both below 2**48
    high_words = (upper + (lower >> 16)) >> 16
    low_words = (((upper & 0xFFFF) << 16) + lower) & WORD_MASK
    return high_words, low_words


def uniforms(
    seeds: Int64[Tensor, " rows"],
    positions: Int64[Tensor, " rows"],
    purpose: Purpose | Int64[Tensor, " rows"],
    *,
    draw_index: int = 0,
    candidate_index: int = 0,
) -> Float64[Tensor, " rows"]:
    """Return one uniform in [0, 1) per row: the top 24 bits of the first output word over 2**24.

    `seeds` are 64-bit seeds as two's complement; `positions` are token indices in the request's output;
    `purpose` is one for all rows, or one per row.
    """
    words = philox4x32(*counters_and_keys(seeds, positions, purpose, draw_index, candidate_index))
    return (words[:, 0] >> (32 - UNIFORM_BITS)).double() / (1 << UNIFORM_BITS)


def counters_and_keys(
    seeds: Int64[Tensor, " rows"],
    positions: Int64[Tensor, " rows"],
    purpose: Purpose | Int64[Tensor, " rows"],
    draw_index: int,
    candidate_index: int,
) -> tuple[Int64[Tensor, "rows 4"], Int64[Tensor, "rows 2"]]:
    """Lay out the counter words and the key words of every row (contract 4)."""
    counter = positions.new_empty(positions.shape[0], 4)
    counter[:, 0] = positions & WORD_MASK
    counter[:, 1], counter[:, 2], counter[:, 3] = purpose, draw_index, candidate_index
    key = torch.stack((seeds & WORD_MASK, (seeds >> 32) & WORD_MASK), dim=1)
    return counter, key
