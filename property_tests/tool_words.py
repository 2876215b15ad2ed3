"""A vocabulary with tokens that cross every border of a tool call, and the same language as a naive parser's.

The parser's grammar is written out from the text format, byte by byte; that a name stands once in a call is
told by reading the whole text again for each token.
"""

import functools
import json
import re

import numpy as np

from engine.frontend.framing import OutputIds
from engine.frontend.output_language import output_language
from engine.frontend.tool_contract import tool_contract
from engine.request import ToolChoice, ToolDeclaration
from engine.text.compiler import ConstraintCompiler
from engine.text.vocabulary import TokenClass, toy_vocabulary
from oracles.grammar_prefix import Earley, Tokens

ALPHABET = 'abcdefghijklmnoprstuvxz_ \n"\\{}[]:,.-0123456789<>/=é'
MERGES = (
    b"\n\n", b"\n\n\n", b"\n\na", b">\n", b"\n</", b"\n<", b"</parameter>", b"<parameter=", b"=a>", b"a>\n",
    b"=a", b"ab", b"a>", b"b>\na", b"parameter", b"function", b">\n\n", b"\na", b'{"', b'": ', b'"a"', b'":',
    b"</function>\n", b"a\n</parameter>\n<parameter=a>\n", b"=ab>", b"x>", b'", "', b"1\n", b"\n</parameter>",
)  # fmt: skip
VOCABULARY = toy_vocabulary(ALPHABET, MERGES, control=("<think>", "</think>", "<tool_call>", "</tool_call>"))
IDS = OutputIds.of(VOCABULARY)
TEXT_BYTES = [
    data if kind is TokenClass.TEXT else None
    for data, kind in zip(VOCABULARY.token_bytes, VOCABULARY.classes, strict=True)
]
EOS = VOCABULARY.eos_ids[0]


@functools.cache
def compiler():
    """The compiler of the vocabulary, made once."""
    return ConstraintCompiler(VOCABULARY)


def strict(name, properties, required=(), **more):
    """A strict tool."""
    schema = {"type": "object", "properties": properties, "required": list(required), **more}
    return ToolDeclaration(name, json.dumps({"additionalProperties": False, **schema}), strict=True)


def language(tools=(), constraint=None, *, thinking=False, prefix="", core=None, **choice):
    """The language of an output."""
    contract = tool_contract(tools, ToolChoice(**choice), constraint) if tools else None
    return output_language(compiler(), constraint, contract, thinking=thinking, prefix=prefix, core=core)


def tokens(text):
    """A text as single bytes, the marks in angle brackets that are ids as ids."""
    ids = {"</think>": IDS.think_close, "<tool_call>": IDS.tool_open, "</tool_call>": IDS.tool_close}
    found = []
    for part in re.split("(</think>|</?tool_call>)", text):
        found += [ids[part]] if part in ids else [TEXT_BYTES.index(bytes([byte])) for byte in part.encode()]
    return found


def legal(matcher):
    """The legal ids of a matcher."""
    row = np.zeros(VOCABULARY.num_words, dtype=np.int32)
    matcher.fill_words(row)
    return set(np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist())


def take(matcher, token_ids):
    """Commit tokens."""
    matcher.preview(token_ids)
    matcher.confirm()


def accepts(found, text, *, ends=True):
    """Whether a language takes a text byte by byte, and may end behind it."""
    matcher = found.new_matcher()
    for token_id in tokens(text):
        if token_id not in legal(matcher):
            return False
        take(matcher, [token_id])
    return (EOS in legal(matcher)) == ends


def call(name, *pairs):
    """A call as text."""
    inside = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in pairs)
    return f"<tool_call>\n<function={name}>\n{inside}</function>\n</tool_call>"


def literal(text):
    """The items of a parser for a fixed text."""
    return tuple(frozenset([byte]) for byte in text.encode())


LEADS = frozenset(range(0xC2, 0xE0))
CHARACTER = {"character": [(frozenset(range(0x80)),), (LEADS, frozenset(range(0x80, 0xC0)))]}


def parser_of_free_tool(name):
    """The parser of text, then calls of one tool that is not strict; a value by states of its own."""
    end = b"\n</parameter>"
    rules = {
        **CHARACTER,
        "output": [("text", "calls"), ("text",)],
        "text": [(), ("character", "text")],
        "calls": [("call",), ("call", *literal("\n"), "calls")],
        "call": [
            (
                Tokens(frozenset([IDS.tool_open])),
                *literal(f"\n<function={name}>\n"),
                "arguments",
                *literal("</function>\n"),
                Tokens(frozenset([IDS.tool_close])),
            )
        ],
        "arguments": [
            (),
            (*literal("<parameter="), "name", *literal(">\n"), "v0", *literal("\n"), "arguments"),
        ],
        "name": [("name_character",), ("name_character", "name")],
        "name_character": [
            (frozenset(range(0x80)) - frozenset(b"<>\r\n"),),
            (LEADS, frozenset(range(0x80, 0xC0))),
        ],
    }
    for state in range(len(end)):
        options = []
        for byte in range(0x80):
            seen = end[:state] + bytes([byte])
            after = next(size for size in range(len(seen), -1, -1) if end[:size] == seen[len(seen) - size :])
            options.append((frozenset([byte]),) if after == len(end) else (frozenset([byte]), f"v{after}"))
        options.append((LEADS, frozenset(range(0x80, 0xC0)), "v0"))
        rules[f"v{state}"] = options
    return Earley(rules, "output")


def repeats_a_name(text):
    """Whether a text of calls, cut anywhere, has completed a name twice in one call."""
    for part in text.split("<tool_call>")[1:]:
        names, place = [], part.find(">\n")
        while place >= 0:
            found = re.match(r"<parameter=([^<>\r\n]+)>", part[place + 2 :])
            if not found:
                break
            names.append(found[1])
            begin = place + 2 + found.end() + 1
            closed = part.find("\n</parameter>", begin)
            place = -1 if closed < 0 else closed + len("\n</parameter>") - 1
            if closed >= 0 and part[place : place + 2] != ">\n":
                break
        if len(set(names)) < len(names):
            return True
    return False


def text_of(token_ids):
    """The text of tokens, ids by their spelling; a cut character replaced."""
    return b"".join(VOCABULARY.token_bytes[i] for i in token_ids).decode(errors="replace")
