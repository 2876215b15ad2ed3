"""The proof that longest-match terminals lose no parse of a grammar.

A longest-match lexer cuts a text into terminals in one way only; a parse that wants another cut is lost. No
parse is lost if no two parses of one text disagree on whether the next byte continues a terminal or begins
one. That is checked on all pairs of positions (occurrences of characters) which one text can reach, in an
automaton that ignores the stack and the counts: a rule may return to any of its callers, a repetition may go
round for ever. So the check can refuse too much and never too little. Characters outside `Fused` leaves are
terminals of one character.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping

import attrs

from engine.text.rules import (
    Alt,
    Bytes,
    Chars,
    ExcludeToken,
    Expr,
    Grammar,
    Ref,
    Repeat,
    Seq,
    Token,
    components,
    fold,
)
from engine.text.vocabulary import Vocabulary

POSITION_CAP = 3_000
WORK_CAP = 300_000
ANY_BYTE = (1 << 256) - 1


@attrs.frozen(eq=False)
class Fused:
    """A leaf: any member of a regular expression without the empty string, read with the longest match."""

    expr: Expr


class TooLargeToProve(Exception):
    """The automaton or its pairs pass a cap."""


@attrs.define
class Work:
    """How many positions and pairs may still be looked at; shared by the proofs of one grammar."""

    left: int = WORK_CAP

    def spend(self, amount: int) -> None:
        """Use some of it up. Raises TooLargeToProve."""
        self.left -= amount
        if self.left < 0:
            raise TooLargeToProve


@attrs.frozen
class _Span:
    """What an expression begins and ends with, as bit sets of positions, and whether it may be empty."""

    first: int = 0
    last: int = 0
    nullable: bool = False


NO_STRING, EMPTY = _Span(), _Span(nullable=True)
Link = Callable[[int, int], None]  # every position of the first set is followed by all of the second


def find_lost_parse(grammar: Grammar, work: Work | None = None) -> frozenset[Fused] | None:
    """None when no parse is lost; otherwise the terminals that a parse may want to leave earlier.

    The grammar is trimmed and has no token terminals. Raises TooLargeToProve.
    """
    automaton = _Automaton(_boundaries(grammar), work or Work())
    spans = automaton.rule_spans(grammar)
    return automaton.disagreement(spans[grammar.root].first)


def tokens_compete(grammar: Grammar, vocabulary: Vocabulary) -> bool:
    """Whether some text can reach a place where a token by number and a character may begin alike.

    Then one token has two readings, and no core keeps both. Raises TooLargeToProve.
    """
    automaton = _Automaton(_boundaries(grammar), Work(), vocabulary)
    first = automaton.rule_spans(grammar)[grammar.root].first
    tokens = automaton.token_positions
    follows = [(first, first), *((automaton.outer[p], automaton.outer[q]) for p, q in automaton.pairs(first))]
    leads = functools.cache(automaton.leads_of)
    return any(leads(left & tokens) & leads(right & ~tokens) for left, right in follows)


def boundary_widths(grammar: Grammar, bodies: Iterable[Expr]) -> list[int]:
    """For each body, on how many first bytes a copy of it may begin, or end with a character, if fewer.

    Few tokens of a vocabulary cross from one copy to the next where this number is small.
    """
    automaton = _Automaton(_boundaries(grammar), Work())
    spans = automaton.rule_spans(grammar)
    ends = [automaton.span(body, spans, None, lambda last, first: None) for body in bodies]
    return [min(automaton.leads_of(side).bit_count() for side in (end.first, end.last)) for end in ends]


def _boundaries(grammar: Grammar) -> list[int]:
    """The code points at which some character set begins or ends, ascending."""
    edges: set[int] = set()
    for leaf in _leaves(grammar):
        for low, high in _ranges(leaf):
            edges |= {low, high + 1}
    return sorted(edges)


def _leaves(grammar: Grammar) -> Iterator[Expr]:
    waiting: list[object] = list(grammar.rules.values())
    while waiting:
        node = waiting.pop()
        if isinstance(node, Seq | Alt):
            waiting += node.items
        elif isinstance(node, Repeat):
            waiting.append(node.body)
        elif isinstance(node, Fused):
            waiting.append(node.expr)
        elif isinstance(node, Bytes | Chars):
            yield node


def _ranges(leaf: Expr) -> Iterable[tuple[int, int]]:
    if isinstance(leaf, Chars):
        return leaf.ranges
    assert isinstance(leaf, Bytes)
    return [(ord(character), ord(character)) for character in leaf.data.decode()]


class _Automaton:
    """Positions with the characters they read; `inner` edges stay in a terminal, `outer` ones begin one."""

    def __init__(self, boundaries: list[int], work: Work, vocabulary: Vocabulary | None = None) -> None:
        self.work = work
        self.atom_of = {code: index for index, code in enumerate(boundaries)}
        self.vocabulary = vocabulary
        self.token_positions = 0
        self.atoms: list[int] = []  # bit set over the intervals between boundaries
        self.leads: list[int] = []  # bit set over the 256 possible first bytes
        self.owner: list[Fused | None] = []
        self.inner: list[int] = []
        self.outer: list[int] = []
        self.known: dict[tuple[int, int], list[int]] = {}

    def rule_spans(self, grammar: Grammar) -> Mapping[str, _Span]:
        """The span of every rule, by fixpoint; the edges are linked in a last round."""
        spans = dict.fromkeys(grammar.rules, NO_STRING)
        order = [name for group in components(grammar) for name in group]
        changed = True
        while changed:
            changed = False
            for name in order:
                span = self.span(grammar.rules[name], spans, None, lambda last, first: None)
                changed |= span != spans[name]
                spans[name] = span
        for name in order:
            self.span(grammar.rules[name], spans, None, self.link_outer)
        return spans

    def span(self, expr: Expr, spans: Mapping[str, _Span], owner: Fused | None, link: Link) -> _Span:
        """The span of one expression, linking its neighbours."""
        return fold(expr, lambda node, parts: self.node_span(node, parts, spans, owner, link))

    def node_span(
        self,
        node: Expr,
        parts: list[_Span],
        spans: Mapping[str, _Span],
        owner: Fused | None,
        link: Link,
    ) -> _Span:
        """The span of one node from those of its parts."""
        if isinstance(node, Fused):
            return attrs.evolve(self.span(node.expr, {}, node, self.link_inner), nullable=False)
        if isinstance(node, Ref):
            return spans[node.name]
        if isinstance(node, Alt):
            return _either(parts)
        if isinstance(node, Seq):
            return _in_order(parts, link)
        if isinstance(node, Repeat):
            if node.max is None or node.max > 1:
                link(parts[0].last, parts[0].first)
            return attrs.evolve(parts[0], nullable=parts[0].nullable or node.min == 0)
        steps = [_Span(1 << p, 1 << p) for p in self.leaf_positions(node, owner)]
        return _in_order(steps, link)

    def leaf_positions(self, leaf: Expr, owner: Fused | None) -> list[int]:
        """The positions of a leaf, one for each character that it reads."""
        key = (id(leaf), id(owner))
        if key not in self.known and isinstance(leaf, Token | ExcludeToken):
            self.known[key] = [self.add_token(leaf)]
        elif key not in self.known:
            sets = [leaf.ranges] if isinstance(leaf, Chars) else [[pair] for pair in _ranges(leaf)]
            self.known[key] = [self.add(ranges, owner) for ranges in sets]
        return self.known[key]

    def add(self, ranges: Iterable[tuple[int, int]], owner: Fused | None) -> int:
        """A new position that reads one character out of `ranges`."""
        atoms = leads = 0
        for low, high in ranges:
            atoms |= (1 << self.atom_of[high + 1]) - (1 << self.atom_of[low])
            leads |= (2 << chr(high).encode()[0]) - (1 << chr(low).encode()[0])
        return self.append(atoms, leads, owner)

    def add_token(self, leaf: Token | ExcludeToken) -> int:
        """A new position that reads one token by its number; all of these are taken to overlap."""
        assert self.vocabulary is not None, "a proof about terminals has no tokens"
        leads = 0 if isinstance(leaf, Token) else ANY_BYTE
        for token_id in leaf.ids if isinstance(leaf, Token) else ():
            leads |= 1 << self.vocabulary.core_bytes(token_id)[0]
        position = self.append(1 << len(self.atom_of), leads, None)
        self.token_positions |= 1 << position
        return position

    def append(self, atoms: int, leads: int, owner: Fused | None) -> int:
        """A new position without neighbours."""
        if len(self.owner) >= POSITION_CAP:
            raise TooLargeToProve
        self.atoms.append(atoms)
        self.leads.append(leads)
        self.owner.append(owner)
        self.inner.append(0)
        self.outer.append(0)
        return len(self.owner) - 1

    def link_inner(self, last: int, first: int) -> None:
        """Edges inside one terminal."""
        self.work.spend(last.bit_count())
        for position in _bits(last):
            self.inner[position] |= first

    def link_outer(self, last: int, first: int) -> None:
        """Edges from the end of one terminal to the beginning of the next."""
        self.work.spend(last.bit_count())
        for position in _bits(last):
            self.outer[position] |= first

    def disagreement(self, start: int) -> frozenset[Fused] | None:
        """The terminals inside which some pair of parses disagrees; None when there is none."""
        inner_leads = [self.leads_of(follow) for follow in self.inner]
        outer_leads = [self.leads_of(follow) for follow in self.outer]
        lost: set[Fused] = set()
        for left, right in self.pairs(start):
            for stays, leaves in ((left, right), (right, left)):
                owner = self.owner[stays]
                if owner is not None and inner_leads[stays] & outer_leads[leaves]:
                    lost.add(owner)
        return frozenset(lost) or None

    def leads_of(self, positions: int) -> int:
        """The first bytes of all positions of a set."""
        leads = 0
        for position in _bits(positions):
            leads |= self.leads[position]
        return leads

    def pairs(self, start: int) -> Iterator[tuple[int, int]]:
        """Every pair of positions that can read the last character of one text."""
        overlap = self.overlaps()
        seen = [0] * len(self.owner)
        waiting: list[tuple[int, int]] = []

        def meet(lefts: int, rights: int) -> None:
            for left in _bits(lefts):
                new = rights & overlap[left] & ~seen[left]
                seen[left] |= new
                found = [(left, right) for right in _bits(new)]
                self.work.spend(len(found) + 1)
                waiting.extend(found)

        meet(start, start)
        while waiting:
            left, right = waiting.pop()
            yield left, right
            meet(self.inner[left], self.inner[right])
            meet(self.outer[left], self.outer[right])

    def overlaps(self) -> list[int]:
        """For each position the set of positions that can read a character it reads."""
        readers: dict[int, int] = {}
        for position, atoms in enumerate(self.atoms):
            for atom in _bits(atoms):
                readers[atom] = readers.get(atom, 0) | 1 << position
        return [_union(readers[atom] for atom in _bits(atoms)) for atoms in self.atoms]


def _union(sets: Iterable[int]) -> int:
    union = 0
    for one in sets:
        union |= one
    return union


def _either(parts: list[_Span]) -> _Span:
    return _Span(
        _union(part.first for part in parts),
        _union(part.last for part in parts),
        any(part.nullable for part in parts),
    )


def _in_order(parts: list[_Span], link: Link) -> _Span:
    whole = EMPTY
    for part in parts:
        link(whole.last, part.first)
        whole = _Span(
            whole.first | part.first if whole.nullable else whole.first,
            whole.last | part.last if part.nullable else part.last,
            whole.nullable and part.nullable,
        )
    return whole


def _bits(bit_set: int) -> Iterator[int]:
    while bit_set:
        lowest = bit_set & -bit_set
        yield lowest.bit_length() - 1
        bit_set ^= lowest
