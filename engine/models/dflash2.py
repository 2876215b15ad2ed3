"""DFlash2: DFlash with short convolutions around every sublayer, and a selector that walks its candidates.

The convolution is depthwise and causal inside the block: tap t of channel c at row i is `base[side, t, c] +
D_i[side, t, group of c]`, times row i - t of the same block. D comes from the normed input of the sublayer,
for both of its sides. Context keys and values take no part in it. The selector scores a candidate after a
token by its logit plus a product of two small codes with the hidden.
"""

from collections.abc import Sequence
from typing import cast

import torch
from jaxtyping import Bool, Float, Float32, Int64
from torch import Tensor, nn

from engine.models import dflash
from engine.models.dflash import DFlash, DFlashLayer, KeysAndValues, Turns
from engine.models.dflash_config import DFlashConfig
from engine.models.qwen3_5.parts import Projection

IN, OUT = 0, 1  # the sides of a sublayer


class BlockConv(nn.Module):
    """The dynamic taps of one sublayer, both sides."""

    def __init__(self, config: DFlashConfig) -> None:
        super().__init__()
        self.kernel, self.block_size = config.conv_kernel, config.block_size
        self.num_groups = config.hidden_size // config.conv_group
        self.base_kernel = nn.Parameter(torch.empty(2, config.conv_kernel, config.hidden_size))
        self.kernel_projection = Projection(config.hidden_size, 2 * config.conv_kernel * self.num_groups)

    def taps(
        self, normed: Float[Tensor, "batch rows hidden"]
    ) -> Float[Tensor, "batch blocks block 2 taps hidden"]:
        """Return the coefficients of every row, for both sides."""
        shape = (2, self.kernel, self.num_groups)
        dynamic = self.kernel_projection(normed).unflatten(-1, shape).unflatten(1, (-1, self.block_size))
        return self.base_kernel + dynamic.repeat_interleave(normed.shape[-1] // self.num_groups, dim=-1)

    def mix(
        self,
        x: Float[Tensor, "batch rows hidden"],
        taps: Float[Tensor, "batch blocks block 2 taps hidden"],
        side: int,
    ) -> Float[Tensor, "batch rows hidden"]:
        """Return one side's convolution of every block by itself; rows before a block are zero."""
        blocks = x.unflatten(1, (-1, self.block_size))
        mixed = taps[..., side, 0, :] * blocks
        for t in range(1, self.kernel):
            earlier = nn.functional.pad(blocks, (0, 0, t, 0))[..., : self.block_size, :]
            mixed = mixed + taps[..., side, t, :] * earlier
        return mixed.flatten(1, 2)


class DFlash2Layer(DFlashLayer):
    """A DFlash layer whose two sublayers stand between convolutions."""

    def __init__(self, config: DFlashConfig) -> None:
        super().__init__(config)
        self.attention_conv = BlockConv(config)
        self.mlp_conv = BlockConv(config)

    def forward(
        self,
        x: Float[Tensor, "batch rows hidden"],
        turns: Turns,
        context: KeysAndValues,
        visible_mask: Bool[Tensor, "batch 1 rows context_and_rows"],
    ) -> Float[Tensor, "batch rows hidden"]:
        """Return the layer's output of every row."""
        normed = self.input_layernorm(x)
        conv, taps = self.attention_conv, self.attention_conv.taps(normed)
        mixed = self.self_attn(conv.mix(normed, taps, IN), turns, context, visible_mask)
        x = x + conv.mix(mixed, taps, OUT)
        normed = self.post_attention_layernorm(x)
        conv, taps = self.mlp_conv, self.mlp_conv.taps(normed)
        return x + conv.mix(self.mlp(conv.mix(normed, taps, IN)), taps, OUT)

    __call__ = forward


class CandidateSelector(nn.Module):
    """The low-rank pair term of (token before, candidate), steered by the row's hidden."""

    def __init__(self, config: DFlashConfig) -> None:
        super().__init__()
        self.predecessor_codebook = nn.Parameter(torch.empty(config.vocab_size, config.selector_rank))
        self.successor_codebook = nn.Parameter(torch.empty(config.vocab_size, config.selector_rank))
        self.hidden_projection = Projection(config.hidden_size, config.selector_rank)


class DFlash2(DFlash):
    """Parameters are named as published."""

    def __init__(self, config: DFlashConfig) -> None:
        super().__init__(config)
        self.candidate_selector = CandidateSelector(config)

    def make_layer(self) -> nn.Module:
        """Return one layer."""
        return DFlash2Layer(self.config)

    def candidates(
        self, logits: Float[Tensor, "batch rows vocab"]
    ) -> tuple[Int64[Tensor, "batch rows cand"], Float32[Tensor, "batch rows cand"]]:
        """Return the ids of every row's best candidates, best first, and their unary scores."""
        unary, ids = logits.float().topk(min(self.config.selector_top_k, logits.shape[-1]), dim=-1)
        return ids, unary

    def pair(
        self,
        previous: Int64[Tensor, "*lead"],
        hidden: Float[Tensor, "*lead hidden"],
        candidate_ids: Int64[Tensor, "*lead cand"],
    ) -> Float32[Tensor, "*lead cand"]:
        """Return the pair term of every candidate after the token before it."""
        selector = self.candidate_selector
        code = selector.predecessor_codebook[previous] * selector.hidden_projection(hidden)
        return (selector.successor_codebook[candidate_ids] @ code[..., None])[..., 0].float()


def initialise(module: DFlash2, generator: torch.Generator) -> DFlash2:
    """Give a drafter the values that its training starts from: convolutions that change nothing."""
    dflash.initialise(module, generator)
    with torch.no_grad():
        for layer in cast("Sequence[DFlash2Layer]", module.layers):
            for conv in (layer.attention_conv, layer.mlp_conv):
                conv.base_kernel.zero_()
                conv.base_kernel[:, 0] = 1.0
                conv.kernel_projection.weight.zero_()
    return module
