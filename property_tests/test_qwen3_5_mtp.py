"""The MTP module against the oracle: the shifted pass, chains of drafts, and realignment after acceptance."""

import pytest
import torch

from oracles import qwen3_5 as oracle
from property_tests.qwen3_5_words import (
    BASE,
    CONFIGS,
    TOLERANCE,
    Run,
    gap,
    mtp_cache,
    mtp_of,
    oracle_shape,
    oracle_weights,
    placed,
    target_of,
    tokens_of,
)

NUM_DRAFTS = 3
NAMES = ["mixed", "tied, one value head a key head, long taps", "full only"]


class Chain:
    """An MTP module beside a target, its positions kept as a runtime would keep them."""

    def __init__(self, config):
        self.target, self.mtp = target_of(config), mtp_of(config)
        self.cache = mtp_cache(config)

    def rows(self, hidden, token_ids, start):
        """Run rows of the target's hidden and their next tokens at `start`, in lane 0."""
        embeddings = self.target.embed(torch.tensor([token_ids]))
        return self.mtp(embeddings, hidden[None], placed([0], [start], len(token_ids)), self.cache)[0]

    def drafts(self, last, start):
        """Draft greedily on from the output of the row before position `start`."""
        ids = []
        for i in range(NUM_DRAFTS):
            ids.append(int(self.target.head(last).argmax()))
            if i + 1 < NUM_DRAFTS:
                last = self.rows(last[None], ids[-1:], start + i)[0]
        return ids

    def truth(self, hiddens, token_ids):
        """The oracle's rows."""
        weights = oracle_weights(self.target, self.mtp)
        return oracle.mtp(oracle_shape(self.target.config), weights, list(hiddens), token_ids)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("chunk", [8, 3, 1])
def test_the_shifted_pass_is_the_oracles(name, chunk):
    chain, ids = Chain(CONFIGS[name]), tokens_of(CONFIGS[name], 9, seed=3)
    hidden = Run(chain.target).look({0: ids[:-1]}).hidden[0]
    parts = [chain.rows(hidden[i : i + chunk], ids[i + 1 : i + 1 + chunk], i) for i in range(0, 8, chunk)]
    assert gap(torch.cat(parts), chain.truth(hidden.double().numpy(), ids[1:])) < TOLERANCE


@pytest.mark.parametrize("name", NAMES)
def test_chains_of_drafts_are_the_oracles(name):
    config = CONFIGS[name]
    chain, ids = Chain(config), tokens_of(config, 7, seed=4)
    hidden = Run(chain.target).look({0: ids[:-1]}).hidden[0]
    drafts = chain.drafts(chain.rows(hidden, ids[1:], 0)[-1], len(ids) - 1)
    weights = oracle_weights(chain.target, chain.mtp)
    hiddens = list(hidden.double().numpy())
    assert drafts == oracle.mtp_chain(oracle_shape(config), weights, hiddens, ids[1:], NUM_DRAFTS)


@pytest.mark.parametrize("num_accepted", range(NUM_DRAFTS + 1))
def test_realigned_rows_equal_a_fresh_pass(num_accepted):
    """The accepted rows run again over the keys of the chain; the next drafts see no trace of it."""
    chain, ids = Chain(BASE), tokens_of(BASE, 6, seed=5)
    run = Run(chain.target)
    prompt = run.look({0: ids[:-1]})
    run.commit(prompt, {0: 5})
    drafts = chain.drafts(chain.rows(prompt.hidden[0], ids[1:], 0)[-1], 5)
    window = run.look({0: [ids[-1], *drafts]})
    run.commit(window, {0: num_accepted + 1})
    following = [*drafts[:num_accepted], 1]
    output = chain.rows(window.hidden[0, : num_accepted + 1], following, 5)
    fresh = Chain(BASE)
    text = [*ids, *following]
    hidden = Run(chain.target).look({0: text[:-1]}).hidden[0]
    whole = fresh.rows(hidden, text[1:], 0)
    assert gap(output, whole[5:]) < TOLERANCE
    assert gap(chain.cache.keys[:, : len(text) - 1], fresh.cache.keys[:, : len(text) - 1]) < TOLERANCE
    assert chain.drafts(output[-1], len(text) - 1) == fresh.drafts(whole[-1], len(text) - 1)
