"""Change points of a history: what is one, what is not, its size, and what more runs do to it."""

from __future__ import annotations

import math
import runpy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import perfgate
from perfgate.stats.change_points import find_change_points

seeds = st.integers(0, 2**32 - 1)


def noise(seed: int, n: int, size: float = 0.01) -> np.ndarray:
    return np.exp(size * np.random.default_rng(seed).standard_normal(n))


def step(seed: int, n: int = 120, at: int = 60, change: float = 0.1, size: float = 0.01) -> np.ndarray:
    values = 250 * noise(seed, n, size)
    values[at:] *= 1 + change
    return values


def indices(values, **options) -> list[int]:
    return [point.index for point in find_change_points(values, **options)]


def test_the_function_is_public():
    assert perfgate.find_change_points is find_change_points


def test_a_step_has_its_place_its_size_and_its_levels():
    (point,) = find_change_points(step(1, change=0.05))
    assert point.index == 60
    assert point.low < 0.05 < point.high
    assert point.low < point.change < point.high
    assert (point.before, point.after) == pytest.approx((250, 262.5), rel=0.01)
    assert point.after / point.before - 1 == pytest.approx(point.change)
    assert point.probability > 0.99
    assert point.first <= 60 <= point.last


def test_two_steps_are_two_points():
    values = step(2)
    values[90:] /= 1.1
    up, down = find_change_points(values)
    assert (up.index, down.index) == (60, 90)
    assert up.change > 0 > down.change


@pytest.mark.parametrize(
    ("better", "change", "worse"),
    [
        ("lower", 0.1, True),
        ("lower", -0.1, False),
        ("higher", 0.1, False),
        ("higher", -0.1, True),
        ("neither", 1, None),
    ],
)
def test_better_says_which_direction_is_worse(better, change, worse):
    (point,) = find_change_points(step(3, change=change), better=better)
    assert point.worse is worse


@pytest.mark.parametrize("runs", range(1, 5))
def test_a_new_level_of_fewer_than_five_runs_is_not_a_point(runs):
    assert indices(step(4, 60 + runs, change=0.5)) == []


def test_a_large_step_is_found_in_its_fifth_run():
    assert indices(step(4, 65, change=0.5)) == [60]


def test_five_percent_is_found_in_five_runs_if_the_noise_is_one_percent():
    assert sum(any(abs(i - 100) <= 5 for i in indices(step(s, 105, 100, 0.05))) for s in range(50)) >= 48


def test_five_percent_is_found_in_five_runs_in_most_histories_if_the_noise_is_two_percent():
    found = [indices(step(s, 125, 120, 0.05, size=0.02)) for s in range(60)]
    assert sum(any(abs(i - 120) <= 5 for i in one) for one in found) >= 45


def test_three_stalls_among_five_runs_are_not_a_new_level():
    values = noise(4, 100)
    values[[95, 97, 98]] *= 1.5
    assert indices(values) == []


def test_noise_alone_has_almost_no_points():
    found = sum(len(indices(noise(seed, 240))) for seed in range(100))
    assert found <= 4  # of 24,000 runs


@pytest.mark.parametrize("size", [0.3, 0.9])
def test_correlated_noise_has_few_points(size):
    found = 0
    for seed in range(40):
        draws = np.random.default_rng(seed).standard_normal(240)
        wander = np.zeros(240)
        for i in range(1, 240):
            wander[i] = 0.4 * wander[i - 1] + draws[i]
        found += len(indices(np.exp(0.02 * size * wander)))
    assert found <= 5  # of 9,600 runs


@pytest.mark.parametrize("runs", [1, 2, 3])
@pytest.mark.parametrize("factor", [0.2, 1.2, 100])
def test_a_stall_is_not_a_point(runs, factor):
    values = noise(5, 120)
    values[60 : 60 + runs] *= factor
    assert indices(values) == []


def test_a_level_that_went_back_soon_is_an_excursion_and_a_longer_one_is_two_points():
    for runs, points in ((7, []), (20, [60, 80])):
        values = noise(6, 140)
        values[60 : 60 + runs] *= 1.2
        assert indices(values) == points


def test_outliers_do_not_hide_a_step():
    values = step(7, change=0.2)
    values[[5, 31, 55, 64, 77, 100]] *= 3
    assert indices(values) == [60]


def test_heavy_tails_have_few_points():
    draws = [np.random.default_rng(seed).standard_t(2, 240) for seed in range(40)]
    assert sum(len(indices(np.exp(0.01 * d))) for d in draws) <= 3  # of 9,600 runs


def test_the_noise_may_differ_from_level_to_level():
    values = np.concatenate([100 * noise(8, 80, 0.2), 40 * noise(9, 80, 0.01)])
    assert indices(values) == [80]
    alike = np.concatenate([100 * noise(8, 80, 0.02), 100 * noise(9, 80, 0.002)])
    assert indices(alike) == []


def test_missing_runs_are_counted_but_not_used():
    values = [float(v) for v in step(10)]
    values[20:25] = [math.nan, None, math.inf, -math.inf, math.nan]
    assert indices(values) == [60]
    assert indices([math.nan] * 7 + list(step(10))) == [67]


