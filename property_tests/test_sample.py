"""Sampling laws and draws: engine against oracle, and both against numbers worked by hand.

The planted faults at the end change one rule each; every one must make a sweep fail.
"""

import math

import attrs
import pytest
import torch

from engine.ops import get_ops
from engine.ops.sample import RowStatus, SamplingBatch, TargetLaw, first_above
from engine.request import SamplingSettings
from experiments.gates import exact_ops
from experiments.gates.exact_laws import check_laws, edge_rows, row_groups, sampling_arguments
from oracles import sample as oracle
from oracles.sample import Law, Settings

IMPLS = ["torch", "numpy", "triton"]
OUT_OF = [("torch", "quick"), ("numpy", "quick"), ("triton", "tiny")]
HALF = (0.5, 0.5)
EDGE_LAWS = [  # one for each row of edge_rows(), by hand
    {0: 0.625, 1: 0.375},
    {0: 1 / 3, 1: 1 / 3, 2: 1 / 3},
    {1: 1.0},
    {1: 1.0},
    {1: 0.5, 2: 0.5},
    {1: 0.5, 2: 0.5},
    # penalties 0, 1 + 2, 1 + 4
    {i: math.exp(-x) / (1 + math.exp(-3) + math.exp(-5)) for i, x in enumerate((0, 3, 5))},
    {1: 1.0},
    "non_finite",
    "non_finite",
    {1: 1.0},
    "non_finite",
    "empty",
    "empty_by_bans",
    "empty",
    {0: 1.0},
    {0: 0.5, 1: 0.5},
]


def law_of(ops, logits, **settings):
    """The engine's law of one unconstrained row as a dict."""
    batch = SamplingBatch.from_settings([SamplingSettings(**settings)])
    chosen = ops.select_candidates(torch.tensor([logits]), batch, vocab_size=len(logits), candidate_cap=20)
    law = ops.target_law(chosen, batch)
    return {i: p for i, p in zip(law.token_ids[0].tolist(), law.probs[0].tolist(), strict=True) if p > 0}


@pytest.mark.clause("SAMP-2", "SAMP-3", "SAMP-5", "SAMP-6", "SAMP-7", "SAMP-8", "SAMP-9", "SAMP-10", "VER-3")
@pytest.mark.parametrize("impl, size", OUT_OF)
def test_laws_equal_the_oracle(impl, size):
    record = exact_ops.run_check(get_ops(impl), "sampling laws", size)
    assert record.passed, record.first_failure


@pytest.mark.clause("SAMP-8")
@pytest.mark.parametrize("impl, size", OUT_OF)
def test_draws_equal_the_oracle_at_every_break(impl, size):
    record = exact_ops.run_check(get_ops(impl), "draws", size)
    assert record.passed, record.first_failure


@pytest.mark.clause("SAMP-2", "SAMP-3", "SAMP-5", "SAMP-7", "SAMP-10")
@pytest.mark.parametrize("impl", IMPLS)
def test_edges_by_hand(impl):
    """The literals stand beside the oracle, so that an error both share would still show."""
    ops, group = get_ops(impl), edge_rows()
    args, more = sampling_arguments(group)
    law = ops.target_law(ops.select_candidates(*args, **more), args[1])
    for i, (row, want) in enumerate(zip(group.rows, EDGE_LAWS, strict=True)):
        mine = group.law(row)
        if isinstance(want, str):
            assert mine.status == want
            assert RowStatus(int(law.status[i])).name.lower() == want
            continue
        got = {t: p for t, p in zip(law.token_ids[i].tolist(), law.probs[i].tolist(), strict=True) if p > 0}
        assert mine.as_dict() == pytest.approx(want, abs=1e-7)
        assert got == pytest.approx(want, abs=1e-7)


