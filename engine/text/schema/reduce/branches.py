"""A conjunction of schemas as a union of branches that hold only facts about one value (JSON-36 to JSON-39).

A literal is a schema position that must hold, or must not. In-place applicators are resolved here: references
and allOf join, anyOf splits, oneOf splits into branches that exclude each other, not turns a literal round by
De Morgan, conditionals split by their condition. What is left in a branch are facts: all local assertions of
a schema, the denial of one keyword, a member that must or must not be there.
"""

from collections.abc import Callable, Iterator, Sequence

import attrs

from engine.errors import RefusedConstruct
from engine.text.limits import check_limit
from engine.text.schema.keywords import DRAFT_4_FLAGS, REFERENCES, TYPES, Dialect
from engine.text.schema.nodes import UNSUPPORTED, Document, Schema

Literal = tuple[Schema, bool]
Node = tuple[Literal, ...]  # must hold together; no literal: any value

NULL, BOOLEAN, OBJECT, ARRAY, STRING, INTEGER, FRACTION = (1 << i for i in range(7))
NUMBER = INTEGER | FRACTION
ANY_TYPE = (1 << 7) - 1
TYPE_BITS = {
    **dict(zip(TYPES, (NULL, BOOLEAN, OBJECT, ARRAY, NUMBER, STRING, INTEGER), strict=True)),
}
KEYWORD_TYPES = {
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), NUMBER),
    **dict.fromkeys(("minLength", "maxLength", "pattern", "format"), STRING),
    **dict.fromkeys(("items", "prefixItems", "additionalItems", "contains", "unevaluatedItems"), ARRAY),
    **dict.fromkeys(("minItems", "maxItems", "uniqueItems"), ARRAY),
    **dict.fromkeys(("properties", "patternProperties", "additionalProperties", "propertyNames"), OBJECT),
    **dict.fromkeys(("required", "minProperties", "maxProperties", "unevaluatedProperties"), OBJECT),
    **dict.fromkeys(("enum", "const"), ANY_TYPE),
}
MEMBER = "required member"  # what is denied where a required name and its schema in properties are one


@attrs.frozen
class Plain:
    """All local assertions of a schema hold."""

    schema: Schema


@attrs.frozen
class Denied:
    """One keyword of a schema fails; for keywords with several parts, the part under `key`."""

    schema: Schema
    keyword: str
    key: str | int | None = None


@attrs.frozen
class Member:
    """An object has a member of this name, or has none; `schema` is where that is written."""

    schema: Schema
    name: str
    present: bool


Fact = Plain | Denied | Member


@attrs.frozen
class Branch:
    """Values of these types for which all facts hold."""

    types: int
    facts: tuple[Fact, ...] = ()


@attrs.frozen
class Option:
    """One way to satisfy a split: a restriction of types, facts, and literals to resolve."""

    types: int = ANY_TYPE
    facts: tuple[Fact, ...] = ()
    literals: Node = ()


@attrs.define
class _State:
    """A branch being made; `pending` literals carry the in-place positions they came from."""

    types: int
    facts: tuple[Fact, ...]
    pending: list[tuple[Literal, frozenset[int]]]
    splits: list[tuple[Sequence[Option], frozenset[int]]]
    seen: set[Literal]


NO_CONTEXT = Branch(ANY_TYPE)
DEPENDENCIES = ("dependentRequired", "dependentSchemas", "dependencies")
RESOLVED_HERE = frozenset((*REFERENCES, "allOf", "anyOf", "oneOf", "not", "if", *DEPENDENCIES))


def _stands_alone(schema: Schema, positive: bool) -> bool:
    """Whether a literal has one branch of its own facts: the common case."""
    return positive and isinstance(schema.value, dict) and RESOLVED_HERE.isdisjoint(schema.active)


def _facts(schema: Schema) -> tuple[Fact, ...]:
    return () if KEYWORD_TYPES.keys().isdisjoint(schema.active) else (Plain(schema),)


def types_of(schema: Schema) -> int:
    """The types that a schema's own `type` admits."""
    names = schema.get("type")
    if names is None:
        return ANY_TYPE
    bits = 0
    for name in names if isinstance(names, list) else [names]:
        bits |= TYPE_BITS[name]
    return bits


Exclusive = Callable[[Schema, Schema, Branch], bool]
Asserts = Callable[[Schema, str], bool]


