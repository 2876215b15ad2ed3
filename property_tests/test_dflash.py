"""DFlash and DFlash2 against float64: blocks, context, lanes, the selector's walk, gradients and files."""

import attrs
import numpy as np
import pytest
import torch

from engine.models.dflash import DFlash
from engine.models.dflash2 import DFlash2
from engine.models.qwen3_5.attention import KeyValues, Placement
from engine.models.weights import load_drafter, save_drafter
from oracles import dflash as oracle
from property_tests.dflash_words import config2_of, config_of, filled
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


def doubles(module):
    """Its tensors for the oracle."""
    return {name: tensor.double().numpy() for name, tensor in module.state_dict().items()}


def shape_of(config):
    """Its numbers for the oracle."""
    names = ("num_layers", "num_heads", "num_kv_heads", "head_dim", "rope_theta", "eps", "windows", "causal")
    numbers = {name: getattr(config, name) for name in names}
    return oracle.Shape(**numbers, num_taps=config.conv_kernel, group=config.conv_group or 1)


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
