"""Logits equal those of `transformers` on random tiny models that travel through the published layouts.

The other side's own cache rolls back no recurrent state, so a rolled-back lane is compared with its fresh
pass over the accepted text instead.
"""

import warnings

import numpy as np
import pytest
import torch

from engine.models.qwen3_5.config import Qwen35Config
from engine.models.weights import load_target, save
from oracles import qwen3_5 as oracle
from property_tests.qwen3_5_words import (
    BASE,
    CONFIGS,
    TOLERANCE,
    Run,
    gap,
    mtp_of,
    oracle_shape,
    oracle_weights,
    target_of,
    tokens_of,
)

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    transformers = pytest.importorskip(
        "transformers.models.qwen3_5", reason="transformers with Qwen3.5 is not installed"
    )

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")  # their argument names change with versions
NAMES = ["mixed", "tied, one value head a key head, long taps", "three value heads a key head, one kv head"]
NUM_PREFIX, WINDOW = 6, 5


def _theirs(directory):
    """Load a directory the way its own users do."""
    with torch.random.fork_rng():
        model = transformers.Qwen3_5ForCausalLM.from_pretrained(directory, dtype=torch.float32)
    return model.eval()


@torch.no_grad()
def _logits(model, ids):
    """A fresh pass, without any cache."""
    return model(torch.tensor([ids]), use_cache=False).logits[0]


@torch.no_grad()
def _cached(model, ids, cache=None):
    """A pass that goes on from a cache, and the cache after it."""
    output = model(torch.tensor([ids]), past_key_values=cache, use_cache=True)
    return output.logits[0], output.past_key_values


@pytest.fixture(scope="module", params=NAMES)
def pair(request, tmp_path_factory):
    """Our random model and theirs, loaded from the file that ours wrote."""
    directory = tmp_path_factory.mktemp("model")
    save(directory, target_of(CONFIGS[request.param], seed=21))
    return load_target(directory), _theirs(directory)


@pytest.mark.parametrize("chunk", [12, 5, 1])
def test_prefill_whole_or_chunked_and_decode(pair, chunk):
    target, theirs = pair
    ids = tokens_of(target.config, 12, seed=22)
    wanted = _logits(theirs, ids)
    assert gap(Run(target).feed(ids, chunk), wanted) < TOLERANCE


def test_a_pass_longer_than_a_chunk(pair):
    target, theirs = pair
    ids = tokens_of(target.config, 150, seed=23)
    wanted = _logits(theirs, ids)
    assert gap(Run(target, max_context=256).feed(ids, 150), wanted) < TOLERANCE


def test_decode_steps_beside_their_cached_ones(pair):
    target, theirs = pair
    ids = tokens_of(target.config, 10, seed=24)
    run = Run(target)
    run.feed(ids[:NUM_PREFIX], NUM_PREFIX)
    _, cache = _cached(theirs, ids[:NUM_PREFIX])
    for token in ids[NUM_PREFIX:]:
        wanted, cache = _cached(theirs, [token], cache)
        assert gap(run.feed([token], 1), wanted) < TOLERANCE


@pytest.mark.parametrize("num_accepted", range(WINDOW))
def test_verification_and_rollback(pair, num_accepted):
    target, theirs = pair
    ids = tokens_of(target.config, NUM_PREFIX + WINDOW, seed=25)
    run = Run(target)
    run.feed(ids[:NUM_PREFIX], NUM_PREFIX)
    _, cache = _cached(theirs, ids[:NUM_PREFIX])
    window = run.look({0: ids[NUM_PREFIX:]})
    assert gap(window.logits[0], _cached(theirs, ids[NUM_PREFIX:], cache)[0]) < TOLERANCE
    run.commit(window, {0: num_accepted + 1})
    after = tokens_of(target.config, WINDOW, seed=26)
    fresh = _logits(theirs, [*ids[: NUM_PREFIX + num_accepted + 1], *after])
    assert gap(run.look({0: after}).logits[0], fresh[-WINDOW:]) < TOLERANCE


def test_the_oracle_agrees_too(pair):
    target, theirs = pair
    ids = tokens_of(target.config, 14, seed=27)
    wanted = _logits(theirs, ids)
    truth = oracle.target(oracle_shape(target.config), oracle_weights(target), ids)
    assert gap(truth.logits, wanted) < TOLERANCE


def test_hidden_states_are_named_alike(pair):
    target, theirs = pair
    ids = tokens_of(target.config, 8, seed=28)
    with torch.no_grad():
        hidden = theirs(torch.tensor([ids]), output_hidden_states=True).hidden_states
    output = Run(target).look({0: ids}, feature_layers=(0, 2))
    assert gap(output.features[0], torch.cat([hidden[1][0], hidden[3][0]], dim=-1)) < TOLERANCE
    assert gap(output.hidden[0], hidden[-1][0]) < TOLERANCE


