"""Figures of a trained set: held-out loss, answers copied without a mistake, acceptance of each drafter."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import islice

import torch
from tokenizers import Tokenizer

from engine.models.dflash import DFlash
from engine.models.dflash2 import DFlash2
from engine.models.qwen3_5.mtp import Mtp
from engine.models.qwen3_5.target import Target
from experiments.training import blocks, mtp
from experiments.training.corpus import documents
from experiments.training.features import Features
from experiments.training.generate import Prompt, answer

FREE_TASKS = ("invent", "talk")  # whose answers no prompt tells
Counts = list[tuple[int, int]]


def copied(
    target: Target, tokenizer: Tokenizer, seed: int, num_documents: int, most_new: int
) -> dict[str, tuple[int, int]]:
    """(exactly right, asked) by task: greedy first answers equal to the corpus's, on held-out documents."""
    source = islice(documents(f"copied/{seed}"), num_documents)
    told = [document for document in source if document.task not in FREE_TASKS]
    encoded = [[one.ids for one in tokenizer.encode_batch(list(document.pieces[:2]))] for document in told]
    prompts = [Prompt(given, len(wanted), 0.0) for given, wanted in encoded]
    texts = answer(target, tokenizer, prompts, torch.Generator(), most_new)
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for row, (document, (_, wanted)) in enumerate(zip(told, encoded, strict=True)):
        written = texts.ids[row, texts.begins[row] : texts.ends[row]].tolist()
        counts[document.task][0] += written == wanted
        counts[document.task][1] += 1
    whole = tuple(sum(count[i] for count in counts.values()) for i in range(2))
    return {"all": (whole[0], whole[1]), **{task: (c[0], c[1]) for task, c in sorted(counts.items())}}


def acceptances(
    target: Target, head: Mtp, drafters: Sequence[DFlash | DFlash2], features: Features
) -> dict[str, Counts]:
    """(accepted, reached) by draft position, greedy, on greedy texts of held-out prompts."""
    batches = [features[index] for index in range(len(features))]
    found = {"mtp": mtp.acceptance(target, head, batches)}
    for drafter in drafters:
        name = "dflash2" if isinstance(drafter, DFlash2) else "dflash"
        found[name] = blocks.acceptance(target, drafter, batches)
    return found


def mean_accepted(counts: Counts) -> float:
    """Drafts accepted in a round that starts at a random place of an answer."""
    return sum(accepted for accepted, _ in counts) / counts[0][1]
