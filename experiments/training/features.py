"""What the frozen target says about its own text, worked out once for each batch and kept in memory."""

import random
from collections.abc import Sequence

import attrs
import torch
from torch import Tensor

from engine.models.qwen3_5.target import Target
from experiments.training.generate import Texts
from experiments.training.target import run

FEATURE_LAYERS = (1, 3, 6)
ROWS = 16  # of a training batch


@attrs.frozen(eq=False)
class Batch:
    """Rows of text with the target's normed hidden, residual streams, and which positions are answers.

    `answer_mask` is true where the token of that position was written by the target.
    """

    ids: Tensor
    hidden: Tensor
    features: Tensor
    answer_mask: Tensor


class Features:
    """Batches by number; every one is run through the target when it is first asked for."""

    def __init__(self, target: Target, texts: Sequence[Texts], rows: int = ROWS) -> None:
        self._target = target
        self._parts = [part for text in texts for part in _split(text, rows)]
        self._known: dict[int, Batch] = {}

    def __len__(self) -> int:
        return len(self._parts)

    def at(self, step: int, seed: int) -> Batch:
        """The batch of a step: every one once in each round, in an order of the round."""
        turn, place = divmod(step, len(self._parts))
        order = list(range(len(self._parts)))
        random.Random(f"{seed}/{turn}").shuffle(order)
        return self[order[place]]

    @torch.no_grad()
    def __getitem__(self, index: int) -> Batch:
        if index not in self._known:
            part = self._parts[index]
            out = run(self._target, part.ids, FEATURE_LAYERS)
            assert out.features is not None
            places = torch.arange(part.ids.shape[1])
            answers = (places >= part.begins[:, None]) & (places < part.ends[:, None])
            self._known[index] = Batch(part.ids, out.hidden, out.features, answers)
        return self._known[index]


def _split(text: Texts, rows: int) -> list[Texts]:
    """A batch in parts of a few rows, each no wider than its longest row."""
    order = text.ends.argsort(stable=True)
    parts = []
    for start in range(0, len(order), rows):
        chosen = order[start : start + rows]
        width = int(text.ends[chosen].max())
        parts.append(Texts(text.ids[chosen, :width], text.begins[chosen], text.ends[chosen]))
    return parts
