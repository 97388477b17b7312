"""Several looks at growing data: how much of an error rate each look may use.

The data are looked at after every new run, and the first clear answer ends the runs. A test that uses the whole error
rate at every look is wrong more often than it says. Lan and DeMets, "Discrete sequential boundaries for clinical
trials" (1983), let a test spend its error rate: up to the look with the share t of all information, a rate of
total * t^power. The looks share their runs, so this costs less than Bonferroni's correction.

The levels are those of a known variance. Applied to a t test with its own degrees of freedom they keep the rate well
(Jennison and Turnbull, "Group Sequential Methods" (2000), section 4.4).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from perfgate.stats.distributions import FloatArray, normal_quantile, normal_tail

#: The nodes of the quadrature: at least the first number, more if two looks are close, and at most the second.
_FEWEST_NODES, _MOST_NODES = 48, 160
#: The integrals begin this many standard deviations below zero.
_FAR = 8.0
#: A first look that may use less than this uses this much.
_LEAST_SHARE = 1e-300


@lru_cache(maxsize=512)
def nominal_levels(
    information: tuple[float, ...], total: float, power: float, looks: int | None = None
) -> tuple[float, ...]:
    """Return the one-sided level of each look, so that all looks together are wrong at a rate of `total`.

    Parameters:
        information: the information at each look, increasing and positive: 1 / variance of the estimate, in any unit.
        total: the error rate of all looks, in (0, 0.5].
        power: how late it is spent: 0.5 spends much at the first look, 8 almost all at the last one.
        looks: the number of levels to return, from the first look on; None for all. Later levels take no time then.
    """
    times = np.array(information) / information[-1]
    spent = total * times**power
    closest = min(float(np.diff(times).min()) if len(times) > 1 else 1.0, 1.0)
    count = min(max(_FEWEST_NODES, round(16 / math.sqrt(closest))), _MOST_NODES)
    # The upper quantile is minus the lower one. 1 - share would be rounded to 1.
    bound = -math.sqrt(times[0]) * normal_quantile(max(float(spent[0]), _LEAST_SHARE))
    bounds = [bound]
    # The estimates are a random walk in `times`, from 0. `mass`: of a walk below all its bounds, at the nodes.
    nodes, mass, earlier = np.zeros(1), np.ones(1), 0.0
    for look, time in enumerate(times[1:looks], 1):
        # First the mass at the look before, from that one look earlier (at `earlier`); then the bound of this look.
        before = times[look - 1]
        following, weights = _interval(before, bound, count)  # at the look before, below its bound
        moved = _normal_density(following[:, None] - nodes[None, :], float(before - earlier))
        nodes, mass, earlier = following, weights * np.sum(moved * mass, axis=1), before
        bound = _bound(nodes, mass, float(time - before), float(spent[look] - spent[look - 1]))
        bounds.append(bound)
    return tuple(normal_tail(one / math.sqrt(time)) for one, time in zip(bounds, times, strict=False))


def _interval(time: float, bound: float, count: int) -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights of Gauss and Legendre from far below zero to the bound, or at most far above zero."""
    nodes, weights = _legendre(count)
    low, high = -_FAR * math.sqrt(time), min(bound, _FAR * math.sqrt(time))
    half = (high - low) / 2
    return low + half * (nodes + 1), half * weights


@lru_cache(maxsize=8)
def _legendre(count: int) -> tuple[FloatArray, FloatArray]:
    return np.polynomial.legendre.leggauss(count)


def _tails(z: FloatArray) -> FloatArray:
    """Return the upper tail of the standard normal distribution, without the import of scipy."""
    return np.array([math.erfc(value) for value in (z / math.sqrt(2)).tolist()]) / 2


def _normal_density(x: FloatArray, variance: float) -> FloatArray:
    return np.exp(-np.square(x) / (2 * variance)) / math.sqrt(2 * math.pi * variance)


def _bound(nodes: FloatArray, mass: FloatArray, step: float, share: float) -> float:
    """Return the bound of a look: a walk that was below all earlier bounds exceeds it with the probability `share`.

    `mass` is the probability of each node at the look before, and `step` the variance of the walk since then.
    """
    low, high = -_FAR, _FAR
    for _ in range(52):
        middle = (low + high) / 2
        beyond = float(np.sum(mass * _tails((middle - nodes) / math.sqrt(step))))
        low, high = (middle, high) if beyond > share else (low, middle)
    return (low + high) / 2
