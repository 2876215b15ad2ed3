"""What every test of the JSON Schema lowering needs: a toy vocabulary, membership, walks, and the judge.

The judge is oracles/schema, which shares no code with the engine. Membership goes through a compiled matcher,
byte by byte; `cut_vocabulary` has tokens that cut characters, escapes, punctuation and whole members.
"""

import itertools
import json
import random
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from engine.errors import RequestError
from engine.request import OutputConstraint
from engine.text.compiler import CompiledConstraint, ConstraintCompiler
from engine.text.matcher import Matcher
from engine.text.vocabulary import Vocabulary
from oracles.masks import num_words, unpack
from oracles.schema.validate import Validator

Json = Any
BYTES = tuple(bytes([byte]) for byte in range(256))
JOINED = (
    *(
        b'{"',
        b'":',
        b'": ',
        b'","',
        b'", "',
        b'"}',
        b'"],"',
        b'":"',
        b'":{"',
        b"}}",
        b"]}",
        b"{}",
        b"[]",
        b'""',
    ),
    *(
        b'"a"',
        b'a":',
        b'"a":1',
        b'"a":1,"',
        b'{"a":',
        b',"b":',
        b'"ab":',
        b"1,",
        b"10",
        b"0.",
        b".5",
        b"e-",
        b"-1",
    ),
    *(
        b"true",
        b"tru",
        b"ue,",
        b"null",
        b"fals",
        b"e}",
        b"\n  ",
        b"    ",
        b" " * 16,
        b",\n",
        b"{\n",
        b"\n}",
        b": ",
    ),
    *(
        b"\\u",
        b"\\u00",
        b'\\"',
        b'\\"a',
        b"\\\\",
        b'\\n"',
        b"u0061",
        b"\\ud83d",
        b"\\ud83d\\ude00",
        b"\xc3\xa9",
    ),
    *(
        b"\xf0\x9f",
        b"\x98\x80",
        b'\x98\x80"',
        b"ab",
        b"aa",
        b'aa"',
        b'b","a',
        b'a"]',
        b"b\xc3",
        b'\xa9"',
        b'["a","b',
    ),
)
END = len(BYTES) + len(JOINED)


@cache
def cut_vocabulary() -> Vocabulary:
    """Every byte, the joined tokens, one completion id."""
    return Vocabulary.build("schema", [*BYTES, *JOINED, b"<end>"], eos_ids=[END])


@cache
def compiler() -> ConstraintCompiler:
    """One compiler, so that equal schemas are built once."""
    return ConstraintCompiler(cut_vocabulary(), cache_bytes=2**24)


def source_of(schema: Json) -> str:
    """A schema as JSON text; text stays as it is."""
    return schema if isinstance(schema, str) else json.dumps(schema, ensure_ascii=False)


def compiled(schema: Json, **options: str) -> CompiledConstraint:
    """The compiled language of a schema. Raises RequestError."""
    return compiler().compile(OutputConstraint.json_schema(source_of(schema), **options))[0]


def fault(schema: Json, **options: str) -> RequestError:
    """The error that refuses a schema."""
    try:
        compiled(schema, **options)
    except RequestError as error:
        return error
    raise AssertionError(f"served: {source_of(schema)}")


def outcome(schema: Json, **options: str) -> CompiledConstraint | RequestError:
    """The compiled language of a schema, or the error that refuses it."""
    try:
        return compiled(schema, **options)
    except RequestError as error:
        return error


def is_member(language: CompiledConstraint, text: str | bytes) -> bool:
    """Whether a whole text is in the language."""
    data = text.encode() if isinstance(text, str) else text
    matcher = language.new_matcher()
    with matcher.look_ahead():
        return all(matcher.accept(byte) for byte in data) and matcher.may_end


def accepts(schema: Json, text: str, **options: str) -> bool:
    """Whether the lowered schema has a text."""
    return is_member(compiled(schema, **options), text)


def is_valid(schema: Json, text: str, **options: Any) -> bool:
    """What the oracle says of a text."""
    return not Validator(source_of(schema), **options).failures(text)


def compact(value: Json) -> str:
    """A value as the contract spells it, without white space."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def spaced(value: Json) -> str:
    """The same with the usual spaces."""
    return json.dumps(value, ensure_ascii=False)


def orders(value: Json) -> Iterator[Json]:
    """A value in every order of its members."""
    if isinstance(value, list):
        yield from map(list, itertools.product(*(list(orders(part)) for part in value)))
    elif isinstance(value, dict):
        for names in itertools.permutations(value):
            for parts in itertools.product(*(list(orders(value[name])) for name in names)):
                yield dict(zip(names, parts, strict=True))
    else:
        yield value


def is_member_in_some_order(language: CompiledConstraint, value: Json, limit: int = 200) -> bool:
    """Whether some member order of a value is in the language."""
    return any(is_member(language, compact(v)) for v in itertools.islice(orders(value), limit))


def legal(matcher: Matcher) -> np.ndarray:
    """The legal set at a matcher's position, as bools."""
    words = np.zeros(num_words(END + 1), dtype=np.int32)
    matcher.fill_words(words)
    return np.isin(np.arange(END + 1), list(unpack(words)))


ENDINGS = {token: weight for token, weight in ((b'"', 6), (b"}", 6), (b"]", 6), (b",", 2), (b":", 2))}


@cache
def _weights() -> np.ndarray:
    """How much a walk likes each id: ends and letters of the domain more than the many other bytes."""
    weights = np.full(END + 1, 0.02)
    for token_id, data in enumerate([*BYTES, *JOINED]):
        if data in ENDINGS:
            weights[token_id] = ENDINGS[data]
        elif data in (b"a", b"b", b"1", b"0", b"2", b'"a"', b'"ab":', b'"a":1', b',"b":'):
            weights[token_id] = 1
        elif token_id >= len(BYTES):
            weights[token_id] = 0.1
    weights[END] = 8
    return weights


def walk(language: CompiledConstraint, rng: random.Random, limit: int = 120) -> bytes | None:
    """One text that the masks lead to, None if it does not end in time; every step asks the mask anew."""
    matcher, data = language.new_matcher(), b""
    for _ in range(limit):
        weights = np.where(legal(matcher), _weights(), 0.0).cumsum()
        assert weights[-1] > 0, f"a dead end after {data!r}"
        token_id = int(np.searchsorted(weights, rng.random() * weights[-1], side="right"))
        if token_id == END:
            return data
        matcher.preview([token_id])
        matcher.confirm()
        data += [*BYTES, *JOINED][token_id]
    return None
