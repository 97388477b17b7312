"""Formats of CI stores of benchmarks, and of PyTorch's own: written here as their sources do, and read back."""

import json
import random

import pytest
from damage import check_changes, check_pieces
from reading import errors, run_of, runs_of, said, values_of

RANDOM = random.Random(5)


def units_of(run):
    return {str(one.key): (one.unit, one.kind) for one in run.series}


def test_the_array_of_github_action_benchmark():
    written = [
        {"name": "latency", "unit": "ms", "value": 12.5, "range": "± 3%", "extra": "100 samples"},
        {"name": "a/b", "unit": "ns/iter", "value": 250},
        {"name": "rate", "unit": "ops/sec", "value": "1200.5"},
        {"name": "size", "unit": "MiB", "value": 2},
        {"name": "memory", "unit": "Percent", "value": 50},
        {"name": "score", "unit": "points", "value": -3},
    ]
    run = run_of(json.dumps(written, indent=1))
    assert (run.format, said(run)) == ("benchmark-action", [])
    assert values_of(run) == {
        "latency": [0.0125],
        "a/b": [250e-9],
        "rate": [1200.5],
        "size": [2 * 2**20],
        "memory": [0.5],
        "score": [-3],
    }
    assert units_of(run)["rate"] == ("1/s", "value")


def test_damaged_arrays():
    run = run_of(json.dumps([{"name": "a", "unit": "ms", "value": -1}, {"unit": "s", "value": 1}, 5], indent=1))
    assert {line.partition("error: ")[2] for line in errors(run)} == {
        "a: -1 is negative, so it is not a measurement; left out",
        "a benchmark has no 'name'; left out",
        "5 is not an object; left out",
        "no measurements",
    }


def test_bencher():
    written = {
        "benchmark_name": {
            "latency": {"value": 88.0, "lower_value": 87.42, "upper_value": 88.88},
            "throughput": {"value": 5.55, "lower_value": 3.14, "upper_value": 6.30},
        },
        "/bin/sh -c ./my_build_script.sh": {"build-time": {"value": 87.0}},
        "my_binary": {"file-size": {"value": 42.0}, "p99_ms": {"value": 5.0}, "instructions": {"value": 7}},
    }
    run = run_of(json.dumps(written))
    assert (run.format, said(run)) == ("bencher", [])
    assert values_of(run) == {
        "benchmark_name.latency": [88e-9],
        "benchmark_name.throughput": [5.55],
        "/bin/sh -c ./my_build_script.sh.build-time": [87],
        "my_binary.file-size": [42],
        "my_binary.p99_ms": [0.005],
        "my_binary.instructions": [7],
    }
    assert units_of(run)["benchmark_name.latency"] == ("s", "value")


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"a": {"latency": {"value": None}}}, "a.latency: null is not a number"),
        ({"a": {"latency": {"value": 1}}, "b": {"latency": {}}}, "b.latency: a list or object has no 'value'"),
        ({"a": {"latency": {"value": 1}}, "b": {}}, "'b' has no measures"),
    ],
)
def test_bencher_without_a_value(document, problem):
    assert problem in errors(run_of(json.dumps(document)))[0]


def test_a_home_made_file_with_units_is_not_benchers():
    """Its latency would be read as ns."""
    run = run_of(json.dumps({"a": {"latency": {"value": 12.5, "unit": "ms"}}}))
    assert (run.format, run.series) == ("unknown", ())


def hud(**more):
    benchmark = {"name": "TorchAO benchmark", "mode": "inference", "dtype": "int8wo"}
    return {
        "benchmark": {**benchmark, "extra_info": {"device": "cuda", "arch": "NVIDIA H100"}},
        "model": {"name": "llama", "type": "model", "origins": ["pytorch"], "backend": "triton"},
        "metric": {"name": "latency", "unit": "ms", "benchmark_values": [12.5, 12.75], "target_value": 0.0, **more},
        "runners": [{"name": "x", "gpu_name": "NVIDIA H100"}],
    }


