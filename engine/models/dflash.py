"""DFlash: a small transformer that drafts a whole block at once from the target's own residual streams.

The context of a committed position is its target features, projected and normed; every layer makes keys and
values of it with the same matrices as of the block's rows, but neither norms it again nor lets it into the
residual stream. A block [anchor, mask, ...] sees the whole context before its anchor and, unless a layer is
causal, all of itself; row j scores the token at its own position. Embedding and head are the target's.
Source: arXiv 2602.06036 and its published checkpoints.
"""

from collections.abc import Sequence
from typing import cast

import attrs
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from engine.models.dflash_config import DFlashConfig
from engine.models.qwen3_5.attention import KeyValues, Placement, inverse_frequencies, rotate
from engine.models.qwen3_5.parts import Mlp, PlainRmsNorm, Projection

KeysAndValues = tuple[
    Float[Tensor, "batch context kv_heads dim"], Float[Tensor, "batch context kv_heads dim"]
]


@attrs.frozen(eq=False)
class Turns:
    """The rotation of some positions; made once per pass."""

    cos: Float[Tensor, "batch columns 1 pairs"]
    sin: Float[Tensor, "batch columns 1 pairs"]

    @classmethod
    def of(
        cls, config: DFlashConfig, positions: Int64[Tensor, "batch columns"], dtype: torch.dtype
    ) -> "Turns":
        """Return the angles of absolute positions."""
        angles = positions[..., None, None].float() * inverse_frequencies(config, positions.device)
        return cls(angles.cos().to(dtype), angles.sin().to(dtype))


class BlockAttention(nn.Module):
    """Attention of block rows over context and block; keys and values of both come from the same matrices."""

    def __init__(self, config: DFlashConfig) -> None:
        super().__init__()
        self.num_heads, self.num_kv_heads = config.num_heads, config.num_kv_heads
        self.head_dim = config.head_dim
        width, kv_width = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
        self.q_proj = Projection(config.hidden_size, width)
        self.k_proj = Projection(config.hidden_size, kv_width)
        self.v_proj = Projection(config.hidden_size, kv_width)
        self.o_proj = Projection(width, config.hidden_size)
        self.q_norm = PlainRmsNorm(config.head_dim, config.eps)
        self.k_norm = PlainRmsNorm(config.head_dim, config.eps)

    def keys_and_values(self, x: Float[Tensor, "batch columns hidden"], turns: Turns) -> KeysAndValues:
        """Return the keys, normed and rotated, and the values of context or block."""
        shape = (*x.shape[:2], self.num_kv_heads, self.head_dim)
        return rotate(self.k_norm(self.k_proj(x).view(shape)), turns.cos, turns.sin), self.v_proj(x).view(
            shape
        )

    def forward(
        self,
        x: Float[Tensor, "batch rows hidden"],
        turns: Turns,
        context: KeysAndValues,
        visible_mask: Bool[Tensor, "batch 1 rows context_and_rows"],
    ) -> Float[Tensor, "batch rows hidden"]:
        """Return the mixed rows; `visible_mask` covers the context, then the rows."""
        shape = (*x.shape[:2], self.num_heads, self.head_dim)
        query = rotate(self.q_norm(self.q_proj(x).view(shape)), turns.cos, turns.sin)
        key, value = self.keys_and_values(x, turns)
        mixed = F.scaled_dot_product_attention(
            query.transpose(1, 2),
            torch.cat([context[0], key], dim=1).transpose(1, 2),
            torch.cat([context[1], value], dim=1).transpose(1, 2),
            attn_mask=visible_mask,
            enable_gqa=True,
        )
        return self.o_proj(mixed.transpose(1, 2).flatten(2))

    __call__ = forward


class DFlashLayer(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x)), both norms scaled by their weight."""

    def __init__(self, config: DFlashConfig) -> None:
        super().__init__()
        self.input_layernorm = PlainRmsNorm(config.hidden_size, config.eps)
        self.self_attn = BlockAttention(config)
        self.post_attention_layernorm = PlainRmsNorm(config.hidden_size, config.eps)
        self.mlp = Mlp(config.hidden_size, config.intermediate_size)

    def forward(
        self,
        x: Float[Tensor, "batch rows hidden"],
        turns: Turns,
        context: KeysAndValues,
        visible_mask: Bool[Tensor, "batch 1 rows context_and_rows"],
    ) -> Float[Tensor, "batch rows hidden"]:
        """Return the layer's output of every row."""
        x = x + self.self_attn(self.input_layernorm(x), turns, context, visible_mask)
        return x + self.mlp(self.post_attention_layernorm(x))

    __call__ = forward


