"""The Qwen3.5 text model over lanes: one forward pass for prefill, decode and verification alike.

`forward` reads the state of the batch's lanes, writes keys and values past their committed lengths, and
changes nothing else; `TargetState.commit` then makes a prefix of each row's columns real. A row with fewer
real columns than the batch is filled with any id: its columns past the real ones are not to be read or
committed. Rows never see each other. Logits are those of every column, or of the last `num_logits`.
"""

from collections.abc import Iterable
from typing import Any, cast

import attrs
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from engine.models.qwen3_5.attention import AttentionShape, GatedAttention, Geometry, KeyValues, Placement
from engine.models.qwen3_5.config import FULL, Qwen35Config
from engine.models.qwen3_5.gdn import GatedDeltaNet, GdnRecords, GdnState
from engine.models.qwen3_5.parts import Mlp, Projection, RmsNorm


@attrs.frozen(eq=False)
class TargetState:
    """Everything that stays with the lanes between passes; lengths are the caller's (`Placement.starts`).

    `gdn` is None for a model of another architecture, which keeps nothing but keys and values.
    """

    layers: tuple[KeyValues, ...]
    gdn: GdnState | None

    @classmethod
    def allocate(
        cls,
        config: AttentionShape,
        num_lanes: int,
        max_context: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> "TargetState":
        """Return empty lanes with room for `max_context` positions each."""
        caches = (
            KeyValues.allocate(config, num_lanes, max_context, dtype, device) for _ in range(config.num_full)
        )
        if not isinstance(config, Qwen35Config):
            return cls(tuple(caches), None)
        return cls(tuple(caches), GdnState.allocate(config, num_lanes, dtype, device))

    @property
    def room(self) -> int:
        """Positions of a lane's keys and values; without attention there is no bound."""
        return self.layers[0].keys.shape[1] if self.layers else 1 << 30

    def reset(self, lane: int) -> None:
        """Empty a lane before another request takes it."""
        if self.gdn is not None:
            self.gdn.reset(lane)
        for cache in self.layers:
            cache.reset(lane)

    def tensors(self) -> Iterable[Tensor]:
        """Yield everything that the state holds."""
        for cache in self.layers:
            yield from (cache.keys, cache.values)
        if self.gdn is not None:
            yield from (self.gdn.recurrent, self.gdn.window)

    def save(self, lane: int, length: int) -> tuple[Any, list[Any]]:
        """Return copies of everything that a lane holds of `length` tokens."""
        recurrent = None if self.gdn is None else self.gdn.save(lane)
        return recurrent, [cache.save(lane, length) for cache in self.layers]

    def load(self, lane: int, saved: tuple[Any, list[Any]]) -> None:
        """Write a saved lane into an empty one."""
        recurrent, caches = saved
        if self.gdn is not None:
            self.gdn.load(lane, recurrent)
        for cache, kept in zip(self.layers, caches, strict=True):
            cache.load(lane, kept)

    def commit(
        self,
        records: GdnRecords | None,
        lanes: Int64[Tensor, " batch"],
        counts: Int64[Tensor, " batch"],
    ) -> None:
        """Make the first `counts` columns of each row real; keys and values only need the new lengths."""
        if records is not None and self.gdn is not None:
            self.gdn.commit(records, lanes, counts)


@attrs.frozen(eq=False)
class TargetOutput:
    """One pass: logits, the normed hidden that the head scores, and what drafters and the commit need.

    `features` are the residual streams after the asked layers, side by side; `records` is None without a
    Gated DeltaNet layer.
    """

    logits: Float[Tensor, "batch scored vocab"]
    hidden: Float[Tensor, "batch columns hidden"]
    features: Float[Tensor, "batch columns features"] | None
    records: GdnRecords | None


class Block(nn.Module):
    """x + mixer(norm(x)), then x + mlp(norm(x)); the mixer is attention or Gated DeltaNet."""

    def __init__(self, config: Qwen35Config, kind: str) -> None:
        super().__init__()
        self.input_layernorm = RmsNorm(config.hidden_size, config.eps)
        if kind == FULL:
            self.self_attn = GatedAttention(config)
        else:
            self.linear_attn = GatedDeltaNet(config)
        self.post_attention_layernorm = RmsNorm(config.hidden_size, config.eps)
        self.mlp = Mlp(config.hidden_size, config.intermediate_size)

    def attend(
        self, x: Float[Tensor, "batch columns hidden"], geometry: Geometry, cache: KeyValues
    ) -> Float[Tensor, "batch columns hidden"]:
        """Return the block's output where its mixer is attention."""
        return self._close(x + self.self_attn(self.input_layernorm(x), geometry, cache))

    def recur(
        self, x: Float[Tensor, "batch columns hidden"], recurrent: Tensor, window: Tensor
    ) -> tuple[Float[Tensor, "batch columns hidden"], GdnRecords]:
        """Return the block's output and records where its mixer is Gated DeltaNet."""
        mixed, records = self.linear_attn(self.input_layernorm(x), recurrent, window)
        return self._close(x + mixed), records

    def _close(self, x: Float[Tensor, "batch columns hidden"]) -> Float[Tensor, "batch columns hidden"]:
        return x + self.mlp(self.post_attention_layernorm(x))


class Target(nn.Module):
    """The whole text model; parameters are named as in a text-only checkpoint without its "model."."""

    def __init__(self, config: Qwen35Config) -> None:
        super().__init__()
        self.config = config
        self.embed_tokens = Projection(config.hidden_size, config.vocab_size)
        self.layers = nn.ModuleList(Block(config, kind) for kind in config.layer_types)
        self.norm = RmsNorm(config.hidden_size, config.eps)
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
        """Run every column of every row; see `TargetState.commit` for what becomes of it."""
        num_columns = token_ids.shape[1]
        x = self.embed(token_ids)
        geometry = Geometry.of(self.config, placement, num_columns, x.dtype)
        assert state.gdn is not None, "the state is another architecture's"
        recurrent = state.gdn.recurrent.index_select(1, placement.lanes)
        window = state.gdn.window.index_select(1, placement.lanes)
        caches = iter(state.layers)
        records: list[GdnRecords] = []
        residuals: dict[int, Tensor] = {}
        blocks = cast("Iterable[Block]", self.layers)
        for i, (block, kind) in enumerate(zip(blocks, self.config.layer_types, strict=True)):
            if kind == FULL:
                x = block.attend(x, geometry, next(caches))
            else:
                x, record = block.recur(x, recurrent[len(records)], window[len(records)])
                records.append(record)
            if i in feature_layers:
                residuals[i] = x
        hidden = self.norm(x)
        scored = hidden if num_logits is None else hidden[:, num_columns - num_logits :]
        return TargetOutput(
            logits=self.head(scored),
            hidden=hidden,
            features=torch.cat([residuals[i] for i in feature_layers], dim=-1) if feature_layers else None,
            records=GdnRecords.stack(records) if records else None,
        )

    __call__ = forward
