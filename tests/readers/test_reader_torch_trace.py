"""The reader of torch.profiler traces: golden numbers, cuts, repairs, bounds, and what a folder of traces says."""

from __future__ import annotations

import json

import numpy as np
import pytest
from damage import contents, series_of
from hypothesis import given, settings
from hypothesis import strategies as st
from reading import SHARED, errors, run_of, runs_of, said, steps_of, values_of
from trace_texts import traces

from perfgate.readers import Source, join_runs, read, with_missing_ranks
from perfgate.readers.torch_trace import chunks, repair
from perfgate.readers.torch_trace.breakdown import Intervals, complement, join, measure_within, union
from perfgate.readers.torch_trace.event_fields import is_own_function


def event(cat, name, ts, dur, ph="X", **args):
    return {"ph": ph, "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur, "args": args}


def launched(number, at, start, dur, name="gemm", **args):
    """A launch of the host and its kernel, 1 µs later or more."""
    return [
        event("cuda_runtime", "cudaLaunchKernel", at, 1, correlation=number),
        event("kernel", name, start, dur, correlation=number, device=0, **args),
    ]


def step(number, ts, dur):
    return event("user_annotation", f"ProfilerStep#{number}", ts, dur)


def text_of(*events, **header):
    return json.dumps({"schemaVersion": 1, **header, "traceEvents": events})


#: Two steps of 100 µs, whose device work reaches beyond them; an all-reduce under a kernel, and 10 µs of it bare.
TRACE = text_of(
    step(1, 0, 100),
    step(2, 100, 100),
    event("cpu_op", "aten::mm", 10, 20),
    *launched(7, 20, 40, 80, **{"blocks per SM": 0.5, "est. achieved occupancy %": 50}),
    *launched(8, 110, 130, 30),
    *launched(9, 140, 150, 20, "ncclDevKernel_AllReduce", **{"Collective name": "allreduce", "Group size": 2}),
)


def test_a_step_grows_to_the_end_of_its_device_work():
    values = values_of(run_of(TRACE))
    assert np.multiply(values["step.time"], 1e6) == pytest.approx([120, 80])
    assert np.multiply(values["step.kernel"], 1e6) == pytest.approx([80, 30])
    assert np.multiply(values["step.communication"], 1e6) == pytest.approx([0, 10])
    assert np.multiply(values["comm.overlap"], 1e6) == pytest.approx([0, 10])
    assert np.multiply(values["comm.exposed"], 1e6) == pytest.approx([0, 10])
    assert values['gpu.utilization{device="0"}'] == [pytest.approx(120 / 200)]
    assert values['gpu.sm_efficiency{device="0"}'] == [pytest.approx(0.5 * 80 / 200)]
    assert values['gpu.occupancy{device="0"}'] == [pytest.approx(0.5)]
    assert steps_of(run_of(TRACE))["step.time"] == [1, 2]


def test_idle_time_has_a_cause():
    values = {name: np.multiply(x, 1e6) for name, x in values_of(run_of(TRACE)).items()}
    assert values['gpu.idle{device="0"}'] == pytest.approx([40, 40])
    assert values['gpu.idle_host_wait{device="0"}'] == pytest.approx([40, 30])  # the tail, after which nothing came
    assert values['gpu.idle_kernel_wait{device="0"}'] == pytest.approx([0, 10])  # launched at 110, began at 130


def test_bytes_and_bandwidth_of_a_collective():
    args = {"Collective name": "allreduce", "Group size": 4, "dtype": "BFloat16", "In msg nelems": 1000}
    values = values_of(run_of(text_of(step(1, 0, 100), *launched(1, 1, 2, 3, "nccl", **args))))
    assert values['collective.allreduce.bytes{device="0"}'] == [2000]
    assert values['collective.allreduce.bus_bandwidth{device="0"}'] == [pytest.approx(2000 / 3e-6 * 1.5)]


def test_what_a_vendor_does_not_write_is_absent():
    run = run_of(text_of(step(1, 0, 100), *launched(1, 1, 2, 3), distributedInfo={"rank": 3, "world_size": 8}))
    names = {series.key.metric for series in run.series}
    assert {"gpu.sm_efficiency", "gpu.occupancy", "memory.peak_allocated", "comm.exposed"}.isdisjoint(names)
    assert "gpu.utilization" in names
    assert run.environment == {"trace_mode": "corrected", "world_size": 8}
    assert said(with_missing_ranks(run)) == ["train.log: warning: 7 of 8 ranks are missing (0, 1, 2, 4, 5, ...)"]


def test_ranks_of_other_files_may_have_names():
    series = {"metric": "m", "labels": {"rank": "main"}, "unit": "s", "value": 1.0}
    results = json.dumps({"schema": "perfgate.results/1", "series": [series]})
    run = with_missing_ranks(joined(a=rank_trace(0, [100]), b=results))
    assert said(run)[-1] == "run: warning: 1 of 2 ranks are missing (1)"


def test_absolute_nanoseconds_are_exact():
    whole = 1_711_964_646_000_000
    trace = f'{{"traceEvents": [{json.dumps(event("cpu_op", "x", 1, 2))}]}}'
    trace = trace.replace('"ts": 1, "dur": 2', f'"ts": {whole}.001, "dur": 0.003')
    assert values_of(run_of(trace))["op.x"] == [3e-9]
    assert values_of(run_of(trace))["step.time"] == [3e-9]


def test_a_bare_list_of_events_is_a_trace():
    assert values_of(run_of(json.dumps([step(1, 0, 5), step(2, 5, 5)])))["step.time"] == [5e-6, 5e-6]


@pytest.mark.parametrize("mode", ["corrected", "tensorboard"])
def test_the_mode_is_said(mode):
    (run,) = read(Source("t.json", [TRACE.encode()], trace_mode=mode))
    assert run.environment["trace_mode"] == mode
    communication = np.multiply(values_of(run)["step.communication"], 1e6)
    assert communication.sum() == pytest.approx(10 if mode == "corrected" else 0)


# --- text --------------------------------------------------------------------------------------------------------

#: What real traces have held instead of JSON, and the name that is read.
BROKEN = {
    "inf": ('"x", "args": {"memory bandwidth (GB/s)": inf}', "x"),
    "N/A": ('"x", "args": {"queue": N/A}', "x"),
    "Windows": (r'"torch\cuda\__init__.py"', r"torch\cuda\__init__.py"),
    "tabs of Windows": (r'"C:\new\cuda"', r"C:\new\cuda"),
    "quotes": ('"fn({"device": "cpu"})", "tid": 1', 'fn({"device": "cpu"})'),
    "key": ('"x", tid": 0', "x"),
    "comma": ('"x", "args": {"a": 1,}', "x"),
    "line ends": ('"a\nb"', "a\nb"),
}


@pytest.mark.parametrize(("broken", "name"), BROKEN.values(), ids=BROKEN)
def test_broken_json_is_repaired_and_said_with_its_line(broken, name):
    bad = f'{{"ph": "X", "cat": "cpu_op", "ts": 3, "dur": 2, "name": {broken}}}'
    good = json.dumps(event("cpu_op", "good", 1, 2))
    run = run_of(f'{{"traceEvents": [\n{good},\n{bad},\n{good}\n]}}')
    values = values_of(run)
    assert values[f"op.{name}"] == [2e-6]
    assert values["op.good"] == [2e-6, 2e-6]
    assert not errors(run)
    assert name == "a\nb" or any(line.startswith("train.log:3: warning: repaired JSON") for line in said(run))


def test_what_cannot_be_repaired_is_an_error_of_its_line():
    good = json.dumps(event("cpu_op", "good", 1, 2))
    run = run_of(f'{{"traceEvents": [\n{good},\n{{"ph": "X" "cat" dur}},\n{good}\n]}}')
    assert values_of(run)["op.good"] == [2e-6, 2e-6]
    assert [line[:47] for line in errors(run)] == ["train.log:3: error: unreadable event, left out:"]


def test_a_trace_that_is_mostly_broken_is_given_up():
    bad = ",".join(['{"ph": "X" "cat" dur}'] * (repair.MOST_UNREADABLE + 9))
    run = run_of(f'{{"traceEvents": [{bad}]}}')
    assert any("reading stops here" in line for line in errors(run))


@pytest.mark.parametrize("tail", ["", "]", ',{"ph": "X", "na', "], ", '], "distributedInfo": {"rank'])
def test_a_cut_trace_says_so(tail):
    whole = TRACE[: TRACE.rindex("]")]
    run = run_of(whole + tail)
    assert values_of(run)["step.time"] == values_of(run_of(TRACE))["step.time"]
    assert any("cut off" in line for line in errors(run))


@settings(max_examples=10)
@given(traces(), st.sampled_from([64, 100, 333, 1000, 4096]))
def test_the_size_of_the_buffer_does_not_matter(text, size):
    whole = contents(runs_of(text, "torch-trace"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "BUFFER_SIZE", size)
        assert contents(runs_of(text, "torch-trace", chunk=50)) == whole


@given(st.data())
def test_a_prefix_never_gives_other_values(data):
    whole = series_of(run_of(TRACE))
    cut = run_of(TRACE[: data.draw(st.integers(1, len(TRACE) - 1))], "torch-trace")
    assert errors(cut)
    for name, (_, _, values) in series_of(cut).items():
        if name.startswith(("op.", "kernel.", "range.", "collective.")):
            assert values == whole[name][2][: len(values)]


def test_more_names_than_anybody_reads_are_bounded_and_said():
    events = [event("cpu_op", f"op {number}", number, 1) for number in range(6000)]
    run = run_of(text_of(*events))
    assert sum(series.key.metric.startswith("op.") for series in run.series) == 5000
    assert any("6000 names" in line for line in said(run))


# --- intervals ---------------------------------------------------------------------------------------------------


def naive(starts, ends):
    return {t for start, end in zip(starts, ends, strict=True) for t in range(start, end)}


SPANS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)), max_size=12)


