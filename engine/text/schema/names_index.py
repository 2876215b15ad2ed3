"""What a vocabulary's tokens can do to the member names of a JSON text; built once, shared by all trackers.

Names are in canonical escapes, so everything here is about bytes: which tokens close a name that has a given
rest, which may hold a whole name by themselves, and which do nothing where they stand.
"""

import re
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache

import attrs
import numpy as np

from engine.text.vocabulary import TokenClass, Vocabulary

QUIET_OUTSIDE, QUIET_INSIDE = 1, 2
ACTS_OUTSIDE, ACTS_INSIDE = b'"{}[],:', b'"\\'
QUOTE = re.compile(rb'"')
NAME_FROM_HERE = re.compile(rb'((?:[^"\\]|\\.)*)"', re.DOTALL)
SPACES = b" \t\n\r"


@attrs.frozen(eq=False)
class ClosedIds:
    """A set of ids as something to take out of packed rows."""

    ids: np.ndarray  # ascending, int64
    _words: np.ndarray
    _kept_bits: np.ndarray

    @classmethod
    def of(cls, ids: Iterable[int]) -> "ClosedIds":
        """A set of at least one id."""
        array = np.unique(np.fromiter(ids, dtype=np.int64))
        words, starts = np.unique(array >> 5, return_index=True)
        bits = np.bitwise_or.reduceat(np.uint32(1) << (array & 31).astype(np.uint32), starts)
        return cls(array, words, (~bits).view(np.int32))

    def __or__(self, other: "ClosedIds") -> "ClosedIds":
        return ClosedIds.of([*self.ids.tolist(), *other.ids.tolist()])

    def clear(self, words: np.ndarray) -> None:
        """Close the ids in a packed int32 row of shape (words,)."""
        words[self._words] &= self._kept_bits


@attrs.frozen(eq=False)
class NamesIndex:
    """The tables of one vocabulary; ids that are not TEXT have no bytes here.

    `closers[rest]`: the tokens that begin with `rest` and a quote. `holders[name]`: those that can hold the
    name from quote to quote. `doubles` can hold one name twice; `echoes` can end a name and hold a whole one
    behind it. The last three are supersets for a walk to look through, empty or short on real vocabularies.
    `quiet[id]`: QUIET_OUTSIDE strings or QUIET_INSIDE them no byte of the token acts.
    """

    token_bytes: tuple[bytes | None, ...]
    quiet: bytes
    closers: dict[bytes, ClosedIds]
    longest_rest: int
    holders: dict[bytes, tuple[int, ...]]
    doubles: tuple[int, ...]
    echoes: tuple[int, ...]

    @classmethod
    def build(cls, vocabulary: Vocabulary) -> "NamesIndex":
        """Read every token of a vocabulary once."""
        text = TokenClass.TEXT
        pairs = zip(vocabulary.token_bytes, vocabulary.classes, strict=True)
        token_bytes = tuple(data if kind is text else None for data, kind in pairs)
        closers, holders = defaultdict(list), defaultdict(list)
        doubles, echoes = [], []
        for token_id, data in enumerate(token_bytes):
            if data is None or b'"' not in data:
                continue
            quotes = [found.start() for found in QUOTE.finditer(data)]
            for at in quotes:
                closers[data[:at]].append(token_id)
            held = dict(_whole_names(data, quotes))
            for name in set(held.values()):
                holders[name].append(token_id)
            if len(set(held.values())) < len(held):
                doubles.append(token_id)
            if max(held, default=0) > quotes[0]:
                echoes.append(token_id)
        return cls(
            token_bytes,
            _quiet(token_bytes),
            {rest: ClosedIds.of(ids) for rest, ids in closers.items()},
            max(map(len, closers), default=0),
            {name: tuple(ids) for name, ids in holders.items()},
            tuple(doubles),
            tuple(echoes),
        )

    def rests(self, name: bytes) -> Iterator[tuple[bytes, ClosedIds]]:
        """Each beginning of `name` behind which tokens close it exactly, with those tokens."""
        for cut in range(max(0, len(name) - self.longest_rest), len(name) + 1):
            found = self.closers.get(name[cut:])
            if found is not None:
                yield name[:cut], found


def _quiet(token_bytes: tuple[bytes | None, ...]) -> bytes:
    """A flag byte for each id, worked out over all bytes at once: most tokens are never looked at again."""
    acts = np.zeros(256, dtype=np.uint8)
    acts[list(ACTS_OUTSIDE)] |= QUIET_OUTSIDE
    acts[list(ACTS_INSIDE)] |= QUIET_INSIDE
    texts = [data for data in token_bytes if data]
    starts = np.cumsum([0, *map(len, texts)])[:-1]
    quiet = np.full(len(token_bytes), QUIET_OUTSIDE | QUIET_INSIDE, dtype=np.uint8)
    if texts:
        each = acts[np.frombuffer(b"".join(texts), dtype=np.uint8)]
        quiet[[bool(data) for data in token_bytes]] ^= np.bitwise_or.reduceat(each, starts)
    return quiet.tobytes()


def _whole_names(data: bytes, quotes: list[int]) -> Iterator[tuple[int, bytes]]:
    """Where member names can stand whole in a token of a JSON text, by the place of their first quote.

    A name follows an opening brace, a comma or what the tokens before have left, and a colon follows it.
    """
    for at in quotes:
        found = NAME_FROM_HERE.match(data, at + 1)
        before = data[:at].rstrip(SPACES)
        if found and before[-1:] in (b"", b"{", b","):
            behind = data[found.end() :].lstrip(SPACES)
            if behind[:1] in (b"", b":"):
                yield at, found[1]


_LOCK = threading.Lock()


def names_index(vocabulary: Vocabulary) -> NamesIndex:
    """The index of a vocabulary, built by the first of racing callers."""
    with _LOCK:
        return _built(vocabulary)


@lru_cache(maxsize=4)
def _built(vocabulary: Vocabulary) -> NamesIndex:
    return NamesIndex.build(vocabulary)
