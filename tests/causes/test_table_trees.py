"""The trees of tables, from rows of round numbers: which rows count, and what the smallest ones leave open."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from perfgate.causes.table_trees import TableRow, _of_device, _own_times, _row, _steps, _tree, _trees
from perfgate.core import Key, Run, Series
from perfgate.core.call_trees import CallTree

DEVICE, HOST = ".self_device_time", ".self_cpu_time"
NOTHING = np.empty(0)


def row(metric: str, total: float, count: float = 1.0, unit: str = "s", **labels: str) -> Series:
    """A row of a table: its total and its calls."""
    return Series(Key.of(metric, **labels), unit, "aggregate", NOTHING, aggregate={"total": total, "count": count})


def op(name: str, host: float, device: float, calls: float = 1.0, **labels: str) -> tuple[Series, Series]:
    """A row of a table of operators, with its times on the host and on the device."""
    return row(name + HOST, host, calls, **labels), row(name + DEVICE, device, calls, **labels)


def shown(tree: CallTree | None) -> Any:
    """The rows of a tree: name, kind, time and calls; first those of the step."""
    if tree is None:
        return None
    columns = (tree.wall[:, 0].tolist(), tree.counts[:, 0].tolist())
    return [(node.name, node.kind, *pair) for node, *pair in zip(tree.nodes, *columns, strict=True)]


# --- one row ---------------------------------------------------------------------------------------------------------


def of_values(*values: float, thinned_from: int | None = None, kind: Any = "samples") -> Series:
    return Series(Key("kernel.x"), "s", kind, np.array(values), thinned_from=thinned_from)


def of_numbers(kind: Any = "aggregate", **numbers: float) -> Series:
    return Series(Key("kernel.x"), "s", kind, NOTHING, aggregate=numbers)


ROWS: list[tuple[Series, float, float]] = [
    # a series, its total time and its calls
    (of_values(1.0, 3.0, 8.0), 12.0, 3.0),
    (of_values(5.0), 5.0, 1.0),
    (of_values(5.0, kind="value"), 5.0, 1.0),
    (of_values(1.0, 3.0, thinned_from=20), 40.0, 20.0),
    (of_values(), 0.0, 0.0),
    (of_numbers(mean=2.0, total=30.0, count=10.0), 30.0, 10.0),
    (of_numbers(mean=2.0, count=10.0), 20.0, 10.0),
    (of_numbers("summary", mean=2.0, count=10.0), 20.0, 10.0),
    (of_numbers(mean=2.0), 2.0, 1.0),
    (of_numbers(total=0.0, mean=2.0, count=4.0), 0.0, 4.0),
    (of_numbers(max=2.0, count=10.0), 0.0, 10.0),
    (of_numbers(mean=1e300, count=1e300), 0.0, 1e300),
]


@pytest.mark.parametrize(("series", "time", "calls"), ROWS)
def test_the_time_and_the_calls_of_a_row(series: Series, time: float, calls: float) -> None:
    assert _row(series) == TableRow(time, calls, 1)


def test_rows_add_up() -> None:
    assert TableRow(1.0, 2.0, 3) + TableRow(10.0, 20.0, 30) == TableRow(11.0, 22.0, 33)
    assert TableRow() == TableRow(0.0, 0.0, 0)


# --- which rows of a table of operators count ------------------------------------------------------------------------

#: The host's time of operators and kernels, by name.
CPU = {"mm": 1.0, "aten::copy_": 0.5, "gemm": 0.0, "copy": 0.0}
OPERATORS, KERNELS = {"mm": 60.0, "aten::copy_": 40.0}, {"gemm": 60.0, "copy": 40.0}
CUT = {"gemm": 60.0, "copy...": 40.0}
PAGEABLE = "Memcpy HtoD (Pageable -> Device)"
COPIES = {"gemm...": 60.0, PAGEABLE: 10.0, "Memcpy DtoD (Device -> Device)": 5.0}
OF_DEVICE: list[tuple[Mapping[str, float], Mapping[str, float], float, Mapping[str, float]]] = [
    # the device's time of operators, of kernels and ranges, the printed sum or 0; the rows that count
    (OPERATORS, KERNELS, 100.0, KERNELS),
    (OPERATORS, KERNELS, 0.0, KERNELS),
    (OPERATORS, {}, 0.0, OPERATORS),
    (OPERATORS, {}, 100.0, OPERATORS),
    ({}, KERNELS, 100.0, KERNELS),
    ({"mm": 0.0}, KERNELS, 100.0, KERNELS),
    ({"mm": 100.0}, {"gemm": 100.0, "unused": 0.0}, 0.0, {"gemm": 100.0}),
    # kernels are missing, or there is a range: the sum of a hundredth less or more is the printed one
    (OPERATORS, {"gemm": 99.0}, 100.0, {"gemm": 99.0}),
    (OPERATORS, {"gemm": 101.0}, 100.0, {"gemm": 101.0}),
    (OPERATORS, {"gemm": 98.9}, 100.0, OPERATORS),
    (OPERATORS, {**KERNELS, "forward": 300.0}, 100.0, OPERATORS),
    (OPERATORS, {**KERNELS, "forward": 1.1}, 100.0, OPERATORS),
    # names are cut, with or without the number of a repeated one
    (OPERATORS, CUT, 100.0, OPERATORS),
    (OPERATORS, CUT, 0.0, OPERATORS),
    (OPERATORS, {"gemm": 60.0, "copy...#2": 40.0}, 100.0, OPERATORS),
    # operators with less than half of the time, or kernels
    ({"mm": 50.0}, CUT, 100.0, {"mm": 50.0}),
    ({"mm": 49.9}, CUT, 100.0, CUT),
    ({"mm": 50.0}, CUT, 0.0, {"mm": 50.0}),
    ({"mm": 49.9}, CUT, 0.0, CUT),
    ({"mm": 50.0}, {**KERNELS, "forward": 300.0}, 100.0, {"mm": 50.0}),
    ({"mm": 49.9}, {**KERNELS, "forward": 300.0}, 100.0, {**KERNELS, "forward": 300.0}),
    ({"mm": 30.0}, {"gemm": 60.0}, 100.0, {"mm": 30.0}),
    ({"mm": 29.0}, {"gemm": 60.0}, 100.0, {"gemm": 60.0}),
    ({"mm": 2.0}, {"gemm": 1.0}, 0.0, {"gemm": 1.0}),
    ({"mm": 2.0}, {"gemm": 0.9}, 0.0, {"mm": 2.0}),
    ({"mm": 0.5}, {"gemm...": 0.75}, 0.0, {"mm": 0.5}),
    # a copy of pageable memory is a row of its own, and no part of its operator
    ({"mm": 60.0, "aten::copy_": 15.0}, COPIES, 0.0, {"mm": 60.0, "aten::copy_": 5.0, PAGEABLE: 10.0}),
    ({"mm": 60.0, "aten::copy_": 10.0}, COPIES, 0.0, {"mm": 60.0, "aten::copy_": 0.0, PAGEABLE: 10.0}),
    ({"mm": 60.0, "aten::copy_": 9.0}, COPIES, 0.0, {"mm": 60.0, "aten::copy_": 9.0}),
    ({"mm": 60.0, "aten::_copy": 15.0}, COPIES, 0.0, {"mm": 60.0, "aten::_copy": 15.0}),
    ({"aten::copy_": 11.0, "aten::copy_#2": 30.0, "mm": 50.0}, COPIES, 0.0,
     {"aten::copy_": 11.0, "aten::copy_#2": 20.0, "mm": 50.0, PAGEABLE: 10.0}),
]  # fmt: skip


@pytest.mark.parametrize(("operators", "kernels", "whole", "counted"), OF_DEVICE)
def test_either_the_kernels_of_a_table_count_or_its_operators(
    operators: Mapping[str, float], kernels: Mapping[str, float], whole: float, counted: Mapping[str, float]
) -> None:
    found = {name: TableRow(time, 3.0, 1) for name, time in {**operators, **kernels}.items()}
    cpu = {name: TableRow(0.5, 3.0, 1) for name in operators} | {name: TableRow(0.0, 3.0, 1) for name in kernels}
    for known in (cpu, {name: one for name, one in cpu.items() if one.time}):  # kernels may have no time of the host
        assert _of_device(found, known, whole) == {name: TableRow(time, 3.0, 1) for name, time in counted.items()}


def test_a_row_with_the_name_of_an_operator_is_no_kernel() -> None:
    """Of an operator with several shapes, one shape has no time on the host, or no row there."""
    found = {name: TableRow(8.0, 1.0, 1) for name in ("mm", "mm#2", "gemm")}
    for cpu in ({"mm": TableRow(0.5)}, {"mm": TableRow(0.5), "mm#2": TableRow()}):
        assert [*_of_device(found, cpu, 8.0)] == ["gemm"]
        assert [*_of_device(found, cpu, 9.0)] == ["mm"]


def test_the_rows_of_own_time() -> None:
    """Shapes of one operator, actions and stages of a run are summed; the profiler's own row is none."""
    rows = (
        *op("mm", 1.0, 8.0, 2, action="training_step"),
        *op("mm", 2.0, 16.0, 3, action="backward"),
        *op("mm#2", 4.0, 32.0, 5),
        *op("ProfilerStep*", 9.0, 9.0),
        *(row("mm.cpu_time", 64.0), row("add.cpu_time", 64.0), row("mm.self_cpu_memory", 64.0, unit="B")),
        *(row("add" + HOST, 64.0, unit="B"), row("add" + DEVICE, 64.0, unit="B")),
    )
    assert _own_times(rows, HOST) == ({"mm": TableRow(7.0, 10.0, 3)}, 0)
    assert _own_times(rows, DEVICE) == ({"mm": TableRow(56.0, 10.0, 3)}, 0)
    kernels = (*op("gemm", 0.0, 24.0, 5), *op("gemm#2", 0.0, 32.0, 5))
    for printed, found in ((56.0, {"gemm": TableRow(56.0, 10.0, 2)}), (99.0, {"mm": TableRow(56.0, 10.0, 3)})):
        sums = row("table" + DEVICE, printed - 8.0), row("table#2" + DEVICE, 8.0)
        assert _own_times((*rows, *kernels, *sums), DEVICE) == (found, printed)


