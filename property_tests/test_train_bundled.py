"""The training command: seeded text, a vocabulary of all bytes, stages that go on to the same bytes."""

import functools
import io
import itertools
import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from engine.frontend.vocabulary_files import load_vocabulary
from engine.models.qwen3_5.attention import KeyValues, Placement
from engine.models.qwen3_5.mtp import Mtp
from engine.models.qwen3_5.target import Target
from engine.text.vocabulary import TokenClass
from experiments import train_bundled
from experiments.training import blocks, corpus, mtp, optimizer, plan, stages
from experiments.training import target as target_training
from experiments.training.chat import CONTROL, END, MASK
from experiments.training.features import Features
from experiments.training.generate import generate
from experiments.training.loop import Schedule
from experiments.training.tokenizer import NUM_TEXT_IDS, WIDTH, train_tokenizer, write_vocabulary

TRAINED = ("target", "mtp", "dflash", "dflash2")


@functools.cache
def small_tokenizer():
    return train_tokenizer(1, plan.QUICK.vocabulary_documents)


@functools.cache
def small_target():
    target = Target(target_training.CONFIG)
    target_training.initialise(target, 5)
    return target.requires_grad_(False)


@functools.cache
def small_batch():
    texts = list(generate(small_target(), small_tokenizer(), "test", 1, lanes=3))
    return Features(small_target(), texts)[0]


def quiet_run(work):
    return stages.Run(plan.QUICK, work, 10.0, Console(file=io.StringIO()))


def texts_of(seed, count):
    return [document.text for document in itertools.islice(corpus.documents(seed), count)]


def test_the_corpus_follows_its_seed():
    assert texts_of("a", 40) == texts_of("a", 40)
    assert texts_of("a", 40) != texts_of("b", 40)


def test_every_task_occurs_and_json_answers_are_json():
    found = {}
    for document in itertools.islice(corpus.documents("tasks"), 400):
        found.setdefault(document.task, []).append(document)
    assert set(found) == {*corpus.TASKS, "tools"}
    for task in ("extract", "schema", "invent", "rows"):
        for document in found[task]:
            answer = document.pieces[1].removesuffix(END).rpartition("</think>")[2]
            assert isinstance(json.loads(answer), dict | list)


@pytest.mark.clause("VOC-1")
def test_the_vocabulary_follows_its_seed_and_holds_every_byte(tmp_path):
    again = train_tokenizer(1, plan.QUICK.vocabulary_documents)
    assert again.to_str() == small_tokenizer().to_str()
    write_vocabulary(tmp_path, again)
    vocabulary = load_vocabulary(tmp_path)
    assert {bytes([byte]) for byte in range(256)} <= set(vocabulary.token_bytes)
    assert len(vocabulary.token_bytes) == NUM_TEXT_IDS + len(CONTROL) <= WIDTH
    assert vocabulary.classes[again.token_to_id(MASK)] is TokenClass.UNGENERABLE
    assert vocabulary.classes[again.token_to_id(END)] is TokenClass.EOS


@given(text=st.text(max_size=40))
def test_any_text_comes_back_in_single_digits(text):
    tokenizer = small_tokenizer()
    encoded = tokenizer.encode(text)
    assert tokenizer.decode(encoded.ids, skip_special_tokens=False) == text
    assert all(sum(letter.isdigit() for letter in token) <= 1 for token in encoded.tokens if token.isascii())


def test_orthogonalised_brings_singular_values_near_one():
    matrices = torch.randn(3, 24, 40, generator=torch.Generator().manual_seed(3))
    values = torch.linalg.svdvals(optimizer.orthogonalised(matrices))
    assert values.min() > 0.4 and values.max() < 1.4


def test_a_schedule_rises_stays_and_falls():
    schedule = Schedule(100, 1.0, 1.0, warm_up=10, decay=0.5)
    shares = [schedule.share(step) for step in range(100)]
    assert shares[0] == 0.1 and shares[9:51] == [1.0] * 42
    assert shares[51:] == sorted(shares[51:], reverse=True) and shares[99] == pytest.approx(0.02)


