"""Which calls came or went, and what kind of change that is; a device as a whole."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import pytest
from made_alignments import Row, Steps, aligned

from perfgate.causes.align import Finding
from perfgate.causes.kinds import Edit, find_edits, find_machine, kind_of, many_swaps
from perfgate.causes.noise import Noise
from perfgate.core.call_trees import NodeKind
from perfgate.core.causes import CauseKind


def called(*sides: Steps, parent: int = 0) -> Row:
    return Row(f"{parent} {sides}", "operator", parent, calls=(sides[0], sides[1]))


EDITS: list[tuple[list[Row], Sequence[int], list[Edit]]] = [
    # nodes, those that are claimed, the edits
    ([called(1, 2), called(2, 1), called(3, 3)], (), [Edit(0, (2,), (1,))]),
    ([called(1, 1.5), called(0, 0.5)], (), [Edit(0, (), (1, 2))]),
    ([called(1, 0.5), called(0.5, 0)], (), [Edit(0, (1, 2), ())]),
    ([called(1, 1), called(1, 2)], [2], []),
    ([called(1, 1), called(1, 2, parent=1)], [1], []),
    # below nodes that are called as often, the nearest to the step first
    ([called(1, 1), called(1, 0, parent=1), called(1, 2)], (), [Edit(0, (), (3,)), Edit(1, (2,), ())]),
    ([called(1, 2), called(1, 2, parent=1)], (), [Edit(0, (), (1,))]),
    # by more than 4 standard errors, which is 1 in the base
    ([called([0, 2], 5)], (), []),
    ([called([0, 2], 5.25)], (), [Edit(0, (), (1,))]),
    ([called(5, [0, 2])], (), []),
    ([called(5.25, [0, 2]), called(1, 2, parent=1)], (), [Edit(0, (1,), ())]),
    ([called(5, [0, 2]), called(1, 2, parent=1)], (), [Edit(1, (), (2,))]),
    ([called([0, 2], 0.5)], (), []),
]


@pytest.mark.parametrize(("rows", "claimed", "edits"), EDITS)
def test_edits_are_found_from_the_step_down(rows: list[Row], claimed: Sequence[int], edits: list[Edit]) -> None:
    assert find_edits(aligned(rows, (0, 0), (0, 0)), claimed) == edits


def test_the_nodes_of_an_edit() -> None:
    assert Edit(0, (3, 1), (2,)).nodes == (3, 1, 2)


def changed(calls: tuple[Steps, Steps], busy: tuple[Steps, Steps], name: str = "aten::mm") -> Row:
    return Row(name, "operator", 0, calls=calls, busy=busy)


def came(name: str, *below: str, calls: float = 1, more: float = 0.002) -> list[Row]:
    """A call that came, and calls below it that came as often."""
    row = changed((0, calls), (0, more), name)
    return [row, *(Row(other, "runtime", 1, calls=(0, calls)) for other in below)]


KINDS: list[tuple[list[Row], CauseKind]] = [
    ([changed((0, 1), (0, 0.002))], "appeared"),
    ([changed((1, 2), (0.001, 0.002))], "more calls"),
    ([changed((1, 0), (0.002, 0))], "vanished"),
    ([changed((2, 1), (0.002, 0.001))], "fewer calls"),
    # more calls that are shorter, fewer that are longer, and calls that take no time
    ([changed((1, 2), (0.002, 0.001))], "more calls"),
    ([changed((2, 1), (0.001, 0.002))], "fewer calls"),
    ([changed((0, 1), (0, 0))], "appeared"),
    ([changed((1, 0), (0, 0))], "vanished"),
    ([changed((1, 0), (0, 0)), changed((0, 1), (0, 0))], "replaced"),
    # calls of one step of two are calls, too
    ([changed(([0, 1], 2), (0.001, 0.002))], "more calls"),
    ([changed((2, [0, 1]), (0.002, 0.001))], "fewer calls"),
    # what has half of the time
    ([changed((0, 1), (0, 0.002)), changed((1, 2), (0.001, 0.0025))], "appeared"),
    ([changed((0, 1), (0, 0.002)), changed((1, 2), (0, 0.002))], "more calls"),
    ([changed((0, 1), (0, 0.002)), changed((1, 2), (0, 0.003))], "more calls"),
    ([changed((0, 1), (0, 0.002)), changed((1, 2), (0.009, 0.001))], "appeared"),
    ([changed((1, 0), (0.002, 0)), changed((2, 1), (0.0025, 0.001))], "vanished"),
    ([changed((1, 0), (0.002, 0)), changed((2, 1), (0.002, 0))], "fewer calls"),
    ([changed((1, 0), (0.002, 0)), changed((2, 1), (0.003, 0))], "fewer calls"),
    ([changed((1, 0), (0.002, 0)), changed((2, 1), (0.001, 0.009))], "vanished"),
    # calls on both sides, from 5 % of the time of the others on
    ([changed((1, 0), (1, 0)), changed((0, 1), (0, 0.05))], "replaced"),
    ([changed((1, 0), (1, 0)), changed((0, 1), (0, 0.049))], "vanished"),
    ([changed((1, 0), (0.05, 0)), changed((0, 1), (0, 1))], "replaced"),
    ([changed((1, 0), (0.049, 0)), changed((0, 1), (0, 1))], "appeared"),
    ([changed((1, 0), (0.002, 0)), changed((0, 1), (0, 0.003))], "replaced"),
    # waits for the device, by a call of the runtime
    (came("aten::copy_", "cudaStreamSynchronize"), "sync"),
    (came("aten::copy_", "cudaStreamSynchronize", calls=0.5), "sync"),
    (came("aten::copy_", "cudaMemcpyAsync", "cudaStreamSynchronize"), "sync"),
    (came("aten::copy_", "cudaMemcpyAsync"), "appeared"),
    (came("aten::copy_", "cudaStreamSynchronize", more=0.0), "sync"),
    ([*came("aten::copy_"), Row("cudaStreamSynchronize", "runtime", 1)], "appeared"),
    ([*came("aten::item"), changed((1, 0), (0.002, 0))], "replaced"),
    ([*came("aten::item"), changed((1, 0), (9, 0))], "vanished"),
    ([*came("aten::item"), changed((1, 0), (1e-5, 0))], "sync"),
    # most calls read one number, and views do not count
    (came("aten::item", calls=0.5), "sync"),
    ([*came("aten::item"), *came("aten::mul")], "sync"),
    ([*came("aten::item"), *came("aten::mul"), *came("aten::select", calls=8)], "sync"),
    ([*came("aten::item"), *came("aten::mul", calls=2)], "appeared"),
    ([*came("aten::is_nonzero", calls=2), *came("aten::mul", calls=3)], "appeared"),
    (came("aten::select"), "appeared"),
]


@pytest.mark.parametrize(("rows", "kind"), KINDS)
def test_the_kind_of_an_edit(rows: list[Row], kind: CauseKind) -> None:
    alignment = aligned(rows, (0, 0), (0, 0))
    more = alignment.more_calls
    tops = [node for node in range(1, len(more)) if alignment.nodes[node].parent == 0]
    edit = Edit(0, tuple(node for node in tops if more[node] < 0), tuple(node for node in tops if more[node] > 0))
    assert kind_of(edit, alignment) == kind


# --- a device as a whole ---------------------------------------------------------------------------------------------

JOB = [
    Row("aten::mm", "operator", 0, 9.0, 9.0),
    Row("gemm", "kernel", 1, 3.0, 6.0),
    Row("gemm", "kernel", 0, 5.0, 10.0),
    Row("Memcpy", "copy", 1, 1.0, 2.0),
    Row("ncclDevKernel", "communication", 0, 7.0, 7.0),
]
#: A device that takes half as long again.
HALF = math.log(1.5)
MACHINES: list[tuple[float, float, bool, bool]] = [
    # the common change, the scatter of kernels, if the device is another one, if there is a finding
    (HALF, 0.0, False, True),
    (-HALF, 0.0, False, True),
    (math.log(1.035), 0.0, False, True),
    (math.log(1.029), 0.0, False, False),
    (math.log(0.971), 0.0, False, False),
    (HALF, math.expm1(HALF) / 4, False, True),
    (HALF, math.expm1(HALF) / 3.9, False, False),
    (0.0, 0.5, True, True),
]


@pytest.mark.parametrize(("shift", "scatter", "other_device", "found"), MACHINES)
def test_a_common_change_of_all_kernels_is_clear(shift: float, scatter: float, other_device: bool, found: bool) -> None:
    noise = Noise(aligned(JOB), np.full(6, scatter), np.full(6, shift))
    assert (find_machine(noise.alignment, noise, set(), other_device=other_device) is not None) is found


WHOLES: list[tuple[set[int], set[int], int, int]] = [
    # the claimed nodes; the nodes of the finding, the one with the most time, and its parent
    (set(), {2, 3, 4}, 3, 0),
    ({3}, {2, 4}, 2, 1),
    ({2, 3}, {4}, 4, 1),
]


@pytest.mark.parametrize(("claimed", "nodes", "lead", "parent"), WHOLES)
def test_the_finding_of_a_device_has_its_kernels_and_copies(
    claimed: set[int], nodes: set[int], lead: int, parent: int
) -> None:
    alignment = aligned(JOB)
    noise = Noise(alignment, np.full(6, 0.01), np.full(6, HALF))
    change, error = noise.change(nodes)
    expected = Finding("machine", frozenset(nodes), lead, (parent,), change=change, error=error)
    assert find_machine(alignment, noise, claimed, other_device=False) == expected


def test_without_kernels_there_is_no_finding_of_a_device() -> None:
    alignment = aligned(JOB)
    noise = Noise(alignment, np.full(6, 0.01), np.full(6, HALF))
    assert find_machine(alignment, noise, {2, 3, 4}, other_device=True) is None


#: The kinds of the calls that went and of those that came.
Kinds: TypeAlias = tuple[Sequence[NodeKind], Sequence[NodeKind]]


def swaps_of(kinds: Sequence[Kinds], same: tuple[float, float], parents: Sequence[NodeKind]) -> list[int]:
    """The places of the findings that count. Each call takes 10 s, and a kernel of both sides the times `same`."""
    rows, findings = [Row("same", "kernel", 0, busy=same)], []
    for at, (gone, come) in enumerate(kinds):
        above = tuple(range(len(rows) + 1, len(rows) + 1 + len(parents)))
        rows += [Row(f"op {at} {kind}", kind, 0) for kind in parents]
        first = len(rows) + 1
        rows += [Row("old", kind, above[0], calls=(1, 0), busy=(10, 0)) for kind in gone]
        rows += [Row("new", kind, above[0], calls=(0, 1), busy=(0, 10)) for kind in come]
        nodes = tuple(range(first, len(rows) + 1))
        changed = (nodes[: len(gone)], nodes[len(gone) :])
        findings.append(Finding("replaced", frozenset(nodes), nodes[0], above, *changed))
    found = many_swaps(findings, aligned(rows))
    return [findings.index(one) for one in found]


ONE: Kinds = (["kernel"], ["kernel"])
FOUR = [ONE] * 4
LAUNCHED: Kinds = (["kernel", "runtime"], ["kernel", "runtime"])
EACH: list[NodeKind] = ["kernel", "communication", "copy", "runtime"]
ALL: Kinds = (EACH, EACH)
OPERATOR: list[NodeKind] = ["operator"]
SWAPS: list[tuple[list[Kinds], tuple[float, float], list[NodeKind], list[int]]] = [
    (FOUR, (1, 1), OPERATOR, [0, 1, 2, 3]),
    (FOUR[:3], (1, 1), OPERATOR, []),
    # more than half of the time of the device, on both sides
    (FOUR, (39, 39), OPERATOR, [0, 1, 2, 3]),
    (FOUR, (40, 0), OPERATOR, []),
    (FOUR, (0, 40), OPERATOR, []),
    ([LAUNCHED] * 4, (40, 40), OPERATOR, []),
    # operators that run other kernels
    ([*FOUR, ALL], (1, 1), OPERATOR, [0, 1, 2, 3, 4]),
    ([(["communication"], ["communication"]), *FOUR], (1, 1), OPERATOR, [0, 1, 2, 3, 4]),
    ([(["runtime"], ["runtime"]), *FOUR], (1, 1), OPERATOR, [1, 2, 3, 4]),
    ([(["kernel"], ["runtime"]), *FOUR], (1, 1), OPERATOR, [1, 2, 3, 4]),
    ([(["kernel"], []), *FOUR], (1, 1), OPERATOR, [1, 2, 3, 4]),
    ([([], ["kernel"]), *FOUR], (1, 1), OPERATOR, [1, 2, 3, 4]),
    ([(["kernel", "operator"], ["kernel"]), *FOUR], (1, 1), OPERATOR, [1, 2, 3, 4]),
    (FOUR, (1, 1), ["operator", "range"], []),
]


@pytest.mark.parametrize(("kinds", "same", "parents", "found"), SWAPS)
def test_many_operators_run_other_kernels(
    kinds: list[Kinds], same: tuple[float, float], parents: list[NodeKind], found: list[int]
) -> None:
    assert swaps_of(kinds, same, parents) == found
