"""One run as one number: its statistic, and how far that number can be trusted."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from perfgate.core import Better
from perfgate.stats.statistics import Count, Statistic, parse_statistic
from perfgate.stats.warmup import RunValues, SteadyRun, WarmUpRule, steady_run

#: A variance of a logarithm beyond this says that there is no usable logarithm (and its square would
#: overflow).
_LARGEST_LOG_VARIANCE = 1e100


@dataclass(frozen=True, slots=True)
class RunMeasure:
    """A run seen through one statistic.

    `value` is in the unit of the values, or None: where no value is left after warm-up, or (n > 0) where one
    is no finite number. `n` values are left after warm-up, as good as `n_effective` independent ones (None
    for a run that is a single number: how it was made is unknown). `within_variance` is the variance of the
    logarithm of the value that the inside of the run shows, resolution of the clock included; 0 for a single
    number, None where there is no logarithm. `dropped` values were warm-up; `settled` says whether it ended.
    """

    value: float | None
    n: int
    n_effective: float | None
    within_variance: float | None
    dropped: int
    settled: bool

    @property
    def single(self) -> bool:
        """Whether the run is known by a single number, not by samples."""
        return self.value is not None and self.n_effective is None


def measure_run(
    values: RunValues, statistic: str = "median", warmup: WarmUpRule = "auto", better: Better = "lower"
) -> RunMeasure:
    """Drop the warm-up of a run and measure the rest.

    `values` is a sequence of numbers in order of time, or a single number. Raises ValueError for an unknown
    statistic, warm-up or direction; never for what the values are.
    """
    return describe(steady_run(values, warmup, better), parse_statistic(statistic))


@np.errstate(all="ignore")
def describe(run: SteadyRun, statistic: Statistic) -> RunMeasure:
    """Measure a run whose warm-up is gone: `measure_run` for several statistics of one run."""
    n, rest = len(run.values), (run.dropped, run.settled)
    if n == 0 or not run.finite:
        return RunMeasure(None, n, None, None, *rest)
    if run.single:
        return RunMeasure(float(run.values[0]), 1, None, 0.0, *rest)
    found = statistic.estimate(run.values)
    if not math.isfinite(found.value):  # a sum beyond the largest float, or a ratio to 0
        return RunMeasure(None, n, None, None, *rest)
    clock = 0.0 if isinstance(statistic, Count) else run.clock_variance
    return RunMeasure(found.value, n, found.n_effective, _usable(found.log_variance, clock), *rest)


def _usable(log_variance: float | None, clock: float) -> float | None:
    """Both variances together, or None where there is no logarithm to speak of."""
    if log_variance is None or not log_variance + clock < _LARGEST_LOG_VARIANCE:
        return None
    return log_variance + clock
