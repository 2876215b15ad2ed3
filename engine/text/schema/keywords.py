"""What every keyword of JSON Schema means here: one table that the code, explain-schema and the docs read.

A keyword is an assertion (enforced exactly), an applicator (has subschemas), an annotation (changes no mask),
or part of a schema's identity; the unevaluated ones are refused where they depend on the instance. A name
outside the table is unknown: refused, or an annotation on request. Sources: JSON Schema drafts 4, 6, 7,
2019-09 and 2020-12, core and validation.
"""

import enum
from collections.abc import Mapping

import attrs


class Dialect(enum.IntEnum):
    """The served drafts, in order of age."""

    DRAFT_4 = 4
    DRAFT_6 = 6
    DRAFT_7 = 7
    DRAFT_2019_09 = 2019
    DRAFT_2020_12 = 2020

    def __str__(self) -> str:
        return self.name.lower().replace("_", "-", 1).replace("draft-20", "20").replace("_", "-")


NEWEST = Dialect.DRAFT_2020_12
IDENTIFIERS: Mapping[str, Dialect] = {
    f"{scheme}://json-schema.org/{path}": dialect
    for path, dialect in {
        "draft-04/schema": Dialect.DRAFT_4,
        "draft-06/schema": Dialect.DRAFT_6,
        "draft-07/schema": Dialect.DRAFT_7,
        "draft/2019-09/schema": Dialect.DRAFT_2019_09,
        "draft/2020-12/schema": Dialect.DRAFT_2020_12,
    }.items()
    for scheme in ("http", "https")
}


class Role(enum.StrEnum):
    """What becomes of a keyword."""

    ASSERTION = "assertion"
    APPLICATOR = "applicator"
    ANNOTATION = "annotation"
    IDENTITY = "identity"


class Shape(enum.StrEnum):
    """The form of a keyword's argument: how it is checked, and where its subschemas stand."""

    ANY = "any value"
    STRING = "a string"
    BOOLEAN = "true or false"
    COUNT = "an integer from 0"
    NUMBER = "a number"
    POSITIVE = "a number above 0"
    LIMIT_FLAG = "true or false"  # draft 4: whether the bound beside it is exclusive
    NAMES = "a list of different strings"
    TYPES = "a type name or a non-empty list of different type names"
    VALUES = "a list of values"
    PATTERN = "a regular expression"
    SCHEMA = "a schema"
    SCHEMAS = "a non-empty list of schemas"
    MEMBERS = "an object of schemas"
    PATTERNS = "an object of schemas under regular expressions"
    ITEMS = "a schema or a list of schemas"
    NEEDS = "an object of lists of names"
    DEPENDENCIES = "an object of schemas or lists of names"


@attrs.frozen
class Keyword:
    """One row of the table: `note` says where it is refused."""

    role: Role
    shape: Shape
    since: Dialect = Dialect.DRAFT_4
    until: Dialect = NEWEST
    note: str = ""

    def is_known_in(self, dialect: Dialect) -> bool:
        """Whether the dialect has the keyword."""
        return self.since <= dialect <= self.until


def _assertion(shape: Shape, since: Dialect = Dialect.DRAFT_4, until: Dialect = NEWEST) -> Keyword:
    return Keyword(Role.ASSERTION, shape, since, until)


def _applicator(shape: Shape, since: Dialect = Dialect.DRAFT_4, until: Dialect = NEWEST) -> Keyword:
    return Keyword(Role.APPLICATOR, shape, since, until)


