"""llguidance behind the core protocol: Lark text in, masks out (facts: contract 7).

Its lexer takes the longest match, so a terminal is one character, unless the grammar is handed over with
fused terminals that `fusion` has proven to lose no parse. `no_forcing` keeps every legal token in the mask.
A token the library refuses kills its matcher: every token is validated before it is consumed. An EOS is
accepted here; the library's tokenizer knows the EOS ids for its masks and never takes them for text.
"""

from importlib.metadata import version

import attrs
import numpy as np
from llguidance import LLMatcher, LLParserLimits, LLTokenizer, TokenizerWrapper

from engine.errors import CoreFault, ErrorKind, LimitExceeded, RefusedConstruct
from engine.text.cores.base import Domain
from engine.text.cores.fusion import fuse
from engine.text.cores.positions import Fused
from engine.text.cores.terminals import count_sign, terminal_text
from engine.text.limits import LIMITS as LIMITS_OF_SOURCES
from engine.text.limits import check_limit
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
    features,
    fold,
    walk,
)
from engine.text.shape import has_lexemes, reference_depth
from engine.text.vocabulary import TokenClass, Vocabulary

VERSION = version("llguidance")
MARKER = b"\xff"  # the library spells a token number in a grammar with it; no text contains it
STUCK = "NoExtensionBias"  # how the library calls a state that no token of the vocabulary continues
MATCHER_BYTES = 256 * 1024  # a matcher's lexer and parser at the start; the library reports no size
NESTING = 32
MOST_SYMBOLS = 65_525
STEP_FUEL = 2_000_000  # what one mask may cost in the lexer, in the library's own unit
LIMITS = LLParserLimits(
    max_items_in_row=50_000, initial_lexer_fuel=2_000_000, step_lexer_fuel=STEP_FUEL, step_max_items=500_000
)


# Where all tokens of a slice fit, the library opens them at once; else it tries token by token (3 ms). Beside
# its own slices there are such without the two line separators: `.` of a pattern leaves these out.
_SLICE_TEXT = r'[^"\\\x00-\x1F\x7F\x{2028}\x{2029}]'
SLICES = (
    r"[\x20\x0A\x0D\x09]+",
    *(f"{_SLICE_TEXT}{count}" for count in ("{1,10}", "{1,30}", "+")),
    r'[^"\\\x00-\x1F\x7F]+',
)


class LlguidanceMatcher:
    """One request's state in llguidance; the library's own matcher never sees an EOS id."""

    def __init__(self, compiled: "LlguidanceCompiled", inner: LLMatcher, ended: bool) -> None:
        self._compiled = compiled
        self._domain = compiled.domain
        self.never_stuck = compiled.domain.never_stuck
        self._inner = inner
        self.terminated = ended

    def may_end(self) -> bool:
        """Whether the tokens so far are a member of the language."""
        return self.terminated or self._inner.is_accepting()

    def fill(self, words: np.ndarray) -> None:
        """Write the legal set; the library knows V, and opens all EOS ids where the end is legal."""
        inner = self._inner if self.never_stuck else self._inner.deep_copy()  # being stuck kills a matcher
        inner.unsafe_compute_mask_ptr(words.__array_interface__["data"][0], words.nbytes)
        if inner.is_error():
            if self.never_stuck or not inner.get_error().startswith(STUCK):
                raise CoreFault(f"llguidance failed to fill a mask: {_first_line(inner.get_error())}")
            words[:] = 0
            return

    def accept(self, token_id: int) -> bool:
        """Take one token; asks first, because a refusal would kill the library's matcher."""
        if self.terminated or not 0 <= token_id < self._domain.vocab_size:
            return False
        if token_id in self._domain.eos_ids:
            self.terminated = self._inner.is_accepting()
            return self.terminated
        if token_id in self._domain.ungenerable_ids or self._inner.validate_tokens([token_id]) != 1:
            self._check("validate")
            return False
        if not self._inner.consume_token(token_id):
            self._check("accept")
            return False
        return True

    def _check(self, action: str) -> None:
        if self._inner.is_error():
            raise CoreFault(f"llguidance failed to {action} a token: {_first_line(self._inner.get_error())}")

    def rollback(self, num_tokens: int) -> None:
        """Take back the last tokens; an EOS is one of them and was never given to the library."""
        ended = self.terminated and num_tokens > 0
        if num_tokens > ended and not self._inner.rollback(num_tokens - ended):
            raise CoreFault(f"llguidance failed to roll back: {_first_line(self._inner.get_error())}")
        self.terminated = self.terminated and not ended

    def fork(self) -> "LlguidanceMatcher":
        """An independent matcher in the same state."""
        return LlguidanceMatcher(self._compiled, self._inner.deep_copy(), self.terminated)


