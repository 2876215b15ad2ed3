"""The drafters' published `config.json`: read, written back, and refused where it asks for something else."""

import attrs
import pytest

from engine.models.dflash_config import DFlashConfig, InvalidModelConfig, default_layer_ids
from property_tests.dflash_words import config2_of, config_of
from property_tests.qwen3_5_words import BASE

PLAIN, CONV = config_of(BASE, 4, (2, 0)), config2_of(BASE, 4, (2, 0))
SLIDING, FULL = "sliding_attention", "full_attention"
WINDOWS = attrs.evolve(PLAIN, windows=(3, None))


def with_changes(document, changes):
    """A document with fields replaced, those of the nested object by a path; None takes a field away."""
    changed = {**document, "dflash_config": dict(document["dflash_config"])}
    for path, value in changes.items():
        nested, _, name = path.rpartition("/")
        place = changed[nested] if nested else changed
        place[name] = value
        if value is None:
            del place[name]
    return changed


@pytest.mark.parametrize("config", [PLAIN, CONV, WINDOWS], ids=["dflash", "dflash2", "windows"])
def test_what_is_written_is_read_back(config):
    assert DFlashConfig.from_json(config.to_json()) == config


@pytest.mark.parametrize("changes", [{"causal": (True, False)}, {"windows": (3, 4)}])
def test_layers_that_no_file_can_tell_apart_are_not_written(changes):
    with pytest.raises(InvalidModelConfig, match="layer_types"):
        attrs.evolve(PLAIN, **changes).to_json()


def test_either_place_is_read_and_agreement_is_no_contradiction():
    document = PLAIN.to_json()
    top = with_changes(document, {"dflash_config/block_size": None, "block_size": 7})
    assert DFlashConfig.from_json(top).block_size == 7
    assert DFlashConfig.from_json({**document, "block_size": 4}) == PLAIN


def test_what_a_file_leaves_out_is_the_published_default():
    nested = {"mask_token_id": 5, "target_layer_ids": [1]}
    for name, numbers in (("DFlashDraftModel", (0, 0, 0, 0)), ("DFlash2DraftModel", (2, 16, 256, 16))):
        found = DFlashConfig.from_json({"architectures": [name], "dflash_config": nested})
        assert (found.conv_kernel, found.conv_group, found.selector_rank, found.selector_top_k) == numbers
        assert (found.num_layers, found.block_size, found.head_dim, found.num_kv_heads) == (5, 16, 128, 32)
        assert (found.windows, found.causal) == ((None,) * 5, (False,) * 5)
        assert (found.rope_theta, found.eps) == (1e6, 1e-6)


@pytest.mark.parametrize(
    ("num_layers", "num_target", "wanted"),
    [(1, 32, (16,)), (5, 36, (1, 9, 17, 25, 33)), (5, 28, (1, 7, 13, 19, 25)), (2, 8, (1, 5))],
)
def test_layers_that_no_file_names_are_spread_evenly(num_layers, num_target, wanted):
    assert default_layer_ids(num_layers, num_target) == wanted


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({}, (False, False)),
        ({"is_causal": None}, (True, False)),
        ({"is_causal": True}, (True, True)),
        ({"is_causal": None, "dflash_config/causal": True}, (True, True)),
        ({"dflash_config/causal": True}, (True, True)),
        ({"dflash_config/causal": False, "is_causal": True}, (False, False)),
    ],
)
def test_the_direction_of_sliding_layers_is_the_files_or_the_older_rule(changes, wanted):
    assert DFlashConfig.from_json(with_changes(WINDOWS.to_json(), changes)).causal == wanted


def test_the_window_has_two_names():
    document = with_changes(WINDOWS.to_json(), {"dflash_config/swa_window_size": 9, "sliding_window": None})
    assert DFlashConfig.from_json(document).windows == (9, None)


REFUSED = [
    ({"architectures": ["Qwen3ForCausalLM"]}, "architectures"),
    ({"architectures": []}, "architectures"),
    ({"hidden_act": "gelu"}, "hidden_act"),
    ({"attention_bias": True}, "attention_bias"),
    ({"dflash_config/sample_from_anchor": True}, "sample_from_anchor"),
    ({"dflash_config/attention_sink_bias": True}, "attention_sink_bias"),
    ({"final_logit_softcapping": 30.0}, "final_logit_softcapping"),
    ({"output_multiplier": 2.0}, "output_multiplier"),
    ({"input_embedding_scale": 2.0}, "input_embedding_scale"),
    ({"hidden_size": 0}, "hidden_size"),
    ({"num_key_value_heads": 3}, "num_key_value_heads"),
    ({"head_dim": 7}, "head_dim"),
    ({"draft_vocab_size": 30}, "draft_vocab_size"),
    ({"dflash_config/draft_vocab_size": 30}, "draft_vocab_size"),
    ({"dflash_config/block_size": 1}, "block_size"),
    ({"block_size": 8}, "block_size"),
    ({"mask_token_id": 4}, "mask_token_id"),
    ({"dflash_config/mask_token_id": None}, "dflash_config/mask_token_id"),
    ({"dflash_config/mask_token_id": 37}, "dflash_config/mask_token_id"),
    ({"dflash_config/target_layer_ids": [0, 4]}, "dflash_config/target_layer_ids"),
    ({"dflash_config/target_layer_ids": [1, 1]}, "dflash_config/target_layer_ids"),
    ({"dflash_config/target_layer_ids": []}, "dflash_config/target_layer_ids"),
    ({"dflash_config/target_layer_ids": [1, True]}, "dflash_config/target_layer_ids"),
    ({"layer_types": [SLIDING]}, "layer_types"),
    ({"layer_types": [SLIDING, "chunked_attention"]}, "layer_types"),
    ({"use_sliding_window": True}, "use_sliding_window"),
    ({"use_sliding_window": False, "layer_types": [SLIDING, FULL]}, "use_sliding_window"),
    ({"dflash_config/use_swa": True}, "use_swa"),
    ({"use_sliding_window": True, "layer_types": [SLIDING, FULL]}, "sliding_window"),
    ({"is_causal": "yes"}, "is_causal"),
    ({"dflash_config/causal": 1}, "dflash_config/causal"),
    ({"rope_parameters": {"rope_type": "yarn"}}, "rope_parameters"),
    ({"rope_parameters": {"type": "linear", "factor": 2}}, "rope_parameters"),
    ({"rope_parameters": None, "rope_scaling": {"type": "linear", "factor": 2}}, "rope_scaling"),
    ({"rope_parameters": {"partial_rotary_factor": 0.5}}, "rope_parameters/partial_rotary_factor"),
    ({"rope_theta": 5e6}, "rope_theta"),
]


@pytest.mark.parametrize(("changes", "pointer"), REFUSED)
def test_what_is_not_computed_is_refused_by_its_place(changes, pointer):
    with pytest.raises(InvalidModelConfig) as caught:
        DFlashConfig.from_json(with_changes(PLAIN.to_json(), changes))
    assert caught.value.location.pointer == f"/{pointer}"


def test_a_nested_value_that_is_no_object_is_refused():
    with pytest.raises(InvalidModelConfig, match="dflash_config"):
        DFlashConfig.from_json({**PLAIN.to_json(), "dflash_config": [1]})


def test_groups_must_divide_the_width():
    with pytest.raises(InvalidModelConfig, match="conv_group_size"):
        attrs.evolve(CONV, conv_group=7)
