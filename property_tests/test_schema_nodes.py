"""Do references, identities, anchors and dialects mean what each draft says? The oracle judges every row."""

import json

import pytest

from engine.errors import ErrorKind
from property_tests.schema_words import accepts, compiled, fault, is_valid

D4, D6, D7 = (f"http://json-schema.org/draft-0{n}/schema#" for n in (4, 6, 7))
D2019, D2020 = (f"https://json-schema.org/draft/{year}/schema" for year in ("2019-09", "2020-12"))
PROBES = (
    '"a"',
    '"ab"',
    '""',
    "1",
    "-1",
    "5",
    "null",
    "[]",
    '["a"]',
    "[1]",
    '[1,"a"]',
    "{}",
    '{"a":1}',
    '{"a":"a"}',
)
DEEP = ('{"a":{"a":{}}}', '{"a":{"a":1}}', '{"b":1}', '{"a":[[]]}', "[[]]", "[[1]]")
STRING, INTEGER = {"type": "string"}, {"type": "integer"}
REFERENCES = {
    "root": {"properties": {"a": {"$ref": "#"}}, "type": "object"},
    "defs": {"$ref": "#/$defs/s", "$defs": {"s": STRING}},
    "definitions": {"$ref": "#/definitions/s", "definitions": {"s": STRING}},
    "sibling": {"$ref": "#/$defs/s", "maxLength": 1, "$defs": {"s": STRING}},
    "into a property": {"properties": {"a": STRING, "b": {"$ref": "#/properties/a"}}},
    "into an item": {"prefixItems": [INTEGER, {"$ref": "#/prefixItems/0"}]},
    "escaped": {"$ref": "#/$defs/a~1b~0c%25", "$defs": {"a/b~c%": STRING}},
    "empty name": {"$ref": "#/$defs/", "$defs": {"": STRING}},
    "chain": {
        "$ref": "#/$defs/x",
        "$defs": {"x": {"$ref": "#/$defs/y"}, "y": {"$ref": "#/$defs/z"}, "z": STRING},
    },
    "anchor": {"$ref": "#s", "$defs": {"x": {"$anchor": "s", "type": "string"}}},
    "own id": {"$id": "http://x.test/root", "$ref": "http://x.test/root#/$defs/s", "$defs": {"s": STRING}},
    "relative id": {
        "$id": "http://x.test/base/root.json",
        "$ref": "other.json",
        "$defs": {"o": {"$id": "other.json", "type": "integer"}},
    },
    "nested id changes the base": {
        "$id": "http://x.test/root",
        "properties": {"a": {"$id": "inner", "$ref": "#/$defs/s", "$defs": {"s": INTEGER}}},
        "$defs": {"s": STRING},
    },
    "one name in two scopes": {
        "$ref": "inner",
        "maxLength": 1,
        "$defs": {"s": STRING, "i": {"$id": "inner", "$ref": "#/$defs/s", "$defs": {"s": INTEGER}}},
    },
    "anchor in another resource": {
        "$ref": "inner#s",
        "$defs": {"i": {"$id": "inner", "$defs": {"q": {"$anchor": "s", "type": "string"}}}, "s": INTEGER},
    },
    "dynamic with one place": {
        "$defs": {"n": {"$dynamicAnchor": "n", "type": "integer"}},
        "items": {"$dynamicRef": "#n"},
    },
    "mutual": {
        "$ref": "#/$defs/x",
        "$defs": {
            "x": {"type": "object", "properties": {"a": {"$ref": "#/$defs/y"}}},
            "y": {"type": ["array", "object"], "items": {"$ref": "#/$defs/x"}, "maxItems": 0},
        },
    },
    "never taken": {"anyOf": [STRING, {"type": "array", "items": {"$ref": "#"}, "minItems": 1}]},
}


@pytest.mark.clause("JSON-43", "JSON-44", "JSON-45", "SERV-17", "VER-2")
@pytest.mark.parametrize("name", REFERENCES)
def test_references_lead_where_the_draft_says(name):
    schema = REFERENCES[name]
    for text in (*PROBES, *DEEP):
        assert accepts(schema, text) is is_valid(schema, text), text


