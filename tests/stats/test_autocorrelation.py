"""The time constant against direct sums, and against processes whose time constant is known."""

import math

import numpy as np
import pytest

from perfgate.stats.distributions import _summed, time_constant


def direct(z):
    """The definition, term by term."""
    n = len(z)
    d = [v - sum(z) / n for v in z]
    total = sum(v * v for v in d)
    r = [sum(d[i] * d[i + k] for i in range(n - k)) / total for k in range(max(3, min(n // 3, 200)) + 1)]
    a = min(0.97, r[1] + (1 + 3 * max(r[1], 0)) / n)
    first_order = (1 + a) / (1 - a) if a > 2 / math.sqrt(n) else 1
    summed = 1
    for k in range(1, len(r) - 1, 2):
        pair = r[k] + r[k + 1] + 2 / n
        if pair <= 1 / math.sqrt(n):
            break
        summed += 2 * pair
    return min(max(1, first_order, summed), 2 if n < 8 else n / 4)


def autoregression(n, coefficient, seed):
    noise = np.random.default_rng(seed).normal(size=n)
    x = np.zeros(n)
    for i in range(n):
        x[i] = (coefficient * x[i - 1] if i else 0) + noise[i]
    return x


@pytest.mark.parametrize("n", [4, 5, 7, 8, 9, 30, 61, 100, 650])
@pytest.mark.parametrize("coefficient", [-0.5, 0.0, 0.5, 0.95])
def test_agrees_with_direct_sums(n, coefficient):
    z = autoregression(n, coefficient, seed=n)
    assert time_constant(z) == pytest.approx(direct(z.tolist()), rel=1e-12)


def test_of_indicators_agrees_with_direct_sums():
    z = (autoregression(300, 0.8, seed=1) > 0.3).astype(float)
    assert time_constant(z) == pytest.approx(direct(z.tolist()), rel=1e-12)


@pytest.mark.parametrize(
    "z", [[], [1.0], [1.0, 2.0, 9.0], [136.0, -28.0, -28.0, -192.0], [0.1] * 50, [1e-320, 2e-320] * 20]
)
@np.errstate(all="ignore")
def test_is_one_where_nothing_can_be_seen(z):
    assert time_constant(np.array(z)) == 1.0


@np.errstate(all="ignore")
def test_squares_beyond_every_float_are_no_memory():
    """Near the largest square some correlations are still finite; no unit of the values lets a series remember more."""
    z = autoregression(20, 0.0, seed=1)
    found = {time_constant(z * 10.0**exponent) for exponent in np.arange(150, 156, 0.02)}
    assert found == {1.0}


def test_a_pair_just_at_what_chance_does_is_not_summed():
    assert _summed(np.zeros(3), 4) == 1.0  # its correction is 2 / 4, and chance 1 / sqrt(4)


@pytest.mark.parametrize(("n", "longest"), [(4, 2), (7, 2), (8, 2), (40, 10), (400, 100)])
def test_a_slope_is_as_bad_as_it_gets(n, longest):
    assert time_constant(np.arange(float(n))) == pytest.approx(min(longest, direct(list(range(n)))))
    assert time_constant(np.arange(float(n))) <= longest


@pytest.mark.parametrize(("coefficient", "low", "high"), [(0.0, 1.0, 1.15), (0.5, 2.7, 3.6), (0.9, 14, 24)])
def test_of_an_autoregression_is_about_the_true_one(coefficient, low, high):
    """(1 + a) / (1 - a) is 1, 3 and 19; the estimate errs to the safe side."""
    found = [time_constant(autoregression(2000, coefficient, seed)) for seed in range(40)]
    assert low <= np.mean(found) <= high


def test_a_smooth_wave_is_not_longer_than_its_first_order_may_be():
    """(1 + .97) / (1 - .97), though neighbours are correlated by .998; a quarter of the run would be 250."""
    wave = np.sin(2 * np.pi * np.arange(1000) / 100)
    assert time_constant(wave) == pytest.approx(1.97 / 0.03) == pytest.approx(direct(wave.tolist()))


@pytest.mark.parametrize(("n", "coefficient", "seed"), [(10, 0.0, 25), (11, 0.5, 31)])
def test_a_short_run_is_summed_over_one_pair(n, coefficient, seed):
    """A second pair, which these runs would have at a fourth lag, would make them remember longer."""
    z = autoregression(n, coefficient, seed)
    assert time_constant(z) == pytest.approx(direct(z.tolist()))
    assert time_constant(z) < n / 4


@pytest.mark.parametrize("seed", [1, 6, 7, 10])
def test_a_correlation_that_chance_seldom_has_is_believed(seed):
    """It is between 2 and 3 standard errors, and no sum of pairs is larger."""
    z = autoregression(30, 0.3, seed)
    assert time_constant(z) == pytest.approx(direct(z.tolist()))
    assert 1.9 < time_constant(z) < 4


@pytest.mark.parametrize("n", [49, 60, 150, 193, 599, 700, 1000])
def test_a_noisy_slope_is_summed_as_far_as_is_looked(n):
    """It stays correlated beyond the longest lag: a third of the run, and never more than 200.

    49 and 16 are one more than a power of 2, as 193 and 64 are: with less room the ends would meet.
    """
    z = np.arange(n) / n + np.random.default_rng(n).normal(0, 0.3, n)
    assert time_constant(z) == pytest.approx(direct(z.tolist()), rel=1e-9)
    assert time_constant(z) < n / 4
