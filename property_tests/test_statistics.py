"""The checker is checked: true laws pass at the stated rate, near misses fail at the stated n."""

import math
from itertools import product

import numpy as np
import pytest
from scipy import stats

from oracles.statistics import (
    Inconclusive,
    LawMismatch,
    assert_counts_match_pmf,
    assert_equal_laws,
    assert_tables_match_pmfs,
    min_discrepancy_of_counts,
    min_discrepancy_of_equal_laws,
    min_num_samples_of_counts,
    min_num_samples_of_equal_laws,
    require_events,
)

RATES = {"false_fail_rate": 1e-9, "false_pass_rate": 1e-9}
TARGET = (0.4, 0.3, 0.2, 0.1)
# What wrong acceptance rules emit for p = TARGET, q reversed; worked out by hand from each wrong rule.
NEAR_MISSES = {
    "accept with p instead of p/q": (0.64, 0.26, 0.06, 0.04),
    "correction drawn from p": (0.26, 0.32, 0.28, 0.14),
    "accept coin reused for the correction": (0.325, 0.375, 0.2, 0.1),
    "draft noise reused for the correction": (0.433, 0.267, 0.2, 0.1),
}


def table(values):
    return dict(enumerate(values))


def drawn(pmf, num_samples, seed):
    return table(np.random.default_rng(seed).multinomial(num_samples, pmf).tolist())


def refused(check, *args, **kwargs):
    try:
        check(*args, **kwargs)
    except LawMismatch:
        return True
    return False


def multinomial(counts, pmf):
    ways = math.factorial(sum(counts)) // math.prod(math.factorial(c) for c in counts)
    return ways * math.prod(p**c for p, c in zip(pmf, counts, strict=True))


def outcomes(num_samples, num_cells):
    return [c for c in product(range(num_samples + 1), repeat=num_cells) if sum(c) == num_samples]


@pytest.mark.parametrize("rate", [0.5, 0.1, 0.01])
@pytest.mark.parametrize("pmf", [(0.5, 0.3, 0.2), (0.9, 0.05, 0.05), (0.25, 0.25, 0.25, 0.25)])
def test_false_fails_stay_below_the_stated_rate_exactly(pmf, rate):
    """Summed over every outcome of 8 draws, the refused ones weigh at most the rate."""
    weight = sum(
        multinomial(counts, pmf)
        for counts in outcomes(8, len(pmf))
        if refused(assert_counts_match_pmf, table(counts), table(pmf), false_fail_rate=rate)
    )
    assert weight <= rate


@pytest.mark.parametrize("rate", [0.5, 0.1])
def test_two_sample_false_fails_stay_below_the_stated_rate_exactly(rate):
    pmf = (0.5, 0.3, 0.2)
    weight = sum(
        multinomial(one, pmf) * multinomial(other, pmf)
        for one in outcomes(5, 3)
        for other in outcomes(4, 3)
        if refused(assert_equal_laws, table(one), table(other), false_fail_rate=rate)
    )
    assert 0 < weight <= rate


@pytest.mark.parametrize("num_cells", [2, 4, 8, 16, 64])
def test_a_true_law_passes_on_many_seeds(num_cells):
    weights = np.arange(1, num_cells + 1) ** 2
    pmf = weights / weights.sum()
    for seed in range(40):
        one, other = drawn(pmf, 3000, seed), drawn(pmf, 5000, 1000 + seed)
        assert_counts_match_pmf(one, table(pmf), false_fail_rate=1e-9)
        assert_equal_laws(one, other, false_fail_rate=1e-9)


@pytest.mark.parametrize("num_cells", [3, 16])
def test_the_rate_is_a_total_on_many_seeds(num_cells):
    """At rate 0.2, 300 true tables fail no more often than a 0.2 coin would but for a 1e-9 tail."""
    pmf = table([1 / num_cells] * num_cells)
    fails = sum(
        refused(assert_counts_match_pmf, drawn(list(pmf.values()), 500, seed), pmf, false_fail_rate=0.2)
        for seed in range(300)
    )
    assert stats.binom.sf(fails - 1, 300, 0.2) > 1e-9


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_near_miss_laws_are_caught_at_the_promised_n(name):
    wrong = NEAR_MISSES[name]
    distance = sum(abs(a - b) for a, b in zip(TARGET, wrong, strict=True)) / 2
    num_samples = min_num_samples_of_counts(distance, table(TARGET), **RATES)
    for seed in range(10):
        with pytest.raises(LawMismatch):
            assert_counts_match_pmf(drawn(wrong, num_samples, seed), table(TARGET), false_fail_rate=1e-9)
        if distance > 0.1:
            size = min_num_samples_of_equal_laws(distance, len(TARGET), **RATES)
            with pytest.raises(LawMismatch):
                assert_equal_laws(
                    drawn(wrong, size, seed), drawn(TARGET, size, 50 + seed), false_fail_rate=1e-9
                )


