import csv
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading import FIXTURES, SHARED, errors, run_of, runs_of, said

from perfgate.core.wording import TIMES_OF_RUN

REAL = {one["name"]: one for one in json.loads((FIXTURES / "real_torch_tables.json").read_text())}


def rows(run):
    """The series of the rows of a table, without sums of a table and times of the whole run."""
    sums = (*TIMES_OF_RUN, "goodput")
    return [one for one in run.series if one.key.metric not in sums and not one.key.metric.startswith("table")]


def aggregates(run):
    return {str(series.key): dict(series.aggregate) or series.values.tolist() for series in rows(run)}


def line(opened, closed, cells):
    name, *others = cells
    return ("|  " if opened else "") + f"{name}\t|" + "\t|".join(others) + ("\t|" if closed else "")


def simple(rows, version="2.6", title="FIT Profiler Report", prefix=""):
    """A report of SimpleProfiler as each version prints it; rows are (action, mean, calls, total, percentage)."""
    extended = version not in ("0.8", "plain")
    opened, closed = version in ("1.6", "2.6", "plain"), version != "0.8"
    width = max([20, *(len(row[0]) for row in rows)])
    gap = "" if version in ("1.2", "1.5") else "  "

    def shown(action, mean, calls, total, percentage):
        numbers = [f"  {mean:<15}", f"{gap}{calls:<15}", f"  {total:<15}", f"  {percentage:<15}"]
        return prefix + line(opened, closed, [f"{action:<{width}}", *(numbers if extended else numbers[::2])])

    rule = prefix + "-" * (width + 80)
    header = shown("Action", "Mean duration (s)", "Num calls", "Total time (s)", "Percentage %")
    calls = "_" if version in ("1.2", "1.5") else "148"
    total = [shown("Total", "-", calls, "11.1", "100 %"), rule] if extended else []
    body = [shown(*row) for row in rows]
    above, below = ([rule], [rule]) if opened else ([], [])
    return "\n".join([prefix + title, prefix, *above, header, rule, *total, *body, *below, prefix, ""])


ROWS = [
    ("run_training_epoch", "2.5", "4", "10.0", "90.09"),
    ("run_training_batch", "0.0625", "128", "8.0", "72.072"),
    ("on_train_end", "8.029e-06", "1", "8.029e-06", "7.2333e-05"),
    ("run_long", "1.6681e+04", "2", "3.3362e+04", "0.0"),
]
EXPECTED = {
    "run_training_epoch": {"mean": 2.5, "count": 4, "total": 10.0},
    "run_training_batch": {"mean": 0.0625, "count": 128, "total": 8.0},
    "on_train_end": {"mean": 8.029e-06, "count": 1, "total": 8.029e-06},
    "run_long": {"mean": 16681.0, "count": 2, "total": 33362.0},
}
VERSIONS = {
    "0.8": "Profiler Report",
    "1.2": "Profiler Report",
    "1.5": "FIT Profiler Report",
    "1.6": "FIT Profiler Report",
    "2.6": "VALIDATE Profiler Report",
    "plain": "PREDICT Profiler Report",
}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "glued", ["", "INFO - 2022-08-04 14:36:34,955 - base - ", "1: 150it [00:01, 88it/s]INFO:root:"]
)
@pytest.mark.parametrize("prefix", ["", "    ", "> "])
def test_versions(version, glued, prefix):
    title = VERSIONS[version]
    run = run_of(simple(ROWS, version, glued + title, prefix))
    stage = title.split()[0].lower()
    label = "" if stage == "profiler" else f'{{stage="{stage}"}}'
    with_calls = version not in ("0.8", "plain")
    assert aggregates(run) == {
        name + label: {key: value for key, value in held.items() if with_calls or key != "count"}
        for name, held in EXPECTED.items()
    }
    assert {(series.unit, series.kind) for series in rows(run)} == {("s", "aggregate")}
    assert (run.format, said(run), run.environment) == ("lightning", [], {})


def test_lines_with_a_time_before_them():
    text = simple(ROWS, prefix="T |")
    times = iter(range(100))
    run = run_of(
        "".join(f"2026-01-01T00:00:{next(times):02}.5Z{part}" for part in text.replace("T |", "").splitlines(True))
    )
    assert {key.split("{")[0]: value for key, value in aggregates(run).items()} == EXPECTED


def test_a_table_with_blanks_instead_of_tabs_and_no_title():
    text = (
        "----------------------------------------------------------------\n"
        "|  Action                  |  Mean duration (s) |  Total time (s) |\n"
        "----------------------------------------------------------------\n"
        "|  Compute Pairwise Score  |  10.0001           |  20.00          |\n"
        "----------------------------------------------------------------\n"
    )
    assert aggregates(run_of(text)) == {"Compute Pairwise Score": {"mean": 10.0001, "total": 20.0}}


