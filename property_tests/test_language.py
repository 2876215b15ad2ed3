"""Which text is in the language? Sources spelled by hand against the oracle, every id at every prefix."""

import itertools
import random

import pytest
from hypothesis import given, settings

from engine.errors import EmptyLanguage
from experiments.gates import fixed_languages, languages
from experiments.gates.fixed_checks import compare_masks
from experiments.gates.fixed_languages import DIFFERENT_EVERYWHERE, KNOWN_FAULTS, SAME_LANGUAGE, choice_source
from experiments.gates.mask_walk import advanced, check, row_of
from experiments.gates.subjects import Subject, constraint_of
from oracles.expressions import Alt, CharClass, Literal, Ref, Repeat, Seq
from property_tests.strategies_grammar import CASES

CORES = (None, "xgrammar", "xgrammar-dynamic", "llguidance")


@pytest.fixture(scope="module")
def subject():
    return Subject.of(languages.random_vocabulary(random.Random(7), fixed_languages.ALPHABET, complete=True))


@given(CASES)
@settings(max_examples=60)
@pytest.mark.clause("GBNF-1", "REGEX-3", "CHOICE-1")
def test_any_source(case):
    vocabulary, source = case
    outcome = check(Subject.of(vocabulary), source, core=None, seed=0, num_prefixes=6)
    assert outcome.mismatch is None, (source.text or source.choices, outcome.mismatch)


@pytest.mark.clause("GBNF-7")
@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("name", KNOWN_FAULTS)
def test_known_faults_of_a_core(subject, name, core):
    outcome = check(
        subject, fixed_languages.grammar_source(KNOWN_FAULTS[name]), core=core, seed=0, num_prefixes=30
    )
    assert outcome.mismatch is None, outcome.mismatch


@pytest.mark.clause("GBNF-7")
@pytest.mark.parametrize("text", ["root ::= root", "root ::= (root){2,2}", 'root ::= "a" x\nx ::= x "b"'])
def test_the_empty_language_is_refused(subject, text):
    with pytest.raises(EmptyLanguage):
        subject.compiler.compile(constraint_of(languages.Source("grammar", text)))


@pytest.mark.parametrize("name", DIFFERENT_EVERYWHERE)
def test_these_masks_really_differ_at_every_position(subject, name):
    compiled, _ = subject.compiler.compile(constraint_of(DIFFERENT_EVERYWHERE[name]))
    matcher, rows = compiled.new_matcher(), []
    while legal := row_of(matcher, subject.plain.size) - set(subject.plain.eos_ids):
        rows.append(frozenset(legal))
        shortest = min(legal, key=lambda i: (len(subject.plain.token_bytes[i]), i))
        matcher = advanced(matcher, shortest)
    assert len(rows) >= 4
    assert all(before != after for before, after in itertools.pairwise(rows))


@pytest.mark.clause("SERV-6", "MASK-13", "REGEX-3", "GBNF-6")
@pytest.mark.parametrize("name", SAME_LANGUAGE)
def test_one_language_many_ways_gives_equal_masks(subject, name):
    rows, case = compare_masks(subject, SAME_LANGUAGE[name])
    assert case is None, case
    assert rows >= len(SAME_LANGUAGE[name])


@pytest.mark.clause("CHOICE-3")
@pytest.mark.parametrize("seed", range(8))
def test_permuted_and_repeated_choices_give_bit_identical_masks(subject, seed):
    rng = random.Random(seed)
    source = languages.random_choices(rng, "abc0é")
    shuffled = [rng.sample(source.choices, len(source.choices)) for _ in range(2)]
    sources = [source, *(choice_source(*options) for options in shuffled)]
    sources.append(choice_source(*source.choices, *source.choices))
    assert compare_masks(subject, sources)[1] is None


@pytest.mark.clause("GBNF-1")
@pytest.mark.parametrize("seed", range(40))
def test_spellings_of_one_grammar_give_equal_masks(seed):
    rng = random.Random(seed)
    alphabet = rng.choice(languages.ALPHABETS)
    vocabulary = languages.random_vocabulary(rng, alphabet)
    source = languages.random_grammar(rng, alphabet, vocabulary)
    subject = Subject.of(vocabulary)
    if subject.parser(source).is_empty or languages.features(source)["token terminals"]:
        return
    plain = languages.respell(source, source.rules)
    other = languages.respell(source, source.rules, lambda share: rng.random() < 2 * share)
    assert compare_masks(subject, [source, plain, other], max_prefixes=13)[1] is None


