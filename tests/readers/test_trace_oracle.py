"""The oracle for Chrome traces against published figures, and against traces small enough to be worked out by hand."""

from __future__ import annotations

import csv
import gzip
import json
from collections import defaultdict
from functools import lru_cache, partial
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading import SHARED
from trace_events import DEVICE, events_of, load
from trace_intervals import difference, intersection, measure, union
from trace_oracle import MODES, ROLES, Step, answers

TRACES = SHARED / "corpus/chrome-trace"
EXPECTED = SHARED / "corpus/chrome-trace-expected"
#: The traces of which the TensorBoard plugin's own test states its views, and where those stand in the file.
#: The second one takes the oracle twice as long, and finds no other fault.
PLUGIN_TRACES = {
    "kineto_resnet50_num_workers_0_worker0.1623143089861.pt.trace.json.gz": 0,
    "kineto_resnet50_num_workers_4_worker0.1623212756351.pt.trace.json.gz": 5,
}

of_both_traces = pytest.mark.parametrize(
    ("name", "at"),
    [
        pytest.param(*trace, id=f"{workers} workers", marks=[pytest.mark.slow] if workers else [])
        for trace, workers in zip(PLUGIN_TRACES.items(), (0, 4), strict=True)
    ],
)


def corrected(data):
    return answers(data)["corrected"]


@lru_cache(maxsize=2)
def answers_of(name):
    return answers((TRACES / name).read_bytes())


def views():
    with (TRACES / "kineto_tb_plugin_expected_views.txt").open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


@pytest.mark.shared
@pytest.mark.parametrize("mode", MODES)
@of_both_traces
def test_every_step_of_the_plugin_to_the_microsecond(name, at, mode):
    found = answers_of(name)[mode]
    columns = [found.parts[role] for role in (*ROLES[:3], *ROLES[4:], "other")]
    assert not any(found.parts.get("communication", ()))  # the traces are of one GPU
    for i, row in enumerate(views()[at]["steps"]["rows"]):
        number, *cells = [cell for cell in row if "<" not in str(cell)]
        assert (found.steps[i].number, [column[i] / 1000 for column in columns]) == (int(number), cells)
    assert len(found.steps) == len(views()[at]["steps"]["rows"]) == 6


@pytest.mark.shared
@of_both_traces
def test_the_plugin_s_device_and_kernels(name, at):
    found = answers_of(name)["tensorboard"]
    stated = [cell["value"] for cell in views()[at]["gpu_metrics"]["data"][4:]]
    assert [f"{round(100 * found.gpu[metric]['0'], 2)} %" for metric in found.gpu] == stated
    for kernel, _, calls, total, _, longest, shortest, *_ in views()[at + 3]["data"]["rows"]:
        times = [time / 1000 for time in found.series[f"kernel.{kernel}"]]
        assert (len(times), sum(times), max(times), min(times)) == (calls, total, longest, shortest)
    assert sum(metric.startswith("kernel.") for metric in found.series) == len(views()[at + 3]["data"]["rows"])


#: Means over three steps, in microseconds: kernel, memcpy, memset, communication, runtime, data loader, CPU, other.
MODERN = {
    "corrected": [38551.95, 754.26, 130.24, 13407.23, 10049.49, 0, 134482.73, 24992.54],
    "tensorboard": [51738.44, 641.37, 120.19, 343.68, 0, 0, 144460.05, 25064.71],
}


@pytest.mark.shared
@pytest.mark.parametrize("mode", MODES)
def test_a_trace_where_the_modes_differ(mode):
    found = answers_of("hta_nccl_parser_config_nccl_data.json.gz")[mode]
    means = [round(sum(found.parts[role]) / 3000, 2) for role in (*ROLES, "other")]
    assert means == MODERN[mode]
    assert round(sum(found.parts["time"]) / 3000, 2) == 222368.45
    assert [len(found.parts[role]) for role in found.parts] == [3] * 9
    if mode == "corrected":
        assert {name: round(sum(found.comm[name]) / 3000, 2) for name in found.comm} == {
            "overlap": 2530.88,
            "exposed": 13530.17,
        }


