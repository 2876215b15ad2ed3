"""DFlash and DFlash2 in float64, one row and one head at a time.

`Weights` maps published tensor names to arrays, matrices [out, in]. Every norm scales by its weight itself.
Context row i stands at position i; row j of a block stands at `start + j` and scores the token of that place.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from oracles.qwen3_5 import mlp, rotated

Weights = Mapping[str, np.ndarray]
Rows = list[np.ndarray]


@dataclass(frozen=True)
class Shape:
    """The numbers of one drafter; `num_taps` is 0 for DFlash."""

    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rope_theta: float
    eps: float
    windows: tuple[int | None, ...]
    causal: tuple[bool, ...]
    num_taps: int = 0
    group: int = 1


def scaled(x: np.ndarray, weight: np.ndarray, eps: float) -> np.ndarray:
    """Root mean square norm of one vector, scaled by its weight."""
    return x / np.sqrt(np.mean(x * x) + eps) * weight


def context(weights: Weights, shape: Shape, residuals: Sequence[Rows]) -> Rows:
    """Return each position's context; `residuals[l][i]` is position i after the l-th of the asked layers."""
    joined = [np.concatenate(column) for column in zip(*residuals, strict=True)]
    return [scaled(weights["fc.weight"] @ x, weights["hidden_norm.weight"], shape.eps) for x in joined]


def block(weights: Weights, shape: Shape, rows: Rows, start: int, seen: Rows) -> Rows:
    """Return the normed outputs of a block whose row 0 stands at `start`, after the context `seen`."""
    for layer in range(shape.num_layers):
        at = f"layers.{layer}."
        normed = [scaled(x, weights[at + "input_layernorm.weight"], shape.eps) for x in rows]
        before = _mixed(weights, shape, at + "attention_conv.", normed, normed, 0)
        heads = _attention(weights, shape, layer, before, start, seen)
        rows = _added(rows, _mixed(weights, shape, at + "attention_conv.", normed, heads, 1))
        normed = [scaled(x, weights[at + "post_attention_layernorm.weight"], shape.eps) for x in rows]
        before = _mixed(weights, shape, at + "mlp_conv.", normed, normed, 0)
        after = [mlp(weights, at + "mlp", x) for x in before]
        rows = _added(rows, _mixed(weights, shape, at + "mlp_conv.", normed, after, 1))
    return [scaled(x, weights["norm.weight"], shape.eps) for x in rows]


def _added(rows: Rows, more: Rows) -> Rows:
    return [x + y for x, y in zip(rows, more, strict=True)]


def _mixed(weights: Weights, shape: Shape, name: str, normed: Rows, rows: Rows, side: int) -> Rows:
    """Return one side of a block's convolution; its taps come from the sublayer's normed input."""
    if not shape.num_taps:
        return rows
    base, matrix = weights[name + "base_kernel"], weights[name + "kernel_projection.weight"]
    out = []
    for i, source in enumerate(normed):
        dynamic = (matrix @ source).reshape(2, shape.num_taps, -1)
        total = np.zeros_like(source)
        for t in range(min(shape.num_taps, i + 1)):
            for c in range(len(source)):
                total[c] += (base[side, t, c] + dynamic[side, t, c // shape.group]) * rows[i - t][c]
        out.append(total)
    return out


def _heads(weights: Weights, shape: Shape, name: str, x: np.ndarray, position: int) -> Rows:
    """Return the normed and rotated heads of one query or key row."""
    parts = (weights[name + "_proj.weight"] @ x).reshape(-1, shape.head_dim)
    scale = weights[name + "_norm.weight"]
    return [
        rotated(scaled(part, scale, shape.eps), position, shape.head_dim, shape.rope_theta) for part in parts
    ]


def _attention(weights: Weights, shape: Shape, layer: int, rows: Rows, start: int, seen: Rows) -> Rows:
    at = f"layers.{layer}.self_attn."
    places = [*range(len(seen)), *range(start, start + len(rows))]
    sources = [*seen, *rows]
    keys = [_heads(weights, shape, at + "k", x, p) for x, p in zip(sources, places, strict=True)]
    values = [(weights[at + "v_proj.weight"] @ x).reshape(-1, shape.head_dim) for x in sources]
    out = []
    for i, x in enumerate(rows):
        looks = [j for j, p in enumerate(places) if _sees(shape, layer, start + i, p)]
        queries = _heads(weights, shape, at + "q", x, start + i)
        mixed = []
        for h, query in enumerate(queries):
            k = h // (shape.num_heads // shape.num_kv_heads)
            scores = np.array([query @ keys[j][k] for j in looks]) / np.sqrt(shape.head_dim)
            shares = np.exp(scores - scores.max())
            shares /= shares.sum()
            mixed.append(sum(s * values[j][k] for s, j in zip(shares, looks, strict=True)))
        out.append(weights[at + "o_proj.weight"] @ np.concatenate(mixed))
    return out


def _sees(shape: Shape, layer: int, row: int, key: int) -> bool:
    width = shape.windows[layer]
    backwards = key <= row or not shape.causal[layer]
    return backwards and (width is None or abs(row - key) < width)


def candidates(logits: np.ndarray, top_k: int) -> list[int]:
    """Return the ids of one row's best candidates, best first."""
    return sorted(range(len(logits)), key=lambda c: -logits[c])[:top_k]


def scores(
    weights: Weights, logits: np.ndarray, hidden: np.ndarray, ids: list[int], previous: int
) -> np.ndarray:
    """Return each candidate's logit plus its pair term after the token `previous`."""
    name = "candidate_selector."
    code = weights[name + "predecessor_codebook"][previous] * (
        weights[name + "hidden_projection.weight"] @ hidden
    )
    return np.array([logits[c] + code @ weights[name + "successor_codebook"][c] for c in ids])


def greedy_walk(weights: Weights, logits: Rows, hidden: Rows, anchor: int, top_k: int) -> list[int]:
    """Return the best candidate of rows 1.. in turn, each after the one before it."""
    path = [anchor]
    for row, state in zip(logits[1:], hidden[1:], strict=True):
        ids = candidates(row, top_k)
        path.append(ids[int(np.argmax(scores(weights, row, state, ids, path[-1])))])
    return path[1:]


def draft_probs(row_scores: np.ndarray, temperature: float) -> np.ndarray:
    """Return the distribution that a candidate is drawn from."""
    shares = np.exp((row_scores - row_scores.max()) / temperature)
    return shares / shares.sum()
