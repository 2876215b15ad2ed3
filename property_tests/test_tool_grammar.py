"""Is the language of an output what its tools, their choice and the content constraint say?"""

import json
import random

import jsonschema
import pytest

from engine.errors import ErrorKind, RequestError
from engine.request import OutputConstraint, ToolDeclaration
from oracles.masks import legal_ids
from oracles.tool_text import read_calls
from property_tests.tool_words import (
    EOS,
    IDS,
    TEXT_BYTES,
    VOCABULARY,
    accepts,
    call,
    language,
    legal,
    parser_of_free_tool,
    repeats_a_name,
    strict,
    take,
    text_of,
    tokens,
)

FREE = ToolDeclaration("go")
GET = strict("get", {"x": {"type": "string"}, "n": {"type": "integer"}, "o": {"type": "object"}}, ["x"])
OPEN = '{"type": "object"}'


@pytest.mark.clause("TOOL-2", "TOOL-9", "TOOL-15", "TOOL-17", "TOOL-22", "TOOL-27")
@pytest.mark.parametrize("core", ["llguidance", "xgrammar"])
def test_masks_of_calls_are_those_of_a_naive_parser_and_a_whole_text_reading(core):
    found, parser = language([FREE], core=core), parser_of_free_tool("go")
    begin = "a<tool_call>\n<function=go>\n<parameter=a>\n"
    for text in (
        "", "\n", "a<tool_call>", "<tool_call>\n<function=g", begin[:-1], begin, begin + "b\n</parameter",
        begin + "b\n</parameter>\n", begin + "b\n</parameter>\n<parameter=", begin + "\n</parameter>\n<param",
        begin + "</parameter>\n\n</parameter>\n<parameter=b", call("go"), call("go", ("a", "")) + "\n",
        call("go", ("a", "")) + "\n" + begin[1:],
    ):  # fmt: skip
        ids, matcher = tokens(text), found.new_matcher()
        take(matcher, ids)
        expected = legal_ids(parser, ids, TEXT_BYTES, VOCABULARY.eos_ids)
        unique = {i for i in expected if not repeats_a_name(text_of([*ids, i]))}
        assert legal(matcher) == unique, text


@pytest.mark.clause("TOOL-19", "TOOL-22", "TOOL-29", "TOOLS2-1", "TOOLS2-7")
def test_random_walks_are_calls_that_their_declarations_allow():
    found = language([GET, FREE], mode="required")
    schemas = {"get": (json.loads(GET.parameters), True), "go": ({}, False)}
    rng, num_calls = random.Random(5), 0
    for _ in range(12):
        matcher, ids = found.new_matcher(), []
        while len(ids) < 400:
            options = sorted(legal(matcher))
            if EOS in options:
                break
            short = [i for i in options if rng.random() < 0.5] or options
            marks = [i for i in short if TEXT_BYTES[i] is None or set(TEXT_BYTES[i]) & set(b'<>/"}\n')]
            ids.append(rng.choice(marks or short))
            take(matcher, [ids[-1]])
        for name, arguments in read_calls(text_of(ids), schemas, cut=True):
            num_calls += 1
            if name == "get":
                jsonschema.validate(dict(arguments), schemas["get"][0])
    assert num_calls >= 3


@pytest.mark.clause("TOOL-4", "TOOL-5", "TOOL-8", "TOOL-9")
def test_choices():
    one, two = call("go"), call("go") + "\n" + call("go", ("a", "b"))
    auto = language([FREE])
    assert all(accepts(auto, text) for text in ("", "a", one, "a\n\n" + one, two))
    assert (
        not accepts(auto, one + "a")
        and not accepts(auto, one + "\n\n" + one)
        and not accepts(auto, two + "\n")
    )
    single = language([FREE], parallel=False)
    assert accepts(single, "a" + one) and not accepts(single, two)
    required = language([FREE], mode="required")
    assert accepts(required, two) and not accepts(required, "a" + one) and not accepts(required, "")
    none = language([FREE], mode="none")
    assert accepts(none, "a") and not accepts(none, one) and IDS.tool_open not in legal(none.new_matcher())
    other = ToolDeclaration("put")
    named = language([FREE, other], mode="required", allowed_names=("put",), parallel=False)
    assert accepts(named, call("put")) and not accepts(named, one)
    assert accepts(language([FREE, other], allowed_names=()), "a")
    assert language([FREE], constraints="automatic") is None
    assert language([FREE], constraints="automatic", parallel=False) is not None
    assert language([GET], constraints="automatic") is not None and language() is None


