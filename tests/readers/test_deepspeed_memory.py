import pytest
from damage import check_changes, check_pieces
from reading import FIXTURES, SHARED, run_of, runs_of, said, values_of

MA = "MA 1.5 GB         Max_MA 1.75 GB         CA 2.25 GB         Max_CA 3 GB "
HOST = "CPU Virtual Memory:  used = 39.14 GB, percent = 20.9%\n"
PLAIN = "After building the model\n" + MA + "\n" + HOST
LOGGED = (
    "[2021-06-10 20:47:51,720] [INFO] [utils.py:627:see_memory_usage] After building the model\n"
    "building GPT2 model ...\n"
    f"[2021-06-10 20:47:51,721] [INFO] [utils.py:628:see_memory_usage] {MA}\n"
    f"[2021-06-10 20:47:51,721] [INFO] [utils.py:636:see_memory_usage] {HOST}"
)
GIB = 2.0**30
EXPECTED = {
    'memory.allocated{at="After building the model"}': [1.5 * GIB],
    'memory.peak_allocated{at="After building the model"}': [1.75 * GIB],
    'memory.reserved{at="After building the model"}': [2.25 * GIB],
    'memory.peak_reserved{at="After building the model"}': [3 * GIB],
}


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        LOGGED,
        "".join(f"    {line}\n" for line in PLAIN.splitlines()),
        "".join(f"[default0]:{line}\n" for line in PLAIN.splitlines()),
        "".join(f"2024-01-01T00:00:0{at}.5Z {line}\n" for at, line in enumerate(PLAIN.splitlines())),
        "x\n" * 65535 + PLAIN,
        "x\n" * 65530 + PLAIN,
        "x\n" * 65525 + PLAIN,
    ],
)
def test_the_place_in_the_program_is_a_label(text):
    run = run_of(text)
    assert (run.format, run.problems) == ("deepspeed", ())
    assert values_of(run) == EXPECTED
    assert {(series.unit, series.kind) for series in run.series} == {("B", "samples")}


def test_every_line_is_a_value_of_its_place():
    run = run_of(PLAIN + PLAIN.replace("After", "Before") + PLAIN.replace("MA 1.5 ", "MA 1.25 "))
    assert values_of(run)['memory.allocated{at="After building the model"}'] == [1.5 * GIB, 1.25 * GIB]
    assert values_of(run)['memory.allocated{at="Before building the model"}'] == [1.5 * GIB]


def test_a_line_whose_message_was_lost_has_no_place():
    assert "memory.allocated" in values_of(run_of(MA + "\n"))
    assert "memory.allocated" in values_of(run_of("x" * 500 + "\n" + MA + "\n"))
    assert "memory.allocated" in values_of(run_of(LOGGED.partition("\n")[2]))


def test_memory_before_a_start_is_of_the_run_that_starts():
    start = "[2024-01-01 00:00:00,000] [INFO] DeepSpeed info: version=0.9.2, git-hash=x\n"
    step = "[Rank 0] time (ms) | fwd: 1.00\n"
    assert values_of(run_of(PLAIN + start + step)) == {**EXPECTED, 'forward{rank="0"}': [0.001]}
    assert len(runs_of(PLAIN + start + step + start + step)) == 2


@pytest.mark.parametrize("text", ["nan", "inf", "-1.5", "1.5.5"])
def test_values_that_cannot_be_true_are_refused(text):
    run = run_of(PLAIN.replace("MA 1.5 ", f"MA {text} "))
    assert len(run.series) == 3
    assert [str(problem.key) for problem in run.problems] == ['memory.allocated{at="After building the model"}']


def test_a_cut_last_line_is_left_out():
    run = run_of(PLAIN + "Later\n" + MA[:-10])
    assert values_of(run) == EXPECTED
    assert said(run) == ["train.log:5: warning: the last record is cut off; left out"]


def test_damaged_lines():
    for text in (PLAIN, LOGGED):
        check_pieces(text, "deepspeed")
        check_changes(text, "deepspeed")


def test_what_deepspeed_prints():
    values = values_of(run_of((FIXTURES / "deepspeed.log").read_bytes()))
    assert values['memory.allocated{at="Before building the model"}'] == [0.24 * GIB]
    assert values['memory.reserved{at="After building the model"}'] == [0.36 * GIB]
    assert values["memory.allocated"] == [0.37 * GIB]


@pytest.mark.shared
def test_a_real_log():
    run = run_of((SHARED / "corpus/deepspeed/argonne_ALCF_cooldown.txt").read_bytes())
    values = values_of(run)
    assert values['memory.allocated{at="Before Building Model"}'] == [0]
    assert values['memory.reserved{at="After Building Model"}'] == [3.72 * GIB]
    assert values['memory.peak_reserved{at="After Building Model"}'] == [4 * GIB]
