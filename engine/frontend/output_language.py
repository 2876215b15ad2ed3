"""The language of one request's whole output and its matcher: the runtime's one entry (TOOL-7, TOOL-12).

Joins what preparation fixed (tools, where the output starts, what it continues) with the content constraint.
Compiled grammars are shared by key; every matcher is new. An output that nothing constrains has no language.
"""

import attrs

from engine.errors import ErrorKind, RequestError
from engine.frontend.continuation import accept_prefix, prefix_tokens
from engine.frontend.framing import OutputIds
from engine.frontend.parameter_names import ParameterNames, Switched
from engine.frontend.phases import Reasoning, ReasoningPhase
from engine.frontend.reasoning_first import ReasoningFirst
from engine.frontend.tool_contract import ToolContract
from engine.frontend.tool_grammar import OutputFrame
from engine.request import CacheOutcome, OutputConstraint
from engine.text.companion import Companion
from engine.text.compiler import CompiledConstraint, ConstraintCompiler
from engine.text.cores.base import CoreMatcher
from engine.text.frame import NO_CONTENT
from engine.text.matcher import Matcher
from engine.text.vocabulary import Vocabulary
from engine.text.window import AlwaysContent, SessionWindow


@attrs.frozen(eq=False)
class OutputLanguage:
    """A compiled output language with what a session needs beside it; `prefix` stands already, as tokens."""

    vocabulary: Vocabulary
    frame: OutputFrame
    compiled: CompiledConstraint
    cache: CacheOutcome
    reasoning: Reasoning | None
    prefix: tuple[int, ...]

    @property
    def key(self) -> str:
        """What the compiled grammar is kept under."""
        return self.compiled.key

    def new_matcher(self) -> Matcher:
        """A matcher of the whole output, reasoning included, behind the prefix. Raises RequestError."""
        core, companion = self._content_parts()
        if self.reasoning is not None:
            core = ReasoningFirst(self.reasoning, core)
            if companion is not None:
                companion = Switched(None, companion, self.reasoning.think_close)
        return Matcher(core, self.vocabulary.size, companion)

    def new_window(self) -> SessionWindow:
        """The window view of the same output: a matcher of what follows reasoning, and the phase rule."""
        core, companion = self._content_parts()
        matcher = Matcher(core, self.vocabulary.size, companion)
        return SessionWindow(
            matcher, AlwaysContent() if self.reasoning is None else ReasoningPhase(self.reasoning)
        )

    def _content_parts(self) -> tuple[CoreMatcher, Companion | None]:
        """Core and companion at the beginning of what follows reasoning, the prefix taken."""
        core, names = self.compiled.new_parts()
        companion = self._companion(names)
        accept_prefix(core, companion, self.prefix, self.vocabulary)
        return core, companion

    def _companion(self, content_names: Companion | None) -> Companion | None:
        """The names of JSON content before any call, those of parameters from the first call on."""
        contract, tool_open = self.frame.contract, self.frame.ids.tool_open
        if contract is None or not contract.is_active or tool_open is None:
            return content_names
        return Switched(content_names, ParameterNames(self.vocabulary, contract), tool_open)


def output_language(
    compiler: ConstraintCompiler,
    constraint: OutputConstraint | None = None,
    contract: ToolContract | None = None,
    *,
    thinking: bool = False,
    prefix: str = "",
    core: str | None = None,
) -> OutputLanguage | None:
    """The language of an output, None where nothing constrains it; its prefix is known to be a prefix.

    `thinking`: the prompt ends inside reasoning. `prefix`: the last message's content, which the output
    continues. Raises RequestError with kind, place and source.
    """
    if constraint is None and (contract is None or not contract.is_enforced):
        return None
    vocabulary = compiler.vocabulary
    if thinking and prefix:
        raise RequestError(
            ErrorKind.INVALID_REQUEST,
            "an answer can be continued only behind its thinking",
            found="a prefix, and a prompt that ends in thinking",
            allowed="one of the two",
            source="request",
        )
    frame = OutputFrame(OutputIds.of(vocabulary), contract, thinking, constraint is not None)
    reasoning = Reasoning.of(vocabulary) if thinking else None
    tokens = prefix_tokens(prefix, vocabulary, frame)
    compiled, cache = compiler.compile(
        NO_CONTENT if constraint is None else constraint, frame=frame, core=core
    )
    language = OutputLanguage(vocabulary, frame, compiled, cache, reasoning, tokens)
    if tokens:
        language.new_matcher()
    return language
