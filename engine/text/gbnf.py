"""A user's direct grammar: GBNF text to rules (GBNF-1 to GBNF-6, contract 7 and 8).

`name ::= expression`; a rule name is the first thing on its line and a rule ends where the next one begins.
Literals, classes, `.` (any character), groups, `|`, `* + ? {m} {m,} {m,n}`, `Token(id, ...)`,
`ExcludeToken(id, ...)`; `#` comments. `\\xNN` is exactly two digits and names a code point. A `(= ...)` hint
may end a rule: its syntax is checked and it is dropped. Whatever would steer generation, and every other
macro, is refused. All nesting is kept on a list, so no source overflows a stack.
"""

from collections.abc import Sequence

import attrs

from engine.errors import Location, RefusedConstruct, SyntaxFault, TokenReferenceError, UnknownRule
from engine.text.expr import (
    EPSILON,
    ExcludeToken,
    Expr,
    Grammar,
    Ref,
    Token,
    alt,
    chars,
    literal,
    negated,
    repeat,
    seq,
)
from engine.text.gbnf_lexer import KIND, Lexeme, class_members, fault, lexemes, string_literal
from engine.text.limits import check_limit, check_source, position, read_count
from engine.text.rules import trim
from engine.text.shape import features
from engine.text.vocabulary import TokenClass, Vocabulary

ROOT = "root"
TOKEN_MACROS = ("Token", "ExcludeToken")
REFUSED_MACROS = ("TagDispatch", "TokenTagDispatch", "Regex", "Substring")
ANY = negated(chars([]))


@attrs.define
class _Group:
    """An open group: finished alternatives, and the items of the one being read. `(` , `(=` or a rule."""

    opened_by: str
    offset: int
    alternatives: list[Expr] = attrs.field(factory=list)
    items: list[Expr] = attrs.field(factory=list)
    may_repeat: bool = False


def parse_gbnf(source: str, vocabulary: Vocabulary) -> Grammar:
    """The trimmed grammar of GBNF text; token ids are checked against `vocabulary` (GBNF-1 to GBNF-6).

    Raises SyntaxFault, RefusedConstruct, TokenReferenceError, UnknownRule, LimitExceeded or EmptyLanguage,
    each with line and column.
    """
    check_source(source, KIND)
    parser = _Parser(source, vocabulary)
    parser.read()
    return parser.grammar()


