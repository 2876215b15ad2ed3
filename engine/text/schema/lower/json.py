"""Reduced nodes to the project's grammar: one rule for each node that holds arrays or objects.

JSON's own tokens are the lexemes: a string, a number or a member name ends where its text says, whatever
follows, so the longest match loses nothing. All values of a node that are no arrays or objects of their own
are one lexeme where they are listed. Nodes wait in a queue, so that deep schemas need no deep stack.
"""

import functools
from collections.abc import Iterable

import attrs

from engine.errors import EmptyLanguage, ErrorKind
from engine.request import JsonOptions
from engine.text.expr import NOTHING, Expr, Grammar, Lexeme, Ref, alt, literal, seq
from engine.text.limits import check_limit
from engine.text.rules import tidy_productive_rules, without_dead_parts
from engine.text.schema.lower import arrays, objects
from engine.text.schema.lower.layout import Layout, spellings
from engine.text.schema.nodes import UNSUPPORTED
from engine.text.schema.numbers import number_language
from engine.text.schema.reduce.branches import Node
from engine.text.schema.reduce.clauses import Expansion
from engine.text.schema.reduce.places import place_of, pointing_at
from engine.text.schema.reduce.reducer import Reducer
from engine.text.schema.source import Number, Value, quoted
from engine.text.schema.strings import QUOTE, literal_language, string_terminal

# Formats and patterns come again and again.
kept_terminal = functools.lru_cache(maxsize=1024)(string_terminal)
UNSATISFIABLE = ErrorKind.UNSATISFIABLE_JSON_SCHEMA
ROOT = "root"


@attrs.frozen
class Lowered:
    """A trimmed grammar, and whether some object in it takes names that are not listed."""

    grammar: Grammar
    has_free_names: bool


class Lowerer:
    """Writes the nodes of one reduction as rules; `has_free_names` tells what a matcher must watch."""

    def __init__(self, reducer: Reducer, options: JsonOptions) -> None:
        self.reducer = reducer
        self.layout = Layout.of(options.whitespace)
        self.has_free_names = False
        self.rules: dict[str, Expr] = {}
        self._values: dict[Node, Expr] = {}
        self._waiting: list[tuple[str, Node, Expansion]] = []
        self.comma = Lexeme(self.layout.comma)
        self.colon = Lexeme(self.layout.colon)

    def lower(self, root: Node) -> Lowered:
        """The grammar of a node. Raises RequestError; EmptyLanguage with the place of a contradiction."""
        self.rules[ROOT] = self.value(root)
        while self._waiting:
            name, node, expansion = self._waiting.pop()
            check_limit("schema_rules", len(self.rules), UNSUPPORTED)
            self.rules[name] = alt([*self._scalars(node, expansion), *self._structures(expansion)])
        grammar = Grammar(self.rules, ROOT)
        productive = tidy_productive_rules(grammar)
        if ROOT not in productive:
            raise self._contradiction(root, productive)
        if len(productive) < len(grammar.rules):
            grammar = without_dead_parts(grammar, productive)
        return Lowered(grammar, self.has_free_names)

    def value(self, node: Node) -> Expr:
        """The language of a node: a rule that is written later, or a lexeme at once."""
        known = self._values.get(node)
        if known is not None:
            return known
        expansion = self.reducer.expand(node)
        if expansion.arrays or expansion.objects or any(map(_is_structure, expansion.values)):
            name = f"v{len(self._values)}"
            self._values[node] = Ref(name)
            self._waiting.append((name, node, expansion))
        else:
            self._values[node] = alt(self._scalars(node, expansion))
        return self._values[node]

    def rule(self, expr: Expr) -> Expr:
        """A reference to a new rule for an expression."""
        check_limit("schema_rules", len(self.rules), UNSUPPORTED)
        name = f"p{len(self.rules)}-{len(self._values)}"
        self.rules[name] = expr
        return Ref(name)

    def _structures(self, expansion: Expansion) -> Iterable[Expr]:
        yield from (self.layout.constant(value) for value in expansion.values if _is_structure(value))
        for array in expansion.arrays:
            yield arrays.lowered(array, self)
        for clause in expansion.objects:
            yield objects.lowered(clause, self)

    def _scalars(self, node: Node, expansion: Expansion) -> list[Expr]:
        listed: list[Expr] = [literal("null")] if expansion.null else []
        listed += [literal("true" if flag else "false") for flag in sorted(expansion.booleans)]
        listed += self._listed(expansion.values)
        parts: list[Expr] = [Lexeme(alt(listed))] if listed else []
        with pointing_at(node):
            parts += [kept_terminal(s) for s in expansion.strings if s.is_free or not s.is_empty()]
            parts += [number_language(n) for n in expansion.numbers if n.is_free or not n.is_empty()]
        return parts

    def _listed(self, values: Iterable[Value]) -> Iterable[Expr]:
        """The texts of listed strings and numbers; the strings share their beginnings."""
        texts = [value for value in values if isinstance(value, str)]
        if texts:
            yield seq([QUOTE, literal_language([quoted(text)[1:-1] for text in texts]), QUOTE])
        for value in values:
            if isinstance(value, Number):
                yield alt([literal(text) for text in spellings(value)])

    def _contradiction(self, root: Node, productive: frozenset[str]) -> EmptyLanguage:
        """The fault of an empty language, at the innermost single node that nothing can satisfy."""
        node, seen = root, {root}
        while True:
            following = [n for n in self._needed(node) if self._is_dead(n, productive) and n not in seen]
            if not following:
                break
            node = following[0]
            seen.add(node)
        return EmptyLanguage(
            UNSATISFIABLE,
            "no value satisfies the schema here",
            place_of(node),
            allowed="a schema that at least one finite value satisfies",
        )

    def _needed(self, node: Node) -> list[Node]:
        """The nodes that every value of a node with one clause needs."""
        expansion = self.reducer.expand(node)
        clauses = [*expansion.arrays, *expansion.objects]
        if len(clauses) != 1:
            return []
        if expansion.objects:
            return [slot.node for slot in expansion.objects[0].slots if slot.required]
        clause = expansion.arrays[0]
        return [*clause.prefix, clause.tail][: clause.min_items]

    def _is_dead(self, node: Node, productive: frozenset[str]) -> bool:
        expr = self._values.get(node)
        if expr is None:  # never asked for: the fault lies with what holds it
            return False
        return expr.name not in productive if isinstance(expr, Ref) else expr == NOTHING


def _is_structure(value: Value) -> bool:
    return isinstance(value, list | dict)
