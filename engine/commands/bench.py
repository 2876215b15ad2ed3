"""`counterproof bench`: speed, latency, mask cost and acceptance of a model's decoding paths.

For every drafter and constraint kind a batch of --concurrency requests is run: once to warm up and to count
legal ids, then --repeat times under the clock. Tokens a second are means over the repetitions with their
standard deviation; latencies are percentiles over all of them. Exit code 0, or 2 for what makes no sense.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from engine.commands import bench_rows, flags
from engine.commands.complaints import guarded
from engine.commands.measure import DensityProbe, Measurement, Request, Watch, run
from engine.commands.model import Model, open_model, program_options
from engine.commands.prompt import chat_ids
from engine.commands.workloads import WORKLOADS
from engine.request import FinishReason, Message, RequestOptions, Role, SamplingSettings
from engine.runtime.loading import SPECS

EPILOG = """\
examples:
  counterproof bench --spec none --spec dflash2 --constraint json --constraint free
  counterproof bench --concurrency 8 --mixed-constraints --constraint schema --format csv
  counterproof bench --json-schema-file experiments/examples/person.json --prompt "Make up a person."
"""
OWN = "own"  # the workload of the constraint flags and --prompt


@attrs.frozen
class Case:
    """One row of the table: a drafter, a constraint kind, and what is run under the clock."""

    spec: str
    kind: str
    requests: tuple[Request, ...]


def parser() -> argparse.ArgumentParser:
    """The command line."""
    found = argparse.ArgumentParser(
        "counterproof bench",
        description="Measure decoding paths of one model.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    asked = found.add_argument_group("what to run")
    asked.add_argument("--spec", choices=SPECS, action="append", help="drafter; repeat it (default none)")
    asked.add_argument(
        "--constraint", choices=WORKLOADS, action="append", help="kind; repeat it (default free)"
    )
    asked.add_argument("--prompt", metavar="TEXT", help="with a constraint flag below: ask this instead")
    asked.add_argument("--concurrency", type=int, choices=range(1, 9), default=1, help="requests at once (1)")
    asked.add_argument("--mixed-constraints", action="store_true", help="odd requests of a batch are free")
    asked.add_argument(
        "--max-tokens", type=int, default=128, metavar="N", help="most tokens of an answer (128)"
    )
    asked.add_argument("--temperature", type=float, default=0.0, metavar="T", help="default 0, greedy")
    asked.add_argument("--seed", type=int, default=0, help="seed of sampled runs (default 0)")
    asked.add_argument("--repeat", type=int, default=5, metavar="N", help="timed repetitions (default 5)")
    flags.add_constraint_flags(found)
    flags.add_model_flags(found)
    found.add_argument("--format", choices=["table", "json", "csv"], default="table", help="default table")
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Run `counterproof bench`; returns its exit code."""
    found = parser()
    arguments = found.parse_args(argv)
    if arguments.mixed_constraints and arguments.concurrency < 2:
        found.error("--mixed-constraints needs --concurrency 2 or more")
    if arguments.repeat < 1 or arguments.threads < 1 or arguments.max_tokens < 2:
        found.error("--repeat and --threads are at least 1, --max-tokens at least 2")
    source = flags.Source()

    def action() -> int:
        nonlocal source
        source = flags.read_constraint(arguments, found)
        if (source.constraint is None) != (arguments.prompt is None):
            found.error("--prompt goes with a constraint flag, and a constraint flag with --prompt")
        return bench(arguments, source)

    return guarded("bench", action, lambda: source)


def bench(arguments: argparse.Namespace, source: flags.Source) -> int:
    """Measure every case and print the rows."""
    torch.set_num_threads(arguments.threads)
    model = open_model(arguments.model)
    cases = list(cases_of(arguments, source, model))
    rows = [measured_row(arguments, model, case) for case in _tracked(cases)]
    config = {
        "model": model.name,
        "concurrency": arguments.concurrency,
        "mixed_constraints": arguments.mixed_constraints,
        "max_tokens": arguments.max_tokens,
        "temperature": arguments.temperature,
        "repeat": arguments.repeat,
        "threads": arguments.threads,
        "cache": attrs.asdict(model.compiler.counts),
    }
    bench_rows.show(rows, config, arguments.format)
    return 0


def cases_of(arguments: argparse.Namespace, source: flags.Source, model: Model) -> Iterator[Case]:
    """Yield the cases, drafter by drafter."""
    for spec in arguments.spec or ["none"]:
        for kind in [OWN] if source.constraint else arguments.constraint or ["free"]:
            requests = [_request(arguments, source, model, kind, i) for i in range(arguments.concurrency)]
            yield Case(spec, kind, tuple(requests))


def _request(
    arguments: argparse.Namespace, source: flags.Source, model: Model, kind: str, index: int
) -> Request:
    if kind == OWN:
        prompt = chat_ids(model.codec, (Message(Role.USER, arguments.prompt),), thinking=False)
        constraint = source.constraint
    else:
        prompt, constraint = WORKLOADS[kind].prompt(model.codec, index), WORKLOADS[kind].constraint
    if arguments.mixed_constraints and index % 2:
        constraint = None
    sampling = SamplingSettings(temperature=arguments.temperature, seed=arguments.seed + index)
    return prompt, RequestOptions(arguments.max_tokens, constraint, sampling)


def measured_row(arguments: argparse.Namespace, model: Model, case: Case) -> dict[str, Any]:
    """Warm up, measure and sum up one case. Raises what ended a request."""
    program, _ = model.program(program_options(arguments, case.spec, arguments.concurrency))
    probe, watch = DensityProbe(program, model.vocabulary.size), Watch()
    cold = checked(run(model.engine(probe, watch), watch, case.requests), arguments.max_tokens)
    runs = [
        checked(run(model.engine(program, watch), watch, case.requests), arguments.max_tokens)
        for _ in range(arguments.repeat)
    ]
    return bench_rows.row(case.spec, case.kind, runs, cold, probe.density.share)


def checked(measured: Measurement, max_tokens: int) -> Measurement:
    """Return a run whose requests all ended by themselves or at the limit. Raises what else ended one."""
    for result in measured.results:
        if isinstance(result, Exception):
            raise result
        assert result.finish_reason is not FinishReason.LENGTH or len(result.token_ids) == max_tokens
    return measured


def _tracked(cases: Sequence[Case]) -> Iterator[Case]:
    """Yield cases under a progress bar, which is only shown to somebody."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not sys.stderr.isatty(), transient=True) as progress:
        task = progress.add_task("measuring", total=len(cases))
        for case in cases:
            progress.update(task, description=f"{case.spec}, {case.kind}")
            yield case
            progress.advance(task)