@pytest.mark.clause("TOOL-9", "PHASE-4")
def test_marks_spelled_with_text_are_text():
    spelled = [i for i, data in enumerate(TEXT_BYTES) if data == b"<tool_call>"]
    matcher = language([FREE]).new_matcher()
    take(matcher, spelled)
    assert IDS.tool_open in legal(matcher) and EOS in legal(matcher)
    assert not set(spelled) & legal(language([FREE], mode="required").new_matcher())


@pytest.mark.clause("TOOL-10", "TOOL-12", "REQ-12", "TOOL-11")
def test_json_or_calls():
    constraint = OutputConstraint.json_object()
    union = language([FREE], constraint)
    assert accepts(union, '{"a": "<"}') and accepts(union, call("go"))
    assert not accepts(union, "a") and not accepts(union, '{"a": 1}' + call("go"))
    assert not accepts(union, '{"a": 1, "a": 1}') and not accepts(union, call("go", ("a", ""), ("a", "")))
    assert accepts(union, call("go", ("o", '{"a": 1, "a": 1}')))
    required = language([FREE], constraint, mode="required")
    assert accepts(required, call("go")) and not accepts(required, "{}")
    none = language([FREE], constraint, mode="none")
    assert accepts(none, "{}") and not accepts(none, call("go"))
    with pytest.raises(RequestError):
        language([FREE], OutputConstraint.json_schema('{"type": "strin"}'), mode="required")


@pytest.mark.clause("TOOL-19", "TOOL-24", "TOOL-25", "TOOL-26", "TOOL-27")
def test_strict_arguments():
    found = language([GET], mode="required")
    big = str(2**63)
    inner = {"a": [1, {"b": None}]}
    assert accepts(found, call("get", ("x", " a\n b ")))
    assert accepts(found, call("get", ("x", ""), ("n", "1"), ("o", json.dumps(inner))))
    for pairs in (
        [], [("n", "1")], [("x", ""), ("x", "")], [("n", "1"), ("x", "a")], [("x", ""), ("n", big)],
        [("x", ""), ("n", " 1")], [("x", ""), ("o", "{ }")], [("x", ""), ("o", '{"a":1}')],
        [("x", ""), ("z", "")],
        [("x", ""), ("o", '{"a": 1, "a": 2}')], [("x", ""), ("o", '{"b": {"a": 1, "a": 2}}')],
    ):  # fmt: skip
        assert not accepts(found, call("get", *pairs)), pairs
    numbers = language([strict("get", {"n": {"type": "number"}})], mode="required")
    for text, holds in (
        ("1.5", True),
        ("1.7976931348623157e308", True),
        ("1e309", False),
        ("-1.8e308", False),
    ):
        assert accepts(numbers, call("get", ("n", text))) == holds, text


@pytest.mark.clause("TOOLS2-1", "TOOLS2-4")
def test_arguments_belong_to_the_tool_that_is_named():
    two = language([GET, strict("put", {})], mode="required")
    assert accepts(two, call("put")) and accepts(two, call("get", ("x", "")))
    assert not accepts(two, call("put", ("x", ""))) and not accepts(two, call("get"))
    some = language([GET, strict("put", {})], mode="required", allowed_names=("put",))
    assert some.key == language([strict("put", {})], mode="required").key


