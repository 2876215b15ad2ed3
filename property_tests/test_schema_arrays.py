"""Are positions, tails, lengths, counts and differing items of arrays exact? Every short array is judged."""

import itertools

import pytest

from engine.errors import ErrorKind
from property_tests.schema_words import accepts, compact, compiled, fault, is_member, is_valid, spaced

ITEMS = (1, 2, "a", None)
ARRAYS = [list(items) for size in range(4) for items in itertools.product(ITEMS, repeat=size)]
ONE, TWO, NUM, TEXT = {"const": 1}, {"const": 2}, {"type": "integer"}, {"type": "string"}
SCHEMAS = (
    {"items": NUM},
    {"items": False},
    {"items": True},
    {"prefixItems": [NUM]},
    {"prefixItems": [NUM, TEXT]},
    {"prefixItems": [NUM], "items": TEXT},
    {"prefixItems": [NUM], "items": False},
    {"prefixItems": [False]},
    {"prefixItems": [NUM, False], "items": TEXT},
    {"prefixItems": [NUM, TEXT], "minItems": 1},
    {"prefixItems": [NUM, TEXT], "maxItems": 1},
    {"prefixItems": [NUM], "items": TEXT, "minItems": 2},
    {"minItems": 1},
    {"minItems": 2, "maxItems": 2},
    {"maxItems": 0},
    {"maxItems": 2},
    {"minItems": 0},
    {"contains": ONE},
    {"contains": ONE, "minContains": 0},
    {"contains": ONE, "minContains": 2},
    {"contains": ONE, "maxContains": 1},
    {"contains": ONE, "minContains": 0, "maxContains": 1},
    {"contains": NUM, "minContains": 2, "maxContains": 2},
    {"contains": NUM, "items": {"enum": [1, "a"]}},
    {"contains": ONE, "prefixItems": [TWO]},
    {"contains": ONE, "maxItems": 1},
    {"minContains": 3},
    {"contains": ONE, "maxContains": 0, "minContains": 0},
    {"contains": True, "maxContains": 2},
    {"allOf": [{"contains": ONE}, {"contains": TEXT}]},
    {"allOf": [{"contains": ONE}, {"contains": NUM, "maxContains": 1}]},
    {"allOf": [{"prefixItems": [NUM]}, {"prefixItems": [{}, TEXT], "items": NUM}]},
    {"allOf": [{"items": {"enum": [1, 2, "a"]}}, {"prefixItems": [NUM], "items": TEXT}]},
    {"allOf": [{"minItems": 1}, {"maxItems": 2}]},
    {"not": {"items": NUM}},
    {"not": {"contains": ONE}},
    {"not": {"prefixItems": [NUM, TEXT]}},
    {"not": {"minItems": 2}},
    {"not": {"maxItems": 1}},
    {"not": {"prefixItems": [NUM], "items": TEXT}},
    {"not": {"contains": ONE, "minContains": 2}},
    {"not": {"contains": ONE, "maxContains": 1}},
    {"items": {"enum": [1, 2, "a"]}, "uniqueItems": True},
    {"items": {"enum": [1, 2]}, "uniqueItems": True, "minItems": 2},
    {"uniqueItems": True, "maxItems": 1},
    {"prefixItems": [ONE, {"enum": [1, 2]}], "items": {"enum": ["a", 1, None]}, "uniqueItems": True},
    {"items": {"type": ["null", "boolean"]}, "uniqueItems": True},
    {"uniqueItems": False, "items": NUM},
    {"oneOf": [{"contains": ONE}, {"contains": TWO}]},
    {"if": {"minItems": 2}, "then": {"items": NUM}},
    {"items": {"anyOf": [ONE, TEXT]}, "contains": TEXT},
    {"enum": [[1], [1, 2], []], "maxItems": 1},
)


@pytest.mark.clause("JSON-31", "JSON-32", "JSON-33", "JSON-42", "VER-2", "TEST2-2")
@pytest.mark.parametrize("schema", SCHEMAS)
def test_every_short_array(schema):
    schema = {"type": "array", **schema}
    language = compiled(schema)
    for items in ARRAYS:
        assert is_member(language, compact(items)) is is_valid(schema, compact(items)), items
    assert any(is_member(language, spaced(items)) for items in ARRAYS)


@pytest.mark.clause("JSON-31")
@pytest.mark.parametrize("draft", ["draft-04", "draft-06", "draft-07"])
@pytest.mark.parametrize("rest", [True, False, {"type": "string"}, None])
def test_lists_of_items_in_old_drafts_are_prefixes(draft, rest):
    old = {"$schema": f"http://json-schema.org/{draft}/schema#", "type": "array", "items": [NUM, TEXT]}
    new = {"type": "array", "prefixItems": [NUM, TEXT]}
    if rest is not None:
        old["additionalItems"] = new["items"] = rest
    for items in ARRAYS:
        wanted = is_valid(old, compact(items))
        assert accepts(old, compact(items)) is accepts(new, compact(items)) is wanted, items


@pytest.mark.clause("JSON-33", "EMPTY-6")
def test_an_impossible_position_ends_the_array():
    schema = {"type": "array", "prefixItems": [NUM, {"type": "string", "const": 1}, NUM]}
    for items in ([], [1], [1, 1], [1, "a"], [1, 1, 1]):
        assert accepts(schema, compact(items)) is is_valid(schema, compact(items))
    error = fault({**schema, "minItems": 2})
    assert (error.kind, error.pointer) == (ErrorKind.UNSATISFIABLE_JSON_SCHEMA, "/prefixItems/1")


@pytest.mark.clause("TEST2-2", "JSON-18")
@pytest.mark.parametrize(("low", "high"), [(0, 1000), (1000, 1000), (999, None), (0, 2**31 - 1)])
def test_long_arrays_at_their_bounds(low, high):
    schema = {"type": "array", "items": {"const": 1}, "minItems": low}
    schema |= {} if high is None else {"maxItems": high}
    language = compiled(schema)
    assert len(language.grammar.rules) < 20
    for size in {0, 1, low - 1, low, 999, 1000, 1001} - {-1}:
        assert is_member(language, compact([1] * size)) is is_valid(schema, compact([1] * size)), size


@pytest.mark.clause("SAFE-3")
@pytest.mark.parametrize(
    "keyword", ["minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"]
)
def test_counts_past_32_bits_are_refused(keyword):
    compiled({keyword: 2**31 - 1})
    for bound in (2**31, "1e300", "1e999999999"):
        error = fault(f'{{"{keyword}":{bound}}}')
        assert (error.kind, error.pointer) == (ErrorKind.UNSUPPORTED_JSON_SCHEMA, f"/{keyword}")
