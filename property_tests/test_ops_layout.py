"""How the ops read their tensors: mask words, padding, strides, dtypes, widths, ties, statuses.

Every expectation is a literal or follows from one set bit, so no oracle is needed; each test runs the torch
reference and the Triton kernels.
"""

import attrs
import numpy as np
import pytest
import torch

from engine.ops import get_ops
from engine.ops.sample import Candidates, RowStatus, SamplingBatch, sample
from engine.request import SamplingSettings

NAN, INF = float("nan"), float("inf")
WIDTHS = [
    (1, 0),
    (1, 63),
    (2, 26),
    (31, 1),
    (31, 65),
    (32, 0),
    (32, 64),
    (33, 31),
    (63, 1),
    (64, 0),
    (65, 1),
    (70, 26),
]
SIGN_BIT = -(2**31)


@pytest.fixture(params=["torch", "numpy", "triton"])
def ops(request):
    return get_ops(request.param)


def device_of(ops):
    return "cuda" if ops.name == "triton" and torch.cuda.is_available() else "cpu"


def to_device(value, device):
    if isinstance(value, torch.Tensor):
        return value.to(device)
    if attrs.has(type(value)):
        moved = {f.name: to_device(getattr(value, f.name), device) for f in attrs.fields(type(value))}
        return attrs.evolve(value, **moved)
    return value


def select(ops, logits, settings=None, *, vocab_size, candidate_cap=20, **tables) -> Candidates:
    device = device_of(ops)
    if settings is None:
        settings = [SamplingSettings()] * logits.shape[0]
    batch = to_device(SamplingBatch.from_settings(settings), device)
    tables = {name: to_device(table, device) for name, table in tables.items()}
    if device != "cpu":  # keep the strides: they are the subject
        base = torch.empty_strided(logits.shape, logits.stride(), dtype=logits.dtype, device=device)
        logits = base.copy_(logits)
    chosen = ops.select_candidates(
        logits, batch, vocab_size=vocab_size, candidate_cap=candidate_cap, **tables
    )
    return to_device(chosen, "cpu")


def words(*rows):
    return torch.tensor(rows, dtype=torch.int64).to(torch.int32)


