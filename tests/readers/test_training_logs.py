"""Training logs: written here with the format strings of the programs' sources, and read back exactly."""

import json
import random

import numpy as np
import pytest
from damage import check_changes, check_pieces
from reading import errors, run_of, runs_of, said, steps_of, values_of

from perfgate.core import Key
from perfgate.readers.values import Column

RANDOM = random.Random(7)
STEPS = 12


def nanogpt(steps=range(STEPS)):
    """`train.py`: the mfu is -1 until five iterations have passed."""
    lines, values = [], {"iteration_time": [], "mfu": [], "loss": []}
    for step in steps:
        loss, dt, mfu = RANDOM.uniform(0, 11), RANDOM.uniform(0.001, 200), RANDOM.random() if step > 4 else -1.0
        lines.append(f"iter {step}: loss {loss:.4f}, time {dt * 1000:.2f}ms, mfu {mfu * 100:.2f}%")
        values["iteration_time"].append(float(f"{dt * 1000:.2f}") / 1000)
        values["loss"].append(float(f"{loss:.4f}"))
        values["mfu"] += [float(f"{mfu * 100:.2f}") / 100] if mfu >= 0 else []
    lines.insert(0, "step 0: train loss 4.2874, val loss 4.2823")
    return lines, values | {"train_loss": [4.2874], "val_loss": [4.2823]}


RED, GREEN, ORANGE, BLUE, CYAN, MAGENTA, RESET = (f"\033[{code}m" for code in (31, 32, "38;5;214", 34, 36, 35, 0))


def torchtitan(steps=range(1, STEPS + 1), prefix="[titan] 2026-01-16 02:43:35,918 - root - INFO - ", rank=""):
    """`MetricsProcessor.log` with colours."""
    lines, values = [], {}
    for step in steps:
        loss, norm, memory, tps, tflops, mfu = (RANDOM.uniform(0, 99) for _ in range(6))
        tps = tps * 1000
        mfu_text = f"{mfu:.2f}%" if step % 3 else "N/A"
        lines.append(
            f"{prefix}{RED}step: {step:2}  {GREEN}loss: {loss:8.5f}  {ORANGE}grad_norm: {norm:7.4f}  "
            f"memory: {memory:5.2f}GiB({memory:.2f}%)  {BLUE}tps: {round(tps):,}  {CYAN}tflops: {tflops:,.2f}  "
            f"{MAGENTA}mfu: {mfu_text}{RESET}"
        )
        read = {
            "loss": float(f"{loss:.5f}"),
            "grad_norm": float(f"{norm:.4f}"),
            "memory.peak_reserved": float(f"{memory:.2f}") * 2**30,
            "tokens_per_second_per_gpu": round(tps),
            "throughput_per_gpu": float(f"{tflops:.2f}") * 10**12,
        }
        for name, value in (read | ({"mfu": float(f"{mfu:.2f}") / 100} if step % 3 else {})).items():
            values.setdefault(name + rank, []).append(value)
    return lines, values


def nemo(steps=range(STEPS)):
    """`ProgressPrinter.format_string`: whole floats are printed as integers, others with `.4`."""
    lines, values = [], {}
    for step in steps:
        metrics = {
            "lr": RANDOM.uniform(0, 1e-4),
            "global_batch_size": 128.0,
            "global_step": float(step),
            "max_memory_reserved": 127785762816.0,
            "max_memory_allocated": float(RANDOM.randint(10**9, 10**11)),
            "reduced_train_loss": RANDOM.uniform(0, 12),
            "train_step_timing in s": RANDOM.uniform(0.01, 30),
            "TFLOPS_per_GPU": RANDOM.uniform(1, 2000),
            "tokens_per_sec_per_gpu": RANDOM.uniform(1, 9000),
            "consumed_samples": 128.0 * step,
        }
        printed = {name: str(int(v)) if v.is_integer() else f"{v:.4}" for name, v in metrics.items()}
        fields = "".join(f" | {name}: {text}" for name, text in printed.items())
        lines.append(f"Training epoch 0, iteration {step}/11{fields}")
        for name, metric, factor in (
            ("max_memory_reserved", "memory.peak_reserved", 1),
            ("max_memory_allocated", "memory.peak_allocated", 1),
            ("reduced_train_loss", "reduced_train_loss", 1),
            ("train_step_timing in s", "iteration_time", 1),
            ("TFLOPS_per_GPU", "throughput_per_gpu", 10**12),
            ("tokens_per_sec_per_gpu", "tokens_per_second_per_gpu", 1),
        ):
            values.setdefault(metric, []).append(float(printed[name]) * factor)
    return lines, values


