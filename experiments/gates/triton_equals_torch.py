"""Gate: the Triton kernels give exactly what the torch reference gives on equal inputs and equal uniforms.

Equality of ids, counts, statuses and candidate logits, no statistics: one differing bit fails. Interpreted on
a CPU a row of 248,320 logits costs about 0.4 s, so wide rows are few and each differs in kind from the next:
greedy, filtered, penalised, biased, banned, nearly closed, wide open, empty, non-finite, half precision.
"""

import importlib.util
import time
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import torch

from engine.ops import get_ops
from engine.ops.accept import Proposal, RoundUniforms
from engine.ops.rng import Purpose
from engine.ops.sample import SamplingBatch, TargetLaw
from engine.request import SamplingSettings
from experiments.cases import round_case, sample_case, uniform_case
from experiments.verdict import Verdict, failed, passed, skipped
from experiments.vocabularies import vocabulary_of
from oracles.sample import Law

NAME = "triton equals torch"
SIZES = {"toy": (997, 1024), "qwen3.5": (248_077, 248_320)}  # V and width, known without loading anything
CAP = 20
NUM_WINDOW = 3
NUM_CANDIDATES = 16
END_ID = 7
SETTINGS = (
    SamplingSettings(temperature=0.0),
    SamplingSettings(),
    SamplingSettings(temperature=0.7, top_k=5, top_p=0.9),
    SamplingSettings(temperature=1.3, min_p=0.05, presence_penalty=0.5, frequency_penalty=0.25),
    SamplingSettings(temperature=0.0, presence_penalty=1.5),
    SamplingSettings(temperature=0.4, top_k=1),
    SamplingSettings(temperature=2.0, top_p=0.3),
    SamplingSettings(temperature=1.0, top_k=19, min_p=0.5),
)
OPEN_SHARES = (
    1.0,
    0.5,
    0.0002,
    0.01,
    0.9,
    0.05,
    0.0,
    0.2,
)  # of the vocabulary, one kind of row after another
Arrays = dict[str, Any]


def gate(*, seed: int, vocab: str, rows: int = 8, rounds: int = 200, counters: int = 4096) -> list[Verdict]:
    """Compare sampling on `rows` rows, acceptance on `rounds` rounds, the generator on `counters`."""
    if importlib.util.find_spec("triton") is None:
        return [skipped(NAME, "whole gate", "Triton is not installed (it is published for Linux only)")]
    generator = np.random.default_rng([seed, 1])
    checks = (
        lambda: check_sampling(generator, vocab, rows),
        lambda: check_acceptance(generator, rounds, sparse=False),
        lambda: check_acceptance(generator, rounds, sparse=True),
        lambda: check_uniforms(generator, counters),
    )
    return [_timed(check) for check in checks]


def _timed(check: Callable[[], Verdict]) -> Verdict:
    started = time.perf_counter()
    return check().timed(time.perf_counter() - started)


