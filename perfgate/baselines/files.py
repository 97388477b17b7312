"""The files of a store: stored runs, calibrated priors and allowances. Each contains its own hash.

`perfgate.baseline/1` is one run, the decision about it, and enough to judge by later. `series` has the samples of the
metrics that rules name, up to KEEP_WHOLE values of each (`condensed` thins a longer series). `summaries` has the
statistics of all other metrics with their noise, so that a rule of tomorrow can be judged against this run. `call_tree`
has the calls of a trace, so that causes can be found. `contents` decides what fits.

`perfgate.prior/1` is the noise of a machine, not of a level. `perfgate.allowance/1` says how much worse one commit may
be; `check --policy-ref` reads it from the base.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from typing import Literal

import msgspec
import numpy as np
from msgspec.structs import replace

from perfgate.core import Allowance, CalibratedPrior, Fact, Key, Run, Series, SourceFile, Summary, read_only
from perfgate.core.units import BASE_UNITS
from perfgate.documents.structs import SignedFile

KEEP_WHOLE = 8192  #: The most values of a stored series.
#: The statistics of a summary, in the order of its rows. Files rely on it: another list needs a field of its own.
STATISTICS = (
    *("mean", "median", "stddev", "cv", "trimmed_mean", "min", "max", "total", "count"),
    *("p5", "p10", "p25", "p75", "p90", "p95", "p99", "p99.9"),
)
FULL_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
NO_VALUES = read_only(np.empty(0))
#: The value of `PriorFile.pairing` for single runs; the file leaves it out.
NO_PAIRS = msgspec.UNSET


class StoredSource(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file that the run was read from."""

    path: str
    format: str
    sha256: str


