"""Capture and replay, rehearsed: every path under fixed buffers, poisoned results and a watched order."""

import attrs
import pytest
import torch

from engine.errors import IntegrityError
from engine.runtime.batch import Drafts, Lane, Rows
from engine.runtime.graphs import RehearsalLauncher
from engine.runtime.launch import EagerLauncher, map_tensors, tensors_of
from property_tests.neural_words import GREEDY, NUM_DRAFTS, PATHS, engine_of
from property_tests.test_neural_paths import asked, outputs, pause_some


def resident_of(engine):
    """The tensors that phases of an engine's program reach without being given."""
    program = engine._program
    found = [*program._target.state.tensors(), *program._target.model.parameters(), program._bitmask]
    drafter = program._drafter
    caches = [*getattr(drafter, "_caches", ()), *([drafter._cache] if hasattr(drafter, "_cache") else [])]
    return [*found, *(tensor for cache in caches for tensor in (cache.keys, cache.values))]


def rehearsed(path, num_lanes, step=16):
    launcher = RehearsalLauncher(lambda: resident_of(engine), context_step=step)
    engine = engine_of(path, num_lanes, launcher=launcher)
    return engine, launcher


@pytest.mark.clause("EXEC-2", "EXEC-3", "EXEC-15", "EXEC-16")
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_every_path_gives_its_eager_tokens_under_replay(path, temperature):
    """With lanes that come and go, constrained and free rows mixed, pauses and replays of requests."""
    engine, _ = rehearsed(path, 3)
    eager = outputs(engine_of(path, 3), asked(temperature))
    assert outputs(engine, asked(temperature), pause_some) == eager


@pytest.mark.clause("EXEC-2", "EXEC-12", "MASK-5")
@pytest.mark.parametrize("path", PATHS)
def test_captures_grow_with_shapes_and_routes_alone(path):
    """A key names rows, columns, context, purpose and route: any traffic stays under their product."""
    engine, launcher = rehearsed(path, 2, step=128)
    for max_tokens in (24, 20, 7):
        outputs(engine, [attrs.evolve(one, max_tokens=max_tokens) for one in asked()])
    widths = NUM_DRAFTS + 2  # a request's first token, no draft up to all of them
    routes = 3  # free rows; masks; masks with a dead end
    assert 0 < launcher.num_recordings <= 2 * widths * (1 + routes)
    first = launcher.num_recordings
    outputs(engine, asked())
    assert launcher.num_recordings == first
    launcher.close()
    assert launcher.num_recordings == 0


@pytest.mark.clause("EXEC-4", "EXEC-8", "EXEC-9", "EXEC-11")
@pytest.mark.parametrize("path", ["dflash", "dflash2"])
def test_drafts_are_ready_before_the_target_runs(path, monkeypatch):
    engine, launcher = rehearsed(path, 1)
    target = engine._program._target
    real = type(target).forward

    def forward(self, batch, drafts):
        launcher.events.append("target")
        return real(self, batch, drafts)

    monkeypatch.setattr(type(target), "forward", forward)
    outputs(engine, asked(max_tokens=6))
    order = [event for event in launcher.events if event != "waited"]
    for i, event in enumerate(order):
        if event == "target":
            assert order[i - 1] == "ready"
    waits = [i for i, event in enumerate(launcher.events) if event == "waited"]
    assert waits
    assert all(launcher.events[i + 1] == "finish" for i in waits)


@pytest.mark.clause("EXEC-16")
def test_what_is_read_too_late_is_poison():
    """A result kept across the next Forward is NaN, or the smallest integer."""
    launcher = RehearsalLauncher()
    number = torch.ones(3)
    kept = launcher.run(("forward", 1), lambda x: (x * 2, (x > 0), x.long()), number)
    assert [part.tolist() for part in kept] == [[2.0] * 3, [True] * 3, [1] * 3]
    launcher.run(("forward", 2), lambda x: x + 1, number)
    assert torch.isnan(kept[0]).all()
    assert kept[2].tolist() == [torch.iinfo(torch.int64).min] * 3


@pytest.mark.clause("EXEC-13", "EXEC-15")
def test_order_and_addresses_are_watched():
    held = [torch.zeros(2)]
    launcher = RehearsalLauncher(lambda: held)
    drafts = Drafts(torch.tensor([[4]]), torch.tensor([1]))
    with pytest.raises(IntegrityError, match="before a Forward"):
        launcher.run(("finish", 1), lambda: torch.zeros(1))
    with pytest.raises(IntegrityError, match="marked"):
        launcher.wait_ready()

    def forward():
        launcher.mark_ready(drafts)
        return torch.zeros(1)

    launcher.run(("forward", 1), forward)
    with pytest.raises(IntegrityError, match="waited for"):
        launcher.run(("finish", 1), lambda: torch.zeros(1))
    assert launcher.wait_ready() == ([[4]], [1])
    launcher.run(("finish", 1), lambda: torch.zeros(1))
    with pytest.raises(IntegrityError, match="after a Finish"):
        launcher.run(("finish", 1), lambda: torch.zeros(1))
    held[0] = torch.zeros(2)
    with pytest.raises(IntegrityError, match="moved"):
        launcher.run(("forward", 1), forward)


@pytest.mark.clause("EXEC-8")
def test_uploads_reach_the_recorded_buffers():
    """The phase of a replay reads the new inputs at the old addresses, and no host lane."""
    launcher, seen = RehearsalLauncher(), []

    def phase(x):
        seen.append(x.data_ptr())
        return x + 1

    outputs_of = [launcher.run(("forward", 1), phase, torch.tensor([float(i)])) for i in range(3)]
    assert len(set(seen)) == 1
    assert outputs_of[2].tolist() == [3.0]
    assert outputs_of[0] is outputs_of[2]


@pytest.mark.clause("EXEC-8")
def test_no_recorded_phase_reads_a_host_lane():
    lanes = (Lane(GREEDY, [1, 2], 1),)
    rows = Rows(lanes, torch.tensor([0]), torch.tensor([1]), 4)
    seen = []
    for key in (("forward", 1), ("forward", 1), None):
        RehearsalLauncher().run(key, lambda given: seen.append(given.lanes), rows)
    assert set(seen) == {()}


def test_records_are_walked_whole():
    drafts = Drafts(torch.tensor([[1, 2]]), torch.tensor([2]), draft_probs=torch.ones(1, 2, 3))
    assert len(tensors_of((drafts, [torch.zeros(1)], 5))) == 4
    doubled = map_tensors(lambda tensor: tensor * 2, (drafts, 5))
    assert doubled[0].token_ids.tolist() == [[2, 4]]
    assert (doubled[0].candidate_ids, doubled[1]) == (None, 5)
    eager = EagerLauncher()
    assert eager.run(None, lambda x: x, drafts) is drafts