@pytest.mark.parametrize("version", ["0.8", "1.5", "2.6", "plain"])
@pytest.mark.parametrize(
    "action", ["[Callback]X{'a': None, 'b|c': 1, \"d\": '|'}.on_end", "a | b", "|", "Total", "Action"]
)
def test_actions_may_hold_anything(version, action):
    row = (action, "0.5", "2", "1.0", "9.009")
    run = run_of(simple([row, ROWS[0]], version), "lightning")
    assert next(iter(aggregates(run).items())) == (
        f'{action}{{stage="fit"}}',
        {"mean": 0.5, "total": 1.0, **({"count": 2} if version in ("1.5", "2.6") else {})},
    )
    assert said(run) == []


@pytest.mark.parametrize("bad", ["nan", "inf", "-0.5", "1e999", "x", "", "1,280"])
@pytest.mark.parametrize("at", [1, 3])
def test_values_that_cannot_be_true(bad, at):
    row = [*ROWS[1]]
    row[at] = bad
    run = run_of(simple([ROWS[0], row]))
    (problem,) = run.problems
    assert (problem.severity, problem.at.line, str(problem.key)) == ("error", 9, 'run_training_batch{stage="fit"}')
    left = {name: value for name, value in EXPECTED["run_training_batch"].items() if name != ("mean", "total")[at == 3]}
    assert aggregates(run)['run_training_batch{stage="fit"}'] == left


def test_calls_with_a_thousands_comma():
    run = run_of(simple([("a", "0.0625", "1,280", "80.0", "72.0"), ("b", "0.1", "12,80", "1.0", "1.0")]))
    assert aggregates(run) == {
        'a{stage="fit"}': {"mean": 0.0625, "count": 1280, "total": 80.0},
        'b{stage="fit"}': {"mean": 0.1, "total": 1.0},
    }
    assert errors(run) == ["train.log:9: error: b{stage=\"fit\"}: count: '12,80' is not a number; left out"]


def test_an_action_that_is_printed_again_is_numbered():
    run = run_of(simple([ROWS[1], ROWS[0], ("run_training_batch", "0.5", "2", "1.0", "9.0")]))
    assert aggregates(run)['run_training_batch{stage="fit"}'] == EXPECTED["run_training_batch"]
    assert aggregates(run)['run_training_batch#2{stage="fit"}'] == {"mean": 0.5, "count": 2, "total": 1.0}
    assert said(run) == [
        "train.log:10: warning: a name occurs again: run_training_batch is named run_training_batch#2 here"
    ]


def test_numbers_of_printed_names_never_meet():
    rows = [(name, str(number), "1", "1.0", "1.0") for number, name in enumerate(["a#2", "a", "a", "a#2", "a"])]
    means = {key.split("{")[0]: value["mean"] for key, value in aggregates(run_of(simple(rows))).items()}
    assert means == {"a#2": 0, "a": 1, "a#3": 2, "a#2#2": 3, "a#4": 4}


def test_stages_are_one_run_and_a_second_report_of_a_stage_is_another():
    text = simple(ROWS) + simple(ROWS[:1], title="TEST Profiler Report")
    assert [*aggregates(run_of(text))][-2:] == ['run_long{stage="fit"}', 'run_training_epoch{stage="test"}']
    runs = runs_of(text + "log\n" + simple(ROWS[:1]))
    assert [(run.part, len(rows(run))) for run in runs] == [(1, 5), (2, 1)]
    assert said(runs[1]) == ["train.log:25: warning: this file has 2 runs; new runs begin at line 25"]


def test_untitled_tables_are_runs_too():
    table = simple(ROWS, title="")
    assert [len(rows(run)) for run in runs_of(table + table)] == [4, 4]


def test_lines_of_other_writers_are_passed_over():
    lines = simple(ROWS).split("\n")
    lines[8:8] = ["2020-08-25 16:31:43.538 | INFO     | eval:evaluate:90 - score: 0.758", "Epoch 1: 50%|##  | 1/2"]
    run = run_of("\n".join(lines))
    assert len(rows(run)) == 4
    assert said(run) == []
    lines[8] = lines[7][:30]
    assert errors(run_of("\n".join(lines))) == ["train.log:9: error: a row of the table cannot be read"]


