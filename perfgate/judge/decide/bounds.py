"""The bounds of green and red answers at one look, from the runs of both sides.

If the noise between runs was not calibrated, each answer assumes what is worse for it: green never takes the noise to
be much smaller than `at_worst` suggests, red never to be much smaller than the tolerance.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from perfgate.core.results import RUNS_FOR_A_PROMISE
from perfgate.judge.question import ChangeTerms
from perfgate.stats.distributions import t_quantile
from perfgate.stats.margin import Margin
from perfgate.stats.moderated import LogChange, WorseSide, moderated_t
from perfgate.stats.paired_t import paired_t
from perfgate.stats.sequential import nominal_levels
from perfgate.stats.statistics import RunMeasure

#: Green spends its rate early (total * sqrt(t)), so that most unchanged programs need one run; red spends it late.
_GREEN_SPENDING, _RED_SPENDING = 0.5, 4.0
#: The noise that green assumes before it has seen any: this share of at_worst, counted as this many runs.
GREEN_PRIOR = (0.31, 2.5)
#: The noise that red assumes: the tolerance, counted as half a run.
RED_PRIOR = (1.0, 0.5)
#: Of the error rate of green, the share of a bound without any prior. It lets quiet machines pass early.
_PLAIN_SHARE = 0.1
#: The error rate of red is this many times 1 - confidence, divided by the degrees of freedom, and at most this share.
_RED_RATE, _MOST_RED = 1.25, 0.4
#: Base runs further from their median than this many robust standard deviations are clipped. Normal noise of a few
#: runs often reaches 3, and clipping it there makes the noise look smaller than it is.
_CLIPPED_AT = 8.0
#: The smallest noise that a prior assumes, for a tolerance of 0.
_LEAST_NOISE = 0.001


class ComparedRuns(Struct, frozen=True):
    """The measured runs of both sides; `ratios` are new / base of each pair, if they were made in pairs."""

    base: tuple[RunMeasure, ...]
    new: tuple[RunMeasure, ...]
    ratios: tuple[RunMeasure, ...] | None = None

    @property
    def count(self) -> int:
        """The number of runs of both sides."""
        return len(self.base) + len(self.new)


class Bounds(Struct, frozen=True):
    """The distance of each bound from the estimate, in logarithms.

    `change` has the noise that green assumes, `alarm` the noise that red assumes. `interval` is half of the shown
    interval, from the runs alone. `noise_known`: the prior is not a guess.
    """

    change: LogChange
    alarm: LogChange
    green: float
    interval: float
    red: float
    excludes_no_change: bool
    noise_known: bool = False


class _Look(Struct, frozen=True):
    """One of several looks at growing data; `information` is that of all looks, `number` counts from 0."""

    information: tuple[float, ...]
    number: int

    @classmethod
    def of(cls, runs: ComparedRuns, counts: tuple[int, ...]) -> _Look:
        """The look at these runs; `counts` are the numbers of new runs at all looks."""
        per_run = 0.0 if runs.ratios is not None else 1 / len(runs.base)
        return cls(tuple(1 / (per_run + 1 / count) for count in counts), counts.index(len(runs.new)))

    def level(self, total: float, power: float) -> float:
        """The error rate of this look, of `total` over all looks."""
        return nominal_levels(self.information, total, power, self.number + 1)[-1]

    def reach(self, change: LogChange, total: float) -> float:
        """The distance of a one-sided bound from the estimate."""
        level = self.level(total, _GREEN_SPENDING)
        return t_quantile(change.degrees_of_freedom or 1.0, 1 - level) * change.standard_error


def bounds_of(runs: ComparedRuns, margins: tuple[Margin, Margin], terms: ChangeTerms) -> Bounds:
    """Return the bounds at this look; `margins` are those of the tolerance and of `at_worst`."""
    rate = 1 - terms.confidence
    if terms.looks is None:
        return _of_one_comparison(runs, terms)
    if terms.noise_known or terms.exact or runs.ratios is not None:  # the prior of exact values and of pairs is known
        return _of_known_noise(runs, terms.noise, terms.worse, rate, terms.looks)
    return _of_unknown_noise(runs, margins, terms.worse, rate, terms.looks)


def _of_one_comparison(runs: ComparedRuns, terms: ChangeTerms) -> Bounds:
    """Return the interval of the t test as each bound: a single comparison has one error rate."""
    change = moderated_t(runs.base, runs.new, terms.noise)
    reach = t_quantile(change.degrees_of_freedom or 1.0, terms.confidence) * change.standard_error
    return Bounds(change, change, reach, reach, reach, excludes_no_change=True, noise_known=True)


def _of_known_noise(
    runs: ComparedRuns, noise: tuple[float, float], worse: WorseSide, rate: float, looks: tuple[int, ...]
) -> Bounds:
    """Return the bounds with a known prior `noise` (s0, d0); `rate` is 1 - confidence."""
    counts = _plan(looks, len(runs.new))
    look = _Look.of(runs, counts)
    if runs.ratios is None:
        change: LogChange = moderated_t(runs.base, runs.new, noise)
    else:
        change = paired_t(runs.base, runs.new, runs.ratios, noise)
    df = noise[1] + len(runs.base) + counts[-1] - 2
    green = look.reach(change, rate)
    excludes = _excludes_no_change(change, worse, look, rate, df)
    return Bounds(change, change, green, green, green, excludes, noise_known=True)


def _of_unknown_noise(
    runs: ComparedRuns, margins: tuple[Margin, Margin], worse: WorseSide, rate: float, looks: tuple[int, ...]
) -> Bounds:
    """Return the bounds without a known prior."""
    tolerated, doubted = margins
    counts = _plan(looks, len(runs.new))
    if runs.count >= RUNS_FOR_A_PROMISE:  # a look that can promise nothing spends nothing
        counts = tuple(count for count in counts if len(runs.base) + count >= RUNS_FOR_A_PROMISE)
    look = _Look.of(runs, counts)
    change = moderated_t(runs.base, runs.new, prior_of(GREEN_PRIOR, doubted), _CLIPPED_AT)
    green = interval = look.reach(change, (1 - _PLAIN_SHARE) * rate)
    if runs.count >= RUNS_FOR_A_PROMISE:
        plain = moderated_t(runs.base, runs.new, (0.0, 0.0), _CLIPPED_AT)
        # If base runs agree by luck, the noise within the new runs is left, whose many values do not show the rest.
        plain = replace(plain, degrees_of_freedom=runs.count - 2)
        if plain.standard_error > 0:  # equal values do not show that there is no noise
            green = min(green, look.reach(plain, _PLAIN_SHARE * rate))
            interval = min(green, look.reach(plain, rate))  # it never reaches beyond what green excludes
    alarm = moderated_t(runs.base, runs.new, prior_of(RED_PRIOR, tolerated), _CLIPPED_AT)
    df = len(runs.base) + counts[-1] - 2
    return Bounds(
        change, alarm, green, interval, look.reach(alarm, rate), _excludes_no_change(alarm, worse, look, rate, df)
    )


def prior_of(prior: tuple[float, float], margin: Margin) -> tuple[float, float]:
    """Return the prior (s0, d0) from a share of a margin; s0 is relative."""
    return max(prior[0] * min(margin.room, 1.0), _LEAST_NOISE), prior[1]


def _excludes_no_change(alarm: LogChange, worse: WorseSide, look: _Look, rate: float, df: float) -> bool:
    """Return whether red excludes "no change" at this look; `df` are the degrees of freedom of the last look."""
    total = rate * min(_MOST_RED, _RED_RATE / max(df - 1, 1))
    return alarm.p_no_change(worse) <= look.level(total, _RED_SPENDING)


def _plan(looks: tuple[int, ...], new_runs: int) -> tuple[int, ...]:
    """Return the numbers of new runs at all looks; more runs than planned are one further look."""
    return looks if new_runs in looks else (*(count for count in looks if count < new_runs), new_runs)
