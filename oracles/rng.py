"""Philox4x32-10 from its definition, and the uniforms of contract 4.

Ten rounds over four 32-bit counter words with two 32-bit key words (Salmon et al., SC 2011). A request's
uniform has key = its 64-bit seed and counter = (logical position, purpose, draw index, candidate index);
the value is the top 24 bits of the first output word over 2**24, so it lies in [0, 1).
"""

WORD = 2**32
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
PURPOSES = ("prefill", "decode", "accept", "correction", "bonus", "proposal")


def philox4x32(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, int, int, int]:
    """The four output words of Philox4x32-10; all words are integers below 2**32."""
    x0, x1, x2, x3 = counter
    key0, key1 = key
    for _ in range(10):
        high0, low0 = divmod(MULTIPLIERS[0] * x0, WORD)
        high1, low1 = divmod(MULTIPLIERS[1] * x2, WORD)
        x0, x1, x2, x3 = high1 ^ x1 ^ key0, low1, high0 ^ x3 ^ key1, low0
        key0, key1 = (key0 + WEYL[0]) % WORD, (key1 + WEYL[1]) % WORD
    return x0, x1, x2, x3


def uniform(
    seed: int, position: int, purpose: str | int, draw_index: int = 0, candidate_index: int = 0
) -> float:
    """One uniform in [0, 1) (contract 4); a negative seed stands for its 64-bit two's complement."""
    code = PURPOSES.index(purpose) if isinstance(purpose, str) else int(purpose)
    bits = seed % 2**64
    words = philox4x32((position % WORD, code, draw_index, candidate_index), (bits % WORD, bits // WORD))
    return (words[0] >> 8) / 2**24
