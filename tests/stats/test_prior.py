"""Calibration: too short a history, a known answer, the bounds, and simulated histories."""

import math

import numpy as np
import pytest

from perfgate.stats.history import DEFAULT, Prior, calibrate_prior, prior_from, prior_of_levels, prior_of_pairs
from perfgate.stats.statistics import RunMeasure


def measures(logs, within=0.0):
    return [RunMeasure(math.exp(v), 50, 50.0, within, 0, True) for v in logs]


@pytest.mark.parametrize("runs", [[], [1.0], [1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0, 0.0], [[]] * 9])
def test_fewer_than_five_usable_runs_are_the_default(runs):
    assert calibrate_prior(runs) == Prior(0.01, 2.0) == DEFAULT


@pytest.mark.parametrize(("value", "within"), [(-3.0, 0.0), (0.0, 0.0), (3.0, None), (None, None)])
def test_what_has_no_logarithm_does_not_count(value, within):
    runs, odd = measures([0.00, 0.03, -0.02, 0.05, 0.01]), RunMeasure(value, 50, 50.0, within, 0, True)
    assert prior_from([odd, *runs]) == prior_from(runs) != Prior(0.01, 2.0)


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


def test_levels_are_held_against_themselves():
    """Two levels 40 % apart: only the spread around each level's own mean is noise."""
    levels = [[0.00, 0.03, -0.02], [0.35, 0.31, 0.36, 0.30]]
    squares = sum(len(level) * np.var(level) for level in levels)
    found = prior_of_levels([measures(level, within=1e-4) for level in levels])
    assert found.s0 == pytest.approx(math.sqrt((2 * 0.01**2 + 5 * (squares / 5 - 1e-4)) / 7))
    assert found.d0 == 7.0


def test_one_level_is_a_history():
    runs = measures([0.00, 0.03, -0.02, 0.05, 0.01], within=1e-4)
    assert prior_of_levels([runs]) == prior_from(runs)
    assert prior_of_levels([runs, measures([9.0])]) == prior_from(runs)  # a single run differs from nothing


@pytest.mark.parametrize(
    ("sizes", "enough"), [((2, 2, 2), False), ((2, 2, 2, 2), True), ((3, 3), True), ((4, 1), False)]
)
def test_levels_have_to_tell_what_five_runs_of_one_do(sizes, enough):
    found = prior_of_levels([measures([0.0, 0.05, 0.02, 0.01][:size]) for size in sizes])
    assert (found != Prior(0.01, 2.0)) == enough


def test_pairs_of_the_same_code_differ_from_one():
    logs = [0.03, 0.02, 0.05, 0.01, -0.01, 0.04]  # new is slower in most of them: that is noise of pairs, too
    found = prior_of_pairs(measures(logs, within=1e-5), Prior(0.02, 2.0))
    assert found.s0 == pytest.approx(math.sqrt((2 * 0.02**2 + 6 * (np.mean(np.square(logs)) - 1e-5)) / 8))
    assert found.d0 == 8.0


def test_fewer_than_five_pairs_leave_what_is_believed():
    believed = Prior(0.003, 2.0)
    assert prior_of_pairs(measures([0.1] * 4), believed) == believed
    assert prior_of_pairs(measures([0.1] * 5), believed).d0 == 7.0


@pytest.mark.parametrize("spread", [0.005, 0.03])
def test_many_levels_find_the_noise_between_runs(spread):
    rng = np.random.default_rng(6)
    levels = [measures(rng.normal(rng.normal(0, 0.2), spread, 4)) for _ in range(100)]
    assert prior_of_levels(levels).s0 == pytest.approx(spread, rel=0.15)
