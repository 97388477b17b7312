"""nvbandwidth, nvbench, rocprofv3 and SuperBench: files written here as their sources do, and read back exactly."""

import json
import math
import random
from functools import reduce
from operator import getitem

import pytest
from damage import check_changes, check_pieces, check_types
from reading import errors, run_of, runs_of, said, values_of

from perfgate.readers import Source, read

RANDOM = random.Random(3)

# --- nvbandwidth ----------------------------------------------------------------------------------------------------

VERSION = (
    "nvbandwidth Version: v0.8\nBuilt from Git version: v0.8\n\nCUDA Runtime Version: 12080\nDriver Version: 570.1\n\n"
)
DEVICES = "".join(f"Device {at}: NVIDIA H100 80GB HBM3 (00000000:{at}b:00)\n" for at in range(2))


def matrix(width, height=None):
    """Cells of a matrix; without a height it is of pairs of GPUs, and nobody measures a GPU with itself."""
    return [
        [None if height is None and row == column else RANDOM.uniform(1, 900) for column in range(width)]
        for row in range(height or width)
    ]


def printed(key, description, cells):
    """`operator<<` of PeerValueMatrix, with two decimals."""
    lines = [description, "  " + "".join(f"{column:10}" for column in range(len(cells[0])))]
    for row, values in enumerate(cells):
        lines.append(f"{row:2}" + "".join("       N/A" if one is None else f"{one:10.2f}" for one in values))
    total = sum(one for row in cells for one in row if one is not None)
    return "\n".join([*lines, "", f"SUM {key} {total:.2f}", ""])


def read_of(key, cells, unit=1e9, digits=2):
    expected = {
        f'{key}{{column="{column}", row="{row}"}}': [pytest.approx(round(one, digits) * unit, rel=1e-5)]
        for row, values in enumerate(cells)
        for column, one in enumerate(values)
        if one is not None
    }
    total = sum(one for row in cells for one in row if one is not None)
    return expected | {f"{key}.sum": [pytest.approx(total * unit, rel=1e-3)]}


HOST, PEERS, READ1, READ2, TOTAL, LATENCY = matrix(2, 1), matrix(3), matrix(2), matrix(2), matrix(2), matrix(2, 1)
BIDIRECTIONAL = "device_to_device_bidirectional_memcpy_read_ce"
NVBANDWIDTH = (
    f"{VERSION}host\n{DEVICES}\n"
    f"Running host_to_device_memcpy_ce.\n"
    + printed("host_to_device_memcpy_ce", "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)", HOST)
    + "\nWaived: \nRunning device_to_device_memcpy_read_ce.\n"
    + printed("device_to_device_memcpy_read_ce", "memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)", PEERS)
    + f"\nRunning {BIDIRECTIONAL}.\n"
    + "".join(
        printed(f"{BIDIRECTIONAL}_{part.lower()}", f"memcpy CE GPU(row) <-> GPU(column) {part} bandwidth (GB/s)", cells)
        for part, cells in (("Read1", READ1), ("Read2", READ2), ("Total", TOTAL))
    )
    + "\nRunning host_device_latency_sm.\n"
    + printed("host_device_latency_sm", "memory latency SM CPU(row) <-> GPU(column) (ns)", LATENCY)
    + "\nNOTE: The reported results may not reflect the full capabilities of the platform.\n"
)
NVBANDWIDTH_VALUES = (
    read_of("host_to_device_memcpy_ce", HOST)
    | read_of("device_to_device_memcpy_read_ce", PEERS)
    | read_of(f"{BIDIRECTIONAL}_read1", READ1)
    | read_of(f"{BIDIRECTIONAL}_read2", READ2)
    | read_of(f"{BIDIRECTIONAL}_total", TOTAL)
    | read_of("host_device_latency_sm", LATENCY, 1e-9)
)


def test_printed_matrices_of_nvbandwidth():
    run = run_of(NVBANDWIDTH)
    assert (run.format, said(run)) == ("nvbandwidth", [])
    assert dict(run.environment) == {"gpu": "NVIDIA H100 80GB HBM3", "gpu_count": 2, "driver": "570.1"}
    assert values_of(run) == NVBANDWIDTH_VALUES
    assert {series.kind for series in run.series} == {"value"}
    units = {str(series.key): series.unit for series in run.series}
    assert (units["host_device_latency_sm.sum"], units["host_to_device_memcpy_ce.sum"]) == ("s", "B/s")


