"""Hypothesis profiles, one thread for torch, and a guard against leaked global random state."""

import os
import random
import zlib

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings

import engine.ops  # noqa: F401 - decides whether Triton is interpreted, before anything else imports it

COMMON = {"deadline": None, "database": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("ci", derandomize=True, print_blob=True, max_examples=60, **COMMON)
settings.register_profile("nightly", derandomize=False, print_blob=True, max_examples=2000, **COMMON)
settings.register_profile("debug", derandomize=True, print_blob=True, max_examples=10, **COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
torch.set_num_threads(1)


def _global_random_state() -> int:
    numpy_state = np.random.get_state()[1].tobytes()  # noqa: NPY002 - reading the state is the point
    torch_state = torch.random.get_rng_state().numpy().tobytes()
    return zlib.crc32(numpy_state + torch_state + repr(random.getstate()).encode())


@pytest.fixture(autouse=True)
def no_global_randomness():
    """Fail a test that draws from, or seeds, a global generator: randomness is an argument here."""
    before = _global_random_state()
    yield
    assert _global_random_state() == before, "the test used a global random generator"


def pytest_collection_modifyitems(items):
    """Skip what needs a GPU where there is none, with the reason."""
    if torch.cuda.is_available():
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="no CUDA device on this machine"))
