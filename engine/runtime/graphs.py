"""Phases as captured graphs with fixed buffers, and the double of capture and replay that a CPU can run.

A key's first run records its phase over buffers that are its own; every later run copies the inputs into them
and replays. A phase runs more than once while it is recorded, so it must not add to what it changes: Forward
and Finish write behind the committed lengths; commit moves states and is therefore never captured. What a
phase returns lies in the recording: it holds until the next Forward. Inputs that are already where the
recording reads them (a Forward's outputs, which Finish and commit take) are not copied. The double replays by
calling the phase again and writing its results to the recorded addresses. It poisons every recorded result
when a Forward begins, so that what is read too late is NaN; it sees host records taken away, so that no phase
can read a lane; and it checks that resident tensors have not moved, that Finish follows its Forward, and that
a device's drafts are waited for.
"""

import abc
import enum
from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

import attrs
import torch
from torch import Tensor

from engine.errors import IntegrityError
from engine.runtime.batch import Drafts, Rows
from engine.runtime.launch import map_tensors, tensors_of

Result = TypeVar("Result")
CONTEXT_STEP = 256  # positions: a graph for each multiple that occurs


@attrs.define(eq=False)
class Recording:
    """One captured phase: its input buffers, its outputs, and how it runs again."""

    inputs: tuple[Any, ...]
    outputs: Any
    replay: Callable[[], None]


