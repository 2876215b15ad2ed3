"""Random schemas of every keyword over a tiny domain, and instances that are valid or miss by little.

Everything comes from a seeded `random.Random`, so that a failing seed is the whole report. The domain is
small on purpose: three names, few numbers, strings over two letters, so that conditions really meet.
"""

import json
import random
from collections.abc import Callable
from typing import Any

Json = Any
NAMES = ("a", "b", "c", "ab")
TEXTS = ("", "a", "b", "ab", "ba", "aab", "é", '"', "a\nb", "abab")
NUMBERS = (-1, 0, 1, 2, 3, 4, 6, 0.5, 1.5, -2.5)
PATTERNS = ("^a", "b$", "a", "^[ab]{1,2}$", "^(a|ab)$", "^$", "é")
TYPES = ("null", "boolean", "object", "array", "number", "string", "integer")
SCALARS: tuple[Json, ...] = (None, True, False, *NUMBERS, *TEXTS)


def random_value(rng: random.Random, depth: int = 2) -> Json:
    """Any value of the domain."""
    kind = rng.randrange(5 if depth > 0 else 3)
    if kind < 3:
        return rng.choice(SCALARS)
    if kind == 3:
        return [random_value(rng, depth - 1) for _ in range(rng.randrange(4))]
    names = rng.sample(NAMES, rng.randrange(4))
    return {name: random_value(rng, depth - 1) for name in names}


def random_schema(rng: random.Random, depth: int = 2, *, logic: float = 0.35, refs: bool = True) -> Json:
    """A schema of draft 2020-12; `logic` is the share of in-place applicators among its keywords."""
    maker = _Maker(rng, logic)
    schema = maker.schema(depth, refs)
    if refs and '"$ref"' in json.dumps(schema):
        recursive = maker.schema(1, False)
        if isinstance(recursive, dict) and rng.random() < 0.3:
            recursive["properties"] = {"a": {"$ref": "#/$defs/e"}}
        schema["$defs"] = {"d": maker.schema(1, False), "e": recursive}
    return schema


class _Maker:
    """Makes schemas; parts that speak about the same value mostly keep to its type, so that many can hold."""

    def __init__(self, rng: random.Random, logic: float) -> None:
        self.rng = rng
        self.logic = logic

    def schema(self, depth: int, refs: bool, kind: str | None = None) -> Json:
        rng = self.rng
        if rng.random() < 0.06:
            return rng.choice([True, True, {}, False])
        schema: dict[str, Json] = {}
        if kind is None or rng.random() < 0.2:
            kind = rng.choice([*TYPES, "object", "object", "array", "string", "number"])
        if rng.random() < 0.6:
            schema["type"] = kind if rng.random() < 0.7 else [kind, *rng.sample(TYPES, 1)]
            if isinstance(schema["type"], list) and schema["type"][0] == schema["type"][1]:
                schema["type"] = kind
        for _ in range(rng.randrange(1, 4)):
            if depth > 0 and rng.random() < self.logic:
                self._add_logic(schema, depth - 1, refs, kind)
            else:
                self._add_local(schema, depth - 1, refs, kind)
        return schema

    def _add_logic(self, schema: dict[str, Json], depth: int, refs: bool, kind: str) -> None:
        rng = self.rng
        keyword = rng.choice(["allOf", "anyOf", "oneOf", "not", "if", "$ref" if refs else "anyOf"])
        if keyword == "$ref":
            schema[keyword] = rng.choice(["#/$defs/d", "#/$defs/e"])
        elif keyword == "not":
            schema[keyword] = self.schema(depth, refs, None)
        elif keyword == "if":
            schema[keyword] = self.schema(depth, refs, kind)
            for outcome in rng.sample(["then", "else"], rng.randrange(1, 3)):
                schema[outcome] = self.schema(depth, refs, kind)
        else:
            schema[keyword] = [self.schema(depth, refs, kind) for _ in range(rng.randrange(1, 4))]

    def _add_local(self, schema: dict[str, Json], depth: int, refs: bool, kind: str) -> None:
        rng = self.rng
        keyword = rng.choice([*KEYWORDS_OF[kind], *KEYWORDS_OF[kind], *KEYWORDS_OF[kind], "enum", "const"])
        schema[keyword] = argument_for(rng, keyword, lambda: self.part(depth, refs), kind)
        if keyword == "contains" and rng.random() < 0.5:
            schema[rng.choice(["minContains", "maxContains"])] = rng.randrange(3)

    def part(self, depth: int, refs: bool) -> Json:
        """A subschema for a member or an item."""
        if depth > 0:
            return self.schema(depth, refs)
        return small_schema(self.rng)


def small_schema(rng: random.Random) -> Json:
    """A schema of one keyword at most."""
    kind = rng.choice(TYPES)
    return rng.choice([{"type": kind}, {"type": kind}, {"const": rng.choice(SCALARS)}, True, {}, False])


def value_of(rng: random.Random, kind: str | None) -> Json:
    """A value that mostly has a type."""
    if kind is None or rng.random() < 0.25:
        return random_value(rng, 1)
    return _of_type(rng, kind, {}, {}, 2)