LABELS = (
    '{arch="NVIDIA H100", backend="triton", benchmark="TorchAO benchmark", device="cuda", dtype="int8wo", '
    'mode="inference", model="llama"}'
)


@pytest.mark.parametrize("form", ["list", "lines"])
def test_records_of_the_hud(form):
    records = [
        hud(),
        hud(name="tok/s", unit="", benchmark_values=[400.5]),
        hud(name="memory(GB)", benchmark_values=[2]),
    ]
    records[2]["metric"].pop("unit")
    texts = [json.dumps(record) for record in records]
    run = run_of(f"[{', '.join(texts)}]" if form == "list" else "\n".join(texts) + "\n")
    assert (run.format, said(run), dict(run.environment)) == ("pytorch-hud", [], {"gpu": "NVIDIA H100"})
    assert values_of(run) == {
        f"latency{LABELS}": [0.0125, 0.01275],
        f"tok/s{LABELS}": [400.5],
        f"memory(GB){LABELS}": [2e9],
    }
    assert {kind for _, kind in units_of(run).values()} == {"samples", "value"}


def test_equal_records_of_the_hud_are_runs():
    runs = runs_of(json.dumps([hud(), hud(benchmark_values=[1.0])]))
    assert [values_of(run) for run in runs] == [{f"latency{LABELS}": [0.0125, 0.01275]}, {f"latency{LABELS}": [0.001]}]


def test_records_of_vllm_are_read_as_those_of_vllm():
    record = hud(name="mean_ttft_ms", benchmark_values=[90.5])
    record["benchmark"]["name"] = "vLLM benchmark"
    assert run_of(json.dumps([record])).format == "vllm"


def test_records_of_the_hud_without_values():
    assert "null is not a list of values" in errors(run_of(json.dumps([hud(benchmark_values=None)])))[0]
    assert "a record has no metric with a name" in errors(runs_of(json.dumps([hud(), hud(name=None)]))[1])[0]


COLUMNS = "dev,name,batch_size,speedup,abs_latency,compilation_latency,compression_ratio,eager_peak_mem,dynamo_peak_mem"
ROW = "cpu,BERT_pytorch,2,2.014039,58.901280,38.538333,0.923878,250.866893,271.536947"


def test_the_csv_of_the_dynamo_runners():
    run = run_of(
        f"running benchmark: 100%\n{COLUMNS},graph_breaks\n{ROW},0\nsome other line\ncuda,resnet18,16,1.5,,,,,,\n"
    )
    labels = '{batch_size="2", device="cpu"}'
    assert (run.format, said(run)) == ("torchbench", [])
    assert values_of(run) == {
        f"BERT_pytorch.speedup{labels}": [2.014039],
        f"BERT_pytorch.abs_latency{labels}": [0.05890128],
        f"BERT_pytorch.compilation_latency{labels}": [38.538333],
        f"BERT_pytorch.compression_ratio{labels}": [0.923878],
        f"BERT_pytorch.eager_peak_mem{labels}": [pytest.approx(250.866893e9)],
        f"BERT_pytorch.dynamo_peak_mem{labels}": [pytest.approx(271.536947e9)],
        f"BERT_pytorch.graph_breaks{labels}": [0],
        'resnet18.speedup{batch_size="16", device="cuda"}': [1.5],
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (f"{COLUMNS}\n", "this table has a header and no row"),
        (f"{COLUMNS}\ncuda,x,1\n", "a row has 3 cells, and its header has 9"),
        (f"{COLUMNS}\ncuda,x,1,,,,,,\n", "this row has no number: the model failed"),
        (f"{COLUMNS}\ncuda,x,1,1.0,nan,1,1,1,1\n", "nan is not a finite number"),
        ("dev,name,batch_size,accuracy\ncuda,x,1,fail_accuracy\n", "the accuracy is 'fail_accuracy'"),
    ],
)
def test_rows_of_models_that_failed(text, problem):
    assert problem in errors(run_of(text))[0]


