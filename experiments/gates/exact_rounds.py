"""Exact sweeps of `accept_round`: every piece of the uniforms, both sides of every break, and 0.

The outcome of a round is piecewise constant in its uniforms. Each row gives the op one choice of them and
must return what oracles/accept.py plays. The rows in the middles of the pieces carry the pieces' lengths as
weights, so their sum is the op's own law, exactly; it must equal oracles/round_law.py to 1e-12. Uniforms
that a round must not read are noise, and what lies past a row's extent is poison.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

import attrs
import numpy as np
import torch

from engine.ops import OpSet
from engine.ops.accept import Proposal, RejectedBy, RoundOutcome, RoundUniforms
from engine.ops.sample import RowStatus, TargetLaw
from experiments.gates.exact_cases import CheckRecord, Progress, RoundCase, count_events
from oracles import round_law as rounds
from oracles.accept import Round, accept_break, correction_breaks, play_round
from oracles.sample import GRID, breakpoints, dyadic_law, pieces, probe_uniforms

TOLERANCE = 1e-12
STATUS = {"ok": RowStatus.OK, "empty": RowStatus.EMPTY, "non_finite": RowStatus.NON_FINITE}
STATUS["empty_by_bans"] = RowStatus.EMPTY_BY_BANS
REFUSED = {"none": RejectedBy.NONE, "target": RejectedBy.TARGET, "grammar": RejectedBy.GRAMMAR}


@attrs.frozen
class Probe:
    """One choice of a round's uniforms; `weight` is its piece's share of the unit cube, 0 beside a break."""

    accept: tuple[float, ...]
    correction: tuple[float, ...]
    bonus: float
    weight: float = 0.0


def probes(case: RoundCase, rng: np.random.Generator) -> Iterator[Probe]:
    """Every piece of each uniform the round can read, both sides of each break, and every flag pattern."""
    k = len(case.drafts)
    cuts = [
        accept_break(law, d, q) if law.status == "ok" else 1.0
        for law, d, q in zip(case.laws, case.drafts, case.qs, strict=False)
    ]
    share = 1.0
    for i in range(k + 1):
        head = tuple(cut / 2 for cut in cuts[:i])  # the middle of "accepted", down to column i
        ended = i > 0 and case.drafts[i - 1] in case.ends
        if i == k or ended or case.laws[i].status != "ok":
            yield from _last_probes(case, i, ended, head, share, rng)
            break
        for u in probe_uniforms([cuts[i]]):
            yield _probe(rng, k, (*head, u))
        if cuts[i] < 1:
            reject = (*head, (cuts[i] + 1) / 2)
            breaks = correction_breaks(case.laws[i], case.drafts[i], case.qs[i])
            for u, length in _with_lengths(breaks):
                yield _probe(rng, k, reject, {i: u}, weight=share * (1 - cuts[i]) * length)
        share *= cuts[i]
        if share == 0:
            break
    for flags in product((False, True), repeat=k):
        coins = [cut / 2 if flag else (cut + 1) / 2 for flag, cut in zip(flags, cuts, strict=True)]
        yield _probe(rng, k, tuple(min(u, 1 - 1 / GRID) for u in coins))


def _last_probes(case, column, ended, head, share, rng) -> Iterator[Probe]:
    """The pieces of the column that is read last: a bonus, or one row where nothing more is read."""
    law, k = case.laws[column], len(case.drafts)
    if ended or law.status != "ok":
        yield _probe(rng, k, head, weight=share)
        return
    for u, length in _with_lengths(breakpoints(law)):
        yield _probe(rng, k, head, bonus=u, weight=share * length)


def _with_lengths(breaks: Sequence[float]) -> Iterator[tuple[float, float]]:
    lengths = {(low + high) / 2: high - low for low, high in pieces(breaks)}
    for u in probe_uniforms(breaks):
        yield u, lengths.get(u, 0.0)


def _probe(rng, k, accept, correction=None, bonus=None, weight=0.0) -> Probe:
    """Fill every uniform that is not given with noise on the generator's grid."""
    noise = (rng.integers(0, GRID, 2 * k + 1) / GRID).tolist()
    coins = (*accept, *noise[len(accept) : k])
    corrections = tuple((correction or {}).get(i, noise[k + i]) for i in range(k))
    return Probe(coins, corrections, noise[-1] if bonus is None else bonus, weight)


# --- one batch of probed cases ------------------------------------------------------------------------