def test_a_cut_table_is_a_warning():
    lines = simple(ROWS).split("\n")
    without_end = run_of("\n".join(lines[:9]) + "\n")
    assert said(without_end) == ["train.log:9: warning: the table has no rule at its end: rows may be missing"]
    cut = run_of("\n".join(lines[:9])[:-40])
    assert said(cut) == ["train.log:9: warning: the last row is cut off; left out"]
    assert [*aggregates(cut)] == ['run_training_epoch{stage="fit"}']


ADVANCED = """\
FIT Profiler Report
Profile stats for: get_train_batch
         850166 function calls (811697 primitive calls) in 0.618 seconds

   Ordered by: cumulative time
   List reduced from 120 to 3 due to restriction <3>

   ncalls  tottime  percall  cumtime  percall filename:lineno(function)
  29485/2    0.005    0.000    0.618    0.309 {built-in method builtins.next}
20124/11574    0.023    0.000    0.043    0.000 element.py:2156(_matches)
        1    0.000    0.000    0.000    0.000 {method 'disable' of '_lsprof.Profiler' objects}



Profile stats for: run_training_batch rank: 3
         80 function calls in 8.904 seconds

   Ordered by: cumulative time

   ncalls  tottime  percall  cumtime  percall filename:lineno(function)
        4    8.900    2.225    8.904    2.226 loop.py:1(run)
        4    0.000    0.000    8.100    2.025 loop.py:1(run)
"""
ADVANCED_EXPECTED = {
    'get_train_batch{stage="fit"}': {"total": 0.618},
    'get_train_batch.{built-in method builtins.next}{stage="fit"}': {"total": 0.618, "count": 2},
    'get_train_batch.element.py:2156(_matches){stage="fit"}': {"total": 0.043, "count": 11574},
    "get_train_batch.{method 'disable' of '_lsprof.Profiler' objects}{stage=\"fit\"}": {"total": 0.0, "count": 1},
    'run_training_batch{rank="3", stage="fit"}': {"total": 8.904},
    'run_training_batch.loop.py:1(run){rank="3", stage="fit"}': {"total": 8.904, "count": 4},
    'run_training_batch.loop.py:1(run)#2{rank="3", stage="fit"}': {"total": 8.1, "count": 4},
}


def test_advanced_profiler():
    run = run_of(ADVANCED)
    assert aggregates(run) == ADVANCED_EXPECTED
    assert {(series.unit, series.kind) for series in rows(run)} == {("s", "aggregate")}
    assert said(run) == [
        "train.log:22: warning: a name occurs again: run_training_batch.loop.py:1(run) "
        "is named run_training_batch.loop.py:1(run)#2 here"
    ]


def test_advanced_profiler_with_lines_that_cannot_be_read():
    text = ADVANCED.replace("    0.618    0.309", "      nan    0.309").replace("in 8.904", "in inf")
    run = run_of(text.replace("        4    8.900    2.225    8.904    2.226 loop.py:1(run)", "        4    8.900"))
    assert [(problem.at.line, str(problem.key)) for problem in run.problems] == [
        (9, 'get_train_batch.{built-in method builtins.next}{stage="fit"}'),
        (16, 'run_training_batch{rank="3", stage="fit"}'),
        (21, "None"),
    ]
    assert len(rows(run)) == 4
    assert len(errors(run)) == 3


TABLE = """\
------------------  ------------  ------------  ------------  ------------  ------------  ------------
              Name    Self CPU %      Self CPU   CPU total %     CPU total  CPU time avg    # of Calls
------------------  ------------  ------------  ------------  ------------  ------------  ------------
     ProfilerStep*         0.40%       2.072ms       100.00%     523.602ms     261.801ms             2
------------------  ------------  ------------  ------------  ------------  ------------  ------------
Self CPU time total: 523.602ms
"""


@pytest.mark.parametrize(
    ("head", "labels"),
    [
        ("FIT Profiler Report\nProfile stats for: records\n", '{stage="fit"}'),
        ("FIT Profiler Report\nProfile stats for: records rank: 2\n", '{rank="2", stage="fit"}'),
        ("Profiler Report: rank 1\n\nProfile stats for: training_step\n", '{action="training_step", rank="1"}'),
    ],
)
def test_pytorch_profiler(head, labels):
    run = run_of(head + TABLE)
    assert run.format == "lightning"
    assert aggregates(run) == {
        f"ProfilerStep*.self_cpu_time{labels}": {"total": 0.002072, "count": 2},
        f"ProfilerStep*.cpu_time{labels}": {"total": 0.523602, "mean": 0.261801, "count": 2},
        f"ProfilerStep*.calls{labels}": [2],
    }
    assert said(run) == []


