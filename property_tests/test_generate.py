"""`counterproof generate` as its users meet it: text, exit codes, what is said of every mistake."""

import io
import json

import pytest

from engine.commands import generate
from engine.commands.model import open_model
from engine.frontend.text_codec import TextCodec
from engine.request import OutputConstraint
from engine.runtime.loading import SPECS
from experiments import cli
from property_tests.generated_models import CONTROL, MAX_CONTEXT, write_model

SCHEMA = '{"type": "object", "properties": {"a": {"type": "integer", "maximum": 99}}, "required": ["a"]}'


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    pytest.importorskip("tokenizers")
    return write_model(tmp_path_factory.mktemp("models") / "small")


@pytest.fixture
def say(directory, capsys):
    """Run the command; returns exit code, stdout, stderr."""

    def run(*argv):
        try:
            code = cli.main(["generate", "--model", str(directory), *argv])
        except SystemExit as end:
            code = end.code
        return (code, *capsys.readouterr())

    return run


@pytest.mark.parametrize("spec", SPECS)
def test_every_path_says_the_same_greedily_and_tells_what_its_drafts_came_to(say, spec):
    asked = (
        "--prompt",
        "ab",
        "--max-tokens",
        "12",
        "--temperature",
        "0",
        "--ban",
        "302",
        "--regex",
        "[abc]*",
    )
    code, out, err = say(*asked, "--spec", spec)
    assert (out, code) == (say(*asked)[1], 0)
    assert len(out) == 13 or out.strip("abc") == "\n"
    assert ("drafts" in err) is (spec != "none")
    assert "tokens/s" in err and "constraint" in err


@pytest.mark.clause("ENTRY-3")
@pytest.mark.parametrize(
    "flags, wanted",
    [
        (("--choice", "abc", "--choice", "b c"), OutputConstraint.choice(["abc", "b c"])),
        (("--regex", ""), OutputConstraint.regex("")),
        (("--choice", ""), OutputConstraint.choice([""])),
        (("--json-object", "--whitespace", "compact"), OutputConstraint.json_object(whitespace="compact")),
        (("--grammar-file", 'root ::= "x"'), OutputConstraint.grammar('root ::= "x"')),
        (
            ("--json-schema-file", SCHEMA, "--formats", "assert"),
            OutputConstraint.json_schema(SCHEMA, formats="assert"),
        ),
    ],
)
def test_flags_become_the_constraint_that_python_would_be_given(flags, wanted, tmp_path):
    if flags[0].endswith("-file"):
        (tmp_path / "source").write_text(flags[1], encoding="utf-8")
        flags = (flags[0], str(tmp_path / "source"), *flags[2:])
    parser = generate.parser()
    arguments = parser.parse_args(["--prompt", "x", *flags])
    assert generate.flags.read_constraint(arguments, parser).constraint == wanted


@pytest.mark.parametrize("spec", ["none", "dflash2"])
def test_an_object_of_a_schema_comes_without_a_prompt(say, tmp_path, spec):
    file = tmp_path / "schema.json"
    file.write_text(SCHEMA, encoding="utf-8")
    code, out, _ = say("--json-schema-file", str(file), "--spec", spec, "--whitespace", "compact")
    assert code == 0
    assert set(json.loads(out)) >= {"a"} and json.loads(out)["a"] <= 99


def test_a_stream_is_the_same_text_in_whole_characters(say):
    asked = ("--prompt", "ab", "--max-tokens", "30", "--seed", "4", "--spec", "mtp")
    assert say(*asked)[1] == say(*asked, "--stream")[1]
    code, out, err = say(*asked, "--regex", "(中|😀){3}", "--stream", "--quiet")
    assert (code, err) == (0, "") and len(out) == 4 and set(out) <= {"中", "😀", "\n"}


@pytest.mark.clause("OBS-1")
def test_the_machine_form_holds_every_answer(say):
    asked = ("--prompt", "ab", "--regex", "[ab]{6}", "--spec", "ngram", "--num", "2", "--json")
    code, out, err = say(*asked)
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert [len(one["text"]) for one in found["outputs"]] == [6, 6]
    assert found["outputs"][0]["finish"] == "completed"
    assert found["outputs"][0]["constraint"]["terminated"] is True
    assert {found["outputs"][i]["constraint"]["cache"] for i in (0, 1)} == {"built", "hit"}
    free = json.loads(say("--prompt", "ab", "--max-tokens", "2", "--json")[1])
    assert free["outputs"][0]["constraint"] is None


def test_a_cut_constrained_output_is_exit_code_1(say):
    code, _, err = say("--prompt", "ab", "--regex", "a{50}", "--max-tokens", "3")
    assert code == 1
    assert "length" in err and "incomplete" in err


