"""Whether one concrete value satisfies a schema: what filters enum and const by all their siblings (JSON-35).

Works on values as `source` parses them, exactly: numbers as fractions, lengths in code points. Keywords that
have no grammar (uniqueItems, contains of any schema) are decided here all the same.
"""

import sys
from collections.abc import Callable
from fractions import Fraction

from engine.text.automaton import matches
from engine.text.expr import Expr
from engine.text.limits import check_limit
from engine.text.schema.keywords import NEWEST, Dialect
from engine.text.schema.nodes import UNSUPPORTED, Document, Schema
from engine.text.schema.reduce.branches import (
    ARRAY,
    BOOLEAN,
    FRACTION,
    INTEGER,
    MEMBER,
    NULL,
    OBJECT,
    STRING,
    Denied,
    Fact,
    Member,
    Node,
    Plain,
    types_of,
)
from engine.text.schema.source import Number, Value, equality_key
from engine.text.schema.strings import search_language
from engine.text.schema.unevaluated import ITEMS, MEMBERS, evaluated

SHALLOW = 32  # schemas inside each other for which the usual stack is enough
DEEPEST_STACK = 30_000  # frames; the process's own stack has been seen to hold several times as many


def type_of(value: Value, dialect: Dialect = NEWEST) -> int:
    """The type bit of a value; an integral number is an integer, in draft 4 only if written as one."""
    if value is None:
        return NULL
    if isinstance(value, bool):
        return BOOLEAN
    if isinstance(value, Number):
        if dialect is Dialect.DRAFT_4 and not value.is_integer_text:
            return FRACTION
        return INTEGER if value.value.denominator == 1 else FRACTION
    if isinstance(value, str):
        return STRING
    return OBJECT if isinstance(value, dict) else ARRAY