def test_quantised_values():
    assert indices(np.round(step(11, size=0.02) / 5) * 5) == [60]
    assert indices(np.round(250 * noise(12, 200) / 5) * 5) == []


def test_exact_values_change_at_once():
    assert indices([1024.0] * 50 + [1025.0] * 5) == [50]
    assert indices([1024.0] * 50 + [2048.0] + [1024.0] * 50) == []


def test_rounding_is_no_change():
    assert indices([0.3] * 50 + [0.1 + 0.2] * 50) == []


def test_values_that_are_not_positive_change_relative_to_their_level():
    values = np.concatenate([np.full(40, -10.0), np.full(40, -5.0)]) + np.random.default_rng(1).normal(0, 0.1, 80)
    (point,) = find_change_points(values)
    assert (point.index, point.change) == (40, pytest.approx(0.5, abs=0.02))
    (point,) = find_change_points([0.0] * 30 + [3.0] * 30)
    assert (point.index, point.before, point.after, point.change) == (30, 0.0, 3.0, math.inf)


def test_runs_with_large_errors_count_less():
    values, errors = step(13, 120, 113, change=0.06), np.full(120, 1.0)
    assert indices(values, errors=errors) == indices(values) == [113]
    errors[113:] = 50.0  # 20 % of the value
    assert indices(values, errors=errors) == []


@pytest.mark.parametrize("error", [2.541, 2.556, 2.5715])
def test_ten_runs_with_large_errors_may_have_hardly_a_degree_of_freedom(error):
    """Together they weigh about as much as two runs, so that no t is enough for a point between them."""
    values, errors = 100 * noise(15, 60), np.full(60, 0.5)
    values *= np.repeat([1, 3, 30, 200], [40, 5, 5, 10])
    errors[40:50] = 0.01 * error * values[40:50]
    assert 45 not in indices(values, errors=errors)


def test_unknown_errors_change_nothing():
    values = step(14)
    assert find_change_points(values, errors=[math.nan, 0.0] * 60) == find_change_points(values)


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        ([[1.0, 2.0]], {}, "2-dimensional"),
        (3.0, {}, "0-dimensional"),
        ([1.0, 2.0], {"errors": [1.0]}, "one number for each of the 2 values"),
        ([1.0, 2.0], {"errors": [1.0, -1.0]}, "must not be negative"),
        ([1.0, 2.0], {"better": "faster"}, "'faster'"),
    ],
)
def test_bad_arguments(values, options, message):
    with pytest.raises(ValueError, match=message):
        find_change_points(values, **options)


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=60))
def test_any_numbers_give_points_inside_and_in_order(values):
    points = find_change_points(values)
    assert [p.index for p in points] == sorted({p.index for p in points})
    for p in points:
        assert 0 < p.index < len(values)
        assert p.first <= p.index <= p.last
        assert 0 <= p.probability <= 1
        assert p.low <= p.change <= p.high


@given(st.floats(-1e300, 1e300), st.integers(0, 300))
def test_a_constant_history_has_no_points(value, n):
    assert find_change_points([value] * n) == ()


@given(seeds, st.integers(-200, 200))
def test_the_unit_changes_nothing_but_the_levels(seed, power):
    values = step(seed, change=0.04)
    scaled = find_change_points(values * 2.0**power)
    points = find_change_points(values)
    assert [(p.index, p.change, p.probability) for p in scaled] == [(p.index, p.change, p.probability) for p in points]
    assert [p.after for p in scaled] == [p.after * 2.0**power for p in points]


@given(seeds)
def test_values_of_both_signs_may_be_mirrored(seed):
    values = np.random.default_rng(seed).normal(0, 1, 100) + np.repeat([0, 3], 50)
    assert indices(values) == indices(-values)


@given(seeds, st.integers(20, 100))
def test_a_clear_step_is_found_backwards_too(seed, at):
    values = step(seed, at=at, change=0.2)  # a few histories have a second, false point
    assert at in indices(values)
    assert 120 - at in indices(values[::-1])


@given(seeds)
@settings(max_examples=20)
def test_the_same_values_give_the_same_points(seed):
    values = step(seed, change=0.03)
    assert find_change_points(list(values)) == find_change_points(values.copy())


def test_values_with_large_errors_are_no_new_level():
    values, errors = step(13, 120, 113, change=0.06), [1.0] * 113 + [50.0] * 7
    assert find_change_points(values, errors=errors, better="higher") == ()


@pytest.mark.parametrize(("runs", "points"), [(8, []), (9, [60, 69])])
def test_a_level_of_nine_runs_is_no_excursion(runs, points):
    values = noise(6, 120)
    values[60 : 60 + runs] *= 1.3
    assert indices(values) == points


@pytest.mark.shared
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_real_histories_reach_the_goals_of_the_labels(shared):
    # The scoring kit leaves its files to the garbage collector.
    kit = runpy.run_path(str(shared / "score" / "history" / "score.py"))
    found = kit["score_labelled"](indices)
    assert found["f1"] >= 0.85
    assert found["consensus_f1"] >= 0.80
