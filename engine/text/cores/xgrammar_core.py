"""xgrammar behind the core protocol: EBNF text in, masks out (facts: contract 7).

The vocabulary goes in as raw bytes with every class explicit: control and completion ids under bytes that no
text contains (reached by number only), ungenerable ids as the empty token that the library never opens.
Completion is decided here and not by the library's stop tokens: an EOS id is legal iff the root is complete.
"""

from collections.abc import Iterable
from importlib.metadata import version
from typing import Any

import numpy as np
import xgrammar

from engine.errors import CoreFault, ErrorKind, LimitExceeded, RefusedConstruct
from engine.text.cores.base import Domain, text_ids_but
from engine.text.cores.terminals import count_sign
from engine.text.rules import (
    Alt,
    Bytes,
    Chars,
    ExcludeToken,
    Expr,
    Grammar,
    Lexeme,
    Ref,
    Repeat,
    Seq,
    Token,
    fold,
    is_nullable,
    nullable_rules,
    split_long,
)
from engine.text.shape import count_of, has_lexemes
from engine.text.vocabulary import Vocabulary

VERSION = version("xgrammar")
FEW = 8  # how far a repetition of something that may be empty is written out
LISTED_IDS = 600_000  # token ids written out for ExcludeToken; listing a large vocabulary once takes 0.6 s
NESTING = 32  # deeper groups become rules of their own: the library's parser of the text is recursive


class XgrammarMatcher:
    """One request's state in xgrammar; the library's own matcher never sees an EOS id."""

    def __init__(self, compiled: "XgrammarCompiled", inner: xgrammar.GrammarMatcher, ended: bool) -> None:
        self._compiled = compiled
        self._domain = compiled.domain
        self.never_stuck = compiled.domain.never_stuck
        self._last_word_bits = compiled.domain.last_word_bits
        self._inner = inner
        handle: Any = (
            inner._handle
        )  # what the library's Python methods call: on a small mask they cost a tenth
        self._fill = handle.fill_next_token_bitmask
        self._accept = handle.accept_token
        self._is_completed = handle.is_completed
        self._wide = np.empty(compiled.wide_words, np.int32) if compiled.wide_words else None
        self.terminated = ended

    def may_end(self) -> bool:
        """Whether the tokens so far are a member of the language."""
        return self.terminated or self._is_completed()

    def fill(self, words: np.ndarray) -> None:
        """Write the legal set; the library writes the EOS bits where the root is complete."""
        wide = words if self._wide is None else self._wide
        try:
            self._fill(wide, 0, False)
        except RuntimeError as error:
            raise CoreFault(f"xgrammar failed to fill a mask: {error}") from error
        if wide is not words:
            words[:] = wide[: len(words)]
        words[-1] = words.item(-1) & self._last_word_bits

    def accept(self, token_id: int) -> bool:
        """Take one token; False leaves the state as it was."""
        if self.terminated or not 0 <= token_id < self._domain.vocab_size:
            return False
        if token_id in self._domain.eos_ids:
            self.terminated = self._is_completed()
            return self.terminated
        if token_id in self._domain.ungenerable_ids:
            return False
        try:
            return self._accept(token_id, False)
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

    def __init__(self, compiled: xgrammar.CompiledGrammar, domain: Domain, nbytes: int) -> None:
        self._compiled = compiled
        num_words = (compiled.tokenizer_info.vocab_size + 31) // 32
        self.wide_words = num_words if num_words > domain.num_words else 0  # separators need more words
        self.nbytes = nbytes
        self.domain = domain

    def new_matcher(self) -> XgrammarMatcher:
        """A matcher at the start of the language."""
        return XgrammarMatcher(self, xgrammar.GrammarMatcher(self._compiled), ended=False)


