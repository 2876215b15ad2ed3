"""The numpy ops give what the torch reference gives, bit for bit, whatever the rows hold.

Vocabularies lie on both sides of one group, one word and many; logits are smooth, tied, non-finite or half
precision; every table may be there or not. The oracles judge both op sets in the tests of each op.
"""

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.ops import get_ops, ops_for, rng, sample_numpy
from engine.ops.accept import round_uniforms
from engine.ops.sample import RowStatus, SamplingBatch
from engine.request import SamplingSettings
from property_tests.ops_words import SETTINGS, assert_same, random_case, random_round, random_words

REFERENCE, NUMPY = get_ops("torch"), get_ops("numpy")
NAN, INF = float("nan"), float("inf")
SIZES = (1, 5, 31, 32, 33, 64, 65, 130, 320, 1000, 1300)
KINDS = ("smooth", "tied", "signed zeros", "far below", "non-finite", "nothing finite")
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def compare_selection(logits, requests, **arguments):
    """Select, shape and draw with both; everything must be equal and nothing may warn. Returns statuses."""
    batch = SamplingBatch.from_settings(requests)
    uniforms = torch.from_numpy(
        np.random.default_rng(len(requests)).integers(0, 2**24, len(requests)) / 2**24
    )
    expected = REFERENCE.select_candidates(logits, batch, **arguments)
    expected_law = REFERENCE.target_law(expected, batch)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = NUMPY.select_candidates(logits, batch, **arguments)
        law = NUMPY.target_law(got, batch)
        drawn = NUMPY.draw(law, uniforms)
    assert_same(got, expected)
    assert_same(law, expected_law)
    assert not torch.signbit(got.logits[got.logits == 0]).any(), "a -0 among the candidates' logits"
    assert torch.equal(drawn, REFERENCE.draw(expected_law, uniforms))
    return expected.status


def logits_of(kind, generator, rows, width):
    values = torch.randn(rows, width, generator=generator) * 3
    if kind == "tied":
        values = values.round() / 2
    if kind == "signed zeros":
        values = values.sign() * 0.0
    if kind == "far below":
        values = values - 3e38
    if kind == "non-finite":
        odd = torch.rand(rows, width, generator=generator)
        for rank, value in enumerate((NAN, INF, -INF)):
            values[(odd > rank * 0.01) & (odd < rank * 0.01 + 0.004)] = value
    if kind == "nothing finite":
        values = torch.where(values > 4, NAN, -INF)
    return values


