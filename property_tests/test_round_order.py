"""Who is asked what, when, and from where during a round: phases, masks, commit, on every path."""

import threading

import pytest
import torch

from engine.errors import IntegrityError
from engine.ops.accept import RejectedBy
from engine.request import OutputConstraint, RequestOptions, SamplingSettings
from engine.runtime.contract import RowInput
from engine.runtime.engine import Engine
from engine.runtime.graphs import RehearsalLauncher
from engine.runtime.table import TableDFlash2
from engine.text.masks import PositionState
from experiments.gates.path_world import world
from property_tests.neural_words import GREEDY, PATHS, TOY, engine_of, program_of

WORDS = OutputConstraint.regex("(a|bc)*(ca?b){1,5}")
PROMPT = [5, 6, 7, 5, 6, 7]


class Masks:
    """A provider that writes down its calls and leaves every id open."""

    def __init__(self, log, fail=None):
        self.log, self.fail = log, fail

    def fill(self, row, drafts, out):
        self.log.append(("fill", row, threading.get_ident()))
        if self.fail is not None:
            raise self.fail
        out[:] = -1
        out[:, -1] = (1 << TOY.size % 32) - 1
        return (PositionState.READY,) * len(out)


def watched(path, log, num_lanes=2):
    """A program whose target and drafter write down what is asked of them."""
    program = program_of(path, num_lanes, launcher=RehearsalLauncher())
    target, drafter = program._target, program._drafter

    class Target:
        def forward(self, batch, drafts):
            log.append("target")
            return target.forward(batch, drafts)

        def __getattr__(self, name):
            return getattr(target, name)

    class Drafter:
        def follow(self, *given):
            log.append("follow")
            return drafter.follow(*given)

        def on_host(self, lane):
            log.append("on host")
            return drafter.on_host(lane)

        def __getattr__(self, name):
            return getattr(drafter, name)

    program._target, program._drafter = Target(), Drafter()
    return program


def started(path, log, num_lanes=2):
    program = watched(path, log, num_lanes)
    lanes = [program.admit([*PROMPT, i], SamplingSettings(seed=i)) for i in range(num_lanes)]
    rows = [RowInput(lane, True, 40) for lane in lanes]
    program.commit(program.prefill(rows, Masks([])), [1] * num_lanes)
    program.decode(rows, Masks([]))  # recorded once: the next rounds are plain replays
    program.abort(program._pending)
    log.clear()
    return program, rows


@pytest.mark.clause("EXEC-1", "EXEC-4", "EXEC-5", "EXEC-7", "EXEC-8", "EXEC-10", "SPEC-13")
@pytest.mark.parametrize("path", PATHS)
def test_a_round_is_forward_masks_finish_and_commits_nothing(path):
    log = []
    program, rows = started(path, log)
    before = [list(program._lanes[row.lane].history) for row in rows]
    pending = program.decode(rows, Masks(log))
    names = [entry if isinstance(entry, str) else entry[0] for entry in log]
    on_host = ["on host"] * 2 if path in ("mtp", "ngram") else []
    assert names == [*on_host, "target", "fill", "fill", "follow"]
    assert [program._lanes[row.lane].history for row in rows] == before
    waited = program._launcher.events[-3:].count("waited")
    assert waited == (path in ("dflash", "dflash2"))  # ids that the host fixed are not waited for
    program.commit(pending, [len(row.tokens) for row in pending.rows])
    assert all(len(program._lanes[r.lane].history) > len(b) for r, b in zip(rows, before, strict=True))


@pytest.mark.clause("EXEC-6", "EXEC-18")
@pytest.mark.parametrize("path", PATHS)
def test_masks_are_made_in_row_order_on_the_calling_thread(path):
    log = []
    program, rows = started(path, log, 3)
    program.decode(rows[::-1], Masks(log))
    fills = [entry for entry in log if entry[0] == "fill"]
    assert fills == [("fill", row, threading.get_ident()) for row in range(3)]


@pytest.mark.clause("EXEC-17", "FAIL-10")
@pytest.mark.parametrize("path", PATHS)
def test_a_round_whose_masks_fail_is_forgotten_whole(path):
    """Nothing is pending afterwards, and the round taken again is the round that would have been."""
    log = []
    program, rows = started(path, log)
    with pytest.raises(MemoryError):
        program.decode(rows, Masks(log, fail=MemoryError("no room")))
    again = program.decode(rows, Masks(log))
    program.abort(again)
    clean, clean_rows = started(path, [])
    assert again.rows == clean.decode(clean_rows, Masks([])).rows


@pytest.mark.clause("BATCH-7", "MASK-5")
@pytest.mark.parametrize("path", PATHS)
def test_mask_buffers_stay_where_they_are_and_remember_nothing(path):
    """Bits left over from anything before a round change no token; no schema moves the buffer."""
    found = []
    for dirt in (0, -1):
        engine = engine_of(path, 2)
        program = engine._program
        address = program._bitmask.data_ptr()
        constraints = (WORDS, OutputConstraint.json_object(), OutputConstraint.choice(["abca", "bc"]))
        handles = [
            engine.submit([*PROMPT, i], RequestOptions(12, constraint, GREEDY))
            for i, constraint in enumerate(constraints)
        ]
        while any(not handle.done for handle in handles):
            program._bitmask.fill_(dirt)
            engine.step()
        assert program._bitmask.data_ptr() == address
        found.append([handle.result().token_ids for handle in handles])
    assert found[0] == found[1]


