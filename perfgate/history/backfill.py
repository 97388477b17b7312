"""Choose the commits to measure, to find the commit of a change: `perfgate history backfill`.

The change is after the commit of one measured run, up to that of another. At first all commits of this range are
equally likely. Then each run near it counts: it has normal noise around the level before the change, or around the
level after it. A measurement of a commit shows whether the change is in a later commit. So it shows most if the change
is as likely to be in a later commit as not. The commits are ordered by the information (in bits, the entropy) that each
one adds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from perfgate.core.remembered_runs import CommitLine
from perfgate.core.run_history import BackfillCommit, BackfillPlan, HistoryChange, HistorySeries
from perfgate.stats.distributions import FloatArray

#: A run that is further from both levels than this many standard deviations counts as if it had this distance.
_CLIP = 3.0
#: This many runs before and after the range are used to find the change in it.
_NEAR = 20
#: The most commits that are proposed, and the least bits that a proposed one adds.
MOST_COMMITS = 32
_LEAST_BITS = 0.01


def backfill_plan(series: HistorySeries, change: HistoryChange, line: CommitLine) -> BackfillPlan | None:
    """Return the commits to measure for a change; None if git does not know its range, or if this has no commits."""
    commits = line.between(change.last_good.commit, change.first_bad.commit)
    if not commits:
        return None
    places = [line.place(run.commit) for run in series.runs]
    start = line.place(change.last_good.commit)
    assert start is not None
    here = _posterior(series, change, places, start, len(commits))
    before = np.cumsum(here)
    runs = Counter(place for place in places if place is not None)
    # A measurement cuts a part of the range in two. If the change is in this part with probability p, the measurement
    # adds p times the entropy of the cut. The most informative commits come first, without those that add few bits.
    parts, bits = [_cut(before, 0, len(before) - 1)], dict[int, float]()
    while len(bits) < MOST_COMMITS:
        added, at, first, last = parts.pop(parts.index(max(parts)))
        if added < _LEAST_BITS:
            break
        bits[at] = added
        parts += [_cut(before, first, at), _cut(before, at + 1, last)]
    suspects = tuple(
        BackfillCommit(
            commit, before=float(before[i]), here=float(here[i]), bits=bits.get(i, 0.0), runs=runs[start + 1 + i]
        )
        for i, commit in enumerate(commits)
    )
    return BackfillPlan(series, change, suspects, tuple(suspects[i] for i in bits))


def _posterior(
    series: HistorySeries, change: HistoryChange, places: Sequence[int | None], start: int, count: int
) -> FloatArray:
    """Return the probability that the new level begins with a commit, for the `count` commits after place `start`.

    `places`: the place of the commit of each run of the series, or None.
    """
    point = change.point
    first, last = max(point.first - _NEAR, 0), min(point.last + _NEAR, len(series.runs) - 1)
    spread = max(series.noise, 1e-9) * abs(point.before) or 1e-300  # of a run, not relative to the level
    known = [(place, float(series.values[i])) for i in range(first, last + 1) if (place := places[i]) is not None]
    log_likelihood = np.zeros(count)
    for place, value in known:
        old, new = (min(abs(value - level) / spread, _CLIP) ** 2 / 2 for level in (point.before, point.after))
        # A run belongs to the new level if the change is in its commit or before it.
        log_likelihood -= np.where(np.arange(start + 1, start + 1 + count) <= place, new, old)
    weights = np.exp(log_likelihood - log_likelihood.max())
    return np.asarray(weights / weights.sum())


def _cut(before: FloatArray, first: int, last: int) -> tuple[float, int, int, int]:
    """Return the best cut of the commits `first` to `last`: its bits, the commit before it, `first` and `last`.

    `before`: the probability that the change is in a commit or an older one, for each commit.
    """
    start = float(before[first - 1]) if first else 0.0
    mass = float(before[last]) - start  # the probability that the change is in this part
    if last <= first or mass <= 0:
        return 0.0, first, first, last
    share = np.clip((before[first:last] - start) / mass, 1e-12, 1 - 1e-12)
    entropy = -(share * np.log2(share) + (1 - share) * np.log2(1 - share))
    best = int(entropy.argmax())
    return mass * float(entropy[best]), first + best, first, last
