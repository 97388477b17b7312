"""A change between the runs of two sides: the moderated t on the logarithms of the run statistics.

The sample is the runs, not the steps, because the steps of one run share clocks, placement and neighbours. A few runs
give a poor estimate of the noise between runs, so a prior counts as a few more runs: Smyth, "Linear models and
empirical Bayes methods" (2004). If the noise within the new runs is larger than within the base runs, the difference
is added, with the degrees of freedom of Welch and Satterthwaite.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from statistics import median
from typing import Literal, TypeAlias

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from perfgate.stats.distributions import FloatArray, f_tail, t_quantile, t_tail
from perfgate.stats.statistics import RunMeasure

#: Runs disagree if the p-value of either of two tests is below this: chance rarely makes them differ so much.
DISAGREEMENT = 0.0025
#: The largest noise between runs of one program that is expected without evidence. A crowded CI machine has 2.6 %.
MOST_NOISE = 0.1
#: More new runs than this are not suggested.
MOST_RUNS = 20
#: Base runs further from their median than this many robust standard deviations are moved to this distance.
CLIPPED_AT = 3.0
#: The p-value below which the runs contradict the noise that the history shows. It is not 1 %, because to believe a
#: noise that is too low breaks the promise of exit 0, and to reject the right noise only costs another run.
CONTRADICTED = 0.05


class RunNoise(Struct, frozen=True):
    """The noise of one run, estimated from `base_runs` runs and a prior that counts as `prior_runs` runs.

    `variance` is the variance of the logarithm of the run's statistic. `within` is its part from within the run, which
    longer runs make smaller. `shared` is a variance of the difference of the sides, and more runs do not make it
    smaller.

    The difference between m new runs and the base runs is a t variable around the true change, with d0 + K - 1 degrees
    of freedom or more, because the posterior of the variance is a scaled inverse chi-square (Smyth 2004). This is exact
    for one new run, and a good approximation for several.
    """

    variance: float
    within: float
    base_runs: int
    prior_runs: float
    shared: float = 0.0

    def reach(self, new_runs: int, confidence: float, power: float) -> float:
        """Return how far ln(new / base) must be beyond a margin for `new_runs` to detect it with this power."""
        df = self.prior_runs + self.base_runs + new_runs - 2
        standard_error = math.sqrt(self.variance * (1 / self.base_runs + 1 / new_runs) + self.shared)
        return (t_quantile(df, confidence) + t_quantile(df, power)) * standard_error

    def runs_needed(self, margin: float, confidence: float, power: float) -> int | None:
        """Return the fewest new runs that pass an unchanged program with this power; None beyond `MOST_RUNS`."""
        # a pass has to show that 0 is inside of the margin
        enough = (runs for runs in range(1, MOST_RUNS + 1) if self.reach(runs, confidence, power) <= margin)
        return next(enough, None)

    def of_longer_runs(self, times: float) -> RunNoise:
        """Return the noise if all runs, base runs included, have `times` as many steps: only `within` shrinks."""
        within = self.within / times
        return replace(self, variance=self.variance - self.within + within, within=within)

    def of_base_runs(self, base_runs: int) -> RunNoise:
        """Return the same noise with another number of base runs."""
        return replace(self, base_runs=base_runs)


WorseSide: TypeAlias = Literal["up", "down", "either"]


class LogChange(Struct, frozen=True):
    """ln(new / base) with its uncertainty.

    `base_value` and `new_value` are the geometric means, in the unit of the values. `run_variance` is the variance of
    one run, estimated from `base_runs` runs and a prior of `prior_runs` runs. `shared` is the part of the squared
    standard error that more runs do not make smaller. A change without noise has the `standard_error` 0 and no
    `degrees_of_freedom`.
    """

    base_value: float
    new_value: float
    log_change: float
    standard_error: float
    degrees_of_freedom: float | None
    run_variance: float
    base_runs: int
    prior_runs: float
    shared: float = 0.0

    def of_levels(self, wander: float) -> LogChange:
        """Return the change if the level of each side has this standard deviation, beside the noise of its runs."""
        shared = 2 * wander**2
        return replace(self, standard_error=math.sqrt(self.standard_error**2 + shared), shared=shared)

    def bounds(self, confidence: float) -> tuple[float, float]:
        """Return the lower and the upper one-sided bound of the logarithm, each at this confidence."""
        margin = t_quantile(self.degrees_of_freedom or 1.0, confidence) * self.standard_error
        return self.log_change - margin, self.log_change + margin

    def p_no_change(self, side: WorseSide) -> float:
        """Return the one-sided p-value: the probability of a change at least this large if nothing changed.

        For "either", it is the tail on the side of the change.
        """
        d = {"up": self.log_change, "down": -self.log_change, "either": abs(self.log_change)}[side]
        if self.degrees_of_freedom is None:
            return 0.0 if d > 0 else 1.0
        return t_tail(self.degrees_of_freedom, d / self.standard_error)

    def detectable(self, confidence: float, power: float) -> float:
        """Return how far the true logarithm must be beyond a bound to be detected with this power."""
        df = self.degrees_of_freedom or 1.0  # without noise the standard error is 0, whatever t is
        return (t_quantile(df, confidence) + t_quantile(df, power)) * self.standard_error

    def runs_needed(self, margin: float, confidence: float, power: float) -> int | None:
        """Return the fewest new runs that pass an unchanged program with this power.

        None beyond `MOST_RUNS`, and for a change without noise.
        """
        if self.degrees_of_freedom is None:
            return None
        noise = RunNoise(self.run_variance, 0.0, self.base_runs, self.prior_runs, self.shared)
        return noise.runs_needed(margin, confidence, power)


def moderated_t(base: Sequence[RunMeasure], new: Sequence[RunMeasure], prior: tuple[float, float]) -> LogChange:
    """Return the change from K >= 1 base runs to m >= 1 new runs, all with a logarithm (see `has_logarithm`).

    `prior` is (s0, d0): a relative standard deviation between runs, and its prior degrees of freedom. A prior of no
    degrees of freedom needs at least three runs. Four or more base runs are clipped at CLIPPED_AT robust standard
    deviations.
    """
    return change_of_sides(side_of(tuple(base)), side_of(tuple(new)), prior)


def change_of_sides(base: Side, side: Side, prior: tuple[float, float], clipped_at: float = CLIPPED_AT) -> LogChange:
    """Return the change from `base` to the new runs of `side`, as `moderated_t` does.

    For sides that are compared with several priors, or clipped otherwise.
    """
    k, m, d0 = len(base.logs), len(side.logs), prior[1]
    centre, base_squares, within, prior_squares = _base_noise(base, prior, clipped_at)
    run_df = d0 + k + m - 2
    run_variance = (prior_squares + (base_squares + side.squares)) / run_df
    between = run_variance * (1 / k + 1 / m)
    # The noise within the new runs beyond that of the base runs, with the freedom of Welch and Satterthwaite.
    excess = max(side.within - within, 0.0) / m
    excess_df = max(side.values - 1, 1.0)
    share = between / (between + excess) if between else 0.0
    df = 1 / (share**2 / run_df + (1 - share) ** 2 / excess_df)
    standard_error = math.sqrt(between + excess)
    base_value = base.value if centre == base.centre else exp_within(centre, base.least, base.most)
    return LogChange(base_value, side.value, side.centre - centre, standard_error, df, run_variance, k, d0)


@np.errstate(all="ignore")
def run_noise(base: Sequence[RunMeasure], prior: tuple[float, float]) -> tuple[float, RunNoise]:
    """Return the mean logarithm of K >= 1 base runs, and the noise of the next run.

    All runs have a logarithm. The results are those of `moderated_t` with one new run.
    """
    centre, squares, within, prior_squares = _base_noise(side_of(tuple(base)), prior)
    variance = (prior_squares + squares) / (prior[1] + len(base) - 1)
    # By chance, runs may differ less than the noise within them suggests.
    return centre, RunNoise(variance, min(within, variance), len(base), prior[1])


def _base_noise(
    side: Side, prior: tuple[float, float], clipped_at: float = CLIPPED_AT
) -> tuple[float, float, float, float]:
    """Return the mean logarithm, the sum of squares around it, the variance within a run, and the squares of the prior.

    Outliers are clipped if there are 4 runs or more. A single bad run in the baseline must not shift the centre, and
    must not make the interval so wide that no change is detected.
    """
    s0, d0 = prior
    expected = s0 * s0 + side.within
    reach = clipped_at * max(1.4826 * side.deviation, math.sqrt(expected))
    low, high = side.middle - reach, side.middle + reach
    if len(side.logs) < 4 or (side.logs[0] >= low and side.logs[-1] <= high):
        return side.centre, side.squares, side.within, d0 * expected
    centre, squares = _centred([min(max(log, low), high) for log in side.logs])
    return centre, squares, side.within, d0 * expected


class Side(Struct, frozen=True):
    """The numbers of K >= 1 runs of one side that do not depend on a prior.

    `logs` are the logarithms of the values of the runs, ascending. `centre` is the mean of `logs`, `value` is
    exp(centre), `squares` the sum of squares around `centre`, `middle` the median, and `deviation` the median absolute
    deviation. `within` is the mean variance within a run, and `values` the mean number of values in a run. `least` and
    `most` are the extreme values.
    """

    logs: tuple[float, ...]
    centre: float
    squares: float
    middle: float
    deviation: float
    within: float
    values: float
    value: float
    least: float
    most: float


@lru_cache(maxsize=64)
@np.errstate(all="ignore")
def side_of(runs: tuple[RunMeasure, ...]) -> Side:
    """Return these numbers of runs that all have a logarithm."""
    logs: list[float] = sorted(logs_of(runs).tolist())  # numpy takes ten times as long for a few numbers
    middle = median(logs)
    deviation = median(abs(log - middle) for log in logs)
    within = sum(run.within_variance or 0.0 for run in runs) / len(runs)
    values = sum(run.n for run in runs) / len(runs)
    centre, squares = _centred(logs)
    found = [run.value for run in runs if run.value is not None]
    least, most = min(found), max(found)
    value = exp_within(centre, least, most)
    return Side(tuple(logs), centre, squares, middle, deviation, within, values, value, least, most)


def _centred(logs: Sequence[float]) -> tuple[float, float]:
    """Return the mean and the sum of squares around it. Both are exact sums, whatever the order."""
    centre = math.fsum(logs) / len(logs)
    return centre, math.fsum((log - centre) ** 2 for log in logs)


def runs_disagree(
    runs: Sequence[RunMeasure], others: Sequence[RunMeasure], prior: tuple[float, float], *, calibrated: bool
) -> bool:
    """Return whether m >= 2 runs of one program differ more than noise explains; all have a logarithm.

    The variance between the runs is tested twice, each time at 0.25 %. The first test (F test) compares it with the
    variance between the `others`. A prior that is not calibrated is a guess: it adds its squares and no degrees of
    freedom, so that a true noise far above the guess gives no false alarm. The second test compares it with
    `MOST_NOISE`, or with the variance that the others and the prior show if that is larger, because two or three other
    runs may be too few for the first test. The variance within the runs, of the noisier side, counts as noise.
    """
    s0, d0 = prior
    within = max(sum(run.within_variance or 0.0 for run in side) / max(len(side), 1) for side in (runs, others))
    freedom = len(runs) - 1
    variance = float(logs_of(runs).var(ddof=1))
    squares, others_freedom = (float(logs_of(others).var()) * len(others), len(others) - 1) if others else (0.0, 0)
    known = others_freedom + (d0 if calibrated else 0.0)
    chance, most = 1.0, MOST_NOISE**2 + within
    if known:
        # the prior counts here in any case, so a guess makes the expected variance only larger
        expected = (squares + d0 * (s0**2 + within)) / known
        chance, most = f_tail(freedom, known, variance / expected), max(most, expected)
    return min(chance, f_tail(freedom, math.inf, variance / most)) < DISAGREEMENT


def runs_contradict(sides: Iterable[Sequence[RunMeasure]], prior: tuple[float, float]) -> bool:
    """Return whether the runs within each side differ by more than a prior (s0, d0) from a history says: an F test.

    The machine of today may be noisier than the machines that the history remembers.
    """
    squares, freedom, within = 0.0, 0, []
    for measures in sides:
        if len(measures) > 1 and all(map(has_logarithm, measures)):
            logs = logs_of(measures)
            squares += float(np.square(logs - logs.mean()).sum())
            freedom += len(logs) - 1
            within += [run.within_variance or 0.0 for run in measures]
    if not freedom:
        return False
    expected = prior[0] ** 2 + sum(within) / len(within)
    return f_tail(freedom, prior[1], squares / freedom / expected) < CONTRADICTED


def exact_change(base_value: float, new_value: float, base_runs: int, prior: tuple[float, float]) -> LogChange:
    """Return the change between two positive values without noise."""
    d = math.log(new_value) - math.log(base_value)
    return LogChange(base_value, new_value, d, 0.0, None, 0.0, base_runs, prior[1])


def has_logarithm(run: RunMeasure) -> bool:
    """Return whether the run has a positive, finite value and a variance of its logarithm."""
    return run.value is not None and 0 < run.value < math.inf and run.within_variance is not None


def logs_of(runs: Sequence[RunMeasure]) -> FloatArray:
    """Return the logarithms of the values of runs that have one."""
    return np.log([run.value for run in runs if run.value is not None])


def exp_within(mean_log: float, least: float, most: float) -> float:
    """Return exp(mean_log), clipped to the range of the values, so that rounding does not change a single run."""
    return min(max(float(np.exp(mean_log)), least), most)
