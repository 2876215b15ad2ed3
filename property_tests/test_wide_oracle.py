"""The wide legal-set oracle equals the plain one, which tries every id on a fresh parse."""

import random

import pytest

from experiments.gates import languages
from experiments.gates.wide_oracle import MergedEarley, SortedTokens
from oracles.expressions import to_byte_grammar
from oracles.grammar_prefix import Earley
from oracles.masks import legal_ids


def _grammar_without_token_terminals(rng, alphabet, vocabulary):
    while True:
        source = languages.random_grammar(rng, alphabet, vocabulary)
        if "TokenSet" not in repr(source.rules):
            return source


@pytest.mark.parametrize("seed", range(12))
def test_merged_states_and_sorted_tokens_change_no_legal_set(seed):
    rng = random.Random(f"wide {seed}")
    alphabet = languages.ALPHABETS[seed % len(languages.ALPHABETS)]
    vocabulary = languages.random_vocabulary(rng, alphabet)
    source = _grammar_without_token_terminals(rng, alphabet, vocabulary)
    parser = Earley(to_byte_grammar(source.rules, vocabulary.text_ids), languages.ROOT)
    merged, tokens = MergedEarley(parser), SortedTokens(vocabulary.oracle_bytes)
    taken: list[int] = []
    while len(taken) < 4:
        state = merged.after(b"".join(vocabulary.token_bytes[i] for i in taken))
        plain = legal_ids(parser, taken, vocabulary.oracle_bytes, vocabulary.eos_ids)
        wide = set() if state is None else tokens.legal_ids(merged, state, vocabulary.eos_ids)
        assert wide == plain
        if plain <= set(vocabulary.eos_ids):
            return
        taken.append(rng.choice(sorted(plain - set(vocabulary.eos_ids))))


def test_whole_token_terminals_are_open_beside_byte_rules():
    vocabulary = languages.random_vocabulary(random.Random(1), "ab")
    token_id = vocabulary.text_ids[3]
    rules = {"root": languages.Alt((languages.TokenSet((token_id,)), languages.Literal("a")))}
    parser = Earley(to_byte_grammar(rules, vocabulary.text_ids), "root")
    merged = MergedEarley(parser)
    wide = SortedTokens(vocabulary.oracle_bytes).legal_ids(merged, merged.start(), vocabulary.eos_ids)
    assert wide == legal_ids(parser, [], vocabulary.oracle_bytes, vocabulary.eos_ids)
    assert token_id in wide


def test_a_regular_language_becomes_a_finite_automaton():
    digits = {"root": [("digit",), ("root", "digit")], "digit": [(frozenset(b"0123456789"),)]}
    merged = MergedEarley(Earley(digits, "root"))
    assert merged.after(b"12") is merged.after(b"98765")
    assert merged.after(b"12") is not merged.start()
    assert merged.after(b"1x") is None
