"""A grammar before a core sees it: what it derives, trimmed and re-rooted (contract 7, GBNF-7).

The nodes come from expr, the questions about a whole grammar's shape from shape; both are offered here so
that the rest of the engine imports one module. No pass recurses over rules or over nesting.
"""

from collections.abc import Callable, Iterable, Mapping

from engine.errors import NOWHERE, EmptyLanguage, ErrorKind, Location
from engine.text.expr import (
    EPSILON,
    NOTHING,
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
    alt,
    chars,
    children,
    fold,
    literal,
    negated,
    references,
    repeat,
    seq,
    walk,
)
from engine.text.shape import CountedRepeat, GrammarFeatures, components, features, to_regular

__all__ = [
    "EPSILON",
    "NOTHING",
    "Alt",
    "Bytes",
    "Chars",
    "CountedRepeat",
    "ExcludeToken",
    "Expr",
    "Grammar",
    "GrammarFeatures",
    "Lexeme",
    "Ref",
    "Repeat",
    "Seq",
    "Token",
    "alt",
    "chars",
    "children",
    "components",
    "features",
    "fold",
    "fresh_name",
    "is_nullable",
    "literal",
    "negated",
    "nullable_rules",
    "productive_rules",
    "references",
    "repeat",
    "rules_where",
    "seq",
    "split_long",
    "tidy_productive_rules",
    "to_regular",
    "trim",
    "walk",
    "without_dead_parts",
]

MOST_ROUNDS = 16  # over the rules of a grammar, before all of it is worked through in order


def rules_where(grammar: Grammar, leaf: Callable[[Expr], bool]) -> frozenset[str]:
    """The rules for which a property holds, by its least fixpoint, in time linear in the grammar.

    The property of terminals is `leaf`; of a sequence: all items; of an alternation: one item; of a
    repetition: its minimum is 0 or its body has it; of a reference: its rule has it.
    """
    parents: dict[int, list[int]] = {}
    missing: list[int] = []  # how many more parts a node waits for; 0: the property holds
    of_rule = {name: index for index, name in enumerate(grammar.rules)}
    owners: list[str | None] = list(grammar.rules)
    missing += [1] * len(owners)
    ready: list[int] = []

    def add(node: Expr, parts: list[int]) -> int:
        owners.append(None)
        index = len(owners) - 1
        if isinstance(node, Ref):
            parts = [of_rule[node.name]]
        for part in parts:
            parents.setdefault(part, []).append(index)
        if isinstance(node, Seq):
            missing.append(len(parts))
        elif isinstance(node, Repeat):
            missing.append(0 if node.min == 0 else 1)
        elif isinstance(node, Alt | Ref):
            missing.append(1)
        else:
            missing.append(0 if leaf(node) else 1)
        if missing[index] == 0:
            ready.append(index)
        return index

    for name, expr in grammar.rules.items():
        parents.setdefault(fold(expr, add), []).append(of_rule[name])
    while ready:
        for parent in parents.get(ready.pop(), ()):
            missing[parent] -= 1
            if missing[parent] == 0:
                ready.append(parent)
    return frozenset(name for name, index in of_rule.items() if missing[index] <= 0)


def productive_rules(grammar: Grammar) -> frozenset[str]:
    """The rules that derive at least one finite string."""
    return rules_where(grammar, _leaf_is_productive)


def tidy_productive_rules(grammar: Grammar) -> frozenset[str]:
    """The productive rules of a grammar that is made of tidy nodes: the same answer, mostly in few steps.

    Rounds go forwards and backwards over the rules that are left, until one shows nothing new.
    """
    shown: set[str] = set()
    left = list(grammar.rules)
    for _ in range(MOST_ROUNDS):
        before = len(shown)
        for name in left:
            if _is_shown(grammar.rules[name], shown):
                shown.add(name)
        if len(shown) in (before, len(grammar.rules)):
            return frozenset(shown)
        left = [name for name in reversed(left) if name not in shown]
    return productive_rules(grammar)


def without_dead_parts(grammar: Grammar, productive: frozenset[str]) -> Grammar:
    """The rules that are reached from a productive root, without alternatives that derive nothing.

    Rules in which nothing is dead stay as they are: most do.
    """
    rules: dict[str, Expr] = {}
    waiting = [grammar.root]
    while waiting:
        name = waiting.pop()
        if name in rules:
            continue
        rules[name] = expr = grammar.rules[name]
        nodes = list(walk(expr))
        if any(node == NOTHING or (type(node) is Ref and node.name not in productive) for node in nodes):
            rules[name] = expr = fold(expr, lambda node, parts: _living(node, parts, productive))
            nodes = list(walk(expr))
        waiting += [node.name for node in reversed(nodes) if type(node) is Ref]
    return Grammar(rules, grammar.root)


def _living(node: Expr, parts: list[Expr], productive: frozenset[str]) -> Expr:
    """A node made of what is left of its parts."""
    match node:
        case Ref():
            return node if node.name in productive else NOTHING
        case Seq():
            return seq(parts)
        case Alt():
            return alt([part for part in parts if part != NOTHING])
        case Repeat():
            return repeat(parts[0], node.min, node.max)
    return node


def _is_shown(expr: Expr, shown: set[str]) -> bool:
    """Whether an expression derives a string if the shown rules do."""
    waiting = [expr]
    while waiting:
        node = waiting.pop()
        kind = type(node)
        if kind is Ref:
            if node.name not in shown:  # type: ignore[union-attr]
                return False
        elif kind is Seq:
            waiting += node.items  # type: ignore[union-attr]
        elif kind is Alt:
            if not any(_is_shown(item, shown) for item in node.items):  # type: ignore[union-attr]
                return False
        elif kind is Repeat and node.min:  # type: ignore[union-attr]
            waiting.append(node.body)  # type: ignore[union-attr]
    return True