def _first_line(text: str) -> str:
    return text.split("\n", 1)[0][:200]


class LlguidanceCompiled:
    """A pristine library matcher that every request's matcher is copied from."""

    def __init__(self, pristine: LLMatcher, source: str, domain: Domain) -> None:
        self._pristine = pristine
        self.nbytes = MATCHER_BYTES + 64 * len(source)
        self.domain = domain

    def new_matcher(self) -> LlguidanceMatcher:
        """A matcher at the start of the language."""
        return LlguidanceMatcher(self, self._pristine.deep_copy(), ended=False)


class LlguidanceCore:
    """llguidance bound to one vocabulary."""

    name = "llguidance"

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._domain = Domain.of(vocabulary)
        tokens = [_by_number(vocabulary.core_bytes(i), i) for i in range(vocabulary.size)]
        special = tuple(i for i, data in enumerate(tokens) if data[:1] == MARKER)
        self.tokenizer = LLTokenizer(
            TokenizerWrapper(_Tokens(tokens, special, vocabulary.eos_ids[0])),
            n_vocab=vocabulary.size,
            eos_token=list(vocabulary.eos_ids),
            slices=list(SLICES),
        )

    def compile(self, grammar: Grammar) -> LlguidanceCompiled:
        """Compile a trimmed grammar. Raises CoreFault, LimitExceeded, RefusedConstruct."""
        check_limit("rule_chain", _depth(grammar), ErrorKind.INVALID_GRAMMAR)
        source = to_lark(grammar, self._vocabulary)
        text = LLMatcher.grammar_from_lark(source)
        pristine = LLMatcher(self.tokenizer, text, log_level=0, limits=LIMITS)
        if pristine.is_error():
            raise _compile_error(pristine.get_error())
        self._require_first_mask(pristine.deep_copy())
        return LlguidanceCompiled(pristine, source, self._domain)

    def _require_first_mask(self, probe: LLMatcher) -> None:
        """Counted parts that overlap in many ways use up the lexer's fuel, a fixed amount, at once."""
        words = np.empty(self._domain.num_words, dtype=np.int32)
        probe.unsafe_compute_mask_ptr(words.__array_interface__["data"][0], words.nbytes)
        if probe.is_error() and not probe.get_error().startswith(STUCK):
            raise LimitExceeded(
                ErrorKind.INVALID_GRAMMAR,
                "the counted parts of the source overlap in too many ways",
                found=_first_line(probe.get_error()),
                allowed="smaller counts, or counted parts whose ends can be told",
                limit="lexer_fuel",
                value=STEP_FUEL + 1,
                maximum=STEP_FUEL,
            )


def _depth(grammar: Grammar) -> int:
    """How deep the library's own walks over the rules may become: they are recursive, on the native stack."""
    return reference_depth(grammar) if len(grammar.rules) > LIMITS_OF_SOURCES["rule_chain"] else 0


def _compile_error(message: str) -> Exception:
    """The library's failure; a grammar past its number of symbols is the caller's."""
    if "fuel exhausted" in message or "lexer_fuel" in message:
        return LimitExceeded(
            ErrorKind.INVALID_GRAMMAR,
            "the terminals of the grammar are too entangled",
            found=_first_line(message),
            allowed="fewer conditions on one string, smaller counts",
            limit="lexer_fuel",
            value=STEP_FUEL + 1,
            maximum=STEP_FUEL,
        )
    if "grammar.symbols.len()" not in message:
        return CoreFault(f"llguidance failed to compile a grammar: {_first_line(message)}")
    return LimitExceeded(
        ErrorKind.INVALID_GRAMMAR,
        "the grammar has too many symbols",
        found="more than the core can number",
        allowed=f"at most {MOST_SYMBOLS}",
        limit="grammar_symbols",
        value=MOST_SYMBOLS + 1,
        maximum=MOST_SYMBOLS,
    )


def _by_number(data: bytes, token_id: int) -> bytes:
    """A token with the library's marker byte in it fits no text: make it reachable by its number only."""
    return data if MARKER not in data else MARKER + b"<%d>" % token_id


@attrs.frozen
class _Tokens:
    """What the library's tokenizer wrapper asks of a tokenizer."""

    tokens: list[bytes]
    special_token_ids: tuple[int, ...]
    eos_token_id: int
    bos_token_id: None = None

    def __call__(self, text: bytes) -> list[int]:
        """The library wants an encoder for forced text; `no_forcing` leaves it unused."""
        return []


