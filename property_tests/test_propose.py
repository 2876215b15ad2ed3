"""The sparse drafter's choice against the oracle and against numbers worked by hand."""

import math

import pytest
import torch

from engine.ops import get_ops
from experiments.gates import exact_ops
from oracles import propose as oracle

IMPLS = ["torch", "numpy", "triton"]


def choose(ops, scores, temperature, u):
    return ops.propose(
        torch.tensor([scores], dtype=torch.float32),
        torch.tensor([temperature], dtype=torch.float64),
        torch.tensor([u], dtype=torch.float64),
    )


@pytest.mark.clause("SPEC-3", "SPEC-4")
@pytest.mark.parametrize("impl, size", [("torch", "quick"), ("numpy", "quick"), ("triton", "tiny")])
def test_proposals_equal_the_oracle(impl, size):
    record = exact_ops.run_check(get_ops(impl), "proposals", size)
    assert record.passed, record.first_failure


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize(
    "scores, temperature, u, rank, law",
    [
        ((1.0, 3.0, 3.0), 0.0, 0.99, 1, (0.0, 1.0, 0.0)),  # greedy, tie to the lower rank, coin unread
        ((1.0, 3.0, 3.0), -1.0, 0.99, 1, (0.0, 1.0, 0.0)),
        ((0.0, 0.0, 0.0, 0.0), 1.0, 0.5, 2, (0.25, 0.25, 0.25, 0.25)),  # a coin on an edge goes up
        ((0.0, 0.0, 0.0, 0.0), 1.0, 0.5 - 2**-24, 1, (0.25, 0.25, 0.25, 0.25)),
        ((0.0, 0.0), 2.0, 0.0, 0, (0.5, 0.5)),
        ((7.5,), 0.3, 0.7, 0, (1.0,)),
    ],
)
def test_by_hand(impl, scores, temperature, u, rank, law):
    choice = choose(get_ops(impl), scores, temperature, u)
    assert choice.index.tolist() == [rank] == [oracle.draw(scores, temperature, u)]
    assert choice.probs.tolist() == [list(law)] == [list(oracle.law(scores, temperature).probs)]


def test_temperature_divides_the_scores():
    """exp(1/2) against 1 at temperature 2."""
    first = math.exp(0.5) / (math.exp(0.5) + 1)
    assert oracle.law((1.0, 0.0), 2.0).probs == pytest.approx((first, 1 - first), abs=1e-15)
    probs = choose(get_ops("torch"), (1.0, 0.0), 2.0, 0.0).probs[0].tolist()
    assert probs == pytest.approx((first, 1 - first), abs=1e-15)
