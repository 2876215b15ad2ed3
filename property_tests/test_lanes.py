"""Lanes and the tensors made of them, against definitions that count from the history every time."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import IntegrityError
from engine.request import SamplingSettings
from engine.runtime.lanes import Lanes, batch_bans, batch_bias, batch_counts, pack_ids
from oracles.masks import pack

SIZE = 70
IDS = st.integers(0, SIZE - 1)
FEW = st.lists(IDS, max_size=4)
PENALTIES = (SamplingSettings(presence_penalty=1), SamplingSettings(frequency_penalty=-0.5))


@pytest.mark.clause("MASK-1")
@pytest.mark.parametrize("size", [1, 31, 32, 33, 64, 95])
def test_packed_bans_have_one_bit_for_each_id(size):
    for token_id in range(size):
        assert pack_ids(frozenset({token_id}), size).tolist() == pack([token_id], size).tolist()
    everything = frozenset(range(size))
    assert pack_ids(everything, size).tolist() == pack(everything, size).tolist()


def lane_of(settings, prompt=(1,), generated=()):
    lanes = Lanes(1, SIZE)
    return lanes[lanes.place(lanes.build(prompt, settings, generated))]


@pytest.mark.clause("SAMP-3", "SAMP-11", "LIFE-4")
@given(
    st.lists(
        st.tuples(st.sampled_from([*PENALTIES, SamplingSettings()]), FEW, FEW, FEW), min_size=1, max_size=3
    )
)
def test_counts_are_those_of_the_output_and_the_drafts_before_a_column(rows):
    """Prompt ids are not counted; tokens appended later count like those a lane was rebuilt from."""
    lanes, numbers = Lanes(len(rows), SIZE), []
    for settings, prompt, generated, late in rows:
        numbers.append(lanes.place(lanes.build([*prompt, 1], settings, generated)))
        lanes.append(numbers[-1], late, ())
    drafts = [(-1, *generated, SIZE, *late)[:5] for _, _, generated, late in rows]
    counts = batch_counts([lanes[n] for n in numbers], drafts, 6)
    penalised = [settings in PENALTIES for settings, *_ in rows]
    assert (counts is not None) is any(penalised)
    for row, (_, prompt, generated, late) in enumerate(rows):
        assert lanes[numbers[row]].history == [*prompt, 1, *generated, *late]
        assert lanes[numbers[row]].num_generated == len(generated) + len(late)
        for column in range(6 if penalised[row] else 0):
            seen = [*generated, *late, *drafts[row][:column]]
            assert counts[row * 6 + column].tolist() == [seen.count(i) for i in range(SIZE)]


@pytest.mark.clause("SAMP-3", "MASK-7")
@given(st.dictionaries(IDS, st.integers(-8, 8), max_size=3), st.frozensets(IDS, max_size=3))
def test_bias_and_bans_stand_in_their_own_rows(bias, banned):
    plain = lane_of(SamplingSettings())
    ours = lane_of(SamplingSettings(logit_bias=bias, banned_token_ids=banned))
    for make, wanted, width in (
        (batch_bias, [float(bias.get(i, 0)) for i in range(SIZE)], SIZE),
        (batch_bans, pack(banned, SIZE).tolist(), 3),
    ):
        table = make([plain, ours, plain], 2)
        assert (table is not None) is bool(bias if make is batch_bias else banned)
        if table is not None:
            zeros = [0] * width
            assert table.tolist() == [zeros, zeros, wanted, wanted, zeros, zeros]
    assert batch_bias([plain], 3) is batch_bans([plain], 3) is batch_counts([plain], [(1,)], 3) is None


@pytest.mark.clause("LIFE-1")
def test_slots_are_filled_and_emptied_by_number():
    lanes = Lanes(2, SIZE)
    first, second = (lanes.build([i], SamplingSettings(), ()) for i in (1, 2))
    assert (lanes.place(first), lanes.place(second), lanes.num_free) == (0, 1, 0)
    with pytest.raises(IntegrityError, match="no lane is free"):
        lanes.place(first)
    assert lanes.take(0) is first
    assert (lanes.num_free, lanes[1]) == (1, second)
    for use in (lanes.take, lanes.__getitem__, lambda n: lanes.append(n, [1], ())):
        with pytest.raises(IntegrityError, match="lane 0 holds no request"):
            use(0)
    lanes.append(1, [5, 6], (7, 8))
    assert (second.history, second.drafts) == ([2, 5, 6], (7, 8))
    lanes.append(1, [9], ())
    assert (second.drafts, lanes.place(first)) == ((), 0)


@pytest.mark.clause("SAMP-13")
@given(st.integers(-(2**63), 2**64 - 1))
def test_a_seed_keeps_its_64_bits(seed):
    bits = lane_of(SamplingSettings(seed=seed)).seed_bits
    assert bits % 2**64 == seed % 2**64
    assert int(torch.tensor([bits])[0]) == bits
