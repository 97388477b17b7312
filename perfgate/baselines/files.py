"""The files of a store: stored runs, calibrated priors and allowances. Each contains its own hash.

`perfgate.baseline/1` is one run, the decision about it, and enough to judge by later. `series` has the samples of the
metrics that rules name, up to KEEP_WHOLE values of each. A longer series is thinned: one value is kept of each of
KEEP_WHOLE equal stretches, at positions of a low-discrepancy sequence, so that no period in the data can hide from it.
The smallest and the largest value are always kept. `thinned_from` is the number of values before. `summaries` has the
statistics of all other metrics with their noise, so that a rule of tomorrow can be judged against this run. `call_tree`
has the calls of a trace, so that causes can be found. `contents` decides what fits.

`perfgate.prior/1` is the noise that `perfgate rules --calibrate` measured. It belongs to a machine and not to a level.

`perfgate.allowance/1` says how much worse a commit may be in a metric, and who allowed it. `check --policy-ref` reads
it from the base, so that a pull request cannot allow itself anything. It names one commit: a later one needs its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from typing import Any, Literal

import msgspec
import numpy as np
from msgspec.structs import replace

from perfgate.core import Allowance, CalibratedPrior, Fact, Key, Run, Series, SourceFile, Summary, read_only
from perfgate.core.units import BASE_UNITS
from perfgate.documents.structs import SignedFile

KEEP_WHOLE = 8192
#: The statistics of a summary, in the order of its rows. Files rely on it: another list needs a field of its own.
STATISTICS = (
    *("mean", "median", "stddev", "cv", "trimmed_mean", "min", "max", "total", "count"),
    *("p5", "p10", "p25", "p75", "p90", "p95", "p99", "p99.9"),
)
#: A whole commit: an abbreviated name could mean another commit tomorrow.
FULL_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
NO_VALUES = read_only(np.empty(0))
#: The pairing of single runs, which the file leaves out.
NO_PAIRS = msgspec.UNSET


class StoredSource(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file that the run was read from."""

    path: str
    format: str
    sha256: str


