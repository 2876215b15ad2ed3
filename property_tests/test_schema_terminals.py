"""Terminals of string conditions in a core: masks id by id, and the second terminal that makes them cheap."""

import functools
import itertools
import re

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from engine.text.cores.llguidance_core import LlguidanceCore
from engine.text.expr import Alt, Grammar, children, literal, repeat, seq
from engine.text.schema.strings import (
    StringSet,
    literal_language,
    search_language,
    string_lexeme,
    string_terminal,
)
from engine.text.vocabulary import Vocabulary
from property_tests.strategies_text import canonical, in_lexeme, python_regex, texts

TOKENS = [
    b"a",
    b"b",
    "é".encode(),
    b"\xc3",
    b"\xa9",
    b"\\",
    b"n",
    b'"',
    b'"a',
    b'a"',
    b"\\n",
    b'\\"',
    b"u",
    b"0",
    b"1",
]
TOKENS += [
    b"\\u00",
    b"00",
    b"ab",
    b"ba",
    b'""',
    b'"ab',
    b"a\\",
    b'b":',
    b":",
    b'":',
    b'n"',
    b"\xa9a",
    b"aa",
    b'b\\n"',
    b" ",
]
TOY = Vocabulary.build("toy", [*TOKENS, b"<eos>"], eos_ids=[len(TOKENS)])
LETTERS = (
    "abé: nu01" + "".join(map(chr, [0, 1, 8, 10, 11, 16, 17, 26, 27])) + '"\\'
)  # of the tokens and their escapes
MASKED = {
    "length": StringSet((), (), 1, 2),
    "edge": StringSet((), (), 2, 2),
    "class and length": StringSet((search_language("^[ab]+$"),), (), 2, 3),
    "search and length": StringSet((search_language("ab?"), search_language("[^a]")), (), 0, 2),
    "names": StringSet((), (literal_language(["a", "ab", "é", "\n"]),), 0, 2),
    "negated search": StringSet((), (search_language("^a"), search_language("b$")), 0, 2),
    "escapes": StringSet((search_language("^[\\n\\x01]*$"),), (literal("\n\n"),), 1, 2),
    "empty": StringSet((), (), 0, 0),
}


@functools.cache
def toy_core():
    return LlguidanceCore(TOY)


@pytest.mark.clause("JSON-13", "JSON-14", "JSON-17", "JSON-19")
@pytest.mark.parametrize("name", MASKED)
def test_masks_are_exact_id_by_id(name):
    strings, suffix = MASKED[name], repeat(literal(" "), 0, 1)
    grammar = Grammar({"root": seq([string_lexeme(strings, suffix), literal(":")])}, "root")
    inside = [text for text in texts(LETTERS, 3) if strings.contains(text)]
    written = [f'"{canonical(text)}"{space}:'.encode() for text in inside for space in ("", " ")]
    prefixes = {data[:n] for data in written for n in range(len(data) + 1)}
    compiled, waiting, seen = toy_core().compile(grammar), [b""], {b""}
    while waiting and len(seen) < 400:
        done = waiting.pop(0)
        matcher = compiled.new_matcher()
        assert all(matcher.accept(token) for token in tokens_of(done))
        words = np.zeros(TOY.num_words, dtype=np.int32)
        matcher.fill(words)
        opened = set(np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little")).tolist())
        expected = {i for i, token in enumerate(TOKENS) if done + token in prefixes}
        expected |= {len(TOKENS)} if done in written else set()
        assert opened == expected, done
        new = [done + TOKENS[i] for i in sorted(expected - {len(TOKENS)}) if done + TOKENS[i] not in seen]
        seen.update(new)
        waiting += new


def tokens_of(data):
    """Some tokens that make up a byte string; single bytes are tokens of their own."""
    found = []
    while data:
        token = max((t for t in TOKENS if data.startswith(t)), key=len)
        found.append(TOKENS.index(token))
        data = data[len(token) :]
    return found


def opened_by(matcher):
    """The ids of a mask."""
    words = np.zeros(TOY.num_words, dtype=np.int32)
    matcher.fill(words)
    return set(np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little")).tolist())


PIECES = ["a", "b+", "[^a]", "a{2,3}", "(?:a|bb)", r"\\n", r"\S", "."]


def search_sets():
    """Sets of searches, some with an anchored or an excluded one, of unbounded length or a long one."""
    found = st.lists(st.sampled_from(PIECES), min_size=1, max_size=3).map("".join)
    anchored = st.builds(
        "{}{}{}".format, st.sampled_from(["", "", "^"]), found, st.sampled_from(["", "", "$"])
    )
    languages = st.lists(anchored.map(search_language), min_size=1, max_size=2).map(tuple)
    words = st.lists(st.text("ab\n", max_size=3), max_size=2).map(lambda some: (literal_language(some),))
    excluded = words | anchored.map(search_language).map(lambda one: (one,))
    return st.builds(StringSet, languages, excluded, st.integers(0, 2), st.sampled_from([None, 50]))


@pytest.mark.clause("JSON-13", "JSON-14")
@given(search_sets())
def test_a_second_terminal_adds_no_text_and_takes_every_plain_beginning(strings):
    assume(not strings.is_empty())
    terminal = string_terminal(strings)
    lexemes = children(terminal) or (terminal,)
    assert lexemes[0] == string_lexeme(strings)
    for text in texts("ab\n\\", 3):
        found = any(in_lexeme(lexeme, f'"{canonical(text)}"') for lexeme in lexemes)
        assert found == strings.contains(text)
    for lexeme in lexemes[1:]:
        pattern = python_regex(lexeme.body).pattern
        end = strings.shortest_member()
        for start, mark in itertools.product(texts("abé", 2), '\n\t\\"'):
            text = f"{start}{mark}{end}"
            if re.fullmatch(pattern, f'"{canonical(text)}"'):
                assert strings.contains(text)


@pytest.mark.parametrize(
    "patterns, low, high, has_second",
    [
        (["a"], 0, None, True),
        (["a", "b+$"], 3, 400, True),
        (["a.b"], 0, None, True),
        (["a"], 0, 20, False),
        (["^a"], 0, None, False),
        (["a|^b"], 0, None, True),
        (["^[^]*$"], 0, None, False),
        ([], 1, 40, False),
    ],
)
def test_searches_have_a_second_terminal(patterns, low, high, has_second):
    terminal = string_terminal(StringSet(tuple(map(search_language, patterns)), (), low, high))
    assert isinstance(terminal, Alt) == has_second


@pytest.mark.clause("JSON-19")
@pytest.mark.parametrize("pattern", ["ab", "a+b$", "b|aa$", "[^a]b", r"\\n"])
def test_masks_are_the_same_with_and_without_the_second_terminal(pattern):
    strings = StringSet((search_language(pattern),), (literal_language(["ab", "b"]),), 0, 60)
    grammars = [
        Grammar({"root": seq([made(strings), literal(":")])}, "root")
        for made in (string_lexeme, string_terminal)
    ]
    one, both = (toy_core().compile(grammar).new_matcher() for grammar in grammars)
    waiting = [(one, both, 0)]
    while waiting:
        one, both, depth = waiting.pop()
        opened = opened_by(one)
        assert opened_by(both) == opened
        for token in sorted(opened - {len(TOKENS)}) if depth < 3 else ():
            left, right = one.fork(), both.fork()
            assert left.accept(token)
            assert right.accept(token)
            waiting.append((left, right, depth + 1))
