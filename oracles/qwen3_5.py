"""The Qwen3.5 text model and its MTP module in float64, one token and one head at a time.

Every call computes a whole sequence from nothing: there is no cache, no chunk and no rollback to get wrong.
`Weights` maps tensor names as a text-only checkpoint has them, without the leading "model.", to arrays; MTP
tensors keep their "mtp." in front. Norms scale by 1 + weight, except the gated norm inside Gated DeltaNet.
Matrices are [out, in].
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

Weights = Mapping[str, np.ndarray]
Rows = list[np.ndarray]


@dataclass(frozen=True)
class Shape:
    """The numbers of one model; `full_layers` names the attention layers, the others are Gated DeltaNet."""

    num_layers: int
    full_layers: frozenset[int]
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rotary_dim: int
    rope_theta: float
    num_key_heads: int
    num_value_heads: int
    key_dim: int
    value_dim: int
    num_taps: int
    eps: float


@dataclass(frozen=True)
class Pass:
    """What one sequence gives: per position logits, the normed hidden, the residual after every layer.

    `recurrent` and `window` hold, per Gated DeltaNet layer, the state after the last token: [value heads, key
    dim, value dim], and the newest `num_taps` - 1 columns before the convolution.
    """

    logits: np.ndarray
    hidden: np.ndarray
    residuals: list[Rows]
    recurrent: dict[int, np.ndarray] = field(default_factory=dict)
    window: dict[int, np.ndarray] = field(default_factory=dict)


def sigmoid(x: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-x)), written so that it never overflows."""
    return 0.5 * (1.0 + np.tanh(0.5 * np.asarray(x, dtype=np.float64)))


def silu(x: np.ndarray) -> np.ndarray:
    """x * sigmoid(x)."""
    return x * sigmoid(x)


def normed(x: np.ndarray, weight: np.ndarray, eps: float) -> np.ndarray:
    """Root mean square norm of one vector, scaled by 1 + weight."""
    return x / np.sqrt(np.mean(x * x) + eps) * (1.0 + weight)


def rotated(x: np.ndarray, position: int, rotary_dim: int, theta: float) -> np.ndarray:
    """Rotate pair (j, j + half) of the first `rotary_dim` entries by position / theta^(2j / rotary_dim)."""
    out = x.copy()
    half = rotary_dim // 2
    for j in range(half):
        angle = position * theta ** (-2.0 * j / rotary_dim)
        a, b = x[j], x[j + half]
        out[j] = a * np.cos(angle) - b * np.sin(angle)
        out[j + half] = b * np.cos(angle) + a * np.sin(angle)
    return out


def mlp(weights: Weights, name: str, x: np.ndarray) -> np.ndarray:
    """down(silu(gate(x)) * up(x))."""
    gate, up, down = (weights[f"{name}.{part}_proj.weight"] for part in ("gate", "up", "down"))
    return down @ (silu(gate @ x) * (up @ x))


