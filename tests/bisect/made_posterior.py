"""A posterior with hypotheses made by hand, for what is computed from a posterior."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import norm

from perfgate.bisect.measurements import Hypotheses, Model, Prediction
from perfgate.bisect.posterior import Posterior
from perfgate.stats.distributions import FloatArray

#: The cells of the two changes, the weight, both means, and the variances of both with their covariance.
ROWS: list[tuple[tuple[int, int], float, tuple[float, float], tuple[float, float, float]]] = [
    ((-1, -1), 0.10, (0, 0), (0, 0, 0)),
    ((0, -1), 0.15, (0.06, 0), (4e-4, 0, 0)),
    ((1, -1), 0.05, (-0.04, 0), (1e-4, 0, 0)),
    ((2, -1), 0.20, (0.05, 0), (2e-4, 0, 0)),
    ((0, 1), 0.05, (0.05, -0.03), (3e-4, 2e-4, 1e-4)),
    ((1, 0), 0.05, (0.02, 0.04), (1e-4, 4e-4, -1e-4)),
    ((2, 0), 0.10, (-0.05, 0.04), (5e-4, 2e-4, -2e-4)),
    ((0, 2), 0.10, (-0.05, -0.06), (9e-4, 3e-4, 2e-4)),
    ((2, 2), 0.15, (0.05, -0.02), (6e-4, 4e-4, -1e-4)),
    ((0, 0), 0.05, (0.03, 0.03), (2e-4, 3e-4, -1e-4)),
]


def hypotheses(
    rows: Sequence[tuple[tuple[int, int], float, tuple[float, float], tuple[float, float, float]]],
) -> Hypotheses:
    cells, weights, means, spreads = zip(*rows, strict=True)
    covariance = [[[first, both], [both, second]] for first, second, both in spreads]
    return Hypotheses(np.array(cells), np.array(weights), np.array(means, np.float64), np.array(covariance, np.float64))


def made(found: Hypotheses | None = None, edges: Sequence[int] = (0, 2, 3, 7)) -> Posterior:
    """Three cells: two gaps, one and four. `cells` and `changed` are round numbers, not those of the hypotheses."""
    cells, changed, pull = np.array([0.3, 0.15, 0.45]), np.array([0.4, 0.2, 0.5]), np.array([0.5, 0.3, 0.2])
    found, model = found or hypotheses(ROWS), Model(edges[-1] + 1)
    after = Prediction(0.3, pull, 2e-4)
    return Posterior(model, np.array(edges), cells, changed, 0.1, 0.5, 0.01, 0.0, found, after, 0.0)


def first_is_larger(mean: FloatArray, covariance: FloatArray) -> float:
    """The probability that the first change is larger, with the signs of the means, by integration over the second."""
    (a, c), (_, b) = covariance
    signs = np.sign(mean)
    if not signs[1]:
        return 1.0
    second = mean[1] + np.linspace(-9, 9, 4001) * np.sqrt(b)
    least = signs[0] * signs[1] * second
    beyond = norm.sf(signs[0] * (least - mean[0] - c / b * (second - mean[1])) / np.sqrt(a - c * c / b))
    density = norm.pdf(second, mean[1], np.sqrt(b))
    return float((density * beyond).sum() / density.sum())