@pytest.mark.clause("EXEC-19")
@pytest.mark.parametrize("path", PATHS)
def test_a_round_moves_its_matcher_by_the_window_whatever_the_length(path, monkeypatch):
    engine = engine_of(path, 1)
    endless = OutputConstraint.regex("[a-c]{200}")
    handle = engine.submit(PROMPT, RequestOptions(60, endless, GREEDY))
    matcher, calls = handle.session._matcher, []
    real = type(matcher).accept

    def accept(self, token_id):
        calls.append(token_id)
        return real(self, token_id)

    monkeypatch.setattr(type(matcher), "accept", accept)
    per_round = []
    while not handle.done:
        calls.clear()
        engine.step()
        per_round.append(len(calls))
    assert max(per_round) <= 2 * (engine._program._drafter.num_drafts + 1)
    assert sum(per_round[len(per_round) // 2 :]) <= sum(per_round[: len(per_round) // 2]) * 2 + 8


@pytest.mark.clause("VER-13", "SPECG-4")
def test_an_mtp_draft_outside_the_language_is_rejected_where_it_stands():
    """READY where the bad draft is judged, UNREACHABLE behind it; the output stays in the language."""
    engine = engine_of("mtp", 1)
    rows, words = [], ["a" * 9 + "b", "a" * 9 + "c"]
    engine._observe = lambda handle, row: rows.append(row)
    handle = engine.submit(PROMPT, RequestOptions(20, OutputConstraint.choice(words), GREEDY))
    engine.step()
    stray = next(i for i, data in enumerate(TOY.token_bytes) if data == b"x")
    engine._program._lanes[handle.lane].drafts = (stray,) * 3
    rows.clear()
    engine.step()
    assert rows[0].states == (PositionState.READY, *[PositionState.UNREACHABLE] * 3)
    assert (rows[0].num_accepted, rows[0].illegal_at, len(rows[0].tokens)) == (0, 0, 1)
    assert rows[0].rejected_by is RejectedBy.GRAMMAR
    engine.run_until_done()
    assert b"".join(TOY.token_bytes[i] for i in handle.result().token_ids).decode() in words


def test_a_provider_is_not_kept():
    engine = engine_of("ordinary", 1)
    engine.submit(PROMPT, RequestOptions(3, WORDS, GREEDY))
    kept = []
    real = engine._program.prefill

    def prefill(rows, masks):
        kept.append(masks)
        return real(rows, masks)

    engine._program.prefill = prefill
    engine.run_until_done()
    with pytest.raises(IntegrityError, match="after the call"):
        kept[0].fill(0, (), None)


class HalfHalf:
    """Candidates of the seeds' section 8: q(a) = q(x) = 0.5 at every position."""

    def __init__(self, a, x):
        self.ids = (a, x)

    def extent(self, history, num_drafts):
        return num_drafts

    def unary(self, histories, num_drafts):
        ids = torch.tensor(self.ids).expand(len(histories), num_drafts, 2)
        return ids, torch.zeros(len(histories), num_drafts, 2)

    def pair(self, previous, candidate_ids):
        return torch.zeros(candidate_ids.shape)


@pytest.mark.clause("VER-14", "SPEC-4")
def test_the_law_of_the_seeds_example_holds_end_to_end():
    """p(a) = p(b) = 0.5, x illegal: 0.5 each, not 0.75 and 0.25 (false alarm 1e-9 at 6.2 sigma)."""
    one, num_requests = world("toy"), 1600
    a, b, c, x = (one.vocabulary.token_bytes.index(data) for data in (b"a", b"b", b"c", b"x"))
    program = one.program("dflash2", "numpy", 64, scale=0.0, boost={})
    program._drafter = TableDFlash2(HalfHalf(a, x), 3)
    seen, engine = [], Engine(one.vocabulary, program, one.compiler)
    constraint = OutputConstraint.regex("c[ab]c[ab]c")
    bans = frozenset(i for i in range(one.vocabulary.size) if i not in (a, b, c))
    for seed in range(num_requests):
        settings = SamplingSettings(seed=seed, banned_token_ids=bans)
        seen.append(engine.submit(PROMPT, RequestOptions(4, constraint, settings)))
    engine.run_until_done()
    tokens = [handle.result().token_ids[1] for handle in seen]
    assert set(tokens) == {a, b}
    assert engine.stats.num_rejected_by_grammar > num_requests / 8
    assert engine.stats.num_accepted > num_requests / 8
    assert abs(tokens.count(a) - num_requests / 2) < 6.2 * (num_requests / 4) ** 0.5
