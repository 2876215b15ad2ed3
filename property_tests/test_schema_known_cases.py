"""Cases that converters of JSON Schema are known to get wrong: what is dropped, and what is refused in error.

Every row is judged by the oracle first, so the table cannot drift from the specification.
"""

import pytest

from engine.errors import ErrorKind
from property_tests.schema_words import accepts, fault, is_valid

DRAFT_4 = "http://json-schema.org/draft-04/schema#"
WRONGLY_ACCEPTED = [
    (
        '{"type":"object","properties":{"a":{"type":"string","not":{"enum":["x"]}}},"required":["a"]}',
        '{"a":"x"}',
    ),
    (
        '{"type":"object","properties":{"k":{"type":"string"},"v":{"type":"integer"}},'
        '"if":{"properties":{"k":{"const":"n"}}},"then":{"required":["v"]}}',
        '{"k":"n"}',
    ),
    ('{"type":"array","items":{"enum":[1,2]},"uniqueItems":true}', "[1,1]"),
    ('{"type":"array","items":{"type":"string"},"contains":{"const":"x"}}', '["a"]'),
    (
        '{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},'
        '"dependentRequired":{"a":["b"]}}',
        '{"a":1}',
    ),
    (
        '{"$defs":{"s":{"type":"string"}},"type":"object",'
        '"properties":{"a":{"$ref":"#/$defs/s","maxLength":2}}}',
        '{"a":"long"}',
    ),
    (
        '{"type":"object","properties":{"a":{"type":"integer"}},"additionalProperties":false,'
        '"anyOf":[{"required":["a"]}]}',
        '{"a":"x","zzz":1}',
    ),
    ('{"type":"object","properties":{"a":{"minimum":5}}}', '{"a":1}'),
    ('{"type":"object","properties":{"a":{"type":"integer"}},"required":["a","q"]}', '{"a":1}'),
    (
        '{"type":"object","properties":{"foo":{"type":"integer"}},'
        '"patternProperties":{"^foo$":{"type":"integer","maximum":5}}}',
        '{"foo":9}',
    ),
    ('{"type":"array","items":{"type":"integer"},"allOf":[{"minItems":2}]}', "[1]"),
    ('{"allOf":[{"type":"object","properties":{"a":{"type":"integer"}}}],"required":["b"]}', '{"a":1}'),
    (
        '{"type":"object","propertyNames":{"anyOf":[{"pattern":"^[ab]$"},{"pattern":"^[bc]$"}]},'
        '"additionalProperties":{"type":"integer"}}',
        '{"b":1,"b":2}',
    ),
    (f'{{"$schema":"{DRAFT_4}","type":"integer","enum":[1,2.0]}}', "2.0"),
    (f'{{"$schema":"{DRAFT_4}","type":"integer","enum":[1,2.0]}}', "1.0"),
    (f'{{"$schema":"{DRAFT_4}","items":{{"type":"integer"}},"enum":[[1.0],2]}}', "[1.0]"),
]
WRONGLY_REFUSED = [
    ('{"anyOf":[{"properties":{"b":{}}},{}],"unevaluatedProperties":true,"unevaluatedItems":{}}', '{"a":1}'),
    ('{"type":"array","prefixItems":[{"const":1},{"enum":[1.0,2]}],"uniqueItems":true,"items":false}', "[1]"),
    (
        '{"type":"object","properties":{"a":{"type":"integer"}},"allOf":[{"properties":{"b":{"type":"integer"}}}],'
        '"unevaluatedProperties":false}',
        '{"a":1,"b":2}',
    ),
    ('{"type":"string","pattern":"^s3://"}', '"s3://bucket"'),
    ('{"type":"string","pattern":"^.+$"}', '"say \\"hi\\""'),
    ('{"type":"string","minLength":1}', '"\\n"'),
    ('{"type":"number","minimum":0.5}', "0.6123456789"),
    ('{"type":"number","minimum":0}', "1e3"),
    (
        '{"type":"object","patternProperties":{"^f":{"type":"integer"}},"additionalProperties":false}',
        '{"foo":1}',
    ),
    ('{"enum":[[1,2]]}', "[1, 2]"),
    ('{"properties":{"a":{"type":"integer"}}}', "12"),
    ('{"type":"string","format":"uri-reference"}', '"https://example.com/x"'),
    ('{"type":"object","properties":{"a":false,"b":{"type":"integer"}}}', '{"b":1}'),
    ('{"type":"array","prefixItems":[true,{"type":"string"}]}', '[1,"a"]'),
    ('{"type":"integer","minimum":0.5}', "1"),
    ('{"type":"integer","maximum":18446744073709551615}', "5"),
    ('{"propertyNames":{"$ref":"#"},"minLength":1}', '{"a":1}'),
    ('{"$id":"urn:x:y","$ref":"#foo","$defs":{"b":{"$anchor":"foo","type":"null"}}}', "null"),
    ('{"type":"object","propertyNames":{"$ref":"#"}}', "{}"),
    (
        '{"oneOf":[{"type":"object","propertyNames":{"$ref":"#"}},{"type":"string","minLength":2}]}',
        '{"aa":1}',
    ),
    (f'{{"$schema":"{DRAFT_4}","type":"integer","enum":[1,2.0]}}', "2"),
]


