"""`counterproof trace`: which gate or test proves which clause, and under which planted fault it fails.

The table joins property_tests/clauses.toml with the `pytest.mark.clause` markers and the clause ids named in
experiments/gates (both read without importing them) and with the planted faults. A clause is closed by a
marked test or a gate; in FAULTED groups it also needs a fault that names it, or a written reason (`no_fault`)
why none can exist. Exit code 1: a marker, gate or fault names a clause that does not exist.
"""

import argparse
import ast
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import attrs
from rich.console import Console
from rich.table import Table

from experiments.faults.catalogue import all_faults
from experiments.faults.planting import Fault

ROOT = Path(__file__).resolve().parent.parent
LETTERS = {
    "A": "legal sets, sampling, acceptance, oracles",
    "B": "JSON Schema",
    "C": "model programs",
    "D": "engine, frontend, tools, lifecycle",
    "E": "serving and command line",
    "F": "studies and reports",
}
FAULTED = ("SAMP", "SPEC", "MASK", "TXN", "GBNF", "REGEX", "JSON", "TOOL", "WIN")
CLAUSE_ID = re.compile(r"[A-Z][A-Z0-9]*-[0-9]+")


@attrs.frozen
class Clause:
    """One line of the design: its letter says which delivery closes it.

    `no_fault` says why no fault of it can exist, `open` why its delivery leaves it open.
    """

    clause_id: str
    letter: str
    title: str
    no_fault: str = ""
    open: str = ""

    @property
    def group(self) -> str:
        """The part of the id before the number."""
        return self.clause_id.rpartition("-")[0]


@attrs.frozen
class Row:
    """A clause with everything that speaks for it."""

    clause: Clause
    tests: tuple[str, ...]
    gates: tuple[str, ...]
    faults: tuple[str, ...]

    @property
    def proven(self) -> bool:
        """True where a test or a gate names the clause."""
        return bool(self.tests or self.gates)

    @property
    def needs_fault(self) -> bool:
        """True where the clause is proven, a fault is due, and none is named."""
        due = self.clause.group in FAULTED and not self.clause.no_fault
        return self.proven and due and not self.faults

    @property
    def state(self) -> str:
        """One word for the table: closed, fault missing, or open."""
        if not self.proven:
            return "open"
        return "fault missing" if self.needs_fault else "closed"


def read_clauses(path: Path = ROOT / "property_tests" / "clauses.toml") -> dict[str, Clause]:
    """Every clause by id, in the order of the file."""
    groups = tomllib.loads(path.read_text(encoding="utf-8"))
    found = {}
    for group, entries in groups.items():
        for number, entry in entries.items():
            if number != "title":
                clause_id = f"{group}-{number}"
                found[clause_id] = Clause(clause_id, **entry)
    return found


def _literals(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value


def _markers(decorators: Sequence[ast.expr]) -> Iterator[str]:
    for node in decorators:
        for call in ast.walk(node):
            if (
                isinstance(call, ast.Call)
                and isinstance(call.func, ast.Attribute)
                and call.func.attr == "clause"
            ):
                yield from (text for argument in call.args for text in _literals(argument))


def _marked_in(path: Path) -> Iterator[tuple[str, str]]:
    """(clause, node id) for every marker of a file; a class or a module marks all its tests."""
    file = path.name
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign):  # `pytestmark`, or a test case marked by a call
            target = ast.unparse(node.targets[0])
            name = file if target == "pytestmark" else f"{file}::{target}"
            yield from ((clause, name) for clause in _markers([node.value]))
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield from ((clause, f"{file}::{node.name}") for clause in _markers(node.decorator_list))
        if isinstance(node, ast.ClassDef):
            for inner in (part for part in node.body if isinstance(part, ast.FunctionDef | ast.Assign)):
                decorators = inner.decorator_list if isinstance(inner, ast.FunctionDef) else [inner.value]
                name = f"::{inner.name}" if isinstance(inner, ast.FunctionDef) else ""
                yield from ((clause, f"{file}::{node.name}{name}") for clause in _markers(decorators))


def marked_tests(folder: Path = ROOT / "property_tests") -> dict[str, tuple[str, ...]]:
    """The tests that name each clause."""
    found: dict[str, list[str]] = {}
    for path in sorted(folder.glob("*.py")):
        for clause, test in _marked_in(path):
            found.setdefault(clause, []).append(test)
    return {clause: tuple(dict.fromkeys(tests)) for clause, tests in found.items()}


