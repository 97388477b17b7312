"""The trees of both sides: of one kind, and compared per call if no side counts steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from perfgate.causes.merged import RunTrees
from perfgate.causes.table_trees import _calls, _multiple, _same_steps, _with_trees, trees_of_runs
from perfgate.core import Key, Run, Series
from perfgate.core.call_trees import CallNode, CallTree


def tree(calls: float = 1.0, *, has_steps: bool = False, cut: float = 0.0, **more: float) -> CallTree:
    """A tree of `mm` and other rows, by their calls; each takes 2 s a call, and the step itself 4 s."""
    rows = {"mm": calls, **more}
    nodes = (CallNode("step", "step", -1), *(CallNode(name, "kernel", 0) for name in rows))
    counts = np.array([1.0, *rows.values()])[:, None]
    wall = np.array([4.0, *(2.0 * one for one in rows.values())])[:, None]
    return CallTree("", nodes, counts, 3.0 * wall, wall, has_steps=has_steps, error=np.full(len(nodes), cut))


def run(*rows: str, calls: float = 8.0, trees: RunTrees = (), name: str = "test") -> Run:
    """A run with a trace, or with rows of a table of 1 s, the second one of 2 s, ..."""
    series = [
        Series(Key(row), "s", "aggregate", np.empty(0), aggregate={"total": at + 1.0, "count": calls})
        for at, row in enumerate(rows)
    ]
    return Run("x", name, tuple(series), call_trees=trees)


# --- the number of steps ---------------------------------------------------------------------------------------------

#: Ten calls of the base: 8 and 2 of two rows, or 4 and 6.
MOST, HALVES = {"mm": 8.0, "add": 2.0}, {"mm": 4.0, "add": 6.0}
MULTIPLES: list[tuple[Mapping[str, float], Mapping[str, float], float | None]] = [
    # the calls of both sides; the multiple
    ({"mm": 5.0}, {"mm": 15.0}, 3.0),
    ({"mm": 5.0}, {"mm": 2.5}, 0.5),
    ({"mm": 5.0, "gone": 99.0}, {"mm": 15.0, "new": 99.0}, 3.0),
    ({"mm": 5.0}, {"add": 5.0}, None),
    ({}, {}, None),
    ({"mm": 5.0}, {"mm": 5.0}, None),
    # at least four fifths of the calls have it
    (MOST, {"mm": 16.0, "add": 2.0}, 2.0),
    (MOST, {"mm": 16.0, "add": 99.0}, 2.0),
    ({**MOST, "cat": 0.1}, {"mm": 16.0, "add": 2.0, "cat": 0.1}, None),
    (HALVES, {"mm": 8.0, "add": 6.0}, None),
    # within a hundredth; the usual one is the weighted median
    (HALVES, {"mm": 8.0, "add": 12.06}, 2.01),
    (HALVES, {"mm": 8.1, "add": 12.0}, None),
    (HALVES, {"mm": 8.07, "add": 12.0}, 2.0),
    (HALVES, {"mm": 7.93, "add": 12.0}, 2.0),
    ({"mm": 100.0}, {"mm": 100.9}, None),
    ({"mm": 100.0}, {"mm": 101.1}, 1.011),
    ({"mm": 100.0}, {"mm": 99.1}, None),
    ({"mm": 100.0}, {"mm": 98.9}, 0.989),
]


@pytest.mark.parametrize(("base", "new", "multiple"), MULTIPLES)
def test_the_multiple_of_nearly_all_calls(
    base: Mapping[str, float], new: Mapping[str, float], multiple: float | None
) -> None:
    assert _multiple(base, new) == (None if multiple is None else pytest.approx(multiple))


def test_the_calls_of_a_side_are_those_of_a_usual_rank() -> None:
    runs = [(tree(6.0), tree(2.0, add=8.0)), (tree(1.0), tree(3.0))]
    assert _calls(runs) == {"mm": 3.0, "add": 2.0}


def test_twice_as_many_steps_are_compared_per_call() -> None:
    base, new = [(tree(4.0, add=4.0),)], [(tree(8.0, add=8.0, cut=2.0), tree(8.0, add=8.0))]
    ((one, other),) = _same_steps(base, new)
    assert (one.wall[:, 0].tolist(), one.busy[:, 0].tolist()) == ([2.0, 8.0, 8.0], [6.0, 24.0, 24.0])
    assert one.counts[1:, 0].tolist() == [4.0, 4.0]
    assert one.error is not None
    assert one.error.tolist() == [1.0, 1.0, 1.0]  # that of a row, in the same s
    note = "neither side counts steps; nearly all rows have 2 times as many calls: compared per call"
    assert (one.notes, other.notes) == ((note,), (note,))


def test_a_job_of_more_ranks_has_as_many_steps() -> None:
    assert _same_steps([(tree(4.0),)], (new := [(tree(4.0), tree(4.0))])) == new


SAME: list[tuple[list[RunTrees], list[RunTrees]]] = [
    ([(tree(4.0, has_steps=True),)], [(tree(8.0, has_steps=True),)]),
    ([(tree(4.0),)], [(tree(8.0, has_steps=True),)]),
    ([(tree(4.0, has_steps=True),)], [(tree(8.0),)]),
    ([(tree(4.0),)], [(tree(4.0),)]),
    ([(tree(4.0),)], [(tree(2.0),), (tree(6.0),)]),
]


@pytest.mark.parametrize(("base", "new"), SAME)
def test_sides_that_stay_as_they_are(base: list[RunTrees], new: list[RunTrees]) -> None:
    found = _same_steps(base, new)
    assert all(one is other for one, other in zip(found, new, strict=True))


# --- the kind of trees -----------------------------------------------------------------------------------------------

KERNELS, CALLS, RANGES = ("kernel.mm", "kernel.add"), ("api.launch", "api.copy"), ("range.forward", "range.step")
TRACED = tree(has_steps=True)


def names(base: Sequence[Run], new: Sequence[Run], **more: Any) -> list[list[list[str]]]:
    """For each kind of trees: for both sides, the last node of each run."""
    return [[[run[0].nodes[-1].name for run in side] for side in sides] for sides in trees_of_runs(base, new, **more)]


def test_each_kind_of_trees_that_both_sides_have() -> None:
    every = run(*KERNELS, *CALLS)
    assert names([every], [every]) == [[["add"], ["add"]], [["copy"], ["copy"]]]
    assert names([run(*KERNELS)], [run(*CALLS)]) == []
    assert names([run(*KERNELS), run(*CALLS)], [every]) == [[["add"], ["add"]], [["copy"], ["copy"]]]
    timers = run("forward", "backward", "step", *KERNELS, name="deepspeed")
    assert names([timers], [timers]) == [[["step"], ["step"]], [["add"], ["add"]]]
    ranges = run("range.forward", "range.backward", "range.step", *CALLS, name="nsys")
    assert names([ranges], [ranges])[0] == [["copy"], ["copy"]]
    assert len(names([ranges], [ranges])) == 2


def test_a_trace_is_never_compared_with_a_table() -> None:
    table, trace = run(*KERNELS), run(*KERNELS, trees=(TRACED,))
    assert names([trace], [table]) == names([table], [trace]) == []
    assert list(trees_of_runs([trace, table], [table, trace])) == [([(TRACED,)], [(TRACED,)])]


def test_the_new_side_is_compared_per_call() -> None:
    ((base, new),) = trees_of_runs([run(*KERNELS)], [run(*KERNELS, calls=16.0)])
    assert [side[0][0].wall[:, 0].tolist() for side in (base, new)] == [[0.0, 1.0, 2.0], [0.0, 0.5, 1.0]]


def test_times_near_the_largest_float_have_trees() -> None:
    series = [Series(Key(name), "s", "samples", np.array([1e308, 1.0] * 9)) for name in ("forward", "backward")]
    huge = Run("x", "deepspeed", tuple(series))
    with np.errstate(all="raise"):
        assert len(list(trees_of_runs([huge], [huge]))) == 1


def test_pairs_with_trees_on_both_sides() -> None:
    one, other = (TRACED,), (tree(2.0),)
    assert _with_trees([one, (), other], [(), other], paired=False) == ([one, other], [other])
    assert _with_trees([one, (), other], [other, one, ()], paired=True) == ([one], [other])
    assert names([run(*KERNELS)] * 2, [run(*KERNELS)]) == [[["add", "add"], ["add"]]]
    assert names([run(*KERNELS)] * 2, [run(*CALLS), run(*KERNELS)], paired=True) == [[["add"], ["add"]]]
