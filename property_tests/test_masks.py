"""Is every bit of every mask right? The gates of `verify` in test sizes, and the oracle's own checks."""

import random

import numpy as np
import pytest
import torch

from engine.text.masks import PositionState, fill_window, words_for
from engine.text.matcher import Matcher
from experiments.gates import legal_sets, look_ahead
from experiments.gates.fixed_checks import fixed_verdicts
from experiments.gates.fixed_languages import choice_source
from experiments.gates.languages import random_vocabulary
from experiments.gates.subjects import Subject, constraint_of, random_subjects
from experiments.verdict import Status
from oracles.grammar_prefix import Earley, Tokens
from oracles.masks import TokenTrie, legal_ids, num_words, pack, unpack


def confirm(verdicts):
    for verdict in verdicts:
        assert verdict.ok, (verdict.status, verdict.check, verdict.reason, verdict.case)
        assert verdict.n > 0


@pytest.mark.clause(
    "GBNF-1", "SERV-4", "SERV-19", "SERV-23", "VOC-3", "VOC-4", "TEST2-4", "TEST2-7", "GBNF-8", "VER-1"
)
def test_random_grammars():
    confirm(legal_sets.sweep_grammars(300, seed=1))


@pytest.mark.clause("REGEX-3", "SERV-4", "SERV-19", "VOC-3", "VOC-6", "TEST2-5")
def test_random_regexes():
    confirm(legal_sets.sweep_regexes(300, seed=1))


@pytest.mark.clause("CHOICE-1", "CHOICE-2", "CHOICE-4", "SERV-5", "VOC-2")
def test_random_choices():
    confirm(legal_sets.sweep_choices(300, seed=1))


@pytest.mark.clause(
    "MASK-8", "MASK-9", "MASK-10", "MASK-11", "MASK-12", "MASK-3", "SPECG-5", "WIN-16", "WIN-17"
)
def test_windows_against_fresh_matchers():
    confirm([look_ahead.sweep_windows(600, seed=1)])


@pytest.mark.clause("GBNF-6", "GBNF-7", "CHOICE-3", "MASK-13", "SERV-6")
def test_chosen_languages_and_equal_spellings():
    confirm(fixed_verdicts())


@pytest.mark.clause("MASK-1")
@pytest.mark.parametrize("vocab_size", [1, 31, 32, 33, 63, 64, 65])
def test_the_packed_layout_by_hand(vocab_size):
    assert num_words(vocab_size) == words_for(vocab_size) == (vocab_size + 31) // 32
    for token_id in {0, vocab_size // 2, vocab_size - 1}:
        words = pack({token_id}, vocab_size)
        expected = np.zeros(num_words(vocab_size), dtype=np.uint32)
        expected[token_id // 32] = np.uint32(1) << np.uint32(token_id % 32)
        assert words.dtype == np.int32
        assert (words.view(np.uint32) == expected).all()
        assert unpack(words) == {token_id}


def test_pack_by_hand():
    assert pack({0, 31, 32, 37}, 40).tolist() == [-(2**31) + 1, 33]
    assert unpack([-1]) == set(range(32))


def test_legal_ids_by_hand():
    parser = Earley({"s": [(frozenset(b"a"), frozenset(b"b")), (Tokens(frozenset({3})),)]}, "s")
    token_bytes = [b"a", b"ab", b"b", b"zz", b"abc", b"", None, None]
    assert legal_ids(parser, [], token_bytes, [6]) == {0, 1, 3}
    assert legal_ids(parser, [0], token_bytes, [6]) == {2}
    assert legal_ids(parser, [3], token_bytes, [6]) == {6}
    assert legal_ids(parser, [1], token_bytes, [6, 7]) == {6, 7}


@pytest.mark.parametrize("kind", ["grammars", "regexes", "choices"])
def test_the_trie_walk_equals_trying_every_id_on_a_fresh_parse(kind):
    rng = random.Random(3)
    for subject, source in random_subjects(kind, 25, seed=2):
        parser, plain = subject.parser(source), subject.plain
        trie, prefix, state = TokenTrie(plain.oracle_bytes), [], parser.start()
        while state is not None and len(prefix) < 3:
            legal = legal_ids(parser, prefix, plain.oracle_bytes, plain.eos_ids)
            assert trie.legal_ids(parser, state, plain.eos_ids) == legal
            onward = sorted(legal - set(plain.eos_ids))
            if not onward:
                break
            prefix.append(rng.choice(onward))
            state = parser.advance_token(state, prefix[-1], plain.oracle_bytes[prefix[-1]])


@pytest.mark.clause("MASK-6", "MASK-11")
def test_a_window_writes_every_row_of_the_callers_buffer_and_nothing_else():
    subject = Subject.of(random_vocabulary(random.Random(1), "ab"))
    compiled, _ = subject.compiler.compile(constraint_of(choice_source("abab")))
    words = num_words(subject.plain.size)
    whole = torch.full((9, words), 7, dtype=torch.int32)
    a, b = (
        next(i for i in subject.plain.text_ids if subject.plain.token_bytes[i] == letter)
        for letter in (b"a", b"b")
    )
    states = fill_window(compiled.new_matcher(), [a, b], whole[2:7])
    assert states == (PositionState.READY,) * 3 + (PositionState.UNREACHABLE,) * 2
    assert (whole[:2] == 7).all() and (whole[7:] == 7).all()
    assert [unpack(row.numpy()) for row in whole[5:7]] == [{0}, {0}]
    with pytest.raises(ValueError, match="3 drafts"):
        fill_window(compiled.new_matcher(), [a, b, a], whole[:3])


def drop_the_last_legal_id(words):
    ids = unpack(words)
    words[:] = pack(ids - {max(ids, default=0)}, 32 * len(words))


def open_the_next_id(words):
    ids = unpack(words)
    words[:] = pack(ids | {max(ids, default=0) ^ 1}, 32 * len(words))


def leave_the_last_word_alone(words):
    words[-1] = -1431655766


@pytest.mark.parametrize("fault", [drop_the_last_legal_id, open_the_next_id, leave_the_last_word_alone])
def test_a_planted_fault_in_the_mask_fails_the_sweep_with_a_small_case(monkeypatch, fault):
    whole = Matcher.fill_words

    def faulty(self, words):
        whole(self, words)
        fault(words)

    monkeypatch.setattr(Matcher, "fill_words", faulty)
    verdict, _ = legal_sets.sweep_choices(20, seed=1)
    assert verdict.status == Status.FAIL
    assert sum(map(len, verdict.case["choices"])) <= 3


@pytest.mark.parametrize(
    "fault", ["row one late", "all rows the first", "filler left out", "one rollback short"]
)
def test_a_planted_fault_in_the_window_fails_the_window_gate(monkeypatch, fault):
    whole, undo = look_ahead.fill_window, Matcher._undo

    def faulty(matcher, drafts, out, **options):
        before = out.clone()
        states = whole(matcher, drafts, out, **options)
        ready = sum(state is PositionState.READY for state in states)
        if fault == "row one late":
            out[1:ready] = out[: ready - 1].clone()
        elif fault == "all rows the first":
            out[:ready] = out[:1].clone()
        elif fault == "filler left out":
            out[ready:] = before[ready:]
        return states

    def undo_too_little(self):
        self._num_provisional = max(0, self._num_provisional - 1)
        undo(self)

    monkeypatch.setattr(look_ahead, "fill_window", faulty)
    if fault == "one rollback short":
        monkeypatch.setattr(Matcher, "_undo", undo_too_little)
    assert look_ahead.sweep_windows(60, seed=1).status == Status.FAIL
