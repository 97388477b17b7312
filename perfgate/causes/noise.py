"""The noise of a node of a tree: the variation of its time without a cause, in traces and in metrics.

Traces (`Noise`): two sources add up. The first is the spread from step to step within the runs, or between the means of
runs if that is larger. The second differs from run to run: addresses of memory, clocks, other programs. One run a side
does not show it, so it is estimated from the other nodes: the logarithms of their ratios new / base scatter around a
common shift. As most nodes did not change, a robust measure of this scatter is the noise. It is at least a floor, which
matters in programs with few nodes.

Metrics (`SeriesNoise`): a few runs estimate a variance badly, so it is moderated: the variance of a node is averaged
with that of all nodes, and this one with a prior (Smyth 2004, as in `stats.moderated`). One run a side shows no noise
between runs. Then the prior is used, or the scatter of the other nodes between the sides if that is larger.

The rest of a node, which its inner timers leave, is a difference of large numbers. Its noise is as large as that of the
whole node, so it is measured alone, or taken from the whole node.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
from msgspec import Struct

from perfgate.causes.align import Alignment, TreeSide
from perfgate.causes.merged import Floats, Masks, Numbers
from perfgate.causes.nesting import NOT_TIMED
from perfgate.core.call_trees import DEVICE_KINDS
from perfgate.stats.distributions import t_quantile

#: The smallest noise from run to run of one node, as a share of its time, by its class (see `classes`).
_FLOOR = {"host": 0.04, "device": 0.006, "communication": 0.03}
#: Nodes with a smaller share of the step are too noisy to show the noise of others.
_SEEN = 0.002
#: Steps of both sides are pairs if their correlation is larger than this, in at least this many steps.
_PAIRED, _PAIRED_STEPS = 0.8, 5
#: The median distance from the median of normal values, times this, is their standard deviation.
NORMAL_MAD = 1.4826


class Noise(Struct, frozen=True):
    """The noise of the wall times of n nodes."""

    alignment: Alignment
    #: The standard deviation of the difference of two runs, as a share of the node's time, (n,).
    relative: Floats
    #: The common shift of the nodes of each class, ln(new / base), (n,).
    shift: Floats

    @property
    def reach(self) -> float:
        """The half width of a 95 % interval, in standard errors."""
        steps = sum(side.wall.shape[1] for side in self.alignment.sides) - 2
        return t_quantile(max(steps, 4), 0.975)  # with fewer, an interval would say nothing

    @property
    def device_effect(self) -> float:
        """The time of the step, in s, that changes because all kernels are slower or faster: the clock has changed."""
        device = classes(self.alignment)["device"]
        return abs(float((self.alignment.base.times * np.expm1(self.shift))[device].sum()))

    def change(self, nodes: Iterable[int]) -> tuple[float, float]:
        """Return new minus base of some nodes, and its standard error, in s per step."""
        chosen = np.array(sorted(nodes), np.int64)
        base, new = self.alignment.base, self.alignment.new
        before, after = (side.wall[chosen].sum(axis=0) for side in (base, new))
        variance = difference_error(before, after, base, new) ** 2
        for side in (base, new):  # each side has half of the variance of a difference
            variance += float(((self.relative[chosen] * side.times[chosen]) ** 2).sum()) / 2 / side.runs
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

    With one run a side, steps that rise and fall together had the same input on both sides: then they are pairs.
    """
    can_pair = base.runs == new.runs == 1 and len(one) == len(other) >= _PAIRED_STEPS
    if can_pair and min(np.ptp(one), np.ptp(other)) > 0 and np.corrcoef(one, other)[0, 1] > _PAIRED:
        return float((other - one).std(ddof=1)) / math.sqrt(len(one))
    return math.hypot(standard_error(one, base), standard_error(other, new))


def time_errors(base: TreeSide, new: TreeSide) -> Floats:
    """The `difference_error` of the wall time of each node, (n,)."""
    return np.array([difference_error(*rows, base, new) for rows in zip(base.wall, new.wall, strict=True)], np.float64)


def standard_errors(values: Floats, side: TreeSide) -> Floats:
    """The `standard_error` of each of n series, (n, s) to (n,)."""
    return np.array([standard_error(row, side) for row in values], np.float64)


def classes(alignment: Alignment) -> dict[str, Masks]:
    """By class, which nodes are in it, (n,): nodes of one class share a source of noise."""
    device, communication = alignment.of_kind("kernel", "copy"), alignment.of_kind("communication", "collective")
    return {"host": ~device & ~communication, "device": device, "communication": communication}


