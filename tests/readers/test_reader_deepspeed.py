import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading import errors, run_of, runs_of, said, steps_of, values_of

PREFIX = "[2024-02-20 09:55:01,105] [INFO] [logging.py:77:log_dist] [Rank 0] "

GENERATIONS = {
    "v0.1": ("time (ms) | forward_microstep: 1.23 | forward: 7.89", {}, ("forward_microstep", "forward")),
    "v0.3.0": ("rank=3 time (ms) | forward: 7.89", {"rank": "3"}, ("forward",)),
    "v0.4": (PREFIX + "rank=0 time (ms) | forward: 7.89", {"rank": "0"}, ("forward",)),
    "v0.10.1": (PREFIX + "time (ms) | fwd: 7.89 | bwd_allreduce_microstep: 1.00", {"rank": "0"}, ("forward",)),
    "v0.18": ("[Rank 2] time (ms) | fwd_microstep: 7.89", {"rank": "2"}, ("forward_microstep",)),
    "no dist": ("[Rank -1] time (ms) | step: 7.89", {"rank": "-1"}, ("step",)),
}


@pytest.mark.parametrize("generation", GENERATIONS)
def test_every_generation_of_lines(generation):
    line, labels, metrics = GENERATIONS[generation]
    run = run_of(line + "\n")
    assert not run.problems
    found = {series.key.metric: series for series in run.series}
    assert set(metrics) <= set(found)
    for series in found.values():
        assert (dict(series.key.labels), series.unit, series.kind) == (labels, "s", "samples")
        assert not series.values.flags.writeable
    assert found[metrics[-1]].values.tolist() == [float("7.89") / 1000]


def test_renamed_timers_are_one_metric_and_keep_the_printed_name():
    run = run_of("[Rank 0] time (ms) | fwd: 1.00 | bwd_inner: 2.00 | bwd_allreduce_microstep: 3.00 | pipe_send: 0.00\n")
    assert {series.key.metric: series.printed_as for series in run.series} == {
        "forward": "fwd",
        "backward_inner": "bwd_inner",
        "backward_allreduce_microstep": "bwd_allreduce_microstep",
        "pipe_send": None,
    }


def test_names_are_never_whitelisted():
    run = run_of("time (ms) | train/valid/test data iterators: 766.34 | load-checkpoint: 1.50\n")
    assert values_of(run) == {"train/valid/test data iterators": [766.34 / 1000], "load-checkpoint": [0.0015]}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("[Rank 0] time (ms) | step: 8.24[2024-02-20 09:55] [Rank 1] time (ms) | step: 1.00\n", {"0": 8.24, "1": 1.0}),
        ("rank=0 time (ms) | step: 8.24rank=1 time (ms) | step: 1.00\n", {"0": 8.24, "1": 1.0}),
        ("12%|##   | 3/99 [00:00<?][Rank 0] time (ms) | step: 8.24 13%|##   | 3/99 [00:01<01:00]\n", {"0": 8.24}),
        ("\x1b[32m[Rank 0] time (ms)\x1b[0m | \x1b[36mstep: 8.24\x1b[0m\x1b]0;title\x07\n", {"0": 8.24}),
        ("    > [Rank 0] time (ms) | step: 8.24   \r\n", {"0": 8.24}),
        ("\0\0[Rank 0] time (ms) | step:  8.24\n", {"0": 8.24}),
        (" 1%|#\r 2%|##[Rank 0] time (ms) | step: 8.24\r\n", {"0": 8.24}),
    ],
)
def test_glued_records(line, expected):
    run = run_of(line)
    assert not run.problems
    assert {series.key.label("rank"): series.values.tolist() for series in run.series} == {
        rank: [value / 1000] for rank, value in expected.items()
    }


def test_moe_names_are_inside_the_parentheses():
    run = run_of("[Rank 0] time (ms) | fwd: 9.00 (fwd_moe: 5.00, 1st_a2a: 1.50, top_k: 0.25)\n")
    assert values_of(run) == {'fwd_moe{rank="0"}': [0.005], '1st_a2a{rank="0"}': [0.0015], 'top_k{rank="0"}': [0.00025]}


def test_the_comms_logger_is_no_record():
    text = "comm op: all_reduce | time (ms): 9.46 | msg size: 678.86 MB\n[Rank 0] time (ms) | fwd: 1.00\n"
    assert values_of(run_of(text)) == {'forward{rank="0"}': [0.001]}


