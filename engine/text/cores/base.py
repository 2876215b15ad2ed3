"""What the engine asks of a matching core, and which core a grammar is given to (contract 7, GBNF-8).

A core sees a trimmed grammar and a vocabulary with explicit classes, once, and then makes matchers. One
matcher stands for one request. `fill` writes every word of its row: bit 1 = legal, bits at and past V zero,
all EOS bits set iff the language may end. A refused `accept` changes nothing. After an EOS the matcher is
terminated and no longer filled; `rollback` counts EOS as one token. A fault of the core is a CoreFault.
"""

from collections.abc import Iterable
from typing import Protocol

import numpy as np

from engine.text.rules import Grammar
from engine.text.vocabulary import TokenClass, Vocabulary


class CoreMatcher(Protocol):
    """The mutable state of one request in one core."""

    @property
    def terminated(self) -> bool:
        """Whether an EOS id was the last token accepted."""

    def may_end(self) -> bool:
        """Whether the tokens so far are a member of the language."""

    def fill(self, words: np.ndarray) -> None:
        """Write the legal set into a contiguous int32 row of shape (words,). Raises CoreFault."""

    def accept(self, token_id: int) -> bool:
        """Take one token; False leaves the state as it was. Raises CoreFault."""

    def rollback(self, num_tokens: int) -> None:
        """Take back the last tokens, EOS included. Raises CoreFault."""

    def fork(self) -> "CoreMatcher":
        """An independent matcher in the same state."""


class CompiledCore(Protocol):
    """An immutable compiled grammar of one core, shared by all its matchers."""

    @property
    def nbytes(self) -> int:
        """What keeping it costs, in bytes; an estimate from above where the core cannot say."""

    def new_matcher(self) -> CoreMatcher:
        """A matcher at the start of the language."""


class Core(Protocol):
    """One matching library bound to one vocabulary."""

    @property
    def name(self) -> str:
        """The name under which the choice of this core is reported."""

    def compile(self, grammar: Grammar) -> CompiledCore:
        """Compile a trimmed grammar. Raises CoreFault; LimitExceeded for what the core cannot serve."""


def last_word_bits(vocab_size: int) -> int:
    """The bits of a row's last word that stand for ids below V, as a signed 32-bit word."""
    bits = (1 << (vocab_size % 32 or 32)) - 1
    return bits - (1 << 32) if bits >> 31 else bits


def pack_ids(token_ids: tuple[int, ...], vocabulary: Vocabulary) -> np.ndarray:
    """A packed row, shape (words,), int32, with the bits of `token_ids` set."""
    bits = np.zeros(vocabulary.num_words * 32, dtype=np.uint8)
    bits[list(token_ids)] = 1
    return np.packbits(bits, bitorder="little").view(np.int32)


def text_ids_but(vocabulary: Vocabulary, excluded: Iterable[int]) -> tuple[int, ...]:
    """The TEXT ids that an ExcludeToken of `excluded` stands for, ascending."""
    closed = frozenset(excluded)
    return tuple(i for i in vocabulary.ids_of(TokenClass.TEXT) if i not in closed)