@given(SPANS, SPANS, st.integers(0, 60), st.integers(0, 60))
def test_intervals_are_sets_of_points(one, other, start, end):
    sets = []
    for spans in (one, other):
        starts = np.array([at for at, _ in spans], np.int64)
        sets.append(
            (
                union(starts, starts + np.array([n for _, n in spans], np.int64)),
                naive(starts, starts + [n for _, n in spans] if spans else starts),
            )
        )
    (a, points), (b, more) = sets
    assert naive(*a) == points
    assert naive(*join(a, b)) == points | more
    low, high = min(start, end), max(start, end)
    inside = measure_within(a, np.array([low]), np.array([high]))
    assert inside.tolist() == [len(points & set(range(low, high)))]
    assert naive(*complement(a, low, high)) == set(range(low, high)) - points
    assert isinstance(a, Intervals)


# --- several files -----------------------------------------------------------------------------------------------


def rank_trace(rank, durations, first_step=1):
    """Two steps, each with one all-reduce of the process group `dp`."""
    args = {"Collective name": "allreduce", "Group size": 2, "Process Group Name": "dp"}
    events = []
    for at, dur in enumerate(durations):
        events += [
            step(first_step + at, 1000 * at, 900),
            *launched(at, 1000 * at + 1, 1000 * at + 10, dur, "nccl", **args),
        ]
    return text_of(*events, distributedInfo={"rank": rank, "world_size": 2})