# --- the tree of one rank --------------------------------------------------------------------------------------------

STEP = ("step", "step", 0.0, 1.0)
NSYS = (
    *(row("kernel.gemm 0x12345", 0.5, 4), row("kernel.gemm 0x6789a", 0.25, 2), row("memcpy.HtoD", 0.125, 8)),
    *(row("memcpy.HtoD.size", 64.0, 8, "B"), row("api.cudaLaunch", 0.5, 6), row("os.read", 0.25, 3)),
    *(row("range.forward", 9.0, 2), row("memcpy.none", 0.0), row("api.none", 0.0)),
)
OF_NSYS = {
    DEVICE: [STEP, ("gemm 0x", "kernel", 0.75, 6.0), ("HtoD", "copy", 0.125, 8.0)],
    HOST: [STEP, ("cudaLaunch", "runtime", 0.5, 6.0), ("read", "runtime", 0.25, 3.0)],
}


@pytest.mark.parametrize("own", [DEVICE, HOST])
def test_the_trees_of_nsight_systems(own: str) -> None:
    tree = _tree("3", NSYS, own)
    assert shown(tree) == OF_NSYS[own]
    assert tree is not None
    assert [node.parent for node in tree.nodes] == [-1, 0, 0]
    assert (tree.rank, tree.has_steps, tree.is_cut) == ("3", False, False)
    assert tree.first is not None
    assert tree.error is not None
    assert (tree.first.tolist(), tree.error.tolist()) == ([0.0, 1.0, 2.0], [0.0, 0.0, 0.0])
    assert (tree.busy == tree.wall).all()


