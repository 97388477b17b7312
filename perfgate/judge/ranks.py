"""Which rank of a run speaks for the run."""

from __future__ import annotations

import math
from dataclasses import dataclass

from perfgate.core import Better, Series
from perfgate.judge.evidence import Member, Members
from perfgate.judge.measure import Measurer, pooled
from perfgate.rules.syntax.sentence import RankChoice
from perfgate.stats.statistics import RunMeasure
from perfgate.stats.steady import SteadyRun, WarmUpRule

#: The choices that pick an extreme of several ranks, so that a limit has to allow for having picked it.
PICKS_EXTREME = ("worst", "slowest", "fastest")


@dataclass(frozen=True, slots=True)
class Reading:
    """What is measured, and how: the arguments that every rank of a rule shares."""

    statistic: str
    warmup: WarmUpRule
    better: Better
    measurer: Measurer

    def steady(self, series: Series) -> SteadyRun:
        """One rank without its warm-up. Raises NotAvailable."""
        return self.measurer.steady(series, self.statistic, self.warmup, self.better)

    def measure(self, series: Series) -> RunMeasure:
        """One rank as one number. Raises NotAvailable."""
        return self.measurer.measure(series, self.statistic, self.warmup, self.better)

    def value(self, series: Series) -> float:
        """The statistic of one rank; NaN where it does not exist. Raises NotAvailable."""
        found = self.measure(series).value
        return math.nan if found is None else found


def choose(members: Members, choice: RankChoice, reading: Reading) -> tuple[Member, Series]:
    """The rank that speaks for a run, and its series; `across` pools them all. Raises NotAvailable.

    `worst` is the slowest for times and the lowest for rates. A rank whose statistic is no number is always the
    worst. The median rank of an even number is the lower middle one.
    """
    if len(members) == 1:
        return next(iter(members.items()))
    if choice == "across":
        return (), pooled(list(members.values()))
    slow_is_high = reading.better != "higher"
    slowest_first = sorted(
        members, key=lambda member: _slowness(reading.value(members[member]), slow_is_high), reverse=True
    )
    index = {"median": len(members) // 2, "fastest": -1}.get(choice, 0)
    return slowest_first[index], members[slowest_first[index]]


def _slowness(value: float, slow_is_high: bool) -> float:
    return math.inf if math.isnan(value) else value if slow_is_high else -value
