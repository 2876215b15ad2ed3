"""Regular expressions without a parser: a tree, its text, its strings, and full match by derivatives.

The tree is that of oracles/expressions.py without references and token sets. `render` writes it in the
ECMAScript subset the engine serves (classes \\d \\w \\s are `DIGIT`, `WORD`, `SPACE`; the dot is `DOT`);
`members` builds the strings bottom-up; `matches` derives by one character at a time. Neither calls the other.
"""

import functools
from collections.abc import Callable, Iterable

from oracles.expressions import (
    Alt,
    CharClass,
    Expression,
    Literal,
    Repeat,
    Seq,
    merge_ranges,
    scalar_ranges,
    subtract_ranges,
)

DIGIT = CharClass(((0x30, 0x39),))
WORD = CharClass(((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)))
# ECMAScript WhiteSpace and LineTerminator: TAB VT FF LF CR, the category Zs, U+FEFF, and the two separators.
SPACE = CharClass(
    (
        (0x09, 0x0D),
        (0x20, 0x20),
        (0xA0, 0xA0),
        (0x1680, 0x1680),
        (0x2000, 0x200A),
        (0x2028, 0x2029),
        (0x202F, 0x202F),
        (0x205F, 0x205F),
        (0x3000, 0x3000),
        (0xFEFF, 0xFEFF),
    )
)
DOT = CharClass(((0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029)), negated=True)
SHORTHANDS = (("\\d", DIGIT), ("\\w", WORD), ("\\s", SPACE))

_NAMED_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f", "\v": "\\v"}
_SPECIAL_OUTSIDE = set("^$\\.*+?()[]{}|/")
_SPECIAL_INSIDE = set("^]\\-[")
_NEVER = Alt(())
_EMPTY = Seq(())


def contains(node: CharClass, character: str) -> bool:
    """Whether the class holds the character."""
    return any(low <= ord(character) <= high for low, high in scalar_ranges(node))


def members(node: Expression, alphabet: str, max_len: int) -> set[str]:
    """Return every string of the language with at most `max_len` characters, all from `alphabet`."""
    if isinstance(node, Literal):
        fits = len(node.text) <= max_len and set(node.text) <= set(alphabet)
        return {node.text} if fits else set()
    if isinstance(node, CharClass):
        return {c for c in alphabet if contains(node, c)} if max_len else set()
    if isinstance(node, Alt):
        return set().union(*(members(option, alphabet, max_len) for option in node.options))
    if isinstance(node, Seq):
        return functools.reduce(
            lambda so_far, part: _joined(so_far, members(part, alphabet, max_len), max_len), node.parts, {""}
        )
    assert isinstance(node, Repeat)
    return _repeated(members(node.body, alphabet, max_len), node, max_len)


def _joined(left: Iterable[str], right: Iterable[str], max_len: int) -> set[str]:
    return {a + b for a in left for b in right if len(a) + len(b) <= max_len}


def _repeated(body: set[str], node: Repeat, max_len: int) -> set[str]:
    current, found = {""}, {""} if node.low == 0 else set()
    # After low + max_len copies a longer run adds nothing: every further copy could only be empty.
    last = node.low + max_len if node.high is None else min(node.high, node.low + max_len)
    for count in range(1, last + 1):
        current = _joined(current, body, max_len)
        if count >= node.low:
            found |= current
    return found


def matches(node: Expression, text: str) -> bool:
    """Whether the whole text belongs to the language, by Brzozowski derivatives."""
    for character in text:
        node = _derive(node, character)
    return _nullable(node)


def _nullable(node: Expression) -> bool:
    if isinstance(node, Literal):
        return node.text == ""
    if isinstance(node, Seq):
        return all(_nullable(part) for part in node.parts)
    if isinstance(node, Alt):
        return any(_nullable(option) for option in node.options)
    return isinstance(node, Repeat) and (node.low == 0 or _nullable(node.body))


def _derive(node: Expression, character: str) -> Expression:
    if isinstance(node, Literal):
        return Literal(node.text[1:]) if node.text[:1] == character else _NEVER
    if isinstance(node, CharClass):
        return _EMPTY if contains(node, character) else _NEVER
    if isinstance(node, Alt):
        return _either(_derive(option, character) for option in node.options)
    if isinstance(node, Seq):
        return _either(_derive_heads(node, character))
    assert isinstance(node, Repeat)
    if node.high == 0:
        return _NEVER
    rest = Repeat(node.body, max(node.low - 1, 0), None if node.high is None else node.high - 1)
    return _then(_derive(node.body, character), (rest,))