def measure_noise(alignment: Alignment) -> Noise:
    """Estimate the noise of every node from the nodes of its class that are large, and called as often as before."""
    before, after = alignment.base.times, alignment.new.times
    step = max(before.sum(), after.sum())
    usual = (np.abs(alignment.more_calls) < 1e-9) & (np.minimum(before, after) > _SEEN * step)
    relative, shift = np.zeros(len(before)), np.zeros(len(before))
    for name, chosen in classes(alignment).items():
        rows = np.flatnonzero(chosen & usual)
        found, centre = _spread(alignment, rows) if len(rows) >= 4 else (0.0, 0.0)  # fewer show no scatter
        relative[chosen] = max(found, _FLOOR[name])
        shift[chosen] = centre
    return Noise(alignment, relative, shift)


def _spread(alignment: Alignment, rows: Numbers) -> tuple[float, float]:
    """The robust scatter of ln(new / base) of nodes, less what the spread of steps explains; and their median."""
    before, after = (side.times[rows] for side in alignment.sides)
    ratios, weights = np.log(after / before), np.sqrt(before + after)
    centre, scatter = centre_and_scatter(ratios, weights)
    base, new = (
        standard_errors(side.wall[rows], side) / np.maximum(side.times[rows], 1e-12) for side in alignment.sides
    )
    within = weighted_median(np.sqrt(base**2 + new**2), weights)
    return math.sqrt(max(scatter**2 - within**2, 0.0)), centre


def centre_and_scatter(values: Floats, weights: Floats) -> tuple[float, float]:
    """The weighted median, and a standard deviation from the weighted median distance from it."""
    centre = weighted_median(values, weights)
    return centre, NORMAL_MAD * weighted_median(np.abs(values - centre), weights)


def weighted_median(values: Floats, weights: Floats) -> float:
    """The value with half of the weight on each side."""
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(total, total[-1] / 2)])


#: With one run a side: the standard deviation between runs of one program, as a share of a node's time, and a second
#: one as a share of the step, which is added. `benchmarks/causes.py --timers` shows how both change what is found.
_PRIOR = {"host": 0.03, "device": 0.015}
_PRIOR_OF_STEP = 0.004
#: With several runs a side: the same as a share of a node's time, and the weight of this prior.
_WEAK_PRIOR, _WEAK_WEIGHT = 0.02, 3.0
#: The degrees of freedom of the variance of all nodes in its average with that of one node.
_MODERATION = 6.0
#: The degrees of freedom of a prior, and of a scatter of many nodes.
_PRIOR_FREEDOM = 20.0
#: At least this many nodes show a scatter; in `_pooled`, more nodes have no more weight. Nodes with a smaller share of
#: the step than the second number do not count.
_FEWEST, _SEEN_IN_METRICS = 6, 0.003
#: A rest is as noisy as any other time if it is at least this part of the whole.
_MOST = 0.6


