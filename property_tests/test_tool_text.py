"""The oracle of tool text, judged by examples written by hand and by what it writes itself."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.schema_data import data_folder
from oracles.tool_text import NotCalls, read_calls, write_call, write_calls
from property_tests.call_words import LOOSE, SCHEMAS, STRICT, strict_arguments

WEATHER = "<tool_call>\n<function=loose>\n<parameter=city>\n Oslo\n\n</parameter>\n</function>\n</tool_call>"
BARE = "<tool_call>\n<function=loose>\n</function>\n</tool_call>"


@pytest.mark.clause("TOOL-22", "TOOL-24")
def test_calls_written_by_hand():
    assert read_calls(WEATHER, SCHEMAS) == [("loose", [("city", " Oslo\n")])]
    assert read_calls(f"{BARE}\n{WEATHER}", SCHEMAS) == [("loose", []), ("loose", [("city", " Oslo\n")])]
    assert write_call("loose", {"city": " Oslo\n"}) == WEATHER
    assert write_call("strict", {"days": 3, "box": {"a": "x", "b": [1]}}) == (
        "<tool_call>\n<function=strict>\n<parameter=days>\n3\n</parameter>\n"
        '<parameter=box>\n{"a": "x", "b": [1]}\n</parameter>\n</function>\n</tool_call>'
    )


@pytest.mark.parametrize(
    "text",
    [
        WEATHER[:-1],
        WEATHER.replace("city>\n", "city>"),
        WEATHER + " ",
        f"{WEATHER}\n",
        f"{WEATHER}\n\n{WEATHER}",
        WEATHER + WEATHER.replace("loose", "undeclared"),
        WEATHER.replace("</function>", "<parameter=city>\nx\n</parameter>\n</function>"),
    ],
)
def test_other_texts_are_no_calls(text):
    with pytest.raises(NotCalls):
        read_calls(text, SCHEMAS)


@pytest.mark.clause("TOOL-32")
def test_a_cut_text_keeps_its_finished_calls():
    text = f"{WEATHER}\n{BARE}"
    for size in range(len(text)):
        assert len(read_calls(text[:size], SCHEMAS, cut=True)) == (size >= len(WEATHER))


@pytest.mark.parametrize(
    ("written", "schema", "value"),
    [
        ("1", LOOSE["properties"]["city"], ("1",)),
        ("1", {"type": "integer"}, (1,)),
        (" 1 ", {}, (1,)),
        (" x ", {}, (" x ",)),
        ("", {}, ("",)),
        (" ", {"type": "integer"}, None),
        ("TRUE", {"type": "boolean"}, (True,)),
        ("TRUE", {}, ("TRUE",)),
        ("NaN", {"type": "number"}, ("NaN",)),
        ("[1", {"type": "array"}, ("[1",)),
        ("null", {"anyOf": [{"type": "string"}, {"type": "null"}]}, ("null",)),
    ],
)
@pytest.mark.clause("TOOL-16")
def test_values_without_strictness_go_by_declared_types(written, schema, value):
    declared = {"f": ({"properties": {"p": schema}}, False)}
    expected = [] if value is None else [("p", value[0])]
    assert read_calls(write_call("f", {"p": written}), declared) == [("f", expected)]


@given(st.lists(strict_arguments(), min_size=1, max_size=3))
def test_what_is_written_reads_back(calls):
    named = [("strict", arguments) for arguments in calls]
    read = read_calls(write_calls(named), {"strict": (STRICT, True)})
    assert [(name, dict(pairs)) for name, pairs in read] == named


@pytest.mark.data
@pytest.mark.skipif(not data_folder().exists(), reason="the real tools are not here (COUNTERPROOF_DATA)")
def test_real_calls_read_back():
    for line in (data_folder() / "bfcl-tools.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        declared = {tool["name"]: (tool["parameters"], False) for tool in row["tools"]}
        named = [(call["name"], call["arguments"]) for call in row["calls"]]
        read = read_calls(write_calls(named), declared)
        assert [(name, dict(pairs)) for name, pairs in read] == named