def to_lark(grammar: Grammar, vocabulary: Vocabulary) -> str:
    """The grammar in llguidance's text form; a regular language without tokens is one terminal.

    A grammar with lexemes comes with its terminals chosen: it is written as it stands.
    """
    if has_lexemes(grammar):
        return _LarkWriter(grammar, vocabulary).text()
    if features(grammar).has_tokens:
        _refuse_text_tokens(grammar, vocabulary)
        return _LarkWriter(grammar, vocabulary).text()
    return _LarkWriter(fuse(grammar), vocabulary).text()


def _refuse_text_tokens(grammar: Grammar, vocabulary: Vocabulary) -> None:
    """Beside character rules the library leaves legal tokens out once text tokens are named by number."""
    for expr in grammar.rules.values():
        for node in walk(expr):
            named = node.ids if isinstance(node, Token) else ()
            text = any(vocabulary.classes[token_id] is TokenClass.TEXT for token_id in named)
            if text or isinstance(node, ExcludeToken):
                raise RefusedConstruct(
                    ErrorKind.INVALID_GRAMMAR,
                    "this core does not take text tokens by number",
                    found=f"{type(node).__name__}{named}",
                    allowed="characters, or the xgrammar core",
                )


HEADER = '%llguidance {"no_forcing": true}\n'


Piece = tuple[str, int, int]  # text, binding (0 atom, 1 sequence, 2 alternation), nesting


class _LarkWriter:
    def __init__(self, grammar: Grammar, vocabulary: Vocabulary) -> None:
        self._grammar = grammar
        self._vocabulary = vocabulary
        others = [name for name in grammar.rules if name != grammar.root]
        self._names = {grammar.root: "start", **{name: f"r{i}" for i, name in enumerate(others)}}
        self._terminals: dict[str, str] = {}
        self._lexemes: dict[Lexeme, str] = {}
        self._hoisted: list[str] = []

    def text(self) -> str:
        rules = [
            f"{self._names[name]}: {fold(expr, self._visit)[0]}" for name, expr in self._grammar.rules.items()
        ]
        terminals = [f"{name}: {text}" for text, name in self._terminals.items()]
        return HEADER + "\n".join([*rules, *self._hoisted, *terminals]) + "\n"

    def _visit(self, node: Expr, parts: list[Piece]) -> Piece:
        """Few parentheses: the library makes a symbol of every group, and its symbols are limited."""
        if isinstance(node, Seq):
            if not parts:
                return EMPTY, 0, 0
            texts = [text if binding < 2 else f"({text})" for text, binding, _ in parts]
            return self._bounded(" ".join(texts), 1, parts)
        if isinstance(node, Alt):
            return self._bounded(" | ".join(text for text, _, _ in parts), 2, parts)
        if isinstance(node, Repeat):
            text, binding, _ = parts[0]
            return self._bounded((f"({text})" if binding else text) + count_sign(node), 1, parts)
        return self._leaf(node), 0, 0

    def _bounded(self, text: str, binding: int, parts: list[Piece]) -> Piece:
        nesting = 1 + max(depth for _, _, depth in parts)
        return (text, binding, nesting) if nesting < NESTING else (self._hoist(text), 0, 0)

    def _hoist(self, text: str) -> str:
        name = f"h{len(self._hoisted)}"
        self._hoisted.append(f"{name}: {text}")
        return name

    def _leaf(self, node: Expr | Fused) -> str:
        match node:
            case Bytes():
                characters = (self._terminal(Chars(((ord(c), ord(c)),))) for c in node.data.decode())
                return f"({' '.join(characters)})" if node.data else EMPTY
            case Chars():
                return self._terminal(node)
            case Fused():
                return self._terminal(node.expr)
            case Lexeme():
                return self._lexeme(node)
            case Token():
                return f"<[{','.join(map(str, node.ids))}]>"
            case Ref():
                return self._names[node.name]
        raise AssertionError(f"not a leaf: {node!r}")

    def _terminal(self, expr: Expr, also: tuple[Expr, ...] = (), never: tuple[Expr, ...] = ()) -> str:
        parts = [terminal_text(part, self._define) for part in (expr, *also)]
        parts += [f"~{terminal_text(part, self._define)}" for part in never]
        return self._define(" & ".join(parts))

    def _lexeme(self, lexeme: Lexeme) -> str:
        """The same lexeme stands at many places of a schema: equal ones are written once."""
        if lexeme not in self._lexemes:
            self._lexemes[lexeme] = self._terminal(lexeme.body, lexeme.also, lexeme.never)
        return self._lexemes[lexeme]

    def _define(self, text: str) -> str:
        return self._terminals.setdefault(text, f"T{len(self._terminals)}")


EMPTY = '""'