class _Parser:
    def __init__(self, source: str, vocabulary: Vocabulary):
        self.source = source
        self.vocabulary = vocabulary
        self.lexemes: Sequence[Lexeme] = list(lexemes(source))
        self.index = 0
        self.rules: dict[str, Expr] = {}
        self.defined_at: dict[str, int] = {}
        self.used_at: dict[str, int] = {}
        self.groups: list[_Group] = []
        self.num_symbols = 0

    # Errors and small steps

    def where(self, offset: int) -> Location:
        return position(self.source, offset)

    def fault(self, message: str, lexeme: Lexeme, allowed: str) -> SyntaxFault:
        return fault(self.source, message, lexeme.offset, lexeme.text or "the end of the source", allowed)

    def count(self, symbols: int, lexeme: Lexeme) -> None:
        self.num_symbols += symbols
        check_limit("symbols", self.num_symbols, KIND, lambda: self.where(lexeme.offset))

    def peek(self, ahead: int = 0) -> Lexeme:
        return self.lexemes[min(self.index + ahead, len(self.lexemes) - 1)]

    def take(self) -> Lexeme:
        lexeme = self.peek()
        self.index += 1
        return lexeme

    def expect(self, text: str, allowed: str) -> Lexeme:
        lexeme = self.take()
        if lexeme.text != text:
            raise self.fault(f"'{text}' is missing", lexeme, allowed)
        return lexeme

    # Rules

    def read(self) -> None:
        """Read all rules into `rules`."""
        while self.peek().kind != "end":
            name = self.rule_name()
            self.rules[name] = self.rule_body()

    def starts_rule(self) -> bool:
        """Whether a name with `::=` comes next, or a name with options in brackets and then `::=`."""
        if self.peek().kind != "name":
            return False
        return self.peek(1).kind == "assign" or (
            self.peek(1).kind == "class" and self.peek(2).kind == "assign"
        )

    def rule_name(self) -> str:
        """Read `name ::=`."""
        lexeme = self.take()
        if lexeme.kind != "name":
            raise self.fault("a rule begins with its name", lexeme, "name ::= expression")
        if self.peek().kind == "class":
            raise RefusedConstruct(
                KIND,
                "rule options are not served: a grammar is a language and steers nothing else",
                self.where(self.peek().offset),
                self.peek().text[:40],
                "name ::= expression",
            )
        if self.peek().kind != "assign":
            raise self.fault("'::=' is missing after a rule's name", self.peek(), "name ::= expression")
        line_start = self.source.rfind("\n", 0, lexeme.offset) + 1
        if self.source[line_start : lexeme.offset].strip(" \t\r"):
            raise self.fault("a rule's name must be the first thing on its line", lexeme, "a line of its own")
        if lexeme.text in TOKEN_MACROS + REFUSED_MACROS:
            raise self.fault("a rule has a reserved name", lexeme, "any other name")
        if lexeme.text in self.rules:
            first = self.where(self.defined_at[lexeme.text])
            raise UnknownRule(
                KIND,
                f"a rule is defined twice, first at {first}",
                self.where(lexeme.offset),
                lexeme.text[:40],
                "one definition for each name",
            )
        self.take()
        self.defined_at[lexeme.text] = lexeme.offset
        check_limit("rules", len(self.defined_at), KIND, lambda: self.where(lexeme.offset))
        return lexeme.text

    def rule_body(self) -> Expr:
        """Read one rule's expression, up to the next rule or the end."""
        self.groups = [_Group("", self.peek().offset)]
        while not (self.peek().kind == "end" or self.starts_rule()):
            self.step()
        if len(self.groups) > 1:
            raise self.fault(
                f"the group opened at {self.where(self.groups[-1].offset)} is not closed", self.peek(), "')'"
            )
        return self.close(self.peek())

    def step(self) -> None:
        """Read one element, mark or repetition into the innermost open group."""
        lexeme = self.take()
        self.count(1, lexeme)
        group = self.groups[-1]
        if lexeme.text == "(":
            self.open(lexeme)
        elif lexeme.kind == "hint":
            self.hint(lexeme)
        elif lexeme.text == ")" and len(self.groups) > 1:
            self.end_group(lexeme)
        elif lexeme.text == "|":
            self.end_alternative(group, lexeme)
        elif lexeme.text in ("*", "+", "?", "{"):
            self.repetition(group, lexeme)
        else:
            group.items.append(self.element(lexeme))
            group.may_repeat = True

    def open(self, lexeme: Lexeme) -> None:
        self.groups.append(_Group(lexeme.text, lexeme.offset))
        check_limit("nesting_depth", len(self.groups) - 1, KIND, lambda: self.where(lexeme.offset))

    def hint(self, lexeme: Lexeme) -> None:
        """Open a `(= ...)` hint; it may only follow a whole rule body."""
        if len(self.groups) > 1 or not self.groups[0].items:
            raise self.fault("a (= ...) hint may only end a rule", lexeme, "rule body, then (= expression)")
        self.open(lexeme)

    def end_group(self, lexeme: Lexeme) -> None:
        """Close the innermost group and give its expression to the one around it, unless it is a hint."""
        group = self.groups[-1]
        empty = not group.items and not group.alternatives
        expr = EPSILON if group.opened_by == "(" and empty else self.close(lexeme)
        self.groups.pop()
        if group.opened_by == "(":
            self.groups[-1].items.append(expr)
            self.groups[-1].may_repeat = True
        elif not (self.peek().kind == "end" or self.starts_rule()):
            raise self.fault("a (= ...) hint must be the last part of a rule", self.peek(), "the next rule")

    def end_alternative(self, group: _Group, lexeme: Lexeme) -> None:
        if not group.items:
            raise self.fault("an alternative is empty", lexeme, 'an element; write "" for the empty string')
        group.alternatives.append(seq(group.items))
        group.items, group.may_repeat = [], False

    def close(self, lexeme: Lexeme) -> Expr:
        """The finished expression of the innermost group."""
        group = self.groups[-1]
        self.end_alternative(group, lexeme)
        return alt(group.alternatives)

    # Repetition

    def repetition(self, group: _Group, lexeme: Lexeme) -> None:
        if not group.may_repeat:
            raise self.fault("a repetition has nothing to repeat", lexeme, "an element before it")
        group.may_repeat = False  # a second operator needs parentheses
        minimum, maximum = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(lexeme.text) or self.bounds(
            lexeme
        )
        group.items[-1] = repeat(group.items[-1], minimum, maximum)

    def bounds(self, brace: Lexeme) -> tuple[int, int | None]:
        """Read `m}`, `m,}` or `m,n}`."""
        minimum = self.bound(brace)
        maximum: int | None = minimum
        if self.peek().text == ",":
            self.take()
            maximum = None if self.peek().text == "}" else self.bound(brace)
        self.expect("}", "{m}, {m,} or {m,n}")
        if maximum is not None and minimum > maximum:
            message = "a repetition's lower bound is above its upper bound"
            found = f"{{{minimum},{maximum}}}"
            raise fault(self.source, message, brace.offset, found, "{m,n} with m <= n")
        return minimum, maximum

    def bound(self, brace: Lexeme) -> int:
        lexeme = self.take()
        if lexeme.kind != "number":
            raise self.fault("a repetition's bound is not a number", lexeme, "{m}, {m,} or {m,n}")
        count = read_count(lexeme.text)
        check_limit("repeat_count", count, KIND, lambda: self.where(brace.offset))
        return count

    # Elements

    def element(self, lexeme: Lexeme) -> Expr:
        """A literal, a class, any character, a token terminal or a rule's name."""
        if lexeme.kind == "literal":
            return literal(string_literal(self.source, lexeme))
        if lexeme.kind == "class":
            members, num_ranges = class_members(self.source, lexeme)
            self.count(num_ranges, lexeme)
            return members
        if lexeme.text == ".":
            return ANY
        if lexeme.text in REFUSED_MACROS:
            raise RefusedConstruct(
                KIND,
                "this macro is not served in a grammar",
                self.where(lexeme.offset),
                lexeme.text,
                "literals, classes, groups, repetition, rules, Token(id, ...), ExcludeToken(id, ...)",
            )
        if lexeme.text in TOKEN_MACROS:
            ids = self.token_ids()
            return Token(ids) if lexeme.text == "Token" else ExcludeToken(ids)
        if lexeme.kind == "name":
            self.used_at.setdefault(lexeme.text, lexeme.offset)
            return Ref(lexeme.text)
        raise self.fault("no element begins here", lexeme, "a literal, a class, '.', a name or a group")

    def token_ids(self) -> tuple[int, ...]:
        """Read `(id, ...)`: ordinary generable ids only (GBNF-4)."""
        allowed = "Token(id, ...) with at least one id"
        self.expect("(", allowed)
        ids = [self.token_id(allowed)]
        while self.peek().text == ",":
            self.take()
            ids.append(self.token_id(allowed))
        self.expect(")", allowed)
        return tuple(sorted(set(ids)))

    def token_id(self, allowed: str) -> int:
        lexeme = self.take()
        if lexeme.kind != "number":
            raise self.fault("a token terminal takes ids", lexeme, allowed)
        self.count(1, lexeme)
        token_id, size = read_count(lexeme.text), self.vocabulary.size
        if token_id >= size or self.vocabulary.classes[token_id] is not TokenClass.TEXT:
            what = "outside" if token_id >= size else self.vocabulary.classes[token_id].name.lower()
            raise TokenReferenceError(
                KIND,
                f"a token terminal names an id that a grammar may not name ({what})",
                self.where(lexeme.offset),
                lexeme.text[:20],
                f"ids of ordinary text tokens below {size}",
            )
        return token_id

    # The whole

    def grammar(self) -> Grammar:
        """The checked and trimmed grammar of the rules read."""
        for name, offset in self.used_at.items():
            if name not in self.rules:
                raise UnknownRule(
                    KIND, "a rule is not defined", self.where(offset), name[:40], "the name of a rule"
                )
        if ROOT not in self.rules:
            raise UnknownRule(
                KIND, "the entry rule is missing", self.where(0), "no rule named root", "root ::= expression"
            )
        location = self.where(self.defined_at[ROOT])
        grammar = trim(Grammar(self.rules, ROOT), kind=KIND, location=location)
        check_limit("repeat_product", features(grammar).repeat_product, KIND, location)
        return grammar
