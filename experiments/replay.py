"""`counterproof replay FILE`: make the call of a case file again, op and oracle side by side.

A case of one op call is compared quantity by quantity; a case with a replay function of its own is given to
that function; any other case runs its whole gate again with the same arguments. Exit code 0 when the two
sides agree (the failure is gone), 1 when they differ, 2 when the file is no case file.
"""

import argparse
import importlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from experiments.gates import GATES, Gate, Job

MAX_TEXT = 240
HIDDEN = ("verdict", "job", "traceback", "replay", "rules")


def parser() -> argparse.ArgumentParser:
    """The parser of `counterproof replay`."""
    found = argparse.ArgumentParser(
        prog="counterproof replay",
        description="Run op and oracle side by side on the case file that a failed gate wrote.",
        epilog="exit code: 0 both agree, 1 they differ, 2 not a case file",
    )
    found.add_argument("file", type=Path, metavar="FILE", help="a file from the report's cases/ folder")
    found.add_argument(
        "--ops", choices=("torch", "numpy", "triton"), help="another op set than the one that failed"
    )
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Run `counterproof replay`; returns the exit code."""
    arguments = parser().parse_args(argv)
    console = Console(highlight=False)
    try:
        case = json.loads(arguments.file.read_text(encoding="utf-8"))
        if not isinstance(case, dict) or "kind" not in case:
            raise ValueError("it has no field 'kind'")
        if "replay" in case and not case["replay"].startswith("experiments.gates."):
            raise ValueError(f"it names a function outside experiments.gates: {case['replay']}")
    except (OSError, ValueError) as error:
        print(f"counterproof replay: {arguments.file} is not a case file: {error}", file=sys.stderr)
        return 2
    if arguments.ops:
        case["ops"] = arguments.ops
    _print_header(console, case)
    return _side_by_side(console, case) if _is_call(case) else _whole_gate(console, case)


def _is_call(case: dict[str, Any]) -> bool:
    from experiments.cases import COMPARERS

    return case["kind"] in COMPARERS or "replay" in case


def _print_header(console: Console, case: dict[str, Any]) -> None:
    verdict = case.get("verdict", {})
    if verdict:
        console.print(f"{verdict['gate']} · {verdict['path']} · {verdict['check']}", style="bold")
        console.print(f"found by: {verdict['command']}", style="dim", soft_wrap=True)
    grid = Table.grid(padding=(0, 2))
    for name, value in case.items():
        if name not in HIDDEN:
            grid.add_row(f"[dim]{escape(name)}[/]", escape(_shorten(value)))
    console.print(grid)
    if "traceback" in case:
        console.print(escape(case["traceback"]))


def _shorten(value: Any) -> str:
    if isinstance(value, dict) and "zlib" in value:
        return f"<{value['dtype']} {value['shape']}>"
    text = str(value).rstrip()
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"


def _side_by_side(console: Console, case: dict[str, Any]) -> int:
    from experiments.cases import compare

    lines = _own_function(case["replay"])(case) if "replay" in case else compare(case)
    table = Table(header_style="bold")
    for column in ("quantity", "op", "oracle", ""):
        table.add_column(column, overflow="fold")
    for line in lines:
        mark = "[green]equal[/]" if line.equal else "[bold red]differs[/]"
        table.add_row(escape(line.name), escape(_shorten(line.op)), escape(_shorten(line.oracle)), mark)
    console.print(table)
    differing = sum(not line.equal for line in lines)
    console.print(f"{differing} of {len(lines)} quantities differ" if differing else "op and oracle agree")
    return 1 if differing else 0


def _own_function(entry: str) -> Any:
    """The replay function a case names; `main` has seen that it belongs to a gate."""
    module, _, name = entry.partition(":")
    return getattr(importlib.import_module(module), name)


def _whole_gate(console: Console, case: dict[str, Any], gates: Sequence[Gate] = GATES) -> int:
    from experiments.display import summary_table
    from experiments.workers import run_job

    record = case.get("job", {})
    gate = next((gate for gate in gates if gate.name == record.get("gate")), None)
    if gate is None:
        console.print("this case has no call and no gate to run again", style="red")
        return 2
    console.print("no single call: running the whole gate again with the same arguments")
    verdicts = run_job(Job(gate, record["arguments"]))
    console.print(summary_table(verdicts, console.width))
    for verdict in verdicts:
        if not verdict.ok:
            console.print(escape((verdict.case or {}).get("traceback", verdict.detail)))
    return 0 if all(verdict.ok for verdict in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
