"""The block drafters' training: many anchors in one pass, each block against the target's own law.

A block stands at an anchor in an answer: [token, mask, ...]. It sees the target's features before its anchor
and its own rows, no other block. Row j is weighed by exp(-(j - 1) / GAMMA). DFlash2 adds its selector's cross
entropy over the candidates, given the true token before; a truth outside them replaces the weakest.
"""

import random
from collections.abc import Iterator, Sequence

import attrs
import torch
import torch.nn.functional as F
from torch import Tensor

from engine.models.dflash import DFlash
from engine.models.dflash2 import DFlash2
from engine.models.qwen3_5.target import Target
from experiments.training.features import Batch, Features

ANCHORS, GAMMA = 20, 4.0
Drafter = DFlash | DFlash2


@attrs.frozen(eq=False)
class Blocks:
    """Blocks of a batch, [batch, anchors, rows]: their positions and tokens, and which rows are answers."""

    positions: Tensor
    tokens: Tensor
    real_mask: Tensor


def place(batch: Batch, anchors: Tensor, block_size: int) -> Blocks:
    """Blocks at anchors [batch, anchors]; an anchor of -1 is none."""
    positions = anchors.clamp(min=0)[..., None] + torch.arange(block_size)
    inside = positions.clamp(max=batch.ids.shape[1] - 1)
    rows = torch.arange(len(batch.ids))[:, None, None]
    real = batch.answer_mask[rows, inside] & (positions == inside) & (anchors >= 0)[..., None]
    return Blocks(positions, batch.ids[rows, inside], real)


def outputs(target: Target, drafter: Drafter, batch: Batch, blocks: Blocks) -> Tensor:
    """The drafter's normed rows, [batch, anchors, rows, hidden]."""
    config = drafter.config
    num_batch, num_anchors, num_rows = blocks.positions.shape
    num_context = batch.ids.shape[1]
    tokens = blocks.tokens.clone()
    tokens[..., 1:] = config.mask_token_id
    places = torch.arange(num_context).expand(num_batch, -1)
    context = drafter.project(drafter.context(batch.features), places)
    positions = blocks.positions.flatten(1)
    starts = blocks.positions[..., :1].expand_as(blocks.positions).flatten(1)
    before = places[:, None, :] < starts[..., None]
    block_of = torch.arange(num_anchors * num_rows) // num_rows
    own = (block_of[:, None] == block_of).expand(num_batch, -1, -1)
    visible = torch.cat([before, own], dim=-1)[:, None]
    hidden = drafter.forward(target.embed(tokens.flatten(1)), positions, context, visible)
    return hidden.unflatten(1, (num_anchors, num_rows))


def step_loss(
    target: Target, drafter: Drafter, features: Features, seed: int, step: int
) -> tuple[Tensor, int]:
    """The loss of one training step."""
    batch = features.at(step, seed)
    size = drafter.config.block_size
    generator = torch.Generator().manual_seed(random.Random(f"anchors/{seed}/{step}").getrandbits(62))
    blocks = place(batch, _anchors(batch, generator), size)
    hidden = outputs(target, drafter, batch, blocks)[..., 1:, :]
    real = blocks.real_mask[..., 1:] & blocks.real_mask[..., 1:].cumprod(-1).bool()
    weights = torch.exp(-torch.arange(size - 1) / GAMMA).expand(real.shape)[real]
    rows = torch.arange(len(batch.ids))[:, None, None]
    before = (blocks.positions[..., 1:] - 1).clamp(max=batch.ids.shape[1] - 1)
    with torch.no_grad():
        law = target.head(batch.hidden[rows, before][real]).softmax(-1)
    logits = target.head(hidden[real])
    loss = (weights * F.cross_entropy(logits, law, reduction="none")).mean()
    if isinstance(drafter, DFlash2):
        previous, truth = blocks.tokens[..., :-1][real], blocks.tokens[..., 1:][real]
        loss = loss + _selector_loss(drafter, logits, hidden[real], previous, truth, weights)
    return loss, batch.ids.numel()


def _anchors(batch: Batch, generator: torch.Generator) -> Tensor:
    """ANCHORS positions of each row's answers, or of its last given token; -1 where a row has fewer."""
    allowed = batch.answer_mask.clone()
    allowed[:, :-1] |= batch.answer_mask[:, 1:]
    allowed[:, -1] = False
    scores = torch.rand(allowed.shape, generator=generator).masked_fill(~allowed, -1.0)
    best, places = scores.topk(min(ANCHORS, scores.shape[1]), dim=-1)
    return places.masked_fill(best < 0, -1)


def _selector_loss(
    drafter: DFlash2, logits: Tensor, hidden: Tensor, previous: Tensor, truth: Tensor, weights: Tensor
) -> Tensor:
    ids, unary = (part[:, 0] for part in drafter.candidates(logits[:, None]))
    missing = ~(ids == truth[:, None]).any(-1)
    ids = ids.clone()
    ids[missing, -1] = truth[missing]
    unary = logits.gather(-1, ids)
    scores = unary + drafter.pair(previous, hidden, ids)
    label = (ids == truth[:, None]).long().argmax(-1)
    return (weights * F.cross_entropy(scores, label, reduction="none")).mean()


@torch.no_grad()
def acceptance(target: Target, drafter: Drafter, batches: Sequence[Batch]) -> list[tuple[int, int]]:
    """(accepted, reached) of every draft position where all drafts are greedy, from every answer position."""
    counts = [[0, 0] for _ in range(drafter.config.block_size - 1)]
    for batch in batches:
        best = target.head(batch.hidden).argmax(-1)
        for blocks in _everywhere(batch, drafter.config.block_size):
            drafts = _drafts(target, drafter, outputs(target, drafter, batch, blocks), blocks)
            truth = best.gather(1, (blocks.positions[..., 1:] - 1).clamp(max=best.shape[1] - 1).flatten(1))
            right = drafts == truth.view_as(drafts)
            reached = blocks.real_mask[..., 1]
            for j in range(drafts.shape[-1]):
                reached = reached & blocks.real_mask[..., 1 + j]
                counts[j][1] += int(reached.sum())
                reached = reached & right[..., j]
                counts[j][0] += int(reached.sum())
    return [(accepted, tried) for accepted, tried in counts]


def _everywhere(batch: Batch, block_size: int) -> Iterator[Blocks]:
    """Blocks at every answer position, ANCHORS at a time."""
    places = torch.arange(batch.ids.shape[1]).expand_as(batch.ids).masked_fill(~batch.answer_mask, -1)
    columns = places.sort(dim=-1, descending=True).values[:, : int(batch.answer_mask.sum(-1).max())]
    for anchors in columns.split(ANCHORS, dim=-1):
        yield place(batch, anchors, block_size)


def _drafts(target: Target, drafter: Drafter, hidden: Tensor, blocks: Blocks) -> Tensor:
    """Greedy drafts [batch, anchors, rows - 1]: the best of each row, or the selector's walk."""
    logits = target.head(hidden[..., 1:, :])
    if not isinstance(drafter, DFlash2):
        return logits.argmax(-1)
    shape = logits.shape[:-1]
    ids, unary = drafter.candidates(logits.flatten(0, 1))
    previous, chosen = blocks.tokens[..., 0].flatten(), []
    for j in range(shape[-1]):
        rows = hidden[..., 1 + j, :].flatten(0, 1)
        scores = unary[:, j] + drafter.pair(previous, rows, ids[:, j])
        previous = ids[:, j].gather(-1, scores.argmax(-1, keepdim=True))[:, 0]
        chosen.append(previous)
    return torch.stack(chosen, dim=-1).view(shape)