def device() -> torch.device:
    """Where both op sets run: the GPU if there is one, else the CPU with Triton interpreted."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def check_sampling(generator: np.random.Generator, vocab: str, rows: int) -> Verdict:
    """Candidates, statuses and drawn ids of `rows` rows of every kind."""
    vocab_size, width = SIZES[vocab] if vocab in SIZES else _sizes(vocab)
    differing: list[tuple[Arrays, int]] = []
    for first in range(0, rows, len(SETTINGS)):
        batch = random_rows(generator, vocab_size, width, range(first, min(first + len(SETTINGS), rows)))
        answers = [sampling_answers(name, batch, vocab_size) for name in ("torch", "triton")]
        differing += [(batch, row) for row in _differing_rows(*answers)]
    facts = {"n": rows, "detail": f"{rows} rows of {width:,} logits, V = {vocab_size:,}; {interpretation()}"}
    if not differing:
        return passed(NAME, "sampled ids", **facts)
    batch, row = differing[0]
    case = sample_case(
        batch["logits"][row].float().cpu(),
        batch["settings"][row],
        float(batch["uniforms"][row]),
        ops="triton",
        vocab_size=vocab_size,
        candidate_cap=CAP,
        **{name: batch[name][row].cpu() for name in ("allowed_bitmask", "banned_bitmask", "counts", "bias")},
    )
    if not batch["constrained_mask"][row]:
        case["allowed_bitmask"] = None
    return failed(NAME, "sampled ids", case=case, worst_error=len(differing), **facts)


def _sizes(directory: str) -> tuple[int, int]:
    vocabulary = vocabulary_of(directory)
    return vocabulary.size, vocabulary.logits_width


def interpretation() -> str:
    """How Triton runs here, in words."""
    return "on the GPU" if device().type == "cuda" else "interpreted on the CPU"


def random_rows(generator: np.random.Generator, vocab_size: int, width: int, indices: range) -> Arrays:
    """A batch with one row of each kind in `indices`; every eighth row holds a NaN among its legal logits."""
    rows = len(indices)
    logits = (generator.standard_normal((rows, width)) * 3).astype(np.float32)
    logits[:, ::7] = np.round(logits[:, ::7])  # ties, which the smaller id has to win
    shares = np.array([OPEN_SHARES[i % len(OPEN_SHARES)] for i in indices])
    allowed = generator.random((rows, vocab_size)) < shares[:, None]
    for row, index in enumerate(indices):
        if index % len(OPEN_SHARES) == 5:
            logits[row, : vocab_size // 2] = -np.inf
        if index % (2 * len(OPEN_SHARES)) == 7:
            logits[row, int(np.flatnonzero(allowed[row])[0])] = np.nan
    wide = torch.from_numpy(logits)
    arrays = {
        "logits": wide.bfloat16() if indices.start % (2 * len(SETTINGS)) else wide,
        "uniforms": torch.from_numpy(generator.integers(0, 2**24, rows) / 2**24),
        "allowed_bitmask": pack(allowed),
        "banned_bitmask": pack(generator.random((rows, vocab_size)) < 0.02),
        "constrained_mask": torch.from_numpy(shares < 1.0),
        "counts": torch.from_numpy(generator.integers(0, 3, (rows, vocab_size)).astype(np.int32)),
        "bias": torch.from_numpy(
            np.round(generator.standard_normal((rows, vocab_size)), 1).astype(np.float32)
        ),
    }
    moved = {name: value.to(device()) for name, value in arrays.items()}
    return moved | {"settings": [SETTINGS[i % len(SETTINGS)] for i in indices]}


def pack(mask: np.ndarray) -> torch.Tensor:
    """Pack a bool mask (rows, V) into int32 words, bits at and past V zero."""
    padded = np.zeros((mask.shape[0], -(-mask.shape[1] // 32) * 32), bool)
    padded[:, : mask.shape[1]] = mask
    return torch.from_numpy(np.packbits(padded, axis=1, bitorder="little").view(np.int32))


def sampling_answers(ops_name: str, batch: Arrays, vocab_size: int) -> Arrays:
    """Everything one op set says about a batch of rows."""
    ops = get_ops(ops_name)
    settings = SamplingBatch.from_settings(batch["settings"], device())
    names = ("allowed_bitmask", "constrained_mask", "banned_bitmask", "counts", "bias")
    candidates = ops.select_candidates(
        batch["logits"],
        settings,
        vocab_size=vocab_size,
        candidate_cap=CAP,
        **{name: batch[name] for name in names},
    )
    law = ops.target_law(candidates, settings)
    return attrs.asdict(candidates, recurse=False) | {"drawn": ops.draw(law, batch["uniforms"])}


def _differing_rows(one: Arrays, other: Arrays) -> list[int]:
    """The rows in which any tensor differs, NaN-safe and bit by bit."""
    differs = torch.zeros(one["status"].shape[0], dtype=torch.bool)
    for name, value in one.items():
        unequal = (value != other[name]).reshape(value.shape[0], -1).any(dim=1).cpu()
        differs |= unequal
    return differs.nonzero()[:, 0].tolist()


def check_acceptance(generator: np.random.Generator, rounds: int, *, sparse: bool) -> Verdict:
    """Every field of the outcome of `rounds` rounds of up to three drafts over eight ids."""
    inputs = random_rounds(generator, rounds, sparse=sparse)
    laws, proposal, uniforms = inputs
    answers = [
        attrs.asdict(get_ops(name).accept_round(laws, proposal, uniforms, vocab_size=8), recurse=False)
        for name in ("torch", "triton")
    ]
    differing = _differing_rows(*answers)
    check = "acceptance, sparse q" if sparse else "acceptance, one-hot q"
    facts = {"n": rounds, "detail": f"{rounds} rounds, up to {NUM_WINDOW} drafts; {interpretation()}"}
    if not differing:
        return passed(NAME, check, **facts)
    case = _round_case(inputs, differing[0])
    return failed(NAME, check, case=case, worst_error=len(differing), **facts)


def random_rounds(
    generator: np.random.Generator, rounds: int, *, sparse: bool
) -> tuple[TargetLaw, Proposal, RoundUniforms]:
    """Rounds with drafts out of range, short extents, ends, zero probabilities and q off the support of p."""
    columns = rounds * (NUM_WINDOW + 1)
    probs = generator.integers(0, 5, (columns, 5)) + np.eye(5, dtype=int)[generator.integers(0, 5, columns)]
    ids = generator.permuted(np.tile(np.arange(8), (columns, 1)), axis=1)[:, :5]
    status = (generator.random(columns) < 0.03).astype(np.int64)
    drafts = generator.integers(-1, 9, (rounds, NUM_WINDOW))
    candidate_ids = draft_probs = None
    if sparse:
        candidate_ids = generator.integers(0, 8, (rounds, NUM_WINDOW, NUM_CANDIDATES))
        weights = generator.integers(0, 4, candidate_ids.shape) + (np.arange(NUM_CANDIDATES) == 0)
        draft_probs = torch.from_numpy(weights / weights.sum(axis=-1, keepdims=True)).to(device())
        drafts = np.take_along_axis(candidate_ids, weights.argmax(axis=-1)[..., None], axis=-1)[..., 0]
        candidate_ids = torch.from_numpy(candidate_ids).to(device())
    laws = TargetLaw(
        torch.from_numpy(ids).to(device()),
        torch.from_numpy(probs / probs.sum(axis=1, keepdims=True)).to(device()),
        torch.from_numpy(status).to(device()),
    )
    proposal = Proposal(
        token_ids=torch.from_numpy(drafts).to(device()),
        extents=torch.from_numpy(generator.integers(0, NUM_WINDOW + 1, rounds)).to(device()),
        candidate_ids=candidate_ids,
        draft_probs=draft_probs,
        ends_mask=torch.from_numpy(drafts == END_ID).to(device()),
    )
    draws = [
        torch.from_numpy(generator.integers(0, 2**24, shape) / 2**24).to(device())
        for shape in ((rounds, NUM_WINDOW), (rounds, NUM_WINDOW), rounds)
    ]
    return laws, proposal, RoundUniforms(*draws)


def _round_case(inputs: tuple[TargetLaw, Proposal, RoundUniforms], row: int) -> Arrays:
    laws, proposal, uniforms = inputs
    extent = int(proposal.extents[row])
    first = row * (NUM_WINDOW + 1)
    columns = range(first, first + extent + 1)
    return round_case(
        [
            Law(tuple(laws.token_ids[i].tolist()), tuple(laws.probs[i].tolist()))
            if laws.status[i] == 0
            else Law(status="empty")
            for i in columns
        ],
        proposal.token_ids[row, :extent].tolist(),
        [_sparse_law(proposal, row, column) for column in range(extent)],
        uniforms.accept[row, :extent].tolist(),
        uniforms.correction[row, :extent].tolist(),
        float(uniforms.bonus[row]),
        ops="triton",
        vocab_size=8,
        ends=proposal.ends_mask[row, :extent].tolist(),
    )


def _sparse_law(proposal: Proposal, row: int, column: int) -> dict[int, float] | None:
    if proposal.candidate_ids is None or proposal.draft_probs is None:
        return None
    law: dict[int, float] = {}
    pairs = zip(
        proposal.candidate_ids[row, column].tolist(), proposal.draft_probs[row, column].tolist(), strict=True
    )
    for token_id, p in pairs:
        law[token_id] = law.get(token_id, 0.0) + p
    return law


def check_uniforms(generator: np.random.Generator, counters: int) -> Verdict:
    """The generator at random 64-bit seeds and positions, every purpose."""
    bounds = np.iinfo(np.int64)
    seeds = torch.from_numpy(generator.integers(bounds.min, bounds.max, counters)).to(device())
    positions = torch.from_numpy(generator.integers(0, 2**31, counters)).to(device())
    for purpose in Purpose:
        one, other = (get_ops(name).uniforms(seeds, positions, purpose) for name in ("torch", "triton"))
        if not torch.equal(one, other):
            row = int((one != other).nonzero()[0, 0])
            case = uniform_case(int(seeds[row]), int(positions[row]), purpose, 0, 0, ops="triton")
            return failed(NAME, "uniforms", case=case, n=counters * len(Purpose))
    return passed(NAME, "uniforms", n=counters * len(Purpose), detail=f"every purpose; {interpretation()}")
