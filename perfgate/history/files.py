"""Read the files of a history, of a run or of a month. Each contains its own hash and has its runs whole."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from perfgate.core import Fact, Location, Problem
from perfgate.core.remembered_runs import HistoryRecord, HistoryRun, HistoryValue
from perfgate.history.month_files import MONTH_SCHEMA, MonthColumn, MonthFile, columns_of, places_of, runs_of, values_of
from perfgate.history.run_files import RUN_FILE, RUN_SCHEMA, MetricFilter, RunFile, run_of, value_of

_HASH = re.compile(rb'"content_sha256": ?"([0-9a-f]{64})"\n?\}\n?\Z')
REMEDY = "restore it from git, or remove it: its runs are then forgotten"


class HistoryFile(Struct, frozen=True):
    """The runs of one file of the history, with the metrics that were asked for."""

    suite: str
    identity: Mapping[str, Fact | None]
    runs: tuple[HistoryRun, ...]
    #: Each number, with the position of its run in `runs`.
    values: tuple[tuple[int, HistoryValue], ...] = ()
    #: The same as columns, of a month.
    columns: tuple[tuple[str, MonthColumn], ...] = ()
    #: The names of all metrics.
    metrics: tuple[str, ...] = ()
    #: The hash of its content.
    sha256: str = ""


def decode(name: str, data: bytes, wanted: MetricFilter | None = None) -> tuple[HistoryFile | None, list[Problem]]:
    """Read a file of a run or of a month; a damaged, altered or newer one gives a problem that names it, and None.

    Parameters
    ----------
    name : the file as messages name it.
    wanted : True for the metrics to read; None for all of them.
    """
    is_whole = _is_as_written(data)
    try:
        if data.startswith(b'{"schema": "%b"' % MONTH_SCHEMA.encode()):
            if not is_whole:
                return _damaged(name, "is cut off, or was altered after it was written")
            return _of_month(msgspec.json.decode(data, type=MonthFile), wanted), []
        if is_whole:  # as this program wrote it: positions for messages are not needed
            content = msgspec.json.decode(data, type=RunFile)
            if content.schema == RUN_SCHEMA and content.fault(wanted) is None:
                return _of_run(content, wanted), []
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError) as error:
        return _damaged(name, f"does not have the form of a history: {error}")
    slow, problems = RUN_FILE.decode(name, data)
    return (None if slow is None else _of_run(slow, wanted)), problems


def _is_as_written(data: bytes) -> bool:
    """Return whether the bytes are those that were written: their hash without the last field is in that field."""
    start = max(data.rfind(b'"content_sha256"'), 0)
    found = _HASH.search(data, start)
    if found is None:
        return False
    digest = hashlib.sha256(data[: found.start(1)])
    digest.update(data[found.end(1) :])
    return digest.hexdigest().encode() == found[1]


def _damaged(name: str, why: str) -> tuple[None, list[Problem]]:
    return None, [Problem("error", f"{why}; {REMEDY}", Location(name))]


def _of_run(file: RunFile, wanted: MetricFilter | None) -> HistoryFile:
    rows = (row for row in file.values if wanted is None or wanted(row.metric))
    values = tuple((0, value_of(row)) for row in rows)
    metrics = tuple({row.metric for row in file.values})
    return HistoryFile(file.suite, file.identity, (run_of(file),), values, metrics=metrics, sha256=file.content_sha256)


def _of_month(file: MonthFile, wanted: MetricFilter | None) -> HistoryFile:
    runs = runs_of(file)
    columns, metrics = columns_of(file, wanted), tuple(file.metrics)
    return HistoryFile(file.suite, file.identity, runs, columns=columns, metrics=metrics, sha256=file.content_sha256)


def records_of(file: HistoryFile) -> list[HistoryRecord]:
    """Return each run of a file with its numbers; the file must have been read with all metrics."""
    values: list[list[HistoryValue]] = [[] for _ in file.runs]
    for at, one in file.values:
        values[at].append(one)
    for metric, column in file.columns:
        for at, one in zip(places_of(column), values_of(metric, column), strict=True):
            values[at].append(one)
    return [
        HistoryRecord(file.suite, file.identity, run, tuple(own)) for run, own in zip(file.runs, values, strict=True)
    ]
