"""The same language in two spellings has the same masks, and what has no order has none.

Two compiled languages walk in lockstep over a vocabulary whose tokens cut members, escapes and characters: at
every step all bits and the right to end must agree. Member order is the order of the text, so nothing here
reorders properties.
"""

import json
import random

import numpy as np
import pytest

from engine.request import OutputConstraint
from property_tests.schema_words import _weights as likings
from property_tests.schema_words import compiled, compiler, legal

WALKS, STEPS = 8, 40


def differ_at(one, other, seed=0):
    """The bytes after which two languages differ, None if no walk finds any."""
    for index in range(WALKS):
        rng = random.Random(seed * 1000 + index)
        matchers, path = (one.new_matcher(), other.new_matcher()), []
        for _ in range(STEPS):
            rows = [legal(matcher) for matcher in matchers]
            if not np.array_equal(*rows) or matchers[0].may_end is not matchers[1].may_end:
                return path
            weights = np.where(rows[0], likings(), 0.0).cumsum()
            token_id = int(np.searchsorted(weights, rng.random() * weights[-1], side="right"))
            for matcher in matchers:
                matcher.preview([token_id])
                matcher.confirm()
            if matchers[0].terminated:
                break
            path.append(token_id)
    return None


def assert_same(one, other, **options):
    languages = [compiled(schema, **options) for schema in (one, other)]
    path = differ_at(*languages)
    assert path is None, f"{json.dumps(one)} and {json.dumps(other)} differ after {path}"


