"""Regular expressions of the grammar form as text for llguidance's lexer (Rust syntax).

Every character but ASCII letters and digits is written by its code point, so nothing in the text can be taken
for an operator.
"""

import functools
from collections import Counter
from collections.abc import Callable

from engine.text.expr import children
from engine.text.rules import Alt, Bytes, Chars, Expr, Repeat, Seq, fold, walk


def rust_class(characters: Chars) -> str:
    """One character class by its ranges."""
    parts = (_range(low, high) for low, high in characters.ranges)
    return f"[{''.join(parts)}]"


def _range(low: int, high: int) -> str:
    return _character(chr(low)) if low == high else f"{_character(chr(low))}-{_character(chr(high))}"


def _character(character: str) -> str:
    plain = character.isascii() and character.isalnum()
    return character if plain else f"\\x{{{ord(character):x}}}"


def rust_regex(expr: Expr) -> str:
    """An expression without references or token terminals as a pattern; groups do not capture."""

    def visit(node: Expr, parts: list[str]) -> str:
        match node:
            case Bytes():
                return "(?:" + "".join(map(_character, node.data.decode())) + ")"
            case Chars():
                return rust_class(node)
            case Seq():
                return "(?:" + "".join(parts) + ")"
            case Alt():
                return "(?:" + "|".join(parts) + ")"
            case Repeat():
                return f"(?:{parts[0]}{count_sign(node)})"  # bare, a second sign could make it lazy
        raise AssertionError(f"not a regular expression: {node!r}")

    return fold(expr, visit)


TREE_NODES = 4000  # a larger expression is written with names for its shared parts


@functools.lru_cache(maxsize=4096)
def _plain_text(expr: Expr) -> str | None:
    """An expression written out in full, None if too large; kept, because JSON's terminals come again."""
    return f"/{rust_regex(expr)}/" if _is_small(expr) else None


def terminal_text(expr: Expr, define: Callable[[str], str]) -> str:
    """A regular expression as the right side of a terminal.

    Shared parts are written again at every use, or, where that makes a huge text, once under a name that
    `define` gives to a text.
    """
    if isinstance(expr, Bytes):
        return "/" + "".join(map(_character, expr.data.decode())) + "/"
    plain = _plain_text(expr)
    if plain is not None:
        return plain
    uses = Counter(id(part) for node in walk(expr) for part in children(node))

    def visit(node: Expr, parts: list[tuple[str, int]]) -> tuple[str, int]:
        """Text, and how it binds: 0 atom, 1 sequence, 2 alternation."""
        match node:
            case Seq():
                text, binding = (
                    " ".join(part if inner < 2 else f"({part})" for part, inner in parts) or '""',
                    1,
                )
            case Alt():
                text, binding = " | ".join(part for part, _ in parts), 2
            case Repeat():
                part, inner = parts[0]
                text, binding = (f"({part})" if inner else part) + count_sign(node), 1
            case _:
                return f"/{rust_regex(node)}/", 0
        return (define(text), 0) if uses[id(node)] > 1 else (text, binding)

    return define(fold(expr, visit)[0])


def _is_small(expr: Expr) -> bool:
    """Whether the expression has few nodes, a shared one counted at every use."""
    num_nodes, stack = 0, [expr]
    while stack and num_nodes <= TREE_NODES:
        num_nodes += 1
        stack += children(stack.pop())
    return num_nodes <= TREE_NODES


def count_sign(node: Repeat) -> str:
    """The counts of a repetition as `?`, `*`, `+` or `{m,n}`."""
    signs = {(0, 1): "?", (0, None): "*", (1, None): "+"}
    sign = signs.get((node.min, node.max))
    return sign or f"{{{node.min},{'' if node.max is None else node.max}}}"
