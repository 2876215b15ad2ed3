"""The ops with the generator's own coins: the law holds, and coins that are shared do not go unseen."""

import attrs
import pytest

from engine.ops import get_ops
from engine.ops.accept import RoundUniforms
from engine.ops.rng import Purpose
from experiments.gates import sampled_ops
from experiments.gates.sampled_ops import SIZES, check_sampled_rounds, exact_pmfs


@pytest.mark.clause("SPEC-8", "SAMP-13")
@pytest.mark.parametrize("one_hot, visible", [(False, 0.01), (True, 0.017)])
def test_real_coins_give_the_law(one_hot, visible):
    """Every unconditional table sees a total variation of 0.01; the rarer accepted drafts see less."""
    record = check_sampled_rounds(get_ops("torch"), SIZES["full"], one_hot)
    assert record.passed, record.failure
    seen = [gap for name, (_, gap) in record.tables.items() if "given" not in name]
    assert max(seen) < 0.01
    assert record.visible < visible


def test_the_tables_hold_laws():
    for one_hot in (False, True):
        for pmf in exact_pmfs(one_hot).values():
            assert sum(pmf.values()) == pytest.approx(1, abs=1e-12)


def reuse(change):
    """The torch ops with a round whose uniforms were tampered with."""
    ops = get_ops("torch")

    def plant(law, proposal, uniforms, **masks):
        return ops.accept_round(law, proposal, change(uniforms), **masks)

    return attrs.evolve(ops, accept_round=plant)


def same_purpose(wrong, right):
    """The torch ops with one purpose's coins taken for another's."""
    ops = get_ops("torch")

    def plant(seeds, positions, purpose, **more):
        return ops.uniforms(seeds, positions, right if purpose is wrong else purpose, **more)

    return attrs.evolve(ops, uniforms=plant)


def frozen_position(ops):
    return attrs.evolve(
        ops, uniforms=lambda seeds, at, purpose, **more: ops.uniforms(seeds, at * 0, purpose, **more)
    )


FAULTS = {
    "one accept coin for the window": reuse(
        lambda u: RoundUniforms(u.accept[:, :1].repeat(1, 2), u.correction, u.bonus)
    ),
    "accept coin reused for the correction": same_purpose(Purpose.CORRECTION, Purpose.ACCEPT),
    "draft noise reused for the correction": same_purpose(Purpose.CORRECTION, Purpose.PROPOSAL),
    "draft noise reused for acceptance": same_purpose(Purpose.ACCEPT, Purpose.PROPOSAL),
    "positions share their coins": frozen_position(get_ops("torch")),
}


@pytest.mark.parametrize("name", FAULTS)
def test_shared_coins_are_caught(name):
    record = check_sampled_rounds(FAULTS[name], SIZES["quick"], one_hot=False)
    assert not record.passed
    assert "tail" in record.failure


def test_a_drafter_that_proposes_nothing_useful_is_inconclusive(monkeypatch):
    """Drafts that are never illegal leave the floor of illegal drafts unmet."""
    tame = {last: (*weights[:3], 0) for last, weights in sampled_ops.DRAFT_WEIGHTS.items()}
    monkeypatch.setattr(sampled_ops, "DRAFT_WEIGHTS", tame)
    laws = [
        sampled_ops.Law(tuple(q), tuple(q.values())) for q in map(sampled_ops.proposal, sampled_ops.PREFIXES)
    ]
    monkeypatch.setattr(sampled_ops, "PROPOSALS", sampled_ops._law_table(laws))
    record = check_sampled_rounds(get_ops("torch"), SIZES["tiny"], one_hot=False)
    assert "INCONCLUSIVE" in record.failure
