"""What `verify` shows: a live bar, or plain lines where nobody watches, and the table at its end."""

import time
from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table

from experiments.gates import Job
from experiments.verdict import Status, Verdict, explanation, worst_status

STYLES = {Status.PASS: "green", Status.FAIL: "bold red", Status.INCONCLUSIVE: "yellow", Status.SKIPPED: "dim"}
MAX_LINE = 300
NARROW = 100  # columns under which the table leaves out what the report has anyway


class Display:
    """Shows the jobs of a run as they start and finish; a context manager around the whole run."""

    def __init__(self, console: Console, work: Sequence[Job]) -> None:
        self._console = console
        self._work = work
        self._started: dict[int, float] = {}
        self._num_finished = 0
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task("starting", total=len(work))

    def __enter__(self) -> "Display":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def started(self, index: int) -> None:
        """Show that a job has begun."""
        self._started[index] = time.perf_counter()
        self._describe()

    def finished(self, index: int, verdicts: Sequence[Verdict]) -> None:
        """Show a job's verdicts, one line for the job and one more for each that is not a pass."""
        seconds = time.perf_counter() - self._started.pop(index)
        self._num_finished += 1
        self._progress.advance(self._task)
        self._describe()
        worst = worst_status(verdicts)
        count = f"{self._num_finished:>3}/{len(self._work)}"
        line = (
            f"{count}  [{STYLES[worst]}]{worst:<12}[/] {escape(self._work[index].label):<32} {seconds:6.1f} s"
        )
        self._progress.console.print(line)
        for verdict in verdicts:
            if verdict.status is not Status.PASS:
                self._progress.console.print(
                    f"         {escape(_short(verdict))}", style=STYLES[verdict.status]
                )

    def _describe(self) -> None:
        running = " + ".join(self._work[index].label for index in sorted(self._started)) or "done"
        self._progress.update(self._task, description=running)


def _short(verdict: Verdict) -> str:
    text = f"{verdict.path}: {verdict.check}: {explanation(verdict)}"
    return text if len(text) <= MAX_LINE else text[: MAX_LINE - 1] + "…"


def summary_table(verdicts: Sequence[Verdict], width: int) -> Table:
    """The table path x check: verdict, n, what the check could have seen, the worst error and the time."""
    wide = width >= NARROW
    table = Table(box=SIMPLE_HEAD, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))
    for column in ("check", "path", "verdict"):
        table.add_column(column, overflow="fold")
    table.add_column("n", justify="right", no_wrap=True)
    table.add_column("could have seen", overflow="fold", min_width=14)
    if wide:
        table.add_column("worst error", justify="right", no_wrap=True)
        table.add_column("s", justify="right", no_wrap=True)
    previous = ""
    for verdict in verdicts:
        if verdict.name != previous:
            table.add_row(f"[bold]{escape(verdict.name)}[/]")
            previous = verdict.name
        cells = [f"  {escape(verdict.check)}", escape(verdict.path)]
        cells += [f"[{STYLES[verdict.status]}]{verdict.status}[/]", f"{verdict.n:,}"]
        cells += [escape(str(verdict.visible))]
        if wide:
            cells += [error_text(verdict), f"{verdict.seconds:.1f}"]
        table.add_row(*cells)
    return table


def error_text(verdict: Verdict) -> str:
    """The worst error of a verdict for a table: three significant digits, a plain 0 for none."""
    return "0" if verdict.worst_error == 0 else f"{verdict.worst_error:.3g}"
