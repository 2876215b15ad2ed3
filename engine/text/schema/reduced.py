"""The reduced form of a schema for people: what each node can be, after all composition is resolved.

Scalars and simple arrays are written where they stand. A node with objects, or with arrays of those, is a
definition under its JSON Pointer (`#` is the whole schema), so recursion is a name that comes again. What was
joined from several places is called after all of them.
"""

import decimal
from collections.abc import Iterator, Mapping
from fractions import Fraction

import attrs

from engine.errors import LimitExceeded
from engine.text.expr import Expr
from engine.text.readable import regex_text
from engine.text.schema.formats import SERVED_FORMATS, format_language
from engine.text.schema.nodes import Document, Schema
from engine.text.schema.numbers import NumberSet
from engine.text.schema.reduce.branches import Node
from engine.text.schema.reduce.clauses import ArrayClause, Counted, Expansion, ObjectClause, Witness
from engine.text.schema.reduce.reducer import Reducer
from engine.text.schema.source import Value, quoted, text_of
from engine.text.schema.strings import StringSet, search_language

ANY = "any value"
LISTED = 12  # listed values and names that are written out
LONGEST = 120  # characters of a pattern, a value or a name
PLACES = 3  # places that a joined node is called after
EXACT = decimal.Context(prec=5000)


@attrs.frozen
class Member:
    """A member of an object: by its name as JSON text, or all others of some names; what its value is."""

    name: str
    required: bool
    value: str


@attrs.frozen
class ObjectForm:
    """One way to be an object; `conditions` are what the members must meet together."""

    members: tuple[Member, ...]
    others: tuple[Member, ...]
    conditions: tuple[str, ...]


@attrs.frozen
class Definition:
    """What a node can be: any of these scalars and arrays, and any of these objects."""

    name: str
    simple: tuple[str, ...]
    objects: tuple[ObjectForm, ...]


def definitions(reducer: Reducer, limit: int) -> tuple[tuple[Definition, ...], bool]:
    """The definition of the root, then of every node it refers to, at most `limit`; whether that is all."""
    writer = _Writer(reducer)
    writer.name(_resolved(((reducer.document.root, True),), reducer.document))
    done: list[Definition] = []
    while writer.waiting and len(done) < limit:
        done.append(writer.definition(writer.waiting.pop(0)))
    return tuple(done), not writer.waiting


def _resolved(node: Node, document: Document) -> Node:
    """A node with what its plain references lead to in their place, so that one thing has one name."""
    literals = []
    for schema, positive in node:
        steps = 0
        while _is_reference(schema) and steps < PLACES:
            schema, steps = document.target(schema), steps + 1
        literals.append((schema, positive))
    return tuple(dict.fromkeys(literals))


def _is_reference(schema: Schema) -> bool:
    return list(schema.active) == ["$ref"]


class _Writer:
    """Writes nodes; those with a name of their own wait until their definition is asked for."""

    def __init__(self, reducer: Reducer) -> None:
        self._reducer = reducer
        self._known = _known_languages(reducer.document)
        self._names: dict[Node, str] = {}
        self.waiting: list[Node] = []

    def definition(self, node: Node) -> Definition:
        """The definition of a node that has a name."""
        expansion = self._reducer.expand(node)
        return Definition(
            self._names[node],
            tuple(self._simple(expansion)) if node else (ANY,),
            tuple(map(self._object, expansion.objects)) if node else (),
        )

    def value(self, node: Node) -> str:
        """What a node can be, in a few words or by its name."""
        node = _resolved(node, self._reducer.document)
        if not node:
            return ANY
        expansion = self._reducer.expand(node)
        if node in self._names or not self._is_short(expansion):
            return self.name(node)
        forms = [*self._simple(expansion), *("object" for _ in expansion.objects)]
        return " | ".join(forms) or "nothing"

    def name(self, node: Node) -> str:
        """The name of a node, which is then defined."""
        if node not in self._names:
            name = _called(node)
            taken = set(self._names.values())
            number = 2
            while name in taken:
                name, number = f"{_called(node)} ({number})", number + 1
            self._names[node] = name
            self.waiting.append(node)
        return self._names[node]

    def _is_short(self, expansion: Expansion) -> bool:
        """Whether a node is written where it stands: nothing in it needs a definition."""
        parts = [part for array in expansion.arrays for part in (*array.prefix, array.tail)]
        nodes = [_resolved(part, self._reducer.document) for part in parts]
        return (
            all(map(_is_any_object, expansion.objects))
            and not any(array.counted for array in expansion.arrays)
            and not any(self._reducer.expand(node).arrays for node in nodes if node)
        )

    def _simple(self, expansion: Expansion) -> Iterator[str]:
        if expansion.null:
            yield "null"
        if len(expansion.booleans) == 2:
            yield "boolean"
        else:
            yield from ("true" if flag else "false" for flag in expansion.booleans)
        if expansion.values:
            yield _listing(expansion.values)
        yield from map(_number, expansion.numbers)
        yield from map(self._string, expansion.strings)
        yield from map(self._array, expansion.arrays)

    def _string(self, strings: StringSet) -> str:
        return " ".join(["string", ", ".join(self._conditions(strings))]).rstrip()

    def _conditions(self, strings: StringSet) -> Iterator[str]:
        low, high = strings.min_length, strings.max_length
        if (low, high) != (0, None):
            yield f"of {_counted(low, high, 'character')}"
        yield from map(self._language, strings.patterns)
        for expr in strings.excluded:
            words = self._language(expr)
            yield f"other than {words}" if words[0] == '"' else f"not {words}"

    def _language(self, expr: Expr) -> str:
        known = self._known.get(expr)
        if known is not None:
            return known
        try:
            members = StringSet(patterns=(expr,)).members(LISTED)
        except LimitExceeded:
            members = None
        if members:
            return _cut(" or ".join(map(quoted, members)))
        return f"matching {_cut(f'^({regex_text(expr)})$')}"

    def _array(self, clause: ArrayClause) -> str:
        if not clause.prefix and not clause.tail and (clause.min_items, clause.max_items) == (0, None):
            items = []
        else:
            is_counted = (clause.min_items, clause.max_items) != (0, None)
            items = [_counted(clause.min_items, clause.max_items, "item")] if is_counted else []
            items += [f"item {index}: {self.value(part)}" for index, part in enumerate(clause.prefix)]
            if clause.max_items is None or clause.max_items > len(clause.prefix):
                items.append(f"{'further' if clause.prefix else 'each'}: {self.value(clause.tail)}")
        items += [self._count(special) for special in clause.counted]
        items += ["all different"] if clause.unique else []
        return f"array ({'; '.join(items)})" if items else "array"

    def _count(self, special: Counted) -> str:
        start = f" from item {special.start} on" if special.start else ""
        return (
            f"{_span(special.minimum, special.maximum)} of the items{start} are: {self.value(special.node)}"
        )

    def _object(self, clause: ObjectClause) -> ObjectForm:
        members = (Member(_cut(quoted(s.name)), s.required, self.value(s.node)) for s in clause.slots)
        others = (
            Member(", ".join(self._conditions(g.names)), False, self.value(g.node)) for g in clause.groups
        )
        conditions = [f"some {self._witness(witness)}" for witness in clause.witnesses]
        if clause.min_members or clause.max_members is not None:
            conditions.insert(0, _counted(clause.min_members, clause.max_members, "member"))
        return ObjectForm(tuple(members), tuple(others), tuple(conditions))

    def _witness(self, witness: Witness) -> str:
        names = [" and ".join(self._conditions(names)) for names in witness.names]
        which = f"member {' or '.join(names)}" if all(names) else "member"
        return which if not witness.node else f"{which} is: {self.value(witness.node)}"


