"""Does the engine's matcher keep to the plain model through any order of transactions and forks?

The model holds two token lists and parses from the first token for every answer; a fresh engine matcher fed
the committed tokens is the second witness.
"""

import contextlib
import random

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from engine.errors import CoreFault, RequestError, TransactionError
from engine.text.masks import fill_window
from experiments.gates.fixed_languages import ALPHABET, DIFFERENT_EVERYWHERE
from experiments.gates.languages import random_vocabulary
from experiments.gates.look_ahead import STATES
from experiments.gates.mask_walk import advanced, row_of
from experiments.gates.subjects import DRAWS, Subject, constraint_of, random_subjects
from oracles.grammar_prefix import Earley
from oracles.masks import num_words
from oracles.transaction import MatcherModel, OutOfOrderError, RefusedError

A, B, C = (frozenset(letter) for letter in (b"a", b"b", b"c"))
TOKENS = [b"a", b"b", b"ab", b"c", None]
EOS = 4


def toy_model():
    """The language of "ab" and "abc" over five ids, the last of which completes."""
    return MatcherModel(Earley({"s": [(A, B), (A, B, C)]}, "s"), TOKENS, [EOS])


@pytest.mark.clause("MASK-8", "MASK-9", "MASK-10", "MASK-12")
def test_the_model_by_hand():
    model = toy_model()
    assert model.legal() == {0, 2}
    assert [row.kind for row in model.look_ahead([0, 1, EOS, 3])] == ["ready"] * 3 + ["unreachable"] * 2
    assert [row.legal for row in model.look_ahead([2])] == [{0, 2}, {3, EOS}]
    assert [row.kind for row in model.look_ahead([1, 1])] == ["ready", "unreachable", "unreachable"]
    assert [row.kind for row in model.look_ahead([-1])] == ["ready", "unreachable"]
    assert [row.kind for row in model.look_ahead([2], banned={3, EOS})] == ["ready", "dead_end_by_bans"]
    assert [row.kind for row in model.look_ahead([2], banned={2})] == ["ready", "unreachable"]
    no_c = MatcherModel(model.parser, [b"a", b"b", b"abc"[:2], b"x", None], [EOS])
    no_c.parser = Earley({"s": [(A, B, C)]}, "s")
    assert [row.kind for row in no_c.look_ahead([2, 0])] == ["ready", "dead_end", "unreachable"]


@pytest.mark.clause("TXN-4", "TXN-6")
def test_the_model_keeps_order_by_hand():
    model = toy_model()
    model.preview([2, 3])
    assert model.may_end
    for forbidden in (model.legal, lambda: model.look_ahead([0]), lambda: model.preview([0]), model.fork):
        with pytest.raises(OutOfOrderError):
            forbidden()
    model.discard()
    assert (model.committed, model.legal()) == ((), {0, 2})
    with pytest.raises(OutOfOrderError):
        model.discard()
    with pytest.raises(RefusedError):
        model.preview([2, EOS, EOS])
    model.preview([2, EOS])
    assert model.terminated
    model.confirm()
    assert (model.committed, model.legal(), model.terminated) == ((2, EOS), set(), True)


def _subjects():
    """A few small languages with their vocabularies; masks differ at every position in the first ones."""
    rng = random.Random(11)
    for source in DIFFERENT_EVERYWHERE.values():
        yield Subject.of(random_vocabulary(rng, ALPHABET, complete=True)), source
    for kind in DRAWS:
        yield from random_subjects(kind, 12, seed=5)


def _compiled(core):
    found = []
    for subject, source in _subjects():
        try:
            compiled, _ = subject.compiler.compile(constraint_of(source), core=core)
        except RequestError:
            continue
        found.append((subject, subject.parser(source), compiled))
    return found


