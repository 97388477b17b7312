"""Planning: its arithmetic against simulation, brute force and the noncentral t."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from perfgate.stats.bounds import values_to_pass, values_to_settle
from perfgate.stats.distributions import beta_quantile
from perfgate.stats.moderated import RunNoise, moderated_t, run_noise
from perfgate.stats.statistics import RunMeasure


def runs(*logs, within=0.0):
    return [RunMeasure(math.exp(x), 100, 100.0, within, 0, True) for x in logs]


@pytest.mark.parametrize(("base_runs", "new_runs", "prior"), [(1, 1, (0.01, 2)), (5, 1, (0.02, 8)), (5, 3, (0.01, 2))])
def test_a_change_within_reach_is_shown_with_the_promised_power(base_runs, new_runs, prior):
    """Runs drawn from the prior itself, each new side as much slower as its base runs say is seen: 80 % are."""
    rng, margin, shown, repetitions = np.random.default_rng(1), math.log(1.05), 0, 1500
    s0, d0 = prior
    for _ in range(repetitions):
        spread = s0 * math.sqrt(d0 / rng.chisquare(d0))
        base = runs(*rng.normal(0, spread, base_runs))
        slower = margin + run_noise(base, prior)[1].reach(new_runs, 0.95, 0.8)
        change = moderated_t(base, runs(*rng.normal(slower, spread, new_runs)), prior)
        shown += change.bounds(0.95)[0] > margin
    slack = 0.03 if new_runs > 1 else 0  # with several new runs the noise is known better than was planned
    assert (
        0.8 - 3 * math.sqrt(0.16 / repetitions) < shown / repetitions < 0.8 + slack + 3 * math.sqrt(0.16 / repetitions)
    )


@pytest.mark.parametrize("base_runs", [5, 10, 20])
def test_without_a_prior_it_is_near_the_noncentral_t(base_runs):
    """The power of a t test whose noise is the same every time (Lehmann), by scipy.stats.nct."""
    noise = RunNoise(0.02**2, 0.0, base_runs, 1e-9)
    df, standard_error = base_runs - 1, 0.02 * math.sqrt(1 / base_runs + 1)
    noncentrality = noise.reach(1, 0.95, 0.8) / standard_error
    assert stats.nct.sf(stats.t.ppf(0.95, df), df, noncentrality) == pytest.approx(0.8, abs=0.03)


def test_known_noise_is_the_normal_case():
    expected = 0.02 * math.sqrt(1 / 4 + 1 / 2) * (stats.norm.ppf(0.95) + stats.norm.ppf(0.8))
    assert RunNoise(0.02**2, 0.0, 4, 1e9).reach(2, 0.95, 0.8) == pytest.approx(expected, rel=1e-6)


def test_one_new_run_sees_what_its_verdict_would_say():
    """The noise that a comparison finds with one new run is that of its base runs alone."""
    base = runs(0, 0.01, -0.02, 0.005, within=1e-5)
    change = moderated_t(base, runs(0.3, within=1e-5), (0.01, 2))
    centre, noise = run_noise(base, (0.01, 2))
    assert math.exp(centre) == pytest.approx(change.base_value, rel=1e-12)
    assert noise.reach(1, 0.95, 0.8) == pytest.approx(change.detectable(0.95, 0.8), rel=1e-12)
    assert noise.runs_needed(0.05, 0.95, 0.8) == change.runs_needed(0.05, 0.95, 0.8)


@given(st.floats(1e-4, 0.3), st.floats(0, 1), st.integers(1, 10), st.floats(0.5, 8), st.floats(0.01, 0.5))
def test_more_of_anything_never_sees_less(spread, share, base_runs, prior_runs, margin):
    noise = RunNoise(spread**2, share * spread**2, base_runs, prior_runs)
    reach = [noise.reach(runs, 0.95, 0.8) for runs in range(1, 21)]
    assert all(a >= b * (1 - 1e-9) for a, b in pairwise(reach))
    assert noise.of_longer_runs(3).reach(1, 0.95, 0.8) <= reach[0] * (1 + 1e-9)
    assert noise.of_base_runs(base_runs + 1).reach(1, 0.95, 0.8) <= reach[0] * (1 + 1e-9)
    enough = [runs for runs, r in enumerate(reach, 1) if r <= margin]
    assert noise.runs_needed(margin, 0.95, 0.8) == (enough[0] if enough else None)


@pytest.mark.parametrize(("allowed", "values"), [(0.5, 5), (0.1, 29), (0.05, 59), (0.01, 299)])
def test_values_to_pass_are_the_published_ones(allowed, values):
    """The "rule of three" tables: 29, 59 and 299 values for 90, 95 and 99 % of a population at 95 % confidence."""
    assert values_to_pass(allowed, 0.95) == values
    assert stats.binom.cdf(0, values, allowed) <= 0.05 < stats.binom.cdf(0, values - 1, allowed)


@pytest.mark.parametrize(
    ("share", "allowed"), [(0.0, 0.05), (0.02, 0.05), (0.2, 0.1), (0.5, 0.1), (1.0, 0.5), (0.04, 0.05)]
)
def test_values_to_settle_are_the_first_that_do(share, allowed):
    """Counted up one by one, the bound leaves `allowed` on one side at most a twentieth earlier, to two digits."""

    def settled(n):
        k = share * n
        low = stats.beta.ppf(0.05, k, n - k + 1) if k > 0 else 0.0
        high = stats.beta.ppf(0.95, k + 1, n - k) if k < n else 1.0
        return low > allowed or high <= allowed

    first = next(n for n in range(1, 10_000) if settled(n))
    found = values_to_settle(share, allowed, 0.95)
    assert first * 0.999 <= found <= first * 1.05 * 1.1
    assert found < 100 or found % 10 == 0


def test_what_lies_on_the_allowed_share_is_never_settled():
    assert values_to_settle(0.05, 0.05, 0.95) is None
    assert 1_000_000 < values_to_settle(0.0502, 0.05, 0.95) <= 10_000_000


def test_an_upper_bound_just_on_the_allowed_share_settles_and_a_lower_one_does_not():
    assert values_to_settle(0.0, beta_quantile(1, 1.0, 0.95), 0.95) == 1
    assert values_to_settle(1.0, beta_quantile(1.0, 1.0, 1 - 0.95), 0.95) == 2


def test_a_share_of_less_than_one_value_has_a_lower_bound_too():
    """Half a bad value of one is more than a thousandth, by the beta distribution that the binomial bound is."""
    assert stats.beta.ppf(0.05, 0.5, 1.5) > 0.001
    assert values_to_settle(0.5, 0.001, 0.95) == 1


def test_values_to_settle_are_rounded_up_to_two_digits():
    assert values_to_settle(0.0, 0.0005, 0.95) == 6300  # 5990 would do, and of steps of a twentieth 6211 is the first
    assert values_to_settle(0.0, 0.5, 0.95) == 5


def test_runs_needed_end_at_twenty():
    reach = [RunNoise(1e-4, 0.0, 5, 2.0).reach(runs, 0.95, 0.8) for runs in (18, 19, 20, 21)]
    noise = RunNoise(1e-4, 0.0, 5, 2.0)
    assert noise.runs_needed(reach[1], 0.95, 0.8) == 19
    assert noise.runs_needed(reach[2], 0.95, 0.8) == 20
    assert noise.runs_needed(reach[3], 0.95, 0.8) is None
