"""A model directory's `config.json` and safetensors files, read whole or refused with all that does not fit.

What a module does not want is an error, like everything that it wants and does not find, finds in another
shape, or finds in another dtype than a float. Which names a model's tensors have is the loader's of that
model. Faults are the same for files of other formats.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

import attrs
import torch
from torch import Tensor, nn

from engine.errors import ErrorKind, MissingDependency, RequestError

CONFIG_FILE, INDEX_FILE, WEIGHTS_FILE = "config.json", "model.safetensors.index.json", "model.safetensors"
FLOATS = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}
NUM_SHOWN = 4
AnyModule = TypeVar("AnyModule", bound=nn.Module)


@attrs.frozen
class MissingTensor:
    """A tensor that the model needs and the files do not hold."""

    name: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"missing {self.name} {list(self.shape)}"


@attrs.frozen
class ExtraTensor:
    """A tensor that the files hold and the model has no place for."""

    name: str

    def __str__(self) -> str:
        return f"extra {self.name}"


@attrs.frozen
class MisshapedTensor:
    """A tensor of another shape than the config asks for."""

    name: str
    found: tuple[int, ...]
    wanted: tuple[int, ...]

    def __str__(self) -> str:
        return f"misshaped {self.name}: {list(self.found)}, not {list(self.wanted)}"


@attrs.frozen
class MistypedTensor:
    """A tensor whose stored type is none that the reader of its file knows."""

    name: str
    found: str
    wanted: tuple[str, ...] = tuple(FLOATS)

    def __str__(self) -> str:
        return f"mistyped {self.name}: {self.found}, not one of {', '.join(self.wanted)}"


TensorFault = MissingTensor | ExtraTensor | MisshapedTensor | MistypedTensor


@attrs.frozen
class InvalidCheckpoint(RequestError):
    """A model directory that cannot be loaded; `faults` are all tensors that do not fit, by name."""

    faults: tuple[TensorFault, ...] = ()


@runtime_checkable
class Joining(Protocol):
    """A part of a module with several matrices over one input."""

    def join(self) -> None:
        """Make one product of them."""
        ...


class Offered(Protocol):
    """A stored tensor as far as its file's header tells; `dtype` is spelled as there."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        ...

    @property
    def dtype(self) -> str:
        """Its type."""
        ...


@attrs.frozen
class StoredTensor:
    """A stored tensor's header, and the safetensors file that holds its values."""

    path: Path
    shape: tuple[int, ...]
    dtype: str


def read_config_file(directory: Path) -> dict[str, Any]:
    """Return the object in `config.json`. Raises InvalidCheckpoint (no such file, not a JSON object)."""
    path = directory / CONFIG_FILE
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise invalid_checkpoint("the model has no config.json", found=directory.name) from None
    except ValueError as error:
        raise invalid_checkpoint("config.json is not JSON", found=str(error)) from None
    if not isinstance(document, dict):
        raise invalid_checkpoint("config.json is not an object", found=type(document).__name__)
    return document


def read_headers(directory: Path) -> dict[str, StoredTensor]:
    """Return the header of every tensor in a directory's safetensors files. Raises InvalidCheckpoint."""
    found: dict[str, StoredTensor] = {}
    for path in _files(directory):
        try:
            with _safetensors().safe_open(path, framework="pt") as file:
                for name in file.keys():  # noqa: SIM118 - the file is no mapping
                    part = file.get_slice(name)
                    found[name] = StoredTensor(path, tuple(part.get_shape()), part.get_dtype())
        except _safetensors().SafetensorError as error:
            raise invalid_checkpoint("a weights file is damaged", found=f"{path.name}: {error}") from None
    return found


