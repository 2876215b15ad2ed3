"""A request's life in the engine: waiting, running, paused, cancelled, ended; each state, each way."""

import gc
import time
import weakref

import pytest

from engine.errors import ErrorKind, IntegrityError, NonFiniteLogits, RequestError
from engine.request import CacheOutcome, FinishReason, RequestOptions, SamplingSettings
from engine.runtime.table import TableTarget
from engine.text.masks import words_for
from experiments.gates.path_world import CASES, SETTINGS, options, world

WORLD = world("toy")
FREE, CHOICE = CASES["free"], CASES["choice"]
ENDLESS = SamplingSettings(banned_token_ids=frozenset(WORLD.vocabulary.eos_ids))


def submit(engine, max_tokens=9, seed=0, case=FREE, settings=ENDLESS):
    return engine.submit(WORLD.prompt_ids, options(case, settings, max_tokens, seed))


@pytest.mark.clause("FAIL-9", "DONE-10", "LIFE-1")
@pytest.mark.parametrize("state", ["waiting", "paused while waiting", "resident", "snapshot", "replay"])
def test_a_request_cancelled_between_steps_ends_at_once(state):
    engine = WORLD.engine("mtp", "torch", 1)
    first, second = submit(engine), submit(engine, seed=1)
    engine.step()
    victim = second if "waiting" in state else first
    if state != "waiting" and state != "resident":
        engine.pause(victim, "replay" if state == "replay" else "snapshot")
    before = tuple(victim.token_ids)
    engine.cancel(victim)
    assert victim.done
    assert victim.result().finish_reason is FinishReason.CANCELLED
    assert victim.result().token_ids == before
    assert (victim.lane, victim.kept) == (None, None)
    engine.run_until_done()
    other = first if victim is second else second
    assert len(other.result().token_ids) == 9
    assert engine._program.num_free_lanes == 1


@pytest.mark.clause("DONE-10")
def test_an_end_is_final():
    engine = WORLD.engine("mtp", "torch", 2)
    handle = submit(engine, 3)
    with pytest.raises(IntegrityError, match="has not ended"):
        handle.result()
    engine.run_until_done()
    result = handle.result()
    engine.cancel(handle)
    engine.pause(handle)
    engine.resume(handle)
    engine.run_until_done()
    assert handle.result() is result
    assert result.finish_reason is FinishReason.LENGTH
    troubled = WORLD.troubled().engine("mtp", "torch", 2)
    a = WORLD.liked_ids[0]
    failed = troubled.submit([a], RequestOptions(3))
    troubled.run_until_done()
    with pytest.raises(NonFiniteLogits):
        failed.result()


@pytest.mark.clause("LIFE-3", "LIFE-4")
@pytest.mark.parametrize("mode", ["snapshot", "replay"])
def test_a_paused_request_waits_and_holds_no_lane(mode):
    engine = WORLD.engine("mtp", "torch", 1)
    handle, other = submit(engine), submit(engine, 4, seed=1)
    engine.step()
    engine.pause(handle, mode)
    said = list(handle.token_ids)
    assert said
    engine.run_until_done()  # a paused request keeps nobody waiting
    assert other.done
    assert not handle.done
    assert handle.token_ids == said
    assert (handle.kept is None) is (mode == "replay")
    engine.pause(handle, "replay")  # it is paused already: what was kept stays
    engine.resume(handle)
    engine.run_until_done()
    alone = WORLD.engine("mtp", "torch", 1)
    wanted = submit(alone)
    alone.run_until_done()
    assert handle.result() == wanted.result()


@pytest.mark.clause("LIFE-1")
def test_requests_get_lanes_in_the_order_they_came():
    engine = WORLD.engine("ordinary", "torch", 2)
    handles = [submit(engine, 2, seed=i) for i in range(5)]
    engine.pause(handles[2])
    seen = []
    while not all(handle.done for handle in handles):
        engine.step()
        seen.append([i for i, handle in enumerate(handles) if handle.done])
        if len(seen) == 1:
            engine.resume(handles[2])
    assert seen == [[0, 1], [0, 1, 2, 3], [0, 1, 2, 3, 4]]


