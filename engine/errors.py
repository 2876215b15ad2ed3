"""Every error a caller can meet, as frozen, comparable records (contract 2 and 8).

A `RequestError` is the caller's: it says what was found, where, and what is allowed, and is raised before
the queue. An `IntegrityError` is the engine's: a row, a core or a transaction broke its own rules. The two
never turn into each other.
"""

import enum
from typing import Any, Literal

import attrs


class ErrorKind(enum.StrEnum):
    """Stable codes of request errors; the value is the `code` of the HTTP protocols."""

    INVALID_GRAMMAR = "invalid_grammar"
    INVALID_CHOICE = "invalid_choice"
    INVALID_REGEX = "invalid_regex"
    INVALID_JSON_SCHEMA = "invalid_json_schema"
    UNSUPPORTED_JSON_SCHEMA = "unsupported_json_schema"
    UNSATISFIABLE_JSON_SCHEMA = "unsatisfiable_json_schema"
    INVALID_TOOL_CONSTRAINT = "invalid_tool_constraint"
    CONSTRAINT_DEAD_END = "constraint_dead_end"
    INVALID_REQUEST = "invalid_request"
    CONTEXT_LENGTH_EXCEEDED = "context_length_exceeded"
    OVERLOADED = "server_overloaded"
    QUEUE_TIMEOUT = "request_queue_timeout"
    CANCELLED = "client_disconnected"
    UNAVAILABLE = "service_unavailable"


@attrs.frozen
class Location:
    """Where a fault stands in the caller's source: line and column (from 1), list index, or JSON Pointer."""

    line: int | None = None
    column: int | None = None
    index: int | None = None
    pointer: str = ""

    def __str__(self) -> str:
        if self.line is not None:
            return f"line {self.line}, column {self.column}"
        if self.index is not None:
            return f"item {self.index}"
        return self.pointer


NOWHERE = Location()


class _Record(Exception):
    """An exception that compares by its fields: attrs alone gives exceptions the identity of objects."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and _fields(self) == _fields(other)

    def __hash__(self) -> int:
        return hash((type(self), _fields(self)))


def _fields(error: Any) -> tuple[object, ...]:
    return tuple(getattr(error, field.name) for field in attrs.fields(type(error)))


@attrs.frozen
class RequestError(_Record):
    """The request cannot be served as it stands.

    `found` is what stood there, `allowed` what would be accepted; both are short and safe to show.
    """

    kind: ErrorKind
    message: str
    location: Location = NOWHERE
    found: str = ""
    allowed: str = ""
    source: Literal["output_constraint", "tools", "request"] = "output_constraint"

    @property
    def pointer(self) -> str:
        """The JSON Pointer of the fault, empty where the source is not JSON."""
        return self.location.pointer

    def __str__(self) -> str:
        parts = [self.message]
        if str(self.location):
            parts[0] = f"{self.location}: {self.message}"
        if self.found:
            parts.append(f"found {self.found}")
        if self.allowed:
            parts.append(f"allowed: {self.allowed}")
        return "; ".join(parts)


@attrs.frozen
class SyntaxFault(RequestError):
    """The source is not in its own syntax."""


@attrs.frozen
class RefusedConstruct(RequestError):
    """The source is well formed but uses a construct that this entry does not serve exactly."""


@attrs.frozen
class TokenReferenceError(RequestError):
    """A token terminal names an id that a user's grammar may not name."""


@attrs.frozen
class UnknownRule(RequestError):
    """A rule is referred to and never defined, or defined twice."""


@attrs.frozen
class EmptyLanguage(RequestError):
    """No string at all belongs to the language."""


@attrs.frozen
class LimitExceeded(RequestError):
    """A static limit is passed: `limit` is its name, `value` what was asked, `maximum` what is served."""

    limit: str = ""
    value: int = 0
    maximum: int = 0


@attrs.frozen
class DeadEnd(RequestError):
    """No token is legal at a position that was really reached; carries the number of generated tokens."""

    position: int = 0
    num_generated: int = 0


@attrs.frozen
class VocabularyFileError(RequestError):
    """The files of a model directory do not say what its tokens are; `file` is the one at fault."""

    file: str = ""


@attrs.frozen
class MissingDependency(_Record):
    """An optional package is absent; the text says how to get it."""

    package: str
    install: str

    def __str__(self) -> str:
        return f"the package '{self.package}' is not installed; get it with: {self.install}"


@attrs.frozen
class IntegrityError(_Record):
    """The engine broke one of its own rules; never worded as the caller's mistake."""

    message: str

    def __str__(self) -> str:
        return self.message


@attrs.frozen
class TransactionError(IntegrityError):
    """A matcher transaction was used out of order (contract: preview and look-ahead exclude each other)."""


@attrs.frozen
class CoreFault(IntegrityError):
    """A matching core refused a token that its own mask opened, failed, or died."""


@attrs.frozen
class NonFiniteLogits(IntegrityError):
    """A row's legal logits hold NaN or +inf, or no finite value at all, at output position `position`."""

    position: int = 0
