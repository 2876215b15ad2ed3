"""The judge of finished outputs: every way to leave the language is seen, and nothing else."""

import pytest

from engine.request import JsonOptions
from oracles.output_validator import validate_output
from oracles.schema.documents import SchemaError

SCHEMA = '{"type": "object", "properties": {"when": {"format": "date"}, "n": {"maximum": 3}}}'


def judge(text, kind="json_schema", **options):
    return validate_output(kind, SCHEMA, text, JsonOptions(**options))


@pytest.mark.clause("JSON-1")
def test_json_object_is_one_root_object():
    assert judge("{}", kind="json_object") is None
    assert judge('{"n": 9}', kind="json_object") is None
    assert "root" in judge("[]", kind="json_object")
    for text in ("", "{} {}", "{},", '{"n": 01}', "{'n': 1}"):
        assert "not JSON" in judge(text, kind="json_object")


def test_a_schema_binds_the_value():
    assert judge('{"n": 3.0}') is None
    assert judge('{"n": 3.0000000000000000001}') == "'/n' fails '/properties/n/maximum'"
    assert judge('"text"') == "'' fails '/type'"


def test_formats_bind_under_assert_only():
    text = '{"when": "2021-02-29"}'
    assert judge(text) is None and judge(text, formats="annotate") is None
    assert judge(text, formats="assert") == "'/when' fails '/properties/when/format'"


@pytest.mark.clause("JSON-30")
@pytest.mark.parametrize("name", ["n", "\\u006e", "\\u006E"])
def test_a_name_stands_once_under_any_spelling(name):
    assert "repeated" in judge(f'{{"n": 1, "{name}": 2}}')
    assert judge(f'{{"n": 1, "m": {{"{name}": 2}}}}') is None


def test_half_a_surrogate_pair_is_no_output():
    assert judge('{"m": "\\ud83d\\ude00"}') is None
    assert "pair" in judge('{"m": "\\ud83d"}')
    assert "pair" in judge('{"\\ude00": 1}')


@pytest.mark.clause("JSON-10")
def test_white_space_by_its_policy():
    at_limit, past = " \t\n\r" * 8, " " * 33
    assert judge('{"m":' + at_limit + '"' + past + '"}') is None
    assert "white space" in judge('{"m":' + past + "1}")
    assert judge('{"a b":[1,2]}', whitespace="compact") is None
    assert "white space" in judge('{"a":[1, 2]}', whitespace="compact")
    assert judge('{"a , : b": [1, {"c": 2}, []]}', whitespace="fixed") is None
    for text in ('{"a":1}', '{"a": 1 }', '{"a":  1}', '{"a":\t1}', '{"a" :1}', '{"a": [1,2 ]}'):
        assert "white space" in judge(text, whitespace="fixed")


def test_what_it_cannot_judge_raises():
    with pytest.raises(ValueError):
        validate_output("regex", "a", "a", JsonOptions())
    with pytest.raises(SchemaError):
        validate_output("json_schema", '{"$ref": "#/no"}', "1", JsonOptions())
