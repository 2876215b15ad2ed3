"""A schema engine in a process of its own: what hangs is killed, what crashes is noted, the run goes on.

The process tells when a case has compiled and when it is judged; each part has its own time limit. A fresh
process takes the next case after a kill. One process, one thread, nothing else of the bench beside it.
"""

import contextlib
import multiprocessing
import os
import resource
import signal
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from attrs import define, field, frozen

from experiments.schema_data import Case
from experiments.schema_engines import ENGINES, Options, encoding
from experiments.schema_judge import Judge, Refusal, Result, not_compiled

START_SECONDS = 180.0
MAX_BYTES = 8 * 2**30


@frozen
class Limits:
    """Seconds for one compile and for all instances of one case."""

    compile_seconds: float = 20.0
    walk_seconds: float = 60.0


@define
class Worker:
    """One engine's process, started when it is first needed."""

    engine: str
    options: Options
    limits: Limits
    make: Callable[[str, Options], Judge] = field(default=None)
    _process: BaseProcess | None = field(init=False, default=None)
    _pipe: Connection | None = field(init=False, default=None)

    def judge(self, case: Case) -> Result:
        """The result of one case, whatever happens to the process."""
        if self._process is None:
            self._start()
        begin = time.perf_counter()
        self._pipe.send(case)
        try:
            answer = self._answer(self.limits.compile_seconds, "compile")
            if not isinstance(answer, Result):
                answer = self._answer(self.limits.walk_seconds, "walk")
            return answer
        except TimeoutError as error:
            self.stop()
            seconds = time.perf_counter() - begin
            slow = Refusal("slow", f"the {error} takes longer than its limit")
            return not_compiled(case, "slow", slow, seconds if str(error) == "compile" else float("nan"))
        except (EOFError, ConnectionError):
            return not_compiled(case, "died", Refusal("died", f"the process ended: {self._exit()}"))

    def _answer(self, seconds: float, part: str) -> object:
        if not self._pipe.poll(seconds):
            raise TimeoutError(part)
        return self._pipe.recv()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, there = context.Pipe()
        arguments = (there, self.make or judge_of, self.engine, self.options)
        self._process = context.Process(target=_serve, args=arguments, daemon=True)
        self._process.start()
        there.close()
        self._answer(START_SECONDS, "start")

    def _exit(self) -> str:
        self._process.join(5)
        code = self._process.exitcode
        self.stop()
        return signal.Signals(-code).name if code and code < 0 else f"exit code {code}"

    def stop(self) -> None:
        """End the process; the next case starts another."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._pipe.close()
            self._process = self._pipe = None


@contextlib.contextmanager
def workers(engines: list[str], options: Options, limits: Limits) -> Iterator[list[Worker]]:
    """A worker for each engine; all are stopped at the end."""
    found = [Worker(name, options, limits) for name in engines]
    try:
        yield found
    finally:
        for worker in found:
            worker.stop()


def judge_of(engine: str, options: Options) -> Judge:
    """The judge of an engine by name."""
    made, encoder = ENGINES[engine](options), encoding()
    return Judge(made, encoder.encode_ordinary, made.vocabulary.eos_ids)


def _serve(pipe: Connection, make: Callable[[str, Options], Judge], engine: str, options: Options) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    resource.setrlimit(resource.RLIMIT_DATA, (MAX_BYTES, MAX_BYTES))
    import torch

    torch.set_num_threads(1)
    judge = make(engine, options)
    with contextlib.suppress(Exception):
        judge.compile(Case("", "", '{"type": "boolean"}', ()))  # warm: indexes are built on the first use
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the libraries log every construct they drop
    pipe.send("ready")
    with contextlib.suppress(EOFError):
        while True:
            _judge(pipe, judge, pipe.recv())


def _judge(pipe: Connection, judge: Judge, case: Case) -> None:
    try:
        language = judge.compile(case)
        if isinstance(language, Refusal):
            pipe.send(not_compiled(case, "refused", language))
            return
        pipe.send("compiled")
        pipe.send(judge.judge(case, language))
    except Exception as error:
        died = Refusal("died", f"{type(error).__name__}: {str(error)[:200]}")
        pipe.send(not_compiled(case, "died", died))