def joined(**files):
    return join_runs("run", [run for name, text in files.items() for run in runs_of(text, name=f"run/{name}.json")])


def test_ranks_wait_for_the_slowest_one_in_collectives():
    run = joined(a=rank_trace(0, [100, 700]), b=rank_trace(1, [400, 50]))
    waits = {name: np.multiply(x, 1e6) for name, x in values_of(run).items() if name.startswith("comm.wait")}
    assert waits['comm.wait{rank="0"}'] == pytest.approx([0, 650])
    assert waits['comm.wait{rank="1"}'] == pytest.approx([300, 0])
    assert steps_of(run)['comm.wait{rank="0"}'] == [1, 2]
    assert not run.problems


def test_collectives_whose_counts_differ_are_not_matched():
    run = joined(a=rank_trace(0, [100, 700]), b=rank_trace(1, [400]))
    assert not any(name.startswith("comm.wait") for name in values_of(run))


def test_spans_of_one_rank_are_one_series_in_order():
    run = joined(z=rank_trace(0, [1, 2]), a=rank_trace(0, [3, 4], first_step=7))
    assert steps_of(run)['step.time{rank="0"}'] == [1, 2, 7, 8]
    assert np.multiply(values_of(run)['collective.allreduce{device="0", rank="0"}'], 1e6) == pytest.approx([1, 2, 3, 4])


