"""Philox4x32-10 in numpy for CPU tensors: the same bits as engine/ops/rng.py (contract 4).

Words are 32-bit values in uint64, so one product holds both halves exactly. A round is five calls whatever
the number of rows, and all round keys are laid out before the first.
"""

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from engine.ops.rng import KEY_STEPS, MULTIPLIERS, NUM_ROUNDS, UNIFORM_BITS, WORD_MASK, Purpose

Words = npt.NDArray[np.uint64]

_MASK = np.array(WORD_MASK, np.uint64)  # arrays, because numpy takes them faster than its own numbers
_HALF = np.array(32, np.uint64)
_MULTIPLIERS = np.array(MULTIPLIERS, np.uint64)[:, None]
_STEPS = (np.arange(NUM_ROUNDS, dtype=np.uint64)[:, None] * np.array(KEY_STEPS, np.uint64))[:, :, None]


def philox4x32(counter: Int64[Tensor, "rows 4"], key: Int64[Tensor, "rows 2"]) -> Int64[Tensor, "rows 4"]:
    """Return the four output words of Philox4x32-10 for every row (contract 4)."""
    words = counter.numpy().T.astype(np.uint64)
    multiplied, mixed = _rounds(words[0::2], words[1::2], key.numpy().T.astype(np.uint64))
    return torch.from_numpy(np.stack((multiplied, mixed), axis=1).reshape(4, -1).T.astype(np.int64))


def _rounds(multiplied: Words, mixed: Words, key: Words) -> tuple[Words, Words]:
    """Run all rounds over words 0 and 2, words 1 and 3, and the two key words, each [2, rows]."""
    multipliers = np.empty_like(multiplied)
    multipliers[:] = _MULTIPLIERS  # at full size: a product of two shapes takes twice as long
    for round_key in (key + _STEPS) & _MASK:
        product = multiplied * multipliers
        multiplied = (product >> _HALF)[::-1] ^ mixed
        multiplied ^= round_key
        mixed = (product & _MASK)[::-1]
    return multiplied, mixed


def uniforms(
    seeds: Int64[Tensor, " rows"],
    positions: Int64[Tensor, " rows"],
    purpose: Purpose | Int64[Tensor, " rows"],
    *,
    draw_index: int = 0,
    candidate_index: int = 0,
) -> Float64[Tensor, " rows"]:
    """Return one uniform in [0, 1) per row, bit for bit that of `engine.ops.rng.uniforms`."""
    words = np.empty((6, positions.shape[0]), np.uint64)  # words 0 and 2, words 1 and 3, the key
    words[0] = positions.numpy().view(np.uint64) & _MASK
    words[1], words[3] = draw_index, candidate_index
    words[2] = purpose.numpy() if isinstance(purpose, Tensor) else int(purpose)
    seed_words = seeds.numpy().view(np.uint64)
    words[4], words[5] = seed_words & _MASK, seed_words >> _HALF
    multiplied, _ = _rounds(words[0:2], words[2:4], words[4:6])
    bits = multiplied[0] >> np.uint64(32 - UNIFORM_BITS)
    return torch.from_numpy(bits * 2.0**-UNIFORM_BITS)
