"""Run independent jobs in spawned processes: one result per job, whatever happens to the process.

A job that raises gives a FAIL with its traceback; a job whose process dies (a core has been seen to crash)
gives a FAIL with the signal, and a fresh process takes the next job. Results are yielded as they finish, each
with the job's index, so that the caller can order them and nothing depends on scheduling.
"""

import multiprocessing
import os
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from attrs import define, evolve

from experiments.gates import Job
from experiments.verdict import Verdict, failed

ROOT = Path(__file__).resolve().parent.parent
Finished = tuple[int, list[Verdict]]


def run_job(job: Job) -> list[Verdict]:
    """Run one job here; an exception becomes a FAIL verdict that carries its traceback."""
    started = time.perf_counter()
    try:
        verdicts = list(job.gate.load()(**job.arguments))
        if not verdicts:
            raise RuntimeError("the gate returned no verdict, so it has shown nothing")
        return [_with_job(verdict, job) for verdict in _timed(verdicts, time.perf_counter() - started)]
    except Exception as error:
        seconds = time.perf_counter() - started
        return [_broken_off(job, f"raised {type(error).__name__}", readable_traceback(error)).timed(seconds)]


def _timed(verdicts: list[Verdict], seconds: float) -> list[Verdict]:
    """Checks that did not take their own time share what is left of the job's equally."""
    untimed = [verdict for verdict in verdicts if not verdict.seconds]
    left = max(0.0, seconds - sum(verdict.seconds for verdict in verdicts))
    return [v if v.seconds else v.timed(left / len(untimed)) for v in verdicts]


def readable_traceback(error: BaseException) -> str:
    """The traceback with file names relative to the project or to their package, free of local paths."""
    lines = []
    for frame in traceback.extract_tb(error.__traceback__):
        lines.append(f"  {_short_file(frame.filename)}:{frame.lineno} in {frame.name}")
        lines.append(f"    {frame.line}")
    return "\n".join([*lines, "".join(traceback.format_exception_only(error)).strip()])


def _short_file(filename: str) -> str:
    path = Path(filename)
    if path.is_relative_to(ROOT):
        return path.relative_to(ROOT).as_posix()
    parts = path.parts
    for anchor in ("site-packages", f"python{os.sys.version_info.major}.{os.sys.version_info.minor}"):
        if anchor in parts:
            return "/".join(parts[parts.index(anchor) + 1 :])
    return path.name


def _broken_off(job: Job, what: str, text: str) -> Verdict:
    path = job.arguments.get("path", "all")
    case = {"kind": "exception", "traceback": text}
    verdict = failed(job.gate.name, "runs to its end", path=path, detail=what, case=case)
    return _with_job(verdict, job)


def _with_job(verdict: Verdict, job: Job) -> Verdict:
    """The verdict with the job in its case, so that a replay can run the whole gate again."""
    if verdict.ok:
        return verdict
    record = {"gate": job.gate.name, "entry": job.gate.entry, "arguments": dict(job.arguments)}
    return evolve(verdict, case={"kind": "gate", **(verdict.case or {}), "job": record})


def run_inline(jobs: Sequence[Job], started: Callable[[int], None]) -> Iterator[Finished]:
    """Run the jobs one after the other in this process; `started` hears each index as it begins."""
    for index, job in enumerate(jobs):
        started(index)
        yield index, run_job(job)


def run_in_processes(
    jobs: Sequence[Job], num_workers: int, started: Callable[[int], None]
) -> Iterator[Finished]:
    """Run the jobs in `num_workers` spawned processes; yields (index, verdicts) in order of completion."""
    queue = list(reversed(range(len(jobs))))
    workers = [_Worker.spawn() for _ in range(min(num_workers, len(jobs)))]
    try:
        for worker in workers:
            worker.take(queue, jobs, started)
        while any(worker.busy for worker in workers):
            for position, worker in _ready(workers):
                yield worker.index, worker.collect(jobs[worker.index])
                if worker.dead:
                    worker = workers[position] = _Worker.spawn()
                worker.take(queue, jobs, started)
    finally:
        for worker in workers:
            worker.stop()


@contextmanager
def sigterm_as_interrupt() -> Iterator[None]:
    """Let a polite end of the process stop the workers too, as Ctrl-C does; without it they would work on."""
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def _ready(workers: list["_Worker"]) -> list[tuple[int, "_Worker"]]:
    handles = {}
    for position, worker in enumerate(workers):
        if worker.busy:
            handles[worker.pipe] = handles[worker.process.sentinel] = position
    return [(position, workers[position]) for position in sorted({handles[h] for h in wait(list(handles))})]


@define
class _Worker:
    """One spawned process with a pipe; `index` is the job it works on, -1 when idle."""

    process: BaseProcess
    pipe: Connection
    index: int = -1
    dead: bool = False

    @classmethod
    def spawn(cls) -> "_Worker":
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe()
        process = context.Process(target=_serve, args=(there,), daemon=True)
        process.start()
        there.close()
        return cls(process, here)

    @property
    def busy(self) -> bool:
        return self.index >= 0

    def take(self, queue: list[int], jobs: Sequence[Job], started: Callable[[int], None]) -> None:
        """Send the next job of the queue, if there is one."""
        self.index = queue.pop() if queue else -1
        if self.busy:
            self.pipe.send(jobs[self.index])
            started(self.index)

    def collect(self, job: Job) -> list[Verdict]:
        """Receive the verdicts of the job in work, or the verdict that its process died."""
        try:
            return self.pipe.recv()
        except (EOFError, ConnectionError):
            self.dead = True
            self.process.join()
            return [_broken_off(job, "its process died", _exit_words(self.process.exitcode))]

    def stop(self) -> None:
        self.process.terminate()
        self.process.join()


def _exit_words(code: int | None) -> str:
    if code is not None and code < 0:
        return f"the process was ended by {signal.Signals(-code).name}"
    return f"the process ended with exit code {code}"


def _serve(pipe: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    import torch

    torch.set_num_threads(1)
    while True:
        try:
            job = pipe.recv()
        except EOFError:
            return
        pipe.send(run_job(job))