@pytest.mark.parametrize("head", [True, False])
def test_several_outputs_of_nvbandwidth_are_several_runs(head):
    later = NVBANDWIDTH if head else NVBANDWIDTH[NVBANDWIDTH.index("Running ") :]
    runs = runs_of(NVBANDWIDTH + later)
    assert [values_of(run) for run in runs] == [NVBANDWIDTH_VALUES] * 2
    assert [run.environment for run in runs] == [runs[0].environment] * 2
    assert "this file has 2 runs" in said(runs[0])[0]


def test_a_matrix_of_nvbandwidth_that_is_printed_again_replaces_nothing():
    again = printed("host_to_device_memcpy_ce", "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)", matrix(2, 1))
    first = NVBANDWIDTH[: NVBANDWIDTH.index("Waived: ")]
    run = run_of(f"{first}{again}")
    assert values_of(run) == read_of("host_to_device_memcpy_ce", HOST)
    assert "occurs twice; using the first" in errors(run)[0]


def document(**more):
    """`JsonOutput`: cells are strings of six digits, and a bidirectional test has three matrices in one."""

    def test(name, description, *matrices):
        rows = [[("N/A" if one is None else f"{one:.6g}") for one in row] for cells in matrices for row in cells]
        total = sum(one for row in matrices[-1] for one in row if one is not None)
        found = {"name": name, "status": "Passed", "bandwidth_matrix": rows, "sum": total}
        return found | {"bandwidth_description": description}

    tests = [
        test("host_to_device_memcpy_ce", "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)", HOST),
        test("device_to_device_memcpy_read_ce", "memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)", PEERS),
        {"name": "device_local_copy", "status": "Waived"},
        test(BIDIRECTIONAL, "memcpy CE GPU(row) <-> GPU(column) Total bandwidth (GB/s)", READ1, READ2, TOTAL),
        test("host_device_latency_sm", "memory latency SM CPU(row) <-> GPU(column) (ns)", LATENCY),
        *more.get("tests", ()),
    ]
    devices = [f"{at}: NVIDIA H100 80GB HBM3 (00000000:{at}b:00): (host)" for at in range(2)]
    return {"nvbandwidth": {"Driver Version": "570.1", "GPU Device list": devices, "testcases": tests}}


def test_json_of_nvbandwidth():
    run = run_of(json.dumps(document(), indent=1))
    assert (run.format, said(run)) == ("nvbandwidth", [])
    assert dict(run.environment) == {"gpu": "NVIDIA H100 80GB HBM3", "gpu_count": 2, "driver": "570.1"}
    assert values_of(run) == {
        key: [pytest.approx(value[0].expected, rel=0.01)] for key, value in NVBANDWIDTH_VALUES.items()
    }


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda text: "\n".join(line for line in text.split("\n") if not line.startswith(" 1 ")), "a row is missing"),
        (lambda text: text.partition("SUM host_to_device")[0], "its matrix has no sum"),
        (
            lambda text: text.replace("\nWaived:", "SUM host_to_device_memcpy_ce 1\n\nWaived:", 1),
            "this sum has no matrix",
        ),
        (lambda text: text.partition("memcpy CE CPU")[0], "it has no result"),
        (lambda text: text.partition("memcpy CE CPU")[0] + "Error: out of memory\n", "the test failed: out of memory"),
        (lambda text: text.replace("\n 0 ", "\n 0      77.77 ", 1), "a row has 3 cells, and its header has 2"),
    ],
)
def test_a_table_that_lacks_something_is_an_error(change, problem):
    assert problem in errors(run_of(change(NVBANDWIDTH)))[0]


def test_a_failed_test_in_json_is_an_error():
    run = run_of(
        json.dumps(document(tests=[{"name": "a_test", "status": "Error", "error": "no peer access"}]), indent=1)
    )
    assert "a_test: the test failed" in errors(run)[0]
    assert "no peer access" in errors(run)[0]


