"""Text that the target itself writes: prompts of the corpus, answers sampled or greedy, kept as tensors.

Drafters are trained on this text, because it is what they will meet. Prompts of one batch have answers of
about one length in the corpus, so few lanes wait for the others.
"""

import random
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import attrs
import torch
from tokenizers import Tokenizer
from torch import Tensor

from engine.models.qwen3_5.attention import Placement
from engine.models.qwen3_5.target import Target, TargetState
from experiments.training.chat import DOCUMENT_END, END
from experiments.training.corpus import Document, documents
from experiments.training.loop import save_atomically

TEMPERATURES = (0.0, 0.0, 0.7, 1.0)
MOST_NEW = 240
GROUP = 16  # batches whose prompts are sorted together


@attrs.frozen(eq=False)
class Texts:
    """Rows of one batch, padded behind: ids, where each answer begins, and where its row ends."""

    ids: Tensor
    begins: Tensor
    ends: Tensor


@attrs.frozen
class Prompt:
    """Ids of a prompt, how long the corpus's answer is, and the temperature of this one."""

    ids: list[int]
    expected: int
    temperature: float


def _prompts(tokenizer: Tokenizer, seed: str, temperatures: Sequence[float]) -> Iterator[Prompt]:
    rng = random.Random(f"turns/{seed}")
    for document in documents(seed):
        yield _prompt(rng, tokenizer, document, temperatures)


def _prompt(
    rng: random.Random, tokenizer: Tokenizer, document: Document, temperatures: Sequence[float]
) -> Prompt:
    turn = rng.randrange(1, len(document.pieces), 2)
    ids = tokenizer.encode("".join(document.pieces[:turn])).ids
    expected = len(tokenizer.encode(document.pieces[turn]).ids)
    return Prompt(ids, expected, rng.choice(temperatures))


def generate(
    target: Target,
    tokenizer: Tokenizer,
    seed: str,
    num_batches: int,
    *,
    lanes: int,
    most_new: int = MOST_NEW,
    temperatures: Sequence[float] = TEMPERATURES,
) -> Iterator[Texts]:
    """Yield batches of prompts with the target's own answers, the same for the same seed."""
    source = _prompts(tokenizer, seed, temperatures)
    generator = torch.Generator()
    for first in range(0, num_batches, GROUP):
        count = min(GROUP, num_batches - first)
        group = sorted(islice(source, count * lanes), key=lambda one: one.expected)
        for index in range(count):
            generator.manual_seed(random.Random(f"{seed}/{first + index}").getrandbits(62))
            yield answer(target, tokenizer, group[index * lanes : (index + 1) * lanes], generator, most_new)


@torch.no_grad()
def answer(
    target: Target,
    tokenizer: Tokenizer,
    prompts: Sequence[Prompt],
    generator: torch.Generator,
    most_new: int = MOST_NEW,
) -> Texts:
    """Let the target answer every prompt, until its end token or `most_new` tokens."""
    stop = torch.tensor([tokenizer.token_to_id(END), tokenizer.token_to_id(DOCUMENT_END)])
    begins = torch.tensor([len(prompt.ids) for prompt in prompts])
    width = int(begins.max())
    ids = torch.zeros(len(prompts), width + most_new, dtype=torch.int64)
    for row, prompt in enumerate(prompts):
        ids[row, : len(prompt.ids)] = torch.tensor(prompt.ids)
    lanes, rows = torch.arange(len(prompts)), torch.arange(len(prompts))
    state = TargetState.allocate(target.config, len(prompts), ids.shape[1])
    out = target(ids[:, :width], Placement(lanes, torch.zeros_like(begins), width), state)
    state.commit(out.records, lanes, begins)
    heat = torch.tensor([prompt.temperature for prompt in prompts])
    logits, lengths, running = out.logits[rows, begins - 1], begins.clone(), torch.ones(len(prompts)).bool()
    for _ in range(most_new):
        chosen = _choose(logits[:, : tokenizer.get_vocab_size()], heat, generator)
        ids[rows[running], lengths[running]] = chosen[running]
        lengths += running
        running &= ~torch.isin(chosen, stop)
        if not bool(running.any()) or int(lengths.max()) == ids.shape[1]:
            break
        starts = lengths - 1
        placement = Placement(lanes, starts, int(lengths.max()))
        out = target(ids[rows, starts][:, None], placement, state)
        state.commit(out.records, lanes, running.long())
        logits = out.logits[:, 0]
    return Texts(ids[:, : int(lengths.max())].clone(), begins, lengths)


def _choose(logits: Tensor, heat: Tensor, generator: torch.Generator) -> Tensor:
    """Greedy where the temperature is 0, else a sample of the tempered law."""
    noise = -torch.empty_like(logits).exponential_(generator=generator).log()
    return (logits + heat[:, None] * noise).argmax(-1)


def save_texts(path: Path, batches: Sequence[Texts]) -> None:
    """Keep batches in one file."""
    save_atomically(path, [attrs.asdict(batch, recurse=False) for batch in batches])


def load_texts(path: Path) -> list[Texts]:
    """The batches of a file."""
    return [Texts(**batch) for batch in torch.load(path, weights_only=True)]
