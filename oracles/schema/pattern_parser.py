"""Reading ECMA-262 patterns into the tree of oracles/schema/pattern.py.

Strict parsing follows the grammar of the standard under its `u` flag to the letter. The lenient reading adds
what its Annex B allows where the meaning is beyond doubt: an escaped punctuation mark means itself, and so
does a bracket or brace that cannot be anything else.
"""

from oracles.schema.pattern import (
    BINARY,
    CATEGORIES,
    DIGITS,
    MAX_CODE_POINT,
    NEWLINES,
    SPACES,
    WORDS,
    BackReference,
    Chars,
    Choice,
    Edge,
    Look,
    Node,
    PatternError,
    Repeat,
    Sequence,
    Unsupported,
)

_SHORTHAND = {"d": DIGITS, "w": WORDS, "s": SPACES}
_CONTROL = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13}
_SYNTAX = "^$\\.*+?()[]{}|/"
_HEX = "0123456789abcdefABCDEF"
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def parse_pattern(pattern: str, *, strict: bool = False) -> Node:
    """Read a pattern. Raises: PatternError when it is none, Unsupported when it cannot be judged here."""
    reader = _Reader(pattern, strict)
    node = reader.choice()
    if reader.at < len(reader.text):
        raise PatternError(f"nothing to close at {reader.at}")
    reader.check_references()
    return node


