"""The order of runs, and what is said about a change: range, approval, return, machine."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Done
from histories import at, column, filled, in_memory, record, run_at, sha, steps, store_at
from msgspec.structs import replace

from perfgate.core.remembered_runs import CommitLine, CommitNote, HistoryRun
from perfgate.core.run_history import ApprovedLevel, ChangePoint, HistoryChange, HistorySeries
from perfgate.history.load import load
from perfgate.history.series import RunOrder, _changes, _is_back, differences, order_of, series_of, with_short_levels
from perfgate.history.store import add
from perfgate.stats.change_points import find_change_points


def line(*numbers: int) -> CommitLine:
    return CommitLine.of("main", [CommitNote(sha(i), at(i), "ada", f"commit {i}") for i in numbers])


def runs_of(*numbers: int, hours: dict[int, float] | None = None) -> list[HistoryRun]:
    return [
        replace(record(number, {"forward": 0.1 + i}).run, time=at((hours or {}).get(i, number)))
        for i, number in enumerate(numbers)
    ]


def test_commits_decide_where_clocks_jump() -> None:
    runs = runs_of(0, 1, 2, 3, hours={1: 50})
    order = order_of(runs, line(0, 1, 2, 3))
    assert order.places == (0, 1, 2, 3)
    assert order.notes == ("2 runs have an earlier time than a run of an older commit: the commits decide",)
    assert order_of(runs, None).places == (0, 2, 3, 1)


def test_rewritten_commits_are_left_out_and_named() -> None:
    order = order_of(runs_of(0, 1, 77, 2), line(0, 1, 2))
    assert order.places == (0, 1, 3)
    (note,) = order.notes
    assert sha(77)[:10] in note
    assert "not on main" in note


def test_a_shallow_clone_orders_by_time() -> None:
    order = order_of(runs_of(0, 1, 2, 3), line(3))
    assert order.places == (0, 1, 2, 3)
    assert order.notes[0].startswith("ordered by time: main does not have the commits of 3 of 4 runs here (fetch it")


def test_runs_without_a_commit_are_placed_by_time() -> None:
    runs = runs_of(0, 1, 2)
    runs.insert(0, replace(runs[0], commit=None, time=at(1.5)))
    assert order_of(runs, line(0, 1, 2)).places == (1, 2, 0, 3)


def test_two_runs_of_a_commit_are_neighbours() -> None:
    runs = [*runs_of(0, 1, 2), replace(runs_of(1)[0], time=at(30), id="again")]
    assert order_of(runs, line(0, 1, 2)).places == (0, 1, 3, 2)


def test_abbreviated_commits_are_found() -> None:
    commits = line(0, 1, 2)
    assert [commits.place(sha(1)[:7]), commits.place(sha(1)[:6]), commits.place("abcdefabcdef")] == [1, None, None]


LEVELS = (
    ApprovedLevel("first", at(0), sha(0), "ada", "first", None, (), True),
    ApprovedLevel("rotary", at(31), sha(31), "bob", "rotary embeddings", 7, (), False),
    ApprovedLevel("other", at(31), sha(31), "bob", "other", 7, ("backward",), False),
)


@pytest.mark.parametrize(
    ("metric", "adopted", "covers"),
    [("fwd", "forward", True), ("forward", "fwd", True), ("forward", "forward", True), ("forward", "bwd", False)],
)
def test_an_approval_knows_every_name_of_its_metrics(metric: str, adopted: str, covers: bool) -> None:
    assert replace(LEVELS[2], adopts=(adopted,)).covers(metric) is covers
    assert not replace(LEVELS[0], adopts=(adopted,)).covers(metric)


@pytest.mark.parametrize(
    ("numbers", "approved", "went_away"),
    [
        (steps((30, 0.1), (30, 0.11)), [True], [None]),
        (steps((30, 0.1), (20, 0.11), (20, 0.1)), [True, False], [sha(50), None]),
        (steps((15, 0.1), (45, 0.11)), [False], [None]),
    ],
    ids=["approved", "went away", "approved long after"],
)
def test_a_change_has_its_range_its_approval_and_its_end(
    numbers: list[float], approved: list[bool], went_away: list[str | None]
) -> None:
    runs = runs_of(*range(len(numbers)))
    commits = line(*range(len(numbers)))
    found = list(_changes(find_change_points(numbers), runs, "forward", line=commits, levels=LEVELS, often=()))
    assert [change.approval == LEVELS[1] for change in found] == approved
    assert [change.went_away.commit if change.went_away else None for change in found] == went_away
    for change in found:
        first, last = change.point.first, change.point.last
        assert (change.last_good.commit, change.first_bad.commit) == (sha(first - 1), sha(last))
        assert change.commits == last - first + 1
        assert first <= change.point.index <= last


def test_a_change_between_two_runs_of_a_commit_is_not_the_code(folder: Path) -> None:
    store = store_at(folder)
    for i, number in enumerate(steps((20, 0.1), (20, 0.12), noise=0.002)):
        context = {"driver": "570.1" if i < 20 else "580.2", "host": "n1"}
        add(store, record(min(i, 19), {"forward": number}, hours=i, context=context))
    (series,) = load(store).series
    (change,) = series.changes
    assert change.is_one_commit
    assert change.facts == (("driver", "570.1", "580.2"),)


def test_levels_cover_the_series(folder: Path) -> None:
    (series,) = load(filled(folder, steps((30, 0.1), (30, 0.11)))).series
    (first, second) = series.levels()
    assert (first[:2], second[:2]) == ((0, 30), (30, 60))
    assert (first[2], second[2]) == (pytest.approx(0.1, rel=0.01), pytest.approx(0.11, rel=0.01))


def test_a_metric_that_ended_says_so(folder: Path) -> None:
    store = filled(folder, steps((30, 0.1)))
    for i in range(30, 40):
        add(store, record(i, {"step": 0.2}))
    forward, step = load(store).series
    assert (forward.missing_since, step.missing_since) == (10, 0)


def test_other_names_of_a_metric_are_found(folder: Path) -> None:
    store = filled(folder, steps((30, 0.1)))
    assert [one.name.key.metric for one in load(store, metric="fwd").series] == ["forward"]
    assert load(store, metric="back*").series == ()


@pytest.mark.parametrize(
    ("newest", "said"),
    [
        ([1.0] * 3, "no lasting change\n"),
        ([1.08], "no lasting change so far: the newest run is"),
        ([0.92] * 4, "% below the level, and a change needs five runs"),
        ([1.08, 1.0], "no lasting change\n"),
    ],
)
def test_few_runs_after_a_possible_change_are_named(
    folder: Path, perfgate: Callable[..., Done], newest: list[float], said: str
) -> None:
    filled(folder, [*steps((40, 0.1)), *(0.1 * one for one in newest)])
    assert said in perfgate("history", "forward").out


def test_too_few_runs_for_a_change_are_named(folder: Path, perfgate: Callable[..., Done]) -> None:
    filled(folder, steps((9, 0.1)))
    assert "too few runs to see a change: 9 of 10" in perfgate("history", "forward").out
    assert "too few runs to see a change: 9 of 10" in perfgate("history", "report").out
    add(store_at(folder), record(9, {"forward": 0.1}))
    assert "no lasting change" in perfgate("history", "forward").out
    assert "no metric is worse without an approval" in perfgate("history", "report").out


def test_few_runs_after_a_change_are_named(folder: Path, perfgate: Callable[..., Done]) -> None:
    filled(folder, [*steps((30, 0.1), (20, 0.11)), 0.1, 0.1])
    said = perfgate("history", "forward").out
    assert "1 lasting change" in said
    assert "below the level, and a change needs five runs" in said


# --- the order of runs ------------------------------------------------------------------------------------------------

LATE = "{} an earlier time than a run of an older commit: the commits decide"
SHALLOW = "ordered by time: main does not have the commits of {} here (fetch it with its history)"
OTHERS = "left out: {} of commits that are not on main (rewritten, or of another branch): {}"
ONE = sha(91)[:10]
TWO = f"{sha(92)[:10]}, {ONE}"

#: Each run by its commit (None: without one) and its hour, on the line of commits 0 to 9.
ORDERS: list[tuple[list[tuple[int | None, float]], tuple[int, ...], tuple[str, ...]]] = [
    ([], (), ()),
    ([(None, 2), (None, 1)], (1, 0), ()),
    ([(0, 0), (1, 1), (2, 2)], (0, 1, 2), ()),
    ([(2, 0), (1, 1), (0, 2)], (2, 1, 0), (LATE.format("2 runs have"),)),
    ([(0, 9), (1, 1), (2, 20)], (0, 1, 2), (LATE.format("1 run has"),)),
    ([(0, 9), (1, 9), (2, 20), (3, 8), (4, 9)], (0, 1, 2, 3, 4), (LATE.format("2 runs have"),)),
    ([(1, 9), (1, 2), (0, 1)], (2, 1, 0), ()),
    ([(91, 0)], (0,), (SHALLOW.format("1 of 1 run"),)),
    ([(91, 3), (92, 2), (93, 1), (0, 0)], (3, 2, 1, 0), (SHALLOW.format("3 of 4 runs"),)),
    ([(91, 3), (92, 2), (0, 1)], (2, 1, 0), (SHALLOW.format("2 of 3 runs"),)),
    ([(91, 3), (92, 2), (1, 0), (0, 1)], (3, 2), (OTHERS.format("2 runs", TWO), LATE.format("1 run has"))),
    ([(91, 3), (91, 2), (1, 1), (0, 0)], (3, 2), (OTHERS.format("2 runs", ONE),)),
    ([(0, 0), (1, 1), (91, 2)], (0, 1), (OTHERS.format("1 run", ONE),)),
    ([(91, 1), (None, 0), (None, 2)], (1, 0, 2), (SHALLOW.format("1 of 1 run"),)),
    ([(0, 0), (1, 2), (2, 4), (None, 2), (None, 1), (None, 5), (None, 3), (None, -1)], (7, 0, 4, 1, 3, 6, 2, 5), ()),
    ([(0, 0), (1, 8), (2, 4), (None, 5), (None, 9)], (0, 3, 1, 2, 4), (LATE.format("1 run has"),)),
]


@pytest.mark.parametrize(("runs", "places", "notes"), ORDERS)
def test_the_order_of_runs(
    runs: list[tuple[int | None, float]], places: tuple[int, ...], notes: tuple[str, ...]
) -> None:
    made = [run_at(hour, commit=None if number is None else sha(number)) for number, hour in runs]
    assert order_of(made, line(*range(10))) == RunOrder(places, notes)
    by_time = sorted(range(len(runs)), key=lambda i: runs[i][1])
    assert order_of(made, None) == RunOrder(tuple(by_time))


def test_runs_of_one_time_are_ordered_by_their_ids() -> None:
    runs = [run_at(1, id=name, commit=sha(0)) for name in "cab"]
    assert order_of(runs, line(0)).places == order_of(runs, None).places == (1, 2, 0)


# --- a series in order ------------------------------------------------------------------------------------------------


def ordered(numbers: Sequence[float], commits: Sequence[int], **about: Any) -> HistorySeries:
    """The series of a history whose runs have these commits; commits 0 to 99 are on the line."""
    runs = [run_at(i, commit=sha(number)) for i, number in enumerate(commits)]
    (found,), _ = series_of(in_memory(runs, column(numbers, **about)), line(*range(100)), ())
    return found


def test_a_series_has_its_numbers_in_the_order_of_commits() -> None:
    several = {name: np.array([1.0, 2.0, 3.0, 4.0]) * 10**i for i, name in enumerate(("errors", "n_effective", "n"))}
    found = ordered([1.0, 2.0, 3.0, 4.0], [5, 2, 900, 0], **several)
    assert [run.commit for run in found.runs] == [sha(0), sha(2), sha(5)]
    columns = [found.values, found.errors, found.n_effective, found.n]
    assert [one.tolist() for one in columns] == [[4, 2, 1], [4, 2, 1], [40, 20, 10], [400, 200, 100]]
    assert (found.suite, found.environment, str(found.name), found.unit) == ("gpt", "h200", "forward median", "s")


@pytest.mark.parametrize(
    ("places", "missing"), [([0, 1, 2, 3], 0), ([0], 3), ([3], 0), ([0, 1, 2], 1), ([1, 2, 4], 1), ([4, 5], 4), ([], 4)]
)
def test_the_newer_runs_without_a_metric_are_counted(places: list[int], missing: int) -> None:
    """Runs 4 and 5 are of commits that are not on the line."""
    runs = [run_at(i, commit=sha(i if i < 4 else 900)) for i in range(6)]
    (found,), notes = series_of(in_memory(runs, column([1.0] * len(places), places)), line(*range(4)), ())
    assert found.missing_since == missing
    assert notes == [OTHERS.format("2 runs", sha(900)[:10])]


def test_series_of_the_same_runs_share_them() -> None:
    runs = [run_at(i) for i in range(3)]
    columns = column([1.0] * 3), column([2.0] * 3), column([3.0, 4.0], [0, 2])
    first, second, third = series_of(in_memory(runs, *columns), None, ())[0]
    assert first.runs is second.runs
    assert third.runs == (runs[0], runs[2])


NOISES = [
    ([1.0, 1.1, 0.9, 1.0, 1.2], 0.14826),
    ([-2.0, -2.2, -2.4], 0.14826 / 1.1),
    ([0.0] * 5, math.nan),
    ([], math.nan),
]


@pytest.mark.parametrize(("numbers", "noise"), NOISES)
def test_the_noise_is_the_median_deviation_from_the_level(numbers: list[float], noise: float) -> None:
    assert ordered(numbers, range(len(numbers))).noise == pytest.approx(noise, nan_ok=True)


def test_the_noise_is_that_around_each_level_but_a_level_of_zero() -> None:
    deviations = [0.99, 1.0, 1.01, 1.02] * 5
    found = ordered([*(10 * one for one in deviations), *(20 * one for one in deviations)], range(40))
    assert len(found.changes) == 1
    assert found.noise == pytest.approx(0.014826, rel=0.4)
    assert ordered([*[0.0] * 20, *(20 * one for one in deviations)], range(40)).noise == pytest.approx(0.015, rel=0.5)


def test_facts_that_change_often_explain_no_change() -> None:
    runs = [run_at(i, f"n{i % 2}") for i in range(40)]
    runs = [replace(run, context={**run.context, "driver": i // 20}) for i, run in enumerate(runs)]
    (found,), _ = series_of(in_memory(runs, column(steps((20, 0.1), (20, 0.12), noise=0.002))), None, ())
    (change,) = found.changes
    assert change.facts == (("driver", "0", "1"),)


# --- short levels -----------------------------------------------------------------------------------------------------

SHORT = steps((30, 0.1), (6, 0.15), (20, 0.1), noise=0.002)


@pytest.mark.parametrize(("newest", "begins"), [(100, [30, 36]), (56, [30, 36]), (50, [30, 36]), (21, []), (0, [])])
def test_short_levels_of_the_newest_runs_are_found(newest: int, begins: list[int]) -> None:
    series = ordered(SHORT, range(56))
    assert series.changes == ()
    found = with_short_levels(series, line(*range(100)), (), newest)
    assert [one.point.index for one in found.changes] == begins
    start = max(56 - newest, 0)
    here = find_change_points(SHORT[start:], lasting=0)
    moved = [(one.index + start, one.first + start, one.last + start, one.before, one.after) for one in here]
    assert [(p.index, p.first, p.last, p.before, p.after) for p in (one.point for one in found.changes)] == moved
    assert replace(found, changes=()) == replace(series, changes=())


def test_facts_that_change_often_explain_no_short_level() -> None:
    runs = [run_at(i, f"n{i % 2}", context={"host": i % 2, "driver": i // 30}) for i in range(56)]
    (series,), _ = series_of(in_memory(runs, column(SHORT)), None, ())
    first, second = with_short_levels(series, None, (), 56).changes
    assert (first.facts, second.facts) == ((("driver", "0", "1"),), ())
    assert (first.commits, first.went_away) == (None, runs[36])


# --- the changes of a metric ------------------------------------------------------------------------------------------


def point(
    before: float, after: float, index: int = 0, first: int | None = None, last: int | None = None
) -> ChangePoint:
    places = index if first is None else first, index if last is None else last
    return ChangePoint(index, after / before - 1, 0.0, 0.0, 1.0, before, after, *places, after > before)


BACK: list[tuple[tuple[float, float], float, list[tuple[float, float]], bool]] = [
    # the change    a later level, earlier changes, is it back
    ((1.0, 2.0), 1.0, [], True),
    ((1.0, 2.0), 1.5, [], True),
    ((1.0, 2.0), 1.6, [], False),
    ((1.0, 2.0), 0.6, [], True),
    ((1.0, 2.0), 0.4, [], False),
    ((1.0, 1.2), 1.15, [], False),
    ((2.0, 1.0), 1.5, [], True),
    ((2.0, 1.0), 1.4, [], False),
    ((1.1, 1.2), 1.0, [(1.0, 1.1)], True),
    ((1.1, 1.2), 1.0, [(0.5, 1.0), (1.0, 1.1)], True),
    ((1.1, 1.2), 0.9, [(1.0, 1.1)], False),
    ((1.0, 1.1), 1.2, [(1.2, 1.0)], False),
    ((1.0, 0.9), 0.8, [(0.8, 1.0)], False),
    ((1.0, 0.9), 1.2, [(1.2, 1.0)], True),
    ((1.0, 1.0), 2.0, [(2.0, 1.0)], False),
]


@pytest.mark.parametrize(("change", "level", "earlier", "is_back"), BACK)
def test_an_old_level_is_back(
    change: tuple[float, float], level: float, earlier: list[tuple[float, float]], is_back: bool
) -> None:
    assert _is_back(point(*change), point(9.0, level), [point(*one) for one in earlier]) is is_back


def changes(
    points: Sequence[ChangePoint], runs: Sequence[HistoryRun], levels: Sequence[ApprovedLevel] = ()
) -> list[HistoryChange]:
    commits = line(*range(len(runs)))
    return list(_changes(points, runs, "forward", line=commits, levels=levels, often=["host"]))


def test_a_change_has_its_runs_and_the_run_in_which_it_went_away() -> None:
    runs = [run_at(i, f"n{i}", commit=sha(i)) for i in range(60)]
    points = [point(1.0, 1.1, 10, 8, 11), point(1.1, 1.2, 20, 20, 21), point(1.2, 1.0, 30, 28, 33), point(1.0, 2.0, 50)]
    found = changes(points, runs)
    assert [(one.point, one.likely, one.last_good, one.first_bad) for one in found] == [
        (points[0], runs[10], runs[7], runs[11]),
        (points[1], runs[20], runs[19], runs[21]),
        (points[2], runs[30], runs[27], runs[33]),
        (points[3], runs[50], runs[49], runs[50]),
    ]
    assert [one.commits for one in found] == [4, 2, 6, 1]
    assert [one.went_away for one in found] == [runs[30], runs[30], None, None]
    unknown = list(_changes(points, runs, "forward", line=line(*range(15)), levels=(), often=()))
    assert [one.commits for one in unknown] == [4, None, None, None]
    assert {one.commits for one in _changes(points, runs, "forward", line=None, levels=(), often=())} == {None}


def approved(number: int | None, hours: float, name: str = "one", **about: Any) -> ApprovedLevel:
    level = ApprovedLevel(name, at(hours), None if number is None else sha(number), "ada", "why", None, (), False)
    return replace(level, **about)


APPROVALS: list[tuple[list[ApprovedLevel], list[str | None]]] = [
    # of runs 0 to 59; the level changes in run 9 to 11, and in run 15 or 31, so that run 21 is too late
    ([approved(9, 0)], ["one", None]),
    ([approved(8, 0)], [None, None]),
    ([approved(14, 0)], ["one", None]),
    ([approved(15, 0)], [None, "one"]),
    ([approved(24, 0)], [None, "one"]),
    ([approved(25, 0)], [None, None]),
    ([approved(None, 8)], [None, None]),
    ([approved(None, 7.5)], [None, None]),
    ([approved(None, 8.5)], ["one", None]),
    ([approved(None, 14)], ["one", None]),
    ([approved(None, 14.5)], [None, "one"]),
    ([approved(None, 24)], [None, "one"]),
    ([approved(None, 24.5)], [None, None]),
    ([approved(9, 0), approved(10, 0, "two"), approved(11, 0, "three")], ["three", None]),
    ([approved(9, 0, is_first=True), approved(10, 0, adopts=("backward",))], [None, None]),
    ([approved(9, 0, adopts=("forward",)), approved(17, 0, "two")], ["one", "two"]),
]


@pytest.mark.parametrize(("levels", "names"), APPROVALS)
def test_the_newest_approval_of_the_runs_after_a_change_is_its_own(
    levels: list[ApprovedLevel], names: list[str | None]
) -> None:
    runs = [run_at(i, commit=sha(i)) for i in range(60)]
    found = changes([point(1.0, 1.1, 10, 9, 11), point(1.1, 1.2, 15)], runs, levels)
    assert [one.approval.name if one.approval else None for one in found] == names


def test_an_approval_without_a_commit_is_that_of_no_run_without_one() -> None:
    runs = [run_at(i) for i in range(60)]
    assert changes([point(1.0, 1.1, 10)], runs, [approved(None, 50)])[0].approval is None
    assert changes([point(1.0, 1.1, 10)], runs, [approved(None, 12)])[0].approval is not None


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ({"driver": 570.0}, {"driver": 580}, [("driver", "570", "580")]),
        ({"driver": 570.0}, {"driver": 570}, []),
        ({"torch": "2.11.0"}, {"torch": "2.11.0+cu130"}, []),
        ({"driver": 570}, {}, []),
        ({}, {"driver": 570}, []),
        ({"host": "a"}, {"host": "b"}, []),
        ({"b": 1, "a": True}, {"a": False, "b": 2}, [("a", "true", "false"), ("b", "1", "2")]),
    ],
)
def test_the_facts_that_differ(
    before: dict[str, Any], after: dict[str, Any], found: list[tuple[str, str, str]]
) -> None:
    assert list(differences(run_at(0, context=before), run_at(1, context=after), ["host"])) == found


def test_the_facts_of_a_change_are_those_of_its_first_run_and_the_run_before() -> None:
    runs = [run_at(i, context={"driver": i}) for i in range(20)]
    assert changes([point(1.0, 1.1, 10, 9, 11)], runs)[0].facts == (("driver", "9", "10"),)


@pytest.mark.parametrize(("sign", "factor"), [(1, 1.2), (1, 0.8), (-1, 1.2), (-1, 0.8)])
def test_the_newest_runs_are_above_or_below_a_level_of_either_sign(sign: int, factor: float) -> None:
    numbers = [sign * (0.1 + 0.0001 * (i % 3)) for i in range(15)] + [sign * 0.1 * factor]
    (found,), _ = series_of(in_memory(runs_of(*range(16)), column(numbers)), line(*range(16)), ())
    newest = found.newest_apart()
    assert newest is not None
    assert (newest[0], newest[1] > 0) == (1, numbers[-1] > numbers[0])
