"""The tokens of one file as raw bytes: tokenizer.json, a tiktoken rank file, a SentencePiece file (VOC-2).

Bytes are what an id adds to the output, never a display of it: no replacement character, no leading space
stripped, a byte-fallback piece is its byte, and the metaspace is a space. A token whose bytes the file does
not tell is an error. Libraries read the files; a rank file is lines of `base64 number`,
read here because tiktoken's own reader keeps a copy by path and answers from it when the file has changed.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import attrs

from engine.errors import NOWHERE, ErrorKind, Location, MissingDependency, VocabularyFileError
from engine.frontend.token_decoders import Decoder, decoder_of, piece_bytes
from engine.text.vocabulary import TokenClass

INSTALL = {
    "tokenizers": "pip install tokenizers",  # a base dependency: only a bare machine lacks it
    "sentencepiece": "pip install 'counterproof[vocab]'",
}
SENTENCEPIECE_SPACE = "▁"
MODELS = ("BPE", "Unigram")


@attrs.frozen
class Token:
    """One id: its bytes, its spelling in the file, and the class that the file's flags give it."""

    data: bytes
    spelling: str
    kind: TokenClass = TokenClass.TEXT


@attrs.frozen
class AddedToken:
    """A token that a file adds to the model's own, and where it says so."""

    token_id: int
    content: str
    special: bool
    file: str
    where: Location


@attrs.frozen
class Named:
    """A token that a file names by number or spelling, and where it does so."""

    token: int | str
    file: str
    where: Location = NOWHERE


@attrs.frozen
class TokenFile:
    """What a file of tokens says: the model's own tokens, the added ones, its completion ids."""

    tokens: Mapping[int, Token]
    added: tuple[AddedToken, ...] = ()
    eos: tuple[Named, ...] = ()


def fault(
    file: str, message: str, found: str, allowed: str, where: Location = NOWHERE
) -> VocabularyFileError:
    """The error of one file: what was found there, where, and what is allowed."""
    kind = ErrorKind.INVALID_REQUEST
    return VocabularyFileError(kind, f"{file}: {message}", where, found, allowed, source="request", file=file)


def library(name: str) -> Any:
    """An optional library. Raises MissingDependency with the line that installs it."""
    try:
        return import_module(name)
    except ModuleNotFoundError:
        raise MissingDependency(name, INSTALL[name]) from None


def read_tokenizer_file(path: Path) -> TokenFile:
    """The tokens of a tokenizer.json: a BPE or unigram model, byte-level or with replaced spaces."""
    data = path.read_bytes()
    tokenizer = _tokenizer(library("tokenizers"), data, path.name)
    model_type = type(tokenizer.model).__name__
    if model_type not in MODELS:
        where, allowed = Location(pointer="/model/type"), " or ".join(MODELS)
        raise fault(path.name, "this kind of model is not served", model_type, allowed, where)
    content = json.loads(data)
    own = _spellings(tokenizer.get_vocab(with_added_tokens=False), path.name)
    added = _added_in(content, tokenizer, path.name)
    decoder = decoder_of(content, partial(fault, path.name))
    added_ids = {one.token_id for one in added}
    tokens = {i: Token(_data(i, own[i], decoder, added_ids, path.name), own[i]) for i in own}
    unknown = _unknown_id(content["model"], own, path.name)
    if unknown is not None:
        tokens[unknown] = attrs.evolve(tokens[unknown], kind=TokenClass.UNGENERABLE)
    return TokenFile(tokens, added)


def _tokenizer(tokenizers: Any, data: bytes, file: str) -> Any:
    try:
        return tokenizers.Tokenizer.from_buffer(data)
    except Exception as error:  # the library raises nothing narrower
        raise fault(file, "the library cannot read this file", str(error), "a tokenizer") from None