class StoredSeries(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A series in base units; it has `values`, or `aggregate` if the tool printed statistics only."""

    metric: str
    unit: str
    kind: str
    labels: dict[str, str] = {}
    values: list[float] = []
    steps: list[int] | None = None
    aggregate: dict[str, float] = {}
    thinned_from: int | None = None

    @property
    def key(self) -> Key:
        """The name of the series."""
        return Key(self.metric, tuple(sorted(self.labels.items())))


class StoredSummary(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The statistics of a metric without its samples: a row for each rank.

    A row is a tuple: the labels of the rank, the number of values, the number of those that were dropped as warm-up,
    True if the warm-up ended, and a list of STATISTICS. A statistic is a list, too: value, effective sample size,
    variance of the logarithm and, if it has a warm-up of its own, the number of values that this dropped, and 1 if it
    ended, else 0. If there are many ranks, most have only the statistics of `outlines`, most of these the value alone.
    """

    metric: str
    unit: str
    #: The better directions that give this warm-up: a rule with another one cannot use the statistics.
    better: list[str]
    rows: list[tuple[dict[str, str], int, int, bool, list[list[float | None]]]]
    labels: dict[str, str] = {}
    warmup: int | str = "auto"
    #: The statistics of the ranks that cannot represent the run.
    outlines: list[str] = []

    def series(self, sources: tuple[str, ...]) -> Iterator[Series]:
        """Yield the series of each rank. The count in `aggregate` is of all values, warm-up included."""
        for member, n, dropped, settled, rows in self.rows:
            names = self.outlines if len(rows) == len(self.outlines) else STATISTICS  # never as many as outlines
            warmup: Literal["auto"] | int = "auto" if isinstance(self.warmup, str) else self.warmup
            kept = Summary(names, rows, n, dropped, settled, warmup, self.better, bool(self.outlines), sources)
            known = {name: row[0] for name, row in zip(names, rows, strict=True) if row[0] is not None}
            key = Key(self.metric, tuple(sorted({**self.labels, **member}.items())))
            yield Series(key, self.unit, "summary", NO_VALUES, aggregate={**known, "count": n}, summary=kept)

    @property
    def is_sound(self) -> bool:
        """True if the rows fit the names of the statistics."""
        sizes = {len(STATISTICS), len(self.outlines) or len(STATISTICS)}
        for _, n, dropped, _, rows in self.rows:
            if not 0 <= dropped <= n or len(rows) not in sizes or not all(len(row) in (1, 3, 5) for row in rows):
                return False
        members = {tuple(sorted(row[0].items())) for row in self.rows}
        return len(members) == len(self.rows) and self.unit in BASE_UNITS


class StoredLevel(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The approval that opened a level; each run of the level records it."""

    name: str
    parent: str | None = None
    reason: str = ""
    by: str = ""
    pr: int | None = None
    anchor: bool = False
    #: The newest levels of other branches, which this level replaces like its parent.
    settles: list[str] = []
    #: The metrics that the level adopts; empty means all.
    adopts: list[str] = []


class RunHead(msgspec.Struct, frozen=True):
    """The fields of a stored run before its numbers. `identity` are the facts that identify the environment."""

    schema: str
    tool: str
    suite: str
    time: str
    commit: str | None
    level: StoredLevel
    added_by: str
    identity: dict[str, str | int | float | bool | None]
    context: dict[str, str | int | float | bool]
    format: str
    sources: list[StoredSource]


class NamedMetric(msgspec.Struct, frozen=True):
    """The name of a series or summary; the rest is not decoded."""

    metric: str


class RunOutline(RunHead, frozen=True):
    """A stored run with the names of its metrics only: reading it takes a tenth of the time and memory."""

    series: list[NamedMetric]
    summaries: list[NamedMetric] = []

    def metrics(self) -> set[str]:
        """Return the names of all metrics."""
        return {row.metric for row in (*self.series, *self.summaries)}


class BaselineFile(RunHead, frozen=True, forbid_unknown_fields=True):
    """The content of a stored run."""

    series: list[StoredSeries]
    content_sha256: str = ""
    summaries: list[StoredSummary] | msgspec.UnsetType = msgspec.UNSET
    #: The number of metrics that did not fit: those with the least time.
    left_out: int | msgspec.UnsetType = msgspec.UNSET
    #: The calls of a trace: see `documents.tree_texts`. Other runs have none.
    call_tree: str | msgspec.UnsetType = msgspec.UNSET

    @property
    def summarised(self) -> list[StoredSummary]:
        """The metrics without samples; none in older files."""
        return self.summaries or []

    def metrics(self) -> set[str]:
        """Return the names of all metrics."""
        return {row.metric for row in self.series} | {row.metric for row in self.summarised}

    def fault(self) -> str | None:
        """Return what is wrong with the series; None if all are sound. Differences of steps have to fit 64 bits."""
        sound = all(row.is_sound for row in self.summarised)
        keys = [row.key for row in self.series]
        keys += [series.key for row in self.summarised for series in row.series(())] if sound else []
        sound &= len(set(keys)) == len(keys)
        for row in self.series:
            count = {"samples": len(row.values), "aggregate": 0, "value": 1}.get(row.kind)
            sound &= row.unit in BASE_UNITS and len(row.values) == count
            if row.steps is not None:
                sound &= len(row.steps) == len(row.values) and all(abs(step) < 1 << 62 for step in row.steps)
        return None if sound else "has a series twice, or a series that contradicts itself"

    def run(self, name: str) -> Run:
        """Return the run as the judge sees it."""
        series: list[Series] = []
        counted = read_only(np.arange(max((len(row.values) for row in self.series), default=0)))
        for row in self.series:
            values = read_only(np.array(row.values, dtype=np.float64))
            steps = None if row.steps is None else np.array(row.steps, dtype=np.int64)
            if steps is None and row.kind == "samples":
                steps = counted[: len(values)]  # the steps 0, 1, 2, ... of all series share their memory
            named = row.key, row.unit, row.kind, values, steps, row.aggregate
            series.append(Series(*named, thinned_from=row.thinned_from))  # type: ignore[arg-type]
        sources = tuple(source.path for source in self.sources)
        series += [one for row in self.summarised for one in row.series(sources)]
        facts: dict[str, Fact] = {**self.context, **{k: v for k, v in self.identity.items() if v is not None}}
        files = tuple(SourceFile(source.path, source.format, source.sha256) for source in self.sources)
        run = Run(name, self.format, tuple(series), environment=facts, files=files, commit=self.commit)
        if not self.call_tree:
            return run
        from perfgate.documents.tree_texts import StoredTrees

        return replace(run, call_trees=StoredTrees(self.call_tree))


def digits_of(value: float | None, digits: int) -> float | None:
    """Return a number rounded to this many digits; a whole number stays, because counts are compared exactly."""
    return value if value is None or value.is_integer() else float(f"{value:.{digits}g}")


STORED_RUN = SignedFile(
    "perfgate.baseline/1", BaselineFile, BaselineFile.fault, "remove it and approve again", rows=("series", "summaries")
)


class StoredPrior(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The noise of a metric: its relative standard deviation `s0` has `d0` prior degrees of freedom."""

    metric: str
    labels: dict[str, str]
    statistic: str
    rank: str
    s0: float
    d0: float
    #: The number of runs, or pairs, that it was measured on.
    runs: int

    @classmethod
    def of(cls, prior: CalibratedPrior) -> StoredPrior:
        """Return a prior as its file contains it."""
        key = prior.key
        return cls(key.metric, dict(key.labels), prior.statistic, prior.rank, prior.s0, prior.d0, prior.runs)


class PriorFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of a prior: the noise that a calibration measured, and the files that it was measured on."""

    schema: str
    tool: str
    suite: str
    time: str
    identity: dict[str, str | int | float | bool | None]
    sources: list[StoredSource]
    priors: list[StoredPrior]
    content_sha256: str = ""
    #: How the pairs were made, if this is the noise between pairs.
    pairing: str | msgspec.UnsetType = NO_PAIRS

    @property
    def calibrated(self) -> tuple[CalibratedPrior, ...]:
        """The priors as the judge looks them up."""
        pairing = self.pairing or None
        rows = ((Key(row.metric, tuple(sorted(row.labels.items()))), row) for row in self.priors)
        return tuple(CalibratedPrior(key, r.statistic, r.rank, r.s0, r.d0, r.runs, pairing) for key, r in rows)

    def fault(self) -> str | None:
        """Return what is wrong with the rows, or None. The bounds keep products of the numbers above 0 and finite."""
        names = {(prior.key, prior.statistic, prior.rank) for prior in self.calibrated}
        sound = all(1e-100 < row.s0 < 1e100 and 1e-100 < row.d0 < 1e100 and row.runs > 0 for row in self.priors)
        is_fine = sound and len(names) == len(self.priors)
        return None if is_fine else "has a metric twice, or noise that is not a positive number"


class AllowanceFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of an allowance."""

    schema: str
    tool: str
    suite: str
    #: The commit that may be worse.
    head: str
    #: A metric's name, or a glob.
    metric: str
    up_to: float
    reason: str
    by: str
    pr: int | None
    time: str
    #: The last day on which it counts, YYYY-MM-DD.
    expires: str
    content_sha256: str = ""

    def fault(self) -> str | None:
        """Return what is wrong with the date, or None."""
        try:
            self.allowance()
        except ValueError as error:
            return f"does not have the form of {self.schema}: {error}"
        return None

    def allowance(self) -> Allowance:
        """Return the allowance as the judge uses it. Raises ValueError for a wrong date."""
        return Allowance(self.metric, self.up_to, self.by, self.reason, date.fromisoformat(self.expires))


PRIOR = SignedFile("perfgate.prior/1", PriorFile, PriorFile.fault, "measure it again: perfgate rules --calibrate")
ALLOWANCE = SignedFile("perfgate.allowance/1", AllowanceFile, AllowanceFile.fault, "remove it and allow again")
