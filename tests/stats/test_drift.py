"""CUSUM against brute force, and its rates on histories of runs; fixed seeds."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.stats.history import WARNS, cusum
from perfgate.stats.statistics import RunMeasure

PRIOR = (0.01, 2.0)


def runs(logs):
    return [RunMeasure(math.exp(x), 100, 100.0, 1e-5, 0, True) for x in logs]


def history(rng, n, creep=0.0, spread=0.01):
    return runs(rng.normal(0, spread, n) + creep * np.arange(n))


@given(st.lists(st.floats(-0.1, 0.1), min_size=5, max_size=5), st.lists(st.floats(-0.1, 0.1), min_size=1, max_size=20))
def test_it_is_the_largest_sum_of_any_last_stretch(reference, later):
    """C is, by unrolling, the largest sum of z - 1/2 over the last j runs (Page 1954), and 0 for none."""
    found = cusum(runs(reference), runs(later), PRIOR, "up")
    first = np.clip(*clipping(reference))
    spread = math.sqrt((2 * (PRIOR[0] ** 2 + 1e-5) + 4 * np.var(first, ddof=1)) / 6)
    excess = [(x - np.mean(first)) / spread - 0.5 for x in later]
    sums = [sum(excess[i:]) for i in range(len(excess))]
    assert found.score == pytest.approx(max(0.0, *sums), abs=1e-9)


def clipping(logs):
    centre = np.median(logs)
    reach = 3 * max(1.4826 * np.median(np.abs(logs - centre)), math.sqrt(PRIOR[0] ** 2 + 1e-5))
    return logs, centre - reach, centre + reach


@given(st.lists(st.floats(-0.1, 0.1), min_size=5, max_size=9), st.lists(st.floats(-0.1, 0.1), min_size=1, max_size=9))
def test_the_other_side_is_the_mirror_and_either_the_larger(reference, later):
    up = cusum(runs(reference), runs(later), PRIOR, "up")
    down = cusum(runs([-x for x in reference]), runs([-x for x in later]), PRIOR, "down")
    assert down.score == pytest.approx(up.score, abs=1e-9)
    either = cusum(runs(reference), runs(later), PRIOR, "either")
    opposite = cusum(runs(reference), runs(later), PRIOR, "down")
    assert either.score == max(up.score, opposite.score)


def first_warning(rng, creep):
    reference, later = history(rng, 5), history(rng, 55, creep)
    scores = (cusum(reference, later[:n], PRIOR, "up").score for n in range(1, 56))
    return next((n for n, score in enumerate(scores, 6) if score > WARNS), None)


def test_few_unchanged_histories_warn_and_a_creep_is_found():
    """60 runs that differ by 1 %: warnings in about one in ten; with .2 % more at each run, all within 25 runs."""
    rng = np.random.default_rng(7)
    quiet = [first_warning(rng, 0) for _ in range(100)]
    creeping = [first_warning(rng, 0.002) for _ in range(60)]
    assert sum(found is not None for found in quiet) <= 20
    assert all(found is not None and found <= 35 for found in creeping)
    assert np.median(creeping) <= 22


STEPS = [
    # z of the later runs, side; score, runs and shift of the drift, in standard deviations
    ([1.0, 1.0], "up", (1.0, 2, 1.0)),
    ([0.7], "up", (0.2, 1, 0.7)),
    ([0.4], "up", (0.0, 0, 0.0)),
    ([3.0, -4.0, 2.0, 1.0], "up", (2.0, 2, 1.5)),
    ([-1.0, -2.0], "down", (2.0, 2, -1.5)),
    ([1.0, 1.0], "down", (0.0, 0, 0.0)),
    ([-1.0, -2.0], "either", (2.0, 2, -1.5)),
    ([2.0, 1.0], "either", (2.0, 2, 1.5)),
    ([], "up", (0.0, 0, 0.0)),
]


@pytest.mark.parametrize(("z", "side", "expected"), STEPS)
def test_a_sum_by_hand(z, side, expected):
    """Five equal reference runs leave a third of the prior's variance."""
    spread = math.sqrt(2 * (PRIOR[0] ** 2 + 1e-5) / 6)
    found = cusum(runs([0.0] * 5), runs([spread * x for x in z]), PRIOR, side)
    assert (found.score, found.runs, found.shift / spread) == pytest.approx(expected, abs=1e-9)


def test_a_run_without_a_value_is_passed_over():
    known = runs([0.01, 0.02])
    absent = RunMeasure(None, 0, None, None, 0, True)
    assert cusum(runs([0.0] * 5), [known[0], absent, known[1]], PRIOR, "up") == cusum(
        runs([0.0] * 5), known, PRIOR, "up"
    )
