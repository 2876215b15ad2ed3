"""Reading a round back: every id by its own bit, every row by its own states, failures by their place."""

import numpy as np
import pytest
import torch

from engine.errors import IntegrityError
from engine.ops.accept import RejectedBy, RoundOutcome
from engine.ops.sample import RowStatus
from engine.runtime.contract import RowFailure
from engine.runtime.outcome import Window, read_results
from engine.text.masks import PositionState
from oracles.masks import pack

SIZE = 100
READY, FREE = PositionState.READY, PositionState.UNCONSTRAINED
DEAD_END, UNREACHABLE = PositionState.DEAD_END, PositionState.UNREACHABLE


def status_of(statuses):
    return torch.tensor(statuses)


def window(legal_sets, states, faults=()):
    bits = torch.from_numpy(np.stack([pack(legal, SIZE) for legal in legal_sets]))
    constrained = torch.tensor([row[0] is not FREE for row in states])
    return Window(bits, constrained, tuple(states), frozenset(faults))


def outcome(num_columns, num_emitted, statuses=None, rejected_by=RejectedBy.NONE):
    batch = len(num_emitted)
    ids = torch.arange(batch * num_columns).view(batch, num_columns)
    emitted = torch.tensor(num_emitted)
    status = torch.tensor(statuses or [0] * batch)
    return RoundOutcome(ids, emitted, (emitted - 1).clamp(min=0), status, torch.full((batch,), rejected_by))


@pytest.mark.clause("MASK-1", "MASK-3", "SPECG-9")
def test_the_first_illegal_draft_is_found_by_its_own_bit():
    """Every id alone in its set, tried against all ids and against ids out of range."""
    drafts = [*range(SIZE), -1, SIZE, 127, 2**31, -33]
    for legal in range(SIZE):
        sets = [{legal}, {0}] * len(drafts)
        states = [(READY, UNREACHABLE)] * len(drafts)
        states = [(READY, READY) if draft == legal else s for draft, s in zip(drafts, states, strict=True)]
        results = read_results(
            outcome(2, [1] * len(drafts)),
            status_of([0] * 2 * len(drafts)),
            [(draft,) for draft in drafts],
            window(sets, states),
            SIZE,
        )
        for draft, result in zip(drafts, results, strict=True):
            assert result.illegal_at == (None if draft == legal else 0)


@pytest.mark.clause("MASK-2", "SPECG-9")
def test_each_row_is_read_by_its_own_states_and_columns():
    """Column 1 of each row: legal, illegal, behind a dead end, free, free and out of range."""
    everything = set(range(SIZE))
    sets = [{5}, {40}, everything] + [{5}, {41}, {0}] + [{5}, {0}, {0}] + [set()] * 6
    states = [(READY,) * 3, (READY, READY, UNREACHABLE), (READY, DEAD_END, UNREACHABLE), *[(FREE,) * 3] * 2]
    drafts = [(5, 40), (5, 40), (5, 40), (5, 40), (5, SIZE)]
    results = read_results(
        outcome(3, [3, 2, 1, 3, 2]), status_of([0] * 15), drafts, window(sets, states), SIZE
    )
    assert [result.illegal_at for result in results] == [None, 1, None, None, 1]
    assert [result.tokens for result in results] == [(0, 1, 2), (3, 4), (6,), (9, 10, 11), (12, 13)]
    assert [result.num_accepted for result in results] == [2, 1, 0, 2, 1]
    assert [result.states for result in results] == states
    assert [result.drafts for result in results] == drafts
    alone = read_results(outcome(3, [3]), status_of([0] * 3), [(5, SIZE)], None, SIZE)
    assert (alone[0].states, alone[0].illegal_at) == ((FREE,) * 3, 1)


@pytest.mark.clause("FAIL-7", "FAIL-9", "EMPTY-4", "EMPTY-8")
def test_failures_have_their_kind_and_their_place():
    kinds = {
        RowStatus.EMPTY: RowFailure.DEAD_END,
        RowStatus.EMPTY_BY_BANS: RowFailure.DEAD_END_BY_BANS,
        RowStatus.NON_FINITE: RowFailure.NON_FINITE,
    }
    for place in range(3):
        for status, failure in kinds.items():
            statuses = [0] * 9
            statuses[3 + place : 6] = [int(status)] * (3 - place)
            results = read_results(
                outcome(3, [1, 0, 2], [0, int(status), 0]), status_of(statuses), [(1, 2)] * 3, None, SIZE
            )
            assert [r.failure for r in results] == [RowFailure.NONE, failure, RowFailure.NONE]
            assert (results[1].tokens, results[1].failed_at) == ((), place)
    states = [(READY, READY), (DEAD_END, DEAD_END)]
    faulty = read_results(
        outcome(2, [1, 0], [0, 1]),
        status_of([0, 0, 1, 1]),
        [(), ()],
        window([{0}] * 4, states, {1}),
        SIZE,
    )
    assert [r.failure for r in faulty] == [RowFailure.NONE, RowFailure.CORE_FAULT]


@pytest.mark.clause("MASK-11", "FAIL-10")
@pytest.mark.parametrize("state", [DEAD_END, UNREACHABLE, PositionState.DEAD_END_BY_BANS])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_token_from_a_filler_column_is_an_internal_error(state, place):
    states = [(READY,) * 3, (*[READY] * place, *[state] * (3 - place))]
    for num_emitted in (1, 2, 3):
        arguments = (
            outcome(3, [3, num_emitted]),
            status_of([0] * 6),
            [(), ()],
            window([{0}] * 6, states),
            SIZE,
        )
        if num_emitted > place:
            with pytest.raises(IntegrityError, match="row 1 "):
                read_results(*arguments)
        else:
            assert len(read_results(*arguments)) == 2


@pytest.mark.clause("MASK-10", "MASK-11")
def test_dead_ends_are_told_by_their_columns():
    states = [(READY, DEAD_END, UNREACHABLE), (FREE,) * 3, (READY, READY, DEAD_END)]
    dead = window([{0}] * 9, states).dead_mask
    assert dead.tolist() == [False, True, *[False] * 6, True]
    assert window([{0}] * 9, [(READY,) * 3, (FREE,) * 3, (READY, UNREACHABLE, UNREACHABLE)]).dead_mask is None