def _added_in(content: Mapping[str, Any], tokenizer: Any, file: str) -> tuple[AddedToken, ...]:
    """The added tokens as the file numbers them; the library, which would number them anew, must agree."""
    numbered = tokenizer.get_added_tokens_decoder()
    found = []
    for index, one in enumerate(content.get("added_tokens") or ()):
        where = Location(pointer=f"/added_tokens/{index}/id")
        known = numbered.get(one["id"])
        if known is None or known.content != one["content"]:
            wanted = f"{one['content']!r} with number {one['id']}"
            allowed = f"its number {tokenizer.token_to_id(one['content'])} in the model, or the next free one"
            raise fault(file, "an added token has another number", wanted, allowed, where)
        found.append(AddedToken(one["id"], one["content"], one["special"], file, where))
    return tuple(found)


def _spellings(numbers: Mapping[str, int], file: str) -> dict[int, str]:
    """The spelling of every id of the model."""
    found: dict[int, str] = {}
    for spelling, token_id in numbers.items():
        if token_id in found:
            both = f"{found[token_id]!r} and {spelling!r} with number {token_id}"
            where = Location(pointer="/model/vocab")
            raise fault(file, "two tokens have one number", both, "one token for each id", where)
        found[token_id] = spelling
    return found


def _data(token_id: int, spelling: str, decoder: Decoder, added_ids: AbstractSet[int], file: str) -> bytes:
    """The bytes of a token of the model; an added one that the decoder cannot read stands for itself."""
    data = decoder(spelling)
    if data is None and token_id in added_ids:
        return spelling.encode()
    if data is None:
        where, allowed = Location(pointer="/model/vocab"), "characters of the byte-level alphabet"
        raise fault(
            file, "a token stands for no bytes", f"{spelling!r} with number {token_id}", allowed, where
        )
    return data


def _unknown_id(model: Mapping[str, Any], own: Mapping[int, str], file: str) -> int | None:
    """The id that the model gives to what it does not know."""
    if model.get("unk_id") is not None:
        return int(model["unk_id"])
    unknown = model.get("unk_token")
    found = next((i for i, spelling in own.items() if spelling == unknown), None)
    if unknown is not None and found is None:
        where, allowed = Location(pointer="/model/unk_token"), "a token of the model"
        raise fault(file, "the unknown token is not in the vocabulary", repr(unknown), allowed, where)
    return found


def read_rank_file(path: Path) -> TokenFile:
    """The tokens of a tiktoken file: one line of base64 and number for each."""
    tokens: dict[int, Token] = {}
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        where = Location(line=number, column=1)
        try:
            encoded, rank = line.split()
            data, token_id = base64.b64decode(encoded, validate=True), int(rank)
        except (ValueError, binascii.Error):
            allowed = "a token in base64, a space, its number"
            raise fault(path.name, "this is no line of ranks", repr(line[:80]), allowed, where) from None
        if token_id in tokens:
            both = f"{tokens[token_id].data!r} and {data!r} with number {token_id}"
            raise fault(path.name, "two tokens have one number", both, "one token for each id", where)
        tokens[token_id] = Token(data, data.decode(errors="backslashreplace"))
    return TokenFile(tokens)


def read_sentencepiece_file(path: Path) -> TokenFile:
    """The pieces of a SentencePiece model, classed by their types; user-defined pieces are text."""
    sentencepiece = library("sentencepiece")
    try:
        model = sentencepiece.SentencePieceProcessor(model_proto=path.read_bytes())
    except RuntimeError as error:
        raise fault(
            path.name, "the library cannot read this file", str(error), "a SentencePiece model"
        ) from None
    tokens = {i: _piece(model, i) for i in range(model.get_piece_size())}
    eos = (Named(model.eos_id(), path.name),) if model.eos_id() >= 0 else ()
    return TokenFile(tokens, eos=eos)


def _piece(model: Any, token_id: int) -> Token:
    spelling = model.id_to_piece(token_id)
    if model.is_control(token_id):
        return Token(spelling.encode(), spelling, TokenClass.CONTROL)
    if model.is_unknown(token_id) or model.is_unused(token_id):
        return Token(spelling.encode(), spelling, TokenClass.UNGENERABLE)
    replaced = {SENTENCEPIECE_SPACE: " "}
    return Token(piece_bytes(spelling, replaced, byte_pieces=model.is_byte(token_id)), spelling)
