"""What explain-schema is made from: places of refusals, the ledger, the reduced form, grammars as text."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.request import JsonOptions
from engine.text.automaton import matches
from engine.text.expr import Bytes, alt, chars, repeat, seq
from engine.text.readable import grammar_text, regex_text
from engine.text.schema.explain import explain, fragment, instead, terminal_names
from property_tests.schema_words import compiled, fault, source_of

# --- refusals ----------------------------------------------------------------------------------------------

PLACED = {  # a schema and where its fault stands, by the pass that finds it
    '{"items": {"type": "x"}}': "/items/type",
    '{"allOf": [true, {"maxLength": -1}]}': "/allOf/1/maxLength",
    '{"properties": {"a/b": {"pattern": "("}}}': "/properties/a~1b/pattern",
    '{"properties": {"a~": {"pattern": "(?=x)"}}}': "/properties/a~0/pattern",
    '{"a": 1, "b": {"c": 1, "c": 2}}': "/b/c",
    '{"enum": [1, [0.1234567890123456789]]}': "/enum/1/0",
    '{"const": {"a/b": [12345678901234567890]}}': "/const/a~1b/0",
    '{"items": {"$ref": "#/nowhere"}}': "/items/$ref",
    '{"$ref": "http://example.com/other"}': "/$ref",
    '{"$schema": "http://example.com/dialect"}': "/$schema",
    '{"items": {"title": "t", "format": "date"}}': "/items/format",
    '{"definitions": {"a": {"allOf": [{"$ref": "#/definitions/a"}]}}, "$ref": "#/definitions/a"}': None,
    '{"items": {"type": "array", "uniqueItems": true}}': "/items/uniqueItems",
    '{"items": {"not": {"uniqueItems": true}}, "type": "array", "minItems": 1}': "/items/not/uniqueItems",
    '{"type": "object", "required": ["a"], "properties": {"a": {"enum": [1], "type": "null"}}}': None,
    '{"anyOf": [{"type": "null"}, {"type": "array", "minItems": 1, "items": {"type": "object", '
    '"patternProperties": {"^[ab]{9}$": true}, "additionalProperties": false}}]}': None,
}


@pytest.mark.clause("JSON-2")
@pytest.mark.parametrize("source", PLACED)
def test_a_refusal_names_a_place_of_the_schema_as_it_was_written(source):
    error = fault(source)
    expected = PLACED[source]
    if expected is None:  # found in the reduction or later: some place inside, not the whole schema
        assert error.pointer != ""
    else:
        assert error.pointer == expected
    assert fragment(source, error.pointer) != "" or "/c" in error.pointer
    assert instead(error)


# --- the ledger --------------------------------------------------------------------------------------------

LEDGER = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "t",
    "type": "object",
    "properties": {
        "a": {"$ref": "#/definitions/used", "minimum": 5},
        "b": {"items": [{"type": "null"}], "x-note": 1},
        "c/d": {"anyOf": [{"const": {"type": "x"}}, {"format": "date"}, {"format": "unheard-of"}]},
    },
    "definitions": {"used": {"type": "integer"}, "unused": {"not": {"type": "null"}}},
}
FATES = {
    "/$schema": "identity",
    "/title": "annotation",
    "/type": "enforced",
    "/properties": "enforced",
    "/properties/a/$ref": "enforced",
    "/properties/a/minimum": "ignored beside $ref",
    "/properties/b/items": "enforced",
    "/properties/b/items/0/type": "enforced",
    "/properties/b/x-note": "unknown, ignored",
    "/properties/c~1d/anyOf": "enforced",
    "/properties/c~1d/anyOf/0/const": "enforced",
    "/properties/c~1d/anyOf/1/format": "enforced",
    "/properties/c~1d/anyOf/2/format": "unknown, ignored",
    "/definitions": "annotation",
    "/definitions/used/type": "enforced",
    "/definitions/unused/not": "not reached",
    "/definitions/unused/not/type": "not reached",
}


@pytest.mark.clause("SERV-14")
def test_the_ledger_accounts_for_every_keyword_once():
    explanation = explain(source_of(LEDGER), JsonOptions("annotate", "assert"))
    assert explanation.dialect == "draft-7"
    assert len(explanation.ledger) == len(FATES)
    assert {entry.pointer: entry.fate for entry in explanation.ledger} == FATES
    counts = explanation.fates()
    assert counts["enforced"]["type"] == 3 and counts["unknown, ignored"] == {"x-note": 1, "format": 1}
    assert sum(sum(keywords.values()) for keywords in counts.values()) == len(FATES)


# --- the reduced form --------------------------------------------------------------------------------------


def reduced(schema, **options):
    return explain(source_of(schema), JsonOptions(**options)).reduced


def test_scalars_are_one_line_each():
    forms = {
        '{"type": "integer", "minimum": -5, "exclusiveMaximum": 7.5}': "integer >= -5, < 7.5",
        '{"type": "number", "multipleOf": 0.01, "not": {"const": 1}}': "number multiple of 0.01, not 1",
        '{"type": "string", "pattern": "^a", "maxLength": 3}': "string of at most 3 characters, matching ^a",
        '{"type": "string", "not": {"enum": ["a", "b"]}}': 'string other than "a" or "b"',
        '{"type": "string", "format": "uuid"}': "string of format uuid",
        '{"enum": [1, "x"]}': 'one of 1, "x"',
        '{"type": "boolean", "not": {"const": true}}': "false",
        '{"type": "array", "items": {"type": "null"}, "minItems": 2}': "array (at least 2 items; each: null)",
    }
    for schema, form in forms.items():
        (root,) = reduced(schema, formats="assert")
        assert (root.name, root.simple, root.objects) == ("#", (form,), ())


def test_an_object_lists_its_members_and_recursion_is_a_name():
    schema = {
        "type": "object",
        "properties": {"next": {"$ref": "#"}, "value": {"type": "integer"}},
        "required": ["value"],
        "additionalProperties": False,
        "minProperties": 1,
    }
    (root,) = reduced(schema)
    (form,) = root.objects
    shown = [(member.name, member.required, member.value) for member in form.members]
    assert shown == [('"next"', False, "#"), ('"value"', True, "integer")]
    assert form.others == () and form.conditions == ("at least 1 member",)


def test_names_joins_and_conditions_of_objects():
    schema = {
        "type": "object",
        "patternProperties": {"^x": {"type": "null"}},
        "allOf": [{"properties": {"a": {"type": "object"}}}, {"properties": {"a": {"required": ["b"]}}}],
        "not": {"additionalProperties": {"type": "null"}},
    }
    root, a = reduced(schema)
    (form,) = root.objects
    assert a.name == "#/allOf/0/properties/a and #/allOf/1/properties/a"
    assert [member.value for member in form.members] == [a.name]
    assert [member.name for member in form.others] == ["matching ^x", "not matching ^x"]
    assert len(form.conditions) == 1 and form.conditions[0].startswith("some member")


def test_the_reduced_form_is_bounded():
    names = [f"n{i}" for i in range(90)]
    schema = {"type": "object", "properties": {n: {"type": "object", "required": [n]} for n in names}}
    explanation = explain(source_of(schema), JsonOptions())
    assert len(explanation.reduced) == 60 and not explanation.is_whole


# --- the grammar as text -----------------------------------------------------------------------------------

LEAVES = st.sampled_from(
    [Bytes(b"a"), Bytes(b"a.b"), chars([(97, 99)]), chars([(93, 94), (45, 45)]), Bytes(b"")]
)
EXPRESSIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(seq),
        st.lists(inner, min_size=2, max_size=3).map(alt),
        st.tuples(inner, st.sampled_from([(0, 1), (0, None), (1, None), (2, 2), (1, 3)])).map(
            lambda pair: repeat(pair[0], *pair[1])
        ),
    ),
    max_leaves=6,
)


@given(EXPRESSIONS)
def test_an_expression_is_written_so_that_it_reads_as_itself(expr):
    pattern = re.compile(regex_text(expr))
    texts = ["", "a", "b", "aa", "a.b", "ab", "a.ba.b", "-", "]", "^", "a-", "abc", "aab", "]a", "axb"]
    for text in texts:
        assert bool(pattern.fullmatch(text)) == matches(expr, text)


def test_a_grammar_names_what_stands_in_most_grammars():
    language = compiled({"type": "array", "items": {"type": "string"}})
    lines = list(grammar_text(language.grammar, terminal_names(JsonOptions())))
    rules = dict(line.split(" ::= ", 1) for line in lines)
    assert next(iter(rules)) == "root"
    assert "open-array string (comma string)* close-array" in " ".join(rules.values())
    assert rules["comma"] == r"/[\t\n\r ]{0,32},[\t\n\r ]{0,32}/"
