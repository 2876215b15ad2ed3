"""Texts to token ids and back, for one model directory.

Text is text: a control token's spelling in it is encoded as the ordinary bytes that it is, unless the caller
asks for control tokens. A templated prompt is a list of parts, in which control tokens stand by their ids.
Decoding goes through the vocabulary's bytes; `TextStream` holds a cut character back until it is whole.
"""

import codecs
import json
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

import attrs

from engine.frontend.token_files import fault, library
from engine.text.vocabulary import TokenClass, Vocabulary

TOKENIZER_FILE = "tokenizer.json"
Part = str | int


@attrs.frozen(eq=False, slots=False)
class TextCodec:
    """`tokenizer` (of the library `tokenizers`) knows the text tokens alone."""

    vocabulary: Vocabulary
    tokenizer: Any

    @classmethod
    def load(cls, directory: Path, vocabulary: Vocabulary) -> "TextCodec":
        """Read `tokenizer.json`. Raises VocabularyFileError, MissingDependency."""
        path = directory / TOKENIZER_FILE
        if not path.is_file():
            message = "texts are encoded by this file, and it is not there"
            raise fault(directory.name, message, "no tokenizer.json", "a directory with a tokenizer.json")
        return cls.of(path.read_text(encoding="utf-8"), vocabulary)

    @classmethod
    def of(cls, content: str, vocabulary: Vocabulary) -> "TextCodec":
        """Read what a `tokenizer.json` holds. Raises as `load` does."""
        return cls(vocabulary, _plain_tokenizer(content))

    def encode(self, text: str, *, control: bool = False) -> list[int]:
        """Return the ids of a text; with `control`, spellings of control and completion ids are those ids."""
        return self.encode_parts(self._cut(text) if control else [text])

    def encode_parts(self, parts: Sequence[Part]) -> list[int]:
        """Return the ids of texts and control ids in order; texts that touch are encoded as one."""
        found: list[int] = []
        for is_text, group in groupby(parts, lambda part: isinstance(part, str)):
            if is_text:
                text = "".join(map(str, group))
                found += self.tokenizer.encode(text, add_special_tokens=False).ids
            else:
                found += map(int, group)
        return found

    def knows(self, spelling: str) -> bool:
        """Return whether a control or completion id has this spelling."""
        return spelling in self._specials

    def special_id(self, spelling: str) -> int:
        """Return the control or completion id with this spelling. Raises VocabularyFileError."""
        if spelling not in self._specials:
            known = ", ".join(self._specials)
            raise fault(self.vocabulary.name, "the vocabulary lacks a token", spelling, known or "none")
        return self._specials[spelling]

    def decode(self, token_ids: Iterable[int]) -> str:
        """Return the text of ids, control ids by their spelling; bytes that are no text become U+FFFD."""
        return b"".join(self.vocabulary.token_bytes[i] for i in token_ids).decode(errors="replace")

    def stream(self) -> "TextStream":
        """Return a decoder of ids that come a few at a time."""
        return TextStream(self.vocabulary)

    @cached_property
    def _specials(self) -> dict[str, int]:
        classes = (TokenClass.CONTROL, TokenClass.EOS)
        ids = [i for kind in classes for i in self.vocabulary.ids_of(kind)]
        return {self.vocabulary.token_bytes[i].decode(): i for i in ids}

    def _cut(self, text: str) -> list[Part]:
        specials = self._specials
        spelled = "|".join(map(re.escape, sorted(specials, key=len, reverse=True)))
        pieces = re.split(f"({spelled})", text) if spelled else [text]
        return [specials.get(piece, piece) for piece in pieces if piece]


class TextStream:
    """Text in whole characters, as its ids come."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def feed(self, token_ids: Iterable[int]) -> str:
        """Return the characters that these ids complete."""
        return self._decoder.decode(b"".join(self._vocabulary.token_bytes[i] for i in token_ids))

    def end(self) -> str:
        """Return what is left of a character that was cut, as U+FFFD."""
        return self._decoder.decode(b"", final=True)


def _plain_tokenizer(content: str) -> Any:
    """The tokenizer of a file without its added tokens and without what it puts around a text."""
    document = json.loads(content)
    document |= {"added_tokens": [], "post_processor": None, "truncation": None, "padding": None}
    try:
        return library("tokenizers").Tokenizer.from_str(json.dumps(document))
    except ValueError as error:
        raise fault(TOKENIZER_FILE, "the library cannot read this file", str(error), "a tokenizer") from None
