"""Results of one condition are repetitions, whatever else differs in them; results of others are refused."""

from __future__ import annotations

import json

import pytest
from reading import errors, run_of, runs_of

from perfgate.readers import Source, read
from perfgate.readers.unlabelled import with_mixed_refused

VLLM = {"backend": "vllm", "model_id": "m/x", "request_rate": "inf", "max_concurrency": 8, "completed": 200}
VLLM |= {"duration": 10.1, "request_throughput": 19.8, "mean_ttft_ms": 20.1, "mean_itl_ms": 5.0}
SERVE = """Namespace(model='m/x', request_rate=inf, seed={seed}, port={port}, request_id_prefix='bench-{id}-')
============ Serving Benchmark Result ============
{row}Mean TTFT (ms):                          20.1
==================================================
"""
#: Fields that differ between honest repetitions of one measurement.
HARMLESS = {
    "date": ("20251101-101010", "20251102-111111"),
    "label": ("run1", "run2"),
    "hostname": ("n1", "n2"),
    "tag": ("a", "b"),
    "run_name": ("nightly-1", "nightly-2"),
    "version": ("0.11.0", "0.11.1"),
    "seed": (1, 2),
    "image": ("v:1", "v:2"),
    "slurm_job_id": ("77", "78"),
    "pod": ("bench-x1", "bench-x2"),
    "user": ("u", "v"),
    "namespace": ("ci-a", "ci-b"),
    "container_id": ("c1", "c2"),
    "log_file": ("a.log", "b.log"),
    "ci": (True, False),
    "cuda_version": ("12.8", "12.9"),
    "gpu_uuid": ("GPU-1", "GPU-2"),
    "git_dirty": (True, False),
    "git_commit": ("abc1234", "def5678"),
    "output_dir": ("/a", "/b"),
    "master_addr": ("10.0.0.1:29500", "n2:29501"),
    "runner": ("r-1", "r-2"),
    "port": (8000, 8001),
    "attempt": (1, 2),
    "driver_version": ("580", "581"),
}


def both(first: dict[str, object], second: dict[str, object]) -> list[str]:
    runs = [
        run for name, one in (("a", first), ("b", second)) for run in read(Source(name, [json.dumps(one).encode()]))
    ]
    return [message for run in with_mixed_refused(runs) for message in errors(run)]


def test_fields_of_sweeps_are_compared_load_by_load():
    loads = [VLLM | {"max_concurrency": load, "routing": routing} for load, routing in ((8, "rr"), (16, "aware"))]
    other = [*loads[:1], loads[1] | {"routing": "random"}]
    texts = ["".join(json.dumps(one) + "\n" for one in made) for made in (loads, loads[::-1], other)]
    runs = [run for name, text in zip("abc", texts, strict=True) for run in read(Source(name, [text.encode()]))]
    assert [errors(run) for run in with_mixed_refused(runs[:2])] == [[], []]
    (message,) = [message for run in with_mixed_refused(runs) for message in errors(run)]
    assert "routing is random here and aware in" in message
    assert "`conditions: [routing]`" in message


def test_headings_of_sweeps_distinguish_no_files():
    table = "| model | backend | test | t/s |\n| --- | --- | --: | --: |\n"
    rows = "".join(f"| llama 7B | CUDA | {test} | 700 ± 1.0 |\n" for test in ("pp512", "tg128"))
    runs = [run for name in "ab" for run in read(Source(name, [f"## {name}\n{table}{rows}".encode()]))]
    assert [errors(run) for run in with_mixed_refused(runs)] == [[], []]


@pytest.mark.parametrize("name", HARMLESS)
def test_what_differs_between_repetitions(name):
    one, other = HARMLESS[name]
    assert both(VLLM | {name: one}, VLLM | {name: other}) == []


@pytest.mark.parametrize(("name", "one", "other"), [("routing", "rr", "random"), ("chunked_prefill", True, False)])
def test_what_differs_between_conditions(name, one, other):
    (message,) = both(VLLM | {name: one}, VLLM | {name: other})
    assert f"{name} is {other} here and {one} in a" in message


def test_files_of_a_sweep_are_no_repetitions():
    one, other = VLLM | {"window": {"goal": "low"}}, VLLM | {"max_concurrency": 16, "window": {"goal": "high"}}
    assert both(one, other) == []
    assert "window.goal is high here and low in a" in both(one, other | {"max_concurrency": 8})[0]


@pytest.mark.parametrize("name", ["input", "output"])
def test_the_length_of_all_requests_is_a_condition(name):
    one, other = (VLLM | {f"total_{name}_tokens": 200 * length} for length in (1024, 4096))
    (message,) = both(one, other)
    assert f"{name}_tokens_per_request is 4096 tokens here and 1024 tokens in a" in message
    assert both(one, VLLM | {f"total_{name}_tokens": 200 * 1024 + 17}) == []  # lengths that vary
    few, others = (VLLM | {"completed": 10, f"total_{name}_tokens": total} for total in (1230, 1240))
    assert both(few, others) == []  # one in ten means is whole by chance


def serve(row: str = "", seed: int = 0) -> str:
    return SERVE.format(seed=seed, port=8000 + seed, id=f"1a2b3c{seed:02}", row=row)


def test_blocks_with_another_word_are_refused_unless_it_is_a_label():
    text = serve("Architecture:       plain\n") + serve("Architecture:       lora\n")
    (message,) = [message for run in runs_of(text) for message in errors(run)]
    assert "Architecture is lora here and plain" in message
    (run,) = read(Source("a.log", [text.encode()], conditions=["Architecture"]))
    assert {series.key.label("Architecture") for series in run.series} == {"plain", "lora"}


def test_blocks_of_one_condition_are_repetitions():
    runs = runs_of(serve(seed=1) + serve(seed=2))
    assert len(runs) == 2
    assert not any(map(errors, runs))


def test_the_command_above_a_block_has_its_conditions():
    command = (
        "python benchmark_serving.py --backend vllm \\\n--model m/x --dataset-name random \\\n --random-input-len {}\n"
    )
    block = serve().partition("\n")[2]
    run = run_of(command.format(1024) + block + command.format(4096) + block)
    assert {series.key.label("input_len") for series in run.series} == {"1024", "4096"}
    assert {series.key.label("model") for series in run.series} == {"m/x"}
