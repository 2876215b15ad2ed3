"""What a model writes around the content of an answer, or instead of it, as part of a compiled language.

A frontend implements it; the compiler asks nothing else. Two frames of one identity make the same of equal
content: the identity is part of the cache key (CACHE-3).
"""

from typing import Protocol

import attrs

from engine.errors import ErrorKind, RequestError
from engine.request import OutputConstraint
from engine.text.sources import SourceGrammar

NO_CONTENT = OutputConstraint.choice([""])  # the constraint of a frame that has no place for content


class Frame(Protocol):
    """A way to put content between a model's own marks."""

    @property
    def identity(self) -> str:
        """Everything that `around` depends on beside the content."""

    def around(self, content: SourceGrammar) -> SourceGrammar:
        """The trimmed grammar of the whole output. Raises RequestError."""

    def fault(self, error: RequestError, kind: ErrorKind) -> RequestError:
        """The refusal of a core, which knows no sources, as one of the content's kind or of another."""


@attrs.frozen
class Bare:
    """Nothing stands around the content."""

    identity: str = ""

    def around(self, content: SourceGrammar) -> SourceGrammar:
        """The content."""
        return content

    def fault(self, error: RequestError, kind: ErrorKind) -> RequestError:
        """The error as one of the content."""
        return attrs.evolve(error, kind=kind)


BARE = Bare()