@pytest.mark.parametrize("num_cells", [16, 64])
def test_a_wrong_law_on_many_cells_is_caught_at_the_promised_n(num_cells):
    """Each cell moves a little, so only the total variation shows it."""
    pmf = np.full(num_cells, 1 / num_cells)
    wrong = pmf + np.where(np.arange(num_cells) % 2, 0.1, -0.1) / num_cells
    num_samples = min_num_samples_of_counts(0.05, table(pmf), **RATES)
    with pytest.raises(LawMismatch):
        assert_counts_match_pmf(drawn(wrong, num_samples, 3), table(pmf), false_fail_rate=1e-9)
    size = min_num_samples_of_equal_laws(0.05, num_cells, **RATES)
    with pytest.raises(LawMismatch):
        assert_equal_laws(drawn(wrong, size, 3), drawn(pmf, size, 4), false_fail_rate=1e-9)


@pytest.mark.parametrize("p", [0.5, 0.1])
def test_power_is_exact_and_tight_on_two_cells(p):
    """At the stated discrepancy a wrong law passes at most at the stated rate; at 0.9 of it, more often."""
    num_samples = 20_000
    pmf = table((p, 1 - p))
    gap = min_discrepancy_of_counts(num_samples, pmf, **RATES)

    def pass_rate(shift):
        low, high = (
            next(
                k
                for k in range(int(num_samples * p), -1 if step < 0 else num_samples, step)
                if refused(assert_counts_match_pmf, table((k, num_samples - k)), pmf, false_fail_rate=1e-9)
            )
            for step in (-1, 1)
        )
        law = stats.binom(num_samples, p + shift)
        return law.cdf(high - 1) - law.cdf(low)

    assert max(pass_rate(gap * 1.001), pass_rate(-gap * 1.001)) <= 1e-9
    assert max(pass_rate(gap * 0.9), pass_rate(-gap * 0.9)) > 1e-9


def test_the_sample_sizes_that_reports_rely_on():
    assert 14_000 < min_num_samples_of_counts(0.05, table(TARGET), **RATES) < 16_000
    assert 80_000 < min_num_samples_of_counts(0.02, table(TARGET), **RATES) < 100_000
    assert min_num_samples_of_counts(0.01, table([1 / 8] * 8), **RATES) < 420_000
    size = min_num_samples_of_equal_laws(0.05, 4, **RATES)
    assert (
        min_discrepancy_of_equal_laws(size, size, 4, **RATES)
        <= 0.05
        < (min_discrepancy_of_equal_laws(size - 1, size - 1, 4, **RATES))
    )


def test_more_samples_see_less():
    sizes = [1000 * 2**i for i in range(8)]
    for pmf in (TARGET, [1 / 20] * 20):
        gaps = [min_discrepancy_of_counts(n, table(pmf), **RATES) for n in sizes]
        assert gaps == sorted(gaps, reverse=True)
        assert 1.8 < gaps[-3] / gaps[-1] < 2.2


def test_one_count_on_an_impossible_cell_fails():
    pmf = {"a": 0.5, "b": 0.5, "x": 0.0}
    assert_counts_match_pmf({"a": 5, "b": 5, "x": 0}, pmf, false_fail_rate=1e-9)
    for cell in ("x", "unknown"):
        with pytest.raises(LawMismatch) as caught:
            assert_counts_match_pmf({"a": 5, "b": 5, cell: 1}, pmf, false_fail_rate=1e-9)
        assert caught.value.event == (cell,)


def test_a_certain_law_has_nothing_to_see():
    assert_counts_match_pmf({"a": 7}, {"a": 1.0}, false_fail_rate=1e-9)
    assert min_discrepancy_of_counts(1, {"a": 1.0}, **RATES) == 0.0


def test_frequencies_are_refused():
    """Shares that sum to 1 would pass any test; 100,000 counts of the same shares fail."""
    pmf, shares = table((0.05, 0.25, 0.70)), (0.02, 0.18, 0.80)
    with pytest.raises(ValueError, match="not frequencies"):
        assert_counts_match_pmf(table(shares), pmf, false_fail_rate=1e-9)
    with pytest.raises(LawMismatch):
        assert_counts_match_pmf(table([round(s * 100_000) for s in shares]), pmf, false_fail_rate=1e-9)
    with pytest.raises(ValueError, match="sums to 1"):
        assert_counts_match_pmf({0: 3}, {0: 0.5}, false_fail_rate=1e-9)


def test_several_tables_share_one_rate():
    """A count whose tail lies between the rate and its half fails alone and passes beside another table."""
    pmf, good = table((0.5, 0.5)), table((10, 10))
    edge = table((18, 2))
    rate = 2 * stats.binom.sf(17, 20, 0.5) * 1.5
    with pytest.raises(LawMismatch, match="edge"):
        assert_tables_match_pmfs({"edge": (edge, pmf)}, false_fail_rate=rate)
    assert_tables_match_pmfs({"edge": (edge, pmf), "good": (good, pmf)}, false_fail_rate=rate)


def test_too_few_events_are_inconclusive():
    require_events({"drafts": 100, "illegal": 9}, {"drafts": 100})
    with pytest.raises(Inconclusive, match="illegal: 9 of at least 10, bonus: 0 of at least 1") as caught:
        require_events({"drafts": 100, "illegal": 9}, {"drafts": 50, "illegal": 10, "bonus": 1})
    assert caught.value.shortfalls == {"illegal": (9, 10), "bonus": (0, 1)}
