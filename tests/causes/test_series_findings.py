"""The changes between two trees from metrics, from numbers that are worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pytest
from made_alignments import Row, Steps
from made_searches import Known, Told, searched, steps_of, times, told

from perfgate.causes.series_findings import _FindingSearch
from perfgate.stats.distributions import t_quantile

# --- small functions -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("freedom", "tests", "below"), [(20, 1, 0.998), (20, 4, 0.9995), (8.5, 10, 0.9998)])
def test_the_limit_of_noise_in_one_of_many_changes(freedom: float, tests: int, below: float) -> None:
    search = _FindingSearch(alignment := steps_of([]), Known(alignment))
    assert search.limit(freedom, tests) == pytest.approx(t_quantile(freedom, below))


def test_the_last_row_is_the_smallest_that_takes_time() -> None:
    search = searched([times(0, 0), times(3, 0), times(0.5, 9), times(2, 8)], steps=(5.625, 200))
    assert (search._last_row(0), search._last_row(1)) == (0.5, 8.0)
    assert searched([times(0, 1)])._last_row(0) == math.inf


def test_the_nodes_that_are_compared_are_large_and_free() -> None:
    rows = [times(1, 0), times(0, 1), times(0.9375, 0.9375), times(5, 5), times(5, 5)]
    assert searched(rows, claimed={4})._comparable() == [1, 2, 5]


# --- timers that came or went ----------------------------------------------------------------------------------------

ITEM = "aten::item"
EDITS: list[tuple[list[Row], list[Told]]] = [
    ([], []),
    ([times(0, 0.4)], [("appeared", 1, {1}, (), (1,))]),
    ([times(0.4, 0)], [("vanished", 1, {1}, (1,), ())]),
    ([times(0, 0.3984375), times(0.3984375, 0)], []),
    ([times(0, 5, name=ITEM)], [("sync", 1, {1}, (), (1,))]),
    ([times(5, 0, name=ITEM)], [("vanished", 1, {1}, (1,), ())]),
    # those with calls on both sides, or on none
    ([times(5, 50), times(50, 5, (2, 1)), times(5, 50, (1, 2)), times(5, 50, (0, 0))], []),
    # the longest is named, with all below it
    ([times(0, 1), times(0, 5), times(0, 2)], [("appeared", 2, {1, 2, 3}, (), (1, 2, 3))]),
    ([times(1, 0), times(5, 0), times(2, 0)], [("vanished", 2, {1, 2, 3}, (1, 2, 3), ())]),
    ([times(0, 3), times(0, 2), times(0, 2, parent=2)], [("appeared", 2, {1, 2, 3}, (), (1, 2))]),
    ([times(0, 3, name=ITEM), times(0, 5)], [("appeared", 2, {1, 2}, (), (1, 2))]),
    # a replacement takes from a fourth to four times as long
    ([times(1, 0), times(0, 4)], [("replaced", 2, {1, 2}, (1,), (2,))]),
    ([times(4, 0), times(0, 1)], [("replaced", 2, {1, 2}, (1,), (2,))]),
    ([times(1, 0), times(0, 4.0625)], [("vanished", 1, {1}, (1,), ()), ("appeared", 2, {2}, (), (2,))]),
    ([times(4.0625, 0), times(0, 1)], [("vanished", 1, {1}, (1,), ()), ("appeared", 2, {2}, (), (2,))]),
    ([times(0, 3), times(3, 0), times(0, 1), times(2, 0, parent=2)], [("replaced", 1, {1, 2, 3, 4}, (2,), (1, 3))]),
    ([times(1, 0), times(5, 0), times(0, 9)], [("replaced", 3, {1, 2, 3}, (1, 2), (3,))]),
    ([times(1, 0), times(0, 1), times(0, 4)], [("vanished", 1, {1}, (1,), ()), ("appeared", 3, {2, 3}, (), (2, 3))]),
    # below a timer, if it took longer by at least half of the time, or if others went at the same time
    ([times(10, 7.5), times(0, 5, parent=1)], [("appeared", 2, {2}, (), (2,))]),
    ([times(7.5, 10), times(5, 0, parent=1)], [("vanished", 2, {2}, (2,), ())]),
    ([times(10, 10), times(5, 0, parent=1), times(0, 5, parent=1)], [("replaced", 3, {2, 3}, (2,), (3,))]),
    # once, from the step down
    ([times(0, 5), times(0, 5, parent=1)], [("appeared", 1, {1, 2}, (), (1,))]),
]


@pytest.mark.parametrize(("rows", "found"), EDITS)
def test_timers_that_came_or_went(rows: list[Row], found: list[Told]) -> None:
    search = searched(rows)
    search.edits()
    assert (told(search), search.notes, search.joined) == (found, [], {})


def test_timers_of_other_findings_are_no_edits() -> None:
    rows = [times(0, 5), times(0, 5, parent=1), times(5, 0), times(5, 0, parent=3), times(0, 5)]
    search = searched(rows, claimed={1, 3, 5})
    search.edits()
    assert search.findings == []


REST = "not timed"
UNTIMED: list[tuple[list[Row], tuple[float, float], int, set[int], str]] = [
    # the rows, the steps, the node that they are joined with, they themselves, and the note
    ([times(10, 7.25), times(0, 5, name="mm", parent=1)], (200, 200), 1, {2}, "only the new side times mm"),
    ([times(7.25, 10), times(5, 0, name="mm", parent=1)], (200, 200), 1, {2}, "only the base side times mm"),
    ([times(10, 7.25), times(0, 2, name="b", parent=1), times(0, 3, parent=2)], (200, 200), 1, {2, 3}, "times b"),
    ([times(9, 5, name="a"), times(4, 2, name=REST), times(0, 5, name="mm")], (200, 202), 2, {3}, "new side times mm"),
    ([times(4, 2, name=REST), times(5, 0, name="mm"), times(1, 0, name="b")], (200, 198), 1, {2, 3}, "times mm, b"),
]


@pytest.mark.parametrize(("rows", "steps", "rest", "joined", "note"), UNTIMED)
def test_timers_that_the_other_side_lacks_are_parts_of_the_timer_around_them(
    rows: list[Row], steps: tuple[float, float], rest: int, joined: set[int], note: str
) -> None:
    search = searched(rows, steps=steps)
    search.edits()
    assert search.findings == []
    assert {node: {*nodes} for node, nodes in search.joined.items()} == {rest: joined}
    assert search.claimed == joined
    place = "the step" if rows[rest - 1].name == REST else "op"
    assert len(search.notes) == 1
    assert search.notes[0].endswith(f"{note}: compared as a part of {place}")


EDITS_OF_THE_STEP: list[tuple[list[Row], tuple[float, float], int]] = [
    # without the rest of the step, or if the step took longer by half of the time
    ([times(4, 2), times(0, 5)], (200, 200), 1),
    ([times(4, 2), times(9, 9, name=REST, parent=1), times(0, 5)], (200, 200), 1),
    ([times(4, 2, name=REST), times(0, 5)], (200, 202.5), 1),
    ([times(4, 2, name=REST), times(5, 0)], (202.5, 200), 1),
    ([times(4, 2, name=REST), times(0, 5), times(1, 0)], (200, 200), 2),
]


@pytest.mark.parametrize(("rows", "steps", "edits"), EDITS_OF_THE_STEP)
def test_timers_of_the_step_that_came(rows: list[Row], steps: tuple[float, float], edits: int) -> None:
    search = searched(rows, steps=steps)
    search.edits()
    assert (len(search.findings), search.joined, search.notes) == (edits, {}, [])


# --- tables without their last rows ----------------------------------------------------------------------------------

#: The last row takes 2 s on the base side, and 1 s on the new side.
LAST = [times(2, 9), times(9, 1)]
CUT: list[tuple[list[Row], Mapping[int, float], list[Told], list[float]]] = [
    # a row that came takes more than twice as long as the last row; the errors include that of the last row
    ([times(0, 4)], {3: 0.75}, [], []),
    ([times(0, 4.0625)], {3: 0.75}, [("slower", 3, {3}, (), (3,))], [math.hypot(0.75, 2)]),
    ([times(2, 0)], {3: 0.75}, [], []),
    ([times(2.0625, 0)], {3: 0.75}, [("faster", 3, {3}, (3,), ())], [1.25]),
    # noise explains up to 3 / 2 standard errors, of three rows
    ([times(0, 6)], {3: 4}, [], []),
    ([times(0, 6)], {3: 3.9375}, [("slower", 3, {3}, (), (3,))], [math.hypot(3.9375, 2)]),
    ([times(6, 0)], {3: 4}, [], []),
    ([times(6, 0)], {3: 3.75}, [("faster", 3, {3}, (3,), ())], [math.hypot(3.75, 1)]),
    # each row is a finding
    (
        [times(0, 50), times(4, 0), times(0, 60), times(5, 0)],
        {3: 1.5, 4: 0.75},
        [
            ("faster", 4, {4}, (4,), ()),
            ("faster", 6, {6}, (6,), ()),
            ("slower", 3, {3}, (), (3,)),
            ("slower", 5, {5}, (), (5,)),
        ],
        [1.25, 1, 2.5, 2],
    ),
    ([times(4, 0), times(0, 9)], {3: 0.75, 4: 1}, [("replaced", 4, {3, 4}, (3,), (4,))], [1.25]),
]


@pytest.mark.parametrize(("rows", "errors", "found", "noise"), CUT)
def test_rows_that_the_other_table_may_have_left_out(
    rows: list[Row], errors: Mapping[int, float], found: list[Told], noise: list[float]
) -> None:
    search = searched([*LAST, *rows], errors, is_cut=True)
    search.edits()
    assert told(search) == found
    assert [one.error for one in search.findings] == pytest.approx(noise)


# --- other numbers of calls ------------------------------------------------------------------------------------------

CALLS: list[tuple[Row, bool]] = [
    (times(10, 20, (1, 2)), True),
    (times(20, 10, (2, 1)), True),
    (times(0.5, 1, (1, 2)), True),
    # at most a tenth more or less
    (times(10, 11, (10, 11)), False),
    (times(10, 9, (10, 9)), False),
    (times(10, 11.25, (16, 18)), True),
    (times(10, 8.75, (16, 14)), True),
    # on one side only
    (times(10, 20, (0, 1)), False),
    (times(10, 5, (1, 0)), False),
    (times(0, 5, (1, 2)), False),
    # the calls explain more than half of the change
    (times(1, 3, (1, 2)), False),
    (times(1, 2.9375, (1, 2)), True),
    (times(1, 4.75, (1, 3)), True),
    (times(1, 5, (2, 6)), False),
    (times(8, 2, (8, 5)), False),
    (times(8, 2.0625, (8, 5)), True),
    # waits take as long as the device does
    (times(1, 9, (1, 2), ITEM), True),
    (times(9, 1, (10, 8), ITEM), False),
    # calls and time changed in opposite directions
    (times(10, 8, (1, 2)), False),
    (times(10, 8, (1, 2), ITEM), False),
    (times(10, 10, (1, 2)), False),
]


@pytest.mark.parametrize(("row", "explained"), CALLS)
def test_changes_that_other_numbers_of_calls_explain(row: Row, explained: bool) -> None:
    assert searched([row])._by_calls(1) is explained


@pytest.mark.parametrize("is_cut", [True, False])
@pytest.mark.parametrize("within", [([0.0], [0.0]), ([[0.0, 0.5]], [0.0]), ([0.0], [[0.5, 0.0]])])
def test_the_calls_of_rows_that_may_not_be_printed_explain_nothing(
    within: tuple[Sequence[Steps], Sequence[Steps]], is_cut: bool
) -> None:
    alignment = steps_of([times(10, 20, (1, 2))], within=within, is_cut=is_cut)
    is_whole = within == ([0.0], [0.0])
    assert _FindingSearch(alignment, Known(alignment))._by_calls(1) is (is_whole or not is_cut)


GROUPS: list[tuple[list[Row], list[Told]]] = [
    ([], []),
    ([times(5, 50)], []),
    ([times(1, 2, (1, 2))], [("more calls", 1, {1}, (), (1,))]),
    ([times(2, 1, (2, 1))], [("fewer calls", 1, {1}, (1,), ())]),
    ([times(1, 1.9375, (1, 2)), times(1.9375, 1, (2, 1))], []),
    (
        [times(10, 20, (1, 2)), times(20, 10, (2, 1)), times(10, 30, (1, 2.5)), times(60, 20, (3, 1))],
        [("more calls", 3, {1, 3}, (), (1, 3)), ("fewer calls", 4, {2, 4}, (2, 4), ())],
    ),
    ([times(1, 9, (1, 2), ITEM), times(1, 2, (1, 2))], [("sync", 1, {1, 2}, (), (1, 2))]),
    ([times(1, 5, (1, 2), ITEM), times(5, 10, (1, 2))], [("more calls", 2, {1, 2}, (), (1, 2))]),
    ([times(20, 10, (2, 1), ITEM)], [("fewer calls", 1, {1}, (1,), ())]),
]


@pytest.mark.parametrize(("rows", "found"), GROUPS)
def test_nodes_with_more_calls_are_one_finding(rows: list[Row], found: list[Told]) -> None:
    free, claimed = searched(rows), searched(rows, claimed={*range(1, 9)})
    free.calls()
    claimed.calls()
    assert (told(free), claimed.findings) == (found, [])
