"""What the frontend gates draw: a vocabulary with the tool tokens, tools, a choice, walks of their language.

A walk takes random legal tokens; now and then it plans a piece of a call's text and takes tokens of any size
that spell it, so that values, calls and outputs end.
"""

import json
import random
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
from attrs import frozen

from engine.frontend.framing import OutputIds
from engine.frontend.output_language import OutputLanguage
from engine.request import ToolChoice, ToolDeclaration
from engine.text.compiler import ConstraintCompiler
from engine.text.vocabulary import TokenClass, Vocabulary, toy_vocabulary
from experiments.vocabularies import vocabulary_of

ALPHABET = 'abcdefilmnoprstuvxy_ \n"\\{}[]:,.-0123456789<>/=é'
MERGES = (
    *(
        b"\n\n",
        b"\na",
        b">\n",
        b"\n</",
        b"\n<",
        b"\n</parameter>",
        b"=a>",
        b"a>\n",
        b"ab",
        b"a\n</parameter>\n",
    ),
    *(b'": ', b'"a"', b"<parameter=", b"</function>\n", b"1\n", b", ", b"e>\n<"),
)
CONTROL = ("<think>", "</think>", "<tool_call>", "</tool_call>")
TOOL_NAMES = ("f", "set", "b_1")
PARAMETER_NAMES = ("a", "ab", "city", "é")
STRICT_PARTS: tuple[Any, ...] = (
    {"type": "string"},
    {"type": "string", "maxLength": 4},
    {"type": "integer", "minimum": -5, "maximum": 20},
    {"type": "boolean"},
    {"type": ["integer", "null"]},
    {"enum": ["ab", "b\n", ""]},
    {"const": 12},
    {"type": "array", "items": {"type": "integer"}, "maxItems": 2},
    {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False},
)
LOOSE_PARTS: tuple[Any, ...] = (
    *({"type": "string"}, {"type": "integer"}, {"type": ["boolean", "null"]}, {"description": "untyped"}),
    *(
        {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        {"oneOf": [{"type": "array"}, {"type": "object"}]},
    ),
)
ENDS = ("\n</parameter>\n", "\n</parameter>\n</function>\n", "</function>\n")
PLANS = (
    *(*ENDS, *ENDS, "<parameter=a>\n", "<parameter=ab>\n", "<parameter=city>\n", "\n</param", "</parameter>"),
    *("true", "True", "null", "12", "NaN", '{"a": 1}', '"', "]", "}", "[1,", " ", "\n"),
)
PLANNED, LONGEST_PIECE = 0.3, 16


@frozen(eq=False)
class FrontendWorld:
    """A vocabulary with its compiler and the ids of the text tokens by their bytes."""

    vocabulary: Vocabulary
    compiler: ConstraintCompiler
    ids: OutputIds
    by_bytes: Mapping[bytes, int]

    @property
    def missing(self) -> str:
        """Why there are no calls over this vocabulary, "" where there are."""
        lacks = self.ids.tool_open is None or self.ids.tool_close is None
        return "the vocabulary has no tokens that open and close a call" if lacks else ""


@cache
def frontend_world(vocab: str) -> FrontendWorld:
    """The world of a vocabulary; the toy one gets the tokens of calls, which the plain one lacks."""
    vocabulary = toy_vocabulary(ALPHABET, MERGES, control=CONTROL) if vocab == "toy" else vocabulary_of(vocab)
    text = vocabulary.ids_of(TokenClass.TEXT)
    by_bytes = {vocabulary.token_bytes[i]: int(i) for i in text}
    return FrontendWorld(vocabulary, ConstraintCompiler(vocabulary), OutputIds.of(vocabulary), by_bytes)


def random_tools(rng: random.Random) -> list[ToolDeclaration]:
    """One to three tools, strict or not."""
    return [_tool(rng, name) for name in rng.sample(TOOL_NAMES, rng.randint(1, 3))]


def _tool(rng: random.Random, name: str) -> ToolDeclaration:
    strict = rng.random() < 0.5
    names = rng.sample(PARAMETER_NAMES, rng.randint(0, 3))
    parts = {key: rng.choice(STRICT_PARTS if strict else LOOSE_PARTS) for key in names}
    schema: dict[str, Any] = {"type": "object", "properties": parts}
    if strict:
        schema |= {"required": [key for key in names if rng.random() < 0.5], "additionalProperties": False}
    return ToolDeclaration(name, json.dumps(schema), strict=strict)


def random_choice(rng: random.Random, tools: list[ToolDeclaration]) -> ToolChoice:
    """A call required or not, sometimes of some tools only, or of one call only."""
    names = tuple(tool.name for tool in tools)
    allowed = None if rng.random() < 0.6 else tuple(rng.sample(names, rng.randint(1, len(names))))
    mode = "required" if rng.random() < 0.8 else "auto"
    return ToolChoice(mode=mode, allowed_names=allowed, parallel=rng.random() < 0.7)


def random_walk(
    rng: random.Random, world: FrontendWorld, language: OutputLanguage, max_tokens: int
) -> list[int] | None:
    """A random output with its completion id, None where it does not end within the budget."""
    matcher, walk, plan = language.new_matcher(), list[int](), b""
    row = np.zeros(world.vocabulary.num_words, dtype=np.int32)
    while len(walk) < max_tokens:
        matcher.fill_words(row)
        if not plan and rng.random() < PLANNED:
            plan = rng.choice(PLANS).encode()
        token_id, plan = _next(rng, world, row, plan)
        walk.append(token_id)
        if token_id in world.vocabulary.eos_ids:
            return walk
        matcher.preview([token_id])
        matcher.confirm()
    return None


def _next(rng: random.Random, world: FrontendWorld, row: np.ndarray, plan: bytes) -> tuple[int, bytes]:
    """A token, and what is left of the plan; a plan that is not legal is dropped."""
    sizes = range(1, min(len(plan), LONGEST_PIECE) + 1)
    pieces = {size: world.by_bytes[plan[:size]] for size in sizes if plan[:size] in world.by_bytes}
    fitting = [size for size, token_id in pieces.items() if row[token_id // 32] >> (token_id % 32) & 1]
    if fitting:
        size = rng.choice(fitting)
        return pieces[size], plan[size:]
    legal = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
    marks = [*world.vocabulary.eos_ids, world.ids.tool_open]
    steering = [int(i) for i in np.intersect1d(legal, [i for i in marks if i is not None])]
    return rng.choice(steering) if steering and rng.random() < 0.4 else int(rng.choice(legal)), b""
