"""The world in which JSON schemas meet the decoding paths: a vocabulary that cuts JSON badly, and its tables.

The target likes tokens that span several JSON tokens and names that were just used; the prompt repeats names
too, so that drafts end inside a token of JSON, run over the end of a value, or say a name again.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import attrs
import numpy as np

from engine.models.toy import Mischief, TableSpec
from engine.text.compiler import ConstraintCompiler
from engine.text.vocabulary import TOY_ALPHABET, TOY_MERGES, TokenClass, Vocabulary, toy_vocabulary
from experiments.gates import path_world, vocabulary_kind
from experiments.gates.json_cases import CASES, LAW_CASE, WRITTEN
from experiments.gates.path_law import Subject
from experiments.gates.path_world import Case, World

NAME = "JSON schema"
LIKING, FAVOUR = 3.0, 1.5
LETTERS = "eEflnrstu"
MERGES = (
    *(b', "', b'": ', b", ", b": "),
    *rb'," false {} [] [[ ]] }} ], }, [{ }] ":{" },{" "}, ":[ ]," ":1 ":1," {"a":1," "a": a": b":'.split(),
    *rb'a":1,"b "a":1,"a":1 a":1} 1, null, \" \u00 "ab" ["a", [1 1]'.split(),
)
LIKED = (
    *(b" ", b"\n", b'": ', b", "),
    *rb"""2 a b ab 1 12 true null false x -1 0. " { } [ ] : , {" ": ", "} "," {} [] [[ ]]""".split(),
    *rb'''," ], }, "] [" ":{" ":[ ":1 {"a":1," "a": a": b": a":1,"b a":1} 1, ":1,"'''.split(),
)
CLOSERS = tuple(rb'} ] " "} ]] "] a":1}'.split())
FOLLOWS = {  # what tables like after a piece that ends like this, the first most; the longest ending counts
    b"": (b'"', b"1", b"true"),
    b'"': (b"a", b"b", b"ab", b'a":', b"x"),
    b"a": (b'":', b'":1,"', b'"', b'"}', b'"]'),
    b"b": (b'"', b'":', b'":1,"', b'"}', b'"]'),
    b"x": (b'"', b'"}', b'"]'),
    b":": (b"1", b"true", b"null", b'"', b"1,", b"[]"),
    b",": (b'"', b'"a":', b" ", b"null", b"true"),
    b"1": (b',"', b"}", b",", b'"', b"2"),
    b"{": (b'"', b"}", b'"a":'),
    b"[": (b"]", b"[", b'"', b"[]"),
    b"}": (b"}", b"]", b"},"),
    b"]": (b"]", b"],", b"}"),
    b"true": (b"}", b"]", b","),
    b"null": (b"}", b"]", b","),
    b": ": (b"1", b"true", b'"'),
    b", ": (b'"', b"null", b"true"),
}
PROMPT = (
    b'{"a":1,"a":1,"b":[1,1],"ab":{"b":null,"a":true}}[[],[[]]]"ab" ["a", null]-12'
    b'{"a":"b","b":true,"ab":"a"}["a", null, true]"abab"{"b":1,"ab":1,"a":1}{"ab":"b"}[null, null][[[]]]'
)
STRANGE_AT, ENDS_AT = (
    7,
    (4, 12, 18, 26),
)  # a strange id and completion ids stand in the prompt before these places
STRUCTURE = frozenset(b'{}[]:,"')


@attrs.frozen
class JsonTable(TableSpec):
    """A table that likes some ids more after some id."""

    follows: Mapping[int, list[int]] = attrs.field(factory=dict)

    def row(self, context: tuple[int, ...]) -> np.ndarray:
        """The logits of one context."""
        row = super().row(context)
        liked = self.follows.get(context[-1], []) if context else []
        row[liked] += np.float32(LIKING)
        row[liked[:1]] += np.float32(FAVOUR)
        return row


