"""Exact checks of one path: the oracle's twin, greedy equality, batches, pauses, budgets and failing rows.

Each check yields the requests it looked at and the first one that was wrong; nothing here is statistical. A
request in trouble (no legal token, NaN logits) must end alone, with its own kind of error, and its neighbours
must publish what they publish without it.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import attrs

from engine.errors import DeadEnd, NonFiniteLogits
from engine.runtime.engine import Engine, RequestHandle
from engine.runtime.stats import SpecStats
from experiments.gates.path_oracle import Target, Tokens, Twin
from experiments.gates.path_world import (
    ALL_SETTINGS,
    CASES,
    CASES_IN_TROUBLE,
    MAX_TOKENS,
    NUM_DRAFTS,
    World,
    options,
)

NUM_LANES = 16


@attrs.frozen
class Asked:
    """One request of a check: which language, which settings, which seed, how long."""

    case: str
    settings: str
    seed: int
    max_tokens: int = MAX_TOKENS

    def submit(self, engine: Engine, one_world: World) -> RequestHandle:
        """Submit it."""
        sampling = one_world.sampling(self.settings)
        asked = options(one_world.case(self.case), sampling, self.max_tokens, self.seed)
        return engine.submit(one_world.prompt_ids, asked)


@attrs.frozen
class Difference:
    """One request whose outcome is not the expected one."""

    asked: Asked
    got: Any
    wanted: Any


@attrs.define
class Finding:
    """What one check saw: how many requests, their counts, and the first difference.

    `events` counts what else a check must have met.
    """

    num_requests: int = 0
    events: Counter[str] = attrs.field(factory=Counter)
    num_failed: int = 0
    stats: SpecStats = attrs.field(factory=SpecStats)
    first: Difference | None = None

    def compare(self, asked: Asked, got: Any, wanted: Any) -> None:
        """Count one request and keep it if it is the first that differs."""
        self.num_requests += 1
        if got != wanted and self.first is None:
            self.first = Difference(asked, got, wanted)


def requests(
    seed: int, num_seeds: int, cases: Iterable[str] = CASES, max_tokens: int = MAX_TOKENS
) -> list[Asked]:
    """Every language under every settings, `num_seeds` times."""
    return [
        Asked(case, settings, seed * 4096 + i, max_tokens)
        for case in cases
        for settings in ALL_SETTINGS
        for i in range(num_seeds)
    ]


def outcome(handle: RequestHandle) -> tuple[Tokens, str]:
    """What a request published, with how it ended."""
    if isinstance(handle.outcome, Exception):
        return tuple(handle.token_ids), type(handle.outcome).__name__
    return tuple(handle.token_ids), handle.result().finish_reason.value


def run_all(engine: Engine, asked: Sequence[Asked], one_world: World) -> list[RequestHandle]:
    """Submit all requests and run them to their ends."""
    handles = [one.submit(engine, one_world) for one in asked]
    engine.run_until_done()
    return handles


class Twins:
    """The oracle's players of one world and path, one per language and settings."""

    def __init__(self, one_world: World, path: str) -> None:
        self._world, self._path = one_world, path
        self._made: dict[tuple[str, str], Twin] = {}

    def run(self, asked: Asked) -> tuple[Tokens, str, int | None]:
        """What a request commits, its status, and the position where it failed."""
        key = (asked.case, asked.settings)
        if key not in self._made:
            sampling = self._world.sampling(asked.settings)
            target = Target(self._world, self._world.case(asked.case), sampling)
            self._made[key] = Twin(self._world, self._path, target, sampling)
        run = self._made[key].run(asked.seed, asked.max_tokens)
        return run.tokens, run.status, run.failed_position


def twin(path: str, ops: str, one_world: World, seed: int, num_seeds: int) -> Finding:
    """Every request commits exactly the tokens that the oracles play from its seed."""
    return _against_twins(path, ops, one_world, _everything(one_world, seed, num_seeds))


def _everything(one_world: World, seed: int, num_seeds: int) -> list[Asked]:
    return requests(seed, num_seeds, one_world.cases, one_world.max_tokens)


def failures(path: str, ops: str, one_world: World, seed: int, num_seeds: int) -> Finding:
    """Among rows that reach a dead end, NaN or -inf logits, each ends alone and as the oracles say."""
    troubled = one_world.troubled()
    byte_is_missing = not any(b"Q" in data for data in one_world.vocabulary.token_bytes)
    cases = CASES_IN_TROUBLE if byte_is_missing else CASES
    return _against_twins(path, ops, troubled, requests(seed, num_seeds, cases))


def _against_twins(path: str, ops: str, one_world: World, asked: Sequence[Asked]) -> Finding:
    finding, twins = Finding(), Twins(one_world, path)
    engine = one_world.engine(path, ops, NUM_LANES)
    for one, handle in zip(asked, run_all(engine, asked, one_world), strict=True):
        finding.compare(one, ending(handle), twins.run(one))
        finding.num_failed += isinstance(handle.outcome, Exception)
    finding.stats = engine.stats
    return finding


def ending(handle: RequestHandle) -> tuple[Tokens, str, int | None]:
    """What a request committed, with the oracle's word for how it ended."""
    error, tokens = handle.outcome, handle.session.token_ids
    if isinstance(error, DeadEnd):
        status = "empty_by_bans" if "banned" in error.message else "empty"
        return tokens, status if error.num_generated == len(tokens) else "wrong count", error.position
    if isinstance(error, NonFiniteLogits):
        return tokens, "non_finite", error.position
    return tokens, "ok" if not isinstance(error, Exception) else repr(error), None


