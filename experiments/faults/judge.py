"""Plant every fault, one at a time, each in a process of its own, and see that the checks claiming it fail.

A check counts only if it passes on the unplanted copy (the baseline, run first in the same way). A fault is
`killed` when at least one claimed check that counts fails, `lived` when every one still passes, and `error`
when it could not be planted or no claimed check could judge it; only `killed` leaves the run green.
"""

import enum
import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import attrs

from experiments.faults.child import Outcome
from experiments.faults.planting import Copy, Fault, PlantError

SOURCE = Path(__file__).resolve().parents[2]
BASELINE_LIMIT = 600.0  # seconds for one check on the unplanted copy
NOT_RUN = "not run"
SLACK = 30.0  # seconds a planted check may take beyond six times its baseline


class Fate(enum.StrEnum):
    """What became of a fault."""

    KILLED = "killed"
    LIVED = "lived"
    ERROR = "error"


@attrs.frozen
class Result:
    """One fault with the outcome of each check that claims it."""

    fault: Fault
    fate: Fate
    outcomes: tuple[Outcome, ...] = ()
    reason: str = ""


def run_checks(root: Path, checks: Sequence[str], limits: Mapping[str, float]) -> list[Outcome]:
    """Run `checks` in one fresh process inside the copy at `root`; a hang or a crash is an outcome too."""
    result, job = root / "result.jsonl", root / "job.json"
    result.unlink(missing_ok=True)
    job.write_text(json.dumps({"checks": list(checks), "result": str(result)}), encoding="utf-8")
    limit = sum(limits.get(check, BASELINE_LIMIT) for check in checks)
    command = [sys.executable, "-m", "experiments.faults.child", str(job)]
    log = root / "log.txt"
    with log.open("w", encoding="utf-8") as out:
        try:
            code = subprocess.run(
                command, cwd=root, stdout=out, stderr=out, timeout=limit, check=False
            ).returncode
            ended = _exit_words(code)
        except subprocess.TimeoutExpired:
            ended = f"did not end within {limit:.0f} s"
    lines = result.read_text(encoding="utf-8").splitlines() if result.exists() else []
    outcomes = [Outcome(**json.loads(line)) for line in lines]
    return outcomes + _unfinished(checks[len(outcomes) :], ended, log)


def _exit_words(code: int) -> str:
    return f"its process was ended by {signal.Signals(-code).name}" if code < 0 else ""


def _unfinished(checks: Sequence[str], ended: str, log: Path) -> list[Outcome]:
    """The check that was running when the process hung or died has failed; the ones behind it never ran."""
    if not checks:
        return []
    if not ended:
        tail = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
        words = f"the process ended early: {''.join(tail)}"
        return [Outcome(checks[0], "error", text=words)] + [
            Outcome(c, "error", text=NOT_RUN) for c in checks[1:]
        ]
    return [Outcome(checks[0], "failed", text=ended)] + [
        Outcome(c, "error", text=NOT_RUN) for c in checks[1:]
    ]


def baseline(checks: Iterable[str], source: Path = SOURCE) -> dict[str, Outcome]:
    """Run every claimed check once on an unplanted copy."""
    left = sorted(set(checks))
    outcomes: dict[str, Outcome] = {}
    with tempfile.TemporaryDirectory(prefix="counterproof-") as folder:
        root = Copy.make(source, Path(folder) / "tree").root
        while left:
            done = [outcome for outcome in run_checks(root, left, {}) if outcome.text != NOT_RUN]
            outcomes |= {outcome.check: outcome for outcome in done}
            left = left[len(done) :]
    return outcomes


def judge(fault: Fault, unplanted: Mapping[str, Outcome], source: Path = SOURCE) -> Result:
    """Plant one fault in a copy of its own and run the checks that claim it."""
    counting = [check for check in fault.checks if unplanted[check].outcome == "passed"]
    ignored = tuple(
        attrs.evolve(
            unplanted[check], outcome="error", text=f"does not pass unplanted: {unplanted[check].text}"
        )
        for check in fault.checks
        if check not in counting
    )
    if not counting:
        return Result(fault, Fate.ERROR, ignored, "no claimed check passes on the unplanted code")
    with tempfile.TemporaryDirectory(prefix="counterproof-") as folder:
        copy = Copy.make(source, Path(folder) / "tree")
        try:
            fault.plant(copy)
        except PlantError as error:
            return Result(fault, Fate.ERROR, ignored, f"not planted: {error}")
        limits = {check: SLACK + 6 * unplanted[check].seconds for check in counting}
        outcomes = run_checks(copy.root, counting, limits)
    return Result(fault, _fate(outcomes), tuple(outcomes) + ignored)


def _fate(outcomes: Sequence[Outcome]) -> Fate:
    seen = {outcome.outcome for outcome in outcomes}
    if "failed" in seen:
        return Fate.KILLED
    return Fate.ERROR if "error" in seen else Fate.LIVED


def run(
    faults: Sequence[Fault],
    *,
    num_workers: int = 2,
    started: Callable[[str], None] = lambda label: None,
    source: Path = SOURCE,
) -> Iterator[Result]:
    """Judge `faults`, `num_workers` at a time; yields each result as it comes."""
    checks = {check for fault in faults for check in fault.checks}
    started(f"{len(checks)} checks on the unplanted code")
    parts = [sorted(checks)[i::num_workers] for i in range(num_workers)]
    with ThreadPoolExecutor(num_workers) as pool:
        unplanted: dict[str, Outcome] = {}
        for part in pool.map(lambda part: baseline(part, source), parts):
            unplanted |= part
        futures = {pool.submit(judge, fault, unplanted, source): fault for fault in faults}
        for future in as_completed(futures):
            started(futures[future].name)
            yield future.result()
