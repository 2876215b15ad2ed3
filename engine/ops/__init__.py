"""The numeric operations: what is sampled, what is accepted, and where their randomness comes from.

`get_ops("torch")` is the reference on any device. `get_ops("numpy")` is for CPU tensors: its results are the
reference's bit by bit, in a fraction of the time on small rows. `get_ops("triton")` holds the kernels: native
on CUDA tensors, interpreted on CPU tensors where there is no CUDA device. All give the same ids, counts and
statuses. `ops_for(device)` is what an engine takes unless told otherwise.
"""

import importlib.util
import os
from collections.abc import Callable
from typing import Literal

import attrs
import torch

from engine.errors import IntegrityError
from engine.ops import (
    accept,
    accept_numpy,
    propose,
    propose_numpy,
    rng,
    rng_numpy,
    sample,
    sample_numpy,
)

# Triton reads these when it is first imported. A product and its sum are rounded apart, as in torch.
os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "0")
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")


@attrs.frozen
class OpSet:
    """One implementation of every op, by name."""

    name: str
    select_candidates: Callable[..., sample.Candidates]
    target_law: Callable[..., sample.TargetLaw]
    draw: Callable[..., torch.Tensor]
    accept_round: Callable[..., accept.RoundOutcome]
    propose: Callable[..., propose.Choice]
    uniforms: Callable[..., torch.Tensor]


TORCH_OPS = OpSet(
    name="torch",
    select_candidates=sample.select_candidates,
    target_law=sample.target_law,
    draw=sample.draw,
    accept_round=accept.accept_round,
    propose=propose.propose,
    uniforms=rng.uniforms,
)

NUMPY_OPS = OpSet(
    name="numpy",
    select_candidates=sample_numpy.select_candidates,
    target_law=sample_numpy.target_law,
    draw=sample_numpy.draw,
    accept_round=accept_numpy.accept_round,
    propose=propose_numpy.propose,
    uniforms=rng_numpy.uniforms,
)


def get_ops(name: Literal["torch", "numpy", "triton"]) -> OpSet:
    """Return the named implementation.

    Raises ValueError for another name, and IntegrityError where Triton was imported too early: what it
    interprets is decided at its first import, so this package must be imported before it.
    """
    if name == "torch":
        return TORCH_OPS
    if name == "numpy":
        return NUMPY_OPS
    if name != "triton":
        raise ValueError(f"no ops named {name!r}; allowed: 'torch', 'numpy', 'triton'")
    _check_triton()
    from engine.ops import accept_triton, rng_triton, sample_triton

    return attrs.evolve(
        TORCH_OPS,
        name="triton",
        select_candidates=sample_triton.select_candidates,
        accept_round=accept_triton.accept_round,
        uniforms=rng_triton.uniforms,
    )


def ops_for(device: torch.device | str) -> OpSet:
    """Return the fastest implementation for tensors of a device; on a GPU without Triton that is torch's."""
    if torch.device(device).type == "cpu":
        return get_ops("numpy")
    return get_ops("triton" if importlib.util.find_spec("triton") else "torch")


def _check_triton() -> None:
    """Refuse a Triton whose own functions were compiled for a device while ours would be interpreted."""
    import triton

    if triton.knobs.runtime.interpret and isinstance(triton.language.max, triton.JITFunction):
        raise IntegrityError("Triton was imported before engine.ops could ask it to interpret its kernels")