def test_the_trees_of_a_table_of_operators() -> None:
    """An operator whose name begins as a family is an operator."""
    rows = [*op("os.mm", 0.5, 2.0, 4), *op("api.add", 0.25, 1.0, 2), *op("kernel.gemm", 0.0, 3.0, 6)]
    rows += [*op("memcpy.copy", 0.0, 0.0), row("api.sync", 0.125, 2)]
    device, host = (_tree("", rows, own) for own in (DEVICE, HOST))
    assert device is None  # one kernel
    assert shown(host)[1:] == [
        ("sync", "runtime", 0.125, 2.0),
        ("os.mm", "operator", 0.5, 4.0),
        ("api.add", "operator", 0.25, 2.0),
    ]
    found = shown(_tree("", (*rows, *op("tanh 0x12345", 0.0, 1.5, 2)), DEVICE))
    assert found == [STEP, ("kernel.gemm", "kernel", 3.0, 6.0), ("tanh 0x", "kernel", 1.5, 2.0)]


WHOLE: list[tuple[tuple[float, ...], tuple[float, ...], float, bool]] = [
    # the times of rows, the printed sums; the time of the step itself, and whether the table is cut
    ((60.0, 40.0), (100.0,), 0.0, False),
    ((60.0, 39.0), (100.0,), 1.0, False),
    ((60.0, 38.5), (100.0,), 1.5, True),
    ((60.0, 38.5), (50.0, 50.0), 1.5, True),
    ((60.0, 39.5), (100.0,), 0.5, False),
    ((60.0, 50.0), (100.0,), 0.0, False),
    ((0.5, 0.25), (1.0,), 0.25, True),
    # without a sum, a tiny row shows that no row is missing
    ((1999.0, 1.0), (), 0.0, False),
    ((1.0, 1999.0), (), 0.0, False),
    ((1998.0, 1.0), (), 0.0, True),
    ((0.5, 0.00025), (), 0.0, False),
    ((60.0, 40.0), (), 0.0, True),
]


