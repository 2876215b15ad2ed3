"""Do compositions mean what the oracle says: oneOf, anyOf, allOf, not and if over parts that overlap?

Compositions of two parts, and two levels of them, over a list of parts with common values; each is judged by
every probe. What is refused must be an opposite that has no grammar.
"""

import itertools
import json
import random
from collections import Counter

import pytest

from engine.errors import ErrorKind, RequestError
from engine.text.limits import LIMITS
from oracles.schema.validate import Validator
from property_tests.schema_words import (
    accepts,
    compiled,
    fault,
    is_member,
    is_member_in_some_order,
    outcome,
    source_of,
)

PARTS = (
    {"type": "string"},
    {"type": "integer"},
    {"type": "number"},
    {"minimum": 2},
    {"maximum": 2},
    {"multipleOf": 2},
    {"minLength": 2},
    {"maxLength": 2},
    {"pattern": "^a"},
    {"enum": ["a", 1, [1], {"a": 1}]},
    {"const": 2},
    {"required": ["a"]},
    {"properties": {"a": {"type": "integer"}}},
    {"maxProperties": 1},
    {"type": "object", "properties": {"b": {"type": "string"}}, "additionalProperties": {"type": "integer"}},
    {"items": {"type": "integer"}},
    {"type": "array", "minItems": 2},
    {"contains": {"const": 1}},
    {"prefixItems": [{"type": "integer"}, False]},
    True,
    False,
    {"dependentRequired": {"a": ["b"]}},
    {"patternProperties": {"^a": {"type": "integer"}}},
    {"type": ["null", "boolean"]},
)
PROBES = (
    '""',
    '"a"',
    '"ab"',
    '"abc"',
    '"bcd"',
    "1",
    "2",
    "3",
    "0",
    "-2",
    "2.5",
    "1.5",
    "null",
    "true",
    "[]",
    "[1]",
    "[2]",
    '["a"]',
    "[1,1]",
    "[1,2]",
    '["a",1]',
    "[1,2,3]",
    "{}",
    '{"a":1}',
    '{"a":"x"}',
    '{"b":"x"}',
    '{"b":1}',
    '{"a":1,"b":"x"}',
    '{"a":"x","b":1}',
    '{"ab":1}',
    '{"ab":"x"}',
    '{"a":1,"b":1,"c":1}',
    '{"b":"x","c":1}',
    '{"a":[]}',
)
FORMS = {
    "allOf": lambda a, b: {"allOf": [a, b]},
    "anyOf": lambda a, b: {"anyOf": [a, b]},
    "oneOf": lambda a, b: {"oneOf": [a, b]},
    "not": lambda a, b: {"not": {"allOf": [a, b]}},
    "but not": lambda a, b: {"allOf": [a, {"not": b}]},
    "if then": lambda a, b: {"if": a, "then": b},
    "if else": lambda a, b: {"if": a, "else": b},
    "siblings": lambda a, b: {**(a if isinstance(a, dict) else {"allOf": [a]}), "anyOf": [b, {"const": "a"}]},
}
SYMMETRIC = ("allOf", "anyOf", "oneOf", "not")


def judge(schema, counts: Counter) -> None:
    """Compare every probe; a valid one may have its members in another order."""
    validator = Validator(source_of(schema))
    valid = {text for text in PROBES if not validator.failures(text)}
    language = outcome(schema)
    if isinstance(language, RequestError):
        counts[language.kind] += 1
        if language.kind is ErrorKind.UNSATISFIABLE_JSON_SCHEMA:
            assert not valid, (schema, language)
        else:
            assert "opposite" in language.message or "used up" in language.message, (schema, language)
        return
    accepted = {text for text in PROBES if is_member(language, text)}
    assert accepted <= valid, (schema, accepted - valid)
    for text in valid - accepted:
        assert is_member_in_some_order(language, json.loads(text)), (schema, text)
    counts["served"] += 1


@pytest.mark.clause("JSON-34", "JSON-35", "JSON-36", "JSON-37", "JSON-38", "JSON-39", "VER-2")
@pytest.mark.parametrize("form", FORMS)
def test_two_parts(form):
    counts = Counter()
    for (i, one), (j, other) in itertools.product(enumerate(PARTS), repeat=2):
        if (i + j) % (2 if form in SYMMETRIC else 4) == 0 and (i <= j or form not in SYMMETRIC):
            judge(FORMS[form](one, other), counts)
    assert counts["served"] > 90, counts
    assert counts[ErrorKind.UNSUPPORTED_JSON_SCHEMA] <= 24, counts


