"""Checkpoints: every published layout comes back as it was, and each tensor that does not fit is named."""

import json

import attrs
import pytest
import torch

from engine.models.checkpoint import (
    ExtraTensor,
    InvalidCheckpoint,
    MisshapedTensor,
    MissingTensor,
    MistypedTensor,
)
from engine.models.config_fields import InvalidModelConfig
from engine.models.weights import load_mtp, load_target, save
from property_tests.qwen3_5_words import BASE, CONFIGS, mtp_of, target_of

safetensors = pytest.importorskip("safetensors.torch", reason="safetensors is not installed")
TIED = CONFIGS["tied, one value head a key head, long taps"]
CONV = "model.layers.0.linear_attn.conv1d.weight"


def _rewrite(directory, change):
    """Read the weights file, let `change` edit the mapping, write it back."""
    path = directory / "model.safetensors"
    tensors = safetensors.load_file(path)
    change(tensors)
    safetensors.save_file(tensors, path)


def _saved(tmp_path, layout="text", config=BASE, **options):
    save(tmp_path, target_of(config), mtp_of(config), layout=layout, **options)
    return tmp_path


def _faults(tmp_path, load=load_target):
    with pytest.raises(InvalidCheckpoint) as caught:
        load(tmp_path)
    return caught.value.faults


def _same(module, wanted):
    state = module.state_dict()
    assert state.keys() == wanted.keys()
    assert all(state[name].dtype == tensor.dtype for name, tensor in wanted.items())
    assert all(torch.equal(state[name], tensor) for name, tensor in wanted.items())


@pytest.mark.parametrize("config", [BASE, TIED], ids=["untied", "tied"])
@pytest.mark.parametrize("layout", ["composite", "text"])
def test_what_is_saved_is_loaded(tmp_path, layout, config):
    _saved(tmp_path, layout, config)
    target = load_target(tmp_path)
    _same(target, target_of(config).state_dict())
    _same(load_mtp(tmp_path), mtp_of(config).state_dict())
    assert target.config == config
    assert not any(parameter.requires_grad for parameter in target.parameters())


def test_names_are_the_published_ones(tmp_path):
    _saved(tmp_path, "composite")
    names = set(safetensors.load_file(tmp_path / "model.safetensors"))
    assert {
        "lm_head.weight",
        "model.language_model.norm.weight",
        "model.language_model.layers.0.linear_attn.A_log",
        "model.language_model.layers.1.self_attn.q_norm.weight",
        "mtp.fc.weight",
        "mtp.layers.0.mlp.down_proj.weight",
    } <= names
    assert len([name for name in names if name.startswith("mtp.")]) == 15


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_stored_bfloat16_is_rounded_once_and_loads_as_asked(tmp_path, dtype):
    _saved(tmp_path, dtype=torch.bfloat16)
    wanted = {name: t.bfloat16().to(dtype) for name, t in target_of(BASE).state_dict().items()}
    _same(load_target(tmp_path, dtype), wanted)


