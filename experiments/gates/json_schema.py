"""Gate: JSON schemas under each decoding path.

Every path publishes, token by token, what the oracle's twin plays for the schemas whose language is written
down; what it finishes under any schema is judged by the validator over JSON text, repeated names included;
what it leaves unfinished is the beginning of a text without repeated names. Drafts that are illegal in the
middle, end the value early, span several JSON tokens or repeat a name are counted: a run that met too few of
them is INCONCLUSIVE.
"""

import time
from collections.abc import Mapping
from typing import Any

import attrs

from engine.request import FinishReason
from engine.runtime.contract import RowResult
from engine.runtime.engine import RequestHandle
from experiments.cases import Line
from experiments.gates import path_checks, paths
from experiments.gates.json_cases import CASES
from experiments.gates.json_world import NAME, STRUCTURE, JsonWorld, json_world, law_subject
from experiments.gates.path_checks import Asked, Finding
from experiments.gates.path_law import check_law
from experiments.gates.path_world import Case, World, text_of
from experiments.verdict import Verdict
from oracles.output_validator import validate_output
from oracles.unique_names import Reading, read

SETTINGS = ("plain", "filters", "penalties", "greedy")
FREE_NAMES = ("free names", "any object", "patterns of names") * 2  # more of what there is most to get wrong
BUDGET = 40
NUM_LANES = 16
JSON = ("JSON-1", "JSON-10", "JSON-14", "JSON-21", "JSON-28", "JSON-30", "JSON-37", "JSON-39", "JSON-43")
BAD_DRAFTS = {
    "drafts that repeat a name": 1,
    "completion ids drafted too early": 1,
    "judged drafts of several JSON tokens": 1,
}
PLAYED = {
    "drafts": 20,
    "accepted drafts": 5,
    "rejections by grammar": 3,
    "windows with an illegal draft": 3,
}
GREEDY = PLAYED | {"bonuses": 1}
FINISHED = 0.5  # the least share of requests whose value ends within the budget


def gate(
    *,
    path: str,
    ops: str,
    vocab: str,
    seed: int,
    num_seeds: int = 2,
    total_variation_seen: float | None = 0.05,
    checks: tuple[str, ...] = (),
    law_vocab: str = "",
) -> list[Verdict]:
    """Judge one path by the named exact checks, all by default, and by the law of a small schema.

    `total_variation_seen` None leaves the law out; `law_vocab` judges it on another vocabulary's tables.
    """
    verdicts = []
    for check in checks or tuple(CHECKS):
        started = time.perf_counter()
        verdict = exact_verdict(check, path, ops, vocab, json_world(vocab), seed, num_seeds)
        verdicts.append(verdict.timed(time.perf_counter() - started))
    if total_variation_seen is not None:
        law_vocab = law_vocab or vocab
        started = time.perf_counter()
        law = check_law(
            path, ops, law_vocab, seed, total_variation_seen=total_variation_seen, subject=law_subject
        )
        other = "" if law_vocab == vocab else f" ({law_vocab} vocabulary)"
        verdicts.append(attrs.evolve(law, check=law.check + other).timed(time.perf_counter() - started))
    return verdicts


def exact_verdict(
    check: str, path: str, ops: str, vocab: str, world: JsonWorld, seed: int, num_seeds: int
) -> Verdict:
    """Run one exact check and judge what it found."""
    wanted = CHECKS[check]
    finding = wanted.run(path, ops, world, seed, max(1, round(num_seeds * wanted.share)))
    where = {"path": path, "ops": ops, "vocab": vocab, "check": check, "table": world.seed}
    case = {"kind": "JSON schema", "replay": f"{__name__}:replay", **where}
    floors = {"finished outputs": round(FINISHED * finding.num_requests)} if check == VALID else {}
    return paths.judge(NAME, finding, wanted, case, floors)


