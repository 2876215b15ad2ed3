"""The Triton kernels give what the torch reference gives, bit for bit, on seeded rows.

Where a CUDA device is present the kernels run on it, otherwise they are interpreted; the reference stays on
the CPU. Blocks are made small where many of them are wanted, and left as they are at their own borders.
"""

import pytest
import torch

from engine.ops import get_ops, rng, rng_triton, sample_triton
from engine.ops.sample import RowStatus, SamplingBatch
from engine.request import SamplingSettings
from property_tests.ops_words import SETTINGS, assert_same, random_case, random_round, random_words
from property_tests.test_ops_layout import NAN, to_device

REFERENCE, KERNELS = get_ops("torch"), get_ops("triton")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
QWEN_VOCAB, QWEN_WIDTH = 248_077, 248_320


def compare_selection(logits, settings, seed, **arguments):
    """Select, shape and draw with both; everything must be equal. Returns the statuses."""
    batch = SamplingBatch.from_settings(settings)
    expected = REFERENCE.select_candidates(logits, batch, **arguments)
    moved = {name: to_device(value, DEVICE) for name, value in arguments.items() if value is not None}
    got = KERNELS.select_candidates(
        logits.to(DEVICE), to_device(batch, DEVICE), **{"candidate_cap": None, **moved}
    )
    assert_same(got, expected)
    expected_law = REFERENCE.target_law(expected, batch)
    law = KERNELS.target_law(to_device(got, "cpu"), batch)
    assert_same(law, expected_law)
    uniforms = torch.rand(len(settings), dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    assert torch.equal(KERNELS.draw(law, uniforms), REFERENCE.draw(expected_law, uniforms))
    return expected.status


@pytest.mark.clause("SAMP-2", "SAMP-6", "BATCH-8")
@pytest.mark.parametrize("seed", range(12))
def test_many_blocks_of_many_widths(seed, monkeypatch):
    """Blocks of 64 ids; widths on both sides of one, two and five blocks."""
    monkeypatch.setattr(sample_triton, "BLOCK", 64)
    vocab_size = [1, 33, 63, 64, 65, 70, 127, 128, 129, 320, 321, 319][seed]
    dtype = [torch.float32, torch.bfloat16, torch.float16][seed % 3]
    logits, tables = random_case(vocab_size, seed, dtype)
    cap = [1, 5, 20, 64][seed % 4]
    compare_selection(logits, SETTINGS, seed, vocab_size=vocab_size, candidate_cap=cap, **tables)


@pytest.mark.clause("SAMP-2", "BATCH-8")
@pytest.mark.parametrize("offset", [-1, 0, 1])
@pytest.mark.parametrize("blocks", [1, 2])
def test_borders_of_the_real_block(blocks, offset):
    vocab_size = blocks * sample_triton.BLOCK + offset
    logits, tables = random_case(vocab_size, 10 * blocks + offset)
    tables = {name: table[:2] for name, table in tables.items()}
    compare_selection(logits[:2], SETTINGS[:2], 1, vocab_size=vocab_size, candidate_cap=7, **tables)


@pytest.mark.clause("SAMP-5", "SAMP-6")
def test_ties_across_blocks_go_to_the_smaller_id(monkeypatch):
    monkeypatch.setattr(sample_triton, "BLOCK", 16)
    logits = torch.zeros(1, 100)
    logits[0, ::3] = -0.0
    compare_selection(logits, SETTINGS[:1], 0, vocab_size=100, candidate_cap=40)
    batch = to_device(SamplingBatch.from_settings(SETTINGS[:1]), DEVICE)
    got = KERNELS.select_candidates(logits.to(DEVICE), batch, vocab_size=100, candidate_cap=40)
    assert got.token_ids[0].tolist() == list(range(40))


@pytest.mark.clause("SAMP-10", "FAIL-11")
@pytest.mark.parametrize("bad_id", [0, 15, 16, 63, 69])
def test_failures_are_reported_from_whichever_block_holds_them(bad_id, monkeypatch):
    """Five rows: NaN, +inf, only that id open and -inf, nothing open, only that id open and banned."""
    monkeypatch.setattr(sample_triton, "BLOCK", 16)
    logits = torch.zeros(5, 96)
    logits[:3, bad_id] = torch.tensor([NAN, torch.inf, -torch.inf])
    word = torch.zeros(5, 3, dtype=torch.int64)
    word[2:, bad_id // 32] = 1 << bad_id % 32
    allowed, banned = word.clone(), torch.zeros_like(word)
    allowed[:2], allowed[3] = 0xFFFFFFFF, 0
    banned[4] = word[4]
    status = compare_selection(
        logits,
        [SamplingSettings()] * 5,
        0,
        vocab_size=70,
        candidate_cap=20,
        allowed_bitmask=allowed.to(torch.int32),
        banned_bitmask=banned.to(torch.int32),
    )
    bad = [RowStatus.NON_FINITE] * 3
    assert status.tolist() == [*bad, RowStatus.EMPTY, RowStatus.EMPTY_BY_BANS]


@pytest.mark.clause("SAMP-7")
@pytest.mark.parametrize("cap", [None, 65, 100])
def test_caps_past_the_kernels_take_the_reference(cap):
    logits, tables = random_case(130, 1)
    compare_selection(logits, SETTINGS, 2, vocab_size=130, candidate_cap=cap, **tables)


@pytest.mark.clause("SAMP-2", "BATCH-8")
def test_rows_of_the_real_width():
    """Free with NaN in padding, half open, a few ids open, NaN in the last block."""
    generator = torch.Generator().manual_seed(11)
    logits = torch.randn(4, QWEN_WIDTH, generator=generator)
    logits[:, QWEN_VOCAB:] = NAN
    logits[3, QWEN_VOCAB - 1] = NAN
    num_words = -(-QWEN_VOCAB // 32)
    allowed = random_words((4, num_words), 0.5, generator)
    allowed[2] = 0
    allowed[2, ::500] = -(2**31) + 1
    allowed[3] = -1
    status = compare_selection(
        logits,
        SETTINGS,
        3,
        vocab_size=QWEN_VOCAB,
        candidate_cap=20,
        allowed_bitmask=allowed,
        constrained_mask=torch.tensor([False, True, True, True]),
    )
    assert status.tolist() == [RowStatus.OK] * 3 + [RowStatus.NON_FINITE]


@pytest.mark.clause("SAMP-13")
def test_philox_bits_and_uniforms():
    generator = torch.Generator().manual_seed(5)
    low, high = -(2**63), 2**63 - 1
    seeds = torch.randint(low, high, (300,), generator=generator)
    seeds[:3] = torch.tensor([0, -1, low])
    positions = torch.arange(300)
    for purpose in rng.Purpose:
        arguments = {"draw_index": int(purpose) * 3, "candidate_index": int(purpose) % 2}
        got = KERNELS.uniforms(seeds.to(DEVICE), positions.to(DEVICE), purpose, **arguments)
        assert torch.equal(got.cpu(), REFERENCE.uniforms(seeds, positions, purpose, **arguments))
    purposes = positions % len(rng.Purpose)
    got = KERNELS.uniforms(seeds.to(DEVICE), positions.to(DEVICE), purposes.to(DEVICE))
    assert torch.equal(got.cpu(), REFERENCE.uniforms(seeds, positions, purposes))
    counter = torch.randint(0, 2**32, (130, 4), generator=generator)
    key = torch.randint(0, 2**32, (130, 2), generator=generator)
    counter[0], key[0] = 0xFFFFFFFF, 0xFFFFFFFF
    got = rng_triton.philox4x32(counter.to(DEVICE), key.to(DEVICE))
    assert torch.equal(got.cpu(), rng.philox4x32(counter, key))


def compare_round(law, proposal, uniforms, tables):
    expected = REFERENCE.accept_round(law, proposal, uniforms, **tables)
    moved = {name: to_device(value, DEVICE) for name, value in tables.items()}
    got = KERNELS.accept_round(
        to_device(law, DEVICE), to_device(proposal, DEVICE), to_device(uniforms, DEVICE), **moved
    )
    assert_same(got, expected)
    return expected


@pytest.mark.clause("SPEC-2", "SPEC-3", "SPEC-5", "SPEC-6")
def test_rounds():
    """Seeded rounds of every kind; among them all outcomes must have happened."""
    seen = torch.zeros(3, dtype=torch.int64)
    accepted, bad, bonus = 0, 0, 0
    for seed in range(60):
        law, proposal, uniforms, tables = random_round(seed)
        outcome = compare_round(law, proposal, uniforms, tables)
        seen += outcome.rejected_by.bincount(minlength=3)
        accepted += int(outcome.num_accepted.sum())
        bad += int((outcome.status != RowStatus.OK).sum())
        bonus += int(((outcome.num_accepted == proposal.extents) & (outcome.status == RowStatus.OK)).sum())
    assert min(*seen.tolist(), accepted, bad, bonus) >= 5


@pytest.mark.clause("SPEC-9")
def test_rounds_at_the_edges_of_the_uniforms():
    """Uniforms of 0 and the largest below 1, and of exactly p(d): strict comparisons, no zero mass."""
    for edge in (0.0, 1.0 - 2.0**-24, None):
        for seed in range(12):
            law, proposal, uniforms, tables = random_round(seed)
            batch, k = proposal.token_ids.shape
            if edge is None:
                uniforms.accept.copy_(law.probs.view(batch, k + 1, -1)[:, :k, 0])
            else:
                for table in (uniforms.accept, uniforms.correction, uniforms.bonus):
                    table.fill_(edge)
            compare_round(law, proposal, uniforms, tables)


@pytest.mark.gpu
@pytest.mark.clause("SAMP-2", "BATCH-8")
def test_many_real_rows_on_the_device():
    """The kernels run for real: 64 rows of the real width, caps up to the largest, and many rounds."""
    assert not sample_triton.triton.knobs.runtime.interpret
    generator = torch.Generator().manual_seed(21)
    logits = torch.randn(64, QWEN_WIDTH, generator=generator).bfloat16()
    allowed = random_words((64, -(-QWEN_VOCAB // 32)), 0.3, generator)
    for cap in (1, 20, 64):
        compare_selection(
            logits, SETTINGS * 16, cap, vocab_size=QWEN_VOCAB, candidate_cap=cap, allowed_bitmask=allowed
        )
    for seed in range(1000):
        compare_round(*random_round(seed))


@pytest.mark.gpu
@pytest.mark.clause("SAMP-6")
def test_the_reference_itself_runs_on_the_device():
    logits, tables = random_case(1000, 7)
    batch = SamplingBatch.from_settings(SETTINGS)
    arguments = {"vocab_size": 1000, "candidate_cap": 20}
    moved = {name: to_device(table, "cuda") for name, table in tables.items()}
    got = REFERENCE.select_candidates(logits.cuda(), to_device(batch, "cuda"), **arguments, **moved)
    assert_same(got, REFERENCE.select_candidates(logits, batch, **arguments, **tables))
