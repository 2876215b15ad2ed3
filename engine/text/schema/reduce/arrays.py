"""The array clause of a branch: every position with all schemas that apply to it (JSON-31 to 33, JSON-42).

Each schema keeps its own prefix length and tail rule. `contains`, and denials that ask for one special item,
become counts over the items.
"""

from typing import TYPE_CHECKING

import attrs

from engine.errors import RefusedConstruct
from engine.text.schema.evaluate import contains_bounds, tail_start
from engine.text.schema.nodes import UNSUPPORTED, Schema
from engine.text.schema.reduce.branches import Branch, Denied, Literal, Plain
from engine.text.schema.reduce.clauses import ArrayClause, Counted
from engine.text.schema.reduce.scalars import listed_values
from engine.text.schema.unevaluated import ITEMS, evaluated

if TYPE_CHECKING:
    from engine.text.schema.reduce.reducer import Reducer


@attrs.define
class _Draft:
    """An array clause in the making: literals by position, and from the end of the prefix on."""

    prefix: list[list[Literal]] = attrs.field(factory=list)
    tail: list[Literal] = attrs.field(factory=list)
    min_items: int = 0
    max_items: int | None = None
    counted: list[Counted] = attrs.field(factory=list)
    unique: bool = False
    pointer: str = ""

    def reach(self, length: int) -> None:
        """Give positions below `length` lists of their own."""
        while len(self.prefix) < length:
            self.prefix.append(list(self.tail))

    def everywhere(self, start: int, literal: Literal) -> None:
        """Let a literal hold for every item from `start` on."""
        self.reach(start)
        for items in (*self.prefix[start:], self.tail):
            items.append(literal)

    def at_most(self, length: int) -> None:
        self.max_items = length if self.max_items is None else min(self.max_items, length)


def clauses(branch: Branch, reducer: "Reducer") -> list[ArrayClause]:
    """The arrays of a branch, as no clause or one. Raises RefusedConstruct."""
    draft = _Draft()
    for fact in branch.facts:
        if isinstance(fact, Plain):
            _hold(fact.schema, draft, reducer)
        elif isinstance(fact, Denied) and not _deny(fact, draft, reducer):
            return []
    if draft.max_items is not None and draft.max_items < draft.min_items:
        return []
    clause = ArrayClause(
        tuple(reducer.node(items) for items in draft.prefix),
        reducer.node(draft.tail),
        draft.min_items,
        draft.max_items,
        tuple(draft.counted),
        draft.unique,
        draft.pointer,
    )
    return [clause]


def _hold(schema: Schema, draft: _Draft, reducer: "Reducer") -> None:
    document = reducer.document
    for keyword in ("prefixItems", "items"):
        argument = schema.get(keyword)
        if isinstance(argument, list):
            draft.reach(len(argument))
            for index in range(len(argument)):
                draft.prefix[index].append((document.child(schema, keyword, index), True))
    for keyword in ("items", "additionalItems"):
        tail = _tail(schema, keyword)
        if tail is not None:
            draft.everywhere(tail, (document.child(schema, keyword), True))
    if schema.has(ITEMS):
        beside = evaluated(document, schema)
        if not beside.all_items:
            draft.everywhere(beside.num_items, (document.child(schema, ITEMS), True))
    if schema.has("minItems"):
        draft.min_items = max(draft.min_items, int(schema.value["minItems"].value))
    if schema.has("maxItems"):
        draft.at_most(int(schema.value["maxItems"].value))
    if schema.has("contains"):
        minimum, maximum = contains_bounds(schema)
        child = document.child(schema, "contains")
        if minimum or maximum is not None:
            draft.counted.append(Counted(((child, True),), minimum, maximum))
            draft.pointer = schema.location("contains").pointer
    if schema.get("uniqueItems"):
        draft.unique = True
        draft.pointer = schema.location("uniqueItems").pointer


def _tail(schema: Schema, keyword: str) -> int | None:
    """Where a tail rule of a schema begins; None where it has none."""
    argument = schema.get(keyword)
    if argument is None or isinstance(argument, list):
        return None
    return tail_start(schema, keyword)


def _deny(fact: Denied, draft: _Draft, reducer: "Reducer") -> bool:
    """Add a denial; False when no array can meet it. Raises RefusedConstruct."""
    schema, keyword = fact.schema, fact.keyword
    argument = schema.value[keyword]
    if keyword in ("enum", "const"):
        return _deny_values(fact, draft)
    if isinstance(argument, list) and keyword in ("items", "prefixItems"):
        index = int(fact.key or 0)
        draft.reach(index + 1)
        draft.prefix[index].append((reducer.document.child(schema, keyword, index), False))
        draft.min_items = max(draft.min_items, index + 1)
    elif keyword in ("items", "additionalItems"):
        start = _tail(schema, keyword)
        if start is None:
            return False
        child = reducer.document.child(schema, keyword)
        draft.counted.append(Counted(((child, False),), 1, None, start))
        draft.pointer = schema.location(keyword).pointer
    elif keyword == ITEMS:
        beside = evaluated(reducer.document, schema)
        if beside.all_items:
            return False
        child = reducer.document.child(schema, keyword)
        draft.counted.append(Counted(((child, False),), 1, None, beside.num_items))
        draft.pointer = schema.location(keyword).pointer
    elif keyword == "minItems":
        if not argument.value:
            return False
        draft.at_most(int(argument.value) - 1)
    elif keyword == "maxItems":
        draft.min_items = max(draft.min_items, int(argument.value) + 1)
    elif keyword == "contains":
        return _deny_contains(fact, draft, reducer)
    elif keyword == "uniqueItems":
        raise _refusal(fact, "arrays with equal items cannot be described exactly")
    return True


def _deny_contains(fact: Denied, draft: _Draft, reducer: "Reducer") -> bool:
    minimum, maximum = contains_bounds(fact.schema)
    child = reducer.document.child(fact.schema, "contains")
    draft.pointer = fact.schema.location("contains").pointer
    if fact.key == "max":
        assert maximum is not None
        draft.counted.append(Counted(((child, True),), maximum + 1))
    elif minimum == 1:
        draft.everywhere(0, (child, False))
    elif minimum:
        draft.counted.append(Counted(((child, True),), 0, minimum - 1))
    return minimum > 0 or fact.key == "max"


def _deny_values(fact: Denied, draft: _Draft) -> bool:
    if [] in listed_values(fact):  # others are denied item by item
        draft.min_items = max(draft.min_items, 1)
    return True


def _refusal(fact: Denied, message: str) -> RefusedConstruct:
    return RefusedConstruct(
        UNSUPPORTED,
        f"the opposite of this keyword is needed, and {message}",
        fact.schema.location(fact.keyword),
        fact.keyword,
        "not, if and oneOf over keywords whose opposite has a grammar",
    )
