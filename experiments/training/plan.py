"""How much of everything a training run does: the whole run, and a tiny one that a test can afford."""

import attrs

from experiments.training.loop import Schedule


@attrs.frozen
class Plan:
    """Sizes of every stage; one seed for all of them.

    `shapes` are rows and columns of ordinary and of long target steps, `lanes` the texts of one generated
    batch, `num_texts` how many batches are generated, with at most `most_new` tokens an answer. `num_probe`
    batches and `num_held_out` documents measure.
    """

    seed: int
    vocabulary_documents: int
    shapes: tuple[tuple[int, int], tuple[int, int]]
    target: Schedule
    lanes: int
    num_texts: int
    num_probe: int
    num_held_out: int
    mtp: Schedule
    dflash: Schedule
    dflash2: Schedule
    most_new: int = 240
    save_every: int = 100


FULL = Plan(
    seed=1,
    vocabulary_documents=12_000,
    shapes=((12, 384), (4, 1152)),
    target=Schedule(1500, 0.02, 0.004),
    lanes=64,
    num_texts=96,
    num_probe=3,
    num_held_out=400,
    mtp=Schedule(1200, 0.02, 0.002),
    dflash=Schedule(1600, 0.02, 0.002),
    dflash2=Schedule(1600, 0.02, 0.002),
)
QUICK = Plan(
    seed=1,
    vocabulary_documents=400,
    shapes=((2, 64), (1, 96)),
    target=Schedule(4, 0.02, 0.004),
    lanes=8,
    num_texts=1,
    num_probe=1,
    num_held_out=12,
    mtp=Schedule(3, 0.02, 0.002),
    dflash=Schedule(3, 0.02, 0.002),
    dflash2=Schedule(3, 0.02, 0.002),
    most_new=24,
    save_every=2,
)
