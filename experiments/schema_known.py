"""Small schemas on which schema converters have been seen to drop a rule, or to refuse what is valid.

Each entry: what goes wrong, the schema, instances that are valid, instances that are not. All of them must
come out right.
"""

from collections.abc import Iterator

from experiments.schema_data import Case, Instance

OPEN = "known faults: accepts too much"
SHUT = "known faults: refuses what is valid"

ACCEPTS_TOO_MUCH = (
    (
        "not",
        '{"type": "object", "properties": {"p": {"type": "string", "not": {"enum": ["no"]}}}, '
        '"required": ["p"]}',
        ('{"p": "yes"}', '{"p": "non"}'),
        ('{"p": "no"}', "{}"),
    ),
    (
        "if and then",
        '{"type": "object", "properties": {"kind": {"enum": ["n", "s"]}, "len": {"type": "integer"}}, '
        '"required": ["kind"], "additionalProperties": false, '
        '"if": {"properties": {"kind": {"const": "n"}}}, "then": {"required": ["len"]}}',
        ('{"kind": "s"}', '{"kind": "n", "len": 4}'),
        ('{"kind": "n"}',),
    ),
    (
        "uniqueItems over a finite set",
        '{"type": "array", "items": {"enum": [1, 2, 3]}, "uniqueItems": true}',
        ("[]", "[2]", "[3, 1, 2]"),
        ("[1, 1]", "[1, 2, 1]"),
    ),
    (
        "contains",
        '{"type": "array", "items": {"type": "string"}, "contains": {"const": "x"}}',
        ('["x"]', '["a", "x", "b"]'),
        ("[]", '["a"]'),
    ),
    (
        "dependentRequired",
        '{"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, '
        '"dependentRequired": {"a": ["b"]}}',
        ('{"b": 1}', '{"a": 1, "b": 2}'),
        ('{"a": 1}',),
    ),
    (
        "siblings of $ref",
        '{"$defs": {"text": {"type": "string"}}, "type": "object", '
        '"properties": {"a": {"$ref": "#/$defs/text", "maxLength": 2}}}',
        ('{"a": "ab"}', '{"a": "é😀"}'),
        ('{"a": "abc"}', '{"a": 1}'),
    ),
    (
        "siblings of anyOf",
        '{"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": false, '
        '"anyOf": [{"required": ["a"]}]}',
        ('{"a": 7}',),
        ("{}", '{"a": "x"}', '{"a": 7, "z": 1}'),
    ),
    (
        "an assertion without a type",
        '{"type": "object", "properties": {"a": {"minimum": 5}, "b": {"minLength": 2}}}',
        ('{"a": 5}', '{"a": "x"}', '{"b": "ab"}', '{"b": 1}'),
        ('{"a": 4}', '{"b": "a"}'),
    ),
    (
        "required name that is not declared",
        '{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a", "q"]}',
        ('{"a": 1, "q": null}',),
        ('{"a": 1}', '{"q": 1}'),
    ),
    (
        "patternProperties on a declared name",
        '{"type": "object", "properties": {"foo": {"type": "integer"}}, '
        '"patternProperties": {"^foo$": {"type": "integer", "maximum": 5}}}',
        ('{"foo": 5}', '{"food": 9}'),
        ('{"foo": 9}',),
    ),
    (
        "allOf branch without a type",
        '{"type": "array", "items": {"type": "integer"}, "allOf": [{"minItems": 2}]}',
        ("[1, 2]",),
        ("[1]", "[]"),
    ),
    (
        "siblings of a single allOf branch",
        '{"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}}], "required": ["b"]}',
        ('{"a": 1, "b": 2}', '{"b": []}'),
        ('{"a": 1}', '{"a": "x", "b": 2}'),
    ),
)

REFUSES_WHAT_IS_VALID = (
    ("pattern that is not anchored", '{"type": "string", "pattern": "^s3://"}', ('"s3://b/k"',), ('"s3:/"',)),
    (
        "escapes under a pattern",
        '{"type": "string", "pattern": "^.+$"}',
        ('"say \\"hi\\""', '"\\\\"'),
        ('""',),
    ),
    ("escapes under a length", '{"type": "string", "minLength": 1}', ('"\\n"', '"\\u0001"'), ('""',)),
    (
        "many digits under a bound",
        '{"type": "number", "minimum": 0.5}',
        ("0.6123456789", "0.5", "1e3"),
        ("0.4999", "-1", "4.9e-1"),
    ),
    (
        "patternProperties as a search",
        '{"type": "object", "patternProperties": {"^f": {"type": "integer"}}, "additionalProperties": false}',
        ('{"foo": 1}', '{"f": 1, "f2": 2}', "{}"),
        ('{"foo": "x"}', '{"of": 1}'),
    ),
    (
        "structured enum with spaces",
        '{"enum": [[1, 2], {"a": 1}]}',
        ("[1, 2]", '{"a": 1}'),
        ("[1]", "[2, 1]"),
    ),
    (
        "properties without a type",
        '{"properties": {"a": {"type": "integer"}}}',
        ("12", '"a"', '{"a": 1}'),
        ('{"a": ""}',),
    ),
    (
        "absolute uri-reference",
        '{"type": "string", "format": "uri-reference"}',
        ('"https://example.com/x"', '"../y?z#f"'),
        ('"a b"', '"\\\\\\\\h"'),
    ),
    (
        "false as a property's schema",
        '{"type": "object", "properties": {"a": false, "b": {"type": "integer"}}}',
        ('{"b": 1}', "{}"),
        ('{"a": 1}', '{"a": 1, "b": 1}'),
    ),
    (
        "true in prefixItems",
        '{"type": "array", "prefixItems": [true, {"type": "string"}]}',
        ('[1, "a"]', "[1]", "[]", '[1, "a", 2]'),
        ("[1, 2]",),
    ),
    ("fractional bound of an integer", '{"type": "integer", "minimum": 0.5}', ("1", "12"), ("0", "-1")),
    ("bound past int64", '{"type": "integer", "maximum": 18446744073709551615}', ("5", "-5"), ("1.5", '"5"')),
    (
        "unevaluatedProperties over allOf",
        '{"type": "object", "properties": {"a": {"type": "integer"}}, '
        '"allOf": [{"properties": {"b": {"type": "integer"}}}], "unevaluatedProperties": false}',
        ('{"a": 1, "b": 2}', "{}"),
        ('{"a": 1, "c": 2}', '{"b": ""}'),
    ),
)


def known() -> Iterator[Case]:
    """The entries as cases."""
    for group, entries in ((OPEN, ACCEPTS_TOO_MUCH), (SHUT, REFUSES_WHAT_IS_VALID)):
        for name, schema, valid, invalid in entries:
            instances = [*(Instance(t, True) for t in valid), *(Instance(t, False) for t in invalid)]
            yield Case(name, group, schema, tuple(instances))
