"""Fresh processes for checks, quickly: a process that has loaded what the project needs forks.

Run as a script, it reads one JSON order a line (root, job, limit in seconds), forks a process that sees only
the copy at `root`, and answers with one line of JSON: how that process ended ("" for an ordinary end).
Loading torch and the cores costs seconds and happens once; of the project itself nothing is loaded before
the fork, so each process imports it anew from its own copy.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import attrs

HEAVY = (
    "torch",
    "numpy",
    "scipy.stats",
    "xgrammar",
    "llguidance",
    "hypothesis",
    "pytest",
    "jaxtyping",
    "rich",
)


class NurseryLost(Exception):
    """The serving process itself has died; no check was judged."""


@attrs.define
class Nursery:
    """One serving process, as its client sees it."""

    process: subprocess.Popen[str]

    @classmethod
    def start(cls, load: Sequence[str] = HEAVY) -> "Nursery":
        """Start the process, which loads the modules named."""
        command = [sys.executable, "-P", str(Path(__file__).resolve()), *load]
        pipe = subprocess.PIPE
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        return cls(subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment))

    def run(self, root: Path, job: Path, limit: float) -> str:
        """Run a job file inside the copy at `root` and return how its process ended."""
        assert self.process.stdin is not None, "the process was started with pipes"
        assert self.process.stdout is not None, "the process was started with pipes"
        order = {"root": str(root), "job": str(job), "limit": limit}
        try:
            print(json.dumps(order), file=self.process.stdin, flush=True)
            line = self.process.stdout.readline()
        except (OSError, ValueError):  # the pipe is broken, or was closed here
            line = ""
        if not line:
            raise NurseryLost("the process that starts checks is gone")
        return json.loads(line)["ended"]

    def stop(self) -> None:
        """End the process."""
        self.process.terminate()
        self.process.communicate()


def _check(root: str, job: str) -> int:
    """In the forked process: become a plain process of the copy and run the job."""
    os.chdir(root)
    log = os.open("log.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(log, stream)
    sys.path.insert(0, root)
    from experiments.faults.child import main

    return main([job])


def _wait(pid: int, limit: float) -> str:
    """Wait for a process; one past its limit is killed."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done and os.WIFSIGNALED(status):
            return f"its process was ended by {signal.Signals(os.WTERMSIG(status)).name}"
        if done:
            return ""
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return f"did not end within {limit:.0f} s"


def _serve() -> None:
    for name in sys.argv[1:]:
        try:
            __import__(name)
        except ImportError:
            continue  # the check that needs it will say so
    for line in sys.stdin:
        order = json.loads(line)
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                code = _check(order["root"], order["job"])
            finally:
                os._exit(code)
        print(json.dumps({"ended": _wait(pid, order["limit"])}), flush=True)


if __name__ == "__main__":
    _serve()
