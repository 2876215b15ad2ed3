"""The small worlds in which decoding paths are judged: one vocabulary, a few constraints, tables, drafters.

Each constraint is written twice: as the engine reads it and as rules the oracle expands. The target's table
likes the case's own tokens, completion ids and an illegal one; the drafters' tables lie near it and misbehave
on purpose (`Mischief`): illegal ids, ids out of range, completion ids inside the window, short windows.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import attrs
import numpy as np

from engine.models.ngram import PromptLookup
from engine.models.toy import Mischief, TableModel, TableSpec, ToyDFlash, ToyDFlash2, ToyMtp
from engine.ops import OpSet, get_ops
from engine.request import OutputConstraint, RequestOptions, SamplingSettings
from engine.runtime.batch import Drafter
from engine.runtime.drafters.ngram import NgramDrafter
from engine.runtime.drafters.ordinary import OrdinaryDrafter
from engine.runtime.engine import Engine
from engine.runtime.program import TwoPhaseProgram
from engine.runtime.table import TableDFlash, TableDFlash2, TableMtp, TableTarget
from engine.text.compiler import ConstraintCompiler
from engine.text.vocabulary import TokenClass, Vocabulary
from experiments.vocabularies import vocabulary_of
from oracles.expressions import Alt, Expression, Literal, Ref, Repeat, Seq

NUM_DRAFTS = 3
MAX_TOKENS = 7
PATHS = ("ordinary", "mtp", "dflash", "dflash2", "ngram")
A, B, C = Literal("a"), Literal("b"), Literal("c")
PROMPT = (b"bc", b"a", b"b", b"|", b"ab", b"ca", b"a", b"b", b"|", b"c", b".", b"abc")  # | strange, . an end
CHOICES = ("ab", "abc", "abca", "ca", "cab", "b")


@attrs.frozen
class Case:
    """One output language: the request's constraint and the oracle's rules, both None for a free request.

    `alphabet` holds every byte of the language; with `unique_names` a JSON object may not repeat a name.
    """

    name: str
    constraint: OutputConstraint | None
    rules: Mapping[str, Expression] | None
    alphabet: bytes = b"abc"
    unique_names: bool = False


CASES: Mapping[str, Case] = {
    case.name: case
    for case in (
        Case(
            "choice",
            OutputConstraint.choice(CHOICES),
            {"root": Alt(tuple(Literal(option) for option in CHOICES))},
        ),
        Case(
            "regex",
            OutputConstraint.regex("(a|bc)*(ca?b){1,2}"),
            {
                "root": Seq(
                    (
                        Repeat(Alt((A, Literal("bc"))), 0, None),
                        Repeat(Seq((C, Repeat(A, 0, 1), B)), 1, 2),
                    )
                )
            },
        ),
        Case(
            "grammar",
            OutputConstraint.grammar('root ::= "a" root "b" | root "c" | "ab"'),
            {"root": Alt((Seq((A, Ref("root"), B)), Seq((Ref("root"), C)), Literal("ab")))},
        ),
        Case("free", None, None),
    )
}

# After "b" and "ca" only a character follows that toy tokens do not hold, and nothing may end there.
DEAD_ENDS = ("ab", "bQ", "caQ", "abc", "c")
CASES_IN_TROUBLE: Mapping[str, Case] = CASES | {
    "dead end": Case(
        "dead end",
        OutputConstraint.choice(DEAD_ENDS),
        {"root": Alt(tuple(Literal(option) for option in DEAD_ENDS))},
    )
}

SETTINGS: Mapping[str, SamplingSettings] = {
    "plain": SamplingSettings(),
    "filters": SamplingSettings(temperature=0.7, top_k=4, top_p=0.9, min_p=0.05),
    "penalties": SamplingSettings(temperature=1.3, presence_penalty=0.7, frequency_penalty=0.4),
    "greedy": SamplingSettings(temperature=0.0, frequency_penalty=0.5),
}


ALL_SETTINGS = (*SETTINGS, "biased", "banned")


@attrs.frozen(eq=False)
class World:
    """One vocabulary with its tables; `scale` is how uneven the laws are."""

    vocabulary: Vocabulary
    compiler: ConstraintCompiler
    seed: int = 0
    overrides: Mapping[tuple[int, ...], np.ndarray] = attrs.field(factory=dict)

    @property
    def cases(self) -> Mapping[str, Case]:
        """The languages that the checks ask for; `case` knows more by name."""
        return CASES

    @property
    def max_tokens(self) -> int:
        """The budget of the checks' requests."""
        return MAX_TOKENS

    def case(self, name: str) -> Case:
        """The language of a name."""
        return CASES_IN_TROUBLE[name]

    @property
    def liked_ids(self) -> tuple[int, ...]:
        """Text ids over a, b, c of at most three bytes: the tokens the constraints are made of."""
        return _liked_ids(self.vocabulary)

    @property
    def strange_ids(self) -> tuple[int, ...]:
        """Ids no constraint opens: a control id, an id that is never generated, padding, out of range."""
        return strange_ids(self.vocabulary)

    @property
    def prompt_ids(self) -> tuple[int, ...]:
        """A prompt to copy from: a liked token is followed by a legal, an illegal or a completion id."""
        return _prompt_ids(self.vocabulary)

    def table(self, **changes: Any) -> TableSpec:
        """The target's table: own tokens and completion ids are liked, and so is one illegal id."""
        boost = dict.fromkeys(self.liked_ids, 5.0)
        boost |= dict.fromkeys(self.vocabulary.eos_ids, 4.5)
        boost[self.strange_ids[0]] = 5.5
        width = self.vocabulary.logits_width
        varying = tuple(boost) + tuple(range(100, 160)) if width > 10_000 else ()
        spec = TableSpec(width, seed=self.seed, order=1, scale=1.5, boost=boost, varying=varying)
        return attrs.evolve(spec, overrides=self.overrides, **changes)

    def sampling(self, name: str) -> SamplingSettings:
        """The settings of a name; two of them name ids of this vocabulary."""
        if name in SETTINGS:
            return SETTINGS[name]
        a, b, *_ = self.liked_ids
        if name == "biased":  # the largest bias by far is on an id that no constraint opens
            bias = {a: 2.0, b: -1.5, self.strange_ids[0]: 100.0}
            return SamplingSettings(logit_bias=bias, presence_penalty=0.5)
        if name == "banned":
            return SamplingSettings(banned_token_ids=frozenset({b, self.strange_ids[0]}))
        raise ValueError(f"no settings {name!r}; allowed: {ALL_SETTINGS}")

    def troubled(self) -> "World":
        """This world with logits that are NaN after one liked token and -inf everywhere after another."""
        width = self.vocabulary.logits_width
        a, _, c, *_ = self.liked_ids
        bad = {(a,): np.full(width, np.nan, np.float32), (c,): np.full(width, -np.inf, np.float32)}
        return attrs.evolve(self, overrides=bad)

    def mischief(self) -> Mischief:
        """Drafts gone wrong now and then, in every way."""
        stray_ids = (*self.vocabulary.eos_ids, *self.strange_ids)
        return Mischief(stray=2, stray_ids=stray_ids, short=2, seed=self.seed)

    def drafter(self, path: str, num_drafts: int = NUM_DRAFTS) -> Drafter:
        """The drafter of a path, over a table near the target's."""
        near = attrs.evolve(self.table(jitter=0.8), overrides={})
        if path == "mtp":
            return TableMtp(ToyMtp(near, self.mischief()), num_drafts)
        if path == "dflash":
            return TableDFlash(ToyDFlash(near, self.mischief()), num_drafts)
        if path == "dflash2":
            return TableDFlash2(ToyDFlash2(near, self.mischief()), num_drafts)
        if path == "ngram":
            return NgramDrafter(PromptLookup(1, 3, "most_recent"), num_drafts)
        if path == "ordinary":
            return OrdinaryDrafter()
        raise ValueError(f"no path {path!r}; allowed: {PATHS}")

    def program(
        self, path: str, ops: str, num_lanes: int, *, num_drafts: int = NUM_DRAFTS, **table: Any
    ) -> TwoPhaseProgram:
        """A program of this world for one path; `table` changes fields of the target's table."""
        return TwoPhaseProgram(
            TableTarget(TableModel(self.table(**table)), self.vocabulary.size),
            self.drafter(path, num_drafts),
            ops_by_name(ops),
            vocab_size=self.vocabulary.size,
            eos_ids=frozenset(self.vocabulary.eos_ids),
            num_lanes=num_lanes,
        )

    def engine(self, path: str, ops: str, num_lanes: int, **changes: Any) -> Engine:
        """An engine of this world; `changes` go to the program, except `arrange` and `observe`."""
        own = {name: changes.pop(name) for name in ("arrange", "observe") if name in changes}
        return Engine(self.vocabulary, self.program(path, ops, num_lanes, **changes), self.compiler, **own)