@pytest.mark.clause("JSON-7", "SERV-14", "TEST2-2")
@pytest.mark.parametrize(("schema", "text"), WRONGLY_ACCEPTED)
def test_no_assertion_is_dropped(schema, text):
    assert not is_valid(schema, text)
    assert not accepts(schema, text, formats="assert")


@pytest.mark.clause("SERV-14", "TEST2-2")
@pytest.mark.parametrize(("schema", "text"), WRONGLY_REFUSED)
def test_no_valid_text_is_lost(schema, text):
    assert is_valid(schema, text, assert_formats=True)
    assert accepts(schema, text, formats="assert")


@pytest.mark.clause("JSON-2", "JSON-6")
def test_what_has_no_exact_form_is_refused_at_its_pointer():
    free_items = '{"type":"array","items":{"type":"integer"},"uniqueItems":true}'
    assert fault(free_items).pointer == "/uniqueItems"
    unevaluated = '{"anyOf":[{"properties":{"b":{}}},{}],"unevaluatedProperties":false}'
    assert fault(unevaluated).pointer == "/unevaluatedProperties"


@pytest.mark.clause("JSON-22")
def test_the_contract_writes_integers_without_a_point():
    assert is_valid('{"type":"integer"}', "1.0")
    assert not accepts('{"type":"integer"}', "1.0")


HOSTILE = [
    ('{"multipleOf":1e308}', ErrorKind.UNSUPPORTED_JSON_SCHEMA, ""),
    (
        '{"$id":"http://h/","$defs":{"a":{"$id":"http://[::1"}},"$ref":"b"}',
        ErrorKind.INVALID_JSON_SCHEMA,
        "/$defs/a/$id",
    ),
    ('{"$id":"//[","items":{"$ref":"b"}}', ErrorKind.INVALID_JSON_SCHEMA, "/items/$ref"),
    (
        '{"$defs":{"x":{"$anchor":"a"},"y":{"$anchor":"a"}},"$ref":"#a"}',
        ErrorKind.INVALID_JSON_SCHEMA,
        "/$ref",
    ),
    ('{"$id":"//[#a"}', ErrorKind.INVALID_JSON_SCHEMA, "/$id"),
    (
        '{"items":{"enum":[1,2]},"uniqueItems":true,"minItems":3,"type":"array"}',
        ErrorKind.UNSATISFIABLE_JSON_SCHEMA,
        "",
    ),
    (
        f'{{"items":{{"enum":{[*range(13)]}}},"uniqueItems":true}}',
        ErrorKind.UNSUPPORTED_JSON_SCHEMA,
        "/uniqueItems",
    ),
]


@pytest.mark.clause("JSON-2", "SAFE-6")
@pytest.mark.parametrize(("schema", "kind", "pointer"), HOSTILE)
def test_what_broke_a_converter_is_a_typed_refusal(schema, kind, pointer):
    error = fault(schema)
    assert (error.kind, error.pointer) == (kind, pointer)


@pytest.mark.clause("SAFE-9")
def test_refusals_show_the_schema_as_it_is_written():
    assert fault('{"minLength":-1}').found == "-1"
    assert fault('{"required":["a",null]}').found == '["a",null]'
    assert "None" not in fault('{"pattern":"("}').message


@pytest.mark.clause("JSON-2")
@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ('{"$defs":{"a":{},"b/c":5}}', "/$defs/b~1c"),
        ('{"items":{"allOf":[{},3]}}', "/items/allOf/1"),
        ('{"dependencies":{"a":["b",1]}}', "/dependencies/a"),
        ('{"allOf":[]}', "/allOf"),
        ('{"title":"NaN",\n"enum":[NaN]}', "line 2, column 9"),
    ],
)
def test_a_malformed_part_is_named_by_its_own_place(schema, place):
    error = fault(schema)
    assert (error.kind, str(error.location)) == (ErrorKind.INVALID_JSON_SCHEMA, place)


def _deep_value(wrappers: int) -> tuple[str, str]:
    """A schema that checks a listed value of the greatest depth level by level, and the value."""
    deep = '{"a":' * 250 + "1" + "}" * 250
    level = '{"anyOf":[' * wrappers + '{"patternProperties":{"a":{"$ref":"#/$defs/n"}}}' + "]}" * wrappers
    return f'{{"$defs":{{"n":{level}}},"enum":[{deep}],"$ref":"#/$defs/n"}}', deep


@pytest.mark.clause("JSON-46", "SAFE-5")
def test_deep_listed_values_are_checked_or_refused_by_a_limit():
    schema, deep = _deep_value(1)
    assert accepts(schema, deep)
    assert fault(_deep_value(20)[0]).limit == "evaluation_depth"
