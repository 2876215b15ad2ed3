"""DFlash and DFlash2 against float64: blocks, context, lanes, the selector's walk, gradients and files."""

import attrs
import numpy as np
import pytest
import torch

from engine.models import dflash, dflash2
from engine.models.checkpoint import (
    ExtraTensor,
    InvalidCheckpoint,
    MisshapedTensor,
    MissingTensor,
    write_files,
)
from engine.models.dflash import DFlash
from engine.models.dflash2 import DFlash2
from engine.models.qwen3_5.attention import KeyValues, Placement
from engine.models.weights import load_drafter, save_drafter
from oracles import dflash as oracle
from property_tests.dflash_words import config2_of, config_of, doubles, filled, shape_of
from property_tests.qwen3_5_words import BASE

PLAIN, CONV = config_of(BASE, 4, (2, 0)), config2_of(BASE, 4, (2, 0))
CONFIGS = {
    "full": PLAIN,
    "windows, backwards": attrs.evolve(PLAIN, windows=(3, None), causal=(True, False)),
    "windows, both ways, one kv head": attrs.evolve(PLAIN, windows=(3, 6), num_kv_heads=1, block_size=5),
    "all causal": attrs.evolve(PLAIN, causal=(True, True), num_kv_heads=4),
    "convolutions": CONV,
    "three taps, windows": attrs.evolve(CONV, conv_kernel=3, windows=(3, 5), causal=(False, True)),
}
STARTS, LANES = (5, 0, 9), (2, 0, 3)


def made(config, seed=4):
    """A random drafter."""
    return filled((DFlash2 if config.is_dflash2 else DFlash)(config), seed)


def run_of(config, junk=0.0):
    """Write three ragged lanes, run their blocks; return the module, the inputs and the outputs."""
    module = made(config)
    rng = np.random.default_rng(7)
    features = torch.from_numpy(rng.standard_normal((3, 9, 2 * BASE.hidden_size))).float()
    rows = torch.from_numpy(rng.standard_normal((3, config.block_size, BASE.hidden_size))).float()
    caches = [KeyValues.allocate(config, 4, 20, torch.float32) for _ in config.windows]
    module.write(features, Placement.of(LANES, (0, 0, 0), 9, 20), caches)
    for lane, start in zip(LANES, STARTS, strict=True):
        for cache in caches:
            cache.keys[lane, start:] += junk
            cache.values[lane, start:] += junk
    placement = Placement.of(LANES, STARTS, config.block_size, 20)
    return module, features, rows, module.block(rows, placement, caches)


def oracle_block(module, features, rows, start):
    """One lane's block after its context by the oracle."""
    weights, shape = doubles(module), shape_of(module.config)
    halves = [list(part) for part in np.split(features.double().numpy(), 2, axis=1)]
    seen = oracle.context(weights, shape, halves)[:start]
    return np.array(oracle.block(weights, shape, list(rows.double().numpy()), start, seen))


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_blocks_are_the_oracles_and_junk_past_a_lane_is_never_seen(config):
    module, features, rows, found = run_of(config)
    for b, start in enumerate(STARTS):
        wanted = oracle_block(module, features[b], rows[b], start)
        assert np.abs(found[b].numpy() - wanted).max() <= 1e-5 * np.abs(wanted).max()
    assert torch.equal(run_of(config, junk=9.0)[3], found)


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_many_blocks_in_one_forward_are_the_blocks_one_by_one_and_gradients_reach_all(config):
    module, features, rows, found = run_of(config)
    module.requires_grad_(True)
    num_blocks, size = 2, config.block_size
    context = module.project(module.context(features[:1]), torch.arange(9)[None])
    starts = torch.tensor([5, 9]).repeat_interleave(size)
    positions = (starts + torch.arange(size).repeat(num_blocks))[None]
    own = torch.arange(num_blocks).repeat_interleave(size)
    visible = torch.cat([torch.arange(9) < starts[:, None], own == own[:, None]], dim=1)[None, None]
    both = module(torch.cat([rows[:1], rows[2:]], dim=1), positions, context, visible)
    assert torch.allclose(both[:, :size], found[:1], rtol=1e-5, atol=1e-5)
    second = oracle_block(module, features[0], rows[2], 9)
    assert np.abs(both[0, size:].detach().numpy() - second).max() <= 1e-5 * np.abs(second).max()
    hidden, extra = both.square().mean(), 0.0
    if config.is_dflash2:
        extra = module.pair(torch.tensor([1]), both[:, 1], torch.tensor([[2, 3]])).sum()
    (hidden * 3 + both.sum() + extra).backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in module.parameters())