def options(
    case: Case, settings: SamplingSettings, max_tokens: int, seed: int | None = None
) -> RequestOptions:
    """The options of one request."""
    sampling = settings if seed is None else attrs.evolve(settings, seed=seed)
    return RequestOptions(max_tokens, case.constraint, sampling)


@cache
def ops_by_name(name: str) -> OpSet:
    """The op set, made once."""
    return get_ops(name)


@cache
def world(vocab: str, seed: int = 0) -> World:
    """The world of a vocabulary: `toy`, `qwen3.5` or a model directory."""
    vocabulary = vocabulary_of(vocab)
    return World(vocabulary, _compiler(vocab, vocabulary), seed)


_COMPILERS: dict[str, ConstraintCompiler] = {}


def _compiler(vocab: str, vocabulary: Vocabulary) -> ConstraintCompiler:
    return _COMPILERS.setdefault(vocab, ConstraintCompiler(vocabulary))


@cache
def _liked_ids(vocabulary: Vocabulary) -> tuple[int, ...]:
    wanted = (b"a", b"b", b"c", b"ab", b"bc", b"ca", b"abc")
    by_bytes: dict[bytes, int] = {}
    for token_id, data in enumerate(vocabulary.token_bytes):
        if data in wanted and vocabulary.classes[token_id] is TokenClass.TEXT:
            by_bytes.setdefault(data, token_id)
    return tuple(by_bytes[data] for data in wanted if data in by_bytes)


