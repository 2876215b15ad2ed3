"""Llama models in GGUF files: the config from metadata, weights dequantised, rows back in their usual order.

Every `llama.*` key is one that is read here or an error: a key that asks for scaled rotation or experts must
not be dropped. The head is tied where the file has none. Files keep the two members of a rotated pair in
neighbouring rows of the query and key matrices; this model, as published, has the first members of all pairs
before the second ones.
"""

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from engine.models.checkpoint import adopt, require_fit
from engine.models.config_fields import invalid_config, read_count, read_number
from engine.models.gguf_files import READABLE, GgufFile
from engine.models.llama.config import DEFAULT_THETA, LlamaConfig
from engine.models.llama.target import Llama

ARCHITECTURE = "llama"
# Field -> key below "llama."; integers of at least 1 that every file has.
COUNTS: Mapping[str, str] = {
    "hidden_size": "embedding_length",
    "intermediate_size": "feed_forward_length",
    "num_layers": "block_count",
    "num_heads": "attention.head_count",
    "max_context": "context_length",
}
KV_HEADS, EPS, THETA = "attention.head_count_kv", "attention.layer_norm_rms_epsilon", "rope.freq_base"
HEAD_DIMS = ("attention.key_length", "attention.value_length", "rope.dimension_count")
# Key -> the only value that this model computes.
FIXED: Mapping[str, object] = {"rope.scaling.type": "none", "expert_count": 0, "expert_used_count": 0}
KNOWN = {*COUNTS.values(), KV_HEADS, EPS, THETA, *HEAD_DIMS, *FIXED, "vocab_size"}

# Own name -> the file's, for a whole model and for one layer.
NAMES: Mapping[str, str] = {
    "embed_tokens.weight": "token_embd.weight",
    "norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}
LAYER_NAMES: Mapping[str, str] = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def load_llama_gguf(
    file: GgufFile, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu"
) -> Llama:
    """Load the model of a file, its values converted to `dtype`; no gradients are asked for.

    Raises InvalidCheckpoint, InvalidModelConfig, MissingDependency.
    """
    with torch.device("meta"):
        model = Llama(gguf_config(file))
    wanted = gguf_names(model.config)
    require_fit(model, wanted, file.tensors, READABLE)
    values = {}
    for stored, own in wanted.items():
        tensor = torch.from_numpy(file.tensors[stored].values())
        if own.endswith((".q_proj.weight", ".k_proj.weight")):
            tensor = halves_from_pairs(tensor, model.config.head_dim)
        values[own] = tensor.to(device, dtype)
    return adopt(model, values)


def gguf_config(file: GgufFile) -> LlamaConfig:
    """Read the config of a file. Raises InvalidModelConfig with the key at fault."""
    metadata, prefix = file.metadata, f"{ARCHITECTURE}."
    if metadata.get("general.architecture") != ARCHITECTURE:
        raise invalid_config(
            "general.architecture", metadata.get("general.architecture"), f"'{ARCHITECTURE}'"
        )
    settings = {key.removeprefix(prefix): v for key, v in metadata.items() if key.startswith(prefix)}
    for key, value in settings.items():
        if key not in KNOWN:
            raise invalid_config(prefix + key, value, "no such key")
        if key in FIXED and value != FIXED[key]:
            raise invalid_config(prefix + key, value, repr(FIXED[key]))
    present = {prefix + key: value for key, value in settings.items()}
    counts = {field: read_count(present, prefix + key, 0) for field, key in COUNTS.items()}
    tokens = metadata.get("tokenizer.ggml.tokens", ())
    return LlamaConfig(
        **counts,
        vocab_size=read_count(present, prefix + "vocab_size", len(tokens)),
        num_kv_heads=read_count(present, prefix + KV_HEADS, counts["num_heads"]),
        head_dim=_head_dim(present, prefix, counts["hidden_size"] // counts["num_heads"]),
        rope_theta=read_number(present, prefix + THETA, DEFAULT_THETA),
        eps=read_number(present, prefix + EPS, 0.0),
        tied="output.weight" not in file.tensors,
    )


def _head_dim(present: Mapping[str, Any], prefix: str, default: int) -> int:
    """Return the one width that keys, values and rotation have."""
    key, *others = HEAD_DIMS
    head_dim = read_count(present, prefix + key, default)
    for other in others:
        if read_count(present, prefix + other, head_dim) != head_dim:
            raise invalid_config(prefix + other, present[prefix + other], str(head_dim))
    return head_dim


def gguf_names(config: LlamaConfig) -> dict[str, str]:
    """Return the model's own name of every tensor that a file must hold."""
    names = {stored: own for own, stored in NAMES.items() if not (config.tied and own == "lm_head.weight")}
    for i in range(config.num_layers):
        for own, stored in LAYER_NAMES.items():
            names[f"blk.{i}.{stored}.weight"] = f"layers.{i}.{own}.weight"
    return names


def halves_from_pairs(matrix: Float[Tensor, "rows hidden"], head_dim: int) -> Float[Tensor, "rows hidden"]:
    """Return the rows of every head with the first members of its pairs before the second."""
    pairs = matrix.view(-1, head_dim // 2, 2, matrix.shape[1])
    return pairs.transpose(1, 2).reshape(matrix.shape)
