"""`counterproof faults`: plant, run, print the kill matrix, write faults.{json,md}; exit 1 if one lives."""

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from experiments.faults.catalogue import CATALOGUE, GROUPS, NOT_PLANTED, select
from experiments.faults.child import GATE
from experiments.faults.judge import Fate, Result, run
from experiments.faults.planting import Fault

STYLES = {Fate.KILLED: "green", Fate.LIVED: "bold red", Fate.ERROR: "bold yellow"}
WORDS = {"failed": "killed", "passed": "lived", "error": "error"}
OWN = 200  # from this number on a fault is the project's own; --quick leaves those out


def parser() -> argparse.ArgumentParser:
    """The options of `counterproof faults`."""
    found = argparse.ArgumentParser("counterproof faults", description=__doc__)
    found.add_argument("--group", nargs="+", default=[], choices=sorted(GROUPS), help="only these groups")
    found.add_argument("--number", nargs="+", default=[], type=int, help="only these numbers")
    found.add_argument(
        "--quick",
        action="store_true",
        help="the catalogue's own numbers only",
    )
    found.add_argument(
        "--every-check", action="store_true", help="run every check that claims a fault, not up to the kill"
    )
    found.add_argument("--workers", type=int, default=2, help="faults tried at a time")
    found.add_argument("--out", type=Path, default=Path("reports"), help="where the reports go")
    return found


def main(argv: list[str] | None = None) -> int:
    """Run the command; 0 when every chosen fault is killed."""
    arguments = parser().parse_args(argv)
    console = Console()
    faults = select(arguments.group, arguments.number)
    if not faults:
        console.print("[yellow]no fault has been chosen[/]")
        return 1
    if arguments.quick and not arguments.number:
        faults = [fault for fault in faults if fault.number < OWN]
    started = time.perf_counter()
    results = _run_with_progress(console, faults, arguments.workers, not arguments.every_check)
    seconds = time.perf_counter() - started
    console.print(_matrix(results))
    whole = not (arguments.group or arguments.number)
    if whole:
        _write(arguments.out, results, seconds, "--quick" if arguments.quick else "")
    killed = sum(result.fate is Fate.KILLED for result in results)
    console.print(f"{killed} of {len(results)} faults killed in {seconds:.0f} s")
    return 0 if killed == len(results) else 1


def _run_with_progress(
    console: Console, faults: Sequence[Fault], num_workers: int, stop: bool
) -> list[Result]:
    columns = (TextColumn("{task.description:<36}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    results = []
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("faults", total=len(faults))

        def started(label: str) -> None:
            progress.update(task, description=label)

        for result in run(faults, num_workers=num_workers, stop=stop, started=started):
            results.append(result)
            progress.advance(task)
            if result.fate is not Fate.KILLED:
                progress.console.print(f"[{STYLES[result.fate]}]{result.fate}[/] {_headline(result)}")
    return sorted(results, key=lambda result: (result.fault.group, result.fault.number))


def _headline(result: Result) -> str:
    return f"{result.fault.name} {result.fault.title}" + (f" ({result.reason})" if result.reason else "")


def short(check: str) -> str:
    """A check's name without the folder every test shares."""
    return check.removeprefix("property_tests/").replace("::", " ") if not check.startswith(GATE) else check


def _matrix(results: Sequence[Result]) -> Table:
    table = Table("fault", "what is broken", "check", "outcome", title="Kill matrix")
    for result in results:
        rows = [(short(o.check), WORDS[o.outcome]) for o in result.outcomes] or [("", result.reason)]
        for index, (check, outcome) in enumerate(rows):
            lead = (result.fault.name, result.fault.title) if index == 0 else ("", "")
            style = {"killed": "green", "lived": "red"}.get(outcome, "yellow")
            table.add_row(*lead, check, f"[{style}]{outcome}[/]")
    return table


def _write(folder: Path, results: Sequence[Result], seconds: float, flags: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    record = {"command": f"counterproof faults {flags}".strip(), "seconds": round(seconds)}
    record["faults"] = [_as_json(result) for result in results]
    (folder / "faults.json").write_text(
        json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    (folder / "faults.md").write_text(markdown(results, seconds, record["command"]), encoding="utf-8")


def _as_json(result: Result) -> dict[str, Any]:
    fault = result.fault
    return {
        "fault": fault.name,
        "title": fault.title,
        "clauses": list(fault.clauses),
        "fate": str(result.fate),
        "reason": result.reason,
        "checks": [attrs.asdict(outcome) for outcome in result.outcomes],
    }


def markdown(results: Sequence[Result], seconds: float, command: str) -> str:
    """The kill matrix as a report: a summary per group, every fault, and what is not planted."""
    lines = [
        "# Planted faults",
        "",
        f"`{command}`, {seconds:.0f} s. A fault counts as killed when a check that passes",
    ]
    lines += ["on the unplanted code fails on the planted one.", ""]
    lines += ["| group | planted | killed | lived | error |", "|---|---|---|---|---|"]
    for group, title in GROUPS.items():
        fates = [result.fate for result in results if result.fault.group == group]
        counts = " | ".join(str(fates.count(fate)) for fate in Fate)
        lines.append(f"| {group} {title} | {len(fates)} | {counts} |")
    lines += ["", "| fault | what is broken | check | outcome | seen by |", "|---|---|---|---|---|"]
    for result in results:
        lines += _rows(result)
    lines += ["", "## Not planted", "", "| number | reason |", "|---|---|"]
    lines += [f"| {_named(number)} | {reason} |" for number, reason in NOT_PLANTED.items()]
    return "\n".join(lines) + "\n"


def _rows(result: Result) -> list[str]:
    rows = []
    for outcome in result.outcomes or (None,):
        title = result.fault.title.replace("|", "\\|")
        lead = f"| {result.fault.name} | {title} |" if not rows else "| | |"
        if outcome is None:
            rows.append(f"{lead} | {result.fate} | {result.reason} |")
            continue
        witness = outcome.witness.rpartition("::")[2] or outcome.text
        rows.append(
            f"{lead} {short(outcome.check)} | {WORDS[outcome.outcome]} | {witness.replace('|', '/')[:90]} |"
        )
    return rows


def _named(number: int) -> str:
    return next(f"{group}{number}" for group, numbers in CATALOGUE.items() if number in numbers)


if __name__ == "__main__":
    raise SystemExit(main())
