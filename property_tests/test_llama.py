"""The Llama target over lanes: logits of the oracle and of `transformers`, rollback, checkpoint files."""

import json
import warnings

import attrs
import numpy as np
import pytest
import torch

from engine.models.checkpoint import ExtraTensor, InvalidCheckpoint, MisshapedTensor, MissingTensor
from engine.models.config_fields import InvalidModelConfig
from engine.models.llama.config import LlamaConfig
from engine.models.llama.weights import load_llama, save_llama
from oracles import llama as oracle
from property_tests.llama_words import BASE, CONFIGS, drawn, llama_of, truth
from property_tests.qwen3_5_words import TOLERANCE, Run, gap, placed, tokens_of

NUM_PREFIX, NUM_DRAFTS = 5, 4
WINDOW = NUM_DRAFTS + 1
needs_transformers = pytest.mark.filterwarnings("ignore::FutureWarning")


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("chunk", [11, 4, 1])
def test_prefill_and_decode_are_the_oracles(name, chunk):
    model, ids = llama_of(CONFIGS[name]), tokens_of(CONFIGS[name], 11, seed=3)
    assert gap(Run(model).feed(ids, chunk), truth(model, ids).logits) < TOLERANCE


def test_hidden_and_features_are_what_drafters_read():
    model, ids = llama_of(BASE), tokens_of(BASE, 9, seed=4)
    wanted = truth(model, ids)
    output = Run(model).look({0: ids}, feature_layers=(2, 0), num_logits=2)
    residuals = np.concatenate([np.stack(wanted.residuals[i]) for i in (2, 0)], axis=1)
    assert gap(output.features[0], residuals) < TOLERANCE
    assert gap(output.hidden[0], wanted.hidden) < TOLERANCE
    assert gap(output.logits[0], wanted.logits[-2:]) < TOLERANCE
    assert output.records is None


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("num_accepted", range(WINDOW))
def test_a_verified_window_rolls_back_to_every_accepted_length(name, num_accepted):
    """Rejected keys and values stay where they are and are never seen again."""
    model, ids = llama_of(CONFIGS[name]), tokens_of(CONFIGS[name], NUM_PREFIX + WINDOW, seed=6)
    run = Run(model)
    run.feed(ids[:NUM_PREFIX], NUM_PREFIX)
    window = run.look({0: ids[NUM_PREFIX:]})
    assert gap(window.logits[0], truth(model, ids).logits[NUM_PREFIX:]) < TOLERANCE
    run.commit(window, {0: num_accepted + 1})
    kept = ids[: NUM_PREFIX + num_accepted + 1]
    after = tokens_of(CONFIGS[name], WINDOW, seed=7)
    wanted = truth(model, [*kept, *after]).logits[len(kept) :]
    assert gap(run.look({0: after}).logits[0], wanted) < TOLERANCE
    assert gap(run.look({0: after[:1]}).logits[0], wanted[:1]) < TOLERANCE


def test_rows_of_a_batch_keep_to_themselves():
    """Different lengths and accepted counts in scattered lanes: each row is the oracle's alone."""
    model, run = llama_of(BASE), Run(llama_of(BASE), num_lanes=5)
    texts = {4: tokens_of(BASE, 9, seed=1), 0: tokens_of(BASE, 2, seed=2), 3: tokens_of(BASE, 6, seed=3)}
    for lane, text in texts.items():
        run.feed(text, 4, lane)
    for seed, counts in enumerate([{4: 1, 0: 3, 3: 2}, {3: 3, 4: 0}, {0: 2, 3: 1, 4: 3}]):
        windows = {lane: tokens_of(BASE, 3, seed=10 * seed + lane) for lane in counts}
        output = run.look(windows)
        run.commit(output, counts)
        for row, lane in enumerate(counts):
            wanted = truth(model, texts[lane] + windows[lane]).logits[len(texts[lane]) :]
            assert gap(output.logits[row], wanted) < TOLERANCE
            texts[lane] = texts[lane] + windows[lane][: counts[lane]]


def test_a_lane_is_saved_loaded_and_reset():
    model, ids = llama_of(BASE), tokens_of(BASE, 8, seed=12)
    run = Run(model, num_lanes=2)
    run.feed(ids[:6], 6, lane=0)
    saved = run.state.save(0, 6)
    for cache in run.state.layers:
        cache.keys[:], cache.values[:] = torch.nan, torch.nan
    run.state.reset(1)
    run.state.load(1, saved)
    wide = attrs.evolve(placed([1], [6], 2), context=64)  # positions that nothing has written are read too
    logits = model(torch.tensor([ids[6:]]), wide, run.state).logits
    assert gap(logits[0], truth(model, ids).logits[6:]) < TOLERANCE


def test_gradients_reach_every_parameter():
    model = llama_of(BASE).requires_grad_(True)
    ids, run = tokens_of(BASE, 8, seed=15), Run(model)
    run.commit(run.look({0: ids[:5]}), {0: 5})
    run.look({0: ids[5:]}).logits.logsumexp(-1).sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and bool(parameter.grad.isfinite().all()), name
        assert bool(parameter.grad.any()), name


def test_bfloat16_weights_give_nearly_the_float32_logits():
    model, ids = llama_of(BASE).bfloat16(), tokens_of(BASE, 12, seed=16)
    half = Run(model).feed(ids, 5)
    assert half.dtype == torch.bfloat16
    assert gap(half.float(), truth(model, ids).logits) < 0.03


