"""Stalled steps of traces, one row a case; the rule of chance against scipy's exact test."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

from perfgate.stats.stalled_steps import StepsOfRun, stalled_steps

#: Times around 1 with a median absolute deviation of 0.1: ten standard deviations are 1.4826.
SPREAD = [0.9, 1.0, 1.1] * 5


def steps(times: Sequence[float], *calls: Sequence[float]) -> StepsOfRun:
    return StepsOfRun(np.array(times, np.float64), np.array(calls or np.zeros((0, 0)), np.float64))


def stalled(*runs: StepsOfRun) -> list[list[int]]:
    """The stalled steps of each run of a base, beside new runs that have none."""
    found, others = stalled_steps(runs, [steps([1.0] * 9)])
    assert [len(one) for one in found] == [len(run.times) for run in runs]
    assert not any(one.any() for one in others)
    return [np.flatnonzero(one).tolist() for one in found]


ONE_RUN = [
    # the times of the steps, and which of them stalled
    ([1.0] * 9 + [1.26], [9]),
    ([1.0] * 9 + [1.25], []),
    ([4.0] * 9 + [5.0, 5.1], [10]),
    ([*SPREAD, 2.48], []),
    ([*SPREAD, 2.49], [15]),
    ([1.0, 1.0, 9.0], [2]),
    ([1.0, 9.0], []),  # too few show what is usual
    ([], []),
    ([9.0, 1.0, 1.0, 9.0, 1.0], [0, 3]),
]


@pytest.mark.parametrize(("times", "found"), ONE_RUN)
def test_a_stalled_step_is_clearly_longer_than_the_usual_one(times: list[float], found: list[int]) -> None:
    assert stalled(steps(times)) == [found]


def test_the_usual_step_is_that_of_the_side() -> None:
    assert stalled(steps([1.0] * 9), steps([2.0, 1.0])) == [[], [0]]
    assert stalled(steps([1.0, 1.0]), steps([9.0]), steps([])) == [[], [], []]  # a run of stalls alone is another
    assert stalled(steps([1.0] * 9), steps([2.0, 3.0])) == [[], []]
    assert stalled(StepsOfRun(), steps([1.0] * 3 + [2.0])) == [[], [3]]
    assert len(StepsOfRun().times) == 0
    assert stalled(StepsOfRun(np.array([1.0] * 9 + [2.0]))) == [[9]]


CALLS = [
    # the calls of each rank and step, and the steps that stalled
    ([[1000.0] * 10], [9]),
    ([[1000.0] * 9 + [1000.9]], [9]),
    ([[1000.0] * 9 + [1001.1]], []),  # other work
    ([[1000.0] * 10, [10.0] * 9 + [11.0]], []),
    ([[10.0] * 9 + [11.0], [1000.0] * 10], []),
    ([[1000.0] * 9 + [900.0]], [9]),
    ([[0.0] * 10], [9]),
]


@pytest.mark.parametrize(("calls", "found"), CALLS)
def test_a_step_with_more_calls_is_other_work(calls: list[list[float]], found: list[int]) -> None:
    assert stalled(steps([1.0] * 9 + [2.0], *calls)) == [found]


@pytest.mark.parametrize(("new", "base", "count"), [(20, 20, 0), (20, 20, 1), (25, 15, 0), (24, 30, 2), (20, 1, 0)])
def test_stalls_that_chance_does_not_explain_count(new: int, base: int, count: int) -> None:
    """Those of the new runs are none if they are more than in the base in fewer than 1 % of cases by chance."""

    def side(total: int, slow: int) -> list[StepsOfRun]:
        times = [1.0] * (total - slow) + [3.0] * slow
        return [steps(times[::2]), steps(times[1::2])]

    answers = set()
    for slow in range(new // 2 - 1):
        chance = stats.fisher_exact([[slow, new - slow], [count, base - count]], alternative="greater").pvalue
        stored, found = stalled_steps(side(base, count), side(new, slow))
        assert sum(int(one.sum()) for one in stored) == count
        assert sum(int(one.sum()) for one in found) == (0 if chance < 0.01 else slow)
        answers.add(chance < 0.01)
    assert answers == ({False} if base == 1 else {True, False})


def test_without_a_base_no_stall_counts() -> None:
    _, found = stalled_steps([], [steps([1.0] * 30 + [3.0] * 10)])
    assert int(found[0].sum()) == 10