def tables_of(names, generator, rows, vocab_size):
    """The named tables; every row's mask has a density of its own, none and all among them."""
    num_words = -(-vocab_size // 32) + 1  # one word more than the ids need
    density = torch.tensor([0.0, 0.01, 0.3, 0.97, 1.1])[torch.arange(rows) % 5].view(-1, 1, 1)
    made = {
        "allowed_bitmask": lambda: random_words((rows, num_words), density, generator),
        "constrained_mask": lambda: torch.rand(rows, generator=generator) < 0.7,
        "banned_bitmask": lambda: random_words((rows, num_words), 0.4, generator),
        "counts": lambda: torch.randint(0, 4, (rows, vocab_size + 2), generator=generator, dtype=torch.int32),
        "bias": lambda: (torch.randn(rows, vocab_size + 2, generator=generator) * 2).round() * 1e38,
    }
    return {name: make() for name, make in made.items() if name in names}


@st.composite
def selections(draw):
    """Rows of one call with everything that may act on them."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    vocab_size, rows = draw(st.sampled_from(SIZES)), draw(st.integers(0, 9))
    logits = logits_of(draw(st.sampled_from(KINDS)), generator, rows, vocab_size + draw(st.integers(0, 70)))
    if draw(st.booleans()):
        logits = torch.stack((logits, torch.full_like(logits, NAN)), dim=2)[:, :, 0]
    names = draw(
        st.sets(st.sampled_from(["allowed_bitmask", "constrained_mask", "banned_bitmask", "counts", "bias"]))
    )
    request = st.builds(
        SamplingSettings,
        temperature=st.sampled_from([0.0, 1e-3, 0.5, 1.0, 2.0]),
        top_k=st.sampled_from([0, 1, 3, 20]),
        top_p=st.sampled_from([1.0, 0.9, 0.3]),
        min_p=st.sampled_from([0.0, 0.05, 1.0]),
        presence_penalty=st.sampled_from([0.0, 1.5]),
        frequency_penalty=st.sampled_from([0.0, -0.7]),
    )
    return (
        logits.to(draw(st.sampled_from(DTYPES))),
        draw(st.lists(request, min_size=rows, max_size=rows)),
        tables_of(names, generator, rows, vocab_size)
        | {"vocab_size": vocab_size, "candidate_cap": draw(st.sampled_from([None, 1, 20, 64, 2000]))},
    )


@pytest.mark.clause("SAMP-2", "SAMP-3", "SAMP-5", "SAMP-6", "SAMP-7", "SAMP-10", "BATCH-8")
@settings(max_examples=120)
@given(selections())
def test_sampling_equals_the_reference(case):
    logits, requests, arguments = case
    if logits.shape[0]:
        compare_selection(logits, requests, **arguments)
    else:
        batch = SamplingBatch.from_settings(requests)
        assert NUMPY.select_candidates(logits, batch, **arguments).count.shape == (0,)


@pytest.mark.clause("SAMP-2", "BATCH-8")
@pytest.mark.parametrize("seed", range(12))
def test_chunks_of_rows(seed, monkeypatch):
    """With room for few words at a time, rows are searched one by one."""
    monkeypatch.setattr(sample_numpy, "CHUNK_WORDS", 1 + 13 * (seed % 3))
    vocab_size = [1, 33, 63, 64, 65, 70, 127, 128, 129, 320, 321, 319][seed]
    logits, tables = random_case(vocab_size, seed, DTYPES[seed % 3])
    cap = [1, 5, 20, None][seed % 4]
    compare_selection(logits, SETTINGS, vocab_size=vocab_size, candidate_cap=cap, **tables)


@pytest.mark.clause("SAMP-10", "FAIL-11")
def test_every_status_in_one_call():
    """NaN, +inf, only -inf open, nothing open, the one open id banned; NaN closed in a good row."""
    logits = torch.zeros(6, 100)
    logits[:3, 70] = torch.tensor([NAN, INF, -INF])
    logits[5, 3] = NAN
    allowed = torch.zeros(6, 4, dtype=torch.int32)
    allowed[:, 2] = 1 << 6
    allowed[3] = 0
    banned = torch.zeros_like(allowed)
    banned[4] = allowed[4]
    status = compare_selection(
        logits,
        [SamplingSettings()] * 6,
        vocab_size=90,
        candidate_cap=20,
        allowed_bitmask=allowed,
        banned_bitmask=banned,
    )
    bad = [RowStatus.NON_FINITE] * 3
    assert status.tolist() == [*bad, RowStatus.EMPTY, RowStatus.EMPTY_BY_BANS, RowStatus.OK]


@pytest.mark.clause("SPEC-2", "SPEC-3", "SPEC-5", "SPEC-6", "SPEC-9", "SPECG-3")
@pytest.mark.parametrize("edge", ["inside", 0.0, 1.0 - 2.0**-24, "at p"])
def test_rounds_equal_the_reference(edge):
    """Seeded rounds of every kind with uniforms inside, at both ends, and of exactly p(d)."""
    seen = torch.zeros(3, dtype=torch.int64)
    for seed in range(80):
        law, proposal, uniforms, tables = random_round(seed)
        batch, k = proposal.token_ids.shape
        if edge == "at p":
            uniforms.accept.copy_(law.probs.view(batch, k + 1, -1)[:, :k, 0])
        elif edge != "inside":
            for table in (uniforms.accept, uniforms.correction, uniforms.bonus):
                table.fill_(edge)
        expected = REFERENCE.accept_round(law, proposal, uniforms, **tables)
        assert_same(NUMPY.accept_round(law, proposal, uniforms, **tables), expected)
        seen += expected.rejected_by.bincount(minlength=3)
    assert edge != "inside" or min(seen.tolist()) >= 10


@pytest.mark.clause("SPEC-4")
@given(st.integers(0, 2**32), st.sampled_from([1, 2, 16]), st.integers(0, 9))
def test_proposals_equal_the_reference(seed, candidates, rows):
    generator = torch.Generator().manual_seed(seed)
    scores = (torch.randn(rows, candidates, generator=generator) * 4).round() / 2
    scores[torch.rand(rows, candidates, generator=generator) < 0.1] = -INF
    scores[:, :1] = 0.0
    heat = torch.tensor([0.0, 1e-3, 0.7, 1.0, 5.0], dtype=torch.float64)[torch.arange(rows) % 5]
    uniforms = torch.rand(rows, dtype=torch.float64, generator=generator)
    assert_same(NUMPY.propose(scores, heat, uniforms), REFERENCE.propose(scores, heat, uniforms))


@pytest.mark.clause("SAMP-13")
@pytest.mark.parametrize("rows", [0, 1, 2, 300])
def test_uniforms_equal_the_reference(rows):
    """Whole 64-bit seeds, positions past 32 bits, one purpose for all rows and one for each."""
    generator = torch.Generator().manual_seed(rows)
    seeds = torch.randint(-(2**63), 2**63 - 1, (rows,), generator=generator)
    positions = torch.randint(0, 2**34, (rows,), generator=generator)
    for purpose in (*rng.Purpose, positions % len(rng.Purpose)):
        where = {"draw_index": 5, "candidate_index": 2}
        expected = REFERENCE.uniforms(seeds, positions, purpose, **where)
        assert torch.equal(NUMPY.uniforms(seeds, positions, purpose, **where), expected)


@pytest.mark.clause("SAMP-13", "SPEC-9")
@pytest.mark.parametrize("impl", ["torch", "numpy", "triton"])
@pytest.mark.parametrize("k", [0, 1, 7])
def test_the_uniforms_of_a_round_are_those_of_single_calls(impl, k):
    ops = get_ops(impl)
    seeds, first = torch.tensor([5, -1, 2**40]), torch.tensor([0, 3, 17])
    extents = torch.tensor([0, k, k // 2])
    got = round_uniforms(ops.uniforms, seeds, first, extents, k, rng.Purpose.BONUS)
    for column in range(k):
        for table, purpose in ((got.accept, rng.Purpose.ACCEPT), (got.correction, rng.Purpose.CORRECTION)):
            assert torch.equal(table[:, column], ops.uniforms(seeds, first + column, purpose))
    assert torch.equal(got.bonus, ops.uniforms(seeds, first + extents, rng.Purpose.BONUS))
    assert got.accept.shape == got.correction.shape == (3, k)


@pytest.mark.clause("BATCH-8")
def test_the_default_on_a_cpu_is_numpy():
    assert ops_for("cpu") is NUMPY
    assert NUMPY.name == "numpy"


@pytest.mark.clause("SAMP-6", "SPEC-4", "BATCH-8")
def test_exponentials_are_the_references_to_the_last_bit():
    """Two libraries' exponentials differ in one of some 200 numbers: 20,000 are compared, not a few."""
    generator = np.random.default_rng(3)
    scores = torch.from_numpy(generator.uniform(-40, 40, (1000, 20)).astype(np.float32))
    batch = SamplingBatch.from_settings([SamplingSettings(temperature=0.7)] * 1000)
    temperature, coins = torch.full((1000,), 0.7, dtype=torch.float64), torch.full((1000,), 0.5).double()
    laws, choices = [], []
    for name in ("torch", "numpy"):
        ops = get_ops(name)
        ranked = ops.select_candidates(scores, batch, vocab_size=20, candidate_cap=20)
        laws.append(ops.target_law(ranked, batch).probs)
        choices.append(ops.propose(scores, temperature, coins).probs)
    assert torch.equal(*laws)
    assert torch.equal(*choices)
