"""The differences between the hosts of an environment, in one series or in all its remembered runs.

Only neighbouring runs of two hosts are compared. The runs are cut into short blocks with both hosts in each, and every
block has a level of its own. So a change of the code is in one block at most: it makes the interval wider, but does not
look like a difference of the hosts. This is the design of randomized blocks (Fisher 1935): log value = block + host +
noise, by least squares, with the interval of Student's t.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Sequence

import numpy as np
from msgspec import Struct

from perfgate.core import HostDifference, HostLevel
from perfgate.core.remembered_runs import HistoryRun, SeriesName
from perfgate.history.store import HistoryColumn, StoredHistory, branch_of, is_exact, usable_runs
from perfgate.stats.distributions import FloatArray, t_quantile

#: Each host needs this many runs, and both together this many blocks: one block alone cannot show whether the host or
#: the code changed.
FEWEST_RUNS, FEWEST_BLOCKS = 3, 2
#: A block has at most this many runs before the change of hosts; earlier ones may be of older code.
_BEFORE = 2
#: The confidence of the interval.
_CONFIDENCE = 0.95


class HostContrast(Struct, frozen=True):
    """The logarithm of the ratio of one group of runs to another, with its 95 % interval."""

    estimate: float
    low: float
    high: float


def contrast(logs: FloatArray, is_new: Sequence[bool]) -> HostContrast | None:
    """Return ln(new / other) of two hosts, or groups of hosts, from neighbouring runs; None for too few of them.

    `logs`: (n,) the logarithm of a metric in each run of both hosts, oldest first. `is_new`: (n,) True for a run of the
    new host.
    """
    blocks = _blocks(is_new)
    if min(sum(is_new), len(is_new) - sum(is_new)) < FEWEST_RUNS or len(blocks) < FEWEST_BLOCKS:
        return None
    marks = np.array(is_new, dtype=np.float64)
    # the level of each block is taken out of both; then the slope of y by x is the difference of the hosts
    x = np.concatenate([marks[block] - marks[block].mean() for block in blocks])
    y = np.concatenate([logs[block] - logs[block].mean() for block in blocks])
    freedom = len(y) - len(blocks) - 1  # 2 or more, because there are six runs and two blocks
    weight = float((x * x).sum())
    estimate = float((x * y).sum()) / weight
    variance = float(np.square(y - estimate * x).sum()) / freedom
    reach = t_quantile(freedom, (1 + _CONFIDENCE) / 2) * math.sqrt(variance / weight)
    return HostContrast(estimate, estimate - reach, estimate + reach)


def _blocks(is_new: Sequence[bool]) -> list[slice]:
    """Return disjoint blocks of neighbouring runs: at most two runs of one host, and the next run of the other.

    The last block also has the next run, if there is one, because later runs make no block.
    """
    found, start = list[slice](), 0
    for at in range(1, len(is_new)):
        if at > start and is_new[at] != is_new[at - 1]:
            found.append(slice(max(start, at - _BEFORE), at + 1))
            start = at + 1
    if found and start < len(is_new):
        found[-1] = slice(found[-1].start, start + 1)
    return found


def without_hosts(logs: FloatArray, hosts: Sequence[str], judged: Collection[str]) -> tuple[FloatArray, int]:
    """Return the logarithms (n,) as if the usual host had measured all, and the number of hosts that were corrected.

    Only the runs of hosts that clearly differ from the usual one are corrected.

    `logs`, `hosts`: (n,) the logarithm of a metric in each run, oldest first, and its host; `""` is unknown. `judged`:
    the hosts of the runs that are compared now. If the history does not know one of these, nothing is corrected: then
    the differences between hosts are a part of the noise.
    """
    counts = Counter(host for host in hosts if host)
    usual = min(counts, key=lambda host: (-counts[host], host), default="")  # the host of most runs
    seen = {}
    for host in counts.keys() - {usual}:
        pair = [i for i, one in enumerate(hosts) if one in (usual, host)]
        found = contrast(logs[pair], [hosts[i] == host for i in pair])
        if found is not None:
            seen[host] = found
    differ = {host: one.estimate for host, one in seen.items() if not one.low <= 0 <= one.high}
    if not judged or not set(judged) <= {usual, *seen}:
        return logs, 0
    return logs - np.array([differ.get(host, 0.0) for host in hosts]), len(differ)


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
    """Return the differences of the new hosts from those of the base, one for each wanted series with a clear one.

    `ref`: the branch whose runs count; None is that of most runs. `base`, `new`: the hosts of both sides, which have
    none in common. `is_judged`: True for a remembered run that is judged now, on either side; it does not count.
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
    """Return the difference of the hosts in one series; None if noise explains it."""
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
    """Return the level and the noise of the runs of one side; `side` is True for the new one."""
    own = logs[np.array(is_new) == side]
    names = tuple(sorted({host for host, other in zip(hosts, is_new, strict=True) if other == side}))
    squares = np.square(np.diff(own)) / _OF_DIFFERENCE
    return HostLevel(names, len(own), math.exp(float(np.median(own))), math.sqrt(float(squares.mean())))
