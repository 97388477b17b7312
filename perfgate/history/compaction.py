"""Write the runs of a month as one file, and remove the files that it replaces.

A file is removed only after another one with all of its runs was written and read back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from perfgate.baselines.places import HISTORY, environment_name
from perfgate.baselines.stores import Store, WritableStore, write_file
from perfgate.core import Problem
from perfgate.core.remembered_runs import HistoryRecord
from perfgate.history.files import records_of
from perfgate.history.month_files import month_file
from perfgate.history.store import listed, places, read_file, tool
from perfgate.workspace.options import Refused

#: A file of a month has at most this many numbers, some ten megabytes.
MOST_NUMBERS = 250_000


def write_months(store: WritableStore, records: Iterable[HistoryRecord]) -> list[str]:
    """Write runs as files of months; returns the paths. Raises Refused."""
    months: dict[tuple[str, str, str], list[HistoryRecord]] = {}
    for record in records:
        months.setdefault((record.suite, environment_name(record.identity), record.run.time[:7]), []).append(record)
    return [
        path
        for (suite, place, month), own in sorted(months.items())
        for path in _write(store, suite, place, month, own)
    ]


def compact(store: WritableStore, before: str | None = None) -> tuple[list[str], list[Problem]]:
    """Write the runs of each month as one file and remove theirs; returns a line a month, and damaged files.

    Parameters
    ----------
    before : the first month that is left alone, `YYYY-MM`; None for all months.
    """
    lines: list[str] = []
    found, problems = places(store)
    for suite, environment in found:
        paths, _ = listed(store, f"{HISTORY}/{suite}/{environment}")
        by_month: dict[str, list[str]] = {}
        for path in paths:
            by_month.setdefault(path.split("/")[3][:7], []).append(path)
        for month, own in sorted(by_month.items()):
            if before is None or month < before:
                done, wrong = _compact(store, (suite, environment, month), own)
                lines += done
                problems += wrong
    return lines, problems


def _compact(
    store: WritableStore, place: tuple[str, str, str], paths: Sequence[str]
) -> tuple[list[str], list[Problem]]:
    """Compact one month of one environment. Raises Refused if it cannot be written."""
    suite, environment, month = place
    if len(paths) == 1 and len(paths[0].split("/")) == 4:
        return [], []
    records: dict[str, HistoryRecord] = {}
    problems: list[Problem] = []
    read_paths = []
    for path in paths:
        try:
            file, wrong = read_file(store, path, None)
        except FileNotFoundError:  # another compaction has written its runs elsewhere
            continue
        problems += wrong
        if file is not None:
            read_paths.append(path)
            for record in records_of(file):
                known = records.get(record.run.id)
                records[record.run.id] = record if known is None else _joined(known, record)
    if not records:
        return [], problems
    written = _write(store, suite, environment, month, list(records.values()))
    gone = [path for path in read_paths if path not in written]
    for path in gone:
        with suppress(OSError):  # another compaction was faster
            store.remove(path)
    folder = f"{suite}/{environment}/{month}"
    line = f"{folder}: {len(records)} runs in {len(written)} file{'s' * (len(written) > 1)}, {len(gone)} removed"
    return [line] if gone else [], problems


def _joined(one: HistoryRecord, other: HistoryRecord) -> HistoryRecord:
    """Return one run with the numbers of both records of it."""
    first, second = sorted((one, other), key=lambda record: record.run.time)
    values = {value.name: value for value in (*second.values, *first.values)}
    return HistoryRecord(first.suite, first.identity, first.run, tuple(values.values()))


def _write(
    store: WritableStore, suite: str, environment: str, month: str, records: Sequence[HistoryRecord]
) -> list[str]:
    """Write the files of a month, named by their content, and read each back. Raises Refused."""
    ordered = sorted(records, key=lambda record: (record.run.time, record.run.id))
    written = []
    for part in _parts(ordered):
        data = month_file(part, tool())
        path = f"{HISTORY}/{suite}/{environment}/{month}-{hashlib.sha256(data).hexdigest()[:16]}.json"
        if not _exists(store, path):
            write_file(store, path, data)
        with suppress(FileNotFoundError):  # another compaction has written its runs elsewhere
            if store.read(path) != data:
                raise Refused(f"{store.location(path)}: is not what was written; nothing was removed", 3)
        written.append(path)
    return written


def _parts(records: Sequence[HistoryRecord]) -> Iterator[list[HistoryRecord]]:
    """Yield runs in order, so that each part has at most MOST_NUMBERS numbers, or one run."""
    part: list[HistoryRecord] = []
    count = 0
    for record in records:
        if part and count + len(record.values) > MOST_NUMBERS:
            yield part
            part, count = [], 0
        part.append(record)
        count += len(record.values)
    yield part


def _exists(store: Store, path: str) -> bool:
    try:
        store.read(path)
    except OSError:
        return False
    return True
