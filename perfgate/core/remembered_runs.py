"""The remembered runs of main as they are stored: one number of each metric for each run.

`run_history` has them in order, with the changes of each metric.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from perfgate.core.runs import Fact, Key, Kind
from perfgate.core.verdicts import Better
from perfgate.core.wording import series_name


class SeriesName(Struct, frozen=True, order=True):
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


class HistoryValue(Struct, frozen=True):
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


class HistoryRun(Struct, frozen=True):
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


class HistoryRecord(Struct, frozen=True):
    """A remembered run of one suite and environment with its numbers."""

    suite: str
    #: The facts that identify the environment.
    identity: Mapping[str, Fact | None]
    run: HistoryRun
    values: tuple[HistoryValue, ...]
