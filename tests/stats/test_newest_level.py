"""The test of the newest level against a second source: the same formula in plain Python, with scipy's t."""

from __future__ import annotations

import math
import random
import statistics

import numpy as np
import pytest
from scipy.stats import t as student

from perfgate.stats.change_point_search import HistoryValues, prepare
from perfgate.stats.change_points import _excursions, _inflation, _newest_point, _t, _with_newest


def history_of(x: list[float], weights: list[float] | None = None) -> HistoryValues:
    values, weight = np.array(x), np.array(weights or [1.0] * len(x))
    sums = np.array([np.append(0, np.cumsum(weight * values**power)) for power in range(3)])
    return HistoryValues(np.arange(len(x)), values, values, weight, 1.0, sums, 1.0, 0.0, False)


def inflation(residuals: list[float]) -> float:
    n, square = len(residuals), statistics.fmean(r * r for r in residuals)
    total = 1.0
    for lag in range(1, 6):
        products = [a * b for a, b in zip(residuals[lag:], residuals[:-lag], strict=True)]
        total += 2 * (1 - lag / 6) * statistics.fmean(products) / square
    return max(total - 0.5 * 2.47 / math.sqrt(n), 1.0)


def expected_t(x: list[float], weights: list[float], old: int) -> float:
    centre = statistics.median(x[:old])
    deciles = statistics.quantiles(x[:old], n=10, method="inclusive")
    deviation = statistics.median(abs(value - centre) for value in x[:old])
    spread = max(1.4826 * deviation, (deciles[-1] - deciles[0]) / 2.563)
    clipped = [min(max((value - centre) / spread, -2.5), 2.5) for value in x]

    def level(values: list[float], weight: list[float]) -> tuple[float, float, float]:
        mean = sum(v * w for v, w in zip(values, weight, strict=True)) / sum(weight)
        variance = sum(w * (v - mean) ** 2 for v, w in zip(values, weight, strict=True)) / sum(weight)
        return mean, variance, sum(weight)

    before, usual, runs = level(clipped[:old], weights[:old])
    after, own, few = level(clipped[old:], weights[old:])
    pooled = (own * few + usual * 5) / (few + 5)
    factor = inflation([value - before for value in clipped[:old]])
    return abs(after - before) / math.sqrt(factor * (pooled / few + usual / runs))


@pytest.mark.parametrize("seed", range(12))
def test_t_is_that_of_plain_python(seed: int) -> None:
    rng = random.Random(seed)
    old, new = rng.randrange(15, 60), rng.randrange(5, 9)
    wild, drift = (seed % 3 == 0), (0.1 if seed % 4 == 0 else 0.0)
    x = [3.0 + rng.gauss(0, 0.02) * (9 if wild and rng.random() < 0.2 else 1) for _ in range(old)]
    x = [value + drift * math.sin(i / 4) for i, value in enumerate(x)]
    x += [3.0 + rng.choice([0.0, 0.03, -0.05]) + rng.gauss(0, 0.02) for _ in range(new)]
    weights = [rng.uniform(0.3, 1) for _ in x]
    assert _t(np.array(x), np.array(weights), old) == pytest.approx(expected_t(x, weights, old), rel=1e-9)


def test_equal_runs_have_no_spread_to_compare_with() -> None:
    assert _t(np.array([1.0] * 20 + [2.0] * 5), np.ones(25), 20) == 0


@pytest.mark.parametrize(("count", "p"), [(5, 1e-4), (6, 1e-5), (7, 1e-5), (8, 1e-5)])
def test_a_level_is_found_from_its_p_value_on(count: int, p: float) -> None:
    """The shift grows until the level is found: its t is then just over the quantile of half the old runs."""
    rng = random.Random(count)
    old = [rng.gauss(0, 1) for _ in range(40)]
    noise = [rng.gauss(0, 0.4) for _ in range(count)]
    limit = student.ppf(1 - p / 2, 20)
    for step in range(5, 80):
        x = old + [step / 20 + one for one in noise]
        t = expected_t(x, [1.0] * len(x), 40)
        found = _newest_point(history_of(x), len(x) - count - 40)
        if t >= limit:
            assert found is not None
            return
        if count == 5:  # of a longer level, the last five runs may already be enough
            assert found is None
    raise AssertionError("no shift is large enough")


