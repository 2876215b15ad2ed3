"""Two things that meet: places that share a schema, options that share a source, parts that share an object.

Each case is a schema with texts, and the judge says which of the texts are members; where it matters the
texts are in and out of one bound, one name or one branch only.
"""

import json

import pytest

from engine.text.schema.source import parse
from property_tests.schema_words import accepts, compact, compiled, fault, is_member, is_valid

OBJECT = {"type": "object"}
OVERLAP = {"oneOf": [{"minimum": 3}, {"maximum": 5}]}
WIDE = {f"m{i:03}": {"const": i} for i in range(70)}
TREE = {"type": "array", "items": {"$ref": "#/$defs/t"}, "maxItems": 1}
ONE_DEEPER = {"type": "array", "items": {"$ref": "#/$defs/t"}, "minItems": 1, "maxItems": 1}
SHORT = {"type": "array", "items": {"type": ["array", "null"]}, "maxItems": 1}
JUDGED = {
    "one oneOf in two places, proved exclusive in the first": (
        {"$defs": {"u": OVERLAP}, "type": "array", "maxItems": 2, "minItems": 2}
        | {
            "prefixItems": [
                {"$ref": "#/$defs/u", "enum": [1, 2, 6]},
                {"$ref": "#/$defs/u", "type": "integer"},
            ]
        },
        [[1, 4], [1, 6], [6, 2], [1, 3], [2, 5], [1, 0]],
    ),
    "branches that refer to themselves are not empty": (
        {"$defs": {"t": TREE}, "oneOf": [{"$ref": "#/$defs/t"}, {"type": "array", "maxItems": 2}]},
        [[], [[]], [[[]]], [1], [1, 2], [[], []], [[], 1], [[[], []]]],
    ),
    "a proof that comes back to itself": (
        {"$ref": "#/$defs/t", "$defs": {"t": {"oneOf": [ONE_DEEPER, SHORT, {"type": "null"}]}}},
        [None, [], [None], [[]], [[None]], [[[]]], [[[None]]], [1], [None, None]],
    ),
    "members of a closed object that must not all hold": (
        OBJECT
        | {"properties": {"a": {"enum": [1, "x"]}, "b": {"enum": [2, "y"]}}, "additionalProperties": False}
        | {"not": {"additionalProperties": {"type": "integer"}}},
        [{}, {"a": 1}, {"a": "x"}, {"b": 2}, {"b": "y"}, {"a": 1, "b": 2}, {"a": 1, "b": "y"}],
    ),
    "a search in a string of bounded length": (
        {"type": "string", "pattern": "b", "maxLength": 50},
        ["x" * n + end for n in (0, 30, 47, 48, 49, 50, 60) for end in ("", "b", "\nb", "b\n")],
    ),
    "not of a oneOf": (
        {"type": "integer", "minimum": 0, "maximum": 9, "not": OVERLAP},
        list(range(10)),
    ),
    "not of an anyOf": (
        {"type": "integer", "not": {"anyOf": [{"minimum": 5}, {"const": 2}]}},
        list(range(9)),
    ),
    "not of a type": ({"not": {"type": ["object", "array", "string"]}}, [None, True, 1, "a", [], {}]),
    "not of listed structures": (
        {
            "type": ["array", "object"],
            "not": {"enum": [[1], {"a": 1}, []]},
            "maxItems": 2,
            "maxProperties": 1,
        },
        [[], [1], [2], [1, 1], {}, {"a": 1}, {"a": 2}, {"b": 1}],
    ),
    "if without else": (
        {"type": "integer", "if": {"minimum": 5}, "then": {"multipleOf": 2}},
        list(range(10)),
    ),
    "then and else": (
        {"type": "integer", "if": {"minimum": 5}, "then": {"multipleOf": 2}, "else": {"const": 3}},
        list(range(10)),
    ),
    "a member that needs two others": (
        OBJECT
        | {"properties": {name: {"const": 1} for name in "abc"}, "additionalProperties": False}
        | {"dependentRequired": {"a": ["b", "c"]}},
        [{}, {"a": 1}, {"a": 1, "b": 1}, {"a": 1, "c": 1}, {"a": 1, "b": 1, "c": 1}, {"b": 1}],
    ),
    "listed values and their siblings": (
        {"enum": [1, 2, "a", "abc", [1], {"a": 1}, None], "minimum": 2, "maxLength": 2, "minItems": 2}
        | {"required": ["b"]},
        [1, 2, "a", "abc", [1], {"a": 1}, None],
    ),
    "number and integer in branches": (
        {"oneOf": [{"type": "number", "maximum": 2}, {"type": "integer", "minimum": 2}]},
        [1, 2, 3, 1.5, 2.5],
    ),
    "required and absent at once": (
        {"anyOf": [OBJECT | {"required": ["a"], "not": {"required": ["a"]}}, {"type": "null"}]},
        [{"a": 1}, {}, None],
    ),
    "members that must not all hold": (
        OBJECT | {"not": {"additionalProperties": {"type": "integer"}}, "maxProperties": 2},
        [{}, {"a": 1}, {"a": "b"}, {"a": 1, "b": "b"}, {"a": 1, "b": 2}],
    ),
    "a number of free and declared members": (
        OBJECT | {"properties": {"a": {"const": 1}}, "minProperties": 2, "maxProperties": 3},
        [dict.fromkeys(names, 1) for names in ("", "a", "b", "ab", "bc", "abc", "bcd", "abcd", "bcde")],
    ),
    "a closed branch beside an open one": (
        OBJECT
        | {
            "allOf": [{"properties": {"a": True}, "additionalProperties": False}, {"properties": {"b": True}}]
        },
        [{}, {"a": 1}, {"b": 1}, {"a": 1, "b": 1}],
    ),
    "names that must match and are declared": (
        OBJECT | {"properties": {"a": True, "bb": True}, "propertyNames": {"pattern": "^[ac]"}},
        [{}, {"a": 1}, {"bb": 1}, {"b": 1}, {"a": 1, "c": 1}],
    ),
    "patterns and the rest": (
        OBJECT | {"patternProperties": {"^a": {"type": "integer"}}, "additionalProperties": {"type": "null"}},
        [{"a": 1}, {"a": None}, {"b": 1}, {"b": None}, {"ab": 1, "b": None}],
    ),
    "items that all differ": (
        {"type": "array", "items": {"enum": ["a", "b", 1]}, "uniqueItems": True},
        [[], ["a"], ["a", "b"], ["a", "a"], ["a", "b", 1], ["a", "b", "a"], ["a", "b", 1, "b"]],
    ),
    "contains between bounds": (
        {"type": "array", "items": {"enum": [1, 2]}, "contains": {"const": 1}, "minContains": 1}
        | {"maxContains": 2, "maxItems": 4},
        [[], [2], [1], [1, 1], [1, 2, 1], [1, 1, 1], [2, 1, 1, 1], [2, 2, 2, 1]],
    ),
    "tails of an intersection": (
        {"type": "array", "maxItems": 3}
        | {"allOf": [{"prefixItems": [{"const": 1}], "items": {"const": 2}}, {"items": {"type": "integer"}}]},
        [[], [1], [2], [1, 2], [1, 1], [1, 2, 2], [1, 2, 1]],
    ),
    "not of items after a prefix": (
        {"type": "array", "maxItems": 2, "items": {"enum": [1, "a"]}}
        | {"not": {"prefixItems": [{"type": "integer"}], "items": {"type": "integer"}}},
        [[], [1], ["a"], [1, 1], [1, "a"], ["a", 1], ["a", "a"]],
    ),
    "a smallest length past the prefix": (
        {"type": "array", "prefixItems": [{"const": 1}], "items": {"const": 2}, "minItems": 3},
        [[], [1], [1, 2], [1, 2, 2], [1, 2, 2, 2]],
    ),
}


