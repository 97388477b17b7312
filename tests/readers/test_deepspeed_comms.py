import pytest
from damage import check_changes, check_pieces
from reading import FIXTURES, SHARED, errors, run_of, said, values_of

CALL = "[Rank 0] comm op: all_reduce | time (ms): {} | msg size: 2.0 MB | algbw (Gbps): 16.00  | busbw (Gbps): 8.00\n"
HEADER = "".join(
    f"{name: <20}"
    for name in (
        "Comm. Op",
        "Message Size",
        "Count",
        "Total Latency(ms)",
        "Avg Latency(ms)",
        "tput_avg (Gbps)",
        "busbw_avg (Gbps)",
    )
)
STRAGGLERS = "".join(
    f"{name: <20}"
    for name in (
        "Comm. Op",
        "Message Size",
        "Count",
        "Total comm lat(ms)",
        "Total straggler(ms)",
        "Avg comm lat(ms)",
        "Avg straggler(ms)",
    )
)


def row(*cells):
    return "".join(f"{cell: <20}" for cell in ("", *cells))


TABLE = "\n".join([HEADER, "all_reduce", row("2.0 MB", 40, "600.00", "9.69", "16.00", "8.00"), ""])


def series_of(run):
    return {str(series.key): (series.unit, series.kind) for series in run.series}


def test_calls_of_a_verbose_logger():
    run = run_of(CALL.format("9.46") + CALL.format("9.00"))
    assert (run.format, run.problems) == ("deepspeed", ())
    assert values_of(run) == {
        'collective.all_reduce{size="2.0 MB"}': [9.46 / 1000, 0.009],
        'collective.all_reduce.algbw{size="2.0 MB"}': [2e9, 2e9],
        'collective.all_reduce.busbw{size="2.0 MB"}': [1e9, 1e9],
    }
    assert {series.unit for series in run.series} == {"s", "B/s"}
    assert all(series.steps is None for series in run.series)  # calls are no steps


def test_the_table_of_log_summary():
    run = run_of(TABLE)
    assert (run.format, run.problems) == ("deepspeed", ())
    (total,) = [series for series in run.series if series.kind == "aggregate"]
    assert (str(total.key), total.unit) == ('collective.all_reduce{size="2.0 MB"}', "s")
    assert dict(total.aggregate) == {"count": 40, "total": 0.6}
    assert {str(s.key): (s.kind, s.values.tolist()) for s in run.series if s is not total} == {
        'collective.all_reduce.avg_latency{size="2.0 MB"}': ("value", [9.69 / 1000]),
        'collective.all_reduce.algbw{size="2.0 MB"}': ("value", [2e9]),
        'collective.all_reduce.busbw{size="2.0 MB"}': ("value", [1e9]),
    }


@pytest.mark.parametrize(
    "table",
    [
        "".join(f"    {line}\n" for line in TABLE.splitlines()),
        "".join(f"> {line}\n" for line in TABLE.splitlines()),
        "".join(f"0: {line}\n" for line in TABLE.splitlines()),
        "".join(f"[default0]:{line}\n" for line in TABLE.splitlines()),
        TABLE.replace("\n", "\r\n"),
        TABLE.replace("all_reduce\n", "all_reduce\nSaving the model ...\n"),
        TABLE.replace("all_reduce\n", "all_reduce\n" + CALL.format(1).replace("2.0 MB", "4.0 B")),
    ],
)
def test_tables_that_something_was_done_to(table):
    run = run_of(table)
    (total,) = [series for series in run.series if series.kind == "aggregate"]
    assert not run.problems
    assert (str(total.key), total.aggregate["total"]) == ('collective.all_reduce{size="2.0 MB"}', 0.6)


def test_the_caller_is_a_label():
    run = run_of(TABLE.replace("all_reduce", "all_reduce | [Caller Func: reduce_gradients]"))
    assert 'collective.all_reduce{caller="reduce_gradients", size="2.0 MB"}' in series_of(run)


def test_stragglers():
    run = run_of(STRAGGLERS + "\nall_reduce\n" + row("2.0 MB", 4, "47.90", "8.10", "11.97", "2.03") + "\n")
    aggregates = {str(s.key): dict(s.aggregate) for s in run.series if s.kind == "aggregate"}
    assert aggregates == {
        'collective.all_reduce.comm_latency{size="2.0 MB"}': {"count": 4, "total": 0.0479},
        'collective.all_reduce.straggler{size="2.0 MB"}': {"count": 4, "total": 0.0081},
    }
    assert values_of(run)['collective.all_reduce.avg_straggler{size="2.0 MB"}'] == [2.03 / 1000]


def test_of_several_tables_the_last_holds_all_calls():
    run = run_of(TABLE + TABLE.replace("600.00", "900.00").replace("40", "60"))
    assert [dict(s.aggregate) for s in run.series if s.kind == "aggregate"] == [{"count": 60, "total": 0.9}]


@pytest.mark.parametrize(("calls", "kind"), [(39, "aggregate"), (40, "samples")])
def test_calls_and_table_are_one_series(calls, kind):
    run = run_of(CALL.format("1.00") * calls + TABLE)
    assert series_of(run) == {
        'collective.all_reduce{size="2.0 MB"}': ("s", kind),
        'collective.all_reduce.avg_latency{size="2.0 MB"}': ("s", "value"),
        'collective.all_reduce.algbw{size="2.0 MB"}': ("B/s", "value" if kind == "aggregate" else kind),
        'collective.all_reduce.busbw{size="2.0 MB"}': ("B/s", "value" if kind == "aggregate" else kind),
    }