@pytest.mark.clause("MASK-5", "LIFE-9")
@pytest.mark.parametrize("path, columns", [("ordinary", 1), ("mtp", 4)])
def test_an_observation_adds_up(path, columns):
    """Bytes are those of one row's window in every committed round; the first window has one column."""
    rounds = []
    engine = WORLD.engine(path, "torch", 1, observe=lambda handle, row: rounds.append(row))
    begin = time.thread_time()
    handle = submit(engine, 6, 3, CHOICE, SETTINGS["plain"])
    passed = time.thread_time() - begin
    engine.run_until_done()
    seen = handle.result().constraint
    num_columns = 1 + columns * (len(rounds) - 1)
    assert seen.mask_upload_bytes == 4 * words_for(WORLD.vocabulary.size) * num_columns
    assert len(rounds) < seen.mask_positions <= 1 + num_columns  # and the one that submit looked at
    assert seen.cache in set(CacheOutcome)
    assert seen.core
    assert 0 < seen.prepare_seconds <= passed
    again = submit(engine, 6, 3, CHOICE, SETTINGS["plain"])
    engine.run_until_done()
    assert again.result().constraint.cache is CacheOutcome.HIT
    assert again.result().num_drafted == sum(row.num_drafted for row in rounds[: len(rounds) // 2])


@pytest.mark.clause("SPECG-9")
def test_counts_of_the_engine_are_those_of_its_requests_and_its_steps():
    engine = WORLD.engine("mtp", "torch", 3)
    handles = [submit(engine, 6, i, CHOICE, SETTINGS["plain"]) for i in range(8)]
    steps = []
    while not all(handle.done for handle in handles):
        steps.append(engine.step())
    for name in ("num_rows", "num_drafted", "num_accepted", "num_rejected", "num_bonuses", "num_illegal"):
        total = getattr(engine.stats, name)
        assert total == sum(getattr(handle.stats, name) for handle in handles)
        assert total == sum(getattr(step, name) for step in steps)
    assert engine.stats.num_drafted > engine.stats.num_accepted > 0


@pytest.mark.clause("LIFE-9", "FAIL-5", "FAIL-8")
@pytest.mark.parametrize("end", ["failed", "cancelled", "unavailable"])
def test_whatever_ends_a_request_its_matcher_is_let_go(end):
    engine = (WORLD.troubled() if end == "failed" else WORLD).engine("mtp", "torch", 1)
    a = WORLD.liked_ids[0]
    handle = engine.submit([a], options(CHOICE, SETTINGS["plain"], 9))
    waiting = engine.submit([a], options(CHOICE, SETTINGS["plain"], 9))
    matchers = [weakref.ref(one.session._matcher) for one in (handle, waiting)]
    if end == "cancelled":
        engine.cancel(handle)
        engine.cancel(waiting)
    elif end == "unavailable":
        engine._program.prefill = None
        with pytest.raises(IntegrityError):
            engine.step()
        for again in (engine.step, lambda: submit(engine)):
            with pytest.raises(RequestError) as refused:
                again()
            assert refused.value.kind is ErrorKind.UNAVAILABLE
        assert handle.outcome == waiting.outcome
    engine.run_until_done()
    assert handle.done
    assert waiting.done
    gc.collect()
    assert [matcher() for matcher in matchers] == [None, None]


@pytest.mark.clause("DONE-10")
@pytest.mark.parametrize("path", ["ordinary", "mtp", "dflash2"])
@pytest.mark.parametrize(
    "room, max_tokens, wanted",
    [
        (5, 9, FinishReason.CONTEXT),
        (1, 2, FinishReason.CONTEXT),
        (5, 5, FinishReason.LENGTH),
        (5, 4, FinishReason.LENGTH),
        (0, 0, FinishReason.LENGTH),
    ],
)
def test_an_output_ends_with_the_context_where_that_is_shorter_than_its_budget(
    path, room, max_tokens, wanted, monkeypatch
):
    monkeypatch.setattr(TableTarget, "max_context", len(WORLD.prompt_ids) + room)
    engine = WORLD.engine(path, "torch", 2)
    handle, neighbour = submit(engine, max_tokens), submit(engine, min(room, 3), seed=1)
    engine.run_until_done()
    assert handle.result().finish_reason is wanted
    assert len(handle.result().token_ids) == min(room, max_tokens)
    assert neighbour.result().finish_reason is FinishReason.LENGTH


@pytest.mark.parametrize("room, max_tokens", [(0, 1), (-1, 0), (-2, 9)])
def test_a_prompt_that_fills_the_context_is_refused_before_anything_is_compiled(
    room, max_tokens, monkeypatch
):
    num_prompt = len(WORLD.prompt_ids)
    monkeypatch.setattr(TableTarget, "max_context", num_prompt + room)
    engine = WORLD.engine("mtp", "torch", 2)
    before = WORLD.compiler.counts.hits
    with pytest.raises(RequestError, match=f"found {num_prompt} prompt tokens") as caught:
        submit(engine, max_tokens, case=CHOICE)
    assert caught.value.kind is ErrorKind.CONTEXT_LENGTH_EXCEEDED
    assert WORLD.compiler.counts.hits == before