def _padded(rows: Sequence[Sequence], shape: tuple[int, ...], fill, dtype) -> np.ndarray:
    """Nested sequences of uneven lengths as one array of `shape`."""
    result = np.full((len(rows), *shape), fill, dtype=dtype)
    for i, row in enumerate(rows):
        if len(shape) == 1:
            result[i, : len(row)] = row
        else:
            result[i, : len(row)] = _padded(row, shape[1:], fill, dtype)
    return result


def _candidates(case: RoundCase, column: int) -> list[tuple[int, float]]:
    q, draft = case.qs[column], case.drafts[column]
    listed = [(i, p) for i, p in q.items() if i != draft]
    mine = q.get(draft, 0.0)
    return [(draft, mine / 2), *listed, (draft, mine / 2)] if case.split else [*listed, (draft, mine)]


def _law_arrays(cases: Sequence[RoundCase], k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    cap = max([1, *(len(law.order) for case in cases for law in case.laws)])  # the longest has no filler
    ids = _padded([[law.order for law in c.laws] for c in cases], (k + 1, cap), 0, np.int64)
    probs = _padded([[law.probs for law in c.laws] for c in cases], (k + 1, cap), 0.0, np.float64)
    # A column past the extent has no law: reading it is a failed row.
    status = _padded([[STATUS[law.status] for law in c.laws] for c in cases], (k + 1,), 2, np.int64)
    return ids, probs, status


def _bitmask(cases: Sequence[RoundCase], k: int) -> np.ndarray:
    words = (cases[0].vocab_size + 31) // 32
    result = np.zeros((len(cases), k + 1, words), dtype=np.int64)
    for i, case in enumerate(cases):
        for column, legal in enumerate(case.legal or ()):
            for token in legal:
                result[i, column, token // 32] |= 1 << (token % 32)
    return result.astype(np.uint32).view(np.int32).reshape(len(cases), k + 1, words)


def _baited(case: RoundCase, k: int) -> list[int]:
    """The drafts, then an id that the column behind them would accept: a missing draft is never judged."""
    behind = case.laws[len(case.drafts)].order
    bait = behind[0] if behind else case.vocab_size + 5
    return [*case.drafts, *[bait] * (k - len(case.drafts))]


def _arguments(cases: Sequence[RoundCase], rows: np.ndarray, played: Sequence[Probe]) -> tuple[tuple, dict]:
    """The op's arguments for the given rows (indices into `cases`)."""
    k = max([1, *(len(c.drafts) for c in cases)])
    ids, probs, status = (torch.from_numpy(a[rows]) for a in _law_arrays(cases, k))
    law = TargetLaw(ids.flatten(0, 1), probs.flatten(0, 1), status.flatten())
    drafts = np.array([_baited(c, k) for c in cases], dtype=np.int64)
    ends = _padded([[d in c.ends for d in c.drafts] for c in cases], (k,), True, bool)
    sparse = {}
    if not cases[0].one_hot:
        listed = [[_candidates(c, i) for i in range(len(c.drafts))] for c in cases]
        width = max((len(entry) for case in listed for entry in case), default=1)
        names = (("candidate_ids", 0, np.int64), ("draft_probs", 1, np.float64))
        for name, part, dtype in names:
            values = [[[pair[part] for pair in entry] for entry in case] for case in listed]
            sparse[name] = torch.from_numpy(_padded(values, (k, width), 0, dtype)[rows])
    proposal = Proposal(
        token_ids=torch.from_numpy(drafts[rows]),
        extents=torch.tensor([len(c.drafts) for c in cases])[torch.from_numpy(rows)],
        candidate_ids=sparse.get("candidate_ids"),
        draft_probs=sparse.get("draft_probs"),
        ends_mask=torch.from_numpy(ends[rows]),
    )
    uniforms = RoundUniforms(
        accept=torch.from_numpy(_padded([p.accept for p in played], (k,), 0.0, np.float64)),
        correction=torch.from_numpy(_padded([p.correction for p in played], (k,), 0.0, np.float64)),
        bonus=torch.tensor([p.bonus for p in played], dtype=torch.float64),
    )
    masks = {"vocab_size": cases[0].vocab_size}
    constrained = torch.tensor([c.legal is not None for c in cases])
    if bool(constrained.any()):
        masks["allowed_bitmask"] = torch.from_numpy(_bitmask(cases, k)[rows]).flatten(0, 1)
        masks["constrained_mask"] = constrained[torch.from_numpy(rows)]
    return (law, proposal, uniforms), masks


def tensors_of(*records: object) -> list[torch.Tensor]:
    """Every tensor in records, dicts and plain arguments."""
    found: list[torch.Tensor] = []
    for record in records:
        if isinstance(record, torch.Tensor):
            found.append(record)
        elif isinstance(record, Mapping):
            found += tensors_of(*record.values())
        elif attrs.has(type(record)):
            found += tensors_of(*attrs.asdict(record, recurse=False).values())
    return found


def call_purely(op, *args, twice: bool = True, **kwargs):
    """Call an op; raise AssertionError if it changes an input or, called `twice`, gives another answer."""
    inputs = tensors_of(*args, kwargs)
    before = [t.clone() for t in inputs]
    result = op(*args, **kwargs)
    again = op(*args, **kwargs) if twice else result
    if not all(_same(t, b) for t, b in zip(inputs, before, strict=True)):
        raise AssertionError(f"{op.__name__} changed one of its inputs")
    if not all(_same(a, b) for a, b in zip(tensors_of(result), tensors_of(again), strict=True)):
        raise AssertionError(f"{op.__name__} answered differently when called again")
    return result


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return bool(((one == other) | ((one != one) & (other != other))).all())


def play_cases(
    ops: OpSet, cases: Sequence[RoundCase], seed: int, twice: bool = True
) -> tuple[list[rounds.JointLaw], dict | None, Counter]:
    """Probe cases of one vocabulary size and one kind of q: the op's law of each, first failure, events."""
    rng = np.random.default_rng(seed)
    plan = [(i, probe) for i, case in enumerate(cases) for probe in probes(case, rng)]
    rows = np.array([i for i, _ in plan])
    args, masks = _arguments(cases, rows, [probe for _, probe in plan])
    outcome = call_purely(ops.accept_round, *args, twice=twice, **masks)
    got = list(zip(*(column.tolist() for column in _columns(outcome)), strict=True))
    laws: list[defaultdict] = [defaultdict(float) for _ in cases]
    events: Counter[str] = Counter(rows=len(plan))
    failure = None
    for (i, probe), answer in zip(plan, got, strict=True):
        want = play_round(
            cases[i].laws,
            cases[i].drafts,
            cases[i].qs,
            probe.accept,
            probe.correction,
            probe.bonus,
            cases[i].ends,
            cases[i].legal,
        )
        events.update(count_events(cases[i], want))
        if failure is None and answer != _expected(want, len(answer[0])):
            failure = describe(cases[i], probe, answer, want)
        if probe.weight:
            tokens = tuple(answer[0][: answer[1]]) if answer[3] == RowStatus.OK else rounds.FAILED
            laws[i][tokens] += probe.weight
    return [dict(law) for law in laws], failure, events


def _columns(outcome: RoundOutcome) -> tuple[torch.Tensor, ...]:
    return (outcome.token_ids, outcome.num_emitted, outcome.num_accepted, outcome.status, outcome.rejected_by)


def _expected(want: Round, width: int) -> tuple:
    tokens = [*want.tokens, *[0] * (width - len(want.tokens))]
    return (
        tokens,
        len(want.tokens),
        want.num_accepted,
        int(STATUS[want.status]),
        int(REFUSED[want.rejected_by]),
    )


def describe(case: RoundCase, probe: Probe, got: tuple, want: object) -> dict:
    """A failing round as plain values that JSON can hold."""
    return {
        "vocab_size": case.vocab_size,
        "laws": [{"order": law.order, "probs": law.probs, "status": law.status} for law in case.laws],
        "drafts": case.drafts,
        "qs": [None if q is None else {str(i): p for i, p in q.items()} for q in case.qs],
        "ends": sorted(case.ends),
        "legal": None if case.legal is None else [sorted(mask) for mask in case.legal],
        "split": case.split,
        "uniforms": attrs.asdict(probe),
        "got": repr(got),
        "want": repr(want),
    }


# --- the checks ---------------------------------------------------------------------------------------


def check_rounds(
    ops: OpSet,
    name: str,
    cases: Sequence[RoundCase],
    seed: int = 0,
    twice: bool = True,
    progress: Progress | None = None,
) -> CheckRecord:
    """Every case's outcomes equal the played oracle's, and its law equals the exact law to 1e-12."""
    groups: defaultdict[tuple, list[RoundCase]] = defaultdict(list)
    for case in cases:
        groups[case.vocab_size, case.one_hot].append(case)
    worst, failure, events, done = 0.0, None, Counter(), 0
    for group in groups.values():
        laws, fault, seen = play_cases(ops, group, seed, twice)
        failure, events = failure or fault, events + seen
        for case, law in zip(group, laws, strict=True):
            error = rounds.largest_difference(
                law, rounds.given_drafts(case.laws, case.drafts, case.qs, case.ends)
            )
            worst = max(worst, error)
            if error > TOLERANCE and failure is None:
                failure = describe(case, Probe((), (), 0.0), tuple(law.items()), "the exact law")
        done += len(group)
        if progress is not None:
            progress(name, done, len(cases))
    return CheckRecord(name, failure is None, len(cases), events.pop("rows", 0), worst, failure, dict(events))


def check_joint(
    ops: OpSet,
    name: str,
    num_worlds: int,
    seed: int = 0,
    twice: bool = True,
    progress: Progress | None = None,
) -> CheckRecord:
    """SPEC-8: over all draft chains the op's rounds give the law of ordinary sampling, token by token."""
    worst, failure, calls, events = 0.0, None, 0, Counter()
    for world in range(num_worlds):
        rng = np.random.default_rng([seed, world])
        vocab_size, num_drafts, one_hot = int(rng.integers(2, 5)), 1 + world % 3, bool(world % 2)
        ends = (0,) if rng.random() < 0.5 else ()
        target, masks = _random_target([seed, world], vocab_size)
        proposal = _random_proposal([seed, world], vocab_size)
        emitted, fault, seen = _law_of_rounds(
            ops, target, masks, proposal, vocab_size, num_drafts, ends, one_hot, twice
        )
        length = num_drafts + 1
        ordinary = rounds.ordinary_law(target, length, ends)
        error = max(
            rounds.largest_difference(rounds.extend(emitted, target, length, ends), ordinary),
            rounds.largest_difference(emitted, rounds.round_law(target, proposal, num_drafts, ends, one_hot)),
        )
        worst, calls, events = max(worst, error), calls + seen.pop("rows"), events + seen
        if failure is None and (fault or error > TOLERANCE):
            failure = fault or {"seed": seed, "world": world, "error": error}
        if progress is not None:
            progress(name, world + 1, num_worlds)
    return CheckRecord(name, failure is None, num_worlds, calls, worst, failure, dict(events))


def _law_of_rounds(ops, target, masks, proposal, vocab_size, num_drafts, ends, one_hot, twice):
    """The law of the tokens one round emits, summed over every draft chain by the op's own outcomes."""
    chains = rounds.draft_chains(proposal, num_drafts)
    cases = []
    for drafts in chains:
        prefixes = [drafts[:i] for i in range(num_drafts + 1)]
        qs = tuple(None if one_hot else proposal(prefix) for prefix in prefixes[:-1])
        laws, legal = tuple(map(target, prefixes)), tuple(map(masks, prefixes))
        cases.append(RoundCase(vocab_size, laws, drafts, qs, frozenset(ends), legal))
    laws, failure, events = play_cases(ops, cases, len(chains), twice)
    total: defaultdict[tuple, float] = defaultdict(float)
    for weight, law in zip(chains.values(), laws, strict=True):
        for tokens, p in law.items():
            total[tokens] += weight * p
    return dict(total), failure, events


def _random_target(seed: Sequence[int], vocab_size: int):
    """A mask and a dyadic law per prefix."""

    def masks(prefix):
        rng = np.random.default_rng([*seed, 1, len(prefix), *(t + 1 for t in prefix)])
        return frozenset(np.flatnonzero(rng.random(vocab_size) < 0.7).tolist()) or frozenset({vocab_size - 1})

    def target(prefix):
        rng = np.random.default_rng([*seed, 2, len(prefix), *(t + 1 for t in prefix)])
        weights = rng.integers(1, 9, vocab_size).tolist()
        return dyadic_law({i: weights[i] for i in sorted(masks(prefix), key=lambda i: (-weights[i], i))})

    return target, masks


def _random_proposal(seed: Sequence[int], vocab_size: int):
    """A sparse proposal per prefix that knows no mask, on a strict subset, out of range included."""

    def proposal(prefix):
        rng = np.random.default_rng([*seed, 3, len(prefix), *(t + 1 for t in prefix)])
        ids = rng.permutation(vocab_size + 1)[: math.ceil(vocab_size / 2)].tolist()
        return dyadic_law(dict(zip(ids, rng.integers(1, 9, len(ids)).tolist(), strict=True))).as_dict()

    return proposal
