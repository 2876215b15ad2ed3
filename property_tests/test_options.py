"""A request's numbers: each is served exactly or refused before the queue; none reaches a round unfit."""

import math

import numpy as np
import pytest

from engine.errors import RequestError
from engine.request import FinishReason, RequestOptions, SamplingSettings
from experiments.gates.path_world import CASES, SETTINGS, options, world

WORLD = world("toy")
SIZE = WORLD.vocabulary.size
HUGE = 10**5000


def run(prompt_ids=WORLD.prompt_ids, max_tokens=4, path="mtp", **sampling):
    """The result of one request beside a neighbour that must end whatever becomes of the request."""
    engine = WORLD.engine(path, "torch", 2)
    neighbour = engine.submit(WORLD.prompt_ids, options(CASES["choice"], SETTINGS["plain"], 4, 1))
    try:
        handle = engine.submit(prompt_ids, RequestOptions(max_tokens, None, SamplingSettings(**sampling)))
    finally:
        engine.run_until_done()
        assert neighbour.result().finish_reason is FinishReason.COMPLETED
    return handle.result()


@pytest.mark.clause("FAIL-1", "FAIL-2")
@pytest.mark.parametrize(
    "name, values",
    [
        ("temperature", (math.nan, math.inf, -math.inf, HUGE, "1", None)),
        ("top_p", (math.nan, -1e-9, 1.0000001, math.inf, None)),
        ("min_p", (math.nan, -1e-9, 1.0000001, "0")),
        ("presence_penalty", (math.nan, math.inf, 1e39, -1e39, HUGE)),
        ("frequency_penalty", (math.nan, math.inf, 1e39, -1e39)),
        ("top_k", (2**63, -(2**63) - 1, 2.5, math.nan, "1", None)),
        ("seed", (2**64, -(2**63) - 1, 1.5, math.nan, None, HUGE)),
        ("max_tokens", (-1, 2.5, math.inf, math.nan, None, 2**63)),
        ("logit_bias", ({SIZE: 1.0}, {-1: 1.0}, {1.0: 1.0}, {"1": 1.0}, {1: math.nan}, {1: 1e39}, {1: None})),
        ("banned_token_ids", ({SIZE}, {-1}, {1.5}, "a")),
        ("prompt_ids", ((), (SIZE,), (-1,), (1.0,), "a")),
    ],
)
def test_a_number_without_a_law_is_refused_before_the_queue(name, values):
    for value in values:
        with pytest.raises(RequestError) as refused:
            run(**{name: value})
        error = refused.value
        assert error.source == "request"
        assert error.found
        assert error.allowed
        assert len(str(error)) < 300


@pytest.mark.clause("FAIL-1")
@pytest.mark.parametrize(
    "name, values, same_as",
    [
        ("temperature", (-1e308, -5.0, 0), 0.0),
        ("temperature", (5e-324, 1.7e308, np.float32(0.5)), None),
        ("top_k", (0, -1, 2**63 - 1, -(2**63), 20, np.int64(0)), 0),
        ("top_p", (0.0, 0, 5e-324), 0.0),
        ("presence_penalty", (3.4e38, -3.4e38, 1), None),
        ("seed", (5, np.int64(5), np.uint64(5)), 5),
        ("seed", (-1, 2**64 - 1, np.uint64(2**64 - 1)), -1),
        ("seed", (-(2**63), 2**63), 2**63),
        ("logit_bias", ({5: 2}, {5: 2.0}, {np.int64(5): np.float32(2)}), {5: 2.0}),
        ("banned_token_ids", ([5, 6], {5, 6}, np.array([5, 6])), frozenset({5, 6})),
        ("prompt_ids", ((1, 2), [1, 2], np.array([1, 2])), (1, 2)),
        ("max_tokens", (True, 1), 1),
    ],
)
def test_the_ends_of_every_range_are_served(name, values, same_as):
    for value in values:
        result = run(**{name: value})
        assert same_as is None or result == run(**{name: same_as})


@pytest.mark.clause("LIFE-4")
def test_what_the_caller_changes_after_submitting_changes_nothing():
    a, b, *_ = WORLD.liked_ids
    bias, banned = {a: 50.0}, {b}
    engine = WORLD.engine("ordinary", "torch", 1)
    sampling = SamplingSettings(temperature=0.0, logit_bias=bias, banned_token_ids=banned)
    handle = engine.submit(WORLD.prompt_ids, RequestOptions(4, None, sampling))
    engine.step()
    bias[b], bias[a] = 99.0, -99.0
    banned.clear()
    engine.pause(handle, "replay")
    engine.resume(handle)
    engine.run_until_done()
    assert handle.result().token_ids == (a,) * 4