# --- nvbench --------------------------------------------------------------------------------------------------------


def summary(tag, hint, value, **more):
    kind = "int64" if isinstance(value, int) else "float64"
    return {"tag": tag, "hint": hint, "data": [{"name": "value", "type": kind, "value": str(value)}]} | more


def nvbench():
    """`json_printer::do_print_benchmark_results`."""
    states, values = [], {}
    for device in (0, 1):
        for kind in ("I32", "I64"):
            mean, cpu, batch, rate = (RANDOM.uniform(1e-6, 1e-2) for _ in range(4))
            summaries = [
                summary("nv/cold/sample_size", "sample_size", 499),
                summary("nv/cold/time/cpu/mean", "duration", cpu, name="CPU Time"),
                summary("nv/cold/time/cpu/stdev/relative", "percentage", 0.25),
                summary("nv/cold/time/gpu/mean", "duration", mean),
                summary("nv/cold/time/gpu/min", "duration", mean / 2),
                summary("nv/cold/time/gpu/stdev/absolute", "duration", mean / 8),
                summary("nv/cold/time/gpu/stdev/relative", "percentage", 0.5),
                summary("nv/cold/bw/global/bytes_per_second", "byte_rate", rate * 1e12),
                summary("nv/cold/bw/global/utilization", "percentage", 0.75),
                summary("nv/cold/walltime", "duration", 0.51, hide="Hidden by default."),
                summary("nv/batch/time/gpu/mean", "duration", batch),
                summary("nv/gmem/reads/Input", "bytes", 4096),
                summary("my/score", None, 7.5),
            ]
            axes = [{"name": "T", "type": "string", "value": kind}, {"name": "N", "type": "int64", "value": "8"}]
            states.append({"name": "x", "device": device, "axis_values": axes, "summaries": summaries})
            states[-1]["is_skipped"] = False
            labels = f'{{N="8", T="{kind}", device="{device}"}}'
            values[f"copy{labels}"] = {"mean": mean, "min": mean / 2, "stddev": mean / 8}
            values[f"copy.cpu_time{labels}"] = {"mean": cpu, "stddev": cpu * 0.25}
            values[f"copy.batch_time{labels}"] = {"mean": batch}
            values[f"copy.bandwidth{labels}"] = rate * 1e12
            values[f"copy.bandwidth_utilization{labels}"] = 0.75
            values[f"copy.my.score{labels}"] = 7.5
    skipped = {"name": "x", "device": 0, "axis_values": None, "summaries": None, "is_skipped": True}
    states.append(skipped | {"skip_reason": "too large"})
    devices = [{"id": at, "name": "Quadro GV100"} for at in (0, 1)]
    meta = {"argv": ["bench"], "version": {"json": {"major": 1}, "nvbench": {"string": "0.1.0"}}}
    return {"meta": meta, "devices": devices, "benchmarks": [{"name": "copy", "index": 0, "states": states}]}, values


def test_nvbench():
    written, values = nvbench()
    run = run_of(json.dumps(written, indent=2))
    found = {str(one.key): dict(one.aggregate) if one.aggregate else one.values[0] for one in run.series}
    assert (run.format, found) == ("nvbench", values)
    assert dict(run.environment) == {"gpu": "Quadro GV100", "gpu_count": 2}
    assert [problem.partition(": ")[2] for problem in said(run)] == [
        'warning: copy{device="0"} was skipped: "too large"'
    ]


@pytest.mark.parametrize("kind", ["absolute", "relative"])
def test_nvbench_writes_an_infinite_deviation_of_fewer_than_five_samples(kind):
    written, _ = nvbench()
    time = [summary("nv/cold/time/gpu/mean", "duration", 0.5), summary(f"nv/cold/time/gpu/stdev/{kind}", "", math.inf)]
    written["benchmarks"][0]["states"] = [{"name": "x", "device": 0, "axis_values": [], "summaries": time}]
    run = run_of(json.dumps(written))
    assert ([dict(one.aggregate) for one in run.series], said(run)) == ([{"mean": 0.5}], [])


