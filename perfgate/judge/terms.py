"""The terms of a question: the options of `judge_limit` and `judge_change`, checked when they are made."""

from __future__ import annotations

import math

from msgspec import Struct

from perfgate.core import Better, Comparator
from perfgate.core.results import LOOKS
from perfgate.stats.distributions import normal_quantile
from perfgate.stats.margin import Margin
from perfgate.stats.moderated import WorseSide
from perfgate.stats.statistics import Quantile, parse_statistic
from perfgate.stats.steady import WarmUpRule, check_warmup

#: The prior noise of quantities that are mostly exact, such as bytes, once they differ at all.
EXACT_S0 = 0.001


class LimitTerms(Struct, frozen=True, kw_only=True):
    """The terms of a limit: the options of `judge_limit` by their names, and what is known of the noise.

    `prior` and `strict` are those of `ChangeTerms`. Raises ValueError for a bad option.
    """

    bound: float
    statistic: str = "median"
    comparator: Comparator = "under"
    confidence: float = 0.95
    warmup: WarmUpRule = "auto"
    prior: tuple[float, float] = (0.01, 2.0)
    min_samples: int = 1
    strict: bool = False
    at_worst: float | None = None
    #: The standard deviation of the logarithm between runs, as far as it is known; 0 for a statistic without noise.
    noise: float = 0.0
    #: True for counts and sizes, which have no noise if all values of a run are equal.
    exact: bool = False

    def __post_init__(self) -> None:
        if not math.isfinite(self.bound):
            raise ValueError(f"bound is a finite number, not {self.bound!r}")
        if self.at_worst is not None and not (math.isfinite(self.at_worst) and self.is_bad(self.at_worst)):
            raise ValueError(f"at_worst is beyond the bound {self.bound!r}, on its bad side, not {self.at_worst!r}")
        if self.comparator not in ("under", "at most", "over", "at least"):
            raise ValueError(f'comparator is "under", "at most", "over" or "at least", not {self.comparator!r}')
        check_warmup(self.warmup, self.better)
        _check_evidence_options(self.confidence, self.prior, self.min_samples)
        parse_statistic(self.statistic)

    @property
    def upper(self) -> bool:
        """True if the bound is an upper one."""
        return self.comparator in ("under", "at most")

    @property
    def better(self) -> Better:
        """The direction of the good side of the bound; warm-up values are on the bad side."""
        return "lower" if self.upper else "higher"

    def is_bad(self, value: float) -> bool:
        """Return whether a value is on the bad side of the bound."""
        if value == self.bound:
            return self.comparator in ("under", "over")
        return (value > self.bound) == self.upper

    @property
    def has_share(self) -> bool:
        """True for a percentile, which is beyond the bound if more than a share of the values is."""
        return isinstance(parse_statistic(self.statistic), Quantile)

    def is_near(self, estimate: float) -> bool:
        """Return whether the noise between runs could move one run this far beyond the bound."""
        if not (self.noise and estimate > 0 and self.bound > 0):
            return False
        return abs(math.log(estimate / self.bound)) < normal_quantile(self.confidence) * self.noise

    def may_reach(self, end: float | None) -> bool:
        """Return whether an interval with this bad end reaches `at_worst`; None is an infinite end."""
        if self.at_worst is None:
            return False
        return end is None or (end >= self.at_worst if self.upper else end <= self.at_worst)


