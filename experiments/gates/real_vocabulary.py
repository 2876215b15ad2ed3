"""Gate: on a real vocabulary every id's bit is right, and sampling is exact on rows that wide.

The oracle tries every token on its own Earley parse (wide_oracle). The engine's mask must hold exactly the
oracle's ids, with control ids closed, completion ids open only at an end, nothing at or past V. Both cores
are judged; only the one that the engine would not choose may refuse a grammar.
"""

import functools
import time
from typing import Any

import numpy as np
import torch

import oracles.sample
from engine.errors import RequestError
from engine.ops import get_ops
from engine.ops.sample import RowStatus, SamplingBatch
from engine.request import SamplingSettings
from engine.text.compiler import ConstraintCompiler
from engine.text.vocabulary import TokenClass, Vocabulary
from experiments.cases import Line, decode, line, oracle_law, sample_case
from experiments.gates.real_subjects import Subject, subjects
from experiments.gates.wide_oracle import MergedEarley, SortedTokens
from experiments.verdict import Verdict, Visible, failed, passed, skipped
from experiments.vocabularies import vocabulary_of
from oracles.expressions import to_byte_grammar
from oracles.grammar_prefix import Earley
from oracles.masks import pack, unpack

NAME = "real vocabulary"
CORES = ("xgrammar", "llguidance")
CAP = 20
ONE_BIT = Visible("1 wrong bit", 1.0)
MAX_SHOWN = 12
CLAUSES = ("MASK-1", "VOC-2", "VOC-3", "VOC-4", "VOC-5", "VOC-6", "TEST2-4", "TEST2-5")
SETTINGS = (
    SamplingSettings(temperature=1.0),
    SamplingSettings(temperature=0.6, top_k=7, top_p=0.9),
    SamplingSettings(temperature=0.0),
    SamplingSettings(temperature=1.5, min_p=0.02, presence_penalty=0.7, frequency_penalty=0.1),
)
ROW_STATES = (
    ("json", 1),
    ("digits", 0),
    ("choice", 0),
    ("characters of many bytes", 1),
    ("date", 1),
    ("json", 4),
)


def gate(
    *,
    seed: int,
    ops: str,
    vocab: str,
    only: tuple[str, ...] = (),
    rows: int = 4,
    shard: int = 0,
    shards: int = 1,
) -> list[Verdict]:
    """Judge the masks of the subjects, or of `only` some, then the sampling op on `rows` wide rows.

    With shards, each takes every `shards`-th subject; the last one takes the sampling rows too.
    """
    world = world_of(vocab)
    chosen = [subject for subject in world.subjects.values() if not only or subject.name in only]
    verdicts = [check_masks(world, subject, core) for subject in chosen[shard::shards] for core in CORES]
    if shard == shards - 1:
        verdicts.append(check_sampling(world, seed, ops, rows))
    return verdicts