def test_a_version_with_a_comma_is_no_operator_of_tunable_op():
    text = "Validator,PT_VERSION,2.10.0\nValidator,ROCBLAS_VERSION,5.0,1\nGemmTunableOp_BFloat16_TN,tn_1,Default,0.5\n"
    run = run_of(text)
    assert (values_of(run), said(run)) == ({'GemmTunableOp_BFloat16_TN{shape="tn_1"}': [0.0005]}, [])


# --- rocprofv3 ------------------------------------------------------------------------------------------------------

STATS = '"Name","Calls","TotalDurationNs","AverageNs","Percentage","MinNs","MaxNs","StdDev"\n'
KERNELS = (
    '"Kind","Agent_Id","Queue_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name","Correlation_Id",'
    '"Start_Timestamp","End_Timestamp","Private_Segment_Size"\n'
)
CALLS = '"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
COPIES = (
    '"Kind","Direction","Source_Agent_Id","Destination_Agent_Id","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
)
COUNTERS = '"Correlation_Id","Dispatch_Id","Agent_Id","Kernel_Name","Counter_Name","Counter_Value"\n'
ADD = "void add<float>(float*, float const*, int)"


def test_statistics_of_rocprof():
    rows = {
        "hipMalloc": (4, 262497406, 65624351.5, 3991286, 249121840, 122332531.343496),
        "MEMORY_COPY_HOST_TO_DEVICE": (1, 32505687, 32505687.0, 32505687, 32505687, 0.0),
        ADD: (2, 3000, 1500.0, 1000, 2000, 707.106781),
    }
    lines = [
        f'"{name}",{calls},{total},{mean:f},10.54,{least},{most},{stddev:f}'
        for name, (calls, total, mean, least, most, stddev) in rows.items()
    ]
    run = run_of(STATS + "\n".join(lines) + "\n")
    kinds = dict(zip(rows, ("api", "memcpy", "kernel"), strict=True))
    assert (run.format, said(run)) == ("rocprof", [])
    assert {str(one.key): dict(one.aggregate) for one in run.series} == {
        str(f'"{kinds[name]}.{name}"' if name == ADD else f"{kinds[name]}.{name}").strip('"'): {
            "count": calls,
            "total": pytest.approx(total / 1e9),
            "mean": pytest.approx(mean / 1e9),
            "min": pytest.approx(least / 1e9),
            "max": pytest.approx(most / 1e9),
            "stddev": pytest.approx(stddev / 1e9),
        }
        for name, (calls, total, mean, least, most, stddev) in rows.items()
    }


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (
            KERNELS
            + f'"KERNEL_DISPATCH",1,1,69,1,16,"{ADD}",1451,8819330200067564,8819330200116308,0\n'
            + f'"KERNEL_DISPATCH",1,1,69,2,16,"{ADD}",1452,8819330200216308,8819330200216309,0\n',
            {f"kernel.{ADD}": [48744e-9, 1e-9]},
        ),
        (
            KERNELS.replace("Agent_Id", "Agent_Id")
            + f'"KERNEL_DISPATCH","Agent 4",1,69,1,16,"{ADD}",1,10,20,0\n'
            + f'"KERNEL_DISPATCH","Agent 5",1,69,2,16,"{ADD}",2,30,60,0\n',
            {f'kernel.{ADD}{{device="4"}}': [10e-9], f'kernel.{ADD}{{device="5"}}': [30e-9]},
        ),
        (
            CALLS + '"HIP_RUNTIME_API","hipMalloc",2,2,1,100,600\n"MARKER_CORE_API","step",2,2,1,100,1100\n',
            {"api.hipMalloc": [500e-9], "range.step": [1000e-9]},
        ),
        (
            COPIES + '"MEMORY_COPY","MEMORY_COPY_HOST_TO_DEVICE",0,1,0,5,10\n',
            {"memcpy.MEMORY_COPY_HOST_TO_DEVICE": [5e-9]},
        ),
        (COUNTERS + f'1,1,1,"{ADD}","SQ_WAVES",16384\n', {f"kernel.{ADD}.SQ_WAVES": [16384]}),
        (
            COUNTERS + '1,1,1,"a","x",1\n1,1,,"a","x",2\n1,1,1,"a","y",3\n',
            {'kernel.a.x{device="1"}': [1], "kernel.a.x": [2], "kernel.a.y": [3]},
        ),
    ],
    ids=["kernels", "agents", "calls", "copies", "counters", "no agent"],
)
def test_traces_of_rocprof(text, values):
    run = run_of(text)
    assert (run.format, said(run)) == ("rocprof", [])
    assert values_of(run) == {key: pytest.approx(one) for key, one in values.items()}


