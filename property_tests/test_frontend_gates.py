"""The frontend gates over the toy vocabulary, each with plants that it must refuse."""

import json

import pytest

from engine.frontend import tool_reader
from engine.frontend.parameter_names import ParameterNames
from experiments.gates import frontend_calls
from experiments.verdict import Status


def run(**sizes):
    """The only verdict of a small run."""
    (verdict,) = frontend_calls.gate(seed=0, vocab="toy", **{"num_sets": 12, **sizes})
    return verdict


@pytest.mark.clause("TOOL-27", "TOOL-29", "TOOL-31")
def test_calls_are_read_as_written():
    verdict = run()
    assert verdict.status is Status.PASS
    assert verdict.n >= 10


def test_too_few_calls_show_nothing():
    assert run(min_calls=10_000).status is Status.INCONCLUSIVE


def test_a_reader_that_changes_values_is_refused(monkeypatch):
    monkeypatch.setattr(tool_reader, "_quoted", lambda text: json.dumps(text.replace("a", "b")))
    verdict = run()
    assert verdict.status is Status.FAIL
    (line,) = frontend_calls.replay(json.loads(json.dumps(verdict.case)))
    assert not line.equal
    monkeypatch.undo()
    (line,) = frontend_calls.replay(verdict.case)
    assert line.equal


@pytest.mark.clause("TOOL-17")
def test_a_repeated_argument_name_is_noticed(monkeypatch):
    """Repetitions are rare in random walks: some 450 calls hold the first."""
    monkeypatch.setattr(ParameterNames, "clear", lambda self, words: None)
    monkeypatch.setattr(ParameterNames, "accept", lambda self, token_id: True)
    monkeypatch.setattr(ParameterNames, "rollback", lambda self, num_tokens: None)
    (verdict,) = frontend_calls.gate(seed=0, vocab="toy", num_sets=400)
    assert verdict.status is Status.FAIL
    assert "stands twice" in verdict.case["wrong"]