def gate_clauses(folder: Path = ROOT / "experiments" / "gates") -> dict[str, tuple[str, ...]]:
    """The gate files that name each clause: any string there that is written like a clause id."""
    found: dict[str, list[str]] = {}
    for path in sorted(folder.glob("*.py")):
        for text in _literals(ast.parse(path.read_text(encoding="utf-8"))):
            if CLAUSE_ID.fullmatch(text):
                found.setdefault(text, []).append(f"gate {path.stem}")
    return {clause: tuple(dict.fromkeys(gates)) for clause, gates in found.items()}


def fault_clauses(faults: Sequence[Fault]) -> dict[str, tuple[str, ...]]:
    """The planted faults that name each clause."""
    found: dict[str, list[str]] = {}
    for fault in faults:
        for clause in fault.clauses:
            found.setdefault(clause, []).append(fault.name)
    return {clause: tuple(names) for clause, names in found.items()}


def build() -> tuple[list[Row], dict[str, str]]:
    """The rows of the table, and every unknown clause id with the place that names it."""
    clauses = read_clauses()
    sources: tuple[Mapping[str, tuple[str, ...]], ...] = (
        marked_tests(),
        gate_clauses(),
        fault_clauses(all_faults()),
    )
    rows = [
        Row(clause, *(source.get(clause_id, ()) for source in sources))
        for clause_id, clause in clauses.items()
    ]
    unknown = {
        name: places[0] for source in sources for name, places in source.items() if name not in clauses
    }
    return rows, unknown


def markdown(rows: Sequence[Row]) -> str:
    """The report: how much is closed by letter and by group, then every clause."""
    lines = [
        "# Clauses",
        "",
        "`counterproof trace`. Closed: a marked test or a gate proves it, and where one can exist",
    ]
    lines += ["a planted fault makes a check of it fail. A dash: nothing yet, or no fault needed.", ""]
    lines += ["| letter | delivers | clauses | closed | fault missing | open |", "|---|---|---|---|---|---|"]
    for letter, words in LETTERS.items():
        lines.append(
            f"| {letter} | {words} | {_counts([row for row in rows if row.clause.letter == letter])} |"
        )
    lines += ["", "| group | clauses | closed | fault missing | open |", "|---|---|---|---|---|"]
    for group in dict.fromkeys(row.clause.group for row in rows):
        lines.append(f"| {group} | {_counts([row for row in rows if row.clause.group == group])} |")
    lines += ["", "| clause | letter | says | gate or test | fault | state |", "|---|---|---|---|---|---|"]
    lines += [f"| {' | '.join(_cells(row))} |" for row in rows]
    return "\n".join(lines) + "\n"


def _counts(rows: Sequence[Row]) -> str:
    states = [row.state for row in rows]
    return " | ".join(
        str(n) for n in (len(rows), *(states.count(s) for s in ("closed", "fault missing", "open")))
    )


def _cells(row: Row, limit: int = 3) -> tuple[str, ...]:
    proofs = [*row.gates, *(test.removeprefix("test_").replace(".py::", " ") for test in row.tests)]
    shown = proofs[:limit] + ([f"and {len(proofs) - limit} more"] if len(proofs) > limit else [])
    faults = ", ".join(row.faults[:6]) or row.clause.no_fault or row.clause.open or "—"
    clause = row.clause
    return clause.clause_id, clause.letter, clause.title, "; ".join(shown) or "—", faults, row.state


def _table(rows: Sequence[Row]) -> Table:
    table = Table("clause", "", "says", "gate or test", "fault", "state")
    styles = {"closed": "green", "fault missing": "yellow", "open": "dim"}
    for row in rows:
        table.add_row(*_cells(row), style=styles[row.state])
    return table


def main(argv: list[str] | None = None) -> int:
    """Print the table, write trace.md; 1 when an unknown clause is named."""
    parser = argparse.ArgumentParser("counterproof trace", description=__doc__)
    parser.add_argument("--letter", choices=sorted(LETTERS), help="only the clauses of one delivery")
    parser.add_argument("--open", action="store_true", help="only what is not closed")
    parser.add_argument("--out", type=Path, default=Path("reports"), help="where trace.md goes")
    arguments = parser.parse_args(argv)
    rows, unknown = build()
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "trace.md").write_text(markdown(rows), encoding="utf-8")
    shown = [row for row in rows if arguments.letter in (None, row.clause.letter)]
    shown = [row for row in shown if not (arguments.open and row.state == "closed")]
    console = Console()
    console.print(_table(shown))
    console.print(f"closed {sum(row.state == 'closed' for row in rows)} of {len(rows)} clauses")
    for name, place in unknown.items():
        console.print(f"[bold red]unknown clause {name} named by {place}[/]")
    return 1 if unknown else 0


if __name__ == "__main__":
    raise SystemExit(main())
