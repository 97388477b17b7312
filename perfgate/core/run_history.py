"""The history of main as programs and commands see it: each metric over the remembered runs, with its lasting changes.

`perfgate.history` stores, reads and orders them; `perfgate.stats.change_points` finds the changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isfinite, isnan
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from perfgate.core.remembered_runs import CommitLine, CommitNote, HistoryRun, SeriesName
from perfgate.core.runs import Fact, Kind, Problem, Values, fact_text
from perfgate.core.verdicts import Better
from perfgate.core.wording import synonyms

if TYPE_CHECKING:
    import pandas as pd

#: A cell of the table of a history.
Cell: TypeAlias = str | int | float | None
#: The columns of that table in order, with the type of their cells.
COLUMNS: Mapping[str, type[str] | type[int] | type[float]] = {
    "time": str,
    "commit": str,
    "metric": str,
    "value": float,
    "unit": str,
    "error": float,
    "n": int,
    "n_effective": float,
    "better": str,
    "statistic": str,
    "rank": str,
    "labels": str,
    "ref": str,
    "host": str,
    "run": str,
    "suite": str,
    "environment": str,
    "tags": str,
    "level": int,
}
#: The most runs that are too few for a level: a change needs five runs before it, and five after it.
_FEW = 4
FEWEST_RUNS_OF_A_CHANGE = 2 * (_FEW + 1)


class ChangePoint(Struct, frozen=True):
    """One change of the level of a history.

    `index` is the first run of the new level. The level may as well begin in any run from `first` to `last`, where the
    log-likelihood is lower by at most 1. `before` and `after` are the levels in the unit of the values. `change` is
    after / before - 1, with a 95 % interval from `low` to `high`; it is relative to |before| if some value is not
    positive. `probability` is that of a lasting change against no change. `worse` is None if the direction has no
    meaning (`better="neither"`).
    """

    index: int
    change: float
    low: float
    high: float
    probability: float
    before: float
    after: float
    first: int
    last: int
    worse: bool | None


class ApprovedLevel(Struct, frozen=True):
    """An approved level: its author, reason and date, and the commits of its runs."""

    name: str
    time: str
    commit: str | None
    by: str
    reason: str
    pr: int | None
    #: The metrics that it adopts; empty means all.
    adopts: tuple[str, ...]
    #: True for the first level of an environment, which approves no change.
    is_first: bool

    def covers(self, metric: str) -> bool:
        """Return whether the approval was about this metric, by any of its names."""
        names = {name for one in self.adopts for name in (one, *synonyms(one))}
        return not self.is_first and (not names or not names.isdisjoint((metric, *synonyms(metric))))


class HistoryChange(Struct, frozen=True):
    """A lasting change of a level.

    The change is in a commit after that of `last_good` (the run before `point.first`), up to that of `first_bad` (the
    run `point.last`). `likely` (the run `point.index`) is the most likely first run of the new level. `went_away` is
    the run in which the old level came back, if it did.
    """

    point: ChangePoint
    likely: HistoryRun
    last_good: HistoryRun
    first_bad: HistoryRun
    #: The number of commits in the range, as git counts; None without a repository that has them.
    commits: int | None
    went_away: HistoryRun | None
    approval: ApprovedLevel | None
    #: The facts of the machine that changed with the level, without those that change often: name, before, after.
    facts: tuple[tuple[str, str, str], ...]

    @property
    def is_one_commit(self) -> bool:
        """True if the commit is the same before and after: the code is not the cause."""
        return self.last_good.commit is not None and self.last_good.commit == self.first_bad.commit


class HistorySeries(Struct, frozen=True):
    """One metric in order of its commits, in base units; the arrays are (n,). Unknown numbers are NaN, and 0 in `n`."""

    suite: str
    environment: str
    name: SeriesName
    unit: str
    better: Better
    kind: Kind
    runs: tuple[HistoryRun, ...]
    values: Values
    errors: Values
    n_effective: Values
    n: Values
    changes: tuple[HistoryChange, ...]
    #: The number of newer runs that do not have the metric.
    missing_since: int
    #: The relative standard deviation of a run around its level, 1.4826 times the median deviation; NaN if unknown.
    noise: float

    def rows(self) -> Iterator[tuple[Cell, ...]]:
        """Yield a row for each number, with the cells of COLUMNS; None if unknown."""
        escaped = ((name, value.replace("\\", "\\\\").replace('"', '\\"')) for name, value in self.name.key.labels)
        labels = ",".join(f'{name}="{value}"' for name, value in escaped) or None
        about = (self.better, self.name.statistic, self.name.rank, labels)
        begins = {change.point.index for change in self.changes}
        level = 0
        columns = [array.tolist() for array in (self.values, self.errors, self.n, self.n_effective)]
        for i, (run, value, error, n, n_effective) in enumerate(zip(self.runs, *columns, strict=True)):
            level += i in begins
            known = (None if isnan(error) else error, int(n) or None, None if isnan(n_effective) else n_effective)
            tags = " ".join(run.tags) or None
            start = (run.time, run.commit, self.name.key.metric, value, self.unit)
            host = fact_text(run.context["host"]) if "host" in run.context else None
            yield (*start, *known, *about, run.ref, host, run.id, self.suite, self.environment, tags, level)

    def levels(self) -> Iterator[tuple[int, int, float]]:
        """Yield each level: its first run, the run after its last, and its value; without changes, the median."""
        bounds = [0, *(change.point.index for change in self.changes), len(self.runs)]
        for start, end, change in zip(bounds, bounds[1:], (None, *self.changes), strict=False):
            if change is not None:
                yield start, end, change.point.after
            elif self.changes:
                yield start, end, self.changes[0].point.before
            elif end:
                ordered = sorted(self.values.tolist())
                yield start, end, (ordered[(end - 1) // 2] + ordered[end // 2]) / 2

    @property
    def runs_to_see_a_change(self) -> str | None:
        """How many runs have a number, of those that a change needs: `3 of 10`; None if they are enough."""
        known = sum(isfinite(value) for value in self.values)
        return None if known >= FEWEST_RUNS_OF_A_CHANGE else f"{known} of {FEWEST_RUNS_OF_A_CHANGE}"

    def newest_apart(self) -> tuple[int, float] | None:
        """Return the number of newest runs, one to four, that are apart from the level, and their relative distance.

        Each of them is more than two standard deviations of a run from the level, all on one side, and their mean is
        more than four standard errors from it. None if there are no such runs, if fewer than five other runs are left
        of the level, and for a level that is 0 or has no noise. The distance is negative below the level.
        """
        levels = list(self.levels())
        if not levels or not self.noise > 0 or levels[-1][2] == 0:
            return None
        start, end, level = levels[-1]
        sign = 1 if level > 0 else -1
        away = [sign * (float(value) / level - 1) for value in self.values[max(end - _FEW, start) : end]]
        for count in range(min(_FEW, end - start - _FEW - 1), 0, -1):
            apart = away[-count:]
            mean = sum(apart) / count
            is_far = abs(mean) * count**0.5 > 4 * self.noise
            if is_far and all(one * (1 if mean > 0 else -1) > 2 * self.noise for one in apart):
                return count, mean
        return None


class EnvironmentHistory(Struct, frozen=True):
    """The history of one suite in one environment: its runs in order, and its series by name."""

    suite: str
    environment: str
    identity: Mapping[str, Fact | None]
    runs: tuple[HistoryRun, ...]
    series: tuple[HistorySeries, ...]
    #: The levels of the baselines, oldest first.
    levels: tuple[ApprovedLevel, ...]
    #: The names of all metrics, also of those that were not asked for.
    metrics: tuple[str, ...]
    #: Notes about an unusual order of the runs.
    notes: tuple[str, ...] = ()


class LoadedHistory(Struct, frozen=True):
    """The histories of a store, sorted by suite and environment.

    `problems` are files that cannot be used: their runs are missing.
    """

    environments: tuple[EnvironmentHistory, ...]
    problems: tuple[Problem, ...]
    #: The commits of the branch; None without a repository.
    line: CommitLine | None = None

    @property
    def series(self) -> tuple[HistorySeries, ...]:
        """The series of all environments."""
        return tuple(one for place in self.environments for one in place.series)

    def to_pandas(self) -> pd.DataFrame:
        """Return a data frame with a row for each number, in order within each series, in base units.

        The columns are COLUMNS: time, commit, metric, value, unit, error, n, n_effective, better, statistic, rank,
        labels, ref, host, run, suite, environment, tags and level (the number of the level, from 0).

        Raises ImportError without pandas: `pip install 'perfgate[history]'`.
        """
        try:
            import pandas as pd
        except ImportError:
            raise ImportError("a data frame needs pandas: pip install 'perfgate[history]'") from None
        frame = pd.DataFrame(self.columns())
        frame["time"] = pd.to_datetime(frame["time"], utc=True)
        return frame

    def columns(self) -> dict[str, list[Cell]]:
        """Return the columns of `to_pandas` as lists: a table with a row for each number."""
        rows = [row for one in self.series for row in one.rows()]
        return {name: [row[i] for row in rows] for i, name in enumerate(COLUMNS)}


#: A change is assigned to a commit that has at least this probability.
SETTLED = 0.95


class BackfillCommit(Struct, frozen=True):
    """A commit that may be measured, to find the commit of a change.

    `before` is the probability that the change is in this commit or an older one, `here` that it is in this one.
    `bits` is the information of a measurement here, after the commits that are listed before this one were measured.
    `runs` is the number of its runs that were made already.
    """

    commit: CommitNote
    before: float
    here: float
    bits: float
    runs: int


class BackfillPlan(Struct, frozen=True):
    """The commits that may contain a change, and those to measure, the most informative first."""

    series: HistorySeries
    change: HistoryChange
    suspects: tuple[BackfillCommit, ...]
    wanted: tuple[BackfillCommit, ...]

    @property
    def most_likely(self) -> BackfillCommit:
        """The commit that the change is in most likely."""
        return max(self.suspects, key=lambda one: one.here)

    @property
    def is_settled(self) -> bool:
        """True if one commit is so probable that nothing needs to be measured."""
        return self.most_likely.here >= SETTLED
