"""What a decoding path must do, from the oracles alone: its target laws, and its very tokens for a seed.

`Twin` plays a request from its seed with the oracle's generator, laws, proposal draw and acceptance; an
engine path must publish exactly its tokens. What a drafter proposes is taken from its own model: any proposal
is allowed, and the law of the output must not depend on it.
"""

from collections.abc import Sequence
from functools import cache

import attrs
import numpy as np
import torch

from engine.request import SamplingSettings
from engine.runtime.batch import Lane
from engine.runtime.table import TableDFlash, TableDFlash2, TableMtp
from engine.text.vocabulary import TokenClass, Vocabulary
from experiments.gates.path_world import Case, World
from oracles import propose, rng, sample
from oracles.accept import Round, SparseLaw, play_round
from oracles.expressions import to_byte_grammar
from oracles.grammar_prefix import Earley, State
from oracles.masks import TokenTrie
from oracles.unique_names import Reading, read_each

Tokens = tuple[int, ...]
NUM_RANKED = 64  # of a free row only the best ids can be candidates: the cap is 20


class Language:
    """The legal ids after any tokens, by the oracle's parser; only ids over the case's bytes can be legal."""

    def __init__(self, case: Case, vocabulary: Vocabulary) -> None:
        self._eos_ids = vocabulary.eos_ids
        self._trie = _trie(vocabulary, case.alphabet)
        self._unique_names = case.unique_names
        self._parser = Earley(to_byte_grammar(case.rules or {}), "root")
        self._states: dict[Tokens, State | None] = {(): self._parser.start()}

    def legal_ids(self, token_ids: Tokens) -> set[int]:
        """The ids that may follow; none after a completion id."""
        if token_ids and token_ids[-1] in self._eos_ids:
            return set()
        state = self._state(token_ids)
        if state is None:
            return set()
        found = self._trie.legal_ids(self._parser, state, self._eos_ids)
        return found - self._repeating(token_ids, found) if self._unique_names else found

    def _repeating(self, token_ids: Tokens, found: set[int]) -> set[int]:
        """Those of `found` after which an object has two members of one name."""
        known = self._trie.token_bytes
        text = b"".join(known[token_id] or b"" for token_id in token_ids)
        asked = found - set(self._eos_ids)
        return {i for i, what in read_each(text, known, asked).items() if what is Reading.REPEATED}

    def may_end(self, token_ids: Tokens) -> bool:
        """Whether the text of the tokens is a member."""
        return self._parser.accepting(self._state(token_ids))

    def _state(self, token_ids: Tokens) -> State | None:
        if token_ids not in self._states:
            before, last = self._state(token_ids[:-1]), token_ids[-1]
            data = self._trie.token_bytes[last] if 0 <= last < len(self._trie.token_bytes) else None
            after = None if before is None or not data else self._parser.advance_bytes(before, data)
            self._states[token_ids] = after
        return self._states[token_ids]


@cache
def _trie(vocabulary: Vocabulary, alphabet: bytes) -> TokenTrie:
    letters = set(alphabet)
    return TokenTrie(
        [
            data if kind is TokenClass.TEXT and letters.issuperset(data) else None
            for data, kind in zip(vocabulary.token_bytes, vocabulary.classes, strict=True)
        ]
    )


class Target:
    """The law of the next token after any output, for one world, case and settings."""

    def __init__(self, world: World, case: Case, settings: SamplingSettings, **table: object) -> None:
        self._spec = world.table(**table)
        self._prompt, self._vocab_size = world.prompt_ids, world.vocabulary.size
        self._settings = settings
        self._language = None if case.rules is None else Language(case, world.vocabulary)
        self._laws: dict[Tokens, sample.Law] = {}

    def legal_ids(self, token_ids: Tokens) -> set[int] | None:
        """The legal ids, None for a free request."""
        return None if self._language is None else self._language.legal_ids(token_ids)

    def __call__(self, token_ids: Tokens) -> sample.Law:
        """The law of the token after `token_ids`."""
        if token_ids not in self._laws:
            self._laws[token_ids] = self._law(token_ids)
        return self._laws[token_ids]

    def _law(self, token_ids: Tokens) -> sample.Law:
        row = self._spec.row((*self._prompt, *token_ids)[-self._spec.order :])
        bias = self._settings.logit_bias
        ids = sorted(self._ids_that_matter(row, token_ids))
        index = {token_id: i for i, token_id in enumerate(ids)}
        small = sample.law(
            [float(row[i]) for i in ids],
            vocab_size=len(ids),
            settings=_oracle_settings(self._settings),
            banned={index[i] for i in self._settings.banned_token_ids if i in index},
            counts=[token_ids.count(i) for i in ids],
            bias={index[i]: value for i, value in bias.items() if i in index},
        )
        return over_ids(small, ids)

    def _ids_that_matter(self, row: np.ndarray, token_ids: Tokens) -> set[int]:
        legal = self.legal_ids(token_ids)
        if legal is not None:
            return legal
        domain = row[: self._vocab_size]
        best = np.argpartition(-domain, NUM_RANKED)[:NUM_RANKED]  # far more than the cap: ties do not matter
        seen = {i for i in token_ids if 0 <= i < self._vocab_size}
        return {int(i) for i in best} | set(self._settings.logit_bias) | seen


def over_ids(law: sample.Law, ids: Sequence[int]) -> sample.Law:
    """A law over positions of `ids` as the law over the ids themselves."""
    return sample.Law(tuple(ids[i] for i in law.order), law.probs, law.status)


