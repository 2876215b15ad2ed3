"""Checks on observed counts, each with its false-fail rate and its power stated in numbers.

Three functions a check: `assert_*` raises LawMismatch, on true laws with probability <= `false_fail_rate`,
which is the TOTAL of the call; `min_discrepancy_*` is the total variation that n samples are sure to see
(missed with probability <= `false_pass_rate`); `min_num_samples_*` is the n that sees a given one. All are
finite-sample guarantees (exact binomial or hypergeometric tails, or Hoeffding-type bounds), never limits.
The inputs are counts of independent draws, never frequencies. Total variation is the largest difference of
any event's probability, so with few cells every event is tested with its exact tail.
"""

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import combinations

import numpy as np
from scipy import special, stats

Counts = Mapping[Hashable, int]
Pmf = Mapping[Hashable, float]
MAX_EVENT_CELLS = 12


class LawMismatch(AssertionError):
    """The counts contradict the law: an event, its count, and the tail probability that is too small."""

    def __init__(self, table: str, event: tuple, observed: int, expected: float, tail: float, allowed: float):
        super().__init__(
            f"{table}: event {event} seen {observed} times, expected {expected:.1f};"
            f" tail {tail:.3g} is below {allowed:.3g}"
        )
        self.event, self.observed, self.expected, self.tail, self.allowed = (
            event,
            observed,
            expected,
            tail,
            allowed,
        )


class Inconclusive(AssertionError):
    """The run did not hold enough events of some kind to prove anything; that is not a pass."""

    def __init__(self, shortfalls: Mapping[str, tuple[int, int]]):
        lines = [f"{name}: {seen} of at least {floor}" for name, (seen, floor) in shortfalls.items()]
        super().__init__("INCONCLUSIVE: too few events: " + ", ".join(lines))
        self.shortfalls = dict(shortfalls)


def require_events(seen: Mapping[str, int], floors: Mapping[str, int]) -> None:
    """Raise Inconclusive unless every named kind of event was seen at least as often as its floor."""
    short = {name: (seen.get(name, 0), floor) for name, floor in floors.items() if seen.get(name, 0) < floor}
    if short:
        raise Inconclusive(short)


# --- counts against a known law -----------------------------------------------------------------------


def assert_counts_match_pmf(
    counts: Counts, pmf: Pmf, *, false_fail_rate: float, table: str = "counts"
) -> None:
    """Raise LawMismatch if the counts are not independent draws from `pmf`.

    One count on a cell of probability 0 fails at once. With at most 12 positive cells each event has its
    exact binomial upper tail; with more, each cell and its complement has, and the total variation its bound.
    """
    pmf = _checked_pmf(pmf)
    n = _checked_total(counts)
    for cell, count in counts.items():
        if count and pmf.get(cell, 0.0) <= 0:
            raise LawMismatch(table, (cell,), count, 0.0, 0.0, false_fail_rate)
    cells = [cell for cell, p in pmf.items() if p > 0]
    allowed = _event_rate(len(cells), false_fail_rate)
    events = [tuple(cells[i] for i in event) for event in _events(len(cells))]
    observed = np.array([sum(counts.get(c, 0) for c in event) for event in events])
    probs = np.array([min(1.0, sum(pmf[c] for c in event)) for event in events])
    _refuse_small_tails(table, events, observed, n * probs, stats.binom.sf(observed - 1, n, probs), allowed)
    if len(cells) > MAX_EVENT_CELLS:
        _assert_variation_within_bound(counts, {c: pmf[c] for c in cells}, n, false_fail_rate / 2, table)


def assert_tables_match_pmfs(tables: Mapping[str, tuple[Counts, Pmf]], *, false_fail_rate: float) -> None:
    """Check several tables of one run; `false_fail_rate` is shared out evenly among them."""
    for name, (counts, pmf) in tables.items():
        assert_counts_match_pmf(counts, pmf, false_fail_rate=false_fail_rate / len(tables), table=name)


def min_discrepancy_of_counts(
    num_samples: int, pmf: Pmf, *, false_fail_rate: float, false_pass_rate: float
) -> float:
    """The total variation from `pmf` beyond which n draws of any other law on its support are refused.

    A law at a larger distance passes with probability <= `false_pass_rate`. Draws off the support fail at
    once, so they only help.
    """
    probs = [p for p in _checked_pmf(pmf).values() if p > 0]
    if len(probs) < 2:
        return 0.0
    if len(probs) > MAX_EVENT_CELLS:
        threshold = _variation_threshold(probs, num_samples, false_fail_rate / 2)
        return threshold + math.sqrt(-math.log(false_pass_rate) / (2 * num_samples))
    allowed = _event_rate(len(probs), false_fail_rate)
    events = np.unique([round(sum(probs[i] for i in event), 12) for event in _events(len(probs))])
    critical = stats.binom.isf(allowed, num_samples, events) + 1  # the least count that is refused
    blind = critical > num_samples
    seen = special.betainccinv(
        np.minimum(critical, num_samples), np.maximum(num_samples - critical + 1, 1), false_pass_rate
    )
    return float(np.max(np.where(blind, 1.0, seen) - events))


def min_num_samples_of_counts(
    discrepancy: float, pmf: Pmf, *, false_fail_rate: float, false_pass_rate: float
) -> int:
    """The n from which on a total variation of `discrepancy` from `pmf` is seen."""
    return _least(
        lambda n: (
            min_discrepancy_of_counts(
                n, pmf, false_fail_rate=false_fail_rate, false_pass_rate=false_pass_rate
            )
            <= discrepancy
        )
    )


# --- two samples against each other -------------------------------------------------------------------


