"""The speed of the host as a whole: how long its calls take by themselves, without waits.

Other programs, clocks and the version of Python make all calls of the host slower by one factor. The loss of the step
is smaller, because a device hides a part of the host's work. So the speed is measured by the own times of operators
that both sides call as often. On a shared host the speed differs by a quarter from process to process. So a difference
is a finding only if it is larger than between the several runs of each side; otherwise it is part of the noise.
"""

from __future__ import annotations

import math
from collections.abc import Set as AbstractSet

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from perfgate.causes.align import Alignment, Finding, TreeSide
from perfgate.causes.merged import Floats
from perfgate.causes.noise import Noise, centre_and_scatter, classes
from perfgate.stats.distributions import t_quantile

#: Fewer operators do not show the speed of the host.
_FEWEST = 8
#: The least standard deviation of the logarithm of a run's time.
_FLOOR = 0.03
#: The probability of a finding where nothing changed.
_CHANCE = 0.005
#: A smaller effect on the step, as a share of it, is not worth a line.
_WORTH = 0.03


class HostSpeed(Struct, frozen=True):
    """The difference of the host's own times between the sides."""

    #: The own time of each node, without the host's calls in it, on both sides, (n,) each, in s per step.
    base: Floats
    new: Floats
    #: ln(new / base) of the operators as a whole, and how much single operators scatter around it.
    shift: float
    scatter: float
    #: The logarithm of the time of these operators in each run, on both sides.
    runs: tuple[Floats, Floats]
    #: What the shift does to the step, in s, if devices hide as much of the host's work as in the base.
    effect: float

    @property
    def is_clear(self) -> bool:
        """True if the speed differs by more than it does between the runs of a side."""
        freedom = sum(len(side) - 1 for side in self.runs)
        if min(map(len, self.runs)) < 2:
            return False
        variance = sum(float(((side - side.mean()) ** 2).sum()) for side in self.runs) / freedom
        error = math.sqrt(max(variance, _FLOOR**2) * sum(1 / len(side) for side in self.runs))
        return abs(self.shift) > t_quantile(freedom, 1 - _CHANCE / 2) * error


def host_speed(alignment: Alignment) -> HostSpeed:
    """Measure the speed of the host on both sides."""
    base, new = (_own_times(side, alignment) for side in alignment.sides)
    before, after = (np.median(own, axis=1) for own in (base, new))
    same = (np.abs(alignment.more_calls) < 1e-9) & (np.minimum(before, after) > 0)
    chosen = alignment.of_kind("operator") & same
    if chosen.sum() < _FEWEST:
        return HostSpeed(before, after, shift=0.0, scatter=0.0, runs=(np.zeros(1), np.zeros(1)), effect=0.0)
    ratios, weights = np.log(after[chosen] / before[chosen]), np.sqrt(before[chosen] + after[chosen])
    shift, scatter = centre_and_scatter(ratios, weights)
    runs = (_by_run(base[chosen].sum(axis=0), alignment.base), _by_run(new[chosen].sum(axis=0), alignment.new))
    # `busy` is the duration of a call. `times` is the part of it that makes the step longer: a device hides the rest.
    wall = float(alignment.base.times[classes(alignment)["host"]].sum())
    return HostSpeed(before, after, shift, scatter, runs, effect=wall * math.expm1(shift))


def _own_times(side: TreeSide, alignment: Alignment) -> Floats:
    """Return the own time of each host call, its duration without the host calls inside it: (nodes, steps), in s."""
    host = classes(alignment)["host"]
    busy = np.where(host[:, None], side.busy, 0)
    own: Floats = busy.copy()
    np.subtract.at(own, [node.parent for node in alignment.nodes[1:]], busy[1:])
    return own


def _by_run(times: Floats, side: TreeSide) -> Floats:
    """The logarithm of the median step time of each run, (runs,)."""
    return np.log([max(float(np.median(times[side.run == run])), 1e-12) for run in np.unique(side.run)])


def is_slower_itself(node: int, change: float, speed: HostSpeed) -> bool:
    """True if more than half of a node's change is its own, and not that of the whole host.

    If the whole host is slower, a device hides less of its work. So the change of a call in the step may be larger than
    that of its own time, which decides here.
    """
    own = float(speed.new[node] - speed.base[node] * math.exp(speed.shift))
    return own * change > 0 and abs(own) > abs(change) / 2


def find_host(alignment: Alignment, noise: Noise, speed: HostSpeed, claimed: AbstractSet[int]) -> Finding | None:
    """Return the finding that the host became faster or slower as a whole, or None; claimed nodes are left out.

    If single operators scatter more than the common shift, they did not change as a whole.
    """
    step = float(alignment.base.times.sum())
    nodes = [node for node in np.flatnonzero(classes(alignment)["host"]).tolist() if node not in claimed]
    if not speed.is_clear or speed.scatter > abs(speed.shift) or abs(speed.effect) < _WORTH * step or not nodes:
        return None
    change, error = noise.change(nodes)
    lead = max(nodes, key=lambda node: float(speed.base[node]))
    return Finding(
        "host", frozenset(nodes), lead, parents=(0,), change=change, error=error, factor=math.exp(speed.shift)
    )


def with_host_error(finding: Finding, alignment: Alignment) -> Finding:
    """Return the finding with a larger error: a part of its change may come from another speed of the host.

    The speed of each run differs, so its effect on the mean of several runs is smaller by the root of their number.
    """
    is_host = classes(alignment)["host"]
    host = sorted(node for node in finding.nodes if is_host[node])
    runs = min(alignment.base.runs, alignment.new.runs)
    wall = max(float(side.times[host].sum()) for side in alignment.sides)
    return replace(finding, error=math.hypot(finding.error, wall * host_speed(alignment).shift / math.sqrt(runs)))


def note_of(speed: HostSpeed, step: float) -> list[str]:
    """Return a note if the host seems slower or faster as a whole, but the runs do not prove it. `step` is in s."""
    if speed.is_clear or abs(speed.effect) < _WORTH * step:
        return []
    times = f"{math.exp(speed.shift):.2f} times as long"
    return [
        f"all operators of the host took {times}: other programs or clocks can do that. To tell, measure both sides by "
        "turns (`perfgate run --paired`), or give several runs a side"
    ]