def test_a_kernel_with_the_name_of_a_counter_replaces_nothing():
    run = run_of(KERNELS + '"KERNEL_DISPATCH",1,1,69,1,16,"a.x",1451,8,9,0\n' + COUNTERS + '1,1,1,"a","x",16\n')
    assert values_of(run) == {"kernel.a.x": [pytest.approx(1e-9)], "kernel.a.x#2": [16]}
    assert "a name occurs again" in said(run)[0]


def rocprof_document():
    kernel = {"kernel_id": 16, "formatted_kernel_name": ADD, "kernel_name": "_Z3add.kd"}
    span = {"start_timestamp": 8819330200067564, "end_timestamp": 8819330200067664}
    info = {"kernel_id": 16, "agent_id": {"handle": 7}}
    counts = [{"counter_id": {"handle": 3}, "value": value} for value in (10.0, 6.0)]
    tool = {
        "metadata": {"pid": 1},
        "agents": [{"id": {"handle": 7}, "product_name": "AMD Instinct MI350X", "logical_node_type_id": 0}],
        "counters": [{"id": {"handle": 3}, "name": "SQ_WAVES"}],
        "strings": {
            "buffer_records": [{"kind": "NONE", "operations": []}, {"kind": "HIP", "operations": ["no", "hipMalloc"]}],
            "marker_api": [{"key": 9, "value": "my range"}],
        },
        "kernel_symbols": [kernel],
        "callback_records": {"counter_collection": [{"dispatch_data": {"dispatch_info": info}, "records": counts}]},
        "buffer_records": {
            "kernel_dispatch": [{"kind": 1, "operation": 0, "dispatch_info": info, **span}],
            "hip_api": [{"kind": 1, "operation": 1, **span}],
            "marker_api": [{"kind": 1, "operation": 0, "correlation_id": {"internal": 9}, **span}],
            "memory_copy": [{"kind": 1, "operation": 0, **span}],
        },
    }
    return {"rocprofiler-sdk-tool": [tool]}


def test_json_of_rocprof():
    run = run_of(json.dumps(rocprof_document()))
    assert (run.format, said(run), dict(run.environment)) == ("rocprof", [], {"gpu": "AMD Instinct MI350X"})
    names = (f"kernel.{ADD}", "api.hipMalloc", "range.my range", "memcpy.no")
    assert values_of(run) == {name: [pytest.approx(100e-9)] for name in names} | {f"kernel.{ADD}.SQ_WAVES": [16]}


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("agents 0 id handle", "'id.handle' is not an integer: a list or object"),
        ("counters 0 id handle", "'id.handle' is not an integer"),
        ("kernel_symbols 0 kernel_id", "'kernel_id' is not an integer"),
        ("strings marker_api 0 key", "'key' is not an integer"),
        ("buffer_records kernel_dispatch 0 dispatch_info kernel_id", "'kernel_id' is not an integer"),
        ("buffer_records kernel_dispatch 0 dispatch_info agent_id handle", "'agent_id.handle' is not an integer"),
        ("buffer_records marker_api 0 correlation_id internal", "'correlation_id.internal' is not an integer"),
        ("callback_records counter_collection 0 records 0 counter_id handle", "'counter_id.handle' is not an integer"),
        ("buffer_records hip_api 0", "a list or object is not an object; left out"),
        ("agents 0", "a list or object is not an object; left out"),
    ],
)
def test_a_list_in_json_of_rocprof_is_an_error_with_its_line(path, problem):
    document = json.loads(json.dumps(rocprof_document()))  # nothing is in it twice
    *outer, last = ["rocprofiler-sdk-tool", 0, *(int(key) if key.isdigit() else key for key in path.split())]
    reduce(getitem, outer, document)[last] = [["wrong"]]
    text = json.dumps(document, indent=1)
    line = text[: text.index('"wrong"')].count("\n") - 1  # that of the outer bracket
    assert errors(run_of(text))[0].startswith(f"train.log:{line}:")
    assert problem in errors(run_of(text))[0]


