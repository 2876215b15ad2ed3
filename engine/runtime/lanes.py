"""The fixed resident slots of a program, and the per-request numbers that its ops need as tensors.

A lane's penalty counts, bias and bans exist only where the request uses them; a batch tensor exists only
where one of its lanes has them, so a plain batch pays nothing.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float32, Int32
from torch import Tensor

from engine.errors import IntegrityError
from engine.request import SamplingSettings
from engine.runtime.batch import Lane
from engine.text.masks import words_for


class Lanes:
    """Slots by number; a number says nothing about the request that holds it."""

    def __init__(self, num_lanes: int, vocab_size: int) -> None:
        self._slots: list[Lane | None] = [None] * num_lanes
        self._vocab_size = vocab_size

    @property
    def num_free(self) -> int:
        """Number of empty slots."""
        return self._slots.count(None)

    def __getitem__(self, number: int) -> Lane:
        lane = self._slots[number]
        if lane is None:
            raise IntegrityError(f"lane {number} holds no request")
        return lane

    def place(self, lane: Lane) -> int:
        """Put a lane's state into an empty slot and return its number."""
        if None not in self._slots:
            raise IntegrityError("no lane is free")
        number = self._slots.index(None)
        self._slots[number] = lane
        lane.slot = number
        return number

    def take(self, number: int) -> Lane:
        """Empty a slot and return what it held."""
        lane = self[number]
        self._slots[number] = None
        return lane

    def build(self, prompt_ids: Sequence[int], settings: SamplingSettings, generated: Sequence[int]) -> Lane:
        """Return the lane of a request whose committed output is `generated`, from its history alone."""
        lane = Lane(settings, [*prompt_ids, *generated], len(prompt_ids))
        if settings.presence_penalty or settings.frequency_penalty:
            lane.counts = torch.zeros(self._vocab_size, dtype=torch.int32)
            _count(lane.counts, generated)
        if settings.logit_bias:
            lane.bias = torch.zeros(self._vocab_size, dtype=torch.float32)
            values = torch.tensor(list(settings.logit_bias.values()), dtype=torch.float32)
            lane.bias[list(settings.logit_bias)] = values
        if settings.banned_token_ids:
            lane.banned = pack_ids(settings.banned_token_ids, self._vocab_size)
        return lane

    def append(self, number: int, token_ids: Sequence[int], drafts: tuple[int, ...]) -> None:
        """Move one lane by committed tokens: history, counts and kept drafts together."""
        lane = self[number]
        lane.history.extend(token_ids)
        lane.drafts = drafts
        if lane.counts is not None:
            _count(lane.counts, token_ids)


def pack_ids(token_ids: frozenset[int], vocab_size: int) -> Int32[Tensor, " words"]:
    """Return the packed bits of some ids: bit id % 32 of word id // 32."""
    bits = torch.zeros(words_for(vocab_size) * 32, dtype=torch.int64)
    bits[list(token_ids)] = 1
    words = (bits.view(-1, 32) << torch.arange(32)).sum(dim=1)
    return torch.where(words >= 2**31, words - 2**32, words).to(torch.int32)


def batch_bans(lanes: Sequence[Lane], stride: int) -> Int32[Tensor, "rows words"] | None:
    """Return every column's banned ids, None where no lane bans any."""
    return _stack([lane.banned for lane in lanes], stride)


def batch_bias(lanes: Sequence[Lane], stride: int) -> Float32[Tensor, "rows vocab"] | None:
    """Return every column's logit bias, None where no lane has any."""
    return _stack([lane.bias for lane in lanes], stride)


def batch_counts(
    lanes: Sequence[Lane], drafts: Sequence[Sequence[int]], stride: int
) -> Int32[Tensor, "rows vocab"] | None:
    """Return every column's token counts: those generated, plus the drafts before the column."""
    counts = _stack([lane.counts for lane in lanes], stride)
    if counts is None:
        return None
    by_row = counts.view(len(lanes), stride, -1)
    for row, row_drafts in enumerate(drafts):
        for i, token_id in enumerate(row_drafts):
            if 0 <= token_id < by_row.shape[2]:
                by_row[row, i + 1 :, token_id] += 1
    return counts


def _stack(rows: Sequence[Tensor | None], stride: int) -> Tensor | None:
    """Stack one row per lane, zeros where a lane has none, each repeated for the columns of its window."""
    some = next((row for row in rows if row is not None), None)
    if some is None:
        return None
    zeros = torch.zeros_like(some)
    return torch.stack([zeros if row is None else row for row in rows]).repeat_interleave(stride, dim=0)


def _count(counts: Int32[Tensor, " vocab"], token_ids: Sequence[int]) -> None:
    for token_id in token_ids:
        counts[token_id] += 1
