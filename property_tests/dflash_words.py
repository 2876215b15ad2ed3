"""Small random DFlash and DFlash2 drafters beside the small Qwen3.5 targets."""

import attrs
import numpy as np
import torch

from engine.models.dflash import DFlash
from engine.models.dflash2 import DFlash2
from engine.models.dflash_config import DFlashConfig
from engine.models.qwen3_5.config import Qwen35Config
from engine.models.qwen3_5.parts import PlainRmsNorm
from oracles import dflash as oracle


def config_of(target: Qwen35Config, block_size: int, target_layer_ids: tuple[int, ...]) -> DFlashConfig:
    """A drafter's numbers for a target, no two alike by accident."""
    return DFlashConfig(
        hidden_size=target.hidden_size,
        intermediate_size=44,
        num_layers=2,
        num_heads=4,
        num_kv_heads=2,
        head_dim=10,
        vocab_size=target.vocab_size,
        num_target_layers=target.num_layers,
        target_layer_ids=target_layer_ids,
        block_size=block_size,
        mask_token_id=3,
        windows=(None, None),
        causal=(False, False),
        rope_theta=1e5,
    )


def config2_of(target: Qwen35Config, block_size: int, target_layer_ids: tuple[int, ...]) -> DFlashConfig:
    """The same with convolutions and a selector."""
    config = config_of(target, block_size, target_layer_ids)
    return attrs.evolve(config, conv_kernel=2, conv_group=6, selector_rank=7, selector_top_k=5)


def filled(module: torch.nn.Module, seed: int) -> torch.nn.Module:
    """Give every parameter values that leave no term negligible."""
    rng = np.random.default_rng(seed)
    norms = {id(part.weight) for part in module.modules() if isinstance(part, PlainRmsNorm)}
    for name, parameter in module.named_parameters():
        noise = rng.standard_normal(tuple(parameter.shape))
        if id(parameter) in norms:
            noise = 1.0 + 0.2 * noise
        elif name.endswith("base_kernel"):
            noise = 0.6 * noise
        elif not name.endswith("codebook"):
            noise = noise / np.sqrt(parameter.shape[-1])
        parameter.data.copy_(torch.from_numpy(noise))
    return module.requires_grad_(False)


def dflash_of(target: Qwen35Config, block_size: int, layers: tuple[int, ...], seed: int = 2) -> DFlash:
    """A random DFlash drafter."""
    return filled(DFlash(config_of(target, block_size, layers)), seed)


def dflash2_of(target: Qwen35Config, block_size: int, layers: tuple[int, ...], seed: int = 3) -> DFlash2:
    """A random DFlash2 drafter."""
    return filled(DFlash2(config2_of(target, block_size, layers)), seed)


def doubles(module: torch.nn.Module) -> dict[str, np.ndarray]:
    """Its tensors for the oracle."""
    return {name: tensor.double().numpy() for name, tensor in module.state_dict().items()}


def shape_of(config: DFlashConfig) -> oracle.Shape:
    """Its numbers for the oracle."""
    names = ("num_layers", "num_heads", "num_kv_heads", "head_dim", "rope_theta", "eps", "windows", "causal")
    numbers = {name: getattr(config, name) for name in names}
    return oracle.Shape(**numbers, num_taps=config.conv_kernel, group=config.conv_group or 1)
