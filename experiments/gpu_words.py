"""What the GPU check builds: small random models, a program of every path, and masks read from a file.

Nothing here needs a matching core: the masks file holds a small language as states, each with its packed mask
and the state after every id (-1: not legal). `write_masks` makes it where a core is installed.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import torch
from torch import nn

from engine.models.dflash import DFlash
from engine.models.dflash2 import DFlash2
from engine.models.dflash_config import DFlashConfig
from engine.models.ngram import PromptLookup
from engine.models.qwen3_5.attention import KeyValues
from engine.models.qwen3_5.config import FULL, LINEAR, Qwen35Config
from engine.models.qwen3_5.mtp import Mtp
from engine.models.qwen3_5.target import Target, TargetState
from engine.ops import ops_for
from engine.runtime.drafters.dflash import DFlashDrafter
from engine.runtime.drafters.dflash2 import DFlash2Drafter
from engine.runtime.drafters.mtp import MtpDrafter
from engine.runtime.drafters.ngram import NgramDrafter
from engine.runtime.drafters.ordinary import OrdinaryDrafter
from engine.runtime.program import TwoPhaseProgram
from engine.runtime.resident import ResidentTarget
from engine.text.masks import PositionState, write_filler
from engine.text.vocabulary import Vocabulary, toy_vocabulary

PATHS = ("ordinary", "mtp", "dflash", "dflash2", "ngram")
LANGUAGE = "((a|b)+c)*"
MAX_CONTEXT, BLOCK, NUM_DRAFTS = 128, 4, 3
LAYERS = (0, 2)


@attrs.frozen(eq=False)
class Masks:
    """A language as a table over ids; state 0 is its beginning."""

    rows: np.ndarray
    moves: np.ndarray

    @classmethod
    def read(cls, file: Path) -> "Masks":
        """Read what `write_masks` wrote."""
        with np.load(file) as data:
            return cls(data["rows"], data["moves"])

    def state(self, token_ids: Sequence[int]) -> int:
        """The state after some tokens, -1 where they leave the language."""
        state = 0
        for token_id in token_ids:
            known = state >= 0 and 0 <= token_id < self.moves.shape[1]
            state = int(self.moves[state, token_id]) if known else -1
        return state


@attrs.frozen(eq=False)
class Provider:
    """The masks of one round: `outputs` are the rows' committed outputs."""

    masks: Masks
    outputs: Sequence[Sequence[int]]

    def fill(self, row: int, drafts: Sequence[int], out: np.ndarray) -> tuple[PositionState, ...]:
        """Write the legal sets along a row's drafts; fillers follow the first illegal one."""
        write_filler(out)
        states: list[PositionState] = []
        for i in range(len(drafts) + 1):
            state = self.masks.state([*self.outputs[row], *drafts[:i]])
            if state < 0:
                break
            out[i] = self.masks.rows[state]
            states.append(PositionState.READY)
        return (*states, *[PositionState.UNREACHABLE] * (len(out) - len(states)))


def write_masks(file: Path, vocabulary: Vocabulary) -> None:
    """Walk the language with the engine's matcher; states with equal masks are one. Needs a core."""
    from engine.request import OutputConstraint
    from engine.text.compiler import ConstraintCompiler

    compiled = ConstraintCompiler(vocabulary).compile(OutputConstraint.regex(LANGUAGE))[0]
    rows: dict[bytes, int] = {}
    prefixes: list[tuple[int, ...]] = [()]
    moves: list[np.ndarray] = []
    for prefix in prefixes:
        words = _mask_after(compiled, prefix, vocabulary.num_words)
        if prefix == ():
            rows[words.tobytes()] = 0
        legal = np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little"))
        found = np.full(vocabulary.size, -1, np.int64)
        for token_id in legal:
            after = (*prefix, int(token_id))
            ended = int(token_id) in vocabulary.eos_ids
            key = b"end" if ended else _mask_after(compiled, after, vocabulary.num_words).tobytes()
            if not ended and key not in rows:
                rows[key] = len(prefixes)
                prefixes.append(after)
            found[token_id] = -1 if ended else rows[key]
        moves.append(found)
    packed = np.stack([np.frombuffer(key, np.int32) for key in rows])
    np.savez_compressed(file, rows=packed, moves=np.stack(moves))


