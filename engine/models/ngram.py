"""Prompt lookup, a drafter without a model: propose what followed an earlier copy of the text's own end.

The longest suffix of the tokens with a length in [min_len, max_len] that occurs earlier is taken; among its
occurrences the earliest or the most recent one. At most `num_drafts` tokens after it are proposed, never past
the end of the text. The suffix is not its own occurrence. Nothing found: nothing is proposed.
"""

from collections.abc import Sequence
from typing import Literal

import attrs

from engine.errors import ErrorKind, RequestError


@attrs.frozen
class PromptLookup:
    """The three numbers and the choice of one lookup; `0 < min_len <= max_len`."""

    min_len: int = 2
    max_len: int = 4
    prefer: Literal["earliest", "most_recent"] = "earliest"

    def __attrs_post_init__(self) -> None:
        if not 0 < self.min_len <= self.max_len:
            raise RequestError(
                ErrorKind.INVALID_REQUEST,
                "the n-gram lengths are out of order",
                found=f"min_len={self.min_len}, max_len={self.max_len}",
                allowed="0 < min_len <= max_len",
                source="request",
            )

    def propose(self, tokens: Sequence[int], num_drafts: int) -> tuple[int, ...]:
        """Return at most `num_drafts` tokens that followed the longest earlier copy of the end."""
        if num_drafts < 1:
            return ()
        for length in range(min(self.max_len, len(tokens) - 1), self.min_len - 1, -1):
            end = self._find(tokens, length)
            if end is not None:
                return tuple(tokens[end : end + num_drafts])
        return ()

    def _find(self, tokens: Sequence[int], length: int) -> int | None:
        """Return the position after a copy of the last `length` tokens that is not the end itself."""
        suffix = list(tokens[-length:])
        starts = range(len(tokens) - length)
        for start in starts if self.prefer == "earliest" else reversed(starts):
            if list(tokens[start : start + length]) == suffix:
                return start + length
        return None
