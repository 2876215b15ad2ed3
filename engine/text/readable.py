"""Grammars and regular expressions as text for people: what explain-schema prints. Nothing reads it back.

Terminals stand between slashes, `.` is any character at all; `&` and `& ~` narrow a terminal to members of
another expression, or of none. A terminal that is long, or has a name, is written once below the rules.
"""

import json
from collections.abc import Iterator, Mapping

from engine.text.expr import (
    Alt,
    Bytes,
    Chars,
    ExcludeToken,
    Expr,
    Grammar,
    Lexeme,
    Ref,
    Repeat,
    Seq,
    Token,
    children,
    fold,
    negated,
)

ALTERNATION, SEQUENCE, ATOM = range(3)  # how tightly a text holds together
LARGEST = 4000  # parts, shared ones counted at every use; a larger expression is not written
SHORT = 28  # a terminal up to this length stands where it is used
OPERATORS = frozenset(".^$*+?()[]{}|\\/")
CLASS_OPERATORS = frozenset("]^-\\/")
ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
Text = tuple[str, int]


def regex_text(expr: Expr) -> str:
    """A regular expression without its slashes; for a huge one, words that say so."""
    if not _is_small(expr):
        return f"(an expression of more than {LARGEST} parts)"
    return fold(expr, _written)[0]


def _is_small(expr: Expr) -> bool:
    num_parts, stack = 0, [expr]
    while stack and num_parts <= LARGEST:
        num_parts += 1
        stack += children(stack.pop())
    return num_parts <= LARGEST


def _written(node: Expr, parts: list[Text]) -> Text:
    match node:
        case Bytes(data):
            text = data.decode(errors="backslashreplace")
            written = "".join(_character(c, OPERATORS) for c in text)
            return written or "()", ATOM if len(text) == 1 else SEQUENCE
        case Chars():
            return _class(node), ATOM
        case Seq():
            return "".join(_held(part, SEQUENCE) for part in parts), SEQUENCE
        case Alt():
            if not parts:
                return "(nothing)", ATOM
            return "|".join(_held(part, ALTERNATION) for part in parts), ALTERNATION
        case Repeat():
            return _held(parts[0], ATOM) + count_text(node), SEQUENCE
    raise AssertionError(f"no part of a regular expression: {node!r}")


def _held(part: Text, level: int) -> str:
    text, holds = part
    return text if holds >= level else f"({text})"


def _character(character: str, operators: frozenset[str]) -> str:
    if character in ESCAPES:
        return ESCAPES[character]
    if character in operators:
        return "\\" + character
    if character.isprintable():
        return character
    return f"\\x{ord(character):02x}" if ord(character) < 256 else f"\\u{{{ord(character):x}}}"


def _class(characters: Chars) -> str:
    """One class, by the characters outside where these are fewer ranges."""
    others = negated(characters)
    if not others.ranges:
        return "."
    inverse = len(others.ranges) < len(characters.ranges)
    ranges = others.ranges if inverse else characters.ranges
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1] and not inverse:
        return _character(chr(ranges[0][0]), OPERATORS)
    return f"[{'^' if inverse else ''}{''.join(map(_range, ranges))}]"


def _range(ends: tuple[int, int]) -> str:
    low, high = (_character(chr(end), CLASS_OPERATORS) for end in ends)
    if low == high:
        return low
    return low + high if ends[0] + 1 == ends[1] else f"{low}-{high}"


def count_text(node: Repeat) -> str:
    """The counts of a repetition as `?`, `*`, `+`, `{m}`, `{m,}` or `{m,n}`."""
    signs = {(0, 1): "?", (0, None): "*", (1, None): "+"}
    if (node.min, node.max) in signs:
        return signs[node.min, node.max]
    if node.min == node.max:
        return f"{{{node.min}}}"
    return f"{{{node.min},{'' if node.max is None else node.max}}}"


def grammar_text(grammar: Grammar, names: Mapping[Lexeme, str]) -> Iterator[str]:
    """The rules in order, the root first, then the terminals they name, one a line."""
    writer = _Writer(names)
    order = [grammar.root, *(name for name in grammar.rules if name != grammar.root)]
    for name in order:
        yield f"{name} ::= {fold(grammar.rules[name], writer.visit)[0]}"
    for name, text in writer.terminals.items():
        yield f"{name} ::= {text}"


class _Writer:
    """Writes expressions of rules; `terminals` gathers what is written by name."""

    def __init__(self, names: Mapping[Lexeme, str]) -> None:
        self._names = names
        self._given: dict[str, str] = {}
        self.terminals: dict[str, str] = {}

    def visit(self, node: Expr, parts: list[Text]) -> Text:
        match node:
            case Seq():
                return " ".join(_held(part, SEQUENCE) for part in parts), SEQUENCE
            case Alt():
                return " | ".join(_held(part, ALTERNATION) for part in parts), ALTERNATION
            case Repeat():
                return _held(parts[0], ATOM) + count_text(node), ATOM
            case Ref(name):
                return name, ATOM
            case Token(ids) | ExcludeToken(ids):
                return f"{type(node).__name__}({', '.join(map(str, ids))})", ATOM
            case Lexeme():
                return self._terminal(node), ATOM
            case Bytes(data):
                return json.dumps(data.decode(errors="backslashreplace"), ensure_ascii=False), ATOM
        return _written(node, parts)

    def _terminal(self, lexeme: Lexeme) -> str:
        parts = [lexeme.body, *lexeme.also, *lexeme.never]
        marks = ["", *[" & "] * len(lexeme.also), *[" & ~"] * len(lexeme.never)]
        text = "".join(f"{mark}/{regex_text(part)}/" for mark, part in zip(marks, parts, strict=True))
        name = self._names.get(lexeme) or self._given.get(text)
        if name is None:
            if len(text) <= SHORT:
                return text
            name = self._given[text] = f"T{len(self._given)}"
        self.terminals[name] = text
        return name
