"""Small GGUF files for tests, written by the library that publishes the format.

Rows of query and key matrices are put in the file's order by an index worked out one row at a time.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from engine.models.llama.target import Llama
from property_tests import model_directories as made

STORED = {  # published name -> the file's, {} for the layer
    "embed_tokens": "token_embd",
    "norm": "output_norm",
    "lm_head": "output",
    "layers.{}.input_layernorm": "blk.{}.attn_norm",
    "layers.{}.self_attn.q_proj": "blk.{}.attn_q",
    "layers.{}.self_attn.k_proj": "blk.{}.attn_k",
    "layers.{}.self_attn.v_proj": "blk.{}.attn_v",
    "layers.{}.self_attn.o_proj": "blk.{}.attn_output",
    "layers.{}.post_attention_layernorm": "blk.{}.ffn_norm",
    "layers.{}.mlp.gate_proj": "blk.{}.ffn_gate",
    "layers.{}.mlp.up_proj": "blk.{}.ffn_up",
    "layers.{}.mlp.down_proj": "blk.{}.ffn_down",
}


def file_order(num_rows: int, head_dim: int) -> list[int]:
    """The published row at each row of the file: both members of a pair, then the next pair."""
    half = head_dim // 2
    return [
        head * head_dim + member * half + pair
        for head in range(num_rows // head_dim)
        for pair in range(half)
        for member in range(2)
    ]


def stored_tensors(model: Llama) -> dict[str, np.ndarray]:
    """A model's tensors by the file's names, rows in the file's order."""
    names = {
        own.format(i) + ".weight": stored.format(i) + ".weight"
        for own, stored in STORED.items()
        for i in range(model.config.num_layers)
    }
    tensors = {}
    for own, tensor in model.state_dict().items():
        array = tensor.numpy()
        if own.endswith(("q_proj.weight", "k_proj.weight")):
            array = array[file_order(len(array), model.config.head_dim)]
        tensors[names[own]] = array
    return tensors


def metadata_of(model: Llama) -> dict[str, Any]:
    """What a file says of a model."""
    config = model.config
    return {
        "llama.block_count": config.num_layers,
        "llama.context_length": config.max_context,
        "llama.embedding_length": config.hidden_size,
        "llama.feed_forward_length": config.intermediate_size,
        "llama.attention.head_count": config.num_heads,
        "llama.attention.head_count_kv": config.num_kv_heads,
        "llama.attention.key_length": config.head_dim,
        "llama.attention.value_length": config.head_dim,
        "llama.rope.dimension_count": config.head_dim,
        "llama.rope.freq_base": config.rope_theta,
        "llama.attention.layer_norm_rms_epsilon": config.eps,
        "llama.vocab_size": config.vocab_size,
    }


def tokens_metadata() -> dict[str, Any]:
    """The byte-level tokens of `model_directories.byte_level`, as a file tells them."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(made.byte_level_text())
    numbers = tokenizer.get_vocab(with_added_tokens=True)
    added = tokenizer.get_added_tokens_decoder()
    tokens = sorted(numbers, key=numbers.__getitem__)
    types = [1 if i not in added else 3 if added[i].special else 4 for i in range(len(tokens))]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.merges": [
            " ".join(pair) for pair in json.loads(tokenizer.to_str())["model"]["merges"]
        ],
        "tokenizer.ggml.eos_token_id": numbers["<|end|>"],
        "tokenizer.ggml.padding_token_id": numbers["<|image|>"],
    }


def write_gguf(
    path: Path,
    tensors: Mapping[str, np.ndarray],
    metadata: Mapping[str, Any],
    types: Mapping[str, str] | str = "F32",
) -> Path:
    """Write a file; matrices are stored in the type named for all or for each, vectors in F32."""
    import gguf

    writer = gguf.GGUFWriter(path, "llama")
    kinds = {bool: "bool", int: "uint32", float: "float32", str: "string", list: "array"}
    for key, value in metadata.items():
        getattr(writer, f"add_{kinds[type(value)]}")(key, value)
    for name, array in tensors.items():
        kind = gguf.GGMLQuantizationType["F32" if array.ndim == 1 else _type_of(name, types)]
        writer.add_tensor(name, gguf.quantize(array, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _type_of(name: str, types: Mapping[str, str] | str) -> str:
    return types if isinstance(types, str) else types.get(name, "F32")
