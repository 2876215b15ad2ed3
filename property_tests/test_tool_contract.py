"""What a request may ask of its tools, how their values are read, and where each refusal points."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import ErrorKind, RefusedConstruct, RequestError
from engine.frontend.tool_contract import Reading, tool_contract
from engine.frontend.tool_reader import value_json
from engine.request import OutputConstraint, ToolChoice, ToolConstraints, ToolDeclaration, ToolMode
from property_tests.call_words import INTEGER, LOOSE, STRICT, STRING, contract, declaration

INVALID, UNSUPPORTED = ErrorKind.INVALID_TOOL_CONSTRAINT, ErrorKind.UNSUPPORTED_JSON_SCHEMA
LIST = {"type": "array", "items": STRING}


def closed(**properties):
    return {"type": "object", "properties": properties, "additionalProperties": False}


def refusal(*declarations, **options):
    with pytest.raises(RequestError) as caught:
        tool_contract(declarations, options.pop("choice", ToolChoice()), **options)
    assert caught.value.source == "tools"
    return caught.value


@pytest.mark.clause("TOOL-1", "TOOL-2", "TOOL-3")
@pytest.mark.parametrize(
    ("choice", "strict", "enforced"),
    [
        ({}, False, True),
        ({"constraints": "automatic"}, False, False),
        ({"constraints": "automatic"}, True, True),
        ({"constraints": "automatic", "parallel": False}, False, True),
        ({"constraints": "automatic", "allowed_names": ("f",)}, False, True),
        ({"constraints": "automatic", "mode": "required"}, False, True),
        ({"constraints": "automatic", "mode": "none"}, False, True),
    ],
)
def test_what_needs_a_matcher(choice, strict, enforced):
    made = contract({"f": (closed(), strict)}, **choice)
    assert made.is_enforced == enforced
    assert not contract({}, **{k: v for k, v in choice.items() if k == "constraints"}).is_enforced


@pytest.mark.clause("TOOL-1", "TOOL-4", "TOOL-5", "TOOLS2-4")
def test_which_tools_may_be_called():
    schemas = {name: ({"type": "object"}, name == "c") for name in "ab"} | {"c": (closed(), True)}
    assert [t.name for t in contract(schemas).callable] == ["a", "b", "c"]
    assert [t.name for t in contract(schemas, allowed_names=("c", "a")).callable] == ["a", "c"]
    assert contract(schemas, allowed_names=()).callable == ()
    none = contract(schemas, mode="none")
    assert (none.callable, none.is_active, none.find("a")) == ((), False, None)
    assert [t.name for t in none.tools] == ["a", "b", "c"]
    assert contract(schemas, allowed_names=("a",)).find("b") is None
    assert contract(schemas).has_free_names
    assert not contract(schemas, allowed_names=("c",)).has_free_names
    assert contract(schemas, mode=ToolMode.REQUIRED).is_required
    assert ToolChoice().constraints is ToolConstraints.BASIC


@pytest.mark.clause("TOOL-16", "TOOL-26")
def test_how_each_value_is_read():
    found = contract({"loose": (LOOSE, False), "strict": (STRICT, True)})
    loose, strict = found.tools
    assert dict(loose.readings) == {
        "city": Reading.TEXT,
        "days": Reading.TYPED,
        "flag": Reading.BOOLEAN,
        "any": Reading.GUESSED,
        "é": Reading.TEXT,
        "list": Reading.TYPED,
    }
    assert loose.reading("other") is Reading.GUESSED
    assert dict(strict.readings) == {
        "city": Reading.TEXT,
        "days": Reading.JSON,
        "flag": Reading.JSON,
        "box": Reading.JSON,
        "mark": Reading.TEXT,
    }
    assert strict.reading("other") is None
    assert strict.arguments is not None
    assert [slot.name for slot in strict.arguments.slots] == list(STRICT["properties"])
    assert [slot.name for slot in strict.arguments.slots if slot.required] == ["city"]


@pytest.mark.clause("TOOL-20", "TOOL-26")
@pytest.mark.parametrize(
    ("part", "reading"),
    [
        (STRING, Reading.TEXT),
        ({"enum": ["a", "b"]}, Reading.TEXT),
        ({"const": "a"}, Reading.TEXT),
        ({"anyOf": [STRING, {"const": "q"}]}, Reading.TEXT),
        ({"type": ["string", "null"], "minLength": 1, "not": {"type": "null"}}, Reading.TEXT),
        ({"$ref": "#/$defs/text"}, Reading.TEXT),
        ({"type": ["integer", "null"]}, Reading.JSON),
        ({"enum": [1, None, [1]]}, Reading.JSON),
        (LIST, Reading.JSON),
    ],
)
def test_the_domain_of_a_strict_parameter_decides(part, reading):
    schema = {**closed(p=part), "$defs": {"text": STRING}}
    assert contract({"f": (schema, True)}).tools[0].readings == {"p": reading}


def test_a_parameter_that_can_have_no_value_is_none():
    tool = contract({"f": (closed(p=False, q=STRING), True)}).tools[0]
    assert tool.readings == {"q": Reading.TEXT}
    assert tool.reading("p") is None


@pytest.mark.clause("TOOL-20", "TOOL-26", "TOOL-28")
@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        (closed(p={"type": ["string", "null"]}), "/properties/p"),
        (closed(p={"enum": ["a", 1]}), "/properties/p"),
        (closed(p={"anyOf": [STRING, INTEGER]}), "/properties/p"),
        (closed(p={}), "/properties/p"),
        (closed(p={"const": "a\n</parameter>"}), "/properties/p"),
        (closed(p={"enum": ["a", "\n</parameter>b"]}), "/properties/p"),
        (closed(**{"a>b": STRING}), "/properties/a>b"),
        (closed(**{"": STRING}), "/properties/"),
        ({"type": "object", "properties": {"p": STRING}}, ""),
        ({**closed(p=STRING), "additionalProperties": STRING}, ""),
        ({"properties": {"p": STRING}, "additionalProperties": False}, ""),
        ({"anyOf": [closed(a=STRING), closed(b=STRING)]}, ""),
        ({"enum": [{"p": 1}]}, ""),
        ({"type": "array"}, ""),
    ],
)
def test_strict_schemas_that_the_text_cannot_carry_are_refused(schema, pointer):
    error = refusal(declaration("ok", {"type": "object"}), declaration("f", schema, strict=True))
    assert isinstance(error, RefusedConstruct)
    assert (error.kind, error.pointer) == (UNSUPPORTED, f"/tools/1/parameters{pointer}")
    loose = contract({"f": (schema, False)})
    assert not loose.tools[0].strict


@pytest.mark.clause("TOOL-20")
def test_roots_that_reduce_to_one_closed_object_are_served():
    schema = {"$ref": "#/$defs/a", "$defs": {"a": {**closed(p=STRING), "required": ["p"]}}}
    assert contract({"f": (schema, True)}).tools[0].readings == {"p": Reading.TEXT}
    both = {"allOf": [closed(p=STRING), {"properties": {"p": {"maxLength": 3}}, "required": ["p"]}]}
    assert contract({"f": (both, True)}).tools[0].readings == {"p": Reading.TEXT}


@pytest.mark.clause("TOOL-21")
def test_names_and_choices_that_cannot_be_are_refused_with_their_place():
    tools = [declaration(name, {"type": "object"}) for name in "aba"]
    error = refusal(*tools)
    assert (error.kind, error.pointer, error.found) == (INVALID, "/tools/2/name", "'a'")
    for name in ("", "a<b", "a\nb", "\x00", "x" * 257):
        assert refusal(declaration(name, {})).pointer == "/tools/0/name"
    undeclared = refusal(*tools[:2], choice=ToolChoice(allowed_names=("a", "c")))
    assert (undeclared.kind, undeclared.pointer) == (INVALID, "/tool_choice/allowed_names/1")
    for declared, choice in (((), {}), (tools[:1], {"allowed_names": ()})):
        assert refusal(*declared, choice=ToolChoice(mode="required", **choice)).pointer == "/tool_choice"


@pytest.mark.parametrize(
    ("text", "pointer"),
    [
        ("{", ""),
        ("[]", ""),
        ("true", ""),
        ('{"properties": []}', "/properties"),
        ('{"a": 1, "a": 2}', "/a"),
        ("[" * 300, ""),
        ('{"title": "' + "x" * 2**20 + '"}', ""),
    ],
)
def test_parameters_that_are_no_schema_are_refused_with_their_place(text, pointer):
    error = refusal(ToolDeclaration("f", text))
    assert error.pointer == f"/tools/0/parameters{pointer}"
    assert "'f'" in error.message


@pytest.mark.clause("TOOL-5", "TOOL-11")
def test_other_content_constraints_do_not_go_with_callable_tools():
    tool = declaration("f", {"type": "object"})
    for constraint in (
        OutputConstraint.grammar('root ::= "a"'),
        OutputConstraint.regex("a"),
        OutputConstraint.choice(["a"]),
    ):
        assert refusal(tool, constraint=constraint).pointer == "/tool_choice"
        tool_contract([tool], ToolChoice(mode="none"), constraint)
        tool_contract([], ToolChoice(), constraint)
    for constraint in (OutputConstraint.json_object(), OutputConstraint.json_schema("{}")):
        assert tool_contract([tool], ToolChoice(), constraint).is_active


@pytest.mark.clause("TOOL-16")
@given(
    st.text('tTrueFALS1-. "{}[]:,\n', max_size=6),
    st.sampled_from([Reading.TYPED, Reading.BOOLEAN, Reading.GUESSED]),
)
def test_values_keep_their_json_or_become_strings(text, reading):
    found = value_json(text, reading)
    if found is None:
        assert not text.strip()
        assert reading is not Reading.GUESSED
        return
    value = json.loads(found)
    if reading is Reading.BOOLEAN and text.strip().lower() in ("true", "false"):
        assert value is (text.strip().lower() == "true")
    else:
        assert value == text or value == json.loads(text)


def test_numbers_without_end_or_name_are_strings():
    for text in ("NaN", "Infinity", "-Infinity", "1e", "0x1", "[" * 100_000):
        assert json.loads(value_json(text, Reading.TYPED)) == text
    long = "9" * 5000
    assert value_json(long, Reading.TYPED) == long