OLD = {
    "definitions": {"$ref": "#/definitions/s", "definitions": {"s": STRING}},
    "siblings are ignored": {"$ref": "#/definitions/s", "maxLength": 0, "definitions": {"s": STRING}},
    "id beside a reference is ignored": {
        "definitions": {"s": STRING, "t": INTEGER},
        "properties": {"a": {"$id": "http://x.test/", "id": "http://x.test/", "$ref": "#/definitions/t"}},
    },
    "items list": {"items": [INTEGER, STRING], "additionalItems": False},
    "items list with tail": {"items": [INTEGER], "additionalItems": STRING},
    "additionalItems alone says nothing": {"additionalItems": False},
    "additionalItems beside a schema says nothing": {"items": INTEGER, "additionalItems": False},
    "dependencies": {"dependencies": {"a": ["b"], "b": {"required": ["a"]}}},
}


@pytest.mark.clause("JSON-3", "JSON-31", "JSON-44", "VER-2")
@pytest.mark.parametrize("dialect", [D4, D6, D7])
@pytest.mark.parametrize("name", OLD)
def test_old_drafts(name, dialect):
    schema = {"$schema": dialect, **OLD[name]}
    for text in (*PROBES, *DEEP, '{"a":1,"b":1}'):
        assert accepts(schema, text) is is_valid(schema, text), text


@pytest.mark.clause("JSON-3", "JSON-4")
@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"$schema": D4, "minimum": 1, "exclusiveMinimum": True, "type": "integer"}, "1"),
        ({"$schema": D4, "minimum": 1, "exclusiveMinimum": False, "type": "integer"}, "1"),
        ({"$schema": D4, "maximum": 1, "exclusiveMaximum": True}, "1"),
        ({"$schema": D4, "not": {"maximum": 1, "exclusiveMaximum": True}}, "1"),
        ({"$schema": D4, "exclusiveMaximum": True, "type": "integer"}, "7"),
        (
            {"$schema": D4, "id": "http://x.test/a", "properties": {"a": {"$ref": "a#/d"}}, "d": INTEGER},
            '{"a":1}',
        ),
        ({"$schema": D4, "$ref": "#s", "definitions": {"x": {"id": "#s", "type": "integer"}}}, "1"),
        ({"$schema": D7, "$ref": "#s", "definitions": {"x": {"$id": "#s", "type": "integer"}}}, '"a"'),
        ({"$schema": D6, "exclusiveMinimum": 1, "const": 2}, "2"),
        ({"$schema": D6, "items": False}, "[1]"),
        ({"$schema": D7, "if": {"const": 1}, "then": False}, "1"),
        ({"$schema": D2019, "$ref": "#/$defs/s", "maxLength": 0, "$defs": {"s": STRING}}, '"a"'),
        ({"$schema": D2019, "items": [STRING], "additionalItems": INTEGER}, '["a",1]'),
        ({"$schema": D2019, "contains": {"const": 1}, "maxContains": 1}, "[1,1]"),
        ({"$schema": D2019, "properties": {"a": {"$recursiveRef": "#"}}, "type": "object"}, '{"a":1}'),
        ({"$schema": D2020 + "#", "prefixItems": [STRING], "items": INTEGER}, '["a",1]'),
    ],
)
def test_dialects(schema, text):
    assert accepts(schema, text, unknown_keywords="annotate") is is_valid(schema, text)


