"""Series as a stored run contains them: their samples, thinned if they are many, or every statistic without samples.

A longer series than KEEP_WHOLE is thinned: one value is kept of each of KEEP_WHOLE equal stretches, at positions of a
low-discrepancy sequence, so that no period in the data can hide from it. The smallest and the largest value are always
kept. `thinned_from` is the number of values before.

A statistic is as the judge measures it, with its noise. A rule that is written later then gets the numbers that it
would get from the samples. Values have twelve digits (whole numbers all of theirs), and the two numbers of their noise
have six.

Of a metric with very many ranks, the ranks that can represent a run have every statistic: the slowest, the median and
the fastest by each of OUTLINES. The others have the values of these alone, with seven digits, which is enough to choose
the same ranks again.
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

#: The statistics of a rank that represents no run.
OUTLINES = ("mean", "median", "p95", "p99", "min", "max")
#: More ranks than this: only those that can represent a run have every statistic.
MANY_RANKS = 32
_QUANTILES = {"median": 0.5, "p95": 0.95, "p99": 0.99, "min": 0.0, "max": 1.0}
_DIRECTIONS: tuple[Better, ...] = ("lower", "higher", "neither")
_Row: TypeAlias = list[float | None]
#: The value of each rank, by statistic, with the digits that are stored.
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

    `key`: the metric without rank and device. `members`: the samples of each rank. `speaking`: the ranks with every
    statistic. `outlines`: the statistics of the others. `judged`: those of `outlines` that rules judge on each rank;
    they have their noise.
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
    better = [method.better]  # and the other directions that give every rank the same warm-up
    for other in (one for one in _DIRECTIONS if one != method.better):
        pairs = ((method.steady(one), replace(method, better=other).steady(one)) for one in members.values())
        if all((a.dropped, a.settled) == (b.dropped, b.settled) for a, b in pairs):
            better.append(other)
    return StoredSummary(
        metric=key.metric,
        unit=next(iter(members.values())).unit,
        better=[*better],
        rows=rows,
        labels=dict(key.labels),
        warmup=method.warmup,
        outlines=[] if members.keys() <= set(speaking) else list(outlines),
    )


def method_of(key: Key, unit: str, warmup: WarmUpRule) -> Method:
    """Return how a metric is measured by a rule with default settings."""
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
    """Return statistics with their noise, as the judge measures them, and their warm-up if it is not the usual one."""
    usual = method.steady(series)
    rows = []
    for statistic in names:
        better: Better = method.better if has_unit_of(series, statistic) else "neither"
        found = replace(method, statistic=statistic, better=better).measure(series)
        row = [digits_of(found.value, 12), digits_of(found.n_effective, 6), digits_of(found.within_variance, 6)]
        same = (found.dropped, found.settled) == (usual.dropped, usual.settled)
        rows.append(row if same else [*row, float(found.dropped), float(found.settled)])
    return rows


def _value(series: Series, method: Method, statistic: str) -> float:
    """Return a statistic alone: the estimate of its noise takes a hundred times as long."""
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
    """Return which of n > KEEP_WHOLE values are kept, ascending: one of each of KEEP_WHOLE equal stretches."""
    n = len(values)
    edges = np.linspace(0, n, KEEP_WHOLE + 1)
    golden = (np.sqrt(5) - 1) / 2  # its multiples, modulo 1, fill the unit interval most evenly
    offset = np.modf(golden * np.arange(1, KEEP_WHOLE + 1))[0]
    chosen = np.minimum((edges[:-1] + offset * np.diff(edges)).astype(int), n - 1)
    for extreme in (int(np.argmin(values)), int(np.argmax(values))):
        chosen[np.searchsorted(edges, extreme, side="right") - 1] = extreme
    return np.unique(chosen)
