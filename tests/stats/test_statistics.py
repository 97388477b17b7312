"""Each statistic against an independent formula, and its noise against repeated draws."""

import math
import statistics

import numpy as np
import pytest
from scipy import stats

from perfgate.stats.statistics import (
    ESTIMATORS,
    Count,
    Extreme,
    Quantile,
    Smooth,
    StatisticEstimate,
    parse_statistic,
    time_constant,
)

X = np.random.default_rng(3).lognormal(3, 0.2, 83)

VALUES = {
    "mean": statistics.fmean(X),
    "total": math.fsum(X),
    "median": statistics.median(X),
    "min": min(X),
    "max": max(X),
    "p0": min(X),
    "p100": max(X),
    "count": 83.0,
    "stddev": statistics.stdev(X),
    "cv": statistics.stdev(X) / statistics.fmean(X),
    "trimmed_mean": stats.trim_mean(X, 0.2),
    "p50": np.percentile(X, 50),
    "p95": np.percentile(X, 95),
    "p99.9": np.percentile(X, 99.9),
}


@pytest.mark.parametrize(("name", "expected"), VALUES.items())
def test_value(name, expected):
    assert parse_statistic(name).estimate(X).value == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_registry_knows_each_by_its_name(name):
    assert parse_statistic(name) is ESTIMATORS[name]
    assert ESTIMATORS[name].name == name


KINDS = [
    ("p0", Extreme("p0", largest=False)),
    ("p100", Extreme("p100", largest=True)),
    ("p50", Quantile("p50", 0.5)),
    ("p99.9", Quantile("p99.9", 99.9 / 100)),
    ("p05", Quantile("p05", 0.05)),
]


@pytest.mark.parametrize(("name", "expected"), KINDS)
def test_percentiles(name, expected):
    assert parse_statistic(name) == expected


@pytest.mark.parametrize(
    "name", ["", "p", "p101", "p100.1", "p-5", "p95 ", "P95", "p9_5", "p٩٥", "pnan", "average", "Median"]
)
def test_an_unknown_name_is_refused_with_the_known_ones(name):
    with pytest.raises(ValueError, match=r"unknown statistic .*: use mean, median, .* such as p95"):
        parse_statistic(name)


@pytest.mark.parametrize("name", ["mean", "total", "median", "p75", "trimmed_mean", "stddev", "cv"])
def test_the_noise_is_that_of_repeated_runs(name):
    """The mean estimated variance of the logarithm against the variance seen over 600 normal runs of 100."""
    rng = np.random.default_rng(7)
    estimates = [parse_statistic(name).estimate(rng.normal(10, 1, 100)) for _ in range(600)]
    seen = np.var([math.log(e.value) for e in estimates], ddof=1)
    assert np.mean([e.log_variance for e in estimates]) == pytest.approx(seen, rel=0.25)


def test_the_noise_of_a_sticky_mean_is_that_of_repeated_runs():
    rng = np.random.default_rng(8)
    estimates = []
    for _ in range(400):
        noise = rng.normal(0, 1, 400)
        for i in range(1, 400):
            noise[i] += 0.7 * noise[i - 1]
        estimates.append(ESTIMATORS["mean"].estimate(100 + noise))
    seen = np.var([e.value for e in estimates], ddof=1)
    assert np.mean([e.variance for e in estimates]) == pytest.approx(seen, rel=0.25)


def test_a_count_is_known_without_noise():
    assert ESTIMATORS["count"] == Count()
    assert ESTIMATORS["count"].estimate(X) == StatisticEstimate(83.0, 83.0, 0.0, 0.0)


def test_mean_is_the_textbook_one():
    found = ESTIMATORS["mean"].estimate(X)
    assert found.variance == pytest.approx(np.var(X, ddof=1) / found.n_effective)
    assert found.log_variance == pytest.approx(found.variance / found.value**2)


def test_hill_index_of_a_pareto_tail():
    """H estimates 1 / alpha, here .5; k = 100 of 10,000 values leave a standard error of 10 %."""
    x = stats.pareto.ppf((np.arange(10_000) + 0.5) / 10_000, 2)
    expected = math.pi**2 / 6 * 0.5**2
    assert ESTIMATORS["max"].estimate(x).log_variance == pytest.approx(expected, rel=0.1)
    assert ESTIMATORS["min"].estimate(1 / x).log_variance == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize("name", ["mean", "median", "min", "max", "trimmed_mean", "total", "p95"])
def test_a_value_of_zero_has_no_logarithm(name):
    assert parse_statistic(name).estimate(np.zeros(20)).log_variance is None