def _mask_after(compiled: Any, prefix: tuple[int, ...], num_words: int) -> np.ndarray:
    matcher = compiled.new_matcher()
    if prefix:
        matcher.preview(prefix)
        matcher.confirm()
    words = np.zeros(num_words, np.int32)
    matcher.fill_words(words)
    return words


@attrs.frozen(eq=False)
class Models:
    """The random weights of every part, on one device."""

    vocabulary: Vocabulary
    target: Target
    mtp: Mtp
    dflash: DFlash
    dflash2: DFlash2

    @classmethod
    def make(cls, device: str) -> "Models":
        """Fill every part from its own generator; equal on every device."""
        vocabulary = toy_vocabulary()
        config = Qwen35Config(
            vocab_size=vocabulary.logits_width,
            hidden_size=32,
            intermediate_size=48,
            layer_types=(LINEAR, FULL, LINEAR, FULL),
            num_heads=4,
            num_kv_heads=2,
            head_dim=12,
            rotary_dim=6,
            num_key_heads=2,
            num_value_heads=4,
            key_dim=8,
            value_dim=10,
            max_context=512,
            tied=False,  # a random tied head repeats its last token, which hides much
        )
        block = DFlashConfig(
            hidden_size=32,
            intermediate_size=44,
            num_layers=2,
            num_heads=4,
            num_kv_heads=2,
            head_dim=10,
            vocab_size=config.vocab_size,
            num_target_layers=4,
            target_layer_ids=LAYERS,
            block_size=BLOCK,
            mask_token_id=3,
            windows=(None, None),
            causal=(False, False),
            rope_theta=1e5,
        )
        wide = attrs.evolve(block, conv_kernel=2, conv_group=8, selector_rank=7, selector_top_k=5)
        modules = [Target(config), Mtp(config), DFlash(block), DFlash2(wide)]
        filled = [fill(module, seed).to(device) for seed, module in enumerate(modules)]
        return cls(vocabulary, *filled)

    def program(self, path: str, num_lanes: int, device: str, launcher: Any) -> TwoPhaseProgram:
        """A program of one path over these weights."""
        config, size = self.target.config, self.vocabulary.size
        num_drafts = 0 if path == "ordinary" else NUM_DRAFTS
        room = MAX_CONTEXT + num_drafts + 1
        state = TargetState.allocate(config, num_lanes, room, torch.float32, device)
        return TwoPhaseProgram(
            ResidentTarget(self.target, state, MAX_CONTEXT, size, LAYERS),
            self._drafter(path, num_lanes, room + NUM_DRAFTS, device),
            ops_for(device),
            vocab_size=size,
            eos_ids=frozenset(self.vocabulary.eos_ids),
            num_lanes=num_lanes,
            launcher=launcher,
        )

    def _drafter(self, path: str, num_lanes: int, room: int, device: str) -> Any:
        size = self.vocabulary.size
        if path == "ordinary":
            return OrdinaryDrafter()
        if path == "ngram":
            return NgramDrafter(PromptLookup(1, 3), NUM_DRAFTS)
        model = getattr(self, path)
        shapes = [self.target.config] if path == "mtp" else [model.config] * model.config.num_layers
        caches = [KeyValues.allocate(shape, num_lanes, room, torch.float32, device) for shape in shapes]
        if path == "mtp":
            return MtpDrafter(model, self.target, caches[0], NUM_DRAFTS, size)
        kind = DFlashDrafter if path == "dflash" else DFlash2Drafter
        return kind(model, self.target, caches, NUM_DRAFTS, size)


def fill(module: nn.Module, seed: int) -> Any:
    """Give every parameter modest values that leave no term out."""
    rng = np.random.default_rng(seed)
    for name, parameter in module.named_parameters():
        noise = rng.standard_normal(tuple(parameter.shape))
        if name.endswith("A_log"):
            noise = np.log(rng.uniform(0.01, 4.0, size=parameter.shape))
        elif parameter.dim() == 1:
            noise = 1.0 + 0.2 * noise if "norm" in name or "dt_bias" in name else 0.2 * noise
        elif not name.endswith(("embed_tokens.weight", "codebook")):
            noise = 0.5 * noise / np.sqrt(parameter.shape[-1])
        parameter.data.copy_(torch.from_numpy(noise))
    return module.requires_grad_(False)