class World:
    """One vocabulary with its compiler and languages, and what the oracle alone says about them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.vocabulary = vocabulary_of(name)
        self.subjects = {subject.name: subject for subject in subjects(self.vocabulary)}
        self.compiler = ConstraintCompiler(self.vocabulary)
        self._data = oracle_bytes(self.vocabulary)
        self._tokens = SortedTokens(self._data)
        self._ids_by_bytes = {data: i for i, data in enumerate(self._data) if data}
        self._parsers: dict[str, MergedEarley] = {}
        self._legal: dict[tuple[str, bytes], frozenset[int]] = {}

    def legal_ids(self, name: str, prefix: bytes) -> frozenset[int]:
        """The ids that are legal after `prefix`, by the oracle alone; shared by both cores."""
        if (name, prefix) not in self._legal:
            self._legal[name, prefix] = self._search(self._parser(name), name, prefix)
        return self._legal[name, prefix]

    def _search(self, parser: MergedEarley, name: str, prefix: bytes) -> frozenset[int]:
        state = parser.after(prefix)
        if state is None:
            raise ValueError(f"{prefix!r} is no prefix of {name}")
        return frozenset(self._tokens.legal_ids(parser, state, self.vocabulary.eos_ids))

    def _parser(self, name: str) -> MergedEarley:
        if name not in self._parsers:
            text_ids = self.vocabulary.ids_of(TokenClass.TEXT)
            grammar = to_byte_grammar(self.subjects[name].rules, text_ids)
            self._parsers[name] = MergedEarley(Earley(grammar, "root"))
        return self._parsers[name]

    def longest_tokens(self, data: bytes) -> list[int]:
        """Spell `data` with the longest matching token at each step."""
        known, ids, start = self._ids_by_bytes, [], 0
        while start < len(data):
            end = next(end for end in range(len(data), start, -1) if data[start:end] in known)
            ids.append(known[data[start:end]])
            start = end
        return ids


world_of = functools.cache(World)


def oracle_bytes(vocabulary: Vocabulary) -> list[bytes | None]:
    """The bytes a byte rule may see for each id: None for everything that is not text."""
    pairs = zip(vocabulary.token_bytes, vocabulary.classes, strict=True)
    return [data if token_class is TokenClass.TEXT else None for data, token_class in pairs]


def engine_words(world: World, subject: Subject, core: str | None, prefix: bytes) -> torch.Tensor:
    """The engine's packed mask after `prefix`, which is fed as the longest tokens that spell it."""
    compiled, _ = world.compiler.compile(subject.constraint, core=core)
    matcher = compiled.new_matcher()
    matcher.preview(world.longest_tokens(prefix))
    matcher.confirm()
    row = torch.full((world.vocabulary.num_words,), -1, dtype=torch.int32)
    matcher.fill(row)
    return row


def check_masks(world: World, subject: Subject, core: str) -> Verdict:
    """Every bit of every judged state of one subject on one core."""
    started = time.perf_counter()
    check = f"{subject.name} ({core})"
    num_open: list[int] = []
    for prefix in subject.prefixes:
        try:
            found = unpack(engine_words(world, subject, core, prefix))
        except RequestError as error:
            if world.compiler.compile(subject.constraint)[0].core_name.startswith(core):
                raise
            return skipped(NAME, check, f"the other core is chosen; this one refuses: {error}")
        expected = world.legal_ids(subject.name, prefix)
        num_open.append(len(expected))
        if found != expected:
            wrong = _mask_failure(world, subject, core, prefix, found ^ expected)
            return wrong.timed(time.perf_counter() - started)
    detail = f"{len(num_open)} states; open ids in each: {', '.join(f'{n:,}' for n in num_open)}"
    n = len(num_open) * world.vocabulary.logits_width
    verdict = passed(NAME, check, n=n, visible=ONE_BIT, detail=detail, clauses=CLAUSES)
    return verdict.timed(time.perf_counter() - started)


def _mask_failure(world: World, subject: Subject, core: str, prefix: bytes, wrong: set[int]) -> Verdict:
    vocabulary = world.vocabulary
    shown = ", ".join(f"{i} {vocabulary.render(i)}" for i in sorted(wrong)[:MAX_SHOWN])
    case = {
        "kind": "mask",
        "replay": f"{__name__}:replay",
        "vocab": world.name,
        "subject": subject.name,
        "core": core,
        "prefix": prefix.hex(),
    }
    return failed(
        NAME,
        f"{subject.name} ({core})",
        case=case,
        n=vocabulary.logits_width,
        visible=ONE_BIT,
        worst_error=len(wrong),
        detail=f"after {prefix!r}: {len(wrong)} wrong bits: {shown}",
    )


