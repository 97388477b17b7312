"""The arithmetic behind a verdict, for a calculator, and the shares of code and environment in its change."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

#: What changed the metric.
Changed = Literal["code", "environment", "both", "neither", "unclear"]
#: The combinations of old and new that need not run: new code in the old environment, old code in the new one.
Mixed = Literal["new-code", "new-environment"]
MIXED: tuple[Mixed, ...] = ("new-code", "new-environment")


class FactorEffect(Struct, frozen=True):
    """The effect of one factor as new/old - 1, with a two-sided interval."""

    estimate: float
    low: float
    high: float


class Attribution(Struct, frozen=True):
    """The effects of code and environment on one metric; the factors (1 + effect) of both give the whole change."""

    changed: Changed
    code: FactorEffect
    environment: FactorEffect
    #: How much more the code changes in the new environment than in the old one, if that is clear and large.
    interaction: FactorEffect | None
    repetitions: int
    #: The confidence of each interval, whatever the number of repetitions at which they ended.
    confidence: float
    #: True if each effect is clear, or smaller than the tolerance of the rule.
    settled: bool
    #: The combination that does not run: then each effect is measured once.
    missing: Mixed | None = None


#: What is asked: is a change of `at_worst` excluded, is the change within the tolerance, is there a change at all, is
#: it beyond the tolerance, is its estimate beyond `at_worst`, is a value on the good or the bad side of its bound?
Asks = Literal["excluded", "within", "a-change", "beyond", "beyond-at-worst", "kept", "broken"]


class Comparison(Struct, frozen=True):
    """A one-sided bound beside its edge: estimate ± quantile * standard_error.

    `quantile` is that of t at 1 - error_rate, with the degrees of freedom.

    `estimate` and `edge` are ln(new / base) for a change, and in the unit of the metric for a limit. With `is_above`,
    the answer is yes if the lower bound (-) is above the edge; else, if the upper bound (+) is below it.
    """

    asks: Asks
    estimate: float
    standard_error: float
    degrees_of_freedom: float
    error_rate: float
    quantile: float
    edge: float
    is_above: bool
    holds: bool


class Calculation(Struct, frozen=True):
    """The comparisons that decided, and what the numbers alone say: an outcome with its reason in one word."""

    comparisons: tuple[Comparison, ...]
    outcome: str
    reason: str
    suspect: bool = False
