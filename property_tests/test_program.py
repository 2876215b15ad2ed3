"""Rounds whose rows meet trouble, and what a program refuses: neighbours are as in a clean run."""

import pytest

from engine.errors import CoreFault, IntegrityError
from engine.request import SamplingSettings
from engine.runtime.contract import RowInput
from experiments.gates.path_world import CASES, PATHS, SETTINGS, options, world

WORLD = world("toy")
FREE, CHOICE, GRAMMAR = CASES["free"], CASES["choice"], CASES["grammar"]
ASKED = [
    options(case, SETTINGS[name], 7, seed)
    for seed, (case, name) in enumerate(
        [(CHOICE, "plain"), (FREE, "plain"), (GRAMMAR, "plain"), (CHOICE, "penalties"), (GRAMMAR, "filters")]
    )
]


def break_fills(handle, after):
    """Let a request's core die on its fill number `after`, with rubbish left in its rows."""
    real, count = handle.session.fill, iter(range(99))

    def fill(drafts, out, banned=None):
        states = real(drafts, out, banned)
        if next(count) >= after:
            out[:] = -1
            raise CoreFault("the core died")
        return states

    handle.session.fill = fill


@pytest.mark.clause("EMPTY-8", "EMPTY-9", "FAIL-7", "FAIL-8", "FAIL-10", "MASK-11")
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("victims", [(0,), (2,), (4,), (0, 3)])
@pytest.mark.parametrize("after", [0, 1])
def test_a_core_that_dies_while_masks_are_made_ends_its_own_row(path, victims, after):
    clean = WORLD.engine(path, "torch", 8)
    wanted = [clean.submit(WORLD.prompt_ids, one) for one in ASKED]
    clean.run_until_done()
    engine = WORLD.engine(path, "torch", 8)
    handles = [engine.submit(WORLD.prompt_ids, one) for one in ASKED]
    for victim in victims:
        break_fills(handles[victim], after)
    engine.run_until_done()
    for i, (handle, want) in enumerate(zip(handles, wanted, strict=True)):
        if i not in victims or len(want.session.token_ids) <= after:
            assert handle.outcome.token_ids == want.outcome.token_ids
            continue
        assert type(handle.outcome) is IntegrityError
        assert f"at output position {after}" in handle.outcome.message
        assert handle.session.token_ids == want.session.token_ids[:after]
        assert handle.token_ids == list(want.token_ids[:after])
    assert engine._program.num_free_lanes == 8
    assert engine.submit(WORLD.prompt_ids, ASKED[0]) is not None  # the engine goes on


@pytest.mark.clause("EXEC-6", "FAIL-10")
def test_a_constrained_row_needs_its_masks():
    program = WORLD.program("mtp", "torch", 2)
    lane = program.admit(WORLD.prompt_ids, SamplingSettings())
    with pytest.raises(IntegrityError, match="without a mask provider"):
        program.prefill([RowInput(lane, True, 3)], None)
    program.prefill([RowInput(lane, False, 3)], None)  # nothing was left pending
    for use in (program.snapshot, program.release):
        with pytest.raises(IntegrityError, match="still uncommitted"):
            use(lane)


@pytest.mark.clause("TXN-11", "SPEC-12")
def test_a_commit_takes_a_prefix_of_every_row_or_nothing():
    """A count past a row's tokens, or below 0, moves no lane; a part of a row keeps no drafts."""
    program = WORLD.program("mtp", "torch", 2)
    lanes = [program.admit(WORLD.prompt_ids, SamplingSettings(seed=i)) for i in (1, 4)]
    first = program.prefill([RowInput(lane, False, 9) for lane in lanes], None)
    program.commit(first, [1, 1])
    while True:
        batch = program.decode([RowInput(lane, False, 9) for lane in lanes], None)
        if len(batch.rows[1].tokens) > 1:
            break
        program.commit(batch, [len(row.tokens) for row in batch.rows])
    before = [list(program._lanes[lane].history) for lane in lanes]
    for counts in ([1, len(batch.rows[1].tokens) + 1], [1, -1]):
        with pytest.raises(IntegrityError, match="cannot be committed"):
            program.commit(batch, counts)
        assert [program._lanes[lane].history for lane in lanes] == before
    program.commit(batch, [len(batch.rows[0].tokens), 1])
    after = [program._lanes[lane] for lane in lanes]
    assert after[0].history == [*before[0], *batch.rows[0].tokens]
    assert after[1].history == [*before[1], batch.rows[1].tokens[0]]
    assert (after[0].drafts, after[1].drafts) == (batch.next_drafts[0], ())
