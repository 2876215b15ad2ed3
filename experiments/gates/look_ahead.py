"""The look-ahead window against fresh matchers and the plain model: every row and state, no trace left.

Row i must equal, word for word, the mask of a fresh matcher fed the history and the first i drafts; rows
without a legal set are the filler (id 0 only). Drafts are legal walks with an illegal id at the first, a
middle or the last place, completion ids inside the window, ids below 0 and past V, prefixes with no next
token, and banned ids.
"""

import random
from collections import Counter
from collections.abc import Iterator, Sequence

import torch
from attrs import frozen

from engine.errors import RequestError
from engine.text.compiler import CompiledConstraint
from engine.text.masks import PositionState, fill_window
from engine.text.matcher import Matcher
from experiments.gates.fixed_languages import ALPHABET, DIFFERENT_EVERYWHERE
from experiments.gates.languages import Source, random_vocabulary
from experiments.gates.mask_walk import POISON, Mismatch, advanced, row_of
from experiments.gates.subjects import Subject, constraint_of, random_subjects
from experiments.verdict import Verdict, failed, inconclusive, passed
from oracles.grammar_prefix import Earley
from oracles.masks import num_words, pack, unpack
from oracles.transaction import MatcherModel, Row

DRAFT_COUNTS = (0, 1, 2, 5, 8)
STATES = {
    "ready": PositionState.READY,
    "dead_end": PositionState.DEAD_END,
    "dead_end_by_bans": PositionState.DEAD_END_BY_BANS,
    "unreachable": PositionState.UNREACHABLE,
}


NAME, CHECK = "legal sets", "look-ahead windows"
CLAUSES = ("MASK-2", "MASK-3", "MASK-8", "MASK-9", "MASK-10", "MASK-11", "MASK-12", "SPECG-5", "TXN-3")
WINDOWS_PER_SOURCE = 5
# The least share of windows of each kind, below which a sweep proves nothing about that kind.
FLOORS = {
    "all drafts legal": 0.05,
    "illegal draft first": 0.02,
    "illegal draft middle": 0.02,
    "illegal draft last": 0.02,
    "draft below 0": 0.01,
    "draft at or past V": 0.01,
    "a completion id inside": 0.01,
    "dead ends": 0.002,
    "dead ends by bans": 0.01,
    "rows past the drafts": 0.1,
}


@frozen
class Window:
    """A history, the drafts after it, how many buffer rows lie past them, and the banned ids."""

    history: tuple[int, ...]
    drafts: tuple[int, ...]
    num_spare_rows: int = 0
    banned: frozenset[int] = frozenset()


def random_windows(rng: random.Random, parser: Earley, subject: Subject, n: int) -> Iterator[Window]:
    """Yield `n` windows of all the kinds named above."""
    for _ in range(n):
        walk = _legal_walk(rng, parser, subject, rng.randint(0, 3) + rng.choice(DRAFT_COUNTS))
        cut = rng.randint(0, min(3, len(walk)))
        history, drafts = walk[:cut], walk[cut:]
        if history and history[-1] in subject.plain.eos_ids:
            history, drafts = history[:-1], history[-1:]
        drafts = _spoiled(rng, subject, drafts)
        banned = rng.sample(range(subject.plain.size), rng.choice((0, 0, 3, subject.plain.size - 2)))
        yield Window(tuple(history), tuple(drafts), rng.choice((0, 0, 1, 3)), frozenset(banned))


def _legal_walk(rng: random.Random, parser: Earley, subject: Subject, length: int) -> list[int]:
    model = MatcherModel(parser, subject.plain.oracle_bytes, subject.plain.eos_ids)
    while len(model.committed) < length:
        legal = sorted(model.legal())
        if not legal:
            break
        model.committed += (rng.choice(legal),)
    return list(model.committed)


