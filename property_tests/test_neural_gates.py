"""The gates over neural models, on a small random model; each with a plant that it must refuse."""

import inspect
import itertools

import attrs
import pytest
import torch

from engine.models.weights import save, save_drafter
from engine.request import OutputConstraint
from engine.runtime.drafters.dflash import BlockDrafter
from engine.runtime.drafters.mtp import MtpDrafter
from engine.runtime.finish import Judge
from engine.runtime.graphs import RehearsalLauncher
from engine.runtime.resident import ResidentTarget
from experiments.gates import (
    GATES,
    PATHS,
    Scope,
    Size,
    jobs,
    neural_graphs,
    neural_law,
    neural_logits,
    neural_outputs,
    neural_state,
)
from experiments.gates import neural_tokens as tokens_gate
from experiments.gates.neural_world import WORDS, NeuralWorld
from experiments.verdict import Status
from experiments.verify import bundled_model
from property_tests.neural_words import TOY, compiler, models

CASES = {
    "regex": OutputConstraint.regex("(a|bc)*(ca?b){1,5}"),
    "free": None,
    "choice": OutputConstraint.choice(["abcabc", "abcacb", "b"]),
}
PROMPTS = tuple((5, 6, 7, 5, 6, 7 + i) for i in range(3))
needs_bundled = pytest.mark.skipif(not bundled_model(), reason="the bundled model is not there")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """The small random model as files, with every drafter."""
    directory = tmp_path_factory.mktemp("model")
    save(directory, models()["target"], models()["mtp"])
    for name in ("dflash", "dflash2"):
        (directory / name).mkdir()
        save_drafter(directory / name, models()[name])
    return NeuralWorld("random", directory, TOY, compiler(), PROMPTS, CASES, WORDS, PROMPTS[:1], 120)


@pytest.fixture
def no_floors(monkeypatch):
    """A random drafter is never right: what needs accepted drafts is asked of the bundled model."""
    monkeypatch.setattr(tokens_gate, "FLOORS", {})


def statuses(verdicts):
    return {verdict.check: verdict.status for verdict in verdicts}


@pytest.mark.clause("SPEC-1", "SPEC-9", "LIFE-4")
@pytest.mark.parametrize("path", PATHS)
def test_tokens_pass(world, path, no_floors):
    found = tokens_gate.judge_world(world, path, 0, 6, 10)
    assert set(statuses(found).values()) == {Status.PASS}


@pytest.mark.clause("SPEC-6", "SPEC-15", "TXN-11")
@pytest.mark.parametrize("path", PATHS)
def test_state_passes(world, path):
    (verdict,) = neural_state.judge_world(world, path, 2)
    assert verdict.status is Status.PASS


@pytest.mark.clause("EXEC-2", "EXEC-16")
@pytest.mark.parametrize("path", PATHS)
def test_graphs_pass(world, path):
    (verdict,) = neural_graphs.judge_world(world, path, 0, 4, 8)
    assert verdict.status is Status.PASS


def test_logits_and_outputs_pass(world):
    assert neural_logits.judge_world(world, 0, 2, 6)[0].status is Status.PASS
    assert neural_outputs.judge_world(world, "mtp", 0, 2, 60)[0].status is Status.PASS


def test_a_missing_drafter_is_left_out_with_the_reason(world, tmp_path):
    save(tmp_path, models()["target"])
    bare = attrs.evolve(world, directory=tmp_path)
    for path in ("mtp", "dflash"):
        (verdict,) = neural_state.judge_world(bare, path, 1)
        assert verdict.status is Status.SKIPPED
        assert path in verdict.reason


# --- plants ---------------------------------------------------------------------------------------------


def test_too_much_committed_is_refused(world, monkeypatch, no_floors):
    """A rollback that keeps rejected columns."""
    real = ResidentTarget.commit
    monkeypatch.setattr(
        ResidentTarget,
        "commit",
        lambda self, rows, passed, counts: real(self, rows, passed, _whole(passed, counts)),
    )
    (state,) = neural_state.judge_world(world, "dflash", 2)
    assert state.status is Status.FAIL
    tokens = tokens_gate.judge_world(world, "dflash", 0, 6, 10)
    assert Status.FAIL in statuses(tokens).values()


def _whole(passed, counts):
    return torch.full_like(counts, passed.hidden.shape[1])


@pytest.mark.parametrize(("drafter", "path"), [(MtpDrafter, "mtp"), (BlockDrafter, "dflash")])
def test_a_drafter_realigned_one_place_off_is_refused(world, monkeypatch, drafter, path):
    real = drafter.follow

    def follow(self, rows, passed, next_ids, counts):
        moved = attrs.evolve(rows, starts=(rows.starts - 1).clamp(min=0))
        return real(
            self, moved if next_ids.shape[1] > 1 and len(rows.starts) > 1 else rows, passed, next_ids, counts
        )

    monkeypatch.setattr(drafter, "follow", follow)
    assert neural_state.judge_world(world, path, 2)[0].status is Status.FAIL


def test_a_replay_over_stale_inputs_is_refused(world, monkeypatch):
    """Uploads that reach the recording only once."""
    monkeypatch.setattr(RehearsalLauncher, "_upload", staticmethod(lambda recording, inputs: None))
    free = attrs.evolve(world, cases={"free": None})  # a masked row would end in an error of its own
    assert neural_graphs.judge_world(free, "mtp", 0, 4, 8)[0].status is Status.FAIL


def test_wrong_logits_and_wrong_outputs_are_refused(world, monkeypatch):
    with monkeypatch.context() as patch:
        real = neural_logits.oracle_shape
        patch.setattr(neural_logits, "oracle_shape", lambda c: real(attrs.evolve(c, rope_theta=5e3)))
        assert neural_logits.judge_world(world, 0, 2, 6)[0].status is Status.FAIL
    said = itertools.cycle(["b", "no member"])
    monkeypatch.setattr(neural_outputs, "run", lambda world, path, asked: [next(said) for _ in asked])
    assert neural_outputs.judge_world(world, "mtp", 0, 2, 60)[0].status is Status.FAIL


@needs_bundled
@pytest.mark.clause("SPEC-2", "SPEC-3")
def test_a_law_is_judged_and_drafts_taken_unseen_are_refused(monkeypatch):
    (verdict,) = neural_law.gate(path="mtp", model="bundled", seed=0, total_variation_seen=0.4)
    assert verdict.status is Status.PASS
    real = Judge._uniforms

    def lenient(self, batch, proposal, last):
        uniforms = real(self, batch, proposal, last)
        return attrs.evolve(uniforms, accept=uniforms.accept * 0.1)

    monkeypatch.setattr(Judge, "_uniforms", lenient)
    (verdict,) = neural_law.gate(path="mtp", model="bundled", seed=0, total_variation_seen=0.4)
    assert verdict.status is Status.FAIL


@pytest.mark.parametrize("only", [False, True])
def test_gates_take_the_arguments_of_a_run_with_a_model(only):
    for size in Size:
        work = list(jobs(Scope(size, model="bundled", model_only=only), GATES))
        assert {job.gate.name for job in work} >= {gate.name for gate in GATES if "model" in gate.takes}
        assert all(("model" in job.arguments) or not only for job in work)
        for job in work:
            inspect.signature(job.gate.load()).bind(**job.arguments)
