"""`perf stat`: what it wrote (`fixtures/perf_stat`), and rows with hardware counters in the form of its source."""

import pytest
from damage import check_changes, check_pieces
from reading import FIXTURES, errors, run_of, runs_of, said, values_of

FILES = FIXTURES / "perf_stat"
MISSING = "warning: perf did not count 4 events: cycles, instructions, branches, branch-misses"

#: Of each file, some values as they are printed in it.
VALUES = {
    "text.txt": {"task-clock": [0.47e-3], "page-faults": [48], "time_sys": [0]},
    "repeated.txt": {"task-clock": [0.40e-3], "page-faults": [49], "time_elapsed": [0.00059]},
    "repeated.csv": {"task-clock": [0.42e-3], "page-faults": [50]},
    "fields.csv": {"task-clock": [0.48e-3], "page-faults": [49]},
    "fields.json": {"task-clock": [0.468577e-3], "page-faults": [48]},
    "intervals.txt": {"task-clock": [0.73e-3, 0.04e-3], "page-faults": [75, 0]},
    "intervals.csv": {"task-clock": [0.73e-3, 0.04e-3], "page-faults": [76, 0]},
    "intervals.json": {"page-faults": [75, 0]},
    "processors.csv": {'page-faults{cpu="0"}': [182], 'page-faults{cpu="1"}': [1665]},
    "processors.json": {'page-faults{cpu="0"}': [213], 'page-faults{cpu="1"}': [1269]},
    "processors.txt": {'page-faults{cpu="0"}': [912], 'page-faults{cpu="1"}': [939]},
    "sockets.csv": {'page-faults{socket="0"}': [1531]},
    "sockets.txt": {'page-faults{socket="0"}': [6800]},
}


@pytest.mark.parametrize("name", VALUES)
def test_what_perf_wrote(name):
    run = run_of((FILES / name).read_bytes())
    values = values_of(run)
    assert run.format == "perf-stat"
    assert {key: values[key] for key in VALUES[name]} == {key: pytest.approx(one) for key, one in VALUES[name].items()}
    assert len(said(run)) == 1
    assert MISSING in said(run)[0]
    kinds = {series.kind for series in run.series}
    assert kinds == ({"samples"} if "intervals" in name else {"value"})


TEXT = """\
 Performance counter stats for './train --fast':

          5,421.98 msec task-clock                #    0.990 CPUs utilized            ( +-  1.20% )
     1,234,567,890      cycles:u                  #    2.274 GHz                      ( +-  0.31% )  (83.31%)
     2,345,678,901      instructions:u            #    1.90  insn per cycle           ( +-  0.01% )  (66.68%)
            12.50 Joules power/energy-pkg/
   <not supported>      branches

            5.4800 +- 0.0017 seconds time elapsed  ( +-  0.03% )
"""


def test_hardware_counters():
    run = run_of(TEXT)
    assert values_of(run) == {
        "task-clock": [5.42198],
        "cycles:u": [1234567890],
        "instructions:u": [2345678901],
        "power/energy-pkg/": [12.5],
        "time_elapsed": [5.48],
    }
    assert said(run) == ["train.log:7: warning: perf did not count 1 events: branches"]


def test_programs_in_one_file_are_runs():
    runs = runs_of(TEXT + "other output\n" + TEXT)
    assert [values_of(run)["time_elapsed"] for run in runs] == [[5.48], [5.48]]


def test_separators_of_other_locales():
    text = TEXT.replace("1,234,567,890", "1.234.567.890").replace("5,421.98", "5.421,98")
    assert values_of(run_of(text)) == values_of(run_of(TEXT))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (TEXT.replace("5,421.98", "5.421,98,0.1.2"), "task-clock: '5.421980.1.2' is not a number"),
        (TEXT.replace("1,234,567,890", "1.234.567.89"), "cycles:u: '1.234.567.89' is not a number"),
        ('{"counter-value" : "1", "unit" : "", "event" : 5}\n', "a record cannot be read"),
    ],
)
def test_counts_that_cannot_be_true(text, problem):
    assert problem in errors(run_of(text, "perf-stat"))[0]


def test_damaged_files():
    for text in (TEXT, (FILES / "sockets.csv").read_text(), (FILES / "intervals.json").read_text()):
        check_pieces(text, "perf-stat")
        check_changes(text, "perf-stat", times=50)