PAIRS = [a + b for a in "abc012" for b in "abc0127"][:40]
TWICE = (0, 1, 30, 39)
FORTY_WORDS = [*(pair + "x" for pair in PAIRS), *("y" + PAIRS[i] for i in TWICE)]
ALL_NAMES, TWICE_NAMES = (" | ".join(f"r{i}" for i in numbers) for numbers in (range(40), TWICE))
FORTY_RULES = "".join(
    [
        f'root ::= ({ALL_NAMES}) "x" | "y" ({TWICE_NAMES})\n',
        *(f'r{i} ::= "{pair}"\n' for i, pair in enumerate(PAIRS)),
    ]
)
A_OR_E = Alt((Literal("a"), Literal("é")))
SPELLED = {
    "a comment to the end of its line": ('root ::= "a" # | "b"\n', Literal("a")),
    "a bar on the next line": ('root ::= "a"\n  | "é"\n', A_OR_E),
    "a nested group": ('root ::= (("a") | ("é"))', A_OR_E),
    "rules in any order": ('x ::= "a" | y\nroot ::= x\ny ::= "é"', A_OR_E),
    "escapes": ('root ::= "\\u0061" | "\\xe9"', A_OR_E),
    "a class with an escape and a dash": ("root ::= [a\\u00e9]", A_OR_E),
    "a repeat binds to the last part": ('root ::= "a" "b"{2}', Literal("abb")),
    "a repeat of a literal of several characters": ('root ::= "ab"{2}', Literal("abab")),
    "a group of one repeat": ('root ::= ("a" "b"){2}', Literal("abab")),
    "a range with both its ends": ("root ::= [a-c]", CharClass(((97, 99),))),
    "a dash at the edge": ("root ::= [-a]", CharClass(((45, 45), (97, 97)))),
    "a negated class and a character of several bytes": (
        "root ::= [^a]",
        CharClass(((97, 97),), negated=True),
    ),
    "NUL": ('root ::= "\\x00" "a"', Literal("\0a")),
    "a count of a count": ('root ::= ("a"{2}){1,2}', Alt((Literal("aa"), Literal("aaaa")))),
    "forty rules, some referred to twice": (FORTY_RULES, Alt(tuple(map(Literal, FORTY_WORDS)))),
}


@pytest.mark.clause("GBNF-1")
@pytest.mark.parametrize("name", SPELLED)
def test_gbnf_spelled_by_hand(subject, name):
    text, node = SPELLED[name]
    source = languages.Source("grammar", text, rules={languages.ROOT: node})
    assert check(subject, source, core=None, seed=0, num_prefixes=30).mismatch is None


PATTERNS = {
    "a|bc": Alt((Literal("a"), Literal("bc"))),
    "^a$|^bc$": Alt((Literal("a"), Literal("bc"))),
    "ab{2}": Literal("abb"),
    "(ab){2}": Literal("abab"),
    "ab{2,}?": Seq((Literal("a"), Repeat(Literal("b"), 2, None))),
    "[^a]": CharClass(((97, 97),), negated=True),
    "\\x61b": Literal("ab"),
    "\\u00e9a": Literal("éa"),
    "": Literal(""),
    "(a|)*": Repeat(Literal("a"), 0, None),
    "(?:a{2}){1,2}": Alt((Literal("aa"), Literal("aaaa"))),
    "(?:a{3}){0,2}b": Alt((Literal("b"), Literal("aaab"), Literal("aaaaaab"))),
    "(?:a{2,3}){2}": Repeat(Literal("a"), 4, 6),
    "[\\]\\-a]": CharClass(((93, 93), (45, 45), (97, 97))),
}


@pytest.mark.clause("REGEX-1", "REGEX-2", "REGEX-3", "REGEX-5")
@pytest.mark.parametrize("pattern", PATTERNS)
def test_regexes_spelled_by_hand(subject, pattern):
    source = languages.Source("regex", pattern, rules={languages.ROOT: PATTERNS[pattern]})
    assert check(subject, source, core=None, seed=0, num_prefixes=30).mismatch is None


@pytest.mark.clause("SERV-7")
@pytest.mark.parametrize("core", [None, "llguidance"])
def test_every_bracket_closes_with_its_own_partner_at_any_depth(core):
    """A stack is the oracle: at depth 40 only the partner of the last open bracket may close."""
    pairs = ("()", "[]", "{}")
    vocabulary = languages.PlainVocabulary(
        (*(c.encode() for pair in pairs for c in pair), b"([", b"])", b"</s>"), {}, (8,), (), 9
    )
    rules = {
        languages.ROOT: Alt(
            (*(Seq((Literal(a), Ref(languages.ROOT), Literal(b))) for a, b in pairs), Literal(""))
        )
    }
    subject = Subject.of(vocabulary)
    compiled, _ = subject.compiler.compile(constraint_of(fixed_languages.grammar_source(rules)), core=core)
    matcher, stack, rng = compiled.new_matcher(), [], random.Random(4)
    for _ in range(40):
        stack.append(rng.randrange(3))
        matcher = advanced(matcher, 2 * stack[-1])
    while stack:
        closing = {2 * stack[-1] + 1}
        if stack[-1] == 1 and len(stack) > 1 and stack[-2] == 0:
            closing.add(7)
        assert {i for i in row_of(matcher, 9) if i in (1, 3, 5, 7, 8)} == closing
        matcher = advanced(matcher, 2 * stack.pop() + 1)
    assert row_of(matcher, 9) == {8}
