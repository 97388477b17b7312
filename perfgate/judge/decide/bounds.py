"""The bounds of green and red answers at one look, from the runs of both sides or from pairs.

Green excludes a change of `at_worst`; red proves a change beyond the tolerance. A look is one of the planned numbers of
runs at which growing data are judged. If the noise between runs was not calibrated, both assume much noise, as a prior:
green noise in proportion to `at_worst`, red in proportion to the tolerance. Each has a second, sharp bound that uses
almost only the noise of the runs, for a share of the error rate: quiet machines decide early by it.
"""

from __future__ import annotations

import math
from functools import cached_property
from operator import attrgetter

from msgspec import Struct
from msgspec.structs import replace

from perfgate.core.results import RUNS_THAT_SHOW_NOISE
from perfgate.judge.terms import ChangeTerms
from perfgate.stats.distributions import t_quantile
from perfgate.stats.margin import Margin
from perfgate.stats.moderated import CLIPPED_AT, LogChange, Side, change_of_sides, side_of
from perfgate.stats.paired_t import paired_t
from perfgate.stats.sequential import nominal_levels
from perfgate.stats.statistics import RunMeasure


class _Design(Struct, frozen=True):
    """The noise that green assumes, and how early the looks spend the error rates: total * t^power.

    `green_prior` is a share of `at_worst`, and the number of runs that it counts as. `green_spending` and
    `sharp_spending` are the powers, and t is the share of all information that a look has. All were chosen by
    simulation; the results are on docs/detection.md.
    """

    green_prior: tuple[float, float]
    green_spending: float
    sharp_spending: float


#: Single runs: most unchanged programs need one run, so green spends its error rate early, and red late.
OF_RUNS = _Design((0.31, 2.5), 0.5, 2.0)
#: Pairs have no base runs that show the noise, and up to ten looks; the first three looks should decide clear cases.
_OF_PAIRS = _Design((0.5, 1.5), 0.2, 0.5)
#: The power with which red, with its prior, spends its error rate: late.
_RED_SPENDING = 4.0
#: The noise that red assumes, as a share of the tolerance, and the number of runs that it counts as.
RED_PRIOR = (1.0, 0.5)
#: The error rate of red is this many times 1 - confidence, divided by the degrees of freedom less 1, but at most this
#: share of 1 - confidence: the better the noise is known, the rarer a false alarm is.
_RED_RATE, _MOST_RED = 1.25, 0.4
#: The share of green's error rate for its sharp bound, which has no prior.
_SHARP_GREEN = 0.05
#: The share of 1 - confidence for the sharp bound of red; its prior, like RED_PRIOR; and the degrees of freedom that
#: the runs themselves need to have.
SHARP_RED, SHARP_PRIOR, _SHARP_FREEDOM = 0.4, (0.15, 0.5), 2
#: One new run of unknown noise is red only beyond this change, and with this share of the rate of the sharp bound. No
#: machine that was quiet in three base runs is so much slower in the next by chance.
_GROSS, _GROSS_SHARE = 0.5, 0.1
#: The same for a fall, which is at most 100 %: 1 - 1 / 1.5.
_LARGEST_FALL = 1 / 3
#: Red also assumes noise between runs of this many standard errors within a run, and this is the number of runs that it
#: counts as. On an H100, runs differed by two to four standard errors, whatever limited the step.
_WITHIN_PRIOR = (2.5, 2.0)
#: Base runs further from their median than this many robust standard deviations are clipped. Normal noise of a few
#: runs often reaches 3, and clipping it there makes the noise look smaller than it is.
_CLIPPED_AT = 8.0
#: The smallest noise that a prior assumes, for a tolerance of 0.
_LEAST_NOISE = 0.001


_DISTANCE = attrgetter("distance")


class ComparedRuns(Struct, frozen=True, dict=True):
    """The measured runs of both sides; `ratios` are new / base of each pair, if they were made in pairs."""

    base: tuple[RunMeasure, ...]
    new: tuple[RunMeasure, ...]
    ratios: tuple[RunMeasure, ...] | None = None

    @property
    def freedom(self) -> int:
        """The degrees of freedom of the noise that the runs show; 0 if they show none."""
        return self.freedom_of(len(self.new))

    def freedom_of(self, new_runs: int) -> int:
        """Return the degrees of freedom with this number of new runs, or of pairs."""
        return new_runs - 1 if self.ratios is not None else len(self.base) + new_runs - 2

    def may_fail(self, new_runs: int) -> bool:
        """Return whether this number of new runs, or of pairs, may be red although the noise is not known."""
        return new_runs > 1 or (self.ratios is None and len(self.base) >= RUNS_THAT_SHOW_NOISE)

    @cached_property
    def sides(self) -> tuple[Side, Side]:
        """Each side by itself."""
        return side_of(self.base), side_of(self.new)

    @cached_property
    def within(self) -> float:
        """The mean variance within a run, or within the ratios of a pair."""
        runs = self.ratios or (*self.base, *self.new)
        return sum(run.within_variance or 0.0 for run in runs) / len(runs)

    def change(self, prior: tuple[float, float], clipped_at: float = CLIPPED_AT) -> LogChange:
        """Return the change with the noise of the runs and of a prior (s0, d0)."""
        if self.ratios is not None:
            return paired_t(self.base, self.new, self.ratios, prior)
        return change_of_sides(*self.sides, prior, clipped_at)