def attention(shape: Shape, weights: Weights, name: str, xs: Rows) -> Rows:
    """Gated causal attention over rows at positions 0, 1, ...; each query head has its gate behind it."""
    d, group = shape.head_dim, shape.num_heads // shape.num_kv_heads
    keys: list[Rows] = []
    values: list[Rows] = []
    outs = []
    for position, x in enumerate(xs):
        both = (weights[f"{name}.q_proj.weight"] @ x).reshape(shape.num_heads, 2 * d)
        new_keys = (weights[f"{name}.k_proj.weight"] @ x).reshape(shape.num_kv_heads, d)
        keys.append([_placed(shape, k, weights[f"{name}.k_norm.weight"], position) for k in new_keys])
        values.append(list((weights[f"{name}.v_proj.weight"] @ x).reshape(shape.num_kv_heads, d)))
        heads = []
        for h in range(shape.num_heads):
            q = _placed(shape, both[h, :d], weights[f"{name}.q_norm.weight"], position)
            mixed = _attend(q, [k[h // group] for k in keys], [v[h // group] for v in values])
            heads.append(mixed * sigmoid(both[h, d:]))
        outs.append(weights[f"{name}.o_proj.weight"] @ np.concatenate(heads))
    return outs


def _placed(shape: Shape, x: np.ndarray, weight: np.ndarray, position: int) -> np.ndarray:
    return rotated(normed(x, weight, shape.eps), position, shape.rotary_dim, shape.rope_theta)


def _attend(q: np.ndarray, keys: Rows, values: Rows) -> np.ndarray:
    scores = np.array([q @ k for k in keys]) / np.sqrt(len(q))
    shares = np.exp(scores - scores.max())
    shares /= shares.sum()
    return sum((share * v for share, v in zip(shares, values, strict=True)), np.zeros_like(values[0]))


def delta_step(
    state: np.ndarray, q: np.ndarray, k: np.ndarray, v: np.ndarray, log_decay: float, beta: float
) -> tuple[np.ndarray, np.ndarray]:
    """One token of one head: decay, correct what the key reads by what it should read, ask the query.

    `state` is [key dim, value dim]. Returns the new state and the answer.
    """
    state = np.exp(log_decay) * state
    state = state + np.outer(k, beta * (v - state.T @ k))
    return state, state.T @ q


def gated_delta(shape: Shape, weights: Weights, name: str, xs: Rows) -> tuple[Rows, np.ndarray, np.ndarray]:
    """Gated DeltaNet over a whole sequence: outputs, final states per value head, newest raw columns."""
    width = 2 * shape.num_key_heads * shape.key_dim + shape.num_value_heads * shape.value_dim
    columns = [np.zeros(width) for _ in range(shape.num_taps - 1)]
    states = [np.zeros((shape.key_dim, shape.value_dim)) for _ in range(shape.num_value_heads)]
    taps = weights[f"{name}.conv1d.weight"].reshape(width, shape.num_taps)
    outs = []
    for x in xs:
        columns.append(weights[f"{name}.in_proj_qkv.weight"] @ x)
        recent = columns[len(columns) - shape.num_taps :]
        mixed = silu(sum((taps[:, i] * column for i, column in enumerate(recent)), np.zeros(width)))
        heads = []
        for h in range(shape.num_value_heads):
            q, k, v = _head_vectors(shape, mixed, h)
            log_decay, beta = _head_gates(weights, name, x, h)
            states[h], answer = delta_step(states[h], q, k, v, log_decay, beta)
            heads.append(
                answer / np.sqrt(np.mean(answer * answer) + shape.eps) * weights[f"{name}.norm.weight"]
            )
        gates = silu(weights[f"{name}.in_proj_z.weight"] @ x)
        outs.append(weights[f"{name}.out_proj.weight"] @ (np.concatenate(heads) * gates))
    newest = columns[len(columns) - shape.num_taps + 1 :]
    return outs, np.stack(states), np.array(newest).reshape(len(newest), width)


def _head_vectors(shape: Shape, mixed: np.ndarray, head: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Query, key and value of one value head; several value heads share one key head."""
    d, all_keys = shape.key_dim, shape.num_key_heads * shape.key_dim
    key_head = head // (shape.num_value_heads // shape.num_key_heads)
    q = mixed[key_head * d : (key_head + 1) * d]
    k = mixed[all_keys + key_head * d : all_keys + (key_head + 1) * d]
    start = 2 * all_keys + head * shape.value_dim
    q, k = (x / np.sqrt(np.sum(x * x) + 1e-6) for x in (q, k))
    return q / np.sqrt(d), k, mixed[start : start + shape.value_dim]


def _head_gates(weights: Weights, name: str, x: np.ndarray, head: int) -> tuple[float, float]:
    """The logarithm of the decay (never above 0) and the strength of the correction."""
    raw = weights[f"{name}.in_proj_a.weight"][head] @ x + weights[f"{name}.dt_bias"][head]
    log_decay = -np.exp(weights[f"{name}.A_log"][head]) * np.logaddexp(0.0, raw)
    return float(log_decay), float(sigmoid(weights[f"{name}.in_proj_b.weight"][head] @ x))


def target(shape: Shape, weights: Weights, tokens: Sequence[int]) -> Pass:
    """The whole text model over one sequence; the head is the embedding where no other is given."""
    xs = [weights["embed_tokens.weight"][token] for token in tokens]
    result = Pass(np.empty(0), np.empty(0), [])
    for i in range(shape.num_layers):
        normal = [normed(x, weights[f"layers.{i}.input_layernorm.weight"], shape.eps) for x in xs]
        if i in shape.full_layers:
            outs = attention(shape, weights, f"layers.{i}.self_attn", normal)
        else:
            outs, state, window = gated_delta(shape, weights, f"layers.{i}.linear_attn", normal)
            result.recurrent[i], result.window[i] = state, window
        xs = _closed(shape, weights, f"layers.{i}", xs, outs)
        result.residuals.append(xs)
    hidden = np.stack([normed(x, weights["norm.weight"], shape.eps) for x in xs])
    logits = hidden @ head_of(weights).T
    return Pass(logits, hidden, result.residuals, result.recurrent, result.window)


def head_of(weights: Weights) -> np.ndarray:
    """The matrix that turns a hidden vector into logits."""
    return weights.get("lm_head.weight", weights["embed_tokens.weight"])


def mtp(shape: Shape, weights: Weights, hiddens: Rows, tokens: Sequence[int]) -> Rows:
    """The MTP module's normed outputs for rows at positions 0, 1, ...

    Row p takes a hidden vector of position p (the target's after its final norm, or an earlier row's output)
    and the token of position p + 1; through the target's head its output scores the token of position p + 2.
    """
    xs = []
    for h, token in zip(hiddens, tokens, strict=True):
        embedding = weights["embed_tokens.weight"][token]
        left = normed(embedding, weights["mtp.pre_fc_norm_embedding.weight"], shape.eps)
        right = normed(h, weights["mtp.pre_fc_norm_hidden.weight"], shape.eps)
        xs.append(weights["mtp.fc.weight"] @ np.concatenate([left, right]))
    normal = [normed(x, weights["mtp.layers.0.input_layernorm.weight"], shape.eps) for x in xs]
    outs = attention(shape, weights, "mtp.layers.0.self_attn", normal)
    xs = _closed(shape, weights, "mtp.layers.0", xs, outs)
    return [normed(x, weights["mtp.norm.weight"], shape.eps) for x in xs]


def mtp_chain(
    shape: Shape, weights: Weights, hiddens: Rows, tokens: Sequence[int], num_drafts: int
) -> list[int]:
    """Greedy drafts after a sequence of the hidden rows `hiddens` and, from 1 on, the tokens `tokens`."""
    rows, following = list(hiddens), list(tokens)
    drafts: list[int] = []
    for _ in range(num_drafts):
        last = mtp(shape, weights, rows, following)[-1]
        drafts.append(int(np.argmax(head_of(weights) @ last)))
        rows.append(last)
        following.append(drafts[-1])
    return drafts


def _closed(shape: Shape, weights: Weights, name: str, xs: Rows, outs: Rows) -> Rows:
    """Both residual additions of a block whose mixer gave `outs`."""
    scale = weights[f"{name}.post_attention_layernorm.weight"]
    sums = [x + out for x, out in zip(xs, outs, strict=True)]
    return [x + mlp(weights, f"{name}.mlp", normed(x, scale, shape.eps)) for x in sums]
