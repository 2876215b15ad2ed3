"""Run checks in this process and say of each whether it passed, failed, or could not be judged.

`main([JOB])` reads a job (JSON: checks, result, stop_at_failure) and writes one record per check
to the file `result` as soon as it ends, so that a process that dies still leaves what it had shown. A check
fails by an assertion, a FAIL verdict, or an exception raised while it ran; a module that cannot be imported,
an undefined name or a missing test is no evidence at all: outcome "error".
"""

import contextlib
import io
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

BROKEN = (
    "ImportError",
    "ModuleNotFoundError",
    "SyntaxError",
    "IndentationError",
    "NameError",
    "UnboundLocalError",
)
GATE = "gate:"
SMALL: dict[str, dict[str, Any]] = {  # a fault must show in less than a quick run: most runs are kills
    "exact ops": {"size": "tiny"},
    "legal sets": {"num_grammars": 40, "num_regexes": 40, "num_choices": 40, "num_windows": 120},
    "transactions": {"scripts": 8},
}
PLUGINS = ("_hypothesis_pytestplugin", "pytest_benchmark.plugin")  # the rest only costs time here


@attrs.frozen
class Outcome:
    """How one check ended: "passed", "failed" or "error"; `witness` is the test or verdict that says so."""

    check: str
    outcome: str
    witness: str = ""
    text: str = ""
    seconds: float = 0.0


@attrs.define
class Recorder:
    """A pytest plugin that keeps the first failure and counts what ran."""

    num_passed: int = 0
    failure: tuple[str, str, str] | None = None
    broken: str = ""

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A module that cannot be collected proves nothing."""
        if report.failed:
            self.broken = self.broken or _last_line(report.longreprtext)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the first failure of any phase."""
        if report.failed and self.failure is None:
            self.failure = (report.nodeid, *_exception_of(report))
        self.num_passed += report.passed and report.when == "call"


def _exception_of(report: pytest.TestReport) -> tuple[str, str]:
    crash = getattr(report.longrepr, "reprcrash", None)
    message = crash.message if crash else _last_line(report.longreprtext)
    return message.split(":")[0].split(".")[-1].strip(), " ".join(message.split())[:300]


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


def run_pytest(check: str) -> Outcome:
    """Run one pytest node, stopping at its first failure."""
    recorder = Recorder()
    plugins = [word for plugin in PLUGINS for word in ("-p", plugin)]
    arguments = ["-x", "-q", "-p", "no:cacheprovider", *plugins, check]
    with contextlib.redirect_stdout(io.StringIO()):
        code = pytest.main(arguments, plugins=[recorder])
    if recorder.failure is not None:
        node, kind, message = recorder.failure
        return Outcome(check, "error" if kind in BROKEN else "failed", node, message)
    if recorder.broken or not recorder.num_passed:
        return Outcome(check, "error", text=recorder.broken or f"no test ran (pytest exit code {int(code)})")
    return Outcome(check, "passed", text=f"{recorder.num_passed} tests")


def run_gate(check: str) -> Outcome:
    """Run one gate of `counterproof verify` at its quick size, on the path named after the slash if any."""
    from experiments.gates import GATES, PATHS, Scope, Size, jobs
    from experiments.workers import run_job

    name, _, path = check.removeprefix(GATE).partition("/")
    chosen = tuple(gate for gate in GATES if gate.name == name)
    ops = chosen[0].only_ops[0] if chosen else ""
    scope = Scope(size=Size.QUICK, paths=(path,) if path else PATHS, ops=ops, vocab="toy")
    verdicts = []
    for job in jobs(scope, chosen):
        arguments = {**job.arguments, **SMALL.get(name, {})}
        verdicts += run_job(attrs.evolve(job, arguments=arguments))
        failure = next((verdict for verdict in verdicts if verdict.status == "FAIL"), None)
        if failure is not None:
            text = f"{failure.check}: {failure.detail}"[:300]
            broken = any(failure.detail == f"raised {kind}" for kind in BROKEN)
            return Outcome(check, "error" if broken else "failed", f"{failure.name} ({failure.path})", text)
    unsure = [verdict.check for verdict in verdicts if verdict.status == "INCONCLUSIVE"]
    num_passed = sum(verdict.status == "PASS" for verdict in verdicts)
    if unsure or not num_passed:
        return Outcome(check, "error", text=f"gave no judgement: {', '.join(unsure) or 'nothing ran'}")
    return Outcome(check, "passed", text=f"{num_passed} verdicts")


def run_check(check: str) -> Outcome:
    """Run one check here and time it."""
    runner: Callable[[str], Outcome] = run_gate if check.startswith(GATE) else run_pytest
    started = time.perf_counter()
    try:
        outcome = runner(check)
    except Exception as error:
        outcome = Outcome(check, "error", text=f"{type(error).__name__}: {error}"[:300])
    return attrs.evolve(outcome, seconds=round(time.perf_counter() - started, 2))


def main(arguments: list[str]) -> int:
    """Run the job named on the command line."""
    job: dict[str, Any] = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    with Path(job["result"]).open("a", encoding="utf-8") as out:
        for check in job["checks"]:
            outcome = run_check(check)
            out.write(json.dumps(attrs.asdict(outcome)) + "\n")
            out.flush()
            if job["stop_at_failure"] and outcome.outcome == "failed":
                break
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
