"""A target model that is only a table, and drafters' tables that are bad on purpose.

A row of logits is a function of the last `order` tokens: given in `overrides` for the contexts named there,
made by a seeded hash for all others, plus `boost`. So every law can be computed by an oracle, any vocabulary
and width is possible, and nothing depends on batch, lane or time. Rows are made once and then gathered.
The draft tables see the same contexts and never a constraint: illegal drafts, completion ids inside the
window, short windows and ids out of range come from `Mischief`.
"""

from collections.abc import Mapping, Sequence

import attrs
import numpy as np
import torch
from jaxtyping import Float32, Int64
from torch import Tensor

Context = tuple[int, ...]
NUM_CANDIDATES = 16
_WORD = (1 << 64) - 1
_START = 0x243F6A8885A308D3


def mix(*words: int) -> int:
    """Return a 64-bit hash of integers; equal arguments give equal results everywhere."""
    state = _START
    for word in words:
        state = (state + (word & _WORD) + 0x9E3779B97F4A7C15) & _WORD
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _WORD
        state ^= state >> 31
    return state


def noise(key: int, width: int) -> np.ndarray:
    """Return `width` float32 values in [-1, 1), one per id, made from a 64-bit key (splitmix64 per id)."""
    state = np.uint64(key) + np.arange(1, width + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    state ^= state >> np.uint64(31)
    return (state >> np.uint64(40)).astype(np.float32) / np.float32(2**23) - np.float32(1)


@attrs.frozen
class TableSpec:
    """What a table holds: `scale` times noise from `seed`, plus `boost` per id, or the row in `overrides`.

    `jitter` adds that much fresh noise to every row: a table near another one, for a drafter. Where `varying`
    names ids, only those depend on the context: wide tables stay cheap.
    """

    width: int
    seed: int = 0
    order: int = 2
    scale: float = 2.0
    boost: Mapping[int, float] = attrs.field(factory=dict)
    overrides: Mapping[Context, np.ndarray] = attrs.field(factory=dict)
    jitter: float = 0.0
    varying: tuple[int, ...] = ()

    def row(self, context: Context) -> np.ndarray:
        """Return the float32 logits of one context; the longest override that is a suffix of it wins."""
        row = self._overridden(context)
        if row is None:
            row = self._plain(context)
            for token_id, extra in self.boost.items():
                row[token_id] += np.float32(extra)
        if self.jitter:
            row += noise(mix(self.seed, 3, *context), self.width) * np.float32(self.jitter)
        return row

    def _plain(self, context: Context) -> np.ndarray:
        if not self.varying:
            return self.fresh(0, context)
        row = self.fresh(0, ())
        row[list(self.varying)] = noise(mix(self.seed, 0, *context), len(self.varying)) * np.float32(
            self.scale
        )
        return row

    def is_overridden(self, context: Context) -> bool:
        """Whether the row of a context is given."""
        return self._overridden(context) is not None

    def fresh(self, salt: int, context: Context) -> np.ndarray:
        """Return `scale` times noise that belongs to a context and a salt."""
        return noise(mix(self.seed, salt, len(context), *context), self.width) * np.float32(self.scale)

    def _overridden(self, context: Context) -> np.ndarray | None:
        for length in range(len(context), -1, -1):
            given = self.overrides.get(context[len(context) - length :])
            if given is not None:
                return np.array(given, dtype=np.float32)
        return None


class TableModel:
    """The target of the toy programs: contexts in, float32 logits out; deterministic and without state."""

    def __init__(self, spec: TableSpec) -> None:
        self.spec = spec
        self._index: dict[Context, int] = {}
        self._table = torch.empty((0, spec.width), dtype=torch.float32)
        self._out = torch.empty((0, spec.width), dtype=torch.float32)
        self._held: list[int] = []
        self._given: set[int] = {-1}
        self._varying = torch.tensor(spec.varying, dtype=torch.int64)

    @property
    def width(self) -> int:
        """Width of a row of logits, padding included."""
        return self.spec.width

    def context(self, history: Sequence[int]) -> Context:
        """Return the part of a history that the next token's logits depend on."""
        return tuple(history[-self.spec.order :]) if self.spec.order else ()

    def row(self, history: Sequence[int]) -> Float32[Tensor, " width"]:
        """Return the logits after one history."""
        return self._table[self._row_index(self.context(history))]

    def forward(
        self, histories: Sequence[Sequence[int]], drafts: Sequence[Sequence[int]], num_columns: int
    ) -> Float32[Tensor, "rows width"]:
        """Return the logits of a verification window, row-major: column i follows `history + drafts[:i]`.

        Columns past a row's drafts repeat its last one. The result is valid until the next call.
        """
        wanted: list[int] = []
        for history, row_drafts in zip(histories, drafts, strict=True):
            wanted.extend(self._window(history, row_drafts, num_columns))
        return self._gather(wanted)

    def _window(self, history: Sequence[int], drafts: Sequence[int], num_columns: int) -> list[int]:
        order = self.spec.order
        tail = [*history[-order:], *drafts] if order else []
        start = len(tail) - len(drafts) if order else 0
        indices = []
        for column in range(min(len(drafts), num_columns - 1) + 1):
            end = start + column if order else 0
            indices.append(self._row_index(tuple(tail[max(0, end - order) : end])))
        return indices + [indices[-1]] * (num_columns - len(indices))

    def _row_index(self, context: Context) -> int:
        index = self._index.get(context)
        if index is None:
            index = self._index[context] = len(self._index)
            if index == self._table.shape[0]:
                grown = torch.empty((max(16, 2 * index), self.spec.width), dtype=torch.float32)
                grown[:index] = self._table
                self._table = grown
            self._table[index] = torch.from_numpy(self.spec.row(context))
            if not self.spec.varying or self.spec.is_overridden(context):
                self._given.add(index)
        return index

    def _gather(self, wanted: list[int]) -> Float32[Tensor, "rows width"]:
        """Write only what changed since the last call, because a wide row is a megabyte."""
        if len(wanted) > len(self._held):
            self._out = torch.empty((len(wanted), self.spec.width), dtype=torch.float32)
            self._held = [-1] * len(wanted)
        changed = [row for row, index in enumerate(wanted) if self._held[row] != index]
        whole = [r for r in changed if self._held[r] in self._given or wanted[r] in self._given]
        for row in whole:
            self._out[row] = self._table[wanted[row]]
        if len(whole) < len(changed):
            rows, sources = torch.tensor(changed), torch.tensor([wanted[r] for r in changed])
            self._out[rows[:, None], self._varying] = self._table[sources[:, None], self._varying]
        for row in changed:
            self._held[row] = wanted[row]
        return self._out[: len(wanted)]


@attrs.frozen
class Mischief:
    """How badly a toy drafter behaves: odds out of 16, decided by a hash of context and position.

    `stray`: a draft is replaced by one of `stray_ids` (completion ids, illegal ids, ids out of range).
    `short`: the window is shorter than asked, down to nothing.
    """

    stray: int = 0
    stray_ids: tuple[int, ...] = ()
    short: int = 0
    seed: int = 0

    def extent(self, context: Context, num_drafts: int) -> int:
        """Return how many of `num_drafts` tokens are really proposed after `context`."""
        key = mix(self.seed, 1, *context)
        return (key >> 8) % num_drafts if num_drafts and key % 16 < self.short else num_drafts

    def draft(self, context: Context, position: int, token_id: int) -> int:
        """Return the draft at `position` (from 0) of the window after `context`."""
        key = mix(self.seed, 2, position, *context)
        if key % 16 < self.stray and self.stray_ids:
            return self.stray_ids[(key >> 8) % len(self.stray_ids)]
        return token_id


GOOD = Mischief()


class ToyMtp:
    """A greedy chain over a table near the target's: each draft follows the drafts before it."""

    def __init__(self, spec: TableSpec, mischief: Mischief = GOOD) -> None:
        self._spec, self._mischief = spec, mischief
        self._chains: dict[tuple[Context, int], tuple[int, ...]] = {}
        self._best: dict[Context, int] = {}

    def chain(self, history: Sequence[int], num_drafts: int) -> tuple[int, ...]:
        """Return at most `num_drafts` token ids that may follow `history`."""
        start = _tail(history, self._spec.order)
        key = (start, num_drafts)
        if key not in self._chains:
            self._chains[key] = self._walk(start, num_drafts)
        return self._chains[key]

    def _walk(self, start: Context, num_drafts: int) -> tuple[int, ...]:
        drafts: list[int] = []
        for position in range(self._mischief.extent(start, num_drafts)):
            context = _tail((*start, *drafts), self._spec.order)
            if context not in self._best:
                self._best[context] = _favourite(self._spec.row(context))
            drafts.append(self._mischief.draft(start, position, self._best[context]))
        return tuple(drafts)


class ToyDFlash:
    """A block: every position is guessed from the context alone, whatever the other positions hold."""

    def __init__(self, spec: TableSpec, mischief: Mischief = GOOD) -> None:
        self._spec, self._mischief = spec, mischief
        self._blocks: dict[tuple[Context, int], tuple[int, ...]] = {}

    def block(self, history: Sequence[int], num_drafts: int) -> tuple[int, ...]:
        """Return at most `num_drafts` token ids; position j is a function of the context and j."""
        context = _tail(history, self._spec.order)
        key = (context, num_drafts)
        if key not in self._blocks:
            self._blocks[key] = tuple(
                self._mischief.draft(context, j, _favourite(_block_row(self._spec, context, j)))
                for j in range(self._mischief.extent(context, num_drafts))
            )
        return self._blocks[key]


class ToyDFlash2:
    """Unary scores of 16 candidates per position, and a pair term between neighbours of the chain."""

    def __init__(self, spec: TableSpec, mischief: Mischief = GOOD, *, pair_scale: float = 1.0) -> None:
        self._spec, self._mischief, self._pair_scale = spec, mischief, pair_scale
        self._unary: dict[tuple[Context, int], tuple[Tensor, Tensor]] = {}

    def extent(self, history: Sequence[int], num_drafts: int) -> int:
        """Return how many positions are really proposed after `history`."""
        return self._mischief.extent(_tail(history, self._spec.order), num_drafts)

    def unary(
        self, histories: Sequence[Sequence[int]], num_drafts: int
    ) -> tuple[Int64[Tensor, "batch k cand"], Float32[Tensor, "batch k cand"]]:
        """Return the candidate ids of every position, best first, with their unary scores."""
        pairs = [self._one(_tail(history, self._spec.order), num_drafts) for history in histories]
        return torch.stack([ids for ids, _ in pairs]), torch.stack([scores for _, scores in pairs])

    def pair(
        self, previous: Int64[Tensor, " batch"], candidate_ids: Int64[Tensor, "batch cand"]
    ) -> Float32[Tensor, "batch cand"]:
        """Return the pair term of (token before, candidate): a rank-one product of two hashed codes."""
        before = ((previous * 40503 + 17) % 251).to(torch.float32) / 125.5 - 1.0
        after = ((candidate_ids * 30011 + 5) % 241).to(torch.float32) / 120.5 - 1.0
        return self._pair_scale * before[:, None] * after

    def _one(self, context: Context, num_drafts: int) -> tuple[Tensor, Tensor]:
        key = (context, num_drafts)
        if key not in self._unary:
            ids = np.empty((num_drafts, NUM_CANDIDATES), dtype=np.int64)
            scores = np.empty((num_drafts, NUM_CANDIDATES), dtype=np.float32)
            for j in range(num_drafts):
                row = _block_row(self._spec, context, j)
                best = _best_ids(row, NUM_CANDIDATES)
                scores[j] = row[best]
                ids[j] = [self._mischief.draft(context, j * 64 + c, int(i)) for c, i in enumerate(best)]
            self._unary[key] = (torch.from_numpy(ids), torch.from_numpy(scores))
        return self._unary[key]


def _tail(history: Sequence[int], order: int) -> Context:
    return tuple(history[-order:]) if order else ()


def _favourite(row: np.ndarray) -> int:
    """Return the id of the largest score, the smaller id on ties; NaN is no score."""
    return int(np.argmax(np.where(np.isnan(row), -np.inf, row)))


def _best_ids(row: np.ndarray, num_ids: int) -> np.ndarray:
    """Return the ids of the largest scores, best first, ties to the smaller id."""
    at_least = np.partition(row, -num_ids)[-num_ids]
    ids = np.flatnonzero(row >= at_least)
    return ids[np.argsort(-row[ids], kind="stable")][:num_ids]


def _block_row(spec: TableSpec, context: Context, position: int) -> np.ndarray:
    """Return the scores of block position `position`: the table's own row, then boosted noise."""
    if position == 0:
        return spec.row(context)
    bent = spec.fresh(7 + position, context)
    for token_id, extra in spec.boost.items():
        bent[token_id] += np.float32(extra)
    return bent
