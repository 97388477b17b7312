"""The remembered runs of a branch since its baseline. The judge pools doubts with them."""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np

from perfgate.baselines.places import NEWEST_RUNS
from perfgate.core import RememberedRuns
from perfgate.core.remembered_runs import HistoryRun, SeriesName
from perfgate.history.noise import branch_of, is_exact, usable_runs
from perfgate.history.store import StoredHistory
from perfgate.stats.change_points import find_change_points


def runs_since(
    history: StoredHistory,
    wanted: Collection[SeriesName],
    ref: str | None,
    time: str,
    is_judged: Callable[[HistoryRun], bool],
    is_measured: Callable[[str], bool],
) -> tuple[RememberedRuns, ...]:
    """Return the runs of the branch that are newer than a time and than the last change point of their series.

    Parameters
    ----------
    ref : the branch of the baseline, see `branch_of`.
    time : when the newest run of the baseline was stored, `YYYY-MM-DDTHH:MM:SSZ`.
    is_judged : True for a remembered run that is judged now, on either side.
    is_measured : returns whether the measured commit is one of a branch; asked at most once.
    """
    branch = branch_of(history.runs, ref)
    if not branch:
        return ()
    usable = usable_runs(history.runs, branch, is_judged)
    since = np.array([run.time > time for run in history.runs], dtype=bool)
    if not (usable & since).any():
        return ()
    measured = is_measured(branch)
    is_cut = len(history.runs) >= NEWEST_RUNS and bool(since.all())
    found = []
    for column in history.series:
        rows = np.flatnonzero(usable[column.at])
        values, errors = column.values[rows], column.errors[rows]
        if column.name not in wanted or is_exact(column) or not len(rows) or values.min() <= 0:
            continue
        points = find_change_points(values, errors=errors, better=column.better)
        if measured and is_cut and not points:  # a block of runs begins at a fixed run, and that one was not read
            continue
        first = points[-1].index if points else 0
        kept = [i for i in range(first, len(rows)) if since[column.at[rows[i]]]]
        if kept:
            variances = np.square(np.nan_to_num(errors[kept] / values[kept]))
            labels = tuple(history.runs[at].label for at in column.at[rows[kept]].tolist())
            name = (column.name.key, column.name.statistic, column.name.rank)
            numbers = tuple(values[kept].tolist()), tuple(variances.tolist())
            found.append(RememberedRuns(*name, branch, *numbers, labels, measured))
    return tuple(found)
