"""Gate: a path under rehearsed capture and replay publishes its eager tokens, in disturbed mixed batches."""

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from engine.runtime.graphs import RehearsalLauncher
from engine.runtime.launch import tensors_of
from experiments.cases import Line
from experiments.gates.neural_tokens import Setup, play
from experiments.gates.neural_world import Ask, NeuralWorld, asks, neural_world
from experiments.verdict import Verdict, failed, passed, skipped

NAME = "neural graphs"
CHECK = "rehearsed replay equals eager"
NUM_LANES = 3


def gate(*, path: str, model: str, seed: int, num_requests: int = 5, max_tokens: int = 12) -> list[Verdict]:
    """Judge one path of a model directory."""
    return judge_world(neural_world(model), path, seed, num_requests, max_tokens, model)


def judge_world(
    world: NeuralWorld, path: str, seed: int, num_requests: int, max_tokens: int, model: str = ""
) -> list[Verdict]:
    """Run greedy and sampled requests eagerly and rehearsed."""
    missing = world.without(path)
    if missing:
        return [skipped(NAME, CHECK, missing, path=path)]
    asked = asks(world, num_requests, max_tokens, seed, 0.0) + asks(
        world, num_requests, max_tokens, seed, 0.8
    )
    eager, rehearsed, num = both(world, path, asked, seed)
    facts: dict[str, Any] = {"path": path, "n": len(asked), "clauses": ("EXEC-2", "EXEC-3", "EXEC-16")}
    facts["detail"] = f"{num} recordings"
    wrong = next((i for i in range(len(asked)) if eager[i] != rehearsed[i]), None)
    if wrong is None:
        return [passed(NAME, CHECK, **facts)]
    case = {"kind": "neural graphs", "replay": "experiments.gates.neural_graphs:replay", "path": path}
    case |= {"model": model, "seed": seed, "num_requests": num_requests, "max_tokens": max_tokens}
    case |= {"what": f"{asked[wrong]}: got {rehearsed[wrong]}, eagerly {eager[wrong]}"}
    return [failed(NAME, CHECK, case=case, worst_error=1.0, **facts)]


def both(
    world: NeuralWorld, path: str, asked: list[Ask], seed: int
) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]], int]:
    """Tokens of every request run eagerly and under rehearsal, and how many phases were recorded."""
    setup = Setup(NUM_LANES, disturb=True)
    eager = play(world, world.program(path, NUM_LANES), asked, setup, seed)
    launcher = RehearsalLauncher(lambda: resident(program))
    program = world.program(path, NUM_LANES, launcher=launcher)
    rehearsed = play(world, program, asked, setup, seed)
    return eager.tokens, rehearsed.tokens, launcher.num_recordings


def resident(program: Any) -> Iterator[Tensor]:
    """The tensors that a program's phases reach without being given: states, weights, caches, masks."""
    target, drafter = vars(program)["_target"], vars(program)["_drafter"]
    yield from target.state.tensors()
    yield from target.model.parameters()
    yield vars(program)["_bitmask"]
    held = getattr(drafter, "__dict__", {})
    caches = [*held.get("_caches", ()), *([held["_cache"]] if "_cache" in held else [])]
    yield from tensors_of([(cache.keys, cache.values) for cache in caches])


def replay(case: dict[str, Any]) -> list[Line]:
    """Run a case file's requests again, eagerly and rehearsed."""
    world, num, length = neural_world(case["model"]), case["num_requests"], case["max_tokens"]
    asked = asks(world, num, length, case["seed"], 0.0) + asks(world, num, length, case["seed"], 0.8)
    eager, rehearsed, _ = both(world, case["path"], asked, case["seed"])
    pairs = zip(asked, rehearsed, eager, strict=True)
    return [Line(f"{ask.case}, seed {ask.seed}", str(a), str(b), a == b) for ask, a, b in pairs]
