import json

import pytest
from damage import check_damage
from hypothesis import given
from hypothesis import strategies as st
from reading import SHARED, errors, run_of, runs_of, said, values_of


def event(key, time, value=None, **metadata):
    kind = {"start": "INTERVAL_START", "stop": "INTERVAL_END"}.get(key.rpartition("_")[2], "POINT_IN_TIME")
    fields = {"namespace": "", "time_ms": time, "event_type": kind, "key": key, "value": value}
    return ":::MLLOG " + json.dumps({**fields, "metadata": {"file": "train.py", "lineno": 1, **metadata}})


LINES = [
    event("cache_clear", 1664527479788, True),
    event("init_start", 1664527483297),
    event("init_start", 1664527483329) + "  some text of another process",
    event("seed", 1664527484454, 12345),
    "epoch 1 begins",
    event("init_stop", 1664527500628),
    event("run_start", 1664527500629) + event("epoch_start", 1664527500643, epoch_num=0),
    "0: " + event("eval_start", 1664527564000) + "\r",
    event("eval_accuracy", 1664527564705, 0.375, epoch_num=1),
    event("eval_stop", 1664527564705),
    event("tracked_stats", 1664527564705, {"throughput": 5154.25, "epoch_time": 3}, step=1),
    event("epoch_stop", 1664527600643),
    event("epoch_start", 1664527600643),
    event("epoch_stop", 1664527690644),
    event("run_stop", 1664528493132, status="success"),
    event("run_stop", 1664528493140, status="success"),
]
LOG = "\n".join(LINES) + "\n"

VALUES = {
    "run_time": [992.503],
    "init_time": [17.331],
    "epoch_time": [100.0, 90.001],
    "eval_time": [0.705],
    "eval_accuracy": [0.375],
    "throughput": [5154.25],
    "tracked_stats.epoch_time": [3.0],
}


def test_a_log():
    run = run_of(LOG)
    assert (run.format, run.problems, dict(run.environment)) == ("mlperf", (), {})
    assert values_of(run) == VALUES
    assert {series.key.metric: (series.kind, series.unit) for series in run.series} == {
        "run_time": ("value", "s"),
        "init_time": ("value", "s"),
        "epoch_time": ("samples", "s"),
        "eval_time": ("samples", "s"),
        "eval_accuracy": ("samples", "1"),
        "throughput": ("samples", "1/s"),
        "tracked_stats.epoch_time": ("samples", "s"),
    }


@pytest.mark.parametrize("status", [{"status": "aborted"}, {}, {"status": 1}], ids=repr)
def test_a_run_without_success_has_no_run_time(status):
    lines = [line for line in LINES if "run_stop" not in line] + [event("run_stop", 1664528493132, **status)]
    run = run_of("\n".join(lines) + "\n")
    (problem,) = run.problems
    assert (problem.severity, problem.at.line, str(problem.key)) == ("error", 15, "run_time")
    assert "not 'success'" in problem.message
    assert values_of(run) == {name: values for name, values in VALUES.items() if name != "run_time"}


def test_a_run_that_never_stops_has_no_run_time():
    run = run_of("\n".join(LINES[:-2]) + "\n")
    assert said(run) == ["train.log:7: error: run_time: this run_start has no run_stop"]


def test_a_run_stop_without_a_start():
    run = run_of("\n".join(line for line in LINES if "run_start" not in line) + "\n")
    assert [str(problem.key) for problem in run.problems] == ["run_time"]


def test_a_time_that_goes_back_is_refused():
    run = run_of(LOG.replace("1664527690644", "1664527600642"))
    (problem,) = run.problems
    assert (problem.at.line, str(problem.key)) == (14, "epoch_time")
    assert values_of(run)["epoch_time"] == [100.0]


@pytest.mark.parametrize("text", ["NaN", '"soon"', "null", "-5", "9" * 400])
def test_times_that_cannot_be_true_are_refused(text):
    run = run_of(LOG.replace("1664527564705", text, 3))
    assert {(problem.at.line, str(problem.key)) for problem in run.problems} == {(10, "eval_time")}


def test_qualities_that_are_no_number_are_refused():
    run = run_of(LOG.replace("0.375", "NaN"))
    assert [(problem.at.line, str(problem.key)) for problem in run.problems] == [(9, "eval_accuracy")]


def test_a_record_that_cannot_be_read_is_an_error():
    run = run_of(LOG.replace('"key": "init_stop"', '"key": "init_stop'))
    assert errors(run)[0].startswith("train.log:6: error: a record cannot be read: '{")


def test_many_records_that_cannot_be_read_are_counted():
    run = run_of(LOG + ":::MLLOG {\n" * 50)
    assert len(errors(run)) == 21
    assert errors(run)[-1] == "train.log: error: a record cannot be read: and 30 more"


