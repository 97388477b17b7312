"""One remembered run: a number with its error for each of its metrics, without samples.

A metric is measured as the judge measures it. Each metric has its usual statistic on its worst rank, and each statistic
and rank that a rule asks for.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from perfgate.core import Baseline, Better, Key, Run, Series
from perfgate.core.remembered_runs import HistoryRecord, HistoryValue, SeriesName
from perfgate.judge.evidence import direction
from perfgate.judge.measure import Member, Method, NotAvailable, choose, default_statistic, statistic_unit
from perfgate.judge.subjects import JudgedRuns, find_subjects
from perfgate.rules.ruleset import DerivedMetric, Rule
from perfgate.rules.syntax.sentence import RankChoice
from perfgate.workspace.options import Refused

#: A run has at most this many numbers: those of rules first, then the longest times.
MOST_VALUES = 2000
_RANKS: Mapping[str, RankChoice] = {"slowest": "slowest", "fastest": "fastest", "median": "median", "across": "across"}


def id_of_files(sources: Iterable[str], part: int | None) -> str:
    """Return the id of a run that was read from files: their hashes, and its number in its file."""
    return _hash([sorted(sources), part])


def id_of_values(values: Sequence[HistoryValue], commit: str | None, time: str) -> str:
    """Return the id of an imported run: its commit, its time and its numbers."""
    return _hash([commit, time, [[str(one.name), one.value] for one in values]])


def _hash(content: list[object]) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


def refuse_line_breaks(record: HistoryRecord, name: str) -> None:
    """Raise Refused (3) for a run with a line break in a name or a fact: an export would write its rest as a line."""
    texts = [*(str(one.name.key) for one in record.values), *map(str, record.run.context.values())]
    for text in texts:
        if "\n" in text or "\r" in text:
            raise Refused(f"{name}: {text!r} has a line break: write it as one line", 3)


def values_of(
    run: Run,
    rules: Sequence[Rule] = (),
    metrics: Mapping[str, DerivedMetric] | None = None,
    better: Mapping[str, Better] = MappingProxyType({}),
) -> tuple[tuple[HistoryValue, ...], int]:
    """Return the numbers of a run, sorted by name, and how many did not fit.

    Parameters
    ----------
    run : the run, with samples or with summaries.
    rules : their statistics, ranks, warm-up and directions are used for the metrics that they name.
    metrics : the derived metrics of the rules.
    better : the direction of metrics, for those that no rule names.
    """
    wanted: dict[SeriesName, _Wanted] = {}
    judged = JudgedRuns.of((run,), Baseline(), metrics or {})
    for rule in rules:
        for subject in find_subjects(rule.sentence, judged):
            if subject.trouble is None and subject.new[0]:
                one = _Wanted.of(subject.key, subject.new[0], rule, better)
                wanted.setdefault(one.name, one)
    count = len(wanted)
    groups: dict[Key, dict[Member, Series]] = {}
    for series in run.series:
        groups.setdefault(series.key.without_members(), {})[series.key.member()] = series
    by_time = sorted(groups.items(), key=lambda row: (-_seconds(row[1].values()), row[0]))
    for key, members in by_time:
        one = _Wanted.of(
            key, members, next((known.rule for known in wanted.values() if known.name.key == key), None), better
        )
        usual = replace(one, name=SeriesName(key, default_statistic(next(iter(members.values())))))
        wanted.setdefault(usual.name, usual)
    chosen = list(wanted.values())[: max(MOST_VALUES, count)]
    found = [value for one in chosen if (value := one.measured()) is not None]
    return tuple(sorted(found, key=lambda one: one.name)), len(wanted) - len(chosen)


class _Wanted(Struct, frozen=True):
    """One number that a run should have, and the rule that says how it is measured."""

    name: SeriesName
    members: Mapping[Member, Series]
    rule: Rule | None
    better: Better | None

    @classmethod
    def of(cls, key: Key, members: Mapping[Member, Series], rule: Rule | None, better: Mapping[str, Better]) -> _Wanted:
        """Return what a rule asks of a metric. `on each rank` is remembered as the worst one."""
        default = default_statistic(next(iter(members.values())))
        statistic, rank = (rule.sentence.statistic or default, rule.sentence.rank) if rule else (default, None)
        name = SeriesName(key, statistic, "worst" if rank in (None, "each") else str(rank))
        return cls(name, members, rule, (rule.better if rule else None) or better.get(key.metric))

    def measured(self) -> HistoryValue | None:
        """Return the number; None if the run does not have it as a finite number."""
        key, statistic, rule = self.name.key, self.name.statistic, self.rule
        unit = statistic_unit(next(iter(self.members.values())), statistic)
        better = direction(key.metric, unit, self.better) or "neither"
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
