"""The gates of JSON schemas at small sizes, and controls that they must fail."""

import numpy as np
import pytest

from engine.text.schema.unique_names import UniqueNames
from experiments.gates import json_schema, json_windows
from experiments.gates.json_cases import CASES, WRITTEN
from experiments.gates.json_world import json_world, law_subject
from experiments.gates.path_law import check_law
from experiments.gates.path_world import PATHS
from experiments.verdict import Status
from oracles.expressions import Alt, Literal
from oracles.output_validator import validate_output

WORLD = json_world("toy")


@pytest.mark.clause("JSON-1", "JSON-10", "JSON-14", "JSON-21", "JSON-28", "JSON-30", "JSON-37", "JSON-39")
@pytest.mark.clause("JSON-43", "SPEC-7", "SPECG-6", "LIFE-3", "LIFE-4", "SERV-1")
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("check", json_schema.CHECKS)
def test_exact_checks(path, check):
    verdict = json_schema.exact_verdict(check, path, "torch", "toy", WORLD, seed=1, num_seeds=2)
    assert verdict.status is Status.PASS, (verdict.detail, verdict.reason)


@pytest.mark.clause("SPEC-8", "JSON-30")
def test_law_of_a_small_schema():
    verdict = check_law("mtp", "torch", "toy", 1, total_variation_seen=0.15, subject=law_subject)
    assert verdict.status is Status.PASS, (verdict.detail, verdict.reason)


@pytest.mark.clause(
    "MASK-2", "MASK-3", "MASK-8", "MASK-12", "TXN-3", "TXN-5", "JSON-19", "JSON-20", "JSON-30"
)
def test_look_ahead_rows():
    (verdict,) = json_windows.gate(seed=1, vocab="toy", num_windows=300)
    assert verdict.status is Status.PASS, (verdict.detail, verdict.reason)


@pytest.mark.parametrize("name", WRITTEN)
def test_what_is_written_for_the_oracle_is_what_the_schema_means(name):
    """The validator agrees with every listed text of the hand-written rules."""
    case = WRITTEN[name]
    root = case.rules["root"]
    if isinstance(root, Alt) and all(isinstance(option, Literal) for option in root.options):
        constraint = case.constraint
        for option in root.options:
            assert (
                validate_output(constraint.kind, constraint.source, option.text, constraint.options) is None
            )


class Blind(UniqueNames):
    """A tracker that sees nothing: names may stand twice."""

    def clear(self, words: np.ndarray) -> None:
        """Close nothing."""


def test_the_gates_see_a_name_that_is_not_closed(monkeypatch):
    monkeypatch.setattr("engine.text.compiler.UniqueNames", Blind)
    (verdict,) = json_windows.gate(seed=1, vocab="toy", num_windows=300)
    assert verdict.status is Status.FAIL
    assert verdict.case["schema"] in CASES
    assert not all(line.equal for line in json_windows.replay(verdict.case))


def test_a_wrong_output_is_seen_and_replayed(monkeypatch):
    monkeypatch.setattr(
        "experiments.gates.json_schema.validate_output", lambda kind, source, text, options: "never valid"
    )
    verdict = json_schema.exact_verdict(json_schema.VALID, "mtp", "torch", "toy", WORLD, seed=1, num_seeds=2)
    assert verdict.status is Status.FAIL
    assert verdict.case["replay"] == "experiments.gates.json_schema:replay"
    json_schema.replay(verdict.case)


def test_a_run_without_drafts_is_inconclusive(monkeypatch):
    monkeypatch.setattr("engine.runtime.table.TableMtp.on_host", lambda self, lane: ())
    verdict = json_schema.exact_verdict(json_schema.VALID, "mtp", "torch", "toy", WORLD, seed=1, num_seeds=2)
    assert verdict.status is Status.INCONCLUSIVE
