"""The loop of every training stage: seeded steps, a schedule, checkpoints to go on from, progress.

A step's data depend on the seed and the step's number only, so a run that was stopped goes on to the same
bytes. A stage's folder holds `checkpoint.pt` (parameters, optimizer, step, log), replaced as a whole.
"""

import csv
import io
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor, nn

from experiments.training.optimizer import Optimizer

CHECKPOINT = "checkpoint.pt"
CLIP = 1.0
EVERY_LINE = 20  # steps between two lines of the log


@attrs.frozen
class Schedule:
    """Learning rates by step: a warm-up, a plateau, and a linear way down over the last `decay` share."""

    num_steps: int
    matrix_rate: float
    other_rate: float
    warm_up: int = 40
    decay: float = 0.4

    def share(self, step: int) -> float:
        """The part of the full rates at a step, from 0 up to 1."""
        rising = (step + 1) / max(1, min(self.warm_up, self.num_steps // 4))
        falling = (self.num_steps - step) / max(1.0, self.decay * self.num_steps)
        return min(1.0, rising, falling)


@attrs.frozen
class Line:
    """One line of a log: means since the last line."""

    stage: str
    step: int
    tokens: int
    seconds: float
    loss: float
    rate: float


@attrs.frozen
class Task:
    """What a stage trains: a name, a module, a schedule, the loss of a step with its token count."""

    name: str
    module: nn.Module
    schedule: Schedule
    loss: Callable[[int], tuple[Tensor, int]]
    save_every: int = 100


def save_atomically(path: Path, content: Any) -> None:
    """Write a file by `torch.save` so that it is either the old or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".partial")
    torch.save(content, beside)
    os.replace(beside, path)


def train(task: Task, work: Path, minutes: float, console: Console) -> bool:
    """Train until the schedule ends or the minutes are over; returns whether it ended."""
    optimizer = Optimizer(task.module.named_parameters())
    step, lines, path = 0, [], work / task.name / CHECKPOINT
    if path.is_file():
        saved = torch.load(path, weights_only=True)
        task.module.load_state_dict(saved["module"])
        optimizer.load(saved["optimizer"])
        step, lines = saved["step"], [Line(**line) for line in saved["lines"]]
    stop = time.perf_counter() + 60 * minutes
    with _progress(console) as progress:
        bar = progress.add_task(task.name, total=task.schedule.num_steps, completed=step)
        meter = _Meter(task, lines)
        while step < task.schedule.num_steps and time.perf_counter() < stop:
            meter.add(*_step(task, optimizer, step), step)
            step += 1
            if step % EVERY_LINE == 0 or step == task.schedule.num_steps:
                progress.update(bar, completed=step, description=meter.report(step))
                if not console.is_terminal:
                    console.print(f"{step:>6}/{task.schedule.num_steps}  {meter.said}", highlight=False)
            if step % task.save_every == 0:
                _save(path, task, optimizer, step, lines)
    _save(path, task, optimizer, step, lines)
    return step >= task.schedule.num_steps


def _step(task: Task, optimizer: Optimizer, step: int) -> tuple[float, int]:
    loss, num_tokens = task.loss(step)
    loss.backward()
    nn.utils.clip_grad_norm_(optimizer.parameters, CLIP)
    share = task.schedule.share(step)
    optimizer.step(task.schedule.matrix_rate * share, task.schedule.other_rate * share)
    return float(loss.detach()), num_tokens


class _Meter:
    """Gathers the steps of one line."""

    def __init__(self, task: Task, lines: list[Line]) -> None:
        self._task, self._lines, self.said = task, lines, task.name
        self._clear()

    def _clear(self) -> None:
        self._losses: list[float] = []
        self._tokens, self._since = 0, time.perf_counter()

    def add(self, loss: float, num_tokens: int, step: int) -> None:
        """Count one step."""
        self._losses.append(loss)
        self._tokens += num_tokens

    def report(self, step: int) -> str:
        """Close a line; returns it as words."""
        seconds = time.perf_counter() - self._since
        mean = sum(self._losses) / len(self._losses)
        rate = self._task.schedule.matrix_rate * self._task.schedule.share(step - 1)
        self._lines.append(Line(self._task.name, step, self._tokens, seconds, mean, rate))
        left = (self._task.schedule.num_steps - step) * seconds / len(self._losses) / 60
        self.said = (
            f"{self._task.name}  loss {mean:.4f}  {self._tokens / seconds:,.0f} tokens/s  {left:.1f} min left"
        )
        self._clear()
        return self.said


def _progress(console: Console) -> Progress:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=console, disable=not console.is_terminal)


def _save(path: Path, task: Task, optimizer: Optimizer, step: int, lines: list[Line]) -> None:
    content = {
        "module": task.module.state_dict(),
        "optimizer": optimizer.state(),
        "step": step,
        "lines": [attrs.asdict(line) for line in lines],
    }
    save_atomically(path, content)


def read_lines(work: Path, name: str) -> list[Line]:
    """The log of a stage so far."""
    path = work / name / CHECKPOINT
    return [Line(**line) for line in torch.load(path, weights_only=True)["lines"]] if path.is_file() else []


def as_csv(lines: list[Line]) -> str:
    """A log as CSV with a header."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([field.name for field in attrs.fields(Line)])
    writer.writerows(attrs.astuple(line) for line in lines)
    return text.getvalue()
