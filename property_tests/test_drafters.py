"""What the program proposes from a lane's history, against float64 from the tokens alone.

Both oracles start from the history's ids, so features of a wrong layer, a context that is one position long
or short, and a chain that starts at another token are seen whatever the program's own rebuilt lanes say.
"""

import numpy as np
import pytest
import torch

from engine.ops import get_ops
from engine.ops.sample import SamplingBatch
from engine.request import SamplingSettings
from engine.runtime.batch import Batch, Rows
from engine.runtime.contract import RowInput
from engine.runtime.drafters.walk import walk
from oracles import dflash, propose, rng
from oracles import qwen3_5 as oracle
from property_tests.dflash_words import doubles, shape_of
from property_tests.neural_words import (
    BLOCK,
    FEATURE_LAYERS,
    GREEDY,
    NUM_DRAFTS,
    TOY,
    Told,
    models,
    program_of,
)
from property_tests.qwen3_5_words import oracle_shape, oracle_weights

PROMPTS = ([5, 6, 7, 5, 6], [9, 1], [3, 3, 8, 2, 7, 4, 4, 1])
SETTINGS = tuple(SamplingSettings(temperature=t, seed=11 + i) for i, t in enumerate((0.0, 0.7, 1.6)))


def truth_of(ids):
    target = models()["target"]
    return oracle.target(oracle_shape(target.config), oracle_weights(target), ids)


def drafted_block(path, history):
    """The oracle's hidden and logits of every row of the block after a history."""
    model, weights = models()[path], oracle_weights(models()["target"])
    ids = [history[-1], *[model.config.mask_token_id] * (BLOCK - 1)]
    rows = [weights["embed_tokens.weight"][i] for i in ids]
    own, shape = doubles(model), shape_of(model.config)
    residuals = [truth_of(history[:-1]).residuals[i] for i in FEATURE_LAYERS]
    hidden = dflash.block(own, shape, rows, len(history) - 1, dflash.context(own, shape, residuals))
    return hidden, [(oracle.head_of(weights) @ row)[: TOY.size] for row in hidden]


def walked(weights, logits, hidden, anchor, top_k, settings, first):
    """The oracle's chain with the law of every step; candidates are ranked as the logits are."""
    previous, found = anchor, []
    for j, (row, state) in enumerate(zip(logits, hidden, strict=True)):
        ids = dflash.candidates(row, top_k)
        scores = list(dflash.scores(weights, row, state, ids, previous))
        uniform = rng.uniform(settings.seed, first + j, "proposal")
        law = propose.law(scores, settings.temperature)
        previous = ids[propose.draw(scores, settings.temperature, uniform)]
        found.append((previous, ids, law.probs))
    return found


def rounds_of(path, settings, num_rounds=4):
    """Yield the histories before every round of three lanes, with the drafts that it verified."""
    program = program_of(path, 3)
    lanes = [program.admit(prompt, one) for prompt, one in zip(PROMPTS, settings, strict=True)]
    rows = [RowInput(lane, False, 99) for lane in lanes]
    program.commit(program.prefill(rows, None), [1] * 3)
    for _ in range(num_rounds):
        before = [list(program._lanes[lane].history) for lane in lanes]
        pending = program.decode(rows, None)
        yield before, [row.drafts for row in pending.rows]
        program.commit(pending, [len(row.tokens) for row in pending.rows])


@pytest.mark.clause("SPEC-2", "SPEC-15")
def test_dflash_proposes_the_oracles_block():
    for histories, drafts in rounds_of("dflash", [GREEDY] * 3):
        for history, found in zip(histories, drafts, strict=True):
            logits = drafted_block("dflash", history)[1]
            assert list(found) == [int(np.argmax(row)) for row in logits[1:]]


@pytest.mark.clause("SPEC-3", "SPEC-15", "SAMP-13")
def test_dflash2_walks_the_oracles_chain_at_every_temperature():
    model = models()["dflash2"]
    for histories, drafts in rounds_of("dflash2", SETTINGS):
        for b, (history, found) in enumerate(zip(histories, drafts, strict=True)):
            hidden, logits = drafted_block("dflash2", history)
            first = len(history) - len(PROMPTS[b])
            chain = walked(doubles(model), logits[1:], hidden[1:], history[-1], 5, SETTINGS[b], first=first)
            assert list(found) == [token_id for token_id, _, _ in chain]


