"""Checkpoints in the published safetensors layouts, read whole or refused with all that does not fit.

Text tensors stand under "model.language_model." (composite), "model." (text-only) or "language_model.model.";
the head beside them at the root, absent where it is tied; MTP tensors under "mtp." at the root whatever the
text's prefix. Vision tensors are passed over. Everything else that a module does not want is an error, like
everything that it wants and does not find, finds in another shape, or finds in another dtype than a float.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import attrs
import torch
from torch import Tensor, nn

from engine.errors import ErrorKind, MissingDependency, RequestError
from engine.models.qwen3_5.config import Layout, Qwen35Config
from engine.models.qwen3_5.mtp import Mtp
from engine.models.qwen3_5.target import Target

CONFIG_FILE, INDEX_FILE, WEIGHTS_FILE = "config.json", "model.safetensors.index.json", "model.safetensors"
# Prefix of the text tensors -> prefix of the head.
PREFIXES: Mapping[str, str] = {
    "model.language_model.": "",
    "language_model.model.": "language_model.",
    "model.": "",
}
PASSED_OVER = ("model.visual.", "visual.", "vision_tower.", "mtp.")
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
    """A tensor whose stored dtype is not one of FLOATS."""

    name: str
    found: str

    def __str__(self) -> str:
        return f"mistyped {self.name}: {self.found}, not one of {', '.join(FLOATS)}"


TensorFault = MissingTensor | ExtraTensor | MisshapedTensor | MistypedTensor


@attrs.frozen
class InvalidCheckpoint(RequestError):
    """A model directory that cannot be loaded; `faults` are all tensors that do not fit, by name."""

    faults: tuple[TensorFault, ...] = ()


@attrs.frozen
class _Stored:
    """A stored tensor's header, and the file that holds its values."""

    path: Path
    shape: tuple[int, ...]
    dtype: str


def read_config(directory: Path) -> Qwen35Config:
    """Read `config.json`. Raises InvalidCheckpoint (no such file, not JSON) and InvalidModelConfig."""
    path = directory / CONFIG_FILE
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise _invalid("the model has no config.json", found=directory.name) from None
    except ValueError as error:
        raise _invalid("config.json is not JSON", found=str(error)) from None
    if not isinstance(document, dict):
        raise _invalid("config.json is not an object", found=type(document).__name__)
    return Qwen35Config.from_json(document)


def load_target(
    directory: Path, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu"
) -> Target:
    """Load the text model of a directory, its values converted to `dtype`; no gradients are asked for.

    Raises InvalidCheckpoint, InvalidModelConfig, MissingDependency.
    """
    with torch.device("meta"):
        target = Target(read_config(directory))
    stored = _stored(directory)
    prefix = next((p for p in PREFIXES if f"{p}embed_tokens.weight" in stored), "model.")
    wanted = {_published(name, prefix): name for name in target.state_dict()}
    offered = {name: entry for name, entry in stored.items() if not name.startswith(PASSED_OVER)}
    return _load(target, wanted, offered, dtype, device)


def load_mtp(directory: Path, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu") -> Mtp:
    """Load the MTP module that stands beside a target. Raises as `load_target` does."""
    with torch.device("meta"):
        mtp = Mtp(read_config(directory))
    wanted = {f"mtp.{name}": name for name in mtp.state_dict()}
    offered = {name: entry for name, entry in _stored(directory).items() if name.startswith("mtp.")}
    return _load(mtp, wanted, offered, dtype, device)


def save(
    directory: Path,
    target: Target,
    mtp: Mtp | None = None,
    *,
    layout: Layout = "text",
    dtype: torch.dtype = torch.float32,
) -> None:
    """Write `config.json` and one weights file in a published layout. Raises MissingDependency."""
    prefix = "model.language_model." if layout == "composite" else "model."
    tensors = {_published(name, prefix): tensor for name, tensor in target.state_dict().items()}
    if mtp is not None:
        tensors |= {f"mtp.{name}": tensor for name, tensor in mtp.state_dict().items()}
    plain = {name: tensor.detach().to("cpu", dtype).contiguous() for name, tensor in tensors.items()}
    directory.mkdir(parents=True, exist_ok=True)
    config = json.dumps(target.config.to_json(layout), indent=2) + "\n"
    (directory / CONFIG_FILE).write_text(config, encoding="utf-8")
    _safetensors().torch.save_file(plain, directory / WEIGHTS_FILE, metadata={"format": "pt"})


def _published(name: str, prefix: str) -> str:
    return (PREFIXES[prefix] if name == "lm_head.weight" else prefix) + name


def _load(
    module: AnyModule,
    wanted: Mapping[str, str],
    offered: Mapping[str, _Stored],
    dtype: torch.dtype,
    device: torch.device | str,
) -> AnyModule:
    """Fill a module without storage; `wanted` maps published names to the module's own."""
    shapes = {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}
    faults = tuple(_faults({published: shapes[own] for published, own in wanted.items()}, offered))
    if faults:
        shown = "; ".join(str(fault) for fault in faults[:NUM_SHOWN])
        more = f" and {len(faults) - NUM_SHOWN} more" if len(faults) > NUM_SHOWN else ""
        raise _invalid(f"{len(faults)} tensors do not fit the config", found=shown + more, faults=faults)
    values: dict[str, Tensor] = {}
    for path in sorted({entry.path for entry in offered.values()}):
        with _safetensors().safe_open(path, framework="pt", device=str(device)) as file:
            for published, entry in offered.items():
                if entry.path == path:
                    values[wanted[published]] = file.get_tensor(published).to(dtype)
    module.load_state_dict(values, assign=True)
    return module.requires_grad_(False).eval()


def _faults(wanted: Mapping[str, tuple[int, ...]], offered: Mapping[str, _Stored]) -> Iterator[TensorFault]:
    for name in sorted(wanted.keys() | offered.keys()):
        if name not in offered:
            yield MissingTensor(name, wanted[name])
        elif name not in wanted:
            yield ExtraTensor(name)
        elif offered[name].shape != wanted[name]:
            yield MisshapedTensor(name, offered[name].shape, wanted[name])
        elif offered[name].dtype not in FLOATS:
            yield MistypedTensor(name, offered[name].dtype)


def _stored(directory: Path) -> dict[str, _Stored]:
    """Return the header of every stored tensor. Raises InvalidCheckpoint."""
    found: dict[str, _Stored] = {}
    for path in _files(directory):
        try:
            with _safetensors().safe_open(path, framework="pt") as file:
                for name in file.keys():  # noqa: SIM118 - the file is no mapping
                    part = file.get_slice(name)
                    found[name] = _Stored(path, tuple(part.get_shape()), part.get_dtype())
        except _safetensors().SafetensorError as error:
            raise _invalid("a weights file is damaged", found=f"{path.name}: {error}") from None
    return found


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
            raise _invalid("the index of the weights files has no weight_map", found=INDEX_FILE) from None
    paths = [directory / name for name in sorted(names)]
    for path in paths:
        if not path.is_file():
            raise _invalid("a weights file is missing", found=path.name)
    return paths


def _safetensors() -> Any:
    """Return the safetensors package, which only loading and saving need."""
    try:
        import safetensors
        import safetensors.torch
    except ImportError:
        raise MissingDependency("safetensors", "pip install safetensors") from None
    return safetensors


def _invalid(message: str, *, found: str, faults: tuple[TensorFault, ...] = ()) -> InvalidCheckpoint:
    return InvalidCheckpoint(
        ErrorKind.INVALID_REQUEST,
        message,
        found=found,
        allowed="a model directory in a published layout",
        source="request",
        faults=faults,
    )
