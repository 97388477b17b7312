import json

import pytest
from damage import check_changes, check_damage, check_pieces
from hypothesis import given
from hypothesis import strategies as st
from reading import SHARED, errors, run_of, runs_of, said, steps_of, values_of

from perfgate.readers import Source, recognise

YEAR_2021 = (
    "time (ms) | load-checkpoint: 0.50\n"
    " iteration        1/       2 | consumed samples:         1024 | elapsed time per iteration (ms): 150250.5 | "
    "learning rate: 0.000E+00 | loss scale: 4294967296.0 | number of skipped iterations:   1 | "
    "number of nan iterations:   0 |\n"
    "time (ms) | forward-compute: 29733.50 | backward-params-all-reduce: 27.25 | batch-generator: 185.75\n"
    " iteration        2/       2 | consumed samples:         2048 | elapsed time per iteration (ms): 123896.5 | "
    "learning rate: 1.500E-04 | lm loss: 1.25E+01 | number of skipped iterations:   0 | "
    "number of nan iterations:   0 |\n"
    "time (ms) | forward-compute: 28669.75 | backward-params-all-reduce: 27.50 | batch-generator: 184.75\n"
)


def dotted(name):
    return "    " + (name + " ").ljust(48, ".") + ": "


YEAR_2024 = (
    "using world size: 16, data-parallel size: 2\n"
    "(min, max) time across ranks (ms):\n"
    + dotted("model-and-optimizer-setup")
    + "(812.25, 880.75)\n [2024-08-21 10:19:42] iteration       10/      20 | consumed samples:        10240 | "
    "elapsed time per iteration (ms): 2701.5 | throughput per GPU (TFLOP/s/GPU): 449.6 | learning rate: 7.5E-08 | "
    "global batch size:  1024 | lm loss: 2.125E+00 | loss scale: 1.0 | number of skipped iterations:   0 | "
    "number of nan iterations:   0 |\n"
    "[Rank 0] (after 10 iterations) memory (MB) | allocated: 1024.5 | max allocated: 2048.0 | reserved: 3000.0 | "
    "max reserved: 3001.0\n"
    "(min, max) time across ranks (ms):\n"
    + dotted("forward-backward")
    + "(1232.25, 1233.5)\nsome other line: 12\n"
    + dotted("optimizer")
    + "(12.25, 13.5)\n"
    " [2024-08-21 10:20:12] iteration       20/      20 | consumed samples:        20480 | "
    "elapsed time per iteration (ms): 2650.25 | throughput per GPU (TFLOP/s/GPU): 450.7 | lm loss: 2.0E+00 |\n"
)


def test_the_oldest_shape():
    run = run_of(YEAR_2021)
    assert (run.format, run.problems) == ("megatron", ())
    assert values_of(run) == {
        "load-checkpoint": [0.0005],
        "iteration_time": [150.2505, 123.8965],
        "skipped_iterations": [1, 0],
        "nan_iterations": [0, 0],
        "forward-compute": [29.7335, 28.66975],
        "backward-params-all-reduce": [0.02725, 0.0275],
        "batch-generator": [0.18575, 0.18475],
        "lm_loss": [12.5],
    }
    assert steps_of(run)["forward-compute"] == [0, 1]
    assert steps_of(run)["lm_loss"] == [1]


