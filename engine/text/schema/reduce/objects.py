"""The object clause of a branch: each name with all schemas that apply to it (JSON-27 to JSON-30, JSON-39 to
JSON-41).

Declared names become slots in the order of their first appearance, then required ones that nobody declares.
All other names fall into groups by which patterns match them; a schema's additionalProperties takes part
where none of its own names and patterns does.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING

import attrs

from engine.errors import LimitExceeded, RefusedConstruct
from engine.text.automaton import matches
from engine.text.expr import Expr
from engine.text.schema.nodes import UNSUPPORTED, Schema
from engine.text.schema.reduce.branches import MEMBER, Branch, Denied, Fact, Literal, Member, Node, Plain
from engine.text.schema.reduce.clauses import Group, ObjectClause, Slot, Witness
from engine.text.schema.reduce.scalars import listed_values
from engine.text.schema.strings import StringSet, literal_language, search_language
from engine.text.schema.unevaluated import MEMBERS, evaluated

if TYPE_CHECKING:
    from engine.text.schema.reduce.reducer import Reducer

PATTERNS_CAP = 6  # different patterns over the names of one object
FINITE_NAMES = 64  # names of a group that are lowered one by one


@attrs.define
class _Draft:
    """An object clause in the making; `extra` holds literals of single names beside those of the schemas."""

    schemas: list[Schema] = attrs.field(factory=list)
    names: dict[str, bool] = attrs.field(factory=dict)  # declared names, and whether they are required
    extra: dict[str, list[Literal]] = attrs.field(factory=dict)
    absent: set[str] = attrs.field(factory=set)
    min_members: int = 0
    max_members: int | None = None
    witnesses: list[Witness] = attrs.field(factory=list)
    pointer: str = ""

    def declare(self, name: str, required: bool) -> None:
        self.names[name] = self.names.get(name, False) or required

    def at_most(self, count: int) -> None:
        self.max_members = count if self.max_members is None else min(self.max_members, count)


def clauses(branch: Branch, reducer: "Reducer") -> list[ObjectClause]:
    """The objects of a branch. Raises RequestError for what has no exact form."""
    draft = _Draft()
    for fact in branch.facts:
        if isinstance(fact, Plain):
            _declare(fact.schema, draft)
    for fact in branch.facts:
        if isinstance(fact, Plain):
            _require(fact.schema, draft)
        elif not _add(fact, draft, reducer):
            return []
    return _finished(draft, reducer)


def _declare(schema: Schema, draft: _Draft) -> None:
    draft.schemas.append(schema)
    for name in schema.get("properties") or ():
        draft.declare(name, False)


def _require(schema: Schema, draft: _Draft) -> None:
    for name in schema.get("required") or ():
        draft.declare(name, True)
    if schema.has("minProperties"):
        draft.min_members = max(draft.min_members, int(schema.value["minProperties"].value))
        draft.pointer = schema.location("minProperties").pointer
    if schema.has("maxProperties"):
        draft.at_most(int(schema.value["maxProperties"].value))
        draft.pointer = schema.location("maxProperties").pointer


def _add(fact: Fact, draft: _Draft, reducer: "Reducer") -> bool:
    """Add a fact that is not a whole schema; False when no object can meet it. Raises RefusedConstruct."""
    if isinstance(fact, Member):
        draft.declare(fact.name, fact.present)
        if not fact.present:
            draft.absent.add(fact.name)
        return True
    assert isinstance(fact, Denied)
    schema, keyword, key = fact.schema, fact.keyword, str(fact.key)
    if keyword == "required":
        draft.declare(key, False)
        draft.absent.add(key)
    elif keyword in ("properties", MEMBER):
        draft.declare(key, keyword == "properties")
        keyword = "properties"
        draft.extra.setdefault(key, []).append((reducer.document.child(schema, keyword, key), False))
    elif keyword == "minProperties":
        if not schema.value[keyword].value:
            return False
        draft.at_most(int(schema.value[keyword].value) - 1)
    elif keyword == "maxProperties":
        draft.min_members = max(draft.min_members, int(schema.value[keyword].value) + 1)
    elif keyword == MEMBERS and evaluated(reducer.document, schema).all_members:
        return False
    elif keyword in ("additionalProperties", "patternProperties", "propertyNames", MEMBERS):
        draft.witnesses.append(_witness(fact, reducer))
    elif keyword in ("enum", "const"):
        return _deny_values(fact, draft)
    draft.pointer = schema.location(keyword).pointer
    return True


def _witness(fact: Denied, reducer: "Reducer") -> Witness:
    """What some member must be, so that a keyword about all members fails."""
    schema = fact.schema
    if fact.keyword == "patternProperties":
        child = reducer.document.child(schema, fact.keyword, str(fact.key))
        return Witness((StringSet(patterns=(search_language(str(fact.key)),)),), ((child, False),))
    child = reducer.document.child(schema, fact.keyword)
    if fact.keyword == "propertyNames":
        return Witness(tuple(_name_sets_of(((child, False),), reducer)), ())
    patterns, names = schema.get("patternProperties") or (), schema.get("properties") or ()
    if fact.keyword == MEMBERS:
        beside = evaluated(reducer.document, schema)
        patterns, names = beside.patterns, beside.names
    excluded = [search_language(pattern) for pattern in patterns]
    if names:
        excluded.append(literal_language(names))
    return Witness((StringSet(excluded=tuple(excluded)),), ((child, False),))


def _name_sets_of(node: Node, reducer: "Reducer") -> list[StringSet]:
    """The strings that satisfy a node, as a union of sets."""
    expansion = reducer.strings_of(node)
    listed = [value for value in expansion.values if isinstance(value, str)]
    return [*expansion.strings, *([StringSet(patterns=(literal_language(listed),))] if listed else [])]


def _deny_values(fact: Denied, draft: _Draft) -> bool:
    if {} in listed_values(fact):  # others are denied member by member
        draft.min_members = max(draft.min_members, 1)
    return True


def _finished(draft: _Draft, reducer: "Reducer") -> list[ObjectClause]:
    slots = [
        Slot(name, _node_of_name(name, draft, reducer), required)
        for name, required in draft.names.items()
        if name not in draft.absent
    ]
    if any(draft.names[name] for name in draft.absent):
        return []
    groups = []
    declared = tuple(draft.names)
    for names, node in _groups(draft, reducer):
        taken = declared if names.is_free else tuple(name for name in declared if names.contains(name))
        if names.is_free or names.every_prefix_stays_open():  # a few names less change nothing
            groups.append(Group(names, taken, node))
            continue
        listed = names.members(FINITE_NAMES + len(taken))
        if listed is None:
            if reducer.is_empty(node):
                continue
            raise _exhaustible(draft)
        known = {*taken, *(slot.name for slot in slots)}  # sets of names may overlap
        slots += [Slot(name, node, False) for name in listed if name not in known]
    slots = [slot for slot in slots if slot.required or not _is_never(slot.node)]
    return [
        ObjectClause(
            tuple(slots),
            tuple(groups),
            draft.min_members,
            draft.max_members,
            tuple(draft.witnesses),
            draft.pointer or _pointer(draft),
        )
    ]


def _pointer(draft: _Draft) -> str:
    return draft.schemas[0].pointer if draft.schemas else ""


def _is_never(node: Node) -> bool:
    return any(schema.value is not positive for schema, positive in node if isinstance(schema.value, bool))


def _node_of_name(name: str, draft: _Draft, reducer: "Reducer") -> Node:
    literals: list[Literal] = []
    for schema in draft.schemas:
        literals += _literals_of_name(schema, name, reducer)
        if schema.has("propertyNames"):
            child = reducer.document.child(schema, "propertyNames")
            if not reducer.evaluator.schema(child, name):
                literals.append((reducer.never, True))
    return reducer.node([*literals, *draft.extra.get(name, ())])


def _literals_of_name(schema: Schema, name: str, reducer: "Reducer") -> Iterator[Literal]:
    matched = [p for p in schema.get("patternProperties") or () if matches(search_language(p), name)]
    declared = name in (schema.get("properties") or ())
    if declared:
        yield reducer.document.child(schema, "properties", name), True
    for pattern in matched:
        yield reducer.document.child(schema, "patternProperties", pattern), True
    if not declared and not matched and schema.has("additionalProperties"):
        yield reducer.document.child(schema, "additionalProperties"), True
    if schema.has(MEMBERS) and evaluated(reducer.document, schema).leaves(name):
        yield reducer.document.child(schema, MEMBERS), True


def _groups(draft: _Draft, reducer: "Reducer") -> Iterator[tuple[StringSet, Node]]:
    """Sets of names, by the node of their members if nobody declares them; names of no member drop out."""
    patterns = list(dict.fromkeys(p for s in draft.schemas for p in s.get("patternProperties") or ()))
    if len(patterns) > PATTERNS_CAP:
        raise LimitExceeded(
            UNSUPPORTED,
            "an object has too many different patterns over its names",
            draft.schemas[0].location("patternProperties"),
            str(len(patterns)),
            f"at most {PATTERNS_CAP}",
            limit="name_patterns",
            value=len(patterns),
            maximum=PATTERNS_CAP,
        )
    by_node: dict[Node, list[tuple[bool, ...]]] = {}
    for matched in product((True, False), repeat=len(patterns)):
        node = _node_of_group([p for p, hit in zip(patterns, matched, strict=True) if hit], draft, reducer)
        if not _is_never(node):
            by_node.setdefault(node, []).append(matched)
    languages = [search_language(pattern) for pattern in patterns]
    for names in _allowed_names(draft, reducer):
        for node, hits in by_node.items():
            for part in _name_sets(languages, hits):
                group = names.intersect(part)
                if group.is_free or not group.is_empty():
                    yield group, node


def _name_sets(languages: Sequence[Expr], hits: list[tuple[bool, ...]]) -> list[StringSet]:
    """The names with one of these combinations of matches; all combinations together are no condition."""
    if len(hits) == 2 ** len(languages):
        return [StringSet()]
    return [
        StringSet(
            patterns=tuple(lang for lang, hit in zip(languages, matched, strict=True) if hit),
            excluded=tuple(lang for lang, hit in zip(languages, matched, strict=True) if not hit),
        )
        for matched in hits
    ]


def _node_of_group(matched: list[str], draft: _Draft, reducer: "Reducer") -> Node:
    literals: list[Literal] = []
    for schema in draft.schemas:
        own = [pattern for pattern in matched if pattern in (schema.get("patternProperties") or ())]
        literals += [(reducer.document.child(schema, "patternProperties", pattern), True) for pattern in own]
        if not own and schema.has("additionalProperties"):
            literals.append((reducer.document.child(schema, "additionalProperties"), True))
        if schema.has(MEMBERS):
            beside = evaluated(reducer.document, schema)
            if not beside.all_members and not set(beside.patterns) & set(matched):
                literals.append((reducer.document.child(schema, MEMBERS), True))
    return reducer.node(literals)


def _allowed_names(draft: _Draft, reducer: "Reducer") -> list[StringSet]:
    """What propertyNames leaves, as a union of sets."""
    literals = [
        (reducer.document.child(schema, "propertyNames"), True)
        for schema in draft.schemas
        if schema.has("propertyNames")
    ]
    if not literals:
        return [StringSet()]
    return _name_sets_of(reducer.node(literals), reducer)


def _exhaustible(draft: _Draft) -> RefusedConstruct:
    keywords = ("patternProperties", "propertyNames", "additionalProperties")
    places = (s.location(k) for k in keywords for s in draft.schemas if s.has(k))
    return RefusedConstruct(
        UNSUPPORTED,
        "member names of this form can be used up: a name begun could find no unused end",
        next(places),
        "a finite set of names, or of ends of names",
        f"at most {FINITE_NAMES} names, or names that can always go on",
    )