def greedy(path: str, ops: str, one_world: World, seed: int, num_seeds: int) -> Finding:
    """A greedy target publishes what ordinary decoding publishes, for every language and budget."""
    asked = [
        Asked(case, "greedy", seed, max_tokens)
        for case in one_world.cases
        for max_tokens in (*range(1, NUM_DRAFTS + 3 + num_seeds), one_world.max_tokens)
    ]
    tables = [attrs.evolve(one_world, seed=one_world.seed + i) for i in range(1 + num_seeds)]
    finding = Finding()
    for one_world in tables:
        ordinary = one_world.engine("ordinary", ops, NUM_LANES)
        engine = one_world.engine(path, ops, NUM_LANES)
        wanted = [outcome(handle) for handle in run_all(ordinary, asked, one_world)]
        for one, handle, want in zip(asked, run_all(engine, asked, one_world), wanted, strict=True):
            finding.compare(one, outcome(handle), want)
        finding.stats.merge(engine.stats)
    return finding


def budget(path: str, ops: str, one_world: World, seed: int, num_seeds: int) -> Finding:
    """Each of max_tokens = 1 .. K+2 publishes at most that many and ends with the right reason."""
    finding = Finding()
    asked = [
        Asked(case, settings, seed * 4096 + i, max_tokens)
        for case in one_world.cases
        for settings in ("plain", "greedy")
        for max_tokens in range(1, NUM_DRAFTS + 3)
        for i in range(num_seeds)
    ]
    engine = one_world.engine(path, ops, NUM_LANES)
    eos_ids = one_world.vocabulary.eos_ids
    for one, handle in zip(asked, run_all(engine, asked, one_world), strict=True):
        tokens = handle.session.token_ids
        ended = bool(tokens) and tokens[-1] in eos_ids
        wanted = "completed" if ended else "length"
        length = len(tokens) if ended else one.max_tokens
        got = (len(tokens), outcome(handle), any(t in eos_ids for t in handle.token_ids))
        finding.compare(one, got, (length, (tokens[: len(tokens) - ended], wanted), False))
    finding.stats = engine.stats
    return finding


def batches(path: str, ops: str, one_world: World, seed: int, num_seeds: int) -> Finding:
    """A request alone equals itself among any neighbours, in any lane and row order, with pauses between."""
    finding = Finding()
    asked = _everything(one_world, seed, num_seeds)
    alone = [outcome(run_all(one_world.engine(path, ops, 1), [one], one_world)[0]) for one in asked]
    for num_lanes, disturb in ((3, None), (5, _cancel_some), (4, _pause_some), (len(asked), None)):
        rng = random.Random(seed * 31 + num_lanes)
        engine = one_world.engine(path, ops, num_lanes, arrange=_shuffled(rng))
        order = list(range(len(asked)))
        rng.shuffle(order)
        handles = {i: asked[i].submit(engine, one_world) for i in order}
        extra = _run_disturbed(engine, one_world, handles, rng, disturb)
        for i, handle in handles.items():
            if i not in extra:
                finding.compare(asked[i], outcome(handle), alone[i])
        finding.stats.merge(engine.stats)
    return finding


Disturb = Callable[[Engine, list[RequestHandle], random.Random], list[RequestHandle]]


def _run_disturbed(
    engine: Engine,
    one_world: World,
    handles: dict[int, RequestHandle],
    rng: random.Random,
    disturb: Disturb | None,
) -> set[int]:
    """Run to the end, disturbing between steps; return which requests were cancelled."""
    cancelled: set[int] = set()
    while any(not handle.done for handle in handles.values()):
        engine.step()
        live = [handle for handle in handles.values() if not handle.done]
        if disturb is not None and live:
            hit = {id(handle) for handle in disturb(engine, live, rng)}
            cancelled |= {i for i, handle in handles.items() if id(handle) in hit}
    return cancelled


def _cancel_some(engine: Engine, live: list[RequestHandle], rng: random.Random) -> list[RequestHandle]:
    if rng.random() > 0.3:
        return []
    handle = rng.choice(live)
    engine.cancel(handle)
    return [handle]


def _pause_some(engine: Engine, live: list[RequestHandle], rng: random.Random) -> list[RequestHandle]:
    for handle in rng.sample(live, min(2, len(live))):
        if handle.paused:
            engine.resume(handle)
        else:
            engine.pause(handle, rng.choice(("snapshot", "replay")))
    if all(handle.paused for handle in live):
        engine.resume(rng.choice(live))
    return []


def _shuffled(rng: random.Random) -> Callable[[list[RequestHandle]], list[RequestHandle]]:
    def arrange(handles: list[RequestHandle]) -> list[RequestHandle]:
        return rng.sample(handles, len(handles))

    return arrange


def replays(path: str, ops: str, one_world: World, seed: int, num_seeds: int) -> Finding:
    """Paused after every step and built again from its history, a request goes on as if nothing happened."""
    finding = Finding()
    asked = _everything(one_world, seed, num_seeds)
    wanted = [outcome(h) for h in run_all(one_world.engine(path, ops, NUM_LANES), asked, one_world)]
    for mode in ("snapshot", "replay"):
        engine = one_world.engine(path, ops, NUM_LANES)
        handles = [one.submit(engine, one_world) for one in asked]
        while any(not handle.done for handle in handles):
            engine.step()
            for handle in handles:
                if not handle.done:
                    engine.pause(handle, mode)
                    engine.resume(handle)
        for one, handle, want in zip(asked, handles, wanted, strict=True):
            finding.compare(one, outcome(handle), want)
        finding.stats.merge(engine.stats)
    return finding
