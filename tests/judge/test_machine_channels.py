"""The channels of the machine that a report draws: which of them moved, and their points among the steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from perfgate.core import Key, Run, Series, read_only
from perfgate.core.details import MachineChannel
from perfgate.judge.machine_channels import machine_channels

SM, POWER, HEAT = "clock.sm", "power", "machine.gpu.temperature"
CAPPED, STEAL = "machine.gpu.throttled.power", "machine.cpu.steal"
PRESSURE, QUOTA = "machine.pressure.cpu", "machine.cgroup.throttled"
NAN = math.nan


def channel(metric: str, *values: float, times: Sequence[int] | None = None, **labels: str) -> Series:
    """A channel of a device; `times` are in ms."""
    steps = None if times is None else read_only(np.array(times, np.int64))
    return Series(Key.of(metric, **labels), "u", "samples", read_only(np.array(values, np.float64)), steps)


def stored(metric: str, **statistics: float) -> Series:
    """A channel of which a baseline keeps the statistics only."""
    return Series(Key(metric), "u", "summary", read_only(np.empty(0)), aggregate=statistics)


def run(*held: Series, source: str = "run") -> Run:
    return Run(source, "test", held)


def moved(base: dict[str, Any], new: dict[str, Any], **settings: Any) -> list[str]:
    """The channels that moved; each has one value, or several."""

    def of(side: dict[str, Any]) -> list[Run]:
        held = [channel(name, *(value if isinstance(value, tuple) else (value,))) for name, value in side.items()]
        return [run(*held)] if held else []

    return [found.metric for found in machine_channels(of(base), of(new), **settings)]


MOVED: list[tuple[dict[str, Any], dict[str, Any], list[str]]] = [
    # the channels of the base and of the new run, and those that moved
    ({SM: 100.0}, {SM: 99.0}, [SM]),
    ({SM: 99.0}, {SM: 100.0}, [SM]),
    ({SM: 100.0}, {SM: 99.1}, []),
    ({SM: 0.0}, {SM: 0.0}, []),
    ({}, {SM: 100.0}, []),
    ({SM: 100.0}, {}, []),
    ({POWER: 100.0}, {POWER: 95.0}, [POWER]),
    ({POWER: 100.0}, {POWER: 95.1}, []),
    ({}, {POWER: 100.0}, []),
    ({HEAT: 50.0}, {HEAT: 53.0}, [HEAT]),
    ({HEAT: 53.0}, {HEAT: 50.0}, [HEAT]),
    ({HEAT: 50.0}, {HEAT: 52.9}, []),
    ({}, {HEAT: 50.0}, []),
    # lost time
    ({STEAL: 0.0}, {STEAL: 0.01}, [STEAL]),
    ({STEAL: 0.01}, {STEAL: 0.0}, [STEAL]),
    ({STEAL: 0.0}, {STEAL: 0.009}, []),
    ({}, {STEAL: 0.01}, [STEAL]),
    ({}, {STEAL: 0.009}, []),
    ({STEAL: 0.5}, {STEAL: 0.5}, []),
    ({CAPPED: 0.0}, {CAPPED: 0.5}, [CAPPED]),
    ({PRESSURE: 0.0}, {PRESSURE: 0.5}, [PRESSURE]),
    ({QUOTA: 0.0}, {QUOTA: 0.5}, [QUOTA]),
    # lost time for a moment: the means differ by less than 0.01
    ({STEAL: (0.0,) * 100}, {STEAL: (*[0.0] * 99, 0.1)}, [STEAL]),
    ({STEAL: (*[0.0] * 99, 0.1)}, {STEAL: (0.0,) * 100}, [STEAL]),
    ({STEAL: (0.0,) * 100}, {STEAL: (*[0.0] * 99, 0.099)}, []),
    ({STEAL: (*[0.0] * 99, 0.1)}, {STEAL: (*[0.0] * 99, 0.1)}, []),
    ({STEAL: (*[0.0] * 99, 0.1)}, {STEAL: (*[0.0] * 99, 0.2)}, []),
    ({STEAL: (*[0.0] * 99, 0.099)}, {STEAL: (*[0.0] * 99, 0.1)}, [STEAL]),
    ({}, {STEAL: (*[0.0] * 99, 0.1)}, [STEAL]),
    ({}, {STEAL: (*[0.0] * 99, 0.099)}, []),
    # other channels are not drawn
    ({"clock.memory": 1.0}, {"clock.memory": 9.0}, []),
    ({"step.time": 1.0}, {"step.time": 9.0}, []),
    ({STEAL: 0.0}, {STEAL: NAN}, []),
    ({SM: 1.0}, {SM: 1e30}, []),
    ({SM: 1.0}, {SM: 9e29}, [SM]),
    ({SM: 1.0}, {SM: (1e31, 2.0)}, []),
    # what explains a clock or throttling
    ({SM: 100.0, POWER: 9.0, HEAT: 9.0}, {SM: 50.0, POWER: 9.0, HEAT: 9.0}, [SM, POWER, HEAT]),
    ({SM: 100.0, HEAT: 9.0}, {SM: 50.0, HEAT: 9.0}, [SM, HEAT]),
    ({CAPPED: 0.0, POWER: 9.0}, {CAPPED: 0.5, POWER: 9.0}, [POWER, CAPPED]),
    ({STEAL: 0.0, POWER: 9.0}, {STEAL: 0.5, POWER: 9.0}, [STEAL]),
    ({STEAL: 0.0, CAPPED: 0.0, POWER: 9.0}, {STEAL: 0.5, CAPPED: 0.5, POWER: 9.0}, [POWER, CAPPED, STEAL]),
    # the order on a page
    (
        {QUOTA: 0.0, PRESSURE: 0.0, "machine.pressure.io": 0.0, STEAL: 0.0, CAPPED: 0.0, HEAT: 0.0, POWER: 1.0, SM: 1},
        {QUOTA: 0.5, PRESSURE: 0.5, "machine.pressure.io": 0.5, STEAL: 0.5, CAPPED: 0.5, HEAT: 9.0, POWER: 9.0, SM: 9},
        [SM, POWER, HEAT, CAPPED, STEAL, PRESSURE, "machine.pressure.io", QUOTA],
    ),
]


@pytest.mark.parametrize(("base", "new", "found"), MOVED)
def test_the_channels_that_moved(base: dict[str, Any], new: dict[str, Any], found: list[str]) -> None:
    assert moved(base, new) == found


@pytest.mark.parametrize(("lost_time", "found"), [(0.5, []), (0.01, []), (0.001, [STEAL]), (0.002, [STEAL])])
def test_lost_time_that_a_rule_doubts_is_drawn(lost_time: float, found: list[str]) -> None:
    assert moved({STEAL: 0.0, SM: 100.0}, {STEAL: 0.002, SM: 99.5}, lost_time=lost_time) == found


def spread(low: float, high: float) -> tuple[float, ...]:
    """Return 21 values of which the middle 90 % reach from `low` to `high`."""
    return (low, low, *[(low + high) / 2] * 17, high, high)


WITHIN: list[tuple[dict[str, Any], dict[str, Any], list[str]]] = [
    ({SM: 1.0}, {SM: spread(0.98, 1.02)}, [SM]),
    ({SM: spread(0.98, 1.02)}, {SM: 1.0}, [SM]),
    ({}, {SM: spread(0.98, 1.02)}, [SM]),
    ({}, {SM: spread(0.984375, 1.015625)}, [SM]),
    ({}, {SM: spread(0.986, 1.014)}, []),
    ({}, {SM: (0.5, *[1.0] * 19, 1.5)}, []),
    ({}, {POWER: spread(0.5, 1.5)}, []),
    ({SM: 100.0}, {SM: spread(98.5, 101.5)}, [SM]),
    ({SM: 100.0}, {SM: spread(98.6, 101.4)}, []),
    ({SM: 0.5}, {SM: 0.494}, [SM]),
]


@pytest.mark.parametrize(("base", "new", "found"), WITHIN)
def test_a_clock_also_moves_within_a_run(base: dict[str, Any], new: dict[str, Any], found: list[str]) -> None:
    assert moved(base, new) == found


def only(base: Sequence[Run], new: Sequence[Run]) -> MachineChannel:
    (found,) = machine_channels(base, new)
    return found


def test_of_several_devices_the_one_that_moved_most_is_drawn() -> None:
    base = run(*(channel(SM, 100.0, gpu=str(i)) for i in range(3)))
    new = run(*(channel(SM, 100.0 - 10 * i, gpu=str(1 - i)) for i in range(2)), channel(SM, 100.0, gpu="2"))
    found = only([base], [new])
    assert (found.metric, found.labels, found.unit, found.devices) == (SM, {"gpu": "0"}, "u", 3)
    assert [(one.standing, one.mean) for one in found.runs] == [("base", 100.0), ("new", 90.0)]


def test_the_newest_three_runs_of_each_side_are_drawn() -> None:
    base, new = ([run(channel(SM, value), source=f"{value}") for value in of] for of in ((9, 1, 2, 3), (9, 4, 5, 6)))
    assert [one.run for one in only(base, new).runs] == ["1", "2", "3", "4", "5", "6"]


def test_a_side_is_the_mean_of_its_runs() -> None:
    base = [run(channel(SM, 90.0)), run(channel(SM, 110.0))]
    assert machine_channels(base, [run(channel(SM, 100.0))]) == ()
    peaks = [run(channel(STEAL, *[0.0] * 99, 0.1)), run(channel(STEAL, *[0.0] * 100))]
    assert only(peaks, [run(channel(STEAL, *[0.0] * 100))]).metric == STEAL


def test_a_stored_mean_has_no_points() -> None:
    found = only([run(stored(SM, mean=100.0))], [run(channel(SM, 50.0))])
    assert [(one.mean, one.times, one.values, one.steps) for one in found.runs] == [(100, (), (), ()), (50, (), (), ())]
    assert machine_channels([run(stored(SM, mean=100.0))], [run(stored(SM, mean=100.0))]) == ()
    assert machine_channels([run(stored(SM, max=100.0))], [run(channel(SM, 50.0))]) == ()
    assert only([run(stored(STEAL, mean=0.2))], [run(stored(STEAL, mean=0.0))]).metric == STEAL
    assert only([run(stored(SM, mean=1.0))], [run(stored(SM, mean=123456.0))]).runs[1].mean == 123460.0


BEGAN = channel("machine.elapsed", 1.0, 2.0, 4.0, times=(10, 11, 12))
AMONG: list[tuple[list[Series], list[float], list[float], list[float]]] = [
    # the other series of a run; the times, values and places of the points at 0.5, 1, 1.5, 3 and 5 s
    ([], [0.5, 1, 1.5, 3, 5], [5, 6, 7, 8, 9], []),
    ([BEGAN], [1, 1.5, 3], [6, 7, 8], [10, 10.5, 11.5]),
    ([channel("other", 1.0, 2.0, 4.0, times=(20, 21, 22)), BEGAN], [1, 1.5, 3], [6, 7, 8], [10, 10.5, 11.5]),
    ([channel("machine.elapsed", 1.0, 2.0), BEGAN], [1, 1.5, 3], [6, 7, 8], [10, 10.5, 11.5]),
    ([channel("machine.elapsed", 1.0, 2.0)], [0.5, 1, 1.5, 3, 5], [5, 6, 7, 8, 9], []),
    ([channel("machine.elapsed", 1.0, times=(10,))], [0.5, 1, 1.5, 3, 5], [5, 6, 7, 8, 9], []),
    ([channel("machine.elapsed", 1.0, 2.0, times=(10, 12))], [1, 1.5], [6, 7], [10, 11]),
    ([channel("machine.elapsed", 1.0, 2.0, times=(10, 10))], [1, 1.5], [6, 7], [10, 10]),
    ([channel("machine.elapsed", 1.0, 1.2, times=(10, 11))], [0.5, 1, 1.5, 3, 5], [5, 6, 7, 8, 9], []),
    ([channel("machine.elapsed", 1.0, 1.6, times=(10, 11))], [1, 1.5], [6, 7], [10, 10.833]),
    ([channel("machine.elapsed", 2.0, 1.0, times=(10, 11))], [0.5, 1, 1.5, 3, 5], [5, 6, 7, 8, 9], []),
    ([channel("machine.elapsed", 1.0, 1.0, 3.0, times=(10, 11, 12))], [0.5, 1, 1.5, 3, 5], [5, 6, 7, 8, 9], []),
    ([channel("machine.elapsed", 1.0, 2.0, 4.0, times=(10, 12, 11))], [0.5, 1, 1.5, 3, 5], [5, 6, 7, 8, 9], []),
]


@pytest.mark.parametrize(("others", "times", "values", "places"), AMONG)
def test_the_points_of_a_run_among_its_steps(
    others: list[Series], times: list[float], values: list[float], places: list[float]
) -> None:
    (trace,) = only([], [run(*others, channel(CAPPED, 5, 6, 7, 8, 9, times=(500, 1000, 1500, 3000, 5000)))]).runs
    assert (trace.run, trace.standing, trace.mean) == ("run", "new", 7.0)
    assert [*map(list, (trace.times, trace.values, trace.steps))] == [times, values, places]


@pytest.mark.parametrize(("runs", "values", "points"), [(1, 301, 300), (1, 300, 300), (2, 999, 150), (3, 999, 100)])
def test_a_channel_has_at_most_three_hundred_points(runs: int, values: int, points: int) -> None:
    held = channel(CAPPED, *np.arange(float(values)), times=range(values))
    found = only([run(stored(CAPPED, mean=0.0))], [run(held)] * runs)
    assert [len(one.values) for one in found.runs] == [0, *[points] * runs]
