"""Every keyword and format that is listed as served has a text it admits and one it does not (SERV-13)."""

import json
import re
from pathlib import Path

import pytest

from engine.request import JsonOptions
from engine.text.schema.keyword_tables import REGENERATE, format_rows, keyword_rows, markdown
from engine.text.schema.keywords import IDENTIFIERS, KEYWORDS, Dialect, Role, find
from experiments.schema_samples import samples
from property_tests.schema_words import accepts, compiled, fault, is_valid

ROOT = Path(__file__).resolve().parent.parent
URIS = {dialect: uri for uri, dialect in IDENTIFIERS.items() if uri.startswith("http:") == (dialect <= 7)}
ANNOTATE = {"unknown_keywords": "annotate", "formats": "assert"}


def judged_valid(schema, text):
    return is_valid(schema, text, assert_formats=True, legacy_keywords=True)


LISTS = {"items": {"type": "boolean"}, "type": "array"}
DEFS = {"definitions": {"n": {"type": "null"}}}
SERVED = {  # keyword: a schema with it, a text it admits, a text it does not
    "type": ({"type": ["integer", "null"]}, "-7", "0.5"),
    "enum": ({"enum": [1, "é", {"a": [None]}]}, '{"a":[null]}', '"e"'),
    "const": ({"const": {"a": 1}}, '{"a":1}', '{"a":2}'),
    "minimum": ({"type": "integer", "minimum": 3}, "3", "2"),
    "maximum": ({"type": "number", "maximum": 0.1}, "0.1", "0.10000000000000002"),
    "exclusiveMinimum": ({"type": "number", "exclusiveMinimum": 0}, "5e-324", "0"),
    "exclusiveMaximum": ({"type": "integer", "exclusiveMaximum": 3}, "2", "3"),
    "multipleOf": ({"type": "number", "multipleOf": 0.01}, "19.99", "19.995"),
    "minLength": ({"type": "string", "minLength": 2}, '"😀\\n"', '"😀"'),
    "maxLength": ({"type": "string", "maxLength": 1}, '"😀"', '"ab"'),
    "pattern": ({"type": "string", "pattern": "^a|b$"}, '"xb"', '"ba"'),
    "format": ({"type": "string", "format": "date"}, '"2024-02-29"', '"2023-02-29"'),
    "minItems": ({**LISTS, "minItems": 1}, "[true]", "[]"),
    "maxItems": ({**LISTS, "maxItems": 1}, "[true]", "[true,true]"),
    "uniqueItems": ({"type": "array", "items": {"enum": [1, 2]}, "uniqueItems": True}, "[2,1]", "[1,1.0]"),
    "minContains": (
        {"type": "array", "contains": {"const": 1}, "minContains": 2},
        "[1,0,1]",
        "[1,0]",
    ),
    "maxContains": ({**LISTS, "contains": {"const": True}, "maxContains": 1}, "[true]", "[true,true]"),
    "minProperties": ({"type": "object", "minProperties": 1}, '{"a":1}', "{}"),
    "maxProperties": ({"type": "object", "maxProperties": 1}, '{"a":1}', '{"a":1,"b":2}'),
    "required": ({"type": "object", "required": ["a"]}, '{"a":1}', '{"b":1}'),
    "dependentRequired": (
        {"type": "object", "properties": {"a": {}, "b": {}}, "dependentRequired": {"a": ["b"]}},
        '{"a":1,"b":1}',
        '{"a":1}',
    ),
    "properties": ({"type": "object", "properties": {"a": {"type": "null"}}}, '{"a":null}', '{"a":1}'),
    "patternProperties": (
        {"type": "object", "patternProperties": {"^x": {"type": "null"}}},
        '{"xy":null,"y":1}',
        '{"xy":1}',
    ),
    "additionalProperties": (
        {"type": "object", "properties": {"a": {}}, "additionalProperties": {"type": "null"}},
        '{"a":1,"b":null}',
        '{"a":1,"b":1}',
    ),
    "unevaluatedProperties": (
        {"type": "object", "allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": False},
        '{"a":1}',
        '{"b":1}',
    ),
    "unevaluatedItems": (
        {"type": "array", "allOf": [{"minItems": 1}], "unevaluatedItems": {"type": "null"}},
        "[null]",
        "[1]",
    ),
    "propertyNames": ({"type": "object", "propertyNames": {"pattern": "^a"}}, '{"ab":1}', '{"b":1}'),
    "items": (LISTS, "[true,false]", "[true,0]"),
    "prefixItems": ({"type": "array", "prefixItems": [{"type": "null"}]}, "[null,1]", "[1]"),
    "additionalItems": (
        {"type": "array", "items": [{"type": "null"}], "additionalItems": {"type": "boolean"}},
        "[null,true]",
        "[null,null]",
    ),
    "contains": ({"type": "array", "contains": {"const": 1}}, "[0,1]", "[0]"),
    "dependencies": (
        {"type": "object", "properties": {"a": {}, "b": {}}, "dependencies": {"a": ["b"]}},
        '{"a":1,"b":1}',
        '{"a":1}',
    ),
    "dependentSchemas": (
        {"type": "object", "properties": {"a": {}}, "dependentSchemas": {"a": {"maxProperties": 1}}},
        '{"a":1}',
        '{"a":1,"b":1}',
    ),
    "allOf": ({"allOf": [{"type": "integer"}, {"minimum": 3}]}, "3", "2"),
    "anyOf": ({"anyOf": [{"type": "null"}, {"type": "boolean"}]}, "null", "0"),
    "oneOf": ({"type": "integer", "oneOf": [{"minimum": 3}, {"maximum": 5}]}, "6", "4"),
    "not": ({"type": "integer", "not": {"minimum": 3}}, "2", "3"),
    "if": ({"type": "integer", "if": {"minimum": 3}, "then": {"minimum": 5}}, "2", "4"),
    "then": ({"type": "integer", "if": {"minimum": 3}, "then": {"minimum": 5}}, "5", "4"),
    "else": ({"type": "integer", "if": {"minimum": 3}, "else": {"maximum": 0}}, "0", "1"),
    "$ref": ({**DEFS, "allOf": [{"$ref": "#/definitions/n"}]}, "null", "0"),
    "$dynamicRef": (
        {"$defs": {"n": {"$dynamicAnchor": "n", "type": "null"}}, "$dynamicRef": "#n"},
        "null",
        "0",
    ),
    "$recursiveRef": (
        {"type": "object", "additionalProperties": {"$recursiveRef": "#"}},
        '{"a":{"b":{}}}',
        '{"a":{"b":1}}',
    ),
}
BY_DIALECT = {
    (Dialect.DRAFT_4, "exclusiveMinimum"): (
        {"type": "integer", "minimum": 3, "exclusiveMinimum": True},
        "4",
        "3",
    ),
    (Dialect.DRAFT_4, "exclusiveMaximum"): (
        {"type": "integer", "maximum": 3, "exclusiveMaximum": True},
        "2",
        "3",
    ),
    (Dialect.DRAFT_4, "not"): ({"type": "integer", "not": {"enum": [3]}}, "2", "3"),
}
KNOWN = [(dialect, name) for dialect in Dialect for name in KEYWORDS if find(name, dialect) is not None]
BOUND = [pair for pair in KNOWN if KEYWORDS[pair[1]].role in (Role.ASSERTION, Role.APPLICATOR)]
FORMATS = {  # format: a string of it, a string that is none
    "date-time": ("2016-12-31T23:59:60Z", "2016-12-31T22:59:60Z"),
    "date": ("2024-02-29", "2023-02-29"),
    "time": ("12:00:00+01:00", "12:00:00"),
    "duration": ("P1DT12H", "P1D2H"),
    "email": ('"a b"@example.com', "a b@example.com"),
    "hostname": ("a-b.example", "-a.example"),
    "ipv4": ("127.0.0.1", "256.0.0.1"),
    "ipv6": ("::ffff:1.2.3.4", ":::1"),
    "uri": ("urn:a:b", "/a/b"),
    "uri-reference": ("/a/b?c#d", "a b"),
    "iri": ("http://é.example/", "/é"),
    "iri-reference": ("/é", "\\é"),
    "uri-template": ("/a/{b}", "/a/{b"),
    "uuid": ("01234567-89ab-cdef-0123-456789abcdef", "0123456789abcdef0123456789abcdef"),
    "json-pointer": ("/a~1b", "/a~2b"),
    "relative-json-pointer": ("1/a", "01/a"),
}