class StoredSeries(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A series in base units: `values` of samples and of single values, `aggregate` of printed statistics."""

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

    A row is the labels of the rank, the number of values, how many of them were dropped as warm-up, whether the warm-up
    ended, and a list for each of STATISTICS: value, effective sample size, variance of the logarithm and, if the
    statistic has a warm-up of its own, its number of dropped values and whether it ended (1 or 0). Of very many ranks,
    those that represent no run have lists for each of `outlines`, most of them with the value alone.
    """

    metric: str
    unit: str
    #: The better directions whose warm-up the statistics are without.
    better: list[str]
    rows: list[tuple[dict[str, str], int, int, bool, list[list[float | None]]]]
    labels: dict[str, str] = {}
    warmup: int | str = "auto"
    #: The statistics in the rows of the ranks that represent no run.
    outlines: list[str] = []

    def series(self, sources: tuple[str, ...]) -> Iterator[Series]:
        """Yield the series of each rank."""
        for member, n, dropped, settled, rows in self.rows:
            names = self.outlines if len(rows) == len(self.outlines) else STATISTICS
            warmup: Literal["auto"] | int = "auto" if isinstance(self.warmup, str) else self.warmup
            kept = Summary(names, rows, n, dropped, settled, warmup, self.better, bool(self.outlines), sources)
            known = {name: row[0] for name, row in zip(names, rows, strict=True) if row[0] is not None}
            key = Key(self.metric, tuple(sorted({**self.labels, **member}.items())))
            yield Series(key, self.unit, "summary", NO_VALUES, aggregate={**known, "count": n}, summary=kept)

    @property
    def is_sound(self) -> bool:
        """True if the rows fit the names of the statistics."""
        members = {tuple(sorted(row[0].items())) for row in self.rows}
        sizes = {len(STATISTICS), len(self.outlines) or len(STATISTICS)}
        whole = all(
            0 <= dropped <= n and len(rows) in sizes and all(len(row) in (1, 3, 5) for row in rows)
            for _, n, dropped, _, rows in self.rows
        )
        return whole and len(members) == len(self.rows) and self.unit in BASE_UNITS


class StoredLevel(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The level of a run: the decision that opened it, as each of its runs records it."""

    name: str
    parent: str | None = None
    reason: str = ""
    by: str = ""
    pr: int | None = None
    anchor: bool = False
    #: Other heads at that time, which this level replaces like its parent.
    settles: list[str] = []
    #: The metrics that the level adopts; empty means all.
    adopts: list[str] = []


class RunHead(msgspec.Struct, frozen=True):
    """The fields of a stored run before its numbers: what it is a run of, and the decision about it."""

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
    """The name of a series or summary, without the rest."""

    metric: str


class RunOutline(RunHead, frozen=True):
    """A stored run with the names of its metrics only: reading it takes a tenth of the time and memory."""

    series: list[NamedMetric]
    summaries: list[NamedMetric] = []

    def metrics(self) -> set[str]:
        """Return the names of the metrics that the run has."""
        return {row.metric for row in self.series} | {row.metric for row in self.summaries}


class BaselineFile(RunHead, frozen=True, forbid_unknown_fields=True):
    """The content of a stored run."""

    series: list[StoredSeries]
    content_sha256: str = ""
    #: The metrics without samples; older files have none.
    summaries: list[StoredSummary] | msgspec.UnsetType = msgspec.UNSET
    #: The number of metrics that did not fit: those with the least time.
    left_out: int | msgspec.UnsetType = msgspec.UNSET
    #: The calls of a trace: see `documents.tree_texts`. Other runs have none.
    call_tree: str | msgspec.UnsetType = msgspec.UNSET

    @property
    def summarised(self) -> list[StoredSummary]:
        """The metrics without samples."""
        return self.summaries or []

    def metrics(self) -> set[str]:
        """Return the names of the metrics that the run has."""
        return {row.metric for row in self.series} | {row.metric for row in self.summarised}

    def fault(self) -> str | None:
        """Return what is wrong with the series: their names, units, kinds, lengths or steps; None if all are sound."""
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
        series = []
        counted = read_only(np.arange(max((len(row.values) for row in self.series), default=0)))
        for row in self.series:
            values = read_only(np.array(row.values, dtype=np.float64))
            taken = None if row.steps is None else np.array(row.steps, dtype=np.int64)
            if taken is None and row.kind == "samples":
                taken = counted[: len(values)]  # the steps 0, 1, 2, ... of all series share their memory
            one = Series(row.key, row.unit, row.kind, values, taken, row.aggregate, thinned_from=row.thinned_from)  # type: ignore[arg-type]
            series.append(one)
        sources = tuple(source.path for source in self.sources)
        series += [one for row in self.summarised for one in row.series(sources)]
        facts: dict[str, Fact] = {**self.context, **{k: v for k, v in self.identity.items() if v is not None}}
        files = tuple(SourceFile(source.path, source.format, source.sha256) for source in self.sources)
        run = Run(name, self.format, tuple(series), environment=facts, files=files, commit=self.commit)
        if not self.call_tree:
            return run
        from perfgate.documents.tree_texts import StoredTrees

        return replace(run, call_trees=StoredTrees(self.call_tree))


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
    """The content of a prior: all that a calibration found, and the files that it was found in."""

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
        """Return what is wrong with the rows, or None."""
        names = {(prior.key, prior.statistic, prior.rank) for prior in self.calibrated}
        sound = all(1e-100 < row.s0 < 1e100 and 1e-100 < row.d0 < 1e100 and row.runs > 0 for row in self.priors)
        if len(names) < len(self.priors) or not sound:
            return "has a metric twice, or noise that is not a positive number"
        return None


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


STORED_RUN = SignedFile(
    "perfgate.baseline/1", BaselineFile, BaselineFile.fault, "remove it and approve again", rows=("series", "summaries")
)
PRIOR = SignedFile("perfgate.prior/1", PriorFile, PriorFile.fault, "measure it again: perfgate rules --calibrate")
ALLOWANCE = SignedFile("perfgate.allowance/1", AllowanceFile, AllowanceFile.fault, "remove it and allow again")


def stored_series(series: Series) -> StoredSeries:
    """Return a series as a file contains it, thinned if it is long."""
    keep = kept_positions(series.values) if len(series.values) > KEEP_WHOLE else None
    values = series.values if keep is None else series.values[keep]
    steps = series.steps if series.steps is None or keep is None else series.steps[keep]
    counts_up = steps is None or np.array_equal(steps, np.arange(len(steps)))  # 0, 1, 2, ... need not be written
    return StoredSeries(
        metric=series.key.metric,
        labels=dict(series.key.labels),
        unit=series.unit,
        kind=series.kind,
        values=[float(value) for value in values],
        steps=None if steps is None or counts_up else [int(step) for step in steps],
        aggregate=dict(sorted(series.aggregate.items())),
        thinned_from=None if keep is None else len(series.values),
    )


def kept_positions(values: Any) -> Any:
    """Return which of n > KEEP_WHOLE values are kept, ascending: one of each of KEEP_WHOLE equal stretches."""
    n = len(values)
    edges = np.linspace(0, n, KEEP_WHOLE + 1)
    golden = (np.sqrt(5) - 1) / 2  # its multiples, modulo 1, fill the unit interval most evenly
    offset = np.modf(golden * np.arange(1, KEEP_WHOLE + 1))[0]
    chosen = np.minimum((edges[:-1] + offset * np.diff(edges)).astype(int), n - 1)
    for extreme in (int(np.argmin(values)), int(np.argmax(values))):
        chosen[np.searchsorted(edges, extreme, side="right") - 1] = extreme
    return np.unique(chosen)
