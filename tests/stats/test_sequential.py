"""The level of each look against published boundaries, another integral and simulated looks."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from perfgate.stats.sequential import nominal_levels

PUBLISHED = [
    # z at two equally spaced looks, for a two-sided 5 %: Jennison and Turnbull (2000), tables 2.1 and 2.3
    (2.178, 2.178),  # Pocock
    (2.797, 1.977),  # O'Brien and Fleming
]


@pytest.mark.parametrize(("first", "second"), PUBLISHED)
def test_two_looks_have_the_published_boundaries(first: float, second: float) -> None:
    """The first look spends what the published test spends there; the second one must then agree."""
    power = math.log(stats.norm.sf(first) / 0.025, 0.5)
    levels = nominal_levels((1.0, 2.0), 0.025, power)
    assert stats.norm.isf(levels) == pytest.approx([first, second], abs=0.002)


def test_one_look_has_the_whole_rate() -> None:
    for power in (0.5, 1.0, 8.0):
        assert nominal_levels((3.0,), 0.05, power) == pytest.approx((0.05,))


def crossed(information: tuple[float, ...], levels: tuple[float, ...]) -> float:
    """The probability that any look is beyond its level if nothing changed, by the integral of Genz (1992)."""
    bounds = stats.norm.isf(levels)
    earlier, later = np.minimum.outer(information, information), np.maximum.outer(information, information)
    if len(levels) == 1:
        return levels[0]
    normal = stats.multivariate_normal(mean=np.zeros(len(levels)), cov=np.sqrt(earlier / later), allow_singular=True)
    return 1 - float(normal.cdf(bounds, rng=np.random.default_rng(1)))


STEPS = st.lists(st.floats(0.05, 3.0), min_size=1, max_size=5)
RATES, POWERS = st.sampled_from([0.001, 0.01, 0.05, 0.2, 0.5]), st.floats(0.5, 8.0)


@given(steps=STEPS, total=RATES, power=POWERS)
def test_every_look_adds_its_share_and_all_of_them_the_whole_rate(
    steps: list[float], total: float, power: float
) -> None:
    information = tuple(float(one) for one in np.cumsum(steps))
    levels = nominal_levels(information, total, power)
    for looks in range(1, len(steps) + 1):
        spent = total * (information[looks - 1] / information[-1]) ** power
        assert crossed(information[:looks], levels[:looks]) == pytest.approx(spent, abs=2e-4)


@given(steps=STEPS, total=RATES, power=POWERS)
def test_levels_are_rates_and_cost_less_than_bonferroni(steps: list[float], total: float, power: float) -> None:
    information = tuple(float(one) for one in np.cumsum(steps))
    levels = nominal_levels(information, total, power)
    spent = total * (np.array(information) / information[-1]) ** power
    assert all(0 < level <= total * (1 + 1e-9) for level in levels)
    assert all(level >= share * (1 - 1e-6) for level, share in zip(levels, np.diff(spent, prepend=0.0), strict=True))
    assert sum(levels) >= total * (1 - 1e-6)


@given(steps=STEPS, unit=st.floats(1e-3, 1e3), power=POWERS)
def test_the_unit_of_information_does_not_matter(steps: list[float], unit: float, power: float) -> None:
    information = np.cumsum(steps)
    one, other = (nominal_levels(tuple(map(float, unit * information)), 0.05, power) for unit in (1.0, unit))
    assert one == pytest.approx(other, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("power", [0.5, 1.0, 3.0])
def test_a_later_look_may_use_more_the_later_the_rate_is_spent(power: float) -> None:
    early, late = nominal_levels((1.0, 2.0, 3.0), 0.05, power), nominal_levels((1.0, 2.0, 3.0), 0.05, 2 * power)
    assert early[0] > late[0]
    assert early[-1] < late[-1]


@pytest.mark.parametrize(("power", "total"), [(0.5, 0.05), (8.0, 0.025)])
@pytest.mark.parametrize("base_runs", [1, 5])
def test_simulated_looks_at_new_runs_are_wrong_at_the_rate(power: float, total: float, base_runs: int) -> None:
    """The looks of a gate: one to three new runs are compared with the same base runs, with a known noise."""
    rng, trials = np.random.default_rng(5), 200_000
    information = tuple(1 / (1 / base_runs + 1 / count) for count in (1, 2, 3))
    levels = nominal_levels(information, total, power)
    base = rng.standard_normal((trials, base_runs)).mean(axis=1)
    means = rng.standard_normal((trials, 3)).cumsum(axis=1) / np.arange(1, 4)
    z = (means - base[:, None]) * np.sqrt(information)
    wrong = float((z > stats.norm.isf(levels)).any(axis=1).mean())
    assert wrong == pytest.approx(total, abs=4 * math.sqrt(total * (1 - total) / trials))


@pytest.mark.parametrize(("power", "total"), [(0.5, 0.05), (8.0, 0.0025), (8.0, 1e-9)])
def test_a_hundred_looks_at_pairs_have_levels(power: float, total: float) -> None:
    """The first look of a late spending may use less than the smallest distance of two numbers near 1."""
    levels = nominal_levels(tuple(map(float, range(1, 101))), total, power)
    assert levels[0] == pytest.approx(total * 0.01**power, rel=1e-6)
    assert all(0 < level < total for level in levels)
    trials, rng = 40_000, np.random.default_rng(3)
    z = rng.standard_normal((trials, 100)).cumsum(axis=1) / np.sqrt(np.arange(1, 101))
    wrong = float((z > stats.norm.isf(levels)).any(axis=1).mean())
    assert wrong == pytest.approx(total, abs=4 * math.sqrt(total * (1 - total) / trials))


@pytest.mark.parametrize("looks", [1, 2, 3])
def test_the_levels_of_later_looks_are_not_needed(looks):
    information = (1.0, 1.5, 2.0, 5.0)
    assert nominal_levels(information, 0.05, 4.0, looks) == nominal_levels(information, 0.05, 4.0)[:looks]


def first_crossings(information: tuple[float, ...], levels: tuple[float, ...]) -> list[float]:
    """The probability that each look is the first beyond its level, by an integral with 500 nodes."""
    times = np.array(information) / information[-1]
    bounds = stats.norm.isf(levels) * np.sqrt(times)
    found = [float(levels[0])]
    nodes, weights = np.polynomial.legendre.leggauss(500)
    mass, before = np.ones(1), np.zeros(1)  # the process begins at 0
    for i in range(1, len(times)):
        low = -12 * math.sqrt(times[i - 1])
        x = low + (bounds[i - 1] - low) / 2 * (nodes + 1)
        step = times[i - 1] - (times[i - 2] if i > 1 else 0.0)
        density = stats.norm.pdf(x[:, None], before[None, :], math.sqrt(step)) @ mass
        mass, before = density * weights * (bounds[i - 1] - low) / 2, x
        found.append(float(stats.norm.sf((bounds[i] - x) / math.sqrt(times[i] - times[i - 1])) @ mass))
    return found


@pytest.mark.parametrize(
    ("information", "total", "power"),
    [
        ((1.0, 2.0), 0.05, 0.5),
        ((1.0, 2.0, 3.0), 0.025, 8.0),
        ((1.0, 1.02, 4.0), 0.05, 1.0),
        ((1.0, 1.002), 0.05, 1.0),
        ((0.5, 3.0, 3.1, 9.0), 0.5, 2.0),
        ((0.01, 1.0, 2.0), 0.2, 1.0),
        (tuple(map(float, range(2, 11))), 0.005, 1.0),
        ((1.0, 1e6), 0.5, 3.0),
        ((1.0, 1.02, 20.0), 0.05, 60.0),  # the first look uses so little that its bound is 14 standard deviations away
    ],
)
def test_every_look_is_the_first_beyond_its_level_at_its_share(
    information: tuple[float, ...], total: float, power: float
) -> None:
    spent = total * (np.array(information) / information[-1]) ** power
    levels = nominal_levels(information, total, power)
    assert first_crossings(information, levels) == pytest.approx(np.diff(spent, prepend=0.0), rel=1e-6, abs=1e-13)