def test_the_greedy_walk_is_the_oracles():
    module, _, _, hidden = run_of(CONV)
    head = torch.from_numpy(np.random.default_rng(8).standard_normal((BASE.vocab_size, BASE.hidden_size)))
    logits = hidden @ head.float().T
    ids, unary = module.candidates(logits)
    token, path = torch.tensor([6, 7, 8]), []
    for j in range(1, CONV.block_size):
        scores = unary[:, j] + module.pair(token, hidden[:, j], ids[:, j])
        token = ids[:, j].gather(1, scores.argmax(1, keepdim=True))[:, 0]
        path.append(token)
    for b, anchor in enumerate((6, 7, 8)):
        lane = (list(logits[b].double().numpy()), list(hidden[b].double().numpy()))
        wanted = oracle.greedy_walk(doubles(module), *lane, anchor, CONV.selector_top_k)
        assert torch.stack(path, dim=1)[b].tolist() == wanted


@pytest.mark.parametrize("config", [PLAIN, CONV], ids=["dflash", "dflash2"])
def test_what_is_saved_is_loaded(tmp_path, config):
    pytest.importorskip("safetensors")
    save_drafter(tmp_path, made(config))
    loaded = load_drafter(tmp_path)
    assert loaded.config == config
    wanted = made(config).state_dict()
    assert loaded.state_dict().keys() == wanted.keys()
    assert all(torch.equal(tensor, wanted[name]) for name, tensor in loaded.state_dict().items())


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_a_row_of_a_batch_is_the_row_alone(config):
    module, features, rows, found = run_of(config)
    for b, start in enumerate(STARTS):
        caches = [KeyValues.allocate(config, 1, 20, torch.float32) for _ in config.windows]
        module.write(features[b : b + 1], Placement.of([0], [0], 9, 20), caches)
        alone = module.block(rows[b : b + 1], Placement.of([0], [start], config.block_size, 20), caches)
        assert torch.allclose(alone, found[b : b + 1], rtol=1e-5, atol=1e-5)


def test_a_context_written_in_parts_is_the_same():
    """Parts of a history go behind each other, whatever was written past their places before."""
    module, features, rows, found = run_of(CONV)
    caches = [KeyValues.allocate(CONV, 1, 20, torch.float32) for _ in CONV.windows]
    for start, stop in ((0, 6), (4, 9)):
        module.write(features[2:, start:stop], Placement.of([0], [start], stop - start, 20), caches)
    again = module.block(rows[2:], Placement.of([0], [9], CONV.block_size, 20), caches)
    assert torch.allclose(again, found[2:], rtol=1e-5, atol=1e-5)


def test_training_starts_from_small_matrices_and_convolutions_that_change_nothing():
    module = dflash2.initialise(DFlash2(CONV), torch.Generator().manual_seed(1))
    values = module.state_dict()
    assert all(torch.isfinite(tensor).all() for tensor in values.values())
    assert all((tensor == 1).all() for name, tensor in values.items() if name.endswith("norm.weight"))
    assert 0.015 < values["fc.weight"].std() < 0.025
    plain = dflash.initialise(DFlash(PLAIN), torch.Generator().manual_seed(2))
    missing = plain.load_state_dict({n: t for n, t in values.items() if n in plain.state_dict()})
    assert not missing.missing_keys
    rows = torch.randn(1, 4, BASE.hidden_size, generator=torch.Generator().manual_seed(3))
    nothing = [(torch.zeros(1, 0, 2, 10), torch.zeros(1, 0, 2, 10))] * 2
    visible = torch.ones(1, 1, 4, 4, dtype=torch.bool)
    positions = torch.arange(4)[None]
    with torch.no_grad():
        assert torch.allclose(
            module(rows, positions, nothing, visible), plain(rows, positions, nothing, visible), atol=1e-6
        )
    again = dflash2.initialise(DFlash2(CONV), torch.Generator().manual_seed(1)).state_dict()
    assert all(torch.equal(tensor, again[name]) for name, tensor in values.items())


def test_every_tensor_that_does_not_fit_is_named(tmp_path):
    pytest.importorskip("safetensors")
    name = "layers.0.mlp_conv.base_kernel"
    module = made(CONV)
    tensors = module.state_dict()
    tensors[name] = tensors[name][:, :1].clone()
    tensors["lm_head.weight"] = torch.zeros(2)
    gone = tensors.pop("fc.weight")
    write_files(tmp_path, CONV.to_json(), tensors, torch.float32)
    with pytest.raises(InvalidCheckpoint) as caught:
        load_drafter(tmp_path)
    assert caught.value.faults == (
        MissingTensor("fc.weight", tuple(gone.shape)),
        MisshapedTensor(name, (2, 1, 24), (2, 2, 24)),
        ExtraTensor("lm_head.weight"),
    )


def test_candidates_are_the_best_first_and_no_more_than_there_are():
    logits = torch.tensor([[[0.5, 3.0, -1.0, 2.0]]])
    ids, unary = made(CONV).candidates(logits)
    assert (ids.tolist(), unary.tolist()) == ([[[1, 3, 0, 2]]], [[[3.0, 2.0, 0.5, -1.0]]])
