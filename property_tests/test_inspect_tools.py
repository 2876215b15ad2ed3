"""Does `counterproof inspect --tools` show the legal set inside a call?"""

import json

import pytest

from experiments import inspect
from property_tests.tool_words import VOCABULARY

TOOLS = [
    {"type": "function", "function": {"name": "get", "parameters": {"type": "object"}}},
    {"name": "go", "strict": True, "parameters": {"type": "object", "additionalProperties": False}},
]


@pytest.fixture
def run(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(inspect, "vocabulary_of", lambda name: VOCABULARY)
    path = tmp_path / "tools.json"

    def shown(*options, tools=TOOLS):
        path.write_text(json.dumps(tools))
        code = inspect.main(["--tools", str(path), *options])
        return code, capsys.readouterr().out

    return shown


def test_inside_a_call(run):
    code, out = run("--tool-choice", "required", "--prefix", "<tool_call>\n<function=g")
    assert code == 0 and "'e'" in out and "'o'" in out and "legal tokens  2 of" in out
    code, out = run("--tool-choice", "go", "--prefix", "<tool_call>\n<function=g")
    assert code == 0 and "'o'" in out and "legal tokens  1 of" in out


def test_behind_thinking(run):
    code, out = run("--thinking", "--prefix", "a</think>\n\na")
    assert code == 0 and "may end here  yes" in out


def test_a_choice_of_no_tool_and_a_file_that_is_no_list(run):
    code, out = run("--tool-choice", "put")
    assert code == 2 and "no tool has this name" in out
    code, out = run(tools={"name": "go"})
    assert code == 2 and "JSON list" in out
    code, out = run("--prefix", "<tool_call>\n<function=go>\n<parameter")
    assert code == 2 and "leaves the language" in out
