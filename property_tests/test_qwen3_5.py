"""The target over lanes against the oracle: prefill, decode, verification, rollback, batches, gradients."""

import attrs
import numpy as np
import pytest
import torch

from engine.errors import IntegrityError
from engine.models.qwen3_5.gdn import CHUNK
from oracles import qwen3_5 as oracle
from property_tests.qwen3_5_words import (
    BASE,
    CONFIGS,
    TOLERANCE,
    Run,
    gap,
    oracle_shape,
    oracle_weights,
    placed,
    target_of,
    tokens_of,
)

NUM_PREFIX, NUM_DRAFTS = 5, 4
WINDOW = NUM_DRAFTS + 1


def _truth(target, ids):
    return oracle.target(oracle_shape(target.config), oracle_weights(target), ids)


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("chunk", [11, 4, 1])
def test_prefill_and_decode_are_the_oracles(name, chunk):
    target, ids = target_of(CONFIGS[name]), tokens_of(CONFIGS[name], 11, seed=3)
    truth, run = _truth(target, ids), Run(target)
    assert gap(run.feed(ids, chunk), truth.logits) < TOLERANCE
    for i, layer in enumerate(sorted(truth.recurrent)):
        assert gap(run.state.gdn.recurrent[i, 0], truth.recurrent[layer]) < TOLERANCE
        assert gap(run.state.gdn.window[i, 0], truth.window[layer]) < TOLERANCE


def test_hidden_and_features_are_what_drafters_read():
    target, ids = target_of(BASE), tokens_of(BASE, 9, seed=4)
    truth = _truth(target, ids)
    output = Run(target).look({0: ids}, feature_layers=(0, 3, 2), num_logits=2)
    wanted = np.concatenate([np.stack(truth.residuals[i]) for i in (0, 3, 2)], axis=1)
    assert gap(output.features[0], wanted) < TOLERANCE
    assert gap(output.hidden[0], truth.hidden) < TOLERANCE
    assert gap(output.logits[0], truth.logits[-2:]) < TOLERANCE


@pytest.mark.parametrize("num_tokens", [CHUNK, CHUNK + 1, 2 * CHUNK + 3])
def test_passes_longer_than_a_chunk_carry_the_state(num_tokens):
    config = CONFIGS["tied, one value head a key head, long taps"]
    target, ids = target_of(config), tokens_of(config, num_tokens, seed=5)
    whole, run = Run(target, max_context=256), Run(target, max_context=256)
    logits = whole.feed(ids, num_tokens)
    assert gap(logits, _truth(target, ids).logits) < TOLERANCE
    assert gap(run.feed(ids, 7), logits) < TOLERANCE
    assert gap(run.state.gdn.recurrent, whole.state.gdn.recurrent) < TOLERANCE


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("num_accepted", range(WINDOW))
def test_a_verified_window_rolls_back_to_every_accepted_length(name, num_accepted):
    """Replayed records equal a fresh prefill of what was accepted, also under what comes after."""
    target = target_of(CONFIGS[name])
    ids = tokens_of(CONFIGS[name], NUM_PREFIX + WINDOW, seed=6)
    run = Run(target)
    run.feed(ids[:NUM_PREFIX], NUM_PREFIX)
    window = run.look({0: ids[NUM_PREFIX:]})
    assert gap(window.logits[0], _truth(target, ids).logits[NUM_PREFIX:]) < TOLERANCE
    run.commit(window, {0: num_accepted + 1})
    kept = ids[: NUM_PREFIX + num_accepted + 1]
    fresh = Run(target)
    fresh.feed(kept, len(kept))
    assert gap(run.state.gdn.recurrent, fresh.state.gdn.recurrent) < TOLERANCE
    assert gap(run.state.gdn.window, fresh.state.gdn.window) < TOLERANCE
    after = tokens_of(CONFIGS[name], WINDOW, seed=7)
    truth = _truth(target, [*kept, *after]).logits[len(kept) :]
    assert gap(run.look({0: after}).logits[0], truth) < TOLERANCE


def test_a_round_that_commits_nothing_leaves_every_bit_of_the_state():
    target, ids = target_of(BASE), tokens_of(BASE, 12, seed=8)
    run = Run(target)
    run.feed(ids[:6], 6)
    recurrent, window = run.state.gdn.recurrent.clone(), run.state.gdn.window.clone()
    output = run.look({0: ids[6:]})
    again = run.look({0: ids[6:]})
    run.commit(output, {0: 0})
    assert torch.equal(output.logits, again.logits)
    assert torch.equal(run.state.gdn.recurrent, recurrent)
    assert torch.equal(run.state.gdn.window, window)


