"""The panel of an environment, and how its steps and change points become events."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from histories import at, sha
from msgspec.structs import replace
from panels import DRIVERS, change, found_step, moved, panel, runs_of, series, step

from perfgate.core import Better
from perfgate.core.remembered_runs import CommitLine, CommitNote, HistoryRun
from perfgate.core.run_history import EnvironmentHistory, HistorySeries, LoadedHistory
from perfgate.history.event_panels import (
    EventGroup,
    EventPanel,
    MovedSeries,
    _scaled,
    assign,
    coordinates,
    grouped,
    in_time,
)
from perfgate.stats.panel_steps import panel_steps

NAN = math.nan
RUNS = runs_of("a", 60)
PLACES = {f"{card}{i}": float(i) for card in "abc" for i in range(60)}


# --- the panel -------------------------------------------------------------------------------------------------------


def test_a_panel_has_the_series_that_can_be_better_or_worse() -> None:
    directions: dict[str, Better] = {"m0": "lower", "m1": "neither", "m2": "higher", "power": "lower"}
    directions |= {"machine.temperature": "lower", "energy.step": "lower"}
    found = panel(RUNS, *(series(RUNS, metric=name, better=better) for name, better in directions.items()))
    assert [one.name.key.metric for one in found.series] == ["m0", "m2"]


def test_the_rows_of_a_panel_are_runs() -> None:
    some = [RUNS[i] for i in (1, 2, 4, 6)]
    own = series(some, [0.0, 2.0, 4.0, NAN], metric="m1", changes=[change(some, 2, first=1, last=3)])
    found = panel(RUNS[:7], series(RUNS[:7], [0, 1, 2, 3, 4, 5, 3]), own)
    expected = [[0, 1 / 3, 2 / 3, 1, 4 / 3, 5 / 3, 1], [NAN, 0, 1, NAN, 2, NAN, NAN]]
    assert pytest.approx(np.array(expected), nan_ok=True) == found.values.T
    assert [(one.column, one.row, one.first, one.last) for one in found.moved] == [(1, 4, 2, 6)]
    assert (found.moved[0].series, found.moved[0].change) == (own, own.changes[0])


def test_late_runs_make_no_steps_but_count_as_rows() -> None:
    late = [replace(run, time=at(100)) if i == 5 else run for i, run in enumerate(RUNS[:40])]
    logs = 0.01 * np.random.default_rng(1).standard_normal(40) + 0.2 * (np.arange(40) >= 20)
    logs[5] += 1.0
    own = series(late, np.exp(logs).tolist())
    (found,) = EventPanel(EnvironmentHistory("gpt", "a", {}, tuple(late), (own,), (), ())).steps
    (known,) = panel_steps(np.delete(logs, 5)[:, None])
    assert (found.seen, found.index, found.first, found.last) == (known.seen + 1, 20, known.first + 1, known.last + 1)
    assert found.z == pytest.approx(known.z)
    assert EventPanel(EnvironmentHistory("gpt", "a", {}, (), (), (), ())).steps == ()


LEVELS: list[tuple[Sequence[float], Sequence[float], Sequence[float]]] = [
    # values, those that choose the scale, on the scale
    ([1, 2, 4], [1, 2, 4], [-math.log(2), 0, math.log(2)]),
    ([2, 4], [0.5, 1, 2], [math.log(2), math.log(4)]),
    ([1, 4], [0, 2, 4], [0.5, 2]),
    ([1, 4], [-2, 2, 4], [0.5, 2]),
    ([3, 4], [0, 0, 0, 5], [3, 4]),
    ([3, 4], [NAN, NAN], [3, 4]),
    ([2, NAN], [NAN, 1, math.inf], [math.log(2), NAN]),
    ([2, -1], [1] * 10 + [-1], [math.log(2), math.log(1e-6)]),
    ([2, -1], [1] * 9 + [-1], [2, -1]),
]


@pytest.mark.parametrize(("values", "like", "expected"), LEVELS)
def test_the_scale_of_a_series(values: Sequence[float], like: Sequence[float], expected: Sequence[float]) -> None:
    found = _scaled(np.array(values, np.float64), np.array(like, np.float64))
    assert found == pytest.approx(np.array(expected, np.float64), nan_ok=True)


# --- facts -----------------------------------------------------------------------------------------------------------

ONE = ((("driver", *DRIVERS)),)
FACTS: list[tuple[list[int], int, int, tuple[tuple[str, str, str], ...]]] = [
    # the driver changes in, first and last row, the facts that differ
    ([20], 20, 20, ONE),
    ([20], 18, 22, ONE),
    ([20], 21, 25, ()),
    ([20], 15, 19, ()),
    ([1], 1, 1, ONE),
    ([10, 20, 30], 30, 30, ONE),
    ([10, 20, 30, 40], 30, 30, ()),
]


@pytest.mark.parametrize(("drivers", "first", "last", "expected"), FACTS)
def test_facts_that_changed_between_two_rows(
    drivers: list[int], first: int, last: int, expected: tuple[tuple[str, str, str], ...]
) -> None:
    found = panel(runs_of("a", 60, drivers=drivers))
    assert found.facts(first, last) == expected
    assert found.facts(first, last, {"driver"}) == ()


BEFORE = [
    # the driver changes in, first and last row of the step, the row that made it clear, facts changed seldom until then
    ([20], 20, 20, 24, True),
    ([20], 21, 23, 24, False),
    ([1, 2, 4], 4, 4, 8, True),
    ([1, 2, 3, 4], 4, 4, 8, False),
    ([10, 20, 23, 25], 23, 23, 24, True),
    ([10, 20, 23, 24], 23, 23, 24, False),
    # 200 runs before the row count: 11 changes in 201 runs are often
    ([*range(1, 11), 225], 225, 225, 230, True),
    ([30, *range(41, 50), 225], 225, 225, 230, True),
    ([31, *range(41, 50), 225], 225, 225, 230, False),
]


@pytest.mark.parametrize(("drivers", "first", "last", "seen", "changed"), BEFORE)
def test_only_facts_that_seldom_changed_before_a_step_explain_it(
    drivers: list[int], first: int, last: int, seen: int, changed: bool
) -> None:
    found = panel(runs_of("a", 240, drivers=drivers))
    assert found.facts_before(step(seen, first, first, last)) is changed


# --- where an event began --------------------------------------------------------------------------------------------
# A value at the share f of the way from the old level to the new one, which are 2 standard deviations apart, has the
# gain 2 (1 - 2 f): the log-likelihood of the old level less that of the new one. Rows before the change add gains.

QUIET = [0.0] + [1.0] * 19
#: The differences between neighbours are 1.41 standard deviations: alone, they have a design effect of 2 / 0.455 = 4.4.
LOUD = [0.0, 2.0] * 10


def with_levels(
    start: Sequence[float],
    shares: Sequence[float],
    first: int,
    last: int,
    apart: float = 1.0,
    noise: float | None = None,
) -> tuple[HistorySeries, int, int]:
    """A series that begins with some values, then goes from 1 to 1 + `apart`; its change begins in one of two rows."""
    values = [*start, *(1 + apart * share for share in shares)]
    runs = RUNS[: len(values)]
    found = change(runs, first, first=first, last=last, levels=(1.0, 1.0 + apart))
    return series(runs, values, noise=apart / 2 if noise is None else noise, changes=[found]), first, last


def alternating(values: Sequence[float]) -> list[float]:
    """The values with a missing one after each, so that no differences of neighbours are known."""
    return [one for value in values for one in (value, NAN)]


DOWN = [1.0] * 6
BEGAN: list[tuple[list[tuple[HistorySeries, int, int]], tuple[int, int, int]]] = [
    # the sums of gains are 0, 2, 3, 3, 2, 0
    ([with_levels(QUIET, [0, 0.25, 0.5, 0.75, 1, 1], 20, 25)], (21, 22, 24)),
    # 0, 1, 3, 3, 2, 1, and 1 after the last row; at most 2 less than the most
    ([with_levels(QUIET, [0.25, 0, 0.5, 0.75, 0.75, 0.5, 0.5], 20, 25)], (21, 22, 25)),
    ([with_levels(QUIET, [0, 0, 0, 1, 1, 1], 20, 25)], (22, 23, 24)),
    ([with_levels(QUIET, [0, 0, 0, 1, 1, 1], 20, 25, noise=NAN)], (23, 23, 23)),
    # 4 standard deviations apart, and counted as at most 3: 0, -4.5, -0.5
    ([with_levels(QUIET, [1, 0.25, 0.25], 20, 22, noise=0.25)], (20, 20, 22)),
    # two series, each with one of the rows 20 and 24 as its end
    ([with_levels(QUIET, [0, 0, 0, 1, 1], 20, 22), with_levels(QUIET, [0.5] * 5, 21, 24)], (22, 23, 24)),
    ([with_levels(QUIET, [0.25, 0.75, 1, 1, 1], 21, 22), with_levels(QUIET, [0.5] * 5, 20, 24)], (20, 21, 22)),
    # a missing run is like one between the levels
    ([with_levels(QUIET, [0, 0, NAN, NAN, 1, 1], 20, 25)], (21, 22, 25)),
    ([with_levels(QUIET, [0, 0, NAN, 1, 1, 1], 20, 25)] * 2, (22, 22, 23)),
    # 0, -2, -4, -6, -8, -10 over the design effect of 4.4
    ([with_levels(LOUD, DOWN, 20, 25, apart=2.0)], (20, 20, 24)),
    # two series that move alike: 0, -4, -8, -12, -16, -20 over 8.8
    ([with_levels(LOUD, DOWN, 20, 25, apart=2.0)] * 2, (20, 20, 24)),
    ([with_levels([*LOUD[:18], NAN, NAN], DOWN, 20, 25, apart=2.0)] * 2, (20, 20, 24)),
    # no design effect is known: 0, 1, 1, 3, 3, 2, 2, 1, 1, 0
    ([with_levels(alternating(QUIET), alternating([0.25, 0, 0.75, 0.75, 0.75]), 40, 49)], (41, 43, 48)),
]


@pytest.mark.parametrize(("given", "expected"), BEGAN)
def test_the_rows_where_change_points_may_have_begun_together(
    given: list[tuple[HistorySeries, int, int]], expected: tuple[int, int, int]
) -> None:
    columns = [one for one, _, _ in given]
    found = panel(columns[0].runs, *columns)
    points = [MovedSeries(one, one.changes[0], i, first, first, last) for i, (one, first, last) in enumerate(given)]
    assert found.began(points) == expected


IN_TIME = [
    # the times of runs in the order of commits, and the positions of those that came in time
    ([], []),
    ([0], [0]),
    ([0, 1, 2, 3, 4, 5, 6], [0, 1, 2, 3, 4, 5, 6]),
    ([9, 1, 2, 3, 4], [0, 1, 2, 3, 4]),
    ([9, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5]),
    ([5, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5]),
    ([4, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5]),
    ([9, 8, 1, 2, 3, 4, 5], [2, 3, 4, 5, 6]),
    ([3, 9, 1, 2, 8, 4, 5, 7], [0, 2, 3, 4, 5, 6, 7]),
]


@pytest.mark.parametrize(("times", "expected"), IN_TIME)
def test_runs_that_came_late(times: list[int], expected: list[int]) -> None:
    assert in_time([HistoryRun(str(i), at(time)) for i, time in enumerate(times)]).tolist() == expected


# --- which step belongs to an event ----------------------------------------------------------------------------------


def event(*steps: tuple[int, int, int, int, bool]) -> EventGroup:
    """An event of steps, each with panel, first and last row, sign and whether facts of the machine changed."""
    found = [
        found_step(n, step(59, first, first, last), sign=sign, machine=machine)
        for n, first, last, sign, machine in steps
    ]
    return EventGroup(found, max(one.low for one in found), min(one.high for one in found))


SLOWER = (0, 20, 24, 1, False)
DISTANCES = [
    # the steps of the event, another one, its distance
    ([SLOWER], (1, 20, 24, 1, False), 0),
    ([SLOWER], (1, 18, 21, 1, False), 5),
    ([SLOWER], (1, 24, 27, 1, False), 7),
    ([SLOWER], (1, 25, 27, 1, False), None),
    ([SLOWER], (1, 15, 20, 1, False), 9),
    ([SLOWER], (1, 15, 19, 1, False), None),
    ([SLOWER], (0, 20, 24, 1, False), None),
    ([SLOWER], (1, 20, 24, -1, False), 0),
    ([SLOWER], (1, 20, 24, 1, True), 0),
    ([SLOWER], (1, 20, 24, -1, True), None),
    ([SLOWER, (1, 20, 24, -1, False)], (2, 20, 24, -1, True), None),
    ([SLOWER, (1, 22, 26, 1, False)], (2, 20, 24, 1, False), 2),
]


@pytest.mark.parametrize(("steps", "other", "expected"), DISTANCES)
def test_the_distance_of_a_step(
    steps: list[tuple[int, int, int, int, bool]], other: tuple[int, int, int, int, bool], expected: float | None
) -> None:
    (clear,) = event(other).steps
    assert event(*steps).distance(clear) == expected


AWAY: list[tuple[int, tuple[int, int, int], float]] = [
    # panel, and first, likely and last row of a change point, and its distance from an event that began in 20 to 22
    (0, (20, 20, 22), 0),
    (0, (21, 23, 24), 3),
    (0, (27, 28, 30), 8),
    (0, (28, 28, 30), -1),
    (0, (10, 13, 15), 7),
    (0, (10, 13, 14), -1),
    (1, (20, 20, 22), 0.5),
    (1, (22, 23, 24), 3.5),
    (1, (23, 23, 24), -1),
    (1, (15, 18, 20), 2.5),
    (1, (15, 18, 19), -1),
]


@pytest.mark.parametrize(("number", "rows", "expected"), AWAY)
def test_the_distance_of_a_change_point(number: int, rows: tuple[int, int, int], expected: float) -> None:
    first, likely, last = rows
    own = event((0, 20, 22, 1, False))
    assert own.away(number, moved(RUNS, likely, first=first, last=last), likely, first - 1, last) == expected


def test_the_change_points_of_an_event() -> None:
    own = event(SLOWER)
    first, second, third = (moved(RUNS, 20, column=i) for i in range(3))
    own.moved = {1: {0: (1.0, first), 1: (0.5, second)}, 0: {2: (0.0, third)}}
    assert (own.of(1), own.all()) == ([first, second], [first, second, third])


# --- the order of commits --------------------------------------------------------------------------------------------


def measured(card: str, *runs: tuple[str | None, float]) -> EnvironmentHistory:
    """An environment with runs of these commits, measured at these hours."""
    own = tuple(HistoryRun(f"{card}{i}", at(hours), commit) for i, (commit, hours) in enumerate(runs))
    return EnvironmentHistory("gpt", card, {}, own, (), (), ())


def test_commits_are_ordered_by_git() -> None:
    line = CommitLine.of("main", [CommitNote(sha(i), at(0), "ada", "") for i in range(9)])
    rows = [(None, 0), (sha(2), 1), (None, 2), ("f" * 40, 3), (sha(5), 4), (sha(4), 5)]
    places = coordinates(LoadedHistory((measured("a", *rows), measured("b", (sha(3), 0))), (), line))
    assert places == {"a0": -1, "a1": 2, "a2": 2, "a3": 2, "a4": 5, "a5": 5, "b0": 3}


def test_commits_are_ordered_by_their_first_measurement_without_a_repository() -> None:
    both = measured("a", ("y", 3), ("x", 1), (None, 4)), measured("b", ("z", 1), ("y", 0), ("x", 2))
    # y at 0, x and z at 1, a2 at 4; a later run is at no earlier place
    assert coordinates(LoadedHistory(both, ())) == {"a0": 0, "a1": 1, "a2": 3, "b0": 2, "b1": 2, "b2": 2}


# --- events of steps -------------------------------------------------------------------------------------------------

SIGNS: list[tuple[tuple[float, float], int]] = [
    # z of a time and of a rate, and the sign of the step
    ((2.0, 1.0), 1),
    ((1.0, 2.0), -1),
    ((1.2, 1.5), -1),
    ((1.5, 1.2), 1),
    ((0.5, 0.0), 1),
    ((0.0, -0.5), 1),
    ((-0.5, 0.0), -1),
    ((2.0, 1.5), 1),
    ((0.0, 0.0), -1),
]


@pytest.mark.parametrize(("z", "sign"), SIGNS)
def test_a_step_is_for_the_worse_by_the_squares_of_its_series(z: tuple[float, float], sign: int) -> None:
    columns = series(RUNS, metric="m0"), series(RUNS, metric="m1", better="higher")
    (found,) = grouped([panel(RUNS, *columns, steps=[step(24, 20, 20, 20, *z)])], PLACES)
    assert found.steps[0].sign == sign


def test_a_step_has_the_places_of_its_commits() -> None:
    runs = runs_of("a", 60, drivers=[20])
    rows = [step(24, 21, 20, 22, 1.0), step(44, 41, 40, 42, 1.0)]
    places = {name: 2 * place for name, place in PLACES.items()}
    first, second = grouped([panel(runs, series(runs), steps=rows)], places)
    for found, own, low, at_, high, seen, machine in (
        (first, rows[0], 38, 42, 44, "a24", True),
        (second, rows[1], 78, 82, 84, "a44", False),
    ):
        (one,) = found.steps
        assert (one.panel, one.step, one.low, one.at, one.high, one.seen.id) == (0, own, low, at_, high, seen)
        assert one.machine is machine
        assert (found.low, found.high, found.moved) == (low, high, {})


GROUPS: list[tuple[dict[str, list[tuple[int, int, int]]], list[str]]] = [
    # by card: the rows of its steps (clear in, first, last); the events: the steps, after the place, up to the place
    ({"a": [(29, 20, 24)], "b": [(28, 22, 26)]}, ["b28 a29: 21 to 24"]),
    ({"a": [(29, 20, 24)], "b": [(28, 25, 26)]}, ["b28: 24 to 26", "a29: 19 to 24"]),
    ({"a": [(29, 20, 24)], "b": [(29, 20, 24)], "c": [(29, 24, 25)]}, ["a29 b29 c29: 23 to 24"]),
    # the nearest event, and the first of two that are as near
    ({"a": [(29, 18, 23), (34, 22, 28)], "b": [(40, 21, 27)]}, ["a29: 17 to 23", "a34 b40: 21 to 27"]),
    ({"a": [(29, 18, 23), (34, 22, 28)], "b": [(40, 19, 26)]}, ["a29 b40: 18 to 23", "a34: 21 to 28"]),
    ({"a": [(29, 18, 22), (34, 22, 26)], "b": [(40, 20, 24)]}, ["a29 b40: 19 to 22", "a34: 21 to 26"]),
    # after the second step, the event is in fewer commits
    ({"a": [(29, 20, 24)], "b": [(30, 23, 26)], "c": [(31, 20, 22)]}, ["a29 b30: 22 to 24", "c31: 19 to 22"]),
    ({"a": [(29, 20, 24)], "b": [(30, 18, 21)], "c": [(31, 22, 24)]}, ["a29 b30: 19 to 21", "c31: 21 to 24"]),
]


@pytest.mark.parametrize(("given", "expected"), GROUPS)
def test_steps_of_the_same_commits_are_one_event(
    given: dict[str, list[tuple[int, int, int]]], expected: list[str]
) -> None:
    panels = []
    for card, rows in given.items():
        runs, steps = runs_of(card, 60), [step(seen, first, first, last, 1.0) for seen, first, last in rows]
        panels.append(panel(runs, series(runs), steps=steps))
    groups = grouped(panels, PLACES)
    found = [f"{' '.join(one.seen.id for one in group.steps)}: {group.low:g} to {group.high:g}" for group in groups]
    assert found == expected


ASSIGNED: list[tuple[list[tuple[int, int, int, int, int]], list[list[str]]]] = [
    # change points: panel, column, first, likely and last row; those of each of three events: of a and b in 20 to 22,
    # of a in 30 to 32, of b in 34 to 36
    ([(0, 0, 20, 21, 22)], [["a0: 21 at 1"], [], []]),
    ([(0, 0, 20, 20, 22)], [["a0: 20 at 0"], [], []]),
    ([(2, 0, 20, 20, 22)], [["c0: 20 at 0.5"], [], []]),
    ([(0, 0, 27, 27, 28)], [[], ["a0: 27 at 3"], []]),
    ([(0, 0, 26, 24, 26)], [["a0: 24 at 4"], [], []]),
    ([(0, 0, 20, 22, 22), (0, 0, 21, 21, 22)], [["a0: 21 at 1"], [], []]),
    ([(0, 0, 21, 21, 22), (0, 0, 20, 22, 22)], [["a0: 21 at 1"], [], []]),
    ([(0, 0, 20, 21, 22), (0, 1, 20, 22, 22)], [["a0: 21 at 1", "a1: 22 at 2"], [], []]),
    # the nearest event has a nearer point of the series
    ([(0, 0, 20, 20, 22), (0, 0, 25, 24, 27)], [["a0: 20 at 0"], ["a0: 24 at 6"], []]),
    ([(0, 0, 25, 24, 27), (0, 0, 20, 20, 22)], [["a0: 20 at 0"], ["a0: 24 at 6"], []]),
    ([(0, 0, 20, 20, 22), (0, 0, 22, 24, 24)], [["a0: 20 at 0"], [], []]),
    # two points that are as near: the first
    ([(0, 0, 28, 29, 30), (0, 0, 31, 31, 32)], [[], ["a0: 29 at 1"], []]),
    # an environment without a step: the commits decide
    ([(2, 0, 22, 23, 24)], [["c0: 23 at 3.5"], [], []]),
    ([(2, 0, 23, 23, 24)], [[], [], []]),
    ([(2, 0, 18, 18, 20)], [["c0: 18 at 2.5"], [], []]),
    ([(2, 0, 18, 18, 19)], [[], [], []]),
    ([(2, 0, 20, 29, 40)], [[], ["c0: 29 at 1.5"], []]),
]


@pytest.mark.parametrize(("points", "expected"), ASSIGNED)
def test_a_change_point_goes_to_the_nearest_event(
    points: list[tuple[int, int, int, int, int]], expected: list[list[str]]
) -> None:
    panels = []
    for number, card in enumerate("abc"):
        runs = runs_of(card, 60)
        own = [
            moved(runs, likely, column=column, first=first, last=last)
            for place, column, first, likely, last in points
            if place == number
        ]
        panels.append(panel(runs, changes=own))
    groups = [
        event((0, 20, 22, 1, False), (1, 20, 22, 1, False)),
        event((0, 30, 32, 1, False)),
        event((1, 34, 36, 1, False)),
    ]
    assign(panels, groups, PLACES)
    found = [
        [
            f"{'abc'[number]}{column}: {one.row} at {away:g}"
            for number, columns in group.moved.items()
            for column, (away, one) in columns.items()
        ]
        for group in groups
    ]
    assert found == expected
