"""What a program will hold, in bytes, decided before any of it is allocated.

States are laid out on the meta device, which knows sizes and holds nothing; the plan sums them, is shown at
start-up, and is enforced against a limit. Afterwards nothing grows with schemas, requests or output length.
"""

from collections.abc import Iterable

import attrs
from torch import Tensor, nn

from engine.errors import ErrorKind, RequestError
from engine.text.masks import words_for

MIB = 1 << 20


@attrs.frozen
class Item:
    """One thing that is held: how many bytes of it, on the device or on the host."""

    name: str
    num_bytes: int
    on_device: bool = True


@attrs.frozen
class CapacityPlan:
    """The whole of it, for fixed lanes, context and drafts."""

    num_lanes: int
    max_context: int
    num_drafts: int
    items: tuple[Item, ...]

    @property
    def device_bytes(self) -> int:
        """Bytes on the device; on a CPU that is the same memory as the host's."""
        return sum(item.num_bytes for item in self.items if item.on_device)

    @property
    def host_bytes(self) -> int:
        """Bytes on the host beside them."""
        return sum(item.num_bytes for item in self.items if not item.on_device)

    def lines(self) -> list[str]:
        """Return the plan as text, a line per item."""
        head = (
            f"{self.num_lanes} lanes of {self.max_context} tokens, at most {self.num_drafts} drafts a round"
        )
        where = {True: "device", False: "host"}
        parts = [f"  {i.name:<28}{i.num_bytes / MIB:>10.2f} MiB  {where[i.on_device]}" for i in self.items]
        total = (
            f"  {'in all':<28}{self.device_bytes / MIB:>10.2f} MiB  device, {self.host_bytes / MIB:.2f} host"
        )
        return [head, *parts, total]

    def require(self, limit: int | None) -> None:
        """Raise RequestError where the plan needs more than `limit` bytes in all."""
        needed = self.device_bytes + self.host_bytes
        if limit is not None and needed > limit:
            raise RequestError(
                ErrorKind.INVALID_REQUEST,
                "the model does not fit the memory it was given",
                found=f"{needed / MIB:.1f} MiB for {self.num_lanes} lanes of {self.max_context} tokens",
                allowed=f"{limit / MIB:.1f} MiB: fewer lanes or a shorter context",
                source="request",
            )


def module_bytes(module: nn.Module) -> int:
    """Bytes of a module's parameters; what two modules share counts in both."""
    return sum(parameter.nbytes for parameter in module.parameters())


def tensor_bytes(tensors: Iterable[Tensor]) -> int:
    """Bytes of some tensors, on the meta device too."""
    return sum(tensor.nbytes for tensor in tensors)


def mask_bytes(num_lanes: int, num_drafts: int, vocab_size: int) -> int:
    """Bytes of one copy of a batch's masks: B (K + 1) ceil(V / 32) 4 (contract 6)."""
    return num_lanes * (num_drafts + 1) * words_for(vocab_size) * 4
