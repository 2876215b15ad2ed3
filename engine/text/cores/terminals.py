"""Regular expressions of the grammar form as text for llguidance's lexer (Rust syntax).

Every character is written by its code point, so nothing in the text can be taken for an operator.
"""

from engine.text.rules import Alt, Bytes, Chars, Expr, Repeat, Seq, fold


def rust_class(characters: Chars) -> str:
    """One character class by its ranges."""
    parts = (_range(low, high) for low, high in characters.ranges)
    return f"[{''.join(parts)}]"


def _range(low: int, high: int) -> str:
    return f"\\x{{{low:x}}}" if low == high else f"\\x{{{low:x}}}-\\x{{{high:x}}}"


def rust_regex(expr: Expr) -> str:
    """An expression without references or token terminals as a pattern; groups do not capture."""

    def visit(node: Expr, parts: list[str]) -> str:
        match node:
            case Bytes():
                return "(?:" + "".join(f"\\x{{{ord(c):x}}}" for c in node.data.decode()) + ")"
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


def count_sign(node: Repeat) -> str:
    """The counts of a repetition as `?`, `*`, `+` or `{m,n}`."""
    signs = {(0, 1): "?", (0, None): "*", (1, None): "+"}
    sign = signs.get((node.min, node.max))
    return sign or f"{{{node.min},{'' if node.max is None else node.max}}}"
