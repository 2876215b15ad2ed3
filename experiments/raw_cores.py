"""The two matching libraries called directly, as their own documentation does: the peers of mask_latency.

They get the vocabulary and the grammar text that the engine gives them and nothing else: no transactions, no
emptiness test, no check of the vocabulary, no clearing of bits.
"""

import time

import numpy as np
import torch
import xgrammar
from llguidance import LLMatcher
from llguidance.numpy import fill_next_token_bitmask

from engine.text.cores import llguidance_core, xgrammar_core
from engine.text.rules import Grammar
from engine.text.vocabulary import Vocabulary


class RawXgrammar:
    """xgrammar's matcher on a torch bitmask of shape (1, words)."""

    def __init__(self, vocabulary: Vocabulary, info: xgrammar.TokenizerInfo, grammar: Grammar) -> None:
        source = xgrammar_core.to_ebnf(grammar, vocabulary)
        compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
        begin = time.perf_counter()
        self._compiled = compiler.compile_grammar(source)
        self.compile_seconds = time.perf_counter() - begin
        self._row = torch.zeros((1, (info.vocab_size + 31) // 32), dtype=torch.int32)
        self.restart()

    def restart(self) -> None:
        """Go to the start of the language."""
        self._matcher = xgrammar.GrammarMatcher(self._compiled)

    def fill(self) -> None:
        """Fill the mask of the current state."""
        self._matcher.fill_next_token_bitmask(self._row)

    def accept(self, token_id: int) -> None:
        """Take a token."""
        self._matcher.accept_token(token_id)

    def rollback(self, num_tokens: int) -> None:
        """Take tokens back."""
        self._matcher.rollback(num_tokens)


class RawLlguidance:
    """llguidance's matcher on a numpy bitmask of shape (1, words)."""

    def __init__(
        self, vocabulary: Vocabulary, grammar: Grammar, core: llguidance_core.LlguidanceCore
    ) -> None:
        source = LLMatcher.grammar_from_lark(llguidance_core.to_lark(grammar, vocabulary))
        begin = time.perf_counter()
        self._pristine = LLMatcher(core.tokenizer, source, log_level=0, limits=llguidance_core.LIMITS)
        self.compile_seconds = time.perf_counter() - begin
        self._row = np.zeros((1, vocabulary.num_words), dtype=np.int32)
        self.restart()

    def restart(self) -> None:
        """Go to the start of the language."""
        self._matcher = self._pristine.deep_copy()

    def fill(self) -> None:
        """Fill the mask of the current state."""
        fill_next_token_bitmask(self._matcher, self._row)

    def accept(self, token_id: int) -> None:
        """Take a token."""
        self._matcher.consume_token(token_id)

    def rollback(self, num_tokens: int) -> None:
        """Take tokens back."""
        self._matcher.rollback(num_tokens)
