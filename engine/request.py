"""The public request and result types (contract 2): they own their text, compare by value, name no core."""

import enum
from collections.abc import Mapping, Sequence

import attrs

from engine.errors import ErrorKind, Location, RequestError


class ConstraintKind(enum.StrEnum):
    """What language a constraint's source is written in."""

    GRAMMAR = "grammar"
    JSON_OBJECT = "json_object"
    JSON_SCHEMA = "json_schema"
    CHOICE = "choice"
    REGEX = "regex"


class UnknownKeywords(enum.StrEnum):
    """What becomes of schema keywords (and formats) that the dialect does not define."""

    REFUSE = "refuse"
    ANNOTATE = "annotate"


class Formats(enum.StrEnum):
    """What becomes of `format` in a schema."""

    REFUSE = "refuse"
    ANNOTATE = "annotate"
    ASSERT = "assert"


class Whitespace(enum.StrEnum):
    """White space between JSON tokens: runs of up to 32 characters, `, ` and `: ` only, or none."""

    BOUNDED = "bounded"
    FIXED = "fixed"
    COMPACT = "compact"


@attrs.frozen
class JsonOptions:
    """How JSON text and schemas are read; part of a constraint's identity."""

    unknown_keywords: UnknownKeywords = attrs.field(default=UnknownKeywords.REFUSE, converter=UnknownKeywords)
    formats: Formats = attrs.field(default=Formats.REFUSE, converter=Formats)
    whitespace: Whitespace = attrs.field(default=Whitespace.BOUNDED, converter=Whitespace)


@attrs.frozen
class OutputConstraint:
    """One content constraint: a kind with its source text, or with its list of choices."""

    kind: ConstraintKind
    source: str = ""
    choices: tuple[str, ...] = ()
    options: JsonOptions = JsonOptions()

    @classmethod
    def json_object(cls, *, whitespace: str = "bounded") -> "OutputConstraint":
        """Constrain the output to one JSON object with any members; no name stands twice in an object."""
        return cls(ConstraintKind.JSON_OBJECT, options=_options(whitespace=whitespace))

    @classmethod
    def json_schema(
        cls,
        source: str,
        *,
        unknown_keywords: str = "refuse",
        formats: str = "refuse",
        whitespace: str = "bounded",
    ) -> "OutputConstraint":
        """Constrain the output to the JSON texts that a JSON Schema (as JSON text) accepts.

        Raises RequestError for a source that is not text, or an unknown option.
        """
        options = _options(unknown_keywords=unknown_keywords, formats=formats, whitespace=whitespace)
        return cls(ConstraintKind.JSON_SCHEMA, _text(source, ErrorKind.INVALID_JSON_SCHEMA), options=options)

    @classmethod
    def grammar(cls, source: str) -> "OutputConstraint":
        """Constrain the output to a GBNF grammar with entry rule `root`."""
        return cls(ConstraintKind.GRAMMAR, _text(source, ErrorKind.INVALID_GRAMMAR))

    @classmethod
    def regex(cls, pattern: str) -> "OutputConstraint":
        """Constrain the whole output to a regular expression (ECMAScript subset)."""
        return cls(ConstraintKind.REGEX, _text(pattern, ErrorKind.INVALID_REGEX))

    @classmethod
    def choice(cls, choices: Sequence[str]) -> "OutputConstraint":
        """Constrain the output to one of the given strings; duplicates collapse, order has no weight.

        Raises RequestError (invalid_choice) for an empty list or an item that is not text.
        """
        if isinstance(choices, str) or not choices:
            raise RequestError(
                ErrorKind.INVALID_CHOICE,
                "a choice needs a list of at least one string",
                found=repr(choices),
                allowed="a non-empty list of strings; the empty string is a legal option",
            )
        return cls(
            ConstraintKind.CHOICE,
            choices=tuple(_text(c, ErrorKind.INVALID_CHOICE, i) for i, c in enumerate(choices)),
        )


def _options(**words: str) -> JsonOptions:
    """The options by their words. Raises RequestError naming the words that exist."""
    kinds = {"unknown_keywords": UnknownKeywords, "formats": Formats, "whitespace": Whitespace}
    for name, word in words.items():
        if word not in list(kinds[name]):
            raise RequestError(
                ErrorKind.INVALID_REQUEST,
                f"{name} has no such option",
                found=repr(word)[:40],
                allowed=", ".join(kinds[name]),
            )
    return JsonOptions(**words)


