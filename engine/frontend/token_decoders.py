"""How a tokenizer.json writes bytes as token strings: its `decoder`, read backwards for one token alone.

Two families: byte-level (each character stands for one byte), and text with replaced spaces and byte-fallback
pieces. What acts on a whole text only (joining pieces, stripping its first space) is no part of a token.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from engine.errors import Location, VocabularyFileError

Decoder = Callable[[str], bytes | None]  # None: the string stands for no bytes
Fault = Callable[[str, str, str, Location], VocabularyFileError]
BYTE_PIECE = re.compile("<0x([0-9A-Fa-f]{2})>")
STEPS = "ByteLevel, or Metaspace, Replace of a string, ByteFallback, Fuse and, after it, Strip"
AFFIXES = ("continuing_subword_prefix", "end_of_word_suffix")


def _byte_level_characters() -> dict[str, int]:
    """The byte of each character: its own where it is visible in Latin-1, the others in turn from U+0100."""
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [byte for byte in range(256) if byte not in visible]
    return {chr(b): b for b in visible} | {chr(256 + n): b for n, b in enumerate(hidden)}


BYTE_LEVEL = _byte_level_characters()


def byte_level(token: str) -> bytes | None:
    """The bytes of a byte-level token; None when a character stands for no byte."""
    if not all(character in BYTE_LEVEL for character in token):
        return None
    return bytes(BYTE_LEVEL[character] for character in token)


def piece_bytes(token: str, replaced: Mapping[str, str], *, byte_pieces: bool) -> bytes:
    """The bytes of a piece of text in which strings stand for others, or of a byte-fallback piece."""
    if byte_pieces and (match := BYTE_PIECE.fullmatch(token)):
        return bytes([int(match[1], 16)])
    for old, new in replaced.items():
        token = token.replace(old, new)
    return token.encode()


def decoder_of(content: Mapping[str, Any], fault: Fault) -> Decoder:
    """The decoder of a tokenizer.json with this `content`; `fault` makes the error that this raises."""
    steps = _flat(content.get("decoder"), "/decoder")
    kinds = [step["type"] for _, step in steps]
    model = content["model"]
    for affix in AFFIXES:
        if model.get(affix):
            where = Location(pointer=f"/model/{affix}")
            raise fault("tokens carry marks that are not text", repr(model[affix]), "none", where)
    if "ByteLevel" in kinds and set(kinds) <= {"ByteLevel", "Fuse"}:
        return byte_level
    if not kinds:
        raise fault("no decoder says what bytes a token is", "null", STEPS, Location(pointer="/decoder"))
    replaced = {}
    for position, (pointer, step) in enumerate(steps):
        if not _is_served(step, kinds[:position]):
            raise fault("this decoder is not served", repr(step), STEPS, Location(pointer=pointer))
        if step["type"] == "Metaspace":
            replaced[step["replacement"]] = " "
        if step["type"] == "Replace":
            replaced[step["pattern"]["String"]] = step["content"]
    byte_pieces = "ByteFallback" in kinds or bool(model.get("byte_fallback"))
    return lambda token: piece_bytes(token, replaced, byte_pieces=byte_pieces)


def _flat(step: Mapping[str, Any] | None, pointer: str) -> list[tuple[str, Mapping[str, Any]]]:
    """The steps in order, each with its place; sequences are opened."""
    if step is None:
        return []
    if step["type"] != "Sequence":
        return [(pointer, step)]
    inner = [_flat(one, f"{pointer}/decoders/{i}") for i, one in enumerate(step["decoders"])]
    return [found for steps in inner for found in steps]


def _is_served(step: Mapping[str, Any], before: list[str]) -> bool:
    if step["type"] == "Strip":
        return "Fuse" in before
    if step["type"] == "Replace":
        return "String" in step["pattern"] and "Fuse" not in before
    return step["type"] in ("Metaspace", "ByteFallback", "Fuse")