_NOTE = Keyword(Role.ANNOTATION, Shape.ANY)
_SIX, _SEVEN, _2019, _2020 = Dialect.DRAFT_6, Dialect.DRAFT_7, Dialect.DRAFT_2019_09, Dialect.DRAFT_2020_12
CONTENT = ("contentEncoding", "contentMediaType", "contentSchema")  # draft 7 lets them assert, as `format`
_UNEVALUATED = "beside anyOf, oneOf, if, dependentSchemas or contains: it depends on the instance"
KEYWORDS: Mapping[str, Keyword] = {
    "type": _assertion(Shape.TYPES),
    "enum": _assertion(Shape.VALUES),
    "const": _assertion(Shape.ANY, _SIX),
    "minimum": _assertion(Shape.NUMBER),
    "maximum": _assertion(Shape.NUMBER),
    "exclusiveMinimum": _assertion(Shape.NUMBER),
    "exclusiveMaximum": _assertion(Shape.NUMBER),
    "multipleOf": _assertion(Shape.POSITIVE),
    "minLength": _assertion(Shape.COUNT),
    "maxLength": _assertion(Shape.COUNT),
    "pattern": _assertion(Shape.PATTERN),
    "format": _assertion(Shape.STRING),
    "minItems": _assertion(Shape.COUNT),
    "maxItems": _assertion(Shape.COUNT),
    "uniqueItems": _assertion(Shape.BOOLEAN),
    "minContains": _assertion(Shape.COUNT, _2019),
    "maxContains": _assertion(Shape.COUNT, _2019),
    "minProperties": _assertion(Shape.COUNT),
    "maxProperties": _assertion(Shape.COUNT),
    "required": _assertion(Shape.NAMES),
    "dependentRequired": _assertion(Shape.NEEDS, _2019),
    "properties": _applicator(Shape.MEMBERS),
    "patternProperties": _applicator(Shape.PATTERNS),
    "additionalProperties": _applicator(Shape.SCHEMA),
    "propertyNames": _applicator(Shape.SCHEMA, _SIX),
    "items": _applicator(Shape.ITEMS),
    "prefixItems": _applicator(Shape.SCHEMAS, _2020),
    "additionalItems": _applicator(Shape.SCHEMA, until=_2019),
    "contains": _applicator(Shape.SCHEMA, _SIX),
    "dependencies": _applicator(Shape.DEPENDENCIES),  # newer drafts keep its meaning for old schemas
    "dependentSchemas": _applicator(Shape.MEMBERS, _2019),
    "allOf": _applicator(Shape.SCHEMAS),
    "anyOf": _applicator(Shape.SCHEMAS),
    "oneOf": _applicator(Shape.SCHEMAS),
    "not": _applicator(Shape.SCHEMA),
    "if": _applicator(Shape.SCHEMA, _SEVEN),
    "then": _applicator(Shape.SCHEMA, _SEVEN),
    "else": _applicator(Shape.SCHEMA, _SEVEN),
    "$ref": _applicator(Shape.STRING),
    "$dynamicRef": _applicator(Shape.STRING, _2020),
    "$recursiveRef": _applicator(Shape.STRING, _2019, _2019),
    "unevaluatedItems": Keyword(Role.APPLICATOR, Shape.SCHEMA, _2019, note=_UNEVALUATED),
    "unevaluatedProperties": Keyword(Role.APPLICATOR, Shape.SCHEMA, _2019, note=_UNEVALUATED),
    **dict.fromkeys(("$schema", "$id", "id", "$anchor", "$dynamicAnchor"), Keyword(Role.IDENTITY, Shape.ANY)),
    **dict.fromkeys(("$recursiveAnchor", "$vocabulary"), Keyword(Role.IDENTITY, Shape.ANY)),
    **dict.fromkeys(("$defs", "definitions"), Keyword(Role.ANNOTATION, Shape.MEMBERS)),
    **dict.fromkeys(("title", "description", "default", "examples", "$comment"), _NOTE),
    **dict.fromkeys(("readOnly", "writeOnly", "deprecated"), _NOTE),
    **dict.fromkeys(CONTENT, Keyword(Role.ANNOTATION, Shape.ANY, _SEVEN)),
}
REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
DRAFT_4_FLAGS = ("exclusiveMinimum", "exclusiveMaximum")
TYPES = ("null", "boolean", "object", "array", "number", "string", "integer")
SUBSCHEMA_SHAPES = frozenset(
    {Shape.SCHEMA, Shape.SCHEMAS, Shape.MEMBERS, Shape.PATTERNS, Shape.ITEMS, Shape.DEPENDENCIES}
)


def shape_in(name: str, dialect: Dialect) -> Shape:
    """The form of a keyword's argument in a dialect."""
    if dialect is Dialect.DRAFT_4 and name in DRAFT_4_FLAGS:
        return Shape.LIMIT_FLAG
    if name == "items" and dialect is NEWEST:
        return Shape.SCHEMA
    return KEYWORDS[name].shape


def find(name: str, dialect: Dialect) -> Keyword | None:
    """The table's row for a name, None where the dialect does not know it."""
    keyword = KEYWORDS.get(name)
    return keyword if keyword is not None and keyword.is_known_in(dialect) else None