def test_the_newer_shape():
    run = run_of(YEAR_2024)
    assert (run.format, run.problems, run.environment) == ("megatron", (), {"world_size": 16})
    assert values_of(run) == {
        'model-and-optimizer-setup{ranks="min"}': [0.81225],
        'model-and-optimizer-setup{ranks="max"}': [0.88075],
        "iteration_time": [2.7015, 2.65025],
        "throughput_per_gpu": [449.6e12, 450.7e12],
        "lm_loss": [2.125, 2.0],
        "skipped_iterations": [0],
        "nan_iterations": [0],
        'memory.allocated{rank="0"}': [1024.5 * 2**20],
        'memory.peak_allocated{rank="0"}': [2**31],
        'memory.reserved{rank="0"}': [3000 * 2**20],
        'memory.peak_reserved{rank="0"}': [3001 * 2**20],
        'forward-backward{ranks="min"}': [1.23225],
        'forward-backward{ranks="max"}': [1.2335],
        'optimizer{ranks="min"}': [0.01225],
        'optimizer{ranks="max"}': [0.0135],
    }
    units = {series.key.metric: series.unit for series in run.series}
    assert {name for name, unit in units.items() if unit == "1"} == {"lm_loss", "skipped_iterations", "nan_iterations"}
    assert {unit for name, unit in units.items() if name.startswith("memory.")} == {"B"}
    assert (units["throughput_per_gpu"], units["iteration_time"], units["optimizer"]) == ("FLOP/s", "s", "s")
    assert steps_of(run)["iteration_time"] == [9, 19]
    assert steps_of(run)['optimizer{ranks="max"}'] == [9]


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ("max time across ranks (ms):\n" + dotted("optimizer") + "12.5\n", {'optimizer{ranks="max"}': [0.0125]}),
        (
            "times across ranks (ms):\n  forward-backward:\n     rank  0: 1232.25\n     rank 11: 1232.50\n"
            "  optimizer:\n     rank  0: 12.25\n",
            {
                'forward-backward{rank="0"}': [1.23225],
                'forward-backward{rank="11"}': [1.2325],
                'optimizer{rank="0"}': [0.01225],
            },
        ),
        (
            "(min, max) time across ranks (ms):\n"
            + dotted("a-timer-with-a-very-long-name-of-48-letters-or-more")
            + "(1.25, 2.5)\n",
            {
                'a-timer-with-a-very-long-name-of-48-letters-or-more{ranks="min"}': [0.00125],
                'a-timer-with-a-very-long-name-of-48-letters-or-more{ranks="max"}': [0.0025],
            },
        ),
        (
            "[default7]:(min, max) time across ranks (ms):\n[default7]:" + dotted("optimizer") + "(1.25, 2.5)\n",
            {'optimizer{ranks="min"}': [0.00125], 'optimizer{ranks="max"}': [0.0025]},
        ),
        ("max time across ranks (ms):\nbuilding: 3\n x ...: 4\nrank 3: 5\n", {}),
    ],
)
def test_every_shape_of_timers(block, expected):
    run = run_of(" iteration 5/ 5 | elapsed time per iteration (ms): 1000.0 |\n" + block)
    assert [problem.severity for problem in run.problems] == ([] if expected else ["warning"])
    assert values_of(run) == {"iteration_time": [1.0], **expected}
    assert all(steps == [4] for steps in steps_of(run).values())


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ("elapsed time per iteration (ms): 13372.5/13364.7 |", {"iteration_time": [13.3725]}),
        (
            "elapsed time per iteration (ms): 500.0 | samples per second: 3.714 | "
            "tokens per gpu per second (tgs): 633.832 | TFLOPs: 38.61 |",
            {
                "iteration_time": [0.5],
                "samples_per_second": [3.714],
                "tokens_per_second_per_gpu": [633.832],
                "throughput_per_gpu": [38.61e12],
            },
        ),
        (
            "elapsed time per iteration (ms): 500.0 | throughput (token/sec/GPU): 12.5 | "
            "flop throughput (TFLOP/sec/GPU): 2.5 |",
            {"iteration_time": [0.5], "tokens_per_second_per_gpu": [12.5], "throughput_per_gpu": [2.5e12]},
        ),
        (
            "elapsed time per iteration (ms): 500.0 | learning rate 3.0E-04 | lm loss 2.5E+00 | loss scale 1.0 |",
            {"iteration_time": [0.5], "lm_loss": [2.5]},
        ),
        (
            "elapsed time per iteration (ms): 500.0 | reward loss: -2.5 |",
            {"iteration_time": [0.5], "reward_loss": [-2.5]},
        ),
    ],
)
def test_labels_of_versions_and_forks(labels, expected):
    run = run_of(f" iteration 5/ 5 | {labels}\n")
    assert not run.problems
    assert values_of(run) == expected


def test_a_rate_before_the_iteration():
    run = run_of(" samples/sec: 12.5 | iteration 5/ 5 | elapsed time per iteration (ms): 500.0 |\n")
    assert values_of(run) == {"samples_per_second": [12.5], "iteration_time": [0.5]}


def test_two_iterations_on_one_line():
    line = " iteration {}/ 9 | elapsed time per iteration (ms): {}.0 |"
    run = run_of(line.format(1, 500) + line.format(2, 250) + "\n")
    assert values_of(run) == {"iteration_time": [0.5, 0.25]}
    assert steps_of(run) == {"iteration_time": [0, 1]}