class DFlash(nn.Module):
    """Parameters are named as published."""

    def __init__(self, config: DFlashConfig) -> None:
        super().__init__()
        self.config = config
        self.fc = Projection(len(config.target_layer_ids) * config.hidden_size, config.hidden_size)
        self.hidden_norm = PlainRmsNorm(config.hidden_size, config.eps)
        self.layers = nn.ModuleList(self.make_layer() for _ in range(config.num_layers))
        self.norm = PlainRmsNorm(config.hidden_size, config.eps)

    def make_layer(self) -> nn.Module:
        """Return one layer; DFlash2 has its own."""
        return DFlashLayer(self.config)

    def context(
        self, features: Float[Tensor, "batch columns features"]
    ) -> Float[Tensor, "batch columns hidden"]:
        """Return the context of every position from the target's residual streams, side by side."""
        return self.hidden_norm(self.fc(features))

    def project(
        self, context: Float[Tensor, "batch columns hidden"], positions: Int64[Tensor, "batch columns"]
    ) -> tuple[KeysAndValues, ...]:
        """Return every layer's keys and values of a context at absolute positions."""
        turns = Turns.of(self.config, positions, context.dtype)
        layers = cast("Sequence[DFlashLayer]", self.layers)
        return tuple(layer.self_attn.keys_and_values(context, turns) for layer in layers)

    def write(
        self,
        features: Float[Tensor, "batch columns features"],
        placement: Placement,
        caches: Sequence[KeyValues],
    ) -> None:
        """Write the context of a target's pass at its positions, one cache for each layer."""
        columns = torch.arange(features.shape[1], device=features.device)
        positions = placement.starts[:, None] + columns
        lanes = placement.lanes[:, None]
        pairs = self.project(self.context(features), positions)
        for (keys, values), cache in zip(pairs, caches, strict=True):
            cache.keys[lanes, positions] = keys
            cache.values[lanes, positions] = values

    def forward(
        self,
        embeddings: Float[Tensor, "batch rows hidden"],
        positions: Int64[Tensor, "batch rows"],
        context: Sequence[KeysAndValues],
        visible_mask: Bool[Tensor, "batch 1 rows context_and_rows"],
    ) -> Float[Tensor, "batch rows hidden"]:
        """Return the normed outputs of one or many blocks of rows.

        Context column i stands at position i. `visible_mask` says which columns and rows belong together;
        each layer's window and direction narrow it further.
        """
        turns = Turns.of(self.config, positions, embeddings.dtype)
        masks = self._masks(positions, context[0][0].shape[1], visible_mask)
        x = embeddings
        for layer, pair, mask in zip(self.layers, context, masks, strict=True):
            x = layer(x, turns, pair, mask)
        return self.norm(x)

    __call__ = forward

    def _masks(
        self,
        positions: Int64[Tensor, "batch rows"],
        num_context: int,
        visible_mask: Bool[Tensor, "batch 1 rows context_and_rows"],
    ) -> list[Bool[Tensor, "batch 1 rows context_and_rows"]]:
        """Return every layer's visibility; equal layers share it."""
        kinds = list(zip(self.config.windows, self.config.causal, strict=True))
        if set(kinds) == {(None, False)}:
            return [visible_mask] * len(kinds)
        columns = torch.arange(num_context, device=positions.device).expand(len(positions), -1)
        behind = positions[:, :, None] - torch.cat([columns, positions], dim=1)[:, None]
        made = {kind: visible_mask & _within(behind, *kind)[:, None] for kind in set(kinds)}
        return [made[kind] for kind in kinds]

    def block(
        self,
        embeddings: Float[Tensor, "batch rows hidden"],
        placement: Placement,
        caches: Sequence[KeyValues],
    ) -> Float[Tensor, "batch rows hidden"]:
        """Return the outputs of one block a lane whose anchor stands at `placement.starts`."""
        num_batch, num_rows = embeddings.shape[:2]
        positions = placement.starts[:, None] + torch.arange(num_rows, device=embeddings.device)
        columns = torch.arange(placement.context, device=embeddings.device)
        before = (columns < placement.starts[:, None])[:, None].expand(-1, num_rows, -1)
        visible = torch.cat([before, before.new_ones(()).expand(num_batch, num_rows, num_rows)], dim=2)
        context = [
            (
                cache.keys[:, : placement.context].index_select(0, placement.lanes),
                cache.values[:, : placement.context].index_select(0, placement.lanes),
            )
            for cache in caches
        ]
        return self.forward(embeddings, positions, context, visible[:, None])


def _within(behind: Int64[Tensor, "batch rows keys"], window: int | None, causal: bool) -> Tensor:
    """Tell which keys a row may see that stand `behind` positions before it."""
    seen = behind >= 0 if causal else torch.ones_like(behind, dtype=torch.bool)
    return seen if window is None else seen & (behind.abs() < window)


def initialise(module: nn.Module, generator: torch.Generator) -> nn.Module:
    """Give a drafter the values that its training starts from: small matrices, norms of one."""
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() == 1:
                parameter.fill_(1.0)
            else:
                parameter.normal_(0.0, 0.02, generator=generator)
    return module
