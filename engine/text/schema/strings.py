"""String conditions of a schema: sets of decoded strings, their algebra, and the JSON text of their members.

A decoded string is a sequence of Unicode scalar values. Text under a condition is written with canonical
escapes only (two-letter ones where JSON has them, `\\u00xx` in lower case for other controls, everything else
raw), so a string has one spelling; a string without a condition may use every escape, but no lone surrogate.
A surrogate in a literal or an instance makes it no member of anything.
"""

import functools
from collections.abc import Iterable, Sequence
from itertools import groupby

import attrs

from engine.errors import NOWHERE, ErrorKind, LimitExceeded, RefusedConstruct, RequestError, SyntaxFault
from engine.text import automaton
from engine.text.expr import (
    EPSILON,
    NOTHING,
    Alt,
    Bytes,
    Chars,
    Expr,
    Lexeme,
    Repeat,
    Seq,
    alt,
    chars,
    fold,
    literal,
    negated,
    repeat,
    seq,
)
from engine.text.lengths import ANY, ANYTHING, of_length
from engine.text.regex import Alternative, parse_pattern

QUOTE = Bytes(b'"')
SHORT_ESCAPES = {0x22: '"', 0x5C: "\\", 0x08: "b", 0x0C: "f", 0x0A: "n", 0x0D: "r", 0x09: "t"}
ESCAPED = chars([(0, 0x1F), (0x22, 0x22), (0x5C, 0x5C)])
CANONICAL = {
    code: f"\\{SHORT_ESCAPES[code]}" if code in SHORT_ESCAPES else f"\\u{code:04x}"
    for low, high in ESCAPED.ranges
    for code in range(low, high + 1)
}
UNKNOWN_ESCAPE = "an escape that is not served"  # well formed without the u flag: refused, not a fault
PLAIN = negated(chars([*ESCAPED.ranges, (0x7F, 0x7F)]))  # what a lexer knows the tokens of beforehand
MARKS = "\n\t\\"  # characters that are written as an escape: none is plain
LONGEST_TOKEN = 30  # plain characters that are looked up together
MOST_COMPARED = 8  # patterns that are compared with each other
TRIE_HEIGHT = 24  # branches inside branches, before the words that are left stand side by side


@attrs.frozen
class StringSet:
    """The strings in every pattern and in no excluded language, of a length in code points.

    Patterns and excluded are whole-match decoded languages.
    """

    patterns: tuple[Expr, ...] = ()
    excluded: tuple[Expr, ...] = ()
    min_length: int = 0
    max_length: int | None = None

    @property
    def is_free(self) -> bool:
        """Whether there is no condition at all."""
        return self == FREE

    def intersect(self, other: "StringSet") -> "StringSet":
        """The strings in both sets."""
        highs = [high for high in (self.max_length, other.max_length) if high is not None]
        return StringSet(
            tuple(dict.fromkeys(self.patterns + other.patterns)),
            tuple(dict.fromkeys(self.excluded + other.excluded)),
            max(self.min_length, other.min_length),
            min(highs, default=None),
        )

    def contains(self, text: str) -> bool:
        """Whether a string is a member; one with a lone surrogate never is. Raises LimitExceeded."""
        long_enough = len(text) >= self.min_length
        if (
            not long_enough
            or (self.max_length is not None and len(text) > self.max_length)
            or not _is_text(text)
        ):
            return False
        if not all(automaton.matches(pattern, text) for pattern in self.patterns):
            return False
        return not any(automaton.matches(excluded, text) for excluded in self.excluded)

    def is_empty(self) -> bool:
        """Whether no string is a member. Raises LimitExceeded."""
        return automaton.is_empty(self.patterns, self.excluded, self.min_length, self.max_length)

    def shortest_member(self) -> str | None:
        """A shortest member, None if there is none. Raises LimitExceeded."""
        return automaton.shortest_member(self.patterns, self.excluded, self.min_length, self.max_length)

    def members(self, limit: int) -> tuple[str, ...] | None:
        """All members, None for more than `limit`. Raises LimitExceeded."""
        return automaton.members(self.patterns, self.excluded, self.min_length, self.max_length, limit)

    def every_prefix_stays_open(self) -> bool:
        """Whether there are members, infinitely many from each beginning of one. Raises LimitExceeded."""
        return automaton.every_prefix_stays_open(
            self.patterns, self.excluded, self.min_length, self.max_length
        )


FREE = StringSet()


