"""What a node can be, by JSON type: the reduced form that lowering writes as grammar rules.

An `Expansion` is a union over types, and inside arrays and objects a union of clauses. Clauses refer to the
nodes of their parts, so that recursion stays a graph.
"""

import attrs

from engine.text.schema.numbers import NumberSet
from engine.text.schema.reduce.branches import Node
from engine.text.schema.source import Value
from engine.text.schema.strings import StringSet


@attrs.frozen
class Counted:
    """At least `minimum` and at most `maximum` of the items from index `start` on satisfy `node`."""

    node: Node
    minimum: int
    maximum: int | None = None
    start: int = 0


@attrs.frozen
class ArrayClause:
    """Items by position, then `tail`; lengths; counts of special items; whether all items differ."""

    prefix: tuple[Node, ...]
    tail: Node
    min_items: int
    max_items: int | None
    counted: tuple[Counted, ...]
    unique: bool
    pointer: str


@attrs.frozen
class Slot:
    """A member with a name of its own."""

    name: str
    node: Node
    required: bool


@attrs.frozen
class Group:
    """Members whose names are any of a set but those taken: names that are declared."""

    names: StringSet
    taken: tuple[str, ...]
    node: Node


@attrs.frozen
class Witness:
    """Some member satisfies `node` whose name is in one of the sets."""

    names: tuple[StringSet, ...]
    node: Node


@attrs.frozen
class ObjectClause:
    """Slots in order, then free members; bounds on the number of members; what some member must satisfy."""

    slots: tuple[Slot, ...]
    groups: tuple[Group, ...]
    min_members: int
    max_members: int | None
    witnesses: tuple[Witness, ...]
    pointer: str


@attrs.frozen(eq=False)
class Expansion:
    """The union of everything a node can be; `values` are whole values from enum and const."""

    null: bool = False
    booleans: frozenset[bool] = frozenset()
    numbers: tuple[NumberSet, ...] = ()
    strings: tuple[StringSet, ...] = ()
    arrays: tuple[ArrayClause, ...] = ()
    objects: tuple[ObjectClause, ...] = ()
    values: tuple[Value, ...] = ()
