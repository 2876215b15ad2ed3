"""The training report: a page, a picture of the curves, and the log as CSV."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

from experiments.provenance import machine, versions
from experiments.training.evaluate import mean_accepted
from experiments.training.loop import Line, as_csv
from experiments.training.plan import Plan

matplotlib.use("Agg")

from matplotlib import pyplot

COLOURS = {"target": "#4c78a8", "mtp": "#f58518", "dflash": "#54a24b", "dflash2": "#b279a2"}
LABELS = {"target": "target", "mtp": "MTP", "dflash": "DFlash", "dflash2": "DFlash2"}


def write(reports: Path, plan: Plan, figures: Mapping[str, Any], lines: Sequence[Line]) -> None:
    """Write training.md, training.png and training.csv."""
    (reports / "training.csv").write_text(as_csv(list(lines)), encoding="utf-8")
    _draw(reports / "training.png", figures, lines)
    (reports / "training.md").write_text(_page(plan, figures, lines), encoding="utf-8")


def _draw(path: Path, figures: Mapping[str, Any], lines: Sequence[Line]) -> None:
    figure, axes = pyplot.subplots(3, 1, figsize=(6.0, 9.0), layout="constrained", dpi=160)
    titles = (
        "Target: next-token loss, prompts at weight 0.2",
        "Drafters: weighted cross entropy against the target",
    )
    for axis, title, names in zip(axes, titles, (("target",), ("mtp", "dflash", "dflash2")), strict=False):
        for name in names:
            own = [line for line in lines if line.stage == name]
            minutes = np.cumsum([line.seconds for line in own]) / 60
            axis.plot(minutes, [line.loss for line in own], lw=1.3, color=COLOURS[name], label=LABELS[name])
        axis.set_xlabel("minutes of this stage")
        axis.set_ylabel("loss (nats)")
        axis.set_yscale("log", subs=(2, 5))
        axis.yaxis.set_major_formatter("{x:g}")
        axis.yaxis.set_minor_formatter("{x:g}")
        axis.set_title(title, fontsize=10, loc="left")
        axis.grid(which="both", alpha=0.25)
        axis.legend(frameon=False)
    for name, counts in figures["acceptance"].items():
        reached = np.cumprod([accepted / max(1, tried) for accepted, tried in counts])
        places = np.arange(1, len(counts) + 1)
        axes[2].plot(places, reached, "o-", color=COLOURS[name], label=LABELS[name])
    axes[2].set_xlabel("draft position")
    axes[2].set_ylabel("all drafts up to here are right")
    axes[2].set_ylim(0, 1.02)
    axes[2].set_title("Greedy drafts on greedy held-out answers", fontsize=10, loc="left")
    axes[2].grid(alpha=0.25)
    axes[2].legend(frameon=False, loc="lower left")
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path)
    pyplot.close(figure)


def _page(plan: Plan, figures: Mapping[str, Any], lines: Sequence[Line]) -> str:
    parts = [
        "# How the bundled model was trained",
        _intro(figures, lines),
        "![losses and acceptance](training.png)",
        "## Stages",
        _stages(figures, lines),
        "## The target on held-out documents",
        _target_words(figures),
        _target_table(figures),
        "## Drafters",
        "Greedy drafts at every position of greedy answers to held-out prompts. A cell is the share accepted "
        "among those reached; *accepted* is the mean number of drafts accepted in a round that starts at a "
        "random place of an answer, and short rests of answers count as they are.",
        _drafter_table(figures),
        "## What the text is",
        TEXT_WORDS,
        "## How to run it again",
        _rerun(plan),
    ]
    return "\n\n".join(parts) + "\n"


def _intro(figures: Mapping[str, Any], lines: Sequence[Line]) -> str:
    minutes, tokens = sum(line.seconds for line in lines) / 60, sum(line.tokens for line in lines)
    size = sum(figures["bytes"].values()) / 1e6
    place = machine()
    return (
        f"A Qwen3.5 text model of {figures['parameters']['target'] / 1e6:.2f} M parameters with its "
        f"vocabulary, an MTP head, a DFlash and a DFlash2 drafter: {size:.1f} MB in bfloat16. Trained for "
        f"{minutes:.0f} minutes on {place['cores']} cores ({place['cpu']}) over {tokens / 1e6:.1f} M tokens, "
        f"other work beside it; torch {versions()['torch']}. `training.csv` has every line of the log."
    )


def _stages(figures: Mapping[str, Any], lines: Sequence[Line]) -> str:
    rows = []
    for name, label in LABELS.items():
        own = [line for line in lines if line.stage == name]
        seconds, tokens = sum(line.seconds for line in own), sum(line.tokens for line in own)
        rows.append(
            f"| {label} | {figures['parameters'][name]:,} | {own[-1].step:,} | {tokens / 1e6:.2f} M | "
            f"{seconds / 60:.1f} | {tokens / seconds:,.0f} | {own[0].loss:.3f} | {own[-1].loss:.3f} |"
        )
    head = (
        "| stage | parameters | steps | tokens | minutes | tokens/s | first loss | last loss |\n|---|"
        + "---:|" * 7
    )
    return "\n".join([head, *rows]) + (
        "\n\nMatrices take orthogonalised momentum, everything else Adam; warm-up, plateau, linear decay; "
        "gradients are clipped at 1. The target's loss counts answers fully and prompts at 0.2. Drafters see "
        "the frozen target's text, half of it greedy and half sampled at temperatures 0.7 and 1.0, and learn "
        "the target's softmax. MTP's three chained steps weigh 1, 0.6, 0.36; a block's row j weighs "
        "exp(-(j - 1) / 4). DFlash2's loss is the sum of two: its rows' and its selector's. Minutes are "
        "those of each stage by itself; stages that share the machine overlap."
    )


def _target_words(figures: Mapping[str, Any]) -> str:
    exact, rounded = figures["held_out_float32"][0], figures["held_out"]["all"][0]
    return (
        f"Mean loss over the tokens of answers: {exact:.4f} nats before and {rounded:.4f} after rounding to "
        "bfloat16. *Copied* counts greedy first answers that equal the corpus's to the last token; *invent* "
        "and *talk* have free values, so most of their loss is chance that no model can know."
    )


def _target_table(figures: Mapping[str, Any]) -> str:
    rows = ["| task | loss (nats) | tokens | copied |", "|---|---:|---:|---:|"]
    for task, (loss, count) in figures["held_out"].items():
        right, asked = figures["copied"].get(task, (0, 0))
        share = f"{right} of {asked}" if asked else "free"
        rows.append(f"| {task} | {loss:.3f} | {count:,} | {share} |")
    return "\n".join(rows)


def _drafter_table(figures: Mapping[str, Any]) -> str:
    rows = ["| drafter | accepted | 1 | 2 | 3 | 4 | 5 | 6 | 7 | rounds |", "|---|" + "---:|" * 9]
    for name, counts in figures["acceptance"].items():
        cells = [f"{accepted / max(1, tried):.3f}" for accepted, tried in counts]
        cells += [""] * (7 - len(cells))
        mean = f"{mean_accepted(counts):.2f} of {len(counts)}"
        rows.append(f"| {LABELS[name]} | {mean} | {' | '.join(cells)} | {counts[0][1]:,} |")
    return "\n".join(rows)


TEXT_WORDS = """\
Synthetic chat in the template of the Qwen3.5 family, made by `experiments/training/corpus.py` without end:
JSON objects from a sentence or a form, by a list of fields or by a JSON Schema, spaced, compact or indented;
rows of comma-separated values as arrays; forms of `Key: value` lines; tool declarations with calls and
results; questions about a text; copies and lists; invented records; a little talk. Some answers begin with
thinking. Values are copied from the prompt or free: names, made-up words, digits. Nothing is arithmetic and
nothing is knowledge: the model is a subject for decoding, no assistant."""


RERUN_WORDS = """\
```bash
python -m experiments.train_bundled --stage all --minutes 25   # again until it has nothing left to do
python -m experiments.train_bundled --stage all --quick --work build/q --out build/q/model --reports build/q
```"""
RESUME_WORDS = """\
A stopped stage goes on from its last checkpoint in `build/training` and ends with the same bytes as one that
was not stopped, on one machine with one number of threads."""


def _rerun(plan: Plan) -> str:
    return f"{RERUN_WORDS}\n\nSeed {plan.seed}. {RESUME_WORDS}"
