"""Commands on a model directory: `inspect` shows its ids, `verify` asks it what the real one is asked."""

import argparse
import json

import attrs
import pytest

from engine.errors import RequestError
from engine.text.vocabulary import TokenClass, Vocabulary, toy_vocabulary
from experiments import inspect, verify
from experiments.gates import GATES, Gate, Scope, Size, jobs, paths, real_vocabulary, vocabulary_kind
from experiments.gates.path_world import World, world
from experiments.gates.real_subjects import SPELLED_BYTES
from experiments.verdict import Status, inconclusive, passed, skipped
from experiments.vocabularies import require_bytes, shown_name, vocabulary_name, vocabulary_of
from property_tests import model_directories as made

pytest.importorskip("tokenizers")
HERE = "property_tests.test_vocabularies"


def seen(*, seed, vocab):
    """A gate that says which vocabulary it was given."""
    return [passed("seen", vocabulary_of(vocab).fingerprint, n=1)]


@pytest.fixture
def directory(tmp_path):
    (tmp_path / "mine").mkdir()
    return made.byte_level(tmp_path / "mine")


@pytest.fixture
def overlapping(tmp_path):
    """A vocabulary in which two ids have the same bytes: pieces, and the bytes that others fall back to."""
    (tmp_path / "pieces").mkdir()
    return made.metaspace(tmp_path / "pieces", "BPE")


def test_a_name_or_a_directory_and_nothing_else(directory):
    assert vocabulary_name("toy") == "toy"
    assert vocabulary_of("toy") == toy_vocabulary()
    assert vocabulary_name(str(directory)) == str(directory)
    assert shown_name(str(directory)) == vocabulary_of(str(directory)).name == "mine"
    with pytest.raises(argparse.ArgumentTypeError, match=r"neither toy nor qwen3\.5 nor a model directory"):
        vocabulary_name("gpt")


# --- inspect ------------------------------------------------------------------------------------------


@pytest.mark.clause("VOC-2", "VOC-3")
def test_inspect_shows_the_legal_ids_of_a_directory_by_their_bytes(directory, capsys):
    arguments = ["--regex", " (中|é)+", "--prefix", " ", "--vocab", str(directory)]
    assert inspect.main(arguments) == 0
    text = capsys.readouterr().out
    assert "mine, 304 ids" in text
    assert r"b'\xc3'" in text  # part of a character


def test_inspect_of_a_directory_without_tokens_says_what_is_allowed(tmp_path, capsys):
    assert inspect.main(["--regex", "a", "--vocab", str(tmp_path)]) == 2
    assert "tokenizer.json" in capsys.readouterr().out


# --- verify -------------------------------------------------------------------------------------------


def run(out, vocab, *gates):
    options = ["--quick", "--jobs", "1", "--out", str(out), "--vocab", str(vocab), "--path", "mtp"]
    return verify.main(options, gates)


def test_verify_gives_the_directory_to_the_gates_of_the_real_vocabulary(directory, tmp_path):
    gate = Gate(name="seen", question="?", entry=f"{HERE}:seen", takes=("vocab",), only_vocab=("qwen3.5",))
    assert run(tmp_path / "report", directory, gate) == 0
    record = json.loads((tmp_path / "report" / "verification.json").read_text(encoding="utf-8"))
    fingerprint = vocabulary_of(str(directory)).fingerprint
    assert [verdict["check"] for verdict in record["verdicts"]] == [fingerprint]
    assert record["scope"]["vocab"] == "mine"
    assert "--vocab mine" in record["command"]
    assert fingerprint[:16] in record["notes"][0]
    for file in (tmp_path / "report").glob("*.[jm]*"):
        assert str(tmp_path) not in file.read_text(encoding="utf-8")


def test_verify_of_a_directory_that_tells_no_vocabulary_gives_2(directory, tmp_path, capsys):
    made.write(directory, generation_config={"eos_token_id": 9})
    assert run(tmp_path / "report", directory) == 2
    assert "a completion id is ordinary text" in " ".join(capsys.readouterr().out.split())
    assert not (tmp_path / "report").exists()


