"""The verification report: verification.json with every verdict, verification.md to read, plots, case files.

Every number can be traced: the report holds the command, the seed, the versions, the kind of machine, each n
and what each check could have seen. It holds no host name and no local path.
"""

import datetime
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attrs import asdict, field, frozen

from experiments import plots
from experiments.display import error_text
from experiments.gates import GATES, Scope
from experiments.provenance import machine, versions
from experiments.verdict import Status, Verdict, explanation, worst_status

MARKS = {Status.PASS: "✅", Status.FAIL: "❌", Status.INCONCLUSIVE: "❔", Status.SKIPPED: "–"}


@frozen
class Run:
    """One finished run of `verify`: what was asked, what came out, how long it took in seconds."""

    scope: Scope
    command: str
    verdicts: tuple[Verdict, ...]
    seconds: float
    notes: tuple[str, ...] = ()
    interrupted: bool = False
    date: str = field(factory=lambda: datetime.datetime.now(datetime.UTC).date().isoformat())


@frozen
class Files:
    """The files a report was written to."""

    report: Path
    cases: tuple[Path, ...]


def write_report(run: Run, out: Path) -> Files:
    """Write verification.json, verification.md, the plots and the case files under `out`."""
    out.mkdir(parents=True, exist_ok=True)
    cases = write_cases(run, out / "cases")
    pictures = plots.draw(run.verdicts, out, _caption(run))
    (out / "verification.json").write_text(dump(_record(run)), encoding="utf-8")
    report = out / "verification.md"
    report.write_text("\n".join(_page(run, pictures)) + "\n", encoding="utf-8")
    return Files(report, tuple(cases))


def dump(record: Any) -> str:
    """`record` as JSON text; numpy and torch numbers and arrays become plain ones."""
    return json.dumps(record, indent=1, ensure_ascii=False, default=_plain) + "\n"


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    if isinstance(value, bytes):
        return value.hex()
    return str(value)


def write_cases(run: Run, folder: Path) -> list[Path]:
    """Write one case file per verdict that carries a case; files of earlier runs are removed first."""
    for old in folder.glob("*.json"):
        old.unlink()
    files = []
    for index, verdict in enumerate(run.verdicts):
        if verdict.case is None or verdict.ok:
            continue
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{index:03}-{_slug(verdict.name)}-{_slug(verdict.path)}-{_slug(verdict.check)}.json"
        header = {
            "gate": verdict.name,
            "path": verdict.path,
            "check": verdict.check,
            "detail": verdict.detail,
        }
        header |= {"command": run.command, "ops": run.scope.ops, "run_seed": run.scope.seed}
        file.write_text(dump({"verdict": header, **verdict.case}), encoding="utf-8")
        files.append(file)
    return files


def _slug(text: str) -> str:
    return re.sub("[^a-z0-9]+", "-", text.lower()).strip("-")[:40]


def _record(run: Run) -> dict[str, Any]:
    record = asdict(
        run, value_serializer=lambda _, __, value: str(value) if isinstance(value, Status) else value
    )
    for verdict in record["verdicts"]:
        del verdict["case"]
    return {"versions": versions(), "machine": machine()} | record


def _caption(run: Run) -> str:
    scope = run.scope
    model = f", model {scope.model}" if scope.model else ""
    return f"{scope.size} run, vocabulary {scope.vocab}{model}, ops {scope.ops}, seed {scope.seed}"


def _page(run: Run, pictures: Sequence[plots.Picture]) -> list[str]:
    lines = ["# Verification report", "", _headline(run), ""]
    lines += [f"> {note}" for note in run.notes]
    lines += ["", "```", run.command, "```", ""]
    lines += _overview(run.verdicts)
    lines += _troubles(run.verdicts)
    for picture in pictures:
        lines += [f"## {picture.title}", "", f"![{picture.title}]({picture.file})", "", picture.caption, ""]
    lines += ["## Every check", ""]
    for name in dict.fromkeys(verdict.name for verdict in run.verdicts):
        lines += _gate_section(name, [verdict for verdict in run.verdicts if verdict.name == name])
    return lines + _provenance(run)


