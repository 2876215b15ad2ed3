"""The vocabularies that a command takes: `toy`, `qwen3.5`, or the directory of a model."""

import argparse
from functools import cache
from pathlib import Path

from engine.errors import ErrorKind, RequestError
from engine.frontend.tokenizer import qwen3_5_vocabulary
from engine.frontend.vocabulary_files import load_vocabulary
from engine.text.vocabulary import TokenClass, Vocabulary, toy_vocabulary

NAMED = {"toy": toy_vocabulary, "qwen3.5": qwen3_5_vocabulary}
METAVAR = "toy|qwen3.5|DIR"


@cache
def vocabulary_of(name: str) -> Vocabulary:
    """The vocabulary of a name or model directory, made once per process.

    Raises VocabularyFileError, IntegrityError or MissingDependency.
    """
    return NAMED[name]() if name in NAMED else load_vocabulary(Path(name))


def vocabulary_name(text: str) -> str:
    """The value of a `--vocab` option, for argparse."""
    if text not in NAMED and not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is neither toy nor qwen3.5 nor a model directory")
    return text


def shown_name(name: str) -> str:
    """The name in a report: without the place of a directory on this machine."""
    return name if name in NAMED else Path(name).resolve().name


def describe(name: str) -> str:
    """One line about a vocabulary that says which one it was."""
    found = vocabulary_of(name)
    classes = ", ".join(f"{len(found.ids_of(kind)):,} {kind.name.lower()}" for kind in TokenClass)
    width = f"logits {found.logits_width:,} wide"
    return f"vocabulary {shown_name(name)}: {classes}; {width}; fingerprint {found.fingerprint[:16]}"


def require_bytes(vocabulary: Vocabulary, needed: bytes) -> None:
    """Raise RequestError where a byte of `needed` is no token: then some text cannot be spelled."""
    single = {vocabulary.token_bytes[i] for i in vocabulary.ids_of(TokenClass.TEXT)}
    missing = sorted(byte for byte in set(needed) if bytes([byte]) not in single)
    if missing:
        found = ", ".join(f"0x{byte:02X}" for byte in missing[:8])
        message = "the gates spell their texts in single bytes, and this vocabulary lacks tokens for some"
        raise RequestError(ErrorKind.INVALID_REQUEST, message, found=found, allowed="a token for each byte")
