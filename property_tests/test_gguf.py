"""GGUF files: every stored type comes back, rows in their usual order, what is not computed is refused."""

import sys

import attrs
import numpy as np
import pytest
import torch

from engine.errors import MissingDependency
from engine.models import gguf_files
from engine.models.checkpoint import (
    ExtraTensor,
    InvalidCheckpoint,
    MisshapedTensor,
    MissingTensor,
    MistypedTensor,
)
from engine.models.config_fields import InvalidModelConfig
from engine.models.gguf_files import QUANTISED, READABLE, read_gguf
from engine.models.llama.config import LlamaConfig
from engine.models.llama.gguf import gguf_config, gguf_names, halves_from_pairs, load_llama_gguf
from property_tests.gguf_words import file_order, metadata_of, stored_tensors, write_gguf
from property_tests.llama_words import llama_of, truth
from property_tests.qwen3_5_words import TOLERANCE, Run, gap, tokens_of

gguf = pytest.importorskip("gguf", reason="pip install 'counterproof[gguf]'")
BASE = LlamaConfig(
    vocab_size=37,
    hidden_size=64,
    intermediate_size=96,
    num_layers=2,
    num_heads=4,
    num_kv_heads=2,
    head_dim=16,
    rope_theta=1e5,
    eps=2.0**-17,
    max_context=512,
)
TIED = attrs.evolve(BASE, tied=True)
BLOCK_TYPES = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0")  # those that the library writes
# Types of 256 numbers a block: bytes of a block, and where its float16 scales stand.
SUPER_BLOCKS = {
    "Q2_K": (84, (80, 82)),
    "Q3_K": (110, (108,)),
    "Q4_K": (144, (0, 2)),
    "Q5_K": (176, (0, 2)),
    "Q6_K": (210, (208,)),
}


def _written(tmp_path, model, types="F32", **changes):
    metadata = metadata_of(model) | changes
    kept = {key: value for key, value in metadata.items() if value is not None}
    return write_gguf(tmp_path / "model.gguf", stored_tensors(model), kept, types)


@pytest.mark.parametrize("config", [BASE, TIED], ids=["untied", "tied"])
def test_a_model_comes_back_as_it_was(tmp_path, config):
    saved = llama_of(config)
    model = load_llama_gguf(read_gguf(_written(tmp_path, saved)))
    assert model.config == saved.config
    assert not any(parameter.requires_grad for parameter in model.parameters())
    assert model.state_dict().keys() == saved.state_dict().keys()
    assert all(torch.equal(model.state_dict()[n], tensor) for n, tensor in saved.state_dict().items())
    ids = tokens_of(config, 9, seed=1)
    assert gap(Run(model).feed(ids, 4), truth(saved, ids).logits) < TOLERANCE


@pytest.mark.parametrize("kind", ["F16", "BF16", *BLOCK_TYPES])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_matrices_come_back_as_their_type_keeps_them(tmp_path, kind, dtype):
    """The numbers are the library's own, whatever order the file's rows have."""
    saved, number = llama_of(BASE), gguf.GGMLQuantizationType[kind]
    for name, parameter in saved.named_parameters():
        if parameter.ndim == 2:
            kept = gguf.dequantize(gguf.quantize(parameter.numpy(), number), number)
            assert not np.array_equal(kept, parameter.numpy()), name
            parameter.data = torch.from_numpy(kept)
    model = load_llama_gguf(read_gguf(_written(tmp_path, llama_of(BASE), kind)), dtype)
    for name, tensor in saved.state_dict().items():
        assert torch.equal(model.state_dict()[name], tensor.to(dtype)), name


@pytest.mark.parametrize("kind", SUPER_BLOCKS)
def test_super_blocks_are_read(tmp_path, kind):
    """The library does not write these: blocks of random bytes around scales that are numbers."""
    size, places = SUPER_BLOCKS[kind]
    blocks = np.random.default_rng(3).integers(256, size=(5, 2, size), dtype=np.uint8)
    for place in places:
        blocks[..., place : place + 2] = np.frombuffer(np.float16(0.01).tobytes(), dtype=np.uint8)
    raw, number = blocks.reshape(5, -1), gguf.GGMLQuantizationType[kind]
    writer = gguf.GGUFWriter(tmp_path / "one.gguf", "llama")
    writer.add_tensor("some.weight", raw, raw_dtype=number)
    for write in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file):
        write()
    writer.close()
    tensor = read_gguf(tmp_path / "one.gguf").tensors["some.weight"]
    assert (tensor.shape, tensor.dtype) == ((5, 512), kind)
    assert np.array_equal(tensor.values(), gguf.dequantize(raw, number))
    assert np.isfinite(tensor.values()).all() and np.unique(tensor.values()).size > 50


def test_blocks_worked_by_hand():
    """Q4_1: a scale, a least value, low halves of 16 bytes, then high ones. Q8_0: a scale and 32 bytes."""
    scales = np.array([0.5, -2.0], dtype=np.float16).tobytes()
    nibbles = bytes(16 * (15 - i) + i for i in range(16))
    wanted = [0.5 * i - 2.0 for i in range(16)] + [0.5 * (15 - i) - 2.0 for i in range(16)]
    raw = np.frombuffer(scales + nibbles, dtype=np.uint8)[None]
    assert gguf_files.GgufTensor((1, 32), "Q4_1", raw).values().tolist() == [wanted]
    raw = np.frombuffer(scales[:2] + np.arange(-16, 16, dtype=np.int8).tobytes(), dtype=np.uint8)[None]
    assert gguf_files.GgufTensor((1, 32), "Q8_0", raw).values().tolist() == [[i / 2 for i in range(-16, 16)]]


