"""The Llama text model over lanes, called as the Qwen3.5 target is.

It keeps keys and values only, so a commit is nothing but a larger start next time and a rollback a smaller
one; passes leave no records.
"""

from collections.abc import Iterable
from typing import cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from engine.models.llama.config import LlamaConfig
from engine.models.qwen3_5.attention import Geometry, KeyValues, Placement, attend
from engine.models.qwen3_5.parts import Mlp, PlainRmsNorm, Projection
from engine.models.qwen3_5.target import TargetOutput, TargetState


class Attention(nn.Module):
    """Causal grouped-query attention."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.head_dim = config.head_dim
        width, kv_width = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
        self.q_proj = Projection(config.hidden_size, width)
        self.k_proj = Projection(config.hidden_size, kv_width)
        self.v_proj = Projection(config.hidden_size, kv_width)
        self.o_proj = Projection(width, config.hidden_size)

    def forward(
        self, x: Float[Tensor, "batch columns hidden"], geometry: Geometry, cache: KeyValues
    ) -> Float[Tensor, "batch columns hidden"]:
        """Return the mixed columns; this pass's keys and values are written into `cache`."""
        heads = (*x.shape[:2], -1, self.head_dim)
        query, key, value = (project(x).view(heads) for project in (self.q_proj, self.k_proj, self.v_proj))
        return self.o_proj(attend(query, key, value, geometry, cache).flatten(2))

    __call__ = forward


class Block(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x))."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.input_layernorm = PlainRmsNorm(config.hidden_size, config.eps)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = PlainRmsNorm(config.hidden_size, config.eps)
        self.mlp = Mlp(config.hidden_size, config.intermediate_size)

    def forward(
        self, x: Float[Tensor, "batch columns hidden"], geometry: Geometry, cache: KeyValues
    ) -> Float[Tensor, "batch columns hidden"]:
        """Return the block's output; keys and values are written into `cache`."""
        x = x + self.self_attn(self.input_layernorm(x), geometry, cache)
        return x + self.mlp(self.post_attention_layernorm(x))

    __call__ = forward


class Llama(nn.Module):
    """The whole model; parameters are named as published, without the leading "model."."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.config = config
        self.embed_tokens = Projection(config.hidden_size, config.vocab_size)
        self.layers = nn.ModuleList(Block(config) for _ in range(config.num_layers))
        self.norm = PlainRmsNorm(config.hidden_size, config.eps)
        if not config.tied:
            self.lm_head = Projection(config.hidden_size, config.vocab_size)

    def embed(self, token_ids: Int64[Tensor, "batch columns"]) -> Float[Tensor, "batch columns hidden"]:
        """Return the embeddings of ids below `vocab_size`."""
        return F.embedding(token_ids, self.embed_tokens.weight)

    def head(self, hidden: Float[Tensor, "... hidden"]) -> Float[Tensor, "... vocab"]:
        """Return the logits of normed hidden vectors."""
        return (self.embed_tokens if self.config.tied else self.lm_head)(hidden)

    def forward(
        self,
        token_ids: Int64[Tensor, "batch columns"],
        placement: Placement,
        state: TargetState,
        *,
        num_logits: int | None = None,
        feature_layers: tuple[int, ...] = (),
    ) -> TargetOutput:
        """Run every column of every row; logits are those of every column or of the last `num_logits`."""
        num_columns = token_ids.shape[1]
        x = self.embed(token_ids)
        geometry = Geometry.of(self.config, placement, num_columns, x.dtype)
        residuals: dict[int, Tensor] = {}
        blocks = cast("Iterable[Block]", self.layers)
        for i, (block, cache) in enumerate(zip(blocks, state.layers, strict=True)):
            x = block(x, geometry, cache)
            if i in feature_layers:
                residuals[i] = x
        hidden = self.norm(x)
        scored = hidden if num_logits is None else hidden[:, num_columns - num_logits :]
        return TargetOutput(
            logits=self.head(scored),
            hidden=hidden,
            features=torch.cat([residuals[i] for i in feature_layers], dim=-1) if feature_layers else None,
            records=None,
        )

    __call__ = forward
