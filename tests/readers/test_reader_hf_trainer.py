import json

import pytest
from damage import check_changes, check_damage, check_pieces
from hypothesis import given
from hypothesis import strategies as st
from reading import SHARED, errors, run_of, runs_of, said, steps_of, values_of

STATE = {
    "best_metric": None,
    "epoch": 2.0,
    "global_step": 1000,
    "is_world_process_zero": True,
    "log_history": [
        {"epoch": 0, "eval_loss": 5.5, "eval_runtime": 5.75, "eval_samples_per_second": 70.25, "step": 0},
        {"epoch": 1.0, "grad_norm": 5.5, "learning_rate": 5e-05, "loss": 1.125, "step": 500},
        {"epoch": 1.0, "eval_loss": 4.5, "eval_runtime": 5.25, "eval_samples_per_second": 78.5, "step": 500},
        {"epoch": 2.0, "grad_norm": 4.5, "learning_rate": 0.0, "loss": -0.5, "step": 1000},
        {
            "epoch": 2.0,
            "step": 1000,
            "total_flos": 2.5e17,
            "train_loss": 0.75,
            "train_runtime": 273.015,
            "train_samples_per_second": 3.663,
            "train_steps_per_second": 0.007,
            "train_mem_gpu_alloc_delta": -1024,
        },
    ],
    "trial_name": None,
}

CONSOLE = (
    "{'loss': 2.125, 'grad_norm': 0.5, 'learning_rate': 5e-05, 'epoch': 0.5}\n"
    " 50%|#####     | 1/2 [00:01<00:01]\r100%|##########| 2/2 [00:02<00:00]{'eval_loss': 1.5, 'eval_runtime': 2.25, "
    "'eval_steps_per_second': 4.5, 'epoch': 1.0}\n"
    "{'train_runtime': 273.015, 'train_samples_per_second': 3.663, 'train_loss': 1.75, 'epoch': 1.0}\n"
)


def test_a_trainer_state():
    run = run_of(json.dumps(STATE))
    assert (run.format, run.problems, dict(run.environment)) == ("hf-trainer", (), {})
    assert values_of(run) == {
        "eval_loss": [5.5, 4.5],
        "eval_runtime": [5.75, 5.25],
        "eval_samples_per_second": [70.25, 78.5],
        "grad_norm": [5.5, 4.5],
        "loss": [1.125, -0.5],
        "total_flos": [2.5e17],
        "train_loss": [0.75],
        "train_runtime": [273.015],
        "train_samples_per_second": [3.663],
        "train_steps_per_second": [0.007],
        "train_mem_gpu_alloc_delta": [-1024],
        "time.evaluation": [11.0],
        "time.other": [262.015],
        "time.total": [273.015],
    }
    kinds = {series.key.metric: (series.kind, series.unit) for series in run.series}
    assert kinds["eval_runtime"] == ("samples", "s")
    assert kinds["loss"] == ("samples", "1")
    assert kinds["train_runtime"] == ("value", "s")
    assert kinds["train_steps_per_second"] == ("value", "1/s")
    assert kinds["total_flos"] == ("value", "FLOP")
    assert kinds["train_mem_gpu_alloc_delta"] == ("value", "B")
    assert steps_of(run)["eval_loss"] == [0, 499]
    assert steps_of(run)["loss"] == [499, 999]
    assert steps_of(run)["train_runtime"] is None


def test_all_results():
    results = {
        "epoch": 3.0,
        "eval_g0_runtime": 5.75,
        "eval_g0_steps_per_second": 17.5,
        "predict_loss": 2.5,
        "total_flos": 2384756.0,
        "train_runtime": 273.5,
    }
    run = run_of(json.dumps(results))
    assert (run.format, run.problems) == ("hf-trainer", ())
    assert values_of(run) == {name: [value] for name, value in results.items() if name != "epoch"}
    assert {series.kind for series in run.series} == {"value"}


CONSOLE_VALUES = {
    "loss": [2.125],
    "grad_norm": [0.5],
    "eval_loss": [1.5],
    "eval_runtime": [2.25],
    "eval_steps_per_second": [4.5],
    "train_runtime": [273.015],
    "train_samples_per_second": [3.663],
    "train_loss": [1.75],
    "time.evaluation": [2.25],
    "time.other": [270.765],
    "time.total": [273.015],
}


@pytest.mark.parametrize(
    "text",
    [
        CONSOLE,
        CONSOLE.replace("2.125", "'2.125'").replace("273.015", "'273.015'").replace("1.5,", "'1.5',"),
        CONSOLE.replace("{'train", "  {'train").replace("3.663, ", "3.663,\n   "),
        "{'zero': {'stage': 1}} {'init_scale': 256}\nit's open {'a': 1\n" + CONSOLE,
        CONSOLE.replace("\n", "\r\n"),
        CONSOLE.replace("'loss': 2.125", "'loss': 2.125, 'rewards': [1, 2], 'name': 'x'"),
    ],
    ids=["numbers", "quoted", "wrapped", "other dictionaries", "crlf", "words and lists"],
)
def test_printed_rows(text):
    run = run_of(text)
    assert (run.format, errors(run)) == ("hf-trainer", [])
    assert values_of(run) == CONSOLE_VALUES
    assert set(steps_of(run).values()) == {None}
    assert {series.key.metric: series.kind for series in run.series}["train_runtime"] == "value"


