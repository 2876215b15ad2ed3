"""Study: what does a cold schema build do to a stream that is being generated in the same process?

One thread generates: a pause stands for the model's forward pass on a device, then the mask is filled and the
next token of a long JSON text is taken. Another thread builds schemas that are in no cache, one after the
other. The time from token to token is compared with and without the builds.
Expected: builds of up to a second at most double the p99.
"""

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from engine.request import OutputConstraint
from engine.text.compiler import ConstraintCompiler
from engine.text.matcher import Matcher
from experiments.mask_latency import DATA, JSON, encode
from experiments.schema_data import Case

FORWARD_SECONDS = 0.005
NUM_TOKENS = 600
SWITCH_SECONDS = (0.005, 0.0005)  # the interpreter's default, and a short one
Build = Callable[[Case], None]


def generate(
    matcher: Matcher, token_ids: Sequence[int], forward_seconds: float, stop: Callable[[int], bool]
) -> list[float]:
    """The seconds from token to token until `stop`, asked with the number of tokens taken, says so."""
    row = np.zeros((matcher.vocab_size + 31) // 32, dtype=np.int32)
    seconds: list[float] = []
    previous = time.perf_counter()
    for token_id in token_ids:
        if stop(len(seconds)):
            break
        time.sleep(forward_seconds)
        matcher.fill_words(row)
        matcher.preview((token_id,))
        matcher.confirm()
        now = time.perf_counter()
        seconds.append(now - previous)
        previous = now
    return seconds


def measure(
    compiler: ConstraintCompiler,
    cases: Sequence[Case],
    fresh_build: Callable[[], Build],
    *,
    num_tokens: int = NUM_TOKENS,
    forward_seconds: float = FORWARD_SECONDS,
) -> dict[str, Any]:
    """Run the stream alone, then beside a pass of builds for each switch interval; returns the record.

    `fresh_build` gives every pass a builder that has built nothing yet.
    """
    compiled, _ = compiler.compile(OutputConstraint.grammar(JSON % "*"))
    item = encode(compiler.vocabulary, DATA + ", ")
    opening = encode(compiler.vocabulary, "[")
    endless = opening + item * (num_tokens * 100 // len(item))
    alone = generate(compiled.new_matcher(), endless, forward_seconds, lambda taken: taken >= num_tokens)
    times = {"alone": _row(alone, (), 1.0)}
    for interval in SWITCH_SECONDS:
        builds: list[float] = []
        builder = threading.Thread(target=_build_all, args=(cases, fresh_build(), builds))
        with switching_after(interval):
            builder.start()
            beside = generate(
                compiled.new_matcher(),
                endless,
                forward_seconds,
                lambda _, thread=builder: not thread.is_alive(),
            )
            builder.join()
        name = f"beside cold builds, threads switched after {interval * 1e3:g} ms"
        times[name] = _row(beside, builds, times["alone"]["p99"])
    return {
        "method": (
            f"A forward pass of {forward_seconds * 1e3:g} ms; {len(cases)} cold builds one after the other. "
            "Times from token to token in milliseconds, builds in seconds."
        ),
        "forward_seconds": forward_seconds,
        "times": times,
    }


@contextlib.contextmanager
def switching_after(seconds: float) -> Iterator[None]:
    """Another switch interval of the interpreter, and the old one at the end."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(seconds)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def _build_all(cases: Sequence[Case], build: Build, builds: list[float]) -> None:
    for case in cases:
        begin = time.perf_counter()
        build(case)
        builds.append(time.perf_counter() - begin)


def _row(seconds: Sequence[float], builds: Sequence[float], p99: float) -> dict[str, float | int]:
    values = np.array(seconds or [float("nan")]) * 1e3
    shares = {"p50": 50, "p90": 90, "p99": 99, "max": 100}
    found = {name: round(float(np.percentile(values, share)), 3) for name, share in shares.items()}
    return {
        "tokens": len(seconds),
        **found,
        "p99 ratio": round(found["p99"] / p99, 2) if builds else 1.0,
        "builds": len(builds),
        "build s": round(sum(builds), 3),
        "longest build s": round(max(builds, default=0.0), 3),
    }