def maxtext(steps=range(STEPS)):
    """`MetricLogger._log_training_metrics`."""
    lines, values = [], {}
    for step in steps:
        time, tflops, tokens, loss = (RANDOM.uniform(0.001, 9000) for _ in range(4))
        parts = [f"completed step: {step}", f"seconds: {time:.3f}", f"TFLOP/s/device: {tflops:.3f}"]
        parts += [f"Tokens/s/device: {tokens:.3f}", "total_weights: 196608", f"loss: {loss:.3f}"]
        lines.append(", ".join([*parts, f"lm_loss: {loss:.3f}", f"perplexity: {loss:.3f}"]))
        read = {"iteration_time": time, "tokens_per_second_per_gpu": tokens}
        read |= dict.fromkeys(("loss", "lm_loss", "perplexity"), loss)
        for name, value in read.items():
            values.setdefault(name, []).append(float(f"{value:.3f}"))
        values.setdefault("throughput_per_gpu", []).append(float(f"{tflops:.3f}") * 10**12)
    lines.append("Completed eval after train step 11, loss=2.500, perplexity=12.250, total_weights=9, avg_z_loss=0.125")
    return lines, values | {"eval.loss": [2.5], "eval.perplexity": [12.25], "eval.avg_z_loss": [0.125]}


def levanter(steps=range(STEPS)):
    """`JsonLoggerTracker.log`: a step has several records."""
    lines, values = [], {}

    def record(event, metrics, **more):
        lines.append("2026-04-02 INFO " + json.dumps({"tracker": "json_logger", "event": event, **more} | metrics))

    record("summary", {"metrics": {"throughput/device_kind": "TPU v4", "throughput/theoretical_flops": 2.75e14}})
    for step in steps:
        time, rate, mfu, loss = (RANDOM.uniform(0.001, 90) for _ in range(4))
        record("log", {"metrics": {"train/loss": loss, "global_step": step, "optim/learning_rate": 1e-4}}, step=step)
        throughput = {"total_tokens": step * 4096, "tokens_per_second": rate, "duration": time, "mfu": mfu}
        throughput |= {"gflops_per_second": rate, "examples_per_second": rate}
        record("log", {"metrics": {f"throughput/{name}": value for name, value in throughput.items()}}, step=step)
        record("log", {"metrics": {"throughput/hook_time": time}}, step=step)
        read = {"loss": loss, "tokens_per_second": rate, "iteration_time": time, "mfu": mfu / 100}
        read |= {"throughput": rate * 10**9, "samples_per_second": rate, "hook_time": time}
        for name, value in read.items():
            values.setdefault(name, []).append(value)
    record("finish", {"summary": {"train/loss": 1.0}})
    return lines, values


WRITERS = {"nanogpt": nanogpt, "torchtitan": torchtitan, "nemo": nemo, "maxtext": maxtext, "levanter": levanter}


@pytest.mark.parametrize("name", WRITERS)
def test_what_was_written_is_read(name):
    lines, values = WRITERS[name]()
    run = run_of("\n".join(["some other line", *lines, ""]))
    assert (run.format, said(run)) == (name, [])
    assert values_of(run) == values
    steps = steps_of(run)
    time = steps.get("iteration_time") or steps["loss"]
    assert time == list(range(STEPS))


@pytest.mark.parametrize("name", WRITERS)
def test_a_run_that_was_appended_is_another_run(name):
    lines, values = WRITERS[name]()
    runs = runs_of("\n".join([*lines, *lines, ""]))
    assert [values_of(run)["loss" if name != "nemo" else "iteration_time"] for run in runs] == [
        values["loss" if name != "nemo" else "iteration_time"]
    ] * 2


@pytest.mark.parametrize("name", WRITERS)
def test_a_cut_last_record_is_left_out(name):
    lines, values = WRITERS[name](range(1, 5))
    at = max(index for index, line in enumerate(lines) if "Completed" not in line and "finish" not in line)
    run = run_of("\n".join(lines[: at + 1])[:-3])
    assert said(run) == [f"train.log:{at + 1}: warning: the last record is cut off; left out"]
    assert all(len(read) <= 4 for read in values_of(run).values())
    assert values_of(run).items() != values.items()


