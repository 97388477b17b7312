"""One remembered run: a number with its error for each of its metrics, without samples.

A metric is measured as the judge measures it. Each metric has its usual statistic on its worst rank, and each statistic
and rank that a rule asks for.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from perfgate.core import Baseline, Better, Fact, Key, Kind, Run, Series
from perfgate.core.wording import series_name
from perfgate.judge.inquiry import direction
from perfgate.judge.measure import Member, Method, NotAvailable, choose, default_statistic, statistic_unit
from perfgate.judge.subjects import JudgedRuns, find_subjects
from perfgate.rules.ruleset import DerivedMetric, Rule
from perfgate.rules.syntax.sentence import RankChoice

#: A run has at most this many numbers: those of rules first, then the longest times.
MOST_VALUES = 2000
_RANKS: Mapping[str, RankChoice] = {"slowest": "slowest", "fastest": "fastest", "median": "median", "across": "across"}


@dataclass(frozen=True, slots=True, order=True)
class SeriesName:
    """The identity of a series of the history: a metric without rank and device, a statistic, and a choice of the rank.

    The three are what a calibrated prior is known by, too.
    """

    key: Key
    statistic: str
    rank: str = "worst"

    def __str__(self) -> str:
        chosen = f" on the {self.rank} rank" if self.rank in ("slowest", "fastest", "median") else ""
        across = " across ranks" if self.rank == "across" else chosen
        return series_name(self.key.metric, self.key.labels, self.statistic) + across


@dataclass(frozen=True, slots=True)
class HistoryValue:
    """One number of a run, in base units.

    `error` is its standard error within the run, in the same unit; None if it is unknown. `n` is the number of values
    behind it after warm-up, and `n_effective` their effective sample size; None for a number that a tool printed.
    """

    name: SeriesName
    unit: str
    better: Better
    kind: Kind
    value: float
    error: float | None = None
    n: int | None = None
    n_effective: float | None = None


@dataclass(frozen=True, slots=True)
class HistoryRun:
    """A remembered run without its numbers: what it is a run of, when, and where.

    `time` is UTC, `YYYY-MM-DDTHH:MM:SSZ`. `id` is a hash of what was measured: a run that is added twice has one id.
    """

    id: str
    time: str
    commit: str | None = None
    #: The branch that was measured, such as `main`.
    ref: str | None = None
    #: The tags of the commit: releases.
    tags: tuple[str, ...] = ()
    #: The facts of the machine that do not identify it: versions, driver, host.
    context: Mapping[str, Fact] = field(default_factory=dict)
    #: The tool that it was imported from; None for a run that perfgate read.
    imported_from: str | None = None

    @property
    def label(self) -> str:
        """The commit, as messages name it, or the time of a run without one."""
        return self.commit[:10] if self.commit else self.time


@dataclass(frozen=True, slots=True)
class HistoryRecord:
    """A remembered run of one suite and environment with its numbers."""

    suite: str
    #: The facts that identify the environment.
    identity: Mapping[str, Fact | None]
    run: HistoryRun
    values: tuple[HistoryValue, ...]


def id_of_files(sources: Iterable[str], part: int | None) -> str:
    """Return the id of a run that was read from files: their hashes, and its number in its file."""
    return _hash([sorted(sources), part])


def id_of_values(values: Sequence[HistoryValue], commit: str | None, time: str) -> str:
    """Return the id of an imported run: its commit, its time and its numbers."""
    return _hash([commit, time, [[str(one.name), one.value] for one in values]])


def _hash(content: list[object]) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


def values_of(
    run: Run, rules: Sequence[Rule] = (), metrics: Mapping[str, DerivedMetric] | None = None
) -> tuple[tuple[HistoryValue, ...], int]:
    """Return the numbers of a run, sorted by name, and how many did not fit.

    Parameters
    ----------
    run : the run, with samples or with summaries.
    rules : their statistics, ranks, warm-up and directions are used for the metrics that they name.
    metrics : the derived metrics of the rules.
    """
    wanted: dict[SeriesName, _Wanted] = {}
    judged = JudgedRuns.of((run,), Baseline(), metrics or {})
    for rule in rules:
        for subject in find_subjects(rule.sentence, judged):
            if subject.trouble is None and subject.new[0]:
                one = _Wanted.of(subject.key, subject.new[0], rule)
                wanted.setdefault(one.name, one)
    count = len(wanted)
    groups: dict[Key, dict[Member, Series]] = {}
    for series in run.series:
        groups.setdefault(series.key.without_members(), {})[series.key.member()] = series
    by_time = sorted(groups.items(), key=lambda row: (-_seconds(row[1].values()), row[0]))
    for key, members in by_time:
        one = _Wanted.of(key, members, next((known.rule for known in wanted.values() if known.name.key == key), None))
        usual = replace(one, name=SeriesName(key, default_statistic(next(iter(members.values())))))
        wanted.setdefault(usual.name, usual)
    chosen = list(wanted.values())[: max(MOST_VALUES, count)]
    found = [value for one in chosen if (value := one.measured()) is not None]
    return tuple(sorted(found, key=lambda one: one.name)), len(wanted) - len(chosen)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """One number that a run should have, and the rule that says how it is measured."""

    name: SeriesName
    members: Mapping[Member, Series]
    rule: Rule | None

    @classmethod
    def of(cls, key: Key, members: Mapping[Member, Series], rule: Rule | None) -> _Wanted:
        """Return what a rule asks of a metric. `on each rank` is remembered as the worst one."""
        default = default_statistic(next(iter(members.values())))
        statistic, rank = (rule.sentence.statistic or default, rule.sentence.rank) if rule else (default, None)
        return cls(SeriesName(key, statistic, "worst" if rank in (None, "each") else str(rank)), members, rule)

    def measured(self) -> HistoryValue | None:
        """Return the number; None if the run does not have it as a finite number."""
        key, statistic, rule = self.name.key, self.name.statistic, self.rule
        unit = statistic_unit(next(iter(self.members.values())), statistic)
        better = direction(key.metric, unit, rule.better if rule else None) or "neither"
        method = Method(statistic, rule.settings.warmup if rule else "auto", better)
        rank: RankChoice = _RANKS.get(self.name.rank, "worst")
        try:
            _, series = choose(self.members, rank, method)
            found = method.measure(series)
        except NotAvailable:
            return None
        if found.value is None or not math.isfinite(found.value):
            return None
        if series.kind in ("aggregate", "value"):
            return HistoryValue(self.name, unit, better, series.kind, found.value)
        variance = found.within_variance
        error = None if variance is None else abs(found.value) * math.sqrt(variance)
        return HistoryValue(self.name, unit, better, series.kind, found.value, error, found.n, found.n_effective)


def _seconds(members: Iterable[Series]) -> float:
    """Return the time that a metric took: the sum of its times, or infinity for what is not a time."""
    return sum(
        (float(one.values.sum()) or one.aggregate.get("total", 0.0)) if one.unit == "s" else math.inf for one in members
    )
