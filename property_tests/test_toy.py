"""The table model and its draft tables: functions of the context alone, whatever the batch."""

import attrs
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine.models.toy import Mischief, TableModel, TableSpec, ToyDFlash, ToyDFlash2, ToyMtp, mix, noise

SPEC = TableSpec(width=70, seed=3, order=2)
HISTORIES = st.lists(st.integers(0, 63), min_size=1, max_size=6)


def test_hash_and_noise_have_fixed_values():
    """Reports name seeds, so the tables behind them must never change."""
    assert mix(1, 2, 3) == mix(1, 2, 3) != mix(1, 3, 2)
    assert noise(5, 4).tolist() == noise(5, 9)[:4].tolist()
    assert noise(0, 3).dtype == np.float32
    assert abs(float(noise(11, 100_000).mean())) < 0.01
    assert float(np.abs(noise(11, 1000)).max()) < 1


@given(st.lists(st.tuples(HISTORIES, st.lists(st.integers(0, 63), max_size=3)), min_size=1, max_size=4))
def test_window_rows_equal_single_rows(rows):
    model = TableModel(SPEC)
    for _ in range(2):  # the second call finds its buffer filled by the first
        logits = model.forward([h for h, _ in rows], [d for _, d in rows], 4).view(len(rows), 4, -1)
        for r, (history, drafts) in enumerate(rows):
            for column in range(4):
                prefix = [*history, *drafts[:column]]
                assert torch.equal(logits[r, column], torch.from_numpy(SPEC.row(tuple(prefix[-2:]))))


def test_buffer_follows_changing_batches():
    model = TableModel(SPEC)
    for batch in ([[1]], [[1], [2], [3]], [[3], [2]], [[2], [2], [9], [1]]):
        logits = model.forward(batch, [[]] * len(batch), 1)
        assert torch.equal(logits, torch.stack([model.row(history) for history in batch]))


def test_order_zero_and_overrides_and_boost():
    nan_row = np.full(70, np.nan, dtype=np.float32)
    spec = TableSpec(width=70, order=2, boost={4: 100.0}, overrides={(7,): nan_row})
    assert int(spec.row((1, 2)).argmax()) == 4
    assert np.isnan(spec.row((1, 7))).all()
    assert np.isfinite(spec.row((7, 1))).all()
    flat = TableModel(TableSpec(width=70, order=0))
    logits = flat.forward([[1, 2], [5]], [[3], []], 2)
    assert torch.equal(logits, logits[:1].expand(4, -1))


@given(HISTORIES)
def test_mtp_chain_is_greedy_and_dflash_block_is_not_a_chain(history):
    chain = ToyMtp(SPEC).chain(history, 3)
    for i, draft in enumerate(chain):
        assert draft == int(SPEC.row(tuple([*history, *chain[:i]][-2:])).argmax())
    block = ToyDFlash(SPEC).block(history, 3)
    assert block[0] == chain[0]
    assert block == ToyDFlash(SPEC).block([9, *history[-2:]], 3) or len(history) < 2


@given(HISTORIES)
def test_dflash2_candidates_are_the_best_of_the_table(history):
    ids, scores = ToyDFlash2(SPEC).unary([history, [1]], 2)
    row = SPEC.row(tuple(history[-2:]))
    assert ids.shape == scores.shape == (2, 2, 16)
    assert len(set(ids[0, 0].tolist())) == 16
    assert scores[0, 0].tolist() == sorted(row.tolist(), reverse=True)[:16]
    assert torch.equal(ids[1], ToyDFlash2(SPEC).unary([[1]], 2)[0][0])


def test_pair_term_depends_on_both_neighbours():
    model = ToyDFlash2(SPEC)
    ids = torch.arange(16).expand(2, 16)
    term = model.pair(torch.tensor([3, 4]), ids)
    assert term.shape == (2, 16)
    assert not torch.equal(term[0], term[1])
    assert term[0].unique().numel() > 8


@pytest.mark.parametrize("model", [ToyMtp, ToyDFlash])
def test_mischief_happens_and_repeats(model):
    mischief = Mischief(stray=8, stray_ids=(-3, 65, 69, 500), short=8)
    bad, same = model(SPEC, mischief), model(SPEC, mischief)
    get = (lambda m, h: m.chain(h, 4)) if model is ToyMtp else (lambda m, h: m.block(h, 4))
    windows = [get(bad, [i, i + 1]) for i in range(60)]
    assert windows == [get(same, [i, i + 1]) for i in range(60)]
    assert {len(w) for w in windows} == {0, 1, 2, 3, 4}
    assert {-3, 65, 69, 500} <= {token for w in windows for token in w}


def test_jitter_moves_some_favourites_and_not_all():
    near = attrs.evolve(SPEC, jitter=1.0)
    same = sum(int(SPEC.row((i, 1)).argmax()) == int(near.row((i, 1)).argmax()) for i in range(60))
    assert 5 < same < 55
