"""Causes from pairs: run i of both sides took its steps by turns, so both saw the same machine.

The load of a shared machine changes the times of one program by a factor of two from run to run, and makes single steps
longer. Both cancel in a pair: it gives one number for a node, the median over the steps of the ratio of two steps that
ran one after the other. The spread of this number between pairs is the noise. As both sides saw the same machine, no
common shift is subtracted: it would hide the change of a node that takes most of the step.

The variance of a node between few pairs is averaged with that of all nodes, and this one with a prior (Smyth 2004, as
in `noise`). A noisy node keeps its own variance. The probability of any false cause is at most `_CHANCE` (Bonferroni).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from perfgate.causes.align import Alignment, Finding, TreeSide
from perfgate.causes.kinds import slowdown_kind
from perfgate.causes.merged import Floats
from perfgate.causes.noise import with_prior
from perfgate.stats.distributions import t_quantile

#: With fewer pairs a change of time cannot be told from noise; calls that came or went can.
FEWEST_PAIRS = 3
#: The prior standard deviation of a pair, as a share of a node's time, and its weight (see `with_prior`).
_PRIOR, _PRIOR_WEIGHT = 0.03, 3.0
#: The degrees of freedom of the variance of all nodes in its average with that of one node.
_MODERATION = 3.0
#: The probability that an unchanged program seems to have changed in any node.
_CHANCE = 0.02
#: Shares of the step: smaller nodes are not used to estimate the usual variance, and smaller changes are not reported.
_SEEN, _WORTH = 0.003, 0.012


def in_pairs(alignment: Alignment) -> Alignment:
    """Return an alignment with one column for each pair, all scaled to the same base step.

    For a node that both sides call as often in every step, and that takes time in each, the base side has its median
    time, and the new side has this time multiplied by the median ratio of two steps. Other nodes have their means.
    """
    pairs = range(min(alignment.base.runs, alignment.new.runs))
    columns = [_typical(alignment, number) for number in pairs]
    steps = np.array([float(before.sum()) for before, _ in columns])
    scale = np.median(steps) / np.maximum(steps, 1e-12)
    base, new = (np.stack([column[side] for column in columns], axis=1) * scale for side in (0, 1))
    return replace(alignment, base=_side(alignment.base, base, scale), new=_side(alignment.new, new, scale))


def _typical(alignment: Alignment, number: int) -> tuple[Floats, Floats]:
    """Return the typical time of each node on both sides of a pair, (n,) each, in s."""
    base, new = alignment.base, alignment.new
    chosen = [side.run == number for side in (base, new)]
    steps = min(int(chosen[0].sum()), int(chosen[1].sum()))
    before, after = base.wall[:, chosen[0]][:, :steps], new.wall[:, chosen[1]][:, :steps]
    calls = np.concatenate([base.counts[:, chosen[0]], new.counts[:, chosen[1]]], axis=1)
    steady = (np.ptp(calls, axis=1) == 0) & (np.minimum(before.min(axis=1), after.min(axis=1)) > 0)
    typical = np.where(steady, np.median(before, axis=1), before.mean(axis=1))
    ratio = np.median(after[steady] / before[steady], axis=1)
    changed = after.mean(axis=1)
    changed[steady] = typical[steady] * ratio
    return typical, changed


def _side(side: TreeSide, wall: Floats, scale: Floats) -> TreeSide:
    """Return a side with one column for each pair: these wall times, (n, pairs); means of calls and durations."""
    pairs = np.arange(wall.shape[1])
    counts, busy = (
        np.stack([values[:, side.run == number].mean(axis=1) for number in pairs], axis=1)
        for values in (side.counts, side.busy)
    )
    return replace(side, counts=counts, busy=busy * scale, wall=wall, run=pairs)


class PairNoise(Struct, frozen=True, dict=True):
    """The noise of groups of nodes of an alignment of pairs."""

    alignment: Alignment

    @property
    def freedom(self) -> float:
        """The degrees of freedom of a variance between pairs."""
        return _MODERATION + self.alignment.base.runs - 1

    @property
    def reach(self) -> float:
        """The half width of a 95 % interval, in standard errors."""
        return t_quantile(self.freedom, 0.975)

    @property
    def clear(self) -> float:
        """The number of standard errors beyond which a change of any node is not noise.

        Nodes below `_SEEN` on one side are not counted: noise does not change them by `_WORTH`.
        """
        return t_quantile(self.freedom, 1 - _CHANCE / 2 / max(len(self._seen), 1))

    def change(self, nodes: Iterable[int]) -> tuple[float, float]:
        """Return new minus base of some nodes, and its standard error, in s per step."""
        chosen = sorted(set(nodes))
        before, after = (side.wall[chosen].sum(axis=0) for side in self.alignment.sides)
        pairs, own = len(before), _variance(before, after)
        pooled = self._pooled * max(float(before.mean()), float(after.mean())) ** 2
        moderated = (_MODERATION * pooled + (pairs - 1) * own) / (_MODERATION + pairs - 1)
        return float((after - before).mean()), math.sqrt(max(own, moderated) / pairs)

    @cached_property
    def _seen(self) -> list[int]:
        """The nodes that are large enough to show the usual variance."""
        before, after = (side.times for side in self.alignment.sides)
        seen: list[int] = np.flatnonzero(np.minimum(before, after) > _SEEN * max(before.sum(), after.sum())).tolist()
        return seen

    @cached_property
    def _pooled(self) -> float:
        """The usual variance of a node between pairs, as a square of a share of its time."""
        base, new = self.alignment.base.wall, self.alignment.new.wall
        own = [_variance(base[node], new[node]) / float(base[node].mean()) ** 2 for node in self._seen]
        return with_prior(own, self.alignment.base.runs - 1, count=len(own), prior=_PRIOR, prior_weight=_PRIOR_WEIGHT)


def _variance(before: Floats, after: Floats) -> float:
    """The variance of a difference between pairs; 0 for one pair."""
    return float((after - before).var(ddof=1)) if len(before) > 1 else 0.0


def find_paired_slowdowns(alignment: Alignment, noise: PairNoise, claimed: set[int]) -> list[Finding]:
    """Return the nodes whose own time changed clearly, the largest change first, without the claimed ones."""
    if alignment.base.runs < FEWEST_PAIRS:
        return []
    found = []
    for node in range(len(alignment.nodes)):
        change, error = noise.change([node])
        if node not in claimed and abs(change) >= max(_WORTH * alignment.step, noise.clear * error):
            kind, parent = slowdown_kind(node, change, alignment), max(alignment.nodes[node].parent, 0)
            found.append(Finding(kind, frozenset([node]), lead=node, parents=(parent,), change=change, error=error))
    return sorted(found, key=lambda finding: (-abs(finding.change), finding.lead))
