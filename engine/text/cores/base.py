"""What the engine asks of a matching core, and which core a grammar is given to (contract 7, GBNF-8).

A core sees a trimmed grammar and a vocabulary with explicit classes, once, and then makes matchers. One
matcher stands for one request. `fill` writes every word of its row: bit 1 = legal, bits at and past V zero,
all EOS bits set iff the language may end. A refused `accept` changes nothing. After an EOS the matcher is
terminated and no longer filled; `rollback` counts EOS as one token. A fault of the core is a CoreFault.
"""

from collections.abc import Iterable
from typing import Protocol

import attrs
import numpy as np

from engine.text.rules import Grammar
from engine.text.vocabulary import TokenClass, Vocabulary

UTF8_BYTES = frozenset(bytes([byte]) for byte in range(0xF5) if byte not in (0xC0, 0xC1))


class CoreMatcher(Protocol):
    """The mutable state of one request in one core."""

    @property
    def never_stuck(self) -> bool:
        """Whether no reachable state has an empty legal set: see `Domain.never_stuck`."""

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


@attrs.frozen(eq=False)
class Domain:
    """What every fill and accept needs of a vocabulary, worked out once for each core."""

    vocab_size: int
    num_words: int
    eos_ids: frozenset[int]
    ungenerable_ids: frozenset[int]
    last_word_bits: int  # the bits of a row's last word that stand for ids below V
    never_stuck: bool  # each byte of UTF-8 is a token, so a trimmed grammar's legal set is never empty

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> "Domain":
        """The domain of a vocabulary."""
        return cls(
            vocabulary.size,
            vocabulary.num_words,
            frozenset(vocabulary.eos_ids),
            frozenset(vocabulary.ids_of(TokenClass.UNGENERABLE)),
            _signed((1 << (vocabulary.size % 32 or 32)) - 1),
            UTF8_BYTES.issubset(vocabulary.token_bytes[i] for i in vocabulary.ids_of(TokenClass.TEXT)),
        )


def _signed(bits: int) -> int:
    return bits - (1 << 32) if bits >> 31 else bits


def text_ids_but(vocabulary: Vocabulary, excluded: Iterable[int]) -> tuple[int, ...]:
    """The TEXT ids that an ExcludeToken of `excluded` stands for, ascending."""
    closed = frozenset(excluded)
    return tuple(i for i in vocabulary.ids_of(TokenClass.TEXT) if i not in closed)
