"""`counterproof bench` and its measurements: what adds up, what is refused, the three forms."""

import csv
import io
import json

import pytest

from engine.commands import bench as command
from engine.commands.measure import Arrival, Measurement
from engine.request import RequestOptions
from engine.runtime.stats import SpecStats
from property_tests.generated_models import write_model


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    pytest.importorskip("tokenizers")
    return write_model(tmp_path_factory.mktemp("models") / "small")


@pytest.fixture
def bench(directory, capsys):
    """Run the command; returns exit code, stdout, stderr."""

    def run(*argv):
        try:
            code = command.main(["--model", str(directory), *argv])
        except SystemExit as end:
            code = end.code
        return (code, *capsys.readouterr())

    return run


QUICK = ("--max-tokens", "6", "--repeat", "2")


@pytest.mark.clause("OBS-13")
def test_the_json_form_adds_up(bench):
    argv = ("--spec", "none", "--spec", "dflash2", "--constraint", "regex", "--constraint", "free")
    code, out, _ = bench(*argv, *QUICK, "--format", "json")
    assert code == 0
    found = json.loads(out)
    assert [(row["spec"], row["constraint"]) for row in found["rows"]] == [
        (spec, kind) for spec in ("none", "dflash2") for kind in ("regex", "free")
    ]
    for row in found["rows"]:
        assert row["decode_tokens_per_second"] > 0 and row["token_ms_p99"] >= row["token_ms_p50"] > 0
        constrained = row["constraint"] == "regex"
        assert (row["observation"] is not None) is constrained
        assert (row["mask_density"] is not None) is constrained
        assert 1 <= row["accepted_length"] <= 4
        assert row["num_accepted"] <= row["num_drafted"]
        assert bool(row["num_drafted"]) is (row["spec"] == "dflash2")
    assert found["config"]["cache"]["built"] == 1


def test_mixed_batches_constrain_every_other_request(bench):
    argv = ("--constraint", "choice", "--concurrency", "3", "--mixed-constraints", "--format", "csv")
    code, out, _ = bench(*argv, *QUICK)
    (row,) = csv.DictReader(io.StringIO(out))
    assert code == 0
    assert row["constraint"] == "choice" and float(row["mask_density"]) < 0.2


def test_the_table_and_a_prompt_of_ones_own(bench):
    code, out, _ = bench("--prompt", "ab", "--choice", "abc", "--choice", "b", *QUICK, "--spec", "ngram")
    assert code == 0
    assert "tokens/s" in out and "own" in out and "grammar cache" in out


@pytest.mark.parametrize(
    "argv, wanted",
    [
        (("--mixed-constraints",), "--concurrency 2 or more"),
        (("--concurrency", "9"), "invalid choice: 9"),
        (("--prompt", "a"), "--prompt goes with a constraint flag"),
        (("--repeat", "0"), "at least 1"),
        (("--constraint", "haiku"), "invalid choice: 'haiku'"),
        (("--prompt", "a", "--regex", "(", *QUICK), "invalid_regex"),
    ],
)
def test_what_makes_no_sense_is_exit_code_2(bench, argv, wanted):
    code, out, err = bench(*argv)
    assert (code, out) == (2, "")
    assert wanted in err


def test_a_measurement_counts_what_came_and_when():
    arrivals = (
        Arrival(0, 1.0, 1),
        Arrival(1, 2.0, 1),
        Arrival(0, 4.0, 3),
        Arrival(1, 5.0, 1),
        Arrival(0, 6.0, 2),
    )
    stats = SpecStats(num_accepted=3)
    requests = (((1, 2), RequestOptions(9)), ((3,), RequestOptions(9)))
    found = Measurement(requests, (), arrivals, stats, 0.5, 7.0)
    assert found.num_prompt_tokens == 3
    assert (found.num_tokens, found.num_decode_tokens, found.num_rounds) == (8, 6, 3)
    assert found.first_token_seconds == (1.0, 2.0)
    assert (found.prefill_seconds, found.decode_seconds) == (2.0, 5.0)
    assert found.round_gaps == (3.0, 2.0, 3.0)
    assert found.token_gaps == (1.0, 1.0, 1.0, 1.0, 1.0, 3.0)
    assert found.accepted_length == 2.0
