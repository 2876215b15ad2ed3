"""What the JSON files beside the tokens say about them: added tokens, completion ids, width, other media.

tokenizer_config.json and added_tokens.json add tokens. The completion ids are those of
generation_config.json, or else of config.json, and beside them the eos_token of tokenizer_config.json.
config.json (its text part first) tells the width of the logits and which ids stand for pictures and sound.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from engine.errors import Location
from engine.frontend.token_files import AddedToken, Named, fault

TOKENIZER, ADDED = "tokenizer_config.json", "added_tokens.json"
GENERATION, MODEL = "generation_config.json", "config.json"
MEDIA = ("image", "video", "audio", "vision")
MEDIA_KEYS = frozenset(
    f"{medium}{part}_token_{number}"
    for medium in MEDIA
    for part in ("", "_start", "_end")
    for number in ("id", "index")
) | {"boi_token_index", "eoi_token_index", "boa_token_index", "eoa_token_index"}


@attrs.frozen
class Settings:
    """The files' words: `eos` in order, `padding` by spelling, `media_ids` and `logits_width` as numbers."""

    added: tuple[AddedToken, ...] = ()
    eos: tuple[Named, ...] = ()
    padding: str | None = None
    media_ids: frozenset[int] = frozenset()
    logits_width: int | None = None


def read_settings(directory: Path) -> Settings:
    """The settings of a model directory; files that are not there say nothing. Raises VocabularyFileError."""
    tokenizer, model = _object(directory, TOKENIZER), _object(directory, MODEL)
    model |= {key: value for key, value in _part(model, "text_config", MODEL).items() if value is not None}
    eos = _numbers(_object(directory, GENERATION), GENERATION) or _numbers(model, MODEL)
    return Settings(
        added=(*_added_in_config(tokenizer), *_added_by_spelling(_object(directory, ADDED))),
        eos=(*eos, *_spelled(tokenizer)),
        padding=_content(tokenizer.get("pad_token")),
        media_ids=frozenset(value for key, value in model.items() if key in MEDIA_KEYS and _is_int(value)),
        logits_width=_logits_width(model),
    )


def _object(directory: Path, file: str) -> dict[str, Any]:
    """The JSON object in a file, empty when there is no such file."""
    path = directory / file
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise fault(file, "this is no JSON", str(error), "a JSON object") from None
    if not isinstance(found, dict):
        raise fault(file, "this is no JSON object", type(found).__name__, "a JSON object")
    return found


def _part(settings: Mapping[str, Any], key: str, file: str) -> Mapping[str, Any]:
    """The object under a key, empty when there is none."""
    found = settings.get(key)
    if found is not None and not isinstance(found, dict):
        raise fault(file, "this is no object", repr(found), "an object", Location(pointer=f"/{key}"))
    return found or {}


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _numbers(settings: Mapping[str, Any], file: str) -> tuple[Named, ...]:
    """The completion ids of a configuration: none, a number, or a list of numbers."""
    value = settings.get("eos_token_id")
    numbers = value if isinstance(value, list) else [value] if value is not None else []
    where = Location(pointer="/eos_token_id")
    if not all(_is_int(number) for number in numbers):
        raise fault(file, "a completion id is no number", repr(value), "a number or a list of them", where)
    return tuple(Named(number, file, where) for number in numbers)


def _spelled(tokenizer: Mapping[str, Any]) -> tuple[Named, ...]:
    spelling = _content(tokenizer.get("eos_token"))
    return () if spelling is None else (Named(spelling, TOKENIZER, Location(pointer="/eos_token")),)


def _content(token: Any) -> str | None:
    """The spelling of a token given as text or as an object."""
    found = token.get("content") if isinstance(token, dict) else token
    return found if isinstance(found, str) else None


def _added_in_config(tokenizer: Mapping[str, Any]) -> Iterator[AddedToken]:
    for key, token in _part(tokenizer, "added_tokens_decoder", TOKENIZER).items():
        where, spelling = Location(pointer=f"/added_tokens_decoder/{key}"), _content(token)
        if not key.isdecimal() or spelling is None:
            allowed = "a number, and an object with the token's content"
            raise fault(TOKENIZER, "this is no added token", f"{key!r}: {token!r}", allowed, where)
        special = isinstance(token, dict) and bool(token.get("special"))
        yield AddedToken(int(key), spelling, special, TOKENIZER, where)


def _added_by_spelling(added: Mapping[str, Any]) -> Iterator[AddedToken]:
    for spelling, token_id in added.items():
        where = Location(pointer="/" + spelling.replace("~", "~0").replace("/", "~1"))
        if not _is_int(token_id):
            raise fault(ADDED, "this is no number of a token", repr(token_id), "a number", where)
        yield AddedToken(token_id, spelling, False, ADDED, where)


def _logits_width(model: Mapping[str, Any]) -> int | None:
    width = model.get("vocab_size")
    if width is not None and not _is_int(width):
        where = Location(pointer="/vocab_size")
        raise fault(MODEL, "the width of the logits is no number", repr(width), "a number", where)
    return width
