"""DFlash2: DFlash's block, whose rows each offer candidates that a walk then draws from; sparse q."""

from typing import cast

from torch import Tensor

from engine.models.dflash2 import DFlash2
from engine.ops import OpSet
from engine.runtime.batch import Batch, Drafts
from engine.runtime.drafters.dflash import BlockDrafter
from engine.runtime.drafters.walk import walk


class DFlash2Drafter(BlockDrafter):
    """Walks the candidates of the block's rows."""

    def draft(self, batch: Batch, ops: OpSet) -> Drafts:
        """Return one chain per row, with the candidates and probabilities that each draft came from."""
        model = cast(DFlash2, self._model)
        hidden = self.block(batch)
        candidate_ids, unary = model.candidates(self.scores(hidden))

        def pair(j: int, previous: Tensor, ids: Tensor) -> Tensor:
            return model.pair(previous, hidden[:, j], ids)

        return walk(batch, candidate_ids, unary, pair, self.whole(batch), ops)
