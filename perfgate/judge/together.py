"""How several metrics changed together."""

from __future__ import annotations

import math
from collections.abc import Sequence

from perfgate.core import MeanChange, Verdict


def geometric_means(verdicts: Sequence[Verdict]) -> tuple[MeanChange, ...]:
    """The geometric mean of new/base by unit, where at least two verdicts have one; sorted by unit.

    It is the mean that does not depend on which side is the base (Fleming and Wallace, "How not to lie with
    statistics", 1986). Metrics of one unit share a direction, rates and times do not.
    """
    logs: dict[str, list[float]] = {}
    for verdict in verdicts:
        change = verdict.change.estimate if verdict.change else None
        if change is not None and change > -1:
            logs.setdefault(verdict.unit or "1", []).append(math.log1p(change))
    several = sorted((unit, found) for unit, found in logs.items() if len(found) > 1)
    return tuple(MeanChange(unit, len(found), math.expm1(sum(found) / len(found))) for unit, found in several)
