"""What the formats are written with: regular expressions as text, put together like the ABNF they come from.

A part is the source of a regular expression without anchors. `language` reads it with the project's own
parser, so the formats stand on the same reading of classes, groups and counts as everything else.
"""

from collections.abc import Iterable

from engine.text.expr import Expr, alt
from engine.text.regex import parse_pattern


def one_of(parts: Iterable[str]) -> str:
    """A part for any one of the parts."""
    return f"(?:{'|'.join(parts)})"


def optional(part: str) -> str:
    """A part for the part or nothing."""
    return f"(?:{part})?"


def language(part: str) -> Expr:
    """The whole-match language of a part, over decoded characters."""
    return alt([alternative.expr for alternative in parse_pattern(part)])