class Reach(Struct, frozen=True):
    """A one-sided bound: the change with the noise that it assumes, its error rate, and its distance (ln)."""

    change: LogChange
    error_rate: float
    distance: float

    @classmethod
    def of(cls, change: LogChange, error_rate: float) -> Reach:
        """Return the bound of the t test: t(1 - error rate, degrees of freedom) standard errors."""
        # A change without noise has no degrees of freedom, and does not come here: see `decided_without_noise`.
        quantile = t_quantile(change.degrees_of_freedom or 1.0, 1 - error_rate)
        return cls(change, error_rate, quantile * change.standard_error)


class Bounds(Struct, frozen=True):
    """The bounds of one look.

    `change` is the change with the noise that green assumes. The bound `green` excludes `at_worst`. `interval` is
    shown, and a pass has it within the tolerance. `red` proves a change beyond the tolerance, with the noise that red
    assumes. `no_change` is the p-value at which red excludes "no change", and `excludes_no_change` is True if it does
    so. `sharp` proves a failure alone, without that test; None if the runs are too few. It proves a change beyond the
    tolerance, or if `gross` is set (one new run of unknown noise), only one beyond `gross`. `noise_known` is True if
    the prior is not a guess.
    """

    change: LogChange
    green: Reach
    interval: Reach
    red: Reach
    no_change: float
    excludes_no_change: bool
    sharp: Reach | None = None
    gross: float | None = None
    noise_known: bool = False

    def sharp_edge(self, tolerated: Margin) -> Margin:
        """Return the margin that the sharp bound has to exceed."""
        if self.gross is None:
            return tolerated
        fall = min(self.gross, max(_LARGEST_FALL, tolerated.size))
        size = fall if tolerated.worse == "down" else self.gross
        return Margin.of_ratio(size, tolerated.worse)

    def is_sharp(self, tolerated: Margin) -> bool:
        """Return whether the sharp bound of red proves a failure."""
        if self.sharp is None:
            return False
        d, reach = self.sharp.change.log_change, self.sharp.distance
        return self.sharp_edge(tolerated).compare(d - reach, d + reach) == "fail"

    def not_excluded(self, doubted: Margin) -> tuple[float, float]:
        """Return the smallest and the largest change, in logarithms, that green does not exclude.

        A lucky estimate must not make an answer green: if an estimate of no change would not be green, this one is not.
        A gain beyond the noise is enough by itself.
        """
        green = self.green.distance
        least, most = self.change.log_change - green, self.change.log_change + green
        gained = (doubted.worse == "up" and most < 0) or (doubted.worse == "down" and least > 0)
        if gained or green < doubted.room:
            return least, most
        return min(least, -green), max(most, green)


class _Look(Struct, frozen=True):
    """One of several looks at growing data: `information` is 1 / variance at each look, `number` counts from 0."""

    information: tuple[float, ...]
    number: int

    @classmethod
    def of(cls, runs: ComparedRuns, counts: tuple[int, ...]) -> _Look:
        """Return the look at these runs; `counts` are the numbers of new runs at all looks."""
        per_run = 0.0 if runs.ratios is not None else 1 / len(runs.base)
        return cls(tuple(1 / (per_run + 1 / count) for count in counts), counts.index(len(runs.new)))

    def level(self, total: float, power: float) -> float:
        """Return the error rate of this look, of `total` over all looks."""
        return nominal_levels(self.information, total, power, self.number + 1)[-1]

    def reach(self, change: LogChange, total: float, power: float) -> Reach:
        """Return the one-sided bound of a change at this look."""
        return Reach.of(change, self.level(total, power))


def bounds_of(runs: ComparedRuns, margins: tuple[Margin, Margin], terms: ChangeTerms) -> Bounds:
    """Return the bounds at this look; `margins` are the margin of the tolerance and the margin of `at_worst`."""
    rate = 1 - terms.confidence
    if terms.looks is None:
        change = change_of_sides(*runs.sides, terms.noise)
        reach = Reach.of(change, rate)  # a single comparison has one error rate
        # Its red does not test "no change" (every p-value is at most 1), and its noise counts as known.
        return Bounds(change, reach, reach, reach, 1.0, excludes_no_change=True, noise_known=True)
    design = OF_RUNS if runs.ratios is None else _OF_PAIRS
    if terms.noise_known or terms.exact:  # the prior of exact values is known
        return _of_known_noise(runs, terms, design, rate, _plan(terms.looks, len(runs.new)))
    return _of_unknown_noise(runs, margins, terms, design, rate)


