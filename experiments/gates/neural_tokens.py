"""Gate: a neural path's tokens are those of ordinary decoding, alone and in batches that are disturbed.

Greedy requests are compared with ordinary decoding of each alone; sampled ones with the same path alone. A
batch holds every language and free rows; between rounds some requests are paused, built again from their
history, or cancelled. Where tokens part, a decision nearer than 1e-4 excuses them, and the report counts it.
"""

import random
from collections.abc import Sequence
from typing import Any

import attrs

from engine.runtime.engine import Engine
from engine.runtime.stats import SpecStats
from experiments.cases import Line
from experiments.gates.neural_world import NEAR, Ask, NeuralWorld, asks, near_miss, neural_world
from experiments.verdict import Verdict, Visible, failed, inconclusive, passed, skipped
from oracles.statistics import Inconclusive, require_events

NAME = "neural tokens"
GREEDY, SAMPLED = "greedy equals ordinary", "sampled, alone or in any batch"
CLAUSES = ("SPEC-1", "SPEC-9", "LIFE-1", "LIFE-4")
FLOORS = {"drafts": 10, "accepted drafts": 1, "rejections": 2}
MOST_EXCUSED = 0.05  # of the requests; more of them would be no chance


@attrs.frozen
class Setup:
    """One way to run requests: how many lanes, and what is done to them between rounds."""

    num_lanes: int
    disturb: bool = False


SETUPS = (Setup(1), Setup(8), Setup(3, disturb=True))


@attrs.define
class Compared:
    """What was compared so far, and the first difference that nothing excuses."""

    num: int = 0
    num_excused: int = 0
    stats: SpecStats = attrs.field(factory=SpecStats)
    first: tuple[Setup, Ask, tuple[int, ...], tuple[int, ...], float] | None = None

    def add(
        self, world: NeuralWorld, setup: Setup, ask: Ask, got: Sequence[int], wanted: Sequence[int]
    ) -> None:
        """Compare one request's tokens."""
        self.num += 1
        near = near_miss(world, ask, got, wanted)
        if near is None:
            return
        if near < NEAR:
            self.num_excused += 1
        elif self.first is None:
            self.first = (setup, ask, tuple(got), tuple(wanted), near)


def gate(*, path: str, model: str, seed: int, num_requests: int = 10, max_tokens: int = 24) -> list[Verdict]:
    """Judge one path of a model directory."""
    return judge_world(neural_world(model), path, seed, num_requests, max_tokens, model)


def judge_world(
    world: NeuralWorld, path: str, seed: int, num_requests: int, max_tokens: int, model: str = ""
) -> list[Verdict]:
    """Judge one path of a world."""
    missing = world.without(path)
    if missing:
        return [skipped(NAME, GREEDY, missing, path=path), skipped(NAME, SAMPLED, missing, path=path)]
    where = {"path": path, "model": model, "seed": seed}
    verdicts = []
    for check, temperature in ((GREEDY, 0.0), (SAMPLED, 0.8)):
        asked = asks(world, num_requests, max_tokens, seed, temperature)
        baseline = "ordinary" if check == GREEDY else path
        setups = SETUPS if path != baseline else SETUPS[1:]
        verdicts.append(_verdict(check, compare(world, path, asked, baseline, setups, seed), where, asked))
    return verdicts


def compare(
    world: NeuralWorld, path: str, asked: Sequence[Ask], baseline: str, setups: Sequence[Setup], seed: int
) -> Compared:
    """Run the requests in every setup; what each should give is the baseline's, alone on one lane."""
    found = Compared()
    wanted = run(world, baseline, asked, Setup(1), seed).tokens
    for setup in setups:
        played = run(world, path, asked, setup, seed)
        found.stats.merge(played.stats)
        for i, (ask, got) in enumerate(zip(asked, played.tokens, strict=True)):
            expected = wanted[i][: len(got)] if i in played.cancelled else wanted[i]
            found.add(world, setup, ask, got, expected)
    return found


@attrs.frozen
class Played:
    """Committed tokens of every request, which of them were cancelled, and how the drafts fared."""

    tokens: list[tuple[int, ...]]
    cancelled: set[int]
    stats: SpecStats