def outputs(path: str, ops: str, world: World, seed: int, num_seeds: int) -> Finding:
    """Whatever is finished is a member, and whatever is not repeats no name."""
    finding = Finding()
    cases = [*CASES, *FREE_NAMES] * num_seeds
    asked = [
        Asked(case, settings, seed * 4096 + i, BUDGET)
        for i, case in enumerate(cases)
        for settings in SETTINGS
    ]
    watch = Watch(world)
    engine = world.engine(path, ops, NUM_LANES, observe=watch.observe)
    for one, handle in zip(asked, path_checks.run_all(engine, asked, world), strict=True):
        finding.compare(one, wrong_with(world.case(one.case), handle, world), None)
        finding.events["finished outputs"] += path_checks.outcome(handle)[1] == FinishReason.COMPLETED
    finding.events.update(watch.events)
    finding.stats = engine.stats
    return finding


def wrong_with(case: Case, handle: RequestHandle, world: World) -> str | None:
    """Why an output is not what its schema allows; None when nothing is wrong."""
    if isinstance(handle.outcome, Exception):
        return repr(handle.outcome)
    data, constraint = text_of(world.vocabulary, handle.token_ids), case.constraint
    assert constraint is not None, "a schema is asked for"
    if handle.result().finish_reason is FinishReason.COMPLETED:
        return validate_output(constraint.kind, constraint.source, data.decode(), constraint.options)
    what = read(data)
    return None if what is Reading.UNIQUE else f"{data!r}: {what.value}"


class Watch:
    """Counts, from the rounds of every request, the drafts that JSON makes hard."""

    def __init__(self, world: World) -> None:
        self.events = dict.fromkeys(BAD_DRAFTS, 0)
        self._world = world
        self._said: dict[RequestHandle, list[int]] = {}

    def observe(self, handle: RequestHandle, row: RowResult) -> None:
        """See one committed round."""
        said = self._said.setdefault(handle, [])
        known = self._world.vocabulary.token_bytes
        judged = row.drafts[: row.num_accepted + 1]
        crossing = [draft for draft in judged if 0 <= draft < len(known) and _crosses(known[draft])]
        self.events["judged drafts of several JSON tokens"] += len(crossing)
        if row.illegal_at is not None:
            self._see_illegal([*said, *row.drafts[: row.illegal_at]], row.drafts[row.illegal_at])
        said += row.tokens

    def _see_illegal(self, before: list[int], draft: int) -> None:
        vocabulary = self._world.vocabulary
        self.events["completion ids drafted too early"] += draft in vocabulary.eos_ids
        if 0 <= draft < vocabulary.size:
            what = read(text_of(vocabulary, [*before, draft]))
            self.events["drafts that repeat a name"] += what is Reading.REPEATED


def _crosses(data: bytes) -> bool:
    """Whether a token holds the end of one JSON token and the beginning of another."""
    return len(data) > 1 and sum(byte in STRUCTURE for byte in data) > 1


VALID = "finished outputs are valid"
CHECKS: Mapping[str, paths.Check] = {
    VALID: paths.Check(outputs, 0.5, (*JSON, "SERV-1"), PLAYED | BAD_DRAFTS),
    "equals the oracle's twin": paths.Check(path_checks.twin, 1.0, ("SPEC-7", *JSON), PLAYED),
    "greedy equals ordinary": paths.Check(path_checks.greedy, 0.5, ("SPEC-7", "SPECG-6"), GREEDY),
    "pause and replay": paths.Check(path_checks.replays, 0.5, ("LIFE-3", "LIFE-4"), PLAYED),
}


def replay(case: dict[str, Any]) -> list[Line]:
    """Run the request of a case file alone: its tokens beside the twin's, or what the validator says."""
    asked, world = Asked(**case["request"]), json_world(case["vocab"], case["table"])
    engine = world.engine(case["path"], case["ops"], 1)
    handle = path_checks.run_all(engine, [asked], world)[0]
    if asked.case in world.cases:
        got, wanted = path_checks.ending(handle), path_checks.Twins(world, case["path"]).run(asked)
        names = ("committed tokens", "status", "position of the failure")
        return [Line(n, str(a), str(b), a == b) for n, a, b in zip(names, got, wanted, strict=True)]
    text, wrong = text_of(world.vocabulary, handle.token_ids), wrong_with(CASES[asked.case], handle, world)
    return [Line("text", repr(text), wrong or "a member, or the beginning of one", wrong is None)]
