"""Exact sweeps of the sampling, proposal and random-number ops against their oracles.

Laws out of logits are compared to 1e-12, id by id and in drawing order; an id outside the legal set must
have no probability at all. Draws are compared in every piece of the uniform: at every grid point for dyadic
laws, and at those farther than 1e-12 from a break for laws that come out of exp.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

import attrs
import numpy as np
import torch

from engine.ops import OpSet
from engine.ops.rng import Purpose
from engine.ops.sample import Candidates, SamplingBatch, TargetLaw
from engine.request import SamplingSettings
from experiments.gates.exact_cases import BAD_STATUSES, CheckRecord, Progress
from experiments.gates.exact_rounds import STATUS, TOLERANCE, call_purely
from oracles import propose as propose_oracle
from oracles import rng as rng_oracle
from oracles import sample as oracle
from oracles.sample import Law, Settings, breakpoints, dyadic_law, pieces, probe_uniforms

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
TEMPERATURES = (0.0, -1.0, 1e-3, 1e-30, 1e-307, 0.5, 1.0, 2.0)
SEEDS = (0, 1, -1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, -(2**63), 0x0123456789ABCDEF, -0x6543210FEDCBA988)


@attrs.frozen
class RowCase:
    """One row of logits with all that acts on it; None where the op is not given that argument."""

    logits: tuple[float, ...]
    settings: Settings
    legal: frozenset[int] | None = None
    banned: frozenset[int] = frozenset()
    counts: tuple[int, ...] = ()
    bias: tuple[tuple[int, float], ...] = ()


@attrs.frozen
class RowGroup:
    """Rows of one call: they share vocabulary, width, cap, dtype, and which arguments are given."""

    vocab_size: int
    width: int
    candidate_cap: int | None
    dtype: str
    rows: tuple[RowCase, ...]
    strided: bool = False
    with_mask: bool = True
    with_bans: bool = True
    with_counts: bool = True
    with_bias: bool = True

    def law(self, row: RowCase) -> Law:
        """The oracle's law of one row."""
        return oracle.law(row.logits, **self._arguments(row))

    def candidates(self, row: RowCase) -> tuple[list[int], list[float], str]:
        """The oracle's candidates of one row, their adjusted logits, and its status."""
        return oracle.candidates(row.logits, **self._arguments(row))

    def _arguments(self, row: RowCase) -> dict:
        return {
            "vocab_size": self.vocab_size,
            "settings": row.settings,
            "candidate_cap": self.candidate_cap,
            "legal": row.legal,
            "banned": row.banned,
            "counts": row.counts or None,
            "bias": dict(row.bias),
        }