A, B = {"type": "integer", "minimum": 1}, {"type": "string", "maxLength": 2}
LIST = {"type": "array", "items": {"$ref": "#/$defs/t"}, "maxItems": 2}
DRAFT_4 = "http://json-schema.org/draft-04/schema#"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
NO_ORDER = {
    "enum": ({"enum": [1, "ab", None, [1], {"a": 2}]}, {"enum": [{"a": 2}, None, [1], "ab", 1]}),
    "enum of many strings": (
        {"enum": [f"a{i:02}b" for i in range(40)]},
        {"enum": [f"a{i:02}b" for i in reversed(range(40))]},
    ),
    "enum of strings that begin alike": (
        {"enum": ["ab", "b", "ac", "ba", "abc", ""]},
        {"enum": ["", "b", "ba", "abc", "ac", "ab"]},
    ),
    "type": ({"type": ["integer", "null", "string"]}, {"type": ["string", "integer", "null"]}),
    "anyOf": ({"anyOf": [A, B, {"const": "aaaa"}]}, {"anyOf": [{"const": "aaaa"}, B, A]}),
    "oneOf": (
        {"oneOf": [A, {"type": "number", "maximum": 2}, B]},
        {"oneOf": [B, {"type": "number", "maximum": 2}, A]},
    ),
    "allOf": (
        {"allOf": [{"type": "integer"}, {"minimum": -3}, {"maximum": 12}, {"not": {"const": 4}}]},
        {"allOf": [{"not": {"const": 4}}, {"maximum": 12}, {"minimum": -3}, {"type": "integer"}]},
    ),
    "required": (
        {"type": "object", "properties": {"a": A, "b": B}, "required": ["a", "b"]},
        {"type": "object", "properties": {"a": A, "b": B}, "required": ["b", "a"]},
    ),
    "definitions": (
        {"$ref": "#/$defs/t", "$defs": {"t": LIST, "u": A, "v": {"$ref": "#/$defs/u"}}},
        {"$defs": {"v": {"$ref": "#/$defs/u"}, "u": A, "t": LIST}, "$ref": "#/$defs/t"},
    ),
    "keywords": (
        {"type": "string", "minLength": 1, "maxLength": 3, "pattern": "^[ab]"},
        {"pattern": "^[ab]", "maxLength": 3, "minLength": 1, "type": "string"},
    ),
    "patternProperties": (
        {"type": "object", "patternProperties": {"^a": A, "b$": {"maximum": 4}}, "additionalProperties": B},
        {"type": "object", "additionalProperties": B, "patternProperties": {"b$": {"maximum": 4}, "^a": A}},
    ),
    "dependentRequired": (
        {"type": "object", "properties": {"a": A, "b": B, "c": A}, "additionalProperties": False}
        | {"dependentRequired": {"a": ["b", "c"], "b": ["c"]}},
        {"type": "object", "properties": {"a": A, "b": B, "c": A}, "additionalProperties": False}
        | {"dependentRequired": {"b": ["c"], "a": ["c", "b"]}},
    ),
    "unique items": (
        {"type": "array", "items": {"enum": ["a", "b", 1]}, "uniqueItems": True},
        {"type": "array", "items": {"enum": [1, "b", "a"]}, "uniqueItems": True},
    ),
    "members of an enum's object stay": (
        {"enum": [{"a": 1, "b": 2}, {"b": 1, "a": 2}]},
        {"enum": [{"b": 1, "a": 2}, {"a": 1, "b": 2}]},
    ),
}
SPELLINGS = {
    "const is an enum of one": ({"const": "a\n"}, {"enum": ["a\n"]}),
    "one as an integer and as a decimal": ({"enum": [1, 2]}, {"enum": [2, 1, 1.0]}),
    "a bound as a decimal": (
        {"type": "number", "minimum": 1, "maximum": 12},
        '{"type":"number","minimum":10e-1,"maximum":12.0}',
    ),
    "an exclusive bound of an integer": (
        {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 13},
        {"type": "integer", "minimum": 1, "maximum": 12},
    ),
    "a fractional bound of an integer": (
        {"type": "integer", "minimum": 2.5, "maximum": 12.5},
        {"type": "integer", "minimum": 3, "maximum": 12},
    ),
    "number is around integer": ({"type": ["number", "integer"]}, {"type": "number"}),
    "integer is inside number": ({"type": ["integer", "number"]}, {"type": "number"}),
    "an escaped name": (
        '{"properties":{"a":{"const":1}},"required":["a"],"type":"object","additionalProperties":false}',
        '{"properties":{"\\u0061":{"const":1}},"required":["\\u0061"],"type":"object"'
        ',"additionalProperties":false}',
    ),
    "definitions under their old name": (
        {"$ref": "#/$defs/u", "$defs": {"u": A}},
        {"$ref": "#/definitions/u", "definitions": {"u": A}},
    ),
    "a reference is what it points at": ({"items": A, "type": "array"}, LIST | {"$defs": {"t": A}}),
    "an anchor is its schema": (
        {"items": {"$ref": "#/$defs/u"}, "type": "array", "$defs": {"u": A}},
        {"items": {"$ref": "#here"}, "type": "array", "$defs": {"u": A | {"$anchor": "here"}}},
    ),
    "allOf is its parts together": (
        {"allOf": [{"type": "string"}, {"minLength": 1}, {"pattern": "^[ab]*$"}]},
        {"type": "string", "minLength": 1, "pattern": "^[ab]*$"},
    ),
    "an anyOf of one": ({"anyOf": [A]}, A),
    "anyOf takes its siblings": (
        {"type": "integer", "minimum": 2, "anyOf": [{"maximum": 3}, {"const": 7}]},
        {"anyOf": [{"type": "integer", "minimum": 2, "maximum": 3}, {"const": 7, "type": "integer"}]},
    ),
    "exclusive branches are alternatives": ({"oneOf": [A, B]}, {"anyOf": [A, B]}),
    "a branch that both take is in none": (
        {"oneOf": [{"type": "integer", "minimum": 0}, {"type": "integer", "maximum": 4}]},
        {"anyOf": [{"type": "integer", "maximum": -1}, {"type": "integer", "minimum": 5}]},
    ),
    "not twice": ({"not": {"not": A}}, A),
    "the opposite of a bound": (
        {"type": "integer", "not": {"minimum": 3}},
        {"type": "integer", "exclusiveMaximum": 3},
    ),
    "the opposite of a union": (
        {"type": "string", "not": {"anyOf": [{"minLength": 3}, {"const": "a"}]}},
        {"type": "string", "maxLength": 2, "not": {"const": "a"}},
    ),
    "a condition is two cases": (
        {"type": "integer", "if": {"minimum": 5}, "then": {"maximum": 9}, "else": {"multipleOf": 2}},
        {"type": "integer", "anyOf": [{"minimum": 5, "maximum": 9}, {"maximum": 4, "multipleOf": 2}]},
    ),
    "a dependency is a condition": (
        {"type": "object", "properties": {"a": A, "b": B}, "additionalProperties": False}
        | {"dependentRequired": {"a": ["b"]}},
        {"type": "object", "properties": {"a": A, "b": B}, "additionalProperties": False}
        | {"if": {"required": ["a"]}, "then": {"required": ["b"]}},
    ),
    "an open object": (
        {"type": "object", "properties": {"a": A}},
        {"type": "object", "properties": {"a": A}, "additionalProperties": True},
    ),
    "no more members than there are": (
        {"type": "object", "properties": {"a": A, "b": B}, "additionalProperties": False},
        {"type": "object", "properties": {"a": A, "b": B}, "additionalProperties": False, "maxProperties": 2},
    ),
    "a pattern for one name": (
        {"type": "object", "properties": {"a": A}, "additionalProperties": False},
        {"type": "object", "properties": {"a": True}, "patternProperties": {"^a$": A}}
        | {"additionalProperties": False, "propertyNames": {"const": "a"}},
    ),
    "a length is a pattern": (
        {"type": "string", "minLength": 1, "maxLength": 3},
        {"type": "string", "pattern": "^[\\s\\S]{1,3}$"},
    ),
    "two patterns that are one": (
        {"type": "string", "allOf": [{"pattern": "^[ab]*$"}, {"pattern": "^[bc]*$"}]},
        {"type": "string", "pattern": "^b*$"},
    ),
    "a multiple of listed numbers": (
        {"type": "integer", "minimum": 0, "maximum": 10, "multipleOf": 5},
        {"type": "integer", "minimum": 0, "maximum": 10, "multipleOf": 2.5, "not": {"enum": [1, 2]}},
    ),
    "items that cannot repeat": (
        {"type": "array", "items": A, "maxItems": 1, "uniqueItems": True},
        {"type": "array", "items": A, "maxItems": 1},
    ),
    "contains nothing in particular": (
        {"type": "array", "items": A, "contains": {"const": 3}, "minContains": 0},
        {"type": "array", "items": A},
    ),
    "contains is one item at least": (
        {"type": "array", "items": {"enum": [1, 2]}, "contains": {"const": 1}, "maxItems": 2},
        {
            "type": "array",
            "items": {"enum": [2, 1]},
            "not": {"not": {"contains": {"enum": [1]}}},
            "maxItems": 2,
        },
    ),
    "a list of items in an old draft": (
        {"type": "array", "prefixItems": [A, B], "items": {"type": "null"}},
        {"$schema": DRAFT_7, "type": "array", "items": [A, B], "additionalItems": {"type": "null"}},
    ),
    "an exclusive bound in draft 4": (
        {"type": "number", "exclusiveMinimum": 0, "maximum": 5},
        {"$schema": DRAFT_4, "type": "number", "minimum": 0, "exclusiveMinimum": True, "maximum": 5},
    ),
    "a recursion unrolled once": (
        {"$ref": "#/$defs/t", "$defs": {"t": LIST}},
        LIST | {"$defs": {"t": LIST}},
    ),
}