def test_reports_of_several_kinds_in_one_file():
    records = "FIT Profiler Report\nProfile stats for: records\n" + TABLE
    runs = runs_of(simple(ROWS) + records + records.replace("FIT", "TEST") + ADVANCED.replace("FIT", "PREDICT"))
    assert [len(rows(run)) for run in runs] == [4, 13]


def test_reports_of_a_real_lightning():
    run = run_of(REAL["simple"]["text"])
    found = aggregates(run)
    for row in REAL["simple"]["rows"]:
        held = found[f'{row["name"]}{{stage="fit"}}']
        assert held["count"] == row["count"]
        assert held["total"] == pytest.approx(row["total"], rel=5e-5)
        assert held["mean"] == pytest.approx(row["total"] / row["count"], rel=5e-5)
    assert said(run) == []
    advanced = run_of(REAL["advanced"]["text"])
    sections = re.findall(r"Profile stats for: (.*)", REAL["advanced"]["text"])
    assert {f'{section}{{stage="fit"}}' for section in sections} <= aggregates(advanced).keys()
    assert len(advanced.series) == 3 * len(sections)
    assert errors(advanced) == []
    pytorch = run_of(REAL["pytorch"]["text"])
    assert len(rows(pytorch)) == 9
    assert said(pytorch) == []


NUMBERS = st.floats(0, 1e12).map(lambda x: f"{x:.5}")
ACTIONS = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=30).filter(
    lambda name: (
        not name.startswith((">", "|", "\ufeff", "table")) and "-" * 20 not in name and name not in TIMES_OF_RUN
    )
)
TABLES = st.lists(
    st.tuples(ACTIONS, NUMBERS, st.integers(0, 10**9).map(str), NUMBERS, NUMBERS),
    min_size=1,
    max_size=6,
    unique_by=lambda row: row[0],
)


@given(rows=TABLES, version=st.sampled_from([*VERSIONS]), chunk=st.integers(1, 300))
def test_what_is_written_is_read(rows, version, chunk):
    run = run_of(simple(rows, version, "Profiler Report"), "lightning", chunk)
    with_calls = version not in ("0.8", "plain")
    assert aggregates(run) == {
        name: {"mean": float(mean), "total": float(total), **({"count": int(calls)} if with_calls else {})}
        for name, mean, calls, total, _ in rows
    }
    assert said(run) == []


SECTIONS = st.lists(
    st.tuples(ACTIONS, st.integers(0, 10**9), st.integers(1, 10**6)), max_size=5, unique_by=lambda row: row[0]
)


@given(rows=SECTIONS, total=st.integers(0, 10**9), chunk=st.integers(1, 300))
def test_what_pstats_writes_is_read(rows, total, chunk):
    head = (
        f"Profile stats for: act\n   12 function calls in {total / 1000:.3f} seconds\n\n   ncalls  tottime  percall\n"
    )
    text = "".join(f"{calls:9d} {1:8.3f} {0:8.3f} {time / 1000:8.3f} {0:8.3f} {name}\n" for name, time, calls in rows)
    expected = {"act": {"total": total / 1000}}
    expected |= {f"act.{name}": {"total": time / 1000, "count": calls} for name, time, calls in rows}
    assert aggregates(run_of(head + text, "lightning", chunk)) == expected


WHOLE = (
    simple(ROWS) + simple(ROWS, "1.5", "TEST Profiler Report") + ADVANCED.replace("FIT", "PREDICT") + TABLE
).encode()


@given(cut=st.integers(0, len(WHOLE)))
def test_a_cut_never_changes_a_value(cut):
    whole = aggregates(run_of(WHOLE))
    assert aggregates(run_of(WHOLE[:cut], "lightning")).items() <= whole.items()


@given(
    edits=st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.binary(max_size=8)), max_size=6),
    chunk=st.integers(1, 99),
)
def test_mutations_never_raise(edits, chunk):
    data = bytearray(WHOLE)
    for at, new in edits:
        data[at : at + len(new)] = new
    runs = runs_of(bytes(data), "lightning", chunk)
    assert [aggregates(run) for run in runs] == [aggregates(run) for run in runs_of(bytes(data), "lightning")]
    assert all(run.series or errors(run) for run in runs)


