"""Conditions: a load sweep is one series a load, and only measurements of equal conditions are compared."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import Done, write_results, write_rules

from perfgate.core.conditions import TABLE, conditions_of, load_order, nearest_conditions
from perfgate.core.runs import Key

Command = Callable[..., Done]
#: Requests per second, and the median time to the first token in ms.
LOADS = ((1, 86.25), (2, 92.5), (4, 110.75), (6, 148.5), (8, 231.0), (12, 402.25), (16, 614.5))
SMALL, LARGE = "Qwen/Qwen3-0.6B", "meta-llama/Llama-3.1-8B"


def record(rate: object = 4, ttft: float = 110.75, **more: Any) -> dict[str, Any]:
    """One result of `vllm bench serve`."""
    fields = {"backend": "vllm", "model_id": SMALL, "num_prompts": 240, "request_rate": rate, "burstiness": 1.0}
    results = {"duration": 61.5, "completed": 240, "request_throughput": 3.9, "median_ttft_ms": ttft}
    return {**fields, "max_concurrency": None, **results, **more}


def write(path: Path, *records: dict[str, Any]) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(one) + "\n" for one in records), encoding="utf-8")
    return path


def sweep(path: Path, times: float = 1.0, loads: Sequence[tuple[int, float]] = LOADS) -> Path:
    return write(path, *(record(rate, ttft * times, duration=61.5 + times) for rate, ttft in loads))


def outcomes(done: Done, folder: Path) -> dict[str, str]:
    verdicts = json.loads((folder / "report.json").read_text())["verdicts"]
    return {verdict["labels"].get("request_rate", ""): verdict["outcome"] for verdict in verdicts}


def test_a_load_sweep_is_one_series_a_load(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "median_ttft under 500 ms")
    done = perfgate("check", sweep(folder / "sweep.jsonl"), "--json", "report.json")
    assert done.code == 1
    expected = {**dict.fromkeys(("1", "2", "4", "6", "8", "12"), "pass"), "16": "fail"}
    assert outcomes(done, folder) == expected
    assert list(outcomes(done, folder)) == ["1", "2", "4", "6", "8", "12", "16"]
    assert "1 run" in done.out


def test_a_rule_can_name_a_load(perfgate: Command, folder: Path) -> None:
    write_rules(folder, 'median_ttft{request_rate="8"} under 200 ms', 'median_ttft{request_rate="1"} under 200 ms')
    done = perfgate("check", sweep(folder / "sweep.jsonl"), "--json", "report.json")
    assert (done.code, outcomes(done, folder)) == (1, {"8": "fail", "1": "pass"})


@pytest.mark.parametrize("form", ["lines", "folder", "list"])
def test_only_equal_records_are_runs(perfgate: Command, folder: Path, form: str) -> None:
    records = [record(1, 80.0), record(1, 82.0), record(2, 90.0)]
    path = write(folder / "twice.jsonl", *records)
    if form == "list":
        path.write_text(json.dumps(records))
    if form == "folder":
        records = records[1:]
        path = folder / "all"
        for index, one in enumerate(records):
            write(path / f"{index}.json", one)
    write_rules(folder, "median_ttft under 500 ms")
    done = perfgate("check", path, "--json", "report.json")
    assert (done.code, outcomes(done, folder)) == (0, {"1": "pass", "2": "pass"})
    runs = [verdict["new"]["runs"] for verdict in json.loads((folder / "report.json").read_text())["verdicts"]]
    assert runs == ([1, 1] if form == "folder" else [2, 1])


OTHER = record(16, 83.0, model_id=LARGE, tensor_parallel_size=8)
BOTH = (SMALL, LARGE, "request_rate is 16", "4", "tensor_parallel is 8", "unknown")


def test_runs_of_different_conditions_are_refused(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "median_ttft under 500 ms")
    done = perfgate("check", write(folder / "a.json", record()), write(folder / "b.json", OTHER))
    assert done.code == 3
    said = " ".join(done.said.split())
    assert f"model is {SMALL} in a.json and {LARGE} in b.json" in said
    assert "request_rate is 4 in a.json and 16 in b.json" in said


@pytest.mark.parametrize("sentence", ["median_ttft within 5% of baseline", "median_ttft under 500 ms"])
def test_a_baseline_of_other_conditions_is_refused(perfgate: Command, folder: Path, sentence: str) -> None:
    write_rules(folder, sentence)
    small, large = write(folder / "small.json", record()), write(folder / "large.json", OTHER)
    assert perfgate("baseline", "approve", small, "--reason", "first").code == 0
    done = perfgate("check", large)
    assert done.code == 3
    said = " ".join(done.said.split())
    assert all(word in said for word in BOTH)
    assert "approve" not in said
    assert perfgate("baseline", "add", large).code == 1


def test_compare_says_once_that_the_conditions_differ(perfgate: Command, folder: Path) -> None:
    done = perfgate(
        "compare", write(folder / "a.json", record()), "--new", write(folder / "b.json", OTHER), "--json", "report.json"
    )
    assert done.code == 3
    said = " ".join(done.said.split())
    assert f"model is {SMALL} in the base and {LARGE} in the new runs" in said
    assert json.loads((folder / "report.json").read_text())["verdicts"] == []


def test_a_longer_sweep_is_compared_where_both_sides_have_a_load(perfgate: Command, folder: Path) -> None:
    base, new = sweep(folder / "base.jsonl", loads=LOADS[:2]), sweep(folder / "new.jsonl", 1.5, loads=LOADS[:3])
    write_rules(folder, "median_ttft within 5% of baseline")
    assert perfgate("baseline", "approve", base, "--reason", "first").code == 0
    done = perfgate("check", new, "--json", "report.json")
    assert (done.code, outcomes(done, folder)) == (3, {"1": "undecided", "2": "undecided", "4": "error"})


def test_two_models_live_beside_each_other_in_one_level(perfgate: Command, folder: Path) -> None:
    write_rules(folder, 'median_ttft{model="*8B"} within 50% of baseline')
    models = [write(folder / f"{m[-2:]}.json", record(4, 80.0, model_id=m)) for m in (SMALL, LARGE)]
    assert perfgate("baseline", "approve", *models, "--reason", "first").code == 0
    new = write(folder / "new.json", record(4, 81.0, model_id=LARGE))
    done = perfgate("check", new, "--json", "report.json")
    (verdict,) = json.loads((folder / "report.json").read_text())["verdicts"]
    assert verdict["base"]["runs"] == 1, done.said


def test_a_rule_file_adds_a_condition(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "median_ttft within 5% of baseline", head="conditions: [scheduler]\n")
    base = write(folder / "base.json", record(scheduler="fcfs"))
    assert perfgate("baseline", "approve", base, "--reason", "first").code == 0
    done = perfgate("check", write(folder / "new.json", record(scheduler="priority", duration=9.5)))
    assert done.code == 3
    assert "scheduler is priority here and fcfs in the baseline" in " ".join(done.said.split())


def test_labels_of_results_are_conditions_by_name(perfgate: Command, folder: Path) -> None:
    one, other = (
        {"metric": "latency", "unit": "ms", "value": 8.0 + size, "labels": {"batch_size": str(size)}} for size in (1, 4)
    )
    write_rules(folder, "latency within 5% of baseline")
    write_results(folder / "base.json", one)
    write_results(folder / "new.json", other)
    assert perfgate("baseline", "approve", "base.json", "--reason", "first").code == 0
    done = perfgate("check", "new.json")
    assert done.code == 3
    assert "batch_size is 4 here and 1 in the baseline" in " ".join(done.said.split())


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"model_id": "m", "request_rate": 8.0}, {"model": "m", "request_rate": "8"}),
        ({"request_rate": "inf", "num_prompts": 100}, {"request_rate": "inf", "num_prompts": "100"}),
        (
            {"request_rate": "inf", "num_prompts": 100, "max_concurrency": 4},
            {"request_rate": "inf", "concurrency": "4"},
        ),
        ({"request_rate": 4, "num_prompts": 100, "burstiness": 1.0}, {"request_rate": "4"}),
        ({"burstiness": 0.5, "max_concurrency": None}, {"burstiness": "0.5"}),
        ({"endpoint_type": "openai-chat"}, {"backend": "openai-chat"}),
        ({"endpoint_type": "a", "backend": "b"}, {"backend": "b"}),
        ({"dataset_name": "random", "random_input_len": 512}, {"dataset": "random", "input_len": "512"}),
        ({"dataset_name": "sharegpt", "random_input_len": 1024}, {"dataset": "sharegpt"}),
        ({"server_info": {"model_path": "m", "tp_size": 2}}, {"model": "m", "tensor_parallel": "2"}),
        ({"tp": "4"}, {"tensor_parallel": "4"}),
        ({"dtype": "auto", "batch_size": 8}, {"batch_size": "8"}),
        ({"model_id": ["x"], "request_rate": {}}, {}),
    ],
)
def test_which_fields_are_conditions(fields: dict[str, Any], expected: dict[str, str]) -> None:
    assert conditions_of(fields, "vllm") == expected


def test_every_condition_has_a_source() -> None:
    assert all(field.source and field.names for fields in TABLE.values() for field in fields)


def test_a_record_for_the_dashboard_has_the_conditions_of_its_benchmark(perfgate: Command, folder: Path) -> None:
    def one(name: str, batch: int) -> dict[str, Any]:
        benchmark = {"name": "vLLM benchmark", "extra_info": {"args": {"batch_size": batch, "dtype": "bfloat16"}}}
        return {
            "benchmark": benchmark,
            "model": {"name": "m"},
            "metric": {"name": name, "benchmark_values": [1.5], "extra_info": {}},
        }

    (folder / "d.json").write_text(json.dumps([one("avg_latency", 1), one("latency_p50_ms", 1), one("avg_latency", 8)]))
    done = perfgate("inspect", "d.json")
    assert done.code == 0
    names = [line.split("  ")[0] for line in done.out.splitlines() if "{" in line]
    assert names == [
        'avg_latency{batch_size="1", dtype="bfloat16", model="m"}',
        'avg_latency{batch_size="8", dtype="bfloat16", model="m"}',
        'latency_p50{batch_size="1", dtype="bfloat16", model="m"}',
    ]


TABLE_OF_SWEEPS = [
    ("the largest request_rate with median_ttft under 500 ms at least 6", 0, "pass", 12.0),
    ("the largest request_rate with median_ttft under 140 ms at least 6", 1, "fail", 4.0),
    ("the largest request_rate with median_ttft under 1 ms at least 1", 1, "fail", 0.0),
    ("the largest request_rate with median_ttft under 500 ms and duration under 1 min at least 1", 1, "fail", 0.0),
    ("the largest request_rate with median_ttft under 5 s at least 16", 0, "pass", 16.0),
    ("the largest request_rate with median_ttft under 5 s at least 20", 3, "error", None),
    ('the largest request_rate{request_rate!="16"} with median_ttft under 5 s at least 16', 3, "error", None),
    ("request_throughput with median_ttft under 500 ms at least 3 /s", 0, "pass", 3.9),
    ("request_throughput with median_ttft under 1 ms at least 3 /s", 1, "fail", 0.0),
    ("the largest request_rate with median_ttft under 500 MB at least 6", 3, "error", None),
    ("the largest batch_size with median_ttft under 500 ms at least 6", 3, "error", None),
    ("the largest request_rate with p42_ttft under 500 ms at least 6", 3, "error", None),
]


@pytest.mark.parametrize(("rule", "code", "outcome", "value"), TABLE_OF_SWEEPS, ids=[row[0] for row in TABLE_OF_SWEEPS])
def test_the_largest_load_that_keeps_its_limits(
    perfgate: Command, folder: Path, rule: str, code: int, outcome: str, value: float | None
) -> None:
    write_rules(folder, rule)
    done = perfgate("check", sweep(folder / "sweep.jsonl"), "--json", "report.json")
    (verdict,) = json.loads((folder / "report.json").read_text())["verdicts"]
    assert (done.code, verdict["outcome"]) == (code, outcome), done.said
    assert (verdict["new"] or {}).get("estimate") == value


def test_a_lucky_load_beyond_a_slow_one_does_not_count(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "the largest request_rate with median_ttft under 500 ms at least 8")
    done = perfgate("check", sweep(folder / "s.jsonl", loads=[(4, 90.0), (8, 700.0), (16, 80.0), ("inf", 10.0)]))
    assert done.code == 1
    assert "is 4" in done.out


def test_a_sweep_over_two_conditions_asks_for_one(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "request_throughput with median_ttft under 500 ms at least 1 /s")
    records = [record(rate, 80.0, max_concurrency=limit) for rate in (1, 2) for limit in (4, 8)]
    done = perfgate("check", write(folder / "s.jsonl", *records))
    assert done.code == 3
    assert "concurrency and request_rate both change" in " ".join(done.said.split())


def test_a_shorter_sweep_is_not_a_regression(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "the largest request_rate with median_ttft under 500 ms within 5% of baseline")
    assert perfgate("baseline", "approve", sweep(folder / "base.jsonl"), "--reason", "first").code == 0
    done = perfgate("check", sweep(folder / "new.jsonl", 1.01, loads=LOADS[:4]))
    assert done.code == 3
    assert "every load of new.jsonl keeps the limits" in " ".join(done.said.split())


def test_one_run_of_a_sweep_is_not_proof(perfgate: Command, folder: Path) -> None:
    """2 % more latency can move the answer by a whole step of the sweep."""
    write_rules(folder, "the largest request_rate with median_ttft under 150 ms within 5% of baseline")
    assert perfgate("baseline", "approve", sweep(folder / "base.jsonl"), "--reason", "first").code == 0
    assert perfgate("check", sweep(folder / "new.jsonl", 1.02)).code == 3


def test_the_page_shows_the_curves_of_both_sides(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "the largest request_rate with median_ttft under 500 ms at least 6")
    assert perfgate("baseline", "approve", sweep(folder / "base.jsonl"), "--reason", "first").code == 0
    perfgate("check", sweep(folder / "new.jsonl", 1.25), "--html", "page.html", "--json", "report.json")
    page = (folder / "page.html").read_text()
    section = page.partition("<h2>Load sweeps</h2>")[2].partition("</section>")[0]
    assert section.count("<svg") == 1
    assert '<td class="n">16</td><td class="n">614.5 ms</td><td class="n">768.1 ms</td>' in section
    (curve,) = json.loads((folder / "report.json").read_text())["evidence"]["sweeps"]
    assert curve["base"] == [[rate, pytest.approx(ttft / 1000)] for rate, ttft in LOADS]
    perfgate("report", "report.json", "--html", "again.html")
    assert section in (folder / "again.html").read_text()


def test_a_text_that_float_takes_for_nan_is_a_text() -> None:
    loads = ["NaN", "10", "inf", "model", "9", "nan", "-1"]
    for turned in (loads, loads[::-1], sorted(loads)):
        assert sorted(turned, key=load_order) == ["-1", "9", "10", "inf", "NaN", "model", "nan"]


def test_the_nearest_key_may_be_of_another_rank() -> None:
    key, other = Key.of("ttft", model=SMALL, rank="0"), Key.of("ttft", model=LARGE, rank="3")
    assert nearest_conditions(key, [Key.of("tpot", model=SMALL), other]) == other
