"""The change of each metric by the nodes it is made of, and the cause that a change belongs to: by hand."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
import pytest
from made_alignments import Row, aligned
from msgspec.structs import replace
from test_consequences import limit, verdict

from perfgate.causes.align import Finding
from perfgate.causes.consequences import Explanation, _agrees, _MetricChange, _relative
from perfgate.core import Verdict
from perfgate.core.call_trees import NodeKind
from perfgate.core.causes import Cause, CauseKind

#: A program with a device: the times, calls and durations of each node change by other numbers.
ROWS = [
    # 0: the step
    Row("forward", "range", 0, 10, 11, (9, 7), (60, 80)),
    Row("aten::mm", "operator", 1, 20, 18, (4, 11), (30, 44)),
    Row("cudaLaunchKernel", "runtime", 2, 30, 34, (1, 6), (5, 6)),
    Row("gemm", "kernel", 2, 40, 48, (3, 5), (50, 70)),
    Row("c10d::all_reduce", "collective", 1, 50, 34, (2, 15), (12, 14)),
    Row("rccl_All_Reduce", "communication", 5, 60, 92, (1, 18), (20, 31)),
    Row("next", "loader", 0, 70, 134, (1, 20), (9, 17)),
    Row("Memcpy", "copy", 1, 80, 208, (1, 24), (8, 3)),
    Row("cudaDeviceSynchronize", "runtime", 0, 90, 346, (30, 1), (11, 4)),
    Row("worker", "thread", 0, 100, 612, (1, 33), (7, 12)),
    Row("cudaMalloc", "runtime", 2, 110, 1134, (1, 37), (3, 9)),
    Row("callback", "range", 4, 120, 2168, (1, 40), (2, 8)),
    Row("hook", "range", 6, 130, 4226, (1, 50), (1, 3)),
    Row("softmax", "kernel", 2),
]
#: By node: the durations less those of the host's calls inside, on both sides; those of the step are in no metric.
OWN_BASE = [0, 18, 22, 5, 48, 12, 19, 9, 8, 11, 7, 3, 2, 1, 0]
OWN_NEW = [0, 22, 29, 6, 62, 14, 28, 17, 3, 4, 12, 9, 8, 3, 0]


def explanation(
    rows: Iterable[Row] = ROWS,
    nodes: Sequence[Collection[int]] = (),
    kinds: Sequence[CauseKind] = (),
    idle: Sequence[Collection[int]] = (),
    parts: Mapping[str, Collection[str]] | None = None,
    host: float = 0.0,
) -> Explanation:
    """Causes with these nodes; a cause of the kind `memory` has memory for its metric."""
    names = kinds or ["slower"] * len(nodes)
    causes = [Cause(kind, (), "memory" if kind == "memory" else "time", 0, 0, 0, None) for kind in names]
    alignment = aligned(list(rows))
    for side, time in zip(alignment.sides, (3.0, 7.0), strict=True):
        side.wall[0] = time
    of_causes = zip(nodes, idle or [()] * len(nodes), strict=True)
    findings = [Finding("slower", frozenset(own), 0, (), idle=frozenset(idling)) for own, idling in of_causes]
    return Explanation(alignment, causes, findings, parts or {}, host)


WALL, OWN, CALLS = "the times", "the own durations", "the calls"
METRICS: list[tuple[str, str, set[int]]] = [
    ("step.time", WALL, {*range(15)}),
    ("step.kernel", WALL, {4}),
    ("step.communication", WALL, {5, 6}),
    ("step.memcpy", WALL, {8}),
    ("step.memset", WALL, {8}),
    ("step.runtime", WALL, {3, 9, 11}),
    ("step.dataloader", WALL, {7}),
    ("step.cpu_exec", WALL, {2}),
    ("step.other", WALL, {0, 1, 10, 12, 13}),
    ("comm.exposed", WALL, {5, 6}),
    ("comm.time", OWN, {5, 6}),
    ("gpu.idle", WALL, {*range(15)} - {4, 6, 8, 14}),
    ("gpu.idle.host_wait", WALL, {*range(15)} - {4, 6, 8, 14}),
    ("work.device_time", OWN, {4, 6, 8}),
    ("work.syncs", CALLS, {9}),
    ("work.allocations", CALLS, {11}),
    ("work.launches", CALLS, {3}),
    ("work.ops", CALLS, {2}),
    ("work.copies", CALLS, {8}),
    ("work.collectives", CALLS, {5, 6}),
    ("work.collective_bytes", CALLS, {5, 6}),
    ("work.kernels", CALLS, {3, 4, 8, 9, 11}),
    ("work", CALLS, {3, 4, 8, 9, 11}),
    ("kernel.gemm", OWN, {4}),  # what the host calls from it is not part of it
    ("kernel.rccl_All_Reduce", OWN, {6}),
    ("op.aten::mm", OWN, {2, 3, 11}),
    ("op.c10d::all_reduce", OWN, {5}),
    ("op.next", OWN, {7}),
    ("range.forward", OWN, {1, 2, 3, 5, 11}),
    ("range.c10d::all_reduce", OWN, {5}),
    ("range.next", OWN, {7}),
    ("range.:forward", OWN, {1, 2, 3, 5, 11}),
    ("range.train:next", OWN, {7}),
    ("collective.all_reduce", OWN, {6}),
    ("collective.allreduce.bf16", OWN, {6}),
    ("forward", OWN, {1, 2, 3, 5, 11}),
    ("forward.max", OWN, {1, 2, 3, 5, 11}),
    ("forward_microstep", OWN, {1, 2, 3, 5, 11}),
]
ABSENT = [
    *("step", "step.unknown", "comm", "gpu", "collective.broadcast", "kernel.tanh", "op.gemm", "range.aten::mm"),
    *("kernel.train:gemm", "op.:next"),
]


@pytest.mark.parametrize(("metric", "values", "nodes"), METRICS)
def test_the_nodes_of_a_metric(metric: str, values: str, nodes: set[int]) -> None:
    found = explanation()
    tree = found.alignment
    base, new = {
        WALL: (tree.base.times, tree.new.times),
        OWN: (np.array(OWN_BASE), np.array(OWN_NEW)),
        CALLS: (tree.base.calls, tree.new.calls),
    }[values]
    change, own = found._change(metric), sorted(nodes)
    assert change is not None
    assert change.by_node.tolist() == [new[at] - base[at] if at in nodes else 0 for at in range(15)]
    assert change.relative == (None if values == CALLS else pytest.approx(new[own].sum() / base[own].sum() - 1))
    assert (change.is_absent, change.has_sign) == (False, values != CALLS)


@pytest.mark.parametrize("metric", ABSENT)
def test_a_metric_without_a_node_has_no_change(metric: str) -> None:
    assert explanation()._change(metric) is None


def test_calls_of_operators_stand_for_other_calls_if_none_of_these_changed() -> None:
    same = [row if row.kind == "operator" else Row(row.name, row.kind, row.parent) for row in ROWS]
    change = explanation(same)._change("work.kernels")
    assert change is not None
    assert np.flatnonzero(change.by_node).tolist() == [2]


@pytest.mark.parametrize("metric", ["step.kernel", "comm.exposed", "kernel.gemm", "gpu.occupancy"])
def test_a_metric_that_only_one_side_has(metric: str) -> None:
    kind: NodeKind = "communication" if metric == "comm.exposed" else "kernel"
    for base, new in ((0.0, 0.5), (0.5, 0.0)):
        change = explanation([Row("gemm", kind, 0, base, new)])._change(metric)
        assert change is not None
        found = (change.by_node.tolist(), change.relative, change.is_absent)
        if metric == "gpu.occupancy":
            assert found == ([0, 1], None, False)
        else:
            assert found == ([0, new - base], -1 if base else None, metric == "kernel.gemm")


@pytest.mark.parametrize("device", ["kernel", "copy", "runtime", "operator"])
def test_communication_is_a_time_of_the_host_in_a_tree_without_a_device(device: NodeKind) -> None:
    rows = [
        Row("backward", "operator", 0, busy=(50, 90)),
        Row("allreduce", "communication", 1, busy=(20, 31)),
        Row("other", device, 0, busy=(1, 1)),
    ]
    change = explanation(rows)._change("op.backward")
    assert change is not None
    assert change.by_node.tolist() == ([0, 29, 11, 0] if device == "operator" else [0, 40, 0, 0])


@pytest.mark.parametrize("metric", ["gpu.utilization", "gpu.sm_efficiency"])
def test_the_share_of_kernels_in_the_step(metric: str) -> None:
    rows = [
        Row("gemm", "kernel", 0, 0.002, 0.003),
        Row("ncclAllReduce", "communication", 0, 0.001, 0.002),
        Row("mm", "operator", 0, 0.005, 0.003),
    ]
    found = explanation(rows)
    for side in found.alignment.sides:
        side.wall[0] = 0.0
    change = found._change(metric)  # 3/8 of the step, then 5/8
    assert change is not None
    assert change.by_node == pytest.approx([0, 0.001 * 5 / 8, 0.001 * 5 / 8, 0.002 * 3 / 8])
    assert change.relative == pytest.approx(2 / 3)
    assert (change.is_absent, change.has_sign) == (False, True)


def test_a_mean_over_kernels_moves_with_their_weights() -> None:
    rows = [
        Row("gemm", "kernel", 0, busy=(0.002, 0.002)),
        Row("ncclAllReduce", "communication", 0, busy=(0.001, 0.006)),
        Row("softmax", "kernel", 0),
        Row("mm", "operator", 0, busy=(0.005, 0.003)),
    ]
    change = explanation(rows)._change("gpu.occupancy")  # 2/3 and 1/3, then 1/4 and 3/4
    assert change is not None
    assert change.by_node == pytest.approx([0, 5 / 12, 5 / 12, 0, 0])
    assert (change.relative, change.has_sign) == (None, False)
    assert explanation([Row("gemm", "kernel", 0, busy=(2, 3))])._change("gpu.occupancy") is None


def test_a_relative_change() -> None:
    assert [_relative(0.5, 2.0), _relative(2.0, 1.0), _relative(0.0, 1.0)] == [3.0, -0.5, None]


# --- does the tree change as the verdict says? -----------------------------------------------------------------------


def change(*by_node: float, relative: float | None = None, **more: bool) -> _MetricChange:
    return _MetricChange(np.array(by_node), relative, **more)


AGREE: list[tuple[Verdict, _MetricChange, bool]] = [
    (verdict("x", None, "measured-less"), change(1, -2), True),
    (verdict("x", None, "measured-less"), change(2, -2), False),
    (verdict("x", None, "measured-less"), change(0.5), False),
    (verdict("x", None, "metric-absent"), change(1, is_absent=True), True),
    (verdict("x", None, "no-baseline"), change(1, is_absent=True), True),
    (verdict("x", None, "no-baseline"), change(1), False),
    (verdict("x", None, "not-a-number"), change(1, is_absent=True), False),
    (verdict("x", 0.1), change(1, -0.5), True),
    (verdict("x", 0.1), change(1, -1), False),
    (verdict("x", 0.1), change(-1), False),
    (verdict("x", -0.1), change(-1), True),
    (verdict("x", -0.1), change(-1, has_sign=False), True),
    (verdict("x", 0.1), change(-1, has_sign=False), True),
    (verdict("x", None, outcome="fail"), change(1, relative=0.5), False),
    (replace(limit("x", 3, 2.5), new=None), change(1, relative=0.5), False),
    (replace(limit("x", 3, 2.5), bound=None), change(1, relative=0.5), False),
    (replace(limit("x", 3, 2.5), kind="change"), change(1, relative=0.5), False),
    (limit("x", 3, 2.5), change(1, relative=0.5), True),
    (limit("x", 3, 2.0), change(1, relative=0.5), False),
    (limit("x", 3, 2.0, "at most"), change(1, relative=0.5), True),
    (limit("x", 3, 1.9, "at most"), change(1, relative=0.5), False),
    (limit("x", 3, 4.0, "over"), change(-1, relative=-0.5), True),
    (limit("x", 3, 6.0, "over"), change(-1, relative=-0.5), False),
    (limit("x", 3, 6.0, "at least"), change(-1, relative=-0.5), True),
    (limit("x", 3, 6.1, "at least"), change(-1, relative=-0.5), False),
    (limit("x", 3, 2.0), change(1), True),
    (limit("x", 0, 2.0), change(-1, relative=-1.0), False),
]


@pytest.mark.parametrize(("one", "seen", "agrees"), AGREE)
def test_the_tree_changes_as_the_verdict_says(one: Verdict, seen: _MetricChange, agrees: bool) -> None:
    assert _agrees(one, seen, is_derived=False) is agrees
    if one.outcome == "fail":
        assert _agrees(one, seen, is_derived=True)


# --- the cause of a change -------------------------------------------------------------------------------------------

#: Two kernels, and the host that waits for them.
WAITING = [
    Row("mm", "operator", 0, 0.010, 0.011),
    Row("gemm", "kernel", 1, 0.010, 0.016),
    Row("softmax", "kernel", 1, 0.010, 0.012),
    Row("cudaDeviceSynchronize", "runtime", 0, 0.010, 0.030),
    Row("cudaStreamSynchronize", "runtime", 0, 0.010, 0.013),
]
PARTS = [
    # the nodes of the causes, what each of them makes of the change: its own nodes, and a share of 20 ms of waiting
    ([{2}, {3}, {1}], [6 + 23 * 6 / 8, 2 + 23 * 2 / 8, 1]),
    ([{2}, {3, 5}, {1}], [6 + 15, 2 + 3 + 5, 1]),
    ([{1, 2}, {4, 5}], [7, 23]),
    ([{1}], [1]),
]


@pytest.mark.parametrize(("nodes", "parts"), PARTS)
def test_longer_waiting_belongs_to_the_causes_with_more_work_of_the_device(
    nodes: list[set[int]], parts: list[float]
) -> None:
    found = explanation(WAITING, nodes)
    assert found._parts(found.alignment.longer) == pytest.approx([part / 1000 for part in parts])


def test_shorter_waiting_belongs_to_the_causes_with_less_work_of_the_device() -> None:
    rows = [
        *WAITING[:1],
        Row("gemm", "kernel", 1, 0.016, 0.010),
        *WAITING[2:3],
        Row("wait", "runtime", 0, 0.009, 0.006),
    ]
    found = explanation(rows, [{2}, {3}])
    assert found._parts(found.alignment.longer) == pytest.approx([-0.009, 0.002])
    level = [*rows[:2], Row("softmax", "kernel", 1, 0.010, 0.016), Row("wait", "runtime", 0, 0.009, 0.009)]
    found = explanation(level, [{2}, {3}])
    assert found._parts(found.alignment.longer) == pytest.approx([-0.006, 0.006])


#: Changes of the time of three operators with names a, b and c: -2, 3 and 5 ms; and a kernel: 8 ms.
FOUR = [
    Row("a", "operator", 0, 0.010, 0.008),
    Row("b", "operator", 0, 0.010, 0.013),
    Row("c", "operator", 0, 0.010, 0.015),
    Row("gemm", "kernel", 0, 0.008, 0.016),
    Row("new", "operator", 0, 0.0, 0.001, calls=(0, 1)),
]
BELONGS: list[tuple[Verdict, Sequence[Collection[int]], int | None]] = [
    (verdict("op.b"), [{2}], 0),
    (verdict("op.b"), [{1}, {2}], 1),
    (verdict("op.b"), [{1}, {3}], None),
    (verdict("op.b"), [], None),
    (verdict("op.b", outcome="undecided"), [{2}], 0),
    (verdict("op.b", outcome="pass"), [{2}], None),
    (verdict("op.b", outcome="skipped"), [{2}], None),
    (verdict("op.b", -0.1), [{2}], None),
    (verdict("op.a", -0.1), [{2}, {1}], 1),
    (verdict("nowhere"), [{2}], None),
    (verdict("step.kernel"), [{4}], 0),
    (verdict("step.cpu_exec"), [{1}, {2}, {3}], 2),
    (verdict("op.b", against="the median rank"), [{2}], None),
]


@pytest.mark.parametrize(("one", "nodes", "cause"), BELONGS)
def test_the_cause_of_a_verdict(one: Verdict, nodes: Sequence[Collection[int]], cause: int | None) -> None:
    found = explanation(FOUR, nodes).of([one])
    assert [at for at, each in enumerate(found) if each.verdicts] == ([] if cause is None else [cause])


KINDS: list[CauseKind] = ["slower", "slow rank", "memory"]


@pytest.mark.parametrize(
    ("one", "cause"),
    [
        (verdict("op.b", against="the median rank"), 1),
        (verdict("op.b", against=None), 0),
        (verdict("op.b", against="baseline"), 0),
        (verdict("memory.peak_allocated"), 2),
        (verdict("memory.reserved"), 2),
        (verdict("memory.allocated"), None),
    ],
)
def test_ranks_and_memory_have_causes_of_their_own(one: Verdict, cause: int | None) -> None:
    found = explanation(FOUR, [{2}, {3}, ()], KINDS)
    assert [at for at, each in enumerate(found.of([one])) if each.verdicts] == ([] if cause is None else [cause])
    others = explanation(FOUR, [{2}], ["slower"])
    assert [each.verdicts for each in others.of([one])] == [
        ((f"{one.metric} within 5% of baseline",) if cause == 0 else ())
    ]


@pytest.mark.parametrize(
    ("parts", "change", "cause"),
    [
        (("op.a", "op.c"), 0.1, 1),
        (("op.a", "op.b"), 0.1, 0),  # b changed most; its cause is another one
        (("op.a", "op.new"), 0.1, None),  # new has no relative change: a counts, and has no cause
        (("op.c", "nowhere"), -0.1, 1),  # the sign of a derived metric may be another one
        (("op.c", "work.ops"), 0.1, 1),
        (("nowhere",), 0.1, None),
    ],
)
def test_a_derived_metric_follows_the_part_that_changed_most(
    parts: tuple[str, ...], change: float, cause: int | None
) -> None:
    found = explanation(FOUR, [{2, 5}, {3}], parts={"share": parts}).of([verdict("share", change)])
    assert [at for at, each in enumerate(found) if each.verdicts] == ([] if cause is None else [cause])


def test_a_cause_makes_at_least_half_of_a_change() -> None:
    rows = [Row("gemm", "kernel", 0, 10, 11), Row("softmax", "kernel", 0, 10, 11), Row("mm", "operator", 0, 10, 10)]
    assert explanation(rows, [{3}, {2}]).is_told("step.kernel")
    assert not explanation([*rows, Row("tanh", "kernel", 0, 10, 10.125)], [{3}, {2}]).is_told("step.kernel")
    assert explanation(rows[:1], [{1}]).is_told("step.kernel")  # the change is 1 s
    assert not explanation(rows[2:], [{1}]).is_told("step.cpu_exec")  # it is 0
    assert not explanation(rows).is_told("step.kernel")
    assert not explanation(rows, [{1, 2}]).is_told("step.memcpy")
    small = [Row("gemm", "kernel", 0, 0.010, 0.011), Row("softmax", "kernel", 0, 0.010, 0.011)]
    assert explanation(small, [{2}]).is_told("step.kernel")


@pytest.mark.parametrize(
    ("metric", "told"),
    [
        *(("op.c10d::all_reduce", False), ("kernel.gemm", False), ("collective.all_reduce", False)),
        *(("work.device_time", False), ("step.kernel", True), ("range.forward", True), ("comm.time", True)),
    ],
)
def test_time_that_a_device_idles_is_no_part_of_calls(metric: str, told: bool) -> None:
    everything = {*range(15)}
    assert explanation(nodes=[everything], idle=[everything]).is_told(metric) is told
    assert explanation(nodes=[everything]).is_told(metric)


HOST = [
    # metric, its times on both sides, the largest ln(new / base) by the host, is it told
    ("op.x", 2, 3, math.log1p(0.5), True),
    ("op.x", 2, 3, 0.4, False),
    ("op.x", 2, 3, -0.5, False),
    ("op.x", 2, 3, 0.0, False),
    ("op.x", 2, 2, 0.4, False),
    ("op.x", 2, 1, -0.7, True),
    ("op.x", 2, 1, -0.6, False),
    ("op.x", 2, 1, 0.7, False),
    ("op.x", 2, 0, -4.7, True),
    ("op.x", 2, 0, -4.6, False),
    ("op.x", 0, 2, 5.0, False),
    ("range.x", 2, 3, 0.5, True),
    ("step.runtime", 2, 3, 0.5, True),
    ("step.cpu_exec", 2, 3, 0.5, True),
    ("step.kernel", 2, 3, 2.0, False),
]


@pytest.mark.parametrize(("metric", "base", "new", "host", "told"), HOST)
def test_the_speed_of_the_host_tells_of_its_times(
    metric: str, base: float, new: float, host: float, told: bool
) -> None:
    kinds: dict[str, NodeKind] = {"range.x": "range", "step.runtime": "runtime", "step.kernel": "kernel"}
    rows = [Row("x", kinds.get(metric, "operator"), 0, base, new)]
    assert explanation(rows, host=host).is_told(metric) is told


def test_without_a_known_speed_of_the_host_nothing_follows_it() -> None:
    found = explanation([Row("x", "operator", 0, 2, 3)])
    assert not Explanation(found.alignment, [], [], {}).is_told("op.x")
