"""Writes a neutral syntax tree as GBNF text, plainly or in any of many equal spellings.

`maybe(share)` decides, each time it is asked, whether a rarer spelling is used: escapes, comments, line
breaks (a `|` on the next line included), needless groups, counted forms of `* + ?`, split literals and
`(= ...)` hints. None of them changes the language.
"""

from collections.abc import Callable, Mapping

from oracles.expressions import Alt, CharClass, Expression, Literal, Ref, Repeat, Seq, TokenSet

Maybe = Callable[[float], bool]
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\"}
_COMMENTS = ("# plain", '# "quoted" ::= [x', "#")


def never(share: float) -> bool:
    """Answer every spelling question with the plain spelling."""
    return False


def gbnf(rules: Mapping[str, Expression], maybe: Maybe = never) -> str:
    """Return the rules as GBNF text; the entry rule is the one named `root`."""
    writer = _Writer(maybe)
    return "".join(writer.rule(name, body) for name, body in rules.items())


class _Writer:
    def __init__(self, maybe: Maybe) -> None:
        self.maybe = maybe

    def rule(self, name: str, body: Expression) -> str:
        comment = self.comment() + "\n" if self.maybe(0.1) else ""
        hint = ' (="' + ("x" if self.maybe(0.5) else "") + '")' if self.maybe(0.05) else ""
        arrow = "::=" if self.maybe(0.2) else " ::= "
        end = " " + self.comment() + "\n" if self.maybe(0.1) else "\n"
        return f"{comment}{name}{arrow}{self.options(body)}{hint}{end}"

    def comment(self) -> str:
        return _COMMENTS[2 * self.maybe(0.3) or 1 * self.maybe(0.5)]

    def gap(self) -> str:
        """White space between two symbols, which may hold line breaks and comments."""
        if not self.maybe(0.25):
            return " "
        if self.maybe(0.4):
            return "\n  "
        return " " + self.comment() + "\n\t" if self.maybe(0.4) else " \t "

    def options(self, node: Expression) -> str:
        if isinstance(node, Alt):
            return (self.gap() + "|" + self.gap()).join(self.sequence(option) for option in node.options)
        return self.sequence(node)

    def sequence(self, node: Expression) -> str:
        if isinstance(node, Seq):
            return self.gap().join(self.element(part) for part in node.parts) or self.empty()
        return self.element(node)

    def empty(self) -> str:
        return "()" if self.maybe(0.2) else '""'

    def element(self, node: Expression) -> str:
        if isinstance(node, Alt | Seq) or self.maybe(0.05):
            return self.group(node)
        if isinstance(node, Literal):
            return self.literal(node.text)
        if isinstance(node, CharClass):
            return self.char_class(node)
        if isinstance(node, TokenSet):
            name = "ExcludeToken" if node.exclude else "Token"
            return f"{name}({', '.join(map(str, node.ids))})"
        if isinstance(node, Ref):
            return node.name
        return self.repeat(node)

    def group(self, node: Expression) -> str:
        before, after = (self.gap() if self.maybe(0.3) else "" for _ in range(2))
        return f"({before}{self.options(node)}{after})"

    def repeat(self, node: Repeat) -> str:
        body = self.group(node.body) if isinstance(node.body, Repeat) else self.element(node.body)
        short = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((node.low, node.high))
        if short is not None and not self.maybe(0.2):
            return body + short
        if node.low == node.high and not self.maybe(0.3):
            return f"{body}{{{node.low}}}"
        return f"{body}{{{node.low},{'' if node.high is None else node.high}}}"

    def literal(self, text: str) -> str:
        if len(text) > 1 and self.maybe(0.1):
            return f"({self.literal(text[:1])}{self.gap()}{self.literal(text[1:])})"
        return '"' + "".join(self.character(c, '"') for c in text) + '"'

    def char_class(self, node: CharClass) -> str:
        spans = [self.span(low, high) for low, high in node.ranges]
        if self.maybe(0.5):
            spans.reverse()
        return "[" + ("^" if node.negated else "") + "".join(spans) + "]"

    def span(self, low: int, high: int) -> str:
        first, last = (self.character(chr(code), "]-^[") for code in (low, high))
        return first if low == high else f"{first}-{last}"

    def character(self, character: str, special: str) -> str:
        code = ord(character)
        if code <= 0xFF and self.maybe(0.1):
            return f"\\x{code:02x}"
        if code <= 0xFFFF and self.maybe(0.1):
            return f"\\u{code:04X}"
        if self.maybe(0.05):
            return f"\\U{code:08x}"
        if character in _NAMED:
            return _NAMED[character]
        if code < 0x20 or code == 0x7F:
            return f"\\x{code:02x}"
        if character not in special:
            return character
        return '\\"' if character == '"' else f"\\x{code:02x}"
