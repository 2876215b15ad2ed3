"""Gate: what a neural path says under a constraint is a member of the language, judged on its text alone."""

import re
from collections.abc import Callable
from typing import Any

import attrs

from engine.request import ConstraintKind, FinishReason, OutputConstraint, RequestOptions, SamplingSettings
from experiments.cases import Line
from experiments.gates.neural_world import Ask, NeuralWorld, neural_world
from experiments.verdict import Verdict, failed, inconclusive, passed, skipped
from oracles.output_validator import validate_output

NAME = "neural outputs"
CHECK = "finished outputs are members"
CLAUSES = ("JSON-1",)
Judge = Callable[[OutputConstraint, str], str | None]


def gate(*, path: str, model: str, seed: int, num_requests: int = 3, max_tokens: int = 160) -> list[Verdict]:
    """Judge one path of a model directory."""
    return judge_world(neural_world(model), path, seed, num_requests, max_tokens, model)


def judge_world(
    world: NeuralWorld, path: str, seed: int, num_requests: int, max_tokens: int, model: str = ""
) -> list[Verdict]:
    """Run every judged language greedily and sampled, and judge what finished."""
    missing = world.without(path)
    if missing:
        return [skipped(NAME, CHECK, missing, path=path)]
    asked = [
        Ask(i % len(world.prompts), case, 0.0 if i == 0 else 0.8, seed * 997 + i, max_tokens)
        for case, constraint in world.cases.items()
        if constraint is not None and constraint.kind in JUDGES
        for i in range(num_requests)
    ]
    texts = run(world, path, asked)
    finished = [(ask, text) for ask, text in zip(asked, texts, strict=True) if text is not None]
    facts: dict[str, Any] = {"path": path, "n": len(finished), "clauses": CLAUSES}
    facts["detail"] = f"{len(finished)} of {len(asked)} outputs finished within {max_tokens} tokens"
    for ask, text in finished:
        wrong = verdict_on(world, ask, text)
        if wrong is not None:
            case = {"kind": "neural outputs", "replay": "experiments.gates.neural_outputs:replay"}
            case |= {"path": path, "model": model, "ask": attrs.asdict(ask), "text": text, "wrong": wrong}
            return [failed(NAME, CHECK, case=case, worst_error=1.0, **facts)]
    if 2 * len(finished) < len(asked):
        return [inconclusive(NAME, CHECK, "too few outputs finished", **facts)]
    return [passed(NAME, CHECK, **facts)]


def run(world: NeuralWorld, path: str, asked: list[Ask]) -> list[str | None]:
    """The text of every request, None where the budget ended it; bytes that are no UTF-8 are replaced."""
    engine = world.engine(world.program(path, 4))
    handles = [engine.submit(world.prompts[ask.prompt], _options(world, ask)) for ask in asked]
    engine.run_until_done()
    texts: list[str | None] = []
    for handle in handles:
        done = handle.result().finish_reason is FinishReason.COMPLETED
        data = b"".join(world.vocabulary.token_bytes[i] for i in handle.token_ids)
        texts.append(data.decode(errors="replace") if done else None)
    return texts


def _options(world: NeuralWorld, ask: Ask) -> RequestOptions:
    sampling = SamplingSettings(temperature=ask.temperature, top_k=20, seed=ask.seed)
    return RequestOptions(ask.max_tokens, world.cases[ask.case], sampling)


def verdict_on(world: NeuralWorld, ask: Ask, text: str) -> str | None:
    """What is wrong with a finished output; None where it is a member."""
    constraint = world.cases[ask.case]
    assert constraint is not None
    return JUDGES[constraint.kind](constraint, text)


def _json(constraint: OutputConstraint, text: str) -> str | None:
    return validate_output(constraint.kind.value, constraint.source, text, constraint.options)


def _regex(constraint: OutputConstraint, text: str) -> str | None:
    """Python reads the patterns of these gates as ECMAScript does."""
    return None if re.fullmatch(constraint.source, text) else f"{text!r} does not match {constraint.source!r}"


def _choice(constraint: OutputConstraint, text: str) -> str | None:
    return None if text in constraint.choices else f"{text!r} is none of the choices"


JUDGES: dict[ConstraintKind, Judge] = {
    ConstraintKind.JSON_SCHEMA: _json,
    ConstraintKind.JSON_OBJECT: _json,
    ConstraintKind.REGEX: _regex,
    ConstraintKind.CHOICE: _choice,
}


def replay(case: dict[str, Any]) -> list[Line]:
    """Run the request of a case file alone and judge its text."""
    world, ask = neural_world(case["model"]), Ask(**case["ask"])
    text = run(world, case["path"], [ask])[0] or ""
    wrong = verdict_on(world, ask, text)
    return [Line("output", text, wrong or "a member", wrong is None)]
