"""White space between JSON tokens, as part of the punctuation terminals (JSON-10 to JSON-12, SERV-18).

A run of white space belongs to exactly one terminal, so that its bound holds and the lexer never has to
guess: commas and colons carry both sides, brackets their inner side, an empty pair is a terminal of its own.
"""

import functools

import attrs

from engine.request import Whitespace
from engine.text.expr import EPSILON, Bytes, Expr, Lexeme, Repeat, chars, literal, seq
from engine.text.schema.numbers import literal_texts
from engine.text.schema.source import Number, Value, quoted

LONGEST_RUN = 32
SPACE = chars([(ord(character), ord(character)) for character in " \t\n\r"])


@attrs.frozen
class Layout:
    """The separators of one white-space policy as regular expressions."""

    comma: Expr
    colon: Expr
    inside: Expr  # after an opening bracket, before a closing one, or alone between them

    @classmethod
    @functools.cache
    def of(cls, policy: Whitespace) -> "Layout":
        """The layout of a policy; `fixed` is the separators `, ` and `: ` exactly."""
        if policy is Whitespace.COMPACT:
            return cls(literal(","), literal(":"), EPSILON)
        if policy is Whitespace.FIXED:
            return cls(literal(", "), literal(": "), EPSILON)
        run = Repeat(SPACE, 0, LONGEST_RUN)
        return cls(seq([run, literal(","), run]), seq([run, literal(":"), run]), run)

    @functools.cache  # noqa: B019 - there are three layouts
    def opening(self, bracket: str) -> Lexeme:
        """An opening bracket before a first member or item."""
        return Lexeme(seq([literal(bracket), self.inside]))

    @functools.cache  # noqa: B019 - there are three layouts
    def closing(self, bracket: str) -> Lexeme:
        """A closing bracket after the last member or item."""
        return Lexeme(seq([self.inside, literal(bracket)]))

    @functools.cache  # noqa: B019 - there are three layouts
    def empty(self, brackets: str) -> Lexeme:
        """Both brackets with nothing but white space between them."""
        return Lexeme(seq([literal(brackets[0]), self.inside, literal(brackets[1])]))

    def constant(self, value: Value) -> Expr:
        """The texts of one value: white space between its tokens, all else as serialised (JSON-12).

        Each token is a terminal of its own, the same as in free arrays and objects: a terminal that held a
        whole array would swallow the beginning of other arrays that may stand in the same place.
        """
        parts: list[Expr] = []
        stack: list[Value | Expr] = [value]
        while stack:
            part = stack.pop()
            if isinstance(part, list | dict):
                stack += reversed(self._pieces(part))
            elif isinstance(part, str):
                parts.append(Lexeme(Bytes(quoted(part).encode())))
            elif isinstance(part, Number):
                parts.append(Lexeme(literal(part.text)))
            elif part is None or isinstance(part, bool):
                parts.append(Lexeme(literal({None: "null", True: "true", False: "false"}[part])))
            else:
                parts.append(part)
        return seq(parts)

    def _pieces(self, value: list[Value] | dict[str, Value]) -> list[Value | Expr]:
        brackets = "{}" if isinstance(value, dict) else "[]"
        if not value:
            return [self.empty(brackets)]
        pieces: list[Value | Expr] = [self.opening(brackets[0])]
        items = value.items() if isinstance(value, dict) else ((None, item) for item in value)
        for index, (name, item) in enumerate(items):
            pieces += [Lexeme(self.comma)] if index else []
            pieces += [] if name is None else [name, Lexeme(self.colon)]
            pieces.append(item)
        return [*pieces, self.closing(brackets[1])]


def spellings(number: Number) -> tuple[str, ...]:
    """The texts a listed number is generated in."""
    return (number.text,) if number.plain else literal_texts(number.text)
