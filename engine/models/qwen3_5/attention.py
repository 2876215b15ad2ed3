"""Gated attention over keys and values that stay with their lanes, and where a batch stands in them.

A batch has one row per lane and the same number of columns in every row; column i of a row stands at
position `starts + i`. A pass writes its keys and values at those positions and reads positions 0..own.
What was written past a lane's committed length is never seen: a later column overwrites it before any query
reaches it. Rolling attention back is therefore only a smaller `starts` next time. Keys are stored normed and
rotated.
"""

from collections.abc import Sequence
from typing import Protocol

import attrs
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Float32, Int64
from torch import Tensor, nn

from engine.errors import IntegrityError
from engine.models.qwen3_5.config import Qwen35Config
from engine.models.qwen3_5.parts import Projection, RmsNorm, join


class AttentionShape(Protocol):
    """What a config says about attention; every model's config does."""

    @property
    def num_full(self) -> int:
        """Layers with attention."""
        ...

    @property
    def num_kv_heads(self) -> int:
        """Heads of keys and values."""
        ...

    @property
    def head_dim(self) -> int:
        """Width of one head."""
        ...

    @property
    def rotary_dim(self) -> int:
        """Leading dimensions of a head that are rotated; even."""
        ...

    @property
    def rope_theta(self) -> float:
        """Base of the rotation's frequencies."""
        ...


@attrs.frozen(eq=False)
class Placement:
    """Where the rows of one batch stand: distinct lanes, the position of column 0, and the positions read.

    `context` is at least every row's start plus the number of columns; a captured graph rounds it up.
    """

    lanes: Int64[Tensor, " batch"]
    starts: Int64[Tensor, " batch"]
    context: int

    @classmethod
    def of(
        cls,
        lanes: Sequence[int],
        starts: Sequence[int],
        num_columns: int,
        max_context: int,
        device: torch.device | str = "cpu",
    ) -> "Placement":
        """Place rows by host numbers. Raises IntegrityError where they overlap or pass the context."""
        context = max(starts) + num_columns
        if len(set(lanes)) != len(lanes) or min(starts) < 0 or context > max_context:
            raise IntegrityError(f"rows cannot stand at {lanes=} {starts=} {num_columns=} of {max_context=}")
        return cls(
            torch.tensor(lanes, dtype=torch.int64, device=device),
            torch.tensor(starts, dtype=torch.int64, device=device),
            context,
        )


@attrs.frozen(eq=False)
class Geometry:
    """What every attention layer of one forward pass shares; made once per pass."""

    lanes: Int64[Tensor, "batch 1"]
    positions: Int64[Tensor, "batch columns"]
    cos: Float[Tensor, "batch columns 1 pairs"]
    sin: Float[Tensor, "batch columns 1 pairs"]
    visible_mask: Bool[Tensor, "batch 1 columns context"]
    context: int

    @classmethod
    def of(
        cls, config: AttentionShape, placement: Placement, num_columns: int, dtype: torch.dtype
    ) -> "Geometry":
        """Return positions, angles and causal visibility of one pass."""
        device = placement.starts.device
        positions = placement.starts[:, None] + torch.arange(num_columns, device=device)
        angles = positions[..., None, None].float() * inverse_frequencies(config, device)
        seen = torch.arange(placement.context, device=device) <= positions[..., None]
        cos, sin = angles.cos().to(dtype), angles.sin().to(dtype)
        return cls(placement.lanes[:, None], positions, cos, sin, seen[:, None], placement.context)


def inverse_frequencies(config: AttentionShape, device: torch.device | str) -> Float32[Tensor, " pairs"]:
    """Return theta^(-2j / rotary_dim) for every rotated pair j."""
    exponents = torch.arange(0, config.rotary_dim, 2, device=device).float() / config.rotary_dim
    return 1.0 / config.rope_theta**exponents


def rotate(
    x: Float[Tensor, "batch columns heads dim"],
    cos: Float[Tensor, "batch columns 1 pairs"],
    sin: Float[Tensor, "batch columns 1 pairs"],
) -> Float[Tensor, "batch columns heads dim"]:
    """Rotate the pairs (j, j + pairs) of the leading dimensions; the rest passes through."""
    pairs = cos.shape[-1]
    first, second, rest = x[..., :pairs], x[..., pairs : 2 * pairs], x[..., 2 * pairs :]
    return torch.cat([first * cos - second * sin, second * cos + first * sin, rest], dim=-1)


