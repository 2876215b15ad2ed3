"""Languages that are lists of texts, as engines of the schema bench; one of them hangs and dies by name."""

import os
import time

import numpy as np
from attrs import field, frozen

from engine.text.vocabulary import Vocabulary
from experiments.schema_engines import Language, Refused
from experiments.schema_judge import Judge

BYTES = Vocabulary.build(
    "bytes", [bytes([b]) for b in range(256)] + [b"<e0>", b"<e1>"], eos_ids=[256, 257], logits_width=260
)


def encode(text):
    return list(text.encode())


@frozen
class ListWalker:
    """A walker in a finite language; `hides` names bytes that its mask leaves out although it takes them."""

    words: tuple[bytes, ...]
    row: np.ndarray
    hides: bytes = b""
    taken: list[bytes] = field(factory=lambda: [b""])

    def fill(self):
        self.row[:] = 0
        text = self.taken[0]
        opened = {word[len(text)] for word in self.words if word.startswith(text) and len(word) > len(text)}
        opened = {*opened, *((256, 257) if self.may_end() else ())} - set(self.hides)
        for token_id in opened:
            self.row.view(np.uint32)[token_id >> 5] |= np.uint32(1) << np.uint32(token_id & 31)

    def accept(self, token_id):
        text = self.taken[0] + bytes([token_id])
        if not any(word.startswith(text) for word in self.words):
            return False
        self.taken[0] = text
        return True

    def may_end(self):
        return self.taken[0] in self.words

    def fork(self):
        return ListWalker(self.words, self.row, self.hides, list(self.taken))


class ListEngine:
    """An engine whose schemas say by name what they hold: the case's language is looked up in a table."""

    vocabulary = BYTES

    def __init__(self, texts, hides=b""):
        self.row = np.zeros(BYTES.num_words, dtype=np.int32)
        self.words = tuple(text.encode() for text in texts)
        self.hides = hides

    def compile(self, case):
        if case.name == "refused":
            raise Refused("unsupported", "no such keyword", "/not", "no such keyword at all")
        return Language(lambda: ListWalker(self.words, self.row, self.hides, [b""]), 0.001)


def awkward_judge(engine, options):
    """A judge for spawned processes: cases named hang, die, raise and refused do what they say."""
    return Judge(AwkwardEngine(["true"]), encode, BYTES.eos_ids)


class AwkwardEngine(ListEngine):
    def compile(self, case):
        if case.name == "hang":
            time.sleep(600)
        if case.name == "die":
            os.abort()
        if case.name == "raise":
            raise KeyError("of a library")
        return super().compile(case)
