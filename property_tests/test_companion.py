"""Does a companion move in the matcher's transaction, and do masks of open objects lose repeated names?

A stub companion shows every call; then the names tracker stands beside real cores on a JSON grammar, judged
by a second matcher without a companion whose rows the oracle filters.
"""

import random

import numpy as np
import pytest
import torch

from engine.errors import CoreFault
from engine.request import OutputConstraint
from engine.text.compiler import ConstraintCompiler
from engine.text.masks import PositionState, fill_window
from engine.text.matcher import Matcher
from engine.text.schema.unique_names import UniqueNames, names_index
from engine.text.window import SessionWindow
from experiments.gates.mask_walk import row_of
from oracles.masks import num_words, unpack
from oracles.unique_names import Reading, read
from property_tests.names_words import names_vocabulary, text_bytes

SIZE = 64
READY = PositionState.READY


class OpenCore:
    """Opens and takes every id below SIZE; `taken` is its history."""

    terminated = False
    never_stuck = False

    def __init__(self, taken=()):
        self.taken = list(taken)

    def may_end(self):
        return False

    def fill(self, words):
        words[:] = -1

    def accept(self, token_id):
        if 0 <= token_id < SIZE:
            self.taken.append(token_id)
        return 0 <= token_id < SIZE

    def rollback(self, num_tokens):
        del self.taken[len(self.taken) - num_tokens :]

    def fork(self):
        return OpenCore(self.taken)


class Once:
    """A companion that lets each id come once; `settled` is how many can no longer be taken back."""

    def __init__(self, taken=()):
        self.taken = list(taken)
        self.settled = len(self.taken)

    def clear(self, words):
        for token_id in self.taken:
            words[token_id >> 5] &= np.uint32(~(1 << (token_id & 31)) & 0xFFFFFFFF).view(np.int32)

    def accept(self, token_id):
        if token_id in self.taken:
            return False
        self.taken.append(token_id)
        return True

    def rollback(self, num_tokens):
        assert len(self.taken) - num_tokens >= self.settled
        del self.taken[len(self.taken) - num_tokens :]

    def confirm(self):
        self.settled = len(self.taken)

    def fork(self):
        return Once(self.taken)


@pytest.fixture
def stubs():
    core, companion = OpenCore(), Once()
    return Matcher(core, SIZE, companion), core, companion


def closed_of(row) -> set[int]:
    return {i for i in range(SIZE) if not int(row[i >> 5]) >> (i & 31) & 1}


@pytest.mark.clause("TXN-9", "TXN-3")
def test_rows_are_narrowed_along_a_look_ahead_and_all_is_taken_back(stubs):
    matcher, core, companion = stubs
    matcher.preview([63])
    matcher.confirm()
    out = torch.zeros((4, 2), dtype=torch.int32)
    states = fill_window(matcher, [3, 40, 3], out)
    assert states == (READY, READY, READY, PositionState.UNREACHABLE)
    assert [closed_of(row) for row in out[:3]] == [{63}, {63, 3}, {63, 3, 40}]
    assert core.taken == companion.taken == [63]
    assert matcher.num_rollbacks == 1


@pytest.mark.clause("TXN-9", "MASK-10", "EMPTY-1")
def test_a_row_is_empty_when_the_companion_closes_its_last_token():
    core = OpenCore()
    core.fill = lambda words: words.__setitem__(slice(None), [1 << 5, 0])
    out = torch.zeros((3, 2), dtype=torch.int32)
    states = fill_window(Matcher(core, SIZE, Once()), [5, 5], out)
    assert states == (READY, PositionState.DEAD_END, PositionState.UNREACHABLE)


@pytest.mark.clause("TXN-9", "TXN-4", "FAIL-4")
def test_a_token_that_either_refuses_is_taken_by_neither(stubs):
    matcher, core, companion = stubs
    for tokens in ([7, 8, 7], [7, 8, SIZE], [7, 7, 7]):
        with pytest.raises(CoreFault):
            matcher.preview(tokens)
        assert core.taken == companion.taken == []
        with matcher.look_ahead():
            assert [matcher.accept(token_id) for token_id in tokens] == [
                token_id < SIZE and token_id not in tokens[:index] for index, token_id in enumerate(tokens)
            ]
        assert core.taken == companion.taken == []
    assert SessionWindow(matcher).validate_tokens([7, 8, 7, 9]) == 2
    assert not SessionWindow(matcher).accept_tokens([7, 7])
    assert core.taken == companion.taken == []


@pytest.mark.clause("TXN-9", "TXN-4", "TXN-7")
def test_preview_confirm_and_discard_move_both(stubs):
    matcher, core, companion = stubs
    assert matcher.preview([1, 2]) == 2
    assert core.taken == companion.taken == [1, 2]
    assert companion.settled == 0
    matcher.discard()
    assert core.taken == companion.taken == []
    matcher.preview([1, 2])
    matcher.confirm()
    assert companion.settled == 2
    matcher.preview([3])
    matcher.discard()
    assert core.taken == companion.taken == [1, 2]


@pytest.mark.clause("TXN-9")
def test_a_fork_has_a_companion_of_its_own(stubs):
    matcher, _, companion = stubs
    matcher.preview([1])
    matcher.confirm()
    twin = matcher.fork()
    twin.preview([2])
    twin.confirm()
    assert companion.taken == [1]
    row = torch.zeros(2, dtype=torch.int32)
    twin.fill(row)
    assert closed_of(row) == {1, 2}
    matcher.fill(row)
    assert closed_of(row) == {1}


# --- the names tracker beside the cores ---------------------------------------------------------------

