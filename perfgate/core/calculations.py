"""The arithmetic behind a verdict, for a calculator, and the effects of code and environment on its metric."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

#: What changed the metric.
Changed = Literal["code", "environment", "both", "neither", "unclear"]
#: The combinations of old and new that may be left out: new code in the old environment, old code in the new one.
Mixed = Literal["new-code", "new-environment"]
MIXED: tuple[Mixed, ...] = ("new-code", "new-environment")


class FactorEffect(Struct, frozen=True):
    """The effect of one factor (code or environment) as new/old - 1, with a two-sided interval."""

    estimate: float
    low: float
    high: float


class Attribution(Struct, frozen=True):
    """The effects of code and environment on one metric: 1 + the whole change is (1 + code) x (1 + environment)."""

    changed: Changed
    code: FactorEffect
    environment: FactorEffect
    #: How much more the code changes the metric in the new environment than in the old one, if that is clear and large.
    interaction: FactorEffect | None
    repetitions: int
    #: The confidence of each interval, valid although the effects are looked at after each repetition.
    confidence: float
    #: True if each effect is clear, or smaller than the tolerance of the rule.
    settled: bool
    #: The combination that was left out: each effect was then measured in one state of the other factor only.
    missing: Mixed | None = None


#: The question of a comparison. `excluded`: is a change of `at_worst` excluded, as a green answer promises?
#: `within`, `beyond`: is the change within, or beyond, the tolerance? `a-change`: is there a change at all?
#: `beyond-at-worst`: is its estimate beyond `at_worst`? `kept`, `broken`: is a value on the good, or bad, side of a
#: limit?
Asks = Literal["excluded", "within", "a-change", "beyond", "beyond-at-worst", "kept", "broken"]


class Comparison(Struct, frozen=True):
    """A one-sided bound, estimate ± quantile * standard_error, compared with an edge; `holds` is True for yes.

    `quantile` is that of Student's t at 1 - error_rate, with the degrees of freedom. `estimate` and `edge` are
    ln(new / base) for a change, and in the unit of the metric for a limit. With `is_above`, the answer is yes if the
    lower bound (-) is above the edge, and without it if the upper bound (+) is below the edge.
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
    """The comparisons that decided, and the answer of the numbers alone: an outcome with its reason in one word."""

    comparisons: tuple[Comparison, ...]
    outcome: str
    reason: str
    #: True if the answer is open because the metric is probably worse.
    suspect: bool = False