class Evaluator:
    """Decides values against the schemas of one document; `asserts` as for the reduction."""

    def __init__(
        self,
        document: Document,
        asserts: Callable[[Schema, str], bool],
        formats: Callable[[str], Expr | None],
    ) -> None:
        self._document = document
        self._asserts = asserts
        self._format_language = formats
        self._keys: dict[int, frozenset[object]] = {}
        self._depth = 0  # schemas being asked, each inside the one before

    def keys_of(self, schema: Schema) -> frozenset[object]:
        """The values of a schema's `enum`, as keys that compare as JSON Schema compares."""
        if schema.index not in self._keys:
            self._keys[schema.index] = frozenset(map(equality_key, schema.value["enum"]))
        return self._keys[schema.index]

    def node(self, node: Node, value: Value) -> bool:
        """Whether all literals of a node hold."""
        return all(self.schema(schema, value) is positive for schema, positive in node)

    def fact(self, fact: Fact, value: Value) -> bool:
        """Whether one fact of a branch holds."""
        if isinstance(fact, Plain):
            return self.local(fact.schema, value)
        if isinstance(fact, Member):
            there = isinstance(value, dict) and fact.name in value
            return there is fact.present
        return self._denied(fact, value)

    def schema(self, schema: Schema, value: Value) -> bool:
        """Whether a value satisfies a schema as a whole."""
        if isinstance(schema.value, bool):
            return schema.value
        self._depth += 1
        try:
            if self._depth > SHALLOW:
                check_limit("evaluation_depth", self._depth, UNSUPPORTED, schema.location)
                _allow_deep_stack()
            fits = types_of(schema) & type_of(value, schema.dialect)
            return bool(fits) and self.local(schema, value) and self._applied(schema, value)
        finally:
            self._depth -= 1

    def _applied(self, schema: Schema, value: Value) -> bool:
        def part(*keys: str | int) -> bool:
            return self.schema(self._document.child(schema, *keys), value)

        if not all(self.schema(target, value) for target in self._document.targets(schema)):
            return False
        if not all(part("allOf", i) for i in range(len(schema.get("allOf") or ()))):
            return False
        if schema.has("anyOf") and not any(part("anyOf", i) for i in range(len(schema.value["anyOf"]))):
            return False
        if schema.has("oneOf") and sum(part("oneOf", i) for i in range(len(schema.value["oneOf"]))) != 1:
            return False
        if schema.has("not") and part("not"):
            return False
        if schema.has("if"):
            outcome = "then" if part("if") else "else"
            if schema.has(outcome) and not part(outcome):
                return False
        return not isinstance(value, dict) or self._dependencies(schema, value)

    def _dependencies(self, schema: Schema, value: Value) -> bool:
        for keyword in ("dependentRequired", "dependentSchemas", "dependencies"):
            for name, needed in (schema.get(keyword) or {}).items():
                if name not in value:
                    continue
                if isinstance(needed, list):
                    if not all(other in value for other in needed):
                        return False
                elif not self.schema(self._document.child(schema, keyword, name), value):
                    return False
        return True

    def local(self, schema: Schema, value: Value) -> bool:
        """Whether the local assertions of a schema, its own type aside, hold for a value."""
        return all(
            self._keyword(schema, keyword, value)
            for keyword in schema.value
            if keyword in _CHECKS and schema.has(keyword) and self._asserts(schema, keyword)
        )

    def _keyword(self, schema: Schema, keyword: str, value: Value) -> bool:
        return _CHECKS[keyword](self, schema, schema.value[keyword], value)

    def _denied(self, fact: Denied, value: Value) -> bool:
        """A denied part fails for this value; parts that do not apply to its type hold."""
        schema, keyword, key = fact.schema, fact.keyword, fact.key
        if keyword == MEMBER:
            child = self._document.child(schema, "properties", str(key))
            return isinstance(value, dict) and not (key in value and self.schema(child, value[str(key)]))
        argument = schema.value[keyword]
        if keyword == "required":
            return isinstance(value, dict) and key not in value
        if keyword in ("properties", "patternProperties"):
            names = [n for n in value if _reaches(keyword, str(key), n)] if isinstance(value, dict) else []
            child = self._document.child(schema, keyword, str(key))
            return any(not self.schema(child, value[name]) for name in names)
        if isinstance(argument, list) and keyword in ("items", "prefixItems"):
            index = int(key or 0)
            inside = isinstance(value, list) and index < len(value)
            return inside and not self.schema(self._document.child(schema, keyword, index), value[index])
        if keyword == "contains":
            return isinstance(value, list) and not self._contains(schema, value, str(key))
        return not self._keyword(schema, keyword, value)

    def _contains(self, schema: Schema, value: list[Value], which: str) -> bool:
        child = self._document.child(schema, "contains")
        count = sum(self.schema(child, item) for item in value)
        minimum, maximum = contains_bounds(schema)
        return count >= minimum if which == "min" else maximum is None or count <= maximum

    def format(self, schema: Schema, name: str, value: Value) -> bool:
        """Whether a string is of a format; other types and unknown formats pass."""
        language = self._format_language(name)
        return language is None or not isinstance(value, str) or matches(language, value)

    def members(self, schema: Schema, keyword: str, value: Value) -> bool:
        """properties, patternProperties and additionalProperties."""
        if not isinstance(value, dict):
            return True
        document = self._document
        if keyword == "additionalProperties":
            child = document.child(schema, keyword)
            return all(
                self.schema(child, part) for name, part in value.items() if is_additional(schema, name)
            )
        return all(
            self.schema(document.child(schema, keyword, key), part)
            for key in schema.value[keyword]
            for name, part in value.items()
            if _reaches(keyword, key, name)
        )

    def items(self, schema: Schema, keyword: str, value: Value) -> bool:
        """items, prefixItems and additionalItems of every dialect."""
        if not isinstance(value, list):
            return True
        argument, document = schema.value[keyword], self._document
        if isinstance(argument, list):
            pairs = zip(range(len(argument)), value, strict=False)
            return all(self.schema(document.child(schema, keyword, i), item) for i, item in pairs)
        start = tail_start(schema, keyword)
        return start is None or all(
            self.schema(document.child(schema, keyword), item) for item in value[start:]
        )

    def unevaluated(self, schema: Schema, keyword: str, value: Value) -> bool:
        """unevaluatedProperties and unevaluatedItems, decided alike for every instance."""
        beside, child = evaluated(self._document, schema), self._document.child(schema, keyword)
        parts: list[Value] = []
        if keyword == MEMBERS and isinstance(value, dict):
            parts = [part for name, part in value.items() if beside.leaves(name)]
        elif keyword == ITEMS and isinstance(value, list) and not beside.all_items:
            parts = value[beside.num_items :]
        return all(self.schema(child, part) for part in parts)

    def names(self, schema: Schema, value: Value) -> bool:
        """propertyNames."""
        child = self._document.child(schema, "propertyNames")
        return not isinstance(value, dict) or all(self.schema(child, name) for name in value)


def _allow_deep_stack() -> None:
    """Let Python's stack hold what the limits admit; given back it would fail builds beside this one."""
    if sys.getrecursionlimit() < DEEPEST_STACK:
        sys.setrecursionlimit(DEEPEST_STACK)


