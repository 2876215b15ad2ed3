"""The paths gate at small sizes, must-fail controls for it, and what only a single engine can show."""

import random

import attrs
import pytest
import torch

from engine.ops.accept import RejectedBy
from engine.ops.rng import Purpose
from engine.request import FinishReason, OutputConstraint, RequestOptions, SamplingSettings
from engine.runtime.drafters.base import StatelessDrafter
from experiments.gates import path_checks, path_law, paths
from experiments.gates.path_oracle import Language
from experiments.gates.path_world import CASES, PATHS, SETTINGS, World, ops_by_name, options, text_of, world
from experiments.verdict import Status

WORLD = world("toy")
EOS = WORLD.vocabulary.eos_ids


@pytest.mark.clause("SPEC-1", "SPEC-4", "SPEC-5", "SPEC-6", "SPEC-10", "SPEC-11", "SPECG-1", "SPECG-4")
@pytest.mark.clause(
    "SPECG-6", "SAMP-1", "SAMP-11", "SAMP-12", "SAMP-13", "TXN-10", "LIFE-1", "LIFE-3", "LIFE-4"
)
@pytest.mark.clause(
    "FAIL-6", "FAIL-7", "FAIL-8", "FAIL-9", "FAIL-11", "EMPTY-1", "EMPTY-4", "EMPTY-9", "MASK-11", "TEST2-10"
)
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("check", paths.CHECKS)
def test_exact_checks(path, check):
    verdict = paths.exact_verdict(check, path, "torch", "toy", WORLD, seed=5, num_seeds=4)
    assert verdict.status is Status.PASS, (verdict.detail, verdict.reason)


@pytest.mark.clause("SAMP-13")
@pytest.mark.parametrize("path", ["mtp", "dflash2"])
def test_interpreted_kernels_give_the_same_tokens(path):
    asked = path_checks.requests(3, 1)[::5]
    outcomes = [
        [path_checks.outcome(h) for h in path_checks.run_all(WORLD.engine(path, ops, 8), asked, WORLD)]
        for ops in ("torch", "triton")
    ]
    assert outcomes[0] == outcomes[1]


@pytest.mark.clause("SPEC-8", "SPEC-2", "SPEC-3")
@pytest.mark.parametrize("path", ["mtp", "dflash2"])
def test_law_of_the_tokens(path):
    verdict = path_law.check_law(path, "torch", "toy", 1, total_variation_seen=0.15)
    assert verdict.status is Status.PASS, (verdict.detail, verdict.reason)
    assert verdict.visible.amount <= 0.15


class ShiftedOps:
    """The op set with one purpose's coins replaced by another's: a correlated generator."""

    @staticmethod
    def make(instead: Purpose, of: Purpose):
        ops = ops_by_name("torch")

        def uniforms(seeds, positions, purpose, **more):
            asked = torch.as_tensor(purpose)  # one for all rows, or one for each
            return ops.uniforms(seeds, positions, torch.where(asked == of, int(instead), asked), **more)

        return attrs.evolve(ops, uniforms=uniforms)


@pytest.mark.parametrize("check", ["equals the oracle's twin"])
@pytest.mark.parametrize(
    "of", [Purpose.ACCEPT, Purpose.CORRECTION, Purpose.BONUS, Purpose.PREFILL, Purpose.PROPOSAL]
)
def test_the_twin_sees_a_wrong_coin(monkeypatch, check, of):
    instead = Purpose.DECODE
    monkeypatch.setattr("experiments.gates.path_world.ops_by_name", lambda name: ShiftedOps.make(instead, of))
    verdict = paths.exact_verdict(check, "dflash2", "torch", "toy", WORLD, seed=5, num_seeds=4)
    assert verdict.status is Status.FAIL
    assert verdict.case["replay"] == "experiments.gates.paths:replay"


def test_the_law_check_sees_a_shared_coin(monkeypatch):
    """The coin that refused the draft also picks the correction: every single decision stays correct."""
    monkeypatch.setattr(
        "experiments.gates.path_world.ops_by_name",
        lambda name: ShiftedOps.make(Purpose.ACCEPT, Purpose.CORRECTION),
    )
    verdict = path_law.check_law("mtp", "torch", "toy", 1, total_variation_seen=0.1)
    assert verdict.status is Status.FAIL


def test_a_run_without_drafts_is_inconclusive(monkeypatch):
    monkeypatch.setattr("engine.runtime.table.TableMtp.on_host", lambda self, lane: ())
    verdict = paths.exact_verdict("budgets", "mtp", "torch", "toy", WORLD, seed=5, num_seeds=2)
    assert verdict.status is Status.INCONCLUSIVE


def test_a_case_file_replays_alone():
    case = {"path": "dflash2", "ops": "torch", "vocab": "toy", "check": "rows that fail"}
    for one in path_checks.requests(5, 1, path_checks.CASES_IN_TROUBLE):
        lines = paths.replay(case | {"request": attrs.asdict(one)})
        assert all(line.equal for line in lines), lines


