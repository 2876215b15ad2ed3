"""The one place where a token becomes real: its order, and what every injected failure leaves behind."""

import gc
import weakref

import attrs
import pytest

from engine.errors import CoreFault, IntegrityError, RequestError
from engine.request import FinishReason, OutputConstraint, RequestOptions, SamplingSettings
from engine.runtime.commit import commit_round
from engine.runtime.contract import PendingBatch, PreviewFailed, RowFailure, RowInput, RowResult
from engine.runtime.program import TwoPhaseProgram
from experiments.gates.path_world import CASES, SETTINGS, options, world

WORLD = world("toy")
CONSTRAINED, FREE = CASES["choice"], CASES["free"]


END = 99  # a completion id of the stub sessions: committed, not published


class Log:
    """A program and sessions that write down what is done to them, and fail where they are told to."""

    def __init__(self, fail=None, row=None, error=None):
        self.calls, self.fail, self.row, self.error = [], fail, row, error or CoreFault("refused")

    def commit(self, pending, num_committed):
        self.calls.append(("commit", tuple(num_committed)))
        if self.fail == "commit":
            raise IntegrityError("the device is gone")

    def abort(self, pending):
        self.calls.append(("abort",))

    def session(self, row, cancelled=False):
        log = self

        class Session:
            constrained = True

            def __init__(self):
                self.cancelled, self.open = cancelled, False

            def preview(self, tokens):
                log.calls.append(("preview", row))
                if log.fail == "preview" and log.row == row:
                    raise log.error
                self.open = True
                from engine.runtime.contract import CommitDecision

                published = len(tokens) - (tokens[-1:] == (END,))
                return CommitDecision() if cancelled else CommitDecision(len(tokens), published)

            def confirm(self, upload_bytes=0):
                log.calls.append(("confirm", row))
                self.open = False

            def discard(self):
                if self.open:
                    log.calls.append(("discard", row))
                self.open = False

        return Session()


def pending(*rows):
    inputs = tuple(RowInput(i, True, 9) for i in range(len(rows)))
    return PendingBatch(inputs, tuple(rows), ((),) * len(rows))


def commit(log, batch, cancelled=()):
    published = []
    sessions = [log.session(i, i in cancelled) for i in range(len(batch.rows))]
    commit_round(log, batch, sessions, lambda row, tokens, decision: published.append((row, tokens)))
    return published


@pytest.mark.clause("TXN-11", "FAIL-7", "FAIL-8")
def test_order_is_preview_commit_confirm_publish():
    log = Log()
    batch = pending(
        RowResult((1, 2)), RowResult(failure=RowFailure.DEAD_END), RowResult((3, END)), RowResult((4,))
    )
    published = commit(log, batch, cancelled={3})
    assert log.calls == [
        ("preview", 0),
        ("preview", 2),
        ("preview", 3),
        ("commit", (2, 0, 2, 0)),
        *[("confirm", row) for row in range(4)],
    ]
    assert published == [(0, (1, 2)), (1, ()), (2, (3,)), (3, ())]


@pytest.mark.clause("TXN-12")
def test_a_failed_preview_restores_every_preview_and_aborts():
    log = Log("preview", row=1)
    with pytest.raises(PreviewFailed) as fault:
        commit(log, pending(RowResult((1,)), RowResult((2,)), RowResult((3,))))
    assert fault.value.row == 1
    assert log.calls == [("preview", 0), ("preview", 1), ("discard", 0), ("abort",)]


@pytest.mark.clause("TXN-12", "FAIL-5")
def test_a_preview_that_breaks_restores_aborts_and_is_told():
    """A fault that is not one row's own stays what it is: the engine must not take it for a failed row."""
    broken = MemoryError("no room for the preview")
    log = Log("preview", row=2, error=broken)
    with pytest.raises(MemoryError) as fault:
        commit(log, pending(RowResult((1,)), RowResult((2,)), RowResult((3,))))
    assert fault.value is broken
    assert log.calls[3:] == [("discard", 0), ("discard", 1), ("abort",)]


@pytest.mark.clause("TXN-1", "TXN-13")
def test_a_failed_program_commit_confirms_and_publishes_nothing():
    log = Log("commit")
    with pytest.raises(IntegrityError):
        commit(log, pending(RowResult((1,)), RowResult((2,))))
    assert log.calls[-2:] == [("discard", 0), ("discard", 1)]
    assert not [call for call in log.calls if call[0] == "confirm"]


def engine_with(program_class, path="mtp", **attributes):
    engine = WORLD.engine(path, "torch", 8)
    engine._program.__class__ = program_class
    for name, value in attributes.items():
        setattr(engine._program, name, value)
    return engine


class Breaks(TwoPhaseProgram):
    """A program whose commit fails in its second round."""

    def commit(self, batch, num_committed):
        self.num_commits = getattr(self, "num_commits", 0) + 1
        if self.num_commits == 3:
            raise RuntimeError("no memory left")
        super().commit(batch, num_committed)


