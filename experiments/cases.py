"""Case files: everything one call of an op was given, as JSON, and the means to make that call again.

`sample_case`, `round_case`, `uniform_case` and `proposal_case` write such records; `compare(case)` calls the
op set named in the case and the float64 oracle on it and returns what each answered, line by line. Arrays of
more than 64 entries are stored compressed (`{"dtype", "shape", "zlib"}`), so a wide row stays one line.
"""

import base64
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from attrs import asdict, frozen

import oracles.accept
import oracles.propose
import oracles.rng
import oracles.sample
from engine.ops import get_ops
from engine.ops.accept import Proposal, RejectedBy, RoundUniforms
from engine.ops.rng import Purpose
from engine.ops.sample import RowStatus, SamplingBatch, TargetLaw
from engine.request import SamplingSettings
from oracles.masks import pack

Case = dict[str, Any]
MAX_PLAIN = 64
FILTERS = ("temperature", "top_k", "top_p", "min_p", "presence_penalty", "frequency_penalty")


@frozen
class Line:
    """One compared quantity: what the op gave and what the oracle gave, as text, and if they agree."""

    name: str
    op: str
    oracle: str
    equal: bool


def encode(values: Any) -> Any:
    """A numpy or torch array as JSON: a list, or a compressed record when it is long."""
    array = np.asarray(values)
    if array.size <= MAX_PLAIN and np.all(np.isfinite(array)):
        return array.tolist()
    packed = base64.b64encode(zlib.compress(np.ascontiguousarray(array).tobytes(), 6)).decode()
    return {"dtype": str(array.dtype), "shape": list(array.shape), "zlib": packed}


def decode(record: Any, dtype: str) -> np.ndarray:
    """The array behind `encode`; `dtype` is that of a plain list."""
    if isinstance(record, Mapping):
        raw = zlib.decompress(base64.b64decode(record["zlib"]))
        return np.frombuffer(raw, record["dtype"]).reshape(record["shape"]).copy()
    return np.asarray(record, dtype)


def sample_case(
    logits: Any,
    settings: SamplingSettings | Mapping[str, float],
    uniform: float,
    *,
    ops: str,
    vocab_size: int,
    candidate_cap: int | None,
    allowed_bitmask: Any = None,
    banned_bitmask: Any = None,
    counts: Any = None,
    bias: Any = None,
) -> Case:
    """The record of one row of `sample`; arrays are one row each, masks packed int32 words."""
    given = settings if isinstance(settings, Mapping) else asdict(settings)
    arrays = {
        "allowed_bitmask": allowed_bitmask,
        "banned_bitmask": banned_bitmask,
        "counts": counts,
        "bias": bias,
    }
    return {
        "kind": "sample",
        "ops": ops,
        "vocab_size": vocab_size,
        "candidate_cap": candidate_cap,
        "settings": {name: given[name] for name in FILTERS},
        "uniform": uniform,
        "logits": encode(np.asarray(logits, np.float32)),
    } | {name: None if array is None else encode(array) for name, array in arrays.items()}


def round_case(
    laws: Sequence[oracles.sample.Law],
    drafts: Sequence[int],
    qs: Sequence[Mapping[int, float] | None],
    accept_uniforms: Sequence[float],
    correction_uniforms: Sequence[float],
    bonus_uniform: float,
    *,
    ops: str,
    vocab_size: int,
    ends: Sequence[bool] = (),
    legal: Sequence[Sequence[int]] | None = None,
    split: bool = False,
) -> Case:
    """The record of one speculative round; `ends[i]` says that draft i is a completion id.

    `legal` holds each column's legal ids, None for a round without constraint; with `split` every draft is
    listed twice in its q, half its mass each.
    """
    return {
        "kind": "round",
        "ops": ops,
        "vocab_size": vocab_size,
        "laws": [{"order": list(law.order), "probs": list(law.probs), "status": law.status} for law in laws],
        "drafts": list(drafts),
        "qs": [None if q is None else [[i, p] for i, p in q.items()] for q in qs],
        "uniforms": {
            "accept": list(accept_uniforms),
            "correction": list(correction_uniforms),
            "bonus": bonus_uniform,
        },
        "ends": list(ends) or [False] * len(drafts),
        "legal": None if legal is None else [sorted(ids) for ids in legal],
        "split": split,
    }


def uniform_case(
    seed: int, position: int, purpose: int, draw_index: int, candidate_index: int, *, ops: str
) -> Case:
    """The record of one uniform of the generator."""
    counter = {"position": position, "purpose": int(purpose), "draw_index": draw_index}
    return {"kind": "uniform", "ops": ops, "seed": seed, **counter, "candidate_index": candidate_index}


def draw_case(law: oracles.sample.Law, uniform: float, *, ops: str) -> Case:
    """The record of one draw from a given law."""
    return {
        "kind": "draw",
        "ops": ops,
        "order": list(law.order),
        "probs": list(law.probs),
        "uniform": uniform,
    }


