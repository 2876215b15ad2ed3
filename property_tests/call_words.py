"""Tools, calls and awkward values, and a vocabulary whose tokens cut and join their texts everywhere."""

import json
import random

from hypothesis import strategies as st

from engine.frontend.tool_contract import ToolContract, tool_contract
from engine.request import ToolChoice, ToolDeclaration
from engine.text.vocabulary import TokenClass, Vocabulary

CONTROL = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
JOINED = (
    *(b"\n\n", b"\n\n\n", b"\n\nab", b"ab", b'\n\n{"', b"\n<", b"<function", b"=get", b"_weather", b">\n"),
    *(b"<parameter=", b"</parameter", b"</parameter>\n", b"\n</parameter>", b"\n</parameter>\n</function>\n"),
    *(b">\n</", b"</function>\n", b"\n</parameter>\n<parameter=", b"city>\n", b"aa", b"ab\n", b'":', b'\\"'),
    *(b"\xc3\xa9", b"\xf0\x9f", b"\x98\x80", b"\xa9a", b"true", b"12", b", ", b'": "', b"</", b"tool_call>"),
    *(b"think>", b"  ", b" \n", b"a \n\n"),
)
VALUE_PARTS = (
    *("a", "ab", " ", "\n", "\n\n", "é", "😀", '"', "\\", "\x01", "\u2028", "</parameter>", "<parameter=a>"),
    *(
        "</function>",
        "<tool_call>",
        "</tool_call>",
        "</think>",
        "<function=f>",
        "\n</param",
        "</parameter>\n",
    ),
    *("true", "True", "null", "12", "-1.5e3", "NaN", '{"a": 1}', '{"a":"</parameter>"}', "[1,", "\r\n"),
)
STRING, INTEGER, BOOLEAN = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}
OBJECT = {"type": "object", "properties": {"a": STRING, "b": INTEGER}, "additionalProperties": False}
LOOSE = {
    "type": "object",
    "properties": {
        "city": STRING,
        "days": INTEGER,
        "flag": {"type": ["boolean", "null"]},
        "any": {"description": "untyped"},
        "é": {"anyOf": [{"type": "string"}, INTEGER]},
        "list": {"oneOf": [{"type": "array"}, {"type": "object"}]},
    },
}
STRICT = {
    "type": "object",
    "properties": {"city": STRING, "days": INTEGER, "flag": BOOLEAN, "box": OBJECT, "mark": {"const": "\n"}},
    "required": ["city"],
    "additionalProperties": False,
}
SCHEMAS = {"loose": (LOOSE, False), "strict": (STRICT, True), "empty": ({"type": "object"}, False)}


def tool_vocabulary() -> Vocabulary:
    """All 256 bytes, joined tokens, the control tokens with a spelled twin of each, two completion ids."""
    texts = [bytes([byte]) for byte in range(256)] + list(JOINED)
    tokens = [*(mark.encode() for mark in CONTROL), *texts, *(mark.encode() for mark in CONTROL)]
    control = dict(enumerate(CONTROL))
    tokens += [b"<|im_end|>", b"<|endoftext|>", b"<|mask|>"]
    last = len(tokens) - 1
    return Vocabulary.build(
        "tools", tokens, control=control, eos_ids=[last - 2, last - 1], ungenerable=[last]
    )


VOCABULARY = tool_vocabulary()
IDS = {mark: index for index, mark in enumerate(CONTROL)}
EOS = VOCABULARY.eos_ids[0]
BY_BYTES = {
    data: token_id
    for token_id, (data, kind) in enumerate(zip(VOCABULARY.token_bytes, VOCABULARY.classes, strict=True))
    if kind is TokenClass.TEXT
}
LONGEST = max(map(len, BY_BYTES))


def declaration(name, schema, *, strict=False) -> ToolDeclaration:
    """A tool with a schema given as a value."""
    return ToolDeclaration(name, json.dumps(schema), strict=strict)


def contract(schemas=SCHEMAS, **choice) -> ToolContract:
    """The contract of some tools: by name, their schema and whether they are strict."""
    tools = [declaration(name, schema, strict=strict) for name, (schema, strict) in schemas.items()]
    return tool_contract(tools, ToolChoice(**choice))


def byte_ids(text: str) -> list[int]:
    """A text in single-byte tokens."""
    return [BY_BYTES[bytes([byte])] for byte in text.encode()]


def random_ids(text: str, rng: random.Random) -> list[int]:
    """A text in tokens of any size, control marks as the text they are."""
    data, place, found = text.encode(), 0, []
    while place < len(data):
        ends = [end for end in range(place + 1, place + LONGEST + 1) if data[place:end] in BY_BYTES]
        end = rng.choice([end for end in ends if end <= len(data)])
        found.append(BY_BYTES[data[place:end]])
        place = end
    return found


def call_ids(text: str, rng: random.Random | None = None) -> list[int]:
    """One call as tokens: its first and last mark by their ids, all between as text."""
    inside = text.removeprefix("<tool_call>").removesuffix("</tool_call>")
    middle = byte_ids(inside) if rng is None else random_ids(inside, rng)
    return [IDS["<tool_call>"], *middle, IDS["</tool_call>"]]


def calls_ids(texts, rng: random.Random | None = None) -> list[int]:
    """Calls one line feed apart, as tokens."""
    found: list[int] = []
    for text in texts:
        found += byte_ids("\n") if found else []
        found += call_ids(text, rng)
    return found


def texts() -> st.SearchStrategy[str]:
    """Values that a parameter's text can hold."""
    parts = st.lists(st.sampled_from(VALUE_PARTS), max_size=6).map("".join)
    return parts.filter(lambda text: "\n</parameter>" not in text)


def loose_arguments() -> st.SearchStrategy[dict[str, str]]:
    """Arguments of a tool that is not strict, any names, as they are written."""
    names = st.sampled_from([*LOOSE["properties"], "other", '"', "a b", "\\"])
    return st.dictionaries(names, texts(), max_size=5)


def strict_arguments() -> st.SearchStrategy[dict[str, object]]:
    """Arguments that the strict tool allows, in declared order."""
    box = st.fixed_dictionaries({}, optional={"a": texts(), "b": st.integers(-9, 9)})
    optional = {"days": st.integers(-99, 99), "flag": st.booleans(), "box": box, "mark": st.just("\n")}
    made = st.fixed_dictionaries({"city": texts()}, optional=optional)
    return made.map(lambda found: {name: found[name] for name in STRICT["properties"] if name in found})


def calls() -> st.SearchStrategy[list[tuple[str, dict[str, object]]]]:
    """Up to three calls of the three tools."""
    loose = st.tuples(st.sampled_from(["loose", "empty"]), loose_arguments())
    strict = st.tuples(st.just("strict"), strict_arguments())
    return st.lists(st.one_of(loose, strict), min_size=1, max_size=3)
