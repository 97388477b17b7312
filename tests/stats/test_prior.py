"""Calibration: too short a history, a known answer, the bounds, and simulated histories."""

import math

import numpy as np
import pytest

from perfgate.stats.prior import Prior, calibrate_prior


@pytest.mark.parametrize("runs", [[], [1.0], [1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0, 0.0], [[]] * 9])
def test_fewer_than_five_usable_runs_are_the_default(runs):
    assert calibrate_prior(runs) == Prior(0.01, 2.0)


def test_a_known_answer():
    """Single numbers have no noise inside: the spread of the logarithms, with 2 runs of 1 %."""
    logs = [0.00, 0.03, -0.02, 0.05, 0.01, -0.04]
    expected = math.sqrt((2 * 0.01**2 + 5 * np.var(logs, ddof=1)) / 7)
    found = calibrate_prior([math.exp(v) for v in logs])
    assert found.s0 == pytest.approx(expected)
    assert found.d0 == 7.0


@pytest.mark.parametrize(("c", "d0"), [(5, 6), (6, 7), (7, 8), (8, 8), (40, 8)])
def test_a_history_is_worth_at_most_eight_runs(c, d0):
    assert calibrate_prior([100.0] * c).d0 == d0


def test_it_is_never_less_than_a_tenth_of_a_percent():
    assert calibrate_prior([100.0] * 1000).s0 == 0.001


def test_noise_inside_the_runs_is_not_counted_twice():
    rng = np.random.default_rng(1)
    runs = [100 + rng.normal(0, 10, 60) for _ in range(8)]
    assert calibrate_prior(runs, "mean").s0 < 0.008


@pytest.mark.parametrize("spread", [0.005, 0.03])
def test_it_finds_the_noise_between_runs(spread):
    rng = np.random.default_rng(5)
    runs = [100 * math.exp(rng.normal(0, spread)) + rng.normal(0, 0.5, 50) for _ in range(200)]
    assert calibrate_prior(runs).s0 == pytest.approx(spread, rel=0.15)


def test_warm_up_is_slow_unless_higher_is_better():
    runs = [[50.0] * 5 + list(np.random.default_rng(i).normal(10 + 0.1 * i, 0.1, 40)) for i in range(6)]
    assert calibrate_prior(runs, "mean") == calibrate_prior(runs, "mean", "auto", "lower")
    assert calibrate_prior(runs, "mean") == calibrate_prior([run[5:] for run in runs], "mean", 0)
    assert calibrate_prior(runs, "mean") != calibrate_prior(runs, "mean", "auto", "higher")
    assert calibrate_prior(runs).s0 == calibrate_prior(runs, "median").s0
