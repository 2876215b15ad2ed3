"""Gate: the look-ahead rows of JSON schemas, the watch over repeated names included.

Row i must equal the mask of a fresh matcher fed the history and the first i drafts; where the schema's
language is written down, it must equal the oracle's legal set; where names are free, the ids that the names
alone close must be exactly those after which an object repeats a name. Drafts are legal walks with an illegal
id at the first, a middle or the last place, a completion id too early, or a name said again. Afterwards the
matcher is where it was, and what is confirmed after the window leads to the state of a fresh start.
"""

import math
import random
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from attrs import frozen

from engine.errors import CoreFault
from engine.text.compiler import CompiledConstraint
from engine.text.masks import PositionState, fill_window
from engine.text.matcher import Matcher
from experiments.cases import Line
from experiments.gates.json_cases import CASES
from experiments.gates.json_world import JsonWorld, json_world
from experiments.gates.mask_walk import POISON, advanced
from experiments.gates.path_oracle import Language
from experiments.gates.path_world import Case, text_of
from experiments.verdict import Verdict, failed, inconclusive, passed
from oracles.masks import num_words
from oracles.unique_names import Reading, read_each

NAME, CHECK = "JSON schema masks", "look-ahead rows"
CLAUSES = ("MASK-2", "MASK-3", "MASK-8", "MASK-12", "TXN-3", "TXN-5", "JSON-19", "JSON-20", "JSON-30")
DRAFT_COUNTS = (0, 1, 2, 5, 8)
SPOILED = ("nothing", "illegal", "illegal", "early end", "out of range")
SAME_LETTER = 0.4
OPENED = 0.7  # the share of walks under free names that begin with a member, and with its name again
NAMES_WEIGHT = 3  # schemas with free names get more windows: there is more to get wrong
MOST_ASKED = 300  # ids of a row of the real vocabulary that the oracle is asked about
FLOORS = {
    "all drafts legal": 0.1,
    "illegal draft first": 0.02,
    "illegal draft middle": 0.02,
    "illegal draft last": 0.02,
    "a completion id inside": 0.01,
    "a draft repeats a name": 0.01,
    "a name is used up before the window": 0.05,
    "rows beside the oracle": 0.2,
}


@frozen
class Window:
    """Committed tokens, and the drafts after them."""

    history: tuple[int, ...]
    drafts: tuple[int, ...]


@frozen
class Wrong:
    """The first disagreement of a window."""

    what: str
    detail: str = ""


class Subject:
    """One schema over one vocabulary, with what its windows are judged by."""

    def __init__(self, world: JsonWorld, case: Case) -> None:
        assert case.constraint is not None, "a schema is asked for"
        self.world, self.name = world, case.name
        self.vocabulary = world.vocabulary
        self.compiled: CompiledConstraint = world.compiler.compile(case.constraint)[0]
        self.language = Language(case, world.vocabulary) if case.rules is not None else None
        self.has_free_names = self.compiled._names is not None
        self.weight = NAMES_WEIGHT if self.has_free_names else 1
        self._liked = frozenset(world.liked_ids)

    def fresh(self, tokens: Sequence[int]) -> Matcher:
        """A matcher that was fed the tokens one by one."""
        matcher = self.compiled.new_matcher()
        for token_id in tokens:
            matcher = advanced(matcher, token_id)
        return matcher

    def row(self, tokens: Sequence[int]) -> set[int]:
        """The legal set after the tokens, from a fresh matcher."""
        return row_of(self.fresh(tokens), self.vocabulary.size)

    def without_names(self, tokens: Sequence[int]) -> set[int]:
        """The legal set of the grammar alone, names unwatched."""
        matcher = Matcher(self.compiled._core.new_matcher(), self.vocabulary.size)
        matcher.preview(tokens)
        matcher.confirm()
        return row_of(matcher, self.vocabulary.size)

    def closed_by_names(self, tokens: Sequence[int]) -> set[int]:
        """The ids that the grammar opens and the names close; none where no member has been named."""
        if b'":' not in text_of(self.vocabulary, tokens):
            return set()
        return self.without_names(tokens) - self.row(tokens)

    def pick(self, rng: random.Random, legal: set[int]) -> int:
        """A legal id, most often one that is liked; one letter again and again makes names meet."""
        if self.world.liked_ids[0] in legal and rng.random() < SAME_LETTER:
            return self.world.liked_ids[0]
        liked = sorted(legal & self._liked) if rng.random() < 0.8 else []
        return rng.choice(liked or sorted(legal))

    def repeating(self, tokens: Sequence[int], ids: set[int]) -> set[int]:
        """Those of the ids after which an object has a name twice."""
        known, text = self.vocabulary.token_bytes, text_of(self.vocabulary, tokens)
        asked = ids - set(self.vocabulary.eos_ids)
        return {i for i, what in read_each(text, known, asked).items() if what is Reading.REPEATED}


def row_of(matcher: Matcher, vocab_size: int) -> set[int]:
    """The ids of a freshly filled row whose words were poisoned before."""
    row = torch.full((num_words(vocab_size),), POISON, dtype=torch.int32)
    matcher.fill(row)
    return ids_in(row)


