"""The numbers of a Llama model, from `config.json` in its published form; GGUF metadata is read in `gguf`.

Fields without a meaning here are ignored; one whose value asks for something that this model does not compute
(biases, scaled or partial rotation, another activation) is refused, never dropped.
"""

from collections.abc import Mapping
from typing import Any

import attrs

from engine.models.config_fields import invalid_config, read_count, read_number

# Published name -> the only values that this model computes; absent means the first.
FIXED: Mapping[str, tuple[object, ...]] = {
    "model_type": ("llama",),
    "hidden_act": ("silu",),
    "attention_bias": (False,),
    "mlp_bias": (False,),
    "pretraining_tp": (1,),
}
# Field -> published name and what an absent one means; every one is an integer of at least 1.
COUNTS: Mapping[str, tuple[str, int]] = {
    "vocab_size": ("vocab_size", 32000),
    "hidden_size": ("hidden_size", 4096),
    "intermediate_size": ("intermediate_size", 11008),
    "num_layers": ("num_hidden_layers", 32),
    "num_heads": ("num_attention_heads", 32),
    "max_context": ("max_position_embeddings", 2048),
}
DEFAULT_THETA, DEFAULT_EPS = 1e4, 1e-6


@attrs.frozen
class LlamaConfig:
    """One model; all of every head is rotated."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rope_theta: float = DEFAULT_THETA
    eps: float = DEFAULT_EPS
    tied: bool = False
    max_context: int = 2048

    def __attrs_post_init__(self) -> None:
        if self.num_kv_heads < 1 or self.num_heads % self.num_kv_heads:
            raise invalid_config("num_key_value_heads", self.num_kv_heads, f"a divisor of {self.num_heads}")
        if self.head_dim < 2 or self.head_dim % 2:
            raise invalid_config("head_dim", self.head_dim, "an even number of dimensions")
        if not (self.rope_theta > 0 and self.eps > 0):
            found = (self.eps, self.rope_theta)
            raise invalid_config("rms_norm_eps", found, "rms_norm_eps and rope_theta above 0")

    @property
    def rotary_dim(self) -> int:
        """Rotated dimensions of a head: all."""
        return self.head_dim

    @property
    def num_full(self) -> int:
        """Number of attention layers: all."""
        return self.num_layers

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "LlamaConfig":
        """Read a parsed `config.json`. Raises InvalidModelConfig."""
        present = {name: value for name, value in document.items() if value is not None}
        for name, allowed in FIXED.items():
            if present.get(name, allowed[0]) not in allowed:
                raise invalid_config(name, present[name], " or ".join(repr(value) for value in allowed))
        rope = _rope(present)
        counts = {field: read_count(present, name, default) for field, (name, default) in COUNTS.items()}
        num_heads = counts["num_heads"]
        tied = present.get("tie_word_embeddings", False)
        if not isinstance(tied, bool):
            raise invalid_config("tie_word_embeddings", tied, "true or false")
        return cls(
            **counts,
            num_kv_heads=read_count(present, "num_key_value_heads", num_heads),
            head_dim=read_count(present, "head_dim", counts["hidden_size"] // num_heads),
            rope_theta=read_number(rope, "rope_theta", DEFAULT_THETA),
            eps=read_number(present, "rms_norm_eps", DEFAULT_EPS),
            tied=tied,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the published `config.json`; `from_json` reads it back as it was."""
        return {
            "architectures": ["LlamaForCausalLM"],
            **{name: allowed[0] for name, allowed in FIXED.items()},
            **{name: getattr(self, field) for field, (name, _) in COUNTS.items()},
            "num_key_value_heads": self.num_kv_heads,
            "head_dim": self.head_dim,
            "rms_norm_eps": self.eps,
            "tie_word_embeddings": self.tied,
            "rope_parameters": {"rope_type": "default", "rope_theta": self.rope_theta},
        }


def _rope(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the rotary settings, which stand beside the others or in an object; neither scaled nor partial.

    The object is `rope_parameters`, or `rope_scaling` in older files.
    """
    rope = dict(document)
    for name in ("rope_parameters", "rope_scaling"):
        settings = document.get(name, {})
        if not isinstance(settings, Mapping) or _rope_type(settings) not in (None, "default"):
            raise invalid_config(name, settings, "an object with rope_type 'default'")
        rope |= settings
    if rope.get("partial_rotary_factor", 1.0) != 1.0:
        raise invalid_config("partial_rotary_factor", rope["partial_rotary_factor"], "1.0")
    return rope


def _rope_type(settings: Mapping[str, Any]) -> object:
    return settings.get("rope_type", settings.get("type"))
