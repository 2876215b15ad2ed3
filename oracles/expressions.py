"""A neutral syntax tree for small languages, and its plain expansion to the byte grammar of grammar_prefix.

Grammars, regular expressions and choices are all written in these few nodes. Nothing here knows a source
notation. Counted repeats are written out one copy after another; a character class becomes the byte sequences
of its UTF-8 forms, with no surrogates, found by splitting ranges where the encoding changes shape.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from oracles.grammar_prefix import Alternative, Item, Tokens

MAX_SCALAR = 0x10FFFF
SURROGATES = (0xD800, 0xDFFF)


@dataclass(frozen=True)
class Literal:
    """Exactly this text; the empty text is allowed."""

    text: str


@dataclass(frozen=True)
class CharClass:
    """One character of `ranges` (inclusive code points), or one Unicode scalar outside them if negated."""

    ranges: tuple[tuple[int, int], ...]
    negated: bool = False


@dataclass(frozen=True)
class TokenSet:
    """One whole token: one of `ids`, or any ordinary text token that is none of them if `exclude`."""

    ids: tuple[int, ...]
    exclude: bool = False


@dataclass(frozen=True)
class Ref:
    """The language of another rule."""

    name: str


@dataclass(frozen=True)
class Seq:
    """One part after another; no part means the empty text."""

    parts: tuple["Expression", ...]


@dataclass(frozen=True)
class Alt:
    """Any one of the options."""

    options: tuple["Expression", ...]


@dataclass(frozen=True)
class Repeat:
    """`body` from `low` to `high` times; None means without an upper bound. `lazy` changes no language."""

    body: "Expression"
    low: int
    high: int | None
    lazy: bool = False


Expression = Literal | CharClass | TokenSet | Ref | Seq | Alt | Repeat


def to_byte_grammar(
    rules: Mapping[str, Expression], text_ids: Iterable[int] = ()
) -> dict[str, list[Alternative]]:
    """Expand every rule to bytes and names; an excluding token set chooses from `text_ids`."""
    return _Expansion(frozenset(text_ids)).run(rules)


class _Expansion:
    def __init__(self, text_ids: frozenset[int]) -> None:
        self.text_ids = text_ids
        self.grammar: dict[str, list[Alternative]] = {}

    def run(self, rules: Mapping[str, Expression]) -> dict[str, list[Alternative]]:
        for name, body in rules.items():
            self.grammar[name] = [self._items(body)]
        return self.grammar

    def _fresh(self, alternatives: list[Alternative]) -> str:
        name = f"#{len(self.grammar)}"
        self.grammar[name] = alternatives
        return name

    def _items(self, node: Expression) -> Alternative:
        if isinstance(node, Literal):
            return tuple(frozenset([byte]) for byte in node.text.encode())
        if isinstance(node, CharClass):
            return (self._fresh(list(utf8_alternatives(scalar_ranges(node)))),)
        if isinstance(node, TokenSet):
            return (self._tokens(node),)
        if isinstance(node, Ref):
            return (node.name,)
        if isinstance(node, Seq):
            return tuple(item for part in node.parts for item in self._items(part))
        if isinstance(node, Alt):
            return (self._fresh([self._items(option) for option in node.options]),)
        return self._repeat(node)

    def _tokens(self, node: TokenSet) -> Item:
        named = frozenset(node.ids)
        return Tokens(self.text_ids - named if node.exclude else named)

    def _repeat(self, node: Repeat) -> Alternative:
        body = self._fresh([self._items(node.body)])
        required: Alternative = (body,) * node.low
        if node.high is None:
            loop = self._fresh([()])
            self.grammar[loop].append((body, loop))
            return (*required, loop)
        rest: Alternative = ()
        for _ in range(node.high - node.low):
            rest = (self._fresh([(), (body, *rest)]),)
        return (*required, *rest)


def scalar_ranges(node: CharClass) -> list[tuple[int, int]]:
    """Return the sorted, disjoint code point ranges a class stands for, surrogates left out."""
    holes = [*node.ranges, SURROGATES] if node.negated else [SURROGATES]
    wanted = [(0, MAX_SCALAR)] if node.negated else merge_ranges(node.ranges)
    return subtract_ranges(wanted, merge_ranges(holes))


def merge_ranges(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return `ranges` sorted, with those that touch or overlap joined."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return merged


def subtract_ranges(wanted: list[tuple[int, int]], holes: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return what is in `wanted` and in none of `holes`."""
    kept = wanted
    for low, high in holes:
        pieces = [((a, min(b, low - 1)), (max(a, high + 1), b)) for a, b in kept]
        kept = [piece for pair in pieces for piece in pair if piece[0] <= piece[1]]
    return kept


def utf8_alternatives(ranges: Iterable[tuple[int, int]]) -> list[Alternative]:
    """Return byte-set sequences whose strings are exactly the UTF-8 forms of the code points in `ranges`."""
    found: list[Alternative] = []
    for low, high in ranges:
        for shape_low, shape_high in ((0, 0x7F), (0x80, 0x7FF), (0x800, 0xFFFF), (0x10000, MAX_SCALAR)):
            a, b = max(low, shape_low), min(high, shape_high)
            if a <= b:
                found += _same_length(chr(a).encode(), chr(b).encode())
    return found


def _same_length(low: bytes, high: bytes) -> list[Alternative]:
    """Return the byte-set sequences between two encodings of one length, in the order of code points."""
    if len(low) == 1:
        return [(frozenset(range(low[0], high[0] + 1)),)]
    if low[0] == high[0]:
        head: Item = frozenset([low[0]])
        return [(head, *rest) for rest in _same_length(low[1:], high[1:])]
    tail = len(low) - 1
    smallest, largest = b"\x80" * tail, b"\xbf" * tail
    found: list[Alternative] = []
    first, last = low[0], high[0]
    if low[1:] != smallest:
        found += [(frozenset([first]), *rest) for rest in _same_length(low[1:], largest)]
        first += 1
    upper: list[Alternative] = []
    if high[1:] != largest:
        upper = [(frozenset([last]), *rest) for rest in _same_length(smallest, high[1:])]
        last -= 1
    if first <= last:
        middle = frozenset(range(first, last + 1))
        found += [(middle, *[frozenset(range(0x80, 0xC0))] * tail)]
    return found + upper
