"""Gate: any order of preview, confirm, discard, look-ahead and fork leaves the state of a fresh start.

Random scripts drive a matcher and the plain model side by side. The model keeps nothing but token lists and
parses everything again for each answer, so that it cannot forget to undo. After every step both must agree on
what may follow, on whether the text may end here, and on which calls are out of order.
"""

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from attrs import define, frozen

from engine.errors import CoreFault, RequestError, TransactionError
from engine.text.compiler import CompiledConstraint
from engine.text.masks import PositionState, fill_window
from engine.text.matcher import Matcher
from experiments.gates.fixed_languages import DIFFERENT_EVERYWHERE
from experiments.gates.languages import Source, random_vocabulary
from experiments.gates.mask_walk import row_of
from experiments.gates.subjects import Subject, constraint_of, random_subjects
from experiments.verdict import Verdict, failed, inconclusive, passed
from oracles.masks import num_words
from oracles.transaction import MatcherModel, OutOfOrderError, RefusedError

NAME = "transactions"
CORES = ("xgrammar", "llguidance")
CLAUSES = ("TXN-3", "TXN-4", "TXN-6", "TXN-7")
STEPS_PER_SCRIPT = 24
MAX_PAIRS = 4
# The least number of each kind of event in a script, below which a run proves nothing about that kind.
FLOORS: Mapping[str, float] = {
    "preview taken": 1.0,
    "preview refused": 0.3,
    "out of order": 0.5,
    "confirm": 0.5,
    "discard": 0.3,
    "window": 1.0,
    "look-ahead broken off": 0.5,
    "fork": 0.3,
}


class BrokenOffError(Exception):
    """Raised inside a look-ahead on purpose."""


@define
class Pair:
    """A matcher and its model, moved together."""

    matcher: Matcher
    model: MatcherModel

    @property
    def previewing(self) -> bool:
        """Whether the model has a preview open."""
        return self.model.pending is not None


@frozen
class Player:
    """One script in play: the subject, the source of chance, all live pairs, and what has happened."""

    subject: Subject
    rng: random.Random
    pairs: list[Pair]
    log: list[str]
    counts: Counter[str]

    def step(self) -> str:
        """Do one random thing to one pair; returns what differed, "" when nothing did."""
        place = self.rng.randrange(len(self.pairs))
        action = self.rng.choice(ACTIONS)
        wrong = action(self, self.pairs[place])
        self.log[-1] = f"{place}: {self.log[-1]}"
        return wrong or self.compare(self.pairs[place])

    def note(self, text: str, event: str = "") -> None:
        """Write down one step, counting the event it was."""
        self.log.append(text)
        if event:
            self.counts[event] += 1

    def compare(self, pair: Pair) -> str:
        """What differs between a matcher and its model now."""
        matcher, model = pair.matcher, pair.model
        answers = {
            "may_end": (matcher.may_end, model.may_end),
            "terminated": (matcher.terminated, model.terminated),
            "num_committed": (matcher.num_committed, len(model.committed)),
            "previewing": (matcher.previewing, pair.previewing),
        }
        if not pair.previewing:
            answers["legal ids"] = (row_of(matcher, self.subject.plain.size), set(model.legal()))
        self.counts["comparisons"] += len(answers)
        differing = [f"{name}: engine {a}, model {b}" for name, (a, b) in answers.items() if a != b]
        return "; ".join(differing)

    def walk(self, model: MatcherModel) -> list[int]:
        """Up to four tokens, legal one after another, with an illegal one somewhere now and then."""
        twin = MatcherModel(model.parser, model.token_bytes, model.eos_ids)
        twin.committed = model.committed + (model.pending or ())
        length = self.rng.randint(0, 4)
        taken: list[int] = []
        while len(taken) < length and (legal := sorted(twin.legal())):
            taken.append(self.rng.choice(legal))
            twin.committed += (taken[-1],)
        if self.rng.random() < 0.3:
            bad = self.rng.choice((-1, self.subject.plain.size, self.rng.randrange(self.subject.plain.size)))
            taken.insert(self.rng.randint(0, len(taken)), bad)
        return taken


def _outcome(call: Callable[[], object]) -> str:
    """How a call on either side ended, in words both sides share."""
    try:
        call()
    except (TransactionError, OutOfOrderError):
        return "out of order"
    except (CoreFault, RefusedError):
        return "refused"
    return "taken"


def _both(player: Player, event: str, engine: Callable[[], object], model: Callable[[], object]) -> str:
    got, expected = _outcome(engine), _outcome(model)
    player.counts[
        expected if expected == "out of order" else f"{event} {expected}".removesuffix(" taken")
    ] += 1
    return "" if got == expected else f"{event}: engine says {got}, model says {expected}"


def _preview(player: Player, pair: Pair) -> str:
    tokens = player.walk(pair.model)
    player.note(f"preview {tokens}")
    wrong = _both(player, "preview", lambda: pair.matcher.preview(tokens), lambda: pair.model.preview(tokens))
    player.counts["preview taken"] += pair.previewing
    return wrong


def _confirm(player: Player, pair: Pair) -> str:
    player.note("confirm", "confirm" if pair.previewing else "")
    pair.matcher.confirm()
    if pair.previewing:
        pair.model.confirm()
    return ""


def _discard(player: Player, pair: Pair) -> str:
    player.note("discard")
    return _both(player, "discard", pair.matcher.discard, pair.model.discard)


