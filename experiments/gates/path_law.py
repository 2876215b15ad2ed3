"""Statistical check of one path: the real generator's tokens against the exact law of ordinary sampling.

Many requests with seeds of their own run through the engine as rows of mixed rounds. Their first tokens are
counted: jointly, one by one, in pairs, and the third token given that the second was an accepted draft. For
DFlash2 the first draft is judged against its recorded q first. A run with too few accepted drafts, rejections
of either kind, illegal drafts or bonuses is INCONCLUSIVE; the total variation to be seen sets its size.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

from engine.request import OutputConstraint, SamplingSettings
from engine.runtime.contract import RowResult
from engine.runtime.engine import RequestHandle
from engine.runtime.stats import SpecStats
from engine.text.vocabulary import Vocabulary
from experiments.gates import vocabulary_kind
from experiments.gates.path_oracle import Target, Tokens, Twin
from experiments.gates.path_world import A, B, C, Case, World, options, world
from experiments.verdict import Verdict, Visible, failed, inconclusive, passed
from oracles.expressions import Alt, Literal, Repeat, Seq
from oracles.round_law import JointLaw, marginal, ordinary_law, total_variation
from oracles.statistics import (
    Inconclusive,
    LawMismatch,
    assert_counts_match_pmf,
    min_discrepancy_of_counts,
    min_num_samples_of_counts,
    require_events,
)

NAME = "paths"
CHECK = "law of the tokens"
TABLE_RATE = 1e-12  # at most 20 tables a check and a few dozen checks: 1e-9 for a whole run
PASS_RATE = 1e-3
JOINT_LENGTH = 2  # few enough outcomes to test every event
LENGTH = 3
MAX_TOKENS = 4
MIN_GROUP = 400
NUM_LANES = 128
CHUNK = 1024
SETTINGS = SamplingSettings(temperature=1.0, top_k=3)  # a residual keeps two tokens: its coin matters
TABLE_SEEDS = {"toy": 138, "qwen3.5": 76}  # tables under which every path meets every kind of event
LAW_CASE = Case(
    "law",
    OutputConstraint.grammar('root ::= ("a" | "b" | "ca")* ("bc" | "c")?'),
    {"root": Seq((Repeat(Alt((A, B, Literal("ca"))), 0, None), Repeat(Alt((Literal("bc"), C)), 0, 1)))},
)
FLOORS = {
    "accepted drafts": 100,
    "rejections by target": 100,
    "rejections by grammar": 100,
    "windows with an illegal draft": 100,
    "bonuses": 50,
}


@attrs.frozen
class Subject:
    """What is judged: a language under settings in a world whose table meets every kind of event."""

    gate: str
    world: World
    case: Case
    clauses: tuple[str, ...]
    settings: SamplingSettings = SETTINGS

    @property
    def target(self) -> Target:
        """The laws of ordinary sampling."""
        return Target(self.world, self.case, self.settings)


def letters(vocab: str, on: World | None = None) -> Subject:
    """The small grammar over a, b, c, on the chosen tables or those of a given world."""
    law_world = on or attrs.evolve(world(vocab), seed=TABLE_SEEDS[vocabulary_kind(vocab)])
    return Subject(NAME, law_world, LAW_CASE, ("SPEC-2", "SPEC-3", "SPEC-8", "SPECG-6", "SAMP-13"))


@attrs.define
class Tally:
    """What the requests of one run did, in counts."""

    joint: Counter[Tokens] = attrs.field(factory=Counter)
    all_tokens: Counter[Tokens] = attrs.field(factory=Counter)
    third_after_accepted: dict[Tokens, Counter[int]] = attrs.field(factory=lambda: defaultdict(Counter))
    first_draft: dict[Tokens, Counter[int]] = attrs.field(factory=lambda: defaultdict(Counter))
    stats: SpecStats = attrs.field(factory=SpecStats)

    def add(self, handle: RequestHandle, first_round: RowResult | None) -> None:
        """Count one finished request; `first_round` is its first round after the first token."""
        tokens = handle.session.token_ids[:LENGTH]
        self.joint[tokens[:JOINT_LENGTH]] += 1
        self.all_tokens[tokens] += 1
        self.stats.merge(handle.stats)
        if first_round is None:
            return
        if first_round.drafts:
            self.first_draft[tokens[:1]][first_round.drafts[0]] += 1
        if first_round.num_accepted and len(tokens) == LENGTH:
            self.third_after_accepted[tokens[:2]][tokens[2]] += 1


def check_law(
    path: str,
    ops: str,
    vocab: str,
    seed: int,
    *,
    total_variation_seen: float,
    num_lanes: int = NUM_LANES,
    subject: Callable[[str], Subject] = letters,
) -> Verdict:
    """Run the path until it could see `total_variation_seen`, and judge its tokens."""
    judged = subject(vocab)
    law = ordinary_law(judged.target, JOINT_LENGTH, judged.world.vocabulary.eos_ids)
    rates = {"false_fail_rate": TABLE_RATE, "false_pass_rate": PASS_RATE}
    num_samples = min_num_samples_of_counts(total_variation_seen, law, **rates)
    tally = run(judged, path, ops, seed, num_samples, num_lanes)
    case = {"kind": "path law", "path": path, "ops": ops, "vocab": vocab, "seed": seed}
    return judge(tally, law, judged, case)


def run(
    subject: Subject, path: str, ops: str, seed: int, num_samples: int, num_lanes: int = NUM_LANES
) -> Tally:
    """Run `num_samples` requests with seeds that follow `seed` and count what they do."""
    rounds: dict[RequestHandle, RowResult] = {}

    def observe(handle: RequestHandle, result: RowResult) -> None:
        if handle.session.num_generated > 1 or result.drafts:
            rounds.setdefault(handle, result)

    engine = subject.world.engine(path, ops, num_lanes, observe=observe)
    tally = Tally()
    for start in range(0, num_samples, CHUNK):
        size = min(CHUNK, num_samples - start)
        handles = [
            engine.submit(
                subject.world.prompt_ids,
                options(subject.case, subject.settings, MAX_TOKENS, seed * 2**24 + start + i),
            )
            for i in range(size)
        ]
        engine.run_until_done()
        for handle in handles:
            handle.result()
            tally.add(handle, rounds.pop(handle, None))
    return tally


def judge(tally: Tally, law: JointLaw, subject: Subject, case: Mapping[str, Any]) -> Verdict:
    """Turn a tally into a verdict; `case` says what ran."""
    n, path = tally.joint.total(), case["path"]
    facts = _facts(tally, law, subject, path, n)
    try:
        for table, counts, pmf in _tables(tally, law, subject, path):
            assert_counts_match_pmf(counts, pmf, false_fail_rate=TABLE_RATE, table=table)
        if path != "ordinary":
            require_events(_events(tally.stats), FLOORS)
    except LawMismatch as mismatch:
        case = {**case, "mismatch": str(mismatch)}
        return failed(subject.gate, CHECK, case=case, **facts | {"detail": str(mismatch)})
    except Inconclusive as few:
        return inconclusive(subject.gate, CHECK, str(few), **facts)
    return passed(subject.gate, CHECK, **facts)


def _facts(tally: Tally, law: JointLaw, subject: Subject, path: str, n: int) -> dict[str, Any]:
    seen = min_discrepancy_of_counts(n, law, false_fail_rate=TABLE_RATE, false_pass_rate=PASS_RATE)
    events = _events(tally.stats)
    return {
        "path": path,
        "n": n,
        "visible": Visible("total variation", seen),
        "worst_error": total_variation({cell: count / n for cell, count in tally.joint.items()}, law),
        "detail": ", ".join(f"{count} {name}" for name, count in events.items()),
        "series": {
            "law": _law_series(tally, law, subject.world.vocabulary),
            "acceptance": acceptance_series(tally.stats),
        },
        "clauses": subject.clauses,
    }


def _tables(
    tally: Tally, law: JointLaw, subject: Subject, path: str
) -> Iterator[tuple[str, Mapping[Any, int], Mapping[Any, float]]]:
    """Every table of counts with the law it must follow."""
    target = subject.target
    if path == "dflash2":
        twin = Twin(subject.world, path, target, subject.settings)
        for history, counts in _large(tally.first_draft):
            yield f"first draft after {history}", counts, twin.first_draft_law(history)
    yield f"first {JOINT_LENGTH} tokens", tally.joint, law
    law = ordinary_law(target, LENGTH, subject.world.vocabulary.eos_ids)
    yield f"first {LENGTH} tokens", tally.all_tokens, law
    empirical = {tokens: float(count) for tokens, count in tally.all_tokens.items()}
    for position in range(LENGTH):
        yield f"token {position}", _whole(marginal(empirical, position)), marginal(law, position)
        if position:
            yield (
                f"tokens {position - 1}, {position}",
                _whole(_pairs(empirical, position)),
                _pairs(law, position),
            )
    for history, counts in _large(tally.third_after_accepted):
        yield f"token 2 after {history}, the last one an accepted draft", counts, target(history).as_dict()


def _pairs(law: Mapping[Tokens, float], position: int) -> dict[Tokens, float]:
    """The law of two neighbouring tokens, shorter where the output ended before."""
    pairs: dict[Tokens, float] = defaultdict(float)
    for tokens, p in law.items():
        pairs[tokens[position - 1 : position + 1]] += p
    return pairs


def _whole(counts: Mapping[Any, float]) -> dict[Any, int]:
    return {cell: round(count) for cell, count in counts.items()}


def _large(groups: Mapping[Tokens, Counter[int]]) -> list[tuple[Tokens, Counter[int]]]:
    return [(key, counts) for key, counts in sorted(groups.items()) if counts.total() >= MIN_GROUP]


def _events(stats: SpecStats) -> dict[str, int]:
    return {
        "accepted drafts": stats.num_accepted,
        "rejections by target": stats.num_rejected_by_target,
        "rejections by grammar": stats.num_rejected_by_grammar,
        "windows with an illegal draft": stats.num_illegal,
        "bonuses": stats.num_bonuses,
    }


def _law_series(tally: Tally, law: JointLaw, vocabulary: Vocabulary) -> dict[str, Any]:
    cells = sorted(law, key=lambda cell: -law[cell])
    return {
        "labels": ["·".join(_label(vocabulary, token_id) for token_id in cell) for cell in cells],
        "counts": [tally.joint[cell] for cell in cells],
        "probs": [law[cell] for cell in cells],
        "what": f"first {JOINT_LENGTH} tokens",
    }


def _label(vocabulary: Vocabulary, token_id: int) -> str:
    """A token for the foot of a plot: its text, or which completion id it is."""
    if token_id in vocabulary.eos_ids:
        return f"end{vocabulary.eos_ids.index(token_id) + 1}"
    return vocabulary.token_bytes[token_id].decode(errors="backslashreplace")


def acceptance_series(stats: SpecStats) -> dict[str, Any]:
    """Judged and accepted drafts of every window position."""
    positions = range(max(stats.reached_at, default=-1) + 1)
    return {
        "reached": [stats.reached_at[i] for i in positions],
        "accepted": [stats.accepted_at[i] for i in positions],
    }
