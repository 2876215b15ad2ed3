"""Validation of JSON text against JSON Schema text, for drafts 4, 6, 7, 2019-09 and 2020-12, complete.

Written from the specifications. Numbers are exact decimals, strings are code points, and an object that
repeats a name fails for that alone (kind "repeated name"), at whatever depth. `format` asserts when asked to,
or when the dialect's metaschema lists the format-assertion vocabulary; `content*` never asserts. Patterns are
those of oracles/schema/regex.py; what it cannot read raises.
"""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from oracles.schema.arguments import is_well_formed
from oracles.schema.documents import Place, Registry, Resource, SchemaError
from oracles.schema.keywords import HANDLERS, LAST, OF_DRAFT
from oracles.schema.text import Path, Value, identity, parse, pointer, repeated_names

RECURSION = 200_000


@dataclass(frozen=True, slots=True, order=True)
class Failure:
    """instance: JSON Pointer of the value that fails. schema: JSON Pointer of the keyword (`URI#` before it
    outside the main document). kind: the keyword, "false" for a false schema, or "repeated name".
    """

    instance: str
    schema: str
    kind: str


@dataclass(slots=True)
class Outcome:
    """What one schema said about one value: its failures, and the members and items it has evaluated."""

    failures: list[Failure] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    items: set[int] = field(default_factory=set)

    def absorb(self, other: "Outcome") -> None:
        """Take over what another schema said about the same value."""
        self.failures += other.failures
        if not other.failures:
            self.names |= other.names
            self.items |= other.items


@dataclass(slots=True)
class Frame:
    """One schema being applied to one value: what a keyword's handler sees and writes to."""

    run: "Run"
    place: Place
    value: Value
    path: Path
    scope: tuple[Resource, ...]
    outcome: Outcome

    def sibling(self, name: str) -> Value | None:
        """Return the argument of another keyword of this schema that acts under its dialect."""
        active = name in self.place.resource.dialect.keywords or name in ("then", "else")
        return self.place.value.get(name) if active else None

    def fail(self, keyword: str) -> None:
        """Record that this keyword fails here."""
        self.outcome.failures.append(Failure(pointer(self.path), self.place.location(keyword), keyword))

    def here(self, schema: Value) -> Outcome:
        """Apply a subschema to the same value."""
        return self.run.evaluate(self.run.registry.place(schema), self.value, self.path, self.scope)

    def follow(self, place: Place) -> Outcome:
        """Apply a referenced schema to the same value. Raises: SchemaError for a loop that never descends."""
        step = (id(place), id(self.value), self.scope)
        if step in self.run.active:
            raise SchemaError(f"{place.location()!r} refers to itself without end")
        self.run.active.add(step)
        try:
            return self.run.evaluate(place, self.value, self.path, self.scope)
        finally:
            self.run.active.discard(step)

    def below(self, schema: Value, step: str, value: Value) -> bool:
        """Apply a subschema to a value inside this one, taking over its failures; whether it held."""
        place = self.run.registry.place(schema)
        found = self.run.evaluate(place, value, (self.path, step), self.scope).failures
        self.outcome.failures += found
        return not found

    def test(self, schema: Value, value: Value) -> bool:
        """Whether a value inside this one would satisfy the subschema."""
        return not self.run.evaluate(self.run.registry.place(schema), value, self.path, self.scope).failures


