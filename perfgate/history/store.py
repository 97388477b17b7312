"""The store of the history: files in the folder or bucket of the baselines, which are never rewritten.

    _history/SUITE/ENVIRONMENT/2026-11/20261122T141500Z-COMMIT-ID.json    one run
    _history/SUITE/ENVIRONMENT/2026-11-HASH.json                         the runs of a month, or a part of them

A run is added as a new file, so two writers never write the same one, and no lock is needed. A compaction (`writing`)
writes the runs of a month as one file, and removes a file only after all of its runs were read in another one. So a
crash, or two compactions at once, leave some runs in two files and lose none. A run that is there twice is read once,
because its id is a hash of what was measured.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np
from msgspec import Struct, field

from perfgate.baselines.ledger import read_ledger, suites_of_ledger
from perfgate.baselines.places import HISTORY, MONTH_FILE, UnsafeName, environment_name, newest_history
from perfgate.baselines.stores import Store, WritableStore, why
from perfgate.core import Better, Fact, Kind, Problem
from perfgate.core.remembered_runs import HistoryRecord, HistoryRun, SeriesName
from perfgate.history.files import REMEDY, HistoryFile, decode, name_of
from perfgate.history.records import MetricFilter, run_file
from perfgate.stats.distributions import BoolArray, FloatArray, IntArray
from perfgate.version import __version__
from perfgate.workspace.options import Refused

#: A compaction can remove a file between the list and the read; the list is then read again.
_TRIES = 5


class HistoryColumn(Struct, frozen=True):
    """One series of a stored history: a number for each run that has the metric, in the order of time."""

    name: SeriesName
    unit: str
    better: Better
    kind: Kind
    #: Positions in the runs of the history, ascending, (n,).
    at: IntArray
    #: The values, and their standard errors and effective sample sizes (NaN if unknown), each (n,).
    values: FloatArray
    errors: FloatArray
    n_effective: FloatArray
    #: The number of values behind each number; 0 if unknown.
    n: FloatArray


class StoredHistory(Struct, frozen=True):
    """The runs of one suite and environment, in the order of time, and the series that were asked for, by name."""

    suite: str
    environment: str
    identity: dict[str, Fact | None]
    runs: tuple[HistoryRun, ...]
    series: tuple[HistoryColumn, ...]
    #: The names of all metrics.
    metrics: tuple[str, ...]
    #: Files that cannot be used, so that the history is incomplete.
    problems: tuple[Problem, ...] = ()
    #: The hashes of the content of its files.
    sha256: str = ""


def usable_runs(runs: Sequence[HistoryRun], branch: str, is_judged: Callable[[HistoryRun], bool]) -> BoolArray:
    """Return a mask: True for each run that is of the branch (`""`: of no branch) and not judged now."""
    return np.array([run.ref == (branch or None) and not is_judged(run) for run in runs], dtype=np.bool_)


def branch_of(runs: Sequence[HistoryRun], ref: str | None) -> str | None:
    """Return the branch that a ref means among the branches of runs; None if no run is of it.

    `main`, `origin/main` and `refs/remotes/origin/main~1` mean `main`. The hash of a commit, HEAD and None mean the
    branch of most runs. If no run names its branch, every ref means `""`.
    """
    known = Counter(run.ref for run in runs if run.ref) or Counter("" for _ in runs)
    name = re.split(r"[~^]|@\{", ref or "")[0]
    if set(known) <= {""} or name in ("", "@", "HEAD") or re.fullmatch("[0-9a-f]{7,64}", name):
        return known.most_common(1)[0][0] if known else None
    short = re.sub(r"^(refs/heads/|refs/remotes/[^/]+/|refs/)", "", name)
    return next((one for one in (short, re.sub("^(origin|upstream)/", "", short)) if one in known), None)


def is_exact(column: HistoryColumn) -> bool:
    """Return whether the judge compares these numbers without noise: bytes, operations and counts.

    A count is recognised by its values: whole numbers without a unit, unlike shares and ratios.
    """
    if column.unit in ("B", "FLOP", "count") or column.name.statistic == "count":
        return True
    return column.unit == "1" and bool((column.values == np.floor(column.values)).all())


def places(store: Store, suite: str | None = None) -> tuple[list[tuple[str, str]], list[Problem]]:
    """Return the suites and environments that have a history, sorted, and the problems of the folders."""
    paths, problems = listed(store, f"{HISTORY}/{suite}" if suite else HISTORY)
    found = {(parts[1], parts[2]) for parts in (path.split("/") for path in paths) if len(parts) > 3}
    found = {place for place in found if not place[0].startswith("_")}  # the ledger
    return sorted(found), problems


def add(store: WritableStore, record: HistoryRecord, left_out: int = 0) -> str | None:
    """Write one run as a new file; returns its path, or None if it is there already. Raises Refused."""
    run = record.run
    environment = environment_name(record.identity)
    stamp = run.time.replace("-", "").replace(":", "")
    name = f"{stamp}-{short_commit(run.commit)}-{run.id}.json"
    path = f"{HISTORY}/{record.suite}/{environment}/{run.time[:7]}/{name}"
    return path if write_new(store, path, run_file(record, tool(), left_out)) else None


def short_commit(commit: str | None) -> str:
    """Return a commit as the name of a file has it: 12 digits, or `none`."""
    return (commit or "none")[:12]


def remembered_already(store: Store, record: HistoryRecord) -> dict[str, str]:
    """Return the paths of the remembered runs of the same files, by short commit. Compacted months are left out."""
    folder = f"{HISTORY}/{record.suite}/{environment_name(record.identity)}"
    names = ((path, path.removesuffix(".json").split("-")) for path in store.paths(folder)[0])  # TIME-COMMIT-ID
    return {name[-2]: path for path, name in names if name[-1] == record.run.id}


def write_new(store: WritableStore, path: str, data: bytes) -> bool:
    """Write a file; returns False if it is there already. Raises Refused."""
    try:
        store.write(path, data)
    except FileExistsError:
        return False
    except (OSError, UnsafeName) as error:
        raise Refused(f"{store.location(path)}: cannot be written: {why(error)}") from None
    return True


def read(
    store: Store, suite: str, environment: str, wanted: MetricFilter | None = None, newest: int | None = None
) -> StoredHistory:
    """Read the history of an environment; a file that cannot be used is a problem, and its runs are left out.

    `wanted`: True for the metrics to read; None for all of them. `newest`: read at least this many of the newest runs,
    if the newest three months have as many; None for all runs.
    """
    files, problems = _files(store, suite, environment, wanted, newest)
    position: dict[str, int] = {}  # by id of a run: its position in `runs`
    runs: list[HistoryRun] = []
    columns: dict[tuple[SeriesName, str], _Gathered] = {}
    metrics: set[str] = set()
    identity: dict[str, Fact | None] = {}
    for file in files:
        identity = identity or dict(file.identity)
        metrics.update(file.metrics)
        here = []  # the positions of the runs of this file
        for run in file.runs:
            at = position.setdefault(run.id, len(runs))
            if at == len(runs):
                runs.append(run)
            elif run.time < runs[at].time:  # remembered twice, as after a compaction: its first time counts
                runs[at] = run
            here.append(at)
        _gather(file, here, columns)
    order = sorted(range(len(runs)), key=lambda i: (runs[i].time, runs[i].id))
    new_place = np.empty(len(runs), dtype=np.int64)
    new_place[order] = np.arange(len(runs))
    series = [rows.series(name, unit, new_place) for (name, unit), rows in sorted(columns.items())]
    return StoredHistory(
        *(suite, environment, identity, tuple(runs[i] for i in order), tuple(series)),
        tuple(sorted(metrics)),
        tuple(problems),
        "".join(file.sha256 for file in files),
    )


class _Gathered(Struct):
    """The numbers of one series while files are read."""

    better: Better
    kind: Kind
    at: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    errors: list[float | None] = field(default_factory=list)
    n: list[int | None] = field(default_factory=list)
    n_effective: list[float | None] = field(default_factory=list)

    def series(self, name: SeriesName, unit: str, new_place: IntArray) -> HistoryColumn:
        """Return the series by time; of a run that was read twice, the first number."""
        at, rows = np.unique(new_place[np.array(self.at, dtype=np.int64)], return_index=True)
        values, errors, n_effective, n = (
            np.array(column, dtype=np.float64)[rows] for column in (self.values, self.errors, self.n_effective, self.n)
        )
        return HistoryColumn(name, unit, self.better, self.kind, at, values, errors, n_effective, np.nan_to_num(n))


def _gather(file: HistoryFile, here: Sequence[int], columns: dict[tuple[SeriesName, str], _Gathered]) -> None:
    """Add the numbers of a file to the columns; `here` are the positions of its runs."""
    for metric, column in file.columns:
        rows = columns.setdefault((name_of(metric, column), column.unit), _Gathered(column.better, column.kind))
        nothing = [None] * len(column.values)
        rows.at += here if column.at is None else [here[at] for at in column.at]
        rows.values += column.values
        rows.errors += column.errors or nothing
        rows.n += column.n or nothing
        rows.n_effective += column.n_effective or nothing
    for at, one in file.values:
        rows = columns.setdefault((one.name, one.unit), _Gathered(one.better, one.kind))
        rows.at.append(here[at])
        rows.values.append(one.value)
        rows.errors.append(one.error)
        rows.n.append(one.n)
        rows.n_effective.append(one.n_effective)


def known_ids(store: Store, suite: str, environment: str) -> set[str]:
    """Return the ids of all runs of an environment."""
    return {run.id for run in read(store, suite, environment, lambda metric: False).runs}


def verify(store: Store) -> tuple[int, list[Problem]]:
    """Read all histories and ledgers; returns the number of runs, and all problems."""
    found, problems = places(store)
    count = 0
    for suite, environment in found:
        history = read(store, suite, environment)
        count += len(history.runs)
        problems += history.problems
    return count, [*problems, *(wrong for suite in suites_of_ledger(store) for wrong in read_ledger(store, suite)[1])]


def _files(
    store: Store, suite: str, environment: str, wanted: MetricFilter | None, newest: int | None = None
) -> tuple[list[HistoryFile], list[Problem]]:
    """Return the content of the files of an environment, sorted by path, and the problems of files."""
    seen: dict[str, tuple[HistoryFile | None, list[Problem]]] = {}
    paths: list[str] = []
    problems: list[Problem] = []
    for _ in range(_TRIES):
        paths, problems = listed(store, f"{HISTORY}/{suite}/{environment}")
        if newest is not None:
            paths = newest_history(paths, newest)
        for path in (path for path in paths if path not in seen):
            with suppress(FileNotFoundError):
                seen[path] = read_file(store, path, wanted)
        if all(path in seen for path in paths):
            break
    found = []
    for path in paths:
        file, wrong = seen.get(path) or _problem(store, path, "is listed, but it is not there")
        problems += wrong
        if file is not None:
            found.append(file)
    return found, problems


def listed(store: Store, folder: str) -> tuple[list[str], list[Problem]]:
    """Return the `.json` files below a folder, and problems; nothing for a name that no folder can have."""
    try:
        paths, problems = store.paths(folder)
    except UnsafeName:
        return [], []
    return [path for path in paths if path.endswith(".json")], problems


def read_file(store: Store, path: str, wanted: MetricFilter | None) -> tuple[HistoryFile | None, list[Problem]]:
    """Read one file. Raises FileNotFoundError if it is gone."""
    try:
        data = store.read(path)
    except FileNotFoundError:
        raise
    except (OSError, UnsafeName) as error:
        return _problem(store, path, f"cannot be read: {why(error)}")
    file, problems = decode(str(store.location(path)), data, wanted)
    month = MONTH_FILE.search(path)  # its second group is the beginning of the hash
    if file is not None and month and not hashlib.sha256(data).hexdigest().startswith(month[2]):
        return _problem(store, path, f"has other runs than the file that was written here; {REMEDY}")
    if file is not None and path.split("/")[1:3] != [file.suite, environment_name(file.identity)]:
        return _problem(store, path, f"was moved: it belongs to {file.suite}/{environment_name(file.identity)}")
    return file, problems


def _problem(store: Store, path: str, message: str) -> tuple[None, list[Problem]]:
    return None, [Problem("error", message, store.location(path))]


def tool() -> str:
    """Return the name and version of the writer."""
    return f"perfgate {__version__}"
