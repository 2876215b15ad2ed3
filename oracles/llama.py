"""The Llama text model in float64, one token and one head at a time.

Every call computes a whole sequence from nothing: there is no cache to get wrong. `Weights` maps tensor names
as published, without the leading "model.", to arrays; matrices are [out, in]. Norms scale by their weight.
All of every head is rotated, pair (j, j + half) by position / theta^(2j / dim).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from oracles.qwen3_5 import mlp, rotated

Weights = Mapping[str, np.ndarray]
Rows = list[np.ndarray]


@dataclass(frozen=True)
class Shape:
    """The numbers of one model."""

    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rope_theta: float
    eps: float


@dataclass(frozen=True)
class Pass:
    """What one sequence gives: per position logits, the normed hidden, the residual after every layer."""

    logits: np.ndarray
    hidden: np.ndarray
    residuals: list[Rows]


def normed(x: np.ndarray, weight: np.ndarray, eps: float) -> np.ndarray:
    """Root mean square norm of one vector, scaled by its weight."""
    return x / np.sqrt(np.mean(x * x) + eps) * weight


def attention(shape: Shape, weights: Weights, name: str, xs: Rows) -> Rows:
    """Causal attention over rows at positions 0, 1, ...; query heads share keys and values in groups."""
    d, group = shape.head_dim, shape.num_heads // shape.num_kv_heads
    queries, keys, values = (
        [(weights[f"{name}.{part}_proj.weight"] @ x).reshape(-1, d) for x in xs] for part in ("q", "k", "v")
    )
    outs = []
    for position in range(len(xs)):
        heads = []
        for h in range(shape.num_heads):
            q = _turned(shape, queries[position][h], position)
            seen = range(position + 1)
            scores = np.array([q @ _turned(shape, keys[s][h // group], s) for s in seen]) / np.sqrt(d)
            shares = np.exp(scores - scores.max())
            shares = shares / shares.sum()
            heads.append(sum((shares[s] * values[s][h // group] for s in seen), np.zeros(d)))
        outs.append(weights[f"{name}.o_proj.weight"] @ np.concatenate(heads))
    return outs


def _turned(shape: Shape, x: np.ndarray, position: int) -> np.ndarray:
    return rotated(x, position, shape.head_dim, shape.rope_theta)


def target(shape: Shape, weights: Weights, tokens: Sequence[int]) -> Pass:
    """The whole model over one sequence; without "lm_head.weight" the embedding is the head."""
    xs: Rows = [weights["embed_tokens.weight"][token] for token in tokens]
    residuals = []
    for i in range(shape.num_layers):
        layer = f"layers.{i}"
        before = [normed(x, weights[f"{layer}.input_layernorm.weight"], shape.eps) for x in xs]
        mixed = attention(shape, weights, f"{layer}.self_attn", before)
        xs = [x + out for x, out in zip(xs, mixed, strict=True)]
        inner = [normed(x, weights[f"{layer}.post_attention_layernorm.weight"], shape.eps) for x in xs]
        xs = [x + mlp(weights, f"{layer}.mlp", y) for x, y in zip(xs, inner, strict=True)]
        residuals.append(xs)
    hidden = np.stack([normed(x, weights["norm.weight"], shape.eps) for x in xs])
    head = weights.get("lm_head.weight", weights["embed_tokens.weight"])
    return Pass(hidden @ head.T, hidden, residuals)
