"""The options of `judge_change` and `judge_limit`, checked, and the words of their answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from perfgate.core import Better, Comparator
from perfgate.stats.moderated import WorseSide
from perfgate.stats.statistics import RunMeasure, Statistic, parse_statistic
from perfgate.stats.steady import WarmUpRule, check_warmup

Reason: TypeAlias = Literal[
    "interval",
    "exact",
    "equal",
    "thin-tail",
    "no-baseline",
    "no-new-run",
    "too-few-samples",
    "not-a-number",
    "not-positive",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeTerms:
    """The options of `judge_change`, by the same names; building them raises ValueError for a bad one."""

    statistic: str = "median"
    tolerance: float | None = None
    tolerance_absolute: float | None = None
    better: Better = "lower"
    two_sided: bool = False
    confidence: float = 0.95
    power: float = 0.8
    warmup: WarmUpRule = "auto"
    prior: tuple[float, float] = (0.01, 2.0)
    strict: bool = False
    exact: bool = False
    min_samples: int = 4

    def __post_init__(self) -> None:
        if self.tolerance is None and self.tolerance_absolute is None:
            raise ValueError("a change needs a tolerance, a tolerance_absolute, or both")
        for name, value in (("tolerance", self.tolerance), ("tolerance_absolute", self.tolerance_absolute)):
            if value is not None and not 0 <= value < math.inf:
                raise ValueError(f"{name} must be a finite number of at least 0, not {value!r}")
        if not 0 < self.power < 1:
            raise ValueError(f"power is between 0 and 1, not {self.power!r}")
        check_warmup(self.warmup, self.better)
        _check_evidence(self.confidence, self.prior, self.min_samples)
        parse_statistic(self.statistic)

    @property
    def measured_by(self) -> Statistic:
        """The statistic, from its name."""
        return parse_statistic(self.statistic)

    @property
    def worse(self) -> WorseSide:
        """To which side a change is one for the worse."""
        if self.two_sided or self.better == "neither":
            return "either"
        return "up" if self.better == "lower" else "down"


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitTerms:
    """The options of `judge_limit`, by the same names; building them raises ValueError for a bad one."""

    bound: float
    statistic: str = "median"
    comparator: Comparator = "under"
    confidence: float = 0.95
    warmup: WarmUpRule = "auto"
    prior: tuple[float, float] = (0.01, 2.0)
    min_samples: int = 4

    def __post_init__(self) -> None:
        if not math.isfinite(self.bound):
            raise ValueError(f"bound is a finite number, not {self.bound!r}")
        if self.comparator not in ("under", "at most", "over", "at least"):
            raise ValueError(f'comparator is "under", "at most", "over" or "at least", not {self.comparator!r}')
        check_warmup(self.warmup, self.better)
        _check_evidence(self.confidence, self.prior, self.min_samples)
        parse_statistic(self.statistic)

    @property
    def measured_by(self) -> Statistic:
        """The statistic, from its name."""
        return parse_statistic(self.statistic)

    @property
    def upper(self) -> bool:
        """Whether the bound is one from above."""
        return self.comparator in ("under", "at most")

    @property
    def strict(self) -> bool:
        """Whether a value on the bound breaks it."""
        return self.comparator in ("under", "over")

    @property
    def better(self) -> Better:
        """Which side of the bound is the good one; warm-up is looked for on the other."""
        return "lower" if self.upper else "higher"


def missing_data(runs: Sequence[RunMeasure], min_samples: int) -> Reason | None:
    """Why these runs cannot be judged, or None: an empty run, no number, or too few samples after warm-up."""
    if any(run.n + run.dropped == 0 for run in runs):
        return "too-few-samples"
    if any(run.value is None and run.n > 0 for run in runs):
        return "not-a-number"
    # A run that is a single number has no samples to count.
    if any(run.n < min_samples and not run.single for run in runs):
        return "too-few-samples"
    return None


def _check_evidence(confidence: float, prior: tuple[float, float], min_samples: int) -> None:
    if not 0.5 < confidence < 1:
        raise ValueError(f"confidence is between .5 and 1, not {confidence!r}")
    s0, d0 = prior
    if not (0 < s0 < math.inf and 0 < d0 < math.inf):
        raise ValueError(f"prior is a positive standard deviation and a positive number of runs, not {prior!r}")
    if min_samples < 1:
        raise ValueError(f"min_samples is at least 1, not {min_samples!r}")
