"""The differences between the hosts of an environment, from its remembered runs; see `host_levels`."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence

import numpy as np

from perfgate.core import HostDifference, HostLevel
from perfgate.core.remembered_runs import HistoryRun, SeriesName
from perfgate.history.host_levels import contrast
from perfgate.history.noise import branch_of, is_exact, usable_runs
from perfgate.history.store import HistoryColumn, StoredHistory
from perfgate.stats.distributions import FloatArray

#: The mean square of the difference of two neighbours is twice their variance.
_OF_DIFFERENCE = 2.0


def host_differences(
    history: StoredHistory,
    wanted: Collection[SeriesName],
    ref: str | None,
    base: Collection[str],
    new: Collection[str],
    is_judged: Callable[[HistoryRun], bool] = lambda run: False,
) -> tuple[HostDifference, ...]:
    """Return the differences of the new hosts from those of the base, in each wanted series that clearly has one.

    Parameters
    ----------
    ref : the branch, see `branch_of`; only its runs count.
    base, new : the hosts of both sides, which have none in common.
    is_judged : True for a remembered run that is judged now, on either side.
    """
    branch = branch_of(history.runs, ref)
    if branch is None:
        return ()
    hosts = [str(run.context.get("host", "")) for run in history.runs]
    kept = usable_runs(history.runs, branch, is_judged) & np.array(
        [host in {*base, *new} for host in hosts], dtype=bool
    )
    found = []
    for column in history.series:
        if column.name in wanted and not is_exact(column):
            rows = kept[column.at]
            of_each = [hosts[int(at)] for at in column.at[rows]]
            difference = _difference(column, column.values[rows], of_each, new, branch)
            found += [difference] if difference is not None else []
    return tuple(found)


def _difference(
    column: HistoryColumn, values: FloatArray, hosts: Sequence[str], new: Collection[str], branch: str
) -> HostDifference | None:
    """Return the difference of the hosts in one series, or None unless it is beyond their noise."""
    if not len(values) or not (np.isfinite(values).all() and values.min() > 0):
        return None
    logs, is_new = np.log(values), [host in new for host in hosts]
    seen = contrast(logs, is_new)
    if seen is None or seen.low <= 0 <= seen.high:
        return None
    name, sides = column.name, (False, True)
    base_level, new_level = (_level(logs, is_new, hosts, side) for side in sides)
    return HostDifference(
        name.key, name.statistic, name.rank, branch, base_level, new_level, seen.estimate, seen.low, seen.high
    )


def _level(logs: FloatArray, is_new: Sequence[bool], hosts: Sequence[str], side: bool) -> HostLevel:
    """Return the level and the noise of the runs of one side."""
    own = logs[np.array(is_new) == side]
    names = tuple(sorted({host for host, other in zip(hosts, is_new, strict=True) if other == side}))
    squares = np.square(np.diff(own)) / _OF_DIFFERENCE
    return HostLevel(names, len(own), math.exp(float(np.median(own))), math.sqrt(float(squares.mean())))
