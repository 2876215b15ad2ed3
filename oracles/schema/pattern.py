"""The pattern language of ECMA-262 under its `u` flag, as a syntax tree.

Back-references have a node, but matching one is `Unsupported`; so are scripts and case-folding modifiers.
"""

import unicodedata
from dataclasses import dataclass

MAX_CODE_POINT = 0x10FFFF


class PatternError(ValueError):
    """The text is no ECMA-262 pattern."""


class Unsupported(ValueError):
    """A legal pattern that needs more than sets of positions."""


@dataclass(frozen=True)
class Chars:
    """One code point inside `ranges` (sorted, inclusive) or of a general category in `groups`; or none of it.

    groups: (negated, category prefixes) pairs.
    """

    ranges: tuple[tuple[int, int], ...]
    groups: tuple[tuple[bool, tuple[str, ...]], ...] = ()
    negated: bool = False

    def holds(self, character: str) -> bool:
        """Whether the class has this character."""
        code = ord(character)
        inside = any(low <= code <= high for low, high in self.ranges)
        if not inside and self.groups:
            category = unicodedata.category(character)
            inside = any(category.startswith(names) != negated for negated, names in self.groups)
        return inside != self.negated


@dataclass(frozen=True)
class Sequence:
    """One after the other."""

    parts: tuple["Node", ...]


@dataclass(frozen=True)
class Choice:
    """Any one of them."""

    options: tuple["Node", ...]


@dataclass(frozen=True)
class Repeat:
    """low to high copies; high None is no limit."""

    body: "Node"
    low: int
    high: int | None


@dataclass(frozen=True)
class Edge:
    """kind: "start", "end", "word" or "not word" (a word boundary, or none)."""

    kind: str


@dataclass(frozen=True)
class Look:
    """An assertion about what follows, or what comes before."""

    body: "Node"
    behind: bool
    negated: bool


@dataclass(frozen=True)
class BackReference:
    """What a group has matched; read, so that a pattern can be judged as such, but not matched."""

    group: int | str


Node = Chars | Sequence | Choice | Repeat | Edge | Look | BackReference

DIGITS = ((0x30, 0x39),)
WORDS = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
# WhiteSpace and LineTerminator of the standard: five controls, the byte order mark, and category Zs.
_SPACE_CODES = [0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x2028, 0x2029, 0xFEFF]
_SPACE_CODES += [code for code in range(0x10000) if unicodedata.category(chr(code)) == "Zs"]
SPACES = tuple((code, code) for code in sorted(_SPACE_CODES))
NEWLINES = ((0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029))
# Values of General_Category by their long names; short names are read by their form.
CATEGORIES = {
    "Letter": ("L",),
    "Cased_Letter": ("Lu", "Ll", "Lt"),
    "LC": ("Lu", "Ll", "Lt"),
    "Uppercase_Letter": ("Lu",),
    "Lowercase_Letter": ("Ll",),
    "Titlecase_Letter": ("Lt",),
    "Modifier_Letter": ("Lm",),
    "Other_Letter": ("Lo",),
    "Mark": ("M",),
    "Combining_Mark": ("M",),
    "Nonspacing_Mark": ("Mn",),
    "Spacing_Mark": ("Mc",),
    "Enclosing_Mark": ("Me",),
    "Number": ("N",),
    "Decimal_Number": ("Nd",),
    "digit": ("Nd",),
    "Letter_Number": ("Nl",),
    "Other_Number": ("No",),
    "Punctuation": ("P",),
    "punct": ("P",),
    "Connector_Punctuation": ("Pc",),
    "Dash_Punctuation": ("Pd",),
    "Open_Punctuation": ("Ps",),
    "Close_Punctuation": ("Pe",),
    "Initial_Punctuation": ("Pi",),
    "Final_Punctuation": ("Pf",),
    "Other_Punctuation": ("Po",),
    "Symbol": ("S",),
    "Math_Symbol": ("Sm",),
    "Currency_Symbol": ("Sc",),
    "Modifier_Symbol": ("Sk",),
    "Other_Symbol": ("So",),
    "Separator": ("Z",),
    "Space_Separator": ("Zs",),
    "Line_Separator": ("Zl",),
    "Paragraph_Separator": ("Zp",),
    "Other": ("C",),
    "Control": ("Cc",),
    "cntrl": ("Cc",),
    "Format": ("Cf",),
    "Surrogate": ("Cs",),
    "Private_Use": ("Co",),
    "Unassigned": ("Cn",),
}
CATEGORIES |= {short: (short,) for names in list(CATEGORIES.values()) for short in names}
BINARY = {"Any": Chars(((0, MAX_CODE_POINT),)), "ASCII": Chars(((0, 0x7F),))}
BINARY["Assigned"] = Chars((), ((True, ("Cn",)),))
