"""Hypothesis strategies over the generators of experiments/gates/languages.py.

The generators take any `random.Random`. For the language hypothesis supplies one whose every choice shrinks,
so a failing case is cut down by the code that drew it; vocabularies come from a few plain seeds.
"""

import random

from hypothesis import strategies as st

from experiments.gates import languages


def _vocabulary(draw, alphabet):
    return languages.random_vocabulary(random.Random(draw(st.integers(0, 63))), alphabet)


@st.composite
def grammar_cases(draw):
    """A vocabulary and a random grammar over the same alphabet."""
    alphabet = draw(st.sampled_from(languages.ALPHABETS))
    vocabulary = _vocabulary(draw, alphabet)
    rng = draw(st.randoms(use_true_random=False))
    return vocabulary, languages.random_grammar(rng, alphabet, vocabulary)


@st.composite
def regex_cases(draw):
    """A vocabulary and a random regular expression over the same alphabet."""
    alphabet = draw(st.sampled_from(languages.ALPHABETS))
    return _vocabulary(draw, alphabet), languages.random_regex(
        draw(st.randoms(use_true_random=False)), alphabet
    )


@st.composite
def choice_cases(draw):
    """A vocabulary and a random list of choices over the same alphabet."""
    alphabet = draw(st.sampled_from(languages.ALPHABETS))
    return _vocabulary(draw, alphabet), languages.random_choices(
        draw(st.randoms(use_true_random=False)), alphabet
    )


CASES = st.one_of(grammar_cases(), regex_cases(), choice_cases())