@pytest.mark.clause("SPEC-15")
def test_mtp_proposes_the_oracles_chain():
    target, mtp = models()["target"], models()["mtp"]
    weights = oracle_weights(target, mtp)
    weights["lm_head.weight"] = oracle.head_of(weights)[: TOY.size]  # padding is never drafted
    for histories, drafts in rounds_of("mtp", [GREEDY] * 3):
        for history, found in zip(histories, drafts, strict=True):
            hidden = list(truth_of(history[:-1]).hidden)
            wanted = oracle.mtp_chain(oracle_shape(target.config), weights, hidden, history[1:], NUM_DRAFTS)
            assert list(found) == wanted


@pytest.mark.clause("SPEC-15")
def test_drafts_die_with_a_round_that_is_not_committed_whole():
    """They follow all of its tokens; after a part of them the next window starts without any."""
    plain = program_of("ordinary", 1)
    plain.admit(PROMPTS[0], GREEDY)
    row = [RowInput(0, False, 99)]
    for _ in range(20):
        plain.commit(plain.decode(row, None), [1])
    text = plain._lanes[0].history
    program = program_of(
        "mtp", 1, wrap=lambda own: Told(own, lambda known: text[len(known) : len(known) + NUM_DRAFTS])
    )
    program.admit(PROMPTS[0], GREEDY)
    for count in (4, 3, 1, 4, 2):
        pending = program.decode(row, None)
        assert (len(pending.rows[0].tokens), len(pending.next_drafts[0])) == (4, NUM_DRAFTS)
        program.commit(pending, [count])
        assert program._lanes[0].drafts == (pending.next_drafts[0] if count == 4 else ())


@pytest.mark.clause("SPEC-1")
@pytest.mark.parametrize("path", ["mtp", "dflash", "dflash2"])
def test_padding_is_never_drafted(path, monkeypatch):
    """However high the head scores the columns that stand for no token."""
    target = models()["target"]
    head = type(target).head
    padding = torch.arange(target.config.vocab_size) >= TOY.size
    assert padding.any()
    monkeypatch.setattr(type(target), "head", lambda own, hidden: head(own, hidden) + 1e6 * padding)
    for _, drafts in rounds_of(path, SETTINGS, 2):
        assert all(len(row) == NUM_DRAFTS and max(row) < TOY.size for row in drafts)


def batch_of(settings, anchors, first):
    """As much of a round as a walk reads."""
    zeros = torch.zeros(len(anchors), dtype=torch.int64)
    return Batch(
        rows=Rows((), zeros, zeros, 0),
        num_columns=4,
        anchors=torch.tensor(anchors),
        seeds=torch.tensor([one.seed for one in settings]),
        first_positions=torch.tensor(first),
        limits=zeros,
        host_ids=torch.zeros(len(anchors), 3, dtype=torch.int64),
        host_extents=zeros,
        settings=SamplingBatch.from_settings(settings),
    )


@pytest.mark.clause("SPEC-3", "SAMP-13")
def test_the_walk_records_the_law_that_it_drew_from():
    """Sparse q of every step, T of 0 and above, each step after the token that was chosen before it."""
    model, random = models()["dflash2"], np.random.default_rng(5)
    hidden = torch.from_numpy(random.standard_normal((3, NUM_DRAFTS, model.config.hidden_size))).float()
    logits = torch.from_numpy(random.standard_normal((3, NUM_DRAFTS, TOY.size))).float()
    anchors, first = [6, 1, 9], [0, 4, 2]
    ids, unary = model.candidates(logits)

    def pair(j, previous, candidates):
        return model.pair(previous, hidden[:, j], candidates)

    extents = torch.tensor([3, 3, 2])
    drafts = walk(batch_of(SETTINGS, anchors, first), ids, unary, pair, extents, get_ops("torch"))
    assert drafts.extents is extents
    for b, settings in enumerate(SETTINGS):
        rows = logits[b].double().numpy(), hidden[b].double().numpy()
        chain = walked(doubles(model), *rows, anchors[b], 5, settings, first[b])
        for j, (token_id, candidates, probs) in enumerate(chain):
            assert drafts.token_ids[b, j] == token_id
            assert drafts.candidate_ids[b, j].tolist() == candidates
            assert np.abs(drafts.draft_probs[b, j].numpy() - probs).max() < 1e-5
    assert drafts.draft_probs[0].max(dim=-1).values.tolist() == [1.0] * NUM_DRAFTS
