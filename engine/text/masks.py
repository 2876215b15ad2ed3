"""The legal sets of a verification window, packed, in a buffer the caller owns (contract 6).

Word id // 32, bit id % 32, 1 = legal; ceil(V / 32) int32 words a row; bits at and past V are zero. Row i is
the legal set after the first i drafts. The walk ends at an empty set (DEAD_END), at a draft that is not legal
(its own row is READY: the proposal is at fault), after a completion id, or with the bonus row. Every row of
the buffer is written: rows without a legal set hold a harmless filler and are never sampled from.
"""

import enum
from collections.abc import Sequence

import numpy as np
from jaxtyping import Int32
from torch import Tensor

from engine.errors import CoreFault
from engine.text.matcher import Matcher


class PositionState(enum.IntEnum):
    """What a row of a window stands for."""

    READY = 0
    DEAD_END = 1
    UNREACHABLE = 2
    UNCONSTRAINED = 3
    DEAD_END_BY_BANS = 4


READY, UNREACHABLE = PositionState.READY, PositionState.UNREACHABLE  # looked up once: this is the hot path


def words_for(vocab_size: int) -> int:
    """The number of int32 words of a packed row over `vocab_size` ids."""
    return (vocab_size + 31) // 32


def fill_window(
    matcher: Matcher,
    drafts: Sequence[int],
    out: Int32[Tensor, "positions words"] | Int32[np.ndarray, "positions words"],
    *,
    banned_bitmask: Int32[Tensor, " words"] | None = None,
) -> tuple[PositionState, ...]:
    """Write one row for each prefix of `drafts`, and filler into the rows past the window.

    `out` is a CPU tensor, or the numpy view of one: who fills every step keeps the view, it costs a third.
    Returns a state for every row of `out`. Banned ids stay in the written sets; a set that they empty is
    DEAD_END_BY_BANS, and a banned draft ends the walk like an illegal one. The matcher is as before
    afterwards, on exceptions too. Raises CoreFault, TransactionError; ValueError when `out` is too small.
    """
    rows = out if isinstance(out, np.ndarray) else out.numpy()
    num_rows = len(rows)
    if len(drafts) >= num_rows:
        raise ValueError(f"{len(drafts)} drafts need {len(drafts) + 1} rows, the buffer has {num_rows}")
    unbanned = None if banned_bitmask is None else ~banned_bitmask.numpy()
    matcher.begin_look_ahead()
    try:
        states = _walk(matcher, drafts, rows, unbanned)
    finally:
        matcher.end_look_ahead()
    if len(states) == num_rows and states[-1] is READY:
        return tuple(states)
    write_filler(rows[len(states) - (states[-1] is not READY) :])
    return (*states, *[UNREACHABLE] * (num_rows - len(states)))


def _walk(
    matcher: Matcher, drafts: Sequence[int], rows: np.ndarray, unbanned: np.ndarray | None
) -> list[PositionState]:
    """Fill rows along the drafts and return the states of the rows walked; at least one."""
    if matcher.terminated:
        return [UNREACHABLE]
    states: list[PositionState] = []
    may_be_empty = unbanned is not None or not matcher.never_stuck
    for index in range(len(drafts) + 1):
        words = rows[index]
        matcher.fill_words(words)
        legal = words if unbanned is None else words & unbanned
        if may_be_empty and is_empty(legal):
            emptied = unbanned is not None and not is_empty(words)
            states.append(PositionState.DEAD_END_BY_BANS if emptied else PositionState.DEAD_END)
            break
        states.append(READY)
        if index == len(drafts) or not is_legal(legal, drafts[index], matcher.vocab_size):
            break
        if not matcher.accept(drafts[index]):
            raise CoreFault(f"the core opened token {drafts[index]} and then refused it")
        if matcher.terminated:
            break
    return states


def is_empty(words: np.ndarray) -> bool:
    """Whether no bit of a packed row is set; stops at the first byte that has one."""
    flags = words.view(np.bool_)
    return not flags[flags.argmax()]


def write_filler(rows: np.ndarray) -> None:
    """Make rows of shape (rows, words) harmless to read: one id open, never sampled from."""
    rows[:] = 0
    rows[:, 0] = 1


def is_legal(words: np.ndarray, token_id: int, vocab_size: int) -> bool:
    """Whether an id, in range or not, has its bit set in a packed row of shape (words,)."""
    return 0 <= token_id < vocab_size and bool(words[token_id >> 5] >> (token_id & 31) & 1)
