"""Every path over a neural target: tokens equal ordinary decoding, lanes equal their history built afresh."""

import pytest

from engine.request import OutputConstraint, RequestOptions, SamplingSettings
from engine.runtime.contract import RowInput
from property_tests.neural_words import (
    GREEDY,
    MAX_CONTEXT,
    NUM_DRAFTS,
    PATHS,
    TOY,
    Told,
    engine_of,
    program_of,
    tensors_in,
)
from property_tests.qwen3_5_words import gap

TOLERANCE = 2e-5
ENDLESS = SamplingSettings(temperature=0.0, banned_token_ids=frozenset(TOY.eos_ids))
CONSTRAINTS = (
    None,
    OutputConstraint.regex("(a|bc)*(ca?b){1,5}"),
    OutputConstraint.json_object(),
    OutputConstraint.choice(["abcabc", "abcacb", "b"]),
)
ENDLESS = SamplingSettings(temperature=0.0, banned_token_ids=frozenset(TOY.eos_ids))
PROMPTS = [[5, 6, 7, 5, 6, 7 + i] for i in range(8)]
SPECULATIVE = [path for path in PATHS if path != "ordinary"]


def asked(temperature=0.0, max_tokens=24):
    return [
        RequestOptions(max_tokens, CONSTRAINTS[i % 4], SamplingSettings(temperature=temperature, seed=i))
        for i in range(8)
    ]


def outputs(engine, requests, disturb=lambda engine, handles: None):
    handles = [engine.submit(prompt, one) for prompt, one in zip(PROMPTS, requests, strict=True)]
    disturb(engine, handles)
    engine.run_until_done()
    return [handle.result().token_ids for handle in handles]


def alone(path, requests):
    found = []
    for prompt, one in zip(PROMPTS, requests, strict=True):
        engine = engine_of(path, 1)
        handle = engine.submit(prompt, one)
        engine.run_until_done()
        found.append(handle.result().token_ids)
    return found


def pause_some(engine, handles):
    """Take requests off their lanes between rounds, as snapshots and as replays, and let them back."""
    for turn in range(4):
        engine.step()
        live = [handle for handle in handles if not handle.done and handle.lane is not None]
        taken = live[turn % 2 :: 2]
        for i, handle in enumerate(taken):
            engine.pause(handle, ("snapshot", "replay")[i % 2])
        engine.step()
        for handle in taken:
            engine.resume(handle)


@pytest.fixture(scope="module")
def greedy():
    return alone("ordinary", asked())


@pytest.mark.clause("SPEC-1", "SPEC-9", "LIFE-4")
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("num_lanes", [1, 3, 8])
def test_greedy_tokens_are_those_of_ordinary_decoding(path, num_lanes, greedy):
    assert outputs(engine_of(path, num_lanes), asked()) == greedy


@pytest.mark.clause("LIFE-4", "SPEC-12")
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_pauses_and_replays_change_no_token(path, temperature):
    requests = asked(temperature)
    assert outputs(engine_of(path, 3), requests, pause_some) == alone(path, requests)


def script_of(texts, wrong_at):
    """Propose what really follows, with one wrong token at a place that moves with the history."""

    def script(history):
        text = next(text for text in texts if text[: len(history)] == history)
        drafts = list(text[len(history) : len(history) + NUM_DRAFTS])
        place = wrong_at(len(history))
        if place < len(drafts):
            drafts[place] = (drafts[place] + 1) % TOY.size
        return drafts

    return script


