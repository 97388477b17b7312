"""The stored runs that new runs are compared with, their noise, and allowances."""

from __future__ import annotations

from datetime import date
from typing import Literal

from msgspec import Struct

from perfgate.core.next_steps import NO_STEP, NextStep
from perfgate.core.runs import Key, Run


class Allowance(Struct, frozen=True):
    """Permission for one commit to regress a metric by up to `up_to`."""

    #: A metric's name, or a glob.
    metric: str
    #: The tolerance that replaces that of the rule, as a share: 0.22 is 22 %.
    up_to: float
    by: str
    reason: str
    #: The last day on which it is valid.
    expires: date


class KnownNoise(Struct, frozen=True):
    """The noise between runs that a change was judged with, because it was known before.

    `deviation` is relative: 0.014 is 1.4 %. `runs` showed it: those of a calibration, or the remembered runs of a
    `branch` (`""` if they do not name it). `hosts` is the number of hosts whose difference from the usual one was
    taken out. `wander` is the relative standard deviation of the level since the baseline, beside the noise.
    """

    deviation: float
    runs: int
    source: Literal["calibration", "history"]
    branch: str | None = None
    hosts: int = 0
    wander: float = 0.0


class CalibratedPrior(Struct, frozen=True):
    """The noise of one metric between runs, measured on `runs` unchanged runs, or pairs, of an environment.

    `s0` is a relative standard deviation with `d0` prior degrees of freedom. It is valid for one statistic, one choice
    of the rank that represents a run, and one way to make pairs.
    """

    key: Key
    statistic: str
    rank: str
    s0: float
    d0: float
    runs: int
    #: How the pairs were made: `in-turn`, ...; None for single runs.
    pairing: str | None = None
    #: The branch whose remembered runs showed it, `""` if they do not name it; None for a calibration.
    learned_from: str | None = None
    #: The number of hosts whose difference from the usual one was taken out.
    hosts: int = 0
    #: The relative standard deviation of the level of old base runs and of new runs; more runs do not lower it.
    wander: float = 0.0

    def said(self) -> KnownNoise:
        """Return the noise as reports say it."""
        source: Literal["calibration", "history"] = "calibration" if self.learned_from is None else "history"
        return KnownNoise(self.s0, self.runs, source, self.learned_from, self.hosts, self.wander)


class RememberedRuns(Struct, frozen=True):
    """The remembered runs of one series of a branch that are newer than the baseline and its last change point.

    `values` are in base units, `variances` those of their logarithms within the run (0 if unknown), and `labels` their
    commits, or their times. The oldest run is first.
    """

    key: Key
    statistic: str
    rank: str
    branch: str
    values: tuple[float, ...]
    variances: tuple[float, ...]
    labels: tuple[str, ...]
    #: True if the measured commit is on the branch: its runs and the new ones can be judged together.
    is_measured: bool


class PooledRuns(Struct, frozen=True):
    """The remembered runs of a branch that a verdict was pooled with, or that it was compared with.

    `change` is that of the branch since the baseline as `new/base - 1`, with its bounds. If it `decides`, it includes
    the new runs, and made the verdict red.
    """

    branch: str
    commits: tuple[str, ...]
    change: float
    low: float | None
    high: float | None
    decides: bool


class HostLevel(Struct, frozen=True):
    """The remembered runs of one series on the hosts of one side: their median in base units, and their noise.

    `noise` is the standard deviation between neighbouring runs, relative: 0.01 is 1 %.
    """

    hosts: tuple[str, ...]
    runs: int
    level: float
    noise: float


class HostDifference(Struct, frozen=True):
    """The difference of the new runs' hosts from the baseline's in one series, beyond their noise.

    `log_difference` is that of neighbouring remembered runs of a `branch` (`""` if they do not name it), new minus
    base, with its interval at 95 %, which excludes 0.
    """

    key: Key
    statistic: str
    rank: str
    branch: str
    base: HostLevel
    new: HostLevel
    log_difference: float
    low: float
    high: float


class Baseline(Struct, frozen=True):
    """The stored runs that new runs are compared with, oldest first."""

    #: `SUITE/ENVIRONMENT/LEVEL`, or None.
    place: str | None = None
    runs: tuple[Run, ...] = ()
    #: The first runs after the last reset of the anchor, which show the sum of many small changes.
    anchor: tuple[Run, ...] = ()
    #: The reason why there are no runs, and the step that makes some.
    missing: str | None = None
    next_step: NextStep = NO_STEP
    #: Identity facts that are unknown on both sides, so the machines may be different.
    unknown_facts: tuple[str, ...] = ()
    #: How pairs of `runs[i]` and the i-th new run were made: `in-turn`, ...; None for stored runs.
    pairing: str | None = None
    #: Calibrated noise between runs; a metric without one has the default.
    priors: tuple[CalibratedPrior, ...] = ()
    #: True if there are enough stored runs, in all levels, to calibrate the noise.
    calibratable: bool = False
    #: The allowances of the measured commit.
    allowances: tuple[Allowance, ...] = ()
    #: Older runs, oldest first, which are only shown as history.
    past: tuple[Run, ...] = ()
    #: The later runs of the branch of the baseline, by series.
    remembered: tuple[RememberedRuns, ...] = ()
    #: The hashes of the history that the judge learned from.
    history_sha256: str = ""
    #: The differences between the hosts of both sides that the history shows, by series.
    hosts: tuple[HostDifference, ...] = ()
