"""Two sides on one tree: which nodes are the same, what a side has, and which sides cannot be compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from made_alignments import Row, Steps, aligned

from perfgate.causes.align import Alignment, Finding, align, incomparable, obstacle_to_causes, same_ranks
from perfgate.core.call_trees import CallNode, CallTree

# --- one tree --------------------------------------------------------------------------------------------------------

#: A step with two ranges: the second was called first.
TREE = aligned(
    [
        Row("forward", "range", 0, [1.0, 3.0], [5.0, 6.0, 7.0], (2.0, [1.0, 3.0, 5.0]), (4.0, [1.0, 2.0, 9.0])),
        Row("mm", "operator", 1, 10.0, 20.0),
        Row("gemm", "kernel", 2, 30.0, 25.0),
        Row("load", "loader", 0, 1.0, 1.0),
        Row("add", "operator", 1, 2.0, 1.0),
    ],
    [0, 1],
    [0, 0, 4],
    first=np.array([0.0, 0.5, 0.6, 0.7, 0.1, 0.55]),
)


def test_a_side_is_the_mean_of_its_steps() -> None:
    base, new = TREE.sides
    assert (base.runs, new.runs) == (2, 2)
    assert [base.times.tolist(), new.times.tolist()] == [[0, 2, 10, 30, 1, 2], [0, 6, 20, 25, 1, 1]]
    assert (base.calls[1], new.calls[1], base.durations[1], new.durations[1]) == (2.0, 3.0, 4.0, 4.0)
    assert (base.step, new.step, TREE.step) == (45.0, 53.0, 53.0)
    assert TREE.longer.tolist() == [0, 4, 10, -5, 0, -1]
    assert (TREE.more_calls[1], TREE.more_calls[2]) == (1.0, 0.0)
    assert TREE.busier.tolist() == [0, 0, 10, -5, 0, -1]
    fresh = aligned([])
    assert (fresh.steps_agree, fresh.is_cut, fresh.has_steps) == (True, False, True)


def test_the_nodes_above_and_below_a_node() -> None:
    assert TREE.of_kind("kernel", "operator").tolist() == [False, False, True, True, False, True]
    assert [TREE.chain(node) for node in (0, 1, 3, 4)] == [(0,), (1,), (3, 2, 1), (4,)]
    assert [TREE.path(node) for node in (0, 1, 3)] == [(), ("forward",), ("forward", "mm", "gemm")]
    assert TREE.children == [[4, 1], [5, 2], [3], [], [], []]
    assert [TREE.subtree(nodes) for nodes in ([], [3], [2, 4], [1, 2], [0])] == [
        set(),
        {3},
        {2, 3, 4},
        {1, 2, 3, 5},
        {0, 1, 2, 3, 4, 5},
    ]
    assert TREE.with_below(np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])).tolist() == [63, 46, 12, 8, 16, 32]


def test_calls_that_were_first_at_one_time_keep_their_order() -> None:
    rows = [Row("a", "range", 0), Row("b", "range", 0), Row("c", "range", 0)]
    assert aligned(rows, first=np.zeros(4)).children[0] == [1, 2, 3]


def test_a_finding_without_numbers_is_no_edit() -> None:
    found = Finding("slower", frozenset({1}), 1, (0,))
    assert (found.change, found.error, found.is_edit) == (0.0, 0.0, False)
    edits = [Finding("moved", frozenset(), 1, (0,), gone=gone, come=come) for gone, come in (((1,), ()), ((), (1,)))]
    assert [one.is_edit for one in edits] == [True, True]


# --- trees of runs ---------------------------------------------------------------------------------------------------


def tree(rank: str = "", walls: Sequence[Sequence[float]] = ((0.0, 0.0), (1.0, 3.0)), **more: Any) -> CallTree:
    """A tree whose nodes are called `n1`, `n2`, ... with these times in each step; twice as long in `busy`."""
    names = more.pop("names", [f"n{at}" for at in range(1, len(walls))])
    nodes = (CallNode("step", "step", -1), *(CallNode(name, "operator", 0) for name in names))
    wall = np.array(walls, np.float64)
    return CallTree(rank, nodes, more.pop("counts", np.ones_like(wall)), 2 * wall, wall, **more)


def test_runs_follow_each_other_on_a_side() -> None:
    base = [[tree("0", counts=np.array([[1.0, 1.0], [4.0, 6.0]]))], [tree("0", ((0, 0), (5, 7)))]]
    new = [[tree("0", ((0, 0), (9, 9), (2, 4)), names=["n1", "new"])]]
    found = align(base, new)
    assert [node.name for node in found.nodes] == ["step", "n1", "new"]
    assert found.base.wall.tolist() == [[0, 0, 0, 0], [1, 3, 5, 7], [0, 0, 0, 0]]
    assert found.base.busy[1].tolist() == [2, 6, 10, 14]
    assert found.base.counts[1:].tolist() == [[4, 6, 1, 1], [0, 0, 0, 0]]
    assert (found.base.run.tolist(), found.new.run.tolist()) == ([0, 0, 1, 1], [0, 0])
    assert found.new.wall.tolist() == [[0, 0], [9, 9], [2, 4]]
    assert found.base.error.tolist() == [[0, 0], [0, 0], [0, 0]]
    assert (found.base.memory, found.base.peak, found.base.blocks) == (None, None, None)
    assert (found.steps_agree, found.is_cut, found.has_steps) == (True, False, True)


def test_a_side_has_the_mean_of_each_rank() -> None:
    base = [[tree("0"), tree("1", ((0, 0), (3, 5)))], [tree("0", ((0, 0), (5, 7))), tree("1")]]
    found = align(base, [[tree("0")]]).base
    assert found.wall[1].tolist() == [2, 4, 3, 5]
    assert {rank: wall.tolist() for rank, wall in found.rank_wall.items()} == {"0": [0, 4], "1": [0, 3]}
    assert {rank: runs.tolist() for rank, runs in found.rank_runs.items()} == {
        "0": [[0, 0], [2, 6]],
        "1": [[0, 0], [4, 2]],
    }


def test_a_tree_without_ranks_has_no_times_of_ranks() -> None:
    """A mean of ranks may be stored without their times."""
    alone = tree(rank_wall={})
    assert dict(align([[alone]], [[tree()]]).base.rank_wall) == {}


def test_the_memory_of_a_side_is_that_of_the_runs_that_have_it() -> None:
    def with_memory(*values: float, peak: float) -> CallTree:
        return tree("0", memory=np.array(values), peak=peak, blocks=10 * np.array(values))

    runs = [[with_memory(0.0, 4.0, peak=5.0)], [tree("0")], [with_memory(1.0, 6.0, peak=9.0)]]
    found = align(runs, [[tree("0", error=np.array([0.0, 0.5]))]])
    assert found.base.memory is not None
    assert found.base.blocks is not None
    assert (found.base.memory.tolist(), found.base.blocks.tolist(), found.base.peak) == ([0.5, 5.0], [5.0, 50.0], 7.0)
    assert found.new.error.tolist() == [[0.0], [0.5]]


SIX = [1.0, 3.0, 5.0, 7.0, 9.0, 11.0]
THREE = [2.0, 6.0, 10.0]
GROUPS: list[tuple[list[list[float]], list[int], list[list[float]]]] = [
    # the columns of two runs, and the steps behind them: the times on both sides
    ([SIX, SIX], [0, 0], [SIX, SIX]),
    ([SIX, THREE], [0, 6], [THREE, THREE]),
    ([THREE, SIX], [6, 0], [THREE, THREE]),
    ([SIX, THREE], [0, 0], [SIX, THREE]),
    ([SIX, THREE], [0, 5], [SIX, THREE]),
]


@pytest.mark.parametrize(("columns", "steps", "walls"), GROUPS)
def test_runs_with_as_many_steps_have_the_same_groups_of_steps(
    columns: list[list[float]], steps: list[int], walls: list[list[float]]
) -> None:
    runs = [[tree(walls=([0.0] * len(own), own), steps=count)] for own, count in zip(columns, steps, strict=True)]
    found = align(runs[:1], runs[1:])
    assert [side.wall[1].tolist() for side in found.sides] == walls


MARKS = [
    # whether the runs of both sides have steps: if the sides agree, and all have steps
    ([True, True], [True], (True, True)),
    ([False, False], [False], (True, False)),
    ([True, True], [False], (False, False)),
    ([False], [True], (False, False)),
    ([True, False], [False, True], (True, False)),
    ([True, False], [True], (False, False)),
]


@pytest.mark.parametrize(("base", "new", "found"), MARKS)
def test_sides_agree_if_both_have_steps(base: list[bool], new: list[bool], found: tuple[bool, bool]) -> None:
    sides = [[[tree(has_steps=one)] for one in side] for side in (base, new)]
    alignment = align(*sides)
    assert (alignment.steps_agree, alignment.has_steps) == found


def test_one_table_that_is_cut_is_enough() -> None:
    cut = [[tree("0"), tree("1", is_cut=True)]]
    assert [align(*sides).is_cut for sides in ((cut, [[tree()]]), ([[tree()]], cut))] == [True, True]


# --- ranks -----------------------------------------------------------------------------------------------------------


def runs(*ranks: str) -> list[list[CallTree]]:
    """Runs with these ranks, `01` for two of them."""
    return [[tree(rank) for rank in run] for run in ranks]


def mean_of_ranks(*ranks: str) -> CallTree:
    return tree(rank_wall={rank: np.zeros(2) for rank in ranks})


NO_STEPS = "traces without steps (profiler.step() is not called): each counts as one step"
NOTES: list[tuple[list[list[CallTree]], list[list[CallTree]], tuple[str, ...]]] = [
    (runs("01"), runs("10"), ()),
    (runs("01"), runs("0"), ("only the base side has rank 1: left out",)),
    (runs("0"), runs("0", "21"), ("only the new side has rank 1, 2: left out",)),
    (runs("01"), runs("12"), ("only the base side has rank 0: left out", "only the new side has rank 2: left out")),
    (runs("0"), runs("1"), ()),
    (
        [[mean_of_ranks("0", "1")], [tree("0")]],
        runs("0"),
        ("only the base side has rank 1: but it is stored as the mean of all its ranks",),
    ),
    (
        [[mean_of_ranks("0", "1")]],
        runs("02"),
        (
            "only the base side has rank 1: but it is stored as the mean of all its ranks",
            "only the new side has rank 2: left out",
        ),
    ),
    ([[tree(has_steps=False), tree()]], [[tree()]], (NO_STEPS,)),
    ([[tree()]], [[tree(has_steps=False)]], (NO_STEPS,)),
    ([[tree(has_steps=False, error=np.zeros(2))]], [[tree()]], ()),
    ([[tree(notes=("b", "a"))]], [[tree(notes=("a", "c"), has_steps=False)]], ("b", "a", "c", NO_STEPS)),
]


@pytest.mark.parametrize(("base", "new", "notes"), NOTES)
def test_what_cannot_be_compared(base: list[list[CallTree]], new: list[list[CallTree]], notes: tuple[str, ...]) -> None:
    assert incomparable(base, new) == notes


SHARED = [
    # the ranks of the runs of both sides: those that are left, and those that are left if run i of both is a pair
    (["01", "02"], ["01"], ["01", "0"], ["01"], ["01"], ["01"]),
    (["01", "12"], ["12", "03"], ["01", "12"], ["12", "0"], ["1"], ["1"]),
    (["0", "1"], ["1", "1"], ["1"], ["1", "1"], ["1"], ["1"]),
    (["0"], ["1"], ["0"], ["1"], ["0"], ["1"]),
    (["02"], ["0", "1"], ["0"], ["0"], ["0"], ["0"]),
]


@pytest.mark.parametrize(("base", "new", "base_left", "new_left", "base_paired", "new_paired"), SHARED)
def test_the_ranks_that_both_sides_have(
    base: list[str],
    new: list[str],
    base_left: list[str],
    new_left: list[str],
    base_paired: list[str],
    new_paired: list[str],
) -> None:
    def ranks(**how: bool) -> list[list[str]]:
        kept = same_ranks(runs(*base), runs(*new), **how)
        return [["".join(one.rank for one in run) for run in side] for side in kept]

    assert ranks() == [base_left, new_left]
    assert ranks(paired=True) == [base_paired, new_paired]


# --- obstacles -------------------------------------------------------------------------------------------------------


def program(kind: Any, base: Steps, new: Steps, *more: Row) -> Alignment:
    """A node of a kind with its calls on both sides, in two steps; another one is called as often on both."""
    rows = [Row("same", "operator", 0, calls=(1.0, 1.0)), Row("other", kind, 0, calls=(base, new)), *more]
    return aligned(rows, [0, 0], [0, 0])


def timed(base: float, new: float) -> Alignment:
    return aligned([Row("mm", "operator", 0, base, new)])


TOO_LARGE = "no causes: a time is too large to be one"
STEPS = "no causes: only one side has several steps (in traces: profiler.step()), so calls cannot be compared"
LACKS = "no causes: the {} side has no {}, and the other has: record both in the same way"
OTHER = "no causes: the two sides have hardly a call in common: they are not one program"
KERNELS, CALLS = "kernels", "calls of the runtime"


def shared(kind: Any, both: tuple[float, float], base: float, new: float) -> Alignment:
    """A node that both sides call, one that only the base calls, and one that only the new side calls."""
    rows = [("both", both), ("base", (base, 0.0)), ("new", (0.0, new))]
    return aligned([Row(name, kind, 0, calls=calls) for name, calls in rows])


OBSTACLES: list[tuple[str, Alignment, str | None]] = [
    ("too long", timed(1.0, 1e100), TOO_LARGE),
    ("too long before", timed(2e100, 1.0), TOO_LARGE),
    ("infinite", timed(1.0, np.inf), TOO_LARGE),
    ("no number", timed(1.0, np.nan), TOO_LARGE),
    ("no number before", timed(np.nan, 1.0), TOO_LARGE),
    ("as long as it may be", timed(1.0, 0.99e100), None),
    ("steps", aligned([], steps_agree=False), STEPS),
    ("no kernels", program("kernel", 0.0, 1.0), LACKS.format("base", KERNELS)),
    ("no kernels now", program("kernel", 1.0, 0.0), LACKS.format("new", KERNELS)),
    ("kernels in some steps", program("kernel", [0.0, 1.0], 1.0), None),
    ("kernels in none", program("kernel", 0.0, 0.0), None),
    ("no calls", program("runtime", 0.0, 1.0, Row("gemm", "kernel", 0)), LACKS.format("base", CALLS)),
    ("no calls now", program("runtime", 1.0, 0.0, Row("gemm", "kernel", 0)), LACKS.format("new", CALLS)),
    ("the runtime without kernels", program("runtime", 1.0, 0.0), None),
    *((kind, shared(kind, (1.0, 1.0), 10.0, 10.0), OTHER) for kind in ("range", "operator", "loader", "collective")),
    *((kind, shared(kind, (1.0, 1.0), 10.0, 10.0), None) for kind in ("copy", "thread", "communication")),
    ("a tenth in common", shared("range", (1.0, 1.0), 9.0, 9.0), None),
    ("a tenth of the base in common", shared("range", (1.0, 1.0), 9.0, 99.0), None),
    ("a tenth of the new side in common", shared("range", (1.0, 1.0), 99.0, 9.0), None),
    ("called once on both", shared("range", (1.0, 1.0), 0.0, 0.0), None),
    ("nothing in common", shared("range", (0.0, 0.0), 0.5, 0.5), OTHER),
    ("nothing before", shared("range", (0.0, 0.0), 0.0, 5.0), None),
    ("nothing now", shared("range", (0.0, 0.0), 5.0, 0.0), None),
    ("nothing", shared("range", (0.0, 0.0), 0.0, 0.0), None),
]


@pytest.mark.parametrize(("alignment", "obstacle"), [row[1:] for row in OBSTACLES], ids=[row[0] for row in OBSTACLES])
def test_sides_that_cannot_be_compared(alignment: Alignment, obstacle: str | None) -> None:
    assert obstacle_to_causes(alignment) == obstacle
