"""Find changed metrics that no rule names. They do not change an outcome.

A metric changed if it moved by more than 10 %, by more than three standard errors of its runs, and beyond every base
run. Its size is shown as a share of the time of the steps. Without a timer of the whole step, this time is the sum of
the known timers that are not inside each other: forward, backward and step for DeepSpeed.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import TypeAlias

import numpy as np
from msgspec import Struct

from perfgate.causes.nesting import (
    WHOLES,
    around,
    hook_of,
    is_known,
    is_redundant,
    kind_of_timer,
    may_be_whole,
    nesting_of,
)
from perfgate.core import Key, Run, Series, UnruledChange
from perfgate.core.verdicts import MOST_UNRULED
from perfgate.core.wording import COMMAND, TIMES_OF_RUN, is_machine_metric
from perfgate.judge.measure import BETTER_BY_UNIT
from perfgate.stats.steady import median, steady_run

#: A metric is listed if its relative change is larger than this, and than this many standard errors.
LEAST_CHANGE, STANDARD_ERRORS = 0.1, 3.0
#: A metric whose values differ by at most this share from those of another one is probably the same.
_NEAR = 0.02
#: The prior of the noise between runs, a relative standard deviation with the weight of two runs.
_PRIOR = 0.01
#: Sizes are used below this number and compared with base values above its reciprocal, so that nothing overflows.
_LARGEST = 1e100


class Size(Struct, frozen=True):
    """A metric in one run, the mean of its ranks: its usual value, the relative error of this value, and its total."""

    value: float
    error: float
    total: float


#: The name that all ranks of a metric share: its key, and its unit.
_Name: TypeAlias = tuple[Key, str]
_Sizes: TypeAlias = Mapping[_Name, Size]
#: The time of a metric in s, and its change.
_Timed: TypeAlias = tuple[float, UnruledChange]


def unruled_changes(
    base: Sequence[Run], new: Sequence[Run], is_named: Callable[[Key], bool], most: int | None = MOST_UNRULED
) -> tuple[tuple[UnruledChange, ...], int]:
    """Return the changes of metrics that no rule names, at most `most`, and the number of all changes.

    The one with the most time comes first. A metric is left out if a rule names one with the same values, before and
    now, such as the timer of the only micro-step: its change is judged already. `is_named` returns True for a series
    that a rule reads. Runs that an older perfgate stored have only such series, so nothing is found in them.
    """
    measured = [_sizes(run) for run in new]
    named = {_name(series) for run in (*base, *new) for series in run.series if is_named(series.key)}
    wholes = [step_time(_times(sizes), run.format) for run, sizes in zip(new, measured, strict=True)]
    whole = max(wholes, key=lambda one: one.seconds, default=None)
    open_names = {name for run in measured for name in run if not _is_of_run(name[0].metric)} - named
    stored = [_sizes(run, open_names) for run in base]
    tried = (_changed(name, stored, measured, whole) for name in sorted(open_names))
    found = [timed for timed in tried if timed is not None]
    if found:
        ruled = _ruled_values(base, measured, named)
        found = [(time, change) for time, change in found if not _is_judged(change, ruled)]
    found.sort(key=lambda timed: (-timed[0], -abs(timed[1].change), timed[1].metric))
    return tuple(change for _, change in found[:most]), len(found)


def _changed(name: _Name, base: Sequence[_Sizes], new: Sequence[_Sizes], whole: WholeStep | None) -> _Timed | None:
    """The time of a metric and its change; None if one run lacks it, or if it has not clearly changed."""
    if not all(name in run for run in (*base, *new)):
        return None
    before, now = ([run[name] for run in side] for side in (base, new))
    change = _change(before, now)
    if change is None:
        return None
    (key, unit), time, share = name, 0.0, None
    if unit == "s" and whole is not None:
        time = max(fmean(one.total for one in side) for side in (before, now))
        share = whole.share(key.metric, time)
    values = fmean(one.value for one in before), fmean(one.value for one in now)
    return time, UnruledChange(key.metric, dict(key.labels), unit, *values, change, share)


def _is_judged(change: UnruledChange, ruled: Sequence[tuple[str, float, float]]) -> bool:
    """True if a rule names a metric with the same values, before and now."""
    near = partial(math.isclose, rel_tol=_NEAR)  # numpy takes a hundred times as long for two numbers
    same_unit = ((old, now) for unit, old, now in ruled if unit == change.unit)
    return any(near(old, change.base) and near(now, change.new) for old, now in same_unit)


def _ruled_values(
    base: Sequence[Run], measured: Sequence[_Sizes], named: Collection[_Name]
) -> list[tuple[str, float, float]]:
    """Return (unit, mean of the base runs, mean of the new runs) for each metric that a rule names and all have."""
    before = [_sizes(run, named) for run in base]
    shared = (name for name in named if all(name in run for run in (*before, *measured)))
    sides = ((name[1], [run[name].value for run in before], [run[name].value for run in measured]) for name in shared)
    return [(unit, fmean(old), fmean(new)) for unit, old, new in sides]


def _is_of_run(metric: str) -> bool:
    """Return whether a metric is of the machine or the whole process, or grows with the length of the run."""
    return metric in TIMES_OF_RUN or metric.startswith(COMMAND) or is_machine_metric(metric)


def time_seen(runs: Sequence[Run], is_named: Callable[[Key], bool]) -> float | None:
    """Return the share of the measured time that rules name; nested timers count once. None without any time."""
    found = []
    for run in runs:
        named = {series.key.metric for series in run.series if is_named(series.key)}
        found.append(time_named(_times(_sizes(run)), named, run.format))
    whole = math.fsum(total for _, total in found)
    return math.fsum(seen for seen, _ in found) / whole if whole > 0 else None


def _change(base: Sequence[Size], new: Sequence[Size]) -> float | None:
    """The relative change of the mean; None if it is small, or if noise may explain it."""
    values, others = [one.value for one in base], [one.value for one in new]
    before, now = fmean(values), fmean(others)
    if before <= 1 / _LARGEST or min(values) <= now <= max(values):
        return None
    change = now / before - 1
    error = fmean(one.error for one in (*base, *new))
    spread = math.fsum((value / before - 1) ** 2 for value in values)
    # degrees of freedom: two of the prior, and one less than there are base runs
    noise = math.sqrt((2 * (_PRIOR**2 + error**2) + spread) / (len(base) + 1) * (1 / len(base) + 1 / len(new)))
    return change if abs(change) > max(LEAST_CHANGE, STANDARD_ERRORS * noise) else None


def _name(series: Series) -> _Name:
    """The name of a series that is one rank of a metric."""
    return series.key.without_members(), series.unit


def _sizes(run: Run, names: Collection[_Name] | None = None) -> dict[_Name, Size]:
    """The metrics of a run, or only those with these names, each the mean of its ranks."""
    found = defaultdict[_Name, list[Size]](list)
    for series in run.series:
        name = _name(series)
        size = size_of(series) if names is None or name in names else None
        if size is not None:
            found[name].append(size)
    outlines = run.outlines.of if run.outlines else {}
    for (metric, labels, unit), one in outlines.items():
        for row in zip(one.medians, one.errors, one.totals, strict=True):
            found[Key(metric, labels), unit].append(Size(*row))
    return {
        name: Size(fmean(one.value for one in of), fmean(one.error for one in of), fmean(one.total for one in of))
        for name, of in found.items()
    }


@np.errstate(all="ignore")
def size_of(series: Series) -> Size | None:
    """Return the median of samples after warm-up or of a summary, the number of a value, or the mean of an aggregate.

    None for a series without such a number, or with one of 1e100 or more.
    """
    samples = series.values
    if series.kind == "samples" and len(samples):
        run = steady_run(samples, "auto", BETTER_BY_UNIT.get(series.unit, "neither"))
        values, value = run.values, median(run.values) if run.finite else math.nan
        # 1.4826 MAD is the standard deviation, and the error of a median is sqrt(pi / 2) times that of a mean
        error = 1.8581 * median(np.abs(values - value)) / math.sqrt(len(values)) / value if value > 0 else 0.0
        total = float(samples.mean()) * (series.thinned_from or len(samples))  # a baseline may have only some samples
    else:
        printed = {"mean": float(samples[0])} if series.kind == "value" else dict(series.aggregate)
        mean = printed.get("mean", math.nan)
        value = printed.get("median", mean) if series.kind == "summary" else mean
        total = printed.get("total", printed.get("mean", value) * printed.get("count", 1.0))
        error = 0.0
    is_usable = all(abs(one) < _LARGEST for one in (value, error, total))
    return Size(value, error, total) if is_usable else None


def _times(sizes: _Sizes) -> dict[str, float]:
    """The total time of each metric in s; if a log prints the fastest and the slowest rank, that of the slowest."""
    found: dict[str, float] = {}
    for (key, unit), size in sizes.items():
        if unit == "s" and key.label("ranks") != "min" and not _is_of_run(key.metric):
            found[key.metric] = found.get(key.metric, 0.0) + size.total
    return found


_MICRO = "_microstep"


class WholeStep(Struct, frozen=True):
    """The time of all steps of a run in s, 0 if it is unknown."""

    seconds: float
    #: True if a timer measured it; otherwise it is the sum of known timers, and only these have a share of it.
    is_measured: bool
    format: str

    def share(self, metric: str, seconds: float) -> float | None:
        """Return the share of a metric; None if it is unknown, above 1, or if a sum of timers does not include it.

        A timer outside of the steps, such as that of a checkpoint, has a share of a measured step, too.
        """
        if self.seconds <= 0 or seconds > self.seconds:
            return None
        return seconds / self.seconds if self.is_measured or _is_part(metric, self.format) else None


def step_time(times: Mapping[str, float], format: str) -> WholeStep:
    """Return the time of all steps, from the total time of each metric of a run in s."""
    own = _without_redundant(times)
    for whole in WHOLES:
        if found := [time for name, time in own.items() if hook_of(name) == whole]:
            return WholeStep(max(found), True, format)
    # a hook is the name in the table of nesting: `backward` for `[Strategy]DDPStrategy.backward`
    nesting, hooks = nesting_of(format), {hook_of(name) for name in own}
    tops = [name for name in own if around(name, hooks, nesting) is None]
    # timers such as `step`: the longest is the whole step if the other parts fit into it
    perhaps = {name for name in tops if may_be_whole(name, format)}
    whole_time = max((own[name] for name in perhaps), default=0.0)
    parts = {name: own[name] for name in tops if _is_part(name, format)}
    if 0 < whole_time >= math.fsum(time for name, time in parts.items() if name not in perhaps):
        return WholeStep(whole_time, True, format)
    return WholeStep(math.fsum(parts.values()), False, format)


def time_named(times: Mapping[str, float], named: Collection[str], format: str) -> tuple[float, float]:
    """Return the time that the named metrics measure, and that all metrics measure, in s; nested timers count once."""
    own = _without_redundant(times)
    seen_names = {name for name in own if name in named or name + _MICRO in named}  # or its micro-step
    nesting, hooks = nesting_of(format), {hook_of(name) for name in own}
    below: dict[str | None, list[str]] = {}
    for name in own:
        below.setdefault(around(name, hooks, nesting), []).append(name)

    def seen(name: str) -> float:
        """Return the named time in a timer."""
        return own[name] if name in seen_names else min(own[name], math.fsum(map(seen, below.get(hook_of(name), ()))))

    tops = below.get(None, [])  # the place of a timer depends on its hook alone, so no circle begins here
    found = math.fsum(map(seen, tops))
    whole = step_time(times, format)
    total = whole.seconds if whole.is_measured else math.fsum(own[name] for name in tops)
    return min(found, total), total


def _without_redundant(times: Mapping[str, float]) -> dict[str, float]:
    return {name: time for name, time in times.items() if not is_redundant(name, times.keys())}


def _is_part(metric: str, format: str) -> bool:
    """Return whether a metric is a part of the steps: a timer of known place, or the wait for input."""
    return is_known(metric.removesuffix(_MICRO), nesting_of(format)) or kind_of_timer(metric) == "loader"
