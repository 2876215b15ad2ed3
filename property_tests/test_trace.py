"""The clause table: all that is named exists, and what is proven has its fault."""

import collections
import re

import pytest

from experiments import trace
from experiments.faults.planting import Fault

CLAUSES = trace.read_clauses()
ROWS, UNKNOWN = trace.build()
FAULTED_NOW = ("SAMP", "SPEC", "MASK", "TXN", "GBNF", "REGEX")
GROUP_SIZES = {
    "REQ": 19, "VOC": 9, "CACHE": 13, "GBNF": 8, "CHOICE": 4, "REGEX": 8, "JSON": 48, "TOOL": 35, "PHASE": 13,
    "CONT": 8, "TXN": 14, "LIFE": 10, "MASK": 14, "SAMP": 14, "SPEC": 15, "EXEC": 19, "FAIL": 11, "DONE": 11,
    "ENTRY": 12, "OBS": 13, "VER": 18, "SERV": 30, "BATCH": 11, "SPECG": 9, "CACHE2": 11, "STREAM": 7,
    "TOOLS2": 7, "SAFE": 12, "EMPTY": 10, "TEST2": 13, "PERF2": 14, "WIN": 34,
}  # fmt: skip


def test_every_clause_of_both_lists_is_here_with_a_letter_and_a_title():
    assert collections.Counter(clause.group for clause in CLAUSES.values()) == GROUP_SIZES
    for group, size in GROUP_SIZES.items():
        assert {f"{group}-{n}" for n in range(1, size + 1)} <= CLAUSES.keys()
    assert all(clause.letter in trace.LETTERS for clause in CLAUSES.values())
    assert all(3 < len(clause.title) < 80 for clause in CLAUSES.values())


def test_no_marker_gate_or_fault_names_an_unknown_clause():
    assert not UNKNOWN


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row.clause.letter == "A"], ids=lambda row: row.clause.clause_id
)
def test_every_clause_of_this_step_is_proven_and_where_due_has_a_fault(row):
    assert row.proven or row.clause.open
    if row.clause.group in FAULTED_NOW:
        assert not row.needs_fault


def test_the_scan_of_markers_finds_what_pytest_would_find(tmp_path):
    (tmp_path / "test_x.py").write_text(
        'import pytest\npytestmark = pytest.mark.clause("AA-1")\n'
        '@pytest.mark.clause("BB-1", "BB-2")\ndef test_a(): pass\n'
        '@pytest.mark.clause("CC-1")\nclass TestB:\n'
        '    @pytest.mark.clause("DD-1")\n    def test_c(self): pass\n'
        'TestE = pytest.mark.clause("EE-1")(TestB)\n'
    )
    found = trace.marked_tests(tmp_path)
    assert found == {
        "AA-1": ("test_x.py",),
        "BB-1": ("test_x.py::test_a",),
        "BB-2": ("test_x.py::test_a",),
        "CC-1": ("test_x.py::TestB",),
        "DD-1": ("test_x.py::TestB::test_c",),
        "EE-1": ("test_x.py::TestE",),
    }


def test_the_command_reports_an_unknown_clause_and_fails(monkeypatch, tmp_path, capsys):
    stray = Fault(number=999, group="A", title="-", edits=(), checks=(), clauses=("NOPE-1",))
    assert trace.main(["--out", str(tmp_path), "--letter", "F"]) == 0
    monkeypatch.setattr(trace, "all_faults", lambda: [stray])
    assert trace.main(["--out", str(tmp_path), "--letter", "F"]) == 1
    assert "NOPE-1" in capsys.readouterr().out
    assert len(re.findall(r"^\| [A-Z0-9]+-\d+ \|", (tmp_path / "trace.md").read_text(), re.M)) == len(CLAUSES)


def test_a_proof_without_a_fault_is_not_closed():
    clause = trace.Clause("SAMP-1", "A", "a title")
    assert trace.Row(clause, ("t",), (), ()).state == "fault missing"
    assert trace.Row(clause, ("t",), (), ("A1",)).state == "closed"
    assert trace.Row(clause, (), (), ("A1",)).state == "open"
