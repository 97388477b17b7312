"""The moderated t against the formulas written out, and its level against simulated runs."""

import math

import numpy as np
import pytest
from scipy import stats

from perfgate.stats.moderated import (
    RunNoise,
    exact_change,
    has_logarithm,
    moderated_t,
    run_noise,
    runs_contradict,
    runs_disagree,
)
from perfgate.stats.statistics import RunMeasure


def run(value, within=0.0, n=100):
    return RunMeasure(value, n, float(n), within, 1, True)


def test_one_against_one_rests_on_the_prior_alone():
    found = moderated_t([run(100.0)], [run(110.0)], (0.01, 2.0))
    assert found.log_change == pytest.approx(math.log(1.1))
    assert found.standard_error == pytest.approx(0.01 * math.sqrt(2))
    assert found.degrees_of_freedom == 2.0
    assert (found.base_value, found.new_value) == (100.0, 110.0)


def test_a_prior_of_nothing_is_the_two_sample_t():
    rng = np.random.default_rng(2)
    base, new = rng.lognormal(3, 0.05, 3), rng.lognormal(3, 0.05, 4)
    found = moderated_t([run(v) for v in base], [run(v) for v in new], (1e-9, 1e-9))
    expected = stats.ttest_ind(np.log(new), np.log(base), alternative="greater")
    assert found.degrees_of_freedom == pytest.approx(5)
    assert found.p_no_change("up") == pytest.approx(expected.pvalue, rel=1e-6)
    low, high = found.bounds(0.95)
    interval = stats.ttest_ind(np.log(new), np.log(base)).confidence_interval(0.90)
    assert (low, high) == pytest.approx((interval.low, interval.high), rel=1e-6)


def test_noise_inside_the_new_run_widens_the_interval():
    base, noisy = [run(100.0, 1e-6)] * 5, [run(100.0, 4e-4, n=25)]
    found = moderated_t(base, noisy, (0.01, 2.0))
    a = 2 * (1e-4 + 1e-6) / 6 * (1 / 5 + 1)
    b = 4e-4 - 1e-6
    assert found.standard_error == pytest.approx(math.sqrt(a + b))
    assert found.degrees_of_freedom == pytest.approx((a + b) ** 2 / (a**2 / 6 + b**2 / 24))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_new_run_of_a_few_steps_has_one_degree_of_freedom_at_least(n):
    found = moderated_t([run(100.0)] * 5, [run(100.0, 4e-4, n=n)], (0.01, 2.0))
    between = 2 * 1e-4 / 6 * (1 / 5 + 1)
    expected = (between + 4e-4) ** 2 / (between**2 / 6 + 4e-4**2 / max(n - 1, 1))
    assert found.degrees_of_freedom == pytest.approx(expected)


@pytest.mark.parametrize(("values", "centre"), [([100, 100, 200], None), ([100, 100, 100, 200], 103 / 100)])
def test_an_outlier_among_four_base_runs_is_drawn_in(values, centre):
    """Four runs at 100 and a spread of 1 %: the fourth counts as exp(3 * .01), not as twice the others."""
    found = moderated_t([run(float(v)) for v in values], [run(100.0)], (0.01, 2.0))
    expected = np.exp(np.log(values).mean()) if centre is None else 100 * math.exp(0.03 / 4)
    assert found.base_value == pytest.approx(expected)


def test_p_by_side():
    found = moderated_t([run(100.0)] * 3, [run(102.0)], (0.01, 2.0))
    assert found.p_no_change("up") + found.p_no_change("down") == pytest.approx(1)
    assert found.p_no_change("either") == found.p_no_change("up") < 0.5


def test_without_noise_there_are_no_degrees_of_freedom():
    found = exact_change(1000.0, 1010.0, 3, (0.01, 2.0))
    assert found.bounds(0.95) == (found.log_change, found.log_change)
    assert (found.standard_error, found.run_variance, found.base_runs, found.prior_runs) == (0.0, 0.0, 3, 2.0)
    assert exact_change(1000.0, 1000.0, 3, (0.01, 2.0)).p_no_change("up") == 1.0
    assert (found.p_no_change("up"), found.p_no_change("down")) == (0.0, 1.0)
    assert found.detectable(0.95, 0.8) == 0.0
    assert found.runs_needed(0.05, 0.95, 0.8) is None


