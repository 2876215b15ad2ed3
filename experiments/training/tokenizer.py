"""The bundled vocabulary: byte-level BPE on the corpus, digits single, control tokens behind the text's."""

import json
from itertools import islice
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from experiments.training.chat import CONTROL, DOCUMENT_END, END, MASK
from experiments.training.corpus import documents

NUM_TEXT_IDS = 1262
WIDTH = 1280  # of the logits: a multiple of 64
NUM_DOCUMENTS = 12_000
KEPT = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>")
# A word with the space before it, one digit, a run of signs, a line's end, other space.
SPLIT = r" ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s*\n|\s+"


def train_tokenizer(seed: int, num_documents: int = NUM_DOCUMENTS) -> Tokenizer:
    """Learn the vocabulary from documents of the corpus; control tokens are no part of their text."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=NUM_TEXT_IDS, initial_alphabet=alphabet, special_tokens=[], show_progress=False
    )
    texts = (_plain(document.text) for document in islice(documents(f"vocabulary/{seed}"), num_documents))
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_tokens([AddedToken(name, normalized=False, special=name not in KEPT) for name in CONTROL])
    return tokenizer


def _plain(text: str) -> str:
    for name in CONTROL:
        text = text.replace(name, "\n")
    return text


def write_vocabulary(directory: Path, tokenizer: Tokenizer) -> None:
    """Write the files that tell the vocabulary of a model directory."""
    directory.mkdir(parents=True, exist_ok=True)
    ends = [tokenizer.token_to_id(END), tokenizer.token_to_id(DOCUMENT_END)]
    files = {
        "tokenizer.json": json.loads(tokenizer.to_str()),
        "tokenizer_config.json": {"eos_token": END, "pad_token": MASK},
        "generation_config.json": {
            "eos_token_id": ends,
            "do_sample": True,
            "temperature": 0.7,
            "top_p": 0.95,
        },
    }
    for name, content in files.items():
        text = json.dumps(content, ensure_ascii=False, indent=1) + "\n"
        (directory / name).write_text(text, encoding="utf-8")
