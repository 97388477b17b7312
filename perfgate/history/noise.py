"""The noise between runs of a metric, and its runs since the baseline, from its remembered runs.

Remembered runs differ by changes of the code, by slow creep, by single stalls, and by noise. Only the noise is wanted:

1. If the history knows the hosts of the runs that are compared, the differences between hosts are taken out.
2. `find_change_points` finds the levels. A level of fewer than five runs is left out.
3. Each level is cut into blocks of about 20 runs, and the line of Theil (1950) and Sen (1968) is taken out of each
   block, so that creep is not noise. A line costs two degrees of freedom.
4. The residuals are clipped at three robust standard deviations (winsorized variance, Tukey 1962). So a stall counts
   little, but a metric with two modes has all of its noise.
5. The usual variance within a run is subtracted, as `perfgate rules --calibrate` does. The rest is averaged with the
   prior of unknown noise, each weighted by its degrees of freedom.
6. If the means of blocks differ by more than this noise, the level wanders. This counts if the base is older than a
   block. Single changes and creep are not part of it, because a gate has to see them.

The judge uses the result only as long as the runs that it compares do not contradict it (`Evidence.calibrated`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from itertools import pairwise

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from perfgate.baselines.places import NEWEST_RUNS
from perfgate.core import CalibratedPrior, RememberedRuns
from perfgate.core.remembered_runs import HistoryRun, SeriesName
from perfgate.history.store import StoredHistory, branch_of, is_exact, usable_runs
from perfgate.stats.change_points import find_change_points
from perfgate.stats.distributions import FloatArray
from perfgate.stats.history import DEFAULT, Prior, learned_prior

#: The code of these runs may have changed, and a change point needs five runs on both sides. `perfgate rules
#: --calibrate` needs only five runs, because its user promises that they have the same code.
FEWEST_RUNS = 10
#: The shortest level that is used, and the usual length of a block.
_SHORTEST, _BLOCK = 5, 20
#: Residuals are clipped at this many robust standard deviations.
_CLIPPED_AT = 3.0
#: The fewest half blocks that show how much a level wanders.
_FEWEST_HALVES = 8
#: The degrees of freedom that a line costs.
_OF_LINE = 2
#: The noise of a history has at most these degrees of freedom. A calibration has fewer, because nothing tests it later.
_MOST_FREEDOM = 16.0


class LearnedNoise(Struct, frozen=True):
    """The noise between runs as a prior of the judge, and the number of runs that it was learned from.

    `wander` is the relative standard deviation by which the level moves in 20 runs.
    """

    prior: Prior
    runs: int
    wander: float = 0.0


def noise_between_runs(values: FloatArray, errors: FloatArray | None = None) -> LearnedNoise | None:
    """Return the noise between the runs of a series; None for fewer than ten runs within levels.

    Parameters:
        values: (n,) one statistic per run, oldest first, in any unit. NaN is a missing run.
        errors: (n,) the standard error of each value within its run, in the same unit; NaN is unknown.

    Also None if a value is not positive, because noise is relative, and if all values are equal.
    """
    known = np.isfinite(values)
    values = values[known]
    if len(values) < FEWEST_RUNS or values.min() <= 0 or values.min() == values.max():
        return None
    relative = np.full(len(values), np.nan) if errors is None else errors[known] / values
    points = find_change_points(values, errors=relative * values)  # in the unit of the values, NaN if unknown
    bounds = [0, *(point.index for point in points), len(values)]
    blocks = [block for level in pairwise(bounds) for block in _blocks(level)]
    runs = sum(end - start for start, end in blocks)
    if runs < FEWEST_RUNS:
        return None
    logs = np.log(values)
    residuals = np.concatenate([without_line(logs[start:end]) for start, end in blocks])
    freedom = runs - _OF_LINE * len(blocks)
    within = np.square(relative[np.isfinite(relative)])
    usual = float(np.median(within)) if len(within) else 0.0  # the usual variance within a run
    variance = robust_variance(residuals, freedom)
    prior = learned_prior(variance, freedom, within=usual, believed=DEFAULT, most=_MOST_FREEDOM)
    return LearnedNoise(prior, runs, _wander(logs, variance))


def _blocks(level: tuple[int, int], length: int = _BLOCK) -> Iterator[tuple[int, int]]:
    """Yield the first run of each block of a level, and the run after its last; their lengths differ by at most one."""
    start, end = level
    if end - start >= _SHORTEST:
        count = max(round((end - start) / length), 1)
        yield from pairwise(start + (end - start) * i // count for i in range(count + 1))


def _wander(logs: FloatArray, variance: float) -> float:
    """Return the standard deviation by which the level moves in one block, without the noise of the runs, `variance`.

    It is measured by the differences between means of half blocks, at a distance of one block. Their MAD (median
    absolute deviation) leaves out single changes of the code, which move few of them, and creep, which moves all alike.
    """
    half = _BLOCK // 2
    blocks = list(_blocks((0, len(logs)), half))
    if len(blocks) < _FEWEST_HALVES:
        return 0.0
    parts = [(logs[start:end], float(np.median(logs[start:end]))) for start, end in blocks]
    reach = _CLIPPED_AT * math.sqrt(variance)  # a stall counts little
    means = np.array([float(np.clip(y, middle - reach, middle + reach).mean()) for y, middle in parts])
    steps = means[2:] - means[:-2]
    # 1.4826 MAD is a standard deviation; that of a difference is larger than that of one mean by the root of 2
    deviation = 1.4826 * float(np.median(np.abs(steps - np.median(steps)))) / math.sqrt(2)
    return math.sqrt(max(deviation**2 - variance / half, 0.0))


def without_line(y: FloatArray) -> FloatArray:
    """Return a block (n,) without its line, whose slope is the median slope of all pairs of runs."""
    i, j = np.triu_indices(len(y), 1)
    slope = np.median((y[j] - y[i]) / (j - i))
    left = y - slope * np.arange(len(y))
    return np.asarray(left - np.median(left), dtype=np.float64)


def robust_variance(residuals: FloatArray, freedom: int) -> float:
    """Return the variance of residuals (n,) around 0 with these degrees of freedom; stalls are clipped.

    The standard deviation for clipping is the larger one of two, from the MAD and from the 10-90 % range: with two
    modes the MAD can be 0. For normal values, 1.4826 MAD and range / 2.563 are the standard deviation.
    """
    low, high = np.quantile(residuals, (0.1, 0.9))
    scale = max(1.4826 * float(np.median(np.abs(residuals))), float(high - low) / 2.563)
    # residuals are smaller than the noise, because lines were taken out of it
    reach = _CLIPPED_AT * scale * math.sqrt(len(residuals) / freedom)
    return float(np.square(np.clip(residuals, -reach, reach)).sum()) / freedom


def learned_priors(
    history: StoredHistory,
    wanted: Collection[SeriesName],
    ref: str | None,
    is_judged: Callable[[HistoryRun], bool] = lambda run: False,
    hosts: Collection[str] = (),
    stored: str | None = None,
) -> tuple[CalibratedPrior, ...]:
    """Return the noise of each wanted series that shows one, from the runs of one branch.

    Parameters:
        ref: the branch, as git knows it; None for the branch of most runs.
        is_judged: True for a remembered run that is judged now, on either side; it is left out.
        hosts: the hosts of the runs that are compared; empty if a side does not name its own. If the history knows the
            level of each, the differences between hosts are not noise.
        stored: when the newest run of the baseline was stored, `YYYY-MM-DDTHH:MM:SSZ`; None if that is unknown. The
            wander of the level counts only if the branch has a block of newer runs.
    """
    branch = branch_of(history.runs, ref)
    if branch is None:
        return ()
    usable = usable_runs(history.runs, branch, is_judged)
    is_newer = np.array([stored is not None and run.time > stored for run in history.runs], dtype=bool)
    of_each = [str(run.context.get("host", "")) for run in history.runs]
    found = []
    columns = [column for column in history.series if column.name in wanted and not is_exact(column)]
    for column in columns:
        rows = usable[column.at]
        values, errors, taken = column.values[rows], column.errors[rows], 0
        if hosts and (values > 0).all():
            from perfgate.history.hosts import without_hosts

            logs, taken = without_hosts(np.log(values), [of_each[int(at)] for at in column.at[rows]], hosts)
            values, errors = np.exp(logs), errors * np.exp(logs) / values  # the relative errors stay
        noise = noise_between_runs(values, errors)
        if noise is None:
            continue
        name, prior = (column.name.key, column.name.statistic, column.name.rank), noise.prior
        known = CalibratedPrior(*name, prior.s0, prior.d0, noise.runs, learned_from=branch, hosts=taken)
        if is_newer[column.at][rows].sum() >= _BLOCK:
            known = replace(known, wander=noise.wander)
        found.append(known)
    return tuple(found)


def runs_since(
    history: StoredHistory,
    wanted: Collection[SeriesName],
    ref: str | None,
    time: str,
    is_judged: Callable[[HistoryRun], bool],
    is_measured: Callable[[str], bool],
) -> tuple[RememberedRuns, ...]:
    """Return the runs of the branch that are newer than a time and than the last change point of their series.

    Parameters:
        ref: the branch of the baseline, see `branch_of`.
        time: when the newest run of the baseline was stored, `YYYY-MM-DDTHH:MM:SSZ`.
        is_judged: True for a remembered run that is judged now, on either side.
        is_measured: True for a branch that has the measured commit; called at most once, because git answers it.
    """
    branch = branch_of(history.runs, ref)
    if not branch:
        return ()
    usable = usable_runs(history.runs, branch, is_judged)
    since = np.array([run.time > time for run in history.runs], dtype=bool)
    if not (usable & since).any():
        return ()
    measured = is_measured(branch)
    is_cut = len(history.runs) >= NEWEST_RUNS and bool(since.all())  # runs since `time` may not have been read
    found = []
    columns = [column for column in history.series if column.name in wanted and not is_exact(column)]
    for column in columns:
        rows = np.flatnonzero(usable[column.at])
        values, errors = column.values[rows], column.errors[rows]
        if not len(rows) or values.min() <= 0:
            continue
        points = find_change_points(values, errors=errors)
        # on the measured branch the judge counts blocks of ten from the first run that it gets. Without a change point
        # that is the first run since `time`; if it was not read, the blocks would move with each new run
        if measured and is_cut and not points:
            continue
        first = points[-1].index if points else 0
        kept = first + np.flatnonzero(since[column.at[rows[first:]]])
        if len(kept):
            variances = np.square(np.nan_to_num(errors[kept] / values[kept]))
            labels = tuple(history.runs[at].label for at in column.at[rows[kept]].tolist())
            name = (column.name.key, column.name.statistic, column.name.rank)
            numbers = tuple(values[kept].tolist()), tuple(variances.tolist())
            found.append(RememberedRuns(*name, branch, *numbers, labels, is_measured=measured))
    return tuple(found)
