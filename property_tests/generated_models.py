"""A model directory for the tests of the commands: a small random Qwen3.5, its drafters, a chat's tokens."""

import json
from functools import cache
from pathlib import Path

import attrs

from engine.models.weights import save, save_drafter
from property_tests.dflash_words import dflash2_of, dflash_of
from property_tests.model_directories import CORPUS
from property_tests.qwen3_5_words import BASE, mtp_of, target_of

CONTROL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>")
NUM_TEXT, WIDTH, MAX_CONTEXT = 300, 320, 256
CONFIG = attrs.evolve(BASE, vocab_size=WIDTH, tied=True, max_context=MAX_CONTEXT)
BLOCK, FEATURE_LAYERS = 4, (0, 2)
PRESET = {"do_sample": True, "temperature": 0.7, "top_p": 0.95}


@cache
def tokenizer_text() -> str:
    """A byte-level tokenizer.json with the control tokens behind the text's."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=NUM_TEXT, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(CORPUS * 4, trainer)
    tokenizer.add_tokens([AddedToken(name, normalized=False, special="|" in name) for name in CONTROL])
    return tokenizer.to_str()


def write_model(directory: Path) -> Path:
    """Write weights, tokenizer and settings."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "tokenizer.json").write_text(tokenizer_text(), encoding="utf-8")
    ends = {"eos_token_id": [NUM_TEXT + 2, NUM_TEXT]}
    (directory / "generation_config.json").write_text(json.dumps(ends | PRESET), encoding="utf-8")
    save(directory, target_of(CONFIG), mtp_of(CONFIG))
    for name, make in (("dflash", dflash_of), ("dflash2", dflash2_of)):
        save_drafter(directory / name, make(CONFIG, BLOCK, FEATURE_LAYERS))
    return directory
