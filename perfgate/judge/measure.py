"""A series of one run as one number: its statistic and the error of that number.

Samples are measured by `perfgate.stats`. Aggregates and single values have only what the source printed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from perfgate.core import Better, Series, Summary, read_only
from perfgate.core.details import RunDetails
from perfgate.rules.syntax.sentence import RankChoice
from perfgate.stats.statistics import MIDDLES, Count, Quantile, RunMeasure, describe, parse_statistic, warmup_for
from perfgate.stats.steady import SteadyRun, WarmUpRule, steady_run

#: A rank, or a device of a rank: the labels that distinguish the members of a metric.
Member: TypeAlias = tuple[tuple[str, str], ...]
Members: TypeAlias = Mapping[Member, Series]
#: The better direction of a metric, if its unit says it.
BETTER_BY_UNIT: dict[str, Better] = {
    **dict.fromkeys(("s", "B", "J", "W", "$", "count"), "lower"),
    **dict.fromkeys(("1/s", "B/s", "FLOP/s", "1/J"), "higher"),
}


class NotAvailable(Exception):
    """A value that the data does not have: an absent metric, a percentile of an aggregate, units that do not fit."""


class OnlySummary(NotAvailable):
    """A value needs samples, but the stored run has only a summary; `sources` are the files with the samples."""

    def __init__(self, message: str, sources: tuple[str, ...]) -> None:
        super().__init__(message)
        self.sources = sources


def single_number(series: Series, statistic: str) -> float:
    """Return the one number of an aggregate or a single value for a statistic. Raises NotAvailable."""
    if series.kind == "value":
        if statistic in ("mean", "median", "min", "max", "total"):
            return float(series.values[0])
        raise NotAvailable(f"{statistic} is not available: {series.key} is a single number")
    printed = dict(series.aggregate)
    if printed.get("count") == 0:
        raise NotAvailable(f"{series.key} was never called: its count is 0")
    count, total = printed.get("count"), printed.get("total")
    if "mean" not in printed and total is not None and count:
        printed["mean"] = total / count
    name = _ALIASES.get(statistic, statistic)
    if name not in printed:
        if series.summary is not None:
            raise _only_summary(series, series.summary, f"no {statistic} of it")
        raise NotAvailable(
            f"{statistic} is not available: the source prints only {', '.join(sorted(printed))} of {series.key}"
        )
    return float(printed[name])


#: Percentiles that have another name in aggregates and summaries.
_ALIASES = {"p50": "median", "p0": "min", "p100": "max"}


def _only_summary(series: Series, summary: Summary, lacks: str) -> OnlySummary:
    return OnlySummary(f"the stored runs have only a summary of {series.key}, with {lacks}", summary.sources)


def number_of_run(series: Series, statistic: str) -> float:
    """Return a statistic of a whole run as a plain number, for arithmetic; NaN if it does not exist.

    Raises NotAvailable if the run has too few values to have one beyond a percentile: it would be an extreme value.
    """
    found = Method(statistic).measure(series)
    asked = parse_statistic(statistic)
    tail = min(asked.q, 1 - asked.q) if isinstance(asked, Quantile) else 1.0
    needed = 0 if found.single or isinstance(asked, Count) else math.ceil(1 / tail - 1e-9)
    if found.value is not None and found.n < needed:
        raise NotAvailable(f"{statistic} of {series.key} needs {needed} values after warm-up, and there are {found.n}")
    return math.nan if found.value is None else found.value


def default_statistic(series: Series) -> str:
    """Return the statistic if a rule names none: of samples the median, of others the mean, total or median."""
    if series.kind in ("samples", "summary"):
        return "median"
    if series.kind == "value" or "mean" in series.aggregate or {"total", "count"} <= set(series.aggregate):
        return "mean"
    return "median" if "median" in series.aggregate and "total" not in series.aggregate else "total"


def statistic_unit(series: Series, statistic: str) -> str:
    """Return the base unit of a statistic; for counts and coefficients of variation it is `1`."""
    return "1" if statistic in ("count", "cv") else series.unit


def has_unit_of(series: Series, statistic: str) -> bool:
    """Return whether a statistic has the unit of its series, which decides the better direction."""
    return statistic_unit(series, statistic) == series.unit


def pooled(parts: list[Series]) -> Series:
    """Return the series of several ranks as one, for `across ranks`. Raises NotAvailable if that is not possible."""
    first = parts[0]
    if len(parts) == 1:
        return first
    for part in parts:
        if part.summary is not None:
            raise _only_summary(part, part.summary, "no samples, which `across ranks` needs")
    if not all(part.kind == "samples" for part in parts):
        return _pooled_aggregates(parts)
    key, joined = first.key.without_members(), min(part.joined for part in parts)
    values = [part.values for part in parts]
    whole = None
    if any(part.thinned_from is not None for part in parts):
        whole = sum(part.thinned_from or len(part.values) for part in parts)
    if len({len(one) for one in values}) > 1:
        return Series(key, first.unit, "samples", np.concatenate(values), joined=joined, thinned_from=whole)
    marks = [part.stalled for part in parts if part.stalled is not None]
    stalled = np.stack(marks, axis=1).ravel() if len(marks) == len(parts) else None
    together = np.stack(values, axis=1).ravel()  # in order of time: step by step, rank by rank
    return Series(key, first.unit, "samples", together, joined=joined, thinned_from=whole, stalled=stalled)


def _pooled_aggregates(parts: Sequence[Series]) -> Series:
    """Return the aggregates of several ranks as one. Raises NotAvailable if one of them has no total or no count."""
    first, *_ = parts
    key = first.key.without_members()
    totals = [part.aggregate["total"] for part in parts if "total" in part.aggregate]
    counts = [part.aggregate["count"] for part in parts if "count" in part.aggregate]
    if len(totals) < len(parts) or len(counts) < len(parts):
        raise NotAvailable(f"{key.metric} cannot be pooled across ranks: it has neither samples nor total and count")
    total, count = sum(totals), sum(counts)
    aggregate = {"total": total, "count": count, "mean": total / count if count else math.nan}
    return Series(key, first.unit, "aggregate", read_only(np.empty(0)), aggregate=aggregate)


#: The choices of an extreme rank. The confidence of a limit on it has to be higher, because it is one of several.
PICKS_EXTREME = ("worst", "slowest", "fastest")


class MeasureCache(Struct, frozen=True):
    """The results for each series, by its id and the settings, so that many rules measure it once.

    The settings include whether stalled steps are left out (`steady`), and the most values to draw (`drawn`).
    """

    #: The series is kept with its result, so that its id stays unique.
    steady: dict[tuple[int, WarmUpRule, Better, bool], tuple[Series, SteadyRun]] = field(default_factory=dict)
    measures: dict[tuple[int, str, WarmUpRule, Better], RunMeasure] = field(default_factory=dict)
    drawn: dict[tuple[int, WarmUpRule, Better, int], RunDetails] = field(default_factory=dict)


class Method(Struct, frozen=True):
    """The method that measures each rank of a rule: the statistic, the warm-up rule and the better direction."""

    statistic: str
    warmup: WarmUpRule = "auto"
    better: Better = "lower"
    cache: MeasureCache = field(default_factory=MeasureCache)
    #: The better direction of single values, by which warm-up and stalls are found; None is that of the statistic.
    better_value: Better | None = None

    def steady(self, series: Series) -> SteadyRun:
        """Return the series without its warm-up; the one number of an aggregate. Raises NotAvailable."""
        if series.summary is not None:
            raise _only_summary(series, series.summary, "no samples, which this needs")
        if series.kind != "samples":
            return steady_run(single_number(series, self.statistic))
        warmup = warmup_for(self.statistic, self.warmup)
        if series.stalled is not None and warmup == "auto":
            warmup = 0  # a trace has no warm-up
        is_middle = self.statistic in MIDDLES  # such as the median: it leaves out the stalled steps of a trace
        better = self.better_value or self.better
        key = (id(series), warmup, better, is_middle)
        if key not in self.cache.steady:
            values = series.settled if is_middle else series.values
            self.cache.steady[key] = (series, steady_run(values, warmup, better))
        return self.cache.steady[key][1]

    def measure(self, series: Series) -> RunMeasure:
        """Return the series as one number with its error within the run. Raises NotAvailable."""
        if series.summary is not None:
            return self._kept(series, series.summary)
        key = (id(series), self.statistic, self.warmup, self.better_value or self.better)
        if known := self.cache.measures.get(key):
            return known
        run = self.steady(series)
        found = describe(run, parse_statistic("mean" if run.single else self.statistic))  # a single number stays
        if series.thinned_from is not None and found.value is not None:  # stored thinned: scale counts and sums
            times = series.thinned_from / len(series.values)
            value = found.value * times if self.statistic in ("count", "total") else found.value
            found = replace(found, value=value, n=round(found.n * times))
        if series.kind == "samples":
            self.cache.measures[key] = found
        return found

    def _kept(self, series: Series, summary: Summary) -> RunMeasure:
        """Return the statistic as it was measured before only the summary was stored. Raises OnlySummary.

        `core.Summary` describes the row.
        """
        row = self._row(series, summary)
        if len(row) == 1:
            raise _only_summary(series, summary, f"no noise of its {self.statistic}, because other ranks represent it")
        value, n_effective, variance, *own = row
        dropped, settled = (int(own[0] or 0), bool(own[1])) if own else (summary.dropped, summary.settled)
        return RunMeasure(value, summary.n - dropped, n_effective, variance, dropped, settled)

    def _row(self, series: Series, summary: Summary) -> Sequence[float | None]:
        """Return the row of the statistic in a summary. Raises OnlySummary if it was measured by other settings."""
        if self.warmup != summary.warmup:
            raise _only_summary(series, summary, f"warm-up {summary.warmup}, and the rule has {self.warmup}")
        name = _ALIASES.get(self.statistic, self.statistic)
        # A statistic in another unit (count, cv) was measured with `neither`.
        known = tuple(summary.better) if has_unit_of(series, name) or "neither" in summary.better else ("neither",)
        better = self.better_value or self.better
        if better not in known:
            lacks = f"the warm-up of `better: {' or '.join(known)}`, and the rule has {better}"
            raise _only_summary(series, summary, lacks)
        if name not in summary.names:
            raise _only_summary(series, summary, f"no {self.statistic}; it has {', '.join(summary.names)}")
        return summary.rows[summary.names.index(name)]

    def value(self, series: Series) -> float:
        """Return the statistic of one rank; NaN if it does not exist. Raises NotAvailable."""
        if series.summary is not None:
            kept = self._row(series, series.summary)[0]
            return math.nan if kept is None else kept
        found = self.measure(series).value
        return math.nan if found is None else found


def choose(members: Members, choice: RankChoice, method: Method) -> tuple[Member, Series]:
    """Return the rank that represents a run, and its series; `across` pools all ranks. Raises NotAvailable.

    `worst` is the slowest for times and the lowest for rates. A rank whose statistic is NaN is always the worst. The
    median of an even number of ranks is the faster one of the two in the middle.
    """
    if len(members) == 1:
        return next(iter(members.items()))
    if choice == "across":
        return (), pooled(list(members.values()))
    values = {member: method.value(series) for member, series in members.items()}
    if any(series.summary is not None and series.summary.is_outlined for series in members.values()):
        values = {member: outlined(value) for member, value in values.items()}  # stored ranks have seven digits
    slowest_first = by_slowness(values, method.better)
    index = {"median": len(members) // 2, "fastest": -1}.get(choice, 0)
    return slowest_first[index], members[slowest_first[index]]


def by_slowness(values: Mapping[Member, float], better: Better) -> list[Member]:
    """Return the ranks with these values, the slowest first; NaN is slower than all."""
    sign = -1.0 if better == "higher" else 1.0
    return sorted(
        values, key=lambda member: math.inf if math.isnan(values[member]) else sign * values[member], reverse=True
    )


def outlined(value: float) -> float:
    """Return a value as it is stored for ranks that do not represent their run: seven digits, or a whole number."""
    return value if value.is_integer() else float(f"{value:.7g}")


def is_exact(unit: str, statistic: str, runs: Sequence[RunMeasure]) -> bool:
    """Return whether a metric is compared without noise if its runs agree: bytes, operations and counts.

    A count is recognised by its values: whole numbers without a unit, unlike shares and ratios.
    """
    if unit in ("B", "FLOP", "count") or statistic == "count":
        return True
    return unit == "1" and all(run.value is not None and run.value.is_integer() for run in runs)
