"""One remembered run: a number with its error for each of its metrics, and its file.

Numbers are measured by the judge's own code: for each metric its usual statistic on its worst rank, and each statistic
and rank that a rule asks for.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from perfgate.baselines.files import digits_of
from perfgate.core import Baseline, Better, Key, Kind, Run, Series
from perfgate.core.remembered_runs import HistoryRecord, HistoryRun, HistoryValue, SeriesName
from perfgate.core.units import BASE_UNITS
from perfgate.documents.structs import SignedFile
from perfgate.judge.evidence import direction
from perfgate.judge.measure import Member, Method, NotAvailable, choose, default_statistic, statistic_unit
from perfgate.judge.subjects import JudgedRuns, find_subjects
from perfgate.rules.ruleset import DerivedMetric, Rule
from perfgate.rules.syntax.sentence import RankChoice
from perfgate.workspace.options import Refused

#: A run has at most this many numbers, or all that rules ask for: these come first, then those that are not times, then
#: the longest times.
MOST_VALUES = 2000


def id_of_files(sources: Iterable[str], part: int | None) -> str:
    """Return the id of a run that was read from files: their hashes, and its number in its file."""
    return _hash([sorted(sources), part])


def id_of_values(values: Sequence[HistoryValue], commit: str | None, time: str) -> str:
    """Return the id of an imported run: its commit, its time and its numbers."""
    return _hash([commit, time, [[str(one.name), one.value] for one in values]])


def _hash(content: list[object]) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


def refuse_line_breaks(record: HistoryRecord, name: str) -> None:
    """Raise Refused (3) for a run with a line break in a name or a fact: an export would write two lines."""
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
    """Return the numbers of a run, sorted by name, and the number of those that did not fit.

    Parameters:
        run: the run, with samples or with summaries.
        rules: their statistics, ranks, warm-up and directions are used for the metrics that they name.
        metrics: the derived metrics of the rules.
        better: the direction of metrics that no rule names.
    """
    wanted: dict[SeriesName, _Wanted] = {}
    judged = JudgedRuns.of((run,), Baseline(), metrics or {})
    for rule in rules:
        for subject in find_subjects(rule.sentence, judged):
            if subject.new[0]:  # empty if it cannot be computed
                one = _Wanted.of(subject.key, subject.new[0], rule, better)
                wanted.setdefault(one.name, one)
    count = len(wanted)
    groups: dict[Key, dict[Member, Series]] = {}
    for series in run.series:
        groups.setdefault(series.key.without_members(), {})[series.key.member()] = series
    for key, members in sorted(groups.items(), key=lambda row: (-_seconds(row[1].values()), row[0])):  # longest first
        # the first rule about the metric says how the usual number is measured, too: its warm-up and direction
        own = next((known.rule for known in wanted.values() if known.key == key), None)
        one = _Wanted.of(key, members, own, better)
        usual = replace(one, statistic=default_statistic(next(iter(members.values()))), rank="worst")
        wanted.setdefault(usual.name, usual)
    chosen = list(wanted.values())[: max(MOST_VALUES, count)]
    found = [value for one in chosen if (value := one.measured()) is not None]
    return tuple(sorted(found, key=lambda one: one.name)), len(wanted) - len(chosen)


def _seconds(members: Iterable[Series]) -> float:
    """Return the time that a metric took, by its values or its total, else 0; infinity if its unit is not a time."""
    return sum(
        (float(one.values.sum()) or one.aggregate.get("total", 0.0)) if one.unit == "s" else math.inf for one in members
    )


class _Wanted(Struct, frozen=True):
    """One number that a run should have, and the rule that says how it is measured."""

    key: Key
    statistic: str
    rank: RankChoice
    members: Mapping[Member, Series]
    rule: Rule | None
    better: Better | None

    @property
    def name(self) -> SeriesName:
        """The series of the history that it belongs to."""
        return SeriesName(self.key, self.statistic, self.rank)

    @classmethod
    def of(cls, key: Key, members: Mapping[Member, Series], rule: Rule | None, better: Mapping[str, Better]) -> _Wanted:
        """Return the number that a rule asks for, or the usual one of a metric. `on each rank` becomes `worst`."""
        default = default_statistic(next(iter(members.values())))
        statistic, rank = (rule.sentence.statistic or default, rule.sentence.rank) if rule else (default, None)
        shown: RankChoice = "worst" if rank is None or rank == "each" else rank
        return cls(key, statistic, shown, members, rule, (rule.better if rule else None) or better.get(key.metric))

    def measured(self) -> HistoryValue | None:
        """Return the number; None if the run does not have it as a finite number."""
        unit = statistic_unit(next(iter(self.members.values())), self.statistic)
        better = direction(self.key.metric, unit, self.better, self.statistic) or "neither"
        better_value = direction(self.key.metric, unit, self.better)
        warmup = self.rule.settings.warmup if self.rule else "auto"
        method = Method(self.statistic, warmup, better, better_value=better_value)
        try:
            _, series = choose(self.members, self.rank, method)
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


RUN_SCHEMA = "perfgate.history/1"
#: The digits of a value, of its error, and of its effective sample size.
DIGITS = (12, 3, 4)
#: Returns True for a metric that is wanted.
MetricFilter: TypeAlias = Callable[[str], bool]
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


class StoredValue(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One number: a row of a run's file."""

    metric: str
    labels: dict[str, str]
    statistic: str
    rank: str
    unit: str
    better: Better
    kind: Kind
    value: float
    error: float | None = None
    n: int | None = None
    n_effective: float | None = None

    def is_sound(self) -> bool:
        """Return whether the numbers are possible."""
        return self.unit in BASE_UNITS and math.isfinite(self.value) and (self.error is None or self.error >= 0)


class RunFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of the file of one run."""

    schema: str
    tool: str
    suite: str
    identity: dict[str, str | int | float | bool | None]
    id: str
    time: str
    commit: str | None
    ref: str | None
    tags: list[str]
    context: dict[str, str | int | float | bool]
    imported_from: str | None
    #: The number of metrics that did not fit.
    left_out: int
    values: list[StoredValue]
    content_sha256: str

    def fault(self, wanted: MetricFilter | None = None) -> str | None:
        """Return what is wrong with the content, or None. Only the numbers of wanted metrics are checked."""
        rows = [row for row in self.values if wanted is None or wanted(row.metric)]
        is_sound = TIME.fullmatch(self.time) and all(row.is_sound() for row in rows)
        has_twins = len({_name_of(row) for row in rows}) < len(rows)
        return None if is_sound and not has_twins else "has a metric twice, or an impossible number or time"


RUN_FILE = SignedFile(RUN_SCHEMA, RunFile, RunFile.fault, "remove it: its run is then forgotten", rows=("values",))


def run_file(record: HistoryRecord, tool: str, left_out: int = 0) -> bytes:
    """Return the file of a run."""
    run, values = record.run, []
    for one in sorted(record.values, key=lambda one: one.name):
        key = one.name.key
        identity = key.metric, dict(key.labels), one.name.statistic, one.name.rank, one.unit, one.better, one.kind
        # `or` is for the type: a value is never None
        value, error = digits_of(one.value, DIGITS[0]) or 0.0, digits_of(one.error, DIGITS[1])
        values.append(StoredValue(*identity, value, error, one.n, digits_of(one.n_effective, DIGITS[2])))
    return RUN_FILE.encode(
        RunFile(
            schema=RUN_SCHEMA,
            tool=tool,
            suite=record.suite,
            identity=dict(record.identity),
            id=run.id,
            time=run.time,
            commit=run.commit,
            ref=run.ref,
            tags=list(run.tags),
            context=dict(sorted(run.context.items())),
            imported_from=run.imported_from,
            left_out=left_out,
            values=values,
            content_sha256="",
        )
    )


def run_of(file: RunFile) -> HistoryRun:
    """Return the run of a file without its numbers."""
    return HistoryRun(file.id, file.time, file.commit, file.ref, tuple(file.tags), file.context, file.imported_from)


def _name_of(row: StoredValue) -> SeriesName:
    return SeriesName(Key(row.metric, tuple(sorted(row.labels.items()))), row.statistic, row.rank)


def value_of(row: StoredValue) -> HistoryValue:
    """Return the number of a row."""
    return HistoryValue(_name_of(row), row.unit, row.better, row.kind, row.value, row.error, row.n, row.n_effective)
