"""Warm-up as a measurement: how many steps and how much time it takes.

A run with samples of `forward` has the metrics `warmup.steps{of="forward"}` and `warmup.time{of="forward"}`, rank by
rank. They are found by the rule `auto` in times and rates, whatever the rules say about warm-up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from msgspec import Struct

from perfgate.core import Key, Series, read_only
from perfgate.judge.measure import BETTER_BY_UNIT, Method

STEPS, TIME = "warmup.steps", "warmup.time"
#: The metrics that every run with samples has; the label `of` names the metric that warms up.
WARMUP_METRICS = (STEPS, TIME)


class WarmUpCost(Struct, frozen=True):
    """The warm-up of one run: its steps, and their time in seconds; None for rates."""

    steps: int
    seconds: float | None


def warmup_cost(series: Series, method: Method | None = None) -> WarmUpCost | None:
    """The warm-up of a series as a rule finds it, by default the rule `auto`; None if it has no times or rates."""
    better = BETTER_BY_UNIT.get(series.unit)
    if series.kind != "samples" or series.unit == "B" or better is None:
        return None
    dropped = (method or Method("median", better=better)).steady(series).dropped
    times = 1.0 if series.thinned_from is None else series.thinned_from / max(1, len(series.values))
    seconds = float(series.values[:dropped].sum()) * times if series.unit == "s" else None
    return WarmUpCost(round(dropped * times), seconds)


def warmup_series(metric: str, series: Iterable[Series]) -> Iterator[Series]:
    """The warm-up of every series of times or rates as a metric: its steps, or its time in seconds."""
    for one in series:
        cost = warmup_cost(one)
        value = None if cost is None else cost.steps if metric == STEPS else cost.seconds
        if value is not None:
            key = Key.of(metric, **{**dict(one.key.labels), "of": one.key.metric})
            yield Series(key, "1" if metric == STEPS else "s", "value", read_only(np.array([float(value)])))
