"""The planted faults themselves: all can be planted, a sample is killed, and the runner tells the truth."""

import shutil
from pathlib import Path

import pytest

from experiments.faults import judge, runner
from experiments.faults.catalogue import CATALOGUE, GROUPS, NOT_PLANTED, all_faults, select
from experiments.faults.child import GATE, Outcome
from experiments.faults.judge import SOURCE, Fate
from experiments.faults.nursery import Nursery
from experiments.faults.planting import Copy, PlantError, append, fault, replace
from experiments.gates import GATES, PATHS

FAULTS = all_faults()
SAMPLE = ("A7", "B26", "C64", "D208", "F123", "H144")


def test_every_number_of_the_catalogue_is_planted_or_has_a_reason():
    planted = {f.number for f in FAULTS}
    assert not planted & NOT_PLANTED.keys()
    for numbers in CATALOGUE.values():
        assert set(numbers) <= planted | NOT_PLANTED.keys()
    assert len({f.name for f in FAULTS}) == len(FAULTS)
    assert {f.group for f in FAULTS} == set(GROUPS)
    assert all(f.number >= 200 or f.number in CATALOGUE[f.group] for f in FAULTS)


def test_every_fault_can_be_planted_on_the_source_as_it_is(tmp_path):
    drifted = []
    shutil.copytree(SOURCE / "engine", tmp_path / "engine", ignore=shutil.ignore_patterns("__pycache__"))
    for f in FAULTS:
        copy = Copy(tmp_path)
        try:
            f.plant(copy)
        except PlantError as error:
            drifted.append(f"{f.name}: {error}")
        for name in copy.edited:
            shutil.copy(SOURCE / name, tmp_path / name)
    assert not drifted


@pytest.mark.parametrize("check", sorted({check for f in FAULTS for check in f.checks}))
def test_every_claiming_check_exists(check):
    if check.startswith(GATE):
        name, _, path = check.removeprefix(GATE).partition("/")
        assert name in {gate.name for gate in GATES}
        assert path in ("", *PATHS)
        return
    file, _, node = check.partition("::")
    text = (SOURCE / file).read_text(encoding="utf-8")
    assert not node or f"def {node.split('[')[0].rpartition('::')[2]}(" in text


def test_a_fault_of_each_group_is_killed():
    results = list(judge.run([f for f in FAULTS if f.name in SAMPLE], stop=True))
    assert {result.fault.name: str(result.fate) for result in results} == dict.fromkeys(SAMPLE, "killed")


# --- the runner, on a tree of three lines --------------------------------------------------------------

CODE = "engine/code.py"
TEST = "property_tests/test_code.py"
ADDS, IDLE, FAILS = f"{TEST}::test_adds", f"{TEST}::test_idle", f"{TEST}::test_fails"
SUBTRACTS = replace(CODE, "a + b", "a - b")


@pytest.fixture
def tree(tmp_path):
    """A project with one function, a test that sees it, one that does not, and one that always fails."""
    root = tmp_path / "source"
    ignored = shutil.ignore_patterns("__pycache__", "gates", "reports")
    shutil.copytree(SOURCE / "experiments", root / "experiments", ignore=ignored)
    files = {CODE: "def add(a, b):\n    return a + b\n", "conftest.py": "", "pyproject.toml": ""}
    files[TEST] = (
        "def test_adds():\n    from engine.code import add\n    assert add(2, 2) == 4\n\n"
        "def test_idle():\n    assert True\n\ndef test_fails():\n    assert False\n"
    )
    for name in ("engine/__init__.py", "oracles/__init__.py", "property_tests/__init__.py"):
        files[name] = ""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


def fate_of(tree: Path, *edits, checks):
    (result,) = judge.run(
        [fault("A900", "a toy fault", *edits, checks=checks)], source=tree, num_workers=1, load=("pytest",)
    )
    return result


def test_a_seen_fault_is_killed_and_the_tree_is_left_alone(tree):
    result = fate_of(tree, SUBTRACTS, checks=(ADDS, IDLE))
    assert result.fate is Fate.KILLED
    assert [outcome.outcome for outcome in result.outcomes] == ["failed", "passed"]
    assert result.outcomes[0].witness == ADDS
    assert "a + b" in (tree / CODE).read_text()


