"""`config.json`: both published forms, defaults of what is left out, and what is refused where."""

import attrs
import pytest

from engine.errors import RequestError
from engine.models.config_fields import InvalidModelConfig
from engine.models.qwen3_5.config import FULL, LINEAR, Qwen35Config
from property_tests.qwen3_5_words import BASE, CONFIGS

BAD = {
    "hidden_act": ["gelu"],
    "attention_bias": [True],
    "attn_output_gate": [False],
    "mamba_ssm_dtype": ["bfloat16"],
    "mtp_num_hidden_layers": [2],
    "mtp_use_dedicated_embeddings": [True],
    "vocab_size": [0, -1, "37", 37.0, True],
    "num_attention_heads": [3],
    "linear_num_value_heads": [5],
    "num_hidden_layers": [0, 3],
    "layer_types": [["linear_attention"], ["a", "b", "c", "d"], "full_attention"],
    "rms_norm_eps": [0, "small"],
    "rope_parameters": [{"rope_type": "yarn"}, 4],
    "tie_word_embeddings": ["yes"],
}


@pytest.mark.parametrize("layout", ["composite", "text"])
@pytest.mark.parametrize("name", CONFIGS)
def test_what_is_written_is_read_back(name, layout):
    assert Qwen35Config.from_json(CONFIGS[name].to_json(layout)) == CONFIGS[name]


def test_what_a_file_leaves_out_is_the_published_default():
    config = Qwen35Config.from_json({})
    assert (config.vocab_size, config.hidden_size, config.intermediate_size) == (248320, 4096, 12288)
    assert (config.num_heads, config.num_kv_heads, config.head_dim, config.rotary_dim) == (16, 4, 256, 64)
    assert (config.num_key_heads, config.num_value_heads, config.key_dim) == (16, 32, 128)
    assert (config.rope_theta, config.eps, config.tied) == (1e4, 1e-6, False)
    assert config.layer_types == (LINEAR, LINEAR, LINEAR, FULL) * 8
    assert Qwen35Config.from_json({"num_hidden_layers": 3, "full_attention_interval": 2}).layer_types == (
        LINEAR,
        FULL,
        LINEAR,
    )


def test_older_rope_fields_beside_the_others():
    text = BASE.to_json("text")
    rope = text.pop("rope_parameters")
    assert Qwen35Config.from_json({**text, **rope}) == BASE


def test_the_composite_file_ties_at_its_top():
    document = BASE.to_json("composite")
    assert Qwen35Config.from_json({**document, "tie_word_embeddings": True}).tied
    document["text_config"]["tie_word_embeddings"] = True
    assert not Qwen35Config.from_json(document).tied
    del document["tie_word_embeddings"]
    assert Qwen35Config.from_json(document).tied


@pytest.mark.parametrize("name,value", [(name, value) for name, values in BAD.items() for value in values])
def test_what_is_not_computed_is_refused_with_its_place(name, value):
    with pytest.raises(InvalidModelConfig) as caught:
        Qwen35Config.from_json({**BASE.to_json("text"), name: value})
    error = caught.value
    assert isinstance(error, RequestError)
    assert error.pointer.startswith("/")
    assert error.found and error.allowed
    if name not in ("num_hidden_layers", "rms_norm_eps"):
        assert error.pointer == f"/{name}"


@pytest.mark.parametrize("factor", [0.25, 0, 2])
def test_rotary_dimensions_must_pair(factor):
    text = BASE.to_json("text")
    text["rope_parameters"]["partial_rotary_factor"] = factor
    with pytest.raises(InvalidModelConfig) as caught:
        Qwen35Config.from_json(text)
    assert caught.value.pointer == "/rope_parameters/partial_rotary_factor"


def test_a_text_config_that_is_no_object_is_refused():
    with pytest.raises(InvalidModelConfig, match="text_config"):
        Qwen35Config.from_json({"text_config": [1]})


def test_errors_compare_by_their_fields():
    errors = []
    for _ in range(2):
        with pytest.raises(InvalidModelConfig) as caught:
            attrs.evolve(BASE, rotary_dim=5)
        errors.append(caught.value)
    assert errors[0] == errors[1]
