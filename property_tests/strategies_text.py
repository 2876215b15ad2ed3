"""Random regular expressions over decoded text, and brute-force readings of them (ir_words)."""

import functools
import itertools
import re

from hypothesis import strategies as st

from engine.text.cores.terminals import rust_regex
from engine.text.expr import Expr, alt, chars, literal, repeat, seq
from property_tests.ir_words import expr_words

ALPHABET = 'ab"\\\n\x01é€😀'


def classes(alphabet=ALPHABET):
    """A character set: some characters of the alphabet, or everything but them."""
    some = st.sets(st.sampled_from(alphabet), min_size=1, max_size=3)
    return st.builds(
        lambda members: chars([(ord(c), ord(c)) for c in members]),
        some,
    )


def expressions(alphabet=ALPHABET, *, unbounded=True, max_leaves=6):
    """Expressions with literals, sets, sequences, choices and small counts."""
    leaves = st.one_of(st.text(alphabet, max_size=2).map(literal), classes(alphabet))
    counts = st.tuples(st.integers(0, 2), st.integers(0, 2), st.booleans())

    def grown(parts):
        lists = st.lists(parts, min_size=1, max_size=3)
        counted = st.builds(
            lambda body, count: repeat(
                body, count[0], None if count[2] and unbounded else max(1, count[0] + count[1])
            ),
            parts,
            counts,
        )
        return st.one_of(lists.map(seq), lists.map(alt), counted)

    return st.recursive(leaves, grown, max_leaves=max_leaves)


def words_of_length(expr: Expr, alphabet: str, low: int, high: int) -> set[str]:
    """The words over an alphabet with `low` to `high` characters, by brute force."""
    return {word for word in expr_words(expr, alphabet, high) if len(word) >= low}


def python_regex(expr: Expr) -> re.Pattern[str]:
    """An expression for Python's own engine."""
    text = re.sub(r"\\x\{([0-9a-f]+)\}", lambda found: f"\\U{int(found[1], 16):08x}", rust_regex(expr))
    return re.compile(text.replace("[]", "(?!)"), re.DOTALL)


SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def canonical(text):
    """A string's one spelling without its quotes, written out once more from the contract."""
    return "".join(SHORT.get(c, f"\\u{ord(c):04x}" if c < " " else c) for c in text)


def texts(alphabet, longest):
    return map("".join, itertools.chain(*(itertools.product(alphabet, repeat=n) for n in range(longest + 1))))


@functools.lru_cache(maxsize=2000)
def accepted(expr):
    return python_regex(expr)


def in_lexeme(lexeme, text):
    """Whether a text is a member of a terminal, by Python's regular expressions."""
    inside = all(accepted(part).fullmatch(text) for part in (lexeme.body, *lexeme.also))
    return inside and not any(accepted(part).fullmatch(text) for part in lexeme.never)