def test_a_summary_of_several_processes_is_kept_and_said():
    run = run_of(CONSOLE + CONSOLE.splitlines()[-1].replace("273.015", "273.25") + "\n")
    assert values_of(run)["train_runtime"] == [273.015, 273.25]
    assert said(run) == [
        "train.log:4: warning: the summary (train_runtime, ...) was printed 2 times, once by each process; all are kept"
    ]


def test_an_epoch_that_goes_back_is_a_new_run():
    runs = runs_of(CONSOLE + CONSOLE)
    assert [run.part for run in runs] == [1, 2]
    assert all(values_of(run) == CONSOLE_VALUES for run in runs)
    assert "2 runs; new runs begin at line 4" in said(runs[0])[-1]


def test_a_cut_row_is_left_out():
    run = run_of(CONSOLE[:-20])
    assert "train_runtime" not in values_of(run)
    assert said(run) == ["train.log:3: warning: the last row is cut off; left out"]


def test_a_broken_row_is_said():
    run = run_of("{'train_runtime': 1.5, 'ep\n" + CONSOLE)
    assert values_of(run) == CONSOLE_VALUES
    assert said(run) == ["train.log:1: warning: a row is broken off; left out"]


@pytest.mark.parametrize("text", ["nan", "inf", "-3.0"])
def test_printed_values_that_cannot_be_true_are_refused(text):
    run = run_of(CONSOLE.replace("273.015", text))
    (problem,) = run.problems
    assert (problem.severity, problem.at.line, str(problem.key)) == ("error", 3, "train_runtime")
    assert "train_runtime" not in values_of(run)


@pytest.mark.parametrize("text", ["NaN", "-5.25", "1e999", '"nan"'])
def test_values_of_a_state_that_cannot_be_true_are_refused(text):
    lines = json.dumps(STATE, indent=2)
    run = run_of(lines.replace("5.25", text))
    (problem,) = run.problems
    assert (problem.severity, str(problem.key)) == ("error", "eval_runtime")
    assert lines.splitlines()[problem.at.line - 1].strip() == '"eval_runtime": 5.25,'
    assert values_of(run)["eval_runtime"] == [5.75]


def test_what_is_no_metric_may_be_nan():
    run = run_of(json.dumps(STATE).replace('"best_metric": null', '"best_metric": NaN'))
    assert run.problems == ()


def test_a_cut_state_is_an_error():
    run = run_of(json.dumps(STATE)[:-100])
    assert run.series == ()
    assert "cut off" in errors(run)[0]


def test_a_key_that_stands_twice_is_an_error():
    run = run_of(json.dumps(STATE).replace('"epoch": 0,', '"eval_loss": 1.0,'))
    assert any("'eval_loss' occurs twice" in error for error in errors(run))


numbers = st.floats(0, 1e12) | st.integers(0, 10**9)
names = st.sampled_from(["loss", "eval_loss", "eval_runtime", "eval_x_steps_per_second", "grad_norm"])


@given(rows=st.lists(st.dictionaries(names, numbers, min_size=1), min_size=1, max_size=12), quoted=st.booleans())
def test_what_was_written_is_read(rows, quoted):
    expected = {}
    for row in rows:
        for name, value in row.items():
            expected.setdefault(name, []).append(value)
    state = {"log_history": [{**row, "step": at} for at, row in enumerate(rows, 1)], "global_step": len(rows)}
    assert values_of(run_of(json.dumps(state))) == expected
    shown = [{**{name: str(value) if quoted else value for name, value in row.items()}, "epoch": 1.0} for row in rows]
    assert values_of(run_of("\n".join(map(repr, shown)) + "\n", "hf-trainer")) == expected


def test_damaged_files():
    check_damage(CONSOLE + CONSOLE, "hf-trainer")
    check_pieces(json.dumps(STATE), "hf-trainer")
    check_changes(json.dumps(STATE), "hf-trainer")


@pytest.mark.shared
def test_a_real_state():
    (run,) = runs_of((SHARED / "corpus/hf-trainer/trainer_state_viz.json").read_bytes())
    values = values_of(run)
    assert (run.format, run.problems) == ("hf-trainer", ())
    assert values["eval_g0_runtime"][0] == 5.7095
    assert values["eval_g5_samples_per_second"][-1] == 60.429
    assert values["eval_g3_steps_per_second"][-1] == 16.264
    assert [len(values[name]) for name in ("loss", "eval_g0_loss")] == [30, 31]
    assert steps_of(run)["eval_g5_runtime"][-1] == 12029


@pytest.mark.shared
def test_a_real_log_of_sixteen_processes():
    (run,) = runs_of((SHARED / "corpus/hf-trainer/bigscience_hf_ds_gpt2_perf_n16.out").read_bytes())
    values = values_of(run)
    assert (run.format, errors(run)) == ("hf-trainer", [])
    assert len(values["train_runtime"]) == 16
    assert values["train_runtime"][:2] == [273.0148, 273.0144]
    assert sorted(values["train_samples_per_second"]) == [3.663] * 15 + [3.664]
    assert run.problems[-1].at.line == 1568


def test_the_time_so_far_beside_a_loss_is_no_training_of_its_own():
    row = "{'loss': 2.125, 'grad_norm': 0.5, 'learning_rate': 5e-05, "
    run = run_of(CONSOLE.replace(row, f"{row}'train_runtime': 99.5, 'train_tokens_per_second': 8.5, "))
    assert values_of(run)["time.total"] == values_of(run_of(CONSOLE))["time.total"] == [273.015]
