"""The special functions behind the distributions, in plain Python for single numbers.

`scipy.special` has them, too, but takes longer to import than a small check takes altogether. They agree with it to a
relative 1e-12, which `tests/stats/test_special.py` checks.
"""

from __future__ import annotations

import math

#: The error of Stirling's formula is a series in 1 / n: these are its coefficients B(2k) / (2k (2k - 1)).
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
#: In place of a divisor of 0, and the relative error at which series end.
_TINY = 1e-300
_EPSILON = 1e-16


def beta_power(a: float, b: float, x: float, y: float) -> float:
    """Return x^a y^b / B(a, b) for a, b > 0 and y = 1 - x; both are given, because 1 - x loses digits.

    It is computed as a binomial probability of real counts: Loader, "Fast and accurate computation of binomial
    probabilities" (2000), whose terms do not cancel for large a and b.
    """
    if x <= 0 or y <= 0:
        return 0.0
    n = a + b
    stirling = _stirling_error(n) - _stirling_error(a) - _stirling_error(b)
    exponent = stirling - _deviance(a, n * x) - _deviance(b, n * y)
    return math.sqrt(a * b / (2 * math.pi * n)) * math.exp(exponent)


def incomplete_beta(a: float, b: float, x: float, y: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b) for a, b > 0 and y = 1 - x.

    It is the continued fraction 8.17.22 of https://dlmf.nist.gov/8.17, which converges quickly below the mean, and
    1 - I_y(b, a) above the mean.
    """
    if x > (a + 1) / (a + b + 2):
        return 1 - incomplete_beta(b, a, y, x)
    return beta_power(a, b, x, y) / a * _beta_fraction(a, b, x)


def incomplete_gamma_above(a: float, x: float) -> float:
    """Return the regularised upper incomplete gamma function Q(a, x) for a > 0 and x >= 0.

    It is the series 8.11.4 of https://dlmf.nist.gov/8 for x < a + 1, and the continued fraction 8.9.2 for larger x.
    """
    if x <= 0:
        return 1.0
    power = math.exp(-_stirling_error(a) - _deviance(a, x)) * math.sqrt(a / (2 * math.pi))  # x^a e^-x / gamma(a)
    if x < a + 1:
        term = total = 1 / a
        n = a
        while term > total * _EPSILON:
            n += 1
            term *= x / n
            total += term
        return 1 - power * total
    b = x + 1 - a
    c, d = 1 / _TINY, 1 / b
    fraction = d
    for i in range(1, 100_000):
        step = -i * (i - a)
        b += 2
        d = 1 / _not_zero(step * d + b)
        c = _not_zero(b + step / c)
        fraction *= c * d
        if abs(c * d - 1) < _EPSILON:
            break
    return power * fraction


def _beta_fraction(a: float, b: float, x: float) -> float:
    """Return the continued fraction of the incomplete beta function by the modified method of Lentz."""
    c, d = 1.0, 1 / _not_zero(1 - (a + b) * x / (a + 1))
    fraction = d
    for m in range(1, 100_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1 / _not_zero(1 + even * d)
        c = _not_zero(1 + even / c)
        fraction *= c * d
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d = 1 / _not_zero(1 + odd * d)
        c = _not_zero(1 + odd / c)
        fraction *= c * d
        if abs(c * d - 1) < _EPSILON:
            break
    return fraction


def _not_zero(value: float) -> float:
    return value or _TINY


def _stirling_error(n: float) -> float:
    """Return ln(n!) minus Stirling's formula ln(sqrt(2 pi n) (n / e)^n), for real n > 0."""
    if n < 16:
        return math.lgamma(n + 1) - (n + 0.5) * math.log(n) + n - 0.5 * math.log(2 * math.pi)
    square, total = n * n, 0.0
    for coefficient in reversed(_STIRLING):
        total = total / square + coefficient
    return total / n


def _deviance(x: float, mean: float) -> float:
    """Return x ln(x / mean) + mean - x, which is at least 0, without cancellation near the mean."""
    if abs(x - mean) >= 0.1 * (x + mean):
        return x * math.log(x / mean) + mean - x
    v = (x - mean) / (x + mean)
    total, term = (x - mean) * v, 2 * x * v
    for odd in range(3, 1000, 2):
        term *= v * v
        before, total = total, total + term / odd
        if total == before:
            break
    return total
