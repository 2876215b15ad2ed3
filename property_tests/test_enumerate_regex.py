"""Do the regex oracle's readings agree with each other, with `re`, and with hand-worked patterns?"""

import itertools
import random
import re
import unicodedata

import pytest

from experiments.gates import languages
from oracles.enumerate_regex import DIGIT, DOT, SPACE, WORD, contains, matches, members, render
from oracles.expressions import Alt, CharClass, Literal, Repeat, Seq, to_byte_grammar
from oracles.grammar_prefix import Earley

HAND_WORKED = {
    "a|bc": (Alt((Literal("a"), Literal("bc"))), ["a", "bc"], ["b", "ac", "abc"]),
    "(?:a|b)c": (Seq((Alt((Literal("a"), Literal("b"))), Literal("c"))), ["ac", "bc"], ["a", "abc"]),
    "ab{2}": (Seq((Literal("a"), Repeat(Literal("b"), 2, 2))), ["abb"], ["ab", "abab"]),
    "(?:a*b?){2,3}": (
        Repeat(Seq((Repeat(Literal("a"), 0, None), Repeat(Literal("b"), 0, 1))), 2, 3),
        ["", "abab", "bbb"],
        ["bbbb"],
    ),
    "[^a]": (CharClass(((97, 97),), negated=True), ["b", "é", "😀"], ["a", "", "bb"]),
    "": (Literal(""), [""], ["a"]),
}


@pytest.mark.parametrize("pattern", HAND_WORKED)
def test_hand_worked_patterns(pattern):
    node, inside, outside = HAND_WORKED[pattern]
    assert [text for text in inside + outside if matches(node, text)] == inside
    plain = re.sub(r"\(\?:", "(", pattern)
    assert re.sub(r"\(\?:", "(", render(node)) == plain


@pytest.mark.parametrize("seed", range(150))
def test_derivatives_enumeration_earley_and_re_agree(seed):
    rng = random.Random(seed)
    alphabet = rng.choice(["ab", "abc", "aé", "a😀", 'a"', "01-", "a]^", "()"])
    source = languages.random_regex(rng, alphabet)
    node = source.rules[languages.ROOT]
    letters = alphabet + rng.choice("b_ 7")
    found = members(node, letters, 4)
    parser = Earley(to_byte_grammar(source.rules), languages.ROOT)
    compiled = re.compile(source.text, re.ASCII)
    for length in range(5):
        for picked in itertools.product(letters, repeat=length):
            text = "".join(picked)
            answers = {matches(node, text), text in found, parser.member(text.encode())}
            assert answers == {bool(compiled.fullmatch(text))}, (source.text, text)


@pytest.mark.parametrize("seed", range(60))
def test_every_spelling_is_the_same_pattern(seed):
    rng = random.Random(seed)
    node = languages.random_regex(rng, "ab-").rules[languages.ROOT]
    spellings = [re.compile(render(node, lambda share: rng.random() < share), re.ASCII) for _ in range(4)]
    spellings.append(re.compile(render(node), re.ASCII))
    for length in range(4):
        for picked in itertools.product("ab-_", repeat=length):
            text = "".join(picked)
            assert len({bool(s.fullmatch(text)) for s in spellings}) == 1, (spellings, text)


def test_the_named_classes_are_those_of_ecmascript():
    spaces = {"\t", "\v", "\f", "\ufeff", "\n", "\r", "\u2028", "\u2029"}
    for code in (c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF and (c < 0x10000 or c % 257 == 0)):
        c = chr(code)
        assert contains(DIGIT, c) == ("0" <= c <= "9")
        assert contains(WORD, c) == (c.isascii() and (c.isalnum() or c == "_"))
        assert contains(SPACE, c) == (c in spaces or unicodedata.category(c) == "Zs")
        assert contains(DOT, c) == (c not in "\n\r\u2028\u2029")