def proposal_case(scores: Any, temperature: float, uniform: float, *, ops: str) -> Case:
    """The record of one draw of the DFlash2 selector."""
    scores = encode(np.asarray(scores, np.float32))
    return {"kind": "proposal", "ops": ops, "scores": scores, "temperature": temperature, "uniform": uniform}


def compare(case: Case) -> list[Line]:
    """Call the op and the oracle on one case; raises KeyError for a kind that is not an op call."""
    return COMPARERS[case["kind"]](case)


def line(name: str, op: Any, oracle: Any) -> Line:
    """One compared quantity, equal when the two values are."""
    return Line(name, str(op), str(oracle), op == oracle)


def unpack(words: Any, vocab_size: int) -> np.ndarray:
    """The bool mask behind one row of packed int32 words."""
    bits = np.unpackbits(decode(words, "int32").view(np.uint8), bitorder="little")
    return bits[:vocab_size].astype(bool)


def _compare_sample(case: Case) -> list[Line]:
    law = oracle_law(case)
    settings = SamplingBatch.from_settings([SamplingSettings(**case["settings"])])
    arguments = {"vocab_size": case["vocab_size"], "candidate_cap": case["candidate_cap"]}
    for name, dtype in (
        ("allowed_bitmask", "int32"),
        ("banned_bitmask", "int32"),
        ("counts", "int32"),
        ("bias", "float32"),
    ):
        if case[name] is not None:
            arguments[name] = torch.from_numpy(decode(case[name], dtype))[None]
    ops = get_ops(case["ops"])
    logits = torch.from_numpy(decode(case["logits"], "float32"))[None]
    candidates = ops.select_candidates(logits, settings, **arguments)
    found = ops.target_law(candidates, settings)
    status = RowStatus(int(found.status[0])).name.lower()
    lines = [line("status", status, law.status)]
    if status != "ok" or law.status != "ok":
        return lines
    lines.append(
        line("support", _support(found), [i for i, p in zip(law.order, law.probs, strict=True) if p > 0])
    )
    lines += _probability_lines(found, law)
    token = int(ops.draw(found, torch.tensor([case["uniform"]], dtype=torch.float64))[0])
    return [
        *lines,
        line(f"token at u = {case['uniform']!r}", token, oracles.sample.draw(law, case["uniform"])),
    ]


def oracle_law(case: Case) -> oracles.sample.Law:
    """The float64 oracle's law of a sample case."""
    size = case["vocab_size"]

    def ids(name: str) -> set[int] | None:
        return None if case[name] is None else set(np.flatnonzero(unpack(case[name], size)).tolist())

    bias = {} if case["bias"] is None else dict(enumerate(decode(case["bias"], "float32").tolist()))
    return oracles.sample.law(
        decode(case["logits"], "float32"),
        vocab_size=size,
        settings=oracles.sample.Settings(**case["settings"]),
        candidate_cap=case["candidate_cap"],
        legal=ids("allowed_bitmask"),
        banned=ids("banned_bitmask") or (),
        counts=None if case["counts"] is None else decode(case["counts"], "int32").tolist(),
        bias=bias,
    )


def _support(found: TargetLaw) -> list[int]:
    return found.token_ids[0][found.probs[0] > 0].tolist()


def _probability_lines(found: TargetLaw, law: oracles.sample.Law) -> list[Line]:
    got = dict(zip(found.token_ids[0].tolist(), found.probs[0].tolist(), strict=True))
    lines = []
    for token_id, p in law.as_dict().items():
        equal = abs(got.get(token_id, 0.0) - p) <= 1e-12
        lines.append(Line(f"p({token_id})", f"{got.get(token_id, 0.0):.15f}", f"{p:.15f}", equal))
    return lines


def _compare_round(case: Case) -> list[Line]:
    laws = [
        oracles.sample.Law(tuple(law["order"]), tuple(law["probs"]), law["status"]) for law in case["laws"]
    ]
    qs = [None if q is None else {int(i): p for i, p in q} for q in case["qs"]]
    uniforms, drafts = case["uniforms"], case["drafts"]
    ends = {draft for draft, end in zip(drafts, case["ends"], strict=True) if end}
    played = oracles.accept.play_round(
        laws, drafts, qs, uniforms["accept"], uniforms["correction"], uniforms["bonus"], ends, case["legal"]
    )
    masks: dict[str, Any] = {}
    if case["legal"] is not None:
        rows = [pack(ids, case["vocab_size"]) for ids in case["legal"]]
        masks["allowed_bitmask"] = torch.from_numpy(np.stack(rows))
        masks["constrained_mask"] = torch.tensor([True])
    outcome = get_ops(case["ops"]).accept_round(
        _law_tensors(laws),
        _proposal(drafts, qs, case["ends"], split=case["split"]),
        RoundUniforms(
            accept=_row(uniforms["accept"]),
            correction=_row(uniforms["correction"]),
            bonus=torch.tensor([uniforms["bonus"]], dtype=torch.float64),
        ),
        vocab_size=case["vocab_size"],
        **masks,
    )
    emitted = outcome.token_ids[0, : int(outcome.num_emitted[0])].tolist()
    return [
        line("status", RowStatus(int(outcome.status[0])).name.lower(), played.status),
        line("tokens", emitted, list(played.tokens)),
        line("accepted drafts", int(outcome.num_accepted[0]), played.num_accepted),
        line("refused by", RejectedBy(int(outcome.rejected_by[0])).name.lower(), played.rejected_by),
    ]


