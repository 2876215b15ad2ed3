"""A core's matcher behind reasoning: the reasoning costs no parse and no history (PHASE-2 to PHASE-4).

Until the id that ends thinking the rule of `phases` answers alone; from there on the core does. Taking back
tokens over the border is exact: the core gives back only those that it took.
"""

import numpy as np

from engine.frontend.phases import Reasoning
from engine.text.cores.base import CoreMatcher


class ReasoningFirst(CoreMatcher):
    """The matcher of an output that begins in reasoning; `core` begins behind the close id."""

    def __init__(self, rule: Reasoning, core: CoreMatcher) -> None:
        self._rule = rule
        self._core = core
        self._num_inside: int | None = None  # tokens that the core has taken; None while reasoning

    @property
    def never_stuck(self) -> bool:
        """Reasoning always goes on."""
        return self._core.never_stuck

    @property
    def terminated(self) -> bool:
        """Whether a completion id was taken."""
        return self._num_inside is not None and self._core.terminated

    def may_end(self) -> bool:
        """No output ends in reasoning (PHASE-3)."""
        return self._num_inside is not None and self._core.may_end()

    def fill(self, words: np.ndarray) -> None:
        """Write the legal set into a packed int32 row of shape (words,)."""
        if self._num_inside is None:
            self._rule.fill(words)
        else:
            self._core.fill(words)

    def accept(self, token_id: int) -> bool:
        """Take one token; False leaves the state as it was."""
        if self._num_inside is None:
            if token_id == self._rule.think_close:
                self._num_inside = 0
            return self._rule.allows(token_id)
        taken = self._core.accept(token_id)
        self._num_inside += taken
        return taken

    def rollback(self, num_tokens: int) -> None:
        """Take back the last tokens, the close id among them."""
        if self._num_inside is None:
            return
        inside = min(num_tokens, self._num_inside)
        self._core.rollback(inside)
        self._num_inside = self._num_inside - inside if num_tokens == inside else None

    def fork(self) -> "ReasoningFirst":
        """An independent matcher in the same state."""
        twin = ReasoningFirst(self._rule, self._core.fork())
        twin._num_inside = self._num_inside
        return twin