def test_records_without_timers_are_no_measurements():
    assert errors(run_of("[Rank 0] rank=0 time (ms)\n" * 3)) == ["train.log: error: no measurements"]


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "-24.10", "12x", "1.2.3", "", "12 34.5", "1_0.00", "1e999"])
def test_values_that_cannot_be_true_are_refused(text):
    good = "[Rank 0] time (ms) | forward: 1.00 | backward: 2.00\n"
    run = run_of(good * 4 + f"[Rank 0] time (ms) | forward: {text} | backward: 3.00\n" + good)
    assert [len(series.values) for series in run.series] == [5, 6]
    (problem,) = run.problems
    assert (problem.severity, problem.at.line, str(problem.key)) == ("error", 5, 'forward{rank="0"}')


def test_many_refused_values_are_counted():
    run = run_of("[Rank 0] time (ms) | forward: nan | backward: 3.00\n" * 50)
    assert len(errors(run)) == 21
    assert errors(run)[-1].endswith('forward{rank="0"}: and 30 more values left out')


def test_a_field_whose_name_is_lost_is_an_error():
    run = run_of("[Rank 0] time (ms) | forw 1.00 | backward: 3.00\n")
    assert values_of(run) == {'backward{rank="0"}': [0.003]}
    assert errors(run) == ["train.log:1: error: the name of a timer cannot be read: 'forw 1.00'"]


def test_a_name_twice_in_a_record_is_two_values():
    run = run_of("[Rank 0] time (ms) | fwd: 1.00 | forward: 2.00 | fwd: 3.00\n" * 4)
    assert values_of(run) == {'forward{rank="0"}': [0.001, 0.002, 0.003] * 4}


def test_a_refused_value_still_ends_its_step():
    text = (micro(1) + "[Rank 0] time (ms) | fwd: nan\n") * 2 + micro(1)
    assert steps_of(run_of(text)) == {'forward_microstep{rank="0"}': [0, 1, 2]}


def micro(value):
    return f"[Rank 0] time (ms) | fwd_microstep: {value:.2f}\n"


def optimizer(value):
    return f"[Rank 0] time (ms) | optimizer_step: {value:.2f}\n"


def last(value):
    return f"[Rank 0] time (ms) | fwd: {value:.2f} | step: 1.00\n"


def test_steps_with_overflow_can_be_joined():
    overflow = "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 65536\n"
    text = "".join((overflow if step in (0, 3) else optimizer(step)) + micro(step) + last(step) for step in range(5))
    steps = steps_of(run_of(text))
    assert steps['optimizer_step{rank="0"}'] == [1, 2, 4]
    assert steps['forward{rank="0"}'] == steps['forward_microstep{rank="0"}'] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("before", "first"), [("", 0), (last(0), 1)])
def test_micro_steps_of_a_step_share_its_number(before, first):
    text = before + "".join(micro(1) + micro(2) + optimizer(3) + last(4) for _ in range(2))
    steps = steps_of(run_of(text))
    assert steps['forward_microstep{rank="0"}'] == [first, first, first + 1, first + 1]
    assert steps['optimizer_step{rank="0"}'] == [first, first + 1]
    assert steps['forward{rank="0"}'] == [*range(first + 2)]


def test_without_a_last_record_a_name_that_comes_again_begins_a_step():
    steps = steps_of(run_of((optimizer(1) + micro(2)) * 3))
    assert steps == {'optimizer_step{rank="0"}': [0, 1, 2], 'forward_microstep{rank="0"}': [0, 1, 2]}


def test_ranks_count_their_own_steps():
    text = last(1) + last(1).replace("Rank 0", "Rank 1") + last(1)
    steps = steps_of(run_of(text))
    assert steps['forward{rank="0"}'] == [0, 1]
    assert steps['forward{rank="1"}'] == [0]


THROUGHPUT = {
    "0/10, RunningAvgSamplesPerSec=99, CurrSamplesPerSec=12.5, MemAllocated=1.5GB, MaxMemAllocated=2.0GB": {
        "samples_per_second": 12.5,
        "memory.allocated": 1.5 * 2**30,
        "memory.peak_allocated": 2.0 * 2**30,
    },
    "epoch=0/micro_step=20/global_step=10, RunningAvgSamplesPerSec=-inf, CurrSamplesPerSec=12.5": {
        "samples_per_second": 12.5
    },
}


