"""The exact gate over the ops: everything that small vocabularies let one enumerate, no randomness left.

`exact_checks(ops, size, seed)` runs every sweep on one implementation and yields a record each. A sweep
whose cases hold too few drafts, rejections, illegal drafts or bonuses is refused as inconclusive: its
record has not passed, and says so in `first_failure`.
"""

from collections.abc import Callable, Iterator, Mapping

import attrs

from engine.ops import OpSet
from experiments.gates import exact_cases as cases
from experiments.gates import exact_laws as laws
from experiments.gates import exact_rounds as rounds
from experiments.gates.exact_cases import SIZES, CheckRecord, Progress, Size
from oracles.statistics import Inconclusive, require_events

ROUND_FLOORS = {
    "accepted": 5,
    "rejected by target": 5,
    "rejected by grammar": 5,
    "illegal drafts": 5,
    "bonuses": 5,
}
LAW_FLOORS = {"ok": 10, "empty": 1, "non_finite": 1, "empty_by_bans": 1, "greedy": 2}


def single_columns(ops: OpSet, size: Size, seed: int, progress: Progress | None = None) -> CheckRecord:
    """Every mask x draft x kind of q of one column, and every mask of the bonus column."""
    every = (c for v in size.single_vocab_sizes for c in cases.single_column_cases(v, size.num_weightings))
    found = cases.picked(every, size.max_enumerated)
    return rounds.check_rounds(ops, "single columns", found, seed, size.twice, progress)


def chains(ops: OpSet, size: Size, seed: int, progress: Progress | None = None) -> CheckRecord:
    """Every mask of every column of a window by itself, with every pattern of accepted and refused coins."""
    every = (c for v, k in size.chains for c in cases.chain_cases(v, k, size.num_weightings))
    found = cases.picked(every, size.max_enumerated)
    return rounds.check_rounds(ops, "chains", found, seed, size.twice, progress)


def random_rounds(ops: OpSet, size: Size, seed: int, progress: Progress | None = None) -> CheckRecord:
    """Seeded joint mask tuples with short extents, ends, dead columns, free rows, and the literal rounds."""
    found = [*cases.literal_cases().values(), *cases.random_cases(size.num_random_rounds, seed)]
    return rounds.check_rounds(ops, "random rounds", found, seed, size.twice, progress)


def joint_law(ops: OpSet, size: Size, seed: int, progress: Progress | None = None) -> CheckRecord:
    """SPEC-8: the law of a round over all draft chains equals ordinary sampling, token by token."""
    return rounds.check_joint(ops, "joint law", size.num_joint, seed, size.twice, progress)


def sampling_laws(ops: OpSet, size: Size, seed: int, progress: Progress | None = None) -> CheckRecord:
    """Logits to law over the settings grid, edges of every rule included."""
    groups = [laws.edge_rows(), *laws.row_groups(size.num_sampling_rows, seed)]
    return laws.check_laws(ops, "sampling laws", groups, size.twice, progress)


def draws(ops: OpSet, size: Size, seed: int, progress: Progress | None = None) -> CheckRecord:
    """Inverse CDF on dyadic laws, both sides of every break."""
    return laws.check_draws(ops, "draws", size.num_random_rounds, seed, size.twice)


def proposals(ops: OpSet, size: Size, seed: int, progress: Progress | None = None) -> CheckRecord:
    """The sparse drafter's choice and the law it records."""
    return laws.check_proposals(ops, "proposals", size.num_random_rounds, seed, size.twice)


def uniforms(ops: OpSet, size: Size, seed: int, progress: Progress | None = None) -> CheckRecord:
    """The generator's bits."""
    return laws.check_uniforms(ops, "uniforms", min(60, size.num_random_rounds), seed, size.twice)


Check = Callable[[OpSet, Size, int, Progress | None], CheckRecord]
CHECKS: Mapping[str, tuple[Check, Mapping[str, int]]] = {
    "uniforms": (uniforms, {}),
    "sampling laws": (sampling_laws, LAW_FLOORS),
    "draws": (draws, {}),
    "proposals": (proposals, {}),
    "single columns": (single_columns, ROUND_FLOORS),
    "chains": (chains, ROUND_FLOORS),
    "random rounds": (random_rounds, {**ROUND_FLOORS, "ended": 1, "dead columns": 1}),
    "joint law": (joint_law, ROUND_FLOORS),
}


def run_check(
    ops: OpSet, name: str, size: str = "quick", seed: int = 0, progress: Progress | None = None
) -> CheckRecord:
    """Run one sweep; broken purity and missing events come back as a record that has not passed."""
    check, floors = CHECKS[name]
    try:
        record = check(ops, SIZES[size], seed, progress)
        require_events(record.events, floors)
    except Inconclusive as short:
        return attrs.evolve(record, passed=False, first_failure={"inconclusive": str(short)})
    except AssertionError as fault:
        return CheckRecord(name, False, 0, 0, 0.0, {"assertion": str(fault)}, {})
    return record


def exact_checks(
    ops: OpSet, size: str = "quick", seed: int = 0, progress: Progress | None = None
) -> Iterator[CheckRecord]:
    """Every sweep on one implementation; `size` is tiny, quick or full."""
    for name in CHECKS:
        yield run_check(ops, name, size, seed, progress)
