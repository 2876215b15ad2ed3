"""The numbers of a Qwen3.5 text model, read from and written to `config.json` in its published forms.

A composite file nests them under `text_config`, a text-only file has them at the top. Fields without a
meaning here are ignored; a field whose value asks for something this model does not compute is refused, never
dropped. M-RoPE sections are ignored on purpose: for text all position rows are equal and have no effect.
"""

from collections.abc import Mapping
from typing import Any, Literal

import attrs

from engine.models.config_fields import invalid_config, read_count, read_number

LINEAR, FULL = "linear_attention", "full_attention"
Layout = Literal["composite", "text"]

# Published name -> the only values that this model computes; absent means the first.
FIXED: Mapping[str, tuple[object, ...]] = {
    "hidden_act": ("silu",),
    "attention_bias": (False,),
    "attn_output_gate": (True,),
    "mamba_ssm_dtype": ("float32",),
    "mtp_num_hidden_layers": (1, 0),
    "mtp_use_dedicated_embeddings": (False,),
}
# Field -> published name; every one is an integer of at least 1.
COUNTS: Mapping[str, str] = {
    "vocab_size": "vocab_size",
    "hidden_size": "hidden_size",
    "intermediate_size": "intermediate_size",
    "num_heads": "num_attention_heads",
    "num_kv_heads": "num_key_value_heads",
    "head_dim": "head_dim",
    "num_key_heads": "linear_num_key_heads",
    "num_value_heads": "linear_num_value_heads",
    "key_dim": "linear_key_head_dim",
    "value_dim": "linear_value_head_dim",
    "conv_kernel": "linear_conv_kernel_dim",
    "max_context": "max_position_embeddings",
}
# What a published file may leave out, because its writer leaves out what equals these.
DEFAULTS: Mapping[str, int] = {
    "vocab_size": 248320,
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_hidden_layers": 32,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
    "max_position_embeddings": 32768,
    "full_attention_interval": 4,
}


@attrs.frozen
class Qwen35Config:
    """One text model; heads and dims named `key` or `value` are Gated DeltaNet's, the others attention's."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    layer_types: tuple[str, ...]
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rotary_dim: int
    num_key_heads: int
    num_value_heads: int
    key_dim: int
    value_dim: int
    conv_kernel: int = 4
    rope_theta: float = 1e7
    eps: float = 1e-6
    tied: bool = False
    max_context: int = 262144

    def __attrs_post_init__(self) -> None:
        for name, published in COUNTS.items():
            if getattr(self, name) < 1:
                raise invalid_config(published, getattr(self, name), "an integer of at least 1")
        if self.num_heads % self.num_kv_heads:
            raise invalid_config(COUNTS["num_heads"], self.num_heads, f"a multiple of {self.num_kv_heads}")
        if self.num_value_heads % self.num_key_heads:
            raise invalid_config(
                COUNTS["num_value_heads"], self.num_value_heads, f"a multiple of {self.num_key_heads}"
            )
        if self.rotary_dim % 2 or not 0 < self.rotary_dim <= self.head_dim:
            raise invalid_config(
                "rope_parameters/partial_rotary_factor",
                self.rotary_dim,
                f"2, 4, ... {self.head_dim} dimensions",
            )
        if not self.layer_types or set(self.layer_types) - {LINEAR, FULL}:
            raise invalid_config("layer_types", list(self.layer_types), f"a list of '{LINEAR}' and '{FULL}'")
        if not (self.rope_theta > 0 and self.eps > 0):
            raise invalid_config(
                "rms_norm_eps", (self.eps, self.rope_theta), "rms_norm_eps and rope_theta above 0"
            )

    @property
    def num_layers(self) -> int:
        """Number of blocks."""
        return len(self.layer_types)

    @property
    def num_linear(self) -> int:
        """Number of Gated DeltaNet layers."""
        return self.layer_types.count(LINEAR)

    @property
    def num_full(self) -> int:
        """Number of attention layers."""
        return self.layer_types.count(FULL)

    @property
    def conv_channels(self) -> int:
        """Width of a column before the convolution: queries, keys and values, all heads."""
        return 2 * self.num_key_heads * self.key_dim + self.num_value_heads * self.value_dim

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "Qwen35Config":
        """Read a parsed `config.json`, composite or text-only. Raises InvalidModelConfig."""
        text = document.get("text_config", document)
        if not isinstance(text, Mapping):
            raise invalid_config("text_config", text, "an object")
        _check_fixed(text)
        rope = _rope(text)
        counts = {
            name: read_count(text, published, DEFAULTS[published]) for name, published in COUNTS.items()
        }
        factor = read_number(rope, "partial_rotary_factor", 0.25)
        tied = document.get("tie_word_embeddings", text.get("tie_word_embeddings", False))
        if not isinstance(tied, bool):
            raise invalid_config("tie_word_embeddings", tied, "true or false")
        return cls(
            **counts,
            layer_types=_layer_types(text),
            rotary_dim=int(counts["head_dim"] * factor),
            rope_theta=read_number(rope, "rope_theta", 1e4),
            eps=read_number(text, "rms_norm_eps", 1e-6),
            tied=tied,
        )

    def to_json(self, layout: Layout) -> dict[str, Any]:
        """Return the `config.json` of a layout; `from_json` reads it back as it was."""
        text: dict[str, Any] = {published: getattr(self, name) for name, published in COUNTS.items()}
        text |= {name: allowed[0] for name, allowed in FIXED.items()}
        text |= {
            "model_type": "qwen3_5_text",
            "num_hidden_layers": self.num_layers,
            "layer_types": list(self.layer_types),
            "rms_norm_eps": self.eps,
            "tie_word_embeddings": self.tied,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": self.rope_theta,
                "partial_rotary_factor": self.rotary_dim / self.head_dim,
            },
        }
        if layout == "text":
            return {"architectures": ["Qwen3_5ForCausalLM"], **text}
        return {
            "architectures": ["Qwen3_5ForConditionalGeneration"],
            "model_type": "qwen3_5",
            "tie_word_embeddings": self.tied,
            "text_config": text,
        }


def _check_fixed(text: Mapping[str, Any]) -> None:
    for name, allowed in FIXED.items():
        if text.get(name, allowed[0]) not in allowed:
            raise invalid_config(name, text[name], " or ".join(repr(value) for value in allowed))


def _rope(text: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the rotary settings; older files have them beside the others."""
    rope = text.get("rope_parameters")
    if rope is None:
        return text
    if not isinstance(rope, Mapping) or rope.get("rope_type", "default") != "default":
        raise invalid_config("rope_parameters", rope, "an object with rope_type 'default'")
    return {**text, **rope}


def _layer_types(text: Mapping[str, Any]) -> tuple[str, ...]:
    """Return one type per layer: as listed, or every `full_attention_interval`-th layer is full."""
    num_layers = read_count(text, "num_hidden_layers", DEFAULTS["num_hidden_layers"])
    listed = text.get("layer_types")
    if listed is None:
        interval = read_count(text, "full_attention_interval", DEFAULTS["full_attention_interval"])
        return tuple(FULL if (i + 1) % interval == 0 else LINEAR for i in range(num_layers))
    if not isinstance(listed, list) or len(listed) != num_layers:
        raise invalid_config("layer_types", listed, f"a list of {num_layers} types")
    return tuple(str(kind) for kind in listed)