@pytest.mark.clause("JSON-48", "SERV-13")
def test_every_keyword_and_format_that_is_listed_has_a_case_below():
    assert set(SERVED) == {row.keyword for row in keyword_rows() if row.fate == "enforced"}
    assert set(FORMATS) == {row.format for row in format_rows() if row.fate == "enforced"}


@pytest.mark.clause("JSON-48", "SERV-13", "SERV-14")
@pytest.mark.parametrize("dialect,keyword", BOUND, ids=lambda part: str(part))
def test_a_listed_keyword_admits_and_refuses_in_every_dialect_that_has_it(dialect, keyword):
    schema, good, bad = BY_DIALECT.get((dialect, keyword), SERVED[keyword])
    schema = {"$schema": URIS[dialect], **schema}
    assert judged_valid(schema, good) and not judged_valid(schema, bad)
    assert accepts(schema, good, **ANNOTATE)
    assert not accepts(schema, bad, **ANNOTATE)


@pytest.mark.clause("JSON-48")
@pytest.mark.parametrize("keyword", SERVED)
def test_the_case_of_a_keyword_needs_the_keyword(keyword):
    """Without it the refused text is admitted: the case tests this keyword and not another one."""
    dialect = [dialect for dialect, name in BOUND if name == keyword][-1]
    schema, _, bad = SERVED[keyword]
    if keyword == "$ref":
        schema = {"allOf": [{}]}
    if keyword == "$recursiveRef":
        schema = {"type": "object", "additionalProperties": {}}
    schema = {name: part for name, part in schema.items() if name != keyword}
    assert judged_valid({"$schema": URIS[dialect], **schema}, bad)


