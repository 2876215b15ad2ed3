"""Greedy shrinking of a failing source: smaller rules first, then fewer tokens, as long as it still fails.

`fails(vocabulary, source)` decides; it must be deterministic. The result is written in the plain spelling
where the failure survives that.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from experiments.gates import languages
from experiments.gates.languages import ROOT, PlainVocabulary, Source
from oracles.expressions import Alt, CharClass, Expression, Literal, Ref, Repeat, Seq, TokenSet

Fails = Callable[[PlainVocabulary, Source], bool]
MAX_TRIES = 400


def shrink(vocabulary: PlainVocabulary, source: Source, fails: Fails) -> tuple[PlainVocabulary, Source]:
    """Return the smallest failing vocabulary and source that greedy steps reach within MAX_TRIES tries."""
    budget = _Budget(fails)
    plain = languages.respell(source, source.rules)
    if budget.fails(vocabulary, plain):
        source = _smaller_rules(vocabulary, plain, budget)
    return _fewer_tokens(vocabulary, source, budget), source


class _Budget:
    def __init__(self, fails: Fails) -> None:
        self._fails, self.left = fails, MAX_TRIES

    def fails(self, vocabulary: PlainVocabulary, source: Source) -> bool:
        if self.left == 0:
            return False
        self.left -= 1
        return self._fails(vocabulary, source)


def _smaller_rules(vocabulary: PlainVocabulary, source: Source, budget: _Budget) -> Source:
    while budget.left:
        tried = (languages.respell(source, rules) for rules in _smaller(source.rules))
        better = next((s for s in tried if budget.fails(vocabulary, s)), None)
        if better is None:
            return source
        source = better
    return source


def _fewer_tokens(vocabulary: PlainVocabulary, source: Source, budget: _Budget) -> PlainVocabulary:
    """Turn text tokens, longest first, into ones that no rule can use; ids stay what they were."""
    order = sorted(vocabulary.text_ids, key=lambda i: -len(vocabulary.token_bytes[i]))
    for token_id in order:
        data = tuple(b"\xfe" if i == token_id else d for i, d in enumerate(vocabulary.token_bytes))
        fewer = replace(vocabulary, token_bytes=data)
        if budget.fails(fewer, source):
            vocabulary = fewer
    return vocabulary


def _smaller(rules: Mapping[str, Expression]) -> Iterator[dict[str, Expression]]:
    used = {name for body in rules.values() for name in _references(body)}
    for name in rules:
        if name != ROOT and name not in used:
            yield {n: b for n, b in rules.items() if n != name}
    for name, body in rules.items():
        for smaller in _simpler(body):
            yield {**rules, name: smaller}


def _references(node: Expression) -> set[str]:
    if isinstance(node, Ref):
        return {node.name}
    return set().union(*(_references(part) for part in _parts(node)))


def _parts(node: Expression) -> tuple[Expression, ...]:
    if isinstance(node, Seq):
        return node.parts
    if isinstance(node, Alt):
        return node.options
    return (node.body,) if isinstance(node, Repeat) else ()


def _rebuilt(node: Expression, parts: tuple[Expression, ...]) -> Expression:
    if isinstance(node, Seq):
        return Seq(parts)
    if isinstance(node, Alt):
        return Alt(parts)
    assert isinstance(node, Repeat)
    return replace(node, body=parts[0])


def _simpler(node: Expression) -> Iterator[Expression]:
    """Yield expressions with one thing less, larger cuts first."""
    parts = _parts(node)
    yield from parts
    if len(parts) > 1:
        for i in range(len(parts)):
            yield _rebuilt(node, parts[:i] + parts[i + 1 :])
    for i, part in enumerate(parts):
        for smaller in _simpler(part):
            yield _rebuilt(node, (*parts[:i], smaller, *parts[i + 1 :]))
    yield from _simpler_leaf(node)


def _simpler_leaf(node: Expression) -> Iterator[Expression]:
    if isinstance(node, Literal) and node.text:
        yield from (Literal(node.text[1:]), Literal(node.text[:-1]))
    elif isinstance(node, CharClass):
        yield from (replace(node, ranges=(pair,)) for pair in node.ranges if len(node.ranges) > 1)
        yield from (replace(node, ranges=((low, low),)) for low, high in node.ranges if low != high)
    elif isinstance(node, TokenSet) and len(node.ids) > 1:
        yield from (replace(node, ids=(i,)) for i in node.ids)
    elif isinstance(node, Repeat) and node.high is not None and node.high > node.low:
        yield replace(node, high=node.high - 1)
    elif isinstance(node, Repeat) and node.low > 0:
        yield replace(node, low=node.low - 1, high=None if node.high is None else node.high - 1)