@pytest.mark.parametrize("text", ["nan", "inf", "-3.0", "12x"])
def test_values_that_cannot_be_true_are_refused(text):
    run = run_of(YEAR_2021.replace("123896.5", text).replace("28669.75", text))
    assert [(problem.severity, problem.at.line, str(problem.key)) for problem in run.problems] == [
        ("error", 4, "iteration_time"),
        ("error", 5, "forward-compute"),
    ]
    assert values_of(run)["iteration_time"] == [150.2505]


def test_a_garbled_row_of_a_block_is_an_error_of_its_series():
    run = run_of("(min, max) time across ranks (ms):\n" + dotted("optimizer") + "(12.25, 13\n", "megatron")
    assert [str(problem.key) for problem in run.problems if problem.key] == [
        'optimizer{ranks="min"}',
        'optimizer{ranks="max"}',
    ]


@pytest.mark.parametrize(
    ("text", "sizes", "line"),
    [
        (YEAR_2021 + YEAR_2021.replace("time (ms) | load-checkpoint: 0.50\n", ""), [2, 2], 6),
        (YEAR_2024 + YEAR_2024, [2, 2], 11),
        (YEAR_2024 + YEAR_2024.replace(" 10/", " 30/").replace(" 20/", " 40/"), [2, 2], 11),
    ],
    ids=["counter", "launcher", "launcher, resumed"],
)
def test_appended_runs_are_told_apart(text, sizes, line):
    runs = runs_of(text)
    assert [len(values_of(run)["iteration_time"]) for run in runs] == sizes
    assert f"2 runs; new runs begin at line {line}" in said(runs[0])[-1]


def test_a_cut_last_record_is_left_out():
    run = run_of(YEAR_2021[:-10])
    assert said(run) == ["train.log:5: warning: the last record is cut off; left out"]
    assert len(values_of(run)["forward-compute"]) == 1


def test_records_of_deepspeed_in_the_same_log():
    text = YEAR_2021 + "[Rank 0] rank=0 time (ms) | forward: 12.50 | backward_microstep: 2.50\n"
    assert values_of(run_of(text))['forward{rank="0"}'] == [0.0125]
    first = "[Rank 0] time (ms) | fwd: 12.50\n"
    run = run_of(first + YEAR_2021)
    assert run.format == "deepspeed"
    assert values_of(run)["iteration_time"] == [150.2505, 123.8965]
    assert values_of(run)['forward{rank="0"}'] == [0.0125]


@pytest.mark.parametrize(
    ("line", "format"),
    [
        ("time (ms) | forward-compute: 1.00 | optimizer: 1.00\n", "megatron"),
        ("time (ms) | forward: 1.00 | optimizer: 1.00\n", "deepspeed"),
        ("[Rank 0] time (ms) | fwd: 1.00\n", "deepspeed"),
        ("time (ms)\n iteration 1/ 2 | elapsed time per iteration (ms): 1.0 |\n", "deepspeed"),
        (" iteration 1/ 2 | elapsed time per iteration (ms): 1.0 |\ntime (ms)\n", "megatron"),
        ("max time across ranks (ms):\n" + dotted("optimizer") + "1.0\n", "megatron"),
    ],
)
def test_records_that_look_alike_are_told_apart(line, format):
    assert recognise(Source("f", [line.encode()])).format == format


GOLDEN = {
    "lm loss": {"start_step": 1, "end_step": 9, "step_interval": 4, "values": {"1": 10.5, "5": 10.25, "9": 10.0}},
    "mem-max-allocated-bytes": {"start_step": 1, "end_step": 9, "step_interval": 4, "values": {"1": 2313432064.0}},
    "iteration-time": {"start_step": 1, "end_step": 9, "step_interval": 4, "values": {"1": "nan", "5": 1.63, "9": 1.5}},
}


def test_golden_values():
    run = run_of(json.dumps(GOLDEN))
    assert (run.format, run.problems) == ("megatron", ())
    assert values_of(run) == {
        "lm_loss": [10.5, 10.25, 10.0],
        "memory.peak_allocated": [2313432064.0],
        "iteration_time": [1.63, 1.5],
    }
    assert steps_of(run)["iteration_time"] == [4, 8]


def test_golden_values_as_a_list():
    run = run_of('{"iteration-time": {"start_step": 0, "end_step": 9, "step_interval": 5, "values": [8.5, 0.75]}}')
    assert values_of(run) == {"iteration_time": [8.5, 0.75]}
    assert steps_of(run) == {"iteration_time": [0, 5]}


