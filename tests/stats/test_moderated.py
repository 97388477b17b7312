"""The moderated t against the formulas written out, and its level against simulated runs."""

import math

import numpy as np
import pytest
from scipy import stats

from perfgate.stats.moderated import exact_change, has_logarithm, moderated_t
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


@pytest.mark.parametrize("changed", [{"value": None}, {"value": 0.0}, {"within_variance": None}])
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
