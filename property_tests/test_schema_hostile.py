"""Does every schema made to hurt end within 2 s of CPU and 512 MB, served or with a typed error?

Nothing here reads a clock: the child process runs each case under the operating system's own limits, and a
case that passes one of them is reported as dead.
"""

import json
import subprocess
import sys

import pytest

from engine.errors import ErrorKind
from engine.text.limits import LIMITS, WHAT
from property_tests.hostile_schemas import CASES, MEMORY
from property_tests.schema_words import compiled, fault

KINDS = {str(kind) for kind in ErrorKind if "json_schema" in kind}


@pytest.fixture(scope="module")
def outcomes():
    done = subprocess.run(
        [sys.executable, "-m", "property_tests.hostile_schemas"], capture_output=True, text=True, check=True
    )
    return {row["name"]: row for row in map(json.loads, done.stdout.splitlines())}


@pytest.mark.clause("SAFE-3", "JSON-45", "JSON-46", "SERV-17")
@pytest.mark.parametrize("name", CASES)
def test_every_case_ends_within_its_limits(outcomes, name):
    row = outcomes[name]
    assert row["outcome"] == "served" or row["outcome"] in KINDS, row
    assert row["growth"] < MEMORY, row
    if row["outcome"] == "served":
        assert row["starts"]
    elif "limit" in row:
        assert row["limit"] in {*LIMITS, "name_patterns", "lexer_fuel", "grammar_symbols"}, row


def test_every_limit_has_words():
    assert set(LIMITS) == set(WHAT)


@pytest.mark.clause("SAFE-3")
def test_listed_values_references_and_members_at_the_limit_and_past_it():
    listed = LIMITS["enum_members"]
    compiled({"enum": [f"v{i}" for i in range(listed)]})
    assert fault({"enum": [f"v{i}" for i in range(listed + 1)]}).limit == "enum_members"
    half = [{"enum": [f"v{i}" for i in range(listed // 2 + 1)]}] * 2
    assert fault({"anyOf": half}).limit == "enum_members"
    assert fault({"const": [[0] * listed]}).limit == "enum_members"
    chain = LIMITS["reference_chain"]

    def references(count):
        defs = {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(count)}
        return {"$ref": "#/$defs/d0", "$defs": {**defs, f"d{count}": {"type": "null"}}}

    compiled(references(chain - 2))
    error = fault(references(chain + 1))
    assert (error.limit, error.kind) == ("reference_chain", ErrorKind.UNSUPPORTED_JSON_SCHEMA)
    members = LIMITS["schema_members"]
    wide = {f"p{i}": {} for i in range(members + 1)}
    error = fault({"items": {"properties": wide}})
    assert (error.limit, error.pointer) == ("schema_members", "/items/properties")
