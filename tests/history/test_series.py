"""The order of runs, and what is said about a change: range, approval, return, machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Done
from histories import at, filled, record, sha, steps, store_at
from msgspec.structs import replace

from perfgate.core.remembered_runs import CommitLine, CommitNote, HistoryRun
from perfgate.core.run_history import ApprovedLevel
from perfgate.history.load import load
from perfgate.history.series import _changes, order_of
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
    assert order.notes[0].startswith("ordered by time: 3 of 4 runs are of commits that main does not have here")


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
