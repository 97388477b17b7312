"""Distributions against printed tables and scipy.stats, the sample quantile against numpy."""

import math

import numpy as np
import pytest
from scipy import stats

from perfgate.stats.distributions import beta_quantile, sample_quantile, t_quantile, t_tail
from perfgate.stats.steady import median

# Student's t, upper 5 % points, as every textbook prints them.
T_TABLE = {1: 6.314, 2: 2.920, 3: 2.353, 5: 2.015, 10: 1.812, 30: 1.697, 1e6: 1.645}


@pytest.mark.parametrize(("df", "expected"), T_TABLE.items())
def test_t_quantile_is_the_printed_one(df, expected):
    assert t_quantile(df, 0.95) == pytest.approx(expected, abs=6e-4)


@pytest.mark.parametrize("df", [1, 2.1544, 6, 11.3, 500])
@pytest.mark.parametrize("p", [0.01, 0.5, 0.8, 0.95, 0.9999])
def test_t_agrees_with_scipy_stats(df, p):
    t = t_quantile(df, p)
    assert t == pytest.approx(stats.t.ppf(p, df), rel=1e-9, abs=1e-12)
    assert t_tail(df, t) == pytest.approx(1 - p, rel=1e-9)


def test_t_tail_keeps_its_digits_far_out():
    assert t_tail(11, 30.0) == pytest.approx(stats.t.sf(30.0, 11), rel=1e-9)


@pytest.mark.parametrize(("a", "b"), [(1, 30), (5, 95), (2.7, 40.1), (80, 3)])
@pytest.mark.parametrize("p", [0.05, 0.5, 0.95])
def test_beta_quantile_agrees_with_scipy_stats(a, b, p):
    assert beta_quantile(a, b, p) == pytest.approx(stats.beta.ppf(p, a, b), rel=1e-9)


@pytest.mark.parametrize("n", [1, 2, 3, 10, 101])
@pytest.mark.parametrize("q", [0.0, 0.1, 0.5, 0.95, 0.999, 1.0])
def test_sample_quantile_agrees_with_numpy(n, q):
    ordered = np.sort(np.random.default_rng(n).lognormal(size=n))
    assert sample_quantile(ordered, q) == pytest.approx(np.quantile(ordered, q), rel=1e-14)


@pytest.mark.parametrize("n", [*range(1, 9), 200, 1001, 3000])
def test_the_median_is_that_of_numpy(n):
    for seed in range(4):
        x = np.random.default_rng(seed).normal(size=n)
        assert median(x) == np.median(x)
    assert math.isnan(median(np.zeros(0)))
