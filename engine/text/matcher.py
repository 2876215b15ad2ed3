"""One request's mutable position in its language, moved by transactions (contract: TXN-3 to TXN-9).

A preview takes tokens provisionally; `confirm` makes them committed and cannot fail, `discard` takes them
back. A look-ahead takes tokens for the length of a `with` block and always takes them back, on exceptions
too. The two exclude each other and themselves: anything out of order is a TransactionError. Nothing is copied
and no history is replayed; undo is the core's rollback by exactly the tokens that were accepted. A companion
beside the core narrows its rows and moves with it, one token one step of both.
"""

import enum
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from jaxtyping import Int32
from torch import Tensor

from engine.errors import CoreFault, TransactionError
from engine.text.companion import Companion
from engine.text.cores.base import CoreMatcher


class _State(enum.Enum):
    IDLE = "idle"
    PREVIEW = "an output preview is open"
    LOOK_AHEAD = "a look-ahead is open"


# Looked up once: an enum's members cost as much as the test they are used in, and this is the hot path.
IDLE, PREVIEW, LOOK_AHEAD = _State.IDLE, _State.PREVIEW, _State.LOOK_AHEAD


class Matcher:
    """A core matcher with its transaction; `num_*` count what it has done, for observation.

    `never_stuck`: every reachable state has a legal token, because each byte of UTF-8 is a token by itself.
    A companion must keep that true: whoever attaches one knows that it never closes the last token.
    """

    def __init__(self, core: CoreMatcher, vocab_size: int, companion: Companion | None = None) -> None:
        self._core = core
        self._companion = companion
        self._state = IDLE
        self._num_provisional = 0
        self.never_stuck = core.never_stuck
        self.vocab_size = vocab_size
        self.num_committed = 0
        self.num_fills = 0
        self.num_accepts = 0
        self.num_rollbacks = 0

    @property
    def may_end(self) -> bool:
        """Whether everything taken so far, provisional tokens included, is a member of the language."""
        return self._core.may_end()

    @property
    def terminated(self) -> bool:
        """Whether the last token taken is a completion id: nothing more is legal."""
        return self._core.terminated

    @property
    def previewing(self) -> bool:
        """Whether an output preview is open."""
        return self._state is PREVIEW

    def fill(self, row: Int32[Tensor, " words"]) -> None:
        """Write the legal set of the current state into a contiguous CPU row; all zero once terminated.

        Raises TransactionError while a preview is open, CoreFault.
        """
        self.fill_words(row.numpy())

    def fill_words(self, words: np.ndarray) -> None:
        """`fill` for the numpy view of a row, int32 of shape (words,)."""
        if self._state is PREVIEW:
            raise TransactionError("masks were asked for while an output preview is open")
        if self._core.terminated:
            words[:] = 0
            return
        self.num_fills += 1
        self._core.fill(words)
        if self._companion is not None:
            self._companion.clear(words)

    @contextmanager
    def look_ahead(self) -> Iterator["Matcher"]:
        """Hypothetical tokens: `accept` inside the `with` block, all of them taken back at its end.

        Raises TransactionError when a transaction is open.
        """
        self.begin_look_ahead()
        try:
            yield self
        finally:
            self.end_look_ahead()

    def begin_look_ahead(self) -> None:
        """Open a look-ahead; the caller closes it in a `finally`, as `look_ahead` does."""
        if self._state is not IDLE:
            raise TransactionError(self._state.value)
        self._state = LOOK_AHEAD

    def end_look_ahead(self) -> None:
        """Take back everything accepted in the look-ahead. Raises TransactionError without one."""
        if self._state is not LOOK_AHEAD:
            raise TransactionError("there is no look-ahead to end")
        self._undo()

    def accept(self, token_id: int) -> bool:
        """Take one hypothetical token; False leaves the state as it was. Only inside a look-ahead.

        Raises TransactionError, CoreFault.
        """
        if self._state is not LOOK_AHEAD:
            raise TransactionError("a token was offered outside a look-ahead")
        return self._take(token_id)

    def preview(self, token_ids: Sequence[int]) -> int:
        """Take really produced tokens provisionally, all or none, and return how many.

        Raises TransactionError when a transaction is open; CoreFault for a token that the language refuses
        (then nothing is open and the state is as before).
        """
        self._require_idle()
        self._state = PREVIEW
        try:
            for index, token_id in enumerate(token_ids):
                if not self._take(token_id):
                    raise CoreFault(f"token {token_id} at index {index} of a preview is not legal")
        except BaseException:
            self._undo()
            raise
        return self._num_provisional

    def confirm(self) -> None:
        """Make the open preview real; without one nothing changes. Checks nothing and cannot fail."""
        self.num_committed += self._num_provisional
        self._num_provisional = 0
        self._state = IDLE
        if self._companion is not None:
            self._companion.confirm()

    def discard(self) -> None:
        """Take the open preview back. Raises TransactionError without one."""
        if self._state is not PREVIEW:
            raise TransactionError("there is no output preview to discard")
        self._undo()

    def fork(self) -> "Matcher":
        """An independent matcher in the same committed state. Raises TransactionError in a transaction."""
        self._require_idle()
        companion = None if self._companion is None else self._companion.fork()
        twin = Matcher(self._core.fork(), self.vocab_size, companion)
        twin.num_committed = self.num_committed
        return twin

    def _take(self, token_id: int) -> bool:
        self.num_accepts += 1
        if not self._core.accept(token_id):
            return False
        if self._companion is not None and not self._companion.accept(token_id):
            self._core.rollback(1)
            return False
        self._num_provisional += 1
        return True

    def _undo(self) -> None:
        taken, self._num_provisional = self._num_provisional, 0
        self._state = IDLE
        if taken:
            self.num_rollbacks += 1
            self._core.rollback(taken)
            if self._companion is not None:
                self._companion.rollback(taken)

    def _require_idle(self) -> None:
        if self._state is not IDLE:
            raise TransactionError(self._state.value)