def nullable_rules(grammar: Grammar) -> frozenset[str]:
    """The rules that derive the empty string."""
    return rules_where(grammar, lambda leaf: leaf == EPSILON)


def _leaf_is_productive(leaf: Expr) -> bool:
    if isinstance(leaf, Chars):
        return bool(chars(leaf.ranges).ranges)
    return not isinstance(leaf, Token) or bool(leaf.ids)


def is_nullable(expr: Expr, nullable: frozenset[str] = frozenset()) -> bool:
    """Whether an expression derives the empty string, given the rules that do."""

    def visit(node: Expr, parts: list[bool]) -> bool:
        if isinstance(node, Ref):
            return node.name in nullable
        if isinstance(node, Alt):
            return any(parts)
        if isinstance(node, Seq):
            return all(parts)
        if isinstance(node, Repeat):
            return node.min == 0 or parts[0]
        return node == EPSILON

    return fold(expr, visit)


def trim(
    grammar: Grammar,
    *,
    kind: ErrorKind = ErrorKind.INVALID_GRAMMAR,
    location: Location = NOWHERE,
) -> Grammar:
    """The same language with a root that no rule refers to and only parts that some string needs.

    Drops alternatives that derive nothing, rules that cannot be reached, a rule's alternative that is the
    rule itself, and repeat minimums over a nullable body; gathers single characters into one class.
    Raises EmptyLanguage (of `kind`, at `location`).
    """
    productive, nullable = productive_rules(grammar), nullable_rules(grammar)
    if grammar.root not in productive:
        raise EmptyLanguage(
            kind,
            "no finite string belongs to the language",
            location,
            allowed="a source from which at least one string can be derived",
        )
    rules: dict[str, Expr] = {}
    waiting = [grammar.root]
    while waiting:
        name = waiting.pop()
        if name not in rules:
            rules[name] = _without_itself(_trimmed(grammar.rules[name], productive, nullable), name)
            waiting += reversed(references(rules[name]))
    if any(grammar.root in references(expr) for expr in rules.values()):
        root = fresh_name(grammar.root, rules)
        rules = {root: Ref(grammar.root), **rules}
        return Grammar(rules, root)
    return Grammar(rules, grammar.root)


def _trimmed(expr: Expr, productive: frozenset[str], nullable: frozenset[str]) -> Expr:
    def visit(node: Expr, parts: list[Expr]) -> Expr:
        if isinstance(node, Chars):
            return _chars_or_nothing(chars(node.ranges))
        if isinstance(node, Token):
            return node if node.ids else NOTHING
        if isinstance(node, Ref):
            return node if node.name in productive else NOTHING
        if isinstance(node, Seq):
            return NOTHING if NOTHING in parts else seq(parts)
        if isinstance(node, Alt):
            return _with_one_class(alt([part for part in parts if part != NOTHING]))
        if isinstance(node, Repeat):
            if parts[0] == NOTHING:
                return EPSILON if node.min == 0 else NOTHING
            minimum = 0 if is_nullable(parts[0], nullable) else node.min
            return repeat(_as_class(parts[0]) or parts[0], minimum, node.max)
        return node

    return fold(expr, visit)


def _chars_or_nothing(characters: Chars) -> Expr:
    return characters if characters.ranges else NOTHING


def _as_class(expr: Expr) -> Chars | None:
    """The character set that an expression is, written as a class or as one literal character."""
    if isinstance(expr, Bytes):
        text = expr.data.decode(errors="ignore")
        return chars([(ord(text), ord(text))]) if len(text) == 1 and text.encode() == expr.data else None
    return expr if isinstance(expr, Chars) else None


def _with_one_class(expr: Expr) -> Expr:
    """An alternation whose single characters are gathered in one class, where the first of them stood."""
    classes = [c for item in expr.items if (c := _as_class(item))] if isinstance(expr, Alt) else []
    if len(classes) < 2:
        return expr
    merged = chars([pair for c in classes for pair in c.ranges])
    return alt([merged if _as_class(item) else item for item in children(expr)])


def _without_itself(expr: Expr, name: str) -> Expr:
    if isinstance(expr, Alt):
        return alt([item for item in expr.items if item != Ref(name)])
    return expr


def split_long(grammar: Grammar, max_items: int) -> Grammar:
    """The same language with no sequence or alternation of more than `max_items`: runs become rules.

    For a core whose compile time grows with the square of a rule's length.
    """
    rules: dict[str, Expr] = {}
    names: dict[Expr, str] = {}

    def as_rule(expr: Expr) -> Expr:
        if expr not in names:
            names[expr] = fresh_name(f"part{len(names)}", grammar.rules)
            rules[names[expr]] = expr
        return Ref(names[expr])

    def visit(node: Expr, parts: list[Expr]) -> Expr:
        if isinstance(node, Repeat):
            return Repeat(parts[0], node.min, node.max)
        if not isinstance(node, Seq | Alt):
            return node
        kind = type(node)
        while len(parts) > max_items:
            runs = [tuple(parts[i : i + max_items]) for i in range(0, len(parts), max_items)]
            parts = [as_rule(kind(run)) for run in runs]
        return kind(tuple(parts))

    split = {name: fold(expr, visit) for name, expr in grammar.rules.items()}
    return Grammar(split | rules, grammar.root)


def fresh_name(wish: str, taken: Iterable[str]) -> str:
    """`wish` with the first number that makes it a name not yet taken."""
    names = taken if isinstance(taken, Mapping) else set(taken)
    return next(name for i in range(len(names) + 1) if (name := f"{wish}-{i}") not in names)
