"""The end-to-end gate of one decoding path: exact checks against the oracle's twin, then the law itself.

`gate` runs every check on one path and returns their verdicts. A speculative path whose run held too few
accepted drafts, rejections, illegal drafts or bonuses proves nothing and is INCONCLUSIVE.
"""

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import attrs

from experiments.cases import Line
from experiments.gates import VOCABULARIES, path_checks
from experiments.gates.path_checks import Asked, Finding
from experiments.gates.path_law import NAME, check_law, letters
from experiments.gates.path_world import World, world
from experiments.verdict import Status, Verdict, failed, inconclusive, passed
from oracles.statistics import Inconclusive, require_events


@attrs.frozen
class Check:
    """One exact check: what runs, the share of `num_seeds` it needs, its clauses, the events it must meet."""

    run: Callable[[str, str, World, int, int], Finding]
    share: float
    clauses: tuple[str, ...]
    floors: Mapping[str, int]


DRAFTED = {"drafts": 20, "rejections by target": 3, "rejections by grammar": 3}
EVERYTHING = DRAFTED | {"accepted drafts": 5, "windows with an illegal draft": 3, "bonuses": 2}
SPEC = (
    "SPEC-1",
    "SPEC-4",
    "SPEC-5",
    "SPEC-6",
    "SPEC-9",
    "SPEC-10",
    "SPEC-11",
    "SPECG-1",
    "SPECG-4",
    "SAMP-11",
    "SAMP-13",
)
FAIL = ("FAIL-7", "FAIL-8", "FAIL-9", "FAIL-11", "EMPTY-1", "EMPTY-4", "EMPTY-9", "MASK-10", "MASK-11")
CHECKS: Mapping[str, Check] = {
    "equals the oracle's twin": Check(path_checks.twin, 1.0, SPEC, EVERYTHING),
    "greedy equals ordinary": Check(path_checks.greedy, 0.5, ("SPEC-7", "SPECG-6"), EVERYTHING),
    "budgets": Check(path_checks.budget, 0.5, ("TXN-10", "SPEC-12"), DRAFTED),
    "rows that fail": Check(path_checks.failures, 1.0, FAIL, DRAFTED),
    "alone or in any batch": Check(path_checks.batches, 0.25, ("LIFE-1", "SAMP-13", "MASK-7"), DRAFTED),
    "pause and replay": Check(path_checks.replays, 0.5, ("LIFE-3", "LIFE-4"), DRAFTED),
}
FAILED_FLOOR = 5
NUM_TABLES = 12  # to look through for a vocabulary that no table was chosen for


def gate(
    *,
    path: str,
    ops: str,
    vocab: str,
    seed: int,
    num_seeds: int = 4,
    total_variation_seen: float | None = 0.05,
    num_lanes: int = 128,
    checks: tuple[str, ...] = (),
    law_vocab: str = "",
) -> list[Verdict]:
    """Judge one path by the named exact checks, all by default, and by its law.

    `total_variation_seen` None leaves the law out (interpreted kernels are too slow for it); `law_vocab`
    judges the law on another vocabulary's tables than the exact checks.
    """
    verdicts, one_world = [], world(vocab)
    for check in checks or tuple(CHECKS):
        started = time.perf_counter()
        asked = partial(exact_verdict, check, path, ops, vocab, seed=seed, num_seeds=num_seeds)
        verdict = conclusive(vocab, one_world, asked)
        verdicts.append(verdict.timed(time.perf_counter() - started))
    if total_variation_seen is not None:
        law_vocab = law_vocab or vocab
        sizes = {"total_variation_seen": total_variation_seen, "num_lanes": num_lanes}
        law_world, at = letters(law_vocab).world, partial(check_law, path, ops, law_vocab, seed, **sizes)
        law = conclusive(law_vocab, law_world, lambda table: at(subject=lambda _: letters(law_vocab, table)))
        other = "" if law_vocab == vocab else f" ({law_vocab} vocabulary)"
        verdicts.append(attrs.evolve(law, check=law.check + other))
    return verdicts


def conclusive(vocab: str, first: World, judge_on: Callable[[World], Verdict]) -> Verdict:
    """The verdict on the first table; where nobody chose that one, on the first that meets enough events.

    A table is left only for an INCONCLUSIVE verdict: what fails on any table has failed.
    """
    verdict = judge_on(first)
    for step in range(1, 1 if vocab in VOCABULARIES else NUM_TABLES):
        if verdict.status is not Status.INCONCLUSIVE:
            break
        verdict = judge_on(attrs.evolve(first, seed=first.seed + step))
    return verdict


def exact_verdict(
    check: str, path: str, ops: str, vocab: str, one_world: World, seed: int, num_seeds: int
) -> Verdict:
    """Run one exact check and judge what it found."""
    wanted = CHECKS[check]
    finding = wanted.run(path, ops, one_world, seed, max(1, round(num_seeds * wanted.share)))
    where = {"path": path, "ops": ops, "vocab": vocab, "check": check, "table": one_world.seed}
    case = {"kind": "path", "replay": "experiments.gates.paths:replay", **where}
    floors = {"failed rows": FAILED_FLOOR} if check == "rows that fail" else {}
    return judge(NAME, finding, wanted, case, floors)


def judge(
    name: str, finding: Finding, wanted: Check, case: Mapping[str, Any], floors: Mapping[str, int]
) -> Verdict:
    """Turn a finding into a verdict; `case` says what ran, `floors` bind the ordinary path too."""
    check, path = case["check"], case["path"]
    facts = {"path": path, "n": finding.num_requests, "clauses": wanted.clauses, "detail": _detail(finding)}
    if finding.first is not None:
        first = finding.first
        request = {"request": attrs.asdict(first.asked), "got": repr(first.got), "wanted": repr(first.wanted)}
        detail = f"{first.asked}: got {first.got}, wanted {first.wanted}"
        return failed(name, check, case={**case, **request}, worst_error=1.0, **facts | {"detail": detail})
    try:
        require_events(_events(finding), {**floors, **({} if path == "ordinary" else wanted.floors)})
    except Inconclusive as few:
        return inconclusive(name, check, str(few), **facts)
    return passed(name, check, **facts)


def _events(finding: Finding) -> dict[str, int]:
    stats = finding.stats
    return finding.events | {
        "drafts": stats.num_drafted,
        "accepted drafts": stats.num_accepted,
        "rejections by target": stats.num_rejected_by_target,
        "rejections by grammar": stats.num_rejected_by_grammar,
        "windows with an illegal draft": stats.num_illegal,
        "bonuses": stats.num_bonuses,
        "failed rows": finding.num_failed,
    }


def _detail(finding: Finding) -> str:
    return ", ".join(f"{count} {name}" for name, count in _events(finding).items() if count)


def replay(case: dict[str, Any]) -> list[Line]:
    """Run the request of a case file alone, engine and oracle side by side."""
    asked, one_world = Asked(**case["request"]), world(case["vocab"], case.get("table", 0))
    if case["check"] == "rows that fail":
        one_world = one_world.troubled()
    engine = one_world.engine(case["path"], case["ops"], 1)
    handle = path_checks.run_all(engine, [asked], one_world)[0]
    got = path_checks.ending(handle)
    wanted = path_checks.Twins(one_world, case["path"]).run(asked)
    names = ("committed tokens", "status", "position of the failure")
    return [Line(n, str(a), str(b), a == b) for n, a, b in zip(names, got, wanted, strict=True)]
