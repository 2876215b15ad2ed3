"""Languages chosen by hand: faults of a core, masks that differ at every position, one language many ways."""

from collections.abc import Mapping

from experiments.gates.languages import ROOT, Source, choice_rules
from experiments.gates.spelling import gbnf
from oracles.expressions import Alt, CharClass, Expression, Literal, Ref, Repeat, Seq

ALPHABET = "abc0127xyé中"  # a vocabulary over it can spell every language below
A, B, C = Literal("a"), Literal("b"), Literal("c")
LETTER = CharClass(((0x61, 0x7A),))
DIGIT = CharClass(((0x30, 0x39),))


def grammar_source(rules: Mapping[str, Expression], text: str = "") -> Source:
    """Return a grammar source in the plain spelling, or in the given one."""
    return Source("grammar", text or gbnf(rules), rules=rules)


def choice_source(*options: str) -> Source:
    """Return a choice source."""
    return Source("choice", choices=options, rules=choice_rules(list(options)))


# Measured faults of a core: an entry rule that is referred to, branches that never end, crashes.
KNOWN_FAULTS: Mapping[str, Mapping[str, Expression]] = {
    "the entry rule is referred to": {ROOT: Alt((A, Seq((B, Ref(ROOT), C))))},
    "the same behind a fresh rule": {ROOT: Ref("v"), "v": Alt((A, Seq((B, Ref("v"), C))))},
    "a branch that never ends": {ROOT: Alt((Seq((A, Ref("x"))), B)), "x": Seq((C, Ref("x")))},
    "a crash: a counted rule that derives nothing": {ROOT: Repeat(Ref(ROOT), 2, 2)},
    "the same where nothing reaches it": {ROOT: A, "x": Repeat(Ref("x"), 2, 2)},
    "nothing at all": {ROOT: Ref(ROOT)},
    "left recursion": {ROOT: Alt((Seq((Ref(ROOT), A)), B))},
    "left recursion on a nullable rule": {ROOT: Alt((Seq((Ref(ROOT), Ref(ROOT))), A, Literal("")))},
    "a repeat of a nullable body": {ROOT: Seq((Repeat(Alt((A, Literal(""))), 2, 3), B))},
    "a star of a nullable star": {ROOT: Repeat(Repeat(A, 0, None), 0, None)},
    "a plus of an optional part": {ROOT: Repeat(Repeat(B, 0, 1), 1, None)},
    "right recursion": {ROOT: Alt((Seq((A, Ref(ROOT))), B))},
    "mutual recursion": {ROOT: Alt((Seq((A, Ref("x"))), C)), "x": Alt((Seq((B, Ref(ROOT))), A))},
    "brackets": {ROOT: Alt((Seq((A, Ref(ROOT), B, Ref(ROOT))), Literal("")))},
    "palindromes": {ROOT: Alt((Seq((A, Ref(ROOT), A)), Seq((B, Ref(ROOT), B)), A, B, Literal("")))},
    "a longest match loses a parse": {
        ROOT: Alt((Seq((Repeat(DIGIT, 1, 3), Literal("x"))), Seq((Repeat(DIGIT, 1, 2), Literal("7y")))))
    },
    "any text that is not": {ROOT: Seq((Repeat(CharClass(((0x61, 0x61),), negated=True), 0, 3), A))},
}

# At each position another mask: an error of one row, or of one token in a rollback, cannot hide (mutant 165).
DIFFERENT_EVERYWHERE: Mapping[str, Source] = {
    "one long word": choice_source("abcab0é中"),
    "a counted run of digits": grammar_source(
        {ROOT: Seq((Literal("0"), Literal("1"), Literal("2"), Literal("12a")))}
    ),
    "long words with a shared beginning": choice_source("abcabc", "abcb", "abca中", "ab"),
    "letters, digits, an end": Source(
        "regex",
        "01[ab][bc]é中c",
        rules={
            ROOT: Seq(
                (
                    Literal("01"),
                    CharClass(((0x61, 0x62),)),
                    CharClass(((0x62, 0x63),)),
                    Literal("é中c"),
                )
            )
        },
    ),
}

# Each group is one language; the sources' masks must be equal at every prefix.
_TWO_WORDS = {ROOT: Alt((Literal("ab"), Literal("a中")))}
_REPEAT = {ROOT: Seq((A, Repeat(Alt((B, C)), 1, 3)))}
SAME_LANGUAGE: Mapping[str, tuple[Source, ...]] = {
    "choice, regex, grammar": (
        choice_source("ab", "a中"),
        choice_source("a中", "ab", "ab"),
        Source("regex", "a(?:b|中)", rules=_TWO_WORDS),
        Source("regex", "^ab$|^a\\u4e2d$", rules=_TWO_WORDS),
        grammar_source(_TWO_WORDS),
        grammar_source(_TWO_WORDS, 'root ::= "a" x\nx ::= "b"\n  | [中]\n'),
        grammar_source(_TWO_WORDS, '# words\nroot::=("a"  # first\n ("b" | "\\u4e2d"))'),
    ),
    "counted, unrolled, recursive": (
        grammar_source(_REPEAT),
        grammar_source(_REPEAT, 'root ::= "a" x x? x?\nx ::= "b" | "c"'),
        grammar_source(_REPEAT, 'root ::= "a" [bc] ([bc] [bc]?)?'),
        Source("regex", "a[b-c]{1,3}", rules=_REPEAT),
        Source("regex", "a(b|c){1,3}?", rules=_REPEAT),
        choice_source(*("a" + x + y + z for x in "bc" for y in ("", "b", "c") for z in ("", "b", "c"))),
    ),
    "a hint changes nothing": (
        grammar_source(_TWO_WORDS, 'root ::= x "b" | x "中"\nx ::= "a" (="b")'),
        grammar_source(_TWO_WORDS, 'root ::= x "b" | x "中"\nx ::= "a" (="zzz")'),
        grammar_source(_TWO_WORDS, 'root ::= x "b" | x "中"\nx ::= "a"'),
    ),
    "left and right recursion": (
        grammar_source({ROOT: Repeat(A, 1, None)}, 'root ::= root "a" | "a"'),
        grammar_source({ROOT: Repeat(A, 1, None)}, 'root ::= "a" root | "a"'),
        grammar_source({ROOT: Repeat(A, 1, None)}, 'root ::= root root | "a"'),
        grammar_source({ROOT: Repeat(A, 1, None)}, 'root ::= "a"+'),
        Source("regex", "a+?", rules={ROOT: Repeat(A, 1, None)}),
        Source("regex", "aa*", rules={ROOT: Repeat(A, 1, None)}),
    ),
    "only the empty text": (
        Source("regex", "", rules={ROOT: Literal("")}),
        choice_source(""),
        choice_source("", ""),
        grammar_source({ROOT: Literal("")}),
        grammar_source({ROOT: Literal("")}, 'root ::= "a"{0}'),
    ),
}