@pytest.mark.parametrize("name", [*ESTIMATORS, "p95"])
def test_one_value_is_enough(name):
    found = parse_statistic(name).estimate(np.array([5.0]))
    assert found.value == {"count": 1.0, "stddev": 0.0, "cv": 0.0}.get(name, 5.0)
    assert found.log_variance in (0.0, None)


def test_every_statistic_is_of_a_known_kind():
    assert {type(s) for s in ESTIMATORS.values()} == {Smooth, Quantile, Extreme, Count}


def gumbel(*logs):
    """pi^2 / 6 H^2 with H the mean of the k most extreme logarithms less the next one."""
    return math.pi**2 / 6 * (sum(logs[:-1]) / (len(logs) - 1) - logs[-1]) ** 2


TAILS = [
    # the k = max(2, sqrt n) most extreme values and the next one speak
    ([8.0], 0.0),
    ([8.0, 2.0], 0.0),
    ([8.0, 4.0, 1.0], gumbel(math.log(8), math.log(4), 0)),
    ([1.0, 8.0, 2.0, 1.0, 4.0], gumbel(math.log(8), math.log(4), math.log(2))),
    ([1.0] * 12 + [16.0, 8.0, 4.0, 2.0], gumbel(math.log(16), math.log(8), math.log(4), math.log(2), 0)),
]


@pytest.mark.parametrize(("values", "expected"), TAILS)
def test_the_noise_of_an_extreme_is_that_of_its_tail(values, expected):
    found = ESTIMATORS["max"].estimate(np.array(values))
    assert found.log_variance == pytest.approx(expected)
    assert found.n_effective == len(values)
    assert ESTIMATORS["min"].estimate(1 / np.array(values)).log_variance == pytest.approx(expected)


def test_a_tail_down_to_zero_has_no_logarithm():
    assert ESTIMATORS["max"].estimate(np.array([3.0, 2.0, 0.0])).log_variance is None
    assert ESTIMATORS["min"].estimate(np.array([0.5, 0.6, 0.7])).log_variance is not None


@pytest.mark.parametrize("n", [1, 2, 5, 9, 40, 100])
@pytest.mark.parametrize("q", [0.05, 0.5, 0.75, 0.95])
@pytest.mark.parametrize("order", [np.array, np.sort])
def test_the_noise_of_a_percentile_is_that_of_the_ranks_around_it(n, q, order):
    """Woodruff: half the distance in logarithms between the quantiles one standard error of the rank away.

    A run that only rises remembers so long that one standard error leads beyond its largest value.
    """
    x = order(np.random.default_rng(n).lognormal(-3, 0.3, n))
    value = np.quantile(x, q)
    effective = n / time_constant((x <= value).astype(float))
    h = math.sqrt(q * (1 - q) / effective)
    low, high = np.quantile(x, [max(q - h, 0), min(q + h, 1)])
    found = parse_statistic(f"p{100 * q:g}").estimate(x)
    assert (found.value, found.n_effective) == pytest.approx((value, effective))
    assert found.log_variance == pytest.approx((math.log(high / low) / 2) ** 2, abs=1e-18)


def test_a_millionth_stands_for_what_is_at_zero():
    x = np.array([0.0] * 5 + [2.0] * 6)
    n_effective = 11 / time_constant(np.ones(11))
    assert ESTIMATORS["median"].estimate(x).n_effective == n_effective
    assert ESTIMATORS["median"].estimate(x).log_variance == pytest.approx((math.log(1e6) / 2) ** 2)


INFLUENCES = {
    "mean": lambda x: x,
    "total": lambda x: len(x) * x,
    "trimmed_mean": lambda x: np.clip(x, np.quantile(x, 0.2), np.quantile(x, 0.8)) / 0.6,
    "stddev": lambda x: x.std(ddof=1) * ((x - x.mean()) ** 2 / x.var() - 1) / 2,
    "cv": lambda x: x.std(ddof=1) / x.mean() * (((x - x.mean()) ** 2 / x.var() - 1) / 2 - (x - x.mean()) / x.mean()),
}


@pytest.mark.parametrize(("name", "influence"), INFLUENCES.items())
def test_the_noise_is_the_variance_of_the_influence(name, influence):
    """The infinitesimal jackknife, written out: var / n_eff, and over the squared value for the logarithm."""
    for seed in range(5):
        x = np.random.default_rng(seed).gamma(4, 0.1, 33 + seed)
        found, y = ESTIMATORS[name].estimate(x), influence(x)
        assert found.n_effective == pytest.approx(len(x) / time_constant(y))
        assert found.variance == pytest.approx(y.var(ddof=1) / found.n_effective)
        assert found.log_variance == pytest.approx(found.variance / found.value**2)


def test_two_values_have_a_variance():
    assert ESTIMATORS["mean"].estimate(np.array([1.0, 3.0])).variance == 1.0
