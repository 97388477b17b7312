"""Stalled steps are left out of the call trees of both sides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from made_trees import close, tree

from perfgate.causes.find import find_causes
from perfgate.causes.merged import _steps, merged, without_stalls
from perfgate.core.call_trees import CallTree


def timed(*ms: float, **fields: Any) -> CallTree:
    """A tree with steps of these times, and the same calls in each."""
    given = {"counts": [[7.0] * len(ms)] * 2, "steps": len(ms)} | fields
    return tree({"": [time / 2000 for time in ms], "f": [time / 2000 for time in ms]}, **given)


EVEN = (timed(10, 10, 10, 10),)
STALLED = [(timed(10, 20, 10, 10, 10),), EVEN, (timed(10, 10, 10, 30),)]
NOTE = "stalled and left out: 2 of 13 {} steps (30 ms, 20 ms)"


def test_stalled_steps_are_left_out() -> None:
    for at, name in enumerate(("base", "new")):
        sides = (STALLED, [EVEN])[:: 1 if name == "base" else -1]
        kept, notes = without_stalls((sides[0], sides[1]))
        assert notes == (NOTE.format(name),)
        for run, count in zip(kept[at], (4, 4, 3), strict=True):
            close(run[0].step_times, [0.01] * count)
            close(run[0].busy[1], [0.015] * count)
            close(run[0].counts, [[7] * count] * 2)
        assert [run[0].steps for run in kept[at]] == [0, 4, 0]
        assert kept[at][1] is EVEN
        assert list(kept[1 - at]) == [EVEN]


@pytest.mark.parametrize(("seconds", "shown"), [(3, "3000 ms"), (1e306, "1.000e+306 s")])
def test_the_unit_of_a_stall(seconds: float, shown: str) -> None:
    stalled = tree({"f": [1, 1, 1, seconds]}, counts=[[7, 7, 7, 7]] * 2)
    assert without_stalls(([EVEN], [(stalled,)]))[1] == (f"stalled and left out: 1 of 4 new steps ({shown})",)


def test_a_step_in_which_one_rank_stalled_is_left_out_of_all() -> None:
    one, other = timed(10, 12, 10, 10, rank="0"), timed(10, 10, 10, 30, rank="1")
    kept, notes = without_stalls(([(one, other)], [EVEN]))
    assert notes == ("stalled and left out: 1 of 4 base steps (30 ms)",)
    assert [each.wall[0].tolist() for each in kept[0][0]] == [[0.005, 0.006, 0.005], [0.005] * 3]


def test_the_ranks_of_a_tree_without_stalls() -> None:
    walls = {rank: [0.005, 0.005] for rank in ("3", "1")}
    for ranks in ([], ["3"], ["3", "1"]):
        stalled = timed(10, 10, 30, 10, rank_wall={rank: walls[rank] for rank in ranks})
        ((run,), _), _ = without_stalls(([(stalled,)], [EVEN]))
        assert (run[0].wall.shape, run[0].ranks) == ((2, 3), tuple(ranks))
        assert (run[0].rank_wall is None) is (len(ranks) == 1)  # the mean over all steps, stalls included


def test_a_stored_run_with_a_stall_keeps_its_rank() -> None:
    stored = [merged([timed(*times, rank="0")]) for times in ((10, 10, 10, 10), (10, 10, 10, 30))]
    kept, _ = without_stalls(([(one,) for one in stored], [(timed(10, 10, 10, 10, rank="0"),)]))
    assert find_causes(*kept).notes == ()


MARKED: list[tuple[list[CallTree], list[float]]] = [
    ([timed(1, 2, 3)], [1, 2, 3]),
    ([timed(1, 2, 3, steps=0)], [1, 2, 3]),
    ([timed(1, 2, 3, steps=1)], []),
    ([timed(1, 2, 3, steps=4)], []),
    ([timed(1, 2, 3, has_steps=False)], []),
    ([timed(2)], [2]),
    ([timed(1, 2, 3), timed(3, 2, 1)], [3, 2, 3]),
    ([timed(1, 2, 3), timed(1, 2)], []),
    ([timed(1, 2, 3), timed(1, 2, 3, steps=30)], []),
    ([timed(1, 2, 3, steps=30), timed(1, 2, steps=30)], []),
]


@pytest.mark.parametrize(("run", "ms"), MARKED)
def test_the_times_of_steps_are_those_of_the_longest_rank(run: list[CallTree], ms: list[float]) -> None:
    found = _steps(run)
    close(found.times, [time / 1000 for time in ms])
    close(found.calls, np.full((len(run), len(ms)), 14) if ms else np.zeros((0, 0)))