@pytest.mark.parametrize(("times", "sums", "rest", "is_cut"), WHOLE)
def test_what_a_table_leaves_out(times: tuple[float, ...], sums: tuple[float, ...], rest: float, is_cut: bool) -> None:
    rows = [row(f"op{at}{HOST}", time) for at, time in enumerate(times)]
    rows += [row(f"table{f'#{at + 1}' if at else ''}{HOST}", one) for at, one in enumerate(sums)]
    tree = _tree("", rows, HOST)
    assert tree is not None
    assert (tree.wall[:, 0].tolist(), tree.is_cut) == ([rest, *times], is_cut)
    of_device = [*NSYS, row(f"table{DEVICE}", 100.0)]
    assert shown(_tree("", of_device, DEVICE))[0] == STEP  # a sum without a table of operators says nothing


def test_names_with_several_rows_may_have_more_below_the_last_row() -> None:
    rows = [row("a" + HOST, 2.0), row("mm" + HOST, 5.0), row("mm#2" + HOST, 4.0), row("add" + HOST, 3.0)]
    for whole, error in ((20.0, [0.0, 0.0, 2.0, 0.0]), (14.0, [0.0] * 4)):
        tree = _tree("", [*rows, row("table" + HOST, whole)], HOST)
        assert tree is not None
        assert tree.error is not None
        assert tree.error.tolist() == error
    tree = _tree("", [*rows, row("ProfilerStep*" + HOST, 1.0, 4), row("table" + HOST, 20.0)], HOST)
    assert tree is not None
    assert tree.error is not None
    assert tree.error.tolist() == [0.0, 0.0, 0.5, 0.0]