def test_shares_of_spans_whose_steps_take_no_time_are_joined():
    device = {"device": 0, "correlation": 7}
    host = [event("cpu_op", "aten::mm", 5, 3), event("kernel", "gemm", 20, 5, **device)]
    run = joined(a=text_of(step(1, 0, 0), *host), b=text_of(step(2, 0, 0), *host))
    assert values_of(run)['gpu.tensor_core_share{device="0"}'] == [0]


def test_one_rank_twice_is_an_error():
    run = joined(a=rank_trace(0, [1, 2]), b=rank_trace(0, [3, 4]))
    assert errors(run) == [
        "run/b.json: error: this trace has the same rank (0) and steps as run/a.json; using run/a.json"
    ]
    assert np.multiply(values_of(run)['collective.allreduce{device="0", rank="0"}'], 1e6) == pytest.approx([1, 2])


# --- commands ----------------------------------------------------------------------------------------------------


def test_inspect_shows_where_a_step_goes_and_who_is_waited_for(perfgate, folder):
    (folder / "run").mkdir()
    for rank, durations in enumerate([[100, 700], [400, 50]]):
        (folder / f"run/{rank}.json").write_text(rank_trace(rank, durations))
    done = perfgate("inspect", "run")
    assert done.code == 0
    assert "time of a step (trace mode corrected, mean of 4 steps of 2 ranks)" in done.out
    assert "step.communication  312.5 µs   34.7%  ██████████" in done.out
    assert "top kernels by share of all kernel time: 1 of 1 name (in rules: kernel.NAME)" in done.out
    assert "step 2  rank 1  busy 900 µs  others waited 650 µs" in done.out


def test_a_baseline_of_one_mode_is_not_compared_with_the_other(perfgate, folder):
    (folder / "rules").mkdir()
    (folder / "rules/r.yaml").write_text("version: 1\nrules:\n  - step.time within 5% of baseline\n")
    (folder / "t.json").write_text(text_of(*(step(number, 100 * number, 100) for number in range(9))))
    assert perfgate("baseline", "approve", "t.json", "--reason", "first").code == 0
    assert "trace mode corrected" in " ".join(perfgate("check", "t.json").out.split())
    done = perfgate("check", "t.json", "--trace-mode", "tensorboard")
    assert done.code == 3
    assert "read with --trace-mode corrected: use it here, too" in " ".join(done.out.split())


# --- golden numbers ----------------------------------------------------------------------------------------------

#: Microseconds, the average of all steps, from the views that kineto's plugin is tested with, and for the last trace
#: from its formulas.
PARTS = ("kernel", "memcpy", "memset", "communication", "runtime", "dataloader", "cpu_exec", "other", "time")
NCCL = "hta_nccl_parser_config_nccl_data.json.gz"
GOLDEN = {
    ("kineto_resnet50_num_workers_0_worker0.1623143089861.pt.trace.json.gz", "tensorboard"): (
        98588.67, 1915.33, 89, 0, 2907.5, 59261.83, 13674.17, 1155.67, 177592.17,
    ),
    ("kineto_resnet50_num_workers_4_worker0.1623212756351.pt.trace.json.gz", "tensorboard"): (
        99144.67, 3159.83, 97.67, 0, 10564, 1186.17, 22664.83, 4250.83, 141068,
    ),
    (NCCL, "corrected"): (
        38551.95, 754.26, 130.24, 13407.23, 10049.49, 0, 134482.73, 24992.54, 222368.45,
    ),
    (NCCL, "tensorboard"): (
        51738.44, 641.37, 120.19, 343.68, 0, 0, 144460.05, 25064.71, 222368.45,
    ),
}  # fmt: skip