@attrs.frozen(eq=False)
class JsonWorld(World):
    """One vocabulary with tables that like JSON."""

    cases: Mapping[str, Case] = WRITTEN
    max_tokens: int = 14

    def case(self, name: str) -> Case:
        """The schema of a name."""
        return LAW_CASE if name == LAW_CASE.name else CASES[name]

    @property
    def liked_ids(self) -> tuple[int, ...]:
        """Pieces of JSON, the letters a and b first."""
        return tuple(_known(self.vocabulary, LIKED))

    @property
    def opening_ids(self) -> tuple[int, ...]:
        """An object with one member whose name is read to its end, and the next name begun."""
        return tuple(_known(self.vocabulary, (b'{"', b"a", b'":', b"1", b',"', b"a")))

    @property
    def prompt_ids(self) -> tuple[int, ...]:
        """JSON that says names twice, cut by the longest liked tokens, with a control and a completion id."""
        return _prompt(self.vocabulary)

    def mischief(self) -> Mischief:
        """Fewer stray ids than elsewhere over a small vocabulary: what is liked is illegal often enough."""
        wide = self.vocabulary.size > 10_000
        return attrs.evolve(super().mischief(), stray=2 if wide else 1)

    def table(self, **changes: Any) -> TableSpec:
        """The target's table: what may follow is liked more, and what closes a value, so that values end."""
        spec = super().table()
        boost = dict(spec.boost) | dict.fromkeys(_known(self.vocabulary, CLOSERS), 5.6)
        own = {field.name: getattr(spec, field.name) for field in attrs.fields(TableSpec)}
        return JsonTable(**{**own, "boost": boost, **changes}, follows=_follows(self.vocabulary))


@cache
def json_world(vocab: str, seed: int = 0) -> JsonWorld:
    """The world of a vocabulary: `toy` (one that cuts JSON badly), `qwen3.5` or a model directory."""
    if vocab == "toy":
        vocabulary = toy_vocabulary(TOY_ALPHABET + LETTERS, (*TOY_MERGES, *MERGES), name="toy of JSON")
        return JsonWorld(vocabulary, ConstraintCompiler(vocabulary), seed)
    shared = path_world.world(vocab)
    return JsonWorld(shared.vocabulary, shared.compiler, seed)


@cache
def _ids_of(vocabulary: Vocabulary) -> Mapping[bytes, int]:
    """The first text id of each piece."""
    wanted, found = frozenset(LIKED), dict[bytes, int]()
    for token_id, data in enumerate(vocabulary.token_bytes):
        if data in wanted and vocabulary.classes[token_id] is TokenClass.TEXT:
            found.setdefault(data, token_id)
    return found


@cache
def _follows(vocabulary: Vocabulary) -> Mapping[int, list[int]]:
    """The ids that are liked after each liked id."""
    endings = sorted(FOLLOWS, key=len, reverse=True)
    return {
        token_id: _known(vocabulary, FOLLOWS[next(end for end in endings if piece.endswith(end))])
        for piece, token_id in _ids_of(vocabulary).items()
    }


def _known(vocabulary: Vocabulary, pieces: Iterable[bytes]) -> list[int]:
    ids = _ids_of(vocabulary)
    return [ids[piece] for piece in pieces if piece in ids]


@cache
def _prompt(vocabulary: Vocabulary) -> tuple[int, ...]:
    ids, found, rest = _ids_of(vocabulary), list[int](), PROMPT
    special = dict.fromkeys(ENDS_AT, vocabulary.eos_ids[0])
    special[STRANGE_AT] = path_world.strange_ids(vocabulary)[0]
    while rest:
        if len(found) in special:
            found.append(special[len(found)])
            continue
        piece = max((piece for piece in ids if rest.startswith(piece)), key=len, default=rest[:1])
        found += [ids[piece]] if piece in ids else []
        rest = rest[len(piece) :]
    return tuple(found)


LAW_SEEDS = {"toy": 13, "qwen3.5": 13}  # tables under which every path meets every kind of event


def law_subject(vocab: str) -> Subject:
    """An object with free names: what may follow a name depends on the names before it."""
    world = attrs.evolve(json_world(vocab), seed=LAW_SEEDS[vocabulary_kind(vocab)])
    return Subject(NAME, world, LAW_CASE, ("SPEC-8", "SPECG-6", "JSON-30", "JSON-48"))