def text_of(vocabulary: Vocabulary, token_ids: Sequence[int]) -> bytes:
    """The bytes of published tokens."""
    return b"".join(vocabulary.token_bytes[token_id] for token_id in token_ids)


@cache
def strange_ids(vocabulary: Vocabulary) -> tuple[int, ...]:
    """See `World.strange_ids`; a text id that is nobody's stands in where a vocabulary has no such ids."""
    kinds = (TokenClass.CONTROL, TokenClass.UNGENERABLE)
    special = [ids[0] for ids in map(vocabulary.ids_of, kinds) if ids]
    if not special:
        texts = ((i, vocabulary.token_bytes[i]) for i in vocabulary.ids_of(TokenClass.TEXT))
        special = [next(i for i, data in texts if not set(data) & set(b"abc"))]
    return (*special, vocabulary.size, vocabulary.logits_width - 1, -1, 2**31)


@cache
def _prompt_ids(vocabulary: Vocabulary) -> tuple[int, ...]:
    ids = {vocabulary.token_bytes[i]: [i] for i in _liked_ids(vocabulary)}
    ids |= {b"|": [strange_ids(vocabulary)[0]], b".": [vocabulary.eos_ids[0]]}
    found = [ids.get(piece) or [i for byte in piece for i in ids[bytes([byte])]] for piece in PROMPT]
    last = [] if PROMPT[-1] in ids else ids[b"b"]  # after a lone c, a troubled world has no first token
    return tuple(i for piece in [*found, last] for i in piece)
