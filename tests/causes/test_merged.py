"""One call tree of several: nodes, means, groups of steps and pools, from numbers that are worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from made_trees import close, paths, tree

from perfgate.causes.merged import Placed, Union, in_groups, mean_of, merged, with_pools
from perfgate.core.call_trees import CallNode, CallTree

# --- the places of trees in a union ----------------------------------------------------------------------------------

F = tree({"f": 1, "f/mm": 2, "f/add": 3, "g": 4}, pooled=frozenset({1}))
POOLING = [
    # the trees, the nodes of their union, and of each tree the place of each node: `~at` if it is pooled into `at`
    (
        [{"f": 1, "f/mm": 2}, {"g": 1, "f": 1, "f/mm(k)": 3, "f/mm": 2}],
        ["", "f", "f/mm", "g", "f/mm(k)"],
        [[0, 1, 2], [0, 3, 1, 4, 2]],
    ),
    (
        [F, {"f": 1, "f/tiny": 1, "f/tiny/mm": 1, "f/mm": 1, "f/mm/k(k)": 1, "f/mm(k)": 1, "g": 1, "g/tiny": 1}],
        ["", "f", "f/mm", "f/add", "g", "f/mm/k(k)", "g/tiny"],
        [[0, 1, 2, 3, 4], [0, 1, ~1, ~1, 2, 5, ~1, 4, 6]],
    ),
    (
        [F, tree({"h": 1, "f": 1, "f/mul": 2, "f/mm": 3}, pooled=frozenset({2}))],
        ["", "f", "f/mm", "g", "h"],
        [[0, 1, 2, ~1, 3], [0, 4, 1, ~1, 2]],
    ),
    ([F, tree({"f": 1}, pooled=frozenset({0}))], ["", "f", "f/mm", "f/add"], [[0, 1, 2, 3, ~0], [0, 1]]),
]


@pytest.mark.parametrize(("trees", "nodes", "places"), POOLING)
def test_nodes_with_one_path_are_one_and_small_calls_are_pooled(
    trees: list[Any], nodes: list[str], places: list[list[int]]
) -> None:
    made = [one if isinstance(one, CallTree) else tree(one) for one in trees]
    union = Union(made)
    placed = [union.place(one) for one in made]
    assert paths(union.nodes) == nodes
    assert union.nodes[0] == CallNode("step", "step", -1)
    assert [one.at.tolist() for one in placed] == [[max(at, ~at) for at in each] for each in places]
    assert [one.is_pooled.tolist() for one in placed] == [[at < 0 for at in each] for each in places]


def test_the_first_call_of_any_tree_counts() -> None:
    union = Union()
    assert union.first.tolist() == [np.inf]
    union.place(tree({"f": 1}))
    assert union.first.tolist() == [np.inf, np.inf]
    union.place(tree({"g": 1, "f": 1}, first=[0, 3, 5]))
    union.place(tree({"f": 1, "g": 1}, first=[1, 4, 2]))
    assert union.first.tolist() == [0, 4, 2]


def test_the_values_of_a_tree_in_a_union() -> None:
    made = tree({"f": [1, 2], "f/t": [3, 4], "g": [5, 6], "f/t/u": [7, 8]}, error=[0, 1, 2, 3, 0])
    placed = Placed(made, np.array([0, 2, 2, 1, 2]), np.array([False, False, True, False, True]))
    assert placed.sums(made.wall, 4).tolist() == [[0, 0], [5, 6], [1, 2], [0, 0]]
    assert placed.wall(made.wall, 4).tolist() == [[0, 0], [5, 6], [11, 14], [0, 0]]
    assert placed.wall(np.array([1, 2, 4, 8, 16]), 4).tolist() == [1, 8, 22, 0]
    plain = Placed(made, np.array([0, 2, 3, 1, 4]), np.zeros(5, bool))
    assert plain.error(6).tolist() == [0, 3, 1, 2, 0, 0]
    assert Placed(tree({"f": 1}), np.array([0, 2]), np.zeros(2, bool)).error(3).tolist() == [0, 0, 0]


# --- the mean of the ranks of a run ----------------------------------------------------------------------------------

ONE = tree(
    {"": [1, 3], "f": [2, 4], "f/mm": [4, 8]},
    rank="0",
    memory=[0, 4, 8],
    blocks=[0, 2, 4],
    first=[0, 1, 5],
    peak=10.0,
    error=[0, 3, 0],
)
OTHER = tree(
    {"": [3, 5, 10], "f": [4, 6, 5], "g": [2, 6, 1]},
    rank="1",
    blocks=[0, 4, 6],
    first=[0, 0.5, 7],
    has_steps=False,
    steps=7,
    error=[0, 4, 8],
)


def test_the_mean_of_ranks() -> None:
    found = merged([ONE, OTHER])
    assert (found.rank, paths(found.nodes)) == ("", ["", "f", "f/mm", "g"])
    wall = np.array([[2, 4], [3, 5], [2, 4], [1, 3]])
    close(found.wall, wall)
    close(found.counts, 2 * wall)
    close(found.busy, 3 * wall)
    close(found.memory, [0, 4, 8, 0])
    close(found.blocks, [0, 3, 2, 3])
    close(found.error, [0, 2.5, 0, 4])
    close(found.first, [0, 0.5, 5, 7])
    assert (found.peak, found.has_steps, found.steps, found.pooled) == (10, False, 2, frozenset())
    assert found.rank_wall is not None
    assert {rank: times.tolist() for rank, times in found.rank_wall.items()} == {"0": [2, 3, 6, 0], "1": [6, 5, 0, 3]}


def test_a_mean_of_one_rank_has_what_its_tree_has() -> None:
    plain = tree({"f": [1, 3]}, rank="4")
    found = merged([plain])
    assert (found.memory, found.blocks, found.peak, found.error, found.has_steps) == (None, None, None, None, True)
    assert found.rank_wall is not None
    assert {rank: times.tolist() for rank, times in found.rank_wall.items()} == {"4": [0, 2]}
    assert merged([found]) is found
    close(merged([tree({"": [1, 3]}), tree({"": [2, 5]})]).wall, [[1.5, 4]])
    assert merged([tree({"f": [1, 3]}, peak=10.0), tree({"f": [1, 3]}, peak=20.0), plain]).peak == 15


def test_means_of_ranks_are_joined() -> None:
    stored = tree({"f": 4}, rank_wall={"0": [0, 1], "1": [0, 7]})
    found = merged([stored, tree({"g": 6}, rank_wall={"1": [0, 3], "2": [0, 5]})])
    assert paths(found.nodes) == ["", "f", "g"]
    close(found.wall, [[0], [2], [3]])
    assert found.rank_wall is not None
    walls = {rank: times.tolist() for rank, times in found.rank_wall.items()}
    assert walls == {"0": [0, 1, 0], "1": [0, 3.5, 1.5], "2": [0, 0, 5]}


def test_the_mean_pools_what_one_rank_pools() -> None:
    small = tree({"g": 1, "f": 1, "f/t": 2}, rank="1", memory=[0, 1, 1, 2])
    found = merged([tree({"f": 4, "g": 3}, rank="0", memory=[0, 4, 0], pooled=frozenset({1})), small])
    assert (paths(found.nodes), found.pooled) == (["", "f", "g"], frozenset({1}))
    close(found.wall, [[0], [3.5], [2]])
    close(found.counts, [[0], [5], [4]])
    close(found.busy, [[0], [7.5], [6]])
    close(found.memory, [0, 3.5, 0.5])
    assert found.rank_wall is not None
    assert found.rank_wall["1"].tolist() == [0, 3, 1]


def test_the_mean_of_tables_has_zeros_for_nodes_that_they_lack() -> None:
    assert mean_of([], 3) is None
    close(mean_of([np.array([2.0]), np.array([4.0, 6.0, 8.0])], 4), [3, 3, 4, 0])


# --- groups of steps -------------------------------------------------------------------------------------------------


def test_groups_of_steps_have_the_mean_of_all_steps() -> None:
    made = tree({"": [1, 2, 3, 4, 8], "f": 0.0, "g": [0, 0, 0, 0.5, 0]})
    assert in_groups(made, 5) is made
    assert in_groups(made, 6) is made
    found = in_groups(made, 2)  # of 3 and 2 steps: means of 2 and 6, whose mean is 4 instead of 3.6
    wall = np.array([[1.8, 5.4], [0, 0], [0, 0.2]])
    for values, factor in ((found.wall, 1), (found.counts, 2), (found.busy, 3)):
        close(values, factor * wall)
    assert found.steps == 5
    assert in_groups(tree({"": [1, 2, 3]}, steps=30), 2).steps == 30
    close(in_groups(tree({"": [1, 2, 3, 4, 5, 6, 7]}), 3).step_times, np.array([2, 4.5, 6.5]) * 12 / 13)


# --- pools -----------------------------------------------------------------------------------------------------------

#: By path: wall times and durations. The step is 128 s; with a share of an eighth, 16 s are enough.
POOLS = {
    "": (40, 0),
    "edge": (16, 0),
    "small": (15, 15),
    "long": (0, 16),
    "f": (5, 0),
    "f/a": (6, 6),
    "f/b": (5, 0),
    "g": (1, 0),
    "g/h": (1, 0),
    "g/h/k(k)": (0, 50),
    "g/h/t": (2, 2),
    "u": (8, 0),
    "u/v": (7, 7),
    "z": (22, 0),
}
#: Where each of them goes.
INTO = [0, 1, 0, 2, 3, 3, 3, 4, 5, 6, 5, 0, 0, 7]


def test_small_calls_are_pooled_into_the_node_that_made_them() -> None:
    busy = [[0.5 * time, 1.5 * time] for _, time in POOLS.values()]
    made = tree({path: [0.5 * time, 1.5 * time] for path, (time, _) in POOLS.items()}, busy=busy)
    bits = [2**at for at in range(14)]
    of_pools = [1 + 4 + 2**11 + 2**12, 2, 8, 16 + 32 + 64, 2**7, 2**8 + 2**10, 2**9, 2**13]
    found = with_pools(made, 1 / 8)
    assert paths(found.nodes) == ["", "edge", "long", "f", "g", "g/h", "g/h/k(k)", "z"]
    assert found.nodes[0] == CallNode("step", "step", -1)
    close(found.wall, np.outer([70, 16, 0, 16, 1, 3, 0, 22], [0.5, 1.5]))
    close(found.counts, 2 * np.outer([40, 16, 0, 5, 1, 1, 0, 22], [0.5, 1.5]))
    close(found.busy, np.outer([0, 0, 16, 0, 0, 0, 50, 0], [0.5, 1.5]))
    assert found.pooled == {0, 3, 5}
    assert (found.memory, found.blocks, found.first, found.rank_wall) == (None, None, None, None)
    more: dict[str, Any] = {"memory": bits, "blocks": bits, "rank_wall": {"0": bits}, "first": list(range(14))}
    found = with_pools(tree({path: time for path, (time, _) in POOLS.items()}, busy=busy, **more), 1 / 8)
    assert found.rank_wall is not None
    for values in (found.memory, found.blocks, found.rank_wall["0"]):
        close(values, of_pools)
    close(found.first, [0, 1, 3, 4, 7, 8, 9, 13])


@pytest.mark.parametrize(("pooled", "into"), [({9}, {0, 3, 5, 6}), ({12}, {0, 3, 5}), ({1, 13}, {0, 1, 3, 5, 7})])
def test_calls_that_are_pooled_already_stay_pooled(pooled: set[int], into: set[int]) -> None:
    busy = [[time] for _, time in POOLS.values()]
    made = tree({path: time for path, (time, _) in POOLS.items()}, busy=busy, pooled=frozenset(pooled))
    assert with_pools(made, 1 / 8).pooled == into


def test_the_step_is_never_pooled() -> None:
    found = with_pools(tree({"": 1, "f": 2, "f/mm": 3}), 4)
    assert found.nodes == (CallNode("step", "step", -1),)
    assert (found.wall.tolist(), found.pooled) == ([[6]], frozenset({0}))
