"""The shares of code and environment in a change, which `perfgate run --attribute` measures."""

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
