"""Choose the commits to measure, so that a change of a metric has one commit: `perfgate history backfill`.

The change lies between two measured runs; each commit between them is as likely as another. The likelihood of each
pair of runs is that of a step there: normal noise around the levels before and after. A measurement of a commit shows
whether the change came later. So a commit shows most if the change is as likely up to it as after it, and the commits
are ordered by the entropy that each adds to those before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from perfgate.core.remembered_runs import CommitLine
from perfgate.core.run_history import BackfillCommit, BackfillPlan, HistoryChange, HistorySeries
from perfgate.stats.distributions import FloatArray

#: A run further from both levels than this many standard deviations counts as one at this distance.
_CLIP = 3.0
#: Runs within this distance of the range show where in it the change is.
_NEAR = 20
#: The most commits that are proposed, and the least bits that a proposed one adds.
MOST_COMMITS = 32
_LEAST_BITS = 0.01


def backfill_plan(series: HistorySeries, change: HistoryChange, line: CommitLine) -> BackfillPlan | None:
    """Return what to measure for a change; None if git does not know its range, or if it has no commits."""
    commits = line.between(change.last_good.commit, change.first_bad.commit)
    if not commits:
        return None
    places = [line.place(run.commit) for run in series.runs]
    start = line.place(change.last_good.commit)
    assert start is not None
    here = _posterior(series, change, places, start, len(commits))
    before = np.cumsum(here)
    runs = Counter(place for place in places if place is not None)
    # A measurement cuts the part that the change is in; a part of probability p that is cut in two adds p times the
    # entropy of the cut. The most informative commits come first, without those that add few bits.
    parts, bits = [_cut(before, 0, len(before) - 1)], dict[int, float]()
    while len(bits) < MOST_COMMITS:
        added, at, first, last = parts.pop(parts.index(max(parts)))
        if added < _LEAST_BITS:
            break
        bits[at] = added
        parts += [_cut(before, first, at), _cut(before, at + 1, last)]
    suspects = tuple(
        BackfillCommit(commit, float(before[i]), float(here[i]), bits.get(i, 0.0), runs[start + 1 + i])
        for i, commit in enumerate(commits)
    )
    return BackfillPlan(series, change, suspects, tuple(suspects[i] for i in bits))


def _posterior(
    series: HistorySeries, change: HistoryChange, places: Sequence[int | None], start: int, count: int
) -> FloatArray:
    """Return the probability of each commit after `start`, (count,): that the new level begins with it."""
    point = change.point
    first, last = max(point.first - _NEAR, 0), min(point.last + _NEAR, len(series.runs) - 1)
    spread = max(series.noise, 1e-9) * abs(point.before) or 1e-300
    known = [(place, float(series.values[i])) for i in range(first, last + 1) if (place := places[i]) is not None]
    log_likelihood = np.zeros(count)
    for place, value in known:
        old, new = (min(abs(value - level) / spread, _CLIP) ** 2 / 2 for level in (point.before, point.after))
        # A run belongs to the new level if the change is in its commit or before it.
        log_likelihood -= np.where(np.arange(start + 1, start + 1 + count) <= place, new, old)
    weights = np.exp(log_likelihood - log_likelihood.max())
    return np.asarray(weights / weights.sum())


def _cut(before: FloatArray, first: int, last: int) -> tuple[float, int, int, int]:
    """Return the bits of the best cut of the commits `first` to `last`, the commit before it, `first` and `last`."""
    start = float(before[first - 1]) if first else 0.0
    mass = float(before[last]) - start
    if last <= first or mass <= 0:
        return 0.0, first, first, last
    share = np.clip((before[first:last] - start) / mass, 1e-12, 1 - 1e-12)
    entropy = -(share * np.log2(share) + (1 - share) * np.log2(1 - share))
    best = int(entropy.argmax())
    return mass * float(entropy[best]), first + best, first, last