def test_counters_of_rocprof_without_a_definition_are_told_apart_by_their_numbers():
    document = rocprof_document()
    tool = document["rocprofiler-sdk-tool"][0]
    del tool["counters"]
    tool["callback_records"]["counter_collection"][0]["records"].append({"counter_id": {"handle": 4}, "value": 1.0})
    found = values_of(run_of(json.dumps(document)))
    assert {name: one for name, one in found.items() if name.startswith(f"kernel.{ADD}.")} == {
        f"kernel.{ADD}.3": [16],
        f"kernel.{ADD}.4": [1],
    }


def test_an_operation_of_rocprof_has_the_name_at_its_number():
    document = rocprof_document()
    document["rocprofiler-sdk-tool"][0]["strings"]["buffer_records"][0] = None
    assert "api.hipMalloc" in values_of(run_of(json.dumps(document)))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (KERNELS, "this table has a header and no row"),
        (KERNELS + '"KERNEL_DISPATCH",1\n', "train.log:2: error: a row has 2 cells, and its header has 11"),
        (COPIES + '"MEMORY_COPY","X",0,1,0,50,10\n', "memcpy.X: -40 is negative"),
        (COPIES + '"MEMORY_COPY","X",0,1,0,,10\n', "memcpy.X: '' to '10' is not a time in ns"),
        (STATS + '"a",1,nan,1,1,1,1,1\n', "kernel.a: TotalDurationNs: nan is not a finite number"),
    ],
)
def test_rocprof_files_that_lack_something(text, problem):
    assert problem in errors(run_of(text))[0]


@pytest.mark.parametrize(
    "header",
    [
        '"Kernel_Name","Counter_Name","Couter","Start_Timestamp","End_Timestamp"',
        '"Function","Counter_Name","Counter_Value","Start_Timestamp","End_Timestamp"',
        '"Kernel_Name","TotalDurationNs","x","Start_Timestamp","End_Timestamp"',
        '"Function","wgr","x","Start_Timestamp","End_Timestamp"',
    ],
)
def test_a_damaged_column_of_rocprof_leaves_the_others(header):
    (run,) = read(Source("f", [f'{header}\n"add","SQ_WAVES",16,100,200\n'.encode()]), "rocprof")
    assert [series.values.tolist() for series in run.series] == [[pytest.approx(100e-9)]]


# --- SuperBench -----------------------------------------------------------------------------------------------------

SUMMARY = {
    "kernel-launch/event_time:0": 0.0059,
    "kernel-launch/return_code:0": 0,
    "model-benchmarks/pytorch-gpt2/fp32_train_step_time": 83.8,
    "model-benchmarks/pytorch-gpt2/fp32_train_throughput": 382.5,
    "nccl-bw/allreduce_8589934592_busbw:0": 186.4,
    "nccl-bw/allreduce_8589934592_time": 125.0,
    "gemm-flops/fp16_tc_flops:1": 270000.5,
    "cublaslt-gemm/fp16_1_2_3_4_flops": 600.25,
    "cpu-stream/copy_throughput": 200000.0,
    "monitor/gpu_temperature:0": 56,
    "gpcnet-network-test/rr_get_lat_99": None,
}
SUMMARY_VALUES = {
    'kernel-launch/event_time{rank="0"}': 0.0059e-3,
    "model-benchmarks/pytorch-gpt2/fp32_train_step_time": 0.0838,
    "model-benchmarks/pytorch-gpt2/fp32_train_throughput": 382.5,
    'nccl-bw/allreduce_8589934592_busbw{rank="0"}': 186.4e9,
    "nccl-bw/allreduce_8589934592_time": 125e-6,
    'gemm-flops/fp16_tc_flops{rank="1"}': 270000.5e9,
    "cublaslt-gemm/fp16_1_2_3_4_flops": 600.25e12,
    "cpu-stream/copy_throughput": 200e9,
    'monitor/gpu_temperature{rank="0"}': 56,
}