def pack(sets, num_words):
    """Pack sets of ids by the definition: bit id % 32 of word id // 32."""
    packed = np.zeros((len(sets), num_words), dtype=np.uint32)
    for row, ids in enumerate(sets):
        for token_id in ids:
            packed[row, token_id // 32] |= np.uint32(1 << token_id % 32)
    return torch.from_numpy(packed.view(np.int32))


def ids_of(candidates, row=0):
    return candidates.token_ids[row, : int(candidates.count[row])].tolist()


@pytest.mark.clause("MASK-1")
@pytest.mark.parametrize("vocab_size, padding", WIDTHS)
def test_each_single_bit_opens_exactly_its_id(ops, vocab_size, padding):
    """One row per id below V, its bit alone set; padding logits and padding bits are all inviting."""
    logits = torch.full((vocab_size, vocab_size + padding), 1e9)
    logits[:, :vocab_size] = torch.arange(vocab_size).float()
    num_words = -(-vocab_size // 32)
    bitmask = pack([{token_id} for token_id in range(vocab_size)], num_words)
    if vocab_size % 32:
        bitmask[:, -1] |= -1 << vocab_size % 32
    chosen = select(ops, logits, vocab_size=vocab_size, allowed_bitmask=bitmask)
    assert chosen.count.tolist() == [1] * vocab_size
    assert chosen.token_ids[:, 0].tolist() == list(range(vocab_size))
    assert chosen.logits[:, 0].tolist() == list(range(vocab_size))


@pytest.mark.clause("MASK-1", "SAMP-2", "SAMP-9")
@pytest.mark.parametrize("vocab_size, padding", WIDTHS)
def test_nothing_at_or_past_v_is_ever_read(ops, vocab_size, padding):
    """A full mask over a padded width gives the ids below V by falling logit, whatever stands past V."""
    logits = torch.tensor([[1e9], [INF], [NAN]]).repeat(1, vocab_size + padding)
    logits[:, :vocab_size] = -torch.arange(vocab_size).float()
    full = torch.full((3, -(-vocab_size // 32)), -1, dtype=torch.int32)
    for table in ({}, {"allowed_bitmask": full}):
        for cap in (1, 20, None):
            chosen = select(ops, logits, vocab_size=vocab_size, candidate_cap=cap, **table)
            expected = list(range(min(vocab_size, cap or vocab_size)))
            assert [ids_of(chosen, row) for row in range(3)] == [expected] * 3
            assert chosen.status.tolist() == [RowStatus.OK] * 3


@pytest.mark.clause("MASK-1")
def test_bit_31_is_an_ordinary_bit(ops):
    chosen = select(
        ops, torch.zeros(2, 64), vocab_size=64, allowed_bitmask=words([SIGN_BIT, 0], [1, SIGN_BIT])
    )
    assert (ids_of(chosen, 0), ids_of(chosen, 1)) == ([31], [0, 63])


@pytest.mark.clause("SAMP-2", "SERV-25")
def test_an_illegal_favourite_neither_wins_nor_takes_a_place(ops):
    """The 30 best logits are illegal: the legal ids behind them fill the cap, top_k = 1 finds the best."""
    logits = torch.arange(70, 0, -1).float()[None].repeat(2, 1)
    bitmask = pack([set(range(30, 70))] * 2, 3)
    settings = [SamplingSettings(), SamplingSettings(top_k=1)]
    chosen = select(ops, logits, settings, vocab_size=70, allowed_bitmask=bitmask)
    assert ids_of(chosen, 0) == list(range(30, 50))
    assert ids_of(chosen, 1) == [30]


@pytest.mark.clause("MASK-7")
def test_a_free_row_ignores_its_bitmask_row(ops):
    chosen = select(
        ops,
        torch.tensor([[1.0, 2.0, 3.0]] * 2),
        vocab_size=3,
        allowed_bitmask=words([0b001], [0b001]),
        constrained_mask=torch.tensor([True, False]),
    )
    assert (ids_of(chosen, 0), ids_of(chosen, 1)) == ([0], [2, 1, 0])


@pytest.mark.clause("MASK-1")
def test_strided_logits_equal_their_contiguous_copy(ops):
    generator = torch.Generator().manual_seed(1)
    base = torch.randn(6, 140, generator=generator)
    views = [base[:, ::2], base[::2, 3:73], base.t()[:4, :], base[1:2].expand(4, 140)[:, 5:75]]
    for view in views:
        vocab_size = view.shape[1] - 1 if view.shape[1] > 6 else view.shape[1]
        strided = select(ops, view, vocab_size=vocab_size)
        packed = select(ops, view.contiguous(), vocab_size=vocab_size)
        assert torch.equal(strided.token_ids, packed.token_ids)
        assert torch.equal(strided.logits, packed.logits)


@pytest.mark.clause("MASK-1")
def test_a_wider_bitmask_buffer_and_sliced_tables_are_read_by_their_strides(ops):
    """The mask may be a slice of a buffer that a wider vocabulary fills; so may bans, counts and bias."""
    allowed = torch.full((4, 6), 0b111, dtype=torch.int32)[::2, 1:4]
    banned = words([0, 0b010, 0], [0, 0b010, 0])[:, 1:]
    bias = torch.zeros(2, 80)
    bias[:, 11] = 5.0
    counts = torch.zeros(2, 80, dtype=torch.int32)
    counts[:, 13] = 3
    chosen = select(
        ops,
        torch.zeros(2, 3),
        [SamplingSettings(frequency_penalty=1.0)] * 2,
        vocab_size=3,
        allowed_bitmask=allowed,
        banned_bitmask=banned,
        bias=bias[:, 9:12],
        counts=counts[:, 13:16],
    )
    assert chosen.token_ids[:, :2].tolist() == [[2, 0]] * 2
    assert chosen.logits[:, :2].tolist() == [[5.0, -3.0]] * 2
    assert chosen.count.tolist() == [2, 2]


@pytest.mark.clause("SAMP-3")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_narrow_logits_are_widened_before_anything_is_added(ops, dtype):
    """2**-13 vanishes beside 1 in the narrow types; added after widening it decides the order."""
    logits = torch.tensor([[1.0, 1.0, 1.0]]).to(dtype)
    bias = torch.tensor([[0.0, 2.0**-13, -(2.0**-13)]])
    chosen = select(ops, logits, vocab_size=3, bias=bias)
    assert ids_of(chosen) == [1, 0, 2]
    assert chosen.logits[0, 0].item() == 1.0 + 2.0**-13


@pytest.mark.clause("SAMP-3")
def test_adjustment_rounds_every_step_to_float32(ops):
    """Rows where a fused multiply-subtract, or another order of the sums, would give another float32."""
    generator = np.random.default_rng(2)
    logit, bias, presence, frequency = generator.normal(size=(4, 24)).astype(np.float32)
    count = generator.integers(1, 9, size=24).astype(np.int32)
    product = frequency * count.astype(np.float32)
    expected = ((logit + bias) - presence) - product
    exact = logit.astype(np.float64) + bias - presence - frequency.astype(np.float64) * count
    assert (expected != exact.astype(np.float32)).any(), "the inputs must tell the orders apart"
    settings = [
        SamplingSettings(presence_penalty=float(p), frequency_penalty=float(f))
        for p, f in zip(presence, frequency, strict=True)
    ]
    chosen = select(
        ops,
        torch.from_numpy(logit)[:, None],
        settings,
        vocab_size=1,
        bias=torch.from_numpy(bias)[:, None],
        counts=torch.from_numpy(count)[:, None],
    )
    assert chosen.logits[:, 0].tolist() == expected.tolist()


@pytest.mark.clause("SAMP-3")
def test_presence_acts_once_and_frequency_per_count(ops):
    chosen = select(
        ops,
        torch.zeros(1, 4),
        [SamplingSettings(presence_penalty=0.5, frequency_penalty=0.25)],
        vocab_size=4,
        counts=torch.tensor([[0, 1, 2, 8]], dtype=torch.int32),
    )
    assert chosen.token_ids[0, :4].tolist() == [0, 1, 2, 3]
    assert chosen.logits[0, :4].tolist() == [0.0, -0.75, -1.0, -2.5]


@pytest.mark.clause("SAMP-5", "SAMP-6")
def test_ties_go_to_the_smaller_id(ops):
    equal = select(ops, torch.full((1, 70), 2.5), vocab_size=70)
    assert ids_of(equal) == list(range(20))
    zeros = select(ops, torch.tensor([[-0.0, 0.0, -0.0, 0.0, -1.0]]), vocab_size=5)
    assert ids_of(zeros) == [0, 1, 2, 3, 4]
    lifted = select(ops, torch.tensor([[0.0, 1.0, 0.0]]), vocab_size=3, bias=torch.tensor([[1.0, 0.0, 1.0]]))
    assert ids_of(lifted) == [0, 1, 2]


STATUS_CASES = [
    # logits, allowed, banned, bias of id 0, expected status, expected ids
    ("nothing allowed", [1.0, 2.0], 0b00, 0b00, 0.0, RowStatus.EMPTY, []),
    ("nothing allowed, bans too", [1.0, 2.0], 0b00, 0b11, 0.0, RowStatus.EMPTY, []),
    ("bans empty the set", [1.0, 2.0], 0b01, 0b01, 0.0, RowStatus.EMPTY_BY_BANS, []),
    ("bans leave one", [1.0, 2.0], 0b11, 0b10, 0.0, RowStatus.OK, [0]),
    ("only padding bits set", [1.0, 2.0], 0b100, 0b00, 0.0, RowStatus.EMPTY, []),
    ("NaN legal", [1.0, NAN], 0b11, 0b00, 0.0, RowStatus.NON_FINITE, []),
    ("negative NaN legal", [1.0, -NAN], 0b11, 0b00, 0.0, RowStatus.NON_FINITE, []),
    ("+inf legal", [INF, 0.0], 0b11, 0b00, 0.0, RowStatus.NON_FINITE, []),
    ("only -inf legal", [-INF, 0.0], 0b01, 0b00, 0.0, RowStatus.NON_FINITE, []),
    ("-inf is no candidate", [-INF, 0.0], 0b11, 0b00, 0.0, RowStatus.OK, [1]),
    ("NaN illegal", [1.0, NAN], 0b01, 0b00, 0.0, RowStatus.OK, [0]),
    ("NaN banned", [1.0, NAN], 0b11, 0b10, 0.0, RowStatus.OK, [0]),
    ("+inf illegal", [1.0, INF], 0b01, 0b00, 0.0, RowStatus.OK, [0]),
    ("bias overflows", [3e38, 0.0], 0b11, 0b00, 3e38, RowStatus.NON_FINITE, []),
    ("bias closes one", [3.0, 0.0], 0b11, 0b00, -INF, RowStatus.OK, [1]),
    ("bias closes all", [3.0, 0.0], 0b01, 0b00, -INF, RowStatus.NON_FINITE, []),
    ("bias meets -inf", [-INF, 0.0], 0b11, 0b00, INF, RowStatus.NON_FINITE, []),
]


@pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered:RuntimeWarning")  # numpy interprets
@pytest.mark.clause("SAMP-10", "FAIL-11")
def test_statuses(ops):
    """All cases as one batch, so that no row's failure can leak into another."""
    _, logits, allowed, banned, bias, expected, expected_ids = zip(*STATUS_CASES, strict=True)
    bias_table = torch.zeros(len(STATUS_CASES), 2)
    bias_table[:, 0] = torch.tensor(bias)
    chosen = select(
        ops,
        torch.tensor(logits),
        vocab_size=2,
        allowed_bitmask=words(*([a] for a in allowed)),
        banned_bitmask=words(*([b] for b in banned)),
        bias=bias_table,
    )
    assert chosen.status.tolist() == [int(status) for status in expected]
    assert [ids_of(chosen, row) for row in range(len(logits))] == list(expected_ids)
    past = torch.arange(2) >= chosen.count[:, None]
    assert (chosen.token_ids[past] == 0).all()
    assert (chosen.logits[past] == -INF).all()


@pytest.mark.clause("SAMP-10", "MASK-11")
def test_rows_without_a_law_have_no_mass_and_draw_the_placeholder(ops):
    batch = SamplingBatch.from_settings([SamplingSettings(), SamplingSettings(temperature=0.0)] * 2)
    logits = torch.tensor([[NAN, 1.0], [NAN, 1.0], [1.0, 1.0], [1.0, 1.0]])
    chosen = select(
        ops,
        logits,
        [SamplingSettings(), SamplingSettings(temperature=0.0)] * 2,
        vocab_size=2,
        allowed_bitmask=words([0b11], [0b11], [0b00], [0b00]),
    )
    law = ops.target_law(chosen, batch)
    assert law.probs.tolist() == [[0.0, 0.0]] * 4
    assert law.status.tolist() == [RowStatus.NON_FINITE] * 2 + [RowStatus.EMPTY] * 2
    assert ops.draw(law, torch.full((4,), 0.999, dtype=torch.float64)).tolist() == [0] * 4


@pytest.mark.clause("SAMP-7")
def test_top_k_caps_only_inside_the_candidate_cap(ops):
    settings = [SamplingSettings(top_k=k) for k in (-1, 0, 1, 19, 20, 21, 10**6)]
    logits = torch.arange(70).float()[None].repeat(len(settings), 1)
    assert select(ops, logits, settings, vocab_size=70).count.tolist() == [20, 20, 1, 19, 20, 20, 20]
    whole = select(ops, logits, settings, vocab_size=70, candidate_cap=None)
    assert whole.count.tolist() == [70, 70, 1, 19, 20, 21, 70]


@pytest.mark.clause("SAMP-13")
def test_no_rows_is_a_legal_batch(ops):
    chosen = select(ops, torch.zeros(0, 40), [], vocab_size=33)
    assert chosen.token_ids.shape == (0, 20)
    whole = select(ops, torch.zeros(0, 40), [], vocab_size=33, candidate_cap=None)
    assert whole.token_ids.shape == (0, 1)
    empty = torch.zeros(0, dtype=torch.int64, device=device_of(ops))
    assert ops.uniforms(empty, empty, 0).shape == (0,)


@pytest.mark.clause("SPEC-4")
def test_selection_writes_into_no_input(ops):
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(2, 70, generator=generator)
    logits[0, 3], logits[0, 4] = NAN, -0.0
    tables = {
        "allowed_bitmask": torch.full((2, 3), -1, dtype=torch.int32),
        "banned_bitmask": words([8, 0, 0], [8, 0, 0]),
        "counts": torch.ones(2, 70, dtype=torch.int32),
        "bias": torch.ones(2, 70),
    }
    before = [logits.clone(), *(table.clone() for table in tables.values())]
    select(ops, logits, vocab_size=66, **tables)
    for table, copy in zip([logits, *tables.values()], before, strict=True):
        assert torch.equal(table.nan_to_num(), copy.nan_to_num())


@pytest.mark.clause("SAMP-8")
def test_sample_is_its_three_steps():
    generator = torch.Generator().manual_seed(4)
    logits = torch.randn(8, 40, generator=generator)
    settings = SamplingBatch.from_settings([SamplingSettings(top_p=0.8)] * 4).expand(2)
    uniforms = torch.rand(8, dtype=torch.float64, generator=generator)
    ops = get_ops("torch")
    token_ids, status = sample(logits, settings, uniforms, vocab_size=39, candidate_cap=7)
    law = ops.target_law(ops.select_candidates(logits, settings, vocab_size=39, candidate_cap=7), settings)
    assert torch.equal(token_ids, ops.draw(law, uniforms))
    assert torch.equal(status, law.status)


@pytest.mark.clause("MASK-2")
def test_expand_repeats_each_row_in_place():
    settings = SamplingBatch.from_settings([SamplingSettings(top_k=1), SamplingSettings(top_k=2)])
    assert settings.expand(3).top_k.tolist() == [1, 1, 1, 2, 2, 2]


def test_an_unknown_implementation_is_refused():
    with pytest.raises(ValueError, match="no ops named 'cuda'"):
        get_ops("cuda")