def run(world: NeuralWorld, path: str, asked: Sequence[Ask], setup: Setup, seed: int) -> Played:
    """Run requests on a fresh program of a path."""
    return play(world, world.program(path, setup.num_lanes), asked, setup, seed)


def play(world: NeuralWorld, program: Any, asked: Sequence[Ask], setup: Setup, seed: int) -> Played:
    """Run requests on a program; what is done to them between rounds depends on `seed` alone."""
    engine = world.engine(program)
    handles = [ask.submit(engine, world) for ask in asked]
    cancelled = _disturbed(engine, handles, random.Random(seed)) if setup.disturb else set()
    engine.run_until_done()
    for i, handle in enumerate(handles):
        if i not in cancelled:
            handle.result()  # an error of a request is an error of the gate
    return Played([tuple(handle.session.token_ids) for handle in handles], cancelled, engine.stats)


def _disturbed(engine: Engine, handles: list[Any], rng: random.Random) -> set[int]:
    """Pause, rebuild and cancel for some rounds; the last request is the one cancelled."""
    for turn in range(6):
        engine.step()
        live = [handle for handle in handles if not handle.done and handle.lane is not None]
        taken = live[turn % 2 :: 2]
        for handle in taken:
            engine.pause(handle, rng.choice(("snapshot", "replay")))
        engine.step()
        for handle in taken:
            engine.resume(handle)
    last = next((i for i in reversed(range(len(handles))) if not handles[i].done), None)
    if last is None:
        return set()
    engine.cancel(handles[last])
    return {last}


def events(stats: SpecStats) -> dict[str, int]:
    """What must have happened for a comparison of drafted tokens to mean something."""
    return {
        "drafts": stats.num_drafted,
        "accepted drafts": stats.num_accepted,
        "rejections": stats.num_rejected_by_target + stats.num_rejected_by_grammar,
        "illegal windows": stats.num_illegal,
    }


def _verdict(check: str, found: Compared, where: dict[str, Any], asked: Sequence[Ask]) -> Verdict:
    counts = events(found.stats)
    detail = ", ".join(f"{n} {what}" for what, n in counts.items())
    detail += f"; {found.num_excused} parted at a decision nearer than {NEAR}"
    facts = {"path": where["path"], "n": found.num, "clauses": CLAUSES, "detail": detail}
    facts["visible"] = Visible("a decision further than 1e-4 from a tie")
    if found.first is not None:
        setup, ask, got, wanted, near = found.first
        case = {"kind": "neural tokens", "replay": "experiments.gates.neural_tokens:replay", **where}
        case |= {"check": check, "setup": attrs.asdict(setup), "index": asked.index(ask)}
        case |= {
            "asked": [attrs.asdict(one) for one in asked],
            "got": got,
            "wanted": wanted,
            "nearness": near,
        }
        words = f"{ask} on {setup}: got {got}, wanted {wanted}, {near:.2g} from a tie"
        return failed(NAME, check, case=case, worst_error=near, **facts | {"detail": words})
    if found.num_excused > max(1, MOST_EXCUSED * found.num):
        few = f"{found.num_excused} of {found.num} requests parted at near ties: too many to be chance"
        return inconclusive(NAME, check, few, **facts)
    try:
        require_events(counts, {} if where["path"] == "ordinary" else FLOORS)
    except Inconclusive as few:
        return inconclusive(NAME, check, str(few), **facts)
    return passed(NAME, check, **facts)


def replay(case: dict[str, Any]) -> list[Line]:
    """Run the requests of a case file again in its setup, beside the baseline alone."""
    world, asked = neural_world(case["model"]), [Ask(**ask) for ask in case["asked"]]
    baseline = "ordinary" if case["check"] == GREEDY else case["path"]
    one = [asked[case["index"]]]
    wanted = run(world, baseline, one, Setup(1), case["seed"]).tokens[0]
    played = run(world, case["path"], asked, Setup(**case["setup"]), case["seed"])
    got = played.tokens[case["index"]]
    wanted = wanted[: len(got)] if case["index"] in played.cancelled else wanted
    near = near_miss(world, one[0], got, wanted)
    return [Line("tokens", str(got), str(wanted), near is None or near < NEAR)]