@pytest.mark.clause("TXN-1", "TXN-13", "FAIL-5")
def test_an_engine_whose_program_cannot_commit_becomes_unavailable():
    engine = engine_with(Breaks)
    handles = [
        engine.submit(WORLD.prompt_ids, options(CONSTRAINED, SETTINGS["plain"], 9, i)) for i in range(3)
    ]
    engine.step()
    before = [(tuple(h.token_ids), h.session.token_ids) for h in handles]
    with pytest.raises(IntegrityError, match="no memory left"):
        engine.step()
    assert [(tuple(h.token_ids), h.session.token_ids) for h in handles] == before
    live = [handle for handle in handles if isinstance(handle.outcome, IntegrityError)]
    assert live
    with pytest.raises(RequestError, match="stopped after a fault"):
        engine.submit(WORLD.prompt_ids, options(FREE, SETTINGS["plain"], 2))


class Lies(TwoPhaseProgram):
    """A program that hands out a token its row's language refuses, once."""

    def decode(self, rows, masks):
        batch = super().decode(rows, masks)
        victims = [i for i, row in enumerate(rows) if row.constrained]
        if victims and not getattr(self, "lied", False):
            self.lied, i = True, victims[0]
            bad = attrs.evolve(batch.rows[i], tokens=(WORLD.strange_ids[0],))
            self._pending = attrs.evolve(batch, rows=(*batch.rows[:i], bad, *batch.rows[i + 1 :]))
            return self._pending
        return batch


@pytest.mark.clause("TXN-12", "EMPTY-8", "FAIL-10")
def test_a_token_the_language_refuses_ends_its_row_alone_as_an_internal_error():
    asked = [
        options(case, SETTINGS["plain"], 6, i) for i, case in enumerate((FREE, CONSTRAINED, CONSTRAINED))
    ]
    clean = WORLD.engine("mtp", "torch", 8)
    wanted = [clean.submit(WORLD.prompt_ids, one) for one in asked]
    clean.run_until_done()
    engine = engine_with(Lies)
    handles = [engine.submit(WORLD.prompt_ids, one) for one in asked]
    engine.run_until_done()
    assert isinstance(handles[1].outcome, PreviewFailed)
    assert len(handles[1].session.token_ids) == 1
    for i in (0, 2):
        assert handles[i].token_ids == wanted[i].token_ids


class Keeps(TwoPhaseProgram):
    """A program that keeps the mask provider it was lent."""

    def decode(self, rows, masks):
        self.kept = masks
        return super().decode(rows, masks)


@pytest.mark.clause("EXEC-6")
def test_the_mask_provider_is_lent_for_one_call():
    engine = engine_with(Keeps)
    engine.submit(WORLD.prompt_ids, options(CONSTRAINED, SETTINGS["plain"], 9))
    engine.step()
    with pytest.raises(IntegrityError, match="lent"):
        engine._program.kept.fill(0, (), engine._program._bitmask[:1])


@pytest.mark.clause("MASK-7", "EXEC-11")
def test_a_free_batch_gets_no_provider_and_no_mask():
    engine = engine_with(Keeps, kept="unset")
    engine._program._bitmask.fill_(7)
    engine.submit(WORLD.prompt_ids, options(FREE, SETTINGS["plain"], 4))
    engine.run_until_done()
    assert engine._program.kept is None
    assert bool((engine._program._bitmask == 7).all())


def test_a_round_must_be_settled_before_the_next():
    program = WORLD.program("mtp", "torch", 2)
    lane = program.admit(WORLD.prompt_ids, SamplingSettings())
    rows = [RowInput(lane, False, 3)]
    first = program.prefill(rows, None)
    for call in (program.prefill, program.decode):
        with pytest.raises(IntegrityError, match="uncommitted"):
            call(rows, None)
    program.abort(first)
    again = program.prefill(rows, None)
    assert again.rows == first.rows  # a retry uses the same coins
    with pytest.raises(IntegrityError, match="not the one"):
        program.commit(first, [1])
    with pytest.raises(IntegrityError, match="cannot be committed"):
        program.commit(again, [2])
    program.commit(again, [1])


@pytest.mark.clause("FAIL-9", "TXN-10")
def test_a_row_cancelled_while_its_round_runs_commits_nothing_and_counts_as_cancelled():
    engine = WORLD.engine("mtp", "torch", 4)
    endless = SamplingSettings(banned_token_ids=frozenset(WORLD.vocabulary.eos_ids))
    handles = [engine.submit(WORLD.prompt_ids, options(FREE, endless, 30, i)) for i in range(2)]
    engine.step()
    before = tuple(handles[0].token_ids)
    real = engine._program.decode

    def decode(rows, masks):
        engine.cancel(handles[0])
        return real(rows, masks)

    engine._program.decode = decode
    engine.step()
    assert handles[0].result().finish_reason is FinishReason.CANCELLED
    assert handles[0].result().token_ids == before
    assert handles[0].result().num_drafted == 0  # its round never was
    assert not handles[1].done


