"""Gate: rounds drawn with the real generator follow the exact law, as verdicts."""

import time

from engine.ops import get_ops
from experiments.gates.sampled_ops import SampledRecord, check_sampled_rounds
from experiments.verdict import Verdict, Visible, failed, inconclusive, passed

NAME = "sampled ops"
KINDS = ("one-hot q", "sparse q")
CLAUSES = {KINDS[0]: ("SPEC-2", "SPEC-5", "SPEC-8"), KINDS[1]: ("SPEC-3", "SPEC-5", "SPEC-8")}


def gate(
    *, seed: int, ops: str, see: float, one_hot: int, sparse: int, shard: int = 0, shards: int = 1
) -> list[Verdict]:
    """Draw `one_hot` and `sparse` rounds; a run that could miss a total variation of `see` is inconclusive.

    The rounds have fixed seeds of their own, far apart from every other run's; `seed` changes nothing.
    """
    del seed
    sizes = dict(zip(KINDS, (one_hot, sparse), strict=True))
    return [verdict_of(kind, sizes[kind], see, ops) for kind in KINDS[shard::shards]]


def verdict_of(kind: str, num_samples: int, see: float, ops: str) -> Verdict:
    """Draw and judge one kind of round."""
    started = time.perf_counter()
    record = check_sampled_rounds(get_ops(ops), num_samples, kind == KINDS[0])
    facts = {
        "n": num_samples,
        "visible": Visible("total variation", record.visible),
        "detail": _detail(record),
        "clauses": CLAUSES[kind],
        "seconds": time.perf_counter() - started,
    }
    if record.failure and not record.failure.startswith("INCONCLUSIVE"):
        return failed(NAME, kind, case={"kind": "gate", "detail": record.failure}, **facts)
    if record.failure:
        return inconclusive(NAME, kind, record.failure, **facts)
    if record.visible > see:
        reason = f"it could miss a total variation of {record.visible:.3g}; {see} is asked for"
        return inconclusive(NAME, kind, reason, **facts)
    return passed(NAME, kind, **facts)


def _detail(record: SampledRecord) -> str:
    tables = ", ".join(f"{name}: {n:,} see {seen:.3g}" for name, (n, seen) in record.tables.items())
    return f"{tables}; " + ", ".join(f"{n:,} {event}" for event, n in record.events.items())
