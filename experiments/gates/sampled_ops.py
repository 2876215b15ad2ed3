"""Rounds drawn with the real generator: does the law that the exact sweeps prove survive its coins?

Every sample is a request of its own seed, at positions and purposes as a run uses them: two drafts from the
recorded q, one round, then ordinary draws until three tokens stand. Counts are judged by
oracles/statistics.py against the exact law: the drafts against q first, each position, neighbouring
pairs, and position 2 given that draft 1 was accepted. A run with too few events is inconclusive.
"""

from collections import Counter
from collections.abc import Mapping
from itertools import product

import attrs
import torch

from engine.ops import OpSet
from engine.ops.accept import Proposal, RoundUniforms
from engine.ops.rng import Purpose
from engine.ops.sample import TargetLaw
from experiments.gates.exact_cases import Progress, masked_law
from oracles import round_law as rounds
from oracles.accept import accept_break
from oracles.sample import Law, dyadic_law
from oracles.statistics import (
    Inconclusive,
    LawMismatch,
    assert_tables_match_pmfs,
    min_discrepancy_of_counts,
    require_events,
)

VOCAB_SIZE, NUM_DRAFTS, LENGTH = 3, 2, 3
CHUNK = 1 << 16
SIZES = {"tiny": 20_000, "quick": 100_000, "full": 700_000}  # full sees 0.01 in every table of sparse q
FIRST_SEED = -0x6543210FEDCBA988  # high bits set
FALSE_FAIL_RATE, FALSE_PASS_RATE = 1e-9, 1e-9
WEIGHTS = {None: (4, 3, 2), 0: (1, 5, 2), 1: (3, 1, 4), 2: (2, 3, 3), 3: (1, 1, 1)}  # by the token before
MASKS = {None: {0, 1, 2}, 0: {0, 1, 2}, 1: {0, 2}, 2: {0, 1, 2}, 3: {0, 1, 2}}
DRAFT_WEIGHTS = {None: (2, 2, 3, 2), 0: (4, 2, 1, 1), 1: (2, 4, 3, 0), 2: (1, 2, 5, 0), 3: (1, 1, 1, 1)}


@attrs.frozen
class SampledRecord:
    """What a run of real coins showed; `visible` is the total variation that every table is sure to see."""

    name: str
    passed: bool
    num_samples: int
    visible: float
    tables: Mapping[str, tuple[int, float]]  # counts in the table, what they see
    events: Mapping[str, int]
    failure: str | None


def target(prefix: tuple[int, ...]) -> Law:
    """The masked target law after a prefix, by its last token; id 3 is out of range and never legal."""
    last = prefix[-1] if prefix else None
    return masked_law(WEIGHTS[last], frozenset(MASKS[last]))


def proposal(prefix: tuple[int, ...]) -> Mapping[int, float]:
    """What drafts are drawn from: knows no mask, and puts mass on illegal ids."""
    return dyadic_law(dict(enumerate(DRAFT_WEIGHTS[prefix[-1] if prefix else None]))).as_dict()


def _law_table(laws: list[Law]) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and probabilities of laws, 4 entries each; row 4 is the law after nothing."""
    ids, probs = torch.zeros(len(laws), 4, dtype=torch.int64), torch.zeros(len(laws), 4, dtype=torch.float64)
    for i, law in enumerate(laws):
        ids[i, : len(law.order)], probs[i, : len(law.order)] = (
            torch.tensor(law.order),
            torch.tensor(law.probs).double(),
        )
    return ids, probs


PREFIXES = ((0,), (1,), (2,), (3,), ())
START = 4
TARGETS = _law_table([target(p) for p in PREFIXES])
PROPOSALS = _law_table([Law(tuple(q), tuple(q.values())) for q in map(proposal, PREFIXES)])


def _after(table: tuple[torch.Tensor, torch.Tensor], previous: torch.Tensor) -> TargetLaw:
    return TargetLaw(table[0][previous], table[1][previous], torch.zeros(len(previous), dtype=torch.int64))


def sample_rounds(
    ops: OpSet, seeds: torch.Tensor, one_hot: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Drafts [n, 2], tokens [n, 3] and num_accepted [n] of one round each, completed by ordinary draws."""

    def coins(position: int, purpose: Purpose) -> torch.Tensor:
        return ops.uniforms(seeds, torch.full_like(seeds, position), purpose)

    previous, drafts = torch.full_like(seeds, START), []
    for i in range(NUM_DRAFTS):
        drafts.append(ops.draw(_after(PROPOSALS, previous), coins(1 + i, Purpose.PROPOSAL)))
        previous = drafts[-1]
    chain = torch.stack((torch.full_like(seeds, START), *drafts), dim=1)
    listed = _after(PROPOSALS, chain[:, :-1].flatten())
    shape = (len(seeds), NUM_DRAFTS, 4)
    outcome = ops.accept_round(
        _after(TARGETS, chain.flatten()),
        Proposal(
            token_ids=chain[:, 1:].contiguous(),
            extents=torch.full_like(seeds, NUM_DRAFTS),
            candidate_ids=None if one_hot else listed.token_ids.view(shape),
            draft_probs=None if one_hot else listed.probs.view(shape),
            ends_mask=torch.zeros(len(seeds), NUM_DRAFTS, dtype=torch.bool),
        ),
        RoundUniforms(
            accept=torch.stack([coins(1 + i, Purpose.ACCEPT) for i in range(NUM_DRAFTS)], dim=1),
            correction=torch.stack([coins(1 + i, Purpose.CORRECTION) for i in range(NUM_DRAFTS)], dim=1),
            bonus=coins(1 + NUM_DRAFTS, Purpose.BONUS),
        ),
        vocab_size=VOCAB_SIZE,
    )
    tokens = outcome.token_ids.clone()
    for i in range(1, LENGTH):
        drawn = ops.draw(_after(TARGETS, tokens[:, i - 1]), coins(1 + i, Purpose.DECODE))
        tokens[:, i] = torch.where(outcome.num_emitted > i, tokens[:, i], drawn)
    return chain[:, 1:], tokens, outcome.num_accepted


