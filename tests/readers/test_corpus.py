"""Every file of the shared corpus but traces: its format, its runs, and values that were read by eye."""

from pathlib import Path

import pytest
from reading import SHARED, errors, runs_of

CORPUS = SHARED / "corpus"
pytestmark = pytest.mark.shared

#: Format, number of runs, and of one series the first value (or the aggregate). Where a family has a test file of its
#: own, that says more; here is every file.
FILES = {
    "asv/asv_05d283b9.json": ("asv", 1, {"time_coordinates.time_latitude": 6.59472942352295e-05}),
    "asv/asv_cccccccc.json": ("asv", 1, {}),
    "deepspeed-docs/comms-logging.txt": (
        "deepspeed",
        1,
        {'collective.broadcast.avg_latency{size="98.25 MB"}': 8.31712},
    ),
    "deepspeed-docs/flops-profiler.txt": ("deepspeed", 1, {"flops_profiler.forward_latency": 0.07667}),
    "deepspeed/argonne_ALCF_cooldown.txt": (
        "deepspeed",
        1,
        {'memory.allocated{at="After Building Model"}': 3.71 * 2**30},
    ),
    "deepspeed/argonne_ALCF_deprecated.txt": (
        "deepspeed",
        2,
        {
            'forward{rank="0"}': 25.34172,
            'backward_microstep{rank="0"}': 77.70738,
            'optimizer_allgather{rank="0"}': 1.86764,
        },
    ),
    "deepspeed/bigscience_meg_ds_3d_n16_ds_on.out": (
        "megatron",
        1,
        {
            "load-checkpoint": 0.01196,
            "model-and-optimizer-setup": 2.74435,
            'memory.allocated{at="After Building Model"}': 1.73 * 2**30,
        },
    ),
    "deepspeed/bigscience_meg_ds_3d_old_n16.out": ("megatron", 1, {"model and optimizer": 2.48304, "forward": 0}),
    "deepspeed/bigscience_meg_ds_zero_n16-1999616.out": (
        "megatron",
        1,
        {
            "forward": 35.3463,
            "backward-backward": 87.95701,
            'memory.peak_allocated{at="After initializing ZeRO optimizer"}': 19.67 * 2**30,
        },
    ),
    "deepspeed/dschat_step1_opt1.3b.log": (
        "deepspeed",
        1,
        {
            "samples_per_second": 171.97903593624417,
            "memory.allocated": 3.96 * 2**30,
            "memory.peak_allocated": 22.95 * 2**30,
        },
    ),
    "deepspeed/dschat_step2_dpo_opt350m.log": ("deepspeed", 1, {"samples_per_second": 50.86885115471782}),
    "deepspeed/dschat_step3_rlhf.log": ("deepspeed", 1, {"samples_per_second": 78.87912870644737}),
    "deepspeed/zenflow_benchmark_README.txt": (
        "deepspeed",
        1,
        {"selective_optimizer_update": 0.0192, "forward_microstep": 0.05476, "optimizer_step": 0.1282},
    ),
    "google-benchmark/gbench_action.json": ("google-benchmark", 1, {}),
    "hf-trainer/bigscience_hf_ds_gpt2_perf_n16.out": ("hf-trainer", 1, {}),
    "hf-trainer/trainer_state_viz.json": ("hf-trainer", 1, {}),
    "lightning-advanced/doc_robustness_fit-profiler.txt": ("lightning", 1, {}),
    "lightning-docs/lightning_profiler_basic.txt": ("lightning", 1, {}),
    "lightning-docs/lightning_profiler_intermediate.txt": ("lightning", 1, {}),
    "lightning-pytorch/mlops04_fit-perf_logs.txt": ("lightning", 1, {}),
    "lightning-simple/id248156727_pl08_notebook.txt": ("lightning", 1, {}),
    "lightning-simple/id26148489747_pl15_logger.txt": ("lightning", 1, {}),
    "lightning-simple/id26309327266_pl15_exponent.txt": ("lightning", 1, {}),
    "lightning-simple/id31632707522_other_tool_same_shape.txt": ("lightning", 1, {}),
    "lightning-simple/id31741394907_pl2_ddp.txt": ("lightning", 1, {}),
    "lightning-simple/id4414814415_pl09_two_runs.txt": ("lightning", 2, {}),
    "megatron/bigscience_meg_gpt2_perf_n16-1999618.out": ("megatron", 1, {}),
    "megatron/bigscience_meg_gpt2_perf_n16.out": ("megatron", 1, {}),
    "megatron/megatron_golden_bert_a100_old.json": ("megatron", 1, {}),
    "megatron/megatron_golden_bert_h100.json": ("megatron", 1, {}),
    "mlperf/mllog_NVIDIA_results_dgxa100_ngc22.09_pytorch_bert_result_9.txt": ("mlperf", 1, {}),
    "nccl-tests-like/bigscience_all_reduce_bench_a100_n4.txt": (
        "nccl-tests",
        1,
        {'all_reduce.time{rank="6", size="4.0 GB"}': 3.9563},
    ),
    "pyperf/pyperf_doc_outliers.json.gz": ("pyperf", 20, {}),
    "pyperf/pyperf_mult_list_py36.json": ("pyperf", 20, {}),
    "pyperf/pyperf_mult_list_py36_tags.json": ("pyperf", 20, {}),
    "pyperf/pyperf_track_memory.json": ("pyperf", 3, {}),
    "pytest-benchmark/pytest_benchmark_2015_0001.json": ("pytest-benchmark", 1, {}),
    "torch-table/gpumode_lecture4.txt": ("torch-table", 1, {}),
    "torch-table/id13133451093_cudagraph_kernels.txt": ("torch-table", 1, {}),
    "torch-table/id29964644629_memory_flops.txt": ("torch-table", 1, {}),
    "torch-table/id5100024993_T4_memory.txt": ("torch-table", 1, {}),
    "torch-table/id70883536583_XPU.txt": ("torch-table", 1, {}),
    "rocprof/tracelens_rocprof_908_results.json.gz": ("rocprof", 1, {"kernel.__amd_rocclr_copyBuffer": 2.84e-06}),
}
#: Files that hold no measurements that can be trusted whole, and what is said of them.
REFUSED = {
    "asv/asv_05d4f83d.json": "the benchmark failed: its result is null",
    "asv/asv_aaaaaaaa.json": "unknown format",
    "asv/asv_benchmarks.json": "JSON of an unknown format",
    "asv/asv_stdout_six.txt": "console output of asv",
    "mlperf/mllog_ASUSTeK_results_ESCN4A-E11_dlrm_result_2.txt": "no measurements",
    "ncu/ncu_metric_out.csv": "unknown format",
    "other-text/test_attn_profiler_output.txt": "unknown format",
    "pytest-benchmark/pytest_benchmark_action.json": '"... omitted to keep this file small" is not ',
    "pytest-benchmark/pytest_benchmark_several_units.json": '"... omitted to keep this file small" is not ',
}
#: Series of a file in which the tool itself printed times below zero.
WRONG = {"deepspeed/argonne_ALCF_cooldown.txt"}


def read_file(name):
    return runs_of((CORPUS / name).read_bytes(), name=Path(name).name)


@pytest.mark.parametrize("name", FILES)
def test_every_file_is_read(name):
    format, count, expected = FILES[name]
    runs = read_file(name)
    assert [run.format for run in runs] == [format] * count
    assert all(run.series for run in runs)
    found = {str(series.key): series for series in runs[0].series}
    for key, value in expected.items():
        assert found[key].values[0] == pytest.approx(value, rel=1e-12, abs=0)
    assert name in WRONG or not any(errors(run) for run in runs)


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_trusted_is_said(name):
    (run,) = read_file(name)
    assert any(REFUSED[name] in error for error in errors(run))


def test_no_file_is_left_out():
    files = {path.relative_to(CORPUS).as_posix() for path in CORPUS.glob("*/*")}
    read = {name for name in files if not name.startswith(("chrome-trace", "broken/"))}
    assert read == FILES.keys() | REFUSED.keys()