def test_runs_needed_is_the_first_that_suffices():
    found = moderated_t([run(v) for v in (98.0, 103.0, 101.0, 96.0, 102.0)], [run(100.0)], (0.01, 2.0))

    def suffices(m):
        df = 2 + 5 + m - 2
        t = stats.t.ppf(0.95, df) + stats.t.ppf(0.8, df)
        return t * math.sqrt(found.run_variance * (1 / 5 + 1 / m)) <= 0.05

    needed = found.runs_needed(0.05, 0.95, 0.8)
    assert needed is not None
    assert suffices(needed)
    assert not suffices(needed - 1)
    assert found.runs_needed(0.005, 0.95, 0.8) is None


@pytest.mark.parametrize("changed", [{"value": None}, {"value": 0.0}, {"value": math.inf}, {"within_variance": None}])
def test_has_logarithm(changed):
    fields = {"value": 1.0, "n": 9, "n_effective": 9.0, "within_variance": 0.0, "dropped": 0, "settled": True}
    assert has_logarithm(RunMeasure(**fields))
    assert not has_logarithm(RunMeasure(**(fields | changed)))


def test_equal_runs_without_a_prior_show_no_noise():
    """Three equal numbers leave nothing to estimate: the standard error is 0, and no division fails."""
    found = moderated_t([run(2.0)] * 2, [run(3.0)], (0.0, 0.0))
    assert (found.standard_error, found.log_change) == (0.0, pytest.approx(math.log(1.5)))
    assert found.degrees_of_freedom is not None
    assert found.degrees_of_freedom > 0
    found = moderated_t([run(2.0)] * 2, [run(3.0, 0.01)], (0.0, 0.0))
    assert (found.standard_error, found.degrees_of_freedom) == pytest.approx((0.1, 99))  # those of the new run alone


def spread_over(values: np.ndarray, squares: float) -> np.ndarray:
    """The same pattern of logarithms with this sum of squares around the mean."""
    centred = values - values.mean()
    return 1.0 + centred * math.sqrt(squares / float((centred**2).sum()))


def sides_of(seed: int) -> tuple[np.random.Generator, list[np.ndarray], float, tuple[float, float]]:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 7, 2)
    prior = float(rng.choice([0.005, 0.02])), float(rng.choice([2.0, 8.0]))
    return rng, [rng.normal(0, 1, int(size)) for size in sizes], float(rng.choice([0.0, 1e-4, 4e-3])), prior


def runs_of(logs: np.ndarray, within: float) -> list[RunMeasure]:
    """Runs with these logarithms, of which the first has no noise within it and the second twice as much."""
    return [run(math.exp(log), within * min(at, 2)) for at, log in enumerate(logs)]


@pytest.mark.parametrize("seed", range(20))
def test_runs_contradict_a_prior_from_the_f_of_five_percent_on(seed):
    _, (one, other), within, prior = sides_of(seed)
    noise = [m.within_variance for side in (one, other) for m in runs_of(side, within)]
    freedom = len(one) + len(other) - 2
    expected = prior[0] ** 2 + sum(noise) / len(noise)
    limit = stats.f.isf(0.05, freedom, prior[1]) * freedom * expected
    for share, contradict in ((0.99, False), (1.01, True)):
        sides = [runs_of(spread_over(side, part * share * limit), within) for side, part in ((one, 0.7), (other, 0.3))]
        assert runs_contradict(sides, prior) is contradict
        assert runs_contradict([*sides, runs_of(np.array([9.0]), 0.0)], prior) is contradict  # one run has no variance
        assert runs_contradict([*sides, [run(0.0), run(9.0)]], prior) is contradict  # no logarithm
    assert not runs_contradict([runs_of(one[:1], within)], prior)
    assert not runs_contradict([], prior)


@pytest.mark.parametrize("calibrated", [True, False])
@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("seed", range(12))
def test_runs_disagree_from_either_of_two_limits_on(seed, alone, calibrated):
    """The F of the others and the prior, and a chi-squared with at least 10 % of noise, each at .25 %."""
    rng, (one, other), within, (s0, d0) = sides_of(seed)
    other = runs_of(other * float(rng.choice([0.001, 0.05, 0.3])), within / 2)
    other = [] if alone else [run(1.0, 3 * within)] if seed % 4 == 0 else other
    noise = max(np.mean([m.within_variance for m in side]) for side in (runs_of(one, within), other) if side)
    logs = np.log([m.value for m in other])
    squares, known = (float(logs.var() * len(logs)), len(logs) - 1) if len(logs) else (0.0, 0)
    known += d0 if calibrated else 0
    freedom, most = len(one) - 1, 0.01 + noise
    limits = []
    if known:
        expected = (squares + d0 * (s0**2 + noise)) / known
        limits, most = [expected * stats.f.isf(0.0025, freedom, known)], max(most, expected)
    limits.append(most * stats.chi2.isf(0.0025, freedom) / freedom)
    for share, disagree in ((0.99, False), (1.01, True)):
        apart = runs_of(spread_over(one, share * min(limits) * freedom), within)
        assert runs_disagree(apart, other, (s0, d0), calibrated=calibrated) is disagree


