"""JSON texts with few names, and a vocabulary whose tokens cut and join them in every awkward place."""

import json
import random

from engine.text.vocabulary import TokenClass, Vocabulary

NAMES = ("", "a", "b", "ab", "ba", "aa", "é", "😀", '"', "\\", '"a', "a\\", "\n", "\x01", ",", ":{", "a\x1f")
BYTES = sorted(set('{}[]",: \nabrtuefnls01-./\\é😀'.encode()))
JOINED: tuple[bytes, ...] = (
    *(b'","', b'":"', b'":1,"', b'"},{"a":', b'"a":1,"a"', b'{"a":{"a":', b'a":1,"ba":', b'":1,"a"', b'""'),
    *(b'"":', b' ""', b'"a"', b'"b"', b'"a":', b'{"a"', b'{"a":1', b',"a":', b', "b"', b'a"', b'a":'),
    *(b'b":"', b'":{"', b'{"":"', b'":[{"', b'"},"', b'}},"a"', b'1}],"b"', b'}],"a":[', b'"a":1},"a":1'),
    *(b'a":2,"a"', b'a":{"a":1,"a', b'a":{"a":1,"a"', b'":{},"', b'b":1},"b"', b'\\"', b'"\\"', b'\\""'),
    *(b'\\""a"', b'\\\\"', b'"\\\\"', b'"\\', b'\\"a":1,"\\"a"', b"a\\", b'\\n"', b"\\u00", b'01"'),
    *(b'"\\u0001"', b"\xc3", b'\xa9"', b'"\xc3\xa9"', b'"\xc3', b"\xf0\x9f", b'\x98\x80":', b'"",""'),
    *(b'"":"":', b'"":1,"":', b"true", b'true,"a"', b'{"ab":', b'ab":', b'"b":{"a":1},"b"'),
    *(b'{"a":1},{"a":1}', b'{"a":1},{"a":1,"a"', b'a":1,"a":1,"b"'),
)


def names_vocabulary() -> Vocabulary:
    """Every byte of the texts, the joined tokens, a control and a completion id and one never generated."""
    texts = [bytes([byte]) for byte in BYTES] + list(JOINED)
    tokens = [b"<control>", *texts, b'"a"', b"<eos>", b"<image>"]  # two ids of the same bytes
    last = len(tokens) - 1
    control = {0: "<control>"}
    return Vocabulary.build("names", tokens, control=control, eos_ids=[last - 1], ungenerable=[last])


def text_bytes(vocabulary: Vocabulary) -> list[bytes | None]:
    """The bytes of the TEXT ids, None for all others."""
    pairs = zip(vocabulary.token_bytes, vocabulary.classes, strict=True)
    return [data if kind is TokenClass.TEXT else None for data, kind in pairs]


def quoted(name: str) -> str:
    """A name in canonical escapes."""
    return json.dumps(name, ensure_ascii=False)


def random_text(rng: random.Random, depth: int = 3, *, repeats: bool = False) -> str:
    """A JSON object; names repeat only where `repeats` lets them."""
    names = [rng.choice(NAMES[:6] if rng.random() < 0.6 else NAMES) for _ in range(rng.randrange(5))]
    kept = names if repeats else list(dict.fromkeys(names))
    space = rng.choice(["", "", " ", "\n"])
    members = (f"{quoted(name)}:{space}{_value(rng, depth - 1, repeats)}" for name in kept)
    return "{" + space + f",{space}".join(members) + "}"


def _value(rng: random.Random, depth: int, repeats: bool) -> str:
    kind = rng.randrange(5 if depth > 0 else 2)
    if kind == 0:
        return rng.choice(["1", "-1.0", "true", "null", "false"])
    if kind == 1:
        return rng.choice(['""', '"a"', '"\\"a\\""', '"\\/"', '"{\\\\"', '"a\\":1,\\"a"', '"é"'])
    if kind == 2:
        return "[" + ",".join(_value(rng, depth - 1, repeats) for _ in range(rng.randrange(3))) + "]"
    return random_text(rng, depth, repeats=repeats)
