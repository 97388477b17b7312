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
    #: The tolerance in place of the rule's own, as a share: 0.22 is 22 %.
    up_to: float
    by: str
    reason: str
    #: The last day on which it is valid.
    expires: date


class KnownNoise(Struct, frozen=True):
    """The noise between runs that a change was judged with, because it was known before.

    `deviation` is a relative standard deviation: 0.014 is 1.4 %. It comes from `runs` runs: those of a calibration, or
    those of a `branch` that the history remembers (`""` if they name no branch). The differences of `hosts` hosts from
    the usual host were subtracted before. `wander` is the relative standard deviation by which the level of a side
    moves, in addition to the noise of its runs.
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
    of the rank that represents a run (`rank`), and one way to make pairs.
    """

    key: Key
    statistic: str
    rank: str
    s0: float
    d0: float
    runs: int
    #: How the pairs were made: `in-turn`, ...; None for single runs.
    pairing: str | None = None
    #: The branch whose remembered runs showed the noise, `""` if they name no branch; None for a calibration.
    learned_from: str | None = None
    #: The number of hosts whose difference from the usual host was subtracted before.
    hosts: int = 0
    #: The relative standard deviation by which the level of a side moves; more runs do not lower it.
    wander: float = 0.0

    def said(self) -> KnownNoise:
        """Return the noise as reports say it."""
        source: Literal["calibration", "history"] = "calibration" if self.learned_from is None else "history"
        return KnownNoise(self.s0, self.runs, source, self.learned_from, self.hosts, self.wander)


class RememberedRuns(Struct, frozen=True):
    """The later runs of a branch, as its history remembers them: one series since the baseline or its last change.

    `values` has the number of each run in base units, the oldest run first. `variances` has the variance of the
    logarithm of that number within the run (0 if unknown), and `labels` the commit, or else the time, of the run.
    """

    key: Key
    statistic: str
    rank: str
    branch: str
    values: tuple[float, ...]
    variances: tuple[float, ...]
    labels: tuple[str, ...]
    #: True if the measured commit is on the branch, so that these runs and the new ones can be judged together.
    is_measured: bool


class PooledRuns(Struct, frozen=True):
    """The remembered runs of a branch that were judged together with the new runs, or beside them.

    `change` is the change of the branch since the baseline as `new/base - 1`, with its bounds `low` and `high`. If
    `decides` is True, it includes the new runs, and made the verdict red.
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
    """A clear difference in one series between the hosts of the new runs and those of the baseline.

    `log_difference` is ln(new / base), estimated from remembered runs of a `branch` (`""` if they name no branch) that
    follow each other on both hosts. Its 95 % interval from `low` to `high` excludes 0.
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
    #: The reason why `runs` is empty, and the step that makes some.
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
    #: The hashes of the files of the history that the judge learned from, joined.
    history_sha256: str = ""
    #: The differences between the hosts of both sides that the history shows, one for each series.
    hosts: tuple[HostDifference, ...] = ()