def test_rows_of_a_batch_keep_to_themselves():
    """Different lengths and accepted counts in scattered lanes: each row is the oracle's alone."""
    target, run = target_of(BASE), Run(target_of(BASE), num_lanes=5)
    texts = {4: tokens_of(BASE, 9, seed=1), 0: tokens_of(BASE, 2, seed=2), 3: tokens_of(BASE, 6, seed=3)}
    for lane, text in texts.items():
        run.feed(text, 4, lane)
    for seed, counts in enumerate([{4: 1, 0: 3, 3: 2}, {3: 3, 4: 0}, {0: 2, 3: 1, 4: 3}]):
        windows = {lane: tokens_of(BASE, 3, seed=10 * seed + lane) for lane in counts}
        output = run.look(windows)
        run.commit(output, counts)
        for row, lane in enumerate(counts):
            truth = _truth(target, texts[lane] + windows[lane]).logits[len(texts[lane]) :]
            assert gap(output.logits[row], truth) < TOLERANCE
            texts[lane] = texts[lane] + windows[lane][: counts[lane]]


def test_what_one_row_holds_changes_no_bit_of_another():
    target = target_of(BASE)
    logits, states = [], []
    for seed in (1, 2):
        run = Run(target, num_lanes=2)
        for lane, text in {0: tokens_of(BASE, 7, seed=9), 1: tokens_of(BASE, 7, seed=seed)}.items():
            run.feed(text, 7, lane)
        output = run.look({0: tokens_of(BASE, 3, seed=11), 1: tokens_of(BASE, 3, seed=20 + seed)})
        run.commit(output, {0: 2, 1: seed})
        logits.append(output.logits[0])
        states.append(run.state.gdn.recurrent[:, 0].clone())
    assert torch.equal(*logits)
    assert torch.equal(*states)


def test_a_reset_lane_remembers_nothing_not_even_nan():
    target, ids = target_of(BASE), tokens_of(BASE, 5, seed=12)
    run = Run(target, num_lanes=2)
    for tensor in (run.state.gdn.recurrent, run.state.gdn.window):
        tensor[:, 1] = torch.nan
    for cache in run.state.layers:
        cache.keys[1], cache.values[1] = torch.nan, torch.nan
    run.state.reset(1)
    wide = attrs.evolve(placed([1], [0], 5), context=64)  # positions that nothing has written are read too
    clean = attrs.evolve(wide, lanes=torch.tensor([0]))
    logits = target(torch.tensor([ids]), wide, run.state).logits
    assert torch.equal(logits, target(torch.tensor([ids]), clean, Run(target).state).logits)
    assert gap(logits[0], _truth(target, ids).logits) < TOLERANCE


def test_positions_read_past_the_rows_change_nothing():
    """A captured graph reads a rounded-up context."""
    target, ids = target_of(BASE), tokens_of(BASE, 6, seed=13)
    run = Run(target)
    run.feed(ids, 6)
    placement = placed([0], [6], 2)
    wide = attrs.evolve(placement, context=64)
    window = torch.tensor([tokens_of(BASE, 2, seed=14)])
    narrow_logits = target(window, placement, run.state).logits
    assert gap(target(window, wide, run.state).logits, narrow_logits) < TOLERANCE


@pytest.mark.parametrize("rows", [([0, 0], [1, 1], 1), ([0], [-1], 1), ([0], [BASE.max_context - 1], 2)])
def test_rows_that_cannot_stand_are_refused(rows):
    with pytest.raises(IntegrityError, match="cannot stand"):
        placed(*rows)


def test_gradients_reach_every_parameter():
    """The same pass trains, caches and records included: a loss after two passes reaches all weights."""
    target = target_of(BASE).requires_grad_(True)
    ids, run = tokens_of(BASE, 8, seed=15), Run(target)
    run.commit(run.look({0: ids[:5]}), {0: 5})
    run.look({0: ids[5:]}).logits.logsumexp(-1).sum().backward()
    for name, parameter in target.named_parameters():
        assert parameter.grad is not None, name
        assert bool(parameter.grad.isfinite().all()) and bool(parameter.grad.any()), name


def test_bfloat16_weights_give_nearly_the_float32_logits():
    target, ids = target_of(BASE).bfloat16(), tokens_of(BASE, 12, seed=16)
    run = Run(target)
    half = run.feed(ids, 5)
    assert half.dtype == torch.bfloat16
    assert run.state.gdn.recurrent.dtype == torch.float32
    truth = _truth(target, ids).logits
    assert gap(half.float(), truth) < 0.03


def test_the_oracle_on_numbers_worked_by_hand():
    assert np.allclose(oracle.normed(np.array([3.0, 4.0]), np.array([0.0, 1.0]), 0.0), [0.848528, 2.262742])
    turned = oracle.rotated(np.array([1.0, 2.0, 0.0, 0.0, 5.0]), 2, 4, 16.0)
    assert np.allclose(turned, [np.cos(2), 2 * np.cos(0.5), np.sin(2), 2 * np.sin(0.5), 5.0])
    state = np.array([[4.0], [2.0]])
    state, answer = oracle.delta_step(
        state,
        q=np.array([1.0, 1.0]),
        k=np.array([1.0, 0.0]),
        v=np.array([5.0]),
        log_decay=np.log(0.5),
        beta=0.5,
    )
    assert np.allclose(state, [[3.5], [1.0]])
    assert np.allclose(answer, [4.5])
