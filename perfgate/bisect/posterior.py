"""The probability of each place in an ordered list at which the level of a metric changed.

The model of measurement i, the logarithm of the metric at position p of a list of n positions:

    y = level + drift * hours + session + change [p >= g] + other [p >= k] + noise

with no change, one change at the gap g in 1..n-1 (the first position with the new level), or a second, smaller one at
k. Positions that were not measured cannot be distinguished. So the gaps between two neighbouring measured positions are
one `cell`, and one likelihood for each cell and each pair of cells is enough for any n. Two changes in one cell are a
hypothesis of their own: they may cancel each other in part, so that the ends of the cell differ by little.

Level, drift and sessions have normal priors and are integrated out in closed form. So are the changes: the prior of the
size of a change is log-uniform from the tolerance upwards, with either sign, as a mixture of normal distributions. The
standard deviation of the noise is integrated over a grid. Some measurements may be far off (Student's t), so each has a
weight: (tails + 1) / (tails + r^2), where r^2 is the expected square of its residual over all hypotheses.

Regression with a normal prior: Bishop, "Pattern Recognition and Machine Learning" (2006), 3.3 and 3.5. A change point
with unknown parameters: Smith, "A Bayesian approach to inference about a change-point" (1975). Weights of Student's t:
Lange, Little, Taylor, "Robust statistical modeling using the t distribution" (1989).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from perfgate.bisect.measurements import Design, Hypotheses, IntArray, Measurement, Model, Prediction
from perfgate.stats.distributions import FloatArray, normal_tail

#: The sizes of a change: the ratio of neighbouring ones, and the standard deviation of each, relative to it, so that
#: they overlap. The smallest is twice the tolerance, which a pass of `check` excludes, and reaches down to it.
_SIZE_STEP, _SIZE_SPREAD = 2.0, 0.35
#: The sizes go up to the first that is at least this, as a logarithm: a factor of 20 or more.
_LARGEST = 3.0
#: The standard deviation of a second change, relative to the largest one; its mean is 0.
_OTHER_SPREAD = 0.5
#: The prior probability that nothing changed, and that of a second change if something changed.
_NOTHING, _ANOTHER = 0.15, 0.15
#: The weights of the measurements are computed this many times, each time from the posterior before.
_ROUNDS = 2
_TINY = 1e-300
#: Another machine than that of the stored runs: the standard deviation of its level, a logarithm, and its prior odds.
_OTHER, _ODDS = 0.1, 0.1
#: Stored runs are used if the machine is the same with at least this probability.
_SAME = 0.75


class Posterior(Struct, frozen=True):
    """The answer of `posterior`.

    `edges` are the m measured positions in order; cell j is the gaps edges[j] + 1 .. edges[j + 1]. `cells` is (m - 1,):
    the probability that the largest change is in that cell, and `changed` that any change is. `nothing` is the
    probability of no change, `another` that of a second change, `noise` the standard deviation of one measurement
    beyond what is known within it, and `drift` the change of the level per hour, as a logarithm.
    """

    model: Model
    edges: IntArray
    cells: FloatArray
    changed: FloatArray
    nothing: float
    another: float
    noise: float
    drift: float
    hypotheses: Hypotheses
    next: Prediction
    #: The logarithm of the probability density of all measurements.
    log_density: float

    def gap_probabilities(self, cell: int | None = None) -> FloatArray:
        """Return for each gap the probability that the largest change is there, (n - 1,); index 0 is before position 1.

        With `nothing`, they add up to 1. With `cell`: the probability of any change in that cell; in other cells, that
        of the largest change if there is none in `cell`. These add up to 1, too.
        """
        cells, widths = self.cells, np.diff(self.edges)
        if cell is not None:
            found = self.hypotheses
            cells = _largest(found, found.weight * (found.cells != cell).all(axis=1), len(widths))
            cells[cell] = self.changed[cell]
        return np.repeat(cells / widths, widths)

    def change(self, cell: int, confidence: float = 0.95) -> tuple[float, float, float]:
        """Return the logarithm of the change in a cell and its two-sided interval, if it is the largest change.

        Two changes in one cell are added.
        """
        found = self.hypotheses
        weight = found.weight * (found.cells[:, 0] == cell)
        is_both = found.cells[:, 1] == cell
        mean = np.where(is_both, found.mean.sum(axis=1), found.mean[:, 0])
        variance = np.where(is_both, found.covariance.sum(axis=(1, 2)), found.covariance[:, 0, 0])
        return _mixture(weight, mean, variance, confidence)

    def exceeds(self, bound: float) -> float:
        """Return the probability that the logarithms of the two ends differ by more than a bound, in any direction."""
        mean = self.hypotheses.mean.sum(axis=1)
        spread = np.sqrt(np.maximum(self.hypotheses.covariance.sum(axis=(1, 2)), 1e-18))
        beyond = normal_tail((bound - mean) / spread) + normal_tail((bound + mean) / spread)
        return float(self.hypotheses.weight @ beyond)


def posterior(model: Model, measurements: Sequence[Measurement]) -> Posterior:
    """Return the probability of each place of the change.

    `measurements`: in order of time; the last position must be among them, and the first one unless they are pairs.
    Raises ValueError: if an end was not measured, or a position is not in the list.
    """
    measurements = (*model.stored, *measurements)
    places = np.array([one.position for one in measurements], dtype=np.int64)
    edges = np.unique(np.append(places, 0) if model.paired else places)
    if len(edges) < 2 or edges[0] != 0 or edges[-1] != model.positions - 1:
        raise ValueError("measure the first and the last position first, and no position outside of the list")
    weights = np.ones(len(measurements))
    found, design = _weighed(model, measurements, edges, weights)
    for _ in range(_ROUNDS if math.isfinite(model.tails) else 0):
        weights = (model.tails + 1) / (model.tails + design.squares(found.noise, found.hypotheses))
        weights[: len(model.stored)] = 1  # means of runs, so none is far off
        found, design = _weighed(model, measurements, edges, weights)
    return found


def _weighed(
    model: Model, measurements: Sequence[Measurement], edges: IntArray, weights: FloatArray
) -> tuple[Posterior, Design]:
    """Return the posterior for measurements whose noise variances are divided by `weights`."""
    design = Design.of(model, measurements, edges, weights)
    log_noise, sizes = _log_noise_prior(model, design.noises), _sizes(model.tolerance)
    widths = np.diff(edges).astype(np.float64)
    groups = [_no_change(design, log_noise), _one_change(design, log_noise, sizes, widths)]
    if widths.sum() > 1:
        # two changes cost most, so they are computed only for the noises that are probable with one change
        mass = np.exp(groups[1].log_weight - groups[1].log_weight.max()).sum(axis=(1, 2))
        groups.append(_two_changes(design, log_noise, sizes, widths, np.flatnonzero(mass > 1e-6 * mass.sum())))
    peak = max(float(group.log_weight.max()) for group in groups)
    log_total = peak + math.log(sum(float(np.exp(group.log_weight - peak).sum()) for group in groups))
    parts = [group.moments(log_total) for group in groups]  # weight, mean, covariance, sum of weight * noise^2
    weight, mean, covariance = (np.concatenate(values) for values in zip(*(part[:3] for part in parts), strict=True))
    found = Hypotheses(np.concatenate([group.cells for group in groups]), weight, mean, covariance)
    noise = math.sqrt(sum(part[3] for part in parts))
    is_apart = found.cells[:, 0] != found.cells[:, 1]  # two changes in one cell count once
    changed = _in_cells(found, weight, weight * is_apart, len(widths))
    cells = _largest(found, weight, len(widths))
    another, drift = float(weight[found.cells[:, 1] >= 0].sum()), design.drift(noise, found)
    nothing, prediction = float(weight[0]), design.predict(noise)  # the first hypothesis has no change
    log_density = log_total - len(measurements) / 2 * math.log(2 * math.pi)
    return Posterior(
        model, edges, cells, changed, nothing, another, noise, drift, found, prediction, log_density
    ), design


def _in_cells(found: Hypotheses, first: FloatArray, second: FloatArray, count: int) -> FloatArray:
    """Return for each cell, (count,), the summed weights of the changes there: `first` and `second` are (h,) each."""
    cells, weights = found.cells.T.ravel(), np.concatenate([first, second])
    return np.asarray(np.bincount(cells[cells >= 0], weights[cells >= 0], count), dtype=np.float64)


def _largest(found: Hypotheses, weight: FloatArray, count: int) -> FloatArray:
    """Return for each cell, (count,), the weight of the hypotheses whose largest change is there."""
    mean, covariance = found.mean, found.covariance
    first, second = np.sign(mean[:, 0]), np.sign(mean[:, 1])
    # the difference of the sizes of the two changes: its mean and variance
    apart = first * mean[:, 0] - second * mean[:, 1]
    variance = covariance[:, 0, 0] + covariance[:, 1, 1] - 2 * first * second * covariance[:, 0, 1]
    # the probability that the first change is larger than the second; 1 without a second one
    share = np.where(second == 0, 1.0, normal_tail(-apart / np.sqrt(np.maximum(variance, 1e-18))))
    return _in_cells(found, weight * share, weight * (1 - share), count)


def _sizes(tolerance: float) -> FloatArray:
    """Return the sizes of a change that are tried, as logarithms, from the tolerance upwards, with either sign."""
    smallest = 2 * math.log1p(max(tolerance, 1e-3))
    count = 1 + max(0, math.ceil(math.log(_LARGEST / smallest, _SIZE_STEP)))
    sizes = smallest * _SIZE_STEP ** np.arange(count)
    return np.concatenate([sizes, -sizes])


def _log_noise_prior(model: Model, noises: FloatArray) -> FloatArray:
    """Return the logarithm of the scaled inverse chi-square density of the noise, on the grid of its logarithms."""
    squares = (model.s0 / noises) ** 2
    density = model.d0 / 2 * (np.log(squares) - squares)
    density -= density.max()
    return np.asarray(density - np.log(np.exp(density).sum()), dtype=np.float64)


class _Group(Struct, frozen=True):
    """The h hypotheses with no, one or two changes, for each of s noises and z sizes of the largest change."""

    #: The cells of the changes, (h, 2), see `Hypotheses`; the noises that were computed, (s,).
    cells: IntArray
    noises: FloatArray
    #: The logarithm of prior times likelihood, (s, z, h).
    log_weight: FloatArray
    #: The moments of the two changes, (s, z, h, 2) and (s, z, h, 2, 2).
    mean: FloatArray
    covariance: FloatArray

    def moments(self, log_total: float) -> tuple[FloatArray, FloatArray, FloatArray, float]:
        """Return the weight, mean and covariance of each hypothesis, and the sum of weight * noise^2 of the group."""
        points = np.exp(self.log_weight - log_total)
        weight = points.sum(axis=(0, 1))
        share = points / np.maximum(weight, _TINY)
        mean = np.einsum("szh,szha->ha", share, self.mean)
        apart = self.mean - mean
        covariance = np.einsum("szh,szhab->hab", share, self.covariance)
        covariance += np.einsum("szh,szha,szhb->hab", share, apart, apart)
        return weight, mean, covariance, float((points.sum(axis=(1, 2)) * self.noises**2).sum())


def _no_change(design: Design, log_noise: FloatArray) -> _Group:
    """Weigh the hypothesis without a change. `log_noise`: the logarithm of the prior of each noise."""
    log_weight = (design.constant + log_noise + math.log(_NOTHING))[:, None, None]
    shape = log_weight.shape
    return _Group(np.full((1, 2), -1), design.noises, log_weight, np.zeros((*shape, 2)), np.zeros((*shape, 2, 2)))


def _one_change(design: Design, log_noise: FloatArray, sizes: FloatArray, widths: FloatArray) -> _Group:
    """Weigh one change in each cell. `widths`: the number of gaps in each cell."""
    # prior times likelihood exp(products d - gram d^2 / 2) is normal, precision `total`: its integral is the weight
    gaps = widths.sum()
    prior = (1 - _ANOTHER if gaps > 1 else 1.0) * widths / gaps
    diagonal = np.einsum("scc->sc", design.gram)[:, None, :]
    precision = (1 / (_SIZE_SPREAD * sizes) ** 2)[:, None]
    centre = sizes[:, None]
    total = diagonal + precision
    mean = (design.products[:, None, :] + precision * centre) / total
    log_weight = (np.log(precision / total) + total * mean**2 - precision * centre**2) / 2
    log_weight = log_weight + (design.constant + log_noise)[:, None, None] - math.log(len(sizes))
    log_weight = log_weight + np.log((1 - _NOTHING) * prior)
    means, covariances = np.zeros((*mean.shape, 2)), np.zeros((*mean.shape, 2, 2))
    means[..., 0], covariances[..., 0, 0] = mean, 1 / total
    count = np.arange(len(widths))
    return _Group(np.stack([count, np.full_like(count, -1)], axis=1), design.noises, log_weight, means, covariances)


def _two_changes(
    design: Design, log_noise: FloatArray, sizes: FloatArray, widths: FloatArray, kept: IntArray
) -> _Group:
    """Weigh two changes in two cells or in one, the largest one first, for the noises `kept`."""
    # as for one change, but the precision is the matrix [[a, c], [c, b]], and precision times mean is (u, v)
    gaps = widths.sum()
    places = np.outer(widths, widths) - np.diag(widths)  # the pairs of different gaps in each pair of cells
    first, second = np.nonzero(places)
    prior = (1 - _NOTHING) * _ANOTHER * places[first, second] / (gaps * (gaps - 1))
    gram, products = design.gram[kept], design.products[kept]
    large, small = (1 / (spread * sizes[:, None]) ** 2 for spread in (_SIZE_SPREAD, _OTHER_SPREAD))
    a = gram[:, first, first][:, None] + large
    b = gram[:, second, second][:, None] + small
    c = np.broadcast_to(gram[:, first, second][:, None], a.shape)
    u = products[:, first][:, None] + large * sizes[:, None]
    v = np.broadcast_to(products[:, second][:, None], u.shape)
    determinant = a * b - c * c
    mean = np.stack([(b * u - c * v) / determinant, (a * v - c * u) / determinant], axis=-1)
    covariance = np.stack([np.stack([b, -c], -1), np.stack([-c, a], -1)], -1) / determinant[..., None, None]
    log_weight = (np.log(large * small / determinant) + mean[..., 0] * u + mean[..., 1] * v) / 2
    log_weight = log_weight - (large * sizes[:, None] ** 2) / 2 + np.log(prior) - math.log(len(sizes))
    log_weight = log_weight + (design.constant + log_noise)[kept][:, None, None]
    return _Group(np.stack([first, second], axis=1), design.noises[kept], log_weight, mean, covariance)


def _mixture(
    weight: FloatArray, mean: FloatArray, variance: FloatArray, confidence: float
) -> tuple[float, float, float]:
    """Return the mean and the two-sided interval of a mixture of normal distributions."""
    weight = weight / weight.sum()
    spread = np.sqrt(np.maximum(variance, 1e-18))
    low, high = float((mean - 9 * spread).min()), float((mean + 9 * spread).max())

    def quantile(tail: float) -> float:
        """Return the value that is exceeded with this probability, by bisection."""
        below, above = low, high
        for _ in range(50):
            middle = (below + above) / 2
            if float(weight @ normal_tail((middle - mean) / spread)) > tail:
                below = middle
            else:
                above = middle
        return (below + above) / 2

    out = (1 - confidence) / 2
    return float(weight @ mean), quantile(1 - out), quantile(out)


def agreed_posterior(model: Model, measurements: Sequence[Measurement]) -> Posterior:
    """Return `posterior`; without the stored runs if the machine is probably another one now.

    The density of the stored runs, given the new measurements, is compared with the highest one of another machine.
    """
    alone = posterior(replace(model, stored=()), measurements)
    if not model.stored:
        return alone
    found = posterior(model, measurements)
    log_same = found.log_density - alone.log_density
    log_other = len(model.stored) * -math.log(_OTHER * math.sqrt(2 * math.pi)) + math.log(_ODDS)
    same = 1 / (1 + math.exp(min(log_other - log_same, 700.0)))  # of the same machine; exp(710) overflows
    return found if same >= _SAME else alone
