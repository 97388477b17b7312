"""Which findings are causes, and what a cause says: from numbers that are worked out by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from made_alignments import Row, aligned
from msgspec.structs import replace

from perfgate.causes import find as module
from perfgate.causes.align import Alignment, Finding
from perfgate.causes.find import (
    _calls,
    _cause,
    _closed,
    _explanation,
    _line,
    _matters,
    _sorted,
    _source,
    _step_times,
    _where,
)
from perfgate.causes.kinds import Edit
from perfgate.causes.noise import Noise, SeriesNoise
from perfgate.causes.trace_findings import _as_one, _of_edit
from perfgate.core.causes import CauseKind

ROWS = [
    Row("forward", "range", 0),
    Row("mm", "operator", 1, 100.0, 60.0, (1, 3), (0, 2)),
    Row("gemm", "kernel", 2, 60.0, 40.0, (2, 1), (0, 0.4)),
    Row("tanh", "kernel", 0, 0.0, 0.0, (1, 1.12345), (1, 0.2)),
    Row("gemm", "kernel", 0, 40.0, 0.0, (1, 0), (0.1, 0)),
]


def finding(kind: CauseKind, change: float = 0.0, lead: int = 2, **fields: Any) -> Finding:
    return Finding(kind, frozenset({lead}), lead, fields.pop("parents", ()), change=change, **fields)


# --- is a finding a cause? The step is 200 s, and 100 s on the new side. ---------------------------------------------

MATTERS = [
    (finding("slow rank"), True),
    (finding("stall", 0.8), True),
    (finding("stall", -0.8, error=9.0), True),
    (finding("stall", 0.79), False),
    (finding("slower", 0.8), True),
    (finding("slower", 0.79), False),
    (finding("slower", -3.0, error=1.0), True),
    (finding("slower", 2.9, error=1.0), False),
    (finding("slower", 6.0, error=2.0), True),
    (finding("larger", 0.8, come=(2,)), True),
    (finding("larger", 0.7, come=(2,)), False),
    (finding("smaller", -0.7, gone=(2,)), False),
    (finding("appeared", 0.4, come=(2,)), True),
    (finding("appeared", -0.4, come=(2,), error=9.0), True),
    (finding("appeared", 0.39, come=(2,)), False),
    (finding("moved", 0.0, come=(4,), gone=(3,)), True),
    (finding("moved", 9.0, come=(3,)), False),
    # a clear replacement counts by its cost, and another one by the time of its calls: 4 s of 200 s
    (finding("replaced", 0.4, come=(2,)), True),
    (finding("replaced", 3.0, come=(3,), error=1.0), True),
    (finding("replaced", 2.9, come=(3,), error=1.0), False),
    (finding("replaced", 2.9, come=(3, 6), error=1.0), True),
    (finding("replaced", 2.9, come=(7,), error=1.0), False),
]


@pytest.mark.parametrize(("group", "matters"), MATTERS)
def test_the_findings_that_are_causes(group: Finding, matters: bool) -> None:
    more = [Row("cat", "kernel", 0, busy=(0, 4)), Row("sum", "kernel", 0, busy=(0, 3.9))]
    assert _matters(group, aligned([*ROWS, *more])) is matters


# --- the typical step ------------------------------------------------------------------------------------------------

STEPS: list[tuple[Any, Any, Any, Any, float]] = [
    # times and calls of the steps, their runs, those of the new side; the typical step of the base
    ((1, 1, 7), (100, 100, 100), (0, 0, 0), (0, 0), 1.0),
    ((1, 1, 7), (100, 100, 99.5), (0, 0, 0), (0, 0), 1.0),
    ((1, 1, 7), (98.5, 99, 99.5), (0, 0, 0), (0, 0), 1.0),  # and 1 for the step: 1 % of 100
    ((1, 1, 7), (100, 100, 98), (0, 0, 0), (0, 0), 3.0),
    ((1, 1, 7), (100, 100, 100), (0, 1, 2), (0, 0), 3.0),
    ((1, 1, 7), (100, 100, 100), (0, 0, 0), (0, 1), 3.0),
]


@pytest.mark.parametrize(("times", "calls", "runs", "new_runs", "typical"), STEPS)
def test_the_typical_step(times: Any, calls: Any, runs: Any, new_runs: Any, typical: float) -> None:
    alignment = aligned([Row("mm", "operator", 0, times, (2, 4), (calls, 5))], runs, new_runs)
    assert _step_times(alignment) == (typical, 3.0)
    swapped = replace(alignment, base=alignment.new, new=alignment.base)
    assert _step_times(swapped) == (3.0, typical)


# --- what a cause says -----------------------------------------------------------------------------------------------


def test_the_place_of_a_group_and_the_order_of_groups() -> None:
    alignment = aligned(ROWS)
    assert _where(finding("slower"), alignment) == ("forward", "mm")
    assert [_where(finding("machine"), alignment), _where(finding("host"), alignment)] == [("device",), ("host",)]
    groups = [
        finding("slower", 1.0, 4),
        finding("slower", 1.0, 2),
        finding("faster", -3.0, 5),
        finding("slower", 2.0, 3),
    ]
    assert [group.lead for group in _sorted(groups, alignment)] == [5, 3, 2, 4]


def test_the_calls_of_a_cause_have_the_largest_change_first() -> None:
    found = _calls((2, 3, 4, 5), aligned(ROWS))
    assert found == (("mm", 2.0), ("tanh", 0.123), ("gemm", 2.0))


SHARES = [
    # the change of the cause and of the step; the share, and the share of timers
    (1.0, 2.0, 0.5, 0.5),
    (2.0, 1.0, 2.0, 2.0),
    (2.5, 1.0, 2.5, None),
    (-1.0, 2.0, -0.5, None),
    (0.0, 2.0, 0.0, None),
    (1.0, 0.0, None, None),
]


@pytest.mark.parametrize(("change", "total", "share", "of_timers"), SHARES)
def test_the_share_of_a_cause(change: float, total: float, share: float | None, of_timers: float | None) -> None:
    alignment = aligned(ROWS)
    traces, timers = Noise(alignment, np.zeros(6), np.zeros(6)), SeriesNoise(alignment)
    group = finding("slower", change, parents=(0, 1), error=0.5)
    found = [_cause(group, alignment, noise, total) for noise in (traces, timers)]
    assert [one.share for one in found] == [share, of_timers]
    assert [(one.low, one.high) for one in found] == [
        (change - noise.reach / 2, change + noise.reach / 2) for noise in (traces, timers)
    ]
    assert found[0].places == (("forward", "mm"), ("forward",))


def test_the_times_of_a_whole_table() -> None:
    for has_steps in (True, False):
        alignment = aligned(ROWS, has_steps=has_steps)
        traces, timers = Noise(alignment, np.zeros(6), np.zeros(6)), SeriesNoise(alignment)
        found = [_cause(finding("slower", 1.0), alignment, noise, 1.0).metric for noise in (traces, timers)]
        assert found == ["time", "time" if has_steps else "total time"]


def test_the_line_of_a_finding() -> None:
    def lines(**sources: str) -> Alignment:
        alignment = aligned(ROWS)
        nodes = [replace(node, source=sources.get(f"n{at}", "")) for at, node in enumerate(alignment.nodes)]
        return replace(alignment, nodes=tuple(nodes))

    assert _line(3, lines(n1="range.py", n2="mm.py")) == "mm.py"
    assert _line(3, lines(n1="range.py", n3="gemm.py", n2="mm.py")) == "gemm.py"
    assert _line(3, lines(n1="range.py")) == ""
    assert _line(1, lines(n1="range.py")) == "range.py"
    assert _line(3, lines()) == ""
    assert _source(finding("slower", lead=3), lines(n1="range.py")) == "range.py"
    assert _source(finding("slower", lead=2), lines(n1="range.py")) == "range.py"
    assert _source(finding("slower", lead=3), lines(n1="range.py", n2="mm.py")) == "mm.py"
    edit = finding("replaced", lead=4, come=(5, 2), gone=(3,))
    assert _source(edit, lines(n5="last.py", n2="mm.py")) == "mm.py"
    assert _source(edit, lines(n3="gone.py")) == "gone.py"
    assert _source(edit, lines()) == ""
    rows = [Row("outer", "operator", 0), Row("forward", "range", 1), Row("mm", "operator", 2)]
    outside = aligned(rows)
    nodes = (*outside.nodes[:1], replace(outside.nodes[1], source="outer.py"), *outside.nodes[2:])
    assert _line(3, replace(outside, nodes=nodes)) == ""


# --- the lead of an edit ---------------------------------------------------------------------------------------------

CHANGED = [
    Row("tanh", "kernel", 0, 5.0, 0.0, (1, 0)),
    Row("mm", "operator", 0, 9.0, 3.0, (3, 1)),
    Row("cat", "kernel", 0, 0.0, 4.0, (0, 1)),
    Row("view", "kernel", 0, 0.0, 0.1, (0, 1)),
    Row("cudaLaunchKernel", "runtime", 0, 0.0, 8.0, (0, 1)),
    Row("aten::index", "operator", 0, 0.0, 7.0, (0, 1)),
    Row("aten::item", "operator", 6, 0.0, 1.0, (0, 1)),
    Row("cudaStreamSynchronize", "runtime", 7, 0.0, 2.0, (0, 1)),
    Row("cudaLaunchKernel", "runtime", 0, 8.0, 0.0, (1, 0)),
]
LEADS: list[tuple[tuple[int, ...], tuple[int, ...], str, int]] = [
    # the calls that went and came; the kind of the edit and its lead
    ((), (3, 4), "appeared", 3),
    ((), (3, 5), "appeared", 3),
    ((), (5,), "appeared", 5),
    ((1, 2), (), "fewer calls", 2),
    ((1,), (), "vanished", 1),
    ((1,), (4,), "vanished", 1),
    ((2,), (4,), "fewer calls", 2),
    ((1, 9), (), "vanished", 1),
    ((2,), (3, 4), "replaced", 3),
    ((), (6,), "sync", 8),
]


@pytest.mark.parametrize(("gone", "come", "kind", "lead"), LEADS)
def test_the_lead_of_an_edit(gone: tuple[int, ...], come: tuple[int, ...], kind: str, lead: int) -> None:
    found = _of_edit(Edit(0, gone, come), frozenset({1, 2}), aligned(CHANGED))
    assert (found.kind, found.lead) == (kind, lead)
    assert (set(found.nodes), found.parents, found.gone, found.come) == ({1, 2}, (0,), gone, come)


# --- the report ------------------------------------------------------------------------------------------------------


def test_swapped_kernels_are_one_finding() -> None:
    alignment = aligned(ROWS)
    noise = Noise(alignment, np.zeros(6), np.zeros(6))
    swaps = [
        finding("replaced", 2.0, 3, parents=(2,), gone=(3,), come=(4,)),
        finding("replaced", -9.0, 5, parents=(0,), gone=(5,), come=(1,)),
    ]
    found = _as_one(swaps, noise)
    assert (found.kind, found.lead, found.parents, found.gone, found.come) == ("replaced", 5, (2, 0), (3, 5), (4, 1))
    assert (found.nodes, found.change, found.error) == (frozenset({3, 5}), -60.0, 0.0)


def test_the_report_adds_up(monkeypatch: pytest.MonkeyPatch) -> None:
    alignment = aligned(ROWS)
    monkeypatch.setattr(module, "host_speed", lambda _: SimpleNamespace(effect=-2.0, shift=-0.3, scatter=0.1))
    traces = Noise(alignment, np.zeros(6), np.full(6, np.log(1.01)))  # the kernels take 100 s
    groups = [finding("faster", -20.0, 3, error=1.0), finding("faster", -40.0, 2, idle=frozenset({2}))]
    report = _closed(groups, alignment, traces, ("a note",))
    assert [(one.where[-1], one.share) for one in report.causes] == [("mm", 0.4), ("gemm", 0.2)]
    assert (report.base_step, report.new_step, report.rest) == (200.0, 100.0, -40.0)
    assert report.noise == pytest.approx(2.0 + 1.0)
    assert (report.base_runs, report.new_runs, report.notes[0]) == (1, 1, "a note")
    timers = SeriesNoise(alignment)
    assert _closed(groups, alignment, timers, ()).noise == timers.reach * timers.change(range(6))[1]
    uneven = aligned([Row("mm", "operator", 0, (1, 5), 3)], (0, 0), (0,))
    noisy = Noise(uneven, np.zeros(2), np.zeros(2))
    assert _closed((), uneven, noisy, ()).noise == pytest.approx(noisy.reach * 2 + 2)
    causes = [*report.causes, *report.causes[:1]]  # as if the third one was of memory
    for noise, host in ((traces, -0.5), (timers, 0.0)):
        found = _explanation(groups, causes, alignment, noise, {"a": ["b"]})
        assert [(set(one.nodes), set(one.idle)) for one in found.findings] == [({2}, {2}), ({3}, set())]
        assert found.host == pytest.approx(host)
        assert found.components == {"a": ["b"]}