class XgrammarCore:
    """xgrammar bound to one vocabulary; `dynamic` builds a state's mask when a matcher first visits it."""

    def __init__(self, vocabulary: Vocabulary, *, dynamic: bool, info: xgrammar.TokenizerInfo) -> None:
        self.name = "xgrammar-dynamic" if dynamic else "xgrammar"
        self._vocabulary = vocabulary
        self._domain = Domain.of(vocabulary)
        self._dynamic = dynamic
        self._compiler = xgrammar.GrammarCompiler(
            info, max_threads=1, cache_enabled=False, enable_dynamic_compilation=dynamic
        )

    def compile(self, grammar: Grammar) -> XgrammarCompiled:
        """Compile a trimmed grammar. Raises CoreFault."""
        source = to_ebnf(split_long(_without_lexemes(grammar), LONGEST_BODY), self._vocabulary)
        try:
            compiled = self._compiler.compile_grammar(source)
        except RuntimeError as error:
            raise CoreFault(f"xgrammar failed to compile a trimmed grammar: {error}") from error
        nbytes = compiled.memory_size_bytes
        if self._dynamic:  # the masks come later: charge them now, one row for each byte of the rules' text
            nbytes += self._vocabulary.num_words * 4 * min(len(source), DYNAMIC_STATES_CHARGED)
        return XgrammarCompiled(compiled, self._domain, nbytes)


def _without_lexemes(grammar: Grammar) -> Grammar:
    """Every lexeme as its expression: this library needs no longest match. Raises RefusedConstruct."""

    def visit(node: Expr, parts: list[Expr]) -> Expr:
        if isinstance(node, Seq | Alt):
            return type(node)(tuple(parts))
        if isinstance(node, Repeat):
            return Repeat(parts[0], node.min, node.max)
        if not isinstance(node, Lexeme):
            return node
        if node.also or node.never:
            raise RefusedConstruct(
                ErrorKind.INVALID_GRAMMAR,
                "this core takes no intersection and no complement of terminals",
                found="a terminal with further conditions",
                allowed="the llguidance core",
            )
        return node.body

    if not has_lexemes(grammar):
        return grammar
    return Grammar({name: fold(expr, visit) for name, expr in grammar.rules.items()}, grammar.root)


DYNAMIC_STATES_CHARGED = 1000
LONGEST_BODY = 64  # the library's compile time grows with the square of a rule's length


def tokenizer_info(vocabulary: Vocabulary) -> xgrammar.TokenizerInfo:
    """The vocabulary as xgrammar's index: ids keep their number, separators follow past V."""
    encoded = [vocabulary.core_bytes(token_id) for token_id in range(vocabulary.size)]
    encoded += separators(encoded)
    return xgrammar.TokenizerInfo(
        encoded,
        xgrammar.VocabType.RAW,
        vocab_size=len(encoded),
        stop_token_ids=list(vocabulary.eos_ids),
    )


def separators(tokens: Iterable[bytes]) -> list[bytes]:
    """Tokens to add so that the library's masks leave nothing out.

    While it fills a mask it skips, after a refused token, the tokens behind it in byte order for as long as
    they contain the refused one; it takes them for its continuations. Where the first such token does not
    begin with the refused one, a prefix of it that stands between them, and cannot contain it, ends the skip.
    """
    added: list[bytes] = []
    chain: list[bytes] = []  # what the library would skip the next token for, each containing the one before

    def place(token: bytes) -> None:
        while chain and chain[-1] not in token:
            chain.pop()
        if chain and not token.startswith(chain[-1]):
            added.append(token[: _common_length(chain[-1], token) + 1])
            place(added[-1])
        chain.append(token)

    for token in sorted({token for token in tokens if token}):
        place(token)
    return added


def _common_length(first: bytes, second: bytes) -> int:
    pairs = zip(first, second, strict=False)
    return next(index for index, (a, b) in enumerate(pairs) if a != b)


def to_ebnf(grammar: Grammar, vocabulary: Vocabulary) -> str:
    """The grammar in xgrammar's text form; rule names are numbered, the root is called `root`."""
    return _EbnfWriter(grammar, vocabulary).text()


Piece = tuple[str, int, int]  # text, binding (0 atom, 1 sequence, 2 alternation), nesting