def _fill(player: Player, pair: Pair) -> str:
    player.note("fill")
    row = torch.zeros(num_words(player.subject.plain.size), dtype=torch.int32)
    return _both(player, "fill", lambda: pair.matcher.fill(row), pair.model.legal)


def _window(player: Player, pair: Pair) -> str:
    drafts = player.walk(pair.model)
    player.note(f"window {drafts}", "window")
    rows = torch.zeros(len(drafts) + 1, num_words(player.subject.plain.size), dtype=torch.int32)
    if pair.previewing:
        return _both(
            player,
            "window",
            lambda: fill_window(pair.matcher, drafts, rows),
            lambda: pair.model.look_ahead(drafts),
        )
    states = fill_window(pair.matcher, drafts, rows)
    expected = [PositionState[row.kind.upper()] for row in pair.model.look_ahead(drafts)]
    return "" if list(states) == expected else f"window {drafts}: {states}, model {expected}"


def _broken_off(player: Player, pair: Pair) -> str:
    tokens = player.walk(pair.model)
    player.note(f"look-ahead {tokens}, broken off")
    if pair.previewing:
        return _both(player, "look-ahead", lambda: _enter(pair.matcher, ()), pair.model.legal)
    player.counts["look-ahead broken off"] += 1
    try:
        _enter(pair.matcher, tokens)
    except BrokenOffError:
        return ""
    return "an exception inside a look-ahead was lost"


def _enter(matcher: Matcher, tokens: Sequence[int]) -> None:
    with matcher.look_ahead():
        for token_id in tokens:
            matcher.accept(token_id)
        raise BrokenOffError


def _fork(player: Player, pair: Pair) -> str:
    player.note("fork")
    made: list[Pair] = []

    def engine() -> None:
        made.append(Pair(pair.matcher.fork(), pair.model))

    def model() -> None:
        made[-1].model = pair.model.fork()

    wrong = _both(player, "fork", engine, model if not pair.previewing else pair.model.fork)
    if made and not wrong:
        player.pairs.append(made[0])
        del player.pairs[: max(0, len(player.pairs) - MAX_PAIRS)]
    return wrong


ACTIONS = (_preview, _preview, _preview, _confirm, _confirm, _discard, _fill, _window, _broken_off, _fork)


def gate(*, seed: int, scripts: int = 60, shard: int = 0, shards: int = 1) -> list[Verdict]:
    """Play about `scripts` scripts on each core, over random languages and the chosen ones."""
    return [play(core, -(-scripts // shards), seed * shards + shard) for core in CORES]


def play(core: str, scripts: int, seed: int) -> Verdict:
    """Play the scripts on one core; stops at the first difference."""
    started, counts = time.perf_counter(), Counter[str]()
    rng = random.Random(f"transactions {core} {seed}")
    check, num_played = f"random scripts ({core})", 0
    for subject, source in _sources(scripts, rng, seed):
        try:
            compiled, _ = subject.compiler.compile(constraint_of(source), core=core)
        except RequestError:  # refused and empty sources are the subject of another gate
            continue
        num_played += 1
        player, wrong = play_script(compiled, subject, source, rng, counts)
        if wrong:
            return failed(
                NAME,
                check,
                case=_case(player, source, core, wrong),
                n=counts["comparisons"],
                detail=wrong,
                clauses=CLAUSES,
                seconds=time.perf_counter() - started,
            )
    facts = {
        "n": counts.pop("comparisons", 0),
        "detail": f"{num_played} scripts: "
        + ", ".join(f"{n:,} {event}" for event, n in sorted(counts.items())),
        "clauses": CLAUSES,
        "seconds": time.perf_counter() - started,
    }
    missing = [event for event, least in FLOORS.items() if counts[event] < least * num_played]
    if missing or not num_played:
        return inconclusive(NAME, check, f"too few of: {', '.join(missing) or 'scripts'}", **facts)
    return passed(NAME, check, **facts)


def play_script(
    compiled: CompiledConstraint, subject: Subject, source: Source, rng: random.Random, counts: Counter[str]
) -> tuple[Player, str]:
    """Play one script; returns the player with its log, and what differed ("" for nothing)."""
    model = MatcherModel(subject.parser(source), subject.plain.oracle_bytes, subject.plain.eos_ids)
    player = Player(subject, rng, [Pair(compiled.new_matcher(), model)], [], counts)
    wrong = player.compare(player.pairs[0])
    while not wrong and len(player.log) < STEPS_PER_SCRIPT:
        wrong = player.step()
    return player, wrong


def _sources(n: int, rng: random.Random, seed: int) -> Iterator[tuple[Subject, Source]]:
    for source in DIFFERENT_EVERYWHERE.values():
        yield Subject.of(random_vocabulary(rng, "abc0é中")), source
    for kind, share in (("grammars", 2), ("regexes", 4), ("choices", 4)):
        yield from random_subjects(kind, -(-n // share), seed)


def _case(player: Player, source: Source, core: str, wrong: str) -> dict[str, object]:
    return {
        "kind": "script",
        "source": source.text or list(source.choices),
        "core": core,
        "wrong": wrong,
        "steps": player.log,
        "tokens": [repr(data) for data in player.subject.plain.token_bytes],
        "eos_ids": list(player.subject.plain.eos_ids),
    }
