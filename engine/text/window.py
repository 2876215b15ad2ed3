"""A pure view of one session's next window: where content rules begin, what is legal there (contract 2, 9).

A window is the tokens after the committed ones, hypothetical or produced. `start` is the index of its first
bound token, `len(window)` when only the row after it is bound, `len(window) + 1` when nothing is. Asking
changes nothing: twice the same question has the same answer. Only `accept_tokens` moves the session.
"""

from collections.abc import Sequence
from typing import Protocol

import attrs
import numpy as np
from jaxtyping import Int32
from torch import Tensor

from engine.errors import CoreFault
from engine.text.masks import PositionState, fill_window, write_filler
from engine.text.matcher import Matcher


class PhaseRule(Protocol):
    """What comes before content, a reasoning phase or nothing; a model's frontend implements it."""

    def find_start(self, token_ids: Sequence[int]) -> int:
        """The `start` of a window. Pure: depends on the window and on what `begin_content` has fixed."""
        ...

    def allows(self, token_id: int) -> bool:
        """Whether the phase before content takes this token."""
        ...

    def fill(self, words: np.ndarray) -> None:
        """Write the legal set of the phase before content into a packed row of shape (words,)."""
        ...

    def begin_content(self) -> None:
        """The boundary was committed: from now on every window starts at 0."""
        ...


@attrs.frozen
class AlwaysContent:
    """The rule of a session without a phase before its content."""

    def find_start(self, token_ids: Sequence[int]) -> int:
        """Content has always begun."""
        return 0

    def allows(self, token_id: int) -> bool:
        """There is no phase before content."""
        return False

    def fill(self, words: np.ndarray) -> None:
        """There is no phase before content: nothing is legal in it."""
        words[:] = 0

    def begin_content(self) -> None:
        """Nothing to remember."""


@attrs.frozen
class SessionWindow:
    """The three questions and the one step over a session's matcher and its phase rule."""

    matcher: Matcher
    phase: PhaseRule = AlwaysContent()

    def constraint_start(self, token_ids: Sequence[int]) -> int:
        """The first index of the window at which content rules bind, in 0..len + 1."""
        return self.phase.find_start(token_ids)

    def validate_tokens(self, token_ids: Sequence[int]) -> int:
        """How many tokens from the front are legal one after the other; only informs (contract 9)."""
        start = min(self.constraint_start(token_ids), len(token_ids))
        for index, token_id in enumerate(token_ids[:start]):
            if not self.phase.allows(token_id):
                return index
        with self.matcher.look_ahead():
            for index, token_id in enumerate(token_ids[start:], start):
                if self.matcher.terminated or not self.matcher.accept(token_id):
                    return index
        return len(token_ids)

    def fill_bitmask(
        self, token_ids: Sequence[int], out: Int32[Tensor, "positions words"]
    ) -> tuple[PositionState, ...]:
        """Write row i as the legal set after the first i tokens, every row of `out`; one state a row.

        Rows before `constraint_start` hold the set of the phase before content. Raises CoreFault, ValueError
        when `out` has not more rows than the window has tokens.
        """
        num_tokens = len(token_ids)
        if num_tokens >= out.shape[0]:
            raise ValueError(f"{num_tokens} tokens need {num_tokens + 1} rows, the buffer has {out.shape[0]}")
        start = self.constraint_start(token_ids)
        rows, states = out.numpy(), []
        for index in range(min(start, num_tokens + 1)):
            self.phase.fill(rows[index])
            states.append(PositionState.READY)
            if index < num_tokens and not self.phase.allows(token_ids[index]):
                break
        reached = len(states)
        if reached == start <= num_tokens and self._passes(token_ids, start):
            return (*states, *fill_window(self.matcher, token_ids[start:], out[start:]))
        write_filler(rows[reached:])
        return (*states, *[PositionState.UNREACHABLE] * (out.shape[0] - reached))

    def _passes(self, token_ids: Sequence[int], start: int) -> bool:
        """Whether the phase before content takes the last token before content, the boundary itself."""
        return start == 0 or self.phase.allows(token_ids[start - 1])

    def accept_tokens(self, token_ids: Sequence[int]) -> bool:
        """Commit the window: bound tokens move the matcher, a boundary ends the phase before content.

        False when a token is refused; then nothing has changed.
        """
        start = self.constraint_start(token_ids)
        bound = token_ids[start:]
        if not all(self.phase.allows(token_id) for token_id in token_ids[:start]):
            return False
        try:
            self.matcher.preview(bound)
        except CoreFault:
            return False
        self.matcher.confirm()
        if start <= len(token_ids):
            self.phase.begin_content()
        return True
