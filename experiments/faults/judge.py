"""Plant every fault, one at a time, each in a process of its own, and see that the checks claiming it fail.

A check counts only if it passes on the unplanted copy (the baseline, run first in the same way). A fault is
`killed` when at least one claimed check that counts fails, `lived` when every one still passes, and `error`
when it could not be planted or no claimed check could judge it; only `killed` leaves the run green.
"""

import enum
import json
import queue
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import TypeVar

import attrs

from experiments.faults.child import Outcome
from experiments.faults.nursery import HEAVY, Nursery, NurseryLost
from experiments.faults.planting import Copy, Fault, PlantError

T = TypeVar("T")
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


def run_checks(
    nursery: Nursery, root: Path, checks: Sequence[str], limits: Mapping[str, float], *, stop: bool = False
) -> list[Outcome]:
    """Run `checks` in one fresh process inside the copy at `root`; a hang or a crash is an outcome too.

    With `stop` the checks behind the first failure are left out.
    """
    result, job = root / "result.jsonl", root / "job.json"
    result.unlink(missing_ok=True)
    order = {"checks": list(checks), "result": str(result), "stop_at_failure": stop}
    job.write_text(json.dumps(order), encoding="utf-8")
    ended = nursery.run(root, job, sum(limits.get(check, BASELINE_LIMIT) for check in checks))
    lines = result.read_text(encoding="utf-8").splitlines() if result.exists() else []
    outcomes = [Outcome(**json.loads(line)) for line in lines]
    if stop and outcomes and outcomes[-1].outcome == "failed":
        return outcomes
    return outcomes + _unfinished(checks[len(outcomes) :], ended, root / "log.txt")


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


def baseline(nursery: Nursery, checks: Sequence[str], source: Path = SOURCE) -> dict[str, Outcome]:
    """Run every claimed check once on an unplanted copy."""
    left = list(checks)
    outcomes: dict[str, Outcome] = {}
    with tempfile.TemporaryDirectory(prefix="counterproof-") as folder:
        root = Copy.make(source, Path(folder) / "tree").root
        while left:
            done = [outcome for outcome in run_checks(nursery, root, left, {}) if outcome.text != NOT_RUN]
            outcomes |= {outcome.check: outcome for outcome in done}
            left = left[len(done) :]
    return outcomes


def judge(
    nursery: Nursery,
    fault: Fault,
    unplanted: Mapping[str, Outcome],
    source: Path = SOURCE,
    stop: bool = False,
) -> Result:
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
        try:
            outcomes = run_checks(nursery, copy.root, counting, limits, stop=stop)
        except NurseryLost as error:
            return Result(fault, Fate.ERROR, ignored, str(error))
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
    stop: bool = False,
    load: Sequence[str] = HEAVY,
    started: Callable[[str], None] = lambda label: None,
    source: Path = SOURCE,
) -> Iterator[Result]:
    """Judge `faults`, `num_workers` at a time; yields each result as it comes.

    With `stop` a fault's checks behind the one that kills it are left out; `load` is what a process imports
    before it forks.
    """
    checks = sorted({check for fault in faults for check in fault.checks})
    started(f"{len(checks)} checks on the unplanted code")
    nurseries = [Nursery.start(load) for _ in range(num_workers)]
    idle: queue.SimpleQueue[Nursery] = queue.SimpleQueue()
    for nursery in nurseries:
        idle.put(nursery)

    def with_nursery(work: Callable[[Nursery], T]) -> T:
        nursery = idle.get()
        try:
            return work(nursery)
        finally:
            idle.put(nursery)

    try:
        with ThreadPoolExecutor(num_workers) as pool:
            parts = [checks[i::num_workers] for i in range(num_workers)]
            unplanted: dict[str, Outcome] = {}
            for part in pool.map(lambda p: with_nursery(lambda n: baseline(n, p, source)), parts):
                unplanted |= part
            futures = [
                pool.submit(
                    with_nursery, partial(judge, fault=fault, unplanted=unplanted, source=source, stop=stop)
                )
                for fault in faults
            ]
            for future in as_completed(futures):
                started(future.result().fault.name)
                yield future.result()
    finally:
        for nursery in nurseries:
            nursery.stop()