@pytest.mark.clause("JSON-35", "JSON-36", "JSON-39", "JSON-43", "JSON-45")
@pytest.mark.parametrize("whitespace", ["compact", "bounded"])
@pytest.mark.parametrize("name", NO_ORDER)
def test_what_has_no_order(name, whitespace):
    assert_same(*NO_ORDER[name], whitespace=whitespace)


@pytest.mark.clause("JSON-5", "JSON-21", "JSON-29", "JSON-31", "JSON-36", "JSON-37", "JSON-39", "JSON-42")
@pytest.mark.clause("JSON-43", "JSON-45", "JSON-13")
@pytest.mark.parametrize("name", SPELLINGS)
def test_two_spellings_of_one_language(name):
    assert_same(*SPELLINGS[name], whitespace="compact")


@pytest.mark.clause("JSON-5", "JSON-12")
def test_annotations_and_the_order_in_which_values_are_listed_change_no_mask():
    plain = {"type": "object", "properties": {"a": A}, "required": ["a"]}
    noted = {"title": "x", "properties": {"a": A | {"description": "y", "default": 3}}} | plain
    assert_same(plain, {"$comment": "z", **noted, "properties": {"a": A | {"examples": [1]}}})


@pytest.mark.clause("CHOICE-1", "GBNF-1")
def test_choices_and_rules_have_no_order():
    choices = ["ab", "a", "abab", '"', "b\n", ""]
    rules = ['root ::= a "," b', 'a ::= "a" a | "b"', 'b ::= ("a" | "ab")*']
    made = [
        (OutputConstraint.choice(choices), OutputConstraint.choice(sorted(choices, reverse=True))),
        (OutputConstraint.grammar("\n".join(rules)), OutputConstraint.grammar("\n".join(reversed(rules)))),
    ]
    for pair in made:
        assert differ_at(*(compiler().compile(constraint)[0] for constraint in pair)) is None


DIFFERENT = {
    "a bound": (A, {"type": "integer", "minimum": 2}),
    "a length": ({"type": "string", "minLength": 1}, {"type": "string"}),
    "member order": (
        {"type": "object", "properties": {"a": A, "b": A}, "additionalProperties": False},
        {"type": "object", "properties": {"b": A, "a": A}, "additionalProperties": False},
    ),
    "a name that may come twice": (
        {"type": "object", "properties": {"a": A}},
        {"type": "object", "properties": {"b": A}},
    ),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_the_walks_see_a_difference(name):
    """A control: languages that differ are told apart."""
    assert differ_at(*(compiled(schema, whitespace="compact") for schema in DIFFERENT[name])) is not None
