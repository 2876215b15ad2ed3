"""A grammar rewritten so that its repetitions are longest-match terminals wherever that loses no parse.

Rules that are regular are put in at their references, then outermost repetitions become `Fused` leaves. Where
`positions` cannot prove that one of them is safe it stays as it is, and the repetitions inside it are tried.
"""

from typing import cast

import attrs

from engine.text.cores.positions import Fused, TooLargeToProve, Work, find_lost_parse
from engine.text.rules import (
    EPSILON,
    NOTHING,
    Alt,
    Bytes,
    Chars,
    Expr,
    Grammar,
    Ref,
    Repeat,
    Seq,
    alt,
    components,
    fold,
    is_nullable,
    references,
    repeat,
    seq,
    to_regular,
    trim,
    walk,
)

FORM_CAP = 2_000  # nodes of one rule's regular form
FORMS_CAP = 40_000  # nodes put in for references before no further rule gets a form
GROUP_CAP = 8  # rules of one recursion that are solved one by one
ATTEMPTS = 40  # proofs tried before nothing is fused


def fuse(grammar: Grammar) -> Grammar:
    """The same language with `Fused` leaves; the grammar is trimmed and has no token terminals.

    A regular language is one leaf. Returns the grammar as it is where a proof would be too large.
    """
    regular = to_regular(grammar)
    if regular is not None:
        rule = EPSILON if regular == EPSILON else _optional(Fused(nonempty(regular)), is_nullable(regular))
        return Grammar({grammar.root: rule}, grammar.root)
    inlined = _with_forms(grammar)
    refused: set[Expr] = set()
    work = Work()
    for _ in range(ATTEMPTS):
        marked, originals = _marked(inlined, refused)
        try:
            lost = find_lost_parse(marked, work)
        except TooLargeToProve:
            return grammar
        if lost is None:
            return marked
        refused |= {originals[terminal] for terminal in lost}
    return grammar


def with_loops(grammar: Grammar) -> Grammar:
    """The same language with every recursion that is only a loop written as a repetition."""
    forms = _regular_forms(grammar)
    looping = {n for group in components(grammar) for n in group if len(group) > 1}
    looping |= {name for name, expr in grammar.rules.items() if name in references(expr)}
    rules = {name: forms[name] if name in looping & forms.keys() else e for name, e in grammar.rules.items()}
    return trim(Grammar(rules, grammar.root)) if looping & forms.keys() else grammar


def _with_forms(grammar: Grammar) -> Grammar:
    """The rules with every regular rule put in at its references, and only the rules still referred to."""
    forms = _regular_forms(grammar)
    rules: dict[str, Expr] = {}
    waiting = [grammar.root]
    while waiting:
        name = waiting.pop()
        if name not in rules:
            rules[name] = forms.get(name) or _put_in(grammar.rules[name], forms)
            waiting += references(rules[name])
    return Grammar(rules, grammar.root)


def _regular_forms(grammar: Grammar) -> dict[str, Expr]:
    """The regular form of every rule that has a small one; shared by no two references."""
    forms: dict[str, Expr] = {}
    left = FORMS_CAP
    for group in components(grammar):
        if left < 0:
            break
        rules = {name: _put_in(grammar.rules[name], forms) for name in group}
        left -= sum(_size(expr) for expr in rules.values())
        if any(ref not in rules for expr in rules.values() for ref in references(expr)):
            continue
        for name in group if len(group) <= GROUP_CAP else ():
            form = to_regular(Grammar(rules, name), size_cap=FORM_CAP)
            if form is not None:
                forms[name] = form
    return forms


def _size(expr: Expr) -> int:
    return sum(1 for _ in walk(expr))


def _put_in(expr: Expr, forms: dict[str, Expr]) -> Expr:
    def visit(node: Expr, parts: list[Expr]) -> Expr:
        if isinstance(node, Ref) and node.name in forms:
            return fold(forms[node.name], _rebuilt)
        return _rebuilt(node, parts)

    return fold(expr, visit)


def _rebuilt(node: Expr, parts: list[Expr]) -> Expr:
    """A new node of the same kind: positions are told apart by identity."""
    if isinstance(node, Seq):
        return seq(parts)
    if isinstance(node, Alt):
        return alt(parts)
    if isinstance(node, Repeat):
        return repeat(parts[0], node.min, node.max)
    return attrs.evolve(node)


def _marked(grammar: Grammar, refused: set[Expr]) -> tuple[Grammar, dict[Fused, Expr]]:
    """Every outermost repetition that is not refused as a terminal, and what each terminal was."""
    originals: dict[Fused, Expr] = {}

    def visit(node: Expr, parts: list[tuple[Expr, Expr]]) -> tuple[Expr, Expr]:
        plain = _rebuilt(node, [part for part, _ in parts])
        if isinstance(plain, Repeat) and _is_candidate(plain) and plain not in refused:
            terminal = Fused(nonempty(plain))
            originals[terminal] = plain
            return plain, _optional(terminal, is_nullable(plain))
        return plain, _rebuilt(node, [part for _, part in parts])

    rules = {name: fold(expr, visit)[1] for name, expr in grammar.rules.items()}
    return Grammar(rules, grammar.root), originals


def _optional(terminal: Fused, may_be_empty: bool) -> Expr:
    """A terminal, or nothing in its place; only llguidance's writer and the proof know this leaf."""
    leaf = cast(Expr, terminal)
    return alt([EPSILON, leaf]) if may_be_empty else leaf


def _is_candidate(node: Repeat) -> bool:
    loops = node.max is None or node.max > 1
    return loops and all(isinstance(part, Bytes | Chars | Seq | Alt | Repeat) for part in walk(node))


def nonempty(expr: Expr) -> Expr:
    """The members of a regular expression other than the empty string."""

    def visit(node: Expr, parts: list[tuple[Expr, Expr]]) -> tuple[Expr, Expr]:
        plain = _rebuilt(node, [part for part, _ in parts])
        if not is_nullable(plain):
            return plain, plain
        return plain, _without_empty(node, parts)

    return fold(expr, visit)[1]


def _without_empty(node: Expr, parts: list[tuple[Expr, Expr]]) -> Expr:
    """The same for one node that may be empty, from each part with and without its empty string."""
    if isinstance(node, Repeat):
        return repeat(parts[0][1], 1, node.max)
    if isinstance(node, Alt):
        return alt([some for _, some in parts if some != NOTHING])
    if isinstance(node, Seq):
        begins = [seq([some, *(p for p, _ in parts[i + 1 :])]) for i, (_, some) in enumerate(parts)]
        return alt(begins)
    return NOTHING
