"""How the phases of a round are run: eagerly here, as captured graphs in `graphs`; the phases do not differ.

A phase is a function from records of tensors to a record of tensors; the program makes its inputs on the host
and the launcher brings them to the device. The ready mark stands inside Forward, after the draft ids left for
the host and before the target's pass, so that masks can be made meanwhile.
"""

from collections.abc import Callable, Hashable
from typing import Any, Protocol, TypeVar, runtime_checkable

import attrs
import torch
from torch import Tensor

from engine.runtime.batch import Drafts, Lane

Result = TypeVar("Result")


@runtime_checkable
class Launcher(Protocol):
    """One device's way to run phases. Contexts are rounded up to `context_step` so that few shapes occur."""

    device: torch.device
    context_step: int

    def run(self, key: Hashable | None, phase: Callable[..., Result], *inputs: Any) -> Result:
        """Run a phase; equal keys mean equal shapes and an equal course. None: a shape not worth keeping."""
        ...

    def mark_ready(self, drafts: Drafts) -> None:
        """Send the draft ids to the host and mark the place; called inside Forward."""
        ...

    def wait_ready(self) -> tuple[list[list[int]], list[int]]:
        """Wait for the mark of the newest Forward; returns the ids and the extents of its drafts."""
        ...


class EagerLauncher:
    """Calls every phase as it is."""

    context_step = 1

    def __init__(self, device: torch.device | str = "cpu") -> None:
        self.device = torch.device(device)
        self._drafts: Drafts | None = None

    @torch.inference_mode()
    def run(self, key: Hashable | None, phase: Callable[..., Result], *inputs: Any) -> Result:
        """Call the phase; without autograd's bookkeeping a small model's step takes three quarters."""
        if self.device.type == "cpu":
            return phase(*inputs)
        return phase(*map_tensors(lambda tensor: tensor.to(self.device, non_blocking=True), inputs))

    def mark_ready(self, drafts: Drafts) -> None:
        """Keep the drafts."""
        self._drafts = drafts

    def wait_ready(self) -> tuple[list[list[int]], list[int]]:
        """Read the kept drafts."""
        assert self._drafts is not None, "no Forward has drafted"
        return self._drafts.token_ids.tolist(), self._drafts.extents.tolist()


def map_tensors(change: Callable[[Tensor], Tensor], record: Any) -> Any:
    """Return a record (attrs, tuple, list) with every tensor in it changed; lanes are the host's alone."""
    if isinstance(record, Tensor):
        return change(record)
    if isinstance(record, tuple | list):
        return type(record)(map_tensors(change, part) for part in record)
    if attrs.has(type(record)) and not isinstance(record, Lane):
        names = [field.name for field in attrs.fields(type(record))]
        return attrs.evolve(record, **{name: map_tensors(change, getattr(record, name)) for name in names})
    return record


def tensors_of(record: Any) -> list[Tensor]:
    """Return every tensor in a record, in a fixed order."""
    found: list[Tensor] = []

    def see(tensor: Tensor) -> Tensor:
        found.append(tensor)
        return tensor

    map_tensors(see, record)
    return found