@attrs.frozen(eq=False)
class KeyValues:
    """One layer's keys and values for all lanes."""

    keys: Float[Tensor, "lanes max_context kv_heads dim"]
    values: Float[Tensor, "lanes max_context kv_heads dim"]

    @classmethod
    def allocate(
        cls,
        config: AttentionShape,
        num_lanes: int,
        max_context: int,
        dtype: torch.dtype,
        device: torch.device | str = "cpu",
    ) -> "KeyValues":
        """Return zeros: what is not written must be finite even where no query looks."""
        size = (num_lanes, max_context, config.num_kv_heads, config.head_dim)
        return cls(
            torch.zeros(size, dtype=dtype, device=device), torch.zeros(size, dtype=dtype, device=device)
        )

    def reset(self, lane: int) -> None:
        """Forget a lane, so that a new request meets nothing that an old one left, not even NaN."""
        self.keys[lane] = 0
        self.values[lane] = 0

    def save(self, lane: int, length: int) -> tuple[Tensor, Tensor]:
        """Return copies of a lane's first `length` keys and values."""
        return self.keys[lane, :length].clone(), self.values[lane, :length].clone()

    def load(self, lane: int, saved: tuple[Tensor, Tensor]) -> None:
        """Write saved keys and values to the beginning of a lane."""
        keys, values = saved
        self.keys[lane, : len(keys)] = keys
        self.values[lane, : len(values)] = values


def attend(
    query: Float[Tensor, "batch columns heads dim"],
    key: Float[Tensor, "batch columns kv_heads dim"],
    value: Float[Tensor, "batch columns kv_heads dim"],
    geometry: Geometry,
    cache: KeyValues,
) -> Float[Tensor, "batch columns heads dim"]:
    """Rotate, write this pass's keys and values into `cache`, and mix what every query may see."""
    num_heads, num_kv_heads = query.shape[2], key.shape[2]
    turned = rotate(torch.cat([query, key], dim=2), geometry.cos, geometry.sin)
    query, key = turned.split([num_heads, num_kv_heads], dim=2)
    cache.keys[geometry.lanes, geometry.positions] = key
    cache.values[geometry.lanes, geometry.positions] = value
    lanes = geometry.lanes[:, 0]
    mixed = F.scaled_dot_product_attention(
        query.transpose(1, 2),
        cache.keys[:, : geometry.context].index_select(0, lanes).transpose(1, 2),
        cache.values[:, : geometry.context].index_select(0, lanes).transpose(1, 2),
        attn_mask=geometry.visible_mask,
        enable_gqa=True,
    )
    return mixed.transpose(1, 2)


class GatedAttention(nn.Module):
    """Causal grouped-query attention; a sigmoid gate per head, from the same projection as its query."""

    def __init__(self, config: Qwen35Config) -> None:
        super().__init__()
        self.num_heads, self.num_kv_heads = config.num_heads, config.num_kv_heads
        self.head_dim = config.head_dim
        width, kv_width = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
        self.q_proj = Projection(config.hidden_size, 2 * width)
        self.k_proj = Projection(config.hidden_size, kv_width)
        self.v_proj = Projection(config.hidden_size, kv_width)
        self.o_proj = Projection(width, config.hidden_size)
        self.q_norm = RmsNorm(config.head_dim, config.eps)
        self.k_norm = RmsNorm(config.head_dim, config.eps)
        self.joined: Tensor | None = None

    def join(self) -> None:
        """Make one product of those on the same input."""
        self.joined = join(self.q_proj, self.k_proj, self.v_proj)

    def project(self, x: Float[Tensor, "batch columns hidden"]) -> Sequence[Tensor]:
        """Return queries with their gates, keys and values, all heads side by side."""
        if self.joined is None:
            return self.q_proj(x), self.k_proj(x), self.v_proj(x)
        kv_width = self.num_kv_heads * self.head_dim
        widths = [2 * self.num_heads * self.head_dim, kv_width, kv_width]
        return F.linear(x, self.joined).split(widths, dim=-1)

    def forward(
        self, x: Float[Tensor, "batch columns hidden"], geometry: Geometry, cache: KeyValues
    ) -> Float[Tensor, "batch columns hidden"]:
        """Return the mixed columns; this pass's keys and values are written into `cache`."""
        rows = x.shape[:2]
        heads, key, value = self.project(x)
        query, gate = heads.view(*rows, self.num_heads, 2 * self.head_dim).chunk(2, dim=-1)
        key = self.k_norm(key.view(*rows, self.num_kv_heads, self.head_dim))
        value = value.view(*rows, self.num_kv_heads, self.head_dim)
        mixed = attend(self.q_norm(query), key, value, geometry, cache)
        gated = mixed * torch.sigmoid(gate)
        return self.o_proj(gated.reshape(*rows, -1))

    __call__ = forward