def _headline(run: Run) -> str:
    counts = {status: sum(v.status is status for v in run.verdicts) for status in Status}
    parts = [f"{counts[Status.PASS]} of {len(run.verdicts)} checks pass"]
    parts += [f"{counts[s]} {s}" for s in (Status.FAIL, Status.INCONCLUSIVE, Status.SKIPPED) if counts[s]]
    text = f"**{', '.join(parts)}** · {_caption(run)} · {run.seconds:.0f} s"
    return f"{text} · **interrupted**" if run.interrupted else text


def _overview(verdicts: Sequence[Verdict]) -> list[str]:
    """The matrix of gates and paths: one mark and the number of checks behind it per cell."""
    paths = list(dict.fromkeys(verdict.path for verdict in verdicts))
    paths.sort(key=lambda path: path != "all")
    lines = ["| gate | " + " | ".join(paths) + " |", "|---|" + ":-:|" * len(paths)]
    for name in dict.fromkeys(verdict.name for verdict in verdicts):
        cells = [_cell([v for v in verdicts if v.name == name and v.path == path]) for path in paths]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    legend = " · ".join(f"{mark} {status}" for status, mark in MARKS.items())
    return [*lines, "", f"A cell is the worst verdict and the number of checks: {legend}", ""]


def _cell(members: Sequence[Verdict]) -> str:
    if not members:
        return ""
    return f"{MARKS[worst_status(members)]} {len(members)}"


def _troubles(verdicts: Sequence[Verdict]) -> list[str]:
    bad = [verdict for verdict in verdicts if verdict.status is not Status.PASS]
    if not bad:
        return []
    lines = ["## Not passed, or left out", ""]
    for verdict in bad:
        words = _inline(explanation(verdict))
        lines.append(
            f"- {MARKS[verdict.status]} **{verdict.name}**, {verdict.path}, {verdict.check}: {words}"
        )
    return [*lines, ""]


def _gate_section(name: str, members: Sequence[Verdict]) -> list[str]:
    gate = next((gate for gate in GATES if gate.name == name), None)
    clauses = sorted({clause for verdict in members for clause in verdict.clauses}, key=_natural)
    lines = [f"### {name}", ""]
    if gate is not None:
        lines += [f"{gate.question} n counts {gate.unit}.", ""]
    lines += [
        "| path | check | verdict | n | could have seen | worst error | s |",
        "|---|---|---|--:|---|--:|--:|",
    ]
    for v in members:
        cells = [v.path, v.check, f"{MARKS[v.status]} {v.status}", f"{v.n:,}", str(v.visible), error_text(v)]
        lines.append("| " + " | ".join(_inline(cell) for cell in [*cells, f"{v.seconds:.1f}"]) + " |")
    notes = [f"- {v.path}, {v.check}: {_inline(v.detail)}" for v in members if v.detail]
    if notes:
        lines += ["", "<details><summary>What was done</summary>", "", *notes, "", "</details>"]
    if clauses:
        lines += ["", f"Clauses: {', '.join(clauses)}."]
    return [*lines, ""]


def _natural(clause: str) -> tuple[str, int]:
    group, _, number = clause.rpartition("-")
    return group, int(number)


def _inline(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")


def _provenance(run: Run) -> list[str]:
    scope = run.scope
    rows = {"command": f"`{run.command}`", "seed": str(scope.seed), "date": run.date}
    rows |= machine() | versions()
    lines = ["## Where these numbers come from", "", "| | |", "|---|---|"]
    lines += [f"| {name} | {_inline(value)} |" for name, value in rows.items()]
    return [*lines, "", "The same numbers, with the series behind the plots, are in verification.json."]
