"""What the tests of the Qwen3.5 modules share: small random models, their oracle shape, passes over lanes.

Sizes are chosen so that no two dimensions agree by accident. Weights come from one numpy generator per seed.
"""

from collections.abc import Sequence

import attrs
import numpy as np
import torch
from torch import nn

from engine.models.qwen3_5.attention import KeyValues, Placement
from engine.models.qwen3_5.config import FULL, LINEAR, Qwen35Config
from engine.models.qwen3_5.mtp import Mtp
from engine.models.qwen3_5.target import Target, TargetOutput, TargetState
from oracles.qwen3_5 import Shape

TOLERANCE = 1e-5
ADDED = ("out_proj.weight", "o_proj.weight", "down_proj.weight")
BASE = Qwen35Config(
    vocab_size=37,
    hidden_size=24,
    intermediate_size=40,
    layer_types=(LINEAR, FULL, LINEAR, FULL),
    num_heads=4,
    num_kv_heads=2,
    head_dim=12,
    rotary_dim=6,
    num_key_heads=2,
    num_value_heads=4,
    key_dim=8,
    value_dim=10,
    max_context=512,
)
CONFIGS = {
    "mixed": BASE,
    "tied, one value head a key head, long taps": attrs.evolve(
        BASE, tied=True, num_value_heads=2, conv_kernel=5, rotary_dim=12, rope_theta=1e4
    ),
    "three value heads a key head, one kv head": attrs.evolve(
        BASE, num_key_heads=1, num_value_heads=3, num_kv_heads=1, num_heads=3, rotary_dim=4
    ),
    "linear only, one tap": attrs.evolve(BASE, layer_types=(LINEAR, LINEAR), conv_kernel=1, eps=1e-5),
    "full only": attrs.evolve(BASE, layer_types=(FULL, FULL), num_kv_heads=4),
}


def filled(module: nn.Module, seed: int) -> nn.Module:
    """Give every parameter values that leave no term of the equations negligible.

    What a layer adds is kept small: a head that answers nearly nothing has its rounding blown up by its norm,
    and at full size that alone would pass the tolerance, in any float32 implementation.
    """
    rng = np.random.default_rng(seed)
    for name, parameter in module.named_parameters():
        noise = rng.standard_normal(tuple(parameter.shape))
        if name.endswith("A_log"):
            noise = np.log(rng.uniform(0.01, 4.0, size=parameter.shape))
        elif name.endswith("linear_attn.norm.weight") or name.endswith("dt_bias"):
            noise = 1.0 + 0.2 * noise
        elif parameter.dim() == 1:
            noise = 0.2 * noise
        elif name.endswith("conv1d.weight"):
            noise = 0.5 * noise
        elif not name.endswith("embed_tokens.weight"):
            noise = noise / np.sqrt(parameter.shape[-1])
        if name.endswith(ADDED):
            noise = 0.25 * noise
        parameter.data.copy_(torch.from_numpy(noise))
    return module.requires_grad_(False)


def target_of(config: Qwen35Config, seed: int = 0) -> Target:
    """A random target."""
    return filled(Target(config), seed)


def mtp_of(config: Qwen35Config, seed: int = 1) -> Mtp:
    """A random MTP module."""
    return filled(Mtp(config), seed)


def oracle_shape(config: Qwen35Config) -> Shape:
    """The oracle's own record of the same numbers."""
    return Shape(
        num_layers=config.num_layers,
        full_layers=frozenset(i for i, kind in enumerate(config.layer_types) if kind == FULL),
        num_heads=config.num_heads,
        num_kv_heads=config.num_kv_heads,
        head_dim=config.head_dim,
        rotary_dim=config.rotary_dim,
        rope_theta=config.rope_theta,
        num_key_heads=config.num_key_heads,
        num_value_heads=config.num_value_heads,
        key_dim=config.key_dim,
        value_dim=config.value_dim,
        num_taps=config.conv_kernel,
        eps=config.eps,
    )


def oracle_weights(target: Target, mtp: Mtp | None = None) -> dict[str, np.ndarray]:
    """The same parameters as float64 arrays, by published names."""
    tensors = dict(target.state_dict())
    if mtp is not None:
        tensors |= {f"mtp.{name}": tensor for name, tensor in mtp.state_dict().items()}
    return {name: tensor.double().numpy() for name, tensor in tensors.items()}


def tokens_of(config: Qwen35Config, num_tokens: int, seed: int) -> list[int]:
    """Random ids."""
    return np.random.default_rng(seed).integers(config.vocab_size, size=num_tokens).tolist()


def placed(lanes: Sequence[int], starts: Sequence[int], num_columns: int) -> Placement:
    """Rows at host numbers, in lanes as long as the tests' states."""
    return Placement.of(lanes, starts, num_columns, max_context=BASE.max_context)


class Run:
    """A target with lanes whose lengths are kept here, as a runtime would."""

    def __init__(self, target: Target, num_lanes: int = 1, max_context: int = 128) -> None:
        self.target = target
        dtype = target.norm.weight.dtype
        self.state = TargetState.allocate(target.config, num_lanes, max_context, dtype)
        self.lengths = [0] * num_lanes

    def look(self, rows: dict[int, Sequence[int]], **options) -> TargetOutput:
        """A pass over the same number of ids in every row; nothing is committed."""
        width = len(next(iter(rows.values())))
        placement = placed(list(rows), [self.lengths[lane] for lane in rows], width)
        return self.target(torch.tensor(list(rows.values())), placement, self.state, **options)

    def commit(self, output: TargetOutput, counts: dict[int, int]) -> None:
        """Make the first columns of every row real."""
        lanes, numbers = torch.tensor(list(counts)), torch.tensor(list(counts.values()))
        self.state.commit(output.records, lanes, numbers)
        for lane, count in counts.items():
            self.lengths[lane] += count

    def feed(self, ids: Sequence[int], chunk: int, lane: int = 0) -> torch.Tensor:
        """Commit ids in chunks and return the logits of every one."""
        parts = []
        for start in range(0, len(ids), chunk):
            part = ids[start : start + chunk]
            output = self.look({lane: part})
            self.commit(output, {lane: len(part)})
            parts.append(output.logits[0])
        return torch.cat(parts)


def mtp_cache(config: Qwen35Config, num_lanes: int = 1, max_context: int = 64) -> KeyValues:
    """Empty keys and values for an MTP module."""
    return KeyValues.allocate(config, num_lanes, max_context, torch.float32)


def gap(got: torch.Tensor | np.ndarray, wanted: torch.Tensor | np.ndarray) -> float:
    """The largest difference relative to the largest wanted value; nothing at all differs by nothing."""
    got, wanted = (np.asarray(x, dtype=np.float64) for x in (got, wanted))
    if got.shape != wanted.shape:
        return float("inf")
    return float(np.abs(got - wanted).max() / np.abs(wanted).max()) if wanted.size else 0.0