def ids_in(row: torch.Tensor) -> set[int]:
    """The ids of a packed row; quick on wide ones."""
    return set(np.flatnonzero(np.unpackbits(row.numpy().view(np.uint8), bitorder="little")).tolist())


def random_window(rng: random.Random, subject: Subject) -> Window:
    """A legal walk, cut into history and drafts, and the drafts spoiled in one of the ways above."""
    length, walk = rng.randint(0, 16) + rng.choice(DRAFT_COUNTS), list[int]()
    opening = list(subject.world.opening_ids) if subject.has_free_names and rng.random() < OPENED else []
    matcher = subject.compiled.new_matcher()
    while len(walk) < length and not matcher.terminated:
        legal = row_of(matcher, subject.vocabulary.size)
        ends = legal & set(subject.vocabulary.eos_ids)
        token_id = opening.pop(0) if opening else -1
        if token_id not in legal:
            token_id = subject.pick(rng, legal - ends or legal if rng.random() < 0.9 else legal)
        walk.append(token_id)
        matcher = advanced(matcher, walk[-1])
    cut = max(0, len(walk) - rng.choice(DRAFT_COUNTS))
    cut -= bool(cut) and walk[cut - 1] in subject.vocabulary.eos_ids
    return Window(tuple(walk[:cut]), _spoiled(rng, subject, walk[:cut], walk[cut:]))


