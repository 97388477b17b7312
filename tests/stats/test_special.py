"""The distributions of single numbers against scipy.special, far into the tails and for many degrees of freedom."""

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, special
from scipy.stats import beta

from perfgate.stats.distributions import (
    beta_below,
    beta_quantile,
    f_tail,
    normal_quantile,
    normal_tail,
    share_bounds,
    t_quantile,
    t_tail,
)

FREEDOM = st.floats(-0.5, 9).map(lambda power: 10**power)
SHARE = st.floats(1e-9, 1 - 1e-9)


def near(expected: float) -> object:
    return pytest.approx(float(expected), rel=1e-12, abs=1e-12)


@given(FREEDOM, st.floats(-40, 40))
def test_t_tail(df, t):
    # For one degree of freedom, scipy is wrong by up to 2e-9 near zero; Cauchy's distribution is exact.
    assert t_tail(df, t) == near(0.5 - math.atan(t) / math.pi if df == 1 else special.stdtr(df, -t))


@given(FREEDOM, SHARE)
def test_t_quantile(df, p):
    # Near the median, and where it is far out, the share itself has an error that the quantile multiplies.
    assert t_quantile(df, p) == pytest.approx(float(special.stdtrit(df, p)), rel=2e-11, abs=1e-12)
    assert t_tail(df, t_quantile(df, p)) == pytest.approx(1 - p, rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("log_t", [50, 300, 344.9, 345.1, 400, 1e4])
def test_the_quantile_of_hardly_a_degree_of_freedom_is_large_or_infinite(log_t):
    """Far out, the share beyond t is (df / t^2)^(df / 2) / (df B(df / 2, 1 / 2)). Squares above e^690 are not made."""
    tail = 2.0**-12
    inside = (lambda df: math.log(df) / 2 - math.log(tail * df * special.beta(df / 2, 0.5)) / df - log_t, 1e-5, 1.0)
    t = t_quantile(optimize.brentq(*inside, xtol=1e-15), 1 - tail)
    assert t == (pytest.approx(math.exp(log_t), rel=1e-6) if log_t < 345 else math.inf)


@given(st.integers(1, 40), st.one_of(st.floats(1, 300), st.just(math.inf)), st.floats(0, 50))
def test_f_tail(above, below, f):
    expected = special.chdtrc(above, above * f) if math.isinf(below) else special.fdtrc(above, below, f)
    assert f_tail(above, below, f) == near(expected)


@given(st.floats(0.1, 1000), st.floats(0.1, 1e5), SHARE)
def test_beta(a, b, x):
    assert beta_below(a, b, x) == near(special.betainc(a, b, x))
    found = beta_quantile(a, b, x)
    rounding = 2**-52 / max(beta.pdf(found, a, b), 1e-9)  # of a probability near 1, where the density is small
    assert found == pytest.approx(float(special.betaincinv(a, b, x)), rel=1e-9, abs=1e-12 + 4 * rounding)


@given(SHARE, st.floats(-38, 38))
def test_normal(p, z):
    assert normal_quantile(p) == near(special.ndtri(p))
    assert normal_tail(z) == near(special.ndtr(-z))
    assert normal_tail(np.array([z, 1.0])).tolist() == [near(special.ndtr(-z)), near(special.ndtr(-1.0))]


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_the_ends_are_infinite(p):
    assert normal_quantile(p) == special.ndtri(p)
    assert t_quantile(5, p) == special.ndtri(p)
    assert t_quantile(math.inf, 0.9) == near(special.ndtri(0.9))


def test_a_small_check_does_not_import_scipy():
    program = (
        "import sys; from perfgate.cli.entry import main; sys.argv = ['perfgate', 'check', 'runs/change.log']\n"
        "try: main()\nexcept SystemExit: pass\nprint('scipy' in sys.modules)"
    )
    folder = Path(__file__).resolve().parents[2] / "examples" / "tiny-gpt"
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout.endswith("False\n")


@pytest.mark.parametrize("above", [1, 2, 3, 7, 20, 80])
@pytest.mark.parametrize("f", [1e-6, 0.1, 0.9, 1.0, 1.01, 1.5, 2.0, 4.0, 12.0])
def test_f_tail_of_a_known_noise_in_every_digit(above, f):
    """Below the mean a series, above it a continued fraction; a chi-squared variable over its degrees of freedom."""
    expected = float(special.gammaincc(above / 2, above * f / 2))
    assert f_tail(above, math.inf, f) == pytest.approx(expected, rel=1e-12)
    assert f_tail(above, math.inf, 0.0) == 1.0


@pytest.mark.parametrize("df", [3.001e4, 1e5, 1e7])
@pytest.mark.parametrize("t", [0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0])
def test_t_tail_of_many_degrees_of_freedom_in_every_digit(df, t):
    """The expansion around the normal distribution continues the exact function; scipy is exact to 2e-12 here."""
    assert t_tail(df, t) == pytest.approx(float(special.stdtr(df, -t)), rel=3e-12)
    assert t_tail(3.0e4, t) / t_tail(3.0e4 + 1e-6, t) == pytest.approx(1, rel=3e-12)


@pytest.mark.parametrize("a", [0.3, 1.0, 4.0, 15.9, 16.0, 70.0, 1e4])
@pytest.mark.parametrize("b", [0.5, 2.0, 30.0])
@pytest.mark.parametrize("share", [1e-3, 0.2, 0.5, 0.8])
def test_beta_in_every_digit(a, b, share):
    x = special.betaincinv(a, b, share)
    assert beta_below(a, b, x) == pytest.approx(float(special.betainc(a, b, x)), rel=1e-11)
    assert beta_quantile(a, b, share) == pytest.approx(float(x), rel=1e-11)
    assert (beta_below(a, b, 0.0), beta_below(a, b, 1.0)) == (0.0, 1.0)


@pytest.mark.parametrize(("count", "total"), [(0, 9), (1, 9), (9, 9), (3, 40), (39, 40), (2.5, 7.25)])
@pytest.mark.parametrize("confidence", [0.95, 0.99])
def test_the_bounds_of_a_share_are_those_of_clopper_and_pearson(count, total, confidence):
    low, high = share_bounds(count, total, confidence)
    assert low == (0 if count == 0 else pytest.approx(beta.ppf(1 - confidence, count, total - count + 1)))
    assert high == (1 if count == total else pytest.approx(beta.ppf(confidence, count + 1, total - count)))
    assert share_bounds(count, total) == share_bounds(count, total, 0.95)
