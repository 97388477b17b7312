"""Runs of a few series, for direct tests of the advice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from perfgate.analysis.proposals import Proposal, Proposals
from perfgate.analysis.tolerances import Fit
from perfgate.core import Key, Location, Plan, Run, Series, read_only


def value(metric: str, unit: str, number: float, **labels: str) -> Series:
    """A single number."""
    return Series(Key.of(metric, **labels), unit, "value", read_only(np.array([number])))


def samples(metric: str, unit: str, values: Sequence[float], **labels: str) -> Series:
    """A value for each step."""
    return Series(Key.of(metric, **labels), unit, "samples", read_only(np.array(values)))


def printed(metric: str, unit: str, **statistics: float) -> Series:
    """What a source printed of a metric whose values it does not have."""
    return Series(Key(metric), unit, "aggregate", read_only(np.empty(0)), aggregate=statistics)


def runs_of(*rows: Sequence[Series], format: str = "test", **fields: Any) -> list[Run]:
    """A run of each of these rows."""
    return [Run(f"run{number}", format, tuple(row), **fields) for number, row in enumerate(rows)]


def plan(**fields: Any) -> Plan:
    """A plan with these numbers."""
    known: dict[str, Any] = {
        "rule": "r",
        "metric": "x",
        "labels": {},
        "statistic": None,
        "asks": "within 3% of baseline",
    }
    return Plan(**(known | {"at": Location("rules"), "baseline": None, "power": 0.8, "confidence": 0.95} | fields))


def proposed(metric: str, fails_from: float | None = 0.05, tolerance: int = 3, limit: str | None = None) -> Proposal:
    """A first rule whose smallest change is known."""
    plans = (plan(noise_between=0.01, fails_from=fails_from),)
    fit = Fit(f"{metric} within {tolerance}% of baseline", tolerance, plans)
    return Proposal(metric, fit, limit, is_sum=False)


def proposals(*rules: Proposal | str, **left_out: Sequence[str]) -> Proposals:
    """First rules, and the metrics without one by reason."""
    return Proposals(tuple(one if isinstance(one, Proposal) else proposed(one) for one in rules), left_out)