def test_every_readable_type_is_one_that_the_library_reads():
    for kind in READABLE:
        block, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
        raw = np.zeros((2, 8 * size), dtype=np.uint8)
        assert gguf_files.GgufTensor((2, 8 * block), kind, raw).values().shape == (2, 8 * block)
    assert set(SUPER_BLOCKS) | set(BLOCK_TYPES) == set(QUANTISED)


def test_pairs_become_halves():
    rows = torch.arange(12.0)[:, None]
    assert halves_from_pairs(rows, 6)[:, 0].tolist() == [0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11]
    assert torch.equal(halves_from_pairs(rows[file_order(12, 6)], 6), rows)


def test_values_are_in_memory_of_their_own(tmp_path):
    """A file may go away, and training may write, without a word to the other."""
    path = _written(tmp_path, llama_of(BASE))
    model = load_llama_gguf(read_gguf(path))
    with torch.no_grad():
        model.norm.weight += 1.0
    again = load_llama_gguf(read_gguf(path))
    assert torch.equal(again.norm.weight, llama_of(BASE).norm.weight)


def test_a_file_that_changed_is_read_anew(tmp_path):
    path = _written(tmp_path, llama_of(BASE))
    first = read_gguf(path)
    assert read_gguf(path) is first
    path.unlink()
    second = read_gguf(_written(tmp_path, llama_of(BASE, seed=9)))
    assert torch.equal(load_llama_gguf(second).norm.weight, llama_of(BASE, seed=9).norm.weight)


# --- what does not fit ----------------------------------------------------------------------------------


def test_every_tensor_that_does_not_fit_is_named(tmp_path):
    model = llama_of(BASE)
    tensors = stored_tensors(model)
    del tensors["blk.1.ffn_up.weight"]
    tensors["rope_freqs.weight"] = np.ones(8, dtype=np.float32)  # a scaled rotation
    tensors["output_norm.weight"] = np.ones(63, dtype=np.float32)
    file = read_gguf(write_gguf(tmp_path / "model.gguf", tensors, metadata_of(model)))
    strange = {"output.weight": attrs.evolve(file.tensors["output.weight"], dtype="IQ4_NL")}
    file = attrs.evolve(file, tensors=file.tensors | strange)
    with pytest.raises(InvalidCheckpoint) as caught:
        load_llama_gguf(file)
    assert caught.value.faults == (
        MissingTensor("blk.1.ffn_up.weight", (96, 64)),
        MistypedTensor("output.weight", "IQ4_NL", READABLE),
        MisshapedTensor("output_norm.weight", (63,), (64,)),
        ExtraTensor("rope_freqs.weight"),
    )
    assert "Q4_K" in str(caught.value.faults[1])


REFUSED = [
    ({"llama.rope.scaling.type": "linear"}, "/llama.rope.scaling.type"),
    ({"llama.rope.scaling.factor": 2.0}, "/llama.rope.scaling.factor"),
    ({"llama.expert_count": 8}, "/llama.expert_count"),
    ({"llama.attention.sliding_window": 64}, "/llama.attention.sliding_window"),
    ({"llama.rope.dimension_count": 8}, "/llama.rope.dimension_count"),
    ({"llama.attention.value_length": 8}, "/llama.attention.value_length"),
    ({"llama.block_count": None}, "/llama.block_count"),
    ({"llama.attention.head_count": [4, 4]}, "/llama.attention.head_count"),
    ({"llama.attention.head_count_kv": 3}, "/num_key_value_heads"),
    ({"llama.attention.layer_norm_rms_epsilon": None}, "/rms_norm_eps"),
]


@pytest.mark.parametrize(("change", "pointer"), REFUSED)
def test_what_is_not_computed_is_refused_by_its_key(tmp_path, change, pointer):
    file = read_gguf(_written(tmp_path, llama_of(BASE), **change))
    with pytest.raises(InvalidModelConfig) as caught:
        gguf_config(file)
    assert caught.value.pointer == pointer


def test_keys_that_a_file_leaves_out_have_their_usual_meaning(tmp_path):
    optional = ("attention.head_count_kv", "attention.key_length", "attention.value_length")
    optional += ("rope.dimension_count", "rope.freq_base")
    changes = {f"llama.{key}": None for key in optional} | {"llama.rope.scaling.type": "none"}
    file = read_gguf(_written(tmp_path, llama_of(BASE), **changes))
    assert gguf_config(file) == attrs.evolve(BASE, num_kv_heads=4, rope_theta=1e4)


def test_another_architecture_is_refused(tmp_path):
    file = read_gguf(_written(tmp_path, llama_of(BASE)))
    with pytest.raises(InvalidModelConfig, match=r"general\.architecture"):
        gguf_config(attrs.evolve(file, metadata=file.metadata | {"general.architecture": "gemma"}))


@pytest.mark.parametrize("num_bytes", [0, 3, 50, 700, -64])
def test_a_damaged_file_is_refused(tmp_path, num_bytes):
    path = _written(tmp_path, llama_of(BASE))
    path.write_bytes(path.read_bytes()[:num_bytes])
    with pytest.raises(InvalidCheckpoint, match="damaged"):
        read_gguf(path)
    path.unlink()
    with pytest.raises(InvalidCheckpoint, match="no such"):
        read_gguf(path)


def test_without_the_library_the_error_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "gguf", None)
    path = tmp_path / "any.gguf"
    path.touch()
    with pytest.raises(MissingDependency, match=r"counterproof\[gguf\]"):
        read_gguf(path)


def test_names_are_those_of_the_published_format():
    """The library's own table of the architecture's tensors."""
    table = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, BASE.num_layers)
    for stored, own in gguf_names(BASE).items():
        published = own if own == "lm_head.weight" else f"model.{own}"
        assert table.get_name(published, try_suffixes=(".weight",)) == stored