def test_gradients_are_theirs():
    """One loss, two implementations: the pass can train."""
    target = target_of(BASE, seed=29).requires_grad_(True)
    theirs = transformers.Qwen3_5ForCausalLM
    with torch.random.fork_rng():
        theirs = theirs(_their_config(BASE))
    theirs.load_state_dict({_in_causal(name): t.detach() for name, t in target.state_dict().items()})
    ids = tokens_of(BASE, 9, seed=30)
    Run(target).look({0: ids}).logits.logsumexp(-1).sum().backward()
    theirs(torch.tensor([ids])).logits.logsumexp(-1).sum().backward()
    wanted = {name: parameter.grad for name, parameter in theirs.named_parameters()}
    for name, parameter in target.named_parameters():
        assert gap(parameter.grad, wanted[_in_causal(name)]) < 1e-4, name


def test_their_file_is_ours(tmp_path):
    """What they write, defaults left out, is read; bfloat16 is read as bfloat16 and near in its logits."""
    with torch.random.fork_rng():
        theirs = transformers.Qwen3_5ForCausalLM(_their_config(BASE)).eval()
    theirs.save_pretrained(tmp_path)
    target = load_target(tmp_path)
    ids = tokens_of(BASE, 9, seed=31)
    assert target.config == BASE
    assert gap(Run(target).feed(ids, 4), _logits(theirs, ids)) < TOLERANCE
    half = Run(load_target(tmp_path, torch.bfloat16)).feed(ids, 4)
    assert gap(half.float(), _logits(theirs.bfloat16(), ids).float()) < 0.03


@pytest.mark.parametrize("name", NAMES[:2])
def test_our_composite_file_is_theirs(tmp_path, name):
    config = CONFIGS[name]
    save(tmp_path, target_of(config), mtp_of(config), layout="composite")
    ids = tokens_of(config, 9, seed=32)
    assert gap(Run(load_target(tmp_path)).feed(ids, 9), _logits(_theirs(tmp_path), ids)) < TOLERANCE


def test_their_composite_file_is_ours(tmp_path):
    """A composite model with its vision tower, written by them."""
    vision = {"depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2, "out_hidden_size": 24}
    config = transformers.Qwen3_5Config(text_config=_their_config(BASE).to_dict(), vision_config=vision)
    with torch.random.fork_rng():
        theirs = transformers.Qwen3_5ForConditionalGeneration(config).eval()
    theirs.save_pretrained(tmp_path)
    ids = tokens_of(BASE, 9, seed=33)
    assert gap(Run(load_target(tmp_path)).feed(ids, 9), _logits(theirs, ids)) < TOLERANCE


def _their_config(config: Qwen35Config):
    text = {name: value for name, value in config.to_json("text").items() if name != "architectures"}
    return transformers.Qwen3_5TextConfig(**text)


def _in_causal(name):
    return name if name == "lm_head.weight" else f"model.{name}"


def test_a_random_config_drawn_from_all_sizes():
    """Dimensions drawn at random, so that no equality between two of them hides a mix-up."""
    for seed in range(4):
        config = _drawn(np.random.default_rng(seed))
        with torch.random.fork_rng():
            theirs = transformers.Qwen3_5ForCausalLM(_their_config(config)).eval()
        target = target_of(config, seed=seed)
        theirs.load_state_dict({_in_causal(name): t for name, t in target.state_dict().items()}, strict=False)
        theirs.tie_weights()
        ids = tokens_of(config, 11, seed=seed)
        assert gap(Run(target).feed(ids, 4), _logits(theirs, ids)) < TOLERANCE, config


def _drawn(rng: np.random.Generator) -> Qwen35Config:
    def pick(*values):
        return int(rng.choice(values))

    num_kv_heads, num_key_heads, head_dim = pick(1, 2, 3), pick(1, 2, 3), pick(8, 12, 20)
    kinds = ["linear_attention", "full_attention"]
    return Qwen35Config(
        vocab_size=pick(11, 50),
        hidden_size=pick(16, 28),
        intermediate_size=pick(17, 33),
        layer_types=tuple(str(rng.choice(kinds)) for _ in range(pick(1, 3, 4))),
        num_heads=num_kv_heads * pick(1, 2, 3),
        num_kv_heads=num_kv_heads,
        head_dim=head_dim,
        rotary_dim=pick(2, 4, 8),
        num_key_heads=num_key_heads,
        num_value_heads=num_key_heads * pick(1, 2, 3),
        key_dim=pick(4, 6, 9),
        value_dim=pick(4, 7, 8),
        conv_kernel=pick(2, 3, 4),
        rope_theta=float(pick(10_000, 10_000_000)),
        tied=bool(pick(0, 1)),
    )
