"""The numbers of a DFlash or DFlash2 drafter, read from and written to its published `config.json`.

What may stand at the top level or under `dflash_config` is read from either, and refused where both say it
differently. A field whose value asks for something that this drafter does not compute is refused, never
dropped.
"""

from collections.abc import Mapping
from typing import Any

import attrs

from engine.models.config_fields import InvalidModelConfig, invalid_config, read_count, read_number

DFLASH, DFLASH2 = "DFlashDraftModel", "DFlash2DraftModel"
SLIDING, FULL = "sliding_attention", "full_attention"
NESTED = "dflash_config"
# Published name -> the only values that are computed, at the top level or nested; absent means the first.
FIXED: Mapping[str, tuple[object, ...]] = {
    "hidden_act": ("silu",),
    "attention_bias": (False,),
    "mlp_bias": (False,),
    "sample_from_anchor": (False,),
    "attention_sink_bias": (False, None),
    "final_logit_softcapping": (None, 0, 0.0),
    "output_multiplier": (1, 1.0, None),
    "input_embedding_scale": (1, 1.0, None),
}
COUNTS: Mapping[str, tuple[str, int]] = {
    "hidden_size": ("hidden_size", 4096),
    "intermediate_size": ("intermediate_size", 12288),
    "num_layers": ("num_hidden_layers", 5),
    "num_heads": ("num_attention_heads", 32),
    "vocab_size": ("vocab_size", 248320),
    "num_target_layers": ("num_target_layers", 32),
}
SELECTOR: Mapping[str, tuple[str, int]] = {
    "conv_kernel": ("conv_kernel_size", 2),
    "conv_group": ("conv_group_size", 16),
    "selector_rank": ("selector_rank", 256),
    "selector_top_k": ("selector_top_k", 16),
}


