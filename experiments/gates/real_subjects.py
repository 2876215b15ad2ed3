"""The languages of the real-vocabulary gate, each written twice: for the engine, and as the oracle's rules.

The loops of the oracle are left-recursive, so that its chart stays small. Every prefix names a state
in which the mask is judged; some end inside a character.
"""

from collections.abc import Mapping
from functools import cache

from attrs import frozen

from engine.request import OutputConstraint
from engine.text.vocabulary import TokenClass, Vocabulary
from oracles.expressions import MAX_SCALAR, Alt, CharClass, Expression, Literal, Ref, Repeat, Seq, TokenSet


@frozen(eq=False)
class Subject:
    """One language: what the engine compiles, the oracle's rules from `root`, and the judged prefixes."""

    name: str
    constraint: OutputConstraint
    rules: Mapping[str, Expression]
    prefixes: tuple[bytes, ...]


def _between(low: str, high: str) -> CharClass:
    return CharClass(((ord(low), ord(high)),))


def _any_of(text: str) -> CharClass:
    return CharClass(tuple((ord(c), ord(c)) for c in text))


def _some(name: str, item: Expression) -> Alt:
    """One or more of `item`, for the rule called `name`."""
    return Alt((item, Seq((Ref(name), item))))


def _any(name: str, item: Expression) -> Alt:
    """Any number of `item`, for the rule called `name`."""
    return Alt((Literal(""), Seq((Ref(name), item))))


def _texts(*options: str) -> Alt:
    return Alt(tuple(Literal(option) for option in options))


DIGIT = _between("0", "9")
CHOICES = ("yes", "no", "yes please", "да", "да нет", "是的", "🙂", "")
MULTIBYTE = CharClass(((0xE0, 0xFF), (0x4E2D, 0x6587), (0x1F600, 0x1F60E)))
PLAIN = CharClass(((0x00, 0x1F), (0x22, 0x22), (0x5C, 0x5C)), negated=True)

JSON_TEXT = r"""
root ::= ws value ws
value ::= object | array | string | number | "true" | "false" | "null"
object ::= "{" ws (member (ws "," ws member)* ws)? "}"
member ::= string ws ":" ws value
array ::= "[" ws (value (ws "," ws value)* ws)? "]"
string ::= "\"" ([^\x00-\x1f"\\] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4}))* "\""
number ::= "-"? ("0" | [1-9] [0-9]*) ("." [0-9]+)? ([eE] [+-]? [0-9]+)?
ws ::= [ \t\n\r]*
"""
_ESCAPE = Seq(
    (
        Literal("\\"),
        Alt(
            (
                _any_of('"\\/bfnrt'),
                Seq((Literal("u"), Repeat(CharClass(((48, 57), (65, 70), (97, 102))), 4, 4))),
            )
        ),
    )
)
_OPTIONAL_MINUS = _texts("", "-")
JSON_RULES: dict[str, Expression] = {
    "root": Seq((Ref("ws"), Ref("value"), Ref("ws"))),
    "value": Alt(
        (Ref("object"), Ref("array"), Ref("string"), Ref("number"), _texts("true", "false", "null"))
    ),
    "object": Seq(
        (Literal("{"), Ref("ws"), Alt((Literal(""), Seq((Ref("members"), Ref("ws"))))), Literal("}"))
    ),
    "members": Alt((Ref("member"), Seq((Ref("members"), Ref("comma"), Ref("member"))))),
    "member": Seq((Ref("string"), Ref("ws"), Literal(":"), Ref("ws"), Ref("value"))),
    "comma": Seq((Ref("ws"), Literal(","), Ref("ws"))),
    "array": Seq(
        (Literal("["), Ref("ws"), Alt((Literal(""), Seq((Ref("values"), Ref("ws"))))), Literal("]"))
    ),
    "values": Alt((Ref("value"), Seq((Ref("values"), Ref("comma"), Ref("value"))))),
    "string": Seq((Literal('"'), Ref("characters"), Literal('"'))),
    "characters": _any("characters", Alt((PLAIN, _ESCAPE))),
    "number": Seq((_OPTIONAL_MINUS, Ref("whole"), Ref("fraction"), Ref("exponent"))),
    "whole": Alt((Literal("0"), Seq((_between("1", "9"), Ref("any digits"))))),
    "fraction": Alt((Literal(""), Seq((Literal("."), Ref("digits"))))),
    "exponent": Alt((Literal(""), Seq((_any_of("eE"), _texts("", "+", "-"), Ref("digits"))))),
    "digits": _some("digits", DIGIT),
    "any digits": _any("any digits", DIGIT),
    "ws": _any("ws", _any_of(" \t\n\r")),
}

