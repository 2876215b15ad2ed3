"""Per-request state beside a matcher, for what no grammar can say (contract: TXN-9).

A companion sees exactly the tokens that the core has taken, in order, and moves in the matcher's transaction:
one token is one step of both. It only narrows: `clear` closes tokens in a row that the core has just filled,
before anyone asks whether the row is empty, and `accept` refuses exactly those tokens.
"""

from typing import Protocol

import numpy as np


class Companion(Protocol):
    """What the matcher asks of the state beside its core."""

    def clear(self, words: np.ndarray) -> None:
        """Close tokens in a packed int32 row of shape (words,); never opens one."""

    def accept(self, token_id: int) -> bool:
        """Take a token that the core has taken; False leaves the state as it was."""

    def rollback(self, num_tokens: int) -> None:
        """Take back the last tokens, all of them accepted after the last `confirm`."""

    def confirm(self) -> None:
        """What was accepted so far is never taken back. Checks nothing and cannot fail."""

    def fork(self) -> "Companion":
        """An independent companion in the same state, everything in it confirmed."""
