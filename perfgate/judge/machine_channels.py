"""The channels of the machine that a report draws: those that moved, in at most a few hundred points.

`perfgate.machine` records the time of each value since it began. If a run says when its steps began
(`machine.elapsed`), each value has a place among the steps, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import fmean

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from perfgate.core import Run, Series
from perfgate.core.details import MachineChannel, MachineTrace, Standing, rounded
from perfgate.core.wording import ELAPSED
from perfgate.stats.steady import kept_for_drawing

FloatArray = npt.NDArray[np.float64]
#: The most points of a channel, and the most runs of a side: the newest.
MOST_POINTS, MOST_RUNS = 300, 3
#: The difference from which a channel has moved: a share of clocks and power, degrees of temperature, and for lost time
#: (such as throttling) a share of the time.
_THRESHOLDS, _LOST = {"clock.sm": 0.01, "power": 0.05, "machine.gpu.temperature": 3.0}, 0.01
#: A clock has moved within a run if the middle 90 % of its values span this share.
_WITHIN = 0.03
#: Lost time has also moved if it reached this share for a moment in one side only.
_BURST = 0.1
#: No sensor gives a larger number, and sums of larger ones could overflow.
_MOST = 1e30
#: These are shown if the clock of a GPU moved or was throttled, because they show why.
_EXPLAIN = ("power", "machine.gpu.temperature")
_CLOCKS = ("clock.sm",)
_LOSSES = ("machine.gpu.throttled.", "machine.cpu.steal", "machine.pressure.", "machine.cgroup.throttled")
#: The order on a page, by the beginnings of names.
_ORDER = (*_CLOCKS, *_EXPLAIN, *_LOSSES)


class _Candidate(Struct, frozen=True):
    """One channel of one device in the runs of both sides."""

    series: tuple[tuple[Run, Standing, Series], ...]

    @property
    def metric(self) -> str:
        return self.series[0][2].key.metric

    def means(self, standing: Standing) -> list[float]:
        return [_mean(one) for _, side, one in self.series if side == standing]

    def peaks(self, standing: Standing) -> list[float]:
        known = (one for _, side, one in self.series if side == standing)
        return [float(one.values.max()) if len(one.values) else _mean(one) for one in known]


def machine_channels(base: Sequence[Run], new: Sequence[Run], lost_time: float = _LOST) -> tuple[MachineChannel, ...]:
    """Return the channels of the machine that moved, of each metric the device that moved most.

    `lost_time`: the smallest share of lost time that a rule doubts.
    """
    least = min(lost_time, _LOST)
    groups: dict[str, list[_Candidate]] = {}
    for candidate in _candidates(base, new):
        groups.setdefault(candidate.metric, []).append(candidate)
    largest = {name: max(group, key=_moved) for name, group in groups.items()}
    moved = {name for name, one in largest.items() if _moved(one) >= _THRESHOLDS.get(name, least)}
    if any(name in _CLOCKS or name.startswith(_LOSSES[0]) for name in moved):  # [0] is throttling of the GPU
        moved |= {name for name in _EXPLAIN if name in largest}
    return tuple(_channel(largest[name], len(groups[name])) for name in sorted(moved, key=_place))


def _place(metric: str) -> tuple[int, str]:
    """Return the sort key of a metric on the page."""
    return next(i for i, name in enumerate(_ORDER) if metric.startswith(name)), metric


def _candidates(base: Sequence[Run], new: Sequence[Run]) -> Iterator[_Candidate]:
    """Yield each channel of each device that may be drawn, in the newest runs of both sides."""
    found: dict[object, list[tuple[Run, Standing, Series]]] = {}
    sides: tuple[tuple[Standing, Sequence[Run]], ...] = (("base", base), ("new", new))
    for standing, runs in sides:
        for run in runs[-MOST_RUNS:]:
            for one in run.series:
                is_drawn = one.key.metric in (*_CLOCKS, *_EXPLAIN) or one.key.metric.startswith(_LOSSES)
                if is_drawn and (np.abs(one.values) < _MOST).all() and math.isfinite(_mean(one)):
                    found.setdefault(one.key, []).append((run, standing, one))
    yield from (_Candidate(tuple(series)) for series in found.values())


def _moved(one: _Candidate) -> float:
    """Return how far a channel moved, between the sides or in a run: relative, in degrees, or a share of the time."""
    means = [fmean(side) for side in (one.means("base"), one.means("new")) if side]
    apart = max(means) - min(means)
    if one.metric == "machine.gpu.temperature":
        return apart
    if one.metric.startswith(_LOSSES):
        lost = means[0] if len(means) == 1 else apart  # without a base run, all of it has moved
        return max(lost, _LOST if _is_burst(one) else 0.0)  # `_LOST` is enough for any `lost_time`
    level = max(*means, 1e-12)
    within = 0.0
    if one.metric in _CLOCKS:
        every = [series.values for _, _, series in one.series if len(series.values)]
        within = max((float(np.ptp(np.quantile(values, (0.05, 0.95)))) / level for values in every), default=0.0)
    return max(apart / level, within if within >= _WITHIN else 0.0)


def _is_burst(one: _Candidate) -> bool:
    """Return whether lost time was large for a moment, in one side only; that is enough to be drawn."""
    peaks = [max(side) for side in (one.peaks("base"), one.peaks("new")) if side]
    return max(peaks) >= _BURST and (len(peaks) == 1 or min(peaks) < _BURST)


def _channel(one: _Candidate, devices: int) -> MachineChannel:
    key, drawn = one.series[0][2].key, sum(bool(len(series.values)) for _, _, series in one.series)
    most = MOST_POINTS // max(drawn, 1)
    traces = tuple(_trace(run, standing, series, most) for run, standing, series in one.series)
    return MachineChannel(key.metric, dict(key.labels), one.series[0][2].unit, traces, devices)


def _trace(run: Run, standing: Standing, series: Series, most: int) -> MachineTrace:
    """Return one run of a channel in at most `most` points; if its steps are known, only the points among them."""
    mean = float(f"{_mean(series):.5g}")
    if series.steps is None or not len(series.values):  # a baseline keeps the mean of what no rule names
        return MachineTrace(run.name, standing, mean, (), ())
    kept = kept_for_drawing(series.values, most)
    times = series.steps[kept] / 1000  # the sampler writes the time in ms as the number of the step
    marks = _marks(run)
    at = np.full(len(kept), np.nan) if marks is None else np.interp(times, *marks, left=np.nan, right=np.nan)
    is_placed = np.isfinite(at)
    if marks is not None and is_placed.sum() > 1:
        kept, times, at = kept[is_placed], times[is_placed], at[is_placed]
    else:
        at = at[:0]
    return MachineTrace(run.name, standing, mean, *(tuple(rounded(one)) for one in (times, series.values[kept], at)))


def _mean(series: Series) -> float:
    return float(series.values.mean()) if len(series.values) else series.aggregate.get("mean", math.nan)


def _marks(run: Run) -> tuple[FloatArray, FloatArray] | None:
    """Return the times in s at which steps began, ascending, and the numbers of the steps; None if they are unknown."""
    found = next((one for one in run.series if one.key.metric == ELAPSED and one.steps is not None), None)
    if found is None or found.steps is None or len(found.values) < 2:
        return None
    is_sorted = bool((np.diff(found.values) > 0).all() and (np.diff(found.steps) >= 0).all())
    return (found.values, found.steps.astype(np.float64)) if is_sorted else None
