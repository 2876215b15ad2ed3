"""White space between JSON tokens, as part of the punctuation terminals (JSON-10 to JSON-12, SERV-18).

A run of white space belongs to exactly one terminal, so that its bound holds and the lexer never has to guess:
commas and colons carry both sides, brackets their inner side, and an empty pair is a terminal of its own.
"""

import attrs

from engine.request import Whitespace
from engine.text.expr import EPSILON, Bytes, Expr, Lexeme, Repeat, chars, literal, seq
from engine.text.schema.source import Number, Value, quoted
from engine.text.schema.strings import json_text

LONGEST_RUN = 32
SPACE = chars([(ord(character), ord(character)) for character in " \t\n\r"])


@attrs.frozen
class Layout:
    """The separators of one white-space policy as regular expressions."""

    comma: Expr
    colon: Expr
    inside: Expr  # after an opening bracket, before a closing one, or alone between them

    @classmethod
    def of(cls, policy: Whitespace) -> "Layout":
        """The layout of a policy; `fixed` is the separators `, ` and `: ` exactly."""
        if policy is Whitespace.COMPACT:
            return cls(literal(","), literal(":"), EPSILON)
        if policy is Whitespace.FIXED:
            return cls(literal(", "), literal(": "), EPSILON)
        run = Repeat(SPACE, 0, LONGEST_RUN)
        return cls(seq([run, literal(","), run]), seq([run, literal(":"), run]), run)

    def opening(self, bracket: str) -> Lexeme:
        """An opening bracket before a first member or item."""
        return Lexeme(seq([literal(bracket), self.inside]))

    def closing(self, bracket: str) -> Lexeme:
        """A closing bracket after the last member or item."""
        return Lexeme(seq([self.inside, literal(bracket)]))

    def empty(self, brackets: str) -> Lexeme:
        """Both brackets with nothing but white space between them."""
        return Lexeme(seq([literal(brackets[0]), self.inside, literal(brackets[1])]))

    def constant(self, value: Value) -> Expr:
        """The texts of one value: white space between its tokens, everything else as serialised (JSON-12)."""
        parts: list[Expr] = []
        stack: list[Value | Expr] = [value]
        while stack:
            part = stack.pop()
            if isinstance(part, list | dict):
                stack += reversed(self._pieces(part))
            elif isinstance(part, str):
                parts.append(Bytes(quoted(part).encode()))
            elif isinstance(part, Number):
                parts.append(literal(part.text))
            elif part is None or isinstance(part, bool):
                parts.append(literal({None: "null", True: "true", False: "false"}[part]))
            else:
                parts.append(part)
        return seq(parts)

    def _pieces(self, value: list[Value] | dict[str, Value]) -> list[Value | Expr]:
        opening, closing = "{}" if isinstance(value, dict) else "[]"
        if not value:
            return [seq([literal(opening), self.inside, literal(closing)])]
        pieces: list[Value | Expr] = [seq([literal(opening), self.inside])]
        items = value.items() if isinstance(value, dict) else ((None, item) for item in value)
        for index, (name, item) in enumerate(items):
            pieces += [self.comma] if index else []
            if name is not None:
                text = json_text(literal(name))
                pieces.append(seq([literal('"'), text, literal('"'), self.colon]))
            pieces.append(item)
        return [*pieces, seq([self.inside, literal(closing)])]