@pytest.mark.parametrize("text", ["nan", "inf", "-1.00", "1.2.3"])
def test_values_that_cannot_be_true_are_refused(text):
    for run in (run_of(CALL.format(text)), run_of(TABLE.replace("600.00", text))):
        assert 'collective.all_reduce{size="2.0 MB"}' not in series_of(run)
        (problem,) = run.problems
        assert (problem.severity, str(problem.key)) == ("error", 'collective.all_reduce{size="2.0 MB"}')


def test_rows_that_cannot_be_read_are_errors():
    assert errors(run_of(TABLE.replace("all_reduce\n", ""), "deepspeed"))[0] == (
        "train.log:2: error: a row of the comms logger cannot be read"
    )
    assert errors(run_of(TABLE.replace("40 ", "   "), "deepspeed"))[0].startswith("train.log:3: error: a row")


def test_a_cut_last_line_is_left_out():
    run = run_of(TABLE + row("4.0 MB", 40, "600.00", "9.69", "16.00", "8"))
    assert {series.key.label("size") for series in run.series} == {"2.0 MB"}
    assert said(run) == ["train.log:4: warning: the last record is cut off; left out"]


@pytest.mark.parametrize("before", [0, 1 << 17, (1 << 17) - len(HEADER) - 5, (1 << 17) - len(HEADER) - 12])
def test_a_table_may_stand_across_two_blocks(before):
    run = run_of("x" * 63 + "\n" + "\n" * max(before - 64, 0) + TABLE)
    assert len(run.series) == 4
    assert not run.problems


def test_damaged_lines():
    check_pieces(CALL.format(1) + TABLE, "deepspeed")
    check_changes(CALL.format(1) + TABLE, "deepspeed")


def test_what_deepspeed_prints():
    """DeepSpeed 0.19.8 on two CPUs, read by eye; the calls of log_summary itself stand between its rows."""
    run = run_of((FIXTURES / "deepspeed.log").read_bytes())
    values = values_of(run)
    assert not errors(run)
    assert values['collective.all_reduce{size="66.0 KB"}'] == [0.0029, 0.00925, 13.64 / 1000, 22.11 / 1000]
    assert values['collective.broadcast{size="1.0 KB"}'] == [0.0009, 0.00598]
    assert values['collective.all_gather_into_tensor.avg_latency{size="33.01 KB"}'] == [20.79 / 1000]
    aggregates = {str(s.key): dict(s.aggregate) for s in run.series if s.kind == "aggregate"}
    assert aggregates['collective.all_gather_into_tensor.straggler{size="33.01 KB"}'] == {
        "count": 4,
        "total": 56.62 / 1000,
    }
    assert aggregates['collective.all_reduce.comm_latency{size="4.0 B"}'] == {"count": 6, "total": 151.88 / 1000}


#: Totals that the tool itself printed as times below zero.
NEGATIVE = [
    ("all_reduce", "874.0"),
    ("all_reduce", "914.0"),
    ("all_reduce", "954.38"),
    ("all_gather_into_tensor", "1.23"),
]


@pytest.mark.shared
def test_real_tables():
    run = run_of((SHARED / "corpus/deepspeed/argonne_ALCF_cooldown.txt").read_bytes())
    found = {str(series.key): series for series in run.series}
    wrong = {line.split("error: ")[1].split(": ")[0] for line in errors(run)}
    assert wrong == {f'collective.{name}{{size="{size} MB"}}' for name, size in NEGATIVE}
    assert found['collective.all_reduce.avg_latency{size="874.0 MB"}'].values.tolist() == [246.25 / 1000]
    assert dict(found['collective.broadcast{size="1000.0 MB"}'].aggregate) == {"count": 2, "total": 62863.52 / 1000}
    assert dict(found['collective.all_reduce{size="100.0 KB"}'].aggregate) == {"count": 1650, "total": 108812.85 / 1000}
    assert found['collective.broadcast.busbw{size="8.0 MB"}'].values.tolist() == [8.72 * 1.25e8]


@pytest.mark.shared
def test_the_tables_of_the_docs():
    run = run_of((SHARED / "corpus/deepspeed-docs/comms-logging.txt").read_bytes())
    found = {str(series.key): series for series in run.series}
    assert not errors(run)
    assert values_of(run)['collective.all_gather_into_tensor{size="6.0 MB"}'] == [0.00011, 0.00008]
    row = found['collective.reduce_scatter_tensor{caller="reduce_scatter_fn", size="678.86 MB"}']
    assert dict(row.aggregate) == {"count": 80, "total": 1527.17 / 1000}
    assert dict(found['collective.reduce_scatter_tensor{size="678.86 MB"}'].aggregate)["count"] == 40


def test_calls_beside_timers_have_no_steps():
    timers = "".join(f"[Rank 0] time (ms) | fwd: {number}.00 | bwd: 2.00\n" for number in range(1, 11))
    run = run_of(timers + CALL.format(9.46) * 30)
    found = {series.key.metric: (len(series.values), series.steps is None) for series in run.series}
    assert (found["forward"], found["collective.all_reduce"]) == ((10, False), (30, True))