@pytest.mark.clause("SAMP-6", "SAMP-7")
def test_the_filters_by_hand():
    """p = (1/2, 1/4, 1/8, 1/8) in four logits of ln 2; ties go to the smaller id."""
    logits = [math.log(x) for x in (1, 4, 2, 1)]
    tops = [(Settings(top_k=2), {1: 2 / 3, 2: 1 / 3}), (Settings(top_k=3), {1: 4 / 7, 2: 2 / 7, 0: 1 / 7})]
    tops += [(Settings(top_p=0.49), {1: 1.0}), (Settings(top_p=0.51), {1: 2 / 3, 2: 1 / 3})]
    tops += [(Settings(min_p=0.4), {1: 2 / 3, 2: 1 / 3}), (Settings(min_p=0.6), {1: 1.0})]
    tops += [
        (Settings(top_p=0.0), {1: 1.0}),
        (Settings(temperature=0.5), {1: 16 / 22, 2: 4 / 22, 0: 1 / 22, 3: 1 / 22}),
    ]
    # top_p counts the candidates before the min_p cut: 3/4 of all is reached only at the second
    tops += [(Settings(top_p=0.7, min_p=0.3), {1: 2 / 3, 2: 1 / 3})]
    for top_p, kept in ((0.25, 1), (0.5, 2), (0.75, 3), (0.76, 4), (1.0, 4)):  # four equal: reached exactly
        want = {i: 1 / kept for i in range(kept)}
        assert oracle.law([0.0] * 4, vocab_size=4, settings=Settings(top_p=top_p)).as_dict() == want
        for impl in IMPLS:
            assert law_of(get_ops(impl), [0.0] * 4, top_p=top_p) == want
    for settings, want in tops:
        assert oracle.law(logits, vocab_size=4, settings=settings).as_dict() == pytest.approx(want, abs=1e-6)
        for impl in IMPLS:
            assert law_of(get_ops(impl), logits, **vars(settings)) == pytest.approx(want, abs=1e-6)


@pytest.mark.clause("SAMP-2", "SAMP-7")
@pytest.mark.parametrize("impl", IMPLS)
def test_a_legal_id_past_the_first_twenty_stays_reachable(impl):
    """Thirty better ids are illegal; the two legal ones share the law."""
    ops, legal = get_ops(impl), torch.zeros(2, dtype=torch.int32)
    legal[0], legal[1] = -(2**31), 1  # ids 31 and 32
    logits = torch.tensor([[float(50 - i) for i in range(31)] + [-3.0, -3.0, 99.0]])
    batch = SamplingBatch.from_settings([SamplingSettings()])
    chosen = ops.select_candidates(
        logits, batch, vocab_size=33, candidate_cap=20, allowed_bitmask=legal[None]
    )
    law = ops.target_law(chosen, batch)
    assert chosen.count.tolist() == [2]
    assert law.token_ids[0, :2].tolist() == [31, 32]
    assert law.probs[0, :2].tolist() == [0.5, 0.5]


@pytest.mark.clause("SAMP-8")
@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize(
    "probs, u, want",
    [
        (HALF, 0.0, 7),
        (HALF, 0.5, 3),  # on the edge: the next one
        (HALF, 0.5 - 2**-24, 7),
        (HALF, 1 - 2**-24, 3),
        ((0.0, 1.0), 0.0, 3),  # u = 0 does not take an entry without mass
        ((0.25, 0.25), 0.75, 3),  # past the sum: the last
    ],
)
def test_a_draw_by_hand(impl, probs, u, want):
    assert oracle.draw(Law((7, 3), probs), u) == want
    law = TargetLaw(torch.tensor([[7, 3]]), torch.tensor([probs], dtype=torch.float64), torch.tensor([0]))
    assert get_ops(impl).draw(law, torch.tensor([u], dtype=torch.float64)).tolist() == [want]


@pytest.mark.clause("SPEC-9", "SAMP-9")
@pytest.mark.parametrize(
    "weights, goal, want",
    [
        ((0.25, 0.0, 0.0), 0.75, 0),  # past the sum: the last entry that has mass, not the last entry
        ((0.25, 0.25, 0.0), math.inf, 1),
        ((0.0, 0.5, 0.0), 0.0, 1),
        ((0.0, 0.0, 0.0), 0.0, 0),
        ((0.0, 0.0, 0.0), math.inf, 0),
    ],
)
def test_a_choice_never_falls_on_an_entry_without_mass(weights, goal, want):
    rows = torch.tensor([weights, (0.5, 0.0, 0.5)], dtype=torch.float64)
    goals = torch.tensor([goal, 0.5], dtype=torch.float64)
    assert first_above(rows, goals).tolist() == [want, 2]