def _spoiled(rng: random.Random, subject: Subject, history: list[int], drafts: list[int]) -> tuple[int, ...]:
    how, place = rng.choice(SPOILED), rng.choice((0, len(drafts) // 2, len(drafts)))
    if rng.random() < 0.7 and (repeated := _repeated(rng, subject, history, drafts)):
        return repeated
    before = [*history, *drafts[:place]]
    if how == "nothing" or (before and before[-1] in subject.vocabulary.eos_ids):
        return tuple(drafts)
    wrong = rng.choice((-1, subject.vocabulary.size, subject.vocabulary.logits_width, 2**31))
    if how == "early end":
        wrong = rng.choice(subject.vocabulary.eos_ids)
    if how == "illegal":
        wrong = rng.choice(subject.world.liked_ids)
    return (*drafts[:place], wrong, *drafts[place + rng.choice((0, 1)) :])


def _repeated(
    rng: random.Random, subject: Subject, history: list[int], drafts: list[int]
) -> tuple[int, ...] | None:
    """The drafts with a name said again at one of the places where that can be; None where there is none."""
    if not subject.has_free_names:
        return None
    prefixes = {place: (*history, *drafts[:place]) for place in range(len(drafts) + 1)}
    closing = {place: subject.closed_by_names(prefix) for place, prefix in prefixes.items()}
    places = [place for place, ids in closing.items() if ids]
    if not places:
        return None
    place = rng.choice(places)
    return (*drafts[:place], rng.choice(sorted(closing[place])), *drafts[place + rng.choice((0, 1)) :])


def checked(rng: random.Random, subject: Subject, window: Window, counts: Counter[str]) -> Wrong | None:
    """`check_window`, in which a fault of the core is a disagreement too."""
    try:
        return check_window(rng, subject, window, counts)
    except CoreFault as fault:
        return Wrong("the core", str(fault))


def check_window(rng: random.Random, subject: Subject, window: Window, counts: Counter[str]) -> Wrong | None:
    """Fill one window on a matcher with that history, and compare everything it must say and leave."""
    size = subject.vocabulary.size
    matcher = subject.fresh(window.history)
    before = row_of(matcher, size)
    out = torch.full((len(window.drafts) + 2, num_words(size)), POISON, dtype=torch.int32)
    states = fill_window(matcher, window.drafts, out)
    rows = [ids_in(row) for row in out]
    wanted = _legal_length(subject, window, rows)
    _count(subject, window, wanted, counts)
    if [state is PositionState.READY for state in states] != [i <= wanted for i in range(len(states))]:
        return Wrong("window states", f"{[state.name for state in states]}, {wanted} drafts are legal")
    for index in range(wanted + 1):
        wrong = _wrong_row(rng, subject, (*window.history, *window.drafts[:index]), rows[index], counts)
        if wrong is not None:
            return wrong
    if row_of(matcher, size) != before or matcher.num_committed != len(window.history):
        return Wrong("the window left a trace")
    return _wrong_transaction(subject, matcher, window, wanted, before)


def _legal_length(subject: Subject, window: Window, rows: list[set[int]]) -> int:
    """How many drafts the rows open, one after another; nothing follows a completion id."""
    legal = 0
    while legal < len(window.drafts) and window.drafts[legal] in rows[legal]:
        legal += 1
        if window.drafts[legal - 1] in subject.vocabulary.eos_ids:
            return legal - 1
    return legal


def _wrong_row(
    rng: random.Random, subject: Subject, prefix: tuple[int, ...], row: set[int], counts: Counter[str]
) -> Wrong | None:
    counts["rows"] += 1
    text = text_of(subject.vocabulary, prefix)
    if subject.row(prefix) != row:
        return Wrong(
            "a fresh matcher's row differs", f"after {text!r}: {sorted(subject.row(prefix) ^ row)[:20]}"
        )
    if subject.language is not None:
        counts["rows beside the oracle"] += 1
        wanted = subject.language.legal_ids(prefix)
        if wanted != row:
            return Wrong("the oracle's legal set differs", f"after {text!r}: {sorted(wanted ^ row)[:20]}")
    everything = subject.without_names(prefix)
    closed = everything - row
    asked = closed | set(rng.sample(sorted(everything), min(MOST_ASKED, len(everything))))
    repeating = subject.repeating(prefix, asked)
    if row - everything or repeating != closed:
        return Wrong("ids that a name closes", f"after {text!r}: {sorted(repeating ^ closed)[:20]}")
    return None


def _wrong_transaction(
    subject: Subject, matcher: Matcher, window: Window, wanted: int, before: set[int]
) -> Wrong | None:
    """Take the legal drafts back, take them again for good, and compare with a fresh start."""
    legal, size = window.drafts[:wanted], subject.vocabulary.size
    matcher.preview(legal)
    matcher.discard()
    if row_of(matcher, size) != before:
        return Wrong("a discarded preview left a trace")
    matcher.preview(legal)
    matcher.confirm()
    if row_of(matcher, size) != subject.row((*window.history, *legal)):
        return Wrong("a confirmed preview is no fresh start")
    return None


def _count(subject: Subject, window: Window, wanted: int, counts: Counter[str]) -> None:
    drafts = window.drafts
    counts["windows"] += 1
    counts["all drafts legal"] += wanted == len(drafts)
    counts["a name is used up before the window"] += (
        text_of(subject.vocabulary, window.history).count(b'":') > 0
    )
    if wanted == len(drafts):
        return
    draft, before = drafts[wanted], (*window.history, *drafts[:wanted])
    if draft in subject.vocabulary.eos_ids and draft in subject.row(before):
        counts["a completion id inside"] += 1
        return
    place = "first" if wanted == 0 else "last" if wanted == len(drafts) - 1 else "middle"
    counts[f"illegal draft {place}"] += 1
    if 0 <= draft < subject.vocabulary.size:
        counts["a draft repeats a name"] += draft in subject.repeating(before, {draft})


def gate(
    *, seed: int, vocab: str, num_windows: int, schemas: tuple[str, ...] = (), shard: int = 0, shards: int = 1
) -> list[Verdict]:
    """Judge about `num_windows` windows over the named schemas (all by default)."""
    started = time.perf_counter()
    rng, counts = random.Random(f"json windows {seed} {shard}"), Counter[str]()
    world = json_world(vocab)
    subjects = [Subject(world, CASES[name]) for name in schemas or CASES]
    one_share = num_windows / shards / sum(subject.weight for subject in subjects)
    for subject in subjects:
        for _ in range(math.ceil(one_share * subject.weight)):
            window = random_window(rng, subject)
            wrong = checked(rng, subject, window, counts)
            if wrong is not None:
                return [_failure(subject, vocab, window, wrong, counts).timed(time.perf_counter() - started)]
    return [_verdict(vocab, counts).timed(time.perf_counter() - started)]


def _verdict(vocab: str, counts: Counter[str]) -> Verdict:
    n = counts["windows"]
    facts = {"n": counts["rows"], "series": {"counts": dict(sorted(counts.items()))}, "clauses": CLAUSES}
    missing = [name for name, share in FLOORS.items() if counts[name] < max(1, share * n)]
    if missing:
        return inconclusive(NAME, CHECK, f"too few of the kinds {missing}: {dict(counts)}", **facts)
    shown = ", ".join(f"{counts[name]} {name}" for name in ("windows", *FLOORS))
    return passed(NAME, CHECK, detail=shown, **facts)


def _failure(subject: Subject, vocab: str, window: Window, wrong: Wrong, counts: Counter[str]) -> Verdict:
    case = {
        "kind": "JSON window",
        "replay": f"{__name__}:replay",
        "vocab": vocab,
        "schema": subject.name,
        "history": list(window.history),
        "drafts": list(window.drafts),
        "what": wrong.what,
        "detail": wrong.detail,
    }
    detail = f"{subject.name}: {wrong.what}: {wrong.detail}"
    return failed(NAME, CHECK, case=case, n=counts["rows"], worst_error=1.0, detail=detail, clauses=CLAUSES)


def replay(case: dict[str, Any]) -> list[Line]:
    """Fill the window of a case file again and say what is wrong with it."""
    subject = Subject(json_world(case["vocab"]), CASES[case["schema"]])
    window = Window(tuple(case["history"]), tuple(case["drafts"]))
    wrong = checked(random.Random(0), subject, window, Counter())
    text = text_of(subject.vocabulary, window.history)
    return [
        Line(repr(text), "as it must be" if wrong is None else repr(wrong), "as it must be", wrong is None)
    ]