def _is_any_object(clause: ObjectClause) -> bool:
    free = len(clause.groups) == 1 and clause.groups[0].names.is_free and not clause.groups[0].node
    counts = (clause.min_members, clause.max_members) != (0, None)
    return free and not clause.slots and not clause.witnesses and not counts


def _known_languages(document: Document) -> Mapping[Expr, str]:
    """How the schema itself writes the string languages it uses."""
    known: dict[Expr, str] = {}
    for schema in document.positions:
        if isinstance(schema.get("pattern"), str):
            known[search_language(schema.value["pattern"])] = f"matching {_cut(schema.value['pattern'])}"
        for pattern in schema.get("patternProperties") or ():
            known[search_language(pattern)] = f"matching {_cut(pattern)}"
        name = schema.get("format")
        if isinstance(name, str) and name in SERVED_FORMATS:
            language = format_language(name)
            assert language is not None, "a served format has a language"
            known[language] = f"of format {name}"
    return known


def _called(node: Node) -> str:
    """A node's places."""
    if not node:
        return ANY
    names = [f"{'' if positive else 'not '}#{schema.pointer}" for schema, positive in node[:PLACES]]
    more = [f"{len(node) - PLACES} more"] if len(node) > PLACES else []
    return " and ".join([*map(_cut, names), *more])


def _listing(values: tuple[Value, ...]) -> str:
    texts = [_cut(text_of(value)) for value in values[:LISTED]]
    more = [f"{len(values) - LISTED} more"] if len(values) > LISTED else []
    return f"one of {', '.join([*texts, *more])}" if len(values) > 1 else texts[0]


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _span(low: int, high: int | None) -> str:
    """A range of counts in words."""
    if low == high:
        return f"exactly {low}"
    if high is None:
        return f"at least {low}" if low else "any number of"
    return f"{low} to {high}" if low else f"at most {high}"


def _counted(low: int, high: int | None, what: str) -> str:
    return f"{_span(low, high)} {what}{'' if 1 in (low, high) and (high or low) == 1 else 's'}"


def _number(numbers: NumberSet) -> str:
    parts = []
    if numbers.low is not None:
        parts.append(f"{'>' if numbers.low_open else '>='} {decimal_text(numbers.low)}")
    if numbers.high is not None:
        parts.append(f"{'<' if numbers.high_open else '<='} {decimal_text(numbers.high)}")
    parts += [f"multiple of {decimal_text(step)}" for step in numbers.multiples_of]
    parts += [f"no multiple of {decimal_text(step)}" for step in numbers.not_multiples_of]
    if numbers.excluded:
        texts = [decimal_text(number) for number in sorted(numbers.excluded)[:LISTED]]
        more = [f"{len(numbers.excluded) - LISTED} more"] if len(numbers.excluded) > LISTED else []
        parts.append(f"not {', '.join([*texts, *more])}")
    return " ".join(["integer" if numbers.integer else "number", ", ".join(parts)]).rstrip()


def decimal_text(number: Fraction) -> str:
    """A finite decimal exactly; a long one in scientific notation."""
    value = EXACT.divide(decimal.Decimal(number.numerator), decimal.Decimal(number.denominator))
    value = value.normalize(EXACT)
    plain = f"{value:f}"
    return plain if len(plain) <= 24 else _cut(f"{value:e}")
