"""The stages of the bundled model's training, each of which starts from what those before it left.

`vocab` writes the vocabulary, `target` trains, `generate` lets the target write text, `mtp`, `dflash` and
`dflash2` train drafters on it, `export` writes the bundled directory and the report. A stage that was stopped
goes on where its last checkpoint stands; a stage that is finished has nothing to do.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import attrs
import torch
from rich.console import Console
from tokenizers import Tokenizer
from torch import nn

from engine.models.dflash import DFlash
from engine.models.dflash2 import DFlash2
from engine.models.dflash_config import DFlashConfig
from engine.models.qwen3_5.mtp import Mtp
from engine.models.qwen3_5.target import Target
from experiments.training import blocks, mtp
from experiments.training import target as target_training
from experiments.training.chat import MASK
from experiments.training.features import FEATURE_LAYERS, Features
from experiments.training.generate import generate, load_texts, save_texts
from experiments.training.loop import CHECKPOINT, Schedule, Task, train
from experiments.training.plan import Plan
from experiments.training.target import CONFIG, initialise
from experiments.training.tokenizer import train_tokenizer, write_vocabulary

TOKENIZER = Path("vocab") / "tokenizer.json"
TEXTS, PROBE = Path("generate") / "texts.pt", Path("generate") / "probe.pt"


@attrs.frozen
class Run:
    """What all stages share: sizes, the folder of their work, minutes for this call, where to talk."""

    plan: Plan
    work: Path
    minutes: float
    console: Console

    def say(self, text: str) -> None:
        """One plain line."""
        self.console.print(text, highlight=False)


class StageMissing(Exception):
    """A stage that must run first has not; the message names it."""


def vocab(run: Run) -> bool:
    """Learn and write the vocabulary."""
    if not (run.work / TOKENIZER).is_file():
        tokenizer = train_tokenizer(run.plan.seed, run.plan.vocabulary_documents)
        write_vocabulary(run.work / TOKENIZER.parent, tokenizer)
    run.say(f"vocabulary: {tokenizer_of(run).get_vocab_size()} ids")
    return True


def tokenizer_of(run: Run) -> Tokenizer:
    """The vocabulary of a run. Raises StageMissing."""
    return Tokenizer.from_file(str(_present(run, TOKENIZER, "vocab")))


def _present(run: Run, path: Path, stage: str) -> Path:
    if not (run.work / path).is_file():
        raise StageMissing(f"run --stage {stage} first: {path} is not in {run.work}")
    return run.work / path


def load_trained(run: Run, name: str, module: nn.Module) -> None:
    """Fill a module from its stage's checkpoint and freeze it. Raises StageMissing."""
    saved = torch.load(_present(run, Path(name) / CHECKPOINT, name), weights_only=True)
    module.load_state_dict(saved["module"])
    module.requires_grad_(False)


def target_of(run: Run) -> Target:
    """The trained target, frozen. Raises StageMissing."""
    found = Target(CONFIG)
    load_trained(run, "target", found)
    return found


def target(run: Run) -> bool:
    """Train the target."""
    tokenizer, module = tokenizer_of(run), Target(CONFIG)
    initialise(module, run.plan.seed)
    loss = partial(target_training.step_loss, module, tokenizer, run.plan.seed, shapes=run.plan.shapes)
    return _train(run, "target", module, run.plan.target, loss)


def _train(run: Run, name: str, module: nn.Module, schedule: Schedule, loss: Callable[[int], object]) -> bool:
    task = Task(name, module, schedule, loss, run.plan.save_every)
    return train(task, run.work, run.minutes, run.console)


def generate_texts(run: Run) -> bool:
    """Let the target write the drafters' texts, and greedy ones to measure with."""
    tokenizer, model, plan = tokenizer_of(run), target_of(run), run.plan
    for path, seed, count, heats in (
        (PROBE, "probe", plan.num_probe, (0.0,)),
        (TEXTS, "texts", plan.num_texts, (0.0, 0.0, 0.7, 1.0)),
    ):
        if (run.work / path).is_file():
            continue
        made = []
        for batch in generate(
            model,
            tokenizer,
            f"{seed}/{plan.seed}",
            count,
            lanes=plan.lanes,
            most_new=plan.most_new,
            temperatures=heats,
        ):
            made.append(batch)
            written = int((batch.ends - batch.begins).sum())
            run.say(f"{seed}: {len(made)}/{count} batches, {written} tokens in the last")
        save_texts(run.work / path, made)
    return True


def features_of(run: Run, model: Target, path: Path) -> Features:
    """Generated texts with what the target says about them. Raises StageMissing."""
    return Features(model, load_texts(_present(run, path, "generate")))


def train_mtp(run: Run) -> bool:
    """Train the MTP head."""
    model, module = target_of(run), Mtp(CONFIG)
    initialise(module, run.plan.seed + 1)
    loss = partial(mtp.step_loss, model, module, features_of(run, model, TEXTS), run.plan.seed)
    return _train(run, "mtp", module, run.plan.mtp, loss)


def new_dflash(run: Run) -> DFlash:
    """A fresh DFlash drafter for the target."""
    found = DFlash(_drafter_config(run))
    initialise(found, run.plan.seed + 2, norm=1.0)
    return found


def new_dflash2(run: Run) -> DFlash2:
    """A fresh DFlash2 drafter for the target; its convolutions start as the identity."""
    sizes = {"conv_kernel": 2, "conv_group": 16, "selector_rank": 32, "selector_top_k": 16}
    found = DFlash2(attrs.evolve(_drafter_config(run), **sizes))
    initialise(found, run.plan.seed + 3, norm=1.0)
    return found


def _drafter_config(run: Run) -> DFlashConfig:
    return DFlashConfig(
        hidden_size=CONFIG.hidden_size,
        intermediate_size=CONFIG.intermediate_size,
        num_layers=2,
        num_heads=CONFIG.num_heads,
        num_kv_heads=CONFIG.num_kv_heads,
        head_dim=CONFIG.head_dim,
        vocab_size=CONFIG.vocab_size,
        num_target_layers=CONFIG.num_layers,
        target_layer_ids=FEATURE_LAYERS,
        block_size=8,
        mask_token_id=tokenizer_of(run).token_to_id(MASK),
        windows=(None, None),
        causal=(False, False),
        rope_theta=CONFIG.rope_theta,
        eps=CONFIG.eps,
    )


def _train_blocks(run: Run, name: str, module: DFlash | DFlash2, schedule: Schedule) -> bool:
    model = target_of(run)
    loss = partial(blocks.step_loss, model, module, features_of(run, model, TEXTS), run.plan.seed)
    return _train(run, name, module, schedule, loss)


def train_dflash(run: Run) -> bool:
    """Train the DFlash drafter."""
    return _train_blocks(run, "dflash", new_dflash(run), run.plan.dflash)


def train_dflash2(run: Run) -> bool:
    """Train the DFlash2 drafter."""
    return _train_blocks(run, "dflash2", new_dflash2(run), run.plan.dflash2)