@pytest.mark.parametrize(
    "piece", ["Profiler Report ", "Profile stats for: ", "|", "\t|  1.0", "Action\t|  Mean duration (s)\t|", " rank: 1"]
)
def test_no_line_takes_long(piece):
    for start in ("", simple(ROWS)[:900], ADVANCED[:400]):
        runs_of(start + piece * (80_000 // len(piece)) + "\n", "lightning")
        runs_of(start + (piece + "\n") * 2000, "lightning")
    runs_of(simple([("a", "1", "1", "1", "1")] * 5000), "lightning")


# --- files of the project's shared folder, read by eye ------------------------------------------------------------


def broken():
    table = SHARED / "corpus/broken/EXPECTED.tsv"
    if not table.exists():
        return []
    with table.open(encoding="utf-8") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [row for row in rows if row["file"].startswith("lightning_")]


@pytest.mark.shared
@pytest.mark.parametrize("row", broken(), ids=lambda row: row["file"])
def test_broken_files(row):
    run = run_of((SHARED / "corpus/broken" / row["file"]).read_bytes())
    found = aggregates(run)
    for name, held in re.findall(r"(\S[^;]*?) (\{'mean'[^}]*\})", row["a correct reader"].partition(" [")[2]):
        assert found[name.strip("; ") + '{stage="fit"}'] == json.loads(held.replace("'", '"'))
    lines = {problem.at.line for problem in run.problems}
    assert not row["problem on line"].isdigit() or int(row["problem on line"]) in lines
    if row["with the rule"] == "3":
        assert any(problem.severity == "error" and problem.key for problem in run.problems)


#: Of each file: its runs, how many series each has, and one that was read by eye.
CORPUS = {
    "lightning-simple/id248156727_pl08_notebook.txt": [(11, "get_train_batch", {"mean": 0.005027, "total": 0.65351})],
    "lightning-simple/id26148489747_pl15_logger.txt": [
        (5, 'run_training_batch{stage="fit"}', {"mean": 0.5163, "count": 12500, "total": 6453.7})
    ],
    "lightning-simple/id26309327266_pl15_exponent.txt": [
        (5, 'run_training_epoch{stage="fit"}', {"mean": 8188.6, "count": 2, "total": 16377.0})
    ],
    "lightning-simple/id31632707522_other_tool_same_shape.txt": [
        (2, "Fit Lambda", {"mean": 0.12437, "count": 1, "total": 0.12437})
    ],
    "lightning-simple/id31741394907_pl2_ddp.txt": [
        (5, '[Strategy]DDPStrategy.backward{stage="fit"}', {"mean": 0.28382, "count": 19540, "total": 5545.8})
    ],
    "lightning-simple/id4414814415_pl09_two_runs.txt": [
        (13, "model_backward", {"mean": 0.087835, "total": 1415.5}),
        (19, "model_backward", {"mean": 0.22516, "total": 3628.7}),
    ],
    "lightning-docs/lightning_profiler_basic.txt": [
        (24, "run_training_batch.{method 'disable' of '_lsprof.Profiler' objects}", {"total": 0.006, "count": 3100})
    ],
    "lightning-docs/lightning_profiler_intermediate.txt": [
        (120, 'div_.cpu_time{action="training_step", rank="1"}', {"total": 32.001e-6, "mean": 16e-6})
    ],
    "lightning-pytorch/mlops04_fit-perf_logs.txt": [
        (60, 'aten::conv2d.cpu_time{stage="fit"}', {"total": 0.30252, "mean": 0.001867, "count": 162})
    ],
    "lightning-advanced/doc_robustness_fit-profiler.txt": [
        (3338, 'get_train_batch.element.py:2156(_matches){stage="fit"}', {"total": 0.043, "count": 11574})
    ],
}


@pytest.mark.shared
@pytest.mark.parametrize("name", CORPUS)
def test_corpus(name):
    runs = runs_of((SHARED / "corpus" / name).read_bytes())
    assert len(runs) == len(CORPUS[name])
    for run, (count, key, held) in zip(runs, CORPUS[name], strict=True):
        assert len(rows(run)) == count
        assert aggregates(run)[key] == held
        assert errors(run) == []


@pytest.mark.shared
def test_seed_000():
    run = run_of(next((SHARED / "seeds").glob("000_*")).read_bytes())
    found = aggregates(run)
    assert len(found) == 116
    assert said(run) == []
    checkpoint = "{'monitor': 'train_loss', 'mode': 'min', 'every_n_train_steps': 0, 'every_n_epochs': 1, "
    checkpoint = f"[Callback]ModelCheckpoint{checkpoint}'train_time_interval': None}}"
    assert found['run_training_epoch{stage="fit"}'] == {"mean": 37.846, "count": 50, "total": 1892.3}
    assert found[checkpoint + '.on_validation_end{stage="fit"}'] == {"mean": 0.29245, "count": 11, "total": 3.217}
    assert found['[LightningModule]Toymodel.teardown{stage="fit"}'] == {"mean": 0.0, "count": 1, "total": 0.0}