@pytest.mark.clause("JSON-48", "SERV-13")
@pytest.mark.parametrize("name", FORMATS)
def test_a_listed_format_admits_and_refuses(name):
    schema = {"type": "string", "format": name}
    good, bad = (json.dumps(text, ensure_ascii=False) for text in FORMATS[name])
    assert judged_valid(schema, good) and not judged_valid(schema, bad)
    assert accepts(schema, good, formats="assert") and not accepts(schema, bad, formats="assert")


@pytest.mark.clause("SERV-13", "SERV-14", "JSON-2")
@pytest.mark.parametrize("dialect,keyword", KNOWN, ids=lambda part: str(part))
def test_what_is_listed_as_an_annotation_changes_nothing(dialect, keyword):
    role = KEYWORDS[keyword].role
    schema = {"$schema": URIS[dialect], "type": "object", "properties": {"a": {keyword: {}}}}
    if role is Role.ANNOTATION:
        assert accepts(schema, '{"a":1}', formats="annotate")
        assert accepts(schema, '{"a":"x"}', formats="annotate")


@pytest.mark.clause("SERV-13", "JSON-2")
@pytest.mark.parametrize("name", [row.format for row in format_rows() if row.fate == "refused"])
def test_a_format_that_is_listed_as_refused_is(name):
    schema = {"items": {"format": name}}
    assert fault(schema, formats="assert").pointer == "/items/format"
    assert accepts(schema, '["x"]', formats="annotate")


@pytest.mark.clause("SERV-13")
def test_a_keyword_outside_its_dialects_is_unknown():
    for name in KEYWORDS:
        for dialect in Dialect:
            if find(name, dialect) is None:
                schema = {"$schema": URIS[dialect], "items": {name: {}}}
                assert fault(schema).pointer == f"/items/{name}"


@pytest.mark.clause("SERV-13")
def test_the_published_page_is_what_the_code_says():
    page = ROOT / "engine" / "text" / "schema" / "KEYWORDS.md"
    assert page.read_text(encoding="utf-8") == markdown(), f"write it again: {REGENERATE}"


@pytest.mark.clause("SERV-13")
def test_the_page_has_a_row_for_every_keyword_format_and_option_word():
    page = markdown()
    rows = re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)
    words = [f"--{name.replace('_', '-')} {word}" for name, word in option_words()]
    assert rows == [*KEYWORDS, *(row.format for row in format_rows()), *words]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in page.splitlines() if line[:3] == "| `"} == {
        3,
        5,
        10,
    }


def option_words():
    for name, default in (("unknown_keywords", "refuse"), ("formats", "refuse"), ("whitespace", "bounded")):
        kind = type(getattr(JsonOptions(), name))
        assert getattr(JsonOptions(), name) == default
        yield from ((name, word) for word in kind)


SAMPLED = {name: schema for name, (schema, _, _) in SERVED.items()} | {
    "recursion": {
        "type": "object",
        "properties": {"a": {"$ref": "#"}},
        "required": ["b"],
        "maxProperties": 3,
    },
    "free names": {"type": "object", "minProperties": 4, "patternProperties": {"^a": {"type": "null"}}},
    "any": True,
    "listed structures": {"enum": [{"a": [1, {"b": None}]}, [], [{"a": "}"}, {}]]},
    "narrow": {
        "type": "string",
        "pattern": "^[a-c]{4}$",
        "allOf": [{"pattern": "^a.*b$"}, {"pattern": "ca"}],
    },
    "joined": {"type": "object", "properties": {"when": {"format": "date-time"}, "id": {"format": "uuid"}}},
}


@pytest.mark.parametrize("whitespace", ["bounded", "fixed", "compact"])
@pytest.mark.parametrize("name", SAMPLED)
def test_samples_are_members_by_the_matcher_and_by_the_oracle(name, whitespace):
    schema = SAMPLED[name]
    if isinstance(schema, dict) and "$schema" not in schema:
        dialect = next((d for d, keyword in reversed(BOUND) if keyword == name), Dialect.DRAFT_2020_12)
        schema = {"$schema": URIS[dialect], **schema}
    options = {"whitespace": whitespace, **ANNOTATE}
    language = compiled(schema, **options)
    for seed in range(3):
        found = samples(language.grammar, seed)
        assert 1 <= len(found) <= 3 and found == sorted(found, key=len) == samples(language.grammar, seed)
        for text in found:
            assert judged_valid(schema, text), text
            assert accepts(schema, text, **options), text
