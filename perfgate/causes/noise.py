"""Estimate the noise of a node: the variation of its time without a cause.

Two sources add up: the spread from step to step within the runs (between the means of runs, if that is larger), and
what differs from run to run: where memory lies, clocks, neighbours. One run a side does not show the second. It is
estimated from the other nodes: their log ratios new / base scatter around a common shift, and as most of them did not
change, the scatter (a robust one) is that noise. A floor stands in for programs with few nodes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from msgspec import Struct

from perfgate.causes.align import Alignment, TreeSide
from perfgate.causes.merged import Floats, Masks, Numbers
from perfgate.core.call_trees import DEVICE_KINDS
from perfgate.stats.distributions import t_quantile

#: The smallest noise from run to run of one node, as a share of its time: on the host, and on a device.
_FLOOR = {"host": 0.04, "device": 0.006, "communication": 0.03}
#: Nodes with a smaller share of the step are too noisy to show the noise of others.
_SEEN = 0.002
#: Steps of both sides are pairs if their correlation is larger than this, in at least this many steps.
_PAIRED = 0.8
_PAIRED_STEPS = 5
_NORMAL_MAD = 1.4826


class Noise(Struct, frozen=True):
    """The noise of the wall times of n nodes."""

    alignment: Alignment
    #: From run to run, as a share of the node's time, (n,).
    relative: Floats
    #: The common shift of all nodes, ln(new / base), (n,): one for the host, one for devices.
    shift: Floats

    @property
    def reach(self) -> float:
        """The standard errors on each side of a 95 % interval."""
        base, new = self.alignment.base, self.alignment.new
        steps = base.wall.shape[1] + new.wall.shape[1] - 2
        return t_quantile(max(steps, 4), 0.975)

    def change(self, nodes: Iterable[int]) -> tuple[float, float]:
        """Return new minus base of some nodes, and its standard error, in s per step."""
        chosen = np.array(sorted(nodes), np.int64)
        base, new = self.alignment.base, self.alignment.new
        before, after = (side.wall[chosen].sum(axis=0) for side in (base, new))
        variance = difference_error(before, after, base, new) ** 2
        for side in (base, new):
            between = self.relative[chosen] * side.wall[chosen].mean(axis=1)
            variance += float((between**2).sum()) / 2 / side.runs
        return float(after.mean() - before.mean()), math.sqrt(variance)


def standard_error(series: Floats, side: TreeSide) -> float:
    """The standard error of the mean of a series of steps: within the runs, or between them if that is larger."""
    if len(series) < 2:
        return 0.0
    within = float(series.var(ddof=1)) / len(series)
    if side.runs < 2:
        return math.sqrt(within)
    means = np.bincount(side.run, series) / np.bincount(side.run)
    return math.sqrt(max(within, float(means.var(ddof=1)) / len(means)))


def difference_error(one: Floats, other: Floats, base: TreeSide, new: TreeSide) -> float:
    """The standard error of the difference of the means of two series of steps.

    Steps that rise and fall together had the same input on both sides: then they are pairs.
    """
    can_pair = base.runs == new.runs == 1 and len(one) == len(other) >= _PAIRED_STEPS
    if can_pair and min(np.ptp(one), np.ptp(other)) > 0 and np.corrcoef(one, other)[0, 1] > _PAIRED:
        return float((other - one).std(ddof=1)) / math.sqrt(len(one))
    return math.hypot(standard_error(one, base), standard_error(other, new))


def difference_errors(one: Floats, other: Floats, base: TreeSide, new: TreeSide) -> Floats:
    """The same for n series, (n, s) to (n,)."""
    return np.array([difference_error(*rows, base, new) for rows in zip(one, other, strict=True)], np.float64)


def standard_errors(values: Floats, side: TreeSide) -> Floats:
    """The same for n series, (n, s) to (n,)."""
    return np.array([standard_error(row, side) for row in values], np.float64)


def classes(alignment: Alignment) -> dict[str, Masks]:
    """The nodes that share a source of noise, (n,) each."""
    kinds = [node.kind for node in alignment.nodes]
    device = np.array([kind in DEVICE_KINDS and kind != "communication" for kind in kinds], bool)
    communication = np.array([kind in ("communication", "collective") for kind in kinds], bool)
    return {"host": ~device & ~communication, "device": device, "communication": communication}


def measure_noise(alignment: Alignment) -> Noise:
    """Estimate the noise of every node from the others."""
    base, new = alignment.base, alignment.new
    before, after = base.wall.mean(axis=1), new.wall.mean(axis=1)
    step = max(before.sum(), after.sum())
    same = np.abs(base.counts.mean(axis=1) - new.counts.mean(axis=1)) < 1e-9
    usual = same & (np.minimum(before, after) > _SEEN * step)
    relative, shift = np.zeros(len(before)), np.zeros(len(before))
    for name, chosen in classes(alignment).items():
        rows = np.flatnonzero(chosen & usual)
        found, centre = _spread(before[rows], after[rows], alignment, rows) if len(rows) >= 4 else (0.0, 0.0)
        relative[chosen] = max(found, _FLOOR[name])
        shift[chosen] = centre
    return Noise(alignment, relative, shift)


def _spread(before: Floats, after: Floats, alignment: Alignment, rows: Numbers) -> tuple[float, float]:
    """The robust scatter of log ratios beyond what steps explain, and their centre."""
    ratios, weights = np.log(after / before), np.sqrt(before + after)
    centre = weighted_median(ratios, weights)
    scatter = _NORMAL_MAD * weighted_median(np.abs(ratios - centre), weights)
    base, new = (
        standard_errors(side.wall[rows], side) / np.maximum(mean, 1e-12)
        for side, mean in ((alignment.base, before), (alignment.new, after))
    )
    within = weighted_median(np.sqrt(base**2 + new**2), weights)
    return math.sqrt(max(scatter**2 - within**2, 0.0)), centre


def weighted_median(values: Floats, weights: Floats) -> float:
    """The value with half of the weight on each side."""
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(total, total[-1] / 2)])
