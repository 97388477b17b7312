"""Two modes: the best cut against brute force, and what is only one group."""

import math

import numpy as np
import pytest
from conftest import ends
from hypothesis import given
from hypothesis import strategies as st

from perfgate.stats.steady import TwoModes, two_modes

RNG = np.random.default_rng(1)
LOW, HIGH = RNG.normal(100, 1, 55), RNG.normal(108, 1, 45)


def test_shares_and_centres():
    found = two_modes(RNG.permutation([*LOW, *HIGH]))
    assert (found.low_share, found.high_share) == pytest.approx((0.55, 0.45))
    assert (found.low_centre, found.high_centre) == pytest.approx((LOW.mean(), HIGH.mean()))


def test_the_cut_is_the_best_of_all():
    x = np.sort([*LOW, *(HIGH - 2), *RNG.uniform(100, 106, 4)])
    costs = [x[:i].var() * i + x[i:].var() * (len(x) - i) for i in range(1, len(x))]
    assert two_modes(x).low_share == (1 + int(np.argmin(costs))) / len(x)


@pytest.mark.parametrize("share", [0.1, 0.15, 0.3, 0.5, 0.8, 0.9])
@pytest.mark.parametrize("n", [50, 51, 200])
def test_groups_of_any_size_are_cut_where_the_squares_are_least(n, share):
    size = math.ceil(share * n)
    rng = np.random.default_rng(n)
    low, high = rng.normal(100, 3, size), rng.normal(125, 2, n - size)
    x = np.sort([*low, *high])
    costs = [x[:i].var() * i + x[i:].var() * (n - i) for i in range(1, n)]
    cut = 1 + int(np.argmin(costs))
    found = two_modes(x)
    if min(cut, n - cut) < 0.1 * n:
        assert found is None
    else:
        assert (found.low_share, found.high_share) == pytest.approx((cut / n, 1 - cut / n))
        assert (found.low_centre, found.high_centre) == pytest.approx((x[:cut].mean(), x[cut:].mean()))


@pytest.mark.parametrize(("apart", "two"), [(4.05, True), (3.95, False)])
def test_four_standard_deviations_make_two(apart, two):
    """Two groups of two values each, a standard deviation of 1 and of 3 around their means."""
    spread = math.sqrt((1 + 9) / 2)
    low, high = [9.0, 11.0] * 20, [10 + apart * spread - 3, 10 + apart * spread + 3] * 20
    assert (two_modes([*low, *high]) is not None) == two


@pytest.mark.parametrize(("high", "two"), [([13.0, 15.0], False), ([14.0, 16.0], True)])
def test_just_four_standard_deviations_are_one_group(high, two):
    """Both groups have a standard deviation of 1: means 4 apart are one mode, 5 apart are two."""
    assert (two_modes([9.0, 11.0] * 25 + high * 25) is not None) == two


ONE_GROUP = {
    "normal": RNG.normal(100, 1, 300),
    "uniform": RNG.uniform(0, 1, 300),
    "heavy tail": RNG.lognormal(0, 1, 300),
    "all equal": [5.0] * 100,
    "a few stalls": [*LOW, 900.0, 950.0],
    "close modes": [*LOW, *(HIGH - 6)],
    "too few": [1.0] * 24 + [9.0] * 25,
    "not a number": [*LOW, *HIGH, math.nan],
    "nothing": [],
    "a number": 5.0,
}


@pytest.mark.parametrize("values", ONE_GROUP.values(), ids=ONE_GROUP)
def test_one_group(values):
    assert two_modes(values) is None


def test_fifty_normal_values_are_hardly_ever_two():
    found = [two_modes(np.random.default_rng(s).normal(size=50)) for s in range(1000)]
    assert sum(f is not None for f in found) <= 5


def test_a_hundred_thousand_values_end():
    with ends():
        two_modes(RNG.normal(size=100_000))


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=50, max_size=60))
def test_never_raises(values):
    assert isinstance(two_modes(values), TwoModes | None)
