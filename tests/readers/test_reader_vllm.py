import json

import pytest
from damage import check_changes, check_pieces
from hypothesis import given
from hypothesis import strategies as st
from reading import errors, run_of, runs_of, said
from reading import values_of as values_by_key

from perfgate.core import Run
from perfgate.readers import Source, recognise


def values_of(run: Run) -> dict[str, list[float]]:
    """The values by metric, for files with one load."""
    return {str(key).partition("{")[0]: values for key, values in values_by_key(run).items()}


SERVE = {
    "date": "20250101-120000",
    "backend": "vllm",
    "model_id": "org/model",
    "num_prompts": 3,
    "request_rate": "inf",
    "duration": 51.25,
    "completed": 3,
    "total_input_tokens": 600,
    "request_throughput": 1.95,
    "request_goodput": None,
    "output_throughput": 379.5,
    "total_token_throughput": 812.5,
    "max_output_tokens_per_s": 410.0,
    "mean_ttft_ms": 90.125,
    "median_ttft_ms": 85.5,
    "std_tpot_ms": 1.5,
    "p99.9_itl_ms": 45.5,
    "p99_e2el_ms": 8000.5,
    "input_lens": [200, 200, 200],
    "ttfts": [0.09, 0.08, 0.1],
    "itls": [[0.02, 0.03], [0.021], []],
    "errors": ["", "", ""],
    "generated_texts": ["a", "b", "c"],
}
#: All requests are sent at once, so their number is a condition, too.
LABELS = '{backend="vllm", model="org/model", num_prompts="3", request_rate="inf"}'


def test_serve():
    run = run_of(json.dumps(SERVE))
    assert (run.format, run.problems, dict(run.environment)) == ("vllm", (), {})
    assert values_of(run) == {
        "duration": [51.25],
        "completed": [3],
        "request_throughput": [1.95],
        "output_throughput": [379.5],
        "total_token_throughput": [812.5],
        "max_output_tokens_per_s": [410],
        "mean_ttft": [90.125 / 1000],
        "median_ttft": [0.0855],
        "std_tpot": [0.0015],
        "p99.9_itl": [0.0455],
        "p99_e2el": [8.0005],
        "ttft": [0.09, 0.08, 0.1],
        "itl": [0.02, 0.03, 0.021],
    }
    kinds = {series.key.metric: (series.kind, series.unit) for series in run.series}
    assert (kinds["ttft"], kinds["itl"]) == (("samples", "s"), ("samples", "s"))
    assert (kinds["mean_ttft"], kinds["duration"]) == (("value", "s"), ("value", "s"))
    assert (kinds["request_throughput"], kinds["completed"]) == (("value", "1/s"), ("value", "1"))


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (
            {"avg_latency": 1.5, "latencies": [1.25, 1.75], "percentiles": {"50": 1.5}},
            {"avg_latency": [1.5], "latency": [1.25, 1.75]},
        ),
        (
            {"elapsed_time": 8.5, "num_requests": 10, "requests_per_second": 1.18, "tokens_per_second": 400.5},
            {"elapsed_time": [8.5], "requests_per_second": [1.18], "tokens_per_second": [400.5]},
        ),
        (
            [
                {
                    "benchmark": {"name": "vLLM benchmark"},
                    "metric": {"name": "mean_ttft_ms", "benchmark_values": [90.5]},
                },
                {"benchmark": {"name": "vLLM benchmark"}, "metric": {"name": "p99_itl_ms", "benchmark_values": [4.5]}},
            ],
            {"mean_ttft": [0.0905], "p99_itl": [0.0045]},
        ),
        (
            [{"duration": 1.5, "completed": 1, "request_throughput": 2.5}],
            {"duration": [1.5], "completed": [1], "request_throughput": [2.5]},
        ),
    ],
    ids=["latency", "throughput", "pytorch", "list"],
)
def test_other_shapes(result, expected):
    run = run_of(json.dumps(result))
    assert (run.format, run.problems) == ("vllm", ())
    assert values_of(run) == expected


@pytest.mark.parametrize("join", ["lines", "list"])
def test_several_runs_in_a_file(join):
    each = [json.dumps({**SERVE, "duration": 51.25 + index}) for index in range(3)]
    runs = runs_of("\n".join(each) + "\n" if join == "lines" else f"[{', '.join(each)}]")
    assert [(run.part, values_of(run)["duration"]) for run in runs] == [(1, [51.25]), (2, [52.25]), (3, [53.25])]
    assert not any(run.problems for run in runs)


