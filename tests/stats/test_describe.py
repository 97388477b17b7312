"""One run: known answers, the clock, and what is no run at all."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.stats.statistics import RunMeasure, measure_run, warmup_for
from perfgate.stats.steady import steady_run

STATISTICS = ["mean", "median", "min", "max", "total", "count", "stddev", "cv", "trimmed_mean", "p95", "p0"]
ANY_FLOATS = st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=40)


def test_a_known_answer():
    """1 to 9 without warm-up: the ranks one standard error from the median are .25 and .75 of the way."""
    found = measure_run([1.0, 9.0, 2.0, 8.0, 3.0, 7.0, 4.0, 6.0, 5.0], warmup=0)
    h = 0.5 / math.sqrt(9)
    expected = (math.log((1 + 8 * (0.5 + h)) / (1 + 8 * (0.5 - h))) / 2) ** 2
    assert found.value == 5.0
    assert (found.n, found.n_effective) == (9, 9.0)
    assert found.within_variance == pytest.approx(expected)


def test_what_nobody_says_is_the_median_of_times():
    run = [90.0] * 5 + [10.0, 11.0, 12.0, 19.0] * 9
    assert measure_run(run) == measure_run(run, "median", "auto", "lower")
    assert (measure_run(run).value, measure_run(run).dropped) == (11.5, 5)


UNUSABLE = [
    ("empty", [], RunMeasure(None, 0, None, None, 0, True)),
    ("nan", [1.0, math.nan, 3.0], RunMeasure(None, 3, None, None, 0, True)),
    ("infinite in the warm-up", [math.inf, *[1.0] * 9], RunMeasure(None, 10, None, None, 0, True)),
    ("beyond every float", [1, 10**2000], RunMeasure(None, 2, None, None, 0, True)),
    ("a number that is none", math.nan, RunMeasure(None, 1, None, None, 0, True)),
    ("a single number", 12, RunMeasure(12.0, 1, None, 0.0, 0, True)),
]


@pytest.mark.parametrize(("values", "expected"), [r[1:] for r in UNUSABLE], ids=[r[0] for r in UNUSABLE])
def test_runs_without_samples(values, expected):
    assert measure_run(values) == expected


def test_only_a_number_is_single():
    assert measure_run(5.0).single
    assert not measure_run([5.0]).single
    assert not measure_run(math.nan).single


CLOCKS = [
    ("ticks of .8", [40.0, 40.8] * 10, 0.8**2 / 12 / 40.4**2),
    ("the smallest gap is the tick", [40.0, 40.0, 40.8, 42.4, 42.4, 42.4], 0.8**2 / 12 / 41.6**2),
    ("rounding is no tick", [40.0, 40.0 + 1e-12] * 4, 0.0),
    ("more than half distinct", [1.0, 2.0, 3.0, 3.0], 0.0),
    ("a small unit", [0.0400, 0.0408] * 10, 0.8**2 / 12 / 40.4**2),
    ("exactly half distinct", [1.0, 2.0, 1.0, 2.0], 1 / 12 / 1.5**2),
    (
        "rounding is that of the largest value",
        [1.0] * 9 + [1 + 1e-7] * 9 + [1000.0],
        (999 - 1e-7) ** 2 / 12 / (1 + 1e-7) ** 2,
    ),
    ("a billionth of it is a tick", [1.0, 2.0, 2.0, 2.0, 2.0, 1e9], 1 / 12 / 2**2),
    ("all equal", [3.0] * 9, 0.0),
    ("a median of 0", [0.0] * 8 + [1.0] * 2, 0.0),
    ("a negative median", [-1.0, -2.0] * 5, 0.0),
]


@pytest.mark.parametrize(("values", "expected"), [r[1:] for r in CLOCKS], ids=[r[0] for r in CLOCKS])
def test_clock(values, expected):
    assert steady_run(np.array(values), 0).clock_variance == pytest.approx(expected, rel=1e-12, abs=0)


def test_the_clock_counts_for_all_but_count():
    ticks = [40.0, 40.8] * 20
    assert measure_run(ticks, "count").within_variance == 0.0
    assert measure_run(ticks, "max").within_variance == pytest.approx(steady_run(np.array(ticks), 0).clock_variance)


def test_numpy_lists_and_integers_are_the_same_run():
    values = [3, 5, 4, 6, 5, 4, 3, 5, 6, 4]
    found = {measure_run(v) for v in (values, tuple(values), np.array(values), np.array(values, float))}
    assert len(found) == 1


@given(ANY_FLOATS, st.sampled_from(STATISTICS))
def test_never_raises_and_holds_only_numbers(values, statistic):
    found = measure_run(values, statistic)
    assert found.value is None or math.isfinite(found.value)
    assert found.within_variance is None or 0 <= found.within_variance < math.inf
    assert found.n + found.dropped == len(values)


@given(st.lists(st.floats(1, 1000), min_size=4, max_size=60), st.integers(-40, 40))
def test_units_do_not_enter(values, exponent):
    """A power of two changes no digit, so the answers are equal, not merely close."""
    one, other = measure_run(values), measure_run([v * 2.0**exponent for v in values])
    assert other.value == one.value * 2.0**exponent
    assert (other.n_effective, other.within_variance) == (one.n_effective, one.within_variance)


@pytest.mark.parametrize("statistic", ["max", "p100", "total", "count", "median", "min", "p99", "mean", "stddev"])
def test_a_statistic_of_the_whole_run_has_no_warm_up(statistic):
    whole = statistic in ("max", "p100", "total", "count")
    assert warmup_for(statistic, "auto") == (0 if whole else "auto")
    assert warmup_for(statistic, 3) == 3
    assert measure_run([9.0] * 2 + [1.0] * 20, statistic).dropped == (0 if whole else 2)