@pytest.mark.parametrize("line", THROUGHPUT)
def test_every_generation_of_throughput(line):
    run = run_of(f"[2023-04-18 01:47:21,522] [INFO] [timer.py:199:stop] {line}\n")
    assert not run.problems
    assert {key: values[0] for key, values in values_of(run).items()} == THROUGHPUT[line]
    assert {series.unit for series in run.series} <= {"1/s", "B"}
    assert all(steps == [9] for steps in steps_of(run).values())


AVERAGE = "train.log:1: warning: `SamplesPerSec` (before v0.7) is a running average; left out"


def test_the_running_average_before_v0_7_is_not_read():
    run = run_of("0/10, SamplesPerSec=12.5, MemAllocated=1.5GB\n0/20, SamplesPerSec=12.6, MemAllocated=2.5GB\n")
    assert (values_of(run), said(run)) == ({"memory.allocated": [1.5 * 2**30, 2.5 * 2**30]}, [AVERAGE])
    assert [part.unread for part in run.coverage] == [()]
    assert said(run_of("0/10, SamplesPerSec=12.5\n")) == [AVERAGE, "train.log: error: no measurements"]


def test_an_infinite_rate_is_refused():
    run = run_of("epoch=0/micro_step=2/global_step=2, RunningAvgSamplesPerSec=1, CurrSamplesPerSec=-inf\n")
    assert "train.log:1: error: samples_per_second: -inf is not a finite number" in errors(run)[0]


TRAINER = {
    "Global Steps: 101 Loss: 1 Data (t): 0.001 Batch (t): 1.856, 1057.47/s": [0.001, 1.856, 1057.47],
    "Train Epoch: 0 Data (t): 0.512 Batch (t): 1.210, 1057.47/s, 264.3/s/gpu LR: 0.1": [0.512, 1.21, 1057.47],
    "Train Epoch: 0 Data (t): 0.512 Batch (t): 1.210 LR: 0.1": [0.512, 1.21],
}


@pytest.mark.parametrize("line", TRAINER)
def test_trainer_lines(line):
    run = run_of(f"2024-02-20,09:58:06 | INFO | {line}\n")
    assert [series.values[0] for series in run.series] == TRAINER[line]
    assert [(series.key.metric, series.unit) for series in run.series] == [
        ("data_time", "s"),
        ("batch_time", "s"),
        ("batch_rate", "1/s"),
    ][: len(run.series)]
    assert steps_of(run)["data_time"] == ([100] if "Global" in line else [0])


def test_environment_facts_come_from_a_fixed_list():
    text = (
        "HF_TOKEN=secret\n"
        "Running in distributed mode. Device: cuda:0.Process (global: 0, local 0), total 4.\n"
        "Rank 0: Completed store-based barrier for key:store_based_barrier_key:1 with 4 nodes.\n"
        "[Rank 0] DeepSpeed info: version=0.9.2, git-hash=unknown, git-branch=unknown\n"
        "torch version .................... 1.13.1\n"
        "  world_size ................... 4\n" + last(1)
    )
    run = run_of(text)
    assert run.environment == {"deepspeed": "0.9.2", "torch": "1.13.1", "world_size": 4}
    assert not run.problems


def test_another_world_size_is_a_warning():
    run = run_of("  world_size ................... 64\n  world_size ................... 1\n" + last(1))
    assert run.environment == {"world_size": 64}
    assert said(run) == ["train.log:2: warning: world_size is 1 here but was 64 before; using 64"]


def test_absent_ranks_are_a_warning_where_several_ranks_print():
    world = "dist_world_size=4\n"
    assert not run_of(world + last(1)).problems
    run = run_of(world + last(1) + last(1).replace("Rank 0", "Rank 2"))
    assert said(run) == ["train.log: warning: 2 ranks printed timers, but world_size is 4"]


def test_a_log_that_ends_in_a_traceback():
    traceback = "Traceback (most recent call last):\n  File x\n"
    assert said(run_of(last(1) + traceback)) == ["train.log:2: warning: the log ends in a traceback"]
    assert not run_of(last(1) + traceback + last(1)).problems