def exact_pmfs(one_hot: bool) -> dict[str, dict]:
    """The law of every table, from the oracles."""
    joint = rounds.ordinary_law(target, LENGTH)
    given: Counter = Counter()
    for draft, q in proposal(()).items():
        accepted = accept_break(target(()), draft, None if one_hot else proposal(()))
        for token, p in target((draft,)).as_dict().items():
            given[draft, token] += q * accepted * p
    mass = sum(given.values())
    pmfs: dict[str, dict] = {"drafts": rounds.draft_chains(proposal, NUM_DRAFTS)}
    for name, picked in {"1": (0,), "2": (1,), "3": (2,), "1, 2": (0, 1), "2, 3": (1, 2)}.items():
        law: Counter = Counter()
        for tokens, p in joint.items():
            law[tuple(tokens[i] for i in picked)] += p
        pmfs[f"position {name}"] = dict(law)
    pmfs["1, 2 given draft 1 accepted"] = {pair: p / mass for pair, p in given.items()}
    return pmfs


def _count(columns: torch.Tensor) -> Counter:
    """How often each row of ids below 4 stands in `columns`."""
    width = columns.shape[1]
    codes = sum(columns[:, i] * 4 ** (width - 1 - i) for i in range(width))
    counts = torch.bincount(codes, minlength=4**width).tolist()
    return Counter({key: n for key, n in zip(product(range(4), repeat=width), counts, strict=True) if n})


def check_sampled_rounds(
    ops: OpSet, num_samples: int, one_hot: bool, progress: Progress | None = None
) -> SampledRecord:
    """Draw `num_samples` rounds with the op's own generator and judge every table at a total rate of 1e-9."""
    name, pmfs = f"sampled rounds, {'one-hot' if one_hot else 'sparse'} q", exact_pmfs(one_hot)
    counts: dict[str, Counter] = {table: Counter() for table in pmfs}
    events: Counter[str] = Counter()
    for start in range(0, num_samples, CHUNK):
        seeds = torch.arange(start, min(num_samples, start + CHUNK)) + FIRST_SEED
        drafts, tokens, accepted = sample_rounds(ops, seeds, one_hot)
        views = {"drafts": drafts, "position 1": tokens[:, :1], "position 2": tokens[:, 1:2]}
        views |= {"position 3": tokens[:, 2:], "position 1, 2": tokens[:, :2], "position 2, 3": tokens[:, 1:]}
        views["1, 2 given draft 1 accepted"] = tokens[accepted > 0][:, :2]
        for table, columns in views.items():
            counts[table].update(_count(columns))
        refused = drafts.gather(1, accepted.clamp(max=NUM_DRAFTS - 1)[:, None])[:, 0][accepted < NUM_DRAFTS]
        events.update(drafts=drafts.numel(), accepted=int(accepted.sum()), rejections=len(refused))
        events.update(
            {"bonuses": int((accepted == NUM_DRAFTS).sum()), "out of range": int((refused == 3).sum())}
        )
        if progress is not None:
            progress(name, min(num_samples, start + CHUNK), num_samples)
    return _judge(name, num_samples, counts, pmfs, events)


def _judge(name: str, num_samples: int, counts, pmfs, events: Counter) -> SampledRecord:
    rate, failure = FALSE_FAIL_RATE / len(pmfs), None
    sees = {
        table: min_discrepancy_of_counts(
            counts[table].total(), pmf, false_fail_rate=rate, false_pass_rate=FALSE_PASS_RATE
        )
        for table, pmf in pmfs.items()
    }
    try:
        floor = num_samples // 100
        require_events(events, dict.fromkeys(("accepted", "rejections", "bonuses", "out of range"), floor))
        tables = {table: (counts[table], pmf) for table, pmf in pmfs.items()}
        assert_tables_match_pmfs(tables, false_fail_rate=FALSE_FAIL_RATE)
    except (Inconclusive, LawMismatch) as fault:
        failure = str(fault)
    shown = {table: (counts[table].total(), seen) for table, seen in sees.items()}
    return SampledRecord(name, failure is None, num_samples, max(sees.values()), shown, dict(events), failure)