@pytest.mark.clause("SAMP-13", "SAMP-14")
def test_rows_do_not_disturb_each_other():
    """Each row alone, and all rows in reverse, give the laws of the batch."""
    for group in list(row_groups(100, seed=5))[:6]:
        for rows in (group.rows[::-1], group.rows[:1], group.rows[-1:]):
            record = check_laws(get_ops("torch"), "rows", [attrs.evolve(group, rows=rows)])
            assert record.passed, record.first_failure


def test_break_points_and_probes_by_hand():
    law = Law((5, 1, 2), (0.5, 0.0, 0.5))
    assert oracle.breakpoints(law) == [0.5]
    assert oracle.pieces([0.5]) == [(0.0, 0.5), (0.5, 1.0)]
    grid = 2**-24
    assert oracle.probe_uniforms([0.5]) == [0.0, 0.25, 0.5 - grid, 0.5, 0.5 + grid, 0.75, 1 - grid]
    assert oracle.probe_uniforms([0.5], exact=False) == [0.0, 0.25, 0.5 - grid, 0.5 + grid, 0.75, 1 - grid]
    third = oracle.probe_uniforms([1 / 3])
    assert third[2] == 5592405 * grid < 1 / 3 < 5592406 * grid == third[3]


def test_dyadic_laws_are_exact():
    law = oracle.dyadic_law({4: 1.0, 2: 1.0, 9: 1.0, 7: 0.0})
    assert law.order == (4, 2, 9)
    assert sum(law.probs) == 1.0
    assert all(p * 4096 == int(p * 4096) for p in law.probs)
    assert max(abs(p - 1 / 3) for p in law.probs) < 2**-11
    assert oracle.dyadic_law({1: 1e-9, 2: 1.0}).probs == (1 / 4096, 4095 / 4096)
    assert oracle.dyadic_law({1: 0.0}).status == "empty"


# --- planted faults -------------------------------------------------------------------------------------


def with_arguments(change):
    """The torch ops with arguments of `select_candidates` that were tampered with."""

    def plant(logits, settings, **more):
        logits, settings, more = change(logits, settings, dict(more))
        return get_ops("torch").select_candidates(logits, settings, **more)

    return {"select_candidates": plant}


def with_settings(**change):
    """One number of the settings changed by a function, for the candidates and for the law."""

    def turned(settings):
        return attrs.evolve(settings, **{name: f(getattr(settings, name)) for name, f in change.items()})

    ops = get_ops("torch")
    return {
        "select_candidates": lambda logits, s, **more: ops.select_candidates(logits, turned(s), **more),
        "target_law": lambda chosen, s: ops.target_law(chosen, turned(s)),
    }


def without(*names):
    return with_arguments(lambda x, s, more: (x, s, {k: v for k, v in more.items() if k not in names}))


def mask_after_top_k(logits, settings, **more):
    """Ids are masked out of twenty candidates that were chosen without the mask."""
    masked = get_ops("torch").select_candidates(logits, settings, **more)
    unmasked = {k: v for k, v in more.items() if k not in ("allowed_bitmask", "constrained_mask")}
    free = get_ops("torch").select_candidates(logits, settings, **unmasked)
    kept = (free.token_ids[:, :, None] == masked.token_ids[:, None, :]).any(2)
    return attrs.evolve(masked, count=torch.minimum(masked.count, kept.sum(1)))


