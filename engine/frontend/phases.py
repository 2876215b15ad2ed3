"""The phases of an output as the matcher and its window see them (PHASE-1 to PHASE-5, PHASE-9 to PHASE-12).

Reasoning ends at the THINK_CLOSE id and nowhere else; until then every generable token but a completion id is
open. Then stands SEPARATOR, as bytes: the grammar of what follows begins with it, so a token may hold its end
and the beginning of the content. An output that starts past reasoning is content from its first byte.
"""

from collections.abc import Callable, Sequence

import attrs
import numpy as np

from engine.errors import ErrorKind, RequestError
from engine.frontend.framing import REASONING_END, SEPARATOR, THINK_CLOSE, OutputIds
from engine.text.vocabulary import TokenClass, Vocabulary
from engine.text.window import PhaseRule

BUDGET_SENTENCE = "The time for thinking is over, so the answer follows from what is known."
FORCED_CLOSE = f"\n\n{BUDGET_SENTENCE}{REASONING_END}"  # stands before the close id when the budget is spent


@attrs.frozen(eq=False)
class Reasoning:
    """The token-level rule of reasoning in one vocabulary: what is open in it, and what ends it.

    Shared by all sessions; it has no state.
    """

    think_close: int
    vocab_size: int
    _open_ids: frozenset[int]
    _words: np.ndarray

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> "Reasoning":
        """The rule of a vocabulary. Raises RequestError where it has no id that ends reasoning."""
        close = OutputIds.of(vocabulary).think_close
        if close is None:
            raise RequestError(
                ErrorKind.INVALID_REQUEST,
                "the model has no token that ends thinking",
                found=f"the vocabulary {vocabulary.name}",
                allowed=f"a control token {THINK_CLOSE}, or a request without thinking",
                source="request",
            )
        generable = (*vocabulary.ids_of(TokenClass.TEXT), *vocabulary.ids_of(TokenClass.CONTROL))
        bits = np.zeros(vocabulary.num_words * 32, dtype=np.uint8)
        bits[list(generable)] = 1
        words = np.packbits(bits, bitorder="little").view(np.int32)
        return cls(close, vocabulary.size, frozenset(generable), words)

    def allows(self, token_id: int) -> bool:
        """Whether reasoning takes this token, the one that ends it included."""
        return token_id in self._open_ids

    def fill(self, words: np.ndarray) -> None:
        """Write the legal set of reasoning into a packed int32 row of shape (words,)."""
        words[:] = self._words

    def find_start(self, token_ids: Sequence[int]) -> int:
        """The index behind the first token that ends reasoning, len + 1 where none does.

        Reasoning never opens again, so what follows a first close can only be content or illegal (WIN-5).
        """
        for index, token_id in enumerate(token_ids):
            if token_id == self.think_close:
                return index + 1
        return len(token_ids) + 1


@attrs.define
class ReasoningPhase(PhaseRule):
    """The phase rule of one session's window: the shared rule, and whether content has begun for good."""

    rule: Reasoning
    begun: bool = False

    def find_start(self, token_ids: Sequence[int]) -> int:
        """0 once content has begun, without looking at the window (WIN-4, WIN-25)."""
        return 0 if self.begun else self.rule.find_start(token_ids)

    def allows(self, token_id: int) -> bool:
        """Whether reasoning takes this token."""
        return self.rule.allows(token_id)

    def fill(self, words: np.ndarray) -> None:
        """Write the legal set of reasoning."""
        self.rule.fill(words)

    def begin_content(self) -> None:
        """The close was committed."""
        self.begun = True


def forced_close(
    rule: Reasoning, encode: Callable[[str], Sequence[int]], *, text: str = FORCED_CLOSE
) -> tuple[int, ...]:
    """The tokens that end reasoning when its budget is spent: fixed text, the close id, the separator.

    They are appended at a commit boundary, through a preview of the matcher that covers all of them, without
    a sampler or a coin (PHASE-9 to PHASE-11). `encode` gives the ordinary tokens of a text.
    """
    return (*encode(text), rule.think_close, *encode(SEPARATOR))
