"""`work.*` of traces: exact counts of each step, by the step that issued the work."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading import SHARED, run_of, steps_of

from perfgate.core import Run
from perfgate.readers import Source, read
from perfgate.readers.text import TraceMode
from perfgate.workspace.inputs import read_runs

#: An event of a trace.
Json = dict[str, Any]
GPU = SHARED / "score/gpu"
CAUSES = SHARED / "score/causes/pairs"


def event(cat: str, name: str, ts: float, dur: float = 1, **args: Any) -> Json:
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur, "args": args}


def step(number: int, ts: float, dur: float = 100) -> Json:
    return event("user_annotation", f"ProfilerStep#{number}", ts, dur)


def call(name: str, ts: float, correlation: int = -1) -> Json:
    return event("cuda_runtime", name, ts, correlation=correlation)


def kernel(ts: float, correlation: int, dur: float = 5, **args: Any) -> Json:
    return event("kernel", "gemm", ts, dur, **{"device": 0, "grid": [2, 3, 4]} | args, correlation=correlation)


def copy(kind: str, ts: float, correlation: int, size: int | None = 64) -> Json:
    more = {} if size is None else {"bytes": size}
    return event("gpu_memcpy", f"Memcpy {kind} (Device -> Pinned)", ts, 2, device=0, correlation=correlation, **more)


def run(*events: Json) -> Run:
    return run_of(json.dumps({"schemaVersion": 1, "traceEvents": events}))


def work_of(found: Run) -> dict[str, list[float]]:
    """The work of a run, by its metric without `work.` and its labels, without copies that no step makes."""
    made = (one for one in found.series if not one.key.metric.startswith("work.cop") or any(one.values))
    series = (one for one in made if one.key.metric.startswith("work."))
    return {str(one.key).removeprefix("work."): one.values.tolist() for one in series}


def work(*events: Json) -> dict[str, list[float]]:
    return work_of(run(*events))


#: Two steps of 100 µs, 10 µs apart, with one kernel and with four. The device is late: all run in the second step.
PROGRAM = [
    step(1, 0),
    step(2, 110),
    event("cpu_op", "aten::mm", 10, 20),
    event("cpu_op", "aten::relu", 12),
    call("cudaLaunchKernel", 15, 1),
    kernel(130, 1),
    event("cpu_op", "aten::mm", 120, 20),
    event("cuda_driver", "cuLaunchKernelEx", 125, correlation=20),
    *(call("cudaLaunchKernel", 125, number) for number in (21, 22, 23)),
    *(kernel(150, number, dur=7) for number in (20, 21, 22, 23)),
]


def test_copies_that_no_step_makes_are_0() -> None:
    copies = [one for one in run(*PROGRAM).series if one.key.metric.startswith("work.cop")]
    assert sorted({one.key.label("kind") for one in copies}) == ["DtoD", "DtoH", "HtoD"]
    assert all(one.values.tolist() == [0, 0] for one in copies)


def test_a_kernel_belongs_to_the_step_of_its_launch() -> None:
    found = run(*PROGRAM)
    assert work_of(found) == {
        "ops": [2, 1],
        "launches": [1, 4],
        "graph_launches": [0, 0],
        "syncs": [0, 0],
        "allocations": [0, 0],
        'kernels{device="0"}': [1, 4],
        'blocks{device="0"}': [24, 96],
        'memsets{device="0"}': [0, 0],
        'device_time{device="0"}': [5e-6, 28e-6],
    }
    assert {str(one) for key, one in steps_of(found).items() if key.startswith("work.")} == {"[1, 2]"}
    units = {one.key.metric: one.unit for one in found.series if one.key.metric.startswith("work.")}
    assert (units.pop("work.device_time"), units.pop("work.copied_bytes")) == ("s", "B")
    assert set(units.values()) == {"count"}


def test_all_kernels_of_a_graph_belong_to_the_step_of_its_launch() -> None:
    found = work(*PROGRAM, call("cudaGraphLaunch", 80, 9), kernel(140, 9), kernel(150, 9), kernel(300, 9))
    assert (found["graph_launches"], found["launches"]) == ([1, 0], [1, 4])
    assert found['kernels{device="0"}'] == [4, 4]


def test_what_the_host_does_between_steps_belongs_to_the_step_before() -> None:
    found = work(*PROGRAM, event("cpu_op", "aten::add", 104), call("cudaLaunchKernel", 105, 3), kernel(120, 3))
    assert (found["ops"], found["launches"], found['kernels{device="0"}']) == ([3, 1], [2, 4], [2, 4])


def test_what_is_before_the_first_step_or_after_the_last_belongs_to_none() -> None:
    before = [event("cpu_op", "aten::add", -9), call("cudaLaunchKernel", -8, 3), kernel(5, 3)]
    of_no_launch = [kernel(1, 77), kernel(140, 78)]
    of_the_profiler = [call("cudaDeviceSynchronize", 215), event("cpu_op", "aten::add", 220)]
    assert work(*PROGRAM, *before, *of_no_launch, *of_the_profiler) == work(*PROGRAM)


@pytest.mark.parametrize(
    ("metric", "names"),
    [
        ("launches", ("cudaLaunchKernelExC", "cudaLaunchCooperativeKernel", "cuLaunchKernel", "cudaLaunchKernel_ptsz")),
        ("launches", ("hipLaunchKernel", "hipExtModuleLaunchKernel", "hipModuleLaunchKernel", "urEnqueueKernelLaunch")),
        ("graph_launches", ("cudaGraphLaunch", "hipGraphLaunch", "cuGraphLaunch")),
        ("syncs", ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize", "cuCtxSynchronize")),
        ("syncs", ("hipDeviceSynchronize", "zeEventHostSynchronize", "cudaMemcpy", "hipMemcpyWithStream")),
        ("allocations", ("cudaMalloc", "cudaFree", "cudaMallocAsync", "cudaHostAlloc", "cuMemCreate", "hipFree")),
        (None, ("cudaMemcpyAsync", "cudaEventQuery", "cudaStreamWaitEvent", "cudaLaunchHostFunc", "cudaMemGetInfo")),
        (None, ("cudaFuncGetAttributes", "cudaStreamIsCapturing", "hipMemcpyAsync", "cudaGraphInstantiate")),
    ],
)
def test_calls_by_their_names(metric: str | None, names: tuple[str, ...]) -> None:
    found = work(*PROGRAM, *(call(name, 30) for name in names))
    before = work(*PROGRAM)
    grown = {name: found[name][0] - before[name][0] for name in found if found[name] != before[name]}
    assert grown == ({metric: len(names)} if metric else {})


def test_copies_by_kind_with_their_bytes() -> None:
    copies = [call("cudaMemcpyAsync", 30, 5), copy("DtoH", 40, 5), call("cudaMemcpyAsync", 130, 6)]
    found = work(
        *PROGRAM, *copies, copy("DtoH", 140, 6, 100), call("cudaMemcpyAsync", 131, 7), copy("HtoD", 150, 7, None)
    )
    assert found['copies{device="0", kind="DtoH"}'] == [1, 1]
    assert found['copied_bytes{device="0", kind="DtoH"}'] == [64, 100]
    assert found['copies{device="0", kind="HtoD"}'] == [0, 1]
    assert 'copied_bytes{device="0", kind="HtoD"}' not in found  # the trace does not say how many
    assert found['device_time{device="0"}'] == pytest.approx([7e-6, 32e-6])


def test_a_step_of_an_xpu() -> None:
    """As Kineto writes it: each submission twice, waits of the driver, and copies named by the kinds of memory."""

    def submitted(at: float, number: int, runtime: str, driver: str) -> list[Json]:
        return [
            event("xpu_runtime", runtime, at, 3, correlation=number),
            event("xpu_driver", driver, at + 1, 1, correlation=number),
        ]

    found = work(
        step(12, 0),
        *submitted(10, 1, "urUSMDeviceAlloc", "zeMemAllocDevice"),
        *submitted(20, 2, "urEnqueueUSMMemcpy", "zeCommandListAppendMemoryCopy"),
        event("gpu_memcpy", "Memcpy M2D (MEMORY(Unknown) -> DEVICE)", 25, 2, device=0, correlation=2, bytes=64),
        *submitted(30, 3, "urEnqueueKernelLaunchWithArgsExp", "zeCommandListAppendLaunchKernelWithArguments"),
        event("kernel", "gemm_kernel", 35, 5, device=0, correlation=3),
        event("xpu_driver", "zeEventHostSynchronize", 50, 9, correlation=4),
        event("xpu_sync", "zeEventHostSynchronize", 50, 9, correlation=4),
    )
    wanted = {"launches": [1], "graph_launches": [0], "syncs": [1], "allocations": [1], 'kernels{device="0"}': [1]}
    wanted |= {'copies{device="0", kind="HtoD"}': [1], 'copied_bytes{device="0", kind="HtoD"}': [64]}
    assert {name: found[name] for name in found if name in wanted or "copi" in name} == wanted
    assert 'blocks{device="0"}' not in found  # Kineto writes no grid


def test_memsets_and_two_devices() -> None:
    memset = event("gpu_memset", "Memset (Device)", 60, device=1, correlation=5, bytes=8)
    found = work(*PROGRAM, call("cudaMemsetAsync", 30, 5), memset)
    assert (found['memsets{device="0"}'], found['memsets{device="1"}']) == ([0, 0], [1, 0])
    assert (found['kernels{device="1"}'], found['blocks{device="1"}']) == ([0, 0], [0, 0])


@pytest.mark.parametrize("grid", [None, "abc", [1, 2], [1, 2, None], [1, 2, "3"], {"x": 1}, [[1], 2, 3], 7])
def test_a_kernel_without_a_grid_hides_the_blocks_and_nothing_else(grid: Any) -> None:
    found = work(*PROGRAM, call("cudaLaunchKernel", 30, 5), kernel(60, 5, grid=grid))
    assert 'blocks{device="0"}' not in found
    assert found['kernels{device="0"}'] == [2, 4]


def test_a_trace_that_must_be_repaired_has_the_same_work() -> None:
    text = json.dumps({"schemaVersion": 1, "traceEvents": [*PROGRAM, event("overhead", "ODD", 5)]})
    found = run_of(text.replace('"ODD"', '"a "quoted" name"'))
    assert found.problems
    assert work_of(found) == work(*PROGRAM)


@pytest.mark.parametrize("number", ["1e999999", "9" * 200, "-1e300", "true", "NaN"])
def test_an_absurd_grid_is_no_number_of_blocks(number: str) -> None:
    absurd = [call("cudaLaunchKernel", 30, 5), kernel(60, 5, grid="GRID"), event("overhead", "ODD", 5)]
    text = json.dumps({"schemaVersion": 1, "traceEvents": [*PROGRAM, *absurd]})
    text = text.replace('"GRID"', f"[{number}, {number}, {number}]")
    for broken in (text, text.replace('"ODD"', '"a "quoted" name"')):
        found = work_of(run_of(broken))
        assert 'blocks{device="0"}' not in found
        assert found['kernels{device="0"}'] == [2, 4]


def test_collectives_by_op() -> None:
    message = {"dtype": "Float", "In msg nelems": 10, "Out msg nelems": 10}
    nccl = [kernel(60 + at, 5 + at, **{"Collective name": "allreduce"}, **message) for at in range(2)]
    found = work(*PROGRAM, call("cudaLaunchKernel", 30, 5), call("cudaLaunchKernel", 130, 6), *nccl)
    assert found['collectives{device="0", op="allreduce"}'] == [1, 1]
    assert found['collective_bytes{device="0", op="allreduce"}'] == [40, 40]
    on_cpu = work(*PROGRAM[:4], event("user_annotation", "gloo:all_reduce", 50))
    assert on_cpu == {"ops": [2, 0], 'collectives{op="all_reduce"}': [1, 0]}
    backends = [event("user_annotation", f"{name}:all_reduce", at) for name, at in (("gloo", 50), ("nccl", 60))]
    assert work(*PROGRAM[:4], *backends)['collectives{op="all_reduce"}'] == [2, 0]


def test_flops_of_shapes() -> None:
    product = event("cpu_op", "aten::mm", 50, **{"Input Dims": [[2, 3], [3, 5]]})
    assert work(step(1, 0), step(2, 110), product)["flops"] == [60, 0]
    events = [step(1, 0), step(2, 110), product, event("overhead", "ODD", 5)]
    text = json.dumps({"schemaVersion": 1, "traceEvents": events})
    assert work_of(run_of(text.replace('"ODD"', '"a "quoted" name"')))["flops"] == [60, 0]  # a repaired trace


def test_a_cpu_has_operators_and_allocations_and_nothing_of_a_gpu() -> None:
    def memory(ts: float, size: int) -> Json:
        return event("cpu_instant_event", "[memory]", ts, Bytes=size, Addr=1, **{"Device Type": 0}) | {"ph": "i"}

    host = [step(1, 0), step(2, 110), event("cpu_op", "aten::mm", 10)]
    assert work(*host) == {"ops": [1, 0]}
    assert work(*host, memory(12, 8), memory(14, -8), memory(120, 8)) == {"ops": [1, 0], "allocations": [1, 1]}


def test_calls_of_an_unknown_runtime_are_no_zeros() -> None:
    assert work(*PROGRAM[:4], event("mtia_runtime", "synchronizeStream", 30)) == {"ops": [2, 0]}


def test_a_trace_without_steps_is_one_step_without_the_profiler_s_synchronisation() -> None:
    ops = [event("cpu_op", "aten::mm", 10, 20), call("cudaLaunchKernel", 15, 1), kernel(130, 1)]
    replay = [call("cudaGraphLaunch", 40, 2), kernel(200, 2), call("cudaDeviceSynchronize", 50)]
    found = work(*ops, *replay, call("cudaDeviceSynchronize", 400))
    assert (found["syncs"], found["graph_launches"], found['kernels{device="0"}']) == ([1], [1], [2])


def test_no_steps_and_no_host_is_no_work() -> None:
    assert work(call("cudaLaunchKernel", 15, 1), kernel(130, 1)) == {}


@pytest.mark.parametrize("mode", ["corrected", "tensorboard"])
def test_both_modes_count_the_same(mode: TraceMode) -> None:
    text = json.dumps({"schemaVersion": 1, "traceEvents": PROGRAM}).encode()
    (found,) = read(Source("trace.json", [text], trace_mode=mode))
    assert work_of(found) == work(*PROGRAM)


@st.composite
def programs(draw: st.DrawFn) -> list[list[Json]]:
    """The events of some steps of 100 µs, without gaps; devices run what is launched at any later time."""
    found, number = [], 0
    for at in range(draw(st.integers(1, 4))):
        events = []
        for ts in draw(st.lists(st.integers(0, 99), max_size=8)):
            number, late = number + 1, draw(st.integers(0, 250))
            time, device, size = 100 * at + ts, draw(st.integers(0, 1)), draw(st.integers(0, 9))
            events += draw(
                st.sampled_from(
                    [
                        [event("cpu_op", "aten::mm", time)],
                        [call("cudaLaunchKernel", time, number), kernel(time + late, number, size, device=device)],
                        [call("cudaGraphLaunch", time, number), *(kernel(time + late, number) for _ in range(size))],
                        [call("cudaMemcpyAsync", time, number), copy("DtoH", time + late, number, size)],
                        [call("cudaStreamSynchronize", time)],
                    ]
                )
            )
        found.append(events)
    return found


def texts(steps: list[Json], program: list[list[Json]]) -> list[Json]:
    return [*steps, *(one for events in program for one in events)]


@given(program=programs(), data=st.data())
def test_the_order_of_a_file_does_not_matter(program: list[list[Json]], data: st.DataObject) -> None:
    events = texts([step(at, 100 * at) for at in range(len(program))], program)
    assert work(*data.draw(st.permutations(events))) == work(*events)


@given(program=programs(), cuts=st.sets(st.integers(1, 399), max_size=5))
def test_other_borders_of_steps_keep_the_totals(program: list[list[Json]], cuts: set[int]) -> None:
    end = 100 * len(program)
    times = [0, *sorted(cut for cut in cuts if cut < end), end]
    borders = [step(at, begin, stop - begin) for at, (begin, stop) in enumerate(pairwise(times))]
    # a last step with much less device work than the one before would be taken for one that was cut off
    last = [call("cudaGraphLaunch", end - 1, 1000), *(kernel(end, 1000) for _ in range(300))]
    whole, parts = (work(*texts(steps, [*program, last])) for steps in ([step(0, 0, end)], borders))
    assert all(len(values) == len(borders) for values in parts.values())
    assert {key: sum(values) for key, values in parts.items()} == pytest.approx(
        {key: values[0] for key, values in whole.items()}
    )


def _repetitions() -> dict[str, list[Path]]:
    """The real traces of each program."""
    found: dict[str, list[Path]] = defaultdict(list)
    for path in sorted([*(GPU / "traces").glob("*.json.gz"), *(GPU / "patterns").glob("*.json.gz")]):
        found[path.name.split(".")[0][:-3]].append(path)
    return found


def exact(path: Path) -> dict[str, list[float]]:
    """The work of a trace but the time."""
    (found,) = read_runs([str(path)])
    return {key: values for key, values in work_of(found).items() if not key.startswith("device_time")}


@pytest.mark.shared
@pytest.mark.parametrize("program", _repetitions())
def test_all_repetitions_of_a_program_have_the_same_work(program: str) -> None:
    first, *others = [exact(path) for path in _repetitions()[program]]
    assert first['kernels{device="0"}']
    assert all(other == first for other in others)


@pytest.mark.shared
def test_the_counts_of_real_programs() -> None:
    host = exact(GPU / "traces/host-base-00.json.gz")
    assert (host["ops"], host["launches"], host['memsets{device="0"}']) == ([1758] * 4, [251] * 4, [24] * 4)
    pattern = exact(GPU / "patterns/accumulate-base-00.json.gz")
    assert pattern['kernels{device="0"}'] == [300, 303, 248, 300] * 2
    graph = exact(GPU / "patterns/graph-base-00.json.gz")
    assert (graph["graph_launches"], graph["launches"], graph['kernels{device="0"}']) == ([1] * 8, [0] * 8, [251] * 8)
    assert set(exact(GPU / "traces/gpt-empty_cache-00.json.gz")["allocations"]) == {118}


@pytest.mark.shared
@pytest.mark.parametrize("pair", ["p01-unchanged", "p02-unchanged", "p04-unchanged-memory", "o07-data-sleep"])
def test_an_unchanged_program_on_a_cpu_has_the_same_work(pair: str) -> None:
    base, new = (exact(CAUSES / pair / side / "run0/rank0.json.gz") for side in ("base", "new"))
    assert base == new
    assert np.unique(base['ops{rank="0"}']).tolist() == [1899]