def test_a_userbenchmark():
    name = "model=alexnet, test=eval, device=cuda, bs=None, metric=latencies"
    environ = {"pytorch_git_version": "0" * 40, "pytorch_version": "2.9.0"}
    run = run_of(
        json.dumps({"name": "test_bench", "environ": environ, "metrics": {name: 4.5, "load_ms": 5, "none": None}})
    )
    assert (run.format, said(run), run.commit, dict(run.environment)) == (
        "torchbench",
        [],
        "0" * 40,
        {"torch": "2.9.0"},
    )
    assert values_of(run) == {name: [4.5], "load_ms": [0.005]}


def test_tritonbench():
    """`BenchmarkOperatorResult.write_csv_to_file`."""
    backends, metrics = ("aten_matmul", "triton_tutorial"), ("latency", "tflops", "speedup", "gbps", "accuracy")
    lines = [";".join(["(M, N, K)", *(f"{backend}-{metric}" for backend in backends for metric in metrics)])]
    values = {}
    factors = {"latency": 1e-3, "tflops": 1e12, "gbps": 1e9}
    for x in ("(1024, 1024, 1024)", "(2048, 2048, 2048)"):
        row = [x]
        for backend in backends:
            for metric in metrics:
                value = RANDOM.uniform(0.001, 99)
                row.append("True" if metric == "accuracy" else str(value))
                expected = 1 if metric == "accuracy" else value * factors.get(metric, 1)
                values[f'{backend}.{metric}{{x="{x}"}}'] = [pytest.approx(expected)]
        lines.append(";".join(row))
    lines.append(";".join(["average", *("1.0" for _ in range(10))]))
    run = run_of("\r\n".join(lines) + "\r\n")
    assert (run.format, said(run)) == ("tritonbench", [])
    assert values_of(run) == values


def test_a_backend_of_tritonbench_that_failed():
    run = run_of("x_val;a-latency;b-latency\n128;0.5;CUDA out of memory\naverage;0.5;\n")
    assert values_of(run) == {'a.latency{x="128"}': [0.0005]}
    assert "b.latency" in errors(run)[0]
    assert "the backend failed: 'CUDA out of memory'" in errors(run)[0]


def test_rows_of_tritonbench_that_cannot_be_read_are_errors_of_their_own_run():
    header = "x_val;a-latency\n"
    first = f"{header}1;2;3\n128;0.5\n256;1;1\naverage;0.5\n"
    runs = runs_of(f"{first}{header}128;0.5;1\n128;0.25\n256;1;1\naverage;0.5\n")
    lines = [[problem.at.line for problem in run.problems if problem.severity == "error"] for run in runs]
    assert lines == [[2, 4], [7, 9]]


def test_tables_of_tritonbench_below_each_other_are_runs():
    table = "x_val;a-latency\n128;{}\naverage;0.5\n"
    runs = runs_of(table.format("0.5") + table.format("0.8"))
    assert [values_of(run) for run in runs] == [{'a.latency{x="128"}': [one]} for one in (0.0005, 0.0008)]
    run = run_of("x_val;a-latency\n128;0.5\n128;0.8\naverage;0.6\n")
    assert values_of(run) == {'a.latency{x="128"}': [0.0005], 'a.latency#2{x="128"}': [0.0008]}


TEXTS = {
    "benchmark-action": json.dumps([{"name": "latency", "unit": "ms", "value": 12.5}]),
    "bencher": json.dumps({"a": {"latency": {"value": 88.0, "lower_value": 87.42}}}),
    "pytorch-hud": json.dumps([hud()]),
    "torchbench": f"{COLUMNS}\n{ROW}\n",
    "tritonbench": "x_val;a-latency;b-latency\n128;0.5;0.25\n",
}


@pytest.mark.parametrize("name", TEXTS)
def test_damaged_files(name):
    check_pieces(TEXTS[name], name)
    check_changes(TEXTS[name], name, times=50)