def test_the_first_step_of_training_chains_is_the_engines_own_pass_and_the_next_is_its_draft():
    target, batch = small_target(), small_batch()
    head = Mtp(target_training.CONFIG)
    target_training.initialise(head, 6)
    with torch.no_grad():
        outputs = mtp.chains(target, head, batch)
        num_columns, place = outputs[0].shape[1], 20
        cache = KeyValues.allocate(head.config, 1, batch.ids.shape[1], torch.float32)
        embeddings, hidden = target.embed(batch.ids[:1]), batch.hidden[:1, :num_columns]
        placement = Placement.of([0], [0], num_columns, batch.ids.shape[1])
        first = head(embeddings[:, 1 : 1 + num_columns], hidden, placement, cache)
        for step in (1, 2):
            placement = Placement.of([0], [place + step], 1, batch.ids.shape[1])
            token = embeddings[:, place + step + 1 : place + step + 2]
            before = outputs[step - 1][:1, place : place + 1]
            drafted = head(token, before, placement, cache)
            torch.testing.assert_close(drafted[:, 0], outputs[step][:1, place], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(first, outputs[0][:1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("make", [stages.new_dflash, stages.new_dflash2])
def test_training_blocks_are_the_engines_own_blocks(make, tmp_path):
    run = quiet_run(tmp_path)
    write_vocabulary(tmp_path / "vocab", small_tokenizer())
    drafter, target, batch = make(run), small_target(), small_batch()
    anchors = torch.tensor([[30, 41], [25, -1], [33, 26]])
    placed = blocks.place(batch, anchors, drafter.config.block_size)
    with torch.no_grad():
        trained = blocks.outputs(target, drafter, batch, placed)
        caches = [
            KeyValues.allocate(drafter.config, 1, batch.ids.shape[1] + 8, torch.float32)
            for _ in range(drafter.config.num_layers)
        ]
        placement = Placement.of([0], [0], batch.ids.shape[1], batch.ids.shape[1])
        drafter.write(batch.features[:1], placement, caches)
        ids = torch.full((1, 8), drafter.config.mask_token_id)
        ids[0, 0] = batch.ids[0, 41]
        at = Placement.of([0], [41], 8, batch.ids.shape[1] + 8)
        served = drafter.block(target.embed(ids), at, caches)
    torch.testing.assert_close(served[0], trained[0, 1], rtol=1e-4, atol=1e-5)


def test_stages_ask_for_those_before_them(tmp_path):
    assert train_bundled.main(["--stage", "mtp", "--quick", "--work", str(tmp_path)]) == 2


def test_a_stage_without_time_is_not_finished(tmp_path):
    arguments = ["--quick", "--work", str(tmp_path), "--minutes", "0", "--stage", "all"]
    assert train_bundled.main(arguments) == 3


class Stopped(Exception):
    """What stands for the end of a process in the midst of a stage."""


def stop_once(monkeypatch, module, at_step):
    """Let the loss of a step fail the first time it is asked for."""
    original, failed = module.step_loss, []

    def loss(*arguments, **keywords):
        if arguments[-1] == at_step and not failed:
            failed.append(at_step)
            raise Stopped
        return original(*arguments, **keywords)

    monkeypatch.setattr(module, "step_loss", loss)


def test_every_stage_runs_and_a_stopped_one_ends_with_the_same_bytes(tmp_path, monkeypatch):
    whole, pieces = quiet_run(tmp_path / "whole"), quiet_run(tmp_path / "pieces")
    trainers = {
        "target": (stages.target, target_training),
        "mtp": (stages.train_mtp, mtp),
        "dflash": (stages.train_dflash, blocks),
        "dflash2": (stages.train_dflash2, blocks),
    }
    for run in (whole, pieces):
        stages.vocab(run)
    for name, (stage, module) in trainers.items():
        assert stage(whole)
        with monkeypatch.context() as patch:
            stop_once(patch, module, plan.QUICK.save_every)
            with pytest.raises(Stopped):
                stage(pieces)
        assert stage(pieces)
        if name == "target":
            assert stages.generate_texts(whole) and stages.generate_texts(pieces)
        ends = [torch.load(run.work / name / "checkpoint.pt", weights_only=True) for run in (whole, pieces)]
        torch.testing.assert_close(ends[0]["module"], ends[1]["module"], rtol=0, atol=0)
        torch.testing.assert_close(ends[0]["optimizer"], ends[1]["optimizer"], rtol=0, atol=0)
    out, reports = tmp_path / "model", tmp_path / "reports"
    arguments = ["--stage", "export", "--quick", "--work", str(whole.work)]
    assert train_bundled.main([*arguments, "--out", str(out), "--reports", str(reports)]) == 0
    assert {file.name for file in reports.iterdir()} == {"training.md", "training.png", "training.csv"}
    assert load_vocabulary(out).logits_width == WIDTH