def replay(case: dict[str, Any]) -> list[Line]:
    """The engine's mask and the oracle's legal set of one case, with the ids in which they differ."""
    world = world_of(case["vocab"])
    subject = world.subjects[case["subject"]]
    prefix = bytes.fromhex(case["prefix"])
    found = unpack(engine_words(world, subject, case["core"], prefix))
    expected = world.legal_ids(subject.name, prefix)
    render = world.vocabulary.render
    lines = [line("open ids", len(found), len(expected))]
    for token_id in sorted(found ^ expected)[:MAX_SHOWN]:
        lines.append(line(f"{token_id} {render(token_id)}", token_id in found, token_id in expected))
    return lines


def check_sampling(world: World, seed: int, ops: str, rows: int) -> Verdict:
    """Sampling from `rows` rows of full width under real masks, at every break point of the oracle's law."""
    started = time.perf_counter()
    num_probes = 0
    for index in range(rows):
        case = wide_case(world, seed, ops, index)
        law = oracle_law(case)
        probes = oracles.sample.probe_uniforms(oracles.sample.breakpoints(law), exact=False)
        drawn = op_draws(case, probes)
        num_probes += len(probes)
        for u, token in zip(probes, drawn, strict=True):
            if token != oracles.sample.draw(law, u):
                verdict = failed(NAME, "sampling at full width", case=case | {"uniform": u}, n=num_probes)
                return verdict.timed(time.perf_counter() - started)
    width = world.vocabulary.logits_width
    visible = Visible("a break off by 2^-24", 2.0**-24)
    detail = f"{rows} rows of {width:,} logits, ids at and past V and control ids made most likely"
    verdict = passed(
        NAME,
        "sampling at full width",
        n=num_probes,
        visible=visible,
        detail=detail,
        clauses=("SAMP-2", "SAMP-9"),
    )
    return verdict.timed(time.perf_counter() - started)


def wide_case(world: World, seed: int, ops: str, index: int) -> dict[str, Any]:
    """Row `index`: logits that favour padding and control ids, a real state's mask, one of the settings."""
    vocabulary = world.vocabulary
    generator = np.random.default_rng([seed, 2, index])
    logits = (generator.standard_normal(vocabulary.logits_width) * 2).astype(np.float32)
    logits[vocabulary.size :] = 60.0
    logits[list(vocabulary.ids_of(TokenClass.CONTROL) + vocabulary.ids_of(TokenClass.UNGENERABLE))] = 50.0
    name, state = ROW_STATES[index % len(ROW_STATES)]
    legal = world.legal_ids(name, world.subjects[name].prefixes[state])
    generated = generator.choice(sorted(legal), size=8)
    return sample_case(
        logits,
        SETTINGS[index % len(SETTINGS)],
        0.0,
        ops=ops,
        vocab_size=vocabulary.size,
        candidate_cap=CAP,
        allowed_bitmask=pack(legal, vocabulary.size),
        counts=np.bincount(generated, minlength=vocabulary.size).astype(np.int32),
    )


def op_draws(case: dict[str, Any], uniforms: list[float]) -> list[int]:
    """The ids the op set draws from one case's row at each uniform; -1 where it reports no law."""
    ops = get_ops(case["ops"])
    settings = SamplingBatch.from_settings([SamplingSettings(**case["settings"])])
    candidates = ops.select_candidates(
        torch.from_numpy(decode(case["logits"], "float32"))[None],
        settings,
        vocab_size=case["vocab_size"],
        candidate_cap=case["candidate_cap"],
        allowed_bitmask=torch.from_numpy(decode(case["allowed_bitmask"], "int32"))[None],
        counts=torch.from_numpy(decode(case["counts"], "int32"))[None],
    )
    law = ops.target_law(candidates, settings)
    if int(law.status[0]) != RowStatus.OK:
        return [-1] * len(uniforms)
    times = len(uniforms)
    many = type(law)(law.token_ids.expand(times, -1), law.probs.expand(times, -1), law.status.expand(times))
    return ops.draw(many, torch.tensor(uniforms, dtype=torch.float64)).tolist()
