"""The parts of a step, and the kernels and operators with the largest change, base against new."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from statistics import fmean

from perfgate.core import Key, Run, Series
from perfgate.core.details import Part

#: The most kernels and operators that are named.
MOST_MOVERS = 20
#: The metrics that are parts of a step, and those of single kernels and operators.
_PART = re.compile(r"step\.(?!time$)[a-z_]+")
_MOVER = re.compile(r"(kernel|op|collective|memcpy|api)\..*|.*\.(self_device_time|self_cpu_time)", re.DOTALL)


def breakdown(base: Sequence[Run], new: Sequence[Run]) -> tuple[Part, ...]:
    """Return the parts of a step on either side, largest first; empty for runs without such metrics."""
    parts = _parts(_PART, base, new)
    return tuple(sorted(parts, key=lambda part: (-max(part.base or 0.0, part.new or 0.0), part.metric)))


def movers(base: Sequence[Run], new: Sequence[Run]) -> tuple[Part, ...]:
    """Return the kernels and operators whose time per step changed most; an absent one takes no time.

    Empty if the base has no kernels and operators at all.
    """
    parts = _parts(_MOVER, base, new)
    if all(part.base is None for part in parts):
        return ()
    moved = sorted(parts, key=lambda part: (-abs((part.new or 0.0) - (part.base or 0.0)), part.metric))
    return tuple(part for part in moved if part.new != part.base)[:MOST_MOVERS]


def _parts(names: re.Pattern[str], base: Sequence[Run], new: Sequence[Run]) -> list[Part]:
    sides = [_time_a_step(names, runs) for runs in (base, new)]
    keys = sorted({key for side in sides for key in side})
    return [Part(key.metric, dict(key.labels), sides[0].get(key), sides[1].get(key)) for key in keys]


def _time_a_step(names: re.Pattern[str], runs: Sequence[Run]) -> Mapping[Key, float]:
    """Return the time in s per step of each series with such a name: the mean over its ranks, then over its runs."""
    found: dict[Key, list[float]] = {}
    for run in runs:
        ranks: dict[Key, list[float]] = {}
        for key, time in _times_of_ranks(names, run):
            ranks.setdefault(key, []).append(time)
        for key, times in ranks.items():
            found.setdefault(key, []).append(fmean(times))
    return {key: fmean(times) for key, times in found.items()}


def _times_of_ranks(names: re.Pattern[str], run: Run) -> Iterator[tuple[Key, float]]:
    """Yield the time in s per step of each series with such a name, for each rank.

    A rank without `step.time` counts as one step. Outlines are metrics that were read without their values.
    """
    steps = _steps(run)
    for series in run.series:
        total = _total(series) if series.unit == "s" and names.fullmatch(series.key.metric) else None
        if total is not None and isfinite(total):
            yield series.key.without_members(), total / steps.get(series.key.member(), 1)
    outlines = run.outlines.of if run.outlines else {}
    for (metric, labels, _), outline in outlines.items():
        if names.fullmatch(metric):
            yield from ((Key(metric, labels), time) for time in outline.per_step)


def _steps(run: Run) -> dict[tuple[tuple[str, str], ...], int]:
    """Return the number of steps of each rank that has a `step.time`."""
    times = [series for series in run.series if series.key.metric == "step.time"]
    return {series.key.member(): max(1, _count(series)) for series in times}


def _count(series: Series) -> int:
    return series.summary.n if series.summary is not None else series.thinned_from or len(series.values)


def _total(series: Series) -> float | None:
    """Return the sum of all values, scaled up if only some were stored; None if it is unknown."""
    if series.kind in ("samples", "value"):
        times = (series.thinned_from or len(series.values)) / max(1, len(series.values))
        return float(series.values.sum()) * times
    total, mean, count = (series.aggregate.get(name) for name in ("total", "mean", "count"))
    if total is not None:
        return total
    return None if mean is None or count is None else mean * count