def test_a_summary_of_one_node():
    run = run_of(json.dumps(SUMMARY) + "\n")
    assert (run.format, said(run)) == ("superbench", [])
    assert values_of(run) == {key: [pytest.approx(value)] for key, value in SUMMARY_VALUES.items()}


def test_a_summary_of_several_nodes_has_their_names():
    lines = [json.dumps({**SUMMARY, "node": node}) for node in ("sb-01", "sb-02")]
    run = run_of("\n".join(lines) + "\n")
    assert said(run) == []
    assert len(values_of(run)) == 2 * len(SUMMARY_VALUES)
    assert values_of(run)['cpu-stream/copy_throughput{node="sb-02"}'] == [200e9]


def test_results_of_one_rank():
    result = {"return_code": [0], "fp32_train_step_time": [83.8], "fp32_train_throughput": [382.5, 390.5]}
    raw = {"fp32_train_step_time": [[80.0, 90.5, 81.0]]}
    first = {"name": "pytorch-gpt2", "return_code": 0, "result": result, "raw_data": raw, "reduce_op": {}}
    failed = {"name": "gemm-flops", "return_code": 3, "result": {"return_code": [3]}, "raw_data": {}, "reduce_op": {}}
    run = run_of(json.dumps([first, failed]))
    assert run.format == "superbench"
    assert values_of(run) == {
        "pytorch-gpt2/fp32_train_step_time": [0.08, 0.0905, 0.081],
        "pytorch-gpt2/0/fp32_train_throughput": [382.5],
        "pytorch-gpt2/1/fp32_train_throughput": [390.5],
    }
    assert "gemm-flops failed with the return code 3" in errors(run)[0]


def test_a_broken_line_of_a_summary_is_an_error_with_its_line():
    run = run_of(json.dumps({**SUMMARY, "node": "a"}) + "\n" + json.dumps({**SUMMARY, "node": "b"})[:-20] + "\n")
    assert "train.log:2:" in errors(run)[0]


TEXTS = {
    "nvbandwidth": [NVBANDWIDTH, json.dumps(document(), indent=1)],
    "nvbench": [json.dumps(nvbench()[0])],
    "rocprof": [
        KERNELS + '"KERNEL_DISPATCH",1,1,69,1,16,"x",1451,8,9,0\n',
        STATS + '"a",1,2,2,1,2,2,0\n',
        json.dumps(rocprof_document()),
    ],
    "superbench": [json.dumps({**SUMMARY, "node": "sb-01"}) + "\n"],
}


@pytest.mark.parametrize("name", TEXTS)
def test_damaged_files(name):
    for text in TEXTS[name]:
        check_pieces(text, name)
        check_changes(text, name, times=50)
        if name == "rocprof" and text.startswith("{"):
            check_types(text, name)


# --- nvidia-smi -----------------------------------------------------------------------------------------------------

QUERY = (
    "==============NVSMI LOG==============\n\nGPU 00000000:3B:00.0\n    GPU Power Readings\n"
    "        Power Draw                        : 278.31 W\n"
)


def test_the_last_line_of_nvidia_smi_is_read_only_if_it_is_whole():
    assert values_of(run_of(QUERY)) == {"power": [278.31]}
    for cut in range(2, 8):
        assert values_of(run_of(QUERY[:-cut])) == {}


def test_gpus_without_a_column_that_tells_them_apart_are_warned_of():
    run = run_of("name, memory.used [MiB]\nNVIDIA H100, 10 MiB\nNVIDIA H100, 20 MiB\n")
    assert values_of(run) == {"memory.used": [10 * 2.0**20, 20 * 2.0**20]}
    assert "no column distinguishes GPUs" in said(run)[0]


def test_an_empty_cell_of_nvidia_smi_is_no_value():
    run = run_of("timestamp, power.draw [W], utilization.gpu [%]\n2026/08/01 10:00:00.123, , 98 %\n")
    assert values_of(run) == {"gpu.utilization": [0.98]}
