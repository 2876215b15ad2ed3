"""Nodes to clauses: the reduction of a schema document, memoised node by node (JSON-34, JSON-35, JSON-45).

`expand` gives the union of what a node can be. Finite values are filtered by every fact beside them. A node
is the conjunction of schema positions, so there are finitely many and recursion stays a graph. `is_empty`
proves emptiness to a small depth; what it cannot prove counts as inhabited.
"""

from collections.abc import Iterable
from typing import TypeVar

import attrs

from engine.errors import RequestError
from engine.request import Formats, JsonOptions
from engine.text.limits import check_limit
from engine.text.schema.evaluate import Evaluator, type_of
from engine.text.schema.formats import format_language
from engine.text.schema.keywords import DRAFT_4_FLAGS, Dialect
from engine.text.schema.nodes import UNSUPPORTED, Document, Schema
from engine.text.schema.numbers import NumberSet
from engine.text.schema.reduce import arrays, objects, scalars
from engine.text.schema.reduce.branches import (
    ANY_TYPE,
    ARRAY,
    BOOLEAN,
    FRACTION,
    KEYWORD_TYPES,
    NULL,
    NUMBER,
    OBJECT,
    STRING,
    Branch,
    Brancher,
    Literal,
    Node,
    Plain,
)
from engine.text.schema.reduce.clauses import ArrayClause, Expansion, ObjectClause
from engine.text.schema.reduce.places import pointing_at
from engine.text.schema.source import Number, Value, equality_key
from engine.text.schema.strings import StringSet

T = TypeVar("T")
PROOF_DEPTH = 4  # members inside members that a proof of emptiness looks into


class Reducer:
    """The reduction of one document under its options."""

    def __init__(self, document: Document, options: JsonOptions) -> None:
        self.document = document
        self.evaluator = Evaluator(document, self.asserts, format_language)
        self._options = options
        self._points_count = any(schema.dialect is Dialect.DRAFT_4 for schema in document.positions)
        self._merges = 0
        self._expansions: dict[Node, Expansion] = {}
        self._strings: dict[Node, Expansion] = {}
        self._empty: dict[tuple[Node, int], bool] = {}
        self._exclusive: dict[tuple[int, int], bool] = {}
        self._brancher = Brancher(document, self.spend, self._share_nothing, self.asserts)

    @property
    def never(self) -> Schema:
        """A schema that no value satisfies."""
        return self.document.never

    def spend(self, merges: int) -> None:
        """Count alternatives. Raises LimitExceeded."""
        self._merges += merges
        check_limit("schema_merges", self._merges, UNSUPPORTED)

    def asserts(self, schema: Schema, keyword: str) -> bool:
        """Whether a keyword is enforced by itself under the options."""
        if keyword == "format":
            return (
                self._options.formats is Formats.ASSERT and format_language(schema.value[keyword]) is not None
            )
        return not (schema.dialect is Dialect.DRAFT_4 and keyword in DRAFT_4_FLAGS)

    def node(self, literals: Iterable[Literal]) -> Node:
        """A conjunction without repetitions, bare references and schemas that say nothing.

        A schema that is nothing but a reference is its target: all references to it share one node.
        """
        targets = ((self._target(schema), positive) for schema, positive in literals)
        return tuple(dict.fromkeys(lit for lit in targets if not (lit[1] and self._says_nothing(lit[0]))))

    def _target(self, schema: Schema) -> Schema:
        while len(schema.active) == 1 and schema.has("$ref"):
            schema = self.document.target(schema)
        return schema

    def _says_nothing(self, schema: Schema) -> bool:
        return schema.value is True or schema.value == {}

    def expand(self, node: Node) -> Expansion:
        """What a node can be. Raises RequestError with the pointer of what has no exact form."""
        known = self._expansions.get(node)
        if known is None:
            with pointing_at(node):
                known = self._expansions[node] = self._union(self._brancher.branches(node))
        return known

    def strings_of(self, node: Node) -> Expansion:
        """What of a node is a string. Its objects are not asked: their names may be such strings."""
        known = self._strings.get(node)
        if known is None:
            with pointing_at(node):
                branches = self._brancher.branches(node, Branch(STRING))
                known = self._strings[node] = self._union(branches)
        return known

    def _union(self, branches: list[Branch]) -> Expansion:
        gathered = _Gathered()
        for branch in branches:
            schema = _limiting(branch)
            if schema is not None:
                values = schema.value["enum"] if schema.has("enum") else [schema.value["const"]]
                only_lists = _only_lists(branch)
                for value in values:
                    if branch.types & type_of(value) and (only_lists or self._all_hold(branch, value)):
                        gathered.add_value(self._spelled(branch, value))
            else:
                self._gather(branch, gathered)
        return gathered.expansion()

    def _spelled(self, branch: Branch, value: Value) -> Value:
        """A listed value as it is written: in draft 4 `1.0` is no integer."""
        if not self._points_count or not isinstance(value, Number) or branch.types & FRACTION:
            return value
        return Number(str(value.value.numerator), plain=True)

    def _all_hold(self, branch: Branch, value: Value) -> bool:
        return all(self.evaluator.fact(fact, value) for fact in branch.facts)

    def _gather(self, branch: Branch, gathered: "_Gathered") -> None:
        types = branch.types
        gathered.null |= bool(types & NULL) and self._all_hold(branch, None)
        if types & BOOLEAN:
            gathered.booleans |= {flag for flag in (True, False) if self._all_hold(branch, flag)}
        if types & NUMBER:
            gathered.numbers.append(scalars.numbers(branch, self.asserts))
        if types & STRING:
            gathered.strings.append(scalars.strings(branch, self.asserts))
        if types & ARRAY:
            gathered.arrays += arrays.clauses(branch, self)
        if types & OBJECT:
            gathered.objects += objects.clauses(branch, self)

    def is_empty(self, node: Node, depth: int = PROOF_DEPTH) -> bool:
        """Whether it is proved that no value satisfies a node."""
        if not node or depth == 0:
            return False
        key = (node, depth)
        if key not in self._empty:
            self._empty[key] = False  # a node that needs itself proves nothing
            self._empty[key] = self._is_empty(self.expand(node), depth)
        return self._empty[key]

    def _is_empty(self, expansion: Expansion, depth: int) -> bool:
        if expansion.null or expansion.booleans or expansion.values:
            return False
        return (
            all(numbers.is_empty() for numbers in expansion.numbers)
            and all(strings.is_empty() for strings in expansion.strings)
            and all(self._array_is_empty(clause, depth) for clause in expansion.arrays)
            and all(self._object_is_empty(clause, depth) for clause in expansion.objects)
        )

    def _array_is_empty(self, clause: ArrayClause, depth: int) -> bool:
        if clause.max_items is not None and clause.max_items < clause.min_items:
            return True
        needed = [*clause.prefix, clause.tail][: clause.min_items]
        counted = [special.node for special in clause.counted if special.minimum]
        return any(self.is_empty(node, depth - 1) for node in (*needed, *counted))

    def _object_is_empty(self, clause: ObjectClause, depth: int) -> bool:
        if clause.max_members is not None and clause.max_members < clause.min_members:
            return True
        return any(self.is_empty(slot.node, depth - 1) for slot in clause.slots if slot.required)

    def _share_nothing(self, one: Schema, other: Schema, context: Branch) -> bool:
        """Whether it is proved that two schemas have no common value under a branch's facts."""
        key = (min(one.index, other.index), max(one.index, other.index))
        if key not in self._exclusive:
            self._exclusive[key] = False  # a proof that needs itself proves nothing
            self._exclusive[key] = self._conjunction_is_empty(one, other, Branch(ANY_TYPE))
        if self._exclusive[key] or context == Branch(ANY_TYPE):
            return self._exclusive[key]
        return self._conjunction_is_empty(one, other, context)

    def _conjunction_is_empty(self, one: Schema, other: Schema, context: Branch) -> bool:
        node = self.node([(one, True), (other, True)])
        try:
            return self._is_empty(self._union(self._brancher.branches(node, context)), PROOF_DEPTH)
        except RequestError:  # no proof: the caller takes the other way, which has its own refusals
            return False