KEYWORDS_OF: dict[str, tuple[str, ...]] = {
    "null": (),
    "boolean": (),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "integer": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "string": ("minLength", "maxLength", "pattern"),
    "array": ("items", "prefixItems", "minItems", "maxItems", "contains", "uniqueItems"),
    "object": (
        *("properties", "properties", "required", "additionalProperties", "patternProperties"),
        *("propertyNames", "minProperties", "maxProperties", "dependentRequired", "dependentSchemas"),
    ),
}


def argument_for(rng: random.Random, keyword: str, part: Callable[[], Json], kind: str | None = None) -> Json:
    """An argument of a keyword; `part` makes its subschemas, `kind` is the type its values mostly have."""
    if keyword in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
        return rng.choice(NUMBERS)
    if keyword == "multipleOf":
        return rng.choice([1, 2, 3, 0.5, 1.5])
    if keyword.startswith(("min", "max")):
        return rng.randrange(4)
    if keyword == "pattern":
        return rng.choice(PATTERNS)
    if keyword == "uniqueItems":
        return rng.random() < 0.7
    if keyword == "enum":
        return [value_of(rng, kind) for _ in range(rng.randrange(1, 4))]
    if keyword == "const":
        return value_of(rng, kind)
    if keyword == "required":
        return rng.sample(NAMES, rng.randrange(3))
    if keyword == "prefixItems":
        return [part() for _ in range(rng.randrange(1, 3))]
    if keyword in ("properties", "dependentSchemas"):
        return {name: part() for name in rng.sample(NAMES, rng.randrange(1, 3))}
    if keyword == "patternProperties":
        return {pattern: part() for pattern in rng.sample(PATTERNS, rng.randrange(1, 3))}
    if keyword == "dependentRequired":
        return {rng.choice(NAMES): rng.sample(NAMES, rng.randrange(3))}
    if keyword == "propertyNames":
        return rng.choice([{"pattern": rng.choice(PATTERNS)}, {"maxLength": rng.randrange(3)}, part()])
    if keyword in ("allOf", "anyOf", "oneOf"):
        return [part() for _ in range(rng.randrange(1, 4))]
    return part()


def instance_for(rng: random.Random, schema: Json, root: Json, depth: int = 3) -> Json:
    """A value that follows a schema most of the time, and now and then does not."""
    if not isinstance(schema, dict) or depth <= 0 or rng.random() < 0.08:
        return random_value(rng, 1)
    if "const" in schema and rng.random() < 0.8:
        return schema["const"]
    if schema.get("enum") and rng.random() < 0.8:
        return rng.choice(schema["enum"])
    ways = [schema[k] for k in ("allOf", "anyOf", "oneOf") if schema.get(k)]
    branches = [part for parts in ways for part in parts] + [
        schema[k] for k in ("then", "else") if k in schema
    ]
    if "$ref" in schema:
        branches.append(root.get("$defs", {}).get(schema["$ref"].split("/")[-1], root))
    if branches and rng.random() < 0.5:
        chosen = rng.choice(branches)
        kept = {k: v for k, v in schema.items() if k in ("properties", "type", "required")}
        return instance_for(rng, {**(chosen if isinstance(chosen, dict) else {}), **kept}, root, depth - 1)
    declared = schema.get("type") or _implied(rng, schema)
    return _of_type(rng, declared if isinstance(declared, str) else rng.choice(declared), schema, root, depth)


def _implied(rng: random.Random, schema: dict[str, Json]) -> str:
    """A type that some keyword speaks about, or any."""
    spoken = [kind for kind, keywords in KEYWORDS_OF.items() if any(k in schema for k in keywords)]
    return rng.choice(spoken) if spoken and rng.random() < 0.8 else rng.choice(TYPES)


def _of_type(rng: random.Random, kind: str, schema: dict[str, Json], root: Json, depth: int) -> Json:
    if kind == "null":
        return None
    if kind == "boolean":
        return rng.random() < 0.5
    if kind in ("number", "integer"):
        bounds = [schema[k] for k in KEYWORDS_OF["number"] if k in schema] or [0]
        shift = rng.choice([-1, 0, 1, 2] if kind == "integer" else [-1, 0, 1, 0.5, -0.5])
        value = rng.choice(bounds) + shift if rng.random() < 0.6 else rng.choice(NUMBERS)
        return int(value) if value == int(value) else value
    if kind == "string":
        return rng.choice(TEXTS)
    if kind == "array":
        heads = schema.get("prefixItems", [])
        tail = schema.get("items", schema.get("contains", True))
        count = rng.randrange(4)
        if isinstance(schema.get("minItems"), int):
            count = max(count, schema["minItems"])
        return [
            instance_for(rng, heads[i] if i < len(heads) else tail, root, depth - 1) for i in range(count)
        ]
    return _object(rng, schema, root, depth)


def _object(rng: random.Random, schema: dict[str, Json], root: Json, depth: int) -> dict[str, Json]:
    declared = schema.get("properties", {})
    names = [name for name in declared if rng.random() < 0.7]
    names += schema.get("required", [])
    names += [
        name
        for name in NAMES
        if rng.random() < (0.05 if schema.get("additionalProperties") is False else 0.2)
    ]
    other = schema.get("additionalProperties", True)
    patterns = list(schema.get("patternProperties", {}).values())
    made = {}
    for name in dict.fromkeys(names):
        part = declared.get(name, rng.choice([other, *patterns]))
        made[name] = instance_for(rng, part, root, depth - 1)
    return made