def _row(values: Sequence[float]) -> torch.Tensor:
    return torch.tensor([values], dtype=torch.float64).reshape(1, len(values))


def _law_tensors(laws: Sequence[oracles.sample.Law]) -> TargetLaw:
    cap = max(1, *(len(law.order) for law in laws))
    token_ids, probs = (
        torch.zeros(len(laws), cap, dtype=torch.int64),
        torch.zeros(len(laws), cap, dtype=torch.float64),
    )
    for row, law in enumerate(laws):
        token_ids[row, : len(law.order)] = torch.tensor(law.order, dtype=torch.int64)
        probs[row, : len(law.probs)] = torch.tensor(law.probs, dtype=torch.float64)
    status = torch.tensor([RowStatus[law.status.upper()] for law in laws], dtype=torch.int64)
    return TargetLaw(token_ids=token_ids, probs=probs, status=status)


def _proposal(
    drafts: Sequence[int], qs: Sequence[Mapping[int, float] | None], ends: Sequence[bool], *, split: bool
) -> Proposal:
    candidate_ids = draft_probs = None
    if any(q is not None for q in qs):
        listed = [_listed(q, draft, split=split) for q, draft in zip(qs, drafts, strict=True)]
        width = max(map(len, listed))
        padded = [[*pairs, *[(0, 0.0)] * (width - len(pairs))] for pairs in listed]
        candidate_ids = torch.tensor([[[token_id for token_id, _ in pairs] for pairs in padded]])
        draft_probs = torch.tensor([[[p for _, p in pairs] for pairs in padded]], dtype=torch.float64)
    return Proposal(
        token_ids=torch.tensor([drafts], dtype=torch.int64).reshape(1, len(drafts)),
        extents=torch.tensor([len(drafts)]),
        candidate_ids=candidate_ids,
        draft_probs=draft_probs,
        ends_mask=torch.tensor([ends], dtype=torch.bool).reshape(1, len(drafts)),
    )


def _listed(q: Mapping[int, float] | None, draft: int, *, split: bool) -> list[tuple[int, float]]:
    """A column's candidates with their probabilities, the draft twice if it is to be split."""
    if q is None:
        return [(draft, 1.0)]
    if not split:
        return list(q.items())
    half = (draft, q[draft] / 2)
    return [half, *((token_id, p) for token_id, p in q.items() if token_id != draft), half]


def _compare_uniform(case: Case) -> list[Line]:
    indices = {"draw_index": case["draw_index"], "candidate_index": case["candidate_index"]}
    seeds, positions = torch.tensor([case["seed"]]), torch.tensor([case["position"]])
    got = get_ops(case["ops"]).uniforms(seeds, positions, Purpose(case["purpose"]), **indices)
    expected = oracles.rng.uniform(case["seed"], case["position"], case["purpose"], **indices)
    return [line("uniform", float(got[0]), expected)]


def _compare_proposal(case: Case) -> list[Line]:
    scores = decode(case["scores"], "float32")
    choice = get_ops(case["ops"]).propose(
        torch.from_numpy(scores)[None],
        torch.tensor([case["temperature"]], dtype=torch.float64),
        _row([case["uniform"]])[0],
    )
    law = oracles.propose.law(scores.tolist(), case["temperature"])
    expected = oracles.propose.draw(scores.tolist(), case["temperature"], case["uniform"])
    got = choice.probs[0].tolist()
    lines = [
        Line(f"q({i})", f"{got[i]:.15f}", f"{p:.15f}", abs(got[i] - p) <= 1e-12)
        for i, p in enumerate(law.probs)
    ]
    return [*lines, line("index", int(choice.index[0]), expected)]


def _compare_draw(case: Case) -> list[Line]:
    law = oracles.sample.Law(tuple(case["order"]), tuple(case["probs"]))
    token = int(get_ops(case["ops"]).draw(_law_tensors([law]), _row([case["uniform"]])[0])[0])
    return [line(f"token at u = {case['uniform']!r}", token, oracles.sample.draw(law, case["uniform"]))]


COMPARERS: dict[str, Callable[[Case], list[Line]]] = {
    "sample": _compare_sample,
    "round": _compare_round,
    "uniform": _compare_uniform,
    "draw": _compare_draw,
    "proposal": _compare_proposal,
}
