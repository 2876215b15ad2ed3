"""Programs over small random neural models, for every path, and drafters that are told what to propose."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import attrs
import torch
from torch import Tensor

from engine.models.ngram import PromptLookup
from engine.models.qwen3_5.attention import KeyValues
from engine.models.qwen3_5.target import TargetState
from engine.ops import ops_for
from engine.request import SamplingSettings
from engine.runtime.batch import Batch, Drafts
from engine.runtime.drafters.dflash import DFlashDrafter
from engine.runtime.drafters.dflash2 import DFlash2Drafter
from engine.runtime.drafters.mtp import MtpDrafter
from engine.runtime.drafters.ngram import NgramDrafter
from engine.runtime.drafters.ordinary import OrdinaryDrafter
from engine.runtime.engine import Engine
from engine.runtime.program import TwoPhaseProgram
from engine.runtime.resident import ResidentTarget
from engine.text.compiler import ConstraintCompiler
from experiments.vocabularies import vocabulary_of
from property_tests.dflash_words import dflash2_of, dflash_of
from property_tests.qwen3_5_words import BASE, mtp_of, target_of

TOY = vocabulary_of("toy")
CONFIG = attrs.evolve(BASE, vocab_size=TOY.logits_width)
PATHS = ("ordinary", "mtp", "dflash", "dflash2", "ngram")
FEATURE_LAYERS = (0, 2)
MAX_CONTEXT = 120
BLOCK = 4
NUM_DRAFTS = BLOCK - 1
GREEDY = SamplingSettings(temperature=0.0)


@cache
def compiler() -> ConstraintCompiler:
    """The compiler of the toy vocabulary, made once."""
    return ConstraintCompiler(TOY)


@cache
def models() -> dict[str, Any]:
    """The weights of every part.

    The head is another matrix than the embedding, and embeddings are small beside what the layers add: a
    tied head over large ones repeats its last token whatever the state holds, and no token would tell.
    """
    target = target_of(CONFIG)
    target.embed_tokens.weight.mul_(0.3)
    return {
        "target": target,
        "mtp": mtp_of(CONFIG),
        "dflash": dflash_of(CONFIG, BLOCK, FEATURE_LAYERS),
        "dflash2": dflash2_of(CONFIG, BLOCK, FEATURE_LAYERS),
    }


def drafter_of(path: str, num_lanes: int) -> Any:
    """A path's drafter with empty caches."""
    target = models()["target"]
    room = MAX_CONTEXT + 2 * NUM_DRAFTS + 1
    if path == "ordinary":
        return OrdinaryDrafter()
    if path == "ngram":
        return NgramDrafter(PromptLookup(1, 3), NUM_DRAFTS)
    if path == "mtp":
        cache_of_mtp = KeyValues.allocate(CONFIG, num_lanes, room, torch.float32)
        return MtpDrafter(models()["mtp"], target, cache_of_mtp, NUM_DRAFTS, TOY.size)
    model = models()[path]
    caches = [
        KeyValues.allocate(model.config, num_lanes, room, torch.float32)
        for _ in range(model.config.num_layers)
    ]
    kind = {"dflash": DFlashDrafter, "dflash2": DFlash2Drafter}[path]
    return kind(model, target, caches, NUM_DRAFTS, TOY.size)


def program_of(
    path: str, num_lanes: int = 3, *, wrap: Callable[[Any], Any] = lambda drafter: drafter, **options: Any
) -> TwoPhaseProgram:
    """A program over the small target; `wrap` may put something around the drafter."""
    state = TargetState.allocate(CONFIG, num_lanes, MAX_CONTEXT + NUM_DRAFTS + 1)
    resident = ResidentTarget(models()["target"], state, MAX_CONTEXT, TOY.size, FEATURE_LAYERS)
    return TwoPhaseProgram(
        resident,
        wrap(drafter_of(path, num_lanes)),
        ops_for("cpu"),
        vocab_size=TOY.size,
        eos_ids=frozenset(TOY.eos_ids),
        num_lanes=num_lanes,
        **options,
    )


def engine_of(path: str, num_lanes: int = 3, **options: Any) -> Engine:
    """An engine over the small target."""
    return Engine(TOY, program_of(path, num_lanes, **options), compiler())


class Told:
    """A drafter whose own state lives on, but which proposes what `script` says follows a lane's history."""

    def __init__(self, drafter: Any, script: Callable[[Sequence[int]], Sequence[int]]) -> None:
        self._drafter, self._script = drafter, script
        self.num_drafts, self.on_device = drafter.num_drafts, True

    def draft(self, batch: Batch, ops: Any) -> Drafts:
        """Propose by the script; what the real drafter does meanwhile must leave no trace."""
        self._drafter.draft(batch, ops)
        rows = [list(self._script(lane.history))[: self.num_drafts] for lane in batch.rows.lanes]
        padded = [[*row, *[0] * (self.num_drafts - len(row))] for row in rows]
        return Drafts(torch.tensor(padded), torch.tensor([len(row) for row in rows]))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._drafter, name)


def tensors_in(saved: Any) -> list[Tensor]:
    """Every tensor of a saved state, in order."""
    if isinstance(saved, Tensor):
        return [saved]
    if isinstance(saved, list | tuple):
        return [tensor for part in saved for tensor in tensors_in(part)]
    return []
