"""One series in numbers, and a metric of many ranks in one row, as `inspect` and `baseline` show them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from perfgate.core import Key, Series
from perfgate.core.summaries import RankSpread, SeriesSummary
from perfgate.core.wording import member_name
from perfgate.judge.measure import BETTER_BY_UNIT, Member, by_slowness
from perfgate.stats.distributions import FloatArray, sample_quantile

#: The values of a histogram that are computed at once.
_PIECE = 1 << 18


@np.errstate(all="ignore")
def summary(series: Series, *, with_values: bool = False) -> SeriesSummary:
    """Return the statistics of a series; an aggregate has the statistics that its file printed."""
    if series.kind in ("aggregate", "summary"):
        count = series.aggregate.get("count")
        n = None if count is None else int(count)
        return SeriesSummary(series.key, series.unit, series.kind, n, series.aggregate, printed_as=series.printed_as)
    x = series.values
    if len(x) == 0:
        return SeriesSummary(series.key, series.unit, series.kind, 0, {}, printed_as=series.printed_as)
    # Sorted once, because a report may have thousands of series. With a NaN every statistic is NaN.
    ordered = np.sort(x) if not np.isnan(x).any() else np.full(1, np.nan)
    median, p95, p99 = (sample_quantile(ordered, q) for q in (0.5, 0.95, 0.99))
    statistics = {
        "mean": float(np.mean(x)),
        "median": median,
        "p95": p95,
        "p99": p99,
        "min": float(ordered[0]),
        "max": float(ordered[-1]),
        "total": float(np.sum(x)),
    }
    if series.kind == "value":
        statistics = {"value": float(x[0])}
    shown = tuple(float(value) for value in x) if with_values else None
    return SeriesSummary(
        series.key, series.unit, series.kind, len(x), statistics, _histogram(x, p99), series.printed_as, shown
    )


def _histogram(x: FloatArray, p99: float, bins: int = 16) -> tuple[int, ...]:
    """Return counts in equal bins up to p99; the last has all values beyond, so one stall does not flatten the rest."""
    low = float(np.min(x))
    bins_per_unit = np.divide(bins, p99 - low)
    if not 0 < bins_per_unit < np.inf:  # equal values, a value that is not a number, or too narrow or wide for floats
        return ()
    counts = np.zeros(bins, np.int64)
    for at in range(0, len(x), _PIECE):
        places = np.minimum((np.minimum(x[at : at + _PIECE], p99) - low) * bins_per_unit, bins - 1)
        counts += np.bincount(places.astype(np.int64), minlength=bins)
    return tuple(counts.tolist())


#: A metric with more ranks than this has one row.
FEW_RANKS = 8
#: The statistic by which ranks are compared: the first that all their series have.
_STATISTICS = ("value", "median", "mean", "total")


def rank_spreads(series: Iterable[SeriesSummary]) -> tuple[RankSpread, ...]:
    """Return a row for each metric that more than `FEW_RANKS` ranks have, in the order of the series."""
    groups: dict[tuple[Key, str], dict[Member, SeriesSummary]] = {}
    for one in series:
        if member := one.key.member():
            groups.setdefault((one.key.without_members(), one.unit), {})[member] = one
    return tuple(
        spread
        for (key, unit), members in groups.items()
        if len(members) > FEW_RANKS and (spread := _spread(key, unit, members)) is not None
    )


def _spread(key: Key, unit: str, members: dict[Member, SeriesSummary]) -> RankSpread | None:
    """Return the row of a metric, or None if its ranks have no statistic in common."""
    shared = [name for name in _STATISTICS if all(name in one.statistics for one in members.values())]
    if not shared:
        return None
    values = {member: one.statistics[shared[0]] for member, one in members.items()}
    slowest_first = by_slowness(values, BETTER_BY_UNIT.get(unit, "neither"))
    slowest, middle, fastest = slowest_first[0], slowest_first[len(slowest_first) // 2], slowest_first[-1]
    return RankSpread(
        *(key, unit, len(members), shared[0], values[middle]),
        *(values[slowest], member_name(slowest), values[fastest], member_name(fastest)),
    )
