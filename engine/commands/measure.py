"""What a run of an engine took: one clock around submit and step, one arrival for every committed row.

A run is a batch of requests that are all admitted together: its first step builds every prompt, samples the
first tokens and runs one round. Prefill ends with the last first token; decoding is what follows. An arrival
brings 1 to K+1 tokens at once; `token gap` is the time since the arrival before it, shared by its tokens.
"""

import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import attrs
import numpy as np
from jaxtyping import Int32

from engine.request import ConstraintObservation, GenerationResult, RequestOptions
from engine.runtime.contract import RowInput, RowResult
from engine.runtime.engine import Engine, RequestHandle
from engine.runtime.stats import SpecStats
from engine.text.masks import PositionState

Request = tuple[Sequence[int], RequestOptions]


@attrs.frozen
class Arrival:
    """A committed row: which request it belongs to, when it came (seconds of the run), how many tokens."""

    request: int
    seconds: float
    num_tokens: int


@attrs.frozen(eq=False)
class Measurement:
    """One run; `results` stand in the order of the requests, an exception where one ended in it."""

    requests: tuple[Request, ...]
    results: tuple[GenerationResult | Exception, ...]
    arrivals: tuple[Arrival, ...]
    stats: SpecStats
    prepare_seconds: float
    total_seconds: float

    @property
    def num_prompt_tokens(self) -> int:
        """Tokens of all prompts."""
        return sum(len(prompt) for prompt, _ in self.requests)

    @property
    def num_tokens(self) -> int:
        """Committed tokens, completion ids included."""
        return sum(arrival.num_tokens for arrival in self.arrivals)

    @property
    def first_token_seconds(self) -> tuple[float, ...]:
        """Time from the start of the run to each request's first token."""
        return tuple(arrivals[0].seconds for arrivals in self._by_request())

    @property
    def prefill_seconds(self) -> float:
        """Time until the last first token, preparation left out."""
        return max(self.first_token_seconds, default=0.0)

    @property
    def decode_seconds(self) -> float:
        """Time after the last first token."""
        return self.total_seconds - self.prefill_seconds

    @property
    def num_decode_tokens(self) -> int:
        """Committed tokens that are no request's first."""
        return self.num_tokens - len(self.first_token_seconds)

    @property
    def num_rounds(self) -> int:
        """Rounds of decoding, one for each request that took part."""
        return len(self.arrivals) - len(self.first_token_seconds)

    @property
    def accepted_length(self) -> float:
        """Tokens that a round's verification makes possible, the last one included: 1 + accepted / rounds."""
        return 1.0 + self.stats.num_accepted / self.num_rounds if self.num_rounds else 1.0

    @property
    def observations(self) -> tuple[ConstraintObservation, ...]:
        """What the matchers did, of the requests that had one."""
        found = (result.constraint for result in self.results if isinstance(result, GenerationResult))
        return tuple(one for one in found if one is not None)

    @property
    def round_gaps(self) -> tuple[float, ...]:
        """Seconds between two arrivals of one request."""
        return tuple(gap for gap, _ in self._gaps())

    @property
    def token_gaps(self) -> tuple[float, ...]:
        """Seconds that each decoded token waited: its arrival's gap, shared by those that came with it."""
        return tuple(gap / count for gap, count in self._gaps() for _ in range(count))

    def _gaps(self) -> Iterator[tuple[float, int]]:
        for arrivals in self._by_request():
            for before, after in pairwise(arrivals):
                yield after.seconds - before.seconds, after.num_tokens

    def _by_request(self) -> list[list[Arrival]]:
        rows: dict[int, list[Arrival]] = {}
        for arrival in self.arrivals:
            rows.setdefault(arrival.request, []).append(arrival)
        return list(rows.values())


class Watch:
    """An engine's `observe`: notes every committed row of the requests of one run."""

    def __init__(self) -> None:
        self.arrivals: list[Arrival] = []
        self._start, self._requests, self._counts = 0.0, dict[int, int](), list[int]()

    def begin(self, handles: Sequence[RequestHandle]) -> None:
        """Start the clock of a run."""
        self.arrivals = []
        self._requests = {id(handle): index for index, handle in enumerate(handles)}
        self._counts = [0] * len(handles)
        self._start = time.perf_counter()

    def seconds(self) -> float:
        """Time since the run began."""
        return time.perf_counter() - self._start

    def __call__(self, handle: RequestHandle, result: RowResult) -> None:
        """Note one committed row."""
        index, total = self._requests[id(handle)], handle.session.num_generated
        self.arrivals.append(Arrival(index, self.seconds(), total - self._counts[index]))
        self._counts[index] = total


def run(engine: Engine, watch: Watch, requests: Sequence[Request]) -> Measurement:
    """Run requests together, as many as the engine has lanes; the engine has nothing else to do.

    Raises RequestError where one is refused; what ends a request later is its result.
    """
    begin = time.perf_counter()
    handles = [engine.submit(prompt_ids, options) for prompt_ids, options in requests]
    prepare_seconds = time.perf_counter() - begin
    stats = SpecStats()
    watch.begin(handles)
    while not all(handle.done for handle in handles):
        stats.merge(engine.step())
    total_seconds = watch.seconds()
    outcomes = tuple(handle.outcome for handle in handles)
    results = tuple(outcome for outcome in outcomes if outcome is not None)
    return Measurement(tuple(requests), results, tuple(watch.arrivals), stats, prepare_seconds, total_seconds)


@attrs.define
class MaskDensity:
    """Legal ids of the masks that a program was lent, and how many there could have been."""

    num_legal: int = 0
    num_ids: int = 0

    @property
    def share(self) -> float:
        """Legal share of all ids; NaN without a mask."""
        return self.num_legal / self.num_ids if self.num_ids else float("nan")


class DensityProbe:
    """A program that counts the bits of every mask it is lent; for runs whose time is not measured."""

    def __init__(self, program: Any, vocab_size: int) -> None:
        self._program, self._vocab_size = program, vocab_size
        self.density = MaskDensity()

    def prefill(self, rows: Sequence[RowInput], masks: Any) -> Any:
        """Sample first tokens."""
        return self._program.prefill(rows, None if masks is None else _Counted(masks, self))

    def decode(self, rows: Sequence[RowInput], masks: Any) -> Any:
        """Run one round."""
        return self._program.decode(rows, None if masks is None else _Counted(masks, self))

    def count(self, states: Sequence[PositionState], words: Int32[np.ndarray, "positions words"]) -> None:
        """Count the rows that hold a legal set."""
        rows = [i for i, state in enumerate(states) if state is PositionState.READY]
        self.density.num_legal += int(np.unpackbits(words[rows].view(np.uint8)).sum())
        self.density.num_ids += len(rows) * self._vocab_size

    def __getattr__(self, name: str) -> Any:
        return getattr(self._program, name)


class _Counted:
    """The lent masks, seen by a probe as they are written."""

    def __init__(self, masks: Any, probe: DensityProbe) -> None:
        self._masks, self._probe = masks, probe

    def fill(
        self, row: int, drafts: Sequence[int], out: Int32[np.ndarray, "positions words"]
    ) -> tuple[PositionState, ...]:
        """Write and count the legal sets of one row."""
        states = self._masks.fill(row, drafts, out)
        self._probe.count(states, out)
        return states