@pytest.mark.clause("JSON-43", "SERV-17", "EMPTY-6")
@pytest.mark.parametrize(
    ("schema", "kind", "pointer"),
    [
        ({"$ref": "http://example.test/s"}, ErrorKind.UNSUPPORTED_JSON_SCHEMA, "/$ref"),
        ({"$ref": "other.json#/a"}, ErrorKind.UNSUPPORTED_JSON_SCHEMA, "/$ref"),
        ({"$ref": "file:///etc/passwd"}, ErrorKind.UNSUPPORTED_JSON_SCHEMA, "/$ref"),
        ({"items": {"$ref": "#/nope"}}, ErrorKind.INVALID_JSON_SCHEMA, "/items/$ref"),
        ({"$ref": "/$defs/E", "$defs": {"E": {}}}, ErrorKind.UNSUPPORTED_JSON_SCHEMA, "/$ref"),
        ({"$ref": "#nope"}, ErrorKind.INVALID_JSON_SCHEMA, "/$ref"),
        ({"$ref": "#/allOf/00", "allOf": [{}]}, ErrorKind.INVALID_JSON_SCHEMA, "/$ref"),
        ({"$ref": 1}, ErrorKind.INVALID_JSON_SCHEMA, "/$ref"),
        ({"$ref": "#/required", "required": ["a"]}, ErrorKind.INVALID_JSON_SCHEMA, "/$ref"),
        ({"$ref": "#"}, ErrorKind.UNSUPPORTED_JSON_SCHEMA, ""),
        ({"anyOf": [{"$ref": "#"}, STRING]}, ErrorKind.UNSUPPORTED_JSON_SCHEMA, "/anyOf/0"),
        ({"properties": {"a": {"not": {"$ref": "#/properties/a"}}}}, ErrorKind.UNSUPPORTED_JSON_SCHEMA, None),
        ({"$schema": "http://example.test/dialect"}, ErrorKind.UNSUPPORTED_JSON_SCHEMA, "/$schema"),
        (
            {"$schema": "http://json-schema.org/draft-03/schema#"},
            ErrorKind.UNSUPPORTED_JSON_SCHEMA,
            "/$schema",
        ),
        ({"items": {"$schema": 3}}, ErrorKind.INVALID_JSON_SCHEMA, "/items/$schema"),
        (
            {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]},
            ErrorKind.UNSATISFIABLE_JSON_SCHEMA,
            None,
        ),
    ],
)
def test_references_that_cannot_be_followed_are_refused_in_place(schema, kind, pointer):
    error = fault(schema)
    assert error.kind is kind
    assert pointer is None or error.pointer == pointer


@pytest.mark.clause("SERV-17", "JSON-45")
def test_loops_that_stay_in_place_are_found_below_listed_values_and_names():
    """Values of an enum and names of members are decided by evaluation, which must not go round either."""
    loop = {"$defs": {"e": {"$ref": "#/$defs/e"}}}
    for schema in (
        {"enum": [{"a": 1}], "properties": {"a": {"$ref": "#/$defs/e"}}},
        {"propertyNames": {"$ref": "#/$defs/e"}, "properties": {"a": True}},
        {"const": 1, "allOf": [{"$ref": "#/$defs/e"}]},
    ):
        assert fault({**schema, **loop}).kind is ErrorKind.UNSUPPORTED_JSON_SCHEMA
    assert accepts({**loop, "type": "null"}, "null"), "a definition that nothing refers to does no harm"


@pytest.mark.clause("JSON-45")
def test_equal_references_are_one_rule_and_diamonds_stay_small():
    diamond = {"d0": {"type": "object", "properties": {"x": INTEGER}}}
    for i in range(1, 30):
        part = {"$ref": f"#/$defs/d{i - 1}"}
        diamond[f"d{i}"] = {"type": "object", "properties": {"a": part, "b": part}}
    language = compiled({"$defs": diamond, "$ref": "#/$defs/d29"})
    assert len(language.grammar.rules) < 200
    assert json.loads('{"a":{}}') == {"a": {}}


@pytest.mark.clause("JSON-8")
def test_only_schema_positions_are_read():
    schema = {"const": {"$ref": "#/nope", "type": 3}, "default": {"$id": 7, "minimum": "x"}}
    assert accepts(schema, '{"$ref":"#/nope","type":3}')
    named = {
        "properties": {"$ref": STRING, "type": INTEGER, "title": {"const": 1}},
        "additionalProperties": False,
    }
    for text in ('{"$ref":"a"}', '{"$ref":1}', '{"type":1}', '{"type":"x"}', '{"title":1}', '{"title":2}'):
        assert accepts(named, text) is is_valid(named, text), text


@pytest.mark.clause("JSON-5")
@pytest.mark.parametrize(
    "annotation",
    ["title", "description", "default", "examples", "$comment", "readOnly", "writeOnly", "deprecated"],
)
def test_annotations_change_nothing(annotation):
    for value in ("x", [1, 2], {"type": "null", "required": ["q"]}, False):
        schema = {"type": "object", "properties": {"a": {"const": 1, annotation: value}}, annotation: value}
        for text in ('{"a":1}', '{"a":2}', "{}", "1"):
            assert accepts(schema, text) is is_valid(schema, text)
