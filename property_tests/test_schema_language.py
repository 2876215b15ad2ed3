"""Random schemas, both directions, counted apart: nothing invalid is generated, nothing valid is lost.

Generated texts come from walks over the masks of a toy vocabulary whose tokens cut everything; the oracle
must accept each one: the count of others must be 0. Instances come from the schema and near it; a valid one
must be accepted in the contract's spelling, compact and spaced, in some order of its members: none is lost.
"""

import itertools
import json
import random
from collections import Counter

import pytest

from engine.errors import ErrorKind, RequestError
from oracles.schema.validate import Validator
from property_tests.schema_words import accepts, compact, is_member, orders, outcome, source_of, spaced, walk
from property_tests.strategies_schema import instance_for, random_schema

REASONS = ("opposite", "items differ", "used up", "comes back to itself", "too many")
SEEDS = range(160)


def schemas(name: str, counts: Counter, **options):
    """Seeded schemas with their compiled languages, None for one that nothing satisfies."""
    for seed in SEEDS:
        rng = random.Random(f"{name} {seed}")
        schema = random_schema(rng, **options)
        language = outcome(schema)
        if not isinstance(language, RequestError):
            yield rng, schema, language
            continue
        counts[language.kind] += 1
        assert language.kind is not ErrorKind.INVALID_JSON_SCHEMA, (schema, language)
        if language.kind is ErrorKind.UNSATISFIABLE_JSON_SCHEMA:
            yield rng, schema, None
        else:
            assert any(reason in language.message for reason in REASONS), (schema, language)


@pytest.mark.clause("TEST2-6", "TEST2-1", "VER-2")
@pytest.mark.parametrize(
    "options", [{"logic": 0.35}, {"logic": 0.1, "depth": 3}, {"logic": 0.7, "refs": False}]
)
def test_what_is_generated_is_valid(options):
    counts = Counter()
    for rng, schema, language in schemas(f"out {options}", counts, **options):
        if language is None:
            continue
        validator = Validator(source_of(schema))
        for _ in range(3):
            data = walk(language, rng)
            counts["unended" if data is None else "texts"] += 1
            if data is not None:
                assert not validator.failures(data.decode()), (schema, data)
                assert is_member(language, data)
    assert counts["texts"] > 150 and counts["unended"] < counts["texts"] // 10, counts
    assert counts[ErrorKind.UNSUPPORTED_JSON_SCHEMA] < len(SEEDS) // 6, counts


@pytest.mark.clause("TEST2-6", "VER-2", "EMPTY-6", "JSON-7")
@pytest.mark.parametrize(
    "options", [{"logic": 0.35}, {"logic": 0.1, "depth": 3}, {"logic": 0.7, "refs": False}]
)
def test_valid_instances_are_accepted_and_near_misses_are_not(options):
    counts = Counter()
    for rng, schema, language in schemas(f"in {options}", counts, **options):
        validator = Validator(source_of(schema))
        for _ in range(12):
            value = instance_for(rng, schema, schema)
            valid = not validator.failures(spaced(value))
            if language is None:
                assert not valid, ("unsatisfiable, and yet", schema, value)
                continue
            accepted = next(
                (v for v in itertools.islice(orders(value), 1500) if is_member(language, compact(v))), None
            )
            counts[valid] += 1
            found = accepted is not None or (value is None and is_member(language, "null"))
            assert found is valid, (schema, value, "under" if valid else "over")
            if found:
                assert is_member(language, spaced(accepted)), (schema, accepted)
    assert counts[True] > 250 and counts[False] > 250, counts
    assert counts[ErrorKind.UNSUPPORTED_JSON_SCHEMA] < len(SEEDS) // 6, counts


@pytest.mark.clause("TEST2-6", "JSON-28")
def test_declared_order_is_the_order_of_plain_objects():
    """Without compositions the schema's own order of members is accepted, additional ones behind it."""
    rng = random.Random("declared order")
    for _ in range(150):
        names = rng.sample(("z", "a", "m", "b"), rng.randrange(1, 5))
        schema = {
            "type": "object",
            "properties": {name: {"type": rng.choice(["integer", "string"])} for name in names},
        }
        schema["required"] = rng.sample(names, rng.randrange(len(names) + 1))
        kept = [name for name in names if name in schema["required"] or rng.random() < 0.5]
        value = {name: 1 if schema["properties"][name]["type"] == "integer" else "x" for name in kept}
        if rng.random() < 0.5:
            value["other"] = [1]
        assert accepts(schema, compact(value)) and accepts(schema, spaced(value)), (schema, value)


LOST = {
    "an integer with a point": ({"type": "integer"}, "1.0"),
    "an integer with an exponent": ({"type": "integer"}, "1e2"),
    "an integer past 64 bits": ({"type": "integer"}, "9223372036854775808"),
    "more than 17 digits beside a bound": ({"type": "number", "minimum": 0}, "0.123456789012345678"),
    "an escape that is not canonical, beside a length": ({"type": "string", "maxLength": 3}, '"\\u0061"'),
    "an escaped name": ({"type": "object"}, '{"\\u0061":1}'),
    "members out of order": ({"properties": {"a": {}, "b": {}}, "type": "object"}, '{"b":1,"a":1}'),
    "white space around the value": ({"type": "object"}, " {}"),
    "a listed object in another order": ({"const": {"a": 1, "b": 2}}, '{"b":2,"a":1}'),
    "33 spaces": ({"type": "array"}, "[" + " " * 33 + "1]"),
}


@pytest.mark.clause("TEST2-6", "JSON-17", "JSON-22", "JSON-23", "JSON-28", "JSON-10")
@pytest.mark.parametrize("reason", LOST)
def test_the_whole_list_of_what_is_lost(reason):
    schema, text = LOST[reason]
    assert not Validator(json.dumps(schema)).failures(text)
    assert not accepts(schema, text)