@pytest.mark.shared
def test_the_figures_of_another_tool():
    """TraceLens: every kernel's calls and time, and the busy time of what was launched inside the step."""
    data = (TRACES / "tracelens_h100_Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz").read_bytes()
    totals = defaultdict(lambda: [0, 0.0])
    with (EXPECTED / "tracelens_h100_Qwen_kernel_summary.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            totals[row["Kernel name"]][0] += int(row["Kernel duration (µs)_count"])
            totals[row["Kernel name"]][1] += float(row["Kernel duration (µs)_sum"])
    series = corrected(data).series
    assert {f"kernel.{name}" for name in totals} == {name for name in series if name.startswith("kernel.")}
    for name, (calls, total) in totals.items():
        assert len(series[f"kernel.{name}"]) == calls
        assert sum(series[f"kernel.{name}"]) / 1000 == pytest.approx(total, abs=0.001)

    with (EXPECTED / "tracelens_h100_Qwen_gpu_timeline.csv").open(encoding="utf-8") as file:
        stated = {row["type"]: float(row["time ms"]) * 1e6 for row in csv.DictReader(file)}
    events = events_of(load(data))
    (step,) = [event for event in events if event.step is not None]
    launched = {e.correlation for e in events if e.is_launch and step.start <= e.start and e.end <= step.end}
    device = [event for event in events if event.is_device and event.correlation in launched]
    copies = union((e.start, e.end) for e in device if DEVICE[e.cat] == "memcpy")
    compute = union((e.start, e.end) for e in device if DEVICE[e.cat] != "memcpy")
    busy = union([*copies, *compute])
    near = partial(pytest.approx, abs=20)  # ns: TraceLens adds up floats of absolute microseconds
    assert measure(compute) == near(stated["computation_time"])
    assert measure(difference(copies, compute)) == near(stated["exposed_memcpy_time"])
    assert measure(busy) == near(stated["busy_time"])
    assert busy[-1][1] - busy[0][0] == near(stated["total_time"])


# --- by hand -----------------------------------------------------------------------------------------------------


def x(cat, name, ts, dur, **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur, "args": args}


def trace(*events, **header):
    return json.dumps({**header, "traceEvents": events}).encode()


def test_a_step_ends_with_its_device_work_and_the_next_begins_there():
    found = corrected(
        trace(
            x("user_annotation", "ProfilerStep#7", 100, 50),
            x("user_annotation", "ProfilerStep#8", 150, 100),
            x("gpu_user_annotation", "ProfilerStep#8", 150, 3),
            x("cuda_runtime", "cudaLaunchKernel", 110, 5, correlation=1),
            x("cuda_runtime", "cudaGraphLaunch", 180, 10, correlation=2),
            x("kernel", "early", 90, 15, device=0, correlation=9),
            x("kernel", "sgemm", 130, 40, device=0, correlation=1),
            x("kernel", "one", 200, 20, device=0, correlation=2),
            x("kernel", "ncclDevKernel_AllReduce", 210, 30, device=0, correlation=2),
        )
    )
    assert found.steps == [Step(7, 105_000, 170_000), Step(8, 170_000, 250_000)]
    assert found.parts["kernel"] == [40_000, 20_000]
    assert found.parts["communication"] == [0, 20_000]
    assert found.parts["runtime"] == [5_000, 10_000]
    assert found.parts["other"] == [20_000, 30_000]
    assert found.comm == {"overlap": [0, 10_000], "exposed": [0, 20_000]}
    assert found.gpu["utilization"] == {"0": pytest.approx(80 / 145)}


def test_trailing_steps_with_less_work_are_cut_ones():
    steps = [x("cpu_op", f"ProfilerStep#{i}", 100 * i, 90) for i in range(4)]
    calls = [0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2]
    launches = [x("Runtime", "launch", 100 * step + i, 1, correlation=i) for i, step in enumerate(calls)]
    kernels = [x("Kernel", "k", 100 * step + i + 2, 1, correlation=i, device=0) for i, step in enumerate(calls)]
    assert [step.number for step in corrected(trace(*steps, *launches, *kernels)).steps] == [0, 1]
    alone = corrected(trace(*steps))
    assert [step.number for step in alone.steps] == [0, 1, 2, 3]
    assert {"kernel", "memcpy", "memset"}.isdisjoint(alone.parts)


def test_blocks_are_summed_over_streams_before_they_are_capped():
    found = corrected(
        trace(
            x("cpu_op", "aten::mm", 0, 100),
            x("kernel", "wgmma", 0, 40, device=1, **{"blocks per SM": 0.5, "est. achieved occupancy %": 30}),
            x("kernel", "k", 20, 40, device=1, **{"blocks per SM": 0.75, "est. achieved occupancy %": 0}),
            x("kernel", "k", 90, 40, device=1, **{"blocks per SM": -1, "est. achieved occupancy %": -1}),
            x("kernel", "plain", 0, 10, device=2),
        )
    )
    assert found.steps == [Step(0, 0, 100_000)]
    assert found.gpu["sm_efficiency"] == {"1": pytest.approx(0.5 * 0.2 + 1 * 0.2 + 0.75 * 0.2)}
    assert found.gpu["occupancy"] == {"1": pytest.approx(0.15)}
    assert found.gpu["tensor_core_share"] == {"1": pytest.approx(1 / 3), "2": 0}
    assert corrected(trace(x("kernel", "k", 0, 1))).steps == []


def test_absent_joins_nothing():
    found = corrected(
        trace(
            x("cpu_op", "ProfilerStep#1", 0, 10),
            x("cpu_op", "nccl:all_reduce", 1, 2),
            x("runtime", "launch", 2, 1),
            x("runtime", "launch", 3, 1, correlation=-1),
            x("kernel", "k", 12, 5, device=0),
            x("kernel", "k", 20, 5, device=0, correlation=-1),
        )
    )
    assert found.steps == [Step(1, 0, 10_000)]
    assert found.parts["communication"] == [2_000]


def test_peaks_and_ranks():
    def memory(kind, device, **totals):
        args = {"Device Type": kind, "Device Id": device, "Bytes": 1, **totals}
        return {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "ts": 1, "args": args}

    totals = [{"Total Allocated": size, "Total Reserved": 64} for size in (7, 2**40 + 1, 5)]
    events = [*(memory(1, 3, **total) for total in totals), memory(0, -1, **{"Total Allocated": 9}), memory(1, 4)]
    found = corrected(trace(*events, distributedInfo={"rank": 3, "world_size": 8}))
    assert found.memory == {"peak_allocated": {"3": 2**40 + 1, "cpu": 9}, "peak_reserved": {"3": 64}}
    assert (found.rank, found.world_size) == (3, 8)


GOOD = '{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1.001, "dur": 2, "args": {}}'
BAD = {
    "bare inf": GOOD + ', {"ph": "X", "cat": "cpu_op", "name": "b", "ts": 5, "dur": 1, "args": {"x": inf}}]}',
    "bare N/A": GOOD + ', {"ph": "X", "cat": "cpu_op", "name": "b", "ts": 5, "dur": 1, "args": {"x": N/A}}]}',
    "quotes": GOOD + ', {"ph": "X", "cat": "cpu_op", "name": "f({"d": "c"})", "ts": 5, "dur": 1, "args": {}}]}',
    "backslash": GOOD + ', {"ph": "X", "cat": "cpu_op", "name": "a\\c\\d", "ts": 5, "dur": 1, "args": {}}]}',
    "half a key": GOOD + ', {"ph": "X", "cat": "cpu_op", "name": "b", tid": 0, "ts": 5, "dur": 1}]}',
    "line end in a name": GOOD + ', {"ph": "X", "cat": "cpu_op", "name": "b\nc", "ts": 5, "dur": 1}]}',
    "comma": GOOD + ', {"ph": "X", "cat": "cpu_op", "name": "b", "ts": 5, "dur": 1,},]}',
    "cut": GOOD + ', {"ph": "X", "cat": "cpu_op", "name": "b", "ts": 5, "dur": 1}, {"ph": "X", "na',
}


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_what_real_writers_break_is_mended(text):
    assert corrected(text.encode()).steps == [Step(0, 1001, 6000)]
    assert corrected(gzip.compress(text.encode())).steps == [Step(0, 1001, 6000)]


intervals = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 8)).map(lambda pair: (pair[0], sum(pair))))


@given(intervals, intervals)
def test_intervals_are_sets(one, other):
    def points(found):
        return {point for start, end in found for point in range(start, end)}

    a, b = union(one), union(other)
    assert points(a) == points(one)
    assert points(intersection(a, b)) == points(one) & points(other)
    assert points(difference(a, b)) == points(one) - points(other)
    assert measure(a) == len(points(one))
    assert all(left[1] < right[0] for left, right in pairwise(a))