class _Recorder(abc.ABC):
    """What both launchers share: recordings by key, uploads into their buffers."""

    context_step = CONTEXT_STEP

    def __init__(self, device: torch.device | str) -> None:
        self.device = torch.device(device)
        self._recordings: dict[Hashable, Recording] = {}

    @property
    def num_recordings(self) -> int:
        """How many phases are captured; it grows with shapes and routes, never with requests."""
        return len(self._recordings)

    def run(self, key: Hashable | None, phase: Callable[..., Result], *inputs: Any) -> Result:
        """Replay the key's recording, made on its first run."""
        if key is None:
            return phase(*self._upload_fresh(inputs))
        recording = self._recordings.get(key)
        if recording is None:
            recording = self._recordings[key] = self._record(phase, inputs)
        else:
            self._upload(recording, inputs)
        recording.replay()
        return recording.outputs

    def close(self) -> None:
        """Drop every recording, before anything that they use is freed."""
        self._recordings.clear()

    @abc.abstractmethod
    def _record(self, phase: Callable[..., Any], inputs: tuple[Any, ...]) -> Recording:
        """Return a phase recorded over buffers that hold these inputs."""

    def _upload_fresh(self, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        moved = map_tensors(lambda tensor: tensor.to(self.device, non_blocking=True), inputs)
        return tuple(_without_lanes(part) for part in moved)

    def _buffers(self, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the inputs at addresses of their own, except those that a recording of ours holds."""
        recorded = {t.data_ptr() for r in self._recordings.values() for t in tensors_of(r.outputs)}

        def placed(tensor: Tensor) -> Tensor:
            return tensor if tensor.data_ptr() in recorded else tensor.to(self.device, copy=True)

        return tuple(_without_lanes(part) for part in map_tensors(placed, inputs))

    @staticmethod
    def _upload(recording: Recording, inputs: tuple[Any, ...]) -> None:
        for buffer, tensor in zip(tensors_of(recording.inputs), tensors_of(inputs), strict=True):
            if buffer.data_ptr() != tensor.data_ptr():
                buffer.copy_(tensor, non_blocking=True)


class GraphLauncher(_Recorder):
    """CUDA graphs: one per key, all in one memory pool."""

    def __init__(self, device: torch.device | str = "cuda") -> None:
        super().__init__(device)
        self._pool = torch.cuda.graph_pool_handle()
        self._ready = torch.cuda.Event(external=True)
        self._on_host: dict[tuple[int, ...], tuple[Tensor, Tensor]] = {}
        self._newest: tuple[Tensor, Tensor] | None = None

    def run(self, key: Hashable | None, phase: Callable[..., Result], *inputs: Any) -> Result:
        """Replay, and remember which host buffer the replayed Forward sends its drafts to."""
        result = super().run(key, phase, *inputs)
        drafts = getattr(result, "drafts", None)
        if isinstance(drafts, Drafts):
            self._newest = self._on_host.get(tuple(drafts.token_ids.shape))
        return result

    def _record(self, phase: Callable[..., Any], inputs: tuple[Any, ...]) -> Recording:
        buffers = self._buffers(inputs)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            phase(*buffers)  # warm-up: kernels are compiled and workspaces made outside the capture
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            outputs = phase(*buffers)
        return Recording(buffers, outputs, graph.replay)

    def mark_ready(self, drafts: Drafts) -> None:
        """Copy the draft ids to pinned memory and record the event, inside the capture."""
        shape = tuple(drafts.token_ids.shape)
        if shape not in self._on_host:
            self._on_host[shape] = (
                torch.empty(shape, dtype=torch.int64, pin_memory=True),
                torch.empty(shape[:1], dtype=torch.int64, pin_memory=True),
            )
        ids, extents = self._newest = self._on_host[shape]
        ids.copy_(drafts.token_ids, non_blocking=True)
        extents.copy_(drafts.extents, non_blocking=True)
        self._ready.record()

    def wait_ready(self) -> tuple[list[list[int]], list[int]]:
        """Wait for the event, not for the target's pass behind it."""
        assert self._newest is not None, "no Forward has drafted"
        self._ready.synchronize()
        ids, extents = self._newest
        return ids.tolist(), extents.tolist()


class _Stage(enum.Enum):
    """Where a round stands."""

    IDLE = "before a Forward"
    FORWARD = "after a Forward"
    FINISHED = "after a Finish"


class RehearsalLauncher(_Recorder):
    """Capture and replay without a GPU; `resident` yields the tensors that phases reach by themselves."""

    def __init__(self, resident: Callable[[], Iterable[Tensor]] = tuple, context_step: int = 16) -> None:
        super().__init__("cpu")
        self.context_step = context_step
        self._resident = resident
        self._addresses: dict[Hashable, list[int]] = {}
        self._stage, self._marked, self._waited = _Stage.IDLE, False, False
        self._drafts: Drafts | None = None
        self.events: list[str] = []

    def run(self, key: Hashable | None, phase: Callable[..., Result], *inputs: Any) -> Result:
        """Check the order, then record or replay."""
        if key is None:
            return super().run(key, phase, *inputs)
        self._check_order(str(key[0]) if isinstance(key, tuple) else str(key))
        result = super().run(key, phase, *inputs)
        addresses = [tensor.data_ptr() for tensor in self._resident()]
        if self._addresses.setdefault(key, addresses) != addresses:
            raise IntegrityError(f"a resident tensor moved after {key} was recorded")
        return result

    def _check_order(self, name: str) -> None:
        self.events.append(name)
        if name == "forward":
            self._poison()
            self._stage, self._marked, self._waited = _Stage.FORWARD, False, False
        elif name == "finish":
            if self._stage is not _Stage.FORWARD:
                raise IntegrityError(f"Finish was run {self._stage.value}")
            if self._marked and not self._waited:
                raise IntegrityError("Finish was run before the drafts were waited for")
            self._stage = _Stage.FINISHED

    def _poison(self) -> None:
        for recording in self._recordings.values():
            for tensor in tensors_of(recording.outputs):
                tensor.fill_(_poison_of(tensor.dtype))

    def _record(self, phase: Callable[..., Any], inputs: tuple[Any, ...]) -> Recording:
        buffers = self._buffers(inputs)
        outputs = map_tensors(torch.clone, phase(*buffers))

        def replay() -> None:
            for held, tensor in zip(tensors_of(outputs), tensors_of(phase(*buffers)), strict=True):
                held.copy_(tensor)

        return Recording(buffers, outputs, replay)

    def mark_ready(self, drafts: Drafts) -> None:
        """Keep a copy of the ids, as a transfer would."""
        self.events.append("ready")
        self._drafts, self._marked = map_tensors(torch.clone, drafts), True

    def wait_ready(self) -> tuple[list[list[int]], list[int]]:
        """Read the copy."""
        if self._drafts is None or not self._marked:
            raise IntegrityError("no Forward has marked its drafts ready")
        self.events.append("waited")
        self._waited = True
        return self._drafts.token_ids.tolist(), self._drafts.extents.tolist()


def _poison_of(dtype: torch.dtype) -> float | int | bool:
    if dtype is torch.bool:
        return True
    return torch.nan if dtype.is_floating_point else torch.iinfo(dtype).min


def _without_lanes(record: Any) -> Any:
    """Return a record whose rows name no host lane: what a graph replays cannot have read one."""
    if isinstance(record, Rows):
        return attrs.evolve(record, lanes=())
    if attrs.has(type(record)) and hasattr(record, "rows"):
        return attrs.evolve(record, rows=_without_lanes(record.rows))
    return record
