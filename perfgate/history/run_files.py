"""The file of one run of the history: `perfgate.history/1`, a row for each number, with its own hash."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from perfgate.core import Better, Key, Kind
from perfgate.core.remembered_runs import HistoryRecord, HistoryRun, HistoryValue, SeriesName
from perfgate.core.units import BASE_UNITS
from perfgate.documents.structs import SignedFile

RUN_SCHEMA = "perfgate.history/1"
#: The digits of a value, of its error, and of its effective sample size.
DIGITS = (12, 3, 4)
#: True for a metric that is asked for.
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


class RunFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
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
        """Return what is wrong with the content, or None; of the numbers, those of the wanted metrics are checked."""
        rows = [row for row in self.values if wanted is None or wanted(row.metric)]
        sound = TIME.fullmatch(self.time) and all(row.is_sound() for row in rows)
        is_twice = len({_name_of(row) for row in rows}) < len(rows)
        return None if sound and not is_twice else "has a metric twice, or an impossible number or time"


RUN_FILE = SignedFile(RUN_SCHEMA, RunFile, RunFile.fault, "remove it: its run is then forgotten", rows=("values",))


def run_file(record: HistoryRecord, tool: str, left_out: int = 0) -> bytes:
    """Return the file of a run."""
    run = record.run
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
            values=[_stored(one) for one in sorted(record.values, key=lambda one: one.name)],
            content_sha256="",
        )
    )


def _stored(one: HistoryValue) -> StoredValue:
    key, digits = one.name.key, DIGITS
    numbers = (digits_of(one.value, digits[0]) or 0.0, digits_of(one.error, digits[1]))
    return StoredValue(
        *(key.metric, dict(key.labels), one.name.statistic, one.name.rank, one.unit, one.better, one.kind),
        *numbers,
        one.n,
        digits_of(one.n_effective, digits[2]),
    )


def digits_of(value: float | None, digits: int) -> float | None:
    """Return a number with this many digits, or whole: a count of bytes is compared exactly."""
    return value if value is None or value.is_integer() else float(f"{value:.{digits}g}")


def run_of(file: RunFile) -> HistoryRun:
    """Return the run of a file without its numbers."""
    return HistoryRun(file.id, file.time, file.commit, file.ref, tuple(file.tags), file.context, file.imported_from)


def _name_of(row: StoredValue) -> SeriesName:
    return SeriesName(Key(row.metric, tuple(sorted(row.labels.items()))), row.statistic, row.rank)


def value_of(row: StoredValue) -> HistoryValue:
    """Return the number of a row."""
    return HistoryValue(_name_of(row), row.unit, row.better, row.kind, row.value, row.error, row.n, row.n_effective)