@pytest.mark.clause("DONE-2", "DONE-3", "DONE-8", "EMPTY-1", "TEST2-1")
@pytest.mark.parametrize("path", PATHS)
def test_what_ends_normally_is_in_the_language(path):
    language = {name: Language(case, WORLD.vocabulary) for name, case in CASES.items() if case.rules}
    engine = WORLD.engine(path, "torch", 16)
    asked = [
        (name, options(CASES[name], SETTINGS["plain"], 20, seed)) for name in language for seed in range(25)
    ]
    handles = [engine.submit(WORLD.prompt_ids, one) for _, one in asked]
    engine.run_until_done()
    num_completed = 0
    for (name, _), handle in zip(asked, handles, strict=True):
        result = handle.result()
        completed = result.finish_reason is FinishReason.COMPLETED
        num_completed += completed
        assert result.constraint.terminated is completed
        assert result.constraint.complete is language[name].may_end(result.token_ids)
        assert not set(result.token_ids) & set(EOS)
    assert num_completed > 30


@pytest.mark.clause("DONE-8")
def test_the_empty_string_may_come_first():
    world_of_eos = attrs.evolve(WORLD, overrides={})
    engine = world_of_eos.engine("ordinary", "torch", 4)
    constraint = OutputConstraint.choice(["", "a"])
    settings = SamplingSettings(logit_bias={EOS[1]: 30.0})
    handle = engine.submit(WORLD.prompt_ids, RequestOptions(5, constraint, settings))
    engine.run_until_done()
    assert handle.result().token_ids == ()
    assert handle.result().finish_reason is FinishReason.COMPLETED
    assert handle.result().constraint.complete


class Scripted(StatelessDrafter):
    """A drafter that proposes what it is told, whatever the history."""

    def __init__(self, *drafts):
        self.drafts, self.num_drafts = tuple(drafts), 4

    def on_host(self, lane):
        return self.drafts


def scripted(*drafts, options_of, likes=()):
    """One request under a target that likes `likes`, through a drafter that always proposes `drafts`."""
    one: World = WORLD
    rows = []
    boost = {token_id: 40.0 - i for i, token_id in enumerate(likes)}
    engine = one.engine("ordinary", "torch", 1, observe=lambda handle, row: rows.append(row), boost=boost)
    program = one.program("ordinary", "torch", 1, boost=boost)
    program.__init__(
        program._target,
        Scripted(*drafts),
        ops_by_name("torch"),
        vocab_size=one.vocabulary.size,
        eos_ids=frozenset(EOS),
        num_lanes=1,
    )
    engine._program = program
    handle = engine.submit(one.prompt_ids, options_of)
    engine.run_until_done()
    return handle, rows


A, B, C, AB, BC, CA, ABC = WORLD.liked_ids


@pytest.mark.clause("SPEC-10", "DONE-1")
@pytest.mark.parametrize("constrained", [True, False])
def test_a_completion_id_inside_the_window_ends_the_round(constrained):
    constraint = OutputConstraint.choice(["aa", "aaaa"]) if constrained else None
    asked = RequestOptions(9, constraint, SamplingSettings(temperature=0.0, logit_bias={EOS[0]: 50.0}))
    if constrained:
        handle, rows = scripted(A, EOS[0], A, A, options_of=asked, likes=(A,))
        assert handle.result().token_ids == (A, A)
        assert rows[1].tokens == (A, EOS[0])
        assert rows[1].num_accepted == 2
    else:
        handle, rows = scripted(EOS[0], A, A, options_of=asked, likes=(A,))
        assert handle.result().token_ids == ()
    assert handle.result().finish_reason is FinishReason.COMPLETED


@pytest.mark.clause("SPECG-3", "SPEC-5")
@pytest.mark.parametrize(
    "draft, constrained, refused_by",
    [
        (C, True, RejectedBy.GRAMMAR),
        (-1, True, RejectedBy.GRAMMAR),
        (WORLD.vocabulary.size, True, RejectedBy.GRAMMAR),
        (B, True, RejectedBy.TARGET),
        (B, False, RejectedBy.TARGET),
        (-1, False, RejectedBy.TARGET),
    ],
)
def test_refusals_say_who_refused(draft, constrained, refused_by):
    constraint = OutputConstraint.regex("[ab]*") if constrained else None
    asked = RequestOptions(6, constraint, SamplingSettings(temperature=0.0))
    handle, rows = scripted(A, draft, A, options_of=asked, likes=(A,))
    assert handle.result().token_ids == (A,) * 6
    assert rows[1].rejected_by is refused_by
    assert rows[1].tokens == (A, A)
    in_domain = 0 <= draft < WORLD.vocabulary.size
    assert rows[1].illegal_at == (1 if refused_by is RejectedBy.GRAMMAR or not in_domain else None)
    total = handle.stats.num_rejected_by_target + handle.stats.num_rejected_by_grammar
    assert total == sum(row.rejected_by is not RejectedBy.NONE for row in rows)


