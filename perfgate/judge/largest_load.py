"""The largest load of a sweep that keeps its limits: `the largest request_rate with p99_ttft under 500 ms`.

The loads of a run are series that differ in one condition. A load counts if it and every smaller measured load keep all
limits, so that one lucky load beyond a slow one is not the answer. The number is 0 if no load keeps them; a metric such
as a time has then no number. In a sweep, which has at least two finite loads, a load such as the rate `inf` does not
count. In a run without two finite loads, each load is a sweep by itself, `inf` too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import takewhile
from typing import TypeAlias

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from perfgate.core import Key, Series, read_only
from perfgate.core.runs import MEMBER_LABELS
from perfgate.core.wording import show_labels
from perfgate.judge.measure import BETTER_BY_UNIT, NotAvailable, default_statistic, number_of_run, statistic_unit
from perfgate.rules.syntax.sentence import KeptLimit, LabelTest, LargestLoad, Selector

Labels: TypeAlias = tuple[tuple[str, str], ...]
SeriesByLabels: TypeAlias = dict[Labels, Series]
#: The names of two numbers in the aggregate of an answer: its load, and the largest load that was measured.
LOAD, MEASURED = "load", "measured"


class Load(Struct, frozen=True):
    """One load of a sweep: its size, its labels, and whether it keeps the limits."""

    size: float
    labels: Labels
    is_kept: bool


def largest_load(expression: LargestLoad, series_of: Callable[[Selector], SeriesByLabels]) -> SeriesByLabels:
    """Return the answer of one run: the largest load, or a metric at that load, by the labels that do not change.

    The labels of ranks are among those of a metric. Each series is a single value; its aggregate has LOAD and MEASURED.

    Parameters:
        series_of: returns the series of a selector by their labels.

    Raises NotAvailable for a load without one of the metrics, and for a sweep over several conditions.
    """
    kept = _kept(expression, series_of)
    if not kept:
        return {}
    condition = expression.of.pattern if expression.is_condition else _swept(expression, kept)
    found: SeriesByLabels = {}
    for rest, loads in _sweeps(condition, kept).items():
        # The largest load that keeps the limits, as every smaller one does.
        kept_loads = [*takewhile(lambda one: one.is_kept, sorted(loads, key=lambda one: one.size))]
        best = kept_loads[-1] if kept_loads else None
        size = best.size if best else 0.0
        sizes = {LOAD: size, MEASURED: max(one.size for one in loads)}
        if expression.is_condition:
            answers = {rest: _number(rest, "1", size)}
        else:
            answers = _metric(expression.of, series_of(expression.of), best, loads, condition)
        found |= {labels: replace(series, aggregate=sizes) for labels, series in answers.items()}
    return found


def _kept(expression: LargestLoad, series_of: Callable[[Selector], SeriesByLabels]) -> dict[Labels, bool]:
    """Return for each load, by its labels, whether it keeps all limits on every rank. Raises NotAvailable.

    Empty if the run has no load with the metric of one of the limits.
    """
    tests = expression.of.labels
    each = [_limit(limit, series_of, tests) for limit in expression.limits]
    every = dict.fromkeys(labels for one in each for labels in one)
    for limit, one in zip(expression.limits, each, strict=True):
        if one and (lacking := sorted(every.keys() - one.keys())):
            raise NotAvailable(f"{limit.of.pattern} is missing for {show_labels(lacking[0])}")
    return {labels: all(one[labels] for one in each) for labels in every} if all(each) else {}


def _limit(
    kept: KeptLimit, series_of: Callable[[Selector], SeriesByLabels], tests: Iterable[LabelTest]
) -> dict[Labels, bool]:
    """Return for each load, by its labels, whether it keeps one limit on every rank. Raises NotAvailable.

    `tests` are the labels that the rule writes after the load or the metric, such as `{model="m"}`.
    """
    found: dict[Labels, bool] = {}
    for labels, series in series_of(kept.of).items():
        if all(test.accepts(series.key) for test in tests):
            statistic, bound = kept.statistic or default_statistic(series), kept.limit.bound
            unit = statistic_unit(series, statistic)
            if bound.base != unit:
                raise NotAvailable(f"{bound} does not fit {kept.of.pattern}, which is measured in {unit}")
            own = _without(labels, MEMBER_LABELS)
            found[own] = found.get(own, True) and kept.keeps(number_of_run(series, statistic))
    return found


def _swept(expression: LargestLoad, loads: Collection[Labels]) -> str:
    """Return the condition that is a number and changes along the sweep, or "". Raises NotAvailable for several."""
    values: dict[str, set[str]] = {}
    for labels in loads:
        for name, value in labels:
            values.setdefault(name, set()).add(value)
    swept = [name for name, own in values.items() if sum(load_size(text) is not None for text in own) > 1]
    if len(swept) > 1:
        names = " and ".join(sorted(swept))
        step = f'write `{expression.of.pattern}{{{swept[0]}="..."}} with ...`'
        raise NotAvailable(f"{names} both change in this sweep: {step}")
    return swept[0] if swept else ""


def _sweeps(condition: str, kept: dict[Labels, bool]) -> dict[Labels, list[Load]]:
    """Return the loads of each sweep, by the labels that do not change along it. Raises NotAvailable without any.

    Without a condition that changes, each load is a sweep by itself.
    """
    found: dict[Labels, list[Load]] = {}
    for labels, is_kept in kept.items():
        size = load_size(dict(labels).get(condition, "")) if condition else 1.0
        if size is not None:
            found.setdefault(_without(labels, (condition,)), []).append(Load(size, labels, is_kept))
    if not found:
        known = sorted({name for labels in kept for name, _ in labels})
        raise NotAvailable(f"no load has a number as its {condition}; the conditions are {', '.join(known) or 'none'}")
    return found


def _metric(
    of: Selector, every: SeriesByLabels, best: Load | None, loads: Sequence[Load], condition: str
) -> SeriesByLabels:
    """Return the value of a metric at the best load, for each rank that has it; 0 if no load keeps the limits.

    Raises NotAvailable instead if less of the metric is better, because 0 would be the best value.
    """
    if not every:
        raise NotAvailable(f"no load has {of.pattern}")
    at = [one.labels for one in ([best] if best else loads)]
    found = {
        _without(labels, (condition,)): series
        for labels, series in every.items()
        if _without(labels, MEMBER_LABELS) in at
    }
    if not found:
        raise NotAvailable(f"{of.pattern} is missing for {show_labels(at[0])}")
    return {labels: _at_load(labels, series, best) for labels, series in found.items()}


def _at_load(labels: Labels, series: Series, best: Load | None) -> Series:
    statistic = default_statistic(series)
    if best is None and BETTER_BY_UNIT.get(series.unit) == "lower":
        raise NotAvailable(f"no load keeps the limits, so there is no load at which to measure {series.key.metric}")
    return _number(labels, statistic_unit(series, statistic), number_of_run(series, statistic) if best else 0.0)


def _number(labels: Labels, unit: str, value: float) -> Series:
    return Series(Key("", labels), unit, "value", read_only(np.array([value])))


def _without(labels: Labels, names: Collection[str]) -> Labels:
    return tuple(pair for pair in labels if pair[0] not in names)


def load_size(text: str) -> float | None:
    """Return the size of a load from the value of its condition; None if it is not a finite number."""
    try:
        size = float(text)
    except ValueError:
        return None
    return size if math.isfinite(size) else None
