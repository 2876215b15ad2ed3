"""Is a schema's own text read without loss, and is every fault of it found at its place?"""

import json
import random

import pytest

from engine.errors import ErrorKind, LimitExceeded, SyntaxFault
from engine.text.limits import LIMITS
from engine.text.schema.source import equality_key, parse, text_of
from oracles.schema.text import identity
from oracles.schema.text import parse as oracle_parse
from property_tests.schema_words import accepts, compact, compiled, fault
from property_tests.strategies_schema import random_value


def refusal(source):
    with pytest.raises((SyntaxFault, LimitExceeded)) as caught:
        parse(source)
    assert caught.value.kind is ErrorKind.INVALID_JSON_SCHEMA
    return caught.value


@pytest.mark.clause("JSON-2")
@pytest.mark.parametrize(
    ("source", "pointer"),
    [
        ('{"a":1,"a":2}', "/a"),
        ('{"x":[0,{"a/b~":1,"a/b~":2}]}', "/x/1/a~1b~0"),
        ('{"a":1,"\\u0061":2}', "/a"),
        ('{"":1,"":2}', "/"),
        ('{"x":{"y":"\\ud800"}}', "/x/y"),
        ('{"x":{"\\udc00":1}}', "/x"),
    ],
)
def test_faults_inside_the_text_have_a_pointer(source, pointer):
    assert refusal(source).pointer == pointer


@pytest.mark.parametrize(
    ("source", "line", "column"),
    [
        ("", 1, 1),
        ("{", 1, 2),
        ('{"a":1}x', 1, 8),
        ('{\n "a":01}', 2, 7),
        ("{'a':1}", 1, 2),
        ('{"a":1,}', 1, 8),
    ],
)
def test_faults_of_syntax_have_line_and_column(source, line, column):
    where = refusal(source).location
    assert (where.line, where.column) == (line, column)


@pytest.mark.parametrize(
    "source", ['{"minimum":NaN}', '{"const":Infinity}', "-Infinity", '"\x01"', '{"a":+1}']
)
def test_what_rfc_8259_does_not_have_is_refused(source):
    refusal(source)


def test_values_keep_their_text_and_order():
    rng = random.Random(3)
    for _ in range(300):
        text = compact(random_value(rng, 3))
        assert text_of(parse(text)) == text
    for text in ("1.0", "-0", "1E400", "0.10", "12345678901234567890", "1e-7"):
        assert text_of(parse(text)) == text


def test_equality_is_that_of_the_specification():
    texts = ["1", "1.0", "10e-1", "0", "-0", "true", '"1"', "[1]", "[1.0]", "[true]", '{"a":1,"b":2}']
    texts += ['{"b":2,"a":1.0}', "null", "false", "[]", "{}", '""', "1e400", "1e401", "0.1", "0.10"]
    for one in texts:
        for other in texts:
            equal = equality_key(parse(one)) == equality_key(parse(other))
            if "e40" not in one + other:  # far outside binary64 numbers are refused, not compared
                assert equal is (identity(oracle_parse(one)) == identity(oracle_parse(other))), (one, other)


@pytest.mark.clause("JSON-26")
def test_a_number_that_reading_would_round_is_refused_where_it_asserts():
    rounded = "0.1000000000000000000001"
    for keyword in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "const"):
        error = fault(f'{{"{keyword}":{rounded}}}')
        assert (error.kind, error.pointer) == (ErrorKind.UNSUPPORTED_JSON_SCHEMA, f"/{keyword}")
    assert fault(f'{{"enum":[1,{{"a":[{rounded}]}}]}}').pointer == "/enum/1/a/0"
    assert fault('{"const":9223372036854775808}').pointer == "/const"
    for keyword in ("default", "examples", "title", "$comment"):
        assert accepts(f'{{"{keyword}":[{rounded},99999999999999999999],"type":"null"}}', "null")
    assert accepts('{"const":0.1}', "0.1") and accepts('{"minimum":1e2,"type":"integer"}', "100")


@pytest.mark.clause("SAFE-3", "TEST2-2")
def test_depth_and_bytes_at_the_limit_and_past_it():
    depth = LIMITS["schema_depth"]
    parse("[" * depth + "]" * depth)
    assert refusal("[" * (depth + 1) + "]" * (depth + 1)).limit == "schema_depth"
    assert refusal("[" * 100_000 + "]" * 100_000).limit == "schema_depth"
    size = LIMITS["schema_bytes"]
    parse('"' + "é" * ((size - 2) // 2) + '"')
    assert refusal('"' + "é" * ((size - 2) // 2) + 'ab"').limit == "schema_bytes"
    digits = LIMITS["number_characters"]
    parse("1" * digits)
    assert refusal("1" * (digits + 1)).limit == "number_characters"


@pytest.mark.clause("SERV-12", "CACHE-4")
def test_white_space_and_spellings_of_one_schema_share_an_entry_and_order_does_not():
    one = compiled('{"type":"object","properties":{"a":{"const":"é"},"b":{}}}')
    other = compiled(' {"type" : "object",\n"properties":{"a":{"const":"\\u00e9"},"b":{}}}')
    assert one is other
    swapped = compiled('{"type":"object","properties":{"b":{},"a":{"const":"é"}}}')
    assert one is not swapped
    assert json.loads('"\\u00e9"') == "é"