def _oracle_settings(settings: SamplingSettings) -> sample.Settings:
    names = ("temperature", "top_k", "top_p", "min_p", "presence_penalty", "frequency_penalty")
    return sample.Settings(**{name: getattr(settings, name) for name in names})


@attrs.frozen
class TwinRun:
    """What the twin of a request emits, how its rounds went, and the status it ended with."""

    tokens: Tokens
    rounds: tuple[Round, ...]
    status: str = "ok"
    failed_position: int | None = None


class Twin:
    """A request played by the oracles."""

    def __init__(self, world: World, path: str, target: Target, settings: SamplingSettings) -> None:
        self._path, self._target, self._settings = path, target, settings
        self._prompt, self._eos_ids = world.prompt_ids, frozenset(world.vocabulary.eos_ids)
        self._drafter = world.drafter(path)

    def run(self, seed: int, max_tokens: int) -> TwinRun:
        """Play a request to its end; a completion id stands at the end of `tokens`."""
        first = self._target(())
        if first.status != "ok":
            return TwinRun((), (), first.status, 0)
        tokens: Tokens = (sample.draw(first, rng.uniform(seed, 0, "prefill")),)
        rounds: list[Round] = []
        while len(tokens) < max_tokens and tokens[-1] not in self._eos_ids:
            outcome = self._round(seed, tokens, max_tokens - len(tokens))
            if outcome.status != "ok":
                return TwinRun(tokens, tuple(rounds), outcome.status, self._first_bad(seed, tokens))
            rounds.append(outcome)
            tokens += outcome.tokens
        return TwinRun(tokens, tuple(rounds))

    def _round(self, seed: int, tokens: Tokens, remaining: int) -> Round:
        drafts, qs = self._proposal(seed, tokens)
        drafts, qs = drafts[: remaining - 1], qs[: remaining - 1]
        prefixes = [(*tokens, *drafts[:i]) for i in range(len(drafts) + 1)]
        last = "decode" if self._path == "ordinary" else "bonus"
        first = len(tokens)
        return play_round(
            [self._target(prefix) for prefix in prefixes],
            drafts,
            qs,
            [rng.uniform(seed, first + i, "accept") for i in range(len(drafts))],
            [rng.uniform(seed, first + i, "correction") for i in range(len(drafts))],
            rng.uniform(seed, first + len(drafts), last),
            self._eos_ids,
            [self._target.legal_ids(prefix) for prefix in prefixes],
        )

    def _first_bad(self, seed: int, tokens: Tokens) -> int:
        """The output position of the first column without a law: a failed round was stopped by it."""
        drafts, _ = self._proposal(seed, tokens)
        prefixes = [(*tokens, *drafts[:i]) for i in range(len(drafts) + 1)]
        return len(tokens) + [self._target(prefix).status == "ok" for prefix in prefixes].index(False)

    def _proposal(self, seed: int, tokens: Tokens) -> tuple[list[int], list[SparseLaw]]:
        history = [*self._prompt, *tokens]
        if isinstance(self._drafter, TableDFlash2):
            return self._walk(seed, history, len(tokens))
        drafts = self._drafted(history)
        return drafts, [None] * len(drafts)

    def _drafted(self, history: list[int]) -> list[int]:
        drafter = self._drafter
        if isinstance(drafter, TableMtp):
            return list(drafter.model.chain(history, drafter.num_drafts))
        if isinstance(drafter, TableDFlash):
            return list(drafter.model.block(history, drafter.num_drafts))
        return list(drafter.on_host(Lane(self._settings, history, len(self._prompt))))

    def first_draft_law(self, tokens: Tokens) -> dict[int, float]:
        """The law q of the first draft of the round after `tokens` (DFlash2)."""
        assert isinstance(self._drafter, TableDFlash2)
        history = [*self._prompt, *tokens]
        ids, unary = (t[0] for t in self._drafter.model.unary([history], self._drafter.num_drafts))
        scores = unary[0] + self._drafter.model.pair(torch.tensor(history[-1:]), ids[:1])[0]
        return candidate_law(ids[0].tolist(), propose.law(scores.tolist(), self._settings.temperature))

    def _walk(self, seed: int, history: list[int], position: int) -> tuple[list[int], list[SparseLaw]]:
        assert isinstance(self._drafter, TableDFlash2)
        model, num_drafts = self._drafter.model, self._drafter.num_drafts
        ids, unary = (tensor[0] for tensor in model.unary([history], num_drafts))
        drafts, qs, before = [], [], history[-1]
        for j in range(model.extent(history, num_drafts)):
            scores = unary[j] + model.pair(torch.tensor([before]), ids[j][None])[0]
            u = rng.uniform(seed, position + j, "proposal")
            law = propose.law(scores.tolist(), self._settings.temperature)
            before = int(ids[j, propose.draw(scores.tolist(), self._settings.temperature, u)])
            drafts.append(before)
            qs.append(candidate_law(ids[j].tolist(), law))
        return drafts, qs


def candidate_law(ids: Sequence[int], law: sample.Law) -> dict[int, float]:
    """The law over candidate ids of a law over their ranks; an id listed twice adds up."""
    q: dict[int, float] = {}
    for rank, p in zip(law.order, law.probs, strict=True):
        q[ids[rank]] = q.get(ids[rank], 0.0) + p
    return q
