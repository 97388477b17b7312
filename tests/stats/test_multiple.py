"""Benjamini and Hochberg, against scipy.stats and by simulation of the rate that it promises."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from perfgate.stats.distributions import discoveries


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.sampled_from([0.01, 0.05, 0.2]))
def test_it_is_that_of_scipy(p_values, rate):
    adjusted = stats.false_discovery_control(p_values, method="bh")
    if np.abs(adjusted - rate).min() > 1e-12:  # on the edge, rounding decides
        assert discoveries(p_values, rate) == list(adjusted <= rate)


def test_the_published_example():
    """Benjamini and Hochberg (1995), section 3.2: of 15 p-values, the first four at 5 %."""
    p = [
        0.0001,
        0.0004,
        0.0019,
        0.0095,
        0.0201,
        0.0278,
        0.0298,
        0.0344,
        0.0459,
        0.324,
        0.4262,
        0.5719,
        0.6528,
        0.759,
        1,
    ]
    assert discoveries(p, 0.05) == [True] * 4 + [False] * 11


@pytest.mark.parametrize("shared", [0.0, 0.9])
def test_the_share_of_false_discoveries_is_kept(shared):
    """30 metrics of which 10 moved, independent or rising and falling together: at most 5 % of the found are false."""
    rng, shares = np.random.default_rng(2), []
    for _ in range(1500):
        z = np.sqrt(shared) * rng.standard_normal() + np.sqrt(1 - shared) * rng.standard_normal(30)
        z[:10] += 4
        found = np.array(discoveries(list(stats.norm.sf(z)), 0.05))
        shares.append(found[10:].sum() / max(found.sum(), 1))
    assert np.mean(shares) < 0.05 + 3 * np.std(shares) / np.sqrt(len(shares))


@pytest.mark.parametrize(("p", "found"), [([0.05], [True]), ([0.25, 0.5], [True, True]), ([0.26, 0.51], [False] * 2)])
def test_just_at_the_rate_is_found(p, found):
    assert discoveries(p, 0.05 if len(p) == 1 else 0.5) == found


def test_nothing_is_found_among_nothing():
    assert discoveries([], 0.05) == []