@attrs.frozen
class DFlashConfig:
    """One drafter; `windows` and `causal` say per layer how far a row sees, and whether only backwards.

    The four last numbers are DFlash2's: 0 for DFlash.
    """

    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    num_target_layers: int
    target_layer_ids: tuple[int, ...]
    block_size: int
    mask_token_id: int
    windows: tuple[int | None, ...]
    causal: tuple[bool, ...]
    rope_theta: float = 1e7
    eps: float = 1e-6
    conv_kernel: int = 0
    conv_group: int = 0
    selector_rank: int = 0
    selector_top_k: int = 0

    def __attrs_post_init__(self) -> None:
        if self.num_heads % self.num_kv_heads:
            raise invalid_config("num_key_value_heads", self.num_kv_heads, f"a divisor of {self.num_heads}")
        if self.head_dim % 2:
            raise invalid_config("head_dim", self.head_dim, "an even number of dimensions")
        if self.block_size < 2:
            raise invalid_config("block_size", self.block_size, "an anchor and at least one draft")
        if not 0 <= self.mask_token_id < self.vocab_size:
            raise invalid_config(f"{NESTED}/mask_token_id", self.mask_token_id, f"below {self.vocab_size}")
        ids = self.target_layer_ids
        if not ids or len(set(ids)) < len(ids) or not set(ids) <= set(range(self.num_target_layers)):
            raise invalid_config(
                f"{NESTED}/target_layer_ids", list(ids), f"distinct layers below {self.num_target_layers}"
            )
        if self.is_dflash2 and self.hidden_size % self.conv_group:
            raise invalid_config(
                f"{NESTED}/conv_group_size", self.conv_group, f"a divisor of {self.hidden_size}"
            )

    @property
    def is_dflash2(self) -> bool:
        """Whether this is a DFlash2 drafter."""
        return self.conv_kernel > 0

    @property
    def num_full(self) -> int:
        """Attention layers that one of the drafter's caches stands for."""
        return 1

    @property
    def rotary_dim(self) -> int:
        """Rotated dimensions of a head: all."""
        return self.head_dim

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "DFlashConfig":
        """Read a parsed `config.json`. Raises InvalidModelConfig."""
        architecture = (document.get("architectures") or [None])[0]
        if architecture not in (DFLASH, DFLASH2):
            raise invalid_config("architectures", document.get("architectures"), f"{DFLASH} or {DFLASH2}")
        nested = document.get(NESTED, {})
        if not isinstance(nested, Mapping):
            raise invalid_config(NESTED, nested, "an object")
        for name in nested.keys() & document.keys():
            if nested[name] != document[name]:
                raise invalid_config(name, document[name], f"{nested[name]!r}, as in {NESTED}")
        flat = {**document, **nested, **_rope(document)}
        for name, allowed in FIXED.items():
            for place in (document, nested):
                if place.get(name, allowed[0]) not in allowed:
                    raise invalid_config(name, place[name], " or ".join(repr(value) for value in allowed))
        counts = {field: read_count(flat, name, default) for field, (name, default) in COUNTS.items()}
        if architecture == DFLASH2:
            counts |= {field: read_count(flat, name, default) for field, (name, default) in SELECTOR.items()}
        _require_whole_vocabulary(flat, counts["vocab_size"])
        num_layers, num_heads = counts["num_layers"], counts["num_heads"]
        windows = _windows(flat, num_layers)
        return cls(
            **counts,
            num_kv_heads=read_count(flat, "num_key_value_heads", num_heads),
            head_dim=read_count(flat, "head_dim", max(1, counts["hidden_size"] // num_heads)),
            target_layer_ids=_layer_ids(flat, num_layers, counts["num_target_layers"]),
            block_size=read_count(flat, "block_size", 16),
            mask_token_id=_mask_token_id(flat),
            windows=windows,
            causal=_causal(document, nested, windows),
            rope_theta=read_number(flat, "rope_theta", 1e6),
            eps=read_number(flat, "rms_norm_eps", 1e-6),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the published `config.json`; `from_json` reads it back as it was, if its layers agree.

        Raises InvalidModelConfig where layers differ in direction or in window width, which no file can say.
        """
        widths = {width for width in self.windows if width is not None}
        if len(set(self.causal)) > 1 or len(widths) > 1:
            raise invalid_config("layer_types", list(self.windows), "one direction and one window width")
        selector = {name: getattr(self, field) for field, (name, _) in SELECTOR.items()}
        return {
            "architectures": [DFLASH2 if self.is_dflash2 else DFLASH],
            "model_type": "qwen3",
            **{name: getattr(self, field) for field, (name, _) in COUNTS.items()},
            "num_key_value_heads": self.num_kv_heads,
            "head_dim": self.head_dim,
            "rms_norm_eps": self.eps,
            "rope_parameters": {"rope_type": "default", "rope_theta": self.rope_theta},
            "is_causal": self.causal[0],
            "layer_types": [FULL if width is None else SLIDING for width in self.windows],
            "use_sliding_window": bool(widths),
            "sliding_window": max(widths, default=None),
            NESTED: {
                "block_size": self.block_size,
                "mask_token_id": self.mask_token_id,
                "target_layer_ids": list(self.target_layer_ids),
                **(selector if self.is_dflash2 else {}),
            },
        }


def default_layer_ids(num_layers: int, num_target_layers: int) -> tuple[int, ...]:
    """Return the layers that feed a drafter whose file names none: spread evenly, the ends left out."""
    if num_layers == 1:
        return (num_target_layers // 2,)
    step = (num_target_layers - 4) / (num_layers - 1)
    return tuple(round(1 + i * step) for i in range(num_layers))


def _layer_ids(flat: Mapping[str, Any], num_layers: int, num_target_layers: int) -> tuple[int, ...]:
    listed = flat.get("target_layer_ids")
    if listed is None:
        return default_layer_ids(num_layers, num_target_layers)
    if not isinstance(listed, list) or not all(
        isinstance(i, int) and not isinstance(i, bool) for i in listed
    ):
        raise invalid_config(f"{NESTED}/target_layer_ids", listed, "a list of layer numbers")
    return tuple(listed)


def _mask_token_id(flat: Mapping[str, Any]) -> int:
    value = flat.get("mask_token_id")
    if not isinstance(value, int) or isinstance(value, bool):
        raise invalid_config(f"{NESTED}/mask_token_id", value, "a token id")
    return value


def _require_whole_vocabulary(flat: Mapping[str, Any], vocab_size: int) -> None:
    """Refuse a drafter of fewer tokens than its target: its ids would be other ids."""
    name = "draft_vocab_size"
    if flat.get(name) not in (None, vocab_size):
        raise invalid_config(name, flat[name], f"the vocab_size {vocab_size}")


def _windows(flat: Mapping[str, Any], num_layers: int) -> tuple[int | None, ...]:
    kinds = flat.get("layer_types") or [FULL] * num_layers
    if not isinstance(kinds, list) or len(kinds) != num_layers or set(kinds) - {SLIDING, FULL}:
        raise invalid_config("layer_types", kinds, f"a list of {num_layers} of '{SLIDING}' and '{FULL}'")
    for name in ("use_sliding_window", "use_swa"):
        if flat.get(name) not in (None, SLIDING in kinds):
            raise invalid_config(name, flat[name], f"{SLIDING in kinds}, as layer_types say")
    if SLIDING not in kinds:
        return (None,) * num_layers
    named = "swa_window_size" if "swa_window_size" in flat else "sliding_window"
    width = read_count(flat, named, 0) if flat.get(named) is not None else None
    if width is None:
        raise invalid_config("sliding_window", None, "the width of the sliding layers")
    return tuple(width if kind == SLIDING else None for kind in kinds)


def _causal(
    document: Mapping[str, Any], nested: Mapping[str, Any], windows: tuple[int | None, ...]
) -> tuple[bool, ...]:
    """Return the direction of every layer; where no file says it, sliding layers look backwards only."""
    for name, value in ((f"{NESTED}/causal", nested.get("causal")), ("is_causal", document.get("is_causal"))):
        if value is None:
            continue
        if not isinstance(value, bool):
            raise invalid_config(name, value, "true or false")
        return (value,) * len(windows)
    return tuple(width is not None for width in windows)


def _rope_type(settings: Mapping[str, Any]) -> object:
    """Return the kind of rotation; older files name it `type`."""
    return settings.get("rope_type", settings.get("type", "default"))


def _rope(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the rotary settings, from an object or beside the others; scaled rotation is refused."""
    for name in ("rope_parameters", "rope_scaling"):
        settings = document.get(name)
        if settings is None:
            continue
        if not isinstance(settings, Mapping) or _rope_type(settings) != "default":
            raise invalid_config(name, settings, "an object with rope_type 'default'")
        theta = settings.get("rope_theta")
        if theta is not None and document.get("rope_theta", theta) != theta:
            raise invalid_config("rope_theta", document["rope_theta"], f"{theta!r}, as in {name}")
        if settings.get("partial_rotary_factor", 1.0) != 1.0:
            raise invalid_config(f"{name}/partial_rotary_factor", settings["partial_rotary_factor"], "1.0")
        return settings
    return {}


__all__ = ["DFlashConfig", "InvalidModelConfig", "default_layer_ids"]