def _is_text(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


@functools.lru_cache(maxsize=4096)
def search_language(pattern: str) -> Expr:
    """The strings in which a schema's `pattern` finds a match, as a whole-match language.

    Raises SyntaxFault of kind invalid_json_schema; RefusedConstruct or LimitExceeded of kind
    unsupported_json_schema. The column within the pattern stands in the message.
    """
    try:
        alternatives = parse_pattern(pattern, lenient=True)
    except RequestError as error:
        raise _as_schema_fault(error) from None
    return alt([_searching(alternative) for alternative in alternatives])


def _as_schema_fault(error: RequestError) -> RequestError:
    """An error of the regular expression as one of the schema, its column in the message."""
    column = f" (column {error.location.column})" if error.location.column else ""
    message = f"in a regular expression: {error.message}{column}"
    if isinstance(error, SyntaxFault) and error.message != UNKNOWN_ESCAPE:
        return attrs.evolve(error, kind=ErrorKind.INVALID_JSON_SCHEMA, message=message, location=NOWHERE)
    kind = ErrorKind.UNSUPPORTED_JSON_SCHEMA
    if isinstance(error, LimitExceeded):
        return attrs.evolve(error, kind=kind, message=message, location=NOWHERE)
    return RefusedConstruct(kind, message, found=error.found, allowed=error.allowed)


def _searching(alternative: Alternative) -> Expr:
    """The whole strings with a match; at an open end no repetition need be longer than its least."""
    expr = alternative.expr
    items: list[Expr] = list(expr.items) if isinstance(expr, Seq) else [expr] if expr != EPSILON else []
    if not alternative.anchored_start:
        items = [ANYTHING, *_least_first(items)]
    if not alternative.anchored_end:
        items = [*reversed(_least_first(items[::-1])), ANYTHING] if items != [ANYTHING] else items
    return seq(items)


def _least_first(items: list[Expr]) -> list[Expr]:
    """The items after an open end: of a repetition that comes first only the copies that must be there."""
    for index, item in enumerate(items):
        if not isinstance(item, Repeat) or item == ANYTHING:
            return items[index:]
        if item.min > 0:
            return [repeat(item.body, item.min, item.min), *items[index + 1 :]]
    return []


def literal_language(texts: Iterable[str]) -> Expr:
    """Exactly these strings, without those that hold a lone surrogate, with common beginnings shared."""
    words = sorted({text for text in texts if _is_text(text)})
    return _trie(words, 0, TRIE_HEIGHT) if words else alt([])


def _trie(words: Sequence[str], offset: int, height: int) -> Expr:
    """The rests of sorted, distinct words that agree up to `offset`."""
    first, last = words[0], words[-1]
    if len(words) == 1:
        return literal(first[offset:])
    if height == 0:
        return alt([literal(word[offset:]) for word in words])
    shared = offset
    while shared < len(first) and first[shared] == last[shared]:
        shared += 1
    options: list[Expr] = [EPSILON] if len(first) == shared else []
    rest = words[len(options) :]
    for _, group in groupby(rest, key=lambda word: word[shared]):
        options.append(_trie(list(group), shared, height - 1))
    return seq([literal(first[offset:shared]), alt(options)])


def json_text(expr: Expr) -> Expr:
    """A decoded language as JSON text with canonical escapes, without the quotes."""

    def visit(node: Expr, parts: list[Expr]) -> Expr:
        match node:
            case Bytes(data):
                return literal(data.decode().translate(CANONICAL))
            case Chars():
                return _text_of_class(node)
            case Seq():
                return seq(parts)
            case Alt():
                return alt(parts)
            case Repeat(_, low, high):
                return repeat(parts[0], low, high)
        raise AssertionError(f"no part of a regular expression over text: {node!r}")

    return fold(expr, visit)


@functools.lru_cache(maxsize=1024)
def _text_of_class(characters: Chars) -> Expr:
    """One character of a set: itself, or the canonical escape where JSON needs one."""
    inside = negated(chars([*negated(characters).ranges, *negated(ESCAPED).ranges]))
    raw = negated(chars([*negated(characters).ranges, *ESCAPED.ranges]))
    codes = [code for low, high in inside.ranges for code in range(low, high + 1)]
    short = [ord(SHORT_ESCAPES[code]) for code in codes if code in SHORT_ESCAPES]
    long = [f"{code:02x}" for code in codes if code not in SHORT_ESCAPES]
    options: list[Expr] = [raw] if raw.ranges else []
    if short:
        options.append(seq([literal("\\"), chars([(code, code) for code in short])]))
    for digit, group in groupby(long, key=lambda digits: digits[0]):
        options.append(seq([literal("\\u00" + digit), chars([(ord(d[1]), ord(d[1])) for d in group])]))
    return alt(options)


HEX = chars([(0x30, 0x39), (0x41, 0x46), (0x61, 0x66)])


def _one_of(text: str) -> Chars:
    return chars([(ord(character), ord(character)) for character in text])


def _free_character() -> Expr:
    """One character in any spelling of JSON: raw, a short escape, a hexadecimal one, a surrogate pair."""
    not_d = seq([_one_of("0123456789ABCEFabcef"), HEX, HEX, HEX])
    below_surrogates = seq([_one_of("Dd"), _one_of("01234567"), HEX, HEX])
    high = seq([_one_of("Dd"), _one_of("89ABab"), HEX, HEX])
    low = seq([_one_of("Dd"), _one_of("CDEFcdef"), HEX, HEX])
    pair = seq([high, literal("\\u"), low])
    unicode = seq([literal("u"), alt([not_d, below_surrogates, pair])])
    return alt([negated(ESCAPED), seq([literal("\\"), alt([_one_of('"\\/bfnrt'), unicode])])])


FREE_TEXT = Repeat(_free_character(), 0, None)


def string_lexeme(strings: StringSet, suffix: Expr = EPSILON, *, canonical: bool = False) -> Lexeme:
    """The terminal of a set's members as JSON text with quotes, and `suffix` after the closing one.

    A free set takes every escape unless `canonical` (member names). The set has a member, and no member of
    `suffix` begins with a quote. As much as can be is put into one body: a vocabulary's common text tokens
    are taken together only where a terminal is one repetition, or one without finitely many words.
    Raises LimitExceeded.
    """

    def quoted(text: Expr) -> Expr:
        return seq([QUOTE, text, QUOTE, suffix])

    if strings.is_free and not canonical:
        return Lexeme(quoted(FREE_TEXT))
    patterns, excluded = needed_parts(strings)
    for expr in (*patterns, excluded):
        automaton.check_overlap(expr)
    bodies = [quoted(json_text(pattern)) for pattern in patterns]
    never = (quoted(json_text(excluded)),) if excluded != NOTHING else ()
    return Lexeme(bodies[0], tuple(bodies[1:]), never)


def string_terminal(strings: StringSet, suffix: Expr = EPSILON, *, canonical: bool = False) -> Expr:
    """As `string_lexeme`; beside it, where masks profit, a second terminal for some of the same texts.

    A search keeps many partial matches, and the lexer then walks all tokens. The second terminal reads plain
    characters up to an escape, then one fixed member: its members are members already (proven here), and
    while it is alive every token of plain characters is known to be legal at once.
    """
    lexeme = string_lexeme(strings, suffix, canonical=canonical)
    shortcut = _shortcut(strings)
    if shortcut is None:
        return lexeme
    return alt([lexeme, Lexeme(seq([QUOTE, json_text(shortcut), QUOTE, suffix]))])


@functools.lru_cache(maxsize=4096)
def _shortcut(strings: StringSet) -> Expr | None:
    """Members that begin with any number of plain characters, as one expression; None if none are found."""
    patterns = tuple(pattern for pattern in strings.patterns if pattern != ANYTHING)
    if not patterns or not all(map(_is_search, patterns)):
        return None
    end = automaton.shortest_member(patterns, strings.excluded, strings.min_length)
    room = None if strings.max_length is None or end is None else strings.max_length - len(end) - 1
    if end is None or (room is not None and room < LONGEST_TOKEN):
        return None
    for mark in MARKS:
        members = seq([repeat(PLAIN, 0, None), literal(mark + end)])
        outside = any(not automaton.is_plainly_empty((members,), (pattern,)) for pattern in patterns)
        if not outside and automaton.is_plainly_empty((members, alt(strings.excluded)), ()):
            return seq([repeat(PLAIN, 0, room), literal(mark + end)])
    return None


def _is_search(pattern: Expr) -> bool:
    """Whether a match may begin anywhere."""
    if isinstance(pattern, Alt):
        return any(map(_is_search, pattern.items))
    return isinstance(pattern, Seq) and pattern.items[0] == ANYTHING


@functools.lru_cache(maxsize=4096)
def needed_parts(strings: StringSet) -> tuple[tuple[Expr, ...], Expr]:
    """Expressions that all members are in, at least one, and one that none is in, without what they imply."""
    patterns = _without_implied(tuple(p for p in strings.patterns if p != ANYTHING))
    low, high = strings.min_length, strings.max_length
    for index, pattern in enumerate(patterns):
        bounded = of_length(pattern, low, high)
        if bounded is not None:
            patterns = (*patterns[:index], bounded, *patterns[index + 1 :])
            break
    else:
        patterns = (*patterns, repeat(ANY, low, high))
    excluded = [expr for expr in strings.excluded if not automaton.is_plainly_empty((*patterns, expr), ())]
    return patterns, alt(excluded) if excluded else NOTHING


def _without_implied(patterns: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The patterns without those that contain another one; all of them where that is too hard to tell."""
    kept = list(patterns)
    for pattern in patterns if len(patterns) <= MOST_COMPARED else ():
        others = tuple(other for other in kept if other != pattern)
        if any(automaton.is_plainly_empty((other,), (pattern,)) for other in others):
            kept.remove(pattern)
    return tuple(kept)
