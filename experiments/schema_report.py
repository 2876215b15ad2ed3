"""The numbers of a schema bench run as plain records: what JSON, Markdown and the plot are made from.

Counts are instances unless a name says schemas. A forgiven instance is a valid one that is refused for its
member order or for a spelling that the contract does not generate; each kind is counted by itself.
"""

import collections
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from experiments.schema_data import Case
from experiments.schema_engines import PROJECT
from experiments.schema_judge import FALSE_ACCEPTS, FORGIVEN, Kind, Result

Results = Mapping[str, Sequence[Result]]  # engine -> one result for each case, in the order of the cases
MILLI, MICRO = 1e3, 1e6
NUM_SLOWEST = 10
# The promises: name, which series, percentile, the most it may be.
BARS = (
    ("compile p50 ms", "compile ms", 50, 3.0),
    ("compile p99 ms", "compile ms", 99, 100.0),
    ("mask p50 us", "mask us", 50, 30.0),
    ("mask p99 us", "mask us", 99, 500.0),
    ("mask p99.9 us", "mask us", 99.9, 2000.0),
    ("mask max us", "mask us", 100, 20_000.0),
    ("cache hit max us", "hit us", 100, 100.0),
)
MIN_COVERAGE = 0.95


def series(results: Sequence[Result]) -> dict[str, np.ndarray]:
    """The measured times: of every compile that ended, every mask, every cache hit."""
    compiled = [result for result in results if result.outcome == "compiled"]
    masks = [result.mask_seconds for result in compiled]
    return {
        "compile ms": np.array([result.compile_seconds for result in compiled]) * MILLI,
        "mask us": np.concatenate(masks) * MICRO if masks else np.zeros(0),
        "hit us": np.array([r.hit_seconds for r in compiled if r.hit_seconds is not None]) * MICRO,
    }


def percentile(values: np.ndarray, share: float) -> float | None:
    """A percentile, or None where nothing was measured."""
    return round(float(np.percentile(values, share)), 4) if len(values) else None


def timing(results: Sequence[Result]) -> dict[str, float | int | None]:
    """The percentiles of all series, and how much was measured."""
    measured, found = series(results), {}
    for name, shares in {"compile ms": (50, 90, 99), "mask us": (50, 99, 99.9), "hit us": (50, 99)}.items():
        what, unit = name.split()
        for share in shares:
            found[f"{what} p{share:g} {unit}"] = percentile(measured[name], share)
        found[f"{what} max {unit}"] = percentile(measured[name], 100)
    return {**found, "masks": len(measured["mask us"])}


def counts(cases: Sequence[Case], results: Sequence[Result]) -> dict[str, int]:
    """Schemas by outcome and instances by verdict; schemas with something wrong."""
    outcomes = collections.Counter(result.outcome for result in results)
    kinds = collections.Counter(verdict.kind for result in results for verdict in result.verdicts)
    return {
        "schemas": len(results),
        **{outcome: outcomes[outcome] for outcome in ("compiled", "refused", "slow", "died")},
        "instances": sum(len(case.instances) for case in cases),
        **{kind.value: kinds[kind] for kind in Kind},
        "mask and matcher disagree": sum(v.narrow for r in results for v in r.verdicts),
        "schemas with a false accept": _num_with(results, FALSE_ACCEPTS),
        "schemas with a false refusal": _num_with(results, (Kind.FALSE_REFUSAL,)),
        "schemas all right": _num_with_only(results, (Kind.RIGHT,)),
        "schemas all right, forgiven": _num_with_only(results, (Kind.RIGHT, *FORGIVEN)),
    }


def _num_with(results: Sequence[Result], kinds: Sequence[Kind]) -> int:
    return sum(any(v.kind in kinds for v in result.verdicts) for result in results)


def _num_with_only(results: Sequence[Result], kinds: Sequence[Kind]) -> int:
    """Compiled schemas whose every instance has one of the kinds; at least one instance."""
    judged = [result.verdicts for result in results if result.outcome == "compiled" and result.verdicts]
    return sum(all(v.kind in kinds for v in verdicts) for verdicts in judged)


