"""Two runs are one measurement if the values that have noise are equal: one row a case."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import steady, write_results, write_rules
from msgspec.structs import replace
from stories import run_of, series

from perfgate.core import Key, Run, Series, read_only
from perfgate.judge.doubts.copies import same_measurements

TIMES = run_of(series("x", "s", steady(1.0, n=40)))
NUMBERS = TIMES.series[0].values
THREE = run_of(*(series(name, "s", steady(1.0, n=40)) for name in "xyz"))
THINNED = run_of(replace(TIMES.series[0], values=TIMES.series[0].values[::2], thinned_from=40))


PRINTED = [
    run_of(series("x", "s", np.round(np.random.default_rng(seed).normal(0.0127, 0.0004, 200), 4))) for seed in (1, 2)
]


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
        # two runs whose times have few digits: sorted, most of them are equal by chance
        (PRINTED[0], PRINTED[1], False),
        (PRINTED[0], PRINTED[0], True),
        (PRINTED[0], run_of(series("x", "s", PRINTED[0].series[0].values[::-1])), True),
        (run_of(series("x", "s", [0.01, 0.02, 0.03] * 20)), run_of(series("x", "s", [0.02, 0.03, 0.01] * 20)), False),
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


def test_metrics_that_were_stored_as_summaries_do_not_hide_a_copy(perfgate: Any, folder: Path) -> None:
    """Metrics that no rule names are stored as summaries; they were counted as unlike."""
    write_rules(folder, "step within 10% of baseline")
    names = ["step", "other", "more", "further"]

    def write(name: str, seed: int, factor: float = 1.0) -> None:
        values = {metric: steady(100, n=60, seed=10 * seed + at) for at, metric in enumerate(names)}
        rows = [{"metric": one, "unit": "ms", "values": [x * factor for x in found]} for one, found in values.items()]
        write_results(folder / name, *rows)

    for seed in range(4):
        write(f"base-{seed}.json", seed)
    assert perfgate("baseline", "approve", *sorted(folder.glob("base-*.json")), "--reason", "first").code == 0
    write("new.json", 0, factor=1.01)
    done = perfgate("check", "new.json")
    assert (done.code, "the same measurements are in the baseline" in " ".join(done.out.split())) == (3, True), (
        done.said
    )
