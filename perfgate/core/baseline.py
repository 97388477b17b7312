"""What new runs are compared with: stored runs, their noise, and what was allowed beforehand."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from perfgate.core.runs import Key, Run


@dataclass(frozen=True, slots=True)
class Allowance:
    """A decision made beforehand: one commit may be so much worse than the baseline in a metric."""

    #: A metric's name, or a glob.
    metric: str
    #: The tolerance that stands in for the rule's, as a share: 0.22 is 22 %.
    up_to: float
    by: str
    reason: str
    #: The last day on which it holds.
    expires: date


@dataclass(frozen=True, slots=True)
class CalibratedPrior:
    """The run-to-run noise of one metric, measured on `runs` unchanged runs, or pairs, of an environment.

    `s0` is a relative standard deviation, believed as much as `d0` runs. It holds for one statistic, for one choice of
    the rank that speaks for a run, and for pairs that were made in one way.
    """

    key: Key
    statistic: str
    rank: str
    s0: float
    d0: float
    runs: int
    #: How the pairs were made: `in-turn`, ...; None for the noise between single runs.
    pairing: str | None = None


@dataclass(frozen=True, slots=True)
class Baseline:
    """The stored runs that new ones are compared with, oldest first; empty where there are none."""

    #: `SUITE/ENVIRONMENT/LEVEL`, or None.
    place: str | None = None
    runs: tuple[Run, ...] = ()
    #: The first runs after the anchor was last reset: what a chain of small steps is held against.
    anchor: tuple[Run, ...] = ()
    #: Why there are no runs, in words, and the command that makes some.
    missing: str | None = None
    next_step: str = ""
    #: Identity facts that neither side knows, so that nobody can tell whether the machines were the same.
    unknown_facts: tuple[str, ...] = ()
    #: How `runs` were made in pairs with the new runs, the i-th with the i-th: `in-turn`, ...; None of stored runs.
    pairing: str | None = None
    #: Calibrated run-to-run noise; a metric that is not there has the default.
    priors: tuple[CalibratedPrior, ...] = ()
    #: Whether the stored runs, of all levels, are enough to show that noise.
    calibratable: bool = False
    #: What the measured commit was allowed to be worse in.
    allowances: tuple[Allowance, ...] = ()
    #: Older runs that nothing is compared with, oldest first: they are shown as history.
    past: tuple[Run, ...] = ()
