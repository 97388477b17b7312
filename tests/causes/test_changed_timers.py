"""Joined rows of a table, common factors, and other times of timers, from numbers that are worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import pytest
from made_alignments import Row
from made_searches import Known, Told, searched, steps_of, times, told

from perfgate.causes import series_findings as module
from perfgate.causes.align import Finding
from perfgate.causes.series_findings import find_in_series

LOADER: Final = "loader"
COMMUNICATION: Final = "communication"

# --- a table does not show who calls a row ---------------------------------------------------------------------------

WENT, CAME = times(3, 0), times(0, 50)
MORE, FEWER = times(10, 20, (1, 2)), times(60, 20, (3, 1))
JOINED: list[tuple[list[Row], bool, list[Told]]] = [
    ([], False, []),
    ([CAME], False, [("appeared", 1, {1}, (), (1,))]),
    ([WENT, CAME], False, [("replaced", 2, {1, 2}, (1,), (2,))]),
    ([CAME, MORE], False, [("appeared", 1, {1, 2}, (), (1, 2))]),
    ([CAME, times(10, 90, (1, 9))], False, [("more calls", 2, {1, 2}, (), (1, 2))]),
    ([WENT, FEWER], False, [("fewer calls", 2, {1, 2}, (1, 2), ())]),
    ([WENT, CAME, MORE, FEWER], False, [("replaced", 2, {1, 2, 3, 4}, (1, 4), (2, 3))]),
    ([times(4, 4), MORE, FEWER], True, [("fewer calls", 3, {2, 3}, (3,), (2,))]),
    # below another row, and from timers, they are changes of their own
    ([WENT, times(5, 5, parent=1), CAME], False, [("vanished", 1, {1, 2}, (1,), ()), ("appeared", 3, {3}, (), (3,))]),
    ([times(3, 0, kind="range"), CAME], False, [("vanished", 1, {1}, (1,), ()), ("appeared", 2, {2}, (), (2,))]),
]


@pytest.mark.parametrize(("rows", "is_cut", "found"), JOINED)
def test_rows_of_a_table_that_changed_are_one_change(rows: list[Row], is_cut: bool, found: list[Told]) -> None:
    search = searched(rows, is_cut=is_cut)
    search.edits()
    search.calls()
    search.one_change()
    assert told(search) == found


def test_joined_rows_have_all_their_noise() -> None:
    """The last rows of 2 s and 1 s on both sides are noise, too."""
    search = searched([times(2, 9), times(9, 1), times(0, 50), times(9, 0)], is_cut=True)
    search.edits()
    search.one_change()
    assert told(search) == [("slower", 3, {3, 4}, (4,), (3,))]
    assert search.findings[0].error == pytest.approx(math.hypot(2, 1))


def test_other_findings_stay_as_they_are() -> None:
    slow = Finding("slow rank", frozenset({1}), 1, (0,), change=1.0)
    search = searched([times(5, 6), CAME])
    search.keep(slow)
    search.edits()
    search.one_change()
    assert [one.kind for one in search.findings] == ["slow rank", "appeared"]
    search = searched([times(5, 6), CAME, MORE])
    search.edits()
    search.keep(slow)
    search.calls()
    search.one_change()
    assert [one.kind for one in search.findings] == ["slow rank", "appeared"]


# --- one factor ------------------------------------------------------------------------------------------------------

#: The errors of three timers that have 160 s of 200 s, and grow by 10 s.
SMALL = {1: 1.0, 2: 1.0, 3: 1.0}


def three(*changes: float, base: tuple[float, ...] = (100.0, 40.0, 20.0)) -> list[Row]:
    return [times(time, time + change) for time, change in zip(base, changes, strict=True)]


ALIKE = three(6.25, 2.5, 1.25)
REST = times(20, 20, name="not timed")
FACTORS: list[tuple[list[Row], Mapping[int, float], dict[str, Any], int]] = [
    # the rows, their errors, the steps or the error of all, and the lead
    (ALIKE, SMALL, {}, 1),
    (ALIKE[::-1], SMALL, {}, 3),
    (three(-6.25, -2.5, -1.25), SMALL, {}, 1),
    (three(3, 13, 4, base=(64, 56, 40)), {1: 2.5, 2: 2.5, 3: 1}, {}, 1),
    ([*ALIKE, REST], SMALL, {}, 1),
    # at least three timers, with 0.8 of the step of the base
    ([times(100, 106), times(60, 64)], SMALL, {}, 0),
    (three(6.25, 2.5, 1.25, base=(99.9375, 40, 20)), SMALL, {}, 0),
    (ALIKE, SMALL, {"steps": (200, 240)}, 1),
    # by 3 %
    (three(1.5, 1.0, 0.5, base=(50, 30, 20)), dict.fromkeys(SMALL, 0.25), {"steps": (100, 103)}, 1),
    (three(1.5, 1.0, 0.46875, base=(50, 30, 20)), dict.fromkeys(SMALL, 0.25), {"steps": (100, 103)}, 0),
    # noise explains less than 4 / 2 standard errors, as one of four changes
    (ALIKE, SMALL, {"of_many": 5}, 1),
    (ALIKE, SMALL, {"of_many": 5.0625}, 0),
    # each timer changed by more than its error, and is within 2.5 errors of the factor
    (ALIKE, SMALL | {3: 1.25}, {}, 0),
    (ALIKE, SMALL | {3: 1.1875}, {}, 1),
    (three(7.5, 1.5, 1), {1: 0.5, 2: 0.5, 3: 0.25}, {}, 0),
    (three(7.5, 1.5, 1), {1: 0.5625, 2: 0.5, 3: 0.25}, {}, 1),
    (three(9, 2, -1), {1: 1.2, 2: 0.5, 3: 0.95}, {}, 0),
]


@pytest.mark.parametrize(("rows", "errors", "more", "lead"), FACTORS)
def test_timers_that_changed_by_one_factor(
    rows: list[Row], errors: Mapping[int, float], more: dict[str, Any], lead: int
) -> None:
    search = searched(rows, errors, **more)
    search.all_alike()
    assert told(search) == ([("machine", lead, {1, 2, 3}, (), ())] if lead else [])
    assert search.notes == (
        ["all timers changed by one factor: the machine changed, or every step has more work"] if lead else []
    )


# --- other times -----------------------------------------------------------------------------------------------------

#: A copy whose time depends on the memory of the host.
PAGEABLE = "Memcpy HtoD (Pageable -> Device)"
TIMES: list[tuple[list[Row], Mapping[int, float], dict[str, Any], list[tuple[str, int]]]] = [
    ([times(10, 11)], {}, {}, [("slower", 1)]),
    ([times(11, 10)], {}, {}, [("faster", 1)]),
    ([times(10, 10.9375)], {}, {}, []),
    ([times(1, 1.5)], {}, {"steps": (20, 20)}, [("slower", 1)]),
    ([times(10, 20)], {}, {"claimed": {1}}, []),
    # noise explains less than half a standard error for each node that is compared
    ([times(10, 12)], {1: 4}, {}, [("slower", 1)]),
    ([times(10, 12)], {1: 4.0625}, {}, []),
    ([times(10, 12), times(10, 10)], {1: 2}, {}, [("slower", 1)]),
    ([times(10, 12), times(10, 10)], {1: 2.0625}, {}, []),
    ([times(10, 12), times(9, 99, name=PAGEABLE)], {1: 4}, {}, [("slower", 1)]),
    # the largest change is first
    ([times(10, 12), times(10, 5), times(10, 13)], {}, {}, [("faster", 2), ("slower", 3), ("slower", 1)]),
    ([times(10, 20, kind=LOADER), times(10, 9, kind=LOADER)], {}, {}, [("stall", 1), ("faster", 2)]),
    ([times(10, 10, kind=LOADER), times(10, 20, parent=1)], {}, {}, [("stall", 2)]),
    ([times(10, 20, kind=COMMUNICATION), times(10, 9, kind=COMMUNICATION)], {}, {}, [("exposed", 1), ("faster", 2)]),
    ([times(10, 10, kind=LOADER), times(10, 20, parent=1, kind=COMMUNICATION)], {}, {}, [("exposed", 2)]),
    ([times(10, 10, kind=COMMUNICATION), times(10, 20, parent=1)], {}, {}, [("slower", 2)]),
]


@pytest.mark.parametrize(("rows", "errors", "more", "found"), TIMES)
def test_timers_that_take_other_times(
    rows: list[Row], errors: Mapping[int, float], more: dict[str, Any], found: list[tuple[str, int]]
) -> None:
    search = searched(rows, errors, **more)
    search.times()
    assert told(search) == [(kind, lead, {lead}, (), ()) for kind, lead in found]


@pytest.mark.parametrize(("new", "found"), [(5, ["slower"]), (4, []), (3, ["faster"])])
def test_a_timer_is_compared_with_the_parts_that_one_side_times(new: float, found: list[str]) -> None:
    search = searched([times(10, new), times(0, 6), times(0, 0)], claimed={2})
    search.joined[1] = [2]
    search.times()
    assert told(search) == [(kind, 1, {1, 2}, (), ()) for kind in found]


# --- all together ----------------------------------------------------------------------------------------------------


def test_a_node_is_in_the_first_finding_that_claims_it(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [CAME, MORE, times(40, 60), times(9, 1)]
    alignment = steps_of(rows)
    findings, notes = find_in_series(alignment, Known(alignment))
    assert [(one.kind, one.lead, {*one.nodes}) for one in findings] == [
        ("appeared", 1, {1, 2}),
        ("slower", 3, {3}),
        ("faster", 4, {4}),
    ]
    assert notes == []
    slow = Finding("slow rank", frozenset({1, 2, 3}), 3, (0,), ranks=("7",))
    monkeypatch.setattr(module, "find_slow_timers", lambda *_: slow)
    findings, _ = find_in_series(alignment, Known(alignment))
    assert findings[0] == slow
    assert [(one.kind, one.lead) for one in findings[1:]] == [("faster", 4)]


def test_timers_that_changed_by_one_factor_are_no_other_findings() -> None:
    alignment = steps_of(ALIKE)
    findings, notes = find_in_series(alignment, Known(alignment, dict.fromkeys(SMALL, 0.25)))
    assert ([one.kind for one in findings], len(notes)) == (["machine"], 1)
