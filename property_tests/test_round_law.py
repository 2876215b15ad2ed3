"""SPEC-8 on the oracle: whatever the drafter proposes, rounds give the law of ordinary masked sampling."""

import numpy as np
import pytest

from oracles import round_law as rounds
from oracles.accept import accept_break, residual
from oracles.sample import Law, dyadic_law

TOLERANCE = 1e-12
A, B, X = 0, 1, 2


def random_target(seed, vocab_size, dead_share=0.0):
    """A law per prefix, each with its own weights and its own mask."""

    def target(prefix):
        rng = np.random.default_rng([seed, len(prefix), *(t + 1 for t in prefix)])
        if prefix and rng.random() < dead_share:
            return Law(status="empty")
        legal = rng.random(vocab_size) < 0.6
        legal[rng.integers(vocab_size)] = True
        weights = rng.integers(1, 5, vocab_size) * legal
        return dyadic_law({i: w for i, w in enumerate(weights.tolist()) if w})

    return target


def random_proposal(seed, vocab_size, support):
    """A sparse law per prefix that knows nothing of the masks; the out-of-range id vocab_size included."""

    def proposal(prefix):
        rng = np.random.default_rng([seed + 7, len(prefix), *(t + 1 for t in prefix)])
        ids = rng.permutation(vocab_size + 1)[:support].tolist()
        return dyadic_law(
            {i: float(w) for i, w in zip(ids, rng.integers(1, 6, support), strict=True)}
        ).as_dict()

    return proposal


def disjoint_proposal(vocab_size):
    return lambda prefix: {vocab_size: 0.5, vocab_size + 3: 0.5}


@pytest.mark.clause("SPEC-2", "SPEC-3", "SPEC-4", "SPEC-8", "SAMP-11")
@pytest.mark.parametrize("one_hot", [True, False])
@pytest.mark.parametrize("num_drafts", [0, 1, 2, 3])
@pytest.mark.parametrize("ends", [(), (0,)])
def test_rounds_equal_ordinary_sampling(num_drafts, one_hot, ends):
    for seed in range(6):
        target = random_target(seed, 4, dead_share=0.2 * (seed % 2))
        for proposal in (random_proposal(seed, 4, 2), random_proposal(seed, 4, 3), disjoint_proposal(4)):
            ordinary = rounds.ordinary_law(target, 4, ends)
            one_round = rounds.round_law(target, proposal, num_drafts, ends, one_hot)
            extended = rounds.extend(one_round, target, 4, ends)
            repeated = rounds.speculative_law(target, proposal, num_drafts, 4, ends, one_hot)
            assert abs(sum(one_round.values()) - 1) < TOLERANCE
            assert rounds.largest_difference(extended, ordinary) < TOLERANCE
            assert rounds.largest_difference(repeated, ordinary) < TOLERANCE


@pytest.mark.clause("SPEC-8")
def test_a_proposal_equal_to_the_target_is_always_accepted():
    target = random_target(3, 3)
    law = rounds.round_law(target, lambda prefix: target(prefix).as_dict(), 2)
    assert {len(tokens) for tokens in law} == {3}
    assert rounds.largest_difference(law, rounds.ordinary_law(target, 3)) < TOLERANCE


def example(drop_illegal=False):
    """p = (a 1/2, b 1/2), x illegal; q = (a 1/2, x 1/2): the law of the first token one round emits."""
    p, q = Law((A, B), (0.5, 0.5)), {A: 0.5, X: 0.5}
    if not drop_illegal:
        return rounds.marginal(rounds.round_law(lambda prefix: p, lambda prefix: q, 1), 0)
    # The wrong rule: a dropped draft leaves its column to a plain draw from p.
    return {A: q[A] * 1.0 + q[X] * 0.5, B: q[X] * 0.5}


@pytest.mark.clause("SPEC-5")
def test_an_illegal_draft_takes_the_normal_rejection():
    assert example() == {A: 0.5, B: 0.5}
    assert example(drop_illegal=True) == {A: 0.75, B: 0.25}


@pytest.mark.clause("SPEC-3")
def test_sparse_round_worked_by_hand():
    """p = (.4, .3, .2, .1), q reversed: 3 is accepted with 1/4, else (.3, .1)/.4 is the correction's law."""
    p = Law((0, 1, 2, 3), (0.4, 0.3, 0.2, 0.1))
    q = {0: 0.1, 1: 0.2, 2: 0.3, 3: 0.4}
    assert accept_break(p, 3, q) == 0.25
    assert residual(p, 3, q).as_dict() == pytest.approx({0: 0.75, 1: 0.25})
    law = rounds.given_drafts([p, Law((0,), (1.0,))], [3], [q])
    assert law == pytest.approx({(0,): 0.5625, (1,): 0.1875, (3, 0): 0.25})


@pytest.mark.clause("SPEC-2")
def test_one_hot_round_worked_by_hand():
    """Draft 1 with p(1) = .3; without it (.4, .2, .1)/.7; the bonus column holds 2 or 0, half each."""
    p = Law((0, 1, 2, 3), (0.4, 0.3, 0.2, 0.1))
    law = rounds.given_drafts([p, Law((2, 0), (0.5, 0.5))], [1], [None])
    assert law == pytest.approx({(1, 2): 0.15, (1, 0): 0.15, (0,): 0.4, (2,): 0.2, (3,): 0.1})


@pytest.mark.clause("SPEC-10")
def test_nothing_follows_an_accepted_end():
    p = Law((0, 1), (0.75, 0.25))
    dead = Law(status="empty")
    assert rounds.given_drafts([p, dead], [1], [None], ends=(1,)) == {(1,): 0.25, (0,): 0.75}
    assert rounds.given_drafts([p, dead], [1], [None]) == {rounds.FAILED: 0.25, (0,): 0.75}


def test_distances_by_hand():
    one, other = {(0,): 0.4, (1,): 0.6}, {(0,): 0.5, (2,): 0.5}
    assert rounds.largest_difference(one, other) == pytest.approx(0.6)
    assert rounds.total_variation(one, other) == pytest.approx(0.6)
    assert rounds.marginal({(0, 1): 0.5, (0,): 0.25, (2, 2): 0.25}, 1) == {1: 0.5, None: 0.25, 2: 0.25}