class Transactions(RuleBasedStateMachine):
    """Random operations on an engine matcher and on the model; both must agree after each."""

    core: str | None = None

    @initialize(data=st.data())
    def begin(self, data):
        self.subject, parser, self.compiled = data.draw(st.sampled_from(self.languages()))
        self.size = self.subject.plain.size
        self.model = MatcherModel(parser, self.subject.plain.oracle_bytes, self.subject.plain.eos_ids)
        self.matcher = self.compiled.new_matcher()
        self.kept = []

    @classmethod
    def languages(cls):
        if "_languages" not in cls.__dict__:
            cls._languages = _compiled(cls.core)
        return cls._languages

    def walk(self, data, longest=4):
        """Draw tokens that are mostly legal one after another, completion ids and illegal ids among them."""
        probe = self.model.fork()
        tokens = []
        for _ in range(data.draw(st.integers(0, longest))):
            legal = sorted(probe.legal())
            wild = st.integers(-2, self.subject.plain.logits_width + 1)
            token_id = data.draw(st.one_of(*[st.sampled_from(legal)] * 5, wild) if legal else wild)
            tokens.append(token_id)
            if token_id in legal:
                probe.committed += (token_id,)
        return tokens

    def idle(self):
        return self.model.pending is None

    @precondition(idle)
    @rule(data=st.data())
    def preview(self, data):
        tokens = self.walk(data)
        try:
            self.model.preview(tokens)
        except RefusedError:
            with pytest.raises(CoreFault):
                self.matcher.preview(tokens)
        else:
            assert self.matcher.preview(tokens) == len(tokens)

    @precondition(lambda self: not self.idle())
    @rule()
    def confirm(self):
        self.model.confirm()
        self.matcher.confirm()

    @precondition(lambda self: not self.idle())
    @rule()
    def discard(self):
        self.model.discard()
        self.matcher.discard()

    @precondition(lambda self: not self.idle())
    @rule()
    def masks_previews_and_forks_are_refused_while_a_preview_is_open(self):
        row = torch.zeros(1, num_words(self.size), dtype=torch.int32)
        for forbidden in (
            lambda: self.matcher.fill(row[0]),
            lambda: fill_window(self.matcher, [], row),
            lambda: self.matcher.preview([]),
            lambda: self.matcher.accept(0),
            self.matcher.fork,
        ):
            with pytest.raises(TransactionError):
                forbidden()

    @precondition(lambda self: self.idle() and not self.model.terminated)
    @rule(data=st.data())
    def look_ahead(self, data):
        drafts = self.walk(data, longest=6)
        rows = self.model.look_ahead(drafts)
        out = torch.full((len(rows), num_words(self.size)), -1, dtype=torch.int32)
        states = fill_window(self.matcher, drafts, out)
        assert list(states) == [STATES[row.kind] for row in rows]

    @precondition(lambda self: self.idle() and not self.model.terminated)
    @rule(data=st.data())
    def an_exception_inside_a_look_ahead_leaves_no_trace(self, data):
        tokens = self.walk(data)
        with contextlib.suppress(ZeroDivisionError), self.matcher.look_ahead():
            taken = [self.matcher.accept(token_id) for token_id in tokens]
            assert not taken or taken[0] == (tokens[0] in self.model.legal())
            with pytest.raises(TransactionError):
                self.matcher.preview(tokens)
            raise ZeroDivisionError

    @precondition(idle)
    @rule()
    def discard_without_a_preview_is_refused(self):
        with pytest.raises(TransactionError):
            self.matcher.discard()

    @precondition(lambda self: self.idle() and len(self.kept) < 3)
    @rule(go_on_with_the_fork=st.booleans())
    def fork(self, go_on_with_the_fork):
        pairs = [(self.matcher, self.model), (self.matcher.fork(), self.model.fork())]
        self.kept.append(pairs[not go_on_with_the_fork])
        self.matcher, self.model = pairs[go_on_with_the_fork]

    @invariant()
    def the_engine_agrees_with_the_model(self):
        if not hasattr(self, "model"):
            return
        for matcher, model in [(self.matcher, self.model), *self.kept]:
            assert matcher.terminated == model.terminated
            assert matcher.may_end == model.may_end
            assert matcher.num_committed == len(model.committed)
            assert matcher.previewing == (model.pending is not None)
            if model.pending is None:
                assert row_of(matcher, self.size) == model.legal()

    @precondition(lambda self: self.idle())
    @rule()
    def a_fresh_matcher_fed_the_committed_tokens_is_in_the_same_state(self):
        fresh = self.compiled.new_matcher()
        for token_id in self.model.committed:
            fresh = advanced(fresh, token_id)
        assert row_of(fresh, self.size) == row_of(self.matcher, self.size)
        assert (fresh.may_end, fresh.terminated) == (self.matcher.may_end, self.matcher.terminated)


class TransactionsOnLlguidance(Transactions):
    core = "llguidance"


SIZES = settings(max_examples=25, stateful_step_count=20)
Transactions.TestCase.settings = TransactionsOnLlguidance.TestCase.settings = SIZES
TestTransactions = pytest.mark.clause("TXN-3", "TXN-4", "TXN-6", "TXN-7", "SPECG-2", "MASK-4")(
    Transactions.TestCase
)
TestTransactionsOnLlguidance = pytest.mark.clause("TXN-3", "GBNF-8")(TransactionsOnLlguidance.TestCase)


@pytest.mark.clause("TXN-8")
@pytest.mark.parametrize("core", [None, "llguidance"])
def test_a_round_marks_and_rolls_back_and_copies_no_matcher(core):
    """K drafts cost at most K + 1 fills, K accepts and one rollback; a confirmed preview costs none."""
    for subject, parser, compiled in _compiled(core)[:4]:
        model = MatcherModel(parser, subject.plain.oracle_bytes, subject.plain.eos_ids)
        drafts = []
        while len(drafts) < 3 and (legal := model.legal() - set(subject.plain.eos_ids)):
            drafts.append(min(legal))
            model.committed += (drafts[-1],)
        matcher = compiled.new_matcher()
        fill_window(
            matcher, drafts, torch.zeros(len(drafts) + 1, num_words(subject.plain.size), dtype=torch.int32)
        )
        assert matcher.num_fills <= len(drafts) + 1
        assert (matcher.num_accepts, matcher.num_rollbacks) == (len(drafts), 1)
        matcher.preview(drafts)
        matcher.confirm()
        assert (matcher.num_accepts, matcher.num_rollbacks) == (2 * len(drafts), 1)


@pytest.mark.parametrize("core", [None, "llguidance"])
def test_a_forced_illegal_id_is_a_typed_fault_in_that_step(core):
    for subject, parser, compiled in _compiled(core)[:6]:
        model = MatcherModel(parser, subject.plain.oracle_bytes, subject.plain.eos_ids)
        matcher = compiled.new_matcher()
        before = row_of(matcher, subject.plain.size)
        for token_id in {*range(-2, subject.plain.logits_width)} - model.legal():
            with pytest.raises(CoreFault):
                matcher.preview([token_id])
            assert not matcher.previewing
        assert row_of(matcher, subject.plain.size) == before