def _limiting(branch: Branch) -> Schema | None:
    """The schema of a branch that lists the fewest values, None if no schema lists any."""
    listed = [
        fact.schema
        for fact in branch.facts
        if isinstance(fact, Plain) and (fact.schema.has("enum") or fact.schema.has("const"))
    ]
    return min(listed, key=lambda s: 1 if s.has("const") else len(s.value["enum"]), default=None)


def _only_lists(branch: Branch) -> bool:
    """Whether a branch with listed values holds nothing but that list: each of them is a member."""
    if len(branch.facts) > 1:
        return False
    (fact,) = branch.facts
    return isinstance(fact, Plain) and len(fact.schema.active.keys() & KEYWORD_TYPES.keys()) == 1


@attrs.define
class _Gathered:
    """An expansion in the making."""

    null: bool = False
    booleans: frozenset[bool] = frozenset()
    numbers: list[NumberSet] = attrs.field(factory=list)
    strings: list[StringSet] = attrs.field(factory=list)
    arrays: list[ArrayClause] = attrs.field(factory=list)
    objects: list[ObjectClause] = attrs.field(factory=list)
    values: dict[object, Value] = attrs.field(factory=dict)

    def add_value(self, value: Value) -> None:
        if value is None:
            self.null = True
        elif isinstance(value, bool):
            self.booleans |= {value}
        else:
            key = equality_key(value)
            known = self.values.get(key)
            if known is None or (isinstance(known, Number) and known.plain):
                self.values[key] = value

    def expansion(self) -> Expansion:
        return Expansion(
            self.null,
            self.booleans,
            _without_covered(self.numbers, NumberSet()),
            _without_covered(self.strings, StringSet()),
            tuple(dict.fromkeys(self.arrays)),
            tuple(dict.fromkeys(self.objects)),
            tuple(self.values.values()),
        )


def _without_covered(sets: list[T], free: T) -> tuple[T, ...]:
    """Each set once; the free one alone where it is among them."""
    return (free,) if free in sets else tuple(dict.fromkeys(sets))