def row_groups(num_rows: int, seed: int) -> Iterator[RowGroup]:
    """Seeded groups over vocabulary and padded widths, caps, dtypes, strides and given arguments."""
    rng = np.random.default_rng(seed)
    shapes = [(1, 1), (1, 5), (5, 5), (31, 31), (32, 32), (32, 40), (33, 64), (64, 64), (65, 65), (65, 96)]
    caps, dtypes = (20, None, 4, 1), ("float32", "float32", "bfloat16", "float16")
    for i in range(2 * len(shapes)):
        vocab_size, width = shapes[i % len(shapes)]
        given = {name: bool(rng.random() < 0.75) for name in ("mask", "bans", "counts", "bias")}
        dtype = dtypes[(i + i // len(shapes)) % len(dtypes)]
        rows = (
            _random_row(rng, vocab_size, width, dtype, given) for _ in range(num_rows // (2 * len(shapes)))
        )
        yield RowGroup(
            vocab_size,
            width,
            caps[(i + i // 4) % len(caps)],
            dtype,
            tuple(rows),
            strided=bool(i % 3 == 0),
            **{f"with_{name}": value for name, value in given.items()},
        )


def _random_row(rng: np.random.Generator, vocab_size: int, width: int, dtype: str, given: dict) -> RowCase:
    legal = frozenset(np.flatnonzero(rng.random(vocab_size) < rng.choice([0.0, 0.1, 0.6, 1.0])).tolist())
    banned = frozenset(np.flatnonzero(rng.random(vocab_size) < rng.choice([0.0, 0.2, 1.0])).tolist())
    settings = Settings(
        temperature=float(rng.choice(TEMPERATURES)),
        top_k=int(rng.choice([0, 1, 2, 5, 19, 20, 100, -1])),
        top_p=float(rng.choice([1.0, 1.0, 0.9, 0.5, 0.0])),
        min_p=float(rng.choice([0.0, 0.0, 0.05, 0.5, 1.0])),
        presence_penalty=float(rng.choice([0.0, 1.5, -0.5])),
        frequency_penalty=float(rng.choice([0.0, 0.3, -1.0])),
    )
    free = not given["mask"] or rng.random() < 0.2
    bias = {int(i): float(rng.choice([100.0, -100.0, 0.1])) for i in rng.integers(0, vocab_size, 3)}
    return RowCase(
        _random_logits(rng, width, dtype),
        settings,
        None if free else legal,
        banned if given["bans"] and rng.random() < 0.5 else frozenset(),
        tuple(rng.integers(0, 3, vocab_size).tolist()) if given["counts"] else (),
        tuple(bias.items()) if given["bias"] else (),
    )


def _random_logits(rng: np.random.Generator, width: int, dtype: str) -> tuple[float, ...]:
    """Smooth, tied, huge, tiny or far below -1e4; sometimes with NaN or an infinity anywhere."""
    kind = rng.integers(0, 4)
    if kind == 0:
        values = rng.normal(0, 3, width)
    elif kind == 1:
        values = rng.integers(-1, 2, width) * rng.choice([1.0, -1.0], width)  # -0 ties with +0
    elif kind == 2:
        values = -2e4 - 5 * rng.random(width)
    else:
        values = rng.normal(0, 1e-3, width)
    for value in (np.nan, np.inf, -np.inf):
        if rng.random() < 0.12:
            values[rng.integers(0, width)] = value
    if rng.random() < 0.05:
        values[:] = -np.inf
    return tuple(torch.tensor(values).to(DTYPES[dtype]).float().tolist())


def edge_rows() -> RowGroup:
    """Rows on the edges of the rules, their laws worked by hand in property_tests/test_sample.py."""
    third = tuple(float(np.log(p)) for p in (0.5, 0.3, 0.2))
    everything = frozenset(range(3))
    rows = (
        RowCase(third, Settings(top_p=0.6), everything),  # the candidate that crosses the border stays
        RowCase((0.0, 0.0, 0.0), Settings(min_p=1.0), everything),  # equal to min_p * w0 is not below it
        RowCase((9.0, 1.0, 1.0), Settings(top_k=1), frozenset({1, 2})),  # the mask acts before top-k
        RowCase((9.0, 1.0, 1.0), Settings(temperature=0), frozenset({1, 2})),  # and before argmax; tie
        RowCase((0.0, -2e4, -2e4), Settings(), frozenset({1, 2})),  # legal logits far below any fake -1e4
        RowCase((0.0, 1.0, 1.0), Settings(), frozenset({1, 2}), bias=((0, 100.0),)),
        RowCase(
            (0.0, 0.0, 0.0), Settings(presence_penalty=1, frequency_penalty=2), everything, counts=(0, 1, 2)
        ),
        RowCase((np.nan, 0.0, 0.0), Settings(), frozenset({1})),  # NaN on an illegal id harms nothing
        RowCase((np.nan, 0.0, 0.0), Settings(), everything),
        RowCase((np.inf, 0.0, 0.0), Settings(temperature=0), everything),
        RowCase((-np.inf, 0.0, -np.inf), Settings(), everything),
        RowCase((-np.inf, 0.0, -np.inf), Settings(), frozenset({0, 2})),
        RowCase((0.0, 0.0, 0.0), Settings(), frozenset()),
        RowCase((0.0, 0.0, 0.0), Settings(), everything, banned=everything),
        RowCase((0.0, 0.0, 0.0), Settings(), frozenset(), banned=everything),
        RowCase((0.0, 0.0, -np.inf), Settings(top_p=0.5), everything),  # reached exactly by the first
        RowCase((0.0, 0.0, -np.inf), Settings(top_p=0.500001), everything),
    )
    return RowGroup(3, 3, 20, "float32", rows)


def _pack(sets: Sequence[frozenset[int] | None], vocab_size: int) -> torch.Tensor:
    words = np.zeros((len(sets), (vocab_size + 31) // 32), dtype=np.int64)
    for row, ids in enumerate(sets):
        for i in ids or ():
            words[row, i // 32] |= 1 << (i % 32)
    return torch.from_numpy(words.astype(np.uint32).view(np.int32).copy())


def sampling_arguments(group: RowGroup) -> tuple[tuple, dict]:
    """The arguments of `select_candidates` for a group."""
    rows, vocab_size = group.rows, group.vocab_size
    logits = torch.tensor([row.logits for row in rows]).to(DTYPES[group.dtype])
    if group.strided:
        logits = torch.stack((logits, torch.full_like(logits, torch.nan)), dim=2)[:, :, 0]
    fields = [attrs.evolve(SamplingSettings(), **vars(row.settings)) for row in rows]
    more: dict = {"vocab_size": vocab_size, "candidate_cap": group.candidate_cap}
    if group.with_mask:
        more["allowed_bitmask"] = _pack([row.legal for row in rows], vocab_size)
        more["constrained_mask"] = torch.tensor([row.legal is not None for row in rows])
    if group.with_bans:
        more["banned_bitmask"] = _pack([row.banned for row in rows], vocab_size)
    if group.with_counts:
        full = [row.counts or (0,) * vocab_size for row in rows]
        more["counts"] = torch.tensor(full, dtype=torch.int32)
    if group.with_bias:
        full = [[dict(row.bias).get(i, 0.0) for i in range(vocab_size)] for row in rows]
        more["bias"] = torch.tensor(full, dtype=torch.float32)
    return (logits, SamplingBatch.from_settings(fields)), more


def check_laws(
    ops: OpSet,
    name: str,
    groups: Sequence[RowGroup],
    twice: bool = True,
    progress: Progress | None = None,
) -> CheckRecord:
    """Candidates, laws and draws of every row equal the oracle's (contract 3)."""
    worst, failure, calls, events = 0.0, None, 0, Counter()
    for done, group in enumerate(groups):
        args, more = sampling_arguments(group)
        chosen = call_purely(ops.select_candidates, *args, twice=twice, **more)
        law = call_purely(ops.target_law, chosen, args[1], twice=twice)
        wants = [group.law(row) for row in group.rows]
        for i, (row, want) in enumerate(zip(group.rows, wants, strict=True)):
            error = max(_row_error(law, i, want), _candidate_error(chosen, i, *group.candidates(row)))
            worst = max(worst, error)
            if failure is None and error > TOLERANCE:
                failure = describe_row(group, row, want, law, i)
            events[want.status] += 1
            events["greedy"] += want.status == "ok" and row.settings.temperature <= 0
        fault, rows = _draw_fault(ops, law, wants, twice, exact=False)
        failure, calls = failure or fault, calls + len(group.rows) + rows
        if progress is not None:
            progress(name, done + 1, len(groups))
    return CheckRecord(
        name, failure is None, sum(len(g.rows) for g in groups), calls, worst, failure, dict(events)
    )


def _row_error(law: TargetLaw, row: int, want: Law) -> float:
    """The largest difference of a probability; 1 for a wrong status, order, or id off the support."""
    probs, ids = law.probs[row].tolist(), law.token_ids[row].tolist()
    got = {i: p for i, p in zip(ids, probs, strict=True) if p > 0}
    if int(law.status[row]) != STATUS[want.status] or not set(got) <= set(want.order):
        return 1.0
    if want.status != "ok":
        return 0.0
    solid = [i for i, p in got.items() if p > TOLERANCE]
    if solid != [i for i, p in want.as_dict().items() if p > TOLERANCE]:
        return 1.0
    return max(abs(got.get(i, 0.0) - p) for i, p in zip(want.order, want.probs, strict=True))


def _candidate_error(
    chosen: Candidates, row: int, ids: list[int], adjusted: list[float], status: str
) -> float:
    """0 if the candidates, their float32 logits and the status are the oracle's to the bit, else 1.

    A greedy row may list more than the one candidate that it takes.
    """
    count = int(chosen.count[row])
    same = int(chosen.status[row]) == STATUS[status] and (status == "ok" or count == 0)
    same &= chosen.token_ids[row, : len(ids)].tolist() == ids
    same &= chosen.logits[row, : len(ids)].tolist() == adjusted
    past = chosen.logits[row, count:]
    return 0.0 if same and count >= len(ids) and bool((past == -torch.inf).all()) else 1.0


def _draw_fault(
    ops: OpSet, law: TargetLaw, wants: Sequence[Law], twice: bool, exact: bool
) -> tuple[dict | None, int]:
    """The first uniform at which `draw` picks another id than the oracle; and how many were tried."""
    plan = [
        (row, u)
        for row, want in enumerate(wants)
        if want.status == "ok"
        for u in probe_uniforms(breakpoints(want), exact)
    ]
    if not plan:
        return None, 0
    index = torch.tensor([row for row, _ in plan])
    picked = TargetLaw(law.token_ids[index], law.probs[index], law.status[index])
    uniforms = torch.tensor([u for _, u in plan], dtype=torch.float64)
    got = call_purely(ops.draw, picked, uniforms, twice=twice).tolist()
    for (row, u), token in zip(plan, got, strict=True):
        want = wants[row]
        if token != oracle.draw(want, u):
            fault = {"law": {"order": want.order, "probs": want.probs}, "u": u, "got": token}
            return {**fault, "want": oracle.draw(want, u)}, len(plan)
    return None, len(plan)


def describe_row(group: RowGroup, row: RowCase, want: Law, law: TargetLaw, i: int) -> dict:
    """A failing row as plain values that JSON can hold."""
    return {
        "vocab_size": group.vocab_size,
        "candidate_cap": group.candidate_cap,
        "dtype": group.dtype,
        "logits": [repr(x) for x in row.logits],
        "settings": vars(row.settings),
        "legal": None if row.legal is None else sorted(row.legal),
        "banned": sorted(row.banned),
        "counts": row.counts,
        "bias": row.bias,
        "want": repr(want),
        "got": repr((law.token_ids[i].tolist(), law.probs[i].tolist(), int(law.status[i]))),
    }


def check_draws(ops: OpSet, name: str, num_laws: int, seed: int, twice: bool = True) -> CheckRecord:
    """`draw` on dyadic laws at every grid point beside a break, and its law summed over the pieces."""
    rng = np.random.default_rng(seed)
    laws = [
        dyadic_law({int(i): int(rng.integers(1, 9)) for i in rng.permutation(7)[: 1 + n % 5]})
        for n in range(num_laws)
    ]
    laws += [Law(status=status) for status in BAD_STATUSES]
    cap = 6  # one more than any support
    ids = torch.tensor([[*law.order, *[0] * (cap - len(law.order))] for law in laws])
    probs = torch.tensor([[*law.probs, *[0.0] * (cap - len(law.probs))] for law in laws], dtype=torch.float64)
    tensor = TargetLaw(ids, probs, torch.tensor([int(STATUS[law.status]) for law in laws]))
    fault, calls = _draw_fault(ops, tensor, laws, twice, exact=True)
    worst = 0.0
    for row, law in enumerate(laws):
        if law.status == "ok":
            error = _integrated_error(ops, tensor, row, law)
            worst = max(worst, error)
            if error > TOLERANCE and fault is None:
                fault = {"law": {"order": law.order, "probs": law.probs}, "error": error}
    placeholder = ops.draw(tensor, torch.full((len(laws),), 0.5, dtype=torch.float64))[-len(BAD_STATUSES) :]
    if bool(placeholder.any()) and fault is None:
        fault = {"placeholder": placeholder.tolist(), "want": "id 0 where there is no law"}
    return CheckRecord(name, fault is None, len(laws), calls, worst, fault, {})


def _integrated_error(ops: OpSet, tensor: TargetLaw, row: int, law: Law) -> float:
    parts = pieces(breakpoints(law))
    index = torch.full((len(parts),), row)
    picked = TargetLaw(tensor.token_ids[index], tensor.probs[index], tensor.status[index])
    middles = torch.tensor([(low + high) / 2 for low, high in parts], dtype=torch.float64)
    mass: defaultdict[int, float] = defaultdict(float)
    for token, (low, high) in zip(ops.draw(picked, middles).tolist(), parts, strict=True):
        mass[token] += high - low
    return max(abs(mass.get(i, 0.0) - law.prob(i)) for i in {*mass, *law.order})


def check_proposals(ops: OpSet, name: str, num_rows: int, seed: int, twice: bool = True) -> CheckRecord:
    """`propose` records the law it draws from and draws by rank; ties, greedy and extreme scores included."""
    rng = np.random.default_rng(seed)
    worst, failure, calls = 0.0, None, 0
    for n in range(num_rows):
        width = int(rng.choice([1, 2, 5, 16]))
        scores = rng.integers(-2, 3, width) if n % 2 else rng.normal(0, 4, width)
        scores = scores.astype(np.float32) - np.float32(2e4 * (n % 5 == 4))
        temperature = TEMPERATURES[n % len(TEMPERATURES)]
        want = propose_oracle.law(scores.tolist(), temperature)
        us = probe_uniforms(breakpoints(want), exact=False)
        shape = (len(us), width)
        arguments = (
            torch.from_numpy(scores).expand(shape).contiguous(),
            torch.full((len(us),), temperature, dtype=torch.float64),
            torch.tensor(us, dtype=torch.float64),
        )
        choice = call_purely(ops.propose, *arguments, twice=twice)
        error = float((choice.probs - torch.tensor(want.probs, dtype=torch.float64)).abs().max())
        ranks = [propose_oracle.draw(scores.tolist(), temperature, u) for u in us]
        worst, calls = max(worst, error), calls + len(us)
        if failure is None and (not error <= TOLERANCE or ranks != choice.index.tolist()):
            failure = {"scores": scores.tolist(), "temperature": temperature, "uniforms": us}
            failure |= {"got": choice.index.tolist(), "want": ranks, "error": error}
    return CheckRecord(name, failure is None, num_rows, calls, worst, failure, {})


def check_uniforms(ops: OpSet, name: str, num_positions: int, seed: int, twice: bool = True) -> CheckRecord:
    """`uniforms` gives the oracle's bits for high seeds, far positions, every purpose, draw and candidate."""
    positions = sorted(
        {0, 1, 2, 2**16, 2**31 - 1, *np.random.default_rng(seed).integers(0, 2**20, num_positions).tolist()}
    )
    pairs = [(s, p) for s in SEEDS for p in positions]
    seeds, places = torch.tensor([s for s, _ in pairs]), torch.tensor([p for _, p in pairs])
    failure, calls = None, 0
    for word in rng_oracle.PURPOSES:  # by name: an alias in the engine's enumeration would hide
        purpose = Purpose[word.upper()]
        for draw_index, candidate_index in ((0, 0), (1, 0), (0, 1), (3, 15)):
            more = {"draw_index": draw_index, "candidate_index": candidate_index}
            got = call_purely(ops.uniforms, seeds, places, purpose, twice=twice, **more).tolist()
            want = [rng_oracle.uniform(s, p, word, draw_index, candidate_index) for s, p in pairs]
            calls += len(pairs)
            for pair, a, b in zip(pairs, got, want, strict=True):
                if failure is None and not (a == b and 0 <= a < 1):
                    failure = {"seed": pair[0], "position": pair[1], "purpose": word.upper(), **more}
                    failure |= {"got": a, "want": b}
    return CheckRecord(name, failure is None, len(pairs), calls, 0.0, failure, {})
