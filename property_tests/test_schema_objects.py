"""Are members, names, orders and counts of objects exact: every subset, every escape, every bound?"""

import itertools
import json

import pytest

from engine.errors import ErrorKind
from property_tests.schema_words import (
    accepts,
    compact,
    compiled,
    fault,
    is_member,
    is_member_in_some_order,
    is_valid,
    legal,
    spaced,
)

FOUR = ("a", "b", "c", "d")
CLOSED = {"additionalProperties": False}


def objects(names=FOUR, value=1):
    """Every object over the names, in declared order."""
    for size in range(len(names) + 1):
        for chosen in itertools.combinations(names, size):
            yield dict.fromkeys(chosen, value)


@pytest.mark.clause("JSON-27", "JSON-28", "TEST2-2")
@pytest.mark.parametrize("required", [(), ("a",), ("b",), ("d",), ("a", "d"), ("b", "c"), FOUR])
@pytest.mark.parametrize("additional", [False, {"type": "null"}])
def test_every_subset_of_optional_members(required, additional):
    schema = {
        "type": "object",
        "properties": {name: {"const": 1} for name in FOUR},
        "required": list(required),
    }
    language = compiled({**schema, "additionalProperties": additional})
    for value in objects():
        wanted = is_valid(schema, compact(value))
        assert is_member(language, compact(value)) is is_member(language, spaced(value)) is wanted
        extra = {**value, "x": None}
        assert is_member(language, compact(extra)) is (wanted and additional is not False)


@pytest.mark.clause("JSON-28")
def test_members_come_in_declared_order_each_once():
    language = compiled({"type": "object", "properties": {"b": {}, "a": {}}, **CLOSED})
    assert is_member(language, '{"b":1,"a":2}')
    for text in ('{"a":2,"b":1}', '{"b":1,"b":1}', '{"a":1,"a":1}', '{"b":1,"a":2,"b":1}', '{"b":1,}', "{,}"):
        assert not is_member(language, text), text


@pytest.mark.clause("JSON-29", "JSON-30")
@pytest.mark.parametrize("name", ["a", "a/b", 'q"', "é", "\n", "\\", "", "aa", "😀", "\x7f", "\x01"])
def test_no_spelling_of_a_declared_name_comes_twice(name):
    schema = {"type": "object", "properties": {name: {"type": "integer"}}}
    language = compiled(schema)
    key = json.dumps(name, ensure_ascii=False)
    assert is_member(language, f"{{{key}:1}}") and is_member(language, f'{{{key}:1,"other":"x"}}')
    assert not is_member(language, f'{{{key}:"x"}}')
    spellings = {key, json.dumps(name), *_escapes(name)}
    for spelling in spellings:
        assert not is_member(language, f'{{{spelling}:"x"}}'), spelling
        assert not is_member(language, f'{{{key}:1,{spelling}:"x"}}'), spelling
        assert not is_member(language, f'{{"other":1,{spelling}:"x"}}'), spelling


def _escapes(name):
    units = name.encode("utf-16-be")
    codes = [units[i : i + 2].hex() for i in range(0, len(units), 2)]
    yield '"' + "".join(f"\\u{code}" for code in codes) + '"'
    yield '"' + "".join(f"\\u{code.upper()}" for code in codes) + '"'
    if "/" in name:
        yield '"a\\/b"'


@pytest.mark.clause("JSON-30", "JSON-27")
def test_free_names_come_once_and_near_names_are_free():
    language = compiled({"type": "object", "properties": {"ab": {"type": "integer"}}})
    for text in (
        '{"a":"x"}',
        '{"abc":"x"}',
        '{"":"x"}',
        '{"b":"x","a":1,"abb":[]}',
        '{"ab":1,"a":{"ab":"x","a":1}}',
    ):
        assert is_member(language, text), text
    for text in (
        '{"x":1,"x":2}',
        '{"x":1,"y":1,"x":2}',
        '{"ab":1,"ab":2}',
        '{"q":{"x":1,"x":1}}',
        '{"x":[],"x":[]}',
    ):
        assert not is_member(language, text), text
    assert not accepts('{"type":"object"}', '{"a":[{"b":1,"b":2}]}')


@pytest.mark.clause("JSON-27")
def test_required_names_need_not_be_declared():
    schema = {"type": "object", "properties": {"b": {"const": 1}}, "required": ["a", "b"]}
    for value in ({"a": 1, "b": 1}, {"b": 1}, {"a": 1}, {"a": [], "b": 1, "c": 2}):
        assert is_member_in_some_order(compiled(schema), value) is is_valid(schema, compact(value))
    typed = {**schema, "additionalProperties": {"type": "string"}}
    assert accepts(typed, '{"b":1,"a":"x"}') and not accepts(typed, '{"b":1,"a":2}')
    assert fault({"type": "object", "required": ["a"], **CLOSED}).kind is ErrorKind.UNSATISFIABLE_JSON_SCHEMA


