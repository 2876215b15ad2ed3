"""Small model directories for tests: files trained or written by the libraries that publish these formats.

Each maker writes its files into a directory; what only costs training is made once per process.
"""

import base64
import functools
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CORPUS = (
    "hello world, the quick brown fox jumps over ab bc ca abc",
    "naïve 中文字 and 😀 twice   over\n\n{}",
)
PATTERN = r"\s+|\S+"
END = {"eos_token_id": 300}
KINDS = ("byte-level", "metaspace BPE", "metaspace Unigram", "ranks", "pieces bpe", "pieces unigram")


def write(directory: Path, **files: Any) -> None:
    """Write a JSON file for each keyword: its name without the ending, and its content."""
    for name, content in files.items():
        (directory / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")


def byte_level(directory: Path) -> Path:
    """300 tokens of a byte-level BPE; an end, an image and a turn marker, and one that is not special."""
    (directory / "tokenizer.json").write_text(byte_level_text(), encoding="utf-8")
    model = {"text_config": {"vocab_size": 320, "eos_token_id": 302}, "image_token_id": 301}
    write(directory, config=model, generation_config=END)
    return directory


@functools.cache
def byte_level_text() -> str:
    """The tokenizer.json of `byte_level`."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(CORPUS * 4, trainer)
    tokenizer.add_special_tokens(["<|end|>", "<|image|>", "<|turn|>"])
    tokenizer.add_tokens([AddedToken("<think>", normalized=False)])
    return tokenizer.to_str()


def metaspace(directory: Path, kind: str) -> Path:
    """Pieces with replaced spaces and byte fallback; the end is named by its spelling."""
    (directory / "tokenizer.json").write_text(metaspace_text(kind), encoding="utf-8")
    write(directory, tokenizer_config={"eos_token": {"content": "</s>"}})
    return directory


@functools.cache
def metaspace_text(kind: str) -> str:
    """The tokenizer.json of `metaspace`, a `BPE` or `Unigram` model."""
    from tokenizers import Tokenizer, decoders, models, normalizers

    special = ["<unk>", "<s>", "</s>"]
    fallback = [f"<0x{byte:02X}>" for byte in range(256)]
    pieces = [*special, *fallback, "▁", *"abcdehlorw", "he", "▁a", "ab", "abc", "bc", "▁▁", "é"]
    if kind == "BPE":
        numbers = {piece: number for number, piece in enumerate(pieces)}
        merges = [("h", "e"), ("▁", "a"), ("a", "b"), ("ab", "c"), ("b", "c"), ("▁", "▁")]
        tokenizer = Tokenizer(models.BPE(numbers, merges, unk_token="<unk>", byte_fallback=True))
    else:
        scored = [(piece, -1.0 - 0.01 * number) for number, piece in enumerate(pieces)]
        tokenizer = Tokenizer(models.Unigram(scored, unk_id=0, byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    tokenizer.decoder = decoders.Sequence(steps)
    tokenizer.add_special_tokens(special)
    tokenizer.add_tokens(["▁▁"])  # a token of the model that is added as well, and not special
    return tokenizer.to_str()


@functools.cache
def ranks() -> Mapping[bytes, int]:
    """The ranks of a tiny byte-pair encoding: 256 bytes, then merges, some of them inside a character."""
    merged = [
        b"he",
        b"ll",
        b"hell",
        b"  ",
        b" a",
        b"ab",
        b"abc",
        b"bc",
        b"\xf0\x9f",
        b"\x98\x80",
        b"\xe4\xb8",
    ]
    return {data: rank for rank, data in enumerate([*(bytes([b]) for b in range(256)), *merged])}


def rank_lines() -> list[bytes]:
    """The lines of the rank file."""
    return [base64.b64encode(data) + b" %d\n" % rank for data, rank in ranks().items()]


def rank_directory(directory: Path) -> Path:
    """A rank file with an end, a turn marker and a padding token in tokenizer_config.json."""
    (directory / "tiny.tiktoken").write_bytes(b"".join(rank_lines()))
    names, first = ("<|end|>", "<|turn|>", "<|pad|>"), len(ranks())
    added = {str(first + i): {"content": name, "special": True} for i, name in enumerate(names)}
    settings = {"added_tokens_decoder": added, "eos_token": "<|end|>", "pad_token": "<|pad|>"}
    write(directory, tokenizer_config=settings, config={"vocab_size": 288})
    return directory


def pieces(directory: Path, kind: str, **more: Any) -> Path:
    """A SentencePiece model alone; it names its end itself."""
    (directory / "tokenizer.model").write_bytes(piece_model(kind, **more))
    return directory


@functools.cache
def piece_model(kind: str, **more: Any) -> bytes:
    """A SentencePiece model, `bpe` or `unigram`: byte fallback, a user-defined piece and a control piece."""
    import sentencepiece

    file = io.BytesIO()
    choices = {"add_dummy_prefix": False, "remove_extra_whitespaces": False, "hard_vocab_limit": False}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS * 20),
        model_writer=file,
        model_type=kind,
        vocab_size=340,
        byte_fallback=True,
        character_coverage=0.98,
        normalization_rule_name="identity",
        user_defined_symbols=["<user>"],
        control_symbols=["<turn>"],
        pad_id=3,
        num_threads=1,
        minloglevel=2,
        **choices | more,
    )
    return file.getvalue()


def directory_of(kind: str, directory: Path) -> Path:
    """Write the directory of one of KINDS."""
    family, _, model = kind.partition(" ")
    if family == "metaspace":
        return metaspace(directory, model)
    if family == "pieces":
        return pieces(directory, model)
    return byte_level(directory) if kind == "byte-level" else rank_directory(directory)
