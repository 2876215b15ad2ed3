"""Study: how many drafts of each trained drafter are accepted, by constraint, temperature and position?

Question: what do constraints and temperature do to acceptance, and where in the window is it lost?
Method: every drafter decodes the same questions with the same seeds; at each position of the window the share
of drafts that were accepted, of those judged there, with 95 % Wilson intervals. The target is never changed
for a better share: a refused draft is refused by the exact law (contract 3).
Expected: shares fall with the position and the temperature; a constraint that fixes the form raises them.
Run: python -m experiments.acceptance [--quick] [--model bundled] [--out reports]
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
import matplotlib
import numpy as np
import pandas as pd
import torch
from rich.console import Console
from rich.progress import track

from engine.commands.measure import Request, Watch, run
from engine.commands.model import Model, open_model
from engine.commands.workloads import PEOPLE, WORKLOADS
from engine.request import RequestOptions, SamplingSettings
from engine.runtime.engine import Engine
from engine.runtime.loading import ProgramOptions
from engine.runtime.stats import SpecStats
from experiments.plots import COLOURS, wilson
from experiments.provenance import machine, versions

matplotlib.use("Agg")

from matplotlib import pyplot

DRAFTERS = ("mtp", "dflash", "dflash2", "ngram")
TEMPERATURES = (0.0, 0.7, 1.0)
BATCH = 8
PACKAGES = ("torch", "xgrammar", "llguidance")


@attrs.frozen
class Setting:
    """One curve: a drafter, a kind of constraint, a temperature."""

    drafter: str
    kind: str
    temperature: float


def settings(kinds: Sequence[str], temperatures: Sequence[float]) -> Iterator[Setting]:
    """Every curve."""
    for drafter in DRAFTERS:
        for kind in kinds:
            for temperature in temperatures:
                yield Setting(drafter, kind, temperature)


def questions(model: Model, one: Setting, rounds: int, max_tokens: int) -> Iterator[list[Request]]:
    """Batches of requests: every text of the workload, with other seeds in every batch."""
    workload = WORKLOADS[one.kind]
    for turn in range(rounds):
        batch = []
        for i in range(BATCH):
            seed = BATCH * turn + i
            sampling = SamplingSettings(temperature=one.temperature, seed=seed)
            options = RequestOptions(max_tokens, workload.constraint, sampling)
            batch.append((workload.prompt(model.codec, seed), options))
        yield batch if one.temperature else batch[: len(PEOPLE)]  # greedy: seeds say nothing


def measure(
    model: Model, engine: Engine, watch: Watch, one: Setting, rounds: int, max_tokens: int
) -> list[dict]:
    """One row for each position of the window. Raises what ended a request."""
    stats, num_rounds = SpecStats(), 0
    for batch in questions(model, one, rounds if one.temperature else 1, max_tokens):
        found = run(engine, watch, batch)
        for result in found.results:
            if isinstance(result, Exception):
                raise result
        stats.merge(found.stats)
        num_rounds += found.num_rounds
    common = attrs.asdict(one) | {
        "rounds": num_rounds,
        "accepted length": 1 + stats.num_accepted / num_rounds,
        "rejected by model": stats.num_rejected_by_target,
        "rejected by constraint": stats.num_rejected_by_grammar,
    }
    rows = []
    for position, reached in sorted(stats.reached_at.items()):
        accepted = stats.accepted_at[position]
        low, high = wilson(np.array([accepted]), np.array([reached]))
        share = {"share": accepted / reached, "low": float(low[0]), "high": float(high[0])}
        rows.append({**common, "position": position + 1, "reached": reached, "accepted": accepted, **share})
    return rows


def write(table: pd.DataFrame, out: Path, model: str, command: str) -> None:
    """Write acceptance.csv, .png and .md under `out`."""
    out.mkdir(parents=True, exist_ok=True)
    table.to_csv(out / "acceptance.csv", index=False, float_format="%.4f")
    draw(table, out / "acceptance.png")
    facts = machine() | {name: found for name, found in versions().items() if name in PACKAGES}
    page = [
        "# Acceptance of the trained drafters\n",
        f"`{command}`, model {model}. A share is that of the drafts judged at a position that were accepted;",
        "bars are 95 % Wilson intervals. `tokens a round` is 1 + accepted / rounds, over all positions.",
        "Copied drafts (ngram) are made where the text repeats itself only: their shares are of fewer.\n",
        "; ".join(f"{key} {value}" for key, value in facts.items()) + ".\n",
        "![acceptance by position](acceptance.png)\n",
        *_markdown(table),
        "\nEvery position with its counts and interval is in acceptance.csv.",
    ]
    (out / "acceptance.md").write_text("\n".join(page) + "\n", encoding="utf-8")


def _markdown(table: pd.DataFrame) -> list[str]:
    head = ("drafter", "constraint", "T", "rounds", "tokens a round", "shares by position")
    lines = [f"| {' | '.join(head)} |", "|---|---|--:|--:|--:|---|"]
    for (drafter, kind, temperature), rows in table.groupby(["drafter", "kind", "temperature"], sort=False):
        first = rows.iloc[0]
        shares = " ".join(f"{share:.2f}" for share in rows["share"])
        cells = (
            drafter,
            kind,
            f"{temperature:g}",
            f"{first['rounds']}",
            f"{first['accepted length']:.2f}",
            shares,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def draw(table: pd.DataFrame, path: Path) -> None:
    """A panel for each kind and temperature; a curve for each drafter, an interval at every position."""
    kinds, temperatures = table["kind"].unique(), table["temperature"].unique()
    figure, axes = pyplot.subplots(
        len(kinds),
        len(temperatures),
        figsize=(3.4 * len(temperatures), 2.2 * len(kinds) + 0.6),
        sharex=True,
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    for line, kind in zip(axes, kinds, strict=True):
        for axis, temperature in zip(line, temperatures, strict=True):
            panel = table[(table["kind"] == kind) & (table["temperature"] == temperature)]
            _panel(axis, panel)
            axis.set_title(f"{kind}, temperature {temperature:g}", fontsize=9, loc="left")
    figure.supxlabel("draft position in the window", fontsize=9)
    figure.supylabel("accepted / judged", fontsize=9)
    handles = [pyplot.Line2D([], [], color=COLOURS[d], marker="o", ms=4, label=d) for d in DRAFTERS]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(DRAFTERS), frameon=False, fontsize=9)
    figure.savefig(path, dpi=140)
    pyplot.close(figure)


def _panel(axis: pyplot.Axes, panel: pd.DataFrame) -> None:
    for index, (drafter, rows) in enumerate(panel.groupby("drafter", sort=False)):
        bars = np.maximum(np.stack([rows["share"] - rows["low"], rows["high"] - rows["share"]]), 0)
        places = rows["position"] + 0.08 * (index - 1.5)
        axis.errorbar(places, rows["share"], bars, fmt="o-", ms=3, lw=1, capsize=2, color=COLOURS[drafter])
    counts = panel[panel["position"] == 1]["reached"]
    if len(counts):
        axis.text(
            0.02,
            0.04,
            f"n at position 1: {counts.min():,} to {counts.max():,}",
            transform=axis.transAxes,
            fontsize=7,
        )
    axis.set_ylim(0, 1.05)
    axis.grid(axis="y", alpha=0.3)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure every curve and write the three files."""
    parser = argparse.ArgumentParser(prog="python -m experiments.acceptance", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two kinds, two temperatures, short outputs")
    parser.add_argument("--model", default="bundled", help="bundled or a model directory")
    parser.add_argument("--rounds", type=int, default=6, help="batches of 8 sampled requests a curve (6)")
    parser.add_argument("--out", type=Path, default=Path("reports"), help="folder of the three files")
    arguments = parser.parse_args(argv)
    torch.set_num_threads(1)  # nothing here is timed
    model = open_model(arguments.model)
    kinds = ("json", "tools") if arguments.quick else tuple(WORKLOADS)
    temperatures = TEMPERATURES[:2] if arguments.quick else TEMPERATURES
    rounds, max_tokens = (1, 12) if arguments.quick else (arguments.rounds, 128)
    engines = {}
    rows = []
    for one in track([*settings(kinds, temperatures)], "measuring", console=Console(stderr=True)):
        if one.drafter not in engines:
            program, _ = model.program(ProgramOptions(spec=one.drafter, num_lanes=BATCH))
            watch = Watch()
            engines[one.drafter] = model.engine(program, watch), watch
        rows += measure(model, *engines[one.drafter], one, rounds, max_tokens)
    table = pd.DataFrame(rows)
    words = " ".join(["python -m experiments.acceptance", *(["--quick"] if arguments.quick else [])])
    write(table, arguments.out, model.name, words)
    shown = table.groupby("drafter", sort=False)["accepted length"].agg(["min", "max"])
    print(shown.round(2).to_string())
    return 0


if __name__ == "__main__":
    sys.exit(main())