class _EbnfWriter:
    def __init__(self, grammar: Grammar, vocabulary: Vocabulary) -> None:
        self._grammar = grammar
        self._vocabulary = vocabulary
        self._sets: dict[tuple[int, ...], str] = {}
        self._num_listed = 0
        self._nullable = nullable_rules(grammar)
        others = [name for name in grammar.rules if name != grammar.root]
        self._names = {grammar.root: "root", **{name: f"r{i}" for i, name in enumerate(others)}}
        self._hoisted: dict[str, str] = {}  # text of a rule to its name

    def text(self) -> str:
        lines = [
            f"{self._names[name]} ::= {fold(expr, self._visit)[0]}"
            for name, expr in self._grammar.rules.items()
        ]
        hoisted = [f"{name} ::= {text}" for text, name in self._hoisted.items()]
        return "\n".join([*lines, *hoisted]) + "\n"

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
                return _class(node)
            case Token():
                return f"Token({', '.join(map(str, node.ids))})"
            case ExcludeToken():  # the library's own ExcludeToken also opens tokens that go on by bytes
                return self._all_but(node.ids)
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
        if isinstance(node.body, Chars):
            text = f"[{_ranges(node.body.ranges)}]{count_sign(node)}"
            return (self._hoist(text), 0, 0) if _is_misread(node.body) else (text, 1, 1)
        if count_of(node) > 1 and is_nullable(node.body, self._nullable):
            return self._bounded(f"({' '.join([text] * self._few(node))})?", 1, body[2] + 1)
        return self._bounded(text + count_sign(node), 1, body[2] + 1)

    def _all_but(self, excluded: tuple[int, ...]) -> str:
        """One rule for each distinct set of excluded ids: it lists every other TEXT id."""
        name = self._sets.get(excluded)
        if name is None:
            ids = text_ids_but(self._vocabulary, excluded)
            self._num_listed += len(ids)
            name = self._sets[excluded] = self._hoist(f"Token({', '.join(map(str, ids))})")
        if self._num_listed > LISTED_IDS:
            raise LimitExceeded(
                ErrorKind.INVALID_GRAMMAR,
                "the grammar excludes tokens in too many different ways",
                found=f"{len(self._sets)} different ExcludeToken sets",
                allowed=f"sets that leave at most {LISTED_IDS} ids open together",
                limit="excluded_token_sets",
                value=self._num_listed,
                maximum=LISTED_IDS,
            )
        return name

    def _few(self, node: Repeat) -> int:
        """The count of a repetition whose body may be empty; counting those crashes the library."""
        if node.max is None or node.max > FEW:
            raise LimitExceeded(
                ErrorKind.INVALID_GRAMMAR,
                "a repetition of something that may be empty counts too far",
                found=str(count_of(node)),
                allowed=f"at most {FEW}",
                limit="nullable_repeat_count",
                value=count_of(node),
                maximum=FEW,
            )
        return node.max

    def _bounded(self, text: str, binding: int, nesting: int) -> Piece:
        if nesting < NESTING:
            return text, binding, nesting
        return self._hoist(text), 0, 0

    def _hoist(self, text: str) -> str:
        """The name of a rule of its own for `text`; equal texts share it."""
        if text not in self._hoisted:
            self._hoisted[text] = f"h{len(self._hoisted)}"
        return self._hoisted[text]


def _is_misread(characters: Chars) -> bool:
    """Whether the library misreads the class where it stands in a look-ahead that it derives.

    It then opens tokens that do not fit; nothing of the kind was seen where a rule of its own stands there.
    """
    *others, (low, high) = characters.ranges
    return high >= 0x80 and (bool(others) or low < high)


def _class(characters: Chars) -> str:
    """A class; one that would be misread as an alternation, which becomes a rule of its own."""
    *ranges, (low, high) = characters.ranges
    middle = (low + high) // 2
    if not _is_misread(characters):
        return f"[{_ranges(characters.ranges)}]"
    if low == high:
        return f"([{_ranges(ranges)}] | [{_ranges([(low, high)])}])"
    return f"([{_ranges([*ranges, (low, middle)])}] | [{_ranges([(middle + 1, high)])}])"


def _ranges(ranges: Iterable[tuple[int, int]]) -> str:
    return "".join(f"{_escaped_code(low)}-{_escaped_code(high)}" for low, high in ranges)


def _escaped(character: str) -> str:
    if character.isascii() and (character.isalnum() or character in " _:;,.{}()<>=+*/|"):
        return character
    return _escaped_code(ord(character))


def _escaped_code(code: int) -> str:
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