PATTERN_SCHEMAS = (
    {"patternProperties": {"^a": {"type": "integer"}}},
    {"patternProperties": {"^a": {"type": "integer"}, "b$": {"minimum": 2}}},
    {"patternProperties": {"^a": {"type": "integer"}}, **CLOSED},
    {"patternProperties": {"^a": {"type": "integer"}}, "additionalProperties": {"type": "string"}},
    {
        "properties": {"ab": {"minimum": 3}, "b": {}},
        "patternProperties": {"^a": {"type": "integer"}},
        **CLOSED,
    },
    {"properties": {"a": True}, "patternProperties": {"^a$": False}},
    {"propertyNames": {"pattern": "^a"}},
    {"propertyNames": {"pattern": "^a"}, "properties": {"b": {}, "ab": {"const": 3}}},
    {"propertyNames": {"maxLength": 1, "pattern": "^[ab]?$"}},
    {"propertyNames": {"enum": ["a", "ab"]}, "additionalProperties": {"minimum": 2}},
    {"propertyNames": False},
    {"allOf": [{"properties": {"a": {}}, **CLOSED}, {"properties": {"a": {}, "b": {}}}]},
    {
        "allOf": [
            {"properties": {"a": {"minimum": 2}}, "additionalProperties": {"maximum": 2}},
            {"patternProperties": {"b$": {"type": "integer"}}, "additionalProperties": {"minimum": 0}},
        ]
    },
)


@pytest.mark.clause("JSON-39", "JSON-40", "VER-2")
@pytest.mark.parametrize("schema", PATTERN_SCHEMAS)
def test_patterns_and_rules_for_names(schema):
    language = compiled({"type": "object", **schema})
    for names in itertools.chain.from_iterable(
        itertools.combinations(("", "a", "ab", "b", "cb"), n) for n in range(4)
    ):
        for values in ((1, 2, 3), (3, 2.5, "x"), ("x", 3, 1)):
            value = dict(zip(names, values, strict=False))
            assert is_member_in_some_order(language, value) is is_valid(schema, compact(value)), value


@pytest.mark.clause("VER-2", "TEST2-2")
@pytest.mark.parametrize("low", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("high", [None, 0, 1, 2, 3])
@pytest.mark.parametrize("base", [{"required": ["b"]}, {**CLOSED}, {"dependentRequired": {"a": ["b"]}}])
def test_numbers_of_members(low, high, base):
    schema = {"type": "object", "properties": {name: {} for name in "abc"}, "minProperties": low, **base}
    schema |= {} if high is None else {"maxProperties": high}
    texts = [compact(value) for value in objects(("a", "b", "c", "x", "y"))]
    valid = [text for text in texts if is_valid(schema, text)]
    if not valid:
        assert fault(schema).kind is ErrorKind.UNSATISFIABLE_JSON_SCHEMA
        return
    language = compiled(schema)
    assert [text for text in texts if is_member(language, text)] == valid


@pytest.mark.clause("VER-2")
def test_some_member_must_fail_and_finite_names_run_out():
    schema = {"type": "object", "not": {"additionalProperties": {"type": "integer"}}}
    language = compiled(schema)
    for text in ('{"a":1}', "{}", '{"a":"x"}', '{"a":1,"b":"x"}', '{"b":"x","a":1}', '{"a":1,"b":2}'):
        assert is_member(language, text) is is_valid(schema, text), text
    names = {"type": "object", "propertyNames": {"pattern": "^x[0-9]$"}}
    assert accepts(names, '{"x1":1,"x2":2}') and not accepts(names, '{"x1":1,"x1":2}')


@pytest.mark.clause("JSON-30", "JSON-11")
def test_nothing_is_ever_stuck_in_an_object_of_free_names():
    matcher = compiled({"type": "object", "additionalProperties": {"const": 1}}).new_matcher()
    for byte in b'{"a":1,"':
        assert legal(matcher)[byte]
        matcher.preview([byte])
        matcher.confirm()
    assert legal(matcher)[ord("a")] and legal(matcher)[ord('"')]
    matcher.preview([ord("a")])
    matcher.confirm()
    assert not legal(matcher)[ord('"')] and legal(matcher)[ord("b")]