@pytest.mark.clause("LIFE-9")
def test_a_finished_request_lets_go_of_its_matcher():
    engine = WORLD.engine("ordinary", "torch", 2)
    handle = engine.submit(WORLD.prompt_ids, options(CONSTRAINED, SETTINGS["plain"], 9))
    matcher = weakref.ref(handle.session._matcher)
    engine.run_until_done()
    gc.collect()
    assert matcher() is None
    assert handle.result().constraint.terminated


@pytest.mark.clause("FAIL-1", "EMPTY-1")
def test_requests_that_can_never_start_are_refused_before_the_queue():
    engine = WORLD.engine("ordinary", "torch", 2)
    with pytest.raises(RequestError) as dead:
        engine.submit(WORLD.prompt_ids, RequestOptions(3, OutputConstraint.choice(["Q"])))
    assert (dead.value.kind.value, dead.value.num_generated) == ("constraint_dead_end", 0)
    banned = SamplingSettings(banned_token_ids=frozenset(range(WORLD.vocabulary.size)))
    with pytest.raises(RequestError, match="banned"):
        engine.submit(WORLD.prompt_ids, RequestOptions(3, CONSTRAINED.constraint, banned))
    for bad in (
        RequestOptions(-1),
        RequestOptions(1, sampling=SamplingSettings(temperature=float("nan"))),
        RequestOptions(1, sampling=SamplingSettings(top_p=1.5)),
        RequestOptions(1, sampling=SamplingSettings(logit_bias={WORLD.vocabulary.size: 1.0})),
    ):
        with pytest.raises(RequestError):
            engine.submit(WORLD.prompt_ids, bad)
    with pytest.raises(RequestError, match="prompt"):
        engine.submit([], RequestOptions(1))
    empty = engine.submit(WORLD.prompt_ids, RequestOptions(0, CONSTRAINED.constraint))
    assert empty.result().finish_reason is FinishReason.LENGTH
    assert not empty.result().constraint.complete


@pytest.mark.clause("TXN-11")
def test_a_step_and_a_pause_inside_a_step_are_refused_and_change_nothing():
    """A caller who acts while a round is published must wait; else later rows would be published first."""
    refused = []

    def observe(handle, row):
        for act in (engine.step, lambda: engine.pause(handle)):
            with pytest.raises(IntegrityError, match="between steps"):
                act()
            refused.append(act)

    asked = [options(CASES["choice"], SETTINGS["plain"], 6, i) for i in range(3)]
    plain = WORLD.engine("mtp", "torch", 2)
    wanted = [plain.submit(WORLD.prompt_ids, one) for one in asked]
    plain.run_until_done()
    engine = WORLD.engine("mtp", "torch", 2, observe=observe)
    handles = [engine.submit(WORLD.prompt_ids, one) for one in asked]
    engine.run_until_done()
    assert refused
    assert [h.result().token_ids for h in handles] == [h.result().token_ids for h in wanted]


@pytest.mark.clause("FAIL-9", "TXN-10")
def test_a_request_may_be_cancelled_from_the_publication_of_any_row():
    """Its own tokens of that round are real already; it ends there, and its neighbours go on."""

    def observe(handle, row):
        if handle is handles[0] and len(handle.token_ids) >= 1:
            for victim in (handles[0], handles[1], waiting):
                engine.cancel(victim)

    engine = WORLD.engine("mtp", "torch", 3, observe=observe)
    endless = SamplingSettings(banned_token_ids=frozenset(WORLD.vocabulary.eos_ids))
    handles = [engine.submit(WORLD.prompt_ids, options(FREE, endless, 5, i)) for i in range(3)]
    waiting = engine.submit(WORLD.prompt_ids, options(FREE, endless, 5, 3))
    engine.step()
    for handle, num_tokens in ((handles[0], 1), (handles[1], 1), (waiting, 0)):
        assert handle.result().finish_reason is FinishReason.CANCELLED
        assert len(handle.result().token_ids) == len(handle.session.token_ids) == num_tokens
    engine.run_until_done()
    assert handles[2].result().finish_reason is FinishReason.LENGTH


@pytest.mark.clause("FAIL-5")
def test_a_fault_while_lanes_are_filled_closes_the_engine_like_any_other():
    class Full(TwoPhaseProgram):
        def admit(self, *args):
            raise RuntimeError("no memory left")

    engine = engine_with(Full)
    handles = [engine.submit(WORLD.prompt_ids, options(FREE, SETTINGS["plain"], 2, i)) for i in range(2)]
    with pytest.raises(IntegrityError, match="no memory left"):
        engine.run_until_done()
    assert all(isinstance(handle.outcome, IntegrityError) for handle in handles)
    engine.run_until_done()  # nothing is left to do


@pytest.mark.parametrize("wrong", [{"num_lanes": 0}, {"candidate_cap": 0}])
def test_a_program_without_room_is_refused(wrong):
    """Without a lane the engine would wait for ever."""
    one = WORLD.program("mtp", "torch", 1)
    numbers = {"vocab_size": 95, "eos_ids": frozenset({1}), "num_lanes": 1, **wrong}
    with pytest.raises(ValueError, match="at least 1"):
        TwoPhaseProgram(one._target, one._drafter, one._ops, **numbers)
