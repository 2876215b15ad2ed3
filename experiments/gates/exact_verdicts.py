"""Gate: the exact sweeps of exact_ops as verdicts, and their failures as case files that can be replayed."""

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from engine.ops import get_ops
from engine.ops.rng import Purpose
from experiments import cases
from experiments.gates.exact_cases import CheckRecord
from experiments.gates.exact_ops import CHECKS, run_check
from experiments.verdict import Verdict, Visible, failed, inconclusive, passed
from oracles.masks import pack
from oracles.sample import Law

NAME = "exact ops"
CLAUSES = {
    "uniforms": ("SAMP-13",),
    "sampling laws": ("SAMP-2", "SAMP-3", "SAMP-5", "SAMP-6", "SAMP-7", "SAMP-9", "SAMP-10"),
    "draws": ("SAMP-8",),
    "single columns": ("SPEC-2", "SPEC-3", "SPEC-5", "SPEC-9"),
    "chains": ("SPEC-2", "SPEC-3", "SPEC-6"),
    "random rounds": ("SPEC-4", "SPEC-5", "SPEC-6", "SPEC-9"),
    "joint law": ("SPEC-8",),
}
VISIBLE = Visible("probability 1e-12", 1e-12)
BITS = Visible("1 bit of 24", 2.0**-24)


def gate(
    *, seed: int, ops: str, size: str = "quick", checks: tuple[str, ...] = (), shard: int = 0, shards: int = 1
) -> list[Verdict]:
    """Run the named sweeps (all by default) at `size` tiny, quick or full; each shard takes its share."""
    names = checks or tuple(CHECKS)
    return [verdict_of(name, size, seed, ops) for name in names[shard::shards]]


def verdict_of(name: str, size: str, seed: int, ops: str) -> Verdict:
    """Run one sweep and say what came out."""
    started = time.perf_counter()
    record = run_check(get_ops(ops), name, size, seed)
    facts: dict[str, Any] = {
        "n": record.num_calls,
        "visible": BITS if name == "uniforms" else VISIBLE,
        "worst_error": record.worst_error,
        "seconds": time.perf_counter() - started,
        "clauses": CLAUSES.get(name, ()),
        "detail": _detail(record),
    }
    if record.passed:
        return passed(NAME, name, **facts)
    failure = record.first_failure or {}
    if "inconclusive" in failure:
        return inconclusive(NAME, name, failure["inconclusive"], **facts)
    facts["detail"] = failure.get("assertion", f"first of its kind: {facts['detail']}")
    return failed(NAME, name, case=case_of(failure, ops), **facts)


def _detail(record: CheckRecord) -> str:
    events = ", ".join(f"{count:,} {event}" for event, count in sorted(record.events.items()))
    return f"{record.num_cases:,} cases, {record.num_calls:,} rows" + (f": {events}" if events else "")


def case_of(failure: Mapping[str, Any], ops: str) -> dict[str, Any]:
    """The call behind a sweep's first failure; a failure that is no single call keeps its own fields."""
    if failure.get("uniforms") and "drafts" in failure and failure["uniforms"]["accept"]:
        return _round(failure, ops)
    if "logits" in failure:
        return _row(failure, ops)
    if "u" in failure:
        law = failure["law"]
        return cases.draw_case(Law(tuple(law["order"]), tuple(law["probs"])), failure["u"], ops=ops)
    if "scores" in failure:
        pairs = zip(failure["uniforms"], failure["got"], failure["want"], strict=True)
        uniform = next((u for u, got, want in pairs if got != want), failure["uniforms"][0])
        return cases.proposal_case(failure["scores"], failure["temperature"], uniform, ops=ops)
    if "purpose" in failure:
        counter = (failure["position"], Purpose[failure["purpose"]])
        indices = (failure["draw_index"], failure["candidate_index"])
        return cases.uniform_case(failure["seed"], *counter, *indices, ops=ops)
    return {"kind": "gate", "failure": dict(failure)}


def _round(failure: Mapping[str, Any], ops: str) -> dict[str, Any]:
    laws = [Law(tuple(law["order"]), tuple(law["probs"]), law["status"]) for law in failure["laws"]]
    drafts, uniforms = list(failure["drafts"]), failure["uniforms"]
    return cases.round_case(
        laws,
        drafts,
        [None if q is None else {int(i): p for i, p in q.items()} for q in failure["qs"]],
        uniforms["accept"],
        uniforms["correction"],
        uniforms["bonus"],
        ops=ops,
        vocab_size=failure["vocab_size"],
        ends=[draft in failure["ends"] for draft in drafts],
        legal=failure["legal"],
        split=failure.get("split", False),
    )


def _row(failure: Mapping[str, Any], ops: str) -> dict[str, Any]:
    size = failure["vocab_size"]
    bias = np.zeros(size, np.float32)
    for token_id, extra in failure["bias"]:
        bias[token_id] = extra
    legal, banned = failure["legal"], failure["banned"]
    return cases.sample_case(
        [float(x) for x in failure["logits"]],
        failure["settings"],
        0.5,
        ops=ops,
        vocab_size=size,
        candidate_cap=failure["candidate_cap"],
        allowed_bitmask=None if legal is None else pack(legal, size),
        banned_bitmask=pack(banned, size) if banned else None,
        counts=np.array(failure["counts"], np.int32) if failure["counts"] else None,
        bias=bias if failure["bias"] else None,
    )
