"""A finite set of strings to a grammar (CHOICE-1 to CHOICE-4).

Exactly the listed strings, case, white space and Unicode intact. The grammar is their character trie with
chains drawn together: a common beginning stands once, so few alternatives are alive at any place. It is
built from the sorted set, so duplicates and order leave no trace. Deep tries become rules, not deep nesting.
"""

from collections.abc import Sequence

import attrs

from engine.errors import ErrorKind, Location, RequestError
from engine.text.expr import EPSILON, Expr, Grammar, Ref, alt, literal, seq
from engine.text.limits import check_limit

KIND = ErrorKind.INVALID_CHOICE
ROOT = "root"
INLINE_HEIGHT = 12  # branches inside branches, before a rule of its own is made


@attrs.define
class _Branch:
    """An open trie node: how many characters lead to it, and the continuations finished so far."""

    depth: int
    options: list[Expr] = attrs.field(factory=list)
    height: int = 0


def normalized_choices(choices: Sequence[str]) -> tuple[str, ...]:
    """The distinct strings in byte order: a choice's identity (CHOICE-3).

    Raises RequestError for no string, or for an item that is not text UTF-8 can hold (with its index);
    LimitExceeded for too many members or bytes.
    """
    if isinstance(choices, str) or not choices:
        message, allowed = "a choice needs a list of at least one string", "a non-empty list of strings"
        raise RequestError(KIND, message, found=repr(choices)[:40], allowed=allowed)
    encoded: set[bytes] = set()
    num_bytes = 0
    for index, choice in enumerate(choices):
        data = _encoded(choice, index)
        if data not in encoded:
            encoded.add(data)
            num_bytes += len(data)
            check_limit("choice_bytes", num_bytes, KIND, Location(index=index))
            check_limit("choice_members", len(encoded), KIND, Location(index=index))
    return tuple(data.decode() for data in sorted(encoded))


def _encoded(choice: object, index: int) -> bytes:
    try:
        if isinstance(choice, str):
            return choice.encode()
    except UnicodeEncodeError:
        pass
    raise RequestError(
        KIND,
        "an item of a choice is not text that UTF-8 can hold",
        Location(index=index),
        repr(choice)[:40],
        "strings of Unicode scalar values",
    )


def choice_grammar(choices: Sequence[str]) -> Grammar:
    """The grammar of exactly these strings; raises as `normalized_choices`."""
    return _Trie().grammar(normalized_choices(choices))


class _Trie:
    """Builds the trie of sorted words from the lengths their neighbours share, one open path at a time.

    `open` is the path of branches on the word just read; `done` is what is finished below it: an expression,
    the number of characters that lead to it, and how many branches it has inside branches.
    """

    def __init__(self) -> None:
        self.rules: dict[str, Expr] = {}
        self.open: list[_Branch] = []
        self.done: tuple[Expr, int, int] = (EPSILON, 0, 0)

    def grammar(self, words: Sequence[str]) -> Grammar:
        """Read the words in order; all are distinct and sorted by code points."""
        for index, word in enumerate(words):
            if index:
                self.branch_off(words[index - 1], _shared_length(words[index - 1], word))
            self.done = (EPSILON, len(word), 0)
        self.close_deeper_than(words[-1], -1)
        expr, depth, _ = self.done
        return Grammar({ROOT: seq([literal(words[-1][:depth]), expr]), **self.rules}, ROOT)

    def branch_off(self, word: str, depth: int) -> None:
        """The next word leaves `word`'s path after `depth` characters."""
        self.close_deeper_than(word, depth)
        if not self.open or self.open[-1].depth < depth:
            self.open.append(_Branch(depth))
        self.add_option(word)

    def close_deeper_than(self, word: str, depth: int) -> None:
        while self.open and self.open[-1].depth > depth:
            self.add_option(word)
            branch = self.open.pop()
            expr, height = alt(branch.options), branch.height + 1
            if height >= INLINE_HEIGHT:
                name = f"{ROOT}-{len(self.rules)}"
                self.rules[name] = expr
                expr, height = Ref(name), 0
            self.done = (expr, branch.depth, height)

    def add_option(self, word: str) -> None:
        expr, depth, height = self.done
        branch = self.open[-1]
        branch.options.append(seq([literal(word[branch.depth : depth]), expr]))
        branch.height = max(branch.height, height)


def _shared_length(first: str, second: str) -> int:
    """The length of the longest common beginning."""
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
