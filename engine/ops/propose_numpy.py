"""A drafter's choice among its candidates, in numpy for CPU tensors: the bits of engine/ops/propose.py."""

import numpy as np
import torch
from jaxtyping import Float32, Float64
from torch import Tensor

from engine.ops.propose import Choice
from engine.ops.sample_numpy import first_above


@np.errstate(over="ignore", invalid="ignore")
def propose(
    scores: Float32[Tensor, "rows cand"],
    temperature: Float64[Tensor, " rows"],
    uniforms: Float64[Tensor, " rows"],
) -> Choice:
    """Choose one candidate per row, bit for bit as `engine.ops.propose.propose` does."""
    values = scores.detach().numpy().astype(np.float64)
    heat = temperature.numpy()[:, None]
    is_greedy = heat <= 0
    exponents = (values - values.max(axis=1, keepdims=True)) / np.where(is_greedy, 1.0, heat)
    weights = torch.from_numpy(exponents).exp_().numpy()
    probs = weights / weights.cumsum(axis=1)[:, -1:]
    if is_greedy.any():
        one_hot = np.arange(values.shape[1]) == values.argmax(axis=1, keepdims=True)
        probs = np.where(is_greedy, one_hot, probs)
    return Choice(torch.from_numpy(first_above(probs, uniforms.numpy())), torch.from_numpy(probs))
