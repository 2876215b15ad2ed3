"""Questions about a whole grammar: which rules reach each other, what it is made of, is it regular.

`features` is what a core is chosen by. `to_regular` solves the rules as linear equations: a group of rules
that refer to each other is regular when every reference stands last (right-linear) or every one stands first
(left-linear); then X = A X | B has the least solution A* B (Arden). Anything else is answered with None:
None means "not shown to be regular", never "not regular".
"""

from collections.abc import Iterator, Mapping

import attrs

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
    fold,
    references,
    repeat,
    seq,
    walk,
)

REGULAR_SIZE_CAP = 20_000  # nodes of the expression, written out in full
REGULAR_DEPTH_CAP = 200  # so that no later pass over the expression can overflow a stack
REGULAR_WORK_CAP = 150_000  # nodes looked at while solving


@attrs.frozen
class CountedRepeat:
    """A repetition with a count: neither `?` nor `*` nor `+`. `single_character`: its body is one class."""

    body: Expr
    min: int
    max: int | None
    single_character: bool


@attrs.frozen
class GrammarFeatures:
    """What a grammar is made of; `expanded_size` counts terminals with every counted repeat written out.

    `expanded_size` and `repeat_product` (the largest product of nested counts) follow references once
    around a recursion.
    """

    num_rules: int
    num_nodes: int
    recursive: bool
    has_tokens: bool
    counted_repeats: tuple[CountedRepeat, ...]
    expanded_size: int
    repeat_product: int


def has_lexemes(grammar: Grammar) -> bool:
    """Whether the terminals are chosen already; in such a grammar one of the first nodes tells."""
    return any(isinstance(node, Lexeme) for expr in grammar.rules.values() for node in walk(expr))


