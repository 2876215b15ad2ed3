"""Is every keyword enforced, ignored as an annotation, or refused by name at its pointer, alone and in pairs?

The ledger accounts for every occurrence. Pairs: all 2-subsets of assertions and applicators stand side by
side in many seeded arguments, and the oracle judges instances that lie near both.
"""

import itertools
import random
from collections import Counter

import pytest

from engine.errors import ErrorKind, RequestError
from engine.request import JsonOptions
from engine.text.schema.grammar import ledger
from engine.text.schema.keywords import KEYWORDS, NEWEST, Dialect
from oracles.schema.validate import Validator
from property_tests.schema_words import (
    accepts,
    compiled,
    fault,
    is_member,
    is_member_in_some_order,
    is_valid,
    outcome,
    source_of,
    spaced,
)
from property_tests.strategies_schema import KEYWORDS_OF, argument_for, instance_for, small_schema

PAIRED = sorted(
    {k for keywords in KEYWORDS_OF.values() for k in keywords}
    | {"type", "enum", "const", "allOf", "anyOf", "oneOf", "not", "if", "$ref"}
)
KIND_OF = {keyword: kind for kind, keywords in KEYWORDS_OF.items() for keyword in keywords}
ARGUMENTS = {
    "type": "string",
    "enum": ["a"],
    "const": "a",
    "required": ["a"],
    "properties": {"a": {}},
    "patternProperties": {"a": {}},
    "dependentRequired": {"a": ["b"]},
    "dependentSchemas": {"a": {}},
    "dependencies": {"a": ["b"]},
    "allOf": [{}],
    "anyOf": [{}],
    "oneOf": [{}],
    "prefixItems": [{}],
    "pattern": "a",
    "format": "date",
    "uniqueItems": False,
    "multipleOf": 2,
    "$ref": "#/$defs/x",
    "$dynamicRef": "#/$defs/x",
    "$defs": {"x": {}},
    "definitions": {},
}


def _argument(keyword):
    if keyword in ARGUMENTS:
        return ARGUMENTS[keyword]
    return 1 if keyword.startswith(("min", "max", "exclusive")) else {}


@pytest.mark.clause("SERV-13", "SERV-14", "JSON-6", "JSON-48")
@pytest.mark.parametrize(
    "keyword", sorted(k for k in KEYWORDS if not k.startswith("$") or k in ("$ref", "$defs"))
)
def test_every_keyword_is_in_the_ledger_or_refused_by_name(keyword):
    row = KEYWORDS[keyword]
    schema = {"properties": {"p": {keyword: _argument(keyword), "title": "t"}}, "$defs": {"x": {}}}
    options = JsonOptions(formats="assert")
    if not row.is_known_in(NEWEST) or keyword == "id":
        if keyword == "id":
            return
        error = fault(schema, formats="assert")
        assert error.kind is ErrorKind.UNSUPPORTED_JSON_SCHEMA
        assert error.pointer == f"/properties/p/{keyword}"
        return
    found = {o.pointer: o.fate for o in ledger(source_of(schema), options)}
    assert found[f"/properties/p/{keyword}"] in ("assertion", "applicator", "annotation", "identity")
    assert found["/properties/p/title"] == "annotation" and found["/properties"] == "applicator"


@pytest.mark.clause("JSON-7", "SERV-14")
@pytest.mark.parametrize(
    "keyword", ["minLenght", "additonalProperties", "x-any", "extends", "divisibleBy", "nullable"]
)
def test_unknown_keywords_are_refused_unless_the_caller_says_otherwise(keyword):
    schema = {"items": {"type": "string", keyword: 3}}
    error = fault(schema)
    assert (error.kind, error.pointer) == (ErrorKind.UNSUPPORTED_JSON_SCHEMA, f"/items/{keyword}")
    assert accepts(schema, '["a"]', unknown_keywords="annotate")
    assert not accepts(schema, "[1]", unknown_keywords="annotate")


@pytest.mark.clause("JSON-3", "JSON-7")
@pytest.mark.parametrize(
    ("keyword", "draft", "known"),
    [
        ("const", 4, False),
        ("const", 6, True),
        ("if", 6, False),
        ("if", 7, True),
        ("contains", 4, False),
        ("prefixItems", 7, False),
        ("dependentRequired", 7, False),
        ("propertyNames", 4, False),
    ],
)
def test_keywords_belong_to_drafts(keyword, draft, known):
    schema = {"$schema": f"http://json-schema.org/draft-0{draft}/schema#", keyword: _argument(keyword)}
    if known:
        compiled(schema)
    else:
        error = fault(schema)
        assert error.pointer == f"/{keyword}" and str(Dialect(draft)) in error.message
        compiled(schema, unknown_keywords="annotate")


