"""The report of the throughput study: CSV with every number, a chart of the ratios, a page to read."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
from rich.console import Console

from experiments.provenance import machine, versions

matplotlib.use("Agg")

from matplotlib import pyplot

CONSOLE = Console(stderr=True)
PACKAGES = ("torch", "xgrammar", "llguidance", "transformers")
COMMAND = "python -m experiments.throughput"


def write(table: pd.DataFrame, out: Path, notes: Sequence[str], threads: int, model: str) -> list[str]:
    """Write throughput.csv, .png and .md under `out`; returns one line for each promise."""
    out.mkdir(parents=True, exist_ok=True)
    table.to_csv(out / "throughput.csv", index=False, float_format="%.4f")
    draw(table, out / "throughput.png")
    lines = promises(table)
    facts = machine() | {name: found for name, found in versions().items() if name in PACKAGES}
    page = [
        "# Decoding speed of the bundled weights\n",
        f"`{COMMAND}`, model {model}, float32, greedy, {threads} thread(s) on both sides,",
        f"{table['n'].max()} turn(s). A turn runs both sides one after the other; a ratio is that of a turn,",
        "the table has its median, least and greatest. Prefill is no part of any rate. `most` is K + 1, the",
        "tokens of a round whose drafts are all accepted; `round / step` is the time of a drafting round",
        "over that of an ordinary step: the ratio of a path is its accepted length over that cost. Elsewhere",
        "it is step over step: free and constrained answers may differ in length, and a batch thins out.\n",
        "; ".join(f"{key} {value}" for key, value in facts.items()) + ".\n",
        *(f"> {note}\n" for note in notes),
        *lines,
        "\n![ratios of tokens a second](throughput.png)\n",
        *_markdown(table),
    ]
    (out / "throughput.md").write_text("\n".join(page) + "\n", encoding="utf-8")
    return lines


def promises(table: pd.DataFrame) -> list[str]:
    """One line for each comparison: the worst median over its workloads against what is needed."""
    lines = []
    for what, rows in table.groupby("comparison", sort=False):
        worst = rows.loc[rows["ratio"].idxmin()]
        state = "met" if worst["ratio"] >= worst["needed"] else "NOT met"
        where = f"{worst['workload']}, batch {worst['batch']}"
        lines.append(
            f"- {what}: at least {worst['needed']} needed, {worst['ratio']:.2f} at worst ({where}): {state}."
        )
    return lines


def _markdown(table: pd.DataFrame) -> list[str]:
    rows = [list(table.columns), ["---"] * len(table.columns)]
    rows += [[_cell(value) for value in row] for row in table.to_numpy().tolist()]
    return [f"| {' | '.join(row)} |" for row in rows]


def _cell(value: object) -> str:
    if isinstance(value, float):
        return "" if value != value else f"{value:.0f}" if value >= 20 else f"{value:.2f}"
    return str(value)


def draw(table: pd.DataFrame, path: Path) -> None:
    """Points of the median ratio with a bar from the least to the greatest, and what is needed."""
    figure, axis = pyplot.subplots(figsize=(8, 1.2 + 0.3 * len(table)), layout="constrained")
    places = np.arange(len(table))[::-1]
    ratio = table["ratio"].to_numpy()
    bars = np.stack([ratio - table["ratio low"], table["ratio high"] - ratio])
    groups = list(dict.fromkeys(table["comparison"]))
    for index, group in enumerate(groups):
        mine = (table["comparison"] == group).to_numpy()
        style = {"fmt": "o", "ms": 5, "capsize": 3, "color": f"C{index}"}
        axis.errorbar(ratio[mine], places[mine], xerr=bars[:, mine], **style)
    axis.scatter(table["needed"], places, marker="|", s=140, color="black", label="needed")
    names = zip(table["comparison"], table["workload"], table["batch"], strict=True)
    axis.set_yticks(places, [f"{what}, {case}, batch {batch}" for what, case, batch in names], fontsize=8)
    axis.axvline(1, color="grey", linewidth=0.8, linestyle=":")
    axis.set_xlim(left=0)
    axis.set_xlabel(f"ratio of tokens a second: median, least and greatest of n = {table['n'].max()} turns")
    axis.grid(axis="x", alpha=0.3)
    axis.legend(loc="lower left", frameon=False, fontsize=8)
    figure.savefig(path, dpi=140)
    pyplot.close(figure)