def test_the_oracle_on_numbers_worked_by_hand():
    assert np.allclose(oracle.normed(np.array([3.0, 4.0]), np.array([1.0, 2.0]), 0.0), [0.848528, 2.262742])
    shape = oracle.Shape(num_layers=1, num_heads=2, num_kv_heads=1, head_dim=2, rope_theta=1e4, eps=0.0)
    weights = {
        "a.q_proj.weight": np.array([[0.0], [0.0], [1.0], [0.0]]),  # the first head asks nothing
        "a.k_proj.weight": np.array([[1.0], [0.0]]),
        "a.v_proj.weight": np.array([[1.0], [0.0]]),
        "a.o_proj.weight": np.array([[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]]),
    }
    _, last = oracle.attention(shape, weights, "a", [np.array([1.0]), np.array([3.0])])
    far, near = np.exp(3 * np.cos(1.0) / np.sqrt(2)), np.exp(9 / np.sqrt(2))
    assert np.allclose(last, [2.0, (far + 3 * near) / (far + near)])


# --- transformers ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def transformers():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("transformers", reason="transformers is not installed")


def _their(transformers, directory):
    with torch.random.fork_rng():
        return transformers.LlamaForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()


@torch.no_grad()
def _logits(theirs, ids):
    return theirs(torch.tensor([ids]), use_cache=False).logits[0]


@needs_transformers
@pytest.mark.parametrize("seed", range(6))
def test_random_configs_have_the_logits_of_transformers(transformers, seed, tmp_path):
    """Prefill whole and chunked, decode, and a verified window, through the published files."""
    config = drawn(np.random.default_rng(seed))
    save_llama(tmp_path, llama_of(config, seed))
    model, theirs = load_llama(tmp_path), _their(transformers, tmp_path)
    ids = tokens_of(config, 16, seed=seed)
    wanted = _logits(theirs, ids)
    for chunk in (16, 5, 1):
        assert gap(Run(model).feed(ids, chunk), wanted) < TOLERANCE
    run = Run(model)
    run.feed(ids[:7], 7)
    run.look({0: tokens_of(config, WINDOW, seed=seed + 100)})  # all rejected
    assert gap(run.look({0: ids[7 : 7 + WINDOW]}).logits[0], wanted[7 : 7 + WINDOW]) < TOLERANCE


@needs_transformers
def test_their_own_config_file_is_read(transformers, tmp_path):
    """What they write, older spellings included, says the same numbers as ours."""
    config = attrs.evolve(BASE, rope_theta=5e5, tied=True)
    theirs = transformers.LlamaConfig(
        **{name: value for name, value in config.to_json().items() if name != "architectures"}
    )
    theirs.save_pretrained(tmp_path)
    assert LlamaConfig.from_json(json.loads((tmp_path / "config.json").read_text())) == config


# --- files ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CONFIGS)
def test_what_is_saved_is_loaded(tmp_path, name):
    saved = llama_of(CONFIGS[name])
    save_llama(tmp_path, saved)
    model = load_llama(tmp_path)
    assert model.config == saved.config
    assert model.state_dict().keys() == saved.state_dict().keys()
    assert all(torch.equal(model.state_dict()[n], tensor) for n, tensor in saved.state_dict().items())
    assert {p.dtype for p in load_llama(tmp_path, torch.bfloat16).parameters()} == {torch.bfloat16}


def test_every_tensor_that_does_not_fit_is_named(tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    save_llama(tmp_path, llama_of(BASE))
    path = tmp_path / "model.safetensors"
    tensors = safetensors.load_file(path)
    del tensors["model.norm.weight"]
    tensors["model.layers.0.self_attn.q_proj.bias"] = torch.zeros(48)
    tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.zeros(6)
    tensors["lm_head.weight"] = torch.zeros(37, 23)
    safetensors.save_file(tensors, path)
    with pytest.raises(InvalidCheckpoint) as caught:
        load_llama(tmp_path)
    assert caught.value.faults == (
        MisshapedTensor("lm_head.weight", (37, 23), (37, 24)),
        ExtraTensor("model.layers.0.self_attn.q_proj.bias"),
        MissingTensor("model.norm.weight", (24,)),
    )


REFUSED = [
    ({"model_type": "mistral"}, "/model_type"),
    ({"hidden_act": "gelu"}, "/hidden_act"),
    ({"attention_bias": True}, "/attention_bias"),
    ({"mlp_bias": True}, "/mlp_bias"),
    ({"rope_parameters": {"rope_type": "llama3", "factor": 8.0}}, "/rope_parameters"),
    ({"rope_parameters": None, "rope_scaling": {"type": "linear", "factor": 2.0}}, "/rope_scaling"),
    ({"rope_scaling": "linear"}, "/rope_scaling"),
    ({"partial_rotary_factor": 0.5}, "/partial_rotary_factor"),
    ({"num_key_value_heads": 3}, "/num_key_value_heads"),
    ({"head_dim": 7}, "/head_dim"),
    ({"hidden_size": 0}, "/hidden_size"),
    ({"num_attention_heads": "4"}, "/num_attention_heads"),
    ({"rms_norm_eps": 0}, "/rms_norm_eps"),
    ({"tie_word_embeddings": "yes"}, "/tie_word_embeddings"),
]


@pytest.mark.parametrize(("change", "pointer"), REFUSED)
def test_what_is_not_computed_is_refused(change, pointer):
    with pytest.raises(InvalidModelConfig) as caught:
        LlamaConfig.from_json(BASE.to_json() | change)
    assert caught.value.pointer == pointer


def test_fields_that_a_file_leaves_out_have_the_published_meaning():
    config = BASE.to_json()
    for name in ("num_key_value_heads", "head_dim", "rms_norm_eps", "rope_parameters", "tie_word_embeddings"):
        del config[name]
    read = LlamaConfig.from_json(config | {"rope_theta": 5e5})
    wanted = attrs.evolve(BASE, num_kv_heads=4, head_dim=6, eps=1e-6, rope_theta=5e5, tied=False)
    assert read == wanted