def contains_bounds(schema: Schema) -> tuple[int, int | None]:
    """How many items `contains` wants at least and at most."""
    low, high = schema.get("minContains"), schema.get("maxContains")
    return (1 if low is None else int(low.value)), (None if high is None else int(high.value))


def tail_start(schema: Schema, keyword: str) -> int | None:
    """The first index that `items` or `additionalItems` applies to; None where it applies to no item."""
    if keyword == "additionalItems":
        items = schema.get("items")
        return len(items) if isinstance(items, list) else None
    if schema.dialect is Dialect.DRAFT_2020_12:
        return len(schema.get("prefixItems") or ())
    return 0


def is_additional(schema: Schema, name: str) -> bool:
    """Whether `additionalProperties` of a schema applies to a name."""
    if name in (schema.get("properties") or {}):
        return False
    return not any(matches(search_language(p), name) for p in schema.get("patternProperties") or {})


def _reaches(keyword: str, key: str, name: str) -> bool:
    return name == key if keyword == "properties" else matches(search_language(key), name)


def _number(test: Callable[[Fraction, Fraction], bool]) -> Callable[..., bool]:
    return lambda _, __, bound, value: not isinstance(value, Number) or test(value.value, bound.value)


def _low(evaluator: Evaluator, schema: Schema, bound: Number, value: Value) -> bool:
    flag = schema.dialect is Dialect.DRAFT_4 and schema.get("exclusiveMinimum") is True
    return (
        not isinstance(value, Number)
        or value.value > bound.value
        or (value.value == bound.value and not flag)
    )


def _high(evaluator: Evaluator, schema: Schema, bound: Number, value: Value) -> bool:
    flag = schema.dialect is Dialect.DRAFT_4 and schema.get("exclusiveMaximum") is True
    return (
        not isinstance(value, Number)
        or value.value < bound.value
        or (value.value == bound.value and not flag)
    )


def _size(kind: type, test: Callable[[int, int], bool]) -> Callable[..., bool]:
    def check(_: Evaluator, __: Schema, bound: Number, value: Value) -> bool:
        return not isinstance(value, kind) or test(len(value), int(bound.value))  # type: ignore[arg-type]

    return check


_CHECKS: dict[str, Callable[[Evaluator, Schema, Value, Value], bool]] = {
    "enum": lambda e, s, _, value: equality_key(value) in e.keys_of(s),
    "const": lambda e, s, const, value: equality_key(value) == equality_key(const),
    "minimum": _low,
    "maximum": _high,
    "exclusiveMinimum": _number(lambda value, bound: value > bound),
    "exclusiveMaximum": _number(lambda value, bound: value < bound),
    "multipleOf": _number(lambda value, step: (value / step).denominator == 1),
    "minLength": _size(str, lambda size, bound: size >= bound),
    "maxLength": _size(str, lambda size, bound: size <= bound),
    "pattern": lambda e, s, pattern, v: not isinstance(v, str) or matches(search_language(pattern), v),
    "format": lambda e, s, name, value: e.format(s, name, value),
    "minItems": _size(list, lambda size, bound: size >= bound),
    "maxItems": _size(list, lambda size, bound: size <= bound),
    "uniqueItems": lambda e, s, flag, v: (
        not (flag and isinstance(v, list)) or len({equality_key(item) for item in v}) == len(v)
    ),
    "contains": lambda e, s, _, v: (
        not isinstance(v, list) or (e._contains(s, v, "min") and e._contains(s, v, "max"))
    ),
    "minProperties": _size(dict, lambda size, bound: size >= bound),
    "maxProperties": _size(dict, lambda size, bound: size <= bound),
    "required": lambda e, s, names, v: not isinstance(v, dict) or all(name in v for name in names),
    "properties": lambda e, s, _, v: e.members(s, "properties", v),
    "patternProperties": lambda e, s, _, v: e.members(s, "patternProperties", v),
    "additionalProperties": lambda e, s, _, v: e.members(s, "additionalProperties", v),
    "propertyNames": lambda e, s, _, v: e.names(s, v),
    MEMBERS: lambda e, s, _, v: e.unevaluated(s, MEMBERS, v),
    ITEMS: lambda e, s, _, v: e.unevaluated(s, ITEMS, v),
    "items": lambda e, s, _, v: e.items(s, "items", v),
    "prefixItems": lambda e, s, _, v: e.items(s, "prefixItems", v),
    "additionalItems": lambda e, s, _, v: e.items(s, "additionalItems", v),
}
