"""Gate: drawn with the real generator, a neural path's first tokens follow the law of ordinary sampling.

Many requests with seeds of their own share one prompt, built once and copied into each lane. The law comes
from the float64 oracle over the target's own logits of every prefix, with the oracle's legal sets. Counted
are the first token, the pairs and the first three; too few drafts or rejections make it INCONCLUSIVE.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from engine.request import RequestOptions, SamplingSettings
from engine.runtime.batch import Lane
from engine.runtime.program import Snapshot, TwoPhaseProgram
from engine.runtime.stats import SpecStats
from experiments.gates.neural_tokens import events
from experiments.gates.neural_world import NeuralWorld, neural_world
from experiments.gates.path_law import PASS_RATE, TABLE_RATE
from experiments.gates.path_oracle import Language, Tokens, over_ids
from experiments.verdict import Status, Verdict, Visible, failed, inconclusive, passed, skipped
from oracles import sample
from oracles.round_law import JointLaw, marginal, ordinary_law, total_variation
from oracles.statistics import (
    Inconclusive,
    LawMismatch,
    assert_counts_match_pmf,
    min_discrepancy_of_counts,
    min_num_samples_of_counts,
    require_events,
)

NAME = "neural law"
CHECK = "law of the tokens"
JOINT_LENGTH, LENGTH, MAX_TOKENS, NUM_DRAFTS = 2, 3, 4, 2
TOP_K = 3  # few outcomes, so that every event is tested
NUM_LANES = 64
FLOORS = {"drafts": 0.5, "accepted drafts": 0.02, "rejections": 0.02}  # for each request
CLAUSES = ("SPEC-2", "SPEC-3", "SPEC-8", "SPECG-6", "SAMP-13")


class Rewound:
    """A program whose new lanes start as copies of one that was built once from the shared prompt."""

    def __init__(self, program: TwoPhaseProgram, prompt: Sequence[int]) -> None:
        self._program = program
        self._kept = program.snapshot(program.admit(prompt, SamplingSettings()))

    def admit(
        self, prompt_ids: Sequence[int], settings: SamplingSettings, generated: Sequence[int] = ()
    ) -> int:
        """Place a copy of the kept lane under other settings."""
        assert not generated, "these requests are never built again"
        lane = Lane(settings, list(prompt_ids), len(prompt_ids))
        return self._program.restore(Snapshot(lane, self._kept.target, self._kept.drafter))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._program, name)


class Law:
    """The law of the next token after an output, from the target's own logits and the oracle's legal sets."""

    def __init__(self, world: NeuralWorld, prompt: Sequence[int]) -> None:
        self._prompt, self._reader = prompt, world.reader
        self._language = Language(world.law_case, world.vocabulary)
        self._known: dict[Tokens, sample.Law] = {}

    def __call__(self, tokens: Tokens) -> sample.Law:
        """Return the law after `tokens`."""
        if tokens not in self._known:
            row = self._reader.logits([*self._prompt, *tokens])[-1]
            ids = sorted(self._language.legal_ids(tokens))
            settings = sample.Settings(top_k=TOP_K)
            small = sample.law([float(row[i]) for i in ids], vocab_size=len(ids), settings=settings)
            self._known[tokens] = over_ids(small, ids)
        return self._known[tokens]


@attrs.define
class Tally:
    """How often each beginning was seen, and how the drafts fared."""

    tokens: Counter[Tokens] = attrs.field(factory=Counter)
    stats: SpecStats = attrs.field(factory=SpecStats)

    @property
    def joint(self) -> dict[Tokens, int]:
        """Counts of the first two tokens."""
        found: Counter[Tokens] = Counter()
        for tokens, count in self.tokens.items():
            found[tokens[:JOINT_LENGTH]] += count
        return dict(found)


def gate(*, path: str, model: str, seed: int, total_variation_seen: float = 0.15) -> list[Verdict]:
    """Judge one path of a model directory until it could see the given total variation."""
    return judge_world(neural_world(model), path, seed, total_variation_seen, model)


def judge_world(
    world: NeuralWorld, path: str, seed: int, total_variation_seen: float, model: str = ""
) -> list[Verdict]:
    """Judge one path of a world."""
    missing = world.without(path)
    if missing:
        return [skipped(NAME, CHECK, missing, path=path)]
    for prompt in world.law_prompts:
        verdict = _on_prompt(world, path, seed, total_variation_seen, prompt, model)
        if verdict.status is not Status.INCONCLUSIVE:
            break
    return [verdict]


def _on_prompt(
    world: NeuralWorld, path: str, seed: int, to_see: float, prompt: Sequence[int], model: str
) -> Verdict:
    """Judge one path after one prompt; a prompt is left for the next where it proves too little."""
    target, eos_ids = Law(world, prompt), world.vocabulary.eos_ids
    law = ordinary_law(target, JOINT_LENGTH, eos_ids)
    rates = {"false_fail_rate": TABLE_RATE, "false_pass_rate": PASS_RATE}
    num = min_num_samples_of_counts(to_see, law, **rates)
    tally = run(world, path, seed, num, prompt)
    seen = min_discrepancy_of_counts(num, law, **rates)
    return _judge(tally, law, ordinary_law(target, LENGTH, eos_ids), seen, path, (model, seed))


def run(world: NeuralWorld, path: str, seed: int, num_samples: int, prompt: Sequence[int]) -> Tally:
    """Run requests whose seeds follow `seed` and count their first tokens."""
    num_drafts = None if path == "ordinary" else NUM_DRAFTS
    program = world.program(path, NUM_LANES, num_drafts=num_drafts)
    engine = world.engine(Rewound(program, prompt))
    tally = Tally()
    for start in range(0, num_samples, 4 * NUM_LANES):
        handles = [
            engine.submit(prompt, _options(world, seed * 2**24 + i))
            for i in range(start, min(start + 4 * NUM_LANES, num_samples))
        ]
        engine.run_until_done()
        for handle in handles:
            handle.result()
            tally.tokens[tuple(handle.session.token_ids[:LENGTH])] += 1
    tally.stats = engine.stats
    return tally


def _options(world: NeuralWorld, seed: int) -> RequestOptions:
    sampling = SamplingSettings(temperature=1.0, top_k=TOP_K, seed=seed)
    return RequestOptions(MAX_TOKENS, world.law_case.constraint, sampling)


def _judge(
    tally: Tally, law: JointLaw, longer: JointLaw, seen: float, path: str, ran: tuple[str, int]
) -> Verdict:
    n, counts = tally.tokens.total(), events(tally.stats)
    facts: dict[str, Any] = {"path": path, "n": n, "visible": Visible("total variation", seen)}
    facts["worst_error"] = total_variation({cell: c / n for cell, c in tally.joint.items()}, law)
    facts |= {"detail": ", ".join(f"{c} {what}" for what, c in counts.items()), "clauses": CLAUSES}
    try:
        for table, observed, pmf in _tables(tally, law, longer):
            assert_counts_match_pmf(observed, pmf, false_fail_rate=TABLE_RATE, table=table)
        floors = {what: math.ceil(share * n) for what, share in FLOORS.items()}
        require_events(counts, {} if path == "ordinary" else floors)
    except LawMismatch as mismatch:
        case = {"kind": "neural law", "path": path, "model": ran[0], "seed": ran[1]}
        return failed(NAME, CHECK, case=case | {"detail": str(mismatch)}, **facts)
    except Inconclusive as few:
        return inconclusive(NAME, CHECK, str(few), **facts)
    return passed(NAME, CHECK, **facts)


def _tables(
    tally: Tally, law: JointLaw, longer: JointLaw
) -> Iterator[tuple[str, Mapping[Any, int], Mapping[Any, float]]]:
    yield f"first {JOINT_LENGTH} tokens", tally.joint, law
    yield f"first {LENGTH} tokens", tally.tokens, longer
    empirical = {tokens: float(count) for tokens, count in tally.tokens.items()}
    for position in range(LENGTH):
        counts = {cell: round(count) for cell, count in marginal(empirical, position).items()}
        yield f"token {position}", counts, marginal(longer, position)