def _spoiled(rng: random.Random, subject: Subject, drafts: list[int]) -> list[int]:
    """Put a mostly illegal id at the first, a middle or the last place, or leave the drafts alone."""
    size, width = subject.plain.size, subject.plain.logits_width
    wrong = rng.choice((-1, -7, size, size + 3, width, 2**31, rng.randrange(size), rng.randrange(size)))
    place = rng.choice((None, 0, len(drafts) // 2, len(drafts) - 1))
    if place is None or not drafts:
        return drafts
    return [*drafts[:place], wrong, *drafts[place + rng.choice((0, 1)) :]]


def check_window(
    compiled: CompiledConstraint, parser: Earley, subject: Subject, window: Window, counts: Counter[str]
) -> Mismatch | None:
    """Fill one window on a matcher with that history and compare rows, states and what is left behind."""
    model = MatcherModel(parser, subject.plain.oracle_bytes, subject.plain.eos_ids)
    model.committed = window.history
    expected = model.look_ahead(window.drafts, window.banned)
    expected += [Row("unreachable")] * window.num_spare_rows
    matcher = _fresh(compiled, window.history)
    before = row_of(matcher, subject.plain.size)
    out = torch.full((len(expected), num_words(subject.plain.size)), POISON, dtype=torch.int32)
    states = fill_window(matcher, window.drafts, out, banned_bitmask=_bitmask(window, subject))
    _count(window, expected, subject, counts)
    if list(states) != [STATES[row.kind] for row in expected]:
        return Mismatch("window states", window.history, f"{window}: {[s.name for s in states]}")
    for index, row in enumerate(expected):
        wrong = _compare_row(compiled, subject, window, index, row, unpack(out[index].numpy()))
        if wrong is not None:
            return wrong
    if row_of(matcher, subject.plain.size) != before or matcher.num_committed != len(window.history):
        return Mismatch("the window left a trace", window.history, str(window))
    return None


def _compare_row(
    compiled: CompiledConstraint, subject: Subject, window: Window, index: int, row: Row, got: set[int]
) -> Mismatch | None:
    wanted = set(row.legal) if row.kind == "ready" else {0}
    if got != wanted:
        return Mismatch("window row", window.history, f"{window} row {index}: {sorted(got ^ wanted)} differ")
    if row.kind == "ready":
        prefix = window.history + window.drafts[:index]
        if row_of(_fresh(compiled, prefix), subject.plain.size) != got:
            return Mismatch("a fresh matcher's row differs", prefix, f"{window} row {index}")
    return None


def _fresh(compiled: CompiledConstraint, tokens: Sequence[int]) -> Matcher:
    matcher = compiled.new_matcher()
    for token_id in tokens:
        matcher = advanced(matcher, token_id)
    return matcher


def _bitmask(window: Window, subject: Subject) -> torch.Tensor | None:
    return torch.from_numpy(pack(window.banned, subject.plain.size)) if window.banned else None


def _count(window: Window, rows: list[Row], subject: Subject, counts: Counter[str]) -> None:
    """Count the windows of each kind; a sweep that met too few of one kind proves nothing about it."""
    drafts, kinds = window.drafts, [row.kind for row in rows]
    num_ready = kinds.count("ready")
    counts["windows"] += 1
    counts["rows"] += len(rows)
    counts["all drafts legal"] += num_ready == len(drafts) + 1
    counts["rows past the drafts"] += window.num_spare_rows
    counts["dead ends"] += "dead_end" in kinds
    counts["dead ends by bans"] += "dead_end_by_bans" in kinds
    if (
        num_ready == 0
        or num_ready > len(drafts)
        or len(rows) <= num_ready
        or kinds[num_ready] != "unreachable"
    ):
        return
    stop = drafts[num_ready - 1]
    if stop in rows[num_ready - 1].legal and stop in subject.plain.eos_ids:
        counts["a completion id inside"] += 1
        return
    place = "first" if num_ready == 1 else "last" if num_ready == len(drafts) else "middle"
    counts[f"illegal draft {place}"] += 1
    counts["draft below 0"] += stop < 0
    counts["draft at or past V"] += stop >= subject.plain.size


def sweep_windows(n: int, seed: int) -> Verdict:
    """Check about `n` windows over random sources of every kind and over the chosen ones, on both cores."""
    rng, counts = random.Random(f"windows {seed}"), Counter[str]()
    for subject, source in _sources(-(-n // (2 * WINDOWS_PER_SOURCE)), rng, seed):
        for core in (None, "llguidance"):
            case = _check_source(subject, source, core, rng, counts)
            if case is not None:
                return failed(NAME, CHECK, case=case, n=counts["rows"], clauses=CLAUSES)
    facts = {"n": counts["rows"], "series": {"counts": dict(sorted(counts.items()))}, "clauses": CLAUSES}
    missing = [name for name, share in FLOORS.items() if n >= 500 and counts[name] < share * n]
    if missing:
        return inconclusive(NAME, CHECK, f"too few windows of the kinds {missing}", **facts)
    return passed(NAME, CHECK, detail=f"{counts['windows']} windows", **facts)


def _sources(n: int, rng: random.Random, seed: int) -> Iterator[tuple[Subject, Source]]:
    for source in DIFFERENT_EVERYWHERE.values():
        yield Subject.of(random_vocabulary(rng, ALPHABET, complete=True)), source
    for kind, share in (("grammars", 2), ("regexes", 4), ("choices", 4)):
        yield from random_subjects(kind, -(-n // share), seed)


def _check_source(
    subject: Subject, source: Source, core: str | None, rng: random.Random, counts: Counter[str]
) -> dict[str, object] | None:
    parser = subject.parser(source)
    try:
        compiled, _ = subject.compiler.compile(constraint_of(source), core=core)
    except RequestError:  # refused and empty sources are the sweeps' subject, not this one's
        return None
    for window in random_windows(rng, parser, subject, WINDOWS_PER_SOURCE):
        mismatch = check_window(compiled, parser, subject, window, counts)
        if mismatch is not None:
            return {
                "kind": source.kind,
                "source": source.text,
                "choices": list(source.choices),
                "core": compiled.core_name,
                "what": mismatch.what,
                "detail": mismatch.detail,
                "history": list(window.history),
                "drafts": list(window.drafts),
                "banned": sorted(window.banned),
                "tokens": [repr(data) for data in subject.plain.token_bytes],
                "eos_ids": list(subject.plain.eos_ids),
            }
    return None