class ChangeTerms(Struct, frozen=True, kw_only=True):
    """The terms of a change: the options of `judge_change` by their names; raises ValueError for a bad one.

    `strict`: a suspicion fails. `prior` is the noise (s0, d0); `noise_known` is False if it is a guess. `wander` is the
    standard deviation of the level of each side, in addition to known noise. `looks` are the numbers of new runs at
    which the data are judged; more runs than the last one are a further look. None is a comparison with the anchor,
    which cannot be measured again: there is one look, and a pass does not promise to exclude `at_worst`.
    """

    statistic: str = "median"
    tolerance: float | None = None
    tolerance_absolute: float | None = None
    at_worst: float | None = None
    at_worst_absolute: float | None = None
    better: Better = "lower"
    two_sided: bool = False
    confidence: float = 0.95
    power: float = 0.8
    warmup: WarmUpRule = "auto"
    prior: tuple[float, float] = (0.01, 2.0)
    noise_known: bool = False
    wander: float = 0.0
    looks: tuple[int, ...] | None = tuple(range(1, LOOKS + 1))
    strict: bool = False
    exact: bool = False
    min_samples: int = 1

    def __post_init__(self) -> None:
        if self.tolerance is None and self.tolerance_absolute is None:
            raise ValueError("a change needs a tolerance, a tolerance_absolute, or both")
        for name, value in (
            ("tolerance", self.tolerance),
            ("tolerance_absolute", self.tolerance_absolute),
            ("at_worst", self.at_worst),
            ("at_worst_absolute", self.at_worst_absolute),
        ):
            if value is not None and not 0 <= value < math.inf:
                raise ValueError(f"{name} must be a finite number of at least 0, not {value!r}")
        if not 0 < self.power < 1:
            raise ValueError(f"power is between 0 and 1, not {self.power!r}")
        if self.looks is not None and (not self.looks or self.looks[0] < 1):
            raise ValueError(f"looks is 1 or more, not {self.looks!r}")
        check_warmup(self.warmup, self.better)
        _check_evidence_options(self.confidence, self.prior, self.min_samples)
        parse_statistic(self.statistic)

    @property
    def noise(self) -> tuple[float, float]:
        """The prior (s0, d0) of the noise; exact quantities have little noise once they differ."""
        return (EXACT_S0 if self.exact else self.prior[0]), self.prior[1]

    @property
    def worse(self) -> WorseSide:
        """The direction of a change for the worse."""
        if self.two_sided or self.better == "neither":
            return "either"
        return "up" if self.better == "lower" else "down"

    def applied_tolerance(self, base_value: float) -> float:
        """Return the relative tolerance; an absolute one may widen it, because a failure exceeds both."""
        return _relative(self.tolerance, self.tolerance_absolute, base_value)

    def tolerated(self, base_value: float) -> Margin:
        """Return the margin of the tolerance."""
        return Margin.of_ratio(self.applied_tolerance(base_value), self.worse)

    def doubted(self, base_value: float) -> Margin:
        """Return the margin of `at_worst`, which green excludes: at least the tolerance; a fall is less than 100 %."""
        tolerance = self.applied_tolerance(base_value)
        found = max(_relative(*self.widened, base_value), tolerance)
        # No fall of 100 % or more can be excluded: then `at_worst` is half the way from the tolerance to 100 %.
        fits = self.worse == "up" or found < 1
        return Margin.of_ratio(found if fits else (1 + min(tolerance, 1)) / 2, self.worse)

    @property
    def widened(self) -> tuple[float | None, float | None]:
        """`at_worst`, relative and in the unit of the values: twice the tolerance of that kind if it is not set."""
        relative = None if self.tolerance is None else 2 * self.tolerance
        absolute = None if self.tolerance_absolute is None else 2 * self.tolerance_absolute
        return (
            relative if self.at_worst is None else self.at_worst,
            absolute if self.at_worst_absolute is None else self.at_worst_absolute,
        )


def _relative(relative: float | None, absolute: float | None, base_value: float) -> float:
    return max(relative or 0.0, 0.0 if absolute is None else absolute / base_value)


def _check_evidence_options(confidence: float, prior: tuple[float, float], min_samples: int) -> None:
    """Raise ValueError for a bad confidence, prior or number of samples."""
    if not 0.5 < confidence < 1:
        raise ValueError(f"confidence is between .5 and 1, not {confidence!r}")
    s0, d0 = prior
    if not (1e-100 < s0 < 1e100 and 1e-100 < d0 < 1e100):  # the squares of these fit into a float
        raise ValueError(f"prior is a positive standard deviation and positive degrees of freedom, not {prior!r}")
    if min_samples < 1:
        raise ValueError(f"min_samples is at least 1, not {min_samples!r}")
