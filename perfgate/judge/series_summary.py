"""One series in numbers, as `inspect` and `baseline` show it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfgate.core import Series
from perfgate.core.summaries import SeriesSummary
from perfgate.stats.distributions import sample_quantile

if TYPE_CHECKING:
    from perfgate.core.runs import Values


@np.errstate(all="ignore")
def summary(series: Series, *, with_values: bool = False) -> SeriesSummary:
    """A series as `inspect` shows it; of an aggregate, what the source printed."""
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


def _histogram(x: Values, p99: float, bins: int = 16) -> tuple[int, ...]:
    """Counts in equal bins up to p99; the last bin has everything beyond, so one stall does not flatten the rest."""
    low = float(np.min(x))
    bins_per_unit = np.divide(bins, p99 - low)
    if len(x) < 2 or not p99 > low or not 0 < bins_per_unit < np.inf:  # or too narrow or wide for floats to tell
        return ()
    places = np.minimum((np.minimum(x, p99) - low) * bins_per_unit, bins - 1)
    return tuple(np.bincount(places.astype(np.int64), minlength=bins).tolist())