GRAMMAR = r"""
root ::= object
object ::= "{" space (member ("," space member)*)? "}"
member ::= name ":" space value
value ::= object | "[" (value ("," value)*)? "]" | string | "1" | "true"
name ::= "\"" unit* "\""
string ::= "\"" (unit | "\\/")* "\""
unit ::= [^"\\\x00-\x1f] | "\\" (["\\bfnrt] | "u00" ("0" [0-7be-f] | "1" [0-9a-f]))
space ::= [ \n]?
"""
VOCABULARY = names_vocabulary()
TEXT = text_bytes(VOCABULARY)
INDEX = names_index(VOCABULARY)
CORES = ("xgrammar", "llguidance")
COMPILER = ConstraintCompiler(VOCABULARY)


def compiled_on(core: str):
    return COMPILER.compile(OutputConstraint.grammar(GRAMMAR), core=core)[0]


def with_tracker(core: str) -> Matcher:
    return Matcher(compiled_on(core).new_matcher()._core, VOCABULARY.size, UniqueNames(INDEX))


def reading(token_ids) -> Reading:
    return read(b"".join(TEXT[token_id] or b"" for token_id in token_ids))


def opened_and_legal(core: str, taken) -> tuple[set[int], set[int]]:
    """What a plain fresh matcher opens after the tokens, and that without what repeats a name."""
    plain = compiled_on(core).new_matcher()
    plain.preview(taken)
    plain.confirm()
    opened = row_of(plain, VOCABULARY.size)
    return opened, {i for i in opened if reading([*taken, i]) is not Reading.REPEATED}


def drawn(rng: random.Random, legal: set[int]) -> int:
    lively = [token_id for token_id in sorted(legal) if b'"' in (TEXT[token_id] or b"")]
    return rng.choice(lively if lively and rng.random() < 0.75 else sorted(legal))


def window_of(core: str, taken: list[int], rng: random.Random) -> tuple[list[int], list[set[int]], int]:
    """Legal drafts with, where there is one, a repeating draft behind them; the rows; how much was closed."""
    drafts, rows, closed = [], [], 0
    while True:  # a completion id would end the walk, and that has its own test
        opened, legal = opened_and_legal(core, taken + drafts)
        rows.append(legal)
        closed += len(opened) - len(legal)
        repeating = sorted(opened - legal)
        legal = legal - {*VOCABULARY.eos_ids}
        if not legal or len(drafts) == 4:
            return drafts + repeating[:1], rows, closed
        if repeating and rng.random() < 0.3:
            return [*drafts, rng.choice(repeating)], rows, closed
        drafts.append(drawn(rng, legal))


@pytest.mark.clause("JSON-28", "TXN-3", "TXN-9", "MASK-8")
@pytest.mark.parametrize("core", CORES)
def test_rows_along_drafts_are_the_cores_rows_without_repeated_names(core):
    rng = random.Random(8)
    closed = refused = 0
    for _ in range(25):
        matcher, taken = with_tracker(core), []
        for _ in range(8):
            drafts, rows, num_closed = window_of(core, taken, rng)
            out = torch.zeros((len(drafts) + 1, num_words(VOCABULARY.size)), dtype=torch.int32)
            states = fill_window(matcher, drafts, out)
            assert list(states[: len(rows)]) == [READY if row else PositionState.DEAD_END for row in rows]
            for row, wanted in zip(out, rows, strict=False):
                assert not wanted or unpack(row.numpy()) == wanted
            num_legal = SessionWindow(matcher).validate_tokens(drafts)
            assert num_legal == len(rows) - 1
            closed, refused = closed + num_closed, refused + (num_legal < len(drafts))
            kept = drafts[: rng.randrange(num_legal + 1)]
            matcher = _moved(matcher, kept, rng.randrange(3))
            taken += kept if matcher.num_committed == len(taken) + len(kept) else []
    assert closed > 200
    assert refused > 10


def _moved(matcher: Matcher, tokens: list[int], way: int) -> Matcher:
    """Commit tokens, here or on a fork, or take them back."""
    matcher = matcher.fork() if way == 0 else matcher
    matcher.preview(tokens)
    if way == 1:
        matcher.discard()
    else:
        matcher.confirm()
    return matcher


@pytest.mark.clause("JSON-28", "TXN-9")
@pytest.mark.parametrize("core", CORES)
def test_a_preview_that_repeats_a_name_is_refused_and_undone(core):
    matcher = with_tracker(core)
    ids = {data: token_id for token_id, data in enumerate(TEXT) if data}
    first = [ids[b"{"], ids[b'"a"'], ids[b":"], ids[b"1"], ids[b","]]
    for again in ([ids[b'"a"']], [ids[b'"'], ids[b"a"], ids[b'"']], [ids[b'"a":']], [ids[b'"'], ids[b'a":']]):
        with pytest.raises(CoreFault):
            matcher.preview(first + again)
        assert matcher.num_committed == 0
    matcher.preview([*first, ids[b'"b"']])
    matcher.confirm()
    assert matcher.num_committed == 6


@pytest.mark.clause("JSON-28", "DONE-3")
@pytest.mark.parametrize("core", CORES)
def test_the_end_is_open_and_closes_everything(core):
    matcher = with_tracker(core)
    ids = {data: token_id for token_id, data in enumerate(TEXT) if data}
    eos = VOCABULARY.eos_ids[0]
    matcher.preview([ids[b"{"], ids[b'"a":'], ids[b"1"], ids[b"}"]])
    matcher.confirm()
    assert row_of(matcher, VOCABULARY.size) == {eos}
    with matcher.look_ahead():
        assert matcher.accept(eos)
    matcher.preview([eos])
    matcher.confirm()
    assert row_of(matcher, VOCABULARY.size) == set()