class SeriesNoise(Struct, frozen=True, dict=True):
    """The noise of groups of nodes of an alignment of trees from metrics."""

    alignment: Alignment

    @property
    def reach(self) -> float:
        """The half width of a 95 % interval, in standard errors."""
        return t_quantile(_PRIOR_FREEDOM if not self.freedom else _MODERATION + self.freedom, 0.975)

    @property
    def freedom(self) -> int:
        """The degrees of freedom of a variance between runs; 0 for one run a side."""
        return max(self.alignment.base.runs + self.alignment.new.runs - 2, 0)

    def change(self, nodes: Iterable[int]) -> tuple[float, float]:
        """Return new minus base of some nodes, and its standard error, in s per step."""
        change, error, _ = self.measured(nodes)
        return change, error

    def measured(self, nodes: Iterable[int]) -> tuple[float, float, float]:
        """Return new minus base of some nodes in s per step, its standard error, and the degrees of freedom."""
        chosen = sorted(set(nodes))
        times = [side.wall[chosen].sum(axis=0) for side in self.alignment.sides]
        scales = [self._scale(side, chosen) for side in self.alignment.sides]
        relative, freedom = self._relative_variance(times, scales, chosen)
        # the variance of the change: between runs, and within them
        pairs = zip(scales, self.alignment.sides, strict=True)
        between = sum(relative * scale**2 / side.runs for scale, side in pairs)
        within = sum(float(np.square(side.error[chosen]).sum()) / side.runs**2 for side in self.alignment.sides)
        if self.freedom:
            variance = max(between, within)  # the spread between runs includes that within them
        else:  # a prior does not include the noise within runs; the step of each side has another prior
            variance = between + within + 2 * (_PRIOR_OF_STEP * self.alignment.step) ** 2
        return float(times[1].mean() - times[0].mean()), math.sqrt(variance), freedom

    def is_rest(self, node: int) -> bool:
        """True if the time of a node is a rest: the part of a timer, or of the step, that no inner timer measures."""
        name, parent = self.alignment.nodes[node].name, self.alignment.nodes[node].parent
        return bool(self.alignment.children[node]) or (name == NOT_TIMED and parent == 0)

    def _scale(self, side: TreeSide, nodes: list[int]) -> float:
        """The time in s that is as noisy as that of the nodes.

        That is their own time. For a rest it is the time of its whole timer. If all of this timer is among the nodes,
        nothing is subtracted, and the rest is a time as any other. Of several rests the longest timer counts, because
        one timer may contain another.
        """
        total, chosen = 0.0, set(nodes)
        for node in nodes:
            whole = self._whole(node) if self.is_rest(node) else set[int]()
            if whole <= chosen:
                total += float(side.times[node])
            else:
                total = max(total, float(side.wall[sorted(whole)].sum(axis=0).mean()))
        return max(total, 1e-12)

    def _whole(self, node: int) -> set[int]:
        """The nodes of the timer that a rest belongs to; for `not timed`, the rest of the step, those of all timers."""
        if not self.alignment.children[node]:
            return set(range(1, len(self.alignment.nodes)))
        return self.alignment.subtree([node]) if node else {0}  # node 0 is the step: only its own time counts

    def _relative_variance(self, times: list[Floats], scales: list[float], nodes: list[int]) -> tuple[float, float]:
        """The variance between runs of the time of nodes, as a square of a share, and its degrees of freedom.

        `times`: this time in s in each run of both sides, (runs,). `scales`: `_scale` of both sides. The variance is
        a share of it: it is the same time, or for a rest that of its whole timer.
        """
        if not self.freedom:
            is_device = all(self.alignment.nodes[node].kind in DEVICE_KINDS for node in nodes)
            return max(_PRIOR["device" if is_device else "host"], self._scatter) ** 2, _PRIOR_FREEDOM
        own = _variance(times, scales, self.freedom)
        share = max(float(time.mean()) / scale for time, scale in zip(times, scales, strict=True))
        if self.freedom > 1 and share < _MOST and any(self.is_rest(node) for node in nodes):
            # a small rest is measured alone; with one degree of freedom, the noise of its timer is used, as below.
            # `_pooled` is a share of a node's own time, here it is one of the whole timer
            return max(own, self._pooled * share**2), float(self.freedom)
        total = _MODERATION + self.freedom
        return (_MODERATION * self._pooled + self.freedom * own) / total, total

    @cached_property
    def _leaves(self) -> list[int]:
        """The nodes that show the usual noise: large ones that are no rest."""
        sides = self.alignment.sides
        seen = np.minimum(*(side.times for side in sides)) > _SEEN_IN_METRICS * self.alignment.step
        return [node for node in np.flatnonzero(seen).tolist() if not self.is_rest(node)]

    @cached_property
    def _pooled(self) -> float:
        """The usual relative variance between runs of a node, with a weak prior."""
        sides = self.alignment.sides
        own = [
            _variance([side.wall[node] for side in sides], [float(side.times[node]) for side in sides], self.freedom)
            for node in self._leaves
        ]
        return with_prior(own, self.freedom, min(len(own), _FEWEST), prior=_WEAK_PRIOR, prior_weight=_WEAK_WEIGHT)

    @cached_property
    def _scatter(self) -> float:
        """The robust scatter of the changes of single nodes between the sides, as a share of their time."""
        before, after = (side.times[self._leaves] for side in self.alignment.sides)
        if len(before) < _FEWEST:
            return 0.0
        ratios = np.sort(np.abs(np.log(after / before)))
        return NORMAL_MAD * float(ratios[(len(ratios) - 1) // 2]) / math.sqrt(2)  # of one side, not of their difference


def with_prior(own: Sequence[float], freedom: int, count: int, prior: float, prior_weight: float) -> float:
    """The usual relative variance of nodes, averaged with that of a prior.

    Parameters:
        own: the relative variance of each node.
        freedom: the degrees of freedom of each.
        count: the number of independent nodes that they count as.
        prior: a standard deviation, as a share.
        prior_weight: its weight; 1 counts as two degrees of freedom.
    """
    if not own or not freedom:
        return prior**2
    # The median of a variance with few degrees of freedom is below its mean (Wilson and Hilferty 1931).
    usual = float(np.median(own)) / (1 - 2 / (9 * freedom)) ** 3
    weight = freedom * count / 2
    return (prior_weight * prior**2 + weight * usual) / (prior_weight + weight)


def _variance(sides: list[Floats], scales: list[float], freedom: int) -> float:
    """One variance of both sides: of the runs around the mean of their side, as a square of a share of its scale."""
    parts = [(side - side.mean()) / max(scale, 1e-12) for side, scale in zip(sides, scales, strict=True)]
    return sum(float(np.square(part).sum()) for part in parts) / freedom