def test_a_vocabulary_that_cannot_spell_the_gates_texts_is_refused():
    require_bytes(
        Vocabulary.build("all", [bytes([b]) for b in range(256)] + [b"</s>"], eos_ids=[256]), b"abc"
    )
    with pytest.raises(RequestError, match="found 0x65"):
        require_bytes(toy_vocabulary(), SPELLED_BYTES)


def test_a_directory_has_the_sizes_of_the_real_vocabulary():
    assert [vocabulary_kind(name) for name in ("toy", "qwen3.5", "some/where")] == [
        "toy",
        "qwen3.5",
        "qwen3.5",
    ]
    for size in Size:
        real, other = (
            [(job.gate.name, {**job.arguments, "vocab": ""}) for job in jobs(Scope(size, vocab=vocab), GATES)]
            for vocab in ("qwen3.5", "some/where")
        )
        assert real == other


@pytest.mark.clause("VOC-2", "VOC-3", "VOC-4", "VOC-5", "VOC-6", "MASK-1")
def test_every_bit_is_right_where_two_ids_have_the_same_bytes(overlapping):
    vocabulary = vocabulary_of(str(overlapping))
    texts = [vocabulary.token_bytes[i] for i in vocabulary.ids_of(TokenClass.TEXT)]
    assert texts.count(b"a") == 2
    verdicts = real_vocabulary.gate(seed=0, ops="torch", vocab=str(overlapping), rows=2)
    assert {verdict.status for verdict in verdicts} <= {Status.PASS, Status.SKIPPED}
    assert sum(verdict.status is Status.PASS for verdict in verdicts) >= 14


@pytest.mark.clause("SPEC-2", "MASK-1")
def test_a_path_draws_as_ordinary_sampling_does_where_two_ids_have_the_same_bytes(overlapping):
    checks = ("equals the oracle's twin",)
    sizes = {"num_seeds": 1, "total_variation_seen": None, "checks": checks}
    (verdict,) = paths.gate(path="mtp", ops="torch", vocab=str(overlapping), seed=0, **sizes)
    assert verdict.status is Status.PASS, verdict.detail


# --- tables and ids for a vocabulary that nobody chose them for ----------------------------------------


def test_a_vocabulary_without_control_ids_lends_a_text_id_to_the_gates():
    plain = Vocabulary.build("plain", [b"a", b"b", b"c", b"ab", b"x", b"end"], eos_ids=[5])
    one = attrs.evolve(world("toy"), vocabulary=plain)
    assert one.strange_ids == (4, 6, 5, -1, 2**31)
    by_letters = (1, 2, 0, 1, 4, 3, 2, 0, 0, 1, 4, 2, 5, 0, 1, 2)  # there is no bc, no ca and no abc
    assert one.prompt_ids == (*by_letters, 1)


def test_the_toy_prompt_has_a_token_for_each_piece():
    toy = world("toy")
    a, b, c, ab, bc, ca, abc = toy.liked_ids
    strange, end = toy.strange_ids[0], toy.vocabulary.eos_ids[0]
    assert toy.prompt_ids == (bc, a, b, strange, ab, ca, a, b, strange, c, end, abc)


def test_tables_are_looked_through_only_where_none_was_chosen_and_only_while_too_little_is_seen():
    judged: list[int] = []

    def judge_on(table: World):
        judged.append(table.seed)
        return skipped("g", "c", "enough") if table.seed == 2 else inconclusive("g", "c", "too few")

    assert paths.conclusive("some/where", world("toy"), judge_on).status is Status.SKIPPED
    assert judged == [0, 1, 2]
    assert paths.conclusive("toy", world("toy"), judge_on).status is Status.INCONCLUSIVE
    assert judged == [0, 1, 2, 0]