@pytest.mark.clause("JSON-7", "JSON-27", "JSON-31", "JSON-32", "JSON-34", "JSON-35", "JSON-36", "JSON-37")
@pytest.mark.clause("JSON-38", "JSON-39", "JSON-40", "JSON-41", "JSON-42", "JSON-45")
@pytest.mark.parametrize("name", JUDGED)
def test_every_text_as_the_judge_says(name):
    schema, values = JUDGED[name]
    language = compiled(schema, whitespace="compact")
    for value in values:
        text = compact(value)
        assert is_member(language, text) is is_valid(schema, text), text


@pytest.mark.clause("JSON-31")
def test_items_differ_by_value_and_not_by_spelling():
    source = '{"type":"array","prefixItems":[{"const":1.0},{"enum":[1,2]}],"uniqueItems":true,"items":false}'
    for text in ("[]", "[1]", "[1,2]", "[1,1]", "[1.0,1]", "[1,1.0]"):
        assert accepts(source, text, whitespace="compact") is is_valid(source, text), text


@pytest.mark.clause("JSON-28")
def test_a_wide_object_keeps_its_order():
    schema = OBJECT | {"properties": WIDE, "additionalProperties": False}
    names = list(WIDE)
    for chosen in ([0, 17, 69], [15, 16, 33, 34], [3, 40, 41, 64], list(range(0, 70, 7)), [69]):
        members = {names[i]: i for i in chosen}
        assert accepts(schema, compact(members), whitespace="compact"), chosen
        if len(chosen) > 1:
            swapped = dict(reversed(members.items()))
            assert not accepts(schema, compact(swapped), whitespace="compact"), chosen


