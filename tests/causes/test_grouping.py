"""Which findings have one cause, what the joined finding says, and which nodes wait because of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from made_alignments import Row, aligned

from perfgate.causes import grouping
from perfgate.causes.align import Alignment, Finding
from perfgate.causes.grouping import grouped, waiting_nodes
from perfgate.causes.noise import Noise
from perfgate.core.causes import CauseKind

#: Times in ms; the rows are nodes 1, 2, ...
PROGRAM = aligned(
    [
        Row("forward", "range", 0),  # 1
        Row("aten::linear", "operator", 1),
        Row("gemm", "kernel", 2),
        Row("aten::_softmax", "operator", 1),  # 4
        Row("softmax_kernel", "kernel", 4),
        Row("backward", "range", 0),  # 6
        Row("SoftmaxBackward0", "operator", 6),
        Row("softmax_kernel", "kernel", 7),
        Row("autograd::engine::evaluate_function: LinearBackward0", "operator", 6),  # 9
        Row("aten::linear", "operator", 9),
        Row("gemm", "kernel", 10),
        Row("aten::add_", "operator", 0),  # 12
        Row("add_kernel", "kernel", 12),
        Row("cudaStreamSynchronize", "runtime", 0),  # 14
        Row("loader", "loader", 0),
        Row("aten::cat", "operator", 15),  # 16
        Row("optimizer", "range", 0),
        Row("optimizer", "range", 6),  # 18
        Row("cat_kernel", "kernel", 16),
        Row("aten::gelu", "operator", 0),  # 20
        Row("gelu_kernel", "kernel", 20),
        Row("gemm", "kernel", 17),  # 22
    ]
)


def finding(lead: int, change: float = 0.002, kind: CauseKind = "slower", **more: Any) -> Finding:
    """A finding; its parent is that of its lead, and it is alone in its nodes, unless said otherwise."""
    parents = more.pop("parents", (max(PROGRAM.nodes[lead].parent, 0),))
    return Finding(kind, more.pop("nodes", frozenset({lead})), lead, parents, change=change, **more)


def came(*nodes: int, change: float = 0.002, kind: CauseKind = "appeared", **more: Any) -> Finding:
    return finding(nodes[0], change, kind, come=nodes, **more)


def went(*nodes: int, change: float = -0.002, kind: CauseKind = "vanished", **more: Any) -> Finding:
    return finding(nodes[0], change, kind, gone=nodes, **more)


# --- one cause -------------------------------------------------------------------------------------------------------

BELONGS: list[tuple[str, Finding, Finding, bool]] = [
    ("slow rank", finding(3, kind="slow rank"), finding(11), False),
    ("host", finding(3), finding(11, kind="host"), False),
    ("same name", finding(3), finding(11), True),
    ("same name, opposite change", finding(3), finding(11, -0.002), False),
    ("same name, no change", finding(3, 0.0), finding(11, 0.0), True),
    ("other name", finding(3), finding(8), False),
    ("same range", finding(17), finding(18), False),
    ("other range", finding(1), finding(6), False),
    ("minor", finding(3, 0.001), finding(5), True),
    ("minor, opposite change", finding(3, -0.001), finding(5), False),
    ("not minor", finding(3, 0.0011), finding(5), False),
    ("edits: moved", came(3), went(22), True),
    ("edits: alike", came(3), came(22), True),
    ("edits: forward and backward", came(5), came(11), True),
    ("edits: minor", came(3, change=0.001), came(5), True),
    ("edits: other", came(3), came(5), False),
    ("an edit in slower code", finding(1), came(3), True),
    ("an edit in slower code, larger", came(3), finding(1), True),
    ("an edit with slower code in it", finding(3), went(2, parents=(1,)), False),
    ("a new wait", finding(6), came(14, kind="sync"), True),
    ("a new wait, larger", came(14, kind="sync"), finding(6), True),
    ("an edit: backward of slower", finding(4), came(8), True),
    ("an edit: minor", finding(3, 0.001), came(5), True),
    ("an edit: other", finding(3), came(5), False),
]


@pytest.mark.parametrize(("small", "large", "is_one"), [row[1:] for row in BELONGS], ids=[row[0] for row in BELONGS])
def test_findings_with_one_cause(small: Finding, large: Finding, is_one: bool) -> None:
    assert grouping._belongs(small, large, PROGRAM) is is_one


MOVES: list[tuple[Finding, Finding, bool]] = [
    (came(3), went(11), True),
    (went(3), came(11), True),
    (came(3), came(11), False),
    (came(3), went(8), False),
    (came(3, parents=(2, 1)), went(11, parents=(10, 1)), False),
    (came(3, 5), went(11, 13), True),  # one of two names
    (came(3, 5, 19), went(11, 13, 21), False),  # one of three
]


@pytest.mark.parametrize(("one", "other", "is_move"), MOVES)
def test_calls_that_came_where_they_did_not_go(one: Finding, other: Finding, is_move: bool) -> None:
    assert grouping._is_move(one, other, PROGRAM) is is_move


ALIKE: list[tuple[Finding, Finding, bool]] = [
    (came(3), came(11), True),
    (went(3), went(11), True),
    (came(3), went(11), False),
    (came(3), came(11, kind="more calls"), False),
    (came(3), came(8), False),
    (came(3, 5), came(11, 13), True),
    (came(3, 5, 19), came(11, 13, 21), False),
]


@pytest.mark.parametrize(("one", "other", "is_alike"), ALIKE)
def test_the_same_calls_at_two_places(one: Finding, other: Finding, is_alike: bool) -> None:
    assert grouping._is_alike(one, other, PROGRAM) is is_alike


@pytest.mark.parametrize(
    ("some", "others", "share"),
    [((), (3,), 0.0), ((3,), (11,), 1.0), ((3,), (11, 5), 1.0), ((3, 5), (8, 13, 21), 0.5), ((3, 11), (3,), 1.0)],
)
def test_the_names_that_two_places_share(some: tuple[int, ...], others: tuple[int, ...], share: float) -> None:
    assert grouping._overlap(some, others, PROGRAM) == share
    assert grouping._overlap(others, some, PROGRAM) == share


MINOR: list[tuple[Finding, Finding, bool]] = [
    (finding(3, 0.001), finding(5), True),  # in one range
    (finding(3, -0.001), finding(5), True),
    (finding(3, 0.00101), finding(5), False),
    (finding(3, 0.001), finding(8), False),  # in another one
    (finding(3, 0.001), finding(13), False),
    (finding(8, 0.001), finding(11), True),
    (finding(16, 0.001), finding(19), True),  # in one loader
    (finding(13, 0.001), finding(12, parents=(12,)), True),  # below one node
    (finding(12, 0.001), finding(20), False),  # below the step
    (finding(13, 0.001), finding(21), False),  # in no range
]


@pytest.mark.parametrize(("small", "large", "is_minor"), MINOR)
def test_a_much_smaller_finding_in_the_same_range_follows(small: Finding, large: Finding, is_minor: bool) -> None:
    assert grouping._is_minor(small, large, PROGRAM) is is_minor


def test_the_range_around_a_node() -> None:
    found = {node: grouping._range_around(node, PROGRAM) for node in (0, 1, 3, 11, 13, 15, 19, 18)}
    assert found == {0: 0, 1: 1, 3: 1, 11: 6, 13: 0, 15: 15, 19: 15, 18: 18}


@pytest.mark.parametrize(
    ("lead", "parents", "surrounds"),
    [(1, (2,), True), (2, (2,), True), (1, (10, 2), True), (3, (2,), False), (6, (2,), False)],
)
def test_slower_code_around_the_calls_that_changed(lead: int, parents: tuple[int, ...], surrounds: bool) -> None:
    assert grouping._surrounds(finding(lead), came(3, parents=parents), PROGRAM) is surrounds


WAITS: list[tuple[Finding, Finding, bool]] = [
    (finding(1), came(14, kind="sync"), True),
    (finding(2), came(14, kind="sync"), True),
    (finding(14), came(14, kind="sync"), True),
    (finding(0), came(14, kind="sync"), True),
    (finding(3), came(14, kind="sync"), False),
    (finding(15), came(14, kind="sync"), False),
    (finding(1, -0.002), came(14, kind="sync"), False),
    (finding(1, 0.0), came(14, kind="sync"), False),
    (finding(1), came(14), False),
]


@pytest.mark.parametrize(("timing", "edit", "waits"), WAITS)
def test_a_new_wait_makes_the_host_slower(timing: Finding, edit: Finding, waits: bool) -> None:
    assert grouping._is_waiting(timing, edit, PROGRAM) is waits


BACKWARD: list[tuple[Finding, Finding, bool]] = [
    (came(5), came(8), True),
    (came(8), went(5), True),
    (came(5), came(11), True),  # edits need not be of one operator
    (came(3), came(5), False),  # both are forward
    (came(8), came(11), False),  # both are backward
    (finding(4), finding(7), True),
    (finding(5), finding(8), True),
    (finding(4), finding(7, -0.002), False),
    (finding(4, 0.0), finding(7, 0.0), False),
    (finding(4), finding(9), False),
    (finding(2), finding(9), True),
    (finding(4), came(8), True),
    (finding(2), came(8), False),
    (finding(12), finding(7, -0.002), False),
]


@pytest.mark.parametrize(("one", "other", "is_backward"), BACKWARD)
def test_the_backward_pass_of_an_operator(one: Finding, other: Finding, is_backward: bool) -> None:
    assert grouping._is_backward_of(one, other, PROGRAM) is is_backward


def test_the_operators_of_a_finding_have_the_names_of_autograd() -> None:
    assert grouping._shown(came(5, gone=(13,)), PROGRAM) == {1, 4, 5, 12, 13}
    found = [grouping._operators(one, PROGRAM) for one in (finding(5), finding(8), finding(9), came(3, gone=(13,)))]
    assert found == [{"softmax"}, {"softmax"}, {"linear"}, {"linear", "add"}]


# --- joined findings -------------------------------------------------------------------------------------------------


def timed(**changes: float) -> tuple[Alignment, Noise]:
    """The program with changes of the nodes `n3=...`, and its noise, which is only that of runs: 10 %."""
    rows = [Row(node.name, node.kind, node.parent, 1.0, 1.0) for node in PROGRAM.nodes[1:]]
    for name, change in changes.items():
        at = int(name[1:]) - 1
        rows[at] = Row(rows[at].name, rows[at].kind, rows[at].parent, 1.0, 1.0 + change)
    found = aligned(rows)
    return found, Noise(found, np.full(len(found.nodes), 0.1), np.zeros(len(found.nodes)))


def test_the_larger_finding_takes_in_the_smaller_ones() -> None:
    alignment, noise = timed(n3=2.0, n11=3.0, n8=1.0, n13=1.0)
    found = grouped([finding(13, 1.0), finding(3, 2.0), finding(8, -1.5), finding(11, 3.0)], alignment, noise)
    assert [(one.lead, {*one.nodes}, one.parents) for one in found] == [
        (11, {3, 11}, (10, 2)),
        (8, {8}, (7,)),
        (13, {13}, (12,)),
    ]
    assert (found[0].change, found[0].error) == noise.change({3, 11})
    assert found[0].change == pytest.approx(5.0)
    assert found[1:] == [finding(8, -1.5), finding(13, 1.0)]


def test_of_equal_findings_the_first_node_leads() -> None:
    alignment, noise = timed(n3=2.0, n11=2.0)
    assert [one.lead for one in grouped([finding(11, 2.0), finding(3, 2.0)], alignment, noise)] == [3]


JOINED: list[tuple[str, Finding, Finding, dict[str, float], tuple[CauseKind, int]]] = [
    # large, small, changes of nodes: the kind and lead of both
    *(
        (kind, went(3, change=-2.0, kind=kind), came(11, change=2.0), {"n3": -0.5, "n11": 0.5}, ("moved", 3))
        for kind in grouping._EDITS
    ),
    ("no edit", went(3, kind="zeroed"), came(11), {}, ("zeroed", 3)),
    ("half is left", went(3, change=-2.0), came(11), {"n3": -0.5, "n11": -0.5}, ("moved", 3)),
    ("more is left", went(3, change=-2.0), came(11), {"n3": -0.5, "n11": -0.51}, ("vanished", 3)),
    ("small, and more is left", went(3, change=-0.5), came(11), {"n11": 0.3}, ("vanished", 3)),
    ("no move", went(3, change=-2.0), went(11), {}, ("vanished", 3)),
    ("an edit in slower code", finding(1, 2.0), came(3), {}, ("appeared", 3)),
    ("a wait", finding(6, 2.0), came(14, kind="sync"), {}, ("sync", 14)),
    ("an edit elsewhere", finding(6, 2.0), came(3), {}, ("slower", 6)),
    ("slower code around an edit", came(3, change=2.0), finding(1), {}, ("appeared", 3)),
    ("slower calls", finding(3, 2.0), finding(11), {}, ("slower", 3)),
    ("slower code in it", finding(3, 2.0), finding(4, parents=(3,)), {}, ("slower", 3)),
]


@pytest.mark.parametrize(
    ("large", "small", "changes", "shown"), [row[1:] for row in JOINED], ids=[row[0] for row in JOINED]
)
def test_the_edit_names_the_cause(
    large: Finding, small: Finding, changes: dict[str, float], shown: tuple[CauseKind, int]
) -> None:
    found = grouping._joined(large, small, *timed(**changes))
    assert (found.kind, found.lead) == shown


def test_a_joined_finding_has_all_of_both() -> None:
    large = went(3, change=-2.0, idle=frozenset({14}))
    small = came(11, idle=frozenset({3}), nodes=frozenset({11, 10}))
    alignment, noise = timed(n3=-0.5)
    found = grouping._joined(large, small, alignment, noise)
    assert ({*found.nodes}, {*found.idle}, found.parents) == ({3, 10, 11}, {3, 14}, (2, 10))
    assert (found.gone, found.come) == ((3,), (11,))
    assert (found.change, found.error) == noise.change({3, 10, 11})


# --- idle devices ----------------------------------------------------------------------------------------------------


def queued(
    host: float = 0.25, calls: Iterable[tuple[float, float]] = ((5.0, 5.0), (5.0, 5.0)), range_kind: Any = "range"
) -> Alignment:
    """A step of 1 ms: `host` is the part in which no device works; two kernels have these calls on both sides."""
    one, other = calls
    rows = [
        Row("forward", range_kind, 0),  # 1
        Row("aten::mm", "operator", 1, host / 1000),
        Row("gemm", "kernel", 2, (1 - host) / 1000, calls=one),
        Row("cudaStreamSynchronize", "runtime", 1),  # 4
        Row("optimizer", "range", 0),
        Row("add_kernel", "kernel", 5, calls=other),  # 6
        Row("cudaDeviceSynchronize", "runtime", 5),
        Row("cudaLaunchKernel", "runtime", 5),  # 8
        Row("cudaStreamSynchronize", "range", 5),
        Row("load", "loader", 1),  # 10
        Row("aten::cat", "operator", 10),
    ]
    return aligned(rows)


def new_wait(kind: CauseKind = "sync", lead: int = 4) -> Finding:
    return Finding(kind, frozenset({lead}), lead, (1,), come=(lead,))


ALL = {0, 1, 2, 4, 5, 7, 8, 9}
AFTER_WAITS: list[tuple[Alignment, Finding, set[int], set[int]]] = [
    (queued(), new_wait(), set(), {1, 2, 4}),
    (queued(), new_wait("allocator"), set(), {1, 2, 4}),
    (queued(), new_wait(), {2, 3}, {1, 4}),
    (queued(0.26), new_wait(), set(), set()),
    (queued(), new_wait(lead=7), set(), {5, 7, 8, 9}),
    (queued(range_kind="thread"), new_wait(), set(), {1, 2, 4}),
    (queued(range_kind="operator"), new_wait(), set(), ALL),
    (queued(), new_wait(lead=0), {5}, ALL - {5}),
    (queued(), new_wait("slower"), set(), set()),
]


@pytest.mark.parametrize(("alignment", "one", "claimed", "waiting"), AFTER_WAITS)
def test_a_device_idles_after_a_new_wait_in_all_of_its_range(
    alignment: Alignment, one: Finding, claimed: set[int], waiting: set[int]
) -> None:
    assert waiting_nodes(one, alignment, claimed) == waiting


SYNCS = {4, 7}
MORE_KERNELS: list[tuple[tuple[tuple[float, float], tuple[float, float]], bool]] = [
    (((5.0, 8.0), (5.0, 5.0)), True),
    (((5.0, 6.0), (5.0, 5.0)), True),  # a tenth more
    (((5.0, 5.9), (5.0, 5.0)), False),
    (((5.0, 5.0), (5.0, 8.0)), False),
    (((5.0, 8.0), (5.0, 8.0)), True),  # half of the new ones
    (((5.0, 8.0), (5.0, 8.1)), False),
    (((5.0, 8.0), (15.0, 5.0)), True),  # others that went do not count
    (((5.0, 2.0), (5.0, 5.0)), False),
    (((0.0, 0.0), (0.0, 0.0)), False),
    (((0.5, 1.0), (0.5, 0.5)), True),
]


@pytest.mark.parametrize(("calls", "waits"), MORE_KERNELS)
def test_a_device_idles_between_many_new_kernels(
    calls: tuple[tuple[float, float], tuple[float, float]], waits: bool
) -> None:
    more = Finding("more calls", frozenset({2, 3}), 2, (1,), come=(3,))
    assert waiting_nodes(more, queued(calls=calls), set()) == (SYNCS if waits else set())
    assert waiting_nodes(more, queued(calls=calls), {7}) == ({4} if waits else set())
