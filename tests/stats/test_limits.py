"""Limits against brute force over the binomial distribution, and their coverage on simulated runs."""

import math

import numpy as np
import pytest
from scipy import stats

from perfgate.stats.bounds import mean_limit, numbers_limit, quantile_limit
from perfgate.stats.distributions import time_constant
from perfgate.stats.statistics import ESTIMATORS, StatisticEstimate


def limit(runs, q, bound, upper=True, inclusive=True, confidence=0.95):
    return quantile_limit(
        [np.asarray(r, float) for r in runs], q, bound, upper=upper, inclusive=inclusive, confidence=confidence
    )


def independent(n, seed):
    """A run in which the time constant is 1 for every bound that matters: seeds are chosen by that."""
    return np.random.default_rng(seed).normal(100, 5, n)


@pytest.mark.parametrize("bound", [95, 100, 104, 108, 111, 130])
@pytest.mark.parametrize("seed", range(6))
def test_shares_are_the_binomial_ones(bound, seed):
    """Clopper and Pearson: at its lower bound so many bad values or more have a chance of 5 %, and so on."""
    found = limit([independent(80, seed)], 0.9, bound)
    k, n = found.share * found.n_effective, found.n_effective
    if found.share > 0:
        assert stats.beta.cdf(found.share_low, k, n - k + 1) == pytest.approx(0.05)
    if n == 80 and found.share > 0:
        assert stats.binom.sf(round(k) - 1, 80, found.share_low) == pytest.approx(0.05)
        assert stats.binom.cdf(round(k), 80, found.share_high) == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("q", "enough"), [(0.5, 5), (0.9, 29), (0.95, 59), (0.99, 299)], ids=["median", "p90", "p95", "p99"]
)
def test_a_pass_needs_a_known_number_of_values(q, enough):
    """All good: passes exactly from the n on for which q^n <= .05."""
    assert not limit([[1.0] * (enough - 1)], q, 2.0).kept
    assert limit([[1.0] * enough], q, 2.0).kept


def test_the_bounds_are_order_statistics_by_brute_force():
    x = independent(120, 5)
    found = limit([x], 0.9, 1000.0)
    descending = sorted(x, reverse=True)
    n = found.n_effective
    low = [c for c in range(1, 121) if stats.beta.ppf(0.05, c * n / 120, n - c * n / 120 + 1) > 1 - 0.9]
    high = [c for c in range(120) if stats.beta.ppf(0.95, c * n / 120 + 1, n - c * n / 120) <= 1 - 0.9]
    assert found.low == descending[low[0] - 1]
    assert found.high == descending[high[-1]]


@pytest.mark.parametrize("inclusive", [True, False])
def test_a_lower_limit_is_an_upper_one_seen_in_a_mirror(inclusive):
    runs = [independent(60, 1), independent(70, 2)]
    above = limit(runs, 0.25, 97.0, upper=False, inclusive=inclusive)
    below = limit([-r for r in runs], 0.75, -97.0, inclusive=inclusive)
    assert (above.estimate, above.low, above.high) == (-below.estimate, -below.high, -below.low)
    assert above.estimate == pytest.approx(np.quantile(np.concatenate(runs), 0.25))
    assert (above.share_low, above.share_high, above.allowed) == (below.share_low, below.share_high, below.allowed)


def test_a_value_on_the_bound_is_bad_only_when_inclusive():
    runs = [[1.0, 2.0, 3.0, 4.0] * 10]
    assert limit(runs, 0.5, 3.0, inclusive=True).share == 0.5
    assert limit(runs, 0.5, 3.0, inclusive=False).share == 0.25


def test_runs_that_differ_are_worth_less():
    alike = [independent(100, 1), independent(100, 2)]
    apart = [alike[0], alike[1] + 8]
    assert limit(apart, 0.5, 104.0).n_effective < 0.2 * limit(alike, 0.5, 104.0).n_effective


def test_coverage_of_a_p95():
    """600 runs of 200 against the true p95: both one-sided errors are near 5 % and not above by 3 errors."""
    truth = stats.norm.ppf(0.95)
    found = [limit([np.random.default_rng(s).normal(size=200)], 0.95, truth) for s in range(600)]
    room = 3 * math.sqrt(0.05 * 0.95 / 600)
    assert 0.005 < np.mean([f.broken for f in found]) < 0.05 + room
    assert 0.005 < np.mean([f.kept for f in found]) < 0.05 + room
    assert all((f.high is not None and f.high < truth) == f.kept for f in found)
    assert all((f.low is not None and f.low >= truth) == f.broken for f in found)


def test_one_mean_is_the_one_sample_t():
    x = np.random.default_rng(4).normal(50, 3, 40)
    estimate = ESTIMATORS["mean"].estimate(x)
    assert estimate.n_effective == 40
    interval = stats.ttest_1samp(x, 0).confidence_interval(0.9)
    found = mean_limit([estimate], 2.0, 0.95)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))


def test_several_means_are_moderated_by_their_inside():
    estimates = [StatisticEstimate(v, 50.0, 0.09, None) for v in (10.0, 11.0, 12.0)]
    found = mean_limit(estimates, 2.0, 0.95)
    margin = stats.t.ppf(0.95, 4) * math.sqrt((2 * 0.09 + 2.0) / 4 / 3)
    assert (found.estimate, found.n_effective) == (11.0, 150.0)
    assert (found.low, found.high) == pytest.approx((11 - margin, 11 + margin))


def test_numbers_are_a_plain_t():
    found = numbers_limit([12.0, 12.5, 11.9], 0.95)
    interval = stats.ttest_1samp([12.0, 12.5, 11.9], 0).confidence_interval(0.9)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))
    assert (found.n_effective, found.exact) == (None, False)


