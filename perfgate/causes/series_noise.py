"""The noise of trees from metrics, which have one mean for each run and few nodes.

The runs of a side show it. Few runs estimate a variance badly, so it is moderated: the variance of a node is averaged
with that of all nodes, and that with a prior (Smyth 2004, as in `stats.moderated`). One run a side shows no noise
between runs: then the prior is used, or the scatter of the other nodes between the sides if that is larger.

The time that the inner timers of a node leave is a difference of large numbers. Its noise is as large as that of the
whole node, so it is measured alone, or taken from the whole node.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property

import numpy as np
from msgspec import Struct

from perfgate.causes.align import Alignment, TreeSide
from perfgate.causes.merged import Floats, Masks
from perfgate.core.call_trees import DEVICE_KINDS
from perfgate.stats.distributions import t_quantile

#: Without runs to measure it: the standard deviation between runs of one program as a share of a node's time, and in
#: addition as a share of the step. `benchmarks/causes.py --timers` shows what they cost.
_PRIOR = {"host": 0.03, "device": 0.015}
_PRIOR_OF_STEP = 0.004
#: How many runs the prior counts for if there are runs, as a standard deviation, and the moderation as one.
_WEAK_PRIOR, _WEAK_WEIGHT = 0.02, 3.0
_MODERATION = 6.0
#: The degrees of freedom of a prior, and of a scatter of many nodes.
_PRIOR_FREEDOM = 20.0
#: Fewer nodes show no scatter; smaller nodes than this share of the step are not counted.
_FEWEST = 6
_SEEN = 0.003
_NORMAL_MAD = 1.4826
#: The time that inner timers leave is as noisy as any other if it is at least this part of the whole.
_MOST = 0.6


class SeriesNoise(Struct, frozen=True, dict=True):
    """The noise of groups of nodes of an alignment of trees from metrics."""

    alignment: Alignment

    @property
    def reach(self) -> float:
        """The standard errors on each side of a 95 % interval."""
        return t_quantile(_PRIOR_FREEDOM if not self.freedom else _MODERATION + self.freedom, 0.975)

    @property
    def freedom(self) -> int:
        """The degrees of freedom of a variance between runs."""
        return max(self.alignment.base.runs + self.alignment.new.runs - 2, 0)

    def change(self, nodes: Iterable[int]) -> tuple[float, float]:
        """Return new minus base of some nodes, and its standard error, in s per step."""
        change, error, _ = self.measured(nodes)
        return change, error

    def measured(self, nodes: Iterable[int]) -> tuple[float, float, float]:
        """Return new minus base of some nodes in s per step, its standard error, and the degrees of freedom."""
        chosen = sorted(set(nodes))
        sides = [side.wall[chosen].sum(axis=0) for side in (self.alignment.base, self.alignment.new)]
        change = float(sides[1].mean() - sides[0].mean())
        scales = [self._scale(side, chosen) for side in (self.alignment.base, self.alignment.new)]
        relative, freedom = self._relative(sides, scales, chosen)
        runs = (self.alignment.base.runs, self.alignment.new.runs)
        between = sum(relative * scale**2 / count for scale, count in zip(scales, runs, strict=True))
        within = sum(
            float(np.square(side.error[chosen]).sum()) / side.runs**2
            for side in (self.alignment.base, self.alignment.new)
        )
        if not self.freedom:
            between += (_PRIOR_OF_STEP * self.step) ** 2 * 2
            return change, math.sqrt(between + within), freedom
        return change, math.sqrt(max(between, within)), freedom

    @cached_property
    def step(self) -> float:
        """The time of the longer step."""
        return max(float(side.wall.sum(axis=0).mean()) for side in (self.alignment.base, self.alignment.new))

    @cached_property
    def parents(self) -> Masks:
        """True for nodes with others inside, (n,)."""
        found = np.zeros(len(self.alignment.nodes), bool)
        for node in self.alignment.nodes[1:]:
            found[node.parent] = True
        return found

    def is_rest(self, node: int) -> bool:
        """True for what the inner timers of a node, or of the step, leave."""
        return bool(self.parents[node]) or (self.alignment.nodes[node].name, self.alignment.nodes[node].parent) == (
            "not timed",
            0,
        )

    def _scale(self, side: TreeSide, nodes: list[int]) -> float:
        """The time whose noise the nodes have: their own, or that of the whole timer if inner ones are left out."""
        chosen = set(nodes)
        total = 0.0
        for node in nodes:
            if self.is_rest(node) and not self._inside(node) <= chosen:
                total = max(total, float(side.wall[sorted(self._inside(node) | {node})].sum(axis=0).mean()))
            else:
                total += float(side.wall[node].mean())
        return max(total, 1e-12)

    def _inside(self, node: int) -> set[int]:
        """The nodes inside a node; for the rest of the step all others."""
        if not self.parents[node]:
            return set(range(1, len(self.alignment.nodes))) - {node}
        return {one for one in range(len(self.alignment.nodes)) if node in self.alignment.ancestors(one)}

    def _relative(self, sides: list[Floats], scales: list[float], nodes: list[int]) -> tuple[float, float]:
        """The relative variance between runs, and its degrees of freedom."""
        if not self.freedom:
            return self._prior(nodes), _PRIOR_FREEDOM
        own = _variance(sides, scales, self.freedom)
        share = max(side.mean() / scale for side, scale in zip(sides, scales, strict=True))
        if self.freedom > 1 and share < _MOST and any(self.is_rest(node) for node in nodes):
            return max(own, self._pooled * float(share) ** 2), float(self.freedom)
        total = _MODERATION + self.freedom
        return (_MODERATION * self._pooled + self.freedom * own) / total, total

    @cached_property
    def _leaves(self) -> list[int]:
        sides = (self.alignment.base.wall.mean(axis=1), self.alignment.new.wall.mean(axis=1))
        seen = np.minimum(*sides) > _SEEN * self.step
        return [node for node in np.flatnonzero(seen).tolist() if not self.is_rest(node)]

    @cached_property
    def _pooled(self) -> float:
        """The usual relative variance between runs of a node, with a weak prior."""
        if not self._leaves:
            return _WEAK_PRIOR**2
        sides = (self.alignment.base, self.alignment.new)
        own = [
            _variance([side.wall[node] for side in sides], [float(side.wall[node].mean()) for side in sides], freedom)
            for node in self._leaves
            if (freedom := self.freedom)
        ]
        # the median of a variance with few degrees of freedom is below its mean
        usual = float(np.median(own)) / (1 - 2 / (9 * self.freedom)) ** 3
        weight = self.freedom * min(len(own), _FEWEST) / 2
        return (_WEAK_WEIGHT * _WEAK_PRIOR**2 + weight * usual) / (_WEAK_WEIGHT + weight)

    def _prior(self, nodes: list[int]) -> float:
        """The relative variance between runs if no runs show it."""
        is_device = all(self.alignment.nodes[node].kind in DEVICE_KINDS for node in nodes)
        return max(_PRIOR["device" if is_device else "host"], self._scatter) ** 2

    @cached_property
    def _scatter(self) -> float:
        """The robust scatter of the changes of single nodes between the sides, as a share of their time."""
        before, after = (side.wall[self._leaves].mean(axis=1) for side in (self.alignment.base, self.alignment.new))
        if len(before) < _FEWEST:
            return 0.0
        ratios = np.sort(np.abs(np.log(after / before)))
        return _NORMAL_MAD * float(ratios[(len(ratios) - 1) // 2]) / math.sqrt(2)


def _variance(sides: list[Floats], scales: list[float], freedom: int) -> float:
    """The pooled relative variance of runs around the mean of their side."""
    squares = sum(
        float(np.square((side - side.mean()) / max(scale, 1e-12)).sum())
        for side, scale in zip(sides, scales, strict=True)
    )
    return squares / freedom