STEPS: list[tuple[list[Series], float | None]] = [
    ([row("ProfilerStep*" + HOST, 9.0, 4)], 4.0),
    ([row("step.time", 9.0, 5)], 5.0),
    ([Series(Key("step.time"), "s", "samples", np.ones(6))], 6.0),
    ([row("range.:train_step", 9.0, 7)], 7.0),
    ([row("range.torch:iteration", 9.0, 8)], 8.0),
    ([row("range.step", 9.0, 0.5)], 1.0),
    ([row("range.step", 9.0, 1)], 1.0),
    ([row("range.step", 9.0, 7), row("step.time", 9.0, 5)], 5.0),
    ([row("range.step", 9.0, 7, "1"), row("range.step:forward", 9.0, 7), row("kernel.step", 9.0, 7)], None),
    ([row("batch", 9.0, 7), row("ProfilerStep*.cpu_time", 9.0, 4)], None),
]


@pytest.mark.parametrize(("rows", "steps"), STEPS)
def test_the_number_of_steps(rows: list[Series], steps: float | None) -> None:
    assert _steps(rows) == steps
    tree = _tree("", [*rows, row("kernel.mm", 40.0, 280), row("kernel.add", 20.0, 560)], DEVICE)
    assert tree is not None
    assert tree.has_steps is (steps is not None)
    by = steps or 1.0
    assert tree.wall[:, 0].tolist()[-2:] == [40.0 / by, 20.0 / by]
    assert tree.counts[:, 0].tolist()[-2:] == [280 / by, 560 / by]
    assert tree.counts[0, 0] == 1.0


def test_the_time_of_the_step_itself_is_per_step() -> None:
    rows = [row("mm" + HOST, 60.0, 20), row("add" + HOST, 20.0, 10), row("ProfilerStep*" + HOST, 1.0, 10)]
    tree = _tree("", [*rows, row("table" + HOST, 100.0)], HOST)
    assert shown(tree) == [("step", "step", 2.0, 1.0), ("mm", "operator", 6.0, 2.0), ("add", "operator", 2.0, 1.0)]


def test_a_tree_of_each_rank() -> None:
    """Labels of members, actions and stages are rows of one program; others are other programs."""
    rows = [row(f"kernel.{name}", 1.0, rank=rank) for rank in ("1", "0") for name in ("mm", "add")]
    rows += [row("kernel.mm", 2.0, rank="1", device="0", action="fit", stage="fit"), row("kernel.cat", 1.0, rank="2")]
    rows += [row("kernel.mm", 4.0, rank="1", shape="8"), row("kernel.mm", 1.0), row("kernel.add", 1.0)]
    found = _trees(Run("x", "test", tuple(rows)), DEVICE)
    assert [(tree.rank, tree.wall[1:, 0].tolist()) for tree in found] == [
        ("", [1.0, 1.0]),
        ("0", [1.0, 1.0]),
        ("1", [3.0, 1.0]),
    ]
    for label in ("device", "action", "stage"):
        labels: Any = {label: "0"}
        pair = (row("kernel.mm", 1.0, **labels), row("kernel.add", 1.0, **labels))
        assert len(_trees(Run("x", "test", pair), DEVICE)) == 1


@pytest.mark.parametrize(("other", "expected"), [("fit", [3.0, 4.0]), ("validate", [11.0, 4.0])])
def test_only_the_training_counts_if_the_run_has_it(other: str, expected: list[float]) -> None:
    of_stages = (row("kernel.mm", 2.0, stage=other), row("kernel.mm", 8.0, stage="test"))
    rows = (row("kernel.mm", 1.0), *of_stages, row("kernel.add", 4.0))
    (tree,) = _trees(Run("x", "test", rows), DEVICE)
    assert tree.wall[1:, 0].tolist() == expected
