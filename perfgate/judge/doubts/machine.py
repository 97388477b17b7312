"""Differences of the machine between the two sides, with factors that make their runs alike.

There are three kinds, the first two from the recordings of `perfgate.machine`:

* The clock. Times are judged again in cycles: the time of each run times its clock. If the slower clock could explain a
  failure or hide a regression, and the cycles give another outcome, the verdict is suspect. Times and cycles must
  agree, because work that waits for memory does not follow the clock.
* Lost time: the share of the run in which the GPU was throttled, the hypervisor ran others, or the control group had
  used up its CPU time. If one side has more of it than `lost_time` allows, the change is judged again as if both sides
  had lost as much. A share p of lost time makes a program at most 1 / (1 - p) times slower, so it explains no more.
* The host. If the new runs are of another host, and the history shows how the hosts differ, the change is judged again
  with the new runs as they would be on the hosts of the base.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import TypeAlias

import numpy as np

from perfgate.core import Series
from perfgate.core.results import Doubt
from perfgate.core.wording import CPU_METRICS
from perfgate.judge.derived import RunView
from perfgate.judge.evidence import Case, Evidence
from perfgate.judge.question import MachineDifference, MeasuredSide

#: Clocks that differ by a smaller share are equal.
LEAST_CLOCK = 0.01
#: Pressure is noted from this difference on. It does not decide, because the waiting tasks may not be of the run.
NOTED_PRESSURE = 0.1
#: The clock of the GPU. The clock of the CPU is not used: idle processors lower it.
_CLOCK = "clock.sm"
#: The metrics of lost time, or how their names begin, with their words.
_LOST = {
    "machine.gpu.throttled.": "throttling of the GPU ({})",
    "machine.cpu.steal": "steal: the hypervisor ran other machines",
    "machine.cgroup.throttled": "the CPU limit of the control group",
}
#: Lost time counts as at most this share: a larger share would explain any change.
_MOST_LOST = 0.99
_PRESSURE = {f"machine.pressure.{kind}": f"pressure on {kind}" for kind in ("cpu", "memory", "io")}
#: The names of these metrics, or how they begin.
MACHINE_DOUBTS = (_CLOCK, *_LOST, *_PRESSURE)
#: The possible values, by unit: clocks in Hz, and shares of the time, which rounding may make more than 1.
_POSSIBLE = {"1/s": (1e6, 1e11), "1": (0.0, 1.1)}
#: The units whose values follow the speed of the machine, and whether a faster machine makes them larger.
_FOLLOWS = {"s": False, "1/s": True, "B/s": True, "FLOP/s": True}


def machine_differences(
    evidence: Evidence, base: MeasuredSide, new: MeasuredSide
) -> tuple[tuple[MachineDifference, ...], tuple[Doubt, ...]]:
    """Return the differences of the machine between the sides, and the doubts about it that are only noted."""
    is_unknown = not evidence.runs.has_machine and "host" not in evidence.case.facts
    if is_unknown or evidence.unit not in _FOLLOWS or evidence.case.baseline.pairing is not None:
        return (), ()  # pairs share the machine
    if evidence.subject.key.metric.endswith(CPU_METRICS):
        return (), ()  # neither the clock of the GPU nor lost time changes them much
    grows = _FOLLOWS[evidence.unit]
    host, noted = host_difference(evidence, base, new, grows=grows)
    kinds = _lost_time(base, new)
    found = (_clock(base, new, grows=grows), _lost(evidence, kinds, base, new, grows=grows), host)
    return tuple(one for one in found if one is not None), (*_pressure(base, new), *noted)


def _clock(base: MeasuredSide, new: MeasuredSide, *, grows: bool) -> MachineDifference | None:
    """Return the difference of the clocks, with the factors that count each run in cycles of the base's mean clock.

    None if it is small or unknown.
    """
    clocks = _of_both(_CLOCK, base, new)
    if clocks is None:
        return None
    before, now = fmean(clocks[0]), fmean(clocks[1])
    if abs(math.log(now / before)) < LEAST_CLOCK:
        return None
    one, other = (tuple(before / clock if grows else clock / before for clock in side) for side in clocks)
    return MachineDifference(one, other, (Doubt("machine", "clock", before, now, decides=True),), "cycles")


#: A kind of lost time: its words, and its share of the time of each side.
_LostTime: TypeAlias = tuple[str, float, float]


def _lost(
    evidence: Evidence, kinds: Mapping[str, Sequence[_LostTime]], base: MeasuredSide, new: MeasuredSide, *, grows: bool
) -> MachineDifference | None:
    """Return the difference of lost time, with factors as if both sides had lost as much; None if it is small."""
    most = evidence.rule.settings.lost_time
    differing = [one for kind in kinds.values() for one in kind if abs(one[2] - one[1]) > most]
    if not differing:
        return None
    # Reasons of one kind, such as throttling, overlap in time: only the largest of them counts.
    before = min(sum(max(share for _, share, _ in kind) for kind in kinds.values()), _MOST_LOST)
    now = min(sum(max(share for _, _, share in kind) for kind in kinds.values()), _MOST_LOST)
    # The base stays as it was measured, and the new runs are as if they had lost as much.
    factor = (1 - before) / (1 - now) if grows else (1 - now) / (1 - before)
    doubts = tuple(Doubt("machine", "lost", was, is_now, decides=True, of=words) for words, was, is_now in differing)
    return MachineDifference((1.0,) * len(base.measures), (factor,) * len(new.measures), doubts)


def _lost_time(base: MeasuredSide, new: MeasuredSide) -> dict[str, list[_LostTime]]:
    """Return the lost time of both sides by kind; what a run of either side did not record is left out."""
    found: dict[str, list[_LostTime]] = {}
    for name in _names(base, new):
        prefix = next((known for known in _LOST if name.startswith(known)), None)
        sides = None if prefix is None else _of_both(name, base, new)
        if prefix is not None and sides is not None:
            words = _LOST[prefix].format(name.rpartition(".")[2])
            found.setdefault(prefix, []).append((words, fmean(sides[0]), fmean(sides[1])))
    return found


def _pressure(base: MeasuredSide, new: MeasuredSide) -> Iterator[Doubt]:
    """Yield a note for each pressure (the share of the time in which tasks waited) that differs."""
    for name in _names(base, new):
        sides = _of_both(name, base, new) if name in _PRESSURE else None
        if sides is not None and abs(fmean(sides[1]) - fmean(sides[0])) >= NOTED_PRESSURE:
            yield Doubt("machine", "lost", fmean(sides[0]), fmean(sides[1]), decides=False, of=_PRESSURE[name])


def _names(base: MeasuredSide, new: MeasuredSide) -> list[str]:
    return sorted({one.key.metric for view in (*base.views, *new.views) for one in view.run.series})


def _of_both(name: str, base: MeasuredSide, new: MeasuredSide) -> tuple[list[float], list[float]] | None:
    """Return the mean of a metric of the machine in each run, over devices; None if a run has no possible value."""
    found = [[_mean_of(name, view) for view in side.views] for side in (base, new)]
    if not all(found) or any(value is None for side in found for value in side):
        return None
    one, other = ([value for value in side if value is not None] for side in found)
    return one, other


def _mean_of(name: str, view: RunView) -> float | None:
    means = [mean for series in view.run.series if series.key.metric == name and (mean := _mean(series)) is not None]
    return fmean(means) if means else None


@np.errstate(all="ignore")
def _mean(series: Series) -> float | None:
    mean = float(series.values.mean()) if len(series.values) else series.aggregate.get("mean", math.nan)
    least, most = _POSSIBLE.get(series.unit, (math.inf, -math.inf))  # in another unit, no value is possible
    return mean if least <= mean <= most else None


def host_difference(
    evidence: Evidence, base: MeasuredSide, new: MeasuredSide, *, grows: bool
) -> tuple[MachineDifference | None, tuple[Doubt, ...]]:
    """Return the difference of the hosts, with the factor of the base's hosts, or a note that they differ.

    `grows`: a faster host makes the values larger.
    """
    stored, found = hosts_of(evidence.case)
    if not stored or not found or stored & found:
        return None, ()
    known = evidence.of_series(evidence.case.baseline.hosts)
    if known is None:
        names = ", ".join(sorted(stored)), ", ".join(sorted(found))
        return None, (Doubt("machine", "host", *names, decides=False),)
    speed = "slower" if (known.log_difference > 0) != grows else "faster"
    doubt = Doubt("machine", "host-level", known.base.level, known.new.level, decides=True, of=speed, hosts=known)
    factors = (1.0,) * len(base.measures), (math.exp(-known.log_difference),) * len(new.measures)
    return MachineDifference(*factors, (doubt,), "same-host"), ()


def hosts_of(case: Case) -> tuple[frozenset[str], frozenset[str]]:
    """Return the hosts of the base runs and of the new runs, as far as they are known."""
    base = {str(run.environment["host"]) for run in case.baseline.runs if "host" in run.environment}
    known = (run.environment.get("host", case.facts.get("host")) for run in case.new)
    return frozenset(base), frozenset(str(host) for host in known if host is not None)
