"""A model's files made into a program: target, drafter, lanes and the plan of what they hold.

A directory holds a checkpoint in a published layout; MTP tensors stand in the same files, DFlash and DFlash2
drafters in the directories of these names beside them. They are made for Qwen3.5 targets alone; copied drafts
go with every architecture.
"""

from collections.abc import Callable
from pathlib import Path

import attrs
import torch

from engine.errors import ErrorKind, RequestError
from engine.models.dflash import DFlash
from engine.models.ngram import PromptLookup
from engine.models.qwen3_5.attention import AttentionShape, KeyValues
from engine.models.qwen3_5.target import Target, TargetState
from engine.models.text_model import TextModel, load_text_model
from engine.models.weights import load_drafter, load_mtp
from engine.ops import OpSet, ops_for
from engine.runtime.batch import Drafter
from engine.runtime.capacity import CapacityPlan, Item, mask_bytes, module_bytes, tensor_bytes
from engine.runtime.drafters.dflash import DFlashDrafter
from engine.runtime.drafters.dflash2 import DFlash2Drafter
from engine.runtime.drafters.mtp import MtpDrafter
from engine.runtime.drafters.ngram import NgramDrafter
from engine.runtime.drafters.ordinary import OrdinaryDrafter
from engine.runtime.launch import EagerLauncher, Launcher
from engine.runtime.program import TwoPhaseProgram
from engine.runtime.resident import ResidentTarget
from engine.text.vocabulary import Vocabulary

SPECS = ("none", "mtp", "dflash", "dflash2", "ngram")
DEFAULT_DRAFTS = {"none": 0, "mtp": 3, "ngram": 5}  # of a block drafter: its whole block
MOST_DRAFTS = 63  # look-ahead marks dead columns in one word


@attrs.frozen
class ProgramOptions:
    """How a program is built; None means the model's own value."""

    spec: str = "none"
    num_drafts: int | None = None
    num_lanes: int = 1
    max_context: int | None = None
    candidate_cap: int | None = 20
    dtype: torch.dtype = torch.float32
    device: str = "cpu"
    ops: OpSet | None = None
    lookup: PromptLookup = attrs.field(factory=PromptLookup)
    memory_limit: int | None = None
    launcher: Launcher | None = None


@attrs.frozen(eq=False)
class DrafterParts:
    """A drafter's weights and how it becomes a drafter once its caches are there."""

    num_drafts: int
    shapes: tuple[AttentionShape, ...] = ()
    weight_bytes: int = 0
    feature_layers: tuple[int, ...] = ()
    make: Callable[[list[KeyValues]], Drafter] = lambda caches: OrdinaryDrafter()


def load_program(
    path: Path, vocabulary: Vocabulary, options: ProgramOptions
) -> tuple[TwoPhaseProgram, CapacityPlan]:
    """Load a target and the drafter that `options.spec` names; returns the program and its plan.

    Raises RequestError: an unknown drafter, numbers out of range, a plan over the limit; InvalidCheckpoint.
    """
    target = load_text_model(path, options.dtype, options.device)
    return build_program(target, _drafter_parts(path, target, vocabulary, options), vocabulary, options)


def build_program(
    target: TextModel, parts: DrafterParts, vocabulary: Vocabulary, options: ProgramOptions
) -> tuple[TwoPhaseProgram, CapacityPlan]:
    """Allocate lanes and masks around loaded weights."""
    max_context = _in_range(
        "max_context",
        options.max_context or min(target.config.max_context, 4096),
        2,
        target.config.max_context,
    )
    num_lanes = _in_range("num_lanes", options.num_lanes, 1, 1 << 16)
    room = max_context + parts.num_drafts + 1  # a window may stand at the very end

    def state(device: str) -> TargetState:
        return TargetState.allocate(target.config, num_lanes, room, options.dtype, device)

    def caches(device: str) -> list[KeyValues]:
        return [
            KeyValues.allocate(shape, num_lanes, room + parts.num_drafts, options.dtype, device)
            for shape in parts.shapes
        ]

    masks = mask_bytes(num_lanes, parts.num_drafts, vocabulary.size)
    planned = caches("meta")
    plan = CapacityPlan(
        num_lanes,
        max_context,
        parts.num_drafts,
        (
            Item("target weights", module_bytes(target)),
            Item("drafter weights", parts.weight_bytes),
            Item("keys, values, states", tensor_bytes(state("meta").tensors())),
            Item(
                "drafter's context", tensor_bytes(t for cache in planned for t in (cache.keys, cache.values))
            ),
            Item("masks", 0 if options.device == "cpu" else masks),
            Item("masks on the host", masks, on_device=False),
        ),
    )
    plan.require(options.memory_limit)
    resident = ResidentTarget(
        target, state(options.device), max_context, vocabulary.size, parts.feature_layers
    )
    program = TwoPhaseProgram(
        resident,
        parts.make(caches(options.device)),
        options.ops or ops_for(options.device),
        vocab_size=vocabulary.size,
        eos_ids=frozenset(vocabulary.eos_ids),
        num_lanes=num_lanes,
        candidate_cap=options.candidate_cap,
        launcher=options.launcher or EagerLauncher(options.device),
    )
    return program, plan


