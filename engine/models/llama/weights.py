"""Llama checkpoints in the published safetensors layout: all under "model.", but the head at the root."""

from pathlib import Path

import torch

from engine.models.checkpoint import load_into, read_config_file, read_headers, write_files
from engine.models.llama.config import LlamaConfig
from engine.models.llama.target import Llama

PASSED_OVER = ".self_attn.rotary_emb.inv_freq"  # a buffer that old files keep; the config says it all


def load_llama(
    directory: Path, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu"
) -> Llama:
    """Load the model of a directory, its values converted to `dtype`; no gradients are asked for.

    Raises InvalidCheckpoint, InvalidModelConfig, MissingDependency.
    """
    with torch.device("meta"):
        model = Llama(LlamaConfig.from_json(read_config_file(directory)))
    wanted = {_published(name): name for name in model.state_dict()}
    offered = {n: entry for n, entry in read_headers(directory).items() if not n.endswith(PASSED_OVER)}
    return load_into(model, wanted, offered, dtype, device)


def save_llama(directory: Path, model: Llama, dtype: torch.dtype = torch.float32) -> None:
    """Write `config.json` and one weights file. Raises MissingDependency."""
    tensors = {_published(name): tensor for name, tensor in model.state_dict().items()}
    write_files(directory, model.config.to_json(), tensors, dtype)


def _published(name: str) -> str:
    return name if name == "lm_head.weight" else f"model.{name}"
