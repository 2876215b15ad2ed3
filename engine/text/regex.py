"""Regular expressions of the served ECMAScript subset to grammar (REGEX-1 to REGEX-8).

`regex_grammar` matches the whole content. `parse_pattern` is the same parser for schema `pattern`: the
top-level alternatives with the anchors written at their ends, for the caller to search with. `lenient` takes
what real schemas hold beyond the regex entry's list: anchors anywhere, escaped punctuation, `]` and `}` for
themselves. Greedy and lazy forms are one language; groups capture nothing. Every fault is InvalidRegex with
the offset as a column.
Open groups are kept on a list, so no expression overflows a stack.
"""

import attrs

from engine.text.expr import Expr, Grammar, alt, literal, repeat, seq
from engine.text.limits import check_limit, check_source, read_count
from engine.text.regex_anchors import MOST_ANCHORS, Ref, has_anchors, readings
from engine.text.regex_chars import DOT, KIND, Reader, read_class, read_escape, where
from engine.text.rules import trim
from engine.text.shape import features

ROOT = "root"
OPEN = (False, False)  # no anchor at either end
_QUANTIFIERS = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_GROUPS_REFUSED = {
    "(?=": "look-ahead is not served",
    "(?!": "look-ahead is not served",
    "(?<=": "look-behind is not served",
    "(?<!": "look-behind is not served",
    "(?<": "named groups are not served",
    "(?P": "named groups are not served",
}
_GROUPS_HELP = "( ) and (?: )"


@attrs.frozen
class Alternative:
    """One top-level alternative: what stands between its anchors, and which anchors were written."""

    expr: Expr
    anchored_start: bool
    anchored_end: bool


@attrs.define
class _Group:
    """An open group: finished alternatives and the items of the one being read."""

    offset: int
    alternatives: list[Expr] = attrs.field(factory=list)
    items: list[Expr] = attrs.field(factory=list)
    may_repeat: bool = False

    def add(self, expr: Expr) -> None:
        self.items.append(expr)
        self.may_repeat = True

    def end_alternative(self) -> None:
        self.alternatives.append(seq(self.items))
        self.items, self.may_repeat = [], False


def regex_grammar(pattern: str) -> Grammar:
    """The trimmed grammar of the strings that match `pattern` from end to end.

    Raises SyntaxFault, RefusedConstruct, LimitExceeded or EmptyLanguage, all of kind InvalidRegex.
    """
    alternatives = [alternative.expr for alternative in parse_pattern(pattern)]
    return trim(Grammar({ROOT: alt(alternatives)}, ROOT), kind=KIND, location=where(0))


def parse_pattern(pattern: str, *, lenient: bool = False) -> list[Alternative]:
    """The top-level alternatives of an expression, each with the anchors at its ends (REGEX-6).

    With anchors inside, the alternatives that come of them; none where no text has them where they stand.

    Raises SyntaxFault, RefusedConstruct or LimitExceeded.
    """
    check_source(pattern, KIND)
    alternatives = _Parser(pattern, lenient).read()
    language = Grammar({ROOT: alt([alternative.expr for alternative in alternatives])}, ROOT)
    check_limit("repeat_product", features(language).repeat_product, KIND, where(0))
    return alternatives