def _drafter_parts(
    directory: Path, target: TextModel, vocabulary: Vocabulary, options: ProgramOptions
) -> DrafterParts:
    if options.spec == "none":
        return DrafterParts(0)
    if options.spec == "ngram":
        num_drafts = _num_drafts(options, DEFAULT_DRAFTS["ngram"], MOST_DRAFTS)
        return DrafterParts(num_drafts, make=lambda caches: NgramDrafter(options.lookup, num_drafts))
    if options.spec not in SPECS:
        raise _refused("spec", options.spec, ", ".join(SPECS))
    if not isinstance(target, Target):
        raise _refused("spec", options.spec, "none, ngram: there is no other drafter for this architecture")
    if options.spec == "mtp":
        return mtp_parts(directory, target, vocabulary, options)
    drafter = load_drafter(directory / options.spec, options.dtype, options.device)
    return block_parts(drafter, target, vocabulary, options)


def mtp_parts(
    directory: Path, target: Target, vocabulary: Vocabulary, options: ProgramOptions
) -> DrafterParts:
    """Return the MTP module that stands beside a target."""
    mtp = load_mtp(directory, options.dtype, options.device)
    num_drafts = _num_drafts(options, DEFAULT_DRAFTS["mtp"], MOST_DRAFTS)

    def make(caches: list[KeyValues]) -> Drafter:
        return MtpDrafter(mtp, target, caches[0], num_drafts, vocabulary.size)

    return DrafterParts(num_drafts, (target.config,), module_bytes(mtp), make=make)


def block_parts(
    drafter: DFlash, target: Target, vocabulary: Vocabulary, options: ProgramOptions
) -> DrafterParts:
    """Return a DFlash or DFlash2 drafter; it must have been made for a target of these widths."""
    config = drafter.config
    for name, found, wanted in (
        ("hidden_size", config.hidden_size, target.config.hidden_size),
        ("vocab_size", config.vocab_size, target.config.vocab_size),
        ("num_target_layers", config.num_target_layers, target.config.num_layers),
    ):
        if found != wanted:
            raise _refused(f"the drafter's {name}", found, f"the target's {wanted}")
    num_drafts = _num_drafts(options, config.block_size - 1, config.block_size - 1)
    kind = DFlash2Drafter if options.spec == "dflash2" else DFlashDrafter

    def make(caches: list[KeyValues]) -> Drafter:
        return kind(drafter, target, caches, num_drafts, vocabulary.size)

    layers = tuple(config.target_layer_ids)
    return DrafterParts(num_drafts, (config,) * config.num_layers, module_bytes(drafter), layers, make)


def _num_drafts(options: ProgramOptions, default: int, most: int) -> int:
    return _in_range("num_drafts", default if options.num_drafts is None else options.num_drafts, 1, most)


def _in_range(name: str, value: int, low: int, high: int) -> int:
    if not low <= value <= high:
        raise _refused(name, value, f"an integer in [{low}, {high}]")
    return value


def _refused(name: str, found: object, allowed: str) -> RequestError:
    return RequestError(
        ErrorKind.INVALID_REQUEST,
        f"{name} is not one that this model can run with",
        found=repr(found),
        allowed=allowed,
        source="request",
    )
