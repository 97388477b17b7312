"""The measurements of a search, and its prior knowledge: the noise, and stored runs of the ends."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from perfgate.core.remembered_runs import CommitLine
from perfgate.core.run_history import HistorySeries
from perfgate.stats.history import DEFAULT

IntArray = npt.NDArray[np.int64]

#: The session of runs that were stored before the search began.
STORED = -1
#: The runs of an end that are nearest to it count; older ones say little about it.
_MOST_RUNS = 30
#: With fewer runs the noise is not taken from them.
_FEWEST_RUNS = 5
#: The most degrees of freedom of a history: the noise of today may be another one.
_MOST_FREEDOM = 30.0


class Measurement(Struct, frozen=True):
    """One measurement of a position.

    `log_value` is the logarithm of the metric, or of its ratio to position 0 for pairs. `hours` is the time since the
    search began, `session` counts the interruptions before it, and `within` is the variance of `log_value` as estimated
    within the run; 0 if that is unknown. Stored runs of an end are one measurement: the mean of `runs`, in the session
    `STORED`.
    """

    position: int
    log_value: float
    hours: float = 0.0
    session: int = 0
    within: float = 0.0
    runs: int = 1


class Model(Struct, frozen=True):
    """The prior knowledge of a search.

    `positions` is their number n, and `tolerance` the smallest relative change that matters. `s0` is the relative
    standard deviation between runs, with `d0` degrees of freedom. With `paired`, measurements are ratios to position 0,
    so level and drift need not be estimated.
    """

    positions: int
    tolerance: float = 0.02
    s0: float = DEFAULT.s0
    d0: float = DEFAULT.d0
    paired: bool = False
    #: The degrees of freedom of Student's t for one measurement; infinite for a normal distribution.
    tails: float = 10.0
    #: Stored runs of the ends, as far as the machine is the same now; not for pairs.
    stored: tuple[Measurement, ...] = ()


class StoredEnds(Struct, frozen=True):
    """Stored runs at the ends of a range, and their noise: `s0` and `d0` of `Model`, or None if they are too few."""

    levels: tuple[Measurement, ...] = ()
    noise: tuple[float, float] | None = None


def ends_of_history(series: HistorySeries, line: CommitLine, good: str, bad: str, last: int) -> StoredEnds:
    """Return the runs of the good commit's level up to it, and of the bad commit's level from it on.

    Parameters
    ----------
    good, bad : the commits of the ends.
    last : the position of the bad commit in the range.
    """
    first_place, last_place = line.place(good), line.place(bad)
    places = [(i, place) for i, run in enumerate(series.runs) if (place := line.place(run.commit)) is not None]
    before = [] if first_place is None else [i for i, place in places if place <= first_place]
    after = [] if last_place is None else [i for i, place in places if place >= last_place]
    levels = [(start, end) for start, end, _ in series.levels()]
    good_runs = [i for i in before if _same_level(levels, i, before[-1])][-_MOST_RUNS:]
    bad_runs = [i for i in after if _same_level(levels, i, after[0])][:_MOST_RUNS]
    values = series.values.tolist()
    return stored_ends({0: [values[i] for i in good_runs], last: [values[i] for i in bad_runs]})


def stored_ends(values: dict[int, list[float]]) -> StoredEnds:
    """Return stored values of positions as measurements, with the noise around their own means."""
    logs = {place: [math.log(one) for one in ones if one > 0] for place, ones in values.items()}
    levels = tuple(
        Measurement(place, fmean(ones), session=STORED, runs=len(ones)) for place, ones in logs.items() if ones
    )
    squares = sum((one - fmean(ones)) ** 2 for ones in logs.values() for one in ones)
    freedom = sum(len(ones) - 1 for ones in logs.values() if ones)
    is_known = freedom + 1 >= _FEWEST_RUNS and squares > 0
    return StoredEnds(levels, (math.sqrt(squares / freedom), min(freedom, _MOST_FREEDOM)) if is_known else None)


def _same_level(levels: Sequence[tuple[int, int]], one: int, other: int) -> bool:
    return any(start <= one < end and start <= other < end for start, end in levels)
