"""Philox against its published vectors; the engine's uniforms against the oracle, bit for bit."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine.ops import get_ops, rng, rng_numpy
from experiments.gates import exact_ops
from oracles.rng import PURPOSES, philox4x32, uniform

ONES = 0xFFFFFFFF
KNOWN = [  # counter, key, output: the vectors that the authors of the generator publish with it
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((ONES,) * 4, (ONES,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]
words = st.integers(0, ONES)


@pytest.mark.clause("SAMP-13")
@pytest.mark.parametrize("counter, key, output", KNOWN)
def test_published_vectors(counter, key, output):
    assert philox4x32(counter, key) == output
    for module in (rng, rng_numpy):
        assert tuple(module.philox4x32(torch.tensor([counter]), torch.tensor([key]))[0].tolist()) == output


@pytest.mark.clause("SAMP-13")
@given(st.tuples(words, words, words, words), st.tuples(words, words))
def test_philox_equals_the_oracle(counter, key):
    for module in (rng, rng_numpy):
        got = module.philox4x32(torch.tensor([counter]), torch.tensor([key]))
        assert tuple(got[0].tolist()) == philox4x32(counter, key)


@pytest.mark.clause("SAMP-13")
@pytest.mark.parametrize("impl, size", [("torch", "quick"), ("numpy", "quick"), ("triton", "tiny")])
def test_uniforms_equal_the_oracle(impl, size):
    record = exact_ops.run_check(get_ops(impl), "uniforms", size)
    assert record.passed, record.first_failure


def test_the_first_uniform_of_seed_zero_is_the_published_word():
    assert uniform(0, 0, "prefill") == (0x6627E8D5 >> 8) / 2**24
    assert [p.name.lower() for p in rng.Purpose] == list(PURPOSES)


def test_the_largest_uniform_is_below_one():
    """Some output has 24 leading ones in about 2**24 tries; the rule itself shows the bound."""
    assert (ONES >> 8) / 2**24 == 1 - 2**-24 < 1


@pytest.mark.clause("SAMP-13")
def test_every_coordinate_and_every_seed_bit_matters():
    """Changing one bit of the seed, or one coordinate, changes the value: nothing is cut off or shared."""
    base = uniform(12345, 7, "decode", 1, 2)
    others = [uniform(12345 ^ (1 << bit), 7, "decode", 1, 2) for bit in range(64)]
    others += [uniform(12345, 8, "decode", 1, 2), uniform(12345, 7, "decode", 2, 2)]
    others += [uniform(12345, 7, "decode", 1, 3)] + [
        uniform(12345, 7, p, 1, 2) for p in PURPOSES if p != "decode"
    ]
    assert base not in others
    assert len(set(others)) == len(others)


@pytest.mark.clause("SAMP-13")
def test_uniforms_do_not_depend_on_the_row():
    """The same request in another row, or alone, has the same uniform."""
    seeds, positions = torch.tensor([5, -9, 2**40]), torch.tensor([3, 3, 0])
    together = rng.uniforms(seeds, positions, rng.Purpose.ACCEPT)
    turned = rng.uniforms(seeds.flip(0), positions.flip(0), rng.Purpose.ACCEPT).flip(0)
    alone = torch.cat(
        [rng.uniforms(seeds[i : i + 1], positions[i : i + 1], rng.Purpose.ACCEPT) for i in range(3)]
    )
    assert torch.equal(together, turned)
    assert torch.equal(together, alone)


@pytest.mark.clause("SAMP-13")
@pytest.mark.parametrize("impl", ["torch", "numpy", "triton"])
def test_the_draw_and_the_candidate_are_counted_from_zero(impl):
    seed, position = torch.tensor([77]), torch.tensor([3])
    assert get_ops(impl).uniforms(seed, position, rng.Purpose.BONUS).tolist() == [
        uniform(77, 3, "bonus", 0, 0)
    ]