def golden(name, mode="corrected"):
    data = (SHARED / "corpus/chrome-trace" / name).read_bytes()
    (run,) = read(Source(name, [data], trace_mode=mode))
    return {series.key.metric: series.values for series in run.series}


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.is_dir(), reason="no shared folder")
@pytest.mark.parametrize(("name", "mode"), GOLDEN)
def test_golden_breakdowns(name, mode):
    values = golden(name, mode)
    found = [1e6 * values[f"step.{part}"].mean() for part in PARTS]
    assert found == pytest.approx(GOLDEN[name, mode], abs=0.0051)


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.is_dir(), reason="no shared folder")
def test_golden_shares_and_kernels():
    values = golden("kineto_resnet50_num_workers_0_worker0.1623143089861.pt.trace.json.gz")
    shares = [100 * values[f"gpu.{name}"][0] for name in ("utilization", "sm_efficiency", "occupancy")]
    assert shares == pytest.approx([55.51, 54.68, 49.13], abs=0.005)
    assert np.round(1e6 * values["step.time"]).tolist() == [187948, 175153, 179733, 174564, 182172, 165983]
    kernels = [x for name, x in values.items() if name.startswith("kernel.")]
    assert sum(map(len, kernels)) == 8772
    assert sum(x.sum() for x in kernels) == pytest.approx(0.591532)


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.is_dir(), reason="no shared folder")
def test_golden_communication():
    values = golden(NCCL)
    found = [1e6 * values[f"comm.{name}"].mean() for name in ("overlap", "exposed")]
    assert found == pytest.approx([2530.88, 13530.17], abs=0.005)


def test_a_class_that_the_trace_does_not_have_is_absent_and_not_0():
    host = (step(1, 0, 100), event("cpu_op", "aten::mm", 10, 20))
    launch = event("cuda_runtime", "cudaLaunchKernel", 20, 1, correlation=7)
    absent = {"step.kernel", "step.memcpy", "step.memset", "step.runtime", "step.communication"}
    assert absent.isdisjoint({series.key.metric for series in run_of(text_of(*host)).series})
    names = {series.key.metric for series in run_of(text_of(*host, launch)).series}
    assert absent & names == {"step.runtime"}
    assert {"step.communication", "step.runtime", "step.kernel"} <= {one.key.metric for one in run_of(TRACE).series}


def test_a_trace_that_names_gpus_without_their_events_says_so():
    host = (step(1, 0, 100), event("cpu_op", "aten::mm", 10, 20))
    (text,) = said(run_of(text_of(*host, deviceProperties=[{"name": "H100"}, {"name": "H100"}])))
    assert "the trace names 2 GPUs, but has no event of a device" in text
    assert said(run_of(text_of(*host, deviceProperties=[]))) == []


@pytest.mark.parametrize("name", ["", "  ", None, 5])
def test_an_empty_gpu_is_not_a_fact(name):
    assert "gpu" not in run_of(json.dumps({**json.loads(TRACE), "deviceProperties": [{"name": name}]})).environment


def test_inspect_shows_no_warm_up_of_a_trace(perfgate, folder):
    """As no rule drops one: a profiler's schedule has skipped it."""
    events = [
        one for i in range(8) for one in (step(i, 900 * i, 800), event("cpu_op", "aten::mm", 900 * i, 700 - 60 * i))
    ]
    (folder / "trace.json").write_text(text_of(*events))
    assert "warm-up" not in perfgate("inspect", "trace.json").out


@pytest.mark.parametrize(
    ("name", "is_own"),
    [
        ("train.py(31): loop", True),
        ("C:\\work\\train.py(31): loop", True),
        ("C:\\Python\\Lib\\site-packages\\torch\\x.py(3): f", False),
        ("torch\\\\nn\\\\modules\\\\module.py(3): f", False),
        ("torch/nn/modules/module.py(3): f", False),
        ("<built-in method run>", False),
        ("threading.py(953): run", False),
        ("asyncio/events.py(80): _run", False),
        ("/usr/lib/python3.10/asyncio/events.py(80): _run", False),
        ("/usr/lib64/python3.9/json/decoder.py(3): f", False),
        ("C:\\Python311\\Lib\\asyncio\\events.py(80): _run", False),
        ("models/profile/run.py(3): f", True),
        ("/workspace/code/train.py(3): f", True),
    ],
)
def test_a_function_of_the_program_itself(name, is_own):
    assert is_own_function(name) is is_own
