"""Which arguments the keywords of JSON Schema may have; anything else is a malformed schema."""

from oracles.schema.text import Value

TYPES = ("null", "boolean", "number", "integer", "string", "array", "object")

# The JSON types a keyword's argument may have; under ("", keyword) for every draft.
_NUMBERS = ["multipleOf", "maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum"]
_COUNTS = [
    "maxLength",
    "minLength",
    "maxItems",
    "minItems",
    "maxProperties",
    "minProperties",
    "minContains",
    "maxContains",
]
_SCHEMAS = ["additionalProperties", "propertyNames", "additionalItems", "contains", "not", "if"]
_UNEVALUATED = ["unevaluatedProperties", "unevaluatedItems"]
_MAPS = ["properties", "patternProperties", "dependencies", "dependentRequired", "dependentSchemas"]
EXPECTED: dict[tuple[str, str], tuple[str, ...]] = {
    **{("", name): ("number",) for name in [*_NUMBERS, *_COUNTS]},
    **{("", name): ("string",) for name in ("$ref", "$dynamicRef", "$recursiveRef", "pattern", "format")},
    **{("", name): ("array",) for name in ("enum", "required", "prefixItems", "allOf", "anyOf", "oneOf")},
    **{("", name): ("object",) for name in _MAPS},
    **{("", name): ("object", "boolean") for name in [*_SCHEMAS, *_UNEVALUATED]},
    ("", "type"): ("string", "array"),
    ("", "uniqueItems"): ("boolean",),
    ("2020-12", "items"): ("object", "boolean"),
    ("", "items"): ("object", "boolean", "array"),
}


def is_well_formed(draft: str, keyword: str, argument: Value) -> bool:
    """Whether a keyword may have this argument; what it nests is looked at when it is applied."""
    if argument.kind not in EXPECTED.get((draft, keyword), EXPECTED.get(("", keyword), (argument.kind,))):
        return False
    if keyword in _COUNTS:
        return argument.data.is_integer and argument.data.coefficient >= 0
    if keyword == "multipleOf":
        return argument.data.coefficient > 0
    if keyword == "type":
        names = argument.data if argument.kind == "array" else (argument,)
        return all(name.kind == "string" and name.data in TYPES for name in names)
    return True
