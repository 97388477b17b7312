"""One event: its range of runs, its relation to the machine, its state, and how it is reported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from histories import at, sha
from msgspec.structs import replace
from panels import DRIVERS, change, found_step, moved, panel, runs_of, series, step

from perfgate.core.history_events import HistoryEvent
from perfgate.core.remembered_runs import CommitLine, CommitNote, HistoryRun
from perfgate.core.run_history import ApprovedLevel, HistorySeries, LoadedHistory
from perfgate.history import events
from perfgate.history.event_panels import EventGroup, EventPanel, MovedSeries
from perfgate.history.events import EventRange

RUNS = runs_of("a", 40)
PLACES = {f"{card}{i}": float(i) for card in "ab" for i in range(40)}
DRIVER, FIRMWARE = ("driver", *DRIVERS), ("firmware", "1", "2")


def level(hours: float) -> ApprovedLevel:
    """A level that was approved at this hour."""
    return ApprovedLevel("new", at(hours), sha(0), "carol", "", None, (), is_first=False)


# --- where it began --------------------------------------------------------------------------------------------------


class Panel(EventPanel, frozen=True, dict=True):
    """A panel whose events began in these rows: the first, the likeliest, and the last possible one."""

    rows: tuple[int, int, int] = (0, 0, 0)

    def began(self, moved: Sequence[MovedSeries]) -> tuple[int, int, int]:
        return self.rows


#: The sizes of changes, each with its interval. The evidence of a panel is the sum of sizes over widths.
CLEAR, VAGUE = (0.1, 0.09, 0.11), (0.2, 0.1, 0.3)
#: A panel: the rows where its change points began, the number of these, and their size; and where the driver changes.
Part = tuple[tuple[int, int, int], int, tuple[float, float, float], list[int]]


def group_of(parts: Sequence[Part], commits: Mapping[str, str | None]) -> tuple[EventGroup, list[EventPanel]]:
    """An event of panels a and b, and these panels; `commits` are those of some runs."""
    group, panels = EventGroup([], 0, 0), []
    for number, (card, (rows, count, size, drivers)) in enumerate(zip("ab", parts, strict=False)):
        runs = [replace(run, commit=commits.get(run.id, run.commit)) for run in runs_of(card, 40, drivers=drivers)]
        panels.append(Panel(panel(runs).place, rows))
        group.moved[number] = {i: (0.0, moved(runs, 20, column=i, size=size)) for i in range(count)}
    return group, list(panels)


RANGES: list[tuple[list[Part], str, bool]] = [
    # panels, the last run before, the likeliest and the first run after, whether the machine explains it
    ([((20, 21, 23), 1, CLEAR, [])], "a19 a21 a23", False),
    ([((1, 1, 1), 1, CLEAR, [])], "a0 a1 a1", False),
    ([((20, 21, 23), 1, CLEAR, [22])], "a19 a21 a23", True),
    # the ranges overlap
    ([((20, 21, 23), 1, CLEAR, []), ((22, 22, 25), 1, VAGUE, [])], "b21 a23 a23", False),
    ([((18, 20, 24), 1, CLEAR, []), ((19, 22, 22), 1, VAGUE, [])], "b18 a20 b22", False),
    ([((19, 20, 24), 1, CLEAR, []), ((18, 22, 22), 1, VAGUE, [])], "a18 a20 b22", False),
    ([((18, 20, 24), 1, CLEAR, []), ((21, 22, 26), 1, VAGUE, [])], "b20 a24 a24", False),
    ([((18, 20, 24), 1, CLEAR, []), ((19, 19, 20), 1, VAGUE, [])], "b18 a20 b20", False),
    ([((18, 20, 24), 1, CLEAR, []), ((16, 18, 19), 1, VAGUE, [])], "a17 b19 b19", False),
    # they do not
    ([((18, 20, 24), 1, CLEAR, []), ((25, 25, 26), 1, VAGUE, [])], "a17 a20 a24", False),
    ([((18, 20, 24), 1, CLEAR, []), ((27, 27, 28), 1, VAGUE, [])], "a17 a20 a24", False),
    # the panel with the most evidence comes first
    ([((20, 21, 23), 1, VAGUE, []), ((22, 22, 25), 1, CLEAR, [])], "b21 b22 a23", False),
    ([((20, 21, 23), 1, CLEAR, []), ((22, 22, 25), 1, (0.2, 0.15, 0.24), [])], "b21 a23 a23", False),
    ([((20, 21, 23), 3, CLEAR, []), ((22, 22, 25), 1, (0.2, 0.19, 0.21), [])], "b21 a23 a23", False),
    ([((20, 21, 23), 1, CLEAR, []), ((22, 22, 25), 1, (0.2, 0.2, 0.2), [])], "b21 b22 a23", False),
    ([((20, 21, 23), 1, CLEAR, []), ((22, 22, 25), 1, (-0.2, -0.21, -0.19), [])], "b21 b22 a23", False),
    # facts explain it if they changed with three quarters of the series
    ([((20, 20, 20), 3, CLEAR, [20]), ((20, 20, 20), 1, VAGUE, [])], "a19 a20 a20", True),
    ([((20, 20, 20), 2, CLEAR, [20]), ((20, 20, 20), 1, VAGUE, [])], "a19 a20 a20", False),
    ([((20, 20, 20), 1, CLEAR, []), ((20, 20, 20), 3, VAGUE, [20])], "a19 a20 a20", True),
]  # fmt: skip


@pytest.mark.parametrize(("parts", "expected", "is_machine"), RANGES)
def test_the_range_of_an_event(parts: list[Part], expected: str, is_machine: bool) -> None:
    found = events._range(*group_of(parts, {}), PLACES)
    assert " ".join(run.id for run in (found.good, found.likely, found.bad)) == expected
    assert found.is_machine is is_machine
    assert found.facts == ((DRIVER,) if any(drivers for *_, drivers in parts) else ())
    assert found.hidden == ()


SAME: list[tuple[dict[str, str | None], bool]] = [
    # commits of runs, whether the event has one commit, so that the machine explains it
    ({}, False),
    ({"a19": "x", "a23": "x"}, True),
    ({"a19": None, "a23": None}, False),
    ({"a19": None}, False),
]


@pytest.mark.parametrize(("commits", "is_machine"), SAME)
def test_a_change_within_one_commit_is_that_of_the_machine(commits: dict[str, str | None], is_machine: bool) -> None:
    group, panels = group_of([((20, 21, 23), 1, CLEAR, [])], commits)
    assert events._range(group, panels, PLACES).is_machine is is_machine


def test_the_likeliest_run_is_that_of_the_panel_even_if_its_commit_was_measured_before() -> None:
    group, panels = group_of([((20, 20, 23), 1, CLEAR, [])], {})
    found = events._range(group, panels, PLACES | {"a20": 19.0})
    assert (found.good.id, found.likely.id, found.bad.id) == ("a19", "a20", "a23")


# --- how it ends -----------------------------------------------------------------------------------------------------


def event_range(
    *, machine: bool = False, hidden: bool = False, facts: tuple[tuple[str, str, str], ...] = ()
) -> EventRange:
    """An event that began after run 19, up to run 21."""
    return EventRange(RUNS[19], RUNS[20], RUNS[21], facts, machine, (DRIVER,) if hidden else ())


def reverting(**late: str) -> CommitLine:
    """The commits, of which some have subjects of their own, such as `c28="Revert ..."`."""
    subjects = [late.get(f"c{i}", f"Change {i}") for i in range(40)]
    return CommitLine.of("main", [CommitNote(sha(i), at(i), "ada", subject) for i, subject in enumerate(subjects)])


WORSE: dict[str, Any] = {}
BETTER: dict[str, Any] = {"worse": False}
NEITHER: dict[str, Any] = {"worse": None}
OF_20, OF_21 = 'Revert "Change 20"', 'Revert "Change 21" (#9)'


def gone(number: int, **about: Any) -> dict[str, Any]:
    """A change whose old level came back in this run."""
    return {"went_away": RUNS[number], **about}


def approved(hours: float) -> dict[str, Any]:
    """A change that was approved at this hour."""
    return {"approval": level(hours)}


STATES: list[tuple[list[dict[str, Any]], bool, CommitLine | None, str]] = [
    # changes, whether the machine hides it, commits, its state and the run or the hour of its end
    ([WORSE], False, None, "open"),
    ([gone(30)], False, None, "recovered a30"),
    ([gone(30), WORSE], False, None, "open"),
    ([gone(33), gone(30)], False, None, "recovered a33"),
    ([gone(30), gone(33)], False, None, "recovered a33"),
    ([gone(30), BETTER], False, None, "recovered a30"),
    ([gone(30, **BETTER), gone(35, **BETTER)], False, None, "recovered a35"),
    ([gone(30), gone(33, **NEITHER)], False, None, "recovered a30"),
    ([gone(30)], False, reverting(), "recovered a30"),
    # reverts of commits of the range, after it and until the old level came back
    ([gone(30)], False, reverting(c28=OF_20), "reverted a30"),
    ([gone(30)], False, reverting(c28=OF_21), "reverted a30"),
    ([gone(30)], False, reverting(c30=OF_20), "reverted a30"),
    ([gone(30)], False, reverting(c22=OF_20), "reverted a30"),
    ([gone(30)], False, reverting(c31=OF_20), "recovered a30"),
    ([gone(30)], False, reverting(c21=OF_20), "recovered a30"),
    ([gone(30)], False, reverting(c28='Revert "Change 19"'), "recovered a30"),
    ([gone(30)], False, reverting(c28='Revert "Change 22"'), "recovered a30"),
    ([gone(30), WORSE], False, reverting(c28=OF_20), "open"),
    ([gone(30)], False, CommitLine.of("main", []), "recovered a30"),
    # approvals of all that is left
    ([approved(25)], False, None, "approved 25"),
    ([approved(25), approved(26)], False, None, "approved 26"),
    ([approved(26), approved(25)], False, None, "approved 26"),
    ([approved(25), WORSE], False, None, "open"),
    ([approved(25), BETTER], False, None, "approved 25"),
    ([approved(25), gone(30)], False, None, "approved 25"),
    # the machine hides it: only a revert or an approval ends it
    ([gone(30)], True, None, "open a30"),
    ([gone(30)], True, reverting(), "open a30"),
    ([gone(30)], True, reverting(c28=OF_20), "reverted a30"),
    ([gone(30)], True, reverting(c39=OF_20), "reverted a39"),
    ([gone(30) | approved(25)], True, None, "approved 25"),
    ([gone(30), approved(25)], True, None, "approved 25"),
    ([gone(30) | approved(25), gone(30)], True, None, "open a30"),
    ([gone(30), WORSE], True, None, "open a30"),
]


@pytest.mark.parametrize(("changes", "hidden", "line", "expected"), STATES)
def test_the_state_of_an_event(
    changes: list[dict[str, Any]], hidden: bool, line: CommitLine | None, expected: str
) -> None:
    points = [moved(RUNS, 20, column=i, **about) for i, about in enumerate(changes)]
    state, ended, approval = events._state_of(points, event_range(hidden=hidden), line, RUNS, PLACES)
    ends = [ended.id] if ended else []
    ends += [str(hours) for hours in range(40) if approval and approval.time == at(hours)]
    assert " ".join([state, *ends]) == expected


def test_a_revert_ends_an_event_in_the_first_run_of_its_commit_or_a_newer_one() -> None:
    """Of runs that were measured after the old level came back; commits are measured late, and again."""
    again = [
        HistoryRun("again", at(35), sha(27)),
        HistoryRun("more", at(36), sha(28)),
        HistoryRun("new", at(37), sha(29)),
    ]
    places = PLACES | {"again": 27.0, "more": 28.0, "new": 29.0}
    for late, expected in (([0], "a30"), ([0, 1], "more"), ([0, 2], "new")):
        runs = [*RUNS[:29], *(again[i] for i in late), *RUNS[29:]]
        points = [moved(RUNS, 20, **gone(30))]
        state, ended, _ = events._state_of(points, event_range(), reverting(c28=OF_20), runs, places)
        assert (state, ended and ended.id) == ("reverted", expected)


ENDS: list[tuple[int, int, int, bool, bool]] = [
    # levels that the second event brings back, its other changes, its changes for the worse, whether the machine hides
    # the first event, whether the second one is only the end of the first
    (1, 0, 0, False, True),
    (3, 1, 0, False, True),
    (2, 2, 0, False, False),
    (2, 1, 0, False, False),
    (3, 0, 1, False, False),
    (0, 1, 0, False, False),
    (3, 1, 0, True, False),
]


@pytest.mark.parametrize(("back", "others", "worse", "hidden", "is_end"), ENDS)
def test_an_event_that_only_brings_old_levels_back(
    back: int, others: int, worse: int, hidden: bool, is_end: bool
) -> None:
    first, second = [], []
    for column in range(back + others + worse):
        old = change(RUNS, 20, went_away=RUNS[30] if column < back + worse else RUNS[35])
        new = change(RUNS, 30, worse=back <= column < back + worse, size=(-0.1, -0.2, 0.0))
        own = series(RUNS, metric=f"m{column}", changes=[old, new])
        first.append(MovedSeries(own, old, column, 20, 20, 20))
        second.append(MovedSeries(own, new, column, 30, 30, 30))
    first.append(moved(RUNS, 20, column=9))  # never went away
    ranges = [event_range(hidden=hidden), event_range()]
    assert events._ends([first, second], ranges) == [False, is_end]


Facts = tuple[tuple[str, str, str], ...]
HIDDEN: list[tuple[list[Facts | None], bool, bool, Facts | None, Facts]] = [
    # for each change for the worse the facts of the change that took it back, if there is one; whether the event is
    # that of the machine; whether there are changes for the better; the facts of the event of the second changes, if
    # that is one of the machine; what hides the first event
    ([(DRIVER,)], False, False, None, (DRIVER,)),
    ([(DRIVER,)], True, False, None, ()),
    ([()], False, False, None, ()),
    ([None], False, False, None, ()),
    ([(DRIVER,), (FIRMWARE,), (DRIVER,), ()], False, False, None, (DRIVER, FIRMWARE)),
    ([(DRIVER,), (DRIVER,), (DRIVER,), None], False, False, None, (DRIVER,)),
    ([(DRIVER,), (DRIVER,), (), ()], False, False, None, ()),
    ([(DRIVER,), (DRIVER,), ()], False, False, None, ()),
    ([(DRIVER,)], False, True, None, (DRIVER,)),
    # the facts are those of the event that took it back
    ([(DRIVER,)], False, False, (FIRMWARE,), (FIRMWARE,)),
    ([()], False, False, (FIRMWARE,), (FIRMWARE,)),
    ([(DRIVER,)], False, False, (), ()),
]


@pytest.mark.parametrize(("of_changes", "is_machine", "better", "of_event", "expected"), HIDDEN)
def test_what_the_machine_hides(
    of_changes: list[Facts | None], is_machine: bool, better: bool, of_event: Facts | None, expected: Facts
) -> None:
    first, second = [], []
    for column, facts in enumerate(of_changes):
        old = change(RUNS, 20, went_away=None if facts is None else RUNS[30])
        new = change(RUNS, 30, facts=facts or ())
        own = series(RUNS, metric=f"m{column}", changes=[old, new, change(RUNS, 35, facts=(DRIVER,))])
        first.append(MovedSeries(own, old, column, 20, 20, 20))
        second.append(MovedSeries(own, new, column, 30, 30, 30))
    if better:
        first += [moved(RUNS, 20, column=7 + i, worse=False) for i in range(2)]
    ranges = [event_range(machine=is_machine, facts=(DRIVER,))]
    if of_event is None:
        found = events._with_hidden([first], ranges)
    else:
        ranges.append(event_range(machine=bool(of_event), facts=of_event or (DRIVER,)))
        found = events._with_hidden([first, second], ranges)
    assert found[0] == replace(ranges[0], hidden=expected)
    assert len(found) == len(ranges)


# --- how it is reported ----------------------------------------------------------------------------------------------

REPORTED: list[tuple[CommitLine | None, EventRange, dict[str, Any], dict[str, Any]]] = [
    # commits, the range, the change, and how the report differs from that of an open event of the code
    (None, event_range(), WORSE, {}),
    (reverting(), event_range(), WORSE, {"commits": 2}),
    (CommitLine.of("main", []), event_range(), WORSE, {}),
    (None, event_range(machine=True, facts=(DRIVER,)), WORSE, {"kind": "machine", "facts": (DRIVER,)}),
    (None, event_range(), approved(25), {"state": "approved", "approval": level(25)}),
    (None, event_range(), gone(30), {"state": "recovered", "ended": RUNS[30]}),
    (None, event_range(hidden=True), gone(30), {"hidden": (DRIVER,), "ended": RUNS[30]}),
    (reverting(c28=OF_20), event_range(hidden=True), gone(30), {"state": "reverted", "ended": RUNS[30], "commits": 2}),
]


@pytest.mark.parametrize(("line", "own", "about", "differs"), REPORTED)
def test_the_report_of_an_event(
    line: CommitLine | None, own: EventRange, about: dict[str, Any], differs: dict[str, Any]
) -> None:
    points = [
        moved(RUNS, 20, column=i, **about, size=size)
        for i, size in enumerate([CLEAR, VAGUE, (-0.15, -0.2, -0.1), CLEAR])
    ]
    group = EventGroup([found_step(0, step(24, 20, 20, 20)), found_step(1, step(24, 20, 20, 20))], 0, 0)
    group.steps = [replace(group.steps[0], seen=RUNS[24]), group.steps[1]]
    group.moved = {0: {i: (0.0, one) for i, one in enumerate(reversed(points))}}
    found = events._event(group, own, [panel(RUNS), panel(runs_of("b", 40))], line, PLACES)
    assert [one.name.key.metric for one in found.changes] == ["m1", "m2", "m0", "m3"]
    (first, *_) = found.changes
    assert (first.suite, first.environment, first.unit, first.before, first.after) == ("gpt", "a", "s", 1.0, 1.1)
    assert ((first.change, first.low, first.high), first.worse) == (VAGUE, True)
    # the id is in tickets: it must stay
    expected = HistoryEvent("4638de48", "code", "open", own.good, own.bad, own.likely, None, found.changes)
    assert found == replace(expected, **differs)


def test_names_that_are_no_text_have_an_id() -> None:
    runs = [replace(run, id=f"\udcff{i}") for i, run in enumerate(RUNS)]
    group = EventGroup(
        [replace(found_step(0, step(24, 20, 20, 20)), seen=runs[24])], 0, 0, {0: {0: (0.0, moved(RUNS, 20))}}
    )
    assert len(events._event(group, event_range(), [panel(runs)], None, PLACES).id) == 8


# --- levels that were short ------------------------------------------------------------------------------------------

SHORT: list[tuple[list[tuple[int, tuple[float, ...]]], list[int]]] = [
    # the steps of a panel of 240 runs: first row, z of three series; the series in which short levels are looked for
    ([(45, (2.0, 1.99, -2.0))], [0, 2]),
    ([(40, (3.0, 0.0, 0.0))], [0]),
    ([(39, (3.0, 3.0, 3.0))], []),
    ([(60, (3.0, 0.0, 1.0)), (50, (1.0, 0.0, 3.0)), (39, (0.0, 9.0, 0.0))], [0, 2]),
]


@pytest.mark.parametrize(("steps", "expected"), SHORT)
def test_short_levels_are_looked_for_in_what_a_step_moved(
    steps: list[tuple[int, tuple[float, ...]]], expected: list[int]
) -> None:
    runs = runs_of("a", 240)
    late = change(runs, 200)
    columns = [series(runs, metric=f"m{i}", changes=[late]) for i in range(3)]
    asked: list[str] = []

    def short(one: HistorySeries, line: object, levels: object, newest: int) -> HistorySeries:
        assert (line, levels, newest) == (None, (), 400)
        asked.append(one.name.key.metric)
        return replace(one, changes=(change(runs, steps[0][0]),))

    groups = [
        EventGroup([found_step(0, step(first + 4, first, first, first, *z))], first - 1, first) for first, z in steps
    ]
    groups.append(EventGroup([found_step(0, step(204, 200, 200, 200))], 199, 200, {0: {0: (0.0, moved(runs, 200))}}))
    places = {run.id: float(i) for i, run in enumerate(runs)}
    found_before = LoadedHistory((), ())
    with patch.object(events, "with_short_levels", short):
        found = events._with_short_levels(found_before, [panel(runs, *columns)], groups, places)
    assert asked == [f"m{i}" for i in expected]
    assert (len(found), found[-1]) == (len(groups), groups[-1])
    assert [sorted(one.moved.get(0, {})) for one in found[:-1]] == [expected, *([[]] * (len(steps) - 1))]


def test_events_that_have_change_points_need_no_short_levels() -> None:
    runs = runs_of("a", 240)
    group = EventGroup([found_step(0, step(204, 200, 200, 200, 9.0))], 199, 200, {0: {0: (0.0, moved(runs, 200))}})
    found = events._with_short_levels(LoadedHistory((), ()), [panel(runs, series(runs))], [group], {})
    assert found == [group]


def test_old_events_are_found_by_their_change_points_the_newest_first() -> None:
    logs = (
        0.01 * np.random.default_rng(1).standard_normal(40) + 0.2 * (np.arange(40) >= 14) + 0.2 * (np.arange(40) >= 27)
    )
    changes = [change(RUNS, 14, levels=(1.0, 1.22)), change(RUNS, 27, levels=(1.22, 1.49))]
    own = series(RUNS, np.exp(logs).tolist(), noise=0.01, changes=changes)
    place = panel(RUNS, own).place
    without = replace(place, series=(replace(own, changes=()),))
    with patch.object(events, "_NEWEST", 0):
        assert [one.likely for one in events.events_of(LoadedHistory((place,), ()))] == [RUNS[27], RUNS[14]]
        assert events.events_of(LoadedHistory((without,), ())) == []