@pytest.mark.parametrize("name", WRITERS)
def test_damaged_logs(name):
    text = "\n".join([*WRITERS[name](range(1, 4))[0], ""])
    check_pieces(text, name)
    check_changes(text, name, times=60)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("iter 1: loss 2.5000, time nanms, mfu 3.00%", "iteration_time: nan is not a finite number"),
        ("step:  1  loss:  2.5  memory: -1.00GiB(2.00%)  tps: -5  mfu: 1.00%", "tokens_per_second_per_gpu: -5 is"),
        ("completed step: 1, seconds: soon, TFLOP/s/device: 1.000", "iteration_time: 'soon' is not a number"),
        ("Training epoch 0, iteration 1/9 | train_step_timing in s: -1.0", "iteration_time: -1.0 is negative"),
        (
            '{"tracker": "json_logger", "event": "log", "step": 1, "metrics": {"throughput/duration": NaN}}',
            "iteration_time: nan is not a finite number",
        ),
        ('{"tracker": "json_logger", "event": "log", "step": 1, "metrics": ', "a record cannot be read"),
    ],
)
def test_values_that_cannot_be_true_are_refused(line, problem):
    assert f"train.log:1: error: {problem}" in errors(run_of(line + "\n"))[0]


def test_ranks_with_the_prefix_of_the_launcher_are_told_apart():
    first, values = torchtitan(prefix="[rank0]:[titan] ", rank='{rank="0"}')
    second, more = torchtitan(prefix="[rank3]:[titan] ", rank='{rank="3"}')
    run = run_of("\n".join(line for pair in zip(first, second, strict=True) for line in pair) + "\n")
    assert said(run) == []
    assert values_of(run) == values | more


def test_a_step_that_every_process_prints_is_one_value():
    """A process may be one step behind: that is no restart."""
    lines, values = torchtitan()
    twice = [line for line in lines for _ in range(3)]
    twice[5], twice[6] = twice[6], twice[5]
    run = run_of("\n".join([*twice, ""]))
    assert values_of(run) == values
    assert "warning: a step is printed again, perhaps by another process" in said(run)[0]
    assert not errors(run)


def test_what_only_one_process_prints_has_a_value_for_each_step():
    """Only the first of these values was kept: in later steps, no line before had one to join it with."""
    line = "Training epoch 0, iteration {0}/2 | global_step: {0} | train_step_timing in s: 6.5"
    lines = [line.format(step) + more for step in range(3) for more in ("\n", f" | grad_norm: {step}.5\n")]
    run = run_of("".join(lines))
    assert values_of(run) == {"iteration_time": [6.5] * 3, "grad_norm": [0.5, 1.5, 2.5]}
    assert steps_of(run)["grad_norm"] == [0, 1, 2]


def test_lines_without_a_value_have_no_part_in_the_mean_of_a_step():
    line = "Training epoch 0, iteration {}/1 | train_step_timing in s: 6.5{}"
    norms = ("\n", " | grad_norm: nan\n", " | grad_norm: 2.0\n", " | grad_norm: 4.0\n", " | grad_norm: 9.0\n")
    run = run_of("".join(line.format(step, more) for step in range(2) for more in norms))
    assert values_of(run) == {"iteration_time": [6.5] * 2, "grad_norm": [5.0] * 2}


def test_a_step_is_the_mean_of_the_lines_of_all_processes():
    """Each line has values of its own; without ranks, they are one value of the step, and all of them are read."""
    lines = [
        f"step: {step:2}  loss:  2.5000  memory: {gib}.00GiB(50.00%)  tps: {tps}  tflops: {tflops}  mfu: 20.00%\n"
        for step, others in enumerate(
            (((40, 9, 1), (40, 9, 1)), ((40, 100, 10), (42, 104, 14)), ((41, 110, 20), (40, 90, 10))), 1
        )
        for gib, tps, tflops in others
    ]
    lines[3], lines[4] = lines[4], lines[3]  # one process is behind
    run = run_of("".join(lines))
    values = values_of(run)
    assert values["throughput_per_gpu"] == [1e12, 12e12, 15e12]
    assert values["tokens_per_second_per_gpu"] == [9, 102, 100]
    assert values["memory.peak_reserved"] == [40 * 2**30, 42 * 2**30, 41 * 2**30]
    assert not run.coverage[0].unread


