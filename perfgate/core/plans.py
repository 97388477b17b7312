"""What rules would see, and what proves that they can fail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from perfgate.core.runs import Location


@dataclass(frozen=True, slots=True)
class PlanPoint:
    """The smallest change for the worse that `new_runs` with `steps` times the steps would show, relative."""

    new_runs: int
    steps: float
    detectable: float | None


@dataclass(frozen=True, slots=True)
class Plan:
    """What one clause of a rule can see with the stored runs, and what would let it see more.

    Of a change: the noise of one run as relative standard deviations, from run to run and inside the run, the smallest
    change that `new_runs` show, and the runs with which an unchanged program passes. Of a percentile limit: the
    independent values that a pass takes, and those that the newest stored run holds.
    """

    rule: str
    metric: str
    labels: Mapping[str, str]
    statistic: str | None
    asks: str
    at: Location
    #: The level that was planned with, `SUITE/ENVIRONMENT/LEVEL`.
    baseline: str | None
    power: float
    confidence: float
    tolerance: float | None = None
    base_runs: int | None = None
    new_runs: int | None = None
    noise_between: float | None = None
    noise_within: float | None = None
    calibrated: bool = False
    detectable: float | None = None
    runs_needed: int | None = None
    values_needed: int | None = None
    values_held: float | None = None
    advice: str = ""
    #: Why there is no plan.
    trouble: str | None = None
    points: tuple[PlanPoint, ...] = ()


@dataclass(frozen=True, slots=True)
class Proof:
    """Whether one clause of a rule would fail: what `perfgate selftest` shows on the user's own runs.

    `proven`: it fails at `fails_at`; `by-choice`: its author wrote that it does not block here; `unable`: no change
    makes it fail; `blocked`: what is unchanged does not pass already.
    """

    rule: str
    metric: str
    labels: Mapping[str, str]
    statistic: str | None
    asks: str
    at: Location
    state: Literal["proven", "by-choice", "unable", "blocked"]
    #: What the unchanged runs alone would make `check` exit with.
    exit_code: int
    reason: str
    unit: str | None = None
    shown_unit: str | None = None
    #: The smallest change that was tried and failed, relative to the base; of a limit, the value.
    fails_at: float | None = None
    kind: Literal["limit", "change"] = "limit"
    tolerance: float | None = None
    #: Whether its absence would be noticed.
    misses: bool = True