DATE_PATTERN = r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_MONTH = Alt((Seq((Literal("0"), _between("1", "9"))), Seq((Literal("1"), _between("0", "2")))))
_DAY = Alt(
    (
        Seq((Literal("0"), _between("1", "9"))),
        Seq((_between("1", "2"), DIGIT)),
        Seq((Literal("3"), _between("0", "1"))),
    )
)
DATE = Seq((Repeat(DIGIT, 4, 4), Literal("-"), _MONTH, Literal("-"), _DAY))

LANGUAGES = (
    Subject(
        "digits",
        OutputConstraint.grammar("root ::= [0-9]+"),
        {"root": _some("root", DIGIT)},
        (b"", b"12"),
    ),
    Subject(
        "choice",
        OutputConstraint.choice(CHOICES),
        {"root": _texts(*CHOICES)},
        (b"", b"yes", b"\xd0", "是".encode()[:2], "🙂".encode()[:3]),
    ),
    Subject(
        "date",
        OutputConstraint.regex(DATE_PATTERN),
        {"root": DATE},
        (b"", b"2026-", b"2026-1", b"2026-12-3"),
    ),
    Subject(
        "characters of many bytes",
        OutputConstraint.grammar(r'root ::= "«" [\u00e0-\u00ff\u4e2d-\u6587\U0001f600-\U0001f60e]{2,5} "»"'),
        {"root": Seq((Literal("«"), Repeat(MULTIBYTE, 2, 5), Literal("»")))},
        (b"", "«".encode(), "«中".encode()[:-1], "«é中".encode() + b"\xf0\x9f"),
    ),
    Subject(
        "json",
        OutputConstraint.grammar(JSON_TEXT),
        JSON_RULES,
        (b"", b'{"a": [1, ', b"[[-1.5e", b'{"a": "\\u00', b'"caf', b'"caf\xc3', b"{}"),
    ),
    Subject(
        "free text",
        OutputConstraint.regex(r"[\s\S]*"),
        {"root": _any("root", CharClass(((0, MAX_SCALAR),)))},
        (b"", b"a", b"\xe4\xb8", b"\xf0\x9f\x99"),
    ),
)

SPELLED_BYTES = b"abc" + b"".join(prefix for subject in LANGUAGES for prefix in subject.prefixes)


@cache
def subjects(vocabulary: Vocabulary) -> tuple[Subject, ...]:
    """The languages, and one that names two ordinary ids of the vocabulary."""
    texts = vocabulary.ids_of(TokenClass.TEXT)
    named = (texts[min(264, len(texts) // 2)], texts[min(1358, len(texts) - 1)])
    return (*LANGUAGES, _token_ids(*named))


def _token_ids(one: int, other: int) -> Subject:
    """A language of token ids, as a user's grammar may name them."""
    either, not_one = TokenSet((one, other)), TokenSet((one,), exclude=True)
    return Subject(
        "token ids",
        OutputConstraint.grammar(f'root ::= "id " (Token({one}, {other}) | "a" ExcludeToken({one}))'),
        {"root": Seq((Literal("id "), Alt((either, Seq((Literal("a"), not_one))))))},
        (b"", b"id ", b"id a"),
    )
