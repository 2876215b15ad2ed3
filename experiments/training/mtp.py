"""The MTP head's training: three steps in a chain, as the engine runs them, against the target's own law.

A chain from row t: step 0 takes the target's hidden of t, step s its own output of step s - 1, each with the
token of t + 1 + s. It sees the step-0 rows up to t and the earlier steps of its own chain, which stand at
t + 1, t + 2: what a drafting engine's cache holds. Step s is weighed by beta^s.
"""

from collections.abc import Sequence
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.models.qwen3_5.attention import Geometry, KeyValues, inverse_frequencies
from engine.models.qwen3_5.mtp import Mtp
from engine.models.qwen3_5.target import Block, Target
from experiments.training.features import Batch, Features

NUM_STEPS, BETA = 3, 0.6


def chains(target: Target, mtp: Mtp, batch: Batch, num_steps: int = NUM_STEPS) -> list[Tensor]:
    """The outputs [rows, n, hidden] of every step, n = columns - num_steps."""
    num_rows = len(batch.ids)
    num_columns = batch.ids.shape[1] - num_steps
    cache = KeyValues.allocate(mtp.config, num_rows, num_steps * num_columns, batch.hidden.dtype)
    hidden, outputs = batch.hidden[:, :num_columns], []
    embeddings = target.embed(batch.ids)
    block = cast(Block, mtp.layers[0])
    for step in range(num_steps):
        tokens = embeddings[:, 1 + step : 1 + step + num_columns]
        both = [mtp.pre_fc_norm_embedding(tokens), mtp.pre_fc_norm_hidden(hidden)]
        x = mtp.fc(torch.cat(both, dim=-1))
        hidden = mtp.norm(block.attend(x, _geometry(mtp, num_rows, num_columns, step), cache))
        outputs.append(hidden)
    return outputs


def _geometry(mtp: Mtp, num_rows: int, num_columns: int, step: int) -> Geometry:
    """One step's places: its keys stand behind those of the steps before, its angles say t + step."""
    places = torch.arange(num_columns)
    angles = (places + step)[None, :, None, None].float() * inverse_frequencies(mtp.config, "cpu")
    causal = torch.ones(num_columns, num_columns, dtype=torch.bool).tril()
    own = torch.eye(num_columns, dtype=torch.bool)
    visible = torch.cat([causal, *[own] * step], dim=1)
    return Geometry(
        torch.arange(num_rows)[:, None],
        (places + step * num_columns).expand(num_rows, -1),
        angles.cos(),
        angles.sin(),
        visible[None, None],
        (step + 1) * num_columns,
    )


def step_loss(target: Target, mtp: Mtp, features: Features, seed: int, step: int) -> tuple[Tensor, int]:
    """The loss of one training step: cross entropy against the target's softmax on answers."""
    batch = features.at(step, seed)
    outputs = chains(target, mtp, batch)
    total = torch.zeros(())
    weights = [BETA**s for s in range(len(outputs))]
    for s, hidden in enumerate(outputs):
        wanted = batch.answer_mask[:, 2 + s : 2 + s + hidden.shape[1]]
        own = hidden[:, : wanted.shape[1]][wanted]
        truth = batch.hidden[:, 1 + s : 1 + s + wanted.shape[1]][wanted]
        with torch.no_grad():
            law = target.head(truth).softmax(-1)
        total = total + weights[s] / sum(weights) * F.cross_entropy(target.head(own), law)
    return total, batch.ids.numel()


@torch.no_grad()
def acceptance(target: Target, mtp: Mtp, batches: Sequence[Batch]) -> list[tuple[int, int]]:
    """(accepted, reached) of every step, greedy; a step is reached if those before it were right."""
    counts = [[0, 0] for _ in range(NUM_STEPS)]
    for batch in batches:
        best = target.head(batch.hidden).argmax(-1)
        reached = None
        for s, hidden in enumerate(chains(target, mtp, batch)):
            n = hidden.shape[1] - 1
            right = target.head(hidden[:, :n]).argmax(-1) == best[:, 1 + s : 1 + s + n]
            wanted = batch.answer_mask[:, 2 + s : 2 + s + n]
            reached = wanted if reached is None else reached & wanted
            counts[s][1] += int(reached.sum())
            reached = reached & right
            counts[s][0] += int(reached.sum())
    return [(accepted, tried) for accepted, tried in counts]
