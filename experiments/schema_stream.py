"""Study: what does a cold schema build do to a stream that is being generated in the same process?

One thread generates: a pause stands for the model's forward pass on a device, then the mask is filled and the
next token of a long JSON text is taken. Another thread builds schemas that are in no cache, one after the
other. The time from token to token is compared with and without the builds.
Expected: builds of up to a second at most double the p99.
"""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from engine.request import OutputConstraint
from engine.text.compiler import ConstraintCompiler
from engine.text.matcher import Matcher
from experiments.mask_latency import DATA, JSON, encode
from experiments.schema_data import Case

FORWARD_SECONDS = 0.005
NUM_TOKENS = 600
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
    build: Build,
    *,
    num_tokens: int = NUM_TOKENS,
    forward_seconds: float = FORWARD_SECONDS,
) -> dict[str, Any]:
    """Run the stream alone, then beside one pass of builds over `cases`; returns the study's record."""
    compiled, _ = compiler.compile(OutputConstraint.grammar(JSON % "*"))
    item = encode(compiler.vocabulary, DATA + ", ")
    opening = encode(compiler.vocabulary, "[")
    endless = opening + item * (num_tokens * 100 // len(item))
    alone = generate(compiled.new_matcher(), endless, forward_seconds, lambda taken: taken >= num_tokens)
    builds: list[float] = []
    builder = threading.Thread(target=_build_all, args=(cases, build, builds))
    builder.start()
    beside = generate(compiled.new_matcher(), endless, forward_seconds, lambda _: not builder.is_alive())
    builder.join()
    times = {"alone": _row(alone), "beside cold builds": _row(beside)}
    return {
        "method": (
            f"A forward pass of {forward_seconds * 1e3:g} ms; {len(builds)} cold builds one after the other, "
            f"{sum(builds):.1f} s together, the longest {max(builds, default=0):.2f} s. Milliseconds."
        ),
        "forward_seconds": forward_seconds,
        "builds": len(builds),
        "build_seconds": round(sum(builds), 3),
        "longest_build_seconds": round(max(builds, default=0.0), 3),
        "times": times,
        "p99 ratio": round(times["beside cold builds"]["p99"] / times["alone"]["p99"], 2),
    }


def _build_all(cases: Sequence[Case], build: Build, builds: list[float]) -> None:
    for case in cases:
        begin = time.perf_counter()
        build(case)
        builds.append(time.perf_counter() - begin)


def _row(seconds: Sequence[float]) -> dict[str, float | int]:
    values = np.array(seconds or [float("nan")]) * 1e3
    shares = {"p50": 50, "p90": 90, "p99": 99, "max": 100}
    return {
        "tokens": len(seconds),
        **{name: round(float(np.percentile(values, share)), 3) for name, share in shares.items()},
    }
