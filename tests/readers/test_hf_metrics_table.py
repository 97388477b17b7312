"""The table of `log_metrics`; `TABLE` was printed by transformers 5.23, from the numbers beside it."""

import pytest
from damage import check_changes, check_pieces
from reading import SHARED, errors, run_of, said, values_of

TABLE = """\
***** train metrics *****
  epoch                      =         1.0
  total_flos                 =    498078GF
  train_loss                 =      2.1235
  train_mem_gpu_peaked_delta =       128MB
  train_runtime              = 13:04:33.01
  train_samples              =        1000
  train_samples_per_second   =       3.663
"""
EXPECTED = {
    "total_flos": [498078 * 2.0**30],
    "train_loss": [2.1235],
    "train_mem_gpu_peaked_delta": [128 * 2.0**20],
    "train_runtime": [47073.01],
    "train_samples": [1000],
    "train_samples_per_second": [3.663],
}
ROW = "{'train_runtime': 47073.0149, 'train_samples_per_second': 3.66312, 'epoch': 1.0}\n"


@pytest.mark.parametrize(
    "text",
    [TABLE, TABLE.replace("\n", "\r\n"), "".join(f"    {line}\n" for line in TABLE.splitlines()), "noise\n" + TABLE],
)
def test_a_table_is_single_values(text):
    run = run_of(text)
    assert (run.format, run.problems) == ("hf-trainer", ())
    assert values_of(run) == EXPECTED
    assert {series.kind for series in run.series} == {"value"}
    assert {s.key.metric: s.unit for s in run.series}["total_flos"] == "FLOP"


@pytest.mark.parametrize("text", [ROW + TABLE, TABLE + ROW])
def test_rows_are_more_exact_than_the_table(text):
    run = run_of(text)
    assert run.problems == ()
    assert values_of(run) == {**EXPECTED, "train_runtime": [47073.0149], "train_samples_per_second": [3.66312]}


@pytest.mark.parametrize(
    ("printed", "seconds"),
    [("0:00:05.12", 5.12), ("1 day, 2:03:04.05", 93784.05), ("12 days, 0:00:00.00", 12 * 86400.0)],
)
def test_times_of_hours_and_days(printed, seconds):
    table = f"***** eval metrics *****\n  eval_runtime = {printed}\n"
    assert values_of(run_of(table)) == {"eval_runtime": [seconds]}


@pytest.mark.parametrize("text", ["nan", "-5.0", "inf"])
def test_values_that_cannot_be_true_are_refused(text):
    run = run_of(TABLE.replace("      3.663", f"      {text}"))
    assert [str(problem.key) for problem in run.problems] == ["train_samples_per_second"]


def test_a_cut_last_row_is_left_out():
    run = run_of(TABLE + "  train_steps_per_second     =       0.4")
    assert values_of(run) == EXPECTED
    assert said(run) == ["train.log:9: warning: the last row is cut off; left out"]


def test_rows_without_a_title_mean_nothing():
    assert errors(run_of(TABLE.partition("\n")[2], "hf-trainer")) == ["train.log: error: no measurements"]
    assert values_of(run_of(TABLE + "done.\n'x'\n  train_runtime = 5.0\n")) == EXPECTED


def test_damaged_tables():
    check_pieces(TABLE, "hf-trainer")
    check_changes(ROW + TABLE, "hf-trainer")


@pytest.mark.shared
def test_a_real_log_is_read_as_before():
    run = run_of((SHARED / "corpus/hf-trainer/bigscience_hf_ds_gpt2_perf_n16.out").read_bytes())
    assert not errors(run)
