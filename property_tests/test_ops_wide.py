"""Wide rows against the oracle: compacted rows, rows searched word by word, and both in several chunks.

The other exact sweeps are narrow. Here there are more mask words than candidates, rows with few legal ids
among rows with many, and (with a small CHUNK_WORDS) several chunks to a call.
"""

import numpy as np
import pytest
import torch

from engine.ops import get_ops, sample, sample_numpy
from engine.ops.sample import RowStatus, SamplingBatch
from engine.request import SamplingSettings
from oracles import sample as oracle
from property_tests.test_ops_layout import pack, select

SIZE, WIDTH = 1003, 1024
NUM_WORDS = 32
PENALTIES = SamplingSettings(temperature=0.9, presence_penalty=0.7, frequency_penalty=-0.3)


def legal_sets(rng):
    """None (free), empty, one id at each end of a word, ids of one word, a few, half, all, in mixed order."""
    ids = np.arange(SIZE)
    sets = [None, set(), {0}, {31}, {32}, {SIZE - 1}, set(range(64, 96)), set(ids.tolist())]
    sets += [set(rng.choice(ids, n, replace=False).tolist()) for n in (2, 2, 3, 40, 500, 900)]
    sets += [set(rng.choice(ids[:64], n, replace=False).tolist()) for n in (5, 33)]
    return [sets[i] for i in rng.permutation(len(sets))]


def tables(rng, sets, settings, with_bans):
    """The logits with ties and non-finite values, and the tables of the ops and of the oracle."""
    rows = len(sets)
    logits = rng.integers(-6, 7, (rows, WIDTH)).astype(np.float32) / 2
    logits[:, SIZE:] = np.inf  # padding is never read
    logits[rng.random((rows, WIDTH)) < 0.1] = -np.inf
    logits[0, rng.integers(0, SIZE)] = np.nan
    more, extra = {}, [{} for _ in range(rows)]
    if settings is PENALTIES:
        counts = rng.integers(0, 3, (rows, SIZE)).astype(np.int32)
        bias = rng.integers(-2, 3, (rows, SIZE)).astype(np.float32)
        more |= {"counts": torch.from_numpy(counts), "bias": torch.from_numpy(bias)}
        by_row = zip(counts.tolist(), bias.tolist(), strict=True)
        extra = [{"counts": c, "bias": dict(enumerate(b))} for c, b in by_row]
    if with_bans:
        banned = [set(np.flatnonzero(rng.random(SIZE) < 0.3).tolist()) for _ in range(rows)]
        more["banned_bitmask"] = pack(banned, NUM_WORDS)
        extra = [e | {"banned": b} for e, b in zip(extra, banned, strict=True)]
    return torch.from_numpy(logits), more, extra


@pytest.mark.clause("SAMP-2", "SAMP-3", "SAMP-6", "SAMP-7", "SAMP-9", "SAMP-10", "MASK-1")
@pytest.mark.parametrize("settings", [SamplingSettings(), PENALTIES, SamplingSettings(temperature=0.0)])
@pytest.mark.parametrize("cap", [1, 3, 20, 40, None])
@pytest.mark.parametrize(
    "impl, chunk_words",
    [("torch", 1), ("torch", 70), ("torch", 8192), ("numpy", 70), ("numpy", 8192), ("triton", 8192)],
)
def test_wide_rows_equal_the_oracle(impl, settings, cap, chunk_words, monkeypatch):
    ops = get_ops(impl)
    for module in (sample, sample_numpy):
        monkeypatch.setattr(module, "CHUNK_WORDS", chunk_words)
    rng = np.random.default_rng([cap or 0, chunk_words])
    sets = legal_sets(rng)
    logits, more, extra = tables(rng, sets, settings, with_bans=cap in (3, None))
    more["allowed_bitmask"] = pack([s or set() for s in sets], NUM_WORDS)
    more["constrained_mask"] = torch.tensor([s is not None for s in sets])
    chosen = select(ops, logits, [settings] * len(sets), vocab_size=SIZE, candidate_cap=cap, **more)
    law = sample.target_law(chosen, SamplingBatch.from_settings([settings] * len(sets)))
    names = ("temperature", "presence_penalty", "frequency_penalty")
    numbers = oracle.Settings(**{name: getattr(settings, name) for name in names})
    for row, legal in enumerate(sets):
        want = oracle.law(
            logits[row].tolist(),
            settings=numbers,
            vocab_size=SIZE,
            legal=legal,
            candidate_cap=cap,
            **extra[row],
        )
        assert RowStatus(int(law.status[row])).name.lower() == want.status
        num = len(want.order)
        assert law.token_ids[row, :num].tolist() == list(want.order)
        assert law.probs[row, :num].tolist() == pytest.approx(list(want.probs), abs=1e-12)
        assert float(law.probs[row, num:].sum()) == 0.0


@pytest.mark.clause("SAMP-2", "SAMP-9")
@pytest.mark.parametrize("impl", ["torch", "numpy", "triton"])
@pytest.mark.parametrize("ids", [[700], [3, 1002], [64, 65, 66, 95], [31, 32, 500, 501, 999]])
def test_each_of_few_legal_ids_is_a_candidate(impl, ids):
    """All finite and alone in their call: nothing hides the loss of one."""
    logits = torch.arange(WIDTH, dtype=torch.float32)[None].flip(1) / 64
    chosen = select(
        get_ops(impl),
        logits,
        [SamplingSettings()],
        vocab_size=SIZE,
        candidate_cap=20,
        allowed_bitmask=pack([set(ids)], NUM_WORDS),
    )
    assert chosen.token_ids[0, : len(ids)].tolist() == ids
    assert chosen.count.tolist() == [len(ids)]
