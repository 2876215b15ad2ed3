"""Legal token ids by trying every id on a parse, and the packed layout of a mask row.

An id is legal iff its whole byte string, or the id itself as one atomic symbol, can be consumed and a finite
continuation remains; completion ids are legal iff the bytes so far are a member. `token_bytes[i]` is None
where no byte rule may see the id (control, completion and ungenerable ids).
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from oracles.grammar_prefix import Earley, State

TokenBytes = Sequence[bytes | None]


def state_after(parser: Earley, token_ids: Iterable[int], token_bytes: TokenBytes) -> State | None:
    """Return the state of a fresh parse of the tokens, None when they leave the language."""
    state = parser.start()
    for token_id in token_ids:
        if state is None:
            return None
        state = parser.advance_token(state, token_id, token_bytes[token_id])
    return state


def legal_ids(
    parser: Earley, token_ids: Sequence[int], token_bytes: TokenBytes, eos_ids: Iterable[int]
) -> set[int]:
    """Return the ids that may follow `token_ids`, each one tried on a fresh parse of everything before it."""
    candidates = set(range(len(token_bytes))) - set(eos_ids)
    legal = {i for i in candidates if state_after(parser, [*token_ids, i], token_bytes) is not None}
    if parser.accepting(state_after(parser, token_ids, token_bytes)):
        legal |= set(eos_ids)
    return legal


class TokenTrie:
    """All token bytes of a vocabulary as one tree, so that a whole vocabulary is tried in one walk."""

    def __init__(self, token_bytes: TokenBytes) -> None:
        self.token_bytes = token_bytes
        self.root = _TrieNode()
        for token_id, data in enumerate(token_bytes):
            if data:
                self._insert(token_id, data)

    def _insert(self, token_id: int, data: bytes) -> None:
        node = self.root
        for byte in data:
            node = node.children.setdefault(byte, _TrieNode())
        node.token_ids.append(token_id)

    def legal_ids(self, parser: Earley, state: State, eos_ids: Iterable[int]) -> set[int]:
        """Return the ids legal in `state`; equal to the module's `legal_ids` on the same prefix."""
        legal = set().union(*(ids for ids, _, _ in state.token_scans))
        legal |= set(self._by_bytes(parser, state))
        return legal | set(eos_ids) if state.accepting else legal

    def _by_bytes(self, parser: Earley, state: State) -> Iterator[int]:
        stack = [(self.root, state)]
        while stack:
            node, current = stack.pop()
            yield from node.token_ids
            for byte, child in node.children.items():
                after = parser.advance(current, byte)
                if after is not None:
                    stack.append((child, after))


class _TrieNode:
    __slots__ = ("children", "token_ids")

    def __init__(self) -> None:
        self.children: dict[int, _TrieNode] = {}
        self.token_ids: list[int] = []


def num_words(vocab_size: int) -> int:
    """Return how many 32-bit words hold one bit for each of `vocab_size` ids."""
    return -(-vocab_size // 32)


def pack(ids: Iterable[int], vocab_size: int) -> np.ndarray:
    """Return the int32 words of one row: bit id % 32 of word id // 32, all other bits zero."""
    words = [0] * num_words(vocab_size)
    for token_id in ids:
        words[token_id // 32] |= 1 << (token_id % 32)
    return np.array(words, dtype=np.uint32).view(np.int32)


def unpack(words: Sequence[int] | np.ndarray) -> set[int]:
    """Return the ids whose bits are set in the int32 words of one row."""
    return {
        word * 32 + bit for word, value in enumerate(words) for bit in range(32) if (int(value) >> bit) & 1
    }
