"""The model that ships: its files load, it has learnt its corpus, and its drafters have learnt it."""

import functools
import json

import pytest
import torch
from tokenizers import Tokenizer

from engine.frontend.vocabulary_files import load_vocabulary
from engine.models import weights
from engine.models.bundled import bundled_directory
from engine.models.dflash import DFlash
from engine.models.dflash2 import DFlash2
from engine.text.vocabulary import TokenClass
from experiments.training.chat import CONTROL, END, MASK, opening, turn
from experiments.training.evaluate import acceptances, mean_accepted
from experiments.training.features import FEATURE_LAYERS, Features
from experiments.training.generate import Prompt, answer, generate
from experiments.training.target import held_out

MAX_BYTES = 12e6
MAX_HELD_OUT = 0.25  # nats for a token of an answer; the report has the figure itself
PERSON = (
    "Extract the person as JSON with name, age, email and city:\n"
    "Here is a person. This is Nora Bell. Aged 34. The email is nora@example.com. Lives in Oslo."
)


@functools.cache
def tokenizer():
    return Tokenizer.from_file(str(bundled_directory() / "tokenizer.json"))


@functools.cache
def target():
    return weights.load_target(bundled_directory())


@functools.cache
def drafters():
    return [weights.load_drafter(bundled_directory() / name) for name in ("dflash", "dflash2")]


def test_it_is_small():
    files = [file for file in bundled_directory().rglob("*") if file.suffix in (".json", ".safetensors")]
    assert len(files) == 9
    assert sum(file.stat().st_size for file in files) <= MAX_BYTES


def test_every_weight_is_stored_in_bfloat16():
    for folder in (bundled_directory(), bundled_directory() / "dflash", bundled_directory() / "dflash2"):
        header_size = int.from_bytes((folder / "model.safetensors").read_bytes()[:8], "little")
        header = json.loads((folder / "model.safetensors").read_bytes()[8 : 8 + header_size])
        assert {entry["dtype"] for name, entry in header.items() if name != "__metadata__"} == {"BF16"}


@pytest.mark.clause("VOC-1")
def test_its_vocabulary_knows_the_control_tokens_and_never_generates_the_mask():
    vocabulary = load_vocabulary(bundled_directory())
    classes = {name: vocabulary.classes[tokenizer().token_to_id(name)] for name in CONTROL}
    assert classes[MASK] is TokenClass.UNGENERABLE
    assert {name for name, kind in classes.items() if kind is TokenClass.EOS} == {"<|endoftext|>", END}
    assert {name for name, kind in classes.items() if kind is TokenClass.TEXT} == set()
    assert vocabulary.logits_width == target().config.vocab_size == 1280
    assert vocabulary.logits_width % 64 == 0


def test_its_drafters_fit_the_target():
    mask_id = tokenizer().token_to_id(MASK)
    assert [type(drafter) for drafter in drafters()] == [DFlash, DFlash2]
    for drafter in drafters():
        config = drafter.config
        assert config.block_size == 8
        assert config.mask_token_id == mask_id
        assert config.target_layer_ids == FEATURE_LAYERS
        assert config.num_target_layers == target().config.num_layers
        assert config.hidden_size == target().config.hidden_size


def test_it_has_learnt_the_corpus():
    losses = held_out(target(), tokenizer(), seed=7, num_documents=48)
    assert losses["all"][0] < MAX_HELD_OUT
    assert losses["tools"][0] < 0.1


def test_a_greedy_answer_is_json_with_the_values_of_the_prompt():
    given = turn("user", PERSON) + opening(thinking=False)
    prompt = Prompt(tokenizer().encode(given).ids, 60, 0.0)
    texts = answer(target(), tokenizer(), [prompt], torch.Generator())
    written = tokenizer().decode(
        texts.ids[0, texts.begins[0] : texts.ends[0]].tolist(), skip_special_tokens=False
    )
    assert written.endswith(END)
    found = json.loads(written.removesuffix(END))
    assert found == {"name": "Nora Bell", "age": 34, "email": "nora@example.com", "city": "Oslo"}


def test_its_drafters_are_often_right_and_not_always():
    head = weights.load_mtp(bundled_directory())
    texts = list(generate(target(), tokenizer(), "drafts", 1, lanes=12, temperatures=(0.0,)))
    counts = acceptances(target(), head, drafters(), Features(target(), texts))
    first = {name: accepted / reached for name, ((accepted, reached), *_) in counts.items()}
    assert min(first.values()) > 0.7
    assert mean_accepted(counts["mtp"]) > 1.5
    assert mean_accepted(counts["dflash"]) > 2.5
    assert mean_accepted(counts["dflash2"]) > 2.5
    assert all(mean_accepted(found) < len(found) for found in counts.values())
