"""The matcher's own rules at their edges, with a stub core where only a lying core can show them."""

import numpy as np
import pytest
import torch

from engine.errors import CoreFault, TransactionError
from engine.request import OutputConstraint
from engine.text.compiler import ConstraintCompiler
from engine.text.cores.base import Domain
from engine.text.masks import fill_window, is_legal
from engine.text.matcher import Matcher
from engine.text.vocabulary import Vocabulary, toy_vocabulary

TOY = toy_vocabulary()


class LyingCore:
    """Opens every id and takes only id 0."""

    terminated = False
    never_stuck = True

    def __init__(self):
        self.taken = 0

    def may_end(self):
        return False

    def fill(self, words):
        words[:] = -1

    def accept(self, token_id):
        self.taken += token_id == 0
        return token_id == 0

    def rollback(self, num_tokens):
        self.taken -= num_tokens


def matcher_of(pattern: str, core: str | None = None) -> Matcher:
    compiled, _ = ConstraintCompiler(TOY).compile(OutputConstraint.regex(pattern), core=core)
    return compiled.new_matcher()


def token(text: str) -> int:
    return TOY.token_bytes.index(text.encode())


@pytest.mark.clause("FAIL-4", "SAFE-11", "TXN-3", "WIN-17")
def test_a_core_that_refuses_what_it_opened_is_a_fault_and_the_walk_is_undone():
    core = LyingCore()
    matcher = Matcher(core, 64)
    out = torch.empty((4, 2), dtype=torch.int32)
    with pytest.raises(CoreFault):
        fill_window(matcher, [0, 0, 5], out)
    assert core.taken == 0
    fill_window(matcher, [0, 0], out)
    assert core.taken == 0


@pytest.mark.clause("MASK-12", "DONE-3")
@pytest.mark.parametrize("core", ["xgrammar", "llguidance"])
def test_nothing_is_legal_behind_a_completion_id(core):
    matcher = matcher_of("a", core)
    words = torch.full((TOY.num_words,), -1, dtype=torch.int32)
    matcher.preview([token("a"), TOY.eos_ids[1]])
    matcher.confirm()
    assert matcher.terminated
    assert matcher.num_committed == 2
    matcher.fill(words)
    assert not words.any()


@pytest.mark.clause("MASK-3", "VOC-1")
@pytest.mark.parametrize("vocab_size", [1, 31, 32, 33, 64])
def test_no_id_outside_the_vocabulary_is_legal(vocab_size):
    words = np.full((vocab_size + 31) // 32, -1, dtype=np.int32)
    assert all(is_legal(words, i, vocab_size) for i in range(vocab_size))
    for outside in (-1, -vocab_size, -(2**40), vocab_size, vocab_size + 31, 2**40):
        assert not is_legal(words, outside, vocab_size)


@pytest.mark.clause("MASK-1")
@pytest.mark.parametrize("core", ["xgrammar", "llguidance", "xgrammar-dynamic"])
@pytest.mark.parametrize("size", [31, 32, 33, 63, 64, 65, 96])
def test_every_id_of_every_vocabulary_size_has_its_own_bit(core, size):
    """Ids from 1 on are one byte each; of `[...]` over the last bytes exactly those are open."""
    tokens = [b"<eos>", *(bytes([0x20 + i]) for i in range(size - 1))]
    vocabulary = Vocabulary.build("bytes", tokens, eos_ids=[0], logits_width=size + 3)
    last = "".join(chr(0x20 + i) for i in range(max(0, size - 4), size - 1))
    compiled, _ = ConstraintCompiler(vocabulary).compile(OutputConstraint.choice(list(last)), core=core)
    words = torch.full((vocabulary.num_words + 1,), -1, dtype=torch.int32)
    compiled.new_matcher().fill(words[:-1])
    bits = np.unpackbits(words[:-1].numpy().view(np.uint8), bitorder="little")
    assert np.flatnonzero(bits).tolist() == [tokens.index(c.encode()) for c in sorted(last)]
    assert words[-1] == -1
    assert Domain.of(vocabulary).last_word_bits & 0xFFFFFFFF == (1 << ((size - 1) % 32 + 1)) - 1


@pytest.mark.clause("TXN-6")
def test_transactions_out_of_order_are_refused_and_change_nothing():
    matcher = matcher_of("ab?")
    for wrong in (matcher.discard, matcher.end_look_ahead, lambda: matcher.accept(token("a"))):
        with pytest.raises(TransactionError):
            wrong()
    matcher.preview([token("a")])
    row = torch.empty(TOY.num_words, dtype=torch.int32)
    for wrong in (
        lambda: matcher.preview([]),
        matcher.begin_look_ahead,
        lambda: matcher.fill(row),
        matcher.fork,
    ):
        with pytest.raises(TransactionError):
            wrong()
    matcher.discard()
    assert matcher.num_committed == 0
    matcher.begin_look_ahead()
    for wrong in (lambda: matcher.preview([]), matcher.begin_look_ahead, matcher.fork, matcher.discard):
        with pytest.raises(TransactionError):
            wrong()
    matcher.end_look_ahead()
    assert not matcher.may_end


@pytest.mark.clause("TXN-3", "WIN-17")
@pytest.mark.parametrize("core", ["xgrammar", "llguidance"])
def test_a_block_that_raises_takes_its_tokens_back(core):
    matcher = matcher_of("abc", core)

    def walk_and_fail():
        with matcher.look_ahead():
            assert matcher.accept(token("a"))
            assert not matcher.accept(token("c"))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        walk_and_fail()
    assert matcher.preview([token("a"), token("b"), token("c")]) == 3
    assert matcher.may_end


@pytest.mark.clause("SERV-9", "CACHE-1")
@pytest.mark.parametrize("core", ["xgrammar", "llguidance"])
def test_forks_and_matchers_of_one_grammar_move_alone(core):
    compiled, _ = ConstraintCompiler(TOY).compile(OutputConstraint.regex("ab"), core=core)
    first, second = compiled.new_matcher(), compiled.new_matcher()
    first.preview([token("a")])
    first.confirm()
    twin = first.fork()
    twin.preview([token("b"), TOY.eos_ids[0]])
    twin.confirm()
    assert (twin.terminated, first.terminated, second.terminated) == (True, False, False)
    assert (twin.num_committed, first.num_committed, second.num_committed) == (3, 1, 0)
    assert first.preview([token("b")]) == 1
    assert second.preview([token("ab")]) == 1
