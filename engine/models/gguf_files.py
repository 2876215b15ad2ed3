"""GGUF files through the `gguf` package: metadata as plain values, tensors by header and, when asked, values.

A tensor's shape is that of other formats, [out, in]; the file has it the other way round.
"""

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from jaxtyping import Float32

from engine.errors import MissingDependency
from engine.models.checkpoint import invalid_checkpoint

INSTALL = "pip install 'counterproof[gguf]'"
PLAIN = ("F32", "F16", "BF16")
QUANTISED = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K")
READABLE = PLAIN + QUANTISED


@attrs.frozen(eq=False)
class GgufTensor:
    """A stored tensor; `raw` is a view into the file, blocks of bytes where it is quantised."""

    shape: tuple[int, ...]
    dtype: str
    raw: np.ndarray

    def values(self) -> Float32[np.ndarray, "..."]:
        """Return the numbers that a type of READABLE stands for, in memory of their own."""
        gguf = _gguf()
        found = gguf.dequantize(self.raw, gguf.GGMLQuantizationType[self.dtype])
        return np.require(found, dtype=np.float32, requirements=["C", "W"])


@attrs.frozen(eq=False)
class GgufFile:
    """What one file holds, by name."""

    name: str
    metadata: Mapping[str, Any]
    tensors: Mapping[str, GgufTensor]


def read_gguf(path: Path) -> GgufFile:
    """Open a file; tensors stay on disk. Raises InvalidCheckpoint (none, damaged) and MissingDependency.

    The newest one is kept, unless it changed: texts and weights are asked for apart, and the library reads
    a large vocabulary for seconds.
    """
    if not path.is_file():
        raise invalid_checkpoint("there is no such GGUF file", found=path.name)
    found = path.stat()
    return _read(path.resolve(), found.st_mtime_ns, found.st_size)


@functools.lru_cache(maxsize=1)
def _read(path: Path, modified: int, num_bytes: int) -> GgufFile:
    gguf = _gguf()
    try:
        reader = gguf.GGUFReader(path)
        metadata = {name: field.contents() for name, field in reader.fields.items()}
    except Exception as error:  # whatever the damaged bytes lead the library to
        found = f"{path.name}: {type(error).__name__}: {error}"
        raise invalid_checkpoint("the GGUF file is damaged", found=found) from None
    tensors = {
        tensor.name: GgufTensor(
            tuple(int(size) for size in reversed(tensor.shape)), tensor.tensor_type.name, tensor.data
        )
        for tensor in reader.tensors
    }
    return GgufFile(path.name, metadata, tensors)


def _gguf() -> Any:
    """Return the gguf package, which only these files need."""
    try:
        import gguf
    except ImportError:
        raise MissingDependency("gguf", INSTALL) from None
    return gguf
