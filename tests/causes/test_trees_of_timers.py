"""Which timer runs inside which, and the own time of each, in the call tree of one rank."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from perfgate.causes.nesting import LIGHTNING_NESTING, NESTING, Nesting, Timer
from perfgate.causes.series_trees import _TreeBuilder
from perfgate.core.call_trees import CallTree


def timer(name: str, mean: float, error: float = 0.0, count: float = 1.0, values: Sequence[float] = ()) -> Timer:
    return Timer(name, mean, error, count, np.array(values, float))


def builder(whole: str | None, *timers: Timer, steps: float = 1.0, nesting: Nesting = NESTING) -> _TreeBuilder:
    return _TreeBuilder({one.name: one for one in timers}, steps, whole, nesting)


def places(tree: CallTree | None) -> dict[str, tuple[str, float]]:
    """The place of each timer, and its own time."""
    assert tree is not None
    names = [node.name for node in tree.nodes]
    times = [round(time, 6) for time in tree.wall[:, 0].tolist()]
    return {node.name: (names[node.parent], time) for node, time in zip(tree.nodes[1:], times[1:], strict=True)}


# --- timers beside the step, and those that do not fit ---------------------------------------------------------------

#: The timer of the whole step, the time of each timer, the own times of the parts of the step, the timers left out.
PARTS: list[tuple[str | None, dict[str, float], dict[str, float], list[str]]] = [
    (None, {"forward": 3, "custom": 100}, {"forward": 3, "custom": 100}, []),
    ("step.time", {"forward": 4, "step.time": 10, "custom": 5}, {"forward": 4, "custom": 5, "not timed": 1}, []),
    # perfgate's own wait for data is beside its step, that of others inside
    ("step.time", {"data_time": 5, "step.time": 10, "forward": 9}, {"forward": 9, "data_time": 5, "not timed": 1}, []),
    (
        "batch_time",
        {"data_time": 4, "batch_time": 10, "forward": 5},
        {"data_time": 4, "forward": 5, "not timed": 1},
        [],
    ),
    (
        "step.time",
        {"data_time": 5, "step.time": 10, "forward": 9, "custom": 8},
        {"forward": 9, "data_time": 5, "not timed": 1},
        ["custom"],
    ),
    # parts fit if their sum is at most 1.02 times the whole
    ("step.time", {"step.time": 100, "custom": 102}, {"custom": 102, "not timed": 0}, []),
    ("step.time", {"step.time": 100, "forward": 0.5, "custom": 101.6}, {"forward": 0.5, "not timed": 99.5}, ["custom"]),
    # another wait for data is beside the step if the rest fits without it
    (
        "iteration_time",
        {"iteration_time": 10, "data_loader": 7, "forward": 6},
        {"forward": 6, "data_loader": 7, "not timed": 4},
        [],
    ),
    (
        "iteration_time",
        {"iteration_time": 10, "data_loader": 12, "forward": 6},
        {"forward": 6, "data_loader": 12, "not timed": 4},
        [],
    ),
    (
        "iteration_time",
        {"iteration_time": 10, "data_loader": 1, "forward": 6, "custom": 7},
        {"forward": 6, "not timed": 4},
        ["data_loader", "custom"],
    ),
    (
        "iteration_time",
        {"iteration_time": 10, "batch-generator": 9, "forward": 6},
        {"batch-generator": 9, "forward": 6, "not timed": 0},
        [],
    ),
]


@pytest.mark.parametrize(("whole", "times", "own", "left_out"), PARTS)
def test_the_parts_of_a_step(
    whole: str | None, times: Mapping[str, float], own: Mapping[str, float], left_out: Sequence[str]
) -> None:
    tree = builder(whole, *(timer(name, time) for name, time in times.items())).tree("", None)
    assert [*places(tree).items()] == [(name, ("step", time)) for name, time in own.items()]
    assert tree is not None
    assert tree.notes == tuple(f"{name} is left out: it does not fit into {whole}" for name in left_out)


def test_a_step_without_parts_has_no_tree() -> None:
    assert builder("step.time", timer("step.time", 10)).tree("", None) is None
    assert builder("step.time", timer("step.time", 10), timer("data_time", 1)).tree("", None) is None
    assert builder("step.time", timer("step.time", 10), timer("custom", 11)).tree("", None) is None


# --- timers inside timers --------------------------------------------------------------------------------------------

INNER: list[tuple[str | None, Nesting, dict[str, float], dict[str, tuple[str, float]]]] = [
    (
        "train_batch",
        NESTING,
        {"train_batch": 12, "backward_inner": 3, "forward": 4, "backward": 5, "backward_allreduce": 1, "moe": 3},
        {
            "forward": ("step", 1),
            "moe": ("forward", 3),
            "backward": ("step", 1),
            "backward_inner": ("backward", 3),
            "backward_allreduce": ("backward", 1),
            "not timed": ("step", 3),
        },
    ),
    # a timer that is longer than another by more than a quarter is not inside it
    (None, NESTING, {"moe": 5, "forward": 4}, {"forward": ("step", 0), "moe": ("forward", 5)}),
    (None, NESTING, {"moe": 5.1, "forward": 4}, {"moe": ("step", 5.1), "forward": ("step", 4)}),
    # if several classes have one hook, the longest has the others
    (
        None,
        LIGHTNING_NESTING,
        {"[A]X.optimizer_step": 4, "[B]Y.optimizer_step": 5, "training_step": 3},
        {
            "[A]X.optimizer_step": ("step", 4),
            "[B]Y.optimizer_step": ("step", 2),
            "training_step": ("[B]Y.optimizer_step", 3),
        },
    ),
    # another timer with the hook of the whole step is a part of it
    (
        "[A]X.run_training_batch",
        LIGHTNING_NESTING,
        {"[A]X.run_training_batch": 9, "[B]Y.run_training_batch": 2, "optimizer_step": 1},
        {
            "[B]Y.run_training_batch": ("step", 1),
            "optimizer_step": ("[B]Y.run_training_batch", 1),
            "not timed": ("step", 7),
        },
    ),
]


@pytest.mark.parametrize(("whole", "nesting", "times", "inside"), INNER)
def test_timers_inside_timers(
    whole: str | None, nesting: Nesting, times: Mapping[str, float], inside: Mapping[str, tuple[str, float]]
) -> None:
    timers = [timer(name, time) for name, time in times.items()]
    found = places(builder(whole, *timers, nesting=nesting).tree("", None))
    assert [*found.items()] == [*inside.items()]


# --- own times and their errors --------------------------------------------------------------------------------------

#: The timer and those inside it, the steps; the own time, and its standard error. Warm-ups differ.
OWN: list[tuple[Timer, list[Timer], float, tuple[float, float]]] = [
    (timer("a", 7, 0.5), [], 1, (7, 0.5)),
    (timer("a", 7, 0.3, 2), [timer("b", 2, 0.4, 2)], 2, (5, 0.5)),
    (timer("a", 7, 0.3, 8), [timer("b", 3, 0.2, 16)], 8, (1, 0.5)),
    (timer("a", 7), [timer("b", 3), timer("c", 3.5)], 1, (0.5, 0)),
    (timer("a", 7, 3.0), [timer("b", 9, 4.0)], 1, (0, 5)),
    (timer("a", 2, 9, 2, [1, 3]), [], 2, (2, 1)),
    (timer("a", 2, 9, 4, [1, 3, 1, 3]), [], 4, (2, math.sqrt(4 / 3 / 4))),
    (timer("a", 2, 9, 2, [1, 3]), [timer("b", 9, 9, 2, [0, 0])], 2, (0, 1)),
    (timer("a", 5, 9, 3, [4, 6]), [timer("b", 1, 9, 3, [7, 0, 2])], 3, (4, 0)),
    (timer("a", 5, 9, 3, [9, 4, 6]), [timer("b", 1, 9, 3, [2, 0]), timer("c", 1, 9, 3, [8, 1, 1])], 3, (3, 2)),
    # four calls a step: the error is that of four times their mean
    (timer("a", 2, 9, 8, [1, 3]), [], 2, (8, 4)),
    # steps without some of the calls have no common steps
    (timer("a", 5, 3, 4, [4, 6]), [timer("b", 1, 4, 4, [0, 2]), timer("c", 1, 12, 3, [2, 2])], 4, (3, 13)),
    (timer("a", 5, 3, 4, [4, 6]), [timer("b", 1, 4, 4)], 4, (4, 5)),
]


@pytest.mark.parametrize(("outer", "inner", "steps", "own"), OWN)
def test_the_own_time_of_a_timer(outer: Timer, inner: Sequence[Timer], steps: float, own: tuple[float, float]) -> None:
    assert builder(None, steps=steps)._own(outer, inner) == pytest.approx(own)


def test_a_tree_of_all_columns() -> None:
    timers = [
        timer("step.time", 10, 0.5, 8),
        timer("forward", 2, 0.3, 16),
        timer("moe", 3, 0.4, 8),
        timer("all_reduce", 1, 0.2, 8),
        timer("data_time", 1, 0.1, 8),
    ]
    found = builder("step.time", *timers, steps=8).tree("3", 7e9)
    assert found is not None
    names = ("step", "forward", "moe", "all_reduce", "data_time", "not timed", "memory.peak_allocated")
    assert tuple(node.name for node in found.nodes) == names
    assert [node.kind for node in found.nodes] == [
        "step",
        "range",
        "range",
        "communication",
        "loader",
        "range",
        "range",
    ]
    assert [node.parent for node in found.nodes] == [-1, 0, 1, 0, 0, 0, 0]
    assert found.counts[:, 0].tolist() == [1, 2, 1, 1, 1, 1, 0]
    assert found.wall[:, 0].tolist() == [0, 1, 3, 1, 1, 5, 0]
    assert found.busy[:, 0].tolist() == [11, 4, 3, 1, 1, 5, 0]
    rest = math.hypot(0.5, 2 * 0.3, 0.2)
    errors = [0, math.hypot(2 * 0.3, 0.4), 0.4, 0.2, 0.1, rest, 0]
    assert found.error is not None
    assert found.error.tolist() == pytest.approx(errors)
    assert found.memory is not None
    assert found.memory.tolist() == [0, 0, 0, 0, 0, 0, 7e9]
    assert found.first is not None
    assert found.first.tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert (found.rank, found.peak, found.has_steps, found.notes) == ("3", 7e9, True, ())


def test_a_tree_without_memory_and_of_one_or_more_steps() -> None:
    trees = [builder(None, timer("forward", 2), steps=steps).tree("", None) for steps in (1, 1.5, 2)]
    assert [tree and tree.has_steps for tree in trees] == [False, True, True]
    assert trees[0] is not None
    assert (trees[0].memory, trees[0].peak, len(trees[0].nodes)) == (None, None, 2)
