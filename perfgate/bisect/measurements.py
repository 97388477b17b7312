"""The measurements of a search, and its prior knowledge."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from perfgate.stats.history import DEFAULT

IntArray = npt.NDArray[np.int64]

#: The session of runs that were stored before the search began.
STORED = -1


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