def test_a_cut_last_record_is_left_out():
    run = run_of(LOG[:-20])
    assert said(run) == ["train.log:16: warning: the last record is cut off; left out"]
    assert values_of(run) == VALUES


def test_appended_runs_are_told_apart():
    runs = runs_of(LOG + LOG)
    assert [(run.part, values_of(run)) for run in runs] == [(1, VALUES), (2, VALUES)]
    assert "2 runs; new runs begin at line 17" in said(runs[0])[-1]


@given(epochs=st.lists(st.integers(0, 10**9), min_size=1, max_size=20), start=st.integers(10**12, 2 * 10**12))
def test_what_was_written_is_read(epochs, start):
    lines, now = [event("run_start", start)], start
    for epoch in epochs:
        lines += [event("epoch_start", now), "text", event("epoch_stop", now + epoch)]
        now += epoch
    lines.append(event("run_stop", now, status="success"))
    values = values_of(run_of("\n".join(lines) + "\n"))
    assert values == {"epoch_time": [epoch / 1000 for epoch in epochs], "run_time": [sum(epochs) / 1000]}


def test_damaged_files():
    check_damage(LOG, "mlperf")


@pytest.mark.shared
def test_a_real_log():
    (run,) = runs_of(next((SHARED / "corpus/mlperf").glob("*NVIDIA*")).read_bytes())
    values = {series.key.metric: series.values.tolist() for series in run.series}
    assert (run.format, run.problems) == ("mlperf", ())
    assert {series.key.labels for series in run.series} == {
        (
            ("benchmark", "bert"),
            ("division", "closed"),
            ("global_batch_size", "448"),
            ("gradient_accumulation_steps", "1"),
        )
    }
    assert values["run_time"] == [(1664528493132 - 1664527500629) / 1000]
    assert values["init_time"] == [(1664527500628 - 1664527483297) / 1000]
    assert values["epoch_time"] == [(1664528493130 - 1664527500643) / 1000]
    assert values["eval_accuracy"][::15] == [0.37421977519989014, 0.7200252413749695]


@pytest.mark.shared
def test_a_real_log_without_a_run():
    (run,) = runs_of(next((SHARED / "corpus/mlperf").glob("*ASUS*")).read_bytes())
    assert (run.format, run.series) == ("mlperf", ())
    assert "no measurements" in errors(run)[-1]


CONDITIONS = [
    event("submission_benchmark", 1, "bert"),
    event("global_batch_size", 2, 448),
    event("opt_name", 3, "lamb"),
    event("max_sequence_length", 4, 512),
    event("seed", 5, 17),
    event("opt_base_learning_rate", 6, 0.002),
]
LABELS = '{benchmark="bert", global_batch_size="448", max_sequence_length="512", optimizer="lamb"}'


def test_what_was_trained_is_a_label_of_every_metric():
    log = "\n".join([*CONDITIONS, *CONDITIONS]) + "\n" + LOG  # several processes log the same
    run = run_of(log)
    assert values_of(run) == {f"{name}{LABELS}": values for name, values in VALUES.items()}
    assert run.problems == ()


def test_a_value_that_is_left_out_blocks_the_rules_about_its_labelled_metric():
    run = run_of("\n".join(CONDITIONS) + "\n" + LOG.replace("0.375", "NaN"))
    assert [str(problem.key) for problem in run.problems] == [f"eval_accuracy{LABELS}"]


def test_two_values_of_a_condition_are_an_error():
    run = run_of("\n".join([*CONDITIONS, event("global_batch_size", 7, 512)]) + "\n" + LOG)
    assert errors(run) == [
        "train.log:7: error: a condition has two values in one run: global_batch_size is 448 and 512"
    ]


def test_points_in_time_are_the_ends_of_an_interval():
    log = LOG.replace("INTERVAL_START", "POINT_IN_TIME").replace("INTERVAL_END", "POINT_IN_TIME")
    run = run_of(log)
    assert (values_of(run), run.problems) == (VALUES, ())


def test_qualities_of_several_metrics_are_told_apart():
    lines = [
        event("eval_accuracy", 1, 90.0, metric="FID"),
        event("eval_accuracy", 2, 0.15, metric="CLIP"),
        event("eval_accuracy", 3, 85.0, metric="FID"),
    ]
    assert values_of(run_of("\n".join(lines) + "\n")) == {
        'eval_accuracy{metric="FID"}': [90.0, 85.0],
        'eval_accuracy{metric="CLIP"}': [0.15],
    }


def test_a_quality_with_several_parts():
    run = run_of(event("eval_accuracy", 1, {"BBOX": 0.377, "SEGM": 0.339}) + "\n")
    assert run.problems == ()
    assert values_of(run) == {'eval_accuracy{metric="BBOX"}': [0.377], 'eval_accuracy{metric="SEGM"}': [0.339]}
