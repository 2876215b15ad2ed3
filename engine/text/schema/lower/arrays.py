"""Array clauses to rules: positions, tail and lengths; counts of special items; items that all differ."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING

from engine.errors import Location, RefusedConstruct
from engine.text.expr import EPSILON, NOTHING, Expr, Lexeme, Ref, alt, literal, repeat, seq
from engine.text.limits import check_limit
from engine.text.schema.lower.layout import spellings
from engine.text.schema.nodes import UNSUPPORTED
from engine.text.schema.reduce.branches import Node
from engine.text.schema.reduce.clauses import ArrayClause, Counted
from engine.text.schema.source import Number, Value, equality_key

if TYPE_CHECKING:
    from engine.text.schema.lower.json import Lowerer

DISTINCT_ITEMS = 64  # values of one item that are told apart, where all items must differ


def lowered(clause: ArrayClause, lowerer: "Lowerer") -> Expr:
    """The arrays of a clause. Raises RequestError."""
    if clause.unique and clause.max_items != 0 and clause.max_items != 1:
        inside = _Distinct(clause, lowerer).start()
    elif clause.counted:
        inside = _Counting(clause, lowerer).start()
    else:
        inside = _plain(clause, lowerer)
    layout = lowerer.layout
    full = seq([layout.opening("["), inside, layout.closing("]")])
    may_be_empty = clause.min_items == 0 and not any(special.minimum for special in clause.counted)
    return alt([layout.empty("[]"), full]) if may_be_empty else full


def _plain(clause: ArrayClause, lowerer: "Lowerer") -> Expr:
    """One item or more."""
    if clause.max_items == 0:
        return NOTHING
    length = len(clause.prefix) if clause.max_items is None else min(len(clause.prefix), clause.max_items)
    rest = _tail(clause, max(length, 1), lowerer)
    for index in range(length - 1, 0, -1):
        more = seq([lowerer.comma, lowerer.value(clause.prefix[index]), rest])
        rest = lowerer.rule(more if index < clause.min_items else alt([EPSILON, more]))
    return seq([lowerer.value(clause.prefix[0] if length else clause.tail), rest])


def _tail(clause: ArrayClause, done: int, lowerer: "Lowerer") -> Expr:
    """Further items after `done` ones, all positions with rules of their own behind them."""
    if clause.max_items is not None and clause.max_items <= done:
        return EPSILON
    most = None if clause.max_items is None else clause.max_items - done
    item = seq([lowerer.comma, lowerer.value(clause.tail)])
    return repeat(item, max(0, clause.min_items - done), most)


class _Counting:
    """Arrays with counts: a state is the position, as far as it matters, and the counts so far.

    Where a count has no upper bound an item may be counted or not, at will; a bounded one is decided.
    """

    def __init__(self, clause: ArrayClause, lowerer: "Lowerer") -> None:
        self._clause = clause
        self._lowerer = lowerer
        starts = [special.start + 1 for special in clause.counted]
        self._last = max([len(clause.prefix), clause.min_items, *starts])
        if clause.max_items is not None:
            self._last = clause.max_items
        self._states: dict[tuple[int, tuple[int, ...]], Expr] = {}

    def start(self) -> Expr:
        """All non-empty arrays."""
        zero = tuple(0 for _ in self._clause.counted)
        waiting, num_steps = [(0, zero)], 0
        pieces: dict[tuple[int, tuple[int, ...]], str] = {}
        while waiting:
            state = waiting.pop()
            if state in pieces:
                continue
            pieces[state] = f"a{len(self._lowerer.rules)}-{len(pieces)}"
            self._lowerer.rules[pieces[state]] = NOTHING
            place = Location(pointer=self._clause.pointer)
            check_limit("object_states", len(pieces), UNSUPPORTED, place)
            following = [after for after, _ in self._steps(*state)]
            num_steps += len(following)
            check_limit("object_steps", num_steps, UNSUPPORTED, place)
            waiting += following
        for state, name in pieces.items():
            self._lowerer.rules[name] = self._rule(state, pieces)
        return Ref(pieces[(0, zero)])

    def _rule(
        self, state: tuple[int, tuple[int, ...]], names: dict[tuple[int, tuple[int, ...]], str]
    ) -> Expr:
        index, counts = state
        options: list[Expr] = [EPSILON] if index and self._may_end(index, counts) else []
        for after, node in self._steps(index, counts):
            comma = lowerer_comma(self._lowerer, index)
            options.append(seq([comma, self._lowerer.value(node), Ref(names[after])]))
        return alt(options)

    def _may_end(self, index: int, counts: tuple[int, ...]) -> bool:
        enough = zip(counts, self._clause.counted, strict=True)
        return index >= self._clause.min_items and all(count >= special.minimum for count, special in enough)

    def _steps(
        self, index: int, counts: tuple[int, ...]
    ) -> Iterator[tuple[tuple[int, tuple[int, ...]], Node]]:
        clause = self._clause
        if clause.max_items is not None and index >= clause.max_items:
            return
        own = clause.prefix[index] if index < len(clause.prefix) else clause.tail
        choices = [_choices(s, index, c) for s, c in zip(clause.counted, counts, strict=True)]
        for chosen in product(*choices):
            literals = [*own, *(literal for _, node in chosen for literal in node)]
            after = tuple(count for count, _ in chosen)
            yield (min(index + 1, self._last), after), self._lowerer.reducer.node(literals)


def _choices(special: Counted, index: int, count: int) -> list[tuple[int, Node]]:
    """What an item may do to a count: the count afterwards, and what the item satisfies for it."""
    if index < special.start:
        return [(count, ())]
    against = tuple((schema, not positive) for schema, positive in special.node)
    if special.maximum is None:
        return [(count, ())] if count >= special.minimum else [(count + 1, special.node), (count, ())]
    counted = [(count + 1, special.node)] if count < special.maximum else []
    return [*counted, (count, against)]


def lowerer_comma(lowerer: "Lowerer", index: int) -> Expr:
    """The separator before the item at an index."""
    return lowerer.comma if index else EPSILON


class _Distinct:
    """Arrays whose items all differ, out of listed values: a state is the position and the values used."""

    def __init__(self, clause: ArrayClause, lowerer: "Lowerer") -> None:
        self._clause = clause
        self._lowerer = lowerer
        if clause.counted:
            raise self._refusal("together with counts of items")
        self._values: dict[object, Value] = {}
        self._numbers: dict[object, list[Expr]] = {}
        self._at = [self._listed(node) for node in (*clause.prefix, clause.tail)]
        self._names: dict[tuple[int, frozenset[object]], str] = {}

    def start(self) -> Expr:
        """All non-empty arrays."""
        waiting: list[tuple[int, frozenset[object]]] = [(0, frozenset())]
        num_steps = 0
        while waiting:
            state = waiting.pop()
            if state not in self._names:
                self._names[state] = f"u{len(self._lowerer.rules)}-{len(self._names)}"
                self._lowerer.rules[self._names[state]] = NOTHING
                place = Location(pointer=self._clause.pointer)
                check_limit("object_states", len(self._names), UNSUPPORTED, place)
                following = [after for after, _ in self._steps(*state)]
                num_steps += len(following)
                check_limit("object_steps", num_steps, UNSUPPORTED, place)
                waiting += following
        for state, name in self._names.items():
            self._lowerer.rules[name] = self._rule(*state)
        return Ref(self._names[(0, frozenset())])

    def _rule(self, index: int, used: frozenset[object]) -> Expr:
        options: list[Expr] = [EPSILON] if used and len(used) >= self._clause.min_items else []
        for after, key in self._steps(index, used):
            comma = lowerer_comma(self._lowerer, len(used))
            options.append(seq([comma, self._item(key), Ref(self._names[after])]))
        return alt(options)

    def _item(self, key: object) -> Expr:
        """One listed value in every spelling in which some position lists it."""
        value = self._values[key]
        return (
            Lexeme(alt(self._numbers[key])) if key in self._numbers else self._lowerer.layout.constant(value)
        )

    def _steps(
        self, index: int, used: frozenset[object]
    ) -> Iterator[tuple[tuple[int, frozenset[object]], object]]:
        if self._clause.max_items is not None and len(used) >= self._clause.max_items:
            return
        for key in self._at[index]:
            if key not in used:
                yield (min(index + 1, len(self._at) - 1), used | {key}), key

    def _listed(self, node: Node) -> Sequence[object]:
        expansion = self._lowerer.reducer.expand(node)
        values: list[Value] = [*([None] if expansion.null else []), *expansion.booleans, *expansion.values]
        for strings in expansion.strings:
            members = strings.members(DISTINCT_ITEMS)
            if members is None:
                raise self._refusal("of strings without a list")
            values += members
        for numbers in expansion.numbers:
            found = numbers.finite(DISTINCT_ITEMS)
            if found is None or not numbers.integer:
                raise self._refusal("of numbers without a list")
            values += [Number(str(number.numerator)) for number in found]
        if expansion.arrays or expansion.objects or len(values) > DISTINCT_ITEMS:
            raise self._refusal("of arrays, objects or long lists")
        keys = [equality_key(value) for value in values]
        self._values.update(zip(keys, values, strict=True))
        for key, value in zip(keys, values, strict=True):
            if isinstance(value, Number):
                self._numbers.setdefault(key, []).extend(map(literal, spellings(value)))
        return list(dict.fromkeys(keys))

    def _refusal(self, found: str) -> RefusedConstruct:
        return RefusedConstruct(
            UNSUPPORTED,
            "that all items differ can be enforced only over few listed values",
            Location(pointer=self._clause.pointer),
            f"items {found}",
            "items with a short enum, or maxItems 1",
        )