def load_into(
    module: AnyModule,
    wanted: Mapping[str, str],
    offered: Mapping[str, StoredTensor],
    dtype: torch.dtype,
    device: torch.device | str,
) -> AnyModule:
    """Fill a module without storage; `wanted` maps published names to the module's own."""
    require_fit(module, wanted, offered)
    values: dict[str, Tensor] = {}
    for path in sorted({entry.path for entry in offered.values()}):
        with _safetensors().safe_open(path, framework="pt", device=str(device)) as file:
            for published, entry in offered.items():
                if entry.path == path:
                    values[wanted[published]] = file.get_tensor(published).to(dtype)
    return adopt(module, values)


def adopt(module: AnyModule, values: Mapping[str, Tensor]) -> AnyModule:
    """Give a module without storage its values, by its own names; no gradients are asked for.

    Matrices over one input are joined: a small model's step is as long as its list of products.
    """
    module.load_state_dict(dict(values), assign=True)
    for part in module.modules():
        if isinstance(part, Joining):
            part.join()
    return module.requires_grad_(False).eval()


def require_fit(
    module: nn.Module,
    wanted: Mapping[str, str],
    offered: Mapping[str, Offered],
    readable: tuple[str, ...] = tuple(FLOATS),
) -> None:
    """Raise InvalidCheckpoint with every tensor that is missing, extra, misshaped or not `readable`."""
    shapes = {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}
    faults = tuple(_faults({published: shapes[own] for published, own in wanted.items()}, offered, readable))
    if faults:
        shown = "; ".join(str(fault) for fault in faults[:NUM_SHOWN])
        more = f" and {len(faults) - NUM_SHOWN} more" if len(faults) > NUM_SHOWN else ""
        message = f"{len(faults)} tensors do not fit the config"
        raise invalid_checkpoint(message, found=shown + more, faults=faults)


def write_files(
    directory: Path, config: Mapping[str, Any], tensors: Mapping[str, Tensor], dtype: torch.dtype
) -> None:
    """Write `config.json` and one weights file. Raises MissingDependency."""
    plain = {name: tensor.detach().to("cpu", dtype).clone().contiguous() for name, tensor in tensors.items()}
    directory.mkdir(parents=True, exist_ok=True)
    (directory / CONFIG_FILE).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    _safetensors().torch.save_file(plain, directory / WEIGHTS_FILE, metadata={"format": "pt"})


def _faults(
    wanted: Mapping[str, tuple[int, ...]], offered: Mapping[str, Offered], readable: tuple[str, ...]
) -> Iterator[TensorFault]:
    for name in sorted(wanted.keys() | offered.keys()):
        if name not in offered:
            yield MissingTensor(name, wanted[name])
        elif name not in wanted:
            yield ExtraTensor(name)
        elif offered[name].shape != wanted[name]:
            yield MisshapedTensor(name, offered[name].shape, wanted[name])
        elif offered[name].dtype not in readable:
            yield MistypedTensor(name, offered[name].dtype, readable)


def _files(directory: Path) -> list[Path]:
    """Return the weights files: those that the index names, or the single one. Raises InvalidCheckpoint."""
    names = {WEIGHTS_FILE}
    index = directory / INDEX_FILE
    if index.exists():
        try:
            names = {
                str(name) for name in json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
            }
        except (ValueError, KeyError, TypeError, AttributeError):
            raise invalid_checkpoint(
                "the index of the weights files has no weight_map", found=INDEX_FILE
            ) from None
    paths = [directory / name for name in sorted(names)]
    for path in paths:
        if not path.is_file():
            raise invalid_checkpoint("a weights file is missing", found=path.name)
    return paths


def _safetensors() -> Any:
    """Return the safetensors package, which only loading and saving need."""
    try:
        import safetensors
        import safetensors.torch
    except ImportError:
        raise MissingDependency("safetensors", "pip install safetensors") from None
    return safetensors


def invalid_checkpoint(
    message: str, *, found: str, faults: tuple[TensorFault, ...] = ()
) -> InvalidCheckpoint:
    """Return the error of a model's files: what was found there."""
    return InvalidCheckpoint(
        ErrorKind.INVALID_REQUEST,
        message,
        found=found,
        allowed="a model in a published layout",
        source="request",
        faults=faults,
    )