def test_a_wander_of_the_levels_is_shared_by_all_runs():
    found = moderated_t([run(100.0)] * 3, [run(101.0)], (0.01, 2.0))
    wide = found.of_levels(0.02)
    assert wide.standard_error == pytest.approx(math.sqrt(found.standard_error**2 + 2 * 0.02**2))
    assert wide.shared == pytest.approx(2 * 0.02**2)
    assert (wide.log_change, wide.run_variance) == (found.log_change, found.run_variance)

    def reach(m):
        df = 2 + 3 + m - 2
        error = math.sqrt(found.run_variance * (1 / 3 + 1 / m) + 2 * 0.02**2)
        return (stats.t.ppf(0.95, df) + stats.t.ppf(0.8, df)) * error

    for runs in (1, 4, 20):
        assert wide.runs_needed(reach(runs) * 1.001, 0.95, 0.8) == runs
    assert wide.runs_needed(reach(20) * 0.999, 0.95, 0.8) is None


def test_noise_of_longer_runs_and_of_other_base_runs():
    noise = RunNoise(5e-4, 3e-4, 4, 2.0, 1e-4)
    assert noise.of_longer_runs(3) == RunNoise(pytest.approx(3e-4), pytest.approx(1e-4), 4, 2.0, 1e-4)
    assert noise.of_base_runs(9) == RunNoise(5e-4, 3e-4, 9, 2.0, 1e-4)


@pytest.mark.parametrize("values", [[100, 101, 99, 100, 140], [100, 101, 99, 100, 70], [100, 101, 99, 100, 102]])
@pytest.mark.parametrize("within", [0.0, 4e-4])
def test_base_runs_are_clipped_at_three_robust_deviations(values, within):
    """Three times the larger of the median absolute deviation, as a standard deviation, and the expected noise."""
    logs = np.log(values)
    middle = np.median(logs)
    reach = 3 * max(1.4826 * np.median(np.abs(logs - middle)), math.sqrt(0.005**2 + within))
    clipped = np.clip(logs, middle - reach, middle + reach)
    squares = float(((clipped - clipped.mean()) ** 2).sum())
    found = moderated_t([run(v, within) for v in values], [run(100.0, within)], (0.005, 2.0))
    assert found.base_value == pytest.approx(math.exp(clipped.mean()), rel=1e-12)
    assert found.run_variance == pytest.approx((2 * (0.005**2 + within) + squares) / (2 + 5 + 1 - 2), rel=1e-12)
    centre, noise = run_noise([run(v, within) for v in values], (0.005, 2.0))
    variance = (2 * (0.005**2 + within) + squares) / (2 + 5 - 1)
    assert (centre, noise.variance) == (pytest.approx(clipped.mean()), pytest.approx(variance, rel=1e-12))
    assert (noise.within, noise.base_runs, noise.prior_runs) == (min(within, noise.variance), 5, 2.0)


def test_a_mean_is_within_its_runs():
    """Rounding of the logarithm does not move a single run, nor equal ones."""
    for value in np.random.default_rng(1).lognormal(0, 9, 50).tolist():
        found = moderated_t([run(value)] * 3, [run(value)], (0.01, 2.0))
        assert (found.base_value, found.new_value) == (value, value)


def test_runs_that_differ_less_than_their_noise_within_count_as_noise_within():
    _, noise = run_noise([run(100.0, 4e-3)] * 5, (0.01, 2.0))
    assert noise.within == noise.variance == pytest.approx(2 * (1e-4 + 4e-3) / 6)


def test_several_noisy_new_runs_share_the_excess():
    """The noise within new runs beyond that of base runs is divided by their number, at the mean of their lengths."""
    found = moderated_t([run(100.0, 1e-6)] * 2, [run(100.0, 4e-4, n=9), run(100.0, 2e-4, n=21)], (0.01, 2.0))
    between = 2 * (1e-4 + 1e-6) / (2 + 2 + 2 - 2) * (1 / 2 + 1 / 2)
    excess = (3e-4 - 1e-6) / 2
    assert found.standard_error == pytest.approx(math.sqrt(between + excess))
    assert found.degrees_of_freedom == pytest.approx((between + excess) ** 2 / (between**2 / 4 + excess**2 / 14))