def soft_mask(logits, settings, **more):
    """Illegal logits become -1e4 and stay candidates."""
    allowed, constrained = more.pop("allowed_bitmask", None), more.pop("constrained_mask", None)
    if allowed is not None:
        ids = torch.arange(logits.shape[1]).clamp(max=more["vocab_size"] - 1)
        legal = ((allowed[:, ids // 32] >> (ids % 32)) & 1).bool() | ~constrained[:, None]
        logits = torch.where(legal, logits.float(), -1e4)
    return get_ops("torch").select_candidates(logits, settings, **more)


def larger_id_first(logits, settings, **more):
    """The first two candidates change places when their logits are equal."""
    chosen = get_ops("torch").select_candidates(logits, settings, **more)
    if chosen.token_ids.shape[1] < 2:
        return chosen
    tied = (chosen.count > 1) & (chosen.logits[:, 0] == chosen.logits[:, 1])
    turned = chosen.token_ids.clone()
    turned[tied, :2] = chosen.token_ids[tied, :2].flip(1)
    return attrs.evolve(chosen, token_ids=turned)


def spoil_logits(logits, settings, **more):
    chosen = get_ops("torch").select_candidates(logits, settings, **more)
    logits.clamp_(min=-1.0)
    return chosen


def one_more(x, s, more):
    cap = more["candidate_cap"]
    return x, s, {**more, "candidate_cap": cap and cap + 1}


def swapped_penalties(x, s, more):
    turned = {"presence_penalty": s.frequency_penalty, "frequency_penalty": s.presence_penalty}
    return x, attrs.evolve(s, **turned), more


def blind_to_nan(x, s, more):
    return x.nan_to_num(-torch.inf, torch.inf, -torch.inf), s, more


def bias_after_mask(logits, settings, **more):
    """A large bias opens what the mask closed."""
    allowed, bias = more.get("allowed_bitmask"), more.get("bias")
    if allowed is not None and bias is not None:
        ids = torch.arange(more["vocab_size"])
        bits = torch.where(bias == 100, 1 << (ids % 32), 0)
        opened = torch.zeros(*allowed.shape, dtype=torch.int64)
        opened.index_add_(1, ids // 32, bits)
        more["allowed_bitmask"] = allowed | opened.to(torch.int32)
    return get_ops("torch").select_candidates(logits, settings, **more)


LAW_FAULTS = {
    "mask forgotten": without("allowed_bitmask", "constrained_mask"),
    "free rows take their mask": without("constrained_mask"),
    "bans forgotten": without("banned_bitmask"),
    "counts forgotten": without("counts"),
    "bias forgotten": without("bias"),
    "bias opens illegal ids": {"select_candidates": bias_after_mask},
    "mask after top-k": {"select_candidates": mask_after_top_k},
    "illegal logits become -1e4": {"select_candidates": soft_mask},
    "one candidate too many": with_arguments(one_more),
    "ties to the larger id": {"select_candidates": larger_id_first},
    "logits changed in place": {"select_candidates": spoil_logits},
    "NaN taken for -inf": with_arguments(blind_to_nan),
    "temperature off by 1e-9": with_settings(temperature=lambda t: t * (1 + 1e-9)),
    "greedy taken for warm": with_settings(temperature=lambda t: t.clamp(min=0.5)),
    "top_p off by a thousandth": with_settings(top_p=lambda p: p * 0.999),
    "min_p forgotten": with_settings(min_p=lambda p: p * 0),
    "penalties swapped": with_arguments(swapped_penalties),
}


@pytest.mark.parametrize("name", LAW_FAULTS)
def test_planted_faults_of_the_law_are_caught(name):
    ops = attrs.evolve(get_ops("torch"), **LAW_FAULTS[name])
    groups = [edge_rows(), *row_groups(400, seed=0)]
    if name == "logits changed in place":
        with pytest.raises(AssertionError, match="changed one of its inputs"):
            check_laws(ops, name, groups, twice=False)
        return
    record = check_laws(ops, name, groups, twice=False)
    assert not record.passed
    assert record.worst_error > 1e-12


@pytest.mark.parametrize("shift", [2**-24, -(2**-24)])
def test_a_draw_off_by_one_step_is_caught(shift):
    ops = attrs.evolve(get_ops("torch"), draw=lambda law, u: get_ops("torch").draw(law, u + shift))
    assert not exact_ops.run_check(ops, "draws", "quick").passed