def _derive_heads(node: Seq, character: str) -> Iterable[Expression]:
    for index, part in enumerate(node.parts):
        yield _then(_derive(part, character), node.parts[index + 1 :])
        if not _nullable(part):
            return


def _then(head: Expression, rest: tuple[Expression, ...]) -> Expression:
    if head == _NEVER:
        return _NEVER
    parts = (head.parts if isinstance(head, Seq) else (head,)) + rest
    return Seq(parts)


def _either(options: Iterable[Expression]) -> Expression:
    flat: dict[Expression, None] = {}
    for option in options:
        flat.update(dict.fromkeys(option.options if isinstance(option, Alt) else (option,)))
    return next(iter(flat)) if len(flat) == 1 else Alt(tuple(flat))


def render(node: Expression, maybe: Callable[[float], bool] = lambda share: False) -> str:
    """Write the tree as a pattern; `maybe(share)` decides, each time, for a rarer spelling."""
    return _Writer(maybe).top(node)


class _Writer:
    def __init__(self, maybe: Callable[[float], bool]) -> None:
        self.maybe = maybe

    def top(self, node: Expression) -> str:
        """Anchors stand only at the ends of top-level alternatives; in a full match they change nothing."""
        options = node.options if isinstance(node, Alt) and node.options else (node,)
        return "|".join(self.anchored(option) for option in options)

    def anchored(self, node: Expression) -> str:
        before, after = ("^" if self.maybe(0.15) else ""), ("$" if self.maybe(0.15) else "")
        return before + self.sequence(node) + after

    def sequence(self, node: Expression) -> str:
        if isinstance(node, Literal):
            return "".join(self.character(c) for c in node.text)
        if isinstance(node, Seq):
            return "".join(self.sequence(part) for part in node.parts)
        if isinstance(node, Alt):
            return self.group("|".join(self.sequence(option) for option in node.options))
        if isinstance(node, CharClass):
            return self.char_class(node)
        assert isinstance(node, Repeat)
        return self.atom(node.body) + self.quantifier(node)

    def atom(self, node: Expression) -> str:
        single = isinstance(node, CharClass | Alt) or (isinstance(node, Literal) and len(node.text) == 1)
        text = self.sequence(node)
        return self.group(text) if not single or self.maybe(0.1) else text

    def group(self, text: str) -> str:
        return ("(?:" if self.maybe(0.6) else "(") + text + ")"

    def quantifier(self, node: Repeat) -> str:
        short = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((node.low, node.high))
        if short is None or self.maybe(0.2):
            short = f"{{{node.low}}}" if node.low == node.high else f"{{{node.low},{_bound(node.high)}}}"
        return short + ("?" if node.lazy else "")

    def character(self, character: str, special: set[str] = _SPECIAL_OUTSIDE) -> str:
        code = ord(character)
        if self.maybe(0.15) and code <= 0xFF:
            return f"\\x{code:02x}"
        if self.maybe(0.15) and code <= 0xFFFF:
            return f"\\u{code:04X}"
        if character in _NAMED_ESCAPES:
            return _NAMED_ESCAPES[character]
        if code < 0x20 or code in (0x7F, 0x2028, 0x2029):
            return f"\\u{code:04x}"
        return "\\" + character if character in special else character

    def char_class(self, node: CharClass) -> str:
        for text, shorthand in (*SHORTHANDS, (".", DOT)):
            if node == shorthand and not self.maybe(0.3):
                return text
        left, pieces = merge_ranges(node.ranges), []
        for text, shorthand in SHORTHANDS:
            inside = not subtract_ranges(list(shorthand.ranges), left)
            if inside and self.maybe(0.7):
                left = subtract_ranges(left, list(shorthand.ranges))
                pieces.append(text)
        pieces += [self.span(low, high) for low, high in left]
        if self.maybe(0.5):
            pieces.reverse()
        return "[" + ("^" if node.negated else "") + "".join(pieces) + "]"

    def span(self, low: int, high: int) -> str:
        first, last = (self.character(chr(code), _SPECIAL_INSIDE) for code in (low, high))
        if low == high:
            return first
        return first + last if high == low + 1 and not self.maybe(0.5) else f"{first}-{last}"


def _bound(high: int | None) -> str:
    return "" if high is None else str(high)
