import pytest
from damage import check_changes, check_pieces
from reading import SHARED, errors, run_of, runs_of, said, steps_of, values_of

PIPELINE = "steps: {} loss: 2.1234 [x: 1.5] iter time (s): {} samples/sec: 125.5\n"
CHAT = (
    "|E2E latency=7.99s |Gather latency=0.00s (0.00%) |Generate time=5.26s (65.81%) |Training time=2.52s (31.46%) "
    "|Others=0.22 (2.73%)|CurSamplesPerSec=8.01 |AvgSamplesPerSec=9.01\n"
)


def test_the_pipeline_engine():
    run = run_of(PIPELINE.format(10, 0.512) + PIPELINE.format(20, 0.5))
    assert (run.format, run.problems) == ("deepspeed", ())
    assert values_of(run) == {"pipeline.iteration_time": [0.512, 0.5], "pipeline.samples_per_second": [125.5, 125.5]}
    assert steps_of(run)["pipeline.iteration_time"] == [9, 19]


def test_deepspeed_chat():
    run = run_of(CHAT, "deepspeed")
    assert not run.problems
    assert values_of(run) == {
        "chat.e2e_latency": [7.99],
        "chat.gather_latency": [0],
        "chat.generate_time": [5.26],
        "chat.training_time": [2.52],
        "chat.other_time": [0.22],
        "chat.samples_per_second": [8.01],
    }


@pytest.mark.parametrize("text", ["nan", "inf", "-0.5"])
def test_values_that_cannot_be_true_are_refused(text):
    run = run_of(PIPELINE.format(1, text))
    assert [(problem.severity, str(problem.key)) for problem in run.problems] == [("error", "pipeline.iteration_time")]


@pytest.mark.parametrize("line", [PIPELINE.format(20, 0.5), CHAT])
def test_a_cut_last_line_is_left_out(line):
    run = run_of(PIPELINE.format(10, 0.512) + line[:-4])
    assert values_of(run) == {"pipeline.iteration_time": [0.512], "pipeline.samples_per_second": [125.5]}
    assert said(run) == ["train.log:2: warning: the last record is cut off; left out"]


def test_a_counter_that_goes_back_is_a_new_run():
    runs = runs_of(PIPELINE.format(10, 0.512) + PIPELINE.format(5, 0.5))
    assert [values_of(run)["pipeline.iteration_time"] for run in runs] == [[0.512], [0.5]]


def test_damaged_lines():
    text = PIPELINE.format(10, 0.512) + CHAT
    check_pieces(text, "deepspeed")
    check_changes(text, "deepspeed")


@pytest.mark.shared
def test_a_real_log():
    (run,) = runs_of((SHARED / "corpus/deepspeed/dschat_step3_rlhf.log").read_bytes())
    values = values_of(run)
    assert not errors(run)
    assert values["chat.e2e_latency"][:4] == [7.99, 3.73, 3.91, 3.87]
    assert values["chat.samples_per_second"][:2] == [8.01, 17.17]
