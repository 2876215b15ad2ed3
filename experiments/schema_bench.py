"""Study: is every JSON schema that is accepted enforced exactly, and what does it cost, beside two libraries?

Question: over real schemas and the official suite, which instances does each engine get wrong, which schemas
does it refuse and why, and how long do compiles and masks take?
Method: every instance is walked token by token (schema_walk), judged (schema_judge) in a process per engine
that can be killed (schema_worker), the engines in turns on the same schema. Then cold builds beside a running
stream (schema_stream).
Expected: the project has no false accept and no false refusal, compiles 95 % of the sample, p50 within 3 ms,
masks within 30 us at the median and 20 ms at worst.
Run: python -m experiments.schema_bench [--quick] [--limit N] [--names FILE] [--skip-peers] [--out reports]
"""

import argparse
import contextlib
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

from engine.errors import RequestError
from engine.request import OutputConstraint
from experiments import schema_pages
from experiments.schema_data import SAMPLE, SUITE, Case, chosen, data_folder, sample, suite
from experiments.schema_engines import DEFAULT_PEERS, ENGINES, PROJECT, Options, Project
from experiments.schema_known import known
from experiments.schema_pages import Part, Run
from experiments.schema_stream import Build, measure
from experiments.schema_worker import Limits, Worker, workers
from experiments.workers import sigterm_as_interrupt

QUICK = 60  # cases of each part
NUM_BUILDS = 30  # cold builds beside the stream: so many slow ones, as many others
PARTS = ("sample", "suite", "known", "stream")
CONSOLE = Console(stderr=True)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    found = argparse.ArgumentParser(
        prog="python -m experiments.schema_bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = found.add_argument
    add("--data", type=Path, default=data_folder() / SAMPLE, metavar="FILE", help="schemas, JSON lines")
    add("--suite", type=Path, default=data_folder() / SUITE, metavar="DIR", help="the official suite")
    add("--parts", type=_listed(PARTS), default=list(PARTS), help=f"of {','.join(PARTS)}")
    add("--names", type=Path, metavar="FILE", help="only the cases with these names, one a line")
    add("--limit", type=int, metavar="N", help="at most N cases of each part, spread over all of them")
    add("--quick", action="store_true", help=f"--limit {QUICK}")
    add("--skip-peers", action="store_true", help="the project alone")
    add("--engines", type=_listed(ENGINES), help=f"of {','.join(ENGINES)}; instead of the default three")
    add("--unknown-keywords", choices=("refuse", "annotate"), default="annotate")
    add("--whitespace", choices=("bounded", "fixed", "compact"), default="bounded")
    add("--seconds", type=float, default=20.0, help="time guard for one compile; three times it for a walk")
    add("--out", type=Path, default=Path("reports"), help="folder of schema.json, .md and .png")
    return found


def _listed(allowed: Sequence[str]) -> Any:
    def names(text: str) -> list[str]:
        found = text.split(",")
        if unknown := set(found) - set(allowed):
            raise argparse.ArgumentTypeError(f"unknown: {', '.join(sorted(unknown))}")
        return found

    return names


def engines_of(arguments: argparse.Namespace) -> list[str]:
    """The engines to run, in order; the project only where it has the entry."""
    if arguments.engines:
        return arguments.engines
    found = [PROJECT] if hasattr(OutputConstraint, "json_schema") else []
    return found + ([] if arguments.skip_peers else list(DEFAULT_PEERS))


def cases_of(arguments: argparse.Namespace) -> dict[str, list[Case]]:
    """The chosen cases of the sample, the suite and the known faults."""
    text = arguments.names.read_text(encoding="utf-8") if arguments.names else None
    names = None if text is None else frozenset(line.strip() for line in text.splitlines())
    limit = arguments.limit or (QUICK if arguments.quick else None)
    sources = {"sample": sample(arguments.data), "suite": suite(arguments.suite), "known": known()}
    found = {part: chosen(cases, names, limit) for part, cases in sources.items() if part in arguments.parts}
    return {part: cases for part, cases in found.items() if cases}


def judged(cases: Sequence[Case], found: Sequence[Worker], label: str) -> Part:
    """Every case on every engine, the engines in turns."""
    results: dict[str, list] = {worker.engine: [] for worker in found}
    for case in track(cases, label, console=CONSOLE):
        for worker in found:
            results[worker.engine].append(worker.judge(case))
    return Part(cases, results)


def stream_study(options: Options, part: Part) -> dict[str, Any]:
    """Cold builds of the project beside a running stream, in this process: the slowest ones, then others."""
    project = Project(options)
    compiled = [r for r in part.results[PROJECT] if r.outcome == "compiled"]
    slow = {r.name for r in sorted(compiled, key=lambda r: -r.compile_seconds)[:NUM_BUILDS]}
    others = [case for case in part.cases if case.name not in slow]
    cases = [case for case in part.cases if case.name in slow]
    cases += chosen(iter(others), None, NUM_BUILDS)

    def fresh_build() -> Build:
        compiler = Project(options, project.vocabulary).compiler

        def build(case: Case) -> None:
            with contextlib.suppress(RequestError):  # a refused schema has cost its time too
                compiler.compile(project.constraint(case))

        return build

    return measure(project.compiler, cases, fresh_build)


def main(argv: Sequence[str] | None = None) -> int:
    """Run, write the three files, print the promises; 1 when one is not met."""
    arguments = parser().parse_args(argv)
    options = Options(arguments.unknown_keywords, arguments.whitespace)
    engines, parts, begin = engines_of(arguments), cases_of(arguments), time.perf_counter()
    limits = Limits(arguments.seconds, 3 * arguments.seconds)
    with sigterm_as_interrupt(), workers(engines, options, limits) as found:
        done = {name: judged(cases, found, name) for name, cases in parts.items()}
    stream = None
    if "stream" in arguments.parts and PROJECT in engines and "sample" in parts:
        stream = stream_study(options, done["sample"])
    command = " ".join(["python -m experiments.schema_bench", *_public(argv)])
    run = Run(command, options, done, stream, time.perf_counter() - begin)
    record = schema_pages.write(run, arguments.out)
    for promise in record.get("promises", []):
        mark = "met    " if promise["met"] else "NOT MET"
        print(f"{mark}  {promise['promise']}: {promise['seen']} (bar {promise['bar']})")
    return int(not all(promise["met"] for promise in record.get("promises", [])))


def _public(argv: Sequence[str] | None) -> list[str]:
    """The command line without local paths: the last part of each is enough."""
    words = list(sys.argv[1:] if argv is None else argv)
    return [Path(word).name if "/" in word else word for word in words]


if __name__ == "__main__":
    sys.exit(main())
