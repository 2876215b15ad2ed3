"""Qwen3.5 checkpoints in the published safetensors layouts.

Text tensors stand under "model.language_model." (composite), "model." (text-only) or "language_model.model.";
the head beside them at the root, absent where it is tied; MTP tensors under "mtp." at the root whatever the
text's prefix. Vision tensors are passed over. Everything else must fit (`checkpoint`). DFlash and DFlash2
drafters have directories of their own, their tensors without a prefix.
"""

from collections.abc import Mapping
from pathlib import Path

import torch

from engine.models.checkpoint import load_into, read_config_file, read_headers, write_files
from engine.models.dflash import DFlash
from engine.models.dflash2 import DFlash2
from engine.models.dflash_config import DFlashConfig
from engine.models.qwen3_5.config import Layout, Qwen35Config
from engine.models.qwen3_5.mtp import Mtp
from engine.models.qwen3_5.target import Target

# Prefix of the text tensors -> prefix of the head.
PREFIXES: Mapping[str, str] = {
    "model.language_model.": "",
    "language_model.model.": "language_model.",
    "model.": "",
}
PASSED_OVER = ("model.visual.", "visual.", "vision_tower.", "mtp.")


def read_config(directory: Path) -> Qwen35Config:
    """Read `config.json`. Raises InvalidCheckpoint (no such file, not JSON) and InvalidModelConfig."""
    return Qwen35Config.from_json(read_config_file(directory))


def load_target(
    directory: Path, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu"
) -> Target:
    """Load the text model of a directory, its values converted to `dtype`; no gradients are asked for.

    Raises InvalidCheckpoint, InvalidModelConfig, MissingDependency.
    """
    with torch.device("meta"):
        target = Target(read_config(directory))
    stored = read_headers(directory)
    prefix = next((p for p in PREFIXES if f"{p}embed_tokens.weight" in stored), "model.")
    wanted = {_published(name, prefix): name for name in target.state_dict()}
    offered = {name: entry for name, entry in stored.items() if not name.startswith(PASSED_OVER)}
    return load_into(target, wanted, offered, dtype, device)


def load_mtp(directory: Path, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu") -> Mtp:
    """Load the MTP module that stands beside a target. Raises as `load_target` does."""
    with torch.device("meta"):
        mtp = Mtp(read_config(directory))
    wanted = {f"mtp.{name}": name for name in mtp.state_dict()}
    offered = {name: entry for name, entry in read_headers(directory).items() if name.startswith("mtp.")}
    return load_into(mtp, wanted, offered, dtype, device)


def load_drafter(
    directory: Path, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu"
) -> DFlash | DFlash2:
    """Load the drafter that a directory's `architectures` name. Raises as `load_target` does."""
    config = DFlashConfig.from_json(read_config_file(directory))
    with torch.device("meta"):
        drafter = DFlash2(config) if config.is_dflash2 else DFlash(config)
    wanted = {name: name for name in drafter.state_dict()}
    return load_into(drafter, wanted, read_headers(directory), dtype, device)


def save_drafter(directory: Path, drafter: DFlash, *, dtype: torch.dtype = torch.float32) -> None:
    """Write a drafter's `config.json` and weights file. Raises MissingDependency, InvalidModelConfig."""
    write_files(directory, drafter.config.to_json(), drafter.state_dict(), dtype)


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
    write_files(directory, target.config.to_json(layout), tensors, dtype)


def _published(name: str, prefix: str) -> str:
    return (PREFIXES[prefix] if name == "lm_head.weight" else prefix) + name