@pytest.mark.parametrize("text", ["NaN", "-1.0", "1e999", '"fast"', "null", "true"])
def test_golden_values_that_cannot_be_true(text):
    run = run_of(json.dumps(GOLDEN, indent=1).replace("1.63", text))
    (problem,) = run.problems
    assert (problem.severity, str(problem.key)) == ("error", "iteration_time")
    assert json.dumps(GOLDEN, indent=1).splitlines()[problem.at.line - 1].strip() == '"5": 1.63,'
    assert values_of(run)["iteration_time"] == [1.5]


def test_a_cut_golden_document_is_an_error():
    run = run_of(json.dumps(GOLDEN)[:-20])
    assert "cut off" in errors(run)[0]
    assert run.series == ()


times = st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**7)), min_size=1, max_size=20)


@given(times=times, old=st.booleans())
def test_what_was_written_is_read(times, old):
    """Times in units of the last printed digit: 0.1 ms and 0.01 ms."""
    text = ""
    for at, (iteration, timer) in enumerate(times, 1):
        text += f" iteration {at:8d}/{99:8d} | elapsed time per iteration (ms): {iteration / 10:.1f} | lm loss: 1.0 |\n"
        text += (
            f"time (ms) | forward-compute: {timer / 100:.2f}\n"
            if old
            else "max time across ranks (ms):\n" + dotted("forward-backward") + f"{timer / 100:.2f}\n"
        )
    values = values_of(run_of(text))
    assert values["iteration_time"] == [iteration / 10 / 1000 for iteration, _ in times]
    assert values["forward-compute" if old else 'forward-backward{ranks="max"}'] == [t / 100 / 1000 for _, t in times]


def test_damaged_files():
    check_damage(YEAR_2021, "megatron")
    check_damage(YEAR_2024, "megatron")
    golden = json.dumps(GOLDEN)
    check_pieces(golden, "megatron")
    check_changes(golden, "megatron")


@pytest.mark.shared
@pytest.mark.parametrize(
    ("file", "expected"),
    [
        (
            "megatron/bigscience_meg_gpt2_perf_n16.out",
            {
                "iteration_time": [155.4838, 129.0288, 128.8915],
                "skipped_iterations": [1, 1, 1],
                "forward-compute": [32.05416, 31.74974, 31.88801],
                "batch-generator": [0.18263, 0.18446, 0.18752],
                "load-checkpoint": [0.00047],
            },
        ),
        (
            "megatron/bigscience_meg_gpt2_perf_n16-1999618.out",
            {
                "iteration_time": [150.8917, 123.8963, 124.3622, 122.224],
                "optimizer": [0.32304, 0.05873, 0.05913, 0.05652],
            },
        ),
        (
            "deepspeed/bigscience_meg_ds_zero_n16-1999616.out",
            {"forward": [35.3463, 35.49441, 35.5027, 35.3775], "batch generator": [0.01047, 0.00218, 0.00138, 0.00143]},
        ),
        (
            "deepspeed/bigscience_meg_ds_3d_old_n16.out",
            {"iteration_time": [150.4713, 145.207], "lm_loss": [12.79022, 12.80042], "forward": [0, 0]},
        ),
        (
            "megatron/megatron_golden_bert_a100_old.json",
            {
                "iteration_time": [
                    8.01702,
                    1.63485,
                    1.62917,
                    1.63494,
                    1.8032,
                    1.83901,
                    1.67596,
                    1.66247,
                    1.67062,
                    1.66391,
                    1.67494,
                ]
            },
        ),
    ],
)
def test_real_files(file, expected):
    (run,) = runs_of((SHARED / "corpus" / file).read_bytes())
    assert (run.format, errors(run)) == ("megatron", [])
    for key, values in expected.items():
        assert values_of(run)[key] == pytest.approx(values, rel=1e-12)


@pytest.mark.shared
def test_a_real_log_of_megatron_deepspeed():
    (run,) = runs_of((SHARED / "corpus/deepspeed/bigscience_meg_ds_3d_n16_ds_on.out").read_bytes())
    values = values_of(run)
    assert (run.format, errors(run), run.environment) == ("megatron", [], {"world_size": 64})
    assert values["iteration_time"][:3] == [159.7789, 141.0968, 137.1384]
    assert len(values["iteration_time"]) == 49
    assert values['memory.allocated{rank="1"}'] == [12337.45654296875 * 2**20]
    assert values['memory.peak_reserved{rank="39"}'] == [18304 * 2**20]  # glued to the next record
