"""Train the model that ships with the package: vocabulary, target, MTP, DFlash and DFlash2 drafters.

Everything is seeded: the corpus is made by code, the drafters learn from text that the trained target wrote.
The stages follow one another; each may be stopped and goes on from its last checkpoint, so that a run fits
into pieces of at most 25 minutes. All of it takes about 75 minutes on two cores.
Run: python -m experiments.train_bundled --stage all [--minutes 25] [--work build/training] [--quick]
"""

import argparse
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch
from rich.console import Console

from engine.models.bundled import bundled_directory
from experiments.training import stages
from experiments.training.export import export
from experiments.training.plan import FULL, QUICK
from experiments.training.stages import Run, StageMissing

NAMES = ("vocab", "target", "generate", "mtp", "dflash", "dflash2", "export")
WORK = Path("build") / "training"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the asked stages; 0 when they are finished, 3 when there is more to do, 2 where one is missing."""
    options = _parser().parse_args(arguments)
    if options.threads:
        torch.set_num_threads(options.threads)
    steps = {
        "vocab": stages.vocab,
        "target": stages.target,
        "generate": stages.generate_texts,
        "mtp": stages.train_mtp,
        "dflash": stages.train_dflash,
        "dflash2": stages.train_dflash2,
        "export": partial(export, out=options.out, reports=options.reports),
    }
    console, plan = Console(stderr=True), QUICK if options.quick else FULL
    stop = time.perf_counter() + 60 * options.minutes
    for name in NAMES if options.stage == "all" else (options.stage,):
        left = max(0.0, stop - time.perf_counter()) / 60
        try:
            finished = steps[name](Run(plan, options.work, left, console))
        except StageMissing as missing:
            console.print(str(missing), style="red")
            return 2
        if not finished:
            console.print(f"{name} stopped after {options.minutes:g} minutes; the same command goes on")
            return 3
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="train_bundled", description=__doc__.splitlines()[0])
    parser.add_argument("--stage", choices=(*NAMES, "all"), default="all")
    parser.add_argument(
        "--minutes", type=float, default=25.0, help="stop at a checkpoint after so many minutes"
    )
    parser.add_argument("--work", type=Path, default=WORK, help="folder of checkpoints and generated text")
    parser.add_argument("--out", type=Path, default=bundled_directory(), help="where the model is written")
    parser.add_argument("--reports", type=Path, default=Path("reports"), help="where the report is written")
    parser.add_argument("--threads", type=int, default=0, help="threads of torch (default: torch's own)")
    parser.add_argument("--quick", action="store_true", help="tiny everything: shows that the stages work")
    return parser


if __name__ == "__main__":
    sys.exit(main())