def _of_known_noise(
    runs: ComparedRuns, terms: ChangeTerms, design: _Design, rate: float, counts: tuple[int, ...]
) -> Bounds:
    """Return the bounds with a known prior; `rate` is 1 - confidence, `counts` the runs at all looks."""
    look, noise = _Look.of(runs, counts), terms.noise
    change = runs.change(noise)
    if terms.wander:
        change = change.of_levels(terms.wander)
    green = look.reach(change, rate, design.green_spending)
    level = _level_of_no_change(look, rate, noise[1] + runs.freedom_of(counts[-1]))
    return Bounds(change, green, green, green, level, change.p_no_change(terms.worse) <= level, noise_known=True)


def _of_unknown_noise(
    runs: ComparedRuns, margins: tuple[Margin, Margin], terms: ChangeTerms, design: _Design, rate: float
) -> Bounds:
    """Return the bounds without a known prior. A look that cannot decide anything spends none of the error rate."""
    tolerated, doubted = margins
    counts = _plan(terms.looks or (), len(runs.new))
    if runs.freedom:  # with 0, this look itself would be left out
        counts = tuple(count for count in counts if runs.freedom_of(count))
    look, early = _Look.of(runs, counts), design.green_spending
    change = runs.change(prior_of(design.green_prior, doubted), _CLIPPED_AT)
    green = interval = look.reach(change, (1 - _SHARP_GREEN) * rate, early)
    if runs.freedom > (runs.ratios is not None):  # pairs need two degrees of freedom, other runs one
        plain = runs.change((0.0, 0.0), _CLIPPED_AT)
        # If base runs agree by luck, only the noise within the new runs is left, whose many values do not count.
        plain = replace(plain, degrees_of_freedom=runs.freedom)
        if plain.standard_error > 0:  # equal values do not show that there is no noise
            green = min(green, look.reach(plain, _SHARP_GREEN * rate, early), key=_DISTANCE)
            # The shown interval never reaches beyond the changes that green does not exclude.
            interval = min(green, look.reach(plain, rate, early), key=_DISTANCE)
    alarm = _cautious(runs, prior_of(RED_PRIOR, tolerated))
    # Red has two tests: "no change" at a small rate that is spent late, and the bound `red` at the whole rate.
    level = _level_of_no_change(look, rate, runs.freedom_of(counts[-1]))
    is_change = alarm.p_no_change(terms.worse) <= level
    bounds = Bounds(change, green, interval, look.reach(alarm, rate, early), level, is_change)
    if runs.freedom < _SHARP_FREEDOM:
        return bounds
    sharp, rate = _cautious(runs, prior_of(SHARP_PRIOR, tolerated)), SHARP_RED * rate
    if not runs.may_fail(len(runs.new)):
        return replace(bounds, sharp=Reach.of(sharp, _GROSS_SHARE * rate), gross=max(_GROSS, tolerated.size))
    counts = tuple(count for count in counts if runs.may_fail(count) and runs.freedom_of(count) >= _SHARP_FREEDOM)
    return replace(bounds, sharp=_Look.of(runs, counts).reach(sharp, rate, design.sharp_spending))


def _cautious(runs: ComparedRuns, prior: tuple[float, float]) -> LogChange:
    """Return the change with the prior, or with the prior from the noise within a run if that gives a wider bound."""
    found = runs.change(prior, _CLIPPED_AT)
    if not runs.within:
        return found
    other = runs.change((_WITHIN_PRIOR[0] * math.sqrt(runs.within), _WITHIN_PRIOR[1]), _CLIPPED_AT)
    return max(found, other, key=lambda change: change.detectable(0.99, 0.5))  # the bound at 99 %: t(0.5) is 0


def prior_of(prior: tuple[float, float], margin: Margin) -> tuple[float, float]:
    """Return the prior (s0, d0) from a share of a margin, which may be infinite and counts as at most 1."""
    return max(prior[0] * min(margin.room, 1.0), _LEAST_NOISE), prior[1]


def _level_of_no_change(look: _Look, rate: float, df: float) -> float:
    """Return the p-value with which red excludes "no change"; `df` is that of the last look, as all share one rate."""
    return look.level(rate * min(_MOST_RED, _RED_RATE / max(df - 1, 1)), _RED_SPENDING)


def _plan(looks: tuple[int, ...], new_runs: int) -> tuple[int, ...]:
    """Return the numbers of new runs at all looks; a number that was not planned is the last look."""
    return looks if new_runs in looks else (*(count for count in looks if count < new_runs), new_runs)
