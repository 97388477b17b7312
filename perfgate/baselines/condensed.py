"""Series as a stored run contains them: their samples, thinned if they are many, or every statistic without samples.

A series of more than KEEP_WHOLE values is thinned: it is divided into KEEP_WHOLE equal parts, and one value of each is
kept. The positions in the parts are a low-discrepancy sequence, so that no period of the data falls between them. The
smallest and the largest value are always kept. `thinned_from` is the number of values before.

The statistics, and their noise, are measured by the judge's own code. So a rule that is written later gets the numbers
that it would get from the samples. Values have twelve digits, or all digits of a whole number; the two numbers of their
noise have six.

If a metric has many ranks, only the ranks that can represent a run have every statistic: the slowest, the median and
the fastest by each of OUTLINES and of the statistics that rules ask for (if there is little room, by the latter alone).
The others have only the values of these statistics, with seven digits, which is enough to choose the same ranks again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np
from msgspec.structs import replace

from perfgate.baselines.files import KEEP_WHOLE, STATISTICS, StoredSeries, StoredSummary, digits_of
from perfgate.core import Better, Key, Series
from perfgate.judge.evidence import direction
from perfgate.judge.measure import Member, Method, by_slowness, has_unit_of, outlined
from perfgate.stats.distributions import sample_quantile
from perfgate.stats.steady import WarmUpRule

#: The statistics of a rank that cannot represent a run, beside those that rules ask for.
OUTLINES = ("mean", "median", "p95", "p99", "min", "max")
#: With more ranks than this, only those that can represent a run have every statistic.
MANY_RANKS = 32
_QUANTILES = {"median": 0.5, "p95": 0.95, "p99": 0.99, "min": 0.0, "max": 1.0}
_DIRECTIONS: tuple[Better, ...] = ("lower", "higher", "neither")
#: A statistic: its value and its noise, or the value alone; see `StoredSummary`.
_Row: TypeAlias = list[float | None]
#: By statistic and rank: the value, with the digits that are stored.
Outlines: TypeAlias = Mapping[str, Mapping[Member, float]]


def condensed(
    key: Key,
    members: Mapping[Member, Series],
    method: Method,
    speaking: Collection[Member],
    outlines: Outlines,
    judged: Collection[str] = (),
) -> StoredSummary | None:
    """Return the statistics of the ranks of a metric; None if one of them has values that are not finite numbers.

    Parameters:
        key: the metric without rank and device.
        members: the samples of each rank.
        method: how a rule with default settings measures the metric.
        speaking: the ranks that get every statistic.
        outlines: the statistics that the other ranks get.
        judged: those of `outlines` that rules judge on each rank; all ranks get their noise, too.
    """
    rows: list[tuple[dict[str, str], int, int, bool, list[_Row]]] = []
    for member, series in sorted(members.items()):
        steady = method.steady(series)
        if not steady.finite or not len(steady.values):
            return None
        if member in speaking:
            kept = _statistics(series, method, STATISTICS)
        else:
            kept = [[values[member]] for values in outlines.values()]
            for name, row in zip(judged, _statistics(series, method, judged), strict=True):
                kept[list(outlines).index(name)] = row
        rows.append((dict(member), len(series.values), steady.dropped, steady.settled, kept))
    return StoredSummary(
        metric=key.metric,
        unit=next(iter(members.values())).unit,
        better=_with_same_warmup(method, members.values()),
        rows=rows,
        labels=dict(key.labels),
        warmup=method.warmup,
        outlines=[] if members.keys() <= set(speaking) else list(outlines),
    )


def _with_same_warmup(method: Method, series: Collection[Series]) -> list[str]:
    """Return the better directions that give every series the same warm-up, the method's own first.

    A rule with one of these directions can use the statistics.
    """
    found: list[str] = [method.better]
    for other in (one for one in _DIRECTIONS if one != method.better):
        pairs = ((method.steady(one), replace(method, better=other).steady(one)) for one in series)
        if all((a.dropped, a.settled) == (b.dropped, b.settled) for a, b in pairs):
            found.append(other)
    return found


def method_of(key: Key, unit: str, warmup: WarmUpRule) -> Method:
    """Return how a metric is measured by a rule with default settings; other statistics replace the mean."""
    return Method("mean", warmup, direction(key.metric, unit, None) or "neither")


def outline(members: Mapping[Member, Series], method: Method, statistic: str) -> dict[Member, float]:
    """Return a statistic of each rank, sorted by rank, with the digits that are stored."""
    return {member: outlined(_value(members[member], method, statistic)) for member in sorted(members)}


def speakers(outlines: Outlines) -> set[Member]:
    """Return the ranks that represent a run: the slowest, the median and the fastest by each statistic.

    They are chosen from the values as they are stored, so that ranks with equal values are chosen alike afterwards.
    """
    orders = [by_slowness(values, better) for values in outlines.values() for better in ("lower", "higher")]
    return {ordered[i] for ordered in orders for i in (0, len(ordered) // 2, -1)}


def _statistics(series: Series, method: Method, names: Iterable[str]) -> list[_Row]:
    """Return these statistics of a series with their noise, and with their warm-up if it is not the usual one."""
    usual = method.steady(series)
    rows = []
    for statistic in names:
        # a count or a `cv`, which has another unit, has no better direction
        better: Better = method.better if has_unit_of(series, statistic) else "neither"
        found = replace(method, statistic=statistic, better=better).measure(series)
        row = [digits_of(found.value, 12), digits_of(found.n_effective, 6), digits_of(found.within_variance, 6)]
        same = (found.dropped, found.settled) == (usual.dropped, usual.settled)
        rows.append(row if same else [*row, float(found.dropped), float(found.settled)])
    return rows


def _value(series: Series, method: Method, statistic: str) -> float:
    """Return a statistic without its noise, whose estimate takes a hundred times as long."""
    values = replace(method, statistic=statistic).steady(series).values
    if statistic == "mean":
        return float(values.mean())
    if statistic in _QUANTILES:
        return sample_quantile(np.sort(values), _QUANTILES[statistic])
    found = replace(method, statistic=statistic).measure(series).value
    return np.nan if found is None else found


def stored_series(series: Series) -> StoredSeries:
    """Return a series as a file contains it, thinned if it is long."""
    keep = kept_positions(series.values) if len(series.values) > KEEP_WHOLE else None
    values = series.values if keep is None else series.values[keep]
    steps = series.steps if series.steps is None or keep is None else series.steps[keep]
    counts_up = steps is None or np.array_equal(steps, np.arange(len(steps)))  # 0, 1, 2, ... need not be written
    return StoredSeries(
        metric=series.key.metric,
        labels=dict(series.key.labels),
        unit=series.unit,
        kind=series.kind,
        values=[float(value) for value in values],
        steps=None if steps is None or counts_up else [int(step) for step in steps],
        aggregate=dict(sorted(series.aggregate.items())),
        thinned_from=None if keep is None else len(series.values),
    )


def kept_positions(values: Any) -> Any:
    """Return the ascending positions of the values that are kept of n > KEEP_WHOLE; see the head of this file."""
    n = len(values)
    edges = np.linspace(0, n, KEEP_WHOLE + 1)
    golden = (np.sqrt(5) - 1) / 2  # its multiples, modulo 1, fill the unit interval most evenly
    offset = np.modf(golden * np.arange(1, KEEP_WHOLE + 1))[0]
    chosen = np.minimum((edges[:-1] + offset * np.diff(edges)).astype(int), n - 1)
    extremes = [int(np.argmin(values)), int(np.argmax(values))]
    parts = np.searchsorted(edges, extremes, side="right") - 1
    if parts[0] == parts[1]:  # then the largest value takes the place of a neighbour
        parts[1] += 1 if parts[1] < KEEP_WHOLE - 1 else -1
    chosen[parts] = extremes
    return np.unique(chosen)
