"""The curve of a metric along a load sweep: its value at each load, on both sides."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from statistics import fmean

from perfgate.core import Run
from perfgate.core.conditions import CONDITIONS, Labels
from perfgate.core.details import SweepCurve
from perfgate.core.runs import MEMBER_LABELS
from perfgate.judge.measure import NotAvailable, default_statistic, number_of_run, statistic_unit

#: The largest number of curves in a report, and the smallest number of loads of a sweep.
MOST_CURVES, FEWEST_LOADS = 12, 3
#: The values of a metric by its labels, one for each run and rank.
_Values = Mapping[Labels, Sequence[float]]


def sweep_curves(
    metrics: Collection[str], base: Sequence[Run], new: Sequence[Run], conditions: Collection[str] = CONDITIONS
) -> tuple[SweepCurve, ...]:
    """The curves of these metrics along the condition that changes most in the new runs; none without a sweep.

    A value is the mean over runs and ranks.
    """
    found: list[SweepCurve] = []
    labelled = (series.key for run in new for series in run.series if series.key.metric in metrics)
    at_loads = {key.metric for key in labelled if any(name in conditions for name, _ in key.labels)}
    for metric in sorted(at_loads):  # the values of a thousand ranks without any load need not be measured again
        unit, own = _values(metric, new)
        _, stored = _values(metric, base)
        if condition := _swept(own, conditions):
            curves, others = _curves(own, condition), _curves(stored, condition)
            found += [
                SweepCurve(metric, dict(rest), condition, unit, others.get(rest, ()), curve)
                for rest, curve in sorted(curves.items())
                if len(curve) >= FEWEST_LOADS
            ]
    return tuple(found[:MOST_CURVES])


def _values(metric: str, runs: Sequence[Run]) -> tuple[str, _Values]:
    """The unit and the values of a metric that are finite."""
    found: dict[Labels, list[float]] = {}
    unit = ""
    for series in (series for run in runs for series in run.series if series.key.metric == metric):
        try:
            statistic = default_statistic(series)
            value = number_of_run(series, statistic)
        except NotAvailable:
            continue
        if math.isfinite(value):
            unit = statistic_unit(series, statistic)
            labels = tuple(pair for pair in series.key.labels if pair[0] not in MEMBER_LABELS)
            found.setdefault(labels, []).append(value)
    return unit, found


def _swept(values: _Values, conditions: Collection[str]) -> str | None:
    """The condition with the most different numbers."""
    loads: dict[str, set[float]] = {}
    for name, text in (pair for labels in values for pair in labels):
        if name in conditions and (load := _load(text)) is not None:
            loads.setdefault(name, set()).add(load)
    best = max(sorted(loads), key=lambda name: len(loads[name]), default=None)
    return best if best is not None and len(loads[best]) >= FEWEST_LOADS else None


def _curves(values: _Values, condition: str) -> dict[Labels, tuple[tuple[float, float], ...]]:
    """The points of each curve, by the labels that do not change along it."""
    found: dict[Labels, list[tuple[float, float]]] = {}
    for labels, numbers in values.items():
        load = _load(dict(labels).get(condition, ""))
        if load is not None:
            rest = tuple(pair for pair in labels if pair[0] != condition)
            found.setdefault(rest, []).append((load, fmean(numbers)))
    return {rest: tuple(sorted(points)) for rest, points in found.items()}


def _load(text: str) -> float | None:
    try:
        load = float(text)
    except ValueError:
        return None
    return load if math.isfinite(load) else None