@pytest.mark.parametrize("seed", range(8))
def test_of_several_lengths_the_strongest_is_the_level(seed: int) -> None:
    rng = random.Random(seed)
    x = [rng.gauss(0, 0.3) for _ in range(60)] + [2.2 + rng.gauss(0, 0.05) for _ in range(5 + seed % 4)]
    strengths = {}
    for count, p in ((5, 1e-4), (6, 1e-5), (7, 1e-5), (8, 1e-5)):
        old = len(x) - count
        strengths[old] = expected_t(x, [1.0] * len(x), old) / student.ppf(1 - p / 2, old / 2)
    assert _newest_point(history_of(x), 0) == max(strengths, key=lambda old: strengths[old])


@pytest.mark.parametrize(("old", "found"), [(14, None), (15, 15)])
def test_the_level_before_needs_fifteen_runs(old: int, found: int | None) -> None:
    x = [math.sin(i) / 10 for i in range(old)] + [5.0] * 5
    assert _newest_point(history_of(x), 0) == found


def test_only_the_last_runs_of_the_old_level_count() -> None:
    """Of a long level, 150 runs are compared: those before may have been as high as the new ones."""
    rng = random.Random(4)
    late = [rng.gauss(0, 0.1) for _ in range(150)]
    new = [0.2 + rng.gauss(0, 0.1) for _ in range(5)]
    early = [0.2] * 600
    assert expected_t(early + late + new, [1.0] * 755, 750) < 2
    x = early + late + new
    assert _newest_point(history_of(x), 0) == _newest_point(history_of(late + new), 0) + 600  # type: ignore[operator]


@pytest.mark.parametrize(("back", "found"), [(150, None), (151, 200)])
def test_the_old_level_has_its_last_150_runs(back: int, found: int | None) -> None:
    """One old run is as high as the new level, and it outweighs all others if it counts."""
    x = [math.sin(i) / 10 for i in range(200)] + [5.0] * 5
    x[200 - back] = 5.0
    weights = [1e6 if i == 200 - back else 1.0 for i in range(len(x))]
    assert _newest_point(history_of(x, weights), 0) == found


def test_the_first_level_begins_with_the_first_run() -> None:
    x = [math.sin(i) / 10 for i in range(15)] + [5.0] * 5
    assert _with_newest(history_of(x), []) == [15]
    assert _with_newest(history_of(x[1:]), []) == []


@pytest.mark.parametrize(("back", "found"), [(30, []), (31, [0])])
def test_an_excursion_has_30_runs_of_the_old_level_beside_it(back: int, found: list[int]) -> None:
    """One old run moves the mean of 30 so much that the new level is not that of before."""
    x = [0.0] * 40 + [1.0] * 5 + [0.2] * 40
    x[40 - back] = -30.0
    assert _excursions(history_of(x), [40, 45], 9).tolist() == found


@pytest.mark.parametrize(("new", "found"), [(0.49, [0]), (0.5, []), (-0.49, [0]), (-0.5, [])])
def test_a_level_returned_if_it_is_less_than_half_the_excursion_away(new: float, found: list[int]) -> None:
    assert _excursions(history_of([0.0] * 40 + [1.0] * 8 + [new] * 40), [40, 48], 9).tolist() == found


def test_values_without_noise_have_that_of_their_levels() -> None:
    found = prepare([1024.0] * 50 + [1025.0] * 10, None)
    assert found is not None
    assert found.noise == pytest.approx(math.log(1025 / 1024) * math.sqrt(50 * 10) / 60)


def test_runs_that_are_all_at_their_level_are_not_correlated() -> None:
    assert _inflation(np.zeros(20)) == 1.0


def test_an_older_point_stays_and_is_where_the_old_level_begins() -> None:
    rng = random.Random(5)
    x = [9 + rng.gauss(0, 0.1) for _ in range(30)] + [rng.gauss(0, 0.1) for _ in range(80)]
    x += [0.5 + rng.gauss(0, 0.1) for _ in range(6)]
    assert _with_newest(history_of(x), [30]) == [30, 110]
    assert _with_newest(history_of(x[:110]), [30]) == [30]
    nine = history_of(x + [0.5 + rng.gauss(0, 0.1) for _ in range(3)])
    assert _with_newest(nine, [30, 110]) == [30, 110]