def by_group(
    cases: Sequence[Case], results: Sequence[Result], group: Callable[[Case], str]
) -> dict[str, dict[str, int]]:
    """The counts for each group of cases, in order of first appearance."""
    parts: dict[str, list[int]] = {}
    for index, case in enumerate(cases):
        parts.setdefault(group(case), []).append(index)
    return {
        name: counts([cases[i] for i in indexes], [results[i] for i in indexes])
        for name, indexes in parts.items()
    }


def suite_file(case: Case) -> str:
    """The file of the suite that a case is from, without its draft."""
    return case.name.split("/", 1)[1].split("#")[0]


def refusals(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Why schemas were not compiled, most frequent first, each with its schemas."""
    reasons: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        if result.refusal is not None:
            reasons.setdefault((result.refusal.kind, result.refusal.reason), []).append(result)
    rows = [
        {
            "kind": kind,
            "reason": reason,
            "schemas": len(found),
            "keywords": _keywords(found),
            "examples": [_example(result) for result in found[:3]],
            "names": [result.name for result in found],
        }
        for (kind, reason), found in reasons.items()
    ]
    return sorted(rows, key=lambda row: -row["schemas"])


def _keywords(found: Sequence[Result]) -> dict[str, int]:
    """The last names of the pointers of refusals: the keywords, where a pointer ends at one."""
    names = [re.sub(r".*/", "", result.refusal.pointer) for result in found if result.refusal.pointer]
    return dict(collections.Counter(names).most_common(8))


def _example(result: Result) -> str:
    return f"{result.name} at {result.refusal.pointer or '(root)'}: {result.refusal.message}"[:300]


def wrong(cases: Sequence[Case], results: Sequence[Result]) -> list[dict[str, Any]]:
    """Every instance that is neither right, forgiven nor refused, and every disagreement of a mask."""
    fine = {Kind.RIGHT, Kind.REFUSED, Kind.CUT, *FORGIVEN}
    return [
        {
            "name": case.name,
            "instance": instance.what or instance.text[:80],
            "verdict": verdict.kind.value,
            "mask and matcher disagree": verdict.narrow,
            "detail": verdict.detail,
        }
        for case, result in zip(cases, results, strict=True)
        for instance, verdict in zip(case.instances, result.verdicts, strict=True)
        if verdict.kind not in fine or verdict.narrow
    ]


def slowest(results: Sequence[Result]) -> dict[str, list[dict[str, Any]]]:
    """The schemas with the longest compiles and the longest masks."""
    compiled = [result for result in results if result.outcome == "compiled"]
    walked = [result for result in compiled if len(result.mask_seconds)]
    compiles = sorted(compiled, key=lambda result: -result.compile_seconds)[:NUM_SLOWEST]
    masks = sorted(walked, key=lambda result: -result.mask_seconds.max())[:NUM_SLOWEST]
    return {
        "compile ms": [{"name": r.name, "ms": round(r.compile_seconds * MILLI, 3)} for r in compiles],
        "mask us": [
            {"name": r.name, "us": round(float(r.mask_seconds.max()) * MICRO, 1), "after": r.slowest_at}
            for r in masks
        ],
    }


def bars(sample: Results, everything: Sequence[Sequence[Result]]) -> list[dict[str, Any]]:
    """Each promise of the project with what was seen; coverage and times on the sample, verdicts on all."""
    results = sample[PROJECT]
    measured = series(results)
    share = sum(result.outcome == "compiled" for result in results) / len(results)
    verdicts = [v.kind for part in everything for result in part for v in result.verdicts]
    found = [_bar("schemas compiled, share", round(share, 4), MIN_COVERAGE, share >= MIN_COVERAGE)]
    for name, kinds in {"false accepts": FALSE_ACCEPTS, "false refusals": (Kind.FALSE_REFUSAL,)}.items():
        seen = sum(kind in kinds for kind in verdicts)
        found.append(_bar(name, seen, 0, seen == 0))
    for name, key, share, most in BARS:
        seen = percentile(measured[key], share)
        found.append(_bar(name, seen, most, seen is not None and seen <= most))
    return found


def _bar(name: str, seen: float | None, bar: float, met: bool) -> dict[str, Any]:
    return {"promise": name, "seen": seen, "bar": bar, "met": bool(met)}
