"""The metrics of first runs as a table: the value of each in every run, the main ones first."""

from __future__ import annotations

from collections.abc import Sequence

from perfgate.analysis.proposals import DETAILS, WORK, ranked, shared_metrics
from perfgate.core import Key, Run, Series
from perfgate.core.advice import MeasuredMetric
from perfgate.core.wording import COMMAND, MACHINE_STATE, series_name
from perfgate.judge.measure import Method, NotAvailable, default_statistic

#: The most metrics that are listed, each with its labels.
_MOST = 16


def measured_metrics(runs: Sequence[Run]) -> tuple[tuple[MeasuredMetric, ...], int]:
    """Return the main metrics of runs with their labels, and how many others there are."""
    known = {
        name: series
        for name, series in shared_metrics(runs, {}).items()
        if not name.startswith((COMMAND, *MACHINE_STATE))
    }
    order = ranked(known, {})
    order += [name for name in known if name not in order]
    main = [name for name in order if not name.startswith((*DETAILS, WORK))]
    found: dict[Key, list[Series]] = {}
    for name in main or order:
        for series in known[name]:
            found.setdefault(series.key, []).append(series)
    rows = [_measured(key, series) for key, series in list(found.items())[:_MOST]]
    return tuple(rows), len({one.key for series in known.values() for one in series}) - len(rows)


def _measured(key: Key, series: Sequence[Series]) -> MeasuredMetric:
    statistic, values = default_statistic(series[0]), list[float]()
    for one in series:
        try:
            value = Method(statistic, better="lower").measure(one).value
        except NotAvailable:
            continue
        values += [] if value is None else [value]
    name = series_name(key.metric, dict(key.labels), statistic if series[0].kind == "samples" else None)
    return MeasuredMetric(name, series[0].unit, tuple(values), max(len(one.values) for one in series))