class _Parser:
    def __init__(self, pattern: str, lenient: bool):
        self.reader = Reader(pattern, lenient=lenient)
        self.num_anchors = 0  # inside the expression
        self.groups = [_Group(0)]
        self.anchors: list[tuple[bool, bool]] = [OPEN]
        self.num_symbols = 0

    def read(self) -> list[Alternative]:
        """Read the whole expression."""
        while self.reader.peek():
            self.step()
        if len(self.groups) > 1:
            raise self.reader.fault("a group is not closed", ")", self.groups[-1].offset)
        self.groups[0].end_alternative()
        ends = zip(self.groups[0].alternatives, self.anchors, strict=True)
        return [
            Alternative(part, start or begins, end or finishes)
            for expr, (start, end) in ends
            for (begins, finishes), part in (readings(expr) if self.num_anchors else {OPEN: expr}).items()
        ]

    def step(self) -> None:
        """Read one atom, quantifier, anchor or mark into the innermost open group."""
        reader, group = self.reader, self.groups[-1]
        start = reader.offset
        self.count(1, start)
        character = reader.take()
        if character in "*+?{":
            self.quantifier(character, start)
        elif character == "(":
            self.open(start)
        elif character == ")":
            self.close(start)
        elif character == "|":
            group.end_alternative()
            if len(self.groups) == 1:
                self.anchors.append(OPEN)
        elif character in "^$":
            self.anchor(character, start)
        else:
            group.add(self.atom(character, start))

    def count(self, symbols: int, offset: int) -> None:
        self.num_symbols += symbols
        check_limit("symbols", self.num_symbols, KIND, where(offset))

    def atom(self, character: str, start: int) -> Expr:
        """A dot, a class, an escape or a literal character."""
        if character == ".":
            return DOT
        if character == "[":
            members, num_members = read_class(self.reader)
            self.count(num_members, start)
            return members
        if character == "\\":
            found = read_escape(self.reader, in_class=False)
            return literal(chr(found)) if isinstance(found, int) else found
        if character in "]}" and not self.reader.lenient:
            raise self.reader.fault("a bracket closes nothing", f"\\{character} for the character", start)
        return literal(character)

    def open(self, start: int) -> None:
        if self.reader.peek() == "?" and not self.reader.skip("?:"):
            self.refuse_group(start)
        self.groups.append(_Group(start))
        check_limit("nesting_depth", len(self.groups) - 1, KIND, where(start))

    def refuse_group(self, start: int) -> None:
        for opening, message in _GROUPS_REFUSED.items():
            if self.reader.pattern.startswith(opening, start):
                self.reader.offset = start + len(opening)
                raise self.reader.refusal(message, _GROUPS_HELP, start)
        self.reader.offset = start + 3
        raise self.reader.refusal("flags and other group forms are not served", _GROUPS_HELP, start)

    def close(self, start: int) -> None:
        if len(self.groups) == 1:
            raise self.reader.fault("a bracket closes nothing", "\\) for the character", start)
        group = self.groups.pop()
        group.end_alternative()
        self.groups[-1].add(alt(group.alternatives))

    def anchor(self, character: str, start: int) -> None:
        """`^` at the start, `$` at the end of a top-level alternative."""
        at_top, nothing_yet = len(self.groups) == 1, not self.groups[-1].items
        has_start, has_end = self.anchors[-1]
        if character == "^" and at_top and nothing_yet and not (has_start or has_end):
            self.anchors[-1] = (True, False)
        elif character == "$" and at_top and self.reader.peek() in ("", "|"):
            self.anchors[-1] = (has_start, True)
        else:
            self.inner_anchor(character, start)
        self.groups[-1].may_repeat = False

    def inner_anchor(self, character: str, start: int) -> None:
        """Leave a mark, where such anchors are served."""
        self.num_anchors += 1
        if not self.reader.lenient or self.num_anchors > MOST_ANCHORS:
            message = "an anchor stands inside the expression"
            allowed = "^ first and $ last in the expression or in a top-level alternative"
            raise self.reader.refusal(message, allowed, start)
        self.groups[-1].items.append(Ref(character))

    def quantifier(self, character: str, start: int) -> None:
        group = self.groups[-1]
        if not group.may_repeat:
            raise self.reader.fault("a quantifier has nothing to repeat", "an atom before it", start)
        minimum, maximum = _QUANTIFIERS.get(character) or self.bounds(start)
        if self.num_anchors and (minimum, maximum) != (0, 1) and has_anchors(group.items[-1]):
            raise self.reader.refusal("an anchor stands inside what repeats", "anchors outside", start)
        self.reader.skip("?")  # lazy: the same language
        group.items[-1] = repeat(group.items[-1], minimum, maximum)
        group.may_repeat = False

    def bounds(self, start: int) -> tuple[int, int | None]:
        """Read `m}`, `m,}` or `m,n}` after a brace."""
        minimum = self.bound(start)
        maximum: int | None = minimum
        if self.reader.skip(","):
            maximum = None if self.reader.peek() == "}" else self.bound(start)
        if not self.reader.skip("}"):
            raise self.reader.fault("a counted quantifier is not closed", "{m}, {m,} or {m,n}", start)
        if maximum is not None and minimum > maximum:
            raise self.reader.fault("a quantifier's bounds are out of order", "{m,n} with m <= n", start)
        return minimum, maximum

    def bound(self, start: int) -> int:
        first = self.reader.offset
        while self.reader.peek() and self.reader.peek() in "0123456789":
            self.reader.take()
        digits = self.reader.pattern[first : self.reader.offset]
        if not digits:
            allowed = "{m}, {m,} or {m,n}; \\{ for the character"
            raise self.reader.fault("a brace begins no counted quantifier", allowed, start)
        count = read_count(digits)
        check_limit("repeat_count", count, KIND, where(start))
        return count
