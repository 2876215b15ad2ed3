"""The nodes of the project's small grammar form, and the two walks every pass is made of.

A grammar is a map of rule names to expressions. Terminals are exact bytes, sets of Unicode scalar values
(each standing for its UTF-8 bytes) and token ids. The language is the least fixpoint: a rule that can only
go round derives nothing. Constructors in lower case (`seq`, `alt`, `repeat`, `chars`) give tidy nodes; the
classes take anything. Expressions may share parts; `fold` and `walk` visit a shared part once.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import attrs

MAX_SCALAR = 0x10FFFF
SURROGATES = (0xD800, 0xDFFF)


@attrs.frozen
class Bytes:
    """Exactly these bytes; none at all is the empty string."""

    data: bytes


@attrs.frozen
class Chars:
    """One character out of inclusive ranges: sorted, merged, scalar values only. No range: no string."""

    ranges: tuple[tuple[int, int], ...]


@attrs.frozen
class Token:
    """One of these token ids, by number."""

    ids: tuple[int, ...]


@attrs.frozen
class ExcludeToken:
    """Any TEXT id but these: never a control, completion, ungenerable or padding id."""

    ids: tuple[int, ...]


@attrs.frozen
class Ref:
    """What the rule of this name derives."""

    name: str


@attrs.frozen(cache_hash=True)
class Seq:
    """The items one after another; no item: the empty string."""

    items: tuple["Expr", ...]


@attrs.frozen(cache_hash=True)
class Alt:
    """Any one of the items; no item: no string at all."""

    items: tuple["Expr", ...]


@attrs.frozen(cache_hash=True)
class Repeat:
    """`body` at least `min` times and at most `max` times (None: any number)."""

    body: "Expr"
    min: int
    max: int | None


@attrs.frozen(cache_hash=True)
class Lexeme:
    """One terminal, read with the longest match: the members of `body` in every `also` and in no `never`.

    All parts are regular (no Ref, no token terminal) and no member is empty. Whoever writes it vouches that
    it has a member and that nothing that may follow it can continue a member to another one.
    """

    body: "Expr"
    also: tuple["Expr", ...] = ()
    never: tuple["Expr", ...] = ()


Expr = Bytes | Chars | Token | ExcludeToken | Ref | Seq | Alt | Repeat | Lexeme
EPSILON = Bytes(b"")
NOTHING = Alt(())
T = TypeVar("T")


@attrs.frozen
class Grammar:
    """Rules by name, and the name of the one that generates the language."""

    rules: Mapping[str, Expr]
    root: str


def literal(text: str) -> Bytes:
    """Exactly this text, as UTF-8."""
    return Bytes(text.encode())


def chars(ranges: Iterable[tuple[int, int]]) -> Chars:
    """A character set from inclusive ranges in any order: merged, and without surrogates."""
    scalars: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        scalars += [(low, min(high, SURROGATES[0] - 1)), (max(low, SURROGATES[1] + 1), min(high, MAX_SCALAR))]
    merged: list[tuple[int, int]] = []
    for low, high in sorted(pair for pair in scalars if pair[0] <= pair[1]):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return Chars(tuple(merged))


def negated(characters: Chars) -> Chars:
    """Every scalar value outside the set."""
    gaps, start = [], 0
    for low, high in characters.ranges:
        gaps.append((start, low - 1))
        start = high + 1
    return chars([*gaps, (start, MAX_SCALAR)])


def seq(items: Sequence[Expr]) -> Expr:
    """A flat sequence: nested ones opened, neighbouring bytes joined, empty strings dropped.

    A part that derives nothing leaves nothing of the whole.
    """
    flat: list[Expr] = []
    data: list[bytes] = []  # of the bytes at the end, not yet in the sequence
    for item in items:
        for part in item.items if type(item) is Seq else (item,):
            if type(part) is Bytes:
                data.append(part.data)
                continue
            if part == NOTHING:
                return NOTHING
            _flush(data, flat)
            flat.append(part)
    _flush(data, flat)
    if not flat:
        return EPSILON
    return flat[0] if len(flat) == 1 else Seq(tuple(flat))


def _flush(data: list[bytes], flat: list[Expr]) -> None:
    if data:
        joined = b"".join(data)
        data.clear()
        if joined:
            flat.append(Bytes(joined))


def alt(items: Sequence[Expr]) -> Expr:
    """A flat alternation: nested ones opened, duplicates dropped."""
    flat = [part for item in items for part in (item.items if isinstance(item, Alt) else (item,))]
    unique = tuple(dict.fromkeys(flat))
    return unique[0] if len(unique) == 1 else Alt(unique)


def repeat(body: Expr, minimum: int, maximum: int | None) -> Expr:
    """A repetition; exactly once is the body itself, and of the empty string the empty string."""
    if maximum == 0 or body == EPSILON:
        return EPSILON
    if body == NOTHING:
        return NOTHING if minimum else EPSILON
    if (minimum, maximum) == (1, 1):
        return body
    if isinstance(body, Repeat) and body.min <= 1:  # the inner counts leave no gaps: (x{1,3}){2,5} is x{2,15}
        inner, outer = body.max, maximum
        return Repeat(
            body.body, body.min * minimum, None if inner is None or outer is None else inner * outer
        )
    return Repeat(body, minimum, maximum)


def children(expr: Expr) -> tuple[Expr, ...]:
    """The direct parts of an expression."""
    kind = type(expr)
    if kind is Seq or kind is Alt:
        return expr.items  # type: ignore[union-attr]
    return (expr.body,) if kind is Repeat else ()  # type: ignore[union-attr]


def fold(expr: Expr, visit: Callable[[Expr, list[T]], T]) -> T:
    """Evaluate bottom up without recursion: `visit` gets a node and its children's results, once a node."""
    done: dict[int, T] = {}
    stack = [(expr, False)]
    while stack:
        node, parts_are_done = stack.pop()
        if id(node) in done:
            continue
        parts = children(node)
        if parts_are_done or not parts:
            done[id(node)] = visit(node, [done[id(part)] for part in parts])
        else:
            stack.append((node, True))
            stack += [(part, False) for part in parts]
    return done[id(expr)]


def walk(expr: Expr) -> Iterator[Expr]:
    """Every distinct node of an expression, parents first."""
    seen: set[int] = set()
    stack = [expr]
    while stack:
        node = stack.pop()
        if id(node) not in seen:
            seen.add(id(node))
            yield node
            stack += reversed(children(node))


def references(expr: Expr) -> tuple[str, ...]:
    """The rules an expression refers to, each once, in order of appearance."""
    return tuple(dict.fromkeys(node.name for node in walk(expr) if isinstance(node, Ref)))