STARTS = (
    "[INFO] [comm.py:652:init_distributed] Initializing TorchBackend in DeepSpeed with backend nccl\n",
    "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default\n",
    "[2025-01-02 15:45:22,160] [INFO] [runner.py:607:main] cmd = python -u -m deepspeed.launcher.launch\n",
    "[Rank 0] DeepSpeed info: version=0.9.2, git-hash=unknown, git-branch=unknown\n",
    "[Rank 0] step=1, skipped=0, lr=[0.1]\n",
    "Global Steps: 1 Data (t): 0.1 Batch (t): 0.2\n",
    "epoch=0/micro_step=1/global_step=1, RunningAvgSamplesPerSec=1, CurrSamplesPerSec=1\n",
)


@pytest.mark.parametrize("start", STARTS)
def test_a_restart_is_another_run(start):
    late = start.replace("step=1,", "step=9,").replace("Steps: 1", "Steps: 9")
    first, second = runs_of(start * 2 + last(1) + late + last(2) + start + last(3), "deepspeed")[-2:]
    assert (first.part, second.part) in {(1, 2), (2, 3)}
    assert second.name.startswith("train.log (run ")
    assert values_of(second)['forward{rank="0"}'] == [0.003]
    for run in (first, second):
        assert any("runs; new runs begin at line" in problem for problem in said(run))


def test_engines_that_share_a_stream_are_one_run():
    text = "".join(
        f"[Rank 0] step={step}, skipped={skipped}, lr=[0.1]\n"
        f"epoch=0/micro_step={step}/global_step={step}, RunningAvgSamplesPerSec=1, CurrSamplesPerSec=1\n"
        for step in (10, 20, 30)
        for skipped in (4, 3)
    )
    assert len(runs_of(text)) == 1


def test_a_start_without_measurements_is_no_run():
    run = run_of(last(1) + STARTS[0])
    assert said(run) == ["train.log:2: warning: a start without a measurement after it"]


def test_a_cut_last_record_is_left_out():
    run = run_of(last(1) + "[Rank 0] time (ms) | fwd: 7.89 | step: 1")
    assert values_of(run) == {'forward{rank="0"}': [0.001], 'step{rank="0"}': [0.001]}
    assert said(run) == ["train.log:2: warning: the last record is cut off; left out"]


NUMBER = st.integers(0, 10**9).map(lambda hundredths: f"{hundredths // 100}.{hundredths % 100:02d}")
WORDS = st.sampled_from(["forward", "backward", "step", "optimizer_step", "pipe_send_grad", "batch generator", "a-b"])
RECORD = st.tuples(st.integers(-1, 3), st.dictionaries(WORDS, NUMBER, min_size=1, max_size=5))


@given(records=st.lists(RECORD, min_size=1, max_size=30), shape=st.sampled_from(["{}", "[Rank {}] ", "rank={} "]))
def test_what_is_written_is_read(records, shape):
    if shape == "{}":
        shape = ""
    expected = {}
    lines = []
    for rank, timers in records:
        fields = "".join(f" | {name}: {number}" for name, number in timers.items())
        lines.append(f"noise {shape.format(rank)}time (ms){fields}\n")
        for name, number in timers.items():
            key = f'{name}{{rank="{rank}"}}' if shape else name
            expected.setdefault(key, []).append(float(number) / 1000)
    run = run_of("".join(lines))
    assert values_of(run) == expected
    assert not run.problems


LOG = (
    "".join(optimizer(step) + micro(step) + last(step) for step in range(6))
    + "  world_size ................... 16\n"
    + "\x1b[32m[Rank 0] time (ms) | fwd: 1.25 | step: 2.50[Rank 1] time (ms) | fwd: 1.75\x1b[0m\r\n"
    + "epoch=0/micro_step=2/global_step=2, RunningAvgSamplesPerSec=1, CurrSamplesPerSec=12.53, MemAllocated=3.96GB\n"
    + "| INFO | Global Steps: 8 é Data (t): 0.001 Batch (t): 1.856, 1057.47/s\n"
).encode()


@given(cut=st.integers(0, len(LOG)))
def test_a_cut_never_changes_a_value(cut):
    whole = run_of(LOG)
    run = run_of(LOG[:cut], "deepspeed")
    for key, values in values_of(run).items():
        assert values == values_of(whole)[key][: len(values)]
        assert steps_of(run)[key] == steps_of(whole)[key][: len(values)]
    assert run.environment.items() <= whole.environment.items()


@given(chunk=st.integers(1, len(LOG)))
def test_chunks_do_not_matter(chunk):
    assert values_of(run_of(LOG, chunk=chunk)) == values_of(run_of(LOG))