class _Reader:
    def __init__(self, text: str, strict: bool):
        self.text, self.strict = text, strict
        self.at = 0
        self.groups = 0
        self.names: set[str] = set()
        self.references: list[int | str] = []

    def check_references(self) -> None:
        """A reference may stand before its group, so this waits until all is read."""
        for group in self.references:
            if group not in self.names if isinstance(group, str) else group > self.groups:
                raise PatternError(f"no group {group}")

    def peek(self, ahead: int = 0) -> str:
        return self.text[self.at + ahead : self.at + ahead + 1]

    def take(self, expected: str) -> bool:
        found = self.text.startswith(expected, self.at)
        self.at += len(expected) * found
        return found

    def choice(self) -> Node:
        options = [self.sequence()]
        while self.take("|"):
            options.append(self.sequence())
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def sequence(self) -> Node:
        parts: list[Node] = []
        while self.peek() and self.peek() not in "|)":
            parts.append(self.term())
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def term(self) -> Node:
        edge = {"^": "start", "$": "end"}.get(self.peek())
        if edge is not None:
            self.at += 1
            return self.unquantified(Edge(edge))
        for word, kind in (("\\b", "word"), ("\\B", "not word")):
            if self.take(word):
                return self.unquantified(Edge(kind))
        for opening, behind, negated in (("(?=", 0, 0), ("(?!", 0, 1), ("(?<=", 1, 0), ("(?<!", 1, 1)):
            if self.take(opening):
                body = self.closed()
                return self.unquantified(Look(body, bool(behind), bool(negated)))
        return self.quantified(self.atom())

    def unquantified(self, node: Node) -> Node:
        """Return an assertion: under the u flag no quantifier may follow one."""
        before = self.at
        if self.quantified(node) is not node:
            raise PatternError(f"a quantifier at {before} has nothing to repeat")
        return node

    def closed(self) -> Node:
        node = self.choice()
        if not self.take(")"):
            raise PatternError(f"group not closed at {self.at}")
        return node

    def atom(self) -> Node:
        character = self.peek()
        if self.take("("):
            return self.group()
        if self.take("["):
            return self.char_class()
        if self.take("."):
            return Chars(NEWLINES, negated=True)
        if self.take("\\"):
            return self.back_reference() or self.escape()
        literal_brace = character in "]}" or (character == "{" and self.bounds() is None)
        if character in "*+?" or (character in "]{}" and (self.strict or not literal_brace)):
            raise PatternError(f"{character!r} at {self.at} has no meaning there")
        self.at += 1
        return _one(ord(character))

    def back_reference(self) -> Node | None:
        length = len(self.text[self.at :]) - len(self.text[self.at :].lstrip("0123456789"))
        group: int | str
        if length and self.peek() != "0":
            group = int(self.text[self.at : self.at + length])
            self.at += length
        elif self.take("k<"):
            group = self.group_name()
        else:
            return None
        self.references.append(group)
        return BackReference(group)

    def group_name(self) -> str:
        end = self.text.find(">", self.at)
        name = self.text[self.at : end]
        if end < 0 or not name.replace("$", "_").isidentifier():
            raise PatternError(f"no group name at {self.at}")
        self.at = end + 1
        return name

    def group(self) -> Node:
        if self.take("?:"):
            return self.closed()
        if self.take("?<"):
            name = self.group_name()
            if name in self.names:
                raise Unsupported("two groups of one name")
            self.names.add(name)
        elif self.peek() == "?":
            rest = self.text[self.at + 1 :].lstrip("ims-")
            if rest.startswith(":"):
                raise Unsupported("modifiers")
            raise PatternError(f"no such group at {self.at}")
        self.groups += 1
        return self.closed()

    def quantified(self, node: Node) -> Node:
        start = self.at
        simple = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(self.peek())
        bounds = simple or self.bounds()
        if bounds is None:
            return node
        if simple is not None:
            self.at += 1
        else:
            self.at = self.text.index("}", self.at) + 1
        low, high = bounds
        if high is not None and low > high:
            raise PatternError(f"numbers out of order at {start}")
        self.take("?")  # lazy or greedy: the language is the same
        return Repeat(node, low, high)

    def bounds(self) -> tuple[int, int | None] | None:
        """Look at `{n}`, `{n,}` or `{n,m}`; None when it is not there."""
        end = self.text.find("}", self.at)
        if self.peek() != "{" or end < 0:
            return None
        low, comma, high = self.text[self.at + 1 : end].partition(",")
        if not _digits(low) or (high and not _digits(high)):
            return None
        return int(low), int(high) if high else (None if comma else int(low))

    def char_class(self) -> Node:
        negated = self.take("^")
        ranges: list[tuple[int, int]] = []
        groups: list[tuple[bool, tuple[str, ...]]] = []
        while not self.take("]"):
            first = self.class_atom()
            is_range = self.peek() == "-" and self.peek(1) not in ("]", "")
            last = first
            if is_range:
                self.at += 1
                last = self.class_atom()
                if not (_single(first) and _single(last)):
                    raise PatternError(f"a range ends in a set at {self.at}")
                if first.ranges[0][0] > last.ranges[0][0]:
                    raise PatternError(f"range out of order at {self.at}")
                ranges.append((first.ranges[0][0], last.ranges[0][0]))
            else:
                ranges += _flat(first)
                groups += first.groups
        return Chars(tuple(sorted(ranges)), tuple(groups), negated)

    def class_atom(self) -> Chars:
        character = self.peek()
        if not character:
            raise PatternError("class not closed")
        self.at += 1
        if character != "\\":
            return _one(ord(character))
        if self.take("b"):
            return _one(8)
        if self.take("-"):
            return _one(ord("-"))
        return self.escape()

    def escape(self) -> Chars:
        character = self.peek()
        self.at += 1
        if character and character in "dws":
            return Chars(_SHORTHAND[character])
        if character and character in "DWS":
            return Chars(_SHORTHAND[character.lower()], negated=True)
        if character and character in "pP":
            return self.property(character == "P")
        if character in _CONTROL:
            return _one(_CONTROL[character])
        return _one(self.code_escape(character))

    def code_escape(self, character: str) -> int:
        if character == "c" and self.peek() and self.peek() in _LETTERS:
            self.at += 1
            return ord(self.text[self.at - 1]) % 32
        if character == "0" and not _digits(self.peek()):
            return 0
        if character == "x":
            return self.hex_digits(2)
        if character == "u":
            return self.unicode_escape()
        if character and character in _SYNTAX:
            return ord(character)
        if self.strict or not character or character.isalnum():
            raise PatternError(f"no such escape at {self.at - 1}")
        return ord(character)

    def hex_digits(self, count: int) -> int:
        digits = self.text[self.at : self.at + count]
        if len(digits) != count or not set(digits) <= set(_HEX):
            raise PatternError(f"hexadecimal digits wanted at {self.at}")
        self.at += count
        return int(digits, 16)

    def unicode_escape(self) -> int:
        if self.take("{"):
            end = self.text.find("}", self.at)
            digits = self.text[self.at : end] if end > 0 else ""
            if not digits or not set(digits) <= set(_HEX) or int(digits, 16) > MAX_CODE_POINT:
                raise PatternError(f"no code point at {self.at}")
            self.at = end + 1
            return int(digits, 16)
        unit = self.hex_digits(4)
        low = self.text[self.at + 2 : self.at + 6]
        if 0xD800 <= unit < 0xDC00 and self.peek() == "\\" and self.peek(1) == "u" and low[:1] in ("d", "D"):
            before = self.at
            self.at += 2
            second = self.hex_digits(4)
            if 0xDC00 <= second < 0xE000:
                return 0x10000 + ((unit - 0xD800) << 10) + second - 0xDC00
            self.at = before
        return unit

    def property(self, negated: bool) -> Chars:
        end = self.text.find("}", self.at)
        if not self.take("{") or end < 0:
            raise PatternError(f"no property at {self.at}")
        name = self.text[self.at : end]
        self.at = end + 1
        key, equals, value = name.partition("=")
        if equals and key not in ("General_Category", "gc"):
            raise Unsupported(f"property {name}")
        if not equals and name in BINARY:
            found = BINARY[name]
            groups = tuple((one != negated, names) for one, names in found.groups)
            return Chars(tuple(_flat(Chars(found.ranges, negated=negated and not groups))), groups)
        names = CATEGORIES.get(value if equals else name)
        if names is None:
            raise Unsupported(f"property {name}")
        return Chars((), ((negated, names),))


def _digits(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _one(code: int) -> Chars:
    return Chars(((code, code),))


def _single(chars: Chars) -> bool:
    flat = len(chars.ranges) == 1 and chars.ranges[0][0] == chars.ranges[0][1]
    return flat and not chars.groups and not chars.negated


def _flat(chars: Chars) -> list[tuple[int, int]]:
    """Write the plain ranges of a class out without negation."""
    if not chars.negated:
        return list(chars.ranges)
    gaps, start = [], 0
    for low, high in chars.ranges:
        if start < low:
            gaps.append((start, low - 1))
        start = high + 1
    return [*gaps, (start, MAX_CODE_POINT)] if start <= MAX_CODE_POINT else gaps
