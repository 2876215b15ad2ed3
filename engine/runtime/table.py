"""The table model and its bad drafters (models/toy.py) behind the program's protocols.

They compute on the host from a lane's history alone: no slot holds anything of theirs, so a snapshot is only
the lane, and every phase must be run eagerly.
"""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Int64
from torch import Tensor

from engine.models.toy import TableModel, ToyDFlash, ToyDFlash2, ToyMtp
from engine.ops import OpSet
from engine.runtime.batch import Batch, Drafts, Lane, Rows, TargetPass
from engine.runtime.drafters.base import StatelessDrafter
from engine.runtime.drafters.walk import walk


class TableTarget:
    """A table of logits as a target without state or bound."""

    max_context = room = None

    def __init__(self, model: TableModel, vocab_size: int) -> None:
        self._model, self._vocab_size = model, vocab_size

    @property
    def width(self) -> int:
        """Width of a row of logits."""
        return self._model.width

    def forward(self, batch: Batch, drafts: Drafts) -> TargetPass:
        """Look the columns up; columns past a row's drafts repeat its last one."""
        extents = torch.minimum(drafts.extents, batch.limits).tolist()
        ids = [row[:extent] for row, extent in zip(drafts.token_ids.tolist(), extents, strict=True)]
        safe = [[self._safe(token_id) for token_id in row] for row in ids]
        histories = [lane.history for lane in batch.rows.lanes]
        return TargetPass(self._model.forward(histories, safe, batch.num_columns))

    def _safe(self, token_id: int) -> int:
        """The id a model may read in place of a draft that is out of range; its column is never reached."""
        return token_id if 0 <= token_id < self._vocab_size else 0

    def extend(self, rows: Rows, token_ids: Int64[Tensor, "batch columns"]) -> None:
        """Build nothing."""
        return None

    def commit(self, rows: Rows, passed: TargetPass, counts: Int64[Tensor, " batch"]) -> None:
        """Move nothing."""

    def clear(self, slot: int) -> None:
        """Have nothing to forget."""

    def save(self, slot: int, length: int) -> Any:
        """Return nothing."""
        return None

    def load(self, slot: int, state: Any) -> None:
        """Take nothing."""


class TableMtp(StatelessDrafter):
    """MTP over a table: the chain after the round's history is kept for the next round."""

    def __init__(self, model: ToyMtp, num_drafts: int) -> None:
        self.model = model
        self.num_drafts = num_drafts

    def on_host(self, lane: Lane) -> tuple[int, ...]:
        """Return the drafts that the lane holds already."""
        return lane.drafts

    def follow(
        self,
        rows: Rows,
        passed: TargetPass | None,
        next_ids: Int64[Tensor, "batch columns"],
        counts: Int64[Tensor, " batch"],
    ) -> Drafts:
        """Return the chains after every row's history with the round's tokens at its end."""
        known = zip(rows.lanes, rows.starts.tolist(), next_ids.tolist(), counts.tolist(), strict=True)
        return _padded(
            [
                self.model.chain([*lane.history[: start + 1], *ids[:count]], self.num_drafts)
                for lane, start, ids, count in known
            ],
            self.num_drafts,
        )


class TableDFlash(StatelessDrafter):
    """DFlash over a table."""

    on_device = True

    def __init__(self, model: ToyDFlash, num_drafts: int) -> None:
        self.model = model
        self.num_drafts = num_drafts

    def draft(self, batch: Batch, ops: OpSet) -> Drafts:
        """Return one block per row."""
        blocks = [self.model.block(lane.history, self.num_drafts) for lane in batch.rows.lanes]
        return _padded(blocks, self.num_drafts)


class TableDFlash2(StatelessDrafter):
    """DFlash2 over a table: the same walk as over a neural drafter's candidates."""

    on_device = True

    def __init__(self, model: ToyDFlash2, num_drafts: int) -> None:
        self.model = model
        self.num_drafts = num_drafts

    def draft(self, batch: Batch, ops: OpSet) -> Drafts:
        """Return one chain per row, with the candidates and probabilities that each draft came from."""
        histories = [lane.history for lane in batch.rows.lanes]
        candidate_ids, unary = self.model.unary(histories, self.num_drafts)
        extents = torch.tensor([self.model.extent(history, self.num_drafts) for history in histories])

        def pair(j: int, previous: Tensor, ids: Tensor) -> Tensor:
            return self.model.pair(previous, ids)

        return walk(batch, candidate_ids, unary, pair, extents, ops)


def _padded(rows: Sequence[Sequence[int]], num_drafts: int) -> Drafts:
    ids = [[*row, *[0] * (num_drafts - len(row))] for row in rows]
    return Drafts(
        torch.tensor(ids, dtype=torch.int64).view(len(ids), num_drafts),
        torch.tensor([len(row) for row in rows]),
    )
