"""Metrics of many ranks in one row each, for `inspect`."""

from __future__ import annotations

from collections.abc import Iterable

from perfgate.core import Key
from perfgate.core.summaries import RankSpread, SeriesSummary
from perfgate.judge.measure import BETTER_BY_UNIT, Member, by_slowness

#: A metric with more ranks than this has one row.
FEW_RANKS = 8
#: The statistic that speaks for a rank: the first that its series has.
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
        *(values[slowest], _words(slowest), values[fastest], _words(fastest)),
    )


def _words(member: Member) -> str:
    return ", ".join(f"{name} {value}" for name, value in member)