@pytest.mark.clause("SPEC-1", "SPEC-9", "LIFE-4")
@pytest.mark.parametrize("path", SPECULATIVE)
def test_drafts_that_hold_for_a_while_change_no_token(path, greedy):
    """Every accepted length, under constraints too, with lanes that come and go."""
    texts = [[*prompt, *found] for prompt, found in zip(PROMPTS, greedy, strict=True)]
    told = engine_of(path, 3, wrap=lambda own: Told(own, script_of(texts, lambda n: n // 2 % 4)))
    assert outputs(told, asked(), pause_some) == greedy


@pytest.mark.clause("SPEC-6", "SPEC-15", "TXN-11")
@pytest.mark.parametrize("path", SPECULATIVE)
@pytest.mark.parametrize("accepted", [0, 1, 2, 3, "all in turn"])
def test_a_lane_moved_by_rounds_equals_one_built_from_its_history(path, accepted):
    """Target and drafter state after every accepted length, and the drafts kept with them."""
    free = [RequestOptions(30, None, ENDLESS)] * 3
    prompts = PROMPTS[:3]
    engine = engine_of("ordinary", 3)
    handles = [engine.submit(prompt, one) for prompt, one in zip(prompts, free, strict=True)]
    engine.run_until_done()
    texts = [[*p, *h.session.token_ids] for p, h in zip(prompts, handles, strict=True)]
    program = program_of(
        path,
        3,
        wrap=lambda drafter: Told(
            drafter, script_of(texts, lambda n: n // 2 % 4 if accepted == "all in turn" else accepted)
        ),
    )
    lanes = [program.admit(prompt, ENDLESS) for prompt in prompts]
    pending = program.prefill([RowInput(lane, False, 99) for lane in lanes], None)
    program.commit(pending, [1, 1, 1])
    seen = set()
    for _ in range(5):
        pending = program.decode([RowInput(lane, False, 99) for lane in lanes], None)
        seen |= {row.num_accepted for row in pending.rows}
        program.commit(pending, [len(row.tokens) for row in pending.rows])
    assert seen == (set(range(4)) if accepted == "all in turn" else {accepted})
    for lane, prompt in zip(lanes, prompts, strict=True):
        moved = program.snapshot(lane)
        fresh = program_of(path, 1)
        built = fresh.snapshot(fresh.admit(prompt, ENDLESS, moved.lane.history[len(prompt) :]))
        assert built.lane.history == moved.lane.history
        assert built.lane.drafts == moved.lane.drafts
        for name in ("target", "drafter"):
            got, wanted = tensors_in(getattr(moved, name)), tensors_in(getattr(built, name))
            assert len(got) == len(wanted)
            assert max([0.0, *(gap(a, b) for a, b in zip(got, wanted, strict=True))]) < TOLERANCE


@pytest.mark.clause("TXN-12", "LIFE-1")
@pytest.mark.parametrize("path", PATHS)
def test_a_forgotten_round_leaves_no_trace(path):
    """The same round again after an abort, and after a commit of nothing, gives the same tokens."""
    program = program_of(path, 2)
    lanes = [program.admit(prompt, SamplingSettings(seed=i)) for i, prompt in enumerate(PROMPTS[:2])]
    rows = [RowInput(lane, False, 99) for lane in lanes]
    first = program.prefill(rows, None)
    program.abort(first)
    again = program.prefill(rows, None)
    assert again.rows == first.rows
    program.commit(again, [1, 1])
    for _ in range(4):
        pending = program.decode(rows, None)
        program.abort(pending)
        repeated = program.decode(rows, None)
        assert repeated.rows == pending.rows
        program.commit(repeated, [0, 0])
        third = program.decode(rows, None)
        assert third.rows == pending.rows
        program.commit(third, [len(row.tokens) for row in third.rows])


@pytest.mark.clause("LIFE-1", "EXEC-15")
@pytest.mark.parametrize("path", PATHS)
def test_what_a_lane_held_before_is_never_seen(path):
    """A slot full of NaN, as after a request that diverged, gives its next request the same rounds."""
    program = program_of(path, 1)
    lane = program.admit(PROMPTS[0], GREEDY)
    held = [*program._target.state.tensors()]
    held += [t for cache in getattr(program._drafter, "_caches", ()) for t in (cache.keys, cache.values)]
    if path == "mtp":
        held += [program._drafter._cache.keys, program._drafter._cache.values]
    for tensor in held:
        tensor.fill_(float("nan"))
    program.release(lane)
    lane = program.admit(PROMPTS[1], GREEDY)
    clean = program_of(path, 1)
    clean.admit(PROMPTS[1], GREEDY)
    rounds = []
    for one in (program, clean):
        one.commit(one.prefill([RowInput(0, False, 99)], None), [1])
        rounds.append([])
        for _ in range(3):
            pending = one.decode([RowInput(0, False, 99)], None)
            one.commit(pending, [len(pending.rows[0].tokens)])
            rounds[-1].append(pending.rows)
    assert rounds[0] == rounds[1]  # drafts too: NaN would make them, and no token tells


@pytest.mark.clause("LIFE-4")
@pytest.mark.parametrize("path", PATHS)
def test_a_restored_lane_is_the_lane(path):
    """Every bit of what a slot held comes back, in another slot that held something else."""
    program = program_of(path, 2)
    program.admit(PROMPTS[0], GREEDY)
    lane = program.admit(PROMPTS[1], GREEDY)
    program.commit(program.prefill([RowInput(lane, False, 99)], None), [1])
    taken = program.snapshot(lane)
    program.release(0)
    again = program.snapshot(program.restore(taken))
    assert again.lane is taken.lane
    for part in ("target", "drafter"):
        got, wanted = tensors_in(getattr(again, part)), tensors_in(getattr(taken, part))
        assert len(got) == len(wanted)
        assert all(a.equal(b) for a, b in zip(got, wanted, strict=True))
        assert all(tensor.any() for tensor in wanted)


def test_long_histories_are_built_in_chunks(monkeypatch):
    """The chunk is no part of the result."""
    history = [(7 * i) % TOY.size for i in range(60)]
    states = []
    for chunk in (7, 59, 256):
        monkeypatch.setattr("engine.runtime.program.PREFILL_COLUMNS", chunk)
        program = program_of("mtp", 1)
        states.append(program.snapshot(program.admit(history[:50], GREEDY, history[50:])))
    for state in states[1:]:
        pairs = zip(tensors_in(state.target), tensors_in(states[0].target), strict=True)
        assert max(gap(a, b) for a, b in pairs) < TOLERANCE
        assert state.lane.drafts == states[0].lane.drafts


@pytest.mark.parametrize("path", PATHS)
def test_a_window_at_the_end_of_the_context_is_decoded(path):
    """The last position of the longest history is reached on every path, with a whole window behind it."""
    prompt = [(5 * i) % TOY.size for i in range(MAX_CONTEXT - 4)]
    found = []
    for one in (path, "ordinary"):
        program = program_of(one, 1)
        lane = program.admit(prompt, GREEDY)
        pending = program.prefill([RowInput(lane, False, 4)], None)
        program.commit(pending, [1])
        while len(program._lanes[lane].history) < MAX_CONTEXT:
            left = MAX_CONTEXT - len(program._lanes[lane].history)
            pending = program.decode([RowInput(lane, False, left)], None)
            program.commit(pending, [len(pending.rows[0].tokens)])
        found.append(program._lanes[lane].history)
    assert found[0] == found[1]