class Brancher:
    """Resolves nodes of one document.

    `spend` counts alternatives, `exclusive` proves that two schemas share no value under a branch's facts,
    `asserts` tells whether a keyword is enforced under the options.
    """

    def __init__(
        self, document: Document, spend: Callable[[int], None], exclusive: Exclusive, asserts: Asserts
    ) -> None:
        self._document = document
        self._spend = spend
        self._exclusive = exclusive
        self._asserts = asserts
        self._resolved = 0

    def branches(self, node: Node, context: Branch = NO_CONTEXT) -> list[Branch]:
        """The branches of a conjunction that starts from a context's types and facts.

        Raises RefusedConstruct for what has no exact form, and for references that never descend.
        """
        if len(node) == 1 and context == NO_CONTEXT and _stands_alone(*node[0]):
            return [Branch(types_of(node[0][0]), _facts(node[0][0]))]
        start = _State(context.types, context.facts, [(literal, frozenset()) for literal in node], [], set())
        waiting, done = [start], []
        while waiting:
            state = waiting.pop()
            if not self._resolve(state):
                continue
            if not state.splits:
                done.append(Branch(state.types, tuple(dict.fromkeys(state.facts))))
                continue
            options, chain = state.splits.pop(0)
            self._spend(len(options))
            waiting += [self._taken(state, option, chain) for option in reversed(options)]
        return done

    def _taken(self, state: _State, option: Option, chain: frozenset[int]) -> _State:
        return _State(
            state.types & option.types,
            state.facts + option.facts,
            [(literal, chain) for literal in option.literals],
            list(state.splits),
            set(state.seen),
        )

    def _resolve(self, state: _State) -> bool:
        """Resolve every pending literal; False when the branch is empty."""
        while state.pending and state.types:
            (schema, positive), chain = state.pending.pop(0)
            self._resolved += 1
            check_limit("schema_literals", self._resolved, UNSUPPORTED, schema.location)
            if schema.index in chain:
                raise RefusedConstruct(
                    UNSUPPORTED,
                    "a reference comes back to itself without going into a member or an item",
                    schema.location(),
                    allowed="recursion through properties or items",
                )
            if (schema, not positive) in state.seen:
                return False
            if (schema, positive) in state.seen:
                continue
            state.seen.add((schema, positive))
            if isinstance(schema.value, bool):
                if schema.value is not positive:
                    return False
                continue
            chain |= {schema.index}
            if positive:
                self._hold(schema, chain, state)
            else:
                self._fail(schema, chain, state)
        return state.types != 0

    def _hold(self, schema: Schema, chain: frozenset[int], state: _State) -> None:
        """Add what a schema that must hold asks for."""
        state.types &= types_of(schema)
        state.facts += _facts(schema)
        for literal in self._joined(schema):
            state.pending.append((literal, chain))
        state.splits += [(options, chain) for options in self._splits(schema, state)]

    def _joined(self, schema: Schema) -> Iterator[Literal]:
        """The schemas that must hold beside it."""
        document = self._document
        for target in document.targets(schema):
            yield target, True
        for index in range(len(schema.get("allOf") or ())):
            yield document.child(schema, "allOf", index), True
        if schema.has("not"):
            yield document.child(schema, "not"), False

    def _splits(self, schema: Schema, state: _State) -> Iterator[Sequence[Option]]:
        document = self._document
        if schema.has("anyOf"):
            parts = [document.child(schema, "anyOf", i) for i in range(len(schema.value["anyOf"]))]
            yield [Option(literals=((part, True),)) for part in parts]
        if schema.has("oneOf"):
            yield self._one_of(schema, Branch(state.types, state.facts))
        if schema.has("if") and (schema.has("then") or schema.has("else")):
            yield self._conditional(schema, True)
        yield from self._dependencies(schema)

    def _one_of(self, schema: Schema, context: Branch) -> list[Option]:
        """Each branch without the others, where these are not excluded already (JSON-37)."""
        document = self._document
        parts = [document.child(schema, "oneOf", i) for i in range(len(schema.value["oneOf"]))]
        options = []
        for part in parts:
            others = [p for p in parts if p is not part and not self._exclusive(part, p, context)]
            options.append(Option(literals=((part, True), *((other, False) for other in others))))
        return options

    def _conditional(self, schema: Schema, positive: bool) -> list[Option]:
        condition = self._document.child(schema, "if")
        options = []
        for holds, keyword in ((True, "then"), (False, "else")):
            if schema.has(keyword):
                outcome = (self._document.child(schema, keyword), positive)
                options.append(Option(literals=((condition, holds), outcome)))
            elif positive:
                options.append(Option(literals=((condition, holds),)))
        return options

    def _dependencies(self, schema: Schema) -> Iterator[list[Option]]:
        for name, needed, keys in _dependents(schema):
            if keys:
                there = Option(
                    OBJECT, (Member(schema, name, True),), ((self._document.child(schema, *keys), True),)
                )
            else:
                facts = tuple(Member(schema, other, True) for other in (name, *needed))
                there = Option(OBJECT, facts)
            yield [Option(facts=(Member(schema, name, False),)), there]

    def _fail(self, schema: Schema, chain: frozenset[int], state: _State) -> None:
        """Add the ways in which a schema that must not hold can fail."""
        options = [option for option in self._failures(schema) if option.types & state.types]
        if len(options) == 1:
            taken = self._taken(state, options[0], chain)
            state.types, state.facts = taken.types, taken.facts
            state.pending += taken.pending
        else:
            state.splits.append((options, chain))

    def _failures(self, schema: Schema) -> Iterator[Option]:
        document = self._document
        if types_of(schema) != ANY_TYPE:
            yield Option(ANY_TYPE & ~types_of(schema))
        for part, holds in self._joined(schema):
            yield Option(literals=((part, not holds),))
        for keyword, types in KEYWORD_TYPES.items():
            if schema.has(keyword) and self._asserts(schema, keyword):
                for key in _parts(schema, keyword):
                    literals = self._unlike_listed(schema, keyword)
                    yield Option(types, (Denied(schema, keyword, key),), literals)
        for name in _required_members(schema):
            yield Option(OBJECT, (Denied(schema, MEMBER, name),))
        if schema.has("anyOf"):
            parts = [document.child(schema, "anyOf", i) for i in range(len(schema.value["anyOf"]))]
            yield Option(literals=tuple((part, False) for part in parts))
        if schema.has("oneOf"):
            yield from self._not_one_of(schema)
        if schema.has("if"):
            yield from self._conditional(schema, False)
        for name, needed, keys in _dependents(schema):
            if keys:
                literal = (document.child(schema, *keys), False)
                yield Option(OBJECT, (Member(schema, name, True),), (literal,))
            for other in needed:
                facts = (Member(schema, name, True), Member(schema, other, False))
                yield Option(OBJECT, facts)

    def _unlike_listed(self, schema: Schema, keyword: str) -> Node:
        """Unlike every array and object of an enum or const; the denied fact sees to all other values."""
        if keyword not in ("enum", "const"):
            return ()
        values = schema.value["enum"] if keyword == "enum" else [schema.value["const"]]
        return tuple(
            (self._document.exactly(schema, keyword, index, value), False)
            for index, value in enumerate(values)
            if isinstance(value, dict | list) and value
        )

    def _not_one_of(self, schema: Schema) -> Iterator[Option]:
        """No branch holds, or two of them do."""
        parts = [self._document.child(schema, "oneOf", i) for i in range(len(schema.value["oneOf"]))]
        yield Option(literals=tuple((part, False) for part in parts))
        nothing = Branch(ANY_TYPE)
        for index, part in enumerate(parts):
            for other in parts[index + 1 :]:
                if not self._exclusive(part, other, nothing):
                    yield Option(literals=((part, True), (other, True)))