def test_torchtitan_of_2024_and_its_validation():
    run = run_of(
        "CUDA capacity: NVIDIA H100 with 94.99GiB memory\n"
        "step:  1  loss: 12.2  memory: 40.00GiB(42.11%)  wps: 1,234  mfu: 20.00%\n"
        "validate step:  1  loss:  2.4011  memory: 60.00GiB(75.92%)  tps: 120,001\n"
    )
    assert dict(run.environment) == {"gpu": "NVIDIA H100"}
    assert values_of(run) == {
        "loss": [12.2],
        "memory.peak_reserved": [40 * 2**30],
        "tokens_per_second_per_gpu": [1234],
        "mfu": [0.2],
        "validation.loss": [2.4011],
        "validation.memory.peak_reserved": [60 * 2**30],
        "validation.tokens_per_second_per_gpu": [120001],
    }


def test_progress_bars_of_nemo_count_once_for_each_step():
    bars = [
        f"Epoch 0: :  4%|4         | {step}/100 [00:21<08:36, reduced_train_loss=11.00, global_step={step}.000, "
        f"consumed_samples=32.00, train_step_timing in s=5.{step}00]"
        for step in (1, 1, 2, 3, 3)
    ]
    run = run_of("\r".join([*bars, ""]) + "\n")
    assert run.format == "nemo"
    assert values_of(run) == {"reduced_train_loss": [11, 11, 11], "iteration_time": [5.1, 5.2, 5.3]}


def test_maxtext_of_2023_its_eval_steps_and_facts():
    run = run_of(
        "System Information: Jax Version: 0.8.2\nNum_devices: 64, shape (1, 1, 64)\n"
        "[Rampup Batch Size Phase], completed step: 0, seconds: 8.693, total_weights: 5, loss: 9.206\n"
        "completed step: 1, seconds: 0.206, TFLOP/s: 72.958, loss: 9.352\n"
        "completed profiler activation/deactivation step: 2, total_weights: 5, loss: 9.352\n"
        "Completed eval step: 0, seconds: 1.250, running loss=1.000\n"
    )
    assert dict(run.environment) == {"jax": "0.8.2", "world_size": 64}
    assert values_of(run) == {
        "iteration_time": [8.693, 0.206],
        "throughput_per_gpu": [72.958e12],
        "loss": [9.206, 9.352],
        "eval.iteration_time": [1.25],
    }


def test_progress_lines_of_levanter():
    """As tqdm-loggable 0.4.1 printed them, and two in its form; the rate is tqdm's running average."""
    before = "2026-11-22 15:50:14,575 - tqdm_loggable.tqdm_logging - INFO :: "
    run = run_of(
        f"{before}Progress on:train 1.00it/12.0it rate:- remaining:? elapsed:00:00 postfix:loss=9.5\n"
        f"{before}Progress on:train 2.00it/12.0it rate:19.9it/s remaining:00:00 elapsed:00:00 postfix:loss=9.4\n"
        "Progress on:train -/100it rate:- remaining:? elapsed:00:00 postfix:-\n"
        "Progress on:train 25.0it/100it rate:4.0s/it remaining:05:00 elapsed:01:40 postfix:loss=9.54\n"
        "Progress on:eval 5.00it/10.0it rate:9.9it/s remaining:00:01 elapsed:00:01 postfix:loss=9.54\n"
        "Progress on:train 50.0it/100it rate:1,024.5it/s remaining:00:01 elapsed:01:41 postfix:loss=9.1\n"
    )
    assert (run.format, said(run)) == ("levanter", [])
    assert values_of(run) == {"progress.iterations_per_second": [19.9, 0.25, 1024.5]}


def test_an_end_of_another_training_is_an_error():
    """Its step does not go back, and its times would take the place of the first ones."""
    log = "step:5/6 train_time:560ms step_avg:140.00ms\nstep:6/6 val_loss:8.7 train_time:710ms step_avg:142.00ms\n"
    run = run_of(f"{log}step:250/250 val_loss:4.75 train_time:82.5s step_avg:330.00ms\n")
    assert values_of(run)["train_time"] == [pytest.approx(0.71)]
    assert "the last evaluation occurs twice" in errors(run)[0]


def test_columns_share_their_steps_if_they_are_equal_however_they_came():
    counted, listed = (Column(Key(name), "s", 1.0, None) for name in ("a", "b"))
    counted.extend(np.ones(3), range(3))
    listed.extend(np.ones(3), np.arange(3))
    assert counted.has_steps_of(listed)
    assert listed.has_steps_of(counted)
    listed.extend(np.ones(2), np.array([3, 5]))
    counted.extend(np.ones(2), range(3, 5))
    assert not listed.has_steps_of(counted)
