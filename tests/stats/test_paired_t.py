"""Pairs against the formulas written out: the noise of a pair, ratios of steps, and what the order costs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from perfgate.stats.distributions import t_quantile
from perfgate.stats.paired_t import PairedChange, median_ratio, order_effect, paired_t, ratio_of
from perfgate.stats.statistics import RunMeasure, measure_run

PRIOR = (0.02, 2.0)


def run(value: float | None, within: float | None = 0.0, n: int = 50, dropped: int = 1) -> RunMeasure:
    return RunMeasure(value, n, None if n == 1 else n / 2, within, dropped, True)


@pytest.mark.parametrize("ratios", [[1.03], [1.03, 0.99], [1.01, 1.02, 1.07, 0.98]])
def test_the_noise_of_a_pair(ratios: list[float]) -> None:
    """(d0 (s0^2 + v) + (m - 1) S^2) / (d0 + m - 1), with d0 + m - 1 degrees of freedom."""
    m, within = len(ratios), 4e-4
    base, new = [run(100.0)] * m, [run(100 * ratio) for ratio in ratios]
    found = paired_t(base, new, [run(ratio, within) for ratio in ratios], PRIOR)
    spread = np.var(np.log(ratios), ddof=1) if m > 1 else 0.0
    parts = [2 * 0.02**2 / (m + 1), 2 * within / (m + 1), (m - 1) * spread / (m + 1)]
    assert found.run_variance == pytest.approx(sum(parts))
    assert found.degrees_of_freedom == pytest.approx(m + 1)
    assert found.standard_error == pytest.approx(math.sqrt(sum(parts) / m))
    assert found.log_change == pytest.approx(np.log(ratios).mean())
    assert (found.base_runs, found.prior_runs, found.base_value) == (m, 2.0, 100.0)
    assert found.new_value == pytest.approx(100 * math.exp(np.log(ratios).mean()))


def test_what_no_run_tells_of_its_inside_is_the_prior_alone() -> None:
    found = paired_t([run(1.0)], [run(1.1)], [run(1.1, None, n=1)], PRIOR)
    assert found.standard_error == pytest.approx(0.02)
    assert found.degrees_of_freedom == pytest.approx(2)


def test_without_a_prior_it_is_the_t_test_of_scipy() -> None:
    ratios = [1.03, 0.99, 1.02, 1.05]
    found = paired_t([run(1.0)] * 4, [run(one) for one in ratios], [run(one, 4e-4) for one in ratios], (0.0, 0.0))
    expected = stats.ttest_1samp(np.log(ratios), 0.0, alternative="greater")
    assert found.p_no_change("up") == pytest.approx(expected.pvalue)
    assert found.degrees_of_freedom == expected.df


def test_a_mean_of_equal_values_is_that_value() -> None:
    values = [run(0.1)] * 3
    found = paired_t(values, values, [run(1.0)] * 3, PRIOR)
    assert (found.base_value, found.new_value) == (0.1, 0.1)


@pytest.mark.parametrize(("pairs", "df", "variance"), [(1, 2.0, 4e-4), (5, 6.0, 4e-4), (4, 1.5, 1e-3), (3, 9.0, 1e-5)])
@pytest.mark.parametrize("margin", [0.01, 0.02, 0.03, 0.05, 0.2])
def test_pairs_needed_are_the_first_that_suffice(pairs: int, df: float, variance: float, margin: float) -> None:
    change = PairedChange(1.0, 1.0, 0.0, math.sqrt(variance / pairs), df, variance, pairs, 2.0)

    def suffice(m: int) -> bool:
        degrees = max(df + m - pairs, 1.0)
        return (stats.t.ppf(0.95, degrees) + stats.t.ppf(0.8, degrees)) * math.sqrt(variance / m) <= margin

    enough = [m for m in range(1, 21) if suffice(m)]
    assert change.runs_needed(margin, 0.95, 0.8) == (enough[0] if enough else None)


@pytest.mark.parametrize("pairs", [1, 2, 5, 20])
def test_pairs_that_just_suffice_do(pairs: int) -> None:
    change = PairedChange(1.0, 1.0, 0.0, 0.01, 6.0, 1e-4, 1, 2.0)
    t = t_quantile(6.0 + pairs - 1, 0.95) + t_quantile(6.0 + pairs - 1, 0.8)
    assert change.runs_needed(t * math.sqrt(1e-4 / pairs), 0.95, 0.8) == pairs


def test_twenty_pairs_are_the_most_that_anybody_is_asked_for() -> None:
    change = PairedChange(1.0, 1.0, 0.0, 0.01, 6.0, 1e-4, 1, 2.0)
    degrees = 6.0 + np.array([19, 20]) - 1
    t = (stats.t.ppf(0.95, degrees) + stats.t.ppf(0.8, degrees)) * 0.01 / np.sqrt([19, 20])
    assert change.runs_needed(float(t.mean()), 0.95, 0.8) == 20
    assert change.runs_needed(float(t[1]) * 0.999, 0.95, 0.8) is None
    assert change.runs_needed(float(t[1]) * 0.97, 0.95, 0.8) is None


def test_without_noise_no_number_of_pairs_is_needed() -> None:
    assert PairedChange(1.0, 1.0, 0.0, 0.0, None, 0.0, 1, 2.0).runs_needed(0.05, 0.95, 0.8) is None


RATIOS: list[tuple[RunMeasure, RunMeasure, dict[str, Any]]] = [
    (run(2.0, 0.1, 40, 3), run(3.0, 0.2, 50, 2), {"value": 1.5, "n": 40, "n_effective": 45.0, "dropped": 3}),
    (run(2.0, 0.1), run(3.0, 0.2), {"within_variance": pytest.approx(0.3)}),
    (run(2.0, None), run(3.0, 0.2), {"value": 1.5, "within_variance": None}),
    (run(2.0, 0.1), run(3.0, None), {"within_variance": None}),
    (run(2.0, n=1), run(3.0, n=1), {"n": 1, "n_effective": None}),
    (run(2.0, n=1), run(3.0, n=50), {"n_effective": 25.0}),
    (run(2.0), run(0.0), {"value": 0.0}),
    (run(0.0), run(2.0), {"value": None}),
    (run(2.0), run(None), {"value": None}),
    (run(None), run(2.0), {"value": None}),
]


@pytest.mark.parametrize(("base", "new", "expected"), RATIOS)
def test_the_ratio_of_two_runs(base: RunMeasure, new: RunMeasure, expected: dict[str, Any]) -> None:
    found = ratio_of(base, new)
    assert {name: getattr(found, name) for name in expected} == expected
    assert found.settled


def steps(n: int, seed: int = 1) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    return 100 * np.exp(0.05 * rng.standard_normal(n)), 103 * np.exp(0.05 * rng.standard_normal(n))


@pytest.mark.parametrize(("n", "more", "dropped"), [(40, 0, 0), (41, 0, 1), (40, 5, 3), (44, -3, 4)])
def test_the_median_is_that_of_blocks_of_two_steps(n: int, more: int, dropped: int) -> None:
    """The geometric mean of new / base of two neighbours, one in each order; an odd warm-up takes one step more."""
    base, new = steps(n)[0], steps(n + more)[1]
    first, end = dropped + dropped % 2, min(n, n + more)
    blocks = [math.sqrt(new[i] / base[i] * new[i + 1] / base[i + 1]) for i in range(first, end - 1, 2)]
    found, expected = median_ratio(base, new, dropped), measure_run(blocks, warmup=0)
    assert found is not None
    assert (found.value, found.within_variance) == pytest.approx((expected.value, expected.within_variance))
    assert (found.n, found.n_effective, found.dropped, found.settled) == (
        len(blocks),
        expected.n_effective,
        first,
        True,
    )


@pytest.mark.parametrize(("n", "dropped", "found"), [(16, 0, True), (15, 0, False), (17, 1, False), (18, 1, True)])
def test_eight_blocks_are_the_fewest(n: int, dropped: int, found: bool) -> None:
    assert (median_ratio(*steps(n), dropped) is not None) == found


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_a_step_without_a_logarithm_leaves_no_median_of_steps(value: float) -> None:
    base, new = steps(40)
    base[20] = value
    assert median_ratio(base, new, 0) is None
    assert median_ratio(new, base, 0) is None


def test_what_going_second_costs() -> None:
    first, second = np.array([0.03, 0.05, 0.9]), np.array([0.01, -0.01, 0.01, 0.01])
    assert order_effect(first, second) == pytest.approx((0.05 - 0.01) / 2)
    assert order_effect(first, second[:0]) is None
    assert order_effect(first[:0], second) is None
