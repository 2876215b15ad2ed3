"""Promises no single module keeps: illegal favourites, many vocabularies, runs without assertions."""

import itertools
import math
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from engine.ops import get_ops
from engine.ops.sample import SamplingBatch
from engine.request import OutputConstraint, SamplingSettings
from engine.text.compiler import ConstraintCompiler
from engine.text.vocabulary import Vocabulary

ROOT = Path(__file__).resolve().parent.parent
LEGAL = (3, 40, 41)
LEGAL_WORDS = torch.tensor([[1 << 3, 1 << 8 | 1 << 9]], dtype=torch.int32)


def law_under_a_favourite(favourite: float, **settings) -> dict[int, float]:
    logits = torch.full((1, 50), favourite)
    logits[0, list(LEGAL)] = torch.tensor([0.5, 2.0, -1.0])
    batch = SamplingBatch.from_settings([SamplingSettings(**settings)])
    chosen = get_ops("torch").select_candidates(
        logits, batch, vocab_size=50, candidate_cap=20, allowed_bitmask=LEGAL_WORDS
    )
    law = get_ops("torch").target_law(chosen, batch)
    ids, probs = law.token_ids[0].tolist(), law.probs[0].tolist()
    return {i: p for i, p in zip(ids, probs, strict=True) if p > 0}


@pytest.mark.clause("SERV-3", "SERV-25", "SERV-26")
@pytest.mark.parametrize("favourite", [3.0, 1e4, 3e38])
def test_an_illegal_favourite_has_no_probability_and_changes_no_odds(favourite):
    for temperature in (1e-3, 1.0, 1e6):
        law = law_under_a_favourite(favourite, temperature=temperature)
        assert set(law) <= set(LEGAL)
        if temperature >= 1:
            assert law[40] / law[3] == pytest.approx(math.exp(1.5 / temperature))
            assert law[40] / law[41] == pytest.approx(math.exp(3.0 / temperature))
    for narrow in ({"top_k": 1}, {"top_p": 1e-9}, {"min_p": 1.0}, {"temperature": 0.0}):
        assert law_under_a_favourite(favourite, **narrow) == {40: 1.0}


ALPHABET = "ab é€"
BYTES = [bytes([b]) for b in sorted(set(ALPHABET.encode()))]
TOKENIZERS = {
    "bytes": BYTES,
    "pieces": [*BYTES, b" a", b" b", b" ab", "é".encode(), "€".encode(), "a€".encode(), b"a b", b"  "],
    "halves": [*BYTES, b"\xe2\x82", b"\x82\xac", b"\xa9a", b"b\xc3", b"a\xe2", b" \xc3\xa9", b"ba", b"bb "],
}


def vocabulary_of(name: str) -> Vocabulary:
    tokens = [*TOKENIZERS[name], b"<eos>"]
    return Vocabulary.build(name, tokens, eos_ids=[len(tokens) - 1], logits_width=len(tokens) + 5)


def greedy_tokens(data: bytes, tokens: list[bytes]) -> list[int]:
    """The longest token at each place."""
    found = []
    while data:
        best = max((t for t in tokens if data.startswith(t)), key=len)
        found.append(tokens.index(best))
        data = data[len(best) :]
    return found


@pytest.mark.clause("TEST2-3", "SERV-5", "SERV-23")
@pytest.mark.parametrize("name", TOKENIZERS)
@pytest.mark.parametrize("pattern", ["a*b", "(?:a| b|é€)+", "[^a ]{1,2}a?", "(?:a b|ab|€)?"])
def test_one_language_over_several_vocabularies(pattern, name):
    compiled, _ = ConstraintCompiler(vocabulary_of(name)).compile(OutputConstraint.regex(pattern))
    matcher, tokens = compiled.new_matcher(), TOKENIZERS[name]
    for length in range(4):
        for characters in itertools.product(ALPHABET, repeat=length):
            text = "".join(characters)
            for spelling in (greedy_tokens(text.encode(), tokens), greedy_tokens(text.encode(), BYTES)):
                with matcher.look_ahead():
                    taken = all(matcher.accept(i) for i in spelling)
                    assert (taken and matcher.may_end) == bool(re.fullmatch(pattern, text)), (text, spelling)


GATES_WITHOUT_ASSERTIONS = """
from experiments.faults.child import run_gate
assert False, "assertions must be stripped here"
outcomes = [run_gate("gate:" + name) for name in ("exact ops", "transactions")]
raise SystemExit(sum(outcome.outcome != "passed" for outcome in outcomes))
"""


@pytest.mark.clause("TEST2-13")
def test_the_gates_pass_with_assertions_stripped():
    command = [sys.executable, "-O", "-c", GATES_WITHOUT_ASSERTIONS]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