@pytest.mark.clause("JSON-2")
@pytest.mark.parametrize(
    ("keyword", "argument"),
    [
        *[(k, -1) for k in ("minLength", "maxItems", "minProperties")],
        ("minItems", 1.5),
        ("maxLength", "3"),
        ("minimum", "3"),
        ("multipleOf", 0),
        ("multipleOf", -2),
        ("type", "any"),
        ("type", []),
        ("enum", "a"),
        ("type", ["string", "string"]),
        ("required", "a"),
        ("required", ["a", "a"]),
        ("required", [1]),
        ("properties", []),
        ("properties", {"a": 3}),
        ("items", [{}]),
        ("allOf", {}),
        ("allOf", []),
        ("not", 1),
        ("anyOf", [1]),
        ("pattern", "("),
        ("pattern", 3),
        ("patternProperties", {"[": {}}),
        ("uniqueItems", 1),
        ("additionalProperties", "no"),
        ("dependentRequired", {"a": "b"}),
        ("if", 0),
        ("$ref", []),
        ("format", 1),
    ],
)
def test_malformed_arguments_are_invalid_at_their_place(keyword, argument):
    error = fault({"properties": {"p": {keyword: argument}}}, formats="assert")
    assert error.kind is ErrorKind.INVALID_JSON_SCHEMA
    assert error.pointer.startswith(f"/properties/p/{keyword}")


def _made(rng: random.Random, keyword: str):
    part = lambda: small_schema(rng) if rng.random() < 0.6 else _near(rng)  # noqa: E731 - a name for the choice
    if keyword == "type":
        return rng.choice([*KEYWORDS_OF, ["string", "object"], ["integer", "array"], ["null", "number"]])
    if keyword == "$ref":
        return "#/$defs/d"
    if keyword in ("not", "if"):
        return part()
    return argument_for(rng, keyword, part, rng.choice([*KEYWORDS_OF]))


def _near(rng: random.Random):
    keyword = rng.choice([*KIND_OF])
    schema = {keyword: argument_for(rng, keyword, lambda: small_schema(rng), KIND_OF[keyword])}
    return {**schema, "type": KIND_OF[keyword]} if rng.random() < 0.4 else schema


def _siblings(rng: random.Random, pair: tuple[str, str]):
    schema = {keyword: _made(rng, keyword) for keyword in pair}
    if "if" in schema:
        schema[rng.choice(["then", "else"])] = _near(rng)
    if "$ref" in schema:
        schema["$defs"] = {"d": _near(rng)}
    return schema


@pytest.mark.clause("VER-2", "JSON-34", "JSON-35", "JSON-36", "JSON-39", "SERV-14", "TEST2-6")
@pytest.mark.parametrize("first", PAIRED)
def test_every_pair_of_siblings_is_enforced_together(first):
    counts = Counter()
    for second in PAIRED:
        if second > first:
            for seed in range(2):
                _judge(random.Random(f"{first} {second} {seed}"), (first, second), counts)
    assert not counts["over"] and not counts["under"], counts
    assert counts["refused"] <= max(4, counts["schemas"] // 4), counts


def _judge(rng: random.Random, pair: tuple[str, str], counts: Counter) -> None:
    schema = _siblings(rng, pair)
    counts["schemas"] += 1
    validator = Validator(source_of(schema))
    instances = [instance_for(rng, schema, schema) for _ in range(12)]
    language = outcome(schema)
    if isinstance(language, RequestError):
        counts["refused"] += language.kind is ErrorKind.UNSUPPORTED_JSON_SCHEMA
        assert language.kind is not ErrorKind.INVALID_JSON_SCHEMA, (schema, language)
        if language.kind is ErrorKind.UNSATISFIABLE_JSON_SCHEMA:
            assert all(validator.failures(spaced(value)) for value in instances), (schema, language)
        return
    for value in instances:
        valid = not validator.failures(spaced(value))
        accepted = is_member_in_some_order(language, value)
        assert valid is accepted, (schema, value, "under" if valid else "over")
        counts["valid" if valid else "invalid"] += 1


@pytest.mark.clause("SERV-15", "JSON-14")
@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("é", 1),
        ("e\u0301", 2),
        ("😀", 1),
        ("\\n", 1),
        ('\\"', 1),
        ("\\u0001", 1),
        ("👩\u200d👩", 3),
        ("ﷺ", 1),
        ("\x7f", 1),
    ],
)
def test_length_counts_decoded_code_points(text, length):
    for bound in (length - 1, length, length + 1):
        for keyword in ("minLength", "maxLength"):
            schema = {"type": "string", keyword: bound}
            assert accepts(schema, f'"{text}"') is is_valid(schema, f'"{text}"'), (keyword, bound)


@pytest.mark.clause("VER-2")
def test_formats_follow_their_option():
    schema = {"type": "string", "format": "date"}
    assert fault(schema).pointer == "/format"
    assert accepts(schema, '"x"', formats="annotate")
    language = compiled(schema, formats="assert")
    for day in ("2024-02-29", "2023-02-29", "2000-02-29", "1900-02-29", "2024-13-01", "x"):
        assert is_member(language, f'"{day}"') is is_valid(schema, f'"{day}"', assert_formats=True), day
    assert fault({"format": "no-such"}, formats="assert").pointer == "/format"
    assert len(list(itertools.combinations(PAIRED, 2))) > 400
