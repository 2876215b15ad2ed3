"""Gate: a lane moved by rounds holds what one built from its history holds, for every accepted length.

Drafts are told: what really follows, with one wrong token behind 0, 1, .. K right ones. The drafter's own
work goes on meanwhile and must leave no trace. Compared are the states of target and drafter, and the drafts
kept for the next round.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.request import SamplingSettings
from engine.runtime.batch import Batch, Drafts
from engine.runtime.contract import RowInput
from experiments.cases import Line
from experiments.gates.neural_world import NeuralWorld, neural_world
from experiments.verdict import Verdict, Visible, failed, passed, skipped

NAME = "neural state"
CHECK = "rounds equal a fresh build"
TOLERANCE = 1e-4  # of the largest entry of a tensor
NUM_ROUNDS = 3
Script = Callable[[Sequence[int]], list[int]]


class Told:
    """A drafter whose own state lives on, but which proposes what a script says follows a history."""

    def __init__(self, drafter: Any, script: Script) -> None:
        self._drafter, self._script = drafter, script
        self.num_drafts, self.on_device = drafter.num_drafts, True

    def draft(self, batch: Batch, ops: Any) -> Drafts:
        """Propose by the script, after the drafter's own draft."""
        self._drafter.draft(batch, ops)
        rows = [self._script(lane.history) for lane in batch.rows.lanes]
        padded = [[*row, *[0] * (self.num_drafts - len(row))] for row in rows]
        return Drafts(torch.tensor(padded), torch.tensor([len(row) for row in rows]))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._drafter, name)


def gate(*, path: str, model: str, seed: int, num_prompts: int = 2) -> list[Verdict]:
    """Judge one path of a model directory; nothing in it is random, whatever the seed."""
    return judge_world(neural_world(model), path, num_prompts, model)


def judge_world(world: NeuralWorld, path: str, num_prompts: int, model: str = "") -> list[Verdict]:
    """Judge one path of a world."""
    missing = world.without(path)
    if missing:
        return [skipped(NAME, CHECK, missing, path=path)]
    prompts = world.prompts[:num_prompts]
    num_drafts = drafter_of(world.program(path, 1)).num_drafts
    found = [line for n in range(num_drafts + 1) for line in compare(world, path, prompts, n)]
    facts: dict[str, Any] = {"path": path, "n": len(found), "clauses": ("SPEC-6", "SPEC-15", "TXN-11")}
    facts |= {"visible": Visible("of the largest entry", TOLERANCE), "detail": f"0 to {num_drafts} accepted"}
    wrong = next((line for line in found if not line.equal), None)
    if wrong is None:
        return [passed(NAME, CHECK, **facts)]
    case = {"kind": "neural state", "replay": "experiments.gates.neural_state:replay", "path": path}
    case |= {"model": model, "num_prompts": num_prompts, "what": f"{wrong.name}: {wrong.op}"}
    return [failed(NAME, CHECK, case=case, worst_error=1.0, **facts)]


def compare(world: NeuralWorld, path: str, prompts: Sequence[Sequence[int]], num_accepted: int) -> list[Line]:
    """Lines about every lane after some rounds that accepted `num_accepted` drafts each."""
    num_drafts = drafter_of(world.program(path, 1)).num_drafts
    texts = _texts(world, prompts, (NUM_ROUNDS + 1) * (num_drafts + 2))

    def script(history: Sequence[int]) -> list[int]:
        known = (text for text in texts if text[: len(history)] == list(history))
        text = next(known, [])  # a lane that has gone astray is told nothing
        drafts = text[len(history) : len(history) + num_drafts]
        if num_accepted < len(drafts):
            drafts[num_accepted] = (drafts[num_accepted] + 1) % world.vocabulary.size
        return drafts

    program = world.program(path, len(prompts))
    if num_drafts:
        vars(program)["_drafter"] = Told(drafter_of(program), script)
    rows = [RowInput(program.admit(prompt, endless(world)), False, 99) for prompt in prompts]
    pending = program.prefill(rows, None)
    program.commit(pending, [1] * len(rows))
    accepted = set()
    for _ in range(NUM_ROUNDS):
        pending = program.decode(rows, None)
        accepted |= {row.num_accepted for row in pending.rows}
        program.commit(pending, [len(row.tokens) for row in pending.rows])
    where = f"{num_accepted} accepted"
    lines = [
        Line(f"{where}: accepted lengths", str(accepted), str({num_accepted}), accepted == {num_accepted})
    ]
    for row, prompt in zip(rows, prompts, strict=True):
        lines += _against_fresh(world, path, program.snapshot(row.lane), prompt, where)
    return lines


def _against_fresh(
    world: NeuralWorld, path: str, moved: Any, prompt: Sequence[int], where: str
) -> list[Line]:
    fresh = world.program(path, 1)
    built = fresh.snapshot(fresh.admit(prompt, endless(world), moved.lane.history[len(prompt) :]))
    same = moved.lane.drafts == built.lane.drafts
    lines = [Line(f"{where}: drafts kept", str(moved.lane.drafts), str(built.lane.drafts), same)]
    for name in ("target", "drafter"):
        got, wanted = _tensors(getattr(moved, name)), _tensors(getattr(built, name))
        gaps = [_gap(a, b) for a, b in zip(got, wanted, strict=True)]
        worst = max([0.0, *gaps])
        lines.append(Line(f"{where}: {name} state", f"{worst:.2g} away", "0", worst < TOLERANCE))
    return lines


def _texts(world: NeuralWorld, prompts: Sequence[Sequence[int]], num_tokens: int) -> list[list[int]]:
    """Each prompt with what ordinary greedy decoding says after it."""
    program = world.program("ordinary", len(prompts))
    rows = [RowInput(program.admit(prompt, endless(world)), False, 99) for prompt in prompts]
    texts = [list(prompt) for prompt in prompts]
    for step in range(num_tokens):
        pending = program.decode(rows, None) if step else program.prefill(rows, None)
        for text, row in zip(texts, pending.rows, strict=True):
            text += row.tokens
        program.commit(pending, [1] * len(rows))
    return texts


def endless(world: NeuralWorld) -> SamplingSettings:
    """Greedy settings under which no output ends: a completion id would end its round early."""
    return SamplingSettings(temperature=0.0, banned_token_ids=frozenset(world.vocabulary.eos_ids))


def drafter_of(program: Any) -> Any:
    """The drafter inside a program."""
    return vars(program)["_drafter"]


def _tensors(saved: Any) -> list[Tensor]:
    if isinstance(saved, Tensor):
        return [saved]
    return [t for part in saved for t in _tensors(part)] if isinstance(saved, list | tuple) else []


def _gap(got: Tensor, wanted: Tensor) -> float:
    one, other = got.double().numpy(), wanted.double().numpy()
    if one.shape != other.shape:
        return float("inf")
    return float(np.abs(one - other).max() / np.abs(other).max()) if other.size else 0.0


def replay(case: dict[str, Any]) -> list[Line]:
    """Compare every accepted length of a case file's path again."""
    world, path = neural_world(case["model"]), case["path"]
    prompts = world.prompts[: case["num_prompts"]]
    num_drafts = drafter_of(world.program(path, 1)).num_drafts
    return [line for n in range(num_drafts + 1) for line in compare(world, path, prompts, n)]
