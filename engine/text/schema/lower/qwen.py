"""The arguments of a strict tool as rules: a parameter is raw text, or a JSON value, between fixed marks.

Both come out of the reduction that JSON answers use (TOOL-19 to TOOL-28). Raw text is any member of its
string sets up to the first `value_end`, which cannot occur in it; a JSON value has the template's separators,
64-bit integers and finite binary64 numbers. Each terminal holds the mark behind it, so it ends in one place.
"""

import functools
from collections.abc import Iterator
from fractions import Fraction

import attrs

from engine.errors import EmptyLanguage, Location, RefusedConstruct
from engine.request import JsonOptions, Whitespace
from engine.text import automaton
from engine.text.expr import (
    EPSILON,
    NOTHING,
    Bytes,
    Expr,
    Grammar,
    Lexeme,
    alt,
    chars,
    literal,
    negated,
    repeat,
    seq,
)
from engine.text.lengths import ANY, ANYTHING
from engine.text.schema.lower.json import UNSATISFIABLE, Lowerer
from engine.text.schema.nodes import UNSUPPORTED
from engine.text.schema.numbers import NumberSet
from engine.text.schema.numbers_binary64 import LARGEST
from engine.text.schema.reduce.branches import Node
from engine.text.schema.reduce.clauses import Expansion, ObjectClause, Slot
from engine.text.schema.reduce.places import pointing_at
from engine.text.schema.reduce.reducer import Reducer
from engine.text.schema.strings import StringSet, literal_language, needed_parts

FINITE = NumberSet(low=Fraction(-LARGEST), high=Fraction(LARGEST))
OPTIONS = JsonOptions(whitespace=Whitespace.FIXED)


@attrs.frozen
class ArgumentMarks:
    """What stands around a parameter: `open` NAME `name_end` VALUE `value_end` `tail`.

    The first character of `value_end` stands nowhere else in it.
    """

    open: str
    name_end: str
    value_end: str
    tail: str

    @property
    def close(self) -> Bytes:
        """What follows a value."""
        return literal(self.value_end + self.tail)

    def any_text(self) -> Lexeme:
        """Any text as a value, with what follows it."""
        return Lexeme(seq([up_to(self.value_end), literal(self.tail)]))


@functools.cache
def up_to(mark: str) -> Expr:
    """The texts that end with their only `mark`, whose first character stands only once in it."""
    first, rest = mark[0], mark[1:]
    assert first not in rest, "the mark begins again inside itself"
    begin = chars([(ord(first), ord(first))])
    partial = [literal(rest[:size]) for size in range(len(rest))]
    broken = [
        seq([literal(rest[:size]), negated(chars([(ord(first), ord(first)), (ord(due), ord(due))]))])
        for size, due in enumerate(rest)
    ]
    run = seq(
        [begin, repeat(seq([alt(partial), begin]), 0, None)]
    )  # beginnings of the mark, the last one open
    return seq([repeat(alt([negated(begin), seq([run, alt(broken)])]), 0, None), run, literal(rest)])


def arguments_grammar(
    reducer: Reducer, clause: ObjectClause, text_names: frozenset[str], marks: ArgumentMarks
) -> Grammar:
    """The parameters of a call, in the order of the clause's slots; those in `text_names` are raw text.

    Raises RequestError with a pointer into the schema.
    """
    if (
        clause.min_members > sum(slot.required for slot in clause.slots)
        or clause.witnesses
        or _is_capped(clause)
    ):
        raise RefusedConstruct(
            UNSUPPORTED,
            "strict arguments are written one by one, and their number is not counted",
            Location(pointer=clause.pointer),
            "minProperties, maxProperties, or a member that some name must have",
            "required and optional properties",
        )
    lowerer = _ArgumentLowerer(reducer, clause, text_names, marks)
    return lowerer.lower(lowerer.root).grammar


def _is_capped(clause: ObjectClause) -> bool:
    return clause.max_members is not None and clause.max_members < len(clause.slots)


class _ArgumentLowerer(Lowerer):
    """Writes the root as parameters instead of an object; all below it is JSON."""

    def __init__(
        self, reducer: Reducer, clause: ObjectClause, text_names: frozenset[str], marks: ArgumentMarks
    ) -> None:
        super().__init__(reducer, OPTIONS)
        self.root = reducer.node([(reducer.document.root, True)])
        self._clause, self._text_names, self._marks = clause, text_names, marks
        self._root_is_due = True  # a schema may refer to its own root: there it is an object again

    def value(self, node: Node) -> Expr:
        """The language of a node; asked first for the root, it is the sequence of parameters."""
        if not self._root_is_due:
            return super().value(node)
        self._root_is_due = False
        return seq([self._parameter(slot) for slot in self._clause.slots])

    def _parameter(self, slot: Slot) -> Expr:
        head = Lexeme(literal(self._marks.open + slot.name + self._marks.name_end))
        if slot.name in self._text_names:
            value = self._text(slot)
        else:
            value = seq([super().value(slot.node), Lexeme(self._marks.close)])
        whole = seq([head, value])
        return whole if slot.required else self.rule(alt([whole, EPSILON]))

    def _text(self, slot: Slot) -> Expr:
        """The raw texts of a slot, each with what follows it."""
        domain = self.reducer.expand(slot.node)
        listed = [value for value in domain.values if isinstance(value, str)]
        with pointing_at(slot.node):
            parts = [part for strings in domain.strings for part in raw_terminals(strings, self._marks)]
        if listed:
            parts.append(Lexeme(seq([literal_language(listed), self._marks.close])))
        if not parts and slot.required:
            pointer = slot.node[0][0].pointer if slot.node else self._clause.pointer
            raise EmptyLanguage(UNSATISFIABLE, "no text can be written here", Location(pointer=pointer))
        return alt(parts)

    def _scalars(self, node: Node, expansion: Expansion) -> list[Expr]:
        finite = tuple(n if n.integer else n.intersect(FINITE) for n in expansion.numbers)
        return super()._scalars(node, attrs.evolve(expansion, numbers=finite))


@functools.lru_cache(maxsize=1024)
def raw_terminals(strings: StringSet, marks: ArgumentMarks) -> tuple[Lexeme, ...]:
    """The members of a set that hold no `value_end`, as they stand, each with what follows it; maybe none.

    Beside a terminal that has to count or to search stands one for the members in which the mark cannot even
    begin: while it is alive, masks of common text cost little.
    """
    return tuple(_raw_terminals(strings, marks))


def _raw_terminals(strings: StringSet, marks: ArgumentMarks) -> Iterator[Lexeme]:
    holding = seq([ANYTHING, literal(marks.value_end), ANYTHING])
    if strings.is_free:
        yield marks.any_text()
        return
    if strings.intersect(StringSet(excluded=(holding,))).is_empty():
        return
    patterns, excluded = needed_parts(strings)
    for expr in (*patterns, excluded):
        automaton.check_overlap(expr)
    ended = [seq([pattern, marks.close]) for pattern in patterns]
    never = () if excluded == NOTHING else (seq([excluded, marks.close]),)
    if automaton.is_plainly_empty((*patterns, holding), (excluded,)):
        yield Lexeme(ended[0], tuple(ended[1:]), never)
        return
    yield Lexeme(ended[0], (*ended[1:], marks.any_text().body), never)
    if patterns == (repeat(ANY, strings.min_length, strings.max_length),) and not never:
        begin = ord(marks.value_end[0])
        plain = repeat(negated(chars([(begin, begin)])), strings.min_length, strings.max_length)
        yield Lexeme(seq([plain, marks.close]))
