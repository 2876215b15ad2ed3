"""How a drafter with a law of its own chooses among its candidates (facts of DFlash2; contract 5).

Only temperature and the uniform act here. The returned probabilities are the law the draft was really drawn
from; acceptance must use exactly these numbers.
"""

import attrs
import torch
from jaxtyping import Float32, Float64, Int64
from torch import Tensor

from engine.ops.sample import first_above


@attrs.frozen(eq=False)
class Choice:
    """The chosen candidate's index in every row and the law it was drawn from."""

    index: Int64[Tensor, " rows"]
    probs: Float64[Tensor, "rows cand"]


def propose(
    scores: Float32[Tensor, "rows cand"],
    temperature: Float64[Tensor, " rows"],
    uniforms: Float64[Tensor, " rows"],
) -> Choice:
    """Choose one candidate per row: softmax(score / T) in float64, inverse CDF in rank order.

    T <= 0 is one-hot at the largest score, ties to the lower rank, and uses no randomness.
    """
    values = scores.double()
    is_greedy = temperature <= 0
    scale = torch.where(is_greedy, 1.0, temperature)[:, None]
    weights = torch.exp((values - values.amax(dim=1, keepdim=True)) / scale)
    probs = weights / weights.cumsum(dim=1)[:, -1:]
    rank = torch.arange(scores.shape[1], device=scores.device)
    one_hot = (rank == values.argmax(dim=1, keepdim=True)).double()
    probs = torch.where(is_greedy[:, None], one_hot, probs)
    return Choice(first_above(probs, uniforms), probs)