@pytest.mark.clause("JSON-36", "JSON-37", "JSON-39", "TEST2-6", "VER-2")
@pytest.mark.parametrize("outer", FORMS)
def test_compositions_of_compositions(outer):
    rng, counts = random.Random(f"two levels of {outer}"), Counter()
    for _ in range(30):
        inner = [FORMS[rng.choice([*FORMS])](*rng.sample(PARTS, 2)) for _ in range(2)]
        judge(FORMS[outer](*inner), counts)
    assert counts["served"] > 15, counts


@pytest.mark.clause("JSON-37", "JSON-38")
def test_one_of_many_that_overlap():
    for parts in itertools.combinations(PARTS[1:13:2], 3):
        judge({"oneOf": list(parts)}, Counter())
        judge({"not": {"oneOf": list(parts)}}, Counter())


@pytest.mark.clause("JSON-35", "JSON-12")
@pytest.mark.parametrize(
    ("schema", "inside", "outside"),
    [
        ({"anyOf": [{"type": "object"}, {"const": {"b": 1}}]}, '{"a":1}', '["a"]'),
        ({"anyOf": [{"type": "array", "minItems": 3}, {"const": [1, 2]}]}, "[1,3,4]", "[1,3]"),
        ({"anyOf": [{"type": "array", "minItems": 3}, {"const": [1, 2]}]}, "[1, 2]", "[1,2,]"),
        ({"properties": {"a": {"enum": [{"b": [1]}, {"b": [2]}, 1]}}}, '{"a":{"b":[2]}}', '{"a":{"b":[3]}}'),
        ({"contains": {"const": [1]}, "type": "array"}, "[[2],[1]]", "[[2],[11]]"),
        (
            {
                "anyOf": [
                    {"properties": {"c": False}, "type": "object"},
                    {"enum": [{"b": "b", "ab": "b", "c": 1}]},
                ]
            },
            '{"ab":"b","b":"b"}',
            '{"ab":"b","c":1}',
        ),
    ],
)
def test_listed_arrays_and_objects_hide_no_others(schema, inside, outside):
    """A terminal that held a whole listed value swallowed the beginning of every other one."""
    assert accepts(schema, inside)
    assert not accepts(schema, outside)


@pytest.mark.clause("JSON-41", "EMPTY-6", "JSON-2")
@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        (False, ""),
        ({"type": "string", "const": 1}, ""),
        ({"enum": []}, ""),
        ({"type": "integer", "minimum": 3, "maximum": 2}, ""),
        ({"type": "array", "minItems": 2, "maxItems": 1}, ""),
        ({"type": "string", "minLength": 2, "pattern": "^a?$"}, ""),
        (
            {"type": "object", "properties": {"a": {"enum": [1], "type": "null"}}, "required": ["a"]},
            "/properties/a",
        ),
        ({"type": "array", "items": {"not": {}}, "minItems": 1}, "/items"),
        ({"allOf": [{"type": "object", "required": ["a"]}, {"additionalProperties": False}]}, "/allOf"),
    ],
)
def test_a_contradiction_is_refused_where_it_stands(schema, pointer):
    error = fault(schema)
    assert error.kind is ErrorKind.UNSATISFIABLE_JSON_SCHEMA
    assert error.pointer.startswith(pointer)


@pytest.mark.clause("JSON-41", "JSON-33")
def test_an_impossible_branch_leaves_the_others():
    schema = {"anyOf": [{"type": "object", "required": ["a"], "properties": {"a": False}}, {"const": 1}]}
    assert accepts(schema, "1") and not accepts(schema, '{"a":1}')


@pytest.mark.clause("JSON-46", "SAFE-3")
def test_alternatives_at_the_limit_and_past_it():
    def schema(splits: int, last: int):
        parts = [{"anyOf": [{"minimum": 10 * i}, {"maximum": -10 * i - 1}]} for i in range(splits)]
        return {"type": "number", "allOf": [*parts, {"anyOf": [{"multipleOf": n + 1} for n in range(last)]}]}

    error = fault(schema(14, 3))
    assert (error.kind, error.limit) == (ErrorKind.UNSUPPORTED_JSON_SCHEMA, "schema_merges")
    assert error.maximum == LIMITS["schema_merges"] == 16_384
    compiled(schema(5, 2))