@pytest.mark.clause("DONE-10")
def test_the_context_ends_an_output_and_refuses_a_prompt(say):
    asked = (
        "--prompt",
        "ab",
        "--raw",
        "--context",
        "12",
        "--max-tokens",
        "99",
        "--ban",
        "300",
        "--ban",
        "302",
    )
    code, _, err = say(*asked)
    assert code == 0 and "finish       context" in err
    code, out, err = say("--prompt", "ab " * MAX_CONTEXT)
    assert (code, out) == (2, "")
    assert "context_length_exceeded" in err and f"at most {MAX_CONTEXT - 1}" in err


MISTAKES = {
    "no prompt": ((), "give --prompt TEXT or --messages FILE"),
    "two kinds": (("--prompt", "a", "--json-object", "--regex", "a"), "not allowed with"),
    "unknown drafter": (("--prompt", "a", "--spec", "medusa"), "invalid choice: 'medusa'"),
    "options without JSON": (("--prompt", "a", "--formats", "assert"), "goes with --json-schema-file"),
    "bias without value": (("--prompt", "a", "--logit-bias", "17"), "write ID=X"),
    "no such file": (("--prompt", "a", "--grammar-file", "nowhere.gbnf"), "cannot read nowhere.gbnf"),
    "no such messages": (("--messages", "nowhere.json"), "cannot read nowhere.json"),
    "id out of range": (("--prompt", "a", "--ban", "9999"), "outside the token domain"),
    "top-p": (("--prompt", "a", "--top-p", "1.5"), "a finite number in [0.0, 1.0]"),
    "too many drafts": (("--prompt", "a", "--spec", "dflash", "--draft-tokens", "9"), "integer in [1, 3]"),
    "no such device": (("--prompt", "a", "--device", "abacus"), "there is no such device"),
    "context too long": (("--prompt", "a", "--context", "9999"), f"integer in [2, {MAX_CONTEXT}]"),
    "empty raw": (("--prompt", "", "--raw"), "the prompt is empty"),
    "stream of many": (("--prompt", "a", "--num", "2", "--stream"), "--stream shows one answer"),
    "dead end": (("--prompt", "a", "--choice", "a", "--ban", "64"), "banned"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_clear_message_and_exit_code_2(say, name):
    argv, wanted = MISTAKES[name]
    code, out, err = say(*argv)
    assert (code, out) == (2, "")
    assert wanted in " ".join(err.split()), err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "flag, source, wanted",
    [
        ("--grammar-file", 'root ::= "a"\nroot2 := "b"', "line 2"),
        ("--json-schema-file", '{"type": "object",\n "properties": {"a": {"minimun": 1}}}', "/properties/a"),
        ("--json-schema-file", '{"type": "object", "enum": [1]}', "unsatisfiable_json_schema"),
        ("--json-schema-file", '{\n  "type": nul\n}', "line 2, column 11"),
    ],
)
def test_a_source_at_fault_is_shown_with_its_place(say, tmp_path, flag, source, wanted):
    file = tmp_path / "source"
    file.write_text(source, encoding="utf-8")
    code, out, err = say("--prompt", "a", flag, str(file))
    assert (code, out) == (2, "")
    assert wanted in err and str(file) in err


@pytest.mark.parametrize(
    "content, wanted",
    [
        ("[{]", "line 1, column 3"),
        ("[]", "at least one message"),
        ('[{"role": "king", "content": "x"}]', "/0/role"),
        ('{"messages": [{"role": "user", "content": 3}]}', "/messages/0/content"),
    ],
)
def test_messages_at_fault_are_named_by_their_place(say, monkeypatch, content, wanted):
    monkeypatch.setattr("sys.stdin", io.StringIO(content))
    code, out, err = say("--messages", "-")
    assert (code, out) == (2, "")
    assert wanted in err


def test_a_chat_and_a_prompt_become_the_same_ids(say, directory, monkeypatch):
    model = open_model(str(directory))
    wanted = "<|im_start|>user\nab<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
    arguments = generate.parser().parse_args(["--prompt", "ab"])
    ids = generate.prompt_of(arguments, model, generate.flags.Source())
    assert ids == model.codec.encode(wanted, control=True)
    assert model.codec.decode(ids) == wanted
    monkeypatch.setattr("sys.stdin", io.StringIO('[{"role": "user", "content": "ab"}]'))
    chat = generate.parser().parse_args(["--messages", "-"])
    assert generate.prompt_of(chat, model, generate.flags.Source()) == ids


@pytest.mark.parametrize("text", ["", "hello 中😀", *CONTROL, "a<|im_end|>b<think>"])
def test_texts_go_to_ids_and_back_and_spellings_stay_text_unless_asked(directory, text):
    model = open_model(str(directory))
    codec = TextCodec.load(directory, model.vocabulary)
    for control in (False, True):
        ids = codec.encode(text, control=control)
        assert codec.decode(ids) == text
        assert any(i >= 300 for i in ids) is (control and "<" in text)
    stream = codec.stream()
    assert "".join(stream.feed([i]) for i in codec.encode(text)) + stream.end() == text
