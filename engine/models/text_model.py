"""Target models of every architecture: all are called alike, so nothing else asks which one it has."""

from pathlib import Path

import torch

from engine.models.checkpoint import read_config_file
from engine.models.gguf_files import read_gguf
from engine.models.llama.gguf import load_llama_gguf
from engine.models.llama.target import Llama
from engine.models.llama.weights import load_llama
from engine.models.qwen3_5.target import Target
from engine.models.weights import load_target

TextModel = Target | Llama
GGUF_SUFFIX = ".gguf"


def load_text_model(
    path: Path, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu"
) -> TextModel:
    """Load a model directory by the `model_type` of its config, or a GGUF file by its name's ending.

    Raises InvalidCheckpoint, InvalidModelConfig, MissingDependency.
    """
    if path.suffix == GGUF_SUFFIX:
        return load_llama_gguf(read_gguf(path), dtype, device)
    if read_config_file(path).get("model_type") == "llama":
        return load_llama(path, dtype, device)
    return load_target(path, dtype, device)
