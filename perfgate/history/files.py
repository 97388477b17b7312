"""The files of a history: the runs of a month as one file, and how files of runs and months are read.

The file of a month has everything that the files of its single runs have. `decode` reads only the wanted metrics.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

import msgspec
from msgspec import Struct

from perfgate.baselines.files import digits_of
from perfgate.core import Better, Fact, Key, Kind, Location, Problem
from perfgate.core.remembered_runs import HistoryRecord, HistoryRun, HistoryValue, SeriesName
from perfgate.core.units import BASE_UNITS
from perfgate.documents.structs import violation
from perfgate.history.records import DIGITS, RUN_FILE, RUN_SCHEMA, TIME, MetricFilter, RunFile, run_of, value_of

T = TypeVar("T", int, float)
MONTH_SCHEMA = "perfgate.history-month/1"


class MonthRun(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One run of a month; `context` is the position of its facts in `contexts` of the file."""

    id: str
    time: str
    commit: str | None
    ref: str | None
    tags: list[str]
    context: int
    imported_from: str | None


class MonthColumn(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A series of a month: its lists have one number for each of its runs.

    `at`: the positions of these runs in the file; None for all runs. The other lists are None if no number is known.
    """

    labels: dict[str, str]
    statistic: str
    rank: str
    unit: str
    better: Better
    kind: Kind
    values: list[float]
    at: list[int] | None = None
    errors: list[float | None] | None = None
    n: list[int | None] | None = None
    n_effective: list[float | None] | None = None

    def is_sound(self, runs: int) -> bool:
        """Return whether the columns have one length, and their positions and units exist."""
        size = len(self.values)
        lists = (self.at, self.errors, self.n, self.n_effective)
        whole = all(one is None or len(one) == size for one in lists)
        is_placed = size == runs if self.at is None else all(0 <= place < runs for place in self.at)
        return whole and is_placed and self.unit in BASE_UNITS


class MonthFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of the file of a month. `metrics` has the JSON of a list of `MonthColumn` for each metric."""

    schema: str
    tool: str
    suite: str
    identity: dict[str, str | int | float | bool | None]
    contexts: list[dict[str, str | int | float | bool]]
    runs: list[MonthRun]
    metrics: dict[str, msgspec.Raw]
    content_sha256: str


_COLUMNS = msgspec.json.Decoder(list[MonthColumn])


def month_file(records: Sequence[HistoryRecord], tool: str) -> bytes:
    """Return the file of runs of one suite and environment, in this order."""
    contexts: dict[str, tuple[int, Mapping[str, Fact]]] = {}  # by their JSON: the position of some facts, and these
    runs = []
    columns: dict[tuple[SeriesName, str, Better, Kind], list[tuple[int, HistoryValue]]] = {}
    for at, record in enumerate(records):
        run, facts = record.run, dict(sorted(record.run.context.items()))
        known = contexts.setdefault(msgspec.json.encode(facts).decode(), (len(contexts), facts))
        runs.append(MonthRun(run.id, run.time, run.commit, run.ref, list(run.tags), known[0], run.imported_from))
        for one in record.values:
            columns.setdefault((one.name, one.unit, one.better, one.kind), []).append((at, one))
    by_metric: dict[str, list[MonthColumn]] = {}
    for (name, unit, better, kind), rows in sorted(columns.items()):
        column = MonthColumn(
            *(dict(name.key.labels), name.statistic, name.rank, unit, better, kind),
            values=[digits_of(one.value, DIGITS[0]) or 0.0 for _, one in rows],  # `or` for the type: never None
            at=None if len(rows) == len(records) else [at for at, _ in rows],
            errors=_known([digits_of(one.error, DIGITS[1]) for _, one in rows]),
            n=_known([one.n for _, one in rows]),
            n_effective=_known([digits_of(one.n_effective, DIGITS[2]) for _, one in rows]),
        )
        by_metric.setdefault(name.key.metric, []).append(column)
    first = records[0]
    fields = {
        "schema": MONTH_SCHEMA,
        "tool": tool,
        "suite": first.suite,
        "identity": dict(first.identity),
        "contexts": [facts for _, facts in contexts.values()],
        "runs": runs,
        "metrics": by_metric,
    }
    body = b",\n".join(b"%b: %b" % (msgspec.json.encode(k), _lines(v)) for k, v in fields.items())
    # the hash replaces the last %b; it is that of the file with an empty one
    unsigned = b'{%b,\n"content_sha256": "%%b"}\n' % body.replace(b"%", b"%%")
    return unsigned % hashlib.sha256(unsigned % b"").hexdigest().encode()


def _lines(value: object) -> bytes:
    """Return a field as JSON; `metrics`, the only object of lists, has a line for each metric.

    So git stores a new month as a small difference.
    """
    if isinstance(value, dict) and value and isinstance(next(iter(value.values())), list):
        rows = (b"%b: %b" % (msgspec.json.encode(k), msgspec.json.encode(v)) for k, v in value.items())
        return b"{\n%b}" % b",\n".join(rows)
    return msgspec.json.encode(value)


def _known(numbers: list[T | None]) -> list[T | None] | None:
    """Return the numbers; None if all are unknown."""
    return None if all(one is None for one in numbers) else numbers


def runs_of(file: MonthFile) -> tuple[HistoryRun, ...]:
    """Return the runs of a month. Raises ValueError for an impossible time or position."""
    if not all(TIME.fullmatch(run.time) for run in file.runs):
        raise ValueError("an impossible time")
    if not all(0 <= run.context < len(file.contexts) for run in file.runs):
        raise ValueError("a run without its facts")
    return tuple(
        HistoryRun(
            one.id, one.time, one.commit, one.ref, tuple(one.tags), file.contexts[one.context], one.imported_from
        )
        for one in file.runs
    )


def columns_of(file: MonthFile, wanted: MetricFilter | None) -> tuple[tuple[str, MonthColumn], ...]:
    """Return the columns of the wanted metrics, with their names. Raises ValueError for impossible columns."""
    columns = []
    for metric, raw in file.metrics.items():
        if wanted is None or wanted(metric):
            found = _COLUMNS.decode(raw)
            if not all(one.is_sound(len(file.runs)) for one in found):
                raise ValueError(f"the numbers of {metric} contradict each other")
            columns += [(metric, one) for one in found]
    return tuple(columns)


def places_of(column: MonthColumn) -> Iterable[int]:
    """Return the positions of the runs of a column."""
    return range(len(column.values)) if column.at is None else column.at


def name_of(metric: str, column: MonthColumn) -> SeriesName:
    """Return the series that a column belongs to."""
    return SeriesName(Key(metric, tuple(sorted(column.labels.items()))), column.statistic, column.rank)


def values_of(metric: str, column: MonthColumn) -> Iterable[HistoryValue]:
    """Return the numbers of a column, in its order."""
    name, nothing = name_of(metric, column), [None] * len(column.values)
    rows = zip(column.values, column.errors or nothing, column.n or nothing, column.n_effective or nothing, strict=True)
    for value, error, n, n_effective in rows:
        yield HistoryValue(name, column.unit, column.better, column.kind, value, error, n, n_effective)


#: The last field of a file.
_HASH = re.compile(rb'"content_sha256": ?"([0-9a-f]{64})"\n?\}\n?\Z')
REMEDY = "restore it from git, or remove it: its runs are then forgotten"


class HistoryFile(Struct, frozen=True):
    """The runs of one file of the history, with the metrics that were asked for."""

    suite: str
    identity: Mapping[str, Fact | None]
    runs: tuple[HistoryRun, ...]
    #: The numbers of a file of one run, each with the position of this run in `runs`, which is always 0.
    values: tuple[tuple[int, HistoryValue], ...] = ()
    #: The numbers of a file of a month: metrics and columns.
    columns: tuple[tuple[str, MonthColumn], ...] = ()
    #: The names of all metrics, also of those that were not asked for.
    metrics: tuple[str, ...] = ()
    #: The hash of its content.
    sha256: str = ""


def decode(name: str, data: bytes, wanted: MetricFilter | None = None) -> tuple[HistoryFile | None, list[Problem]]:
    """Read a file of a run or of a month; returns None and a problem if it is damaged, altered, or of a newer version.

    `name`: the file as messages name it. `wanted`: True for the metrics to read; None for all of them.
    """
    is_whole = _is_as_written(data)
    if data.startswith(b'{"schema": "%b"' % MONTH_SCHEMA.encode()):
        return (
            _of_month(name, data, wanted)
            if is_whole
            else _damaged(name, "is cut off, or was altered after it was written")
        )
    if is_whole:  # as this program wrote it: positions for messages are not needed
        with suppress(msgspec.MsgspecError, UnicodeDecodeError):
            content = msgspec.json.decode(data, type=RunFile)
            if content.schema == RUN_SCHEMA and content.fault(wanted) is None:
                return _of_run(content, wanted), []
    file, problems = RUN_FILE.decode(name, data)  # slower, but it says what is wrong and where
    return (None if file is None else _of_run(file, wanted)), problems


def _of_month(name: str, data: bytes, wanted: MetricFilter | None) -> tuple[HistoryFile | None, list[Problem]]:
    """Return the content of a file of a month that was not altered."""
    try:
        month = msgspec.json.decode(data, type=MonthFile)
        runs, columns = runs_of(month), columns_of(month, wanted)
    except (msgspec.MsgspecError, ValueError) as error:
        return _damaged(name, f"does not have the form of a history: {violation(error).message}")
    read = month.suite, month.identity, runs, (), columns, tuple(month.metrics), month.content_sha256
    return HistoryFile(*read), []  # `()`: only a file of one run has `values`


def _is_as_written(data: bytes) -> bool:
    """Return whether the last field of a file has the right hash: that of the file with this field empty."""
    found = _HASH.search(data, data.rfind(b'"content_sha256"'))
    if found is None:
        return False
    digest = hashlib.sha256(data[: found.start(1)])
    digest.update(data[found.end(1) :])
    return digest.hexdigest().encode() == found[1]


def _damaged(name: str, why: str) -> tuple[None, list[Problem]]:
    return None, [Problem("error", f"{why}; {REMEDY}", Location(name))]


def _of_run(file: RunFile, wanted: MetricFilter | None) -> HistoryFile:
    """Return the content of a file of one run."""
    rows = (row for row in file.values if wanted is None or wanted(row.metric))
    values = tuple((0, value_of(row)) for row in rows)
    metrics = tuple({row.metric for row in file.values})
    return HistoryFile(file.suite, file.identity, (run_of(file),), values, metrics=metrics, sha256=file.content_sha256)


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