@pytest.mark.clause("JSON-28", "SERV-4")
def test_free_names_that_would_run_out_are_listed_or_refused():
    few = OBJECT | {"propertyNames": {"pattern": "^[ab]$"}, "additionalProperties": {"const": 1}}
    for value in ({}, {"a": 1}, {"b": 1}, {"a": 1, "b": 1}):
        assert accepts(few, compact(value), whitespace="compact")
    assert not accepts(few, '{"a":1,"a":1}', whitespace="compact")
    assert not compiled(few, whitespace="compact")._names, "nothing is left to watch"
    many = OBJECT | {"propertyNames": {"pattern": "^[ab]{1,9}$"}}
    assert fault(many).location.pointer == "/propertyNames"


OPTIONS = {
    "whitespace": ({"type": "array"}, "[1, 2]", {"bounded": True, "fixed": True, "compact": False}),
    "unknown_keywords": ({"const": 1, "x": 2}, "1", {"refuse": None, "annotate": True}),
    "formats": (
        {"type": "string", "format": "date"},
        '"x"',
        {"refuse": None, "annotate": True, "assert": False},
    ),
}


@pytest.mark.clause("CACHE-2", "SERV-18", "JSON-7")
@pytest.mark.parametrize("option", OPTIONS)
def test_every_option_makes_a_language_of_its_own(option):
    schema, text, words = OPTIONS[option]
    for order in (list(words), list(words)[::-1]):
        for word in order:
            if words[word] is None:
                fault(schema, **{option: word})
            else:
                assert accepts(schema, text, **{option: word}) is words[word], word


@pytest.mark.clause("JSON-26", "JSON-2")
@pytest.mark.parametrize("keyword", ["const", "minimum", "multipleOf"])
def test_a_number_that_reading_rounds_is_refused_where_it_asserts(keyword):
    text = "0.10000000000000000001"
    found = fault(f'{{"{keyword}":{text}}}')
    assert found.location.pointer == f"/{keyword}"
    compiled(f'{{"default":{text}}}')
    assert parse(text).text == text


TIES = {  # past 2**53 every second integer is a tie, and goes to the even neighbour
    ("exclusiveMaximum", 2**53 + 2, 2**53 + 1): True,
    ("exclusiveMaximum", 2**53 + 4, 2**53 + 3): False,
    ("exclusiveMinimum", 2**53, 2**53 + 1): False,
    ("exclusiveMinimum", 2**53 + 2, 2**53 + 3): True,
    ("maximum", 2**53 + 2, 2**53 + 3): False,
    ("minimum", 2**53 + 2, 2**53 + 1): False,
}


@pytest.mark.clause("JSON-24", "JSON-23")
@pytest.mark.parametrize("keyword, bound, tie", TIES)
def test_a_tie_keeps_its_bound_after_reading(keyword, bound, tie):
    schema = {"type": "number", keyword: bound}
    text = f"{tie}.0"
    again = json.dumps(float(text))
    wanted = is_valid(schema, text) and is_valid(schema, again)
    assert wanted is TIES[keyword, bound, tie]
    for spelling in (text, f"{text[0]}.{text[1:-2]}e15"):
        assert accepts(schema, spelling) is wanted, spelling
    assert accepts(schema, str(tie)) is is_valid(schema, str(tie)), "integers are exact"


@pytest.mark.clause("JSON-21", "JSON-3")
@pytest.mark.parametrize("keyword, flag", [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")])
def test_bounds_of_draft_4(keyword, flag):
    dialect = "http://json-schema.org/draft-04/schema#"
    for given in ({}, {flag: True}, {flag: False}):
        schema = {"$schema": dialect, "type": "integer", keyword: 5, **given}
        for number in (4, 5, 6):
            text = json.dumps(number)
            assert accepts(schema, text) is is_valid(schema, text), (schema, number)


@pytest.mark.clause("JSON-8", "JSON-44")
def test_listed_values_hold_no_schemas_and_draft_7_has_no_siblings_of_references():
    value = {"$ref": "#/nowhere", "type": 3, "not": {"enum": 0}}
    assert accepts({"const": value}, compact(value), whitespace="compact")
    assert accepts({"enum": [value, 1]}, compact(value), whitespace="compact")
    old = {"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"u": {"minimum": 1}}}
    schema = old | {"$ref": "#/definitions/u", "maximum": 3}
    assert accepts(schema, "9") is is_valid(schema, "9") is True
