"""Hypothesis strategies over the generators of experiments/gates/languages.py.

The generators take any `random.Random`; hypothesis supplies one whose every choice shrinks, so a failing case
is cut down by the same code that drew it.
"""

from hypothesis import strategies as st

from experiments.gates import languages

ALPHABETS = st.sampled_from(languages.ALPHABETS)


@st.composite
def grammar_cases(draw):
    """A vocabulary and a random grammar over the same alphabet."""
    rng, alphabet = draw(st.randoms(use_true_random=False)), draw(ALPHABETS)
    vocabulary = languages.random_vocabulary(rng, alphabet)
    return vocabulary, languages.random_grammar(rng, alphabet, vocabulary)


@st.composite
def regex_cases(draw):
    """A vocabulary and a random regular expression over the same alphabet."""
    rng, alphabet = draw(st.randoms(use_true_random=False)), draw(ALPHABETS)
    return languages.random_vocabulary(rng, alphabet), languages.random_regex(rng, alphabet)


@st.composite
def choice_cases(draw):
    """A vocabulary and a random list of choices over the same alphabet."""
    rng, alphabet = draw(st.randoms(use_true_random=False)), draw(ALPHABETS)
    return languages.random_vocabulary(rng, alphabet), languages.random_choices(rng, alphabet)


CASES = st.one_of(grammar_cases(), regex_cases(), choice_cases())
