"""xgrammar behind the core protocol: EBNF text in, masks out (facts: contract 7).

The vocabulary goes in as raw bytes with every class explicit: control and completion ids under bytes that no
text contains (reached by number only), ungenerable ids as the empty token that the library never opens.
Completion is decided here and not by the library's stop tokens: an EOS id is legal iff the root is complete.
"""

from importlib.metadata import version

import numpy as np
import xgrammar

from engine.errors import CoreFault
from engine.text.cores.base import last_word_bits, unlisted_ids
from engine.text.cores.terminals import count_sign
from engine.text.rules import (
    Alt,
    Bytes,
    Chars,
    ExcludeToken,
    Expr,
    Grammar,
    Ref,
    Repeat,
    Seq,
    Token,
    fold,
)
from engine.text.vocabulary import TokenClass, Vocabulary

VERSION = version("xgrammar")
NESTING = 32  # deeper groups become rules of their own: the library's parser of the text is recursive


class XgrammarMatcher:
    """One request's state in xgrammar; the library's own matcher never sees an EOS id."""

    def __init__(self, compiled: "XgrammarCompiled", inner: xgrammar.GrammarMatcher, ended: bool) -> None:
        self._compiled = compiled
        self._inner = inner
        self._fill = inner.fill_next_token_bitmask
        self._accept = inner.accept_token
        self._is_completed = inner.is_completed
        self.terminated = ended

    def may_end(self) -> bool:
        """Whether the tokens so far are a member of the language."""
        return self.terminated or self._is_completed()

    def fill(self, words: np.ndarray) -> None:
        """Write the legal set; the library writes the EOS bits where the root is complete."""
        try:
            self._fill(words)
        except RuntimeError as error:
            raise CoreFault(f"xgrammar failed to fill a mask: {error}") from error
        words[-1] &= self._compiled.last_word_bits

    def accept(self, token_id: int) -> bool:
        """Take one token; False leaves the state as it was."""
        if self.terminated or not 0 <= token_id < self._compiled.vocab_size:
            return False
        if token_id in self._compiled.eos_ids:
            self.terminated = self._is_completed()
            return self.terminated
        if token_id in self._compiled.ungenerable_ids:
            return False
        try:
            return self._accept(token_id)
        except RuntimeError as error:
            raise CoreFault(f"xgrammar failed to accept token {token_id}: {error}") from error

    def rollback(self, num_tokens: int) -> None:
        """Take back the last tokens; an EOS is one of them and was never given to the library."""
        ended = self.terminated and num_tokens > 0
        try:
            if num_tokens > ended:
                self._inner.rollback(num_tokens - ended)
        except RuntimeError as error:
            raise CoreFault(f"xgrammar failed to roll back {num_tokens} tokens: {error}") from error
        self.terminated = self.terminated and not ended

    def fork(self) -> "XgrammarMatcher":
        """An independent matcher in the same state."""
        return XgrammarMatcher(self._compiled, self._inner.fork(), self.terminated)


class XgrammarCompiled:
    """A compiled grammar of xgrammar; dynamic ones fill their mask cache while matchers run."""

    def __init__(self, compiled: xgrammar.CompiledGrammar, vocabulary: Vocabulary, nbytes: int) -> None:
        self._compiled = compiled
        self.nbytes = nbytes
        self.vocab_size = vocabulary.size
        self.eos_ids = frozenset(vocabulary.eos_ids)
        self.ungenerable_ids = frozenset(vocabulary.ids_of(TokenClass.UNGENERABLE))
        self.last_word_bits = last_word_bits(vocabulary.size)

    def new_matcher(self) -> XgrammarMatcher:
        """A matcher at the start of the language."""
        return XgrammarMatcher(self, xgrammar.GrammarMatcher(self._compiled), ended=False)