class Run:
    """The schemas in reach and the options, for any number of instances."""

    def __init__(self, registry: Registry, assert_formats: bool, legacy_keywords: bool):
        self.registry = registry
        self.assert_formats = assert_formats
        self.legacy_keywords = legacy_keywords
        self.active: set[tuple[int, int, tuple[Resource, ...]]] = set()
        self._choices: dict[int, frozenset[str]] = {}
        self._plans: dict[int, list[tuple[str, Value]]] = {}

    def evaluate(self, place: Place, value: Value, path: Path, scope: tuple[Resource, ...]) -> Outcome:
        """Apply one schema to one value."""
        outcome = Outcome()
        if place.value.kind == "boolean" and _boolean_may_stand(place):
            if not place.value.data:
                outcome.failures.append(Failure(pointer(path), place.location(), "false"))
            return outcome
        # The outermost resource wins in a dynamic scope, so a second entry would change nothing.
        if place.resource not in scope:
            scope = (*scope, place.resource)
        frame = Frame(self, place, value, path, scope, outcome)
        for name, argument in self._plan(place):
            handler = OF_DRAFT.get((place.resource.dialect.draft, name)) or HANDLERS[name]
            handler(frame, argument)
        return outcome

    def choices(self, argument: Value) -> frozenset[str]:
        """Return the identities of an enum's members."""
        found = self._choices.get(id(argument))
        if found is None:
            found = self._choices[id(argument)] = frozenset([identity(option) for option in argument.data])
        return found

    def _plan(self, place: Place) -> list[tuple[str, Value]]:
        """List the keywords that act at a place: `$ref` alone before 2019-09, unevaluated* after the rest."""
        found = self._plans.get(id(place))
        if found is None:
            found = self._plans[id(place)] = self._planned(place)
        return found

    def _planned(self, place: Place) -> list[tuple[str, Value]]:
        if place.value.kind != "object":
            raise SchemaError(f"a {place.value.kind} stands where a schema is wanted: {place.location()!r}")
        dialect = place.resource.dialect
        reference = place.value.get("$ref")
        if dialect.before_2019 and reference is not None:
            return [("$ref", reference)]
        active = dialect.keywords | ({"dependencies"} if self.legacy_keywords else set())
        found = [(name, value) for name, value in place.value.data if name in active and name in HANDLERS]
        for name, value in found:
            if not is_well_formed(dialect.draft, name, value):
                raise SchemaError(f"{place.location(name)!r} has no meaning")
        return sorted(found, key=lambda item: item[0] in LAST)


def _boolean_may_stand(place: Place) -> bool:
    """Whether true and false are schemas here: everywhere since draft-06, in two keywords before."""
    if place.resource.dialect.draft != "4":
        return True
    return place.path is not None and place.path[1] in ("additionalItems", "additionalProperties")


class Validator:
    """One schema, read once, for many instances.

    dialect: the draft ("4" to "2020-12") of documents that do not say theirs. remotes: other documents' texts
    by URI. legacy_keywords: let `dependencies` act in 2019-09 and 2020-12 too.

    Raises: SchemaError, also later, when a keyword is malformed or a reference leads nowhere.
    """

    def __init__(
        self,
        schema_text: str,
        *,
        dialect: str | None = None,
        assert_formats: bool = False,
        remotes: Mapping[str, str] | None = None,
        legacy_keywords: bool = False,
    ):
        self.run = Run(Registry(schema_text, dialect or "2020-12", remotes), assert_formats, legacy_keywords)

    def failures(self, instance_text: str) -> list[Failure]:
        """Return everything wrong with the instance. Raises: TextError when it is no JSON text."""
        instance = parse(instance_text)
        with _deep_recursion():
            found = self.run.evaluate(self.run.registry.root, instance, None, ()).failures
        return found + [Failure(place, "", "repeated name") for place in repeated_names(instance)]


@contextmanager
def _deep_recursion() -> Iterator[None]:
    """Let nested instances recurse; the evaluation is plain Python calls, which need no C stack."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(RECURSION)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def validate(
    schema_text: str,
    instance_text: str,
    *,
    dialect: str | None = None,
    assert_formats: bool = False,
    remotes: Mapping[str, str] | None = None,
    legacy_keywords: bool = False,
) -> list[Failure]:
    """Return everything wrong with the instance: the empty list when it is valid. See Validator.

    Raises: SchemaError, TextError (the instance), regex.PatternError, regex.Unsupported.
    """
    validator = Validator(
        schema_text,
        dialect=dialect,
        assert_formats=assert_formats,
        remotes=remotes,
        legacy_keywords=legacy_keywords,
    )
    return validator.failures(instance_text)
