"""The plots of the verification report, drawn from the `series` of the verdicts; legible on a phone.

A verdict may carry `series["law"]` = {labels, counts, probs, what} and `series["acceptance"]` = {reached,
accepted}: counts, never frequencies, so that the error bars are computed here, in one way.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from attrs import frozen

from experiments.verdict import Verdict

matplotlib.use("Agg")

from matplotlib import pyplot
from matplotlib.axes import Axes

Z = 1.96  # error bars are 95 % Wilson intervals
MAX_BARS = 14
PLAIN = "paths"  # the gate of the decoding paths; panels and curves of another gate carry its name
COLOURS = {
    "ordinary": "#4c78a8",
    "mtp": "#f58518",
    "dflash": "#54a24b",
    "dflash2": "#b279a2",
    "ngram": "#9d755d",
}
STYLE = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "figure.dpi": 160,
}


@frozen
class Picture:
    """One plot in the report: the file name beside the page, its title and its caption."""

    file: str
    title: str
    caption: str


def draw(verdicts: Sequence[Verdict], out: Path, about: str) -> list[Picture]:
    """Draw every plot the verdicts have series for; returns them in reading order."""
    laws = [verdict for verdict in verdicts if verdict.series and "law" in verdict.series]
    chains = [verdict for verdict in verdicts if verdict.series and _tried(verdict)]
    pictures = []
    with pyplot.rc_context(STYLE):
        if laws:
            pictures.append(_draw_laws(laws, out / "law.png", about))
        if chains:
            pictures.append(_draw_acceptance(chains, out / "verification_acceptance.png", about))
    return pictures


def _tried(verdict: Verdict) -> bool:
    return any((verdict.series or {}).get("acceptance", {}).get("reached", ()))


def wilson(successes: np.ndarray, trials: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The 95 % Wilson interval (low, high) of each proportion; NaN where there was no trial."""
    with np.errstate(invalid="ignore", divide="ignore"):
        share = successes / trials
        centre = (share + Z**2 / (2 * trials)) / (1 + Z**2 / trials)
        half = Z / (1 + Z**2 / trials) * np.sqrt(share * (1 - share) / trials + Z**2 / (4 * trials**2))
    return centre - half, centre + half


def _interval_bars(counts: np.ndarray, trials: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The proportions and their (2, n) distances to the ends of the interval."""
    low, high = wilson(counts, trials)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = counts / trials
    return share, np.maximum(np.stack([share - low, high - share]), 0.0)


def _draw_laws(laws: Sequence[Verdict], file: Path, about: str) -> Picture:
    figure, axes = pyplot.subplots(
        len(laws), 1, figsize=(6.0, 0.9 + 1.75 * len(laws)), sharey=True, squeeze=False, layout="constrained"
    )
    for axis, verdict in zip(axes[:, 0], laws, strict=True):
        _law_panel(axis, verdict, verdict.series["law"])
    what = laws[0].series["law"].get("what", "outcome")
    axes[-1, 0].set_xlabel(f"{what} {laws[0].check.partition('(')[2].rstrip(')')}".rstrip())
    figure.supylabel("probability", fontsize=10)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    axes[0, 0].legend(handles[::-1], labels[::-1], loc="upper right", frameon=False, fontsize=9, ncols=2)
    figure.suptitle(about, fontsize=9, color="0.35")
    figure.savefig(file)
    pyplot.close(figure)
    caption = (
        "Bars: how often the engine emitted each outcome, with 95 % Wilson intervals. Marks: the exact "
        "probability of ordinary masked sampling in the float64 oracle. Every path must lie on the marks."
    )
    return Picture(file.name, "The law of each path against the oracle", caption)


def _title(verdict: Verdict) -> str:
    """The path, and what was decoded where it is not plain tokens."""
    return verdict.path if verdict.name == PLAIN else f"{verdict.path}, {verdict.name}"


def _law_panel(axis: Axes, verdict: Verdict, law: dict[str, Any]) -> None:
    labels, counts, probs = _largest(law)
    share, bars = _interval_bars(counts, np.full(len(counts), float(sum(law["counts"]))))
    places = np.arange(len(labels))
    colour = COLOURS.get(verdict.path, "0.5")
    style = {"ecolor": "0.25", "capsize": 2, "error_kw": {"lw": 1}}
    axis.bar(places, share, yerr=bars, width=0.7, color=colour, alpha=0.75, label="engine", **style)
    axis.scatter(places, probs, marker="_", s=220, lw=2, color="black", zorder=3, label="oracle")
    turned = max(map(len, labels)) > 4
    axis.set_xticks(
        places, labels, rotation=40 if turned else 0, ha="right" if turned else "center", fontsize=8
    )
    n = f"n = {int(sum(law['counts'])):,}"
    axis.set_title(f"{_title(verdict)}   {n}   could have seen: {verdict.visible}")
    axis.margins(y=0.15)


def _largest(law: dict[str, Any]) -> tuple[list[str], np.ndarray, np.ndarray]:
    """The most probable outcomes, at most MAX_BARS, with all others together in one last bar."""
    labels, counts, probs = law["labels"], np.asarray(law["counts"], float), np.asarray(law["probs"], float)
    order = np.argsort(-probs, kind="stable")
    if len(order) <= MAX_BARS:
        return [str(labels[i]) for i in order], counts[order], probs[order]
    kept, rest = order[: MAX_BARS - 1], order[MAX_BARS - 1 :]
    names = [str(labels[i]) for i in kept] + [f"{len(rest)} more"]
    return names, np.append(counts[kept], counts[rest].sum()), np.append(probs[kept], probs[rest].sum())


def _draw_acceptance(chains: Sequence[Verdict], file: Path, about: str) -> Picture:
    figure, axis = pyplot.subplots(figsize=(6.0, 4.4), layout="constrained")
    for index, verdict in enumerate(chains):
        series = verdict.series["acceptance"]
        reached, accepted = (np.asarray(series[key], float) for key in ("reached", "accepted"))
        share, bars = _interval_bars(accepted, reached)
        places = np.arange(1, len(reached) + 1) + 0.06 * (index - (len(chains) - 1) / 2)
        colour = COLOURS.get(verdict.path, "0.5")
        label = f"{_title(verdict)} (n = {int(reached[0]):,})"
        axis.errorbar(places, share, bars, fmt="o-", ms=5, lw=1.2, capsize=3, color=colour, label=label)
    axis.set_xticks(range(1, 1 + max(len(v.series["acceptance"]["reached"]) for v in chains)))
    axis.set_xlabel("draft position in the verification window")
    axis.set_ylabel("accepted / reached")
    axis.set_ylim(0, min(1.02, 1.1 * axis.get_ylim()[1]))
    axis.grid(axis="y", alpha=0.3)
    figure.legend(loc="outside lower center", frameon=False, fontsize=9, ncols=2)
    axis.set_title(about, fontsize=9, color="0.35")
    figure.savefig(file)
    pyplot.close(figure)
    caption = (
        "Share of drafts accepted at each position of the window, given that the position was reached, with "
        "95 % Wilson intervals; n is the number of drafts at position 1. The drafters are bad on purpose "
        "(illegal tokens, ids out of range, early ends), so a low share is no fault."
    )
    return Picture(file.name, "Acceptance by draft position", caption)