def test_shards_are_read_by_their_index_and_vision_is_passed_over(tmp_path):
    _saved(tmp_path, "composite")
    tensors = safetensors.load_file(tmp_path / "model.safetensors")
    tensors["model.visual.patch.weight"] = torch.zeros(3)
    names = sorted(tensors)
    shards = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for shard, held in shards.items():
        safetensors.save_file({name: tensors[name] for name in held}, tmp_path / shard)
    (tmp_path / "model.safetensors").unlink()
    index = {"weight_map": {name: shard for shard, held in shards.items() for name in held}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    _same(load_target(tmp_path), target_of(BASE).state_dict())
    (tmp_path / "b.safetensors").unlink()
    with pytest.raises(InvalidCheckpoint, match=r"b\.safetensors"):
        load_target(tmp_path)


def test_the_third_prefix_is_read(tmp_path):
    _saved(tmp_path)

    def move(tensors):
        for name in [name for name in tensors if not name.startswith("mtp.")]:
            tensors[f"language_model.{name}"] = tensors.pop(name)

    _rewrite(tmp_path, move)
    _same(load_target(tmp_path), target_of(BASE).state_dict())


@pytest.mark.parametrize("name", ["lm_head.weight", "model.embed_tokens.weight", CONV])
def test_a_missing_tensor_is_named_with_its_shape(tmp_path, name):
    _saved(tmp_path)
    shape = safetensors.load_file(tmp_path / "model.safetensors")[name].shape
    _rewrite(tmp_path, lambda tensors: tensors.pop(name))
    assert _faults(tmp_path) == (MissingTensor(name, tuple(shape)),)


def test_an_extra_tensor_is_named(tmp_path):
    _saved(tmp_path)
    extra = "model.layers.1.self_attn.k_proj.bias"
    _rewrite(tmp_path, lambda tensors: tensors.update({extra: torch.zeros(24)}))
    assert _faults(tmp_path) == (ExtraTensor(extra),)


def test_a_head_beside_a_tied_embedding_is_extra(tmp_path):
    _saved(tmp_path, config=TIED)
    _rewrite(tmp_path, lambda tensors: tensors.update({"lm_head.weight": torch.zeros(37, 24)}))
    assert _faults(tmp_path) == (ExtraTensor("lm_head.weight"),)


def test_a_misshaped_tensor_is_named_with_both_shapes(tmp_path):
    _saved(tmp_path)
    _rewrite(tmp_path, lambda tensors: tensors.update({CONV: tensors[CONV][:, 0].contiguous()}))
    assert _faults(tmp_path) == (MisshapedTensor(CONV, (72, 4), (72, 1, 4)),)


def test_a_transposed_matrix_is_misshaped(tmp_path):
    _saved(tmp_path)
    name = "model.layers.1.mlp.up_proj.weight"
    _rewrite(tmp_path, lambda tensors: tensors.update({name: tensors[name].T.contiguous()}))
    assert _faults(tmp_path) == (MisshapedTensor(name, (24, 40), (40, 24)),)


def test_a_mistyped_tensor_is_named(tmp_path):
    _saved(tmp_path)
    _rewrite(tmp_path, lambda tensors: tensors.update({CONV: tensors[CONV].to(torch.int8)}))
    assert _faults(tmp_path) == (MistypedTensor(CONV, "I8"),)


def test_mtp_tensors_are_checked_by_their_own_loader(tmp_path):
    _saved(tmp_path)

    def change(tensors):
        del tensors["mtp.norm.weight"]
        tensors["mtp.embed_tokens.weight"] = torch.zeros(37, 24)

    _rewrite(tmp_path, change)
    wanted = (ExtraTensor("mtp.embed_tokens.weight"), MissingTensor("mtp.norm.weight", (24,)))
    assert _faults(tmp_path, load_mtp) == wanted
    _same(load_target(tmp_path), target_of(BASE).state_dict())


def test_every_fault_is_kept_and_the_message_stays_short(tmp_path):
    _saved(tmp_path, config=attrs.evolve(BASE, hidden_size=16))
    config = json.dumps(BASE.to_json("text"))
    (tmp_path / "config.json").write_text(config)
    with pytest.raises(InvalidCheckpoint) as caught:
        load_target(tmp_path)
    assert len(caught.value.faults) > 20
    assert {type(fault) for fault in caught.value.faults} == {MisshapedTensor}
    assert "more" in str(caught.value) and len(str(caught.value)) < 600


@pytest.mark.parametrize(
    "name,text",
    [
        ("config.json", None),
        ("config.json", "{"),
        ("config.json", "[]"),
        ("model.safetensors", None),
        ("model.safetensors", "not tensors"),
        ("model.safetensors.index.json", "{}"),
        ("model.safetensors.index.json", '{"weight_map": 3}'),
    ],
)
def test_files_that_are_absent_or_damaged(tmp_path, name, text):
    _saved(tmp_path)
    if text is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_text(text)
    with pytest.raises(InvalidCheckpoint) as caught:
        load_target(tmp_path)
    assert not caught.value.faults


def test_a_config_that_is_not_computed_is_refused_before_the_weights(tmp_path):
    _saved(tmp_path)
    text = json.dumps({**BASE.to_json("text"), "hidden_act": "gelu"})
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(InvalidModelConfig):
        load_target(tmp_path)
