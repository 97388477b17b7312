"""Series without their samples: every statistic as the judge measures it, with its noise.

A rule that is written later then gets the numbers that it would get from the samples. Values have twelve digits (whole
numbers all of theirs), and the two numbers of their noise have six.

Of a metric with very many ranks, the ranks that can represent a run have every statistic: the slowest, the median and
the fastest by each of OUTLINES. The others have the values of these alone, with seven digits, which is enough to choose
the same ranks again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TypeAlias

import numpy as np
from msgspec.structs import replace

from perfgate.baselines.files import STATISTICS, StoredSummary
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

    Parameters:
        key: the metric with its labels, without rank and device.
        members: the samples of each rank.
        method: the warm-up and the direction to measure with; see `method_of`.
        speaking: the ranks with every statistic.
        outlines: the statistics of the other ranks.
        judged: the statistics of `outlines` that rules judge on each rank; they have their noise.
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
        better=[method.better, *_alike(members.values(), method)],
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


def _alike(all_series: Iterable[Series], method: Method) -> list[Better]:
    """Return the other directions that give every rank the same warm-up."""
    found = []
    for other in _DIRECTIONS:
        if other != method.better:
            pairs = ((method.steady(one), replace(method, better=other).steady(one)) for one in all_series)
            if all((a.dropped, a.settled) == (b.dropped, b.settled) for a, b in pairs):
                found.append(other)
    return found


def _statistics(series: Series, method: Method, names: Iterable[str]) -> list[_Row]:
    """Return statistics with their noise, as the judge measures them."""
    usual = method.steady(series)
    rows = []
    for statistic in names:
        better: Better = method.better if has_unit_of(series, statistic) else "neither"
        found = replace(method, statistic=statistic, better=better).measure(series)
        row = [_digits(found.value, 12), _digits(found.n_effective, 6), _digits(found.within_variance, 6)]
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


def _digits(value: float | None, digits: int) -> float | None:
    """Return a number with this many digits, or whole: a count of bytes is compared exactly."""
    if value is None or value.is_integer():
        return value
    return float(f"{value:.{digits}g}")
