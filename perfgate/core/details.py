"""What a report shows of the runs behind its verdicts: types small enough to be stored with it and drawn.

Every type is frozen, and numbers are in base units, as in `perfgate.core`. Nothing here computes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Standing = Literal["past", "base", "new"]

#: The shares at which the values of a run are described.
QUANTILES = (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)


@dataclass(frozen=True, slots=True)
class RunDetails:
    """One run, spoken for by one rank, through the statistic of a verdict.

    `values` and `steps` are at most a few hundred of the run's, warm-up included, its extremes kept; the first
    `warmup` of them are warm-up, and `stalls` are positions among them. All are empty for a run that is one number.
    """

    run: str
    #: Whether the run was judged, compared with, or is only history.
    standing: Standing
    #: Whether this rank speaks for its run; the others of a new run stand beside it.
    judged: bool
    #: The statistic, in the unit of the verdict.
    estimate: float | None
    member: Mapping[str, str] = field(default_factory=dict)
    #: How many values are left after warm-up, how many were dropped as warm-up, and how many are stalls.
    n: int | None = None
    dropped: int = 0
    stalled: int = 0
    #: After warm-up, at QUANTILES; empty where the statistic is no place within the values (cv, total).
    quantiles: tuple[float, ...] = ()
    values: tuple[float, ...] = ()
    steps: tuple[int, ...] = ()
    warmup: int = 0
    stalls: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class VerdictDetails:
    """The runs that one verdict rests on."""

    #: Which verdict of the report, from 0.
    verdict: int
    #: The base unit of the values; the statistic may have another (a count has none).
    unit: str
    #: History, then base, then new; each oldest first.
    runs: tuple[RunDetails, ...]
    #: How many ranks (or devices) the new runs hold; not all of them need be shown.
    members: int = 1
    #: What the rule accepts, in the verdict's unit; None where it accepts anything on that side.
    allowed_low: float | None = None
    allowed_high: float | None = None


@dataclass(frozen=True, slots=True)
class LevelDetails:
    """A decision about the baseline: who approved which runs, when (a date) and why."""

    name: str
    by: str
    reason: str
    approved: str
    runs: tuple[str, ...]
    pr: int | None = None
    anchor: bool = False
    #: Whether new runs were compared with it.
    current: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a step, or a kernel or operator: its time a step in seconds, the mean of ranks and runs."""

    metric: str
    labels: Mapping[str, str]
    base: float | None
    new: float | None


@dataclass(frozen=True, slots=True)
class ReportDetails:
    """The runs behind a report's verdicts, and what surrounds them; empty in a report without runs."""

    #: In the order of the verdicts; an error that kept a metric from being measured has none.
    verdicts: tuple[VerdictDetails, ...] = ()
    #: Of how many of them the values were left out, the best verdicts first, to keep the report small.
    left_out: int = 0
    #: The decisions about this environment's baseline, oldest first.
    levels: tuple[LevelDetails, ...] = ()
    #: The environment of the base runs; a fact that differs among them names all its values.
    base_environment: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    #: The parts of a step (`step.*`), and the kernels and operators whose time a step moved most.
    breakdown: tuple[Part, ...] = ()
    movers: tuple[Part, ...] = ()
