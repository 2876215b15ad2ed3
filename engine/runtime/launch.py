"""How the phases of a round are run: eagerly here, as captured graphs in `graphs`; the phases do not differ.

A phase is a function from records of tensors to a record of tensors. The ready mark stands inside Forward,
after the draft ids left for the host and before the target's pass, so that masks can be made meanwhile.
"""

from collections.abc import Callable, Hashable
from typing import Any, Protocol, TypeVar, runtime_checkable

from engine.runtime.batch import Drafts

Result = TypeVar("Result")


@runtime_checkable
class Launcher(Protocol):
    """One device's way to run phases."""

    def run(self, key: Hashable, phase: Callable[..., Result], *inputs: Any) -> Result:
        """Run a phase; equal keys mean equal shapes and an equal course through the phase."""
        ...

    def mark_ready(self, drafts: Drafts) -> None:
        """Send the draft ids to the host and mark the place; called inside Forward."""
        ...

    def wait_ready(self) -> tuple[list[list[int]], list[int]]:
        """Wait for the mark of the newest Forward; returns the ids and the extents of its drafts."""
        ...


class EagerLauncher:
    """Calls every phase as it is."""

    def __init__(self) -> None:
        self._drafts: Drafts | None = None

    def run(self, key: Hashable, phase: Callable[..., Result], *inputs: Any) -> Result:
        """Call the phase."""
        return phase(*inputs)

    def mark_ready(self, drafts: Drafts) -> None:
        """Keep the drafts."""
        self._drafts = drafts

    def wait_ready(self) -> tuple[list[list[int]], list[int]]:
        """Read the kept drafts."""
        assert self._drafts is not None, "no Forward has drafted"
        return self._drafts.token_ids.tolist(), self._drafts.extents.tolist()
