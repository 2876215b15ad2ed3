"""The multi-token-prediction module: one attention block that looks one token further than the target.

Row p takes the target's normed hidden of position p (or, further along a chain of drafts, this module's own
output) and the token of position p + 1; through the target's head its output scores the token of position
p + 2. It has its own keys and values at positions p, no other state, and shares the target's embedding and
head.
Rows written by a chain are overwritten when the accepted rows are run again with the target's hidden.
"""

from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from engine.models.qwen3_5.attention import Geometry, KeyValues, Placement
from engine.models.qwen3_5.config import FULL, Qwen35Config
from engine.models.qwen3_5.parts import Projection, RmsNorm
from engine.models.qwen3_5.target import Block


class Mtp(nn.Module):
    """Parameters are named as published, without the leading "mtp."."""

    def __init__(self, config: Qwen35Config) -> None:
        super().__init__()
        self.config = config
        self.pre_fc_norm_embedding = RmsNorm(config.hidden_size, config.eps)
        self.pre_fc_norm_hidden = RmsNorm(config.hidden_size, config.eps)
        self.fc = Projection(2 * config.hidden_size, config.hidden_size)
        self.layers = nn.ModuleList([Block(config, FULL)])
        self.norm = RmsNorm(config.hidden_size, config.eps)

    def forward(
        self,
        embeddings: Float[Tensor, "batch columns hidden"],
        hidden: Float[Tensor, "batch columns hidden"],
        placement: Placement,
        cache: KeyValues,
    ) -> Float[Tensor, "batch columns hidden"]:
        """Return the normed outputs; `embeddings` are those of each row's next token (`Target.embed`)."""
        both = [self.pre_fc_norm_embedding(embeddings), self.pre_fc_norm_hidden(hidden)]
        x = self.fc(torch.cat(both, dim=-1))
        geometry = Geometry.of(self.config, placement, x.shape[1], x.dtype)
        return self.norm(cast(Block, self.layers[0]).attend(x, geometry, cache))

    __call__ = forward