def test_one_number_is_taken_as_it_is():
    found = numbers_limit([12.0], 0.95)
    assert (found.estimate, found.low, found.high, found.exact) == (12.0, 12.0, 12.0, True)
    assert (found.n_effective, found.standard_error, found.degrees_of_freedom) == (None, 0.0, None)


def time_constant_at(x, bad):
    return max(time_constant(bad.astype(float)), time_constant(stats.rankdata(x)))


@pytest.mark.parametrize("q", [0.01, 0.1, 0.5, 0.9, 0.97, 0.995])
@pytest.mark.parametrize("n", [4, 5, 6, 30, 77])
def test_the_bounds_are_those_of_every_count_tried(n, q):
    """`low` is the f-th largest value, f the least count that fails; `high` the next after the most that passes."""
    x = np.random.default_rng(n).normal(size=n)
    found, worth = limit([x], q, 0.5), n / time_constant_at(x, x >= 0.5)
    shares = [(c * worth / n, worth - c * worth / n) for c in range(n + 1)]
    fails = [c for c in range(1, n + 1) if stats.beta.ppf(0.05, shares[c][0], shares[c][1] + 1) > 1 - q]
    passes = [c for c in range(n) if stats.beta.ppf(0.95, shares[c][0] + 1, shares[c][1]) <= 1 - q]
    descending = sorted(x, reverse=True)
    assert found.n_effective == pytest.approx(worth)
    assert found.low == (descending[fails[0] - 1] if fails else None)
    assert found.high == (descending[passes[-1]] if passes else None)
    assert found.allowed == 1 - q


def test_a_share_that_may_just_be_is_kept_and_not_broken():
    """Bounds that are exactly what is allowed: 1 - (1 - s) is s, for a share of a half and more."""
    most, least = limit([[1.0, 2.0, 3.0]], 0.5, 2.5).share_high, limit([[1.0] * 5], 0.5, 0.5).share_low
    kept, unbroken = limit([[1.0, 2.0, 3.0]], 1 - most, 2.5), limit([[1.0] * 5], 1 - least, 0.5)
    assert (kept.kept, kept.share_high, kept.high) == (True, kept.allowed, 2.0)
    assert (unbroken.broken, unbroken.share_low, unbroken.low) == (False, unbroken.allowed, None)


def test_none_and_all_bad_are_certain_on_their_side():
    below, beyond = limit([[1.0] * 40], 0.9, 2.0), limit([[3.0] * 40], 0.9, 2.0)
    assert (below.share, below.share_low, below.share_high) == (0, 0, pytest.approx(1 - 0.05 ** (1 / 40)))
    assert (beyond.share, beyond.share_low, beyond.share_high) == (1, pytest.approx(0.05 ** (1 / 40)), 1)


@pytest.mark.parametrize("shift", [0.0, 1.0, 4.0])
def test_several_runs_are_worth_what_their_overdispersion_leaves(shift):
    """Pearson's chi-square of the counts over its degrees of freedom divides what the runs are worth."""
    rng = np.random.default_rng(11)
    runs = [rng.normal(100 + shift * i, 5, 50 + 10 * i) for i in range(4)]
    taus = [time_constant_at(x, x >= 104) for x in runs]
    sizes = [len(x) / tau for x, tau in zip(runs, taus, strict=True)]
    counts = [(x >= 104).sum() / tau for x, tau in zip(runs, taus, strict=True)]
    p = sum(counts) / sum(sizes)
    chi = sum((k - p * size) ** 2 / (size * p * (1 - p)) for k, size in zip(counts, sizes, strict=True))
    assert limit(runs, 0.5, 104.0).n_effective == pytest.approx(sum(sizes) / max(1, chi / 3))


def test_a_run_that_remembers_is_worth_less():
    wander = np.cumsum(np.random.default_rng(3).normal(size=200))
    for x in (wander, wander.round()):
        for bound in (*np.quantile(x, np.linspace(0, 1, 40)), 1e9):
            expected = 200 / time_constant_at(x, x >= bound)
            assert limit([x], 0.5, bound).n_effective == pytest.approx(expected)
            assert expected < 60


def test_equal_values_have_the_mean_of_their_ranks():
    rng, remembering = np.random.default_rng(8), 0
    for _ in range(10):
        x = np.zeros(120)
        for i in range(1, 120):
            x[i] = 0.5 * x[i - 1] + rng.normal()
        x = np.floor(x**2 / 2)  # most are 0
        expected = 120 / time_constant_at(x, x >= 9.0)
        remembering += 31 < expected < 110
        assert limit([x], 0.5, 9.0).n_effective == pytest.approx(expected)
    assert remembering >= 4


def test_a_mean_that_is_hardly_known_has_one_degree_of_freedom():
    found = mean_limit([StatisticEstimate(10.0, 1.2, 4.0, None)], 2.0, 0.95)
    assert found.high - 10 == pytest.approx(2 * stats.t.ppf(0.95, 1))
    assert not found.exact
    found = mean_limit([StatisticEstimate(10.0, 4.0, 4.0, None)], 2.0, 0.95)
    assert 10 - found.low == pytest.approx(2 * stats.t.ppf(0.95, 3))


def test_an_unknown_variance_counts_as_none():
    found = mean_limit([StatisticEstimate(3.0, 9.0, None, 0.1), StatisticEstimate(3.0, 9.0, None, 0.1)], 2.0, 0.95)
    assert (found.low, found.high, found.n_effective) == (3.0, 3.0, 18.0)
