"""How probable each commit of a change is, and what a measurement of it would show."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from perfgate.core import Key
from perfgate.core.remembered_runs import CommitLine, CommitNote, HistoryRun, SeriesName
from perfgate.core.run_history import BackfillPlan, ChangePoint, HistoryChange, HistorySeries
from perfgate.history import backfill
from perfgate.history.backfill import backfill_plan

LINE = CommitLine.of("main", [CommitNote(f"{i:040}", "2026-01-01T00:00:00Z", "ada", str(i)) for i in range(200)])


def run(place: int | None, number: int = 0) -> HistoryRun:
    """A run of the commit at a place of the line; of an unknown commit for None."""
    return HistoryRun(str(number), "2026-01-01T00:00:00Z", "f" * 40 if place is None else f"{place:040}")


def plan(
    runs: Sequence[tuple[int | None, float]],
    *,
    commits: int = 2,
    start: int = 10,
    levels: tuple[float, float] = (1.0, 2.0),
    noise: float = 0.1,
    point: tuple[int, int] = (0, 0),
) -> BackfillPlan | None:
    """The plan for a change in `commits` commits after place `start`.

    `runs`: the place of each run after `start`, or None for an unknown commit, and its value. `point`: the first and
    the last run that may begin the new level.
    """
    made = tuple(run(None if place is None else start + place, i) for i, (place, _) in enumerate(runs))
    values = np.array([value for _, value in runs])
    change = HistoryChange(
        ChangePoint(point[0], 1.0, 0.9, 1.1, 0.999, *levels, *point, True),
        *(run(start + commits), run(start), run(start + commits), commits, None, None, ()),
    )
    series = HistorySeries(
        *("gpt", "h200", SeriesName(Key("forward"), "median"), "s", "lower", "samples", made),
        *(values, values, values, values, (change,), 0, noise),
    )
    return backfill_plan(series, change, LINE)


def odds(found: BackfillPlan | None) -> list[float]:
    """The logarithms of the probabilities, relative to that of the last suspect."""
    assert found is not None
    assert sum(one.here for one in found.suspects) == pytest.approx(1)
    return [math.log(one.here / found.suspects[-1].here) for one in found.suspects]


# --- how probable each commit is -------------------------------------------------------------------------------------

CLOSE = (1.0, 1.3)
ODDS = [
    # runs; levels and noise; the logarithm of the odds of the first of two commits
    ([], (1.0, 2.0), 0.1, 0),
    ([(1, 1.0)], (1.0, 2.0), 0.1, -4.5),  # a level at three or more deviations counts as one at three
    ([(1, 2.0)], (1.0, 2.0), 0.1, 4.5),
    ([(1, 1.1)], (1.0, 2.0), 0.1, -4),
    ([(1, 1.2)], CLOSE, 0.1, 2 - 0.5),
    ([(1, 1.1)], CLOSE, 0.1, 0.5 - 2),
    ([(1, 0.9)], CLOSE, 0.1, 0.5 - 4.5),
    ([(1, 1.2)], CLOSE, 0.2, 0.5 - 0.125),
    ([(1, 2.4)], (2.0, 2.6), 0.1, 2 - 0.5),
    ([(1, -1.2)], (-1.0, -1.3), 0.1, 2 - 0.5),
    ([(1, 1.2), (1, 1.2), (1, 1.1)], CLOSE, 0.1, 1.5),
    ([(0, 1.2), (-3, 1.2), (2, 1.2), (5, 1.2)], CLOSE, 0.1, 0),  # runs before and after show nothing
    ([(None, 1.2)], CLOSE, 0.1, 0),
    ([(1, 1 + 1e-9)], (1.0, 2.0), 0.0, 0.5 - 4.5),  # a level without noise
    ([(1, 0.5)], (0.0, 5.0), 0.1, 0),  # a level of zero
    ([(1, 5.0)], (0.0, 5.0), 0.1, 4.5),
]


@pytest.mark.parametrize(("runs", "levels", "noise", "first"), ODDS)
def test_a_run_counts_by_its_distance_from_both_levels(
    runs: Sequence[tuple[int | None, float]], levels: tuple[float, float], noise: float, first: float
) -> None:
    assert odds(plan(runs, levels=levels, noise=noise)) == pytest.approx([first, 0], abs=1e-6)


def test_a_run_is_of_the_new_level_if_the_change_is_in_its_commit_or_an_older_one() -> None:
    assert odds(plan([(2, 2.0)], commits=4)) == pytest.approx([4.5, 4.5, 0, 0])
    assert odds(plan([(1, 1.0), (3, 2.0)], commits=4)) == pytest.approx([0, 4.5, 4.5, 0])


@pytest.mark.parametrize(
    ("at", "count", "point", "counts"),
    [
        (4, 60, (25, 26), False),
        (5, 60, (25, 26), True),
        (46, 60, (25, 26), True),
        (47, 60, (25, 26), False),
        (0, 8, (3, 4), True),
        (7, 8, (3, 4), True),
        (0, 21, (20, 20), True),
    ],
)
def test_twenty_runs_before_the_change_and_after_it_count(
    at: int, count: int, point: tuple[int, int], *, counts: bool
) -> None:
    runs = [(1 if i == at else None, 2.0) for i in range(count)]
    assert odds(plan(runs, point=point)) == pytest.approx([4.5 if counts else 0, 0])


@pytest.mark.parametrize(("value", "odds_of_first"), [(2.0, 300 * 4.5), (1.5, 0.0)])
def test_many_runs_of_a_commit_leave_numbers(value: float, odds_of_first: float) -> None:
    found = plan([(1, value)] * 300, point=(0, 299))
    assert found is not None
    assert [one.here for one in found.suspects] == [1, 0] if odds_of_first else [0.5, 0.5]
    assert [one.runs for one in found.suspects] == [300, 0]


# --- which ones to measure -------------------------------------------------------------------------------------------


def test_equal_commits_are_cut_in_halves() -> None:
    found = plan([(2, 1.5), (2, 1.5), (7, 1.5), (-1, 1.0), (0, 1.0), (9, 2.0), (None, 1.0)], commits=8, start=3)
    assert found is not None
    assert [one.commit for one in found.suspects] == list(LINE.commits[4:12])
    assert [one.here for one in found.suspects] == [1 / 8] * 8
    assert [one.before for one in found.suspects] == [i / 8 for i in range(1, 9)]
    assert [one.bits for one in found.suspects] == [0.25, 0.5, 0.25, 1, 0.25, 0.5, 0.25, 0]
    assert [one.runs for one in found.suspects] == [0, 2, 0, 0, 0, 0, 1, 0]
    assert [one.bits for one in found.wanted] == [1, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25]
    assert set(found.wanted) == set(found.suspects[:7])


@pytest.mark.parametrize(("least", "bits"), [(0.01, [1, 0.5, 0.5]), (0.5, [1, 0.5, 0.5]), (0.51, [1])])
def test_commits_that_add_few_bits_are_not_proposed(
    monkeypatch: pytest.MonkeyPatch, least: float, bits: list[float]
) -> None:
    monkeypatch.setattr(backfill, "_LEAST_BITS", least)
    found = plan([], commits=4)
    assert found is not None
    assert [one.bits for one in found.wanted] == bits


@pytest.mark.parametrize(("runs", "wanted"), [(0, 1), (1, 1), (2, 0)])
def test_two_commits_of_which_one_is_nearly_certain_need_no_measurement(runs: int, wanted: int) -> None:
    """One run makes the odds e^4.5, which leaves 0.087 bits; two make them e^9, which leave 0.0018."""
    found = plan([(1, 1.0)] * runs, point=(0, max(runs - 1, 0)))
    assert found is not None
    assert len(found.wanted) == wanted


def test_a_plan_has_at_most_32_commits() -> None:
    found = plan([], commits=64)
    assert found is not None
    assert [one.bits for one in found.wanted] == [1, *[1 / 2] * 2, *[1 / 4] * 4, *[1 / 8] * 8, *[1 / 16] * 16, 1 / 32]


def test_a_range_without_commits_has_no_plan() -> None:
    assert plan([(0, 1.0)], commits=0) is None
    assert plan([(0, 1.0)], start=300) is None


def entropy(share: float) -> float:
    return -share * math.log2(share) - (1 - share) * math.log2(1 - share)


CUTS = [
    # probabilities of the commits; first and last; bits and the commit before the cut
    ([0.25, 0.75], (0, 1), entropy(0.25), 0),
    ([0.75, 0.25], (0, 1), entropy(0.75), 0),
    ([0.1, 0.2, 0.5, 0.2], (0, 3), entropy(0.3), 1),
    ([0.5, 0.125, 0.125, 0.25], (1, 3), 0.5, 2),
    ([0.25, 0.125, 0.125, 0.5], (1, 3), 0.75 * entropy(1 / 3), 2),
    ([0.25, 0.25, 0.125, 0.375], (1, 2), 0.375 * entropy(1 / 3), 1),
    ([0.5, 0.5, 0.0], (0, 2), 1, 0),
    ([0.0, 0.5, 0.5], (0, 2), 1, 1),
    ([1.0, 0.0, 0.0], (1, 2), 0, 1),
    ([0.5, 0.5], (1, 1), 0, 1),
]


@pytest.mark.parametrize(("here", "part", "bits", "at"), CUTS)
def test_the_best_cut_of_a_part(here: list[float], part: tuple[int, int], bits: float, at: int) -> None:
    added, *found = backfill._cut(np.cumsum(here), *part)
    assert found == [at, *part]
    assert added == pytest.approx(bits)