def components(grammar: Grammar) -> list[tuple[str, ...]]:
    """Groups of rules that reach each other, every group after the ones it refers to (Tarjan, iterative)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    pending: list[str] = []
    slot: dict[str, int] = {}
    closed: set[str] = set()
    groups: list[tuple[str, ...]] = []
    path: list[tuple[str, Iterator[str]]] = []

    def enter(name: str) -> None:
        order[name] = low[name] = len(order)
        slot[name] = len(pending)
        pending.append(name)
        path.append((name, iter(references(grammar.rules[name]))))

    for start in grammar.rules:
        if start not in order:
            enter(start)
        while path:
            name, targets = path[-1]
            target = next(targets, None)
            if target is None:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[name])
                if low[name] == order[name]:
                    groups.append(tuple(pending[slot[name] :]))
                    closed.update(groups[-1])
                    del pending[slot[name] :]
            elif target not in order:
                enter(target)
            elif target not in closed:
                low[name] = min(low[name], order[target])
    return groups


def reference_depth(grammar: Grammar) -> int:
    """How many rules stand above each other in a walk down from the root that visits each rule once."""
    seen = {grammar.root}
    path = [iter(references(grammar.rules[grammar.root]))]
    deepest = 1
    while path:
        target = next((name for name in path[-1] if name not in seen), None)
        if target is None:
            path.pop()
            continue
        seen.add(target)
        path.append(iter(references(grammar.rules[target])))
        deepest = max(deepest, len(path))
    return deepest


def features(grammar: Grammar) -> GrammarFeatures:
    """Count what the choice of a core depends on, in time linear in the grammar."""
    groups = components(grammar)
    nodes = [node for expr in grammar.rules.values() for node in walk(expr)]
    sizes: dict[str, int] = {}
    products: dict[str, int] = {}
    for name in (name for group in groups for name in group):
        sizes[name] = fold(grammar.rules[name], lambda node, parts: _expanded_size(node, parts, sizes))
        products[name] = fold(grammar.rules[name], lambda node, parts: _repeat_product(node, parts, products))
    return GrammarFeatures(
        num_rules=len(grammar.rules),
        num_nodes=len(nodes),
        recursive=any(len(g) > 1 or g[0] in references(grammar.rules[g[0]]) for g in groups),
        has_tokens=any(isinstance(node, Token | ExcludeToken) for node in nodes),
        counted_repeats=tuple(
            _counted(node) for node in nodes if isinstance(node, Repeat) and count_of(node) > 1
        ),
        expanded_size=sizes[grammar.root],
        repeat_product=products[grammar.root],
    )


def count_of(node: Repeat) -> int:
    """How often a repetition would be written out: its maximum, or its minimum when it has none."""
    return node.min if node.max is None else node.max


def _counted(node: Repeat) -> CountedRepeat:
    return CountedRepeat(node.body, node.min, node.max, isinstance(node.body, Chars))


def _expanded_size(node: Expr, parts: list[int], sizes: Mapping[str, int]) -> int:
    if isinstance(node, Ref):
        return sizes.get(node.name, 1)
    if isinstance(node, Bytes):
        return max(1, len(node.data))
    if isinstance(node, Repeat):
        return parts[0] * max(1, count_of(node))
    return max(1, sum(parts))


def _repeat_product(node: Expr, parts: list[int], products: Mapping[str, int]) -> int:
    if isinstance(node, Ref):
        return products.get(node.name, 1)
    if isinstance(node, Repeat):
        return parts[0] * max(1, count_of(node))
    return max(parts, default=1)


# Regular form. A linear form is a sum of coefficient times unknown, with a constant under the key None.
Linear = dict[str | None, Expr]


class _NotLinear(Exception):
    """The rules are not linear in one direction."""


class _TooLarge(Exception):
    """The regular form, or the work to find it, passes its cap."""


@attrs.define
class _Solver:
    """Solves groups of linear rules in one direction of reading; counts the nodes it has looked at."""

    grammar: Grammar
    size_cap: int
    solved: dict[str, Expr] = attrs.field(factory=dict)
    work_left: int = REGULAR_WORK_CAP
    rightmost: bool = True

    def solve(self, group: tuple[str, ...]) -> None:
        """Eliminate one unknown after another, then put the solutions back. Raises _NotLinear, _TooLarge."""
        unknowns = frozenset(group)
        system = {
            name: self.capped(fold(self.grammar.rules[name], lambda n, p: self.linear(n, p, unknowns)))
            for name in group
        }
        for position, name in enumerate(group):
            system[name] = self.without_self(system[name], name)
            for other in group[position + 1 :]:
                system[other] = self.substituted(system[other], name, system[name])
        for position in range(len(group) - 1, 0, -1):
            name = group[position]
            for other in group[:position]:
                system[other] = self.substituted(system[other], name, system[name])
        self.solved.update({name: form.get(None, NOTHING) for name, form in system.items()})

    def linear(self, node: Expr, parts: list[Linear], unknowns: frozenset[str]) -> Linear:
        """The linear form of a node from those of its parts."""
        if isinstance(node, Ref):
            return {node.name: EPSILON} if node.name in unknowns else {None: self.solved[node.name]}
        if isinstance(node, Alt):
            return _sum(parts)
        if isinstance(node, Seq):
            return self.sequence(parts)
        if not isinstance(node, Repeat):
            return {None: node}
        if parts[0].keys() <= {None}:
            return {None: repeat(parts[0].get(None, NOTHING), node.min, node.max)}
        if node.max != 1:
            raise _NotLinear
        return parts[0] if node.min == 1 else _sum([parts[0], {None: EPSILON}])

    def sequence(self, parts: list[Linear]) -> Linear:
        """Only the last part in the direction of reading may hold an unknown."""
        last = len(parts) - 1 if self.rightmost else 0
        known = parts[:last] if self.rightmost else parts[1:]
        if not parts or any(part.keys() - {None} for part in known):
            raise _NotLinear
        factor = seq([part.get(None, NOTHING) for part in known])
        return {name: self.times(factor, coefficient) for name, coefficient in parts[last].items()}

    def times(self, factor: Expr, expr: Expr) -> Expr:
        """The factor on the side away from the unknown."""
        return seq([factor, expr] if self.rightmost else [expr, factor])

    def without_self(self, form: Linear, name: str) -> Linear:
        """Arden: X = A X | B becomes X = A* B."""
        if name not in form:
            return form
        loop = repeat(form[name], 0, None)
        return self.capped({key: self.times(loop, value) for key, value in form.items() if key != name})

    def substituted(self, form: Linear, name: str, value: Linear) -> Linear:
        """The form with another unknown's solution put in for it."""
        if name not in form:
            return form
        factor = form[name]
        rest = {key: coefficient for key, coefficient in form.items() if key != name}
        return self.capped(_sum([rest, {key: self.times(factor, v) for key, v in value.items()}]))

    def capped(self, form: Linear) -> Linear:
        """The form itself; Raises _TooLarge when it is too large, too deep, or the work is used up."""
        measures = [fold(expr, _measure) for expr in form.values()]
        size = sum(size for size, _ in measures)
        self.work_left -= size
        if size > self.size_cap or self.work_left < 0 or any(d > REGULAR_DEPTH_CAP for _, d in measures):
            raise _TooLarge
        return form


def to_regular(grammar: Grammar, *, size_cap: int = REGULAR_SIZE_CAP) -> Expr | None:
    """The language as one expression without references, or None where that is not shown or too large.

    The grammar should be trimmed. Token terminals stay as they are. `size_cap` bounds the written-out nodes.
    """
    if sum(1 for expr in grammar.rules.values() for _ in walk(expr)) > size_cap:
        return None
    solver = _Solver(grammar, size_cap)
    for group in components(grammar):
        for solver.rightmost in (True, False):
            try:
                solver.solve(group)
                break
            except _NotLinear:
                continue
            except _TooLarge:
                return None
        else:
            return None
    return solver.solved[grammar.root]


def _sum(forms: list[Linear]) -> Linear:
    gathered: dict[str | None, list[Expr]] = {}
    for form in forms:
        for name, coefficient in form.items():
            gathered.setdefault(name, []).append(coefficient)
    return {name: alt(coefficients) for name, coefficients in gathered.items()}


def _measure(node: Expr, parts: list[tuple[int, int]]) -> tuple[int, int]:
    """Written-out size and depth of a node."""
    return 1 + sum(size for size, _ in parts), 1 + max((depth for _, depth in parts), default=0)