def test_lines_of_several_runs_count_from_the_top_of_the_file():
    bad = json.dumps({**SERVE, "duration": -1.0})
    runs = runs_of(json.dumps(SERVE) + "\n\n" + bad + "\n" + json.dumps(SERVE)[:-30])
    assert len(runs) == 3
    assert [(problem.at.line, str(problem.key)) for problem in runs[1].problems] == [(3, f"duration{LABELS}")]
    assert "train.log:4:" in errors(runs[2])[0]
    assert "cut off" in errors(runs[2])[0]


def test_failed_requests_are_left_out():
    failed = {
        **SERVE,
        "failed": 1,
        "ttfts": [0.09, 0.0, 0.1],
        "itls": [[0.02], [0.5], [0.03]],
        "errors": ["", "", "refused"],
    }
    run = run_of(json.dumps(failed))
    assert said(run) == [f"train.log: warning: 2 requests failed; left out of ttft and itl with {LABELS}"]
    assert (values_of(run)["ttft"], values_of(run)["itl"], values_of(run)["failed"]) == ([0.09], [0.02], [1])


def test_nothing_completed_is_an_error():
    assert errors(run_of(json.dumps({**SERVE, "completed": 0}))) == [
        f"train.log: error: no request was completed with {LABELS}"
    ]


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-0.5", '"slow"', "true"])
@pytest.mark.parametrize(("old", "key"), [("90.125", "mean_ttft"), ("0.021", "itl"), ("1.95", "request_throughput")])
def test_values_that_cannot_be_true_are_refused(text, old, key):
    lines = json.dumps(SERVE, indent=1)
    run = run_of(lines.replace(old, text))
    (problem,) = run.problems
    assert (problem.severity, str(problem.key)) == ("error", f"{key}{LABELS}")
    assert old in lines.splitlines()[problem.at.line - 1]


def test_many_refused_values_are_counted():
    run = run_of(json.dumps({**SERVE, "ttfts": [-1.0] * 50, "errors": []}))
    assert len(errors(run)) == 21
    assert errors(run)[-1].endswith(f"ttft{LABELS}: and 30 more values left out")


def test_a_cut_document_is_an_error():
    run = run_of(json.dumps(SERVE)[:-20])
    assert run.series == ()
    assert "cut off" in errors(run)[0]
    assert run.problems[0].key is None


def test_other_documents_are_not_vllm():
    for other in ({"duration": 1}, [{"a": 1}], {"completed": 3, "duration": 2}):
        assert recognise(Source("f", [json.dumps(other).encode()])).format != "vllm"


times = st.lists(st.floats(1e-9, 1e6), min_size=1, max_size=20)


@given(
    ttfts=times, itls=st.lists(times, min_size=1, max_size=5), mean=st.floats(0, 1e9), indent=st.sampled_from([None, 2])
)
def test_what_was_written_is_read(ttfts, itls, mean, indent):
    written = {**SERVE, "ttfts": ttfts, "itls": itls, "mean_ttft_ms": mean, "errors": []}
    values = values_of(run_of(json.dumps(written, indent=indent)))
    assert values["ttft"] == ttfts
    assert values["itl"] == [time for each in itls for time in each]
    assert values["mean_ttft"] == [mean / 1000]


def test_damaged_files():
    check_pieces(json.dumps(SERVE), "vllm")
    check_changes(json.dumps(SERVE), "vllm")
    check_changes(json.dumps(SERVE) + "\n" + json.dumps(SERVE), "vllm")


def test_all_values_of_a_record_for_the_dashboard_are_read():
    record = {"benchmark": {"name": "vLLM benchmark"}, "metric": {"name": "latency", "benchmark_values": [1.5, 1.25]}}
    assert values_of(run_of(json.dumps([record]))) == {"latency": [1.5, 1.25]}
    record["metric"]["name"] = "other"
    assert "a metric with several values cannot be read: other" in errors(run_of(json.dumps([record])))[0]


def test_the_steady_state():
    steady = {
        "request_throughput": 5.5,
        "mean_ttft_ms": 65,
        "percentiles_ttft_ms": [[99.0, 319.5]],
        "window": {"start_s": 1.5},
    }
    run = run_of(json.dumps(SERVE | {"steady_state": steady}))
    found = {name: values for name, values in values_of(run).items() if "steady_state" in name}
    assert {name.partition("{")[0]: values for name, values in found.items()} == {
        "steady_state.request_throughput": [5.5],
        "steady_state.mean_ttft": [0.065],
        "steady_state.p99_ttft": [0.3195],
    }
    assert not any(part.unread for part in run.coverage)