@pytest.mark.clause("SAMP-11", "SAMP-3")
def test_penalties_of_a_column_count_the_drafts_before_it():
    """With a frequency penalty the drafts a, a are right at first and wrong at the second place."""
    asked = RequestOptions(7, None, SamplingSettings(temperature=0.0, frequency_penalty=0.7))
    handle, _ = scripted(A, A, A, A, options_of=asked, likes=(A, B))
    plain = WORLD.engine("ordinary", "torch", 1, boost={A: 40.0, B: 39.0})
    alone = plain.submit(WORLD.prompt_ids, asked)
    plain.run_until_done()
    assert handle.result().token_ids == alone.result().token_ids
    assert set(handle.result().token_ids) == {A, B}


@pytest.mark.clause("FAIL-6", "MASK-10")
def test_a_dead_end_behind_a_refused_draft_ends_nothing():
    constraint = OutputConstraint.choice(["aQ", "abab"])
    asked = RequestOptions(6, constraint, SamplingSettings(temperature=0.0, banned_token_ids=frozenset({A})))
    handle, _ = scripted(A, options_of=asked, likes=(AB,))
    assert text_of(WORLD.vocabulary, handle.result().token_ids) == b"abab"


@pytest.mark.clause("FAIL-6", "SPEC-12")
def test_a_dead_end_past_the_budget_ends_nothing():
    constraint = OutputConstraint.choice(["aaQ"])
    for max_tokens, fails in ((1, False), (2, False), (3, True)):
        asked = RequestOptions(max_tokens, constraint, SamplingSettings(temperature=0.0))
        handle, _ = scripted(A, A, A, options_of=asked, likes=(A,))
        assert isinstance(handle.outcome, Exception) is fails
        if fails:
            assert (handle.outcome.position, handle.outcome.num_generated) == (2, 1)
            assert handle.token_ids == [A]  # the verified draft of the failed round is not published


@pytest.mark.clause("SPEC-1", "SAMP-12")
@pytest.mark.parametrize("path", PATHS)
def test_a_constraint_changes_no_proposal_and_no_coin(path):
    """A language that allows everything the free run said gives the free run's tokens and drafts."""
    free, tied = [], []
    settings = SamplingSettings(
        banned_token_ids=frozenset(range(WORLD.vocabulary.size)) - {A, B, C, AB, *EOS}
    )
    for rows, constraint in ((free, None), (tied, OutputConstraint.regex("[abc]*"))):
        engine = WORLD.engine(path, "torch", 8, observe=lambda handle, row, rows=rows: rows.append(row))
        handles = [
            engine.submit(WORLD.prompt_ids, RequestOptions(7, constraint, attrs.evolve(settings, seed=i)))
            for i in range(8)
        ]
        engine.run_until_done()
        rows.append([handle.result().token_ids for handle in handles])
    assert free[-1] == tied[-1]
    assert [row.drafts for row in free[:-1]] == [row.drafts for row in tied[:-1]]


def test_mixed_extents_share_a_batch():
    extents = {len(row.drafts) for row in _rows_of("mtp")}
    assert len(extents) >= 3


def _rows_of(path):
    rows = []
    engine = WORLD.engine(path, "torch", 16, observe=lambda handle, row: rows.append(row))
    path_checks.run_all(engine, path_checks.requests(7, 3), WORLD)
    return rows


def test_shuffled_rows_are_really_shuffled():
    seen = set()
    arrange = path_checks._shuffled(random.Random(3))
    engine = WORLD.engine(
        "ordinary", "torch", 4, arrange=lambda hs: seen.add(tuple(id(h) for h in hs)) or arrange(hs)
    )
    path_checks.run_all(engine, path_checks.requests(1, 1), WORLD)
    assert len(seen) > 5
    assert torch.is_tensor(WORLD.program("ordinary", "torch", 1)._bitmask)


@pytest.mark.clause("SAMP-13")
@pytest.mark.parametrize("path", ["ordinary", "dflash2"])
def test_a_seed_of_any_size_is_played_as_the_oracle_plays_it(path):
    """A seed is 64 bits: the words above the 32nd and the sign bit reach every coin."""
    seeds = (0, 2**31, 2**32, 2**32 + 1, 2**63 - 1, 2**63, 2**64 - 1, -1, -(2**63))
    asked = [path_checks.Asked("grammar", "plain", seed) for seed in seeds]
    twins = path_checks.Twins(WORLD, path)
    handles = path_checks.run_all(WORLD.engine(path, "torch", 4), asked, WORLD)
    played = [path_checks.ending(handle) for handle in handles]
    assert played == [twins.run(one) for one in asked]
    assert len(set(played)) > 3
