"""Doubts about the start of runs: much more warm-up than in any base run, or a dropped slow quarter.

A run whose warm-up does not end loses its first quarter, which may hide a change of the program. Measured on unchanged
runs (twelve sources of noise; 20, 100 and 400 steps; 1, 3 and 5 base runs): at most 0.5 % are suspect. A first quarter
at twice the time is found in nearly all runs whose own stalls are shorter than that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct

from perfgate.core import Series
from perfgate.core.results import Doubt
from perfgate.judge.derived import WarmUpCost, warmup_cost
from perfgate.judge.measure import BETTER_BY_UNIT, Members, Method
from perfgate.judge.question import MeasuredSide
from perfgate.judge.terms import ChangeTerms, LimitTerms
from perfgate.stats.distributions import FloatArray
from perfgate.stats.steady import WarmUpRule, median, slow_start, steady_run

#: A shorter warm-up is not doubted: the first steps compile and fill caches, for a time that varies.
FEWEST_STEPS = 5
#: With fewer pairs the start is not doubted: a burst at one start would make up to 12 % of unchanged pairs suspect.
FEWEST_PAIRS = 3
#: A warm-up has grown if it is this many times slower than any stretch of the same length, on both sides ...
TIMES_MORE = 3.0
#: ... and costs more than this share of the steady steps of its run.
LEAST_SHARE = 0.1
#: The statistics that do not see a slow start of less than half of the values.
_BLIND = ("median", "p50")


class _Start(Struct, frozen=True):
    """The start of a run: `relative` is the time of each step over that of a steady step, `dropped` the warm-up steps.

    Three quarters of the warm-up steps are slower than a steady step by `slowdown` or more: a few stalls do not count.
    """

    series: Series
    relative: FloatArray
    dropped: int
    slowdown: float

    @property
    def cost(self) -> float:
        """The number of steady steps that would fit into the additional time of the warm-up."""
        return self.slowdown * self.dropped


def start_doubts(new: Sequence[Members], base: Sequence[Members], method: Method, *, hides: bool) -> Iterator[Doubt]:
    """Yield the doubts about the start of the new runs; under `auto`, `max`, `total` and `count` drop no values.

    `hides`: a dropped slow quarter may change the answer. It decides if half of the new runs and no base run have it.
    """
    if _may_be_long(new, method):
        yield from _grown_warmup(new, base, method)
    slow_runs = []
    for run in new:
        quarters = [(len(series.values), _slow_quarter(series, method)) for series in run.values()]
        if slow := [(count, length) for count, length in quarters if length]:
            slow_runs.append(max(slow))
    if slow_runs:
        count, length = max(slow_runs)
        is_usual = any(_starts_slowly(series, method) for run in base for series in run.values())
        decides = hides and length >= FEWEST_STEPS and 2 * len(slow_runs) >= len(new) and not is_usual
        yield Doubt("warm-up", "quarter", count, length, decides=decides, of=_whose(method.warmup))


def mean_doubts(base: MeasuredSide, new: MeasuredSide, terms: ChangeTerms) -> Iterator[Doubt]:
    """Yield a doubt about a median if the mean of all values is smaller or larger than that of every base run.

    Values that a rule names as warm-up, and those of stalled steps (`Series.settled`), are left out. `decide/change.py`
    keeps the doubt if the mean is beyond the tolerance although the median is not.
    """
    sides = [
        [_after_named(one.settled, terms.warmup) for one in side.series if one.kind == "samples"]
        for side in (base, new)
    ]
    length = min((len(values) for side in sides for values in side), default=0)
    if terms.statistic not in _BLIND or not all(sides) or not length:
        return
    stored, found = (_means(side, length) for side in sides)  # of equal lengths: warm-up is a small share of a long run
    before, now = sum(stored) / len(stored), sum(found) / len(found)
    if before > 0 and now > 0 and not min(stored) <= now <= max(stored):
        yield Doubt("mean-moved", "mean", before, now, decides=False, of=_whose(terms.warmup))


@np.errstate(all="ignore")
def _means(side: Sequence[FloatArray], length: int) -> list[float]:
    return [float(values[:length].mean()) for values in side]


@np.errstate(all="ignore")
def breaks_with_start(new: MeasuredSide, terms: LimitTerms) -> bool:
    """Return whether the mean of a run, of the values that `mean_doubts` uses, is on the bad side of a limit."""
    sides = (_after_named(one.settled, terms.warmup) for one in new.series)
    return any(terms.is_bad(float(values.mean())) for values in sides if len(values))


def _after_named(values: FloatArray, warmup: WarmUpRule) -> FloatArray:
    """Return the values without those that a rule names as warm-up."""
    return values if warmup == "auto" else values[warmup:]


def _whose(warmup: WarmUpRule) -> str:
    """Return `rule` if the rule names the warm-up, as the field `of` of a doubt has it."""
    return "" if warmup == "auto" else "rule"


def _may_be_long(new: Sequence[Members], method: Method) -> bool:
    """Return whether a start may be slow, by a quick test without the base runs; `_has_grown` asks for more."""
    for series in (series for run in new for series in run.values() if len(series.values)):
        run = method.steady(series)
        if run.dropped >= FEWEST_STEPS:
            usual = median(run.values)
            longer = run.dropped * abs(median(series.values[: run.dropped]) - usual)
            if longer > LEAST_SHARE / 2 * len(run.values) * abs(usual):
                return True
    return False


def _slow_quarter(series: Series, method: Method) -> int:
    """Return the length of a start with a slow quarter; 0 if there is none. To drop one value is usual.

    That quarter was dropped by the rule `auto`, or follows a warm-up that the rule names, where a median ignores it.
    """
    if not len(series.values):
        return 0
    run = method.steady(series)
    if method.warmup == "auto":
        return run.dropped if 1 < run.dropped == len(series.values) // 4 else 0
    if method.statistic not in _BLIND or series.stalled is not None:
        return 0
    rest = steady_run(run.values, "auto", method.better)
    return run.dropped + rest.dropped if 1 < rest.dropped == len(run.values) // 4 else 0


def _starts_slowly(series: Series, method: Method) -> bool:
    """Return whether a stored series has a slow quarter at its start, too."""
    if series.kind != "samples":
        return series.summary is not None and series.summary.dropped == series.summary.n // 4
    return _slow_quarter(series, method) > 0


def _grown_warmup(new: Sequence[Members], base: Sequence[Members], method: Method) -> Iterator[Doubt]:
    """Yield the doubt about new runs with much more warm-up than any base run, if they have it."""
    grown = _grown(new, base, method)
    if grown is not None:
        now, before = grown
        if now.seconds is not None and before.seconds is not None:
            yield Doubt("warm-up", "warm-up time", before.seconds, now.seconds, decides=True)
        else:
            yield Doubt("warm-up", "warm-up steps", before.steps, now.steps, decides=True)


def _grown(new: Sequence[Members], base: Sequence[Members], method: Method) -> tuple[WarmUpCost, WarmUpCost] | None:
    """Return the warm-up of the new runs, and the largest one of the base runs; None if it did not grow.

    Of several new runs the middle one decides (of two the worse), so that one disturbed start of three does not count.
    """
    starts = sorted((start for run in new if (start := _worst(run, method))), key=lambda start: start.cost)
    stored = [start for run in base if (start := _worst(run, method))]
    if not starts or not stored:
        return None
    middle = starts[len(starts) // 2]
    if not _has_grown(middle, stored):
        return None
    before = [cost for start in stored if (cost := warmup_cost(start.series, method))]
    now = warmup_cost(middle.series, method)
    return (now, max(before, key=lambda cost: (cost.seconds or 0.0, cost.steps))) if now and before else None


def _has_grown(new: _Start, base: Sequence[_Start]) -> bool:
    """Return whether a warm-up is long, costs much, and is much slower than any stretch of steps on both sides."""
    if new.dropped < FEWEST_STEPS or not new.cost > LEAST_SHARE * (len(new.relative) - new.dropped):
        return False
    stretches = (new.relative[new.dropped :], *(start.relative for start in base))
    slowest = max(_slowest_stretch(one, new.dropped) for one in stretches)
    return new.slowdown > TIMES_MORE * (slowest - 1) and all(new.cost > TIMES_MORE * start.cost for start in base)


def _slowest_stretch(relative: FloatArray, length: int) -> float:
    """Return the largest median of the stretches of this length; 1 if the run is shorter."""
    count = len(relative) // length
    if not count:
        return 1.0
    return float(np.median(relative[: count * length].reshape(count, length), axis=1).max())


def _worst(members: Members, method: Method) -> _Start | None:
    """Return the start of the rank with the most costly warm-up of a run; None if no rank has one."""
    found = [start for series in members.values() if (start := _start(series, method)) is not None]
    return max(found, key=lambda start: start.cost, default=None)


@np.errstate(all="ignore")
def _start(series: Series, method: Method) -> _Start | None:
    """Return the start of a series of times, rates, energies or counts; None for others, and without a steady step."""
    if warmup_cost(series, method) is None:
        return None
    steady = method.steady(series)
    # If a run did not settle in its first quarter, its start is longer than the dropped quarter.
    dropped = steady.dropped if steady.settled else slow_start(series.values, method.better_value or method.better)
    times = 1 / series.values if BETTER_BY_UNIT[series.unit] == "higher" else series.values  # of rates, their inverse
    usual = float(np.median(times[dropped:])) if len(times) > dropped else 0.0
    if not 0 < usual < np.inf:
        return None
    slowdown = float(np.quantile(times[:dropped], 0.25)) / usual - 1 if dropped else 0.0
    return _Start(series, times / usual, dropped, max(slowdown, 0.0))