def assert_equal_laws(one: Counts, other: Counts, *, false_fail_rate: float, table: str = "counts") -> None:
    """Raise LawMismatch if the two samples are not draws from one and the same law.

    Given the pooled counts each event's count is hypergeometric; its exact upper tail is tested for every
    event of up to 12 seen cells, beyond that for each cell and its complement, and the difference of the
    two empirical laws against Serfling's bound over all events.
    """
    n_one, n_other = _checked_total(one), _checked_total(other)
    cells = [cell for cell in {**one, **other} if one.get(cell, 0) + other.get(cell, 0)]
    allowed, n = _event_rate(len(cells), false_fail_rate), n_one + n_other
    events = [tuple(cells[i] for i in event) for event in _events(len(cells))]
    observed = np.array([sum(one.get(c, 0) for c in event) for event in events])
    pooled = observed + np.array([sum(other.get(c, 0) for c in event) for event in events])
    tails = stats.hypergeom.sf(observed - 1, n, pooled, n_one)
    _refuse_small_tails(table, events, observed, n_one * pooled / n, tails, allowed)
    if len(cells) > MAX_EVENT_CELLS:
        gap = sum(abs(one.get(c, 0) / n_one - other.get(c, 0) / n_other) for c in cells) / 2
        limit = _pooled_threshold(n_one, n_other, len(cells), false_fail_rate / 2)
        if gap > limit:
            raise LawMismatch(
                table, ("total variation",), round(gap * n_one), limit * n_one, 0.0, false_fail_rate / 2
            )


def min_discrepancy_of_equal_laws(
    num_one: int, num_other: int, num_cells: int, *, false_fail_rate: float, false_pass_rate: float
) -> float:
    """The total variation between two laws on `num_cells` cells beyond which two samples are told apart."""
    share = false_fail_rate if num_cells <= MAX_EVENT_CELLS else false_fail_rate / 2
    luck = math.sqrt(-math.log(false_pass_rate) * (1 / num_one + 1 / num_other) / 2)
    return _pooled_threshold(num_one, num_other, num_cells, share) + luck


def min_num_samples_of_equal_laws(
    discrepancy: float, num_cells: int, *, false_fail_rate: float, false_pass_rate: float
) -> int:
    """The size of each of two equal samples from which on a total variation of `discrepancy` is seen."""
    rates = {"false_fail_rate": false_fail_rate, "false_pass_rate": false_pass_rate}
    return _least(lambda n: min_discrepancy_of_equal_laws(n, n, num_cells, **rates) <= discrepancy)


# --- events, thresholds, search -----------------------------------------------------------------------


def _refuse_small_tails(
    table: str,
    events: Sequence[tuple],
    observed: np.ndarray,
    expected: np.ndarray,
    tails: np.ndarray,
    allowed: float,
) -> None:
    """Raise LawMismatch for the event with the smallest tail when that is below `allowed`."""
    if len(events) and tails.min() < allowed:
        i = int(tails.argmin())
        raise LawMismatch(table, events[i], int(observed[i]), float(expected[i]), float(tails[i]), allowed)


def _events(num_cells: int) -> Iterator[tuple[int, ...]]:
    """Every event that can tell two laws apart: all proper subsets, or each cell and its complement."""
    if num_cells < 2:
        return
    sizes = range(1, num_cells) if num_cells <= MAX_EVENT_CELLS else (1, num_cells - 1)
    for size in sizes:
        yield from combinations(range(num_cells), size)


def _event_rate(num_cells: int, false_fail_rate: float) -> float:
    """What one event may spend: the upper tail of an event's complement is its own lower tail."""
    if num_cells <= MAX_EVENT_CELLS:
        return false_fail_rate / max(1, 2**num_cells - 2)
    return false_fail_rate / 2 / (2 * num_cells)


def _variation_threshold(probs: list[float], n: int, rate: float) -> float:
    """The empirical total variation that true draws pass with probability <= rate: the smaller of two bounds.

    Bretagnolle-Huber-Carol (Hoeffding over all events), or the mean plus McDiarmid (one draw moves it 1/n).
    """
    all_events = math.sqrt((len(probs) * math.log(2) - math.log(rate)) / (2 * n))
    mean = sum(math.sqrt(p * (1 - p) / n) for p in probs) / 2
    return min(all_events, mean + math.sqrt(-math.log(rate) / (2 * n)))


def _assert_variation_within_bound(counts: Counts, pmf: Pmf, n: int, rate: float, table: str) -> None:
    over = [c for c, p in pmf.items() if counts.get(c, 0) > n * p]
    observed, expected = sum(counts.get(c, 0) for c in over), n * sum(pmf[c] for c in over)
    if (observed - expected) / n > _variation_threshold(list(pmf.values()), n, rate):
        raise LawMismatch(table, tuple(over), observed, expected, 0.0, rate)


def _pooled_threshold(n_one: int, n_other: int, num_cells: int, rate: float) -> float:
    """Serfling's bound for drawing without replacement, over all events: the gap between the two samples."""
    logs = num_cells * math.log(2) - math.log(rate)
    return math.sqrt(logs * (n_one + n_other) * (n_other + 1) / (2 * n_one * n_other**2))


def _least(enough: Callable[[int], bool]) -> int:
    """The least n at which `enough` holds, found by doubling and halving."""
    high = 1
    while not enough(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _checked_pmf(pmf: Pmf) -> Pmf:
    if any(p < 0 for p in pmf.values()) or abs(sum(pmf.values()) - 1) > 1e-9:
        raise ValueError(f"a pmf has no negative entry and sums to 1; got sum {sum(pmf.values())!r}")
    return pmf


def _checked_total(counts: Counts) -> int:
    if any(int(c) != c or c < 0 for c in counts.values()) or not sum(counts.values()):
        raise ValueError("counts are whole numbers, not frequencies, and at least one is positive")
    return int(sum(counts.values()))