class XgrammarCore:
    """xgrammar bound to one vocabulary; `dynamic` builds a state's mask when a matcher first visits it."""

    def __init__(self, vocabulary: Vocabulary, *, dynamic: bool, info: xgrammar.TokenizerInfo) -> None:
        self.name = "xgrammar-dynamic" if dynamic else "xgrammar"
        self._vocabulary = vocabulary
        self._dynamic = dynamic
        self._compiler = xgrammar.GrammarCompiler(
            info, max_threads=1, cache_enabled=False, enable_dynamic_compilation=dynamic
        )

    def compile(self, grammar: Grammar) -> XgrammarCompiled:
        """Compile a trimmed grammar. Raises CoreFault."""
        source = to_ebnf(grammar, self._vocabulary)
        try:
            compiled = self._compiler.compile_grammar(source)
        except RuntimeError as error:
            raise CoreFault(f"xgrammar failed to compile a trimmed grammar: {error}") from error
        nbytes = compiled.memory_size_bytes
        if self._dynamic:  # the masks come later: charge them now, one row for each byte of the rules' text
            nbytes += self._vocabulary.num_words * 4 * min(len(source), DYNAMIC_STATES_CHARGED)
        return XgrammarCompiled(compiled, self._vocabulary, nbytes)


DYNAMIC_STATES_CHARGED = 1000


def tokenizer_info(vocabulary: Vocabulary) -> xgrammar.TokenizerInfo:
    """The vocabulary as xgrammar's index; ids keep their number, EOS ids are its stop tokens."""
    encoded = [vocabulary.core_bytes(token_id) for token_id in range(vocabulary.size)]
    return xgrammar.TokenizerInfo(
        encoded,
        xgrammar.VocabType.RAW,
        vocab_size=vocabulary.size,
        stop_token_ids=list(vocabulary.eos_ids),
    )


def to_ebnf(grammar: Grammar, vocabulary: Vocabulary) -> str:
    """The grammar in xgrammar's text form; rule names are numbered, the root is called `root`."""
    return _EbnfWriter(grammar, vocabulary).text()


Piece = tuple[str, int, int]  # text, binding (0 atom, 1 sequence, 2 alternation), nesting


class _EbnfWriter:
    def __init__(self, grammar: Grammar, vocabulary: Vocabulary) -> None:
        self._grammar = grammar
        self._vocabulary = vocabulary
        others = [name for name in grammar.rules if name != grammar.root]
        self._names = {grammar.root: "root", **{name: f"r{i}" for i, name in enumerate(others)}}
        self._hoisted: list[str] = []

    def text(self) -> str:
        lines = [
            f"{self._names[name]} ::= {fold(expr, self._visit)[0]}"
            for name, expr in self._grammar.rules.items()
        ]
        return "\n".join([*lines, *self._hoisted]) + "\n"

    def _visit(self, node: Expr, parts: list[Piece]) -> Piece:
        if isinstance(node, Seq | Alt):
            return self._group(node, parts)
        if isinstance(node, Repeat):
            return self._repeat(node, parts[0])
        return self._leaf(node), 0, 0

    def _leaf(self, node: Expr) -> str:
        match node:
            case Bytes():
                return '"' + "".join(map(_escaped, node.data.decode())) + '"'
            case Chars():
                return "[" + "".join(f"{_escaped_code(a)}-{_escaped_code(b)}" for a, b in node.ranges) + "]"
            case Token():
                return f"Token({', '.join(map(str, node.ids))})"
            case ExcludeToken():
                return f"ExcludeToken({', '.join(map(str, unlisted_ids(self._vocabulary, node.ids)))})"
            case Ref():
                return self._names[node.name]
        raise AssertionError(f"not a leaf: {node!r}")

    def _group(self, node: Seq | Alt, parts: list[Piece]) -> Piece:
        binding = 1 if isinstance(node, Seq) else 2
        if not parts:
            assert binding == 1, "a trimmed grammar has no empty alternation"
            return '""', 0, 0
        texts = [text if inner < binding else f"({text})" for text, inner, _ in parts]
        nesting = max(depth for _, _, depth in parts) + 1
        return self._bounded(" ".join(texts) if binding == 1 else " | ".join(texts), binding, nesting)

    def _repeat(self, node: Repeat, body: Piece) -> Piece:
        text = body[0] if body[1] == 0 else f"({body[0]})"
        return self._bounded(text + count_sign(node), 1, body[2] + 1)

    def _bounded(self, text: str, binding: int, nesting: int) -> Piece:
        if nesting < NESTING:
            return text, binding, nesting
        name = f"h{len(self._hoisted)}"
        self._hoisted.append(f"{name} ::= {text}")
        return name, 0, 0


def _escaped(character: str) -> str:
    if character.isascii() and (character.isalnum() or character in " _:;,.{}()<>=+*/|"):
        return character
    return _escaped_code(ord(character))


def _escaped_code(code: int) -> str:
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