@pytest.mark.clause("TOOL-27", "TOOL-28")
def test_text_under_conditions_holds_no_end_mark():
    conditions = {"type": "string", "pattern": "a", "maxLength": 20}
    found = language([strict("get", {"x": conditions, "e": {"enum": ["a\nb", "c"]}})], mode="required")
    for text, holds in (
        ("ba", True),
        ("b", False),
        ("a\n</paramete", True),
        ("a" * 20, True),
        ("a" * 21, False),
    ):
        assert accepts(found, call("get", ("x", text))) == holds, text
    assert accepts(found, call("get", ("x", "b\na"), ("e", "a\nb")))
    assert not accepts(found, call("get", ("e", "a")))
    assert not accepts(found, call("get", ("x", "b\n</parameter>\na")))
    length = language([strict("get", {"x": {"type": "string", "maxLength": 15}})], mode="required")
    assert accepts(length, call("get", ("x", "\n</param"))) and not accepts(
        length, call("get", ("x", "a" * 16))
    )
    listed = [{"const": "a\n</parameter>"}, {"enum": ["b", "\n</parameter>c"]}]
    never = {"type": "string", "pattern": "\\n</parameter>"}
    for schema in (*listed, never, {"type": ["string", "null"]}, {"enum": ["a", 1]}, {}):
        with pytest.raises(RequestError) as error:
            language([strict("get", {"x": schema}, ["x"])])
        assert error.value.source == "tools" and error.value.pointer.startswith("/tools/0/parameters")
    assert accepts(language([strict("get", {"x": never})]), call("get"))


@pytest.mark.clause("TOOL-20", "TOOL-21", "REQ-13")
@pytest.mark.parametrize(
    "schema",
    [
        OPEN,
        "true",
        '{"type": "object", "additionalProperties": false, "minProperties": 1, "properties": {"a": true}}',
        '{"anyOf": [{"const": {}}, {"type": "object", "additionalProperties": false}]}',
        '{"type": "object", "additionalProperties": false, "properties": {"a": {"oneOf": []}}}',
        "[",
    ],
)
def test_strict_schemas_that_are_refused(schema):
    with pytest.raises(RequestError) as error:
        language([FREE, ToolDeclaration("get", schema, strict=True)])
    assert error.value.source == "tools" and error.value.pointer.startswith("/tools/1/parameters")
    assert "JSON" in error.value.kind.name or error.value.kind is ErrorKind.INVALID_TOOL_CONSTRAINT


@pytest.mark.clause("TOOL-20")
def test_strict_roots_that_reduce_to_one_object():
    parts = {
        "$defs": {
            "r": {"type": "object", "properties": {"x": {"enum": ["a"]}}, "additionalProperties": False}
        }
    }
    tool = ToolDeclaration("get", json.dumps({**parts, "allOf": [{"$ref": "#/$defs/r"}]}), strict=True)
    assert accepts(language([tool]), call("get", ("x", "a"))) and not accepts(
        language([tool]), call("get", ("x", "b"))
    )


@pytest.mark.clause("TOOL-16", "TOOLS2-2", "CACHE-3", "TOOL-34")
def test_keys_hold_what_the_grammar_depends_on():
    hinted = ToolDeclaration("go", '{"properties": {"a": {"type": "integer"}}}', "words")
    same = [language([FREE]).key, language([hinted]).key]
    others = [
        language([ToolDeclaration("put")]).key,
        language([FREE], parallel=False).key,
        language([FREE], mode="required").key,
        language([FREE], thinking=True).key,
        language([FREE], OutputConstraint.json_object()).key,
        language([strict("go", {})]).key,
        language([FREE, ToolDeclaration("put")]).key,
        language([FREE], mode="none").key,
    ]
    assert same[0] == same[1] and len({same[0], *others}) == 1 + len(others)


@pytest.mark.clause("TOOLS2-3", "SAFE-2")
def test_many_tools_and_large_schemas_are_exact_or_refused():
    many = [strict(f"a{i}", {"x": {"type": "string"}}) for i in range(250)]
    many += [ToolDeclaration(f"b{i}") for i in range(250)]
    text = call("a11", ("x", "a"))
    found = language(many, mode="required")
    assert accepts(found, text) and accepts(found, call("b1")) and not accepts(found, call("a11", ("z", "")))
    large = strict("a", {"x": {"type": "string", "description": "d" * 2**20}})
    with pytest.raises(RequestError) as error:
        language([large])
    assert error.value.source == "tools"