def _dependents(schema: Schema) -> Iterator[tuple[str, Sequence[str], tuple[str, ...]]]:
    """Members that need others: the name, the names it needs, or the keys of the schema it needs."""
    for name, needed in (schema.get("dependentRequired") or {}).items():
        yield name, needed, ()
    for keyword in ("dependentSchemas", "dependencies"):
        for name, needed in (schema.get(keyword) or {}).items():
            if isinstance(needed, list):
                yield name, needed, ()
            else:
                yield name, (), (keyword, name)


def _required_members(schema: Schema) -> list[str]:
    """Names that are required and declared: being absent and being wrong are one failure of such a member."""
    return [name for name in schema.get("required") or () if name in (schema.get("properties") or ())]


def _parts(schema: Schema, keyword: str) -> list[str | int | None]:
    """The parts of a keyword that can fail by themselves; none for an argument that nothing fails."""
    argument = schema.value[keyword]
    if keyword in ("properties", "required"):
        together = set(_required_members(schema))
        return [name for name in argument if name not in together]
    if keyword == "patternProperties":
        return list(argument)
    if keyword in ("prefixItems", "items") and isinstance(argument, list):
        return list(range(len(argument)))
    if keyword == "contains":
        return ["min", "max"] if schema.has("maxContains") else ["min"]
    if keyword == "uniqueItems":
        return [None] if argument else []
    flag = schema.dialect is Dialect.DRAFT_4 and keyword in DRAFT_4_FLAGS
    return [] if flag or (argument is True and keyword in _SCHEMA_ARGUMENTS) else [None]


_SCHEMA_ARGUMENTS = (
    *("items", "additionalItems", "additionalProperties", "propertyNames"),
    *("unevaluatedItems", "unevaluatedProperties"),
)