def _text(value: object, kind: ErrorKind, index: int | None = None) -> str:
    """Return `value` if it is text that UTF-8 can hold; raise RequestError with the place otherwise."""
    where = Location(index=index)
    if not isinstance(value, str):
        raise RequestError(kind, "the source is not text", where, f"{type(value).__name__}", "a string")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        if index is None:
            line_start = value.rfind("\n", 0, error.start) + 1
            where = Location(value.count("\n", 0, error.start) + 1, error.start - line_start + 1)
        raise RequestError(
            kind,
            f"the source is not valid Unicode text: lone surrogate at offset {error.start}",
            where,
            f"U+{ord(value[error.start]):04X}",
            "Unicode scalar values (text that UTF-8 can hold)",
        ) from None
    return value


class ToolMode(enum.StrEnum):
    """Whether this turn may call tools, must not, or has to."""

    AUTO = "auto"
    NONE = "none"
    REQUIRED = "required"


class ToolConstraints(enum.StrEnum):
    """How much of a call is enforced unasked: its framing and names, or nothing beside what is asked for."""

    BASIC = "basic"
    AUTOMATIC = "automatic"


@attrs.frozen
class ToolDeclaration:
    """One tool: `parameters` is a JSON Schema as JSON text, whose order of members is part of its meaning.

    A `strict` tool's arguments satisfy that schema; of any other it says only how values are read.
    """

    name: str
    parameters: str = '{"type":"object","properties":{}}'
    description: str = ""
    strict: bool = False


@attrs.frozen
class ToolChoice:
    """Which calls this turn may hold; `allowed_names` None means every declared tool, empty means none.

    `parallel` false means at most one call.
    """

    mode: ToolMode = attrs.field(default=ToolMode.AUTO, converter=ToolMode)
    allowed_names: tuple[str, ...] | None = None
    parallel: bool = True
    constraints: ToolConstraints = attrs.field(default=ToolConstraints.BASIC, converter=ToolConstraints)


@attrs.frozen
class ToolCall:
    """A finished call: the tool's name and its arguments as the text of one JSON object."""

    name: str
    arguments_json: str


class Branch(enum.StrEnum):
    """What an output has turned out to be, by its committed tokens."""

    UNDECIDED = "undecided"
    CONTENT = "content"
    TOOLS = "tools"


class Role(enum.StrEnum):
    """Who a message of a chat is from."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@attrs.frozen
class Message:
    """One message of a chat; `reasoning` and `tool_calls` belong to the assistant alone."""

    role: Role = attrs.field(converter=Role)
    content: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()


@attrs.frozen
class PromptInput:
    """What a prompt is made of: the messages of a chat with its tools, or raw text, or raw token ids.

    `continue_final` goes on with the last message, which is the assistant's; else a new turn is begun, in
    thinking or past it.
    """

    messages: tuple[Message, ...] = ()
    tools: tuple[ToolDeclaration, ...] = ()
    thinking: bool = True
    continue_final: bool = False
    text: str | None = None
    token_ids: tuple[int, ...] | None = None


@attrs.frozen
class SamplingSettings:
    """The resolved numbers of one request's sampling law (contract 3).

    temperature <= 0 means greedy. top_k outside 1..candidate_cap-1 means candidate_cap. Penalties act on the
    tokens generated in this request. `logit_bias` adds to a logit; `banned_token_ids` leave the legal set;
    both are copied, so that a replay reads what the request said.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    seed: int = 0
    logit_bias: Mapping[int, float] = attrs.field(factory=dict, converter=dict)
    banned_token_ids: frozenset[int] = attrs.field(default=frozenset(), converter=frozenset)


class FinishReason(enum.StrEnum):
    """Why an output ended without an error (contract 2: the ways to end are kept apart)."""

    COMPLETED = "completed"
    LENGTH = "length"
    CONTEXT = "context"
    CANCELLED = "cancelled"


class CacheOutcome(enum.StrEnum):
    """How a request came by its compiled grammar."""

    HIT = "hit"
    BUILT = "built"
    WAITED = "waited"


@attrs.frozen
class RequestOptions:
    """What a request asks of the engine beside its prompt."""

    max_tokens: int
    constraint: OutputConstraint | None = None
    sampling: SamplingSettings = SamplingSettings()
    tool_choice: ToolChoice = ToolChoice()


@attrs.frozen
class ConstraintObservation:
    """What a constrained request's matcher committed and cost; absent where no matcher ran (contract 2).

    `complete`: the language may end here. `terminated`: a completion id was accepted. Seconds are CPU time.
    """

    complete: bool
    terminated: bool
    cache: CacheOutcome
    core: str
    mask_positions: int
    mask_upload_bytes: int
    prepare_seconds: float
    mask_seconds: float
    matcher_seconds: float


@attrs.frozen
class GenerationResult:
    """The tokens a request published, how it ended, and its speculative counts."""

    token_ids: tuple[int, ...]
    finish_reason: FinishReason
    num_drafted: int = 0
    num_accepted: int = 0
    constraint: ConstraintObservation | None = None
