"""Two runs are one measurement if the values that have noise are equal: one row a case."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import steady
from msgspec.structs import replace
from stories import run_of, series

from perfgate.core import Key, Run, Series, read_only
from perfgate.judge.doubts.copies import same_measurements

TIMES = run_of(series("x", "s", steady(1.0, n=40)))
NUMBERS = TIMES.series[0].values
THREE = run_of(*(series(name, "s", steady(1.0, n=40)) for name in "xyz"))
THINNED = run_of(replace(TIMES.series[0], values=TIMES.series[0].values[::2], thinned_from=40))


def printed(**numbers: float) -> Run:
    return run_of(Series(Key("x"), "s", "aggregate", read_only(np.empty(0)), aggregate=numbers))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (TIMES, TIMES, True),
        (TIMES, THINNED, True),
        (TIMES, run_of(series("x", "s", steady(1.0, n=40, seed=2))), False),
        (TIMES, run_of(series("y", "s", steady(1.0, n=40))), False),
        # a copy with other last digits, in another order, times a factor, or with new values in a third of the steps
        (TIMES, run_of(series("x", "s", NUMBERS * (1 + 1e-9 * np.arange(40)))), True),
        (TIMES, run_of(series("x", "s", NUMBERS[::-1])), True),
        (TIMES, run_of(series("x", "s", 1.03 * NUMBERS)), True),
        (TIMES, run_of(series("x", "s", np.where(np.arange(40) % 3, NUMBERS, 1.01 * NUMBERS))), True),
        (TIMES, run_of(series("x", "s", NUMBERS * np.linspace(1, 1.01, 40))), False),
        # one copied metric of three
        (THREE, run_of(TIMES.series[0], *(series(name, "s", steady(1.0, n=40, seed=9)) for name in "yz")), False),
        (TIMES, run_of(*TIMES.series, series("y", "s", [1.0])), True),
        (run_of(series("x", "B", steady(8e9, n=40))), run_of(series("x", "B", steady(8e9, n=40))), False),
        (run_of(series("x", "s", [0.01] * 40)), run_of(series("x", "s", [0.01] * 40)), False),
        (run_of(series("x", "s", [0.01, 0.02] * 4)), run_of(series("x", "s", [0.01, 0.02] * 4)), False),
        (run_of(series("x", "s", [0.01, 0.02] * 40)), run_of(series("x", "s", [0.01, 0.02] * 40)), True),
        (printed(mean=1.25, total=98.5, count=80.0), printed(mean=1.25, total=98.5, count=80.0), False),
        (printed(mean=1.23456789012, p95=1.3456789), printed(mean=1.23456789012, p95=1.3456789), True),
    ],
)
def test_equal_noise_is_one_measurement(one: Run, other: Run, same: bool) -> None:
    assert same_measurements(one, other) == same