def test_an_unseen_fault_lives(tree):
    assert fate_of(tree, SUBTRACTS, checks=(IDLE,)).fate is Fate.LIVED


def test_a_fault_whose_anchor_is_gone_is_an_error(tree):
    result = fate_of(tree, replace(CODE, "a * b", "a - b"), checks=(ADDS,))
    assert result.fate is Fate.ERROR
    assert "not planted" in result.reason


def test_a_check_that_fails_unplanted_counts_for_nothing(tree):
    assert fate_of(tree, SUBTRACTS, checks=(FAILS,)).fate is Fate.ERROR
    assert fate_of(tree, SUBTRACTS, checks=(FAILS, ADDS)).fate is Fate.KILLED
    assert fate_of(tree, SUBTRACTS, checks=(FAILS, IDLE)).fate is Fate.LIVED


@pytest.mark.parametrize("code", ["import no_such_module", "raise SyntaxError", "no_such_name"])
def test_a_module_that_does_not_load_is_no_kill(tree, code):
    assert fate_of(tree, append(CODE, code), checks=(ADDS,)).fate is Fate.ERROR


def test_a_test_that_does_not_exist_is_an_error(tree):
    assert fate_of(tree, SUBTRACTS, checks=(f"{TEST}::test_gone",)).fate is Fate.ERROR


def test_an_exception_of_the_planted_code_is_a_kill_that_shows_its_text(tree):
    result = fate_of(tree, replace(CODE, "return a + b", "raise ValueError('too much')"), checks=(ADDS,))
    assert result.fate is Fate.KILLED
    assert "too much" in result.outcomes[0].text


def test_a_dead_process_and_a_hang_are_kills_too(tree, monkeypatch):
    dies = replace(CODE, "return a + b", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert fate_of(tree, dies, checks=(ADDS, IDLE)).fate is Fate.KILLED
    monkeypatch.setattr(judge, "SLACK", 3.0)
    result = fate_of(tree, replace(CODE, "return a + b", "import time; time.sleep(99)"), checks=(ADDS,))
    assert result.fate is Fate.KILLED
    assert "did not end" in result.outcomes[0].text


def test_a_lost_server_kills_nothing(tree):
    server = Nursery.start(())
    server.stop()
    passed = {ADDS: Outcome(ADDS, "passed")}
    result = judge.judge(server, fault("A900", "-", SUBTRACTS, checks=(ADDS,)), passed, tree)
    assert result.fate is Fate.ERROR


@pytest.mark.parametrize("edit", [replace(CODE, "a + b", "a +"), replace(CODE, "a + b", "a + b")])
def test_an_edit_that_breaks_or_changes_nothing_is_refused(tree, tmp_path, edit):
    copy = Copy.make(tree, tmp_path / "copy")
    with pytest.raises(PlantError):
        fault("A900", "-", edit, checks=()).plant(copy)


def test_the_command_exits_1_when_a_fault_lives_and_writes_both_reports(monkeypatch, tmp_path, capsys):
    def judged(fates):
        outcome = Outcome("property_tests/test_x.py", "passed")
        return lambda faults, **_: iter(
            [judge.Result(f, fate, (outcome,)) for f, fate in zip(faults, fates, strict=True)]
        )

    chosen = [fault(f"A90{i}", "a toy fault", SUBTRACTS, checks=()) for i in range(2)]
    monkeypatch.setattr(runner, "select", lambda groups, numbers: chosen)
    for fates, code in (
        ([Fate.KILLED] * 2, 0),
        ([Fate.KILLED, Fate.LIVED], 1),
        ([Fate.ERROR, Fate.KILLED], 1),
    ):
        monkeypatch.setattr(runner, "run", judged(fates))
        assert runner.main(["--out", str(tmp_path)]) == code
    assert "of 2 faults killed" in capsys.readouterr().out
    assert "A901" in (tmp_path / "faults.md").read_text()
    assert (tmp_path / "faults.json").exists()


def test_groups_and_numbers_can_be_chosen():
    assert {f.group for f in select(groups=["B"])} == {"B"}
    assert {f.number for f in select(numbers=[26])} == {26}
    assert len(select()) == len(FAULTS)
