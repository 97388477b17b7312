"""CSV of other tools and of our own exports: its columns, its rows, and the runs of a long file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from perfgate.core import Key, Location
from perfgate.core.remembered_runs import HistoryValue, SeriesName
from perfgate.history.imports import IMPORTERS, csv, importer_of
from perfgate.history.imports.csv import WaitingRows, claims, read, why_not
from perfgate.history.imports.imported_runs import AboutRun, ImportedRun, ImportFile, numbered
from perfgate.rules.ruleset import Ruleset

T1, T2, T3 = (f"2026-{month}T00:00:00Z" for month in ("01-01", "01-02", "02-01"))


def imported(text: str) -> tuple[list[ImportedRun], list[str], dict[str | None, int]]:
    """The runs of a text, what is said about it, and the number of runs of each branch."""
    file = ImportFile("a.csv", lambda: iter(text.splitlines(keepends=True)), Ruleset("gpt", (), {}))
    found = read(file)
    return [*found.runs], [str(problem) for problem in found.problems], dict(found.refs or {})


def only(header: str, row: str) -> tuple[ImportedRun, HistoryValue]:
    """The one number of a text with one row, and its run."""
    ((run,), problems, _) = imported(f"{header}\n{row}\n")
    assert problems == []
    (value,) = run.values
    return run, value


# --- the header ------------------------------------------------------------------------------------------------------

ALL = "time,metric,value,commit,unit,error,n,n_effective,better,statistic,rank,labels,ref,host,run"
IGNORED = "suite,environment,tags,level"
COLUMNS = "time,commit,metric,value,unit"


@pytest.mark.parametrize(
    ("head", "is_claimed"),
    [
        ("time,metric,value\n", True),
        ("\ufefftime,metric,value", True),
        (" value , metric,commit,time\r\n2026", True),
        ('"time","metric","value"\n', True),
        ("time,metric\nvalue", False),
        ("time;metric;value\n", False),
        ("timestamp,metric,value\n", False),
        ("a\rb\n", False),
        ("", False),
    ],
)
def test_a_file_with_these_columns_is_csv(head: str, is_claimed: bool) -> None:
    assert claims("a.csv", head) == is_claimed
    found = importer_of("a.csv", head)
    assert (found is not None and (found.name, found.read) == ("csv", read)) == is_claimed
    assert csv.NAME in {one.name for one in IMPORTERS}


SEPARATED = "write commas, and decimal points in the numbers"
LONG = "time," + 55 * "m"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", f"the file is empty: its first line must be {COLUMNS}"),
        ("\ufeff \r\ntime,metric,value", f"the file is empty: its first line must be {COLUMNS}"),
        (
            "time, unit\r\nx",
            f"the first line is 'time, unit', without metric, value: write the columns {COLUMNS}, with commas",
        ),
        (LONG, f"the first line is '{LONG}', without metric, value: write the columns {COLUMNS}, with commas"),
        (
            LONG + "m",
            f"the first line is '{LONG[:57]}...', without metric, value: write the columns {COLUMNS}, with commas",
        ),
        ("time;metric;value\n", f"its columns are separated by ';': {SEPARATED}"),
        ("commit; time; metric; value\n", f"its columns are separated by ';': {SEPARATED}"),
        ("time\tmetric\tvalue\n", f"its columns are separated by '\\t': {SEPARATED}"),
    ],
)
def test_why_a_file_is_not_csv(text: str, why: str) -> None:
    assert why_not(text) == why


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{ALL}\n", []),
        (f"time,metric,value,{IGNORED}\n", []),
        ("\ufeff time , metric,value\n", []),
        ("", ["the header has no column time, metric, value; it needs time, metric and value"]),
        # the rows below a wrong header are not read
        ("time,unit\n1,2\n3,4\n", ["the header has no column metric, value; it needs time, metric and value"]),
        (
            "time,metric,value,unti\n1,a,2,s\n",
            [f"the column 'unti' is not known: remove it; known are {ALL.replace(',', ', ')}"],
        ),
        ("time,metric,value,time\n1,a,2,1\n", ["the header has a column twice"]),
    ],
)
def test_the_names_of_the_columns(text: str, said: Sequence[str]) -> None:
    runs, problems, _ = imported(text)
    assert (runs, problems) == ([], [f"a.csv:1: error: {one}" for one in said])


# --- rows ------------------------------------------------------------------------------------------------------------

ROW = f'{T1},loss,250,c1,ms,2,40,30.5,neither,p95,slowest,"gpu=""0""",main,gpu-0,r1'


def test_every_column_of_a_row() -> None:
    run, value = only(ALL, ROW)
    assert (run.time, run.commit, run.ref, run.facts, run.id) == (T1, "c1", "main", {"host": "gpu-0"}, "r1")
    name = SeriesName(Key("loss", (("gpu", "0"),)), "p95", "slowest")
    assert value == HistoryValue(name, "s", "neither", "samples", 0.25, 0.002, 40, 30.5)


def test_only_three_columns_are_needed() -> None:
    run, value = only(f"time,metric,value,{IGNORED}", " 0 , loss , 250 ,other,h100,v1,3")
    assert (run.time, run.commit, run.ref, run.facts, run.id) == ("1970-01-01T00:00:00Z", None, None, {}, None)
    assert value == HistoryValue(SeriesName(Key("loss"), "mean", "worst"), "1", "neither", "value", 250.0)
    assert only(ALL, f"{T1},loss,250{',' * 12}")[1] == value


VALUES: list[tuple[str, str, dict[str, Any]]] = [
    ("unit", "h", {"value": 900000.0, "unit": "s", "better": "lower"}),
    ("better", " higher ", {"better": "higher"}),
    ("better", "lower", {"better": "lower"}),
    ("error", "-3", {"error": 3.0, "kind": "samples"}),
    ("error", "0", {"error": 0.0, "kind": "samples"}),
    ("n", "0", {"n": 0}),
    ("n", "1e15", {"n": 10**15}),
    ("n_effective", "2.5", {"n_effective": 2.5}),
    ("statistic", "median", {"name": SeriesName(Key("loss"), "median")}),
    ("rank", "across", {"name": SeriesName(Key("loss"), "mean", "across")}),
]


@pytest.mark.parametrize(("column", "cell", "found"), VALUES)
def test_one_more_column(column: str, cell: str, found: dict[str, Any]) -> None:
    _, value = only(f"time,metric,value,{column}", f"{T1},loss,250,{cell}")
    assert {name: getattr(value, name) for name in found} == found


@pytest.mark.parametrize(
    ("unit", "error"), [("ms", 0.002), ("min", 120.0), ("1", 2.0), ("", 2.0), ("GiB", 2.0 * 2**30)]
)
def test_an_error_is_in_the_unit_of_the_value(unit: str, error: float) -> None:
    assert only("time,metric,value,unit,error", f"{T1},loss,250,{unit},2")[1].error == error


@pytest.mark.parametrize(
    ("cell", "labels"),
    [
        ('"{gpu=""0"", size=""a,b}""}"', (("gpu", "0"), ("size", "a,b}"))),
        ('"size=""big"",gpu=""0"""', (("gpu", "0"), ("size", "big"))),
        ('"a=""say \\""x\\"""""', (("a", 'say "x"'),)),
        ('"a=""C:\\\\dir\\\\"""', (("a", "C:\\dir\\"),)),
        ('"a=""C:\\dir"""', (("a", "C:\\dir"),)),
        ('"a="""""', (("a", ""),)),
        ("{}", ()),
    ],
)
def test_the_labels_of_a_row(cell: str, labels: Sequence[tuple[str, str]]) -> None:
    assert only("time,metric,value,labels", f"{T1},loss,1,{cell}")[1].name.key.labels == labels


@pytest.mark.parametrize(
    ("cell", "text"), [("'=1", "=1"), ("''@x", "'@x"), ("'plain", "'plain"), ("a=b", "a=b"), ("=1", "=1")]
)
def test_the_apostrophe_of_an_export_is_removed(cell: str, text: str) -> None:
    assert only("time,metric,value", f"{T1},{cell},1")[1].name.key.metric == text


LARGE = "the value or its error in h is too large"
WRONG = [
    ("time,metric,value", f"{T1}, ,1", "the metric is empty"),
    ("time,metric,value", f"{T1},a,", "the value is empty"),
    ("time,metric,value", f"{T1},a,x", "value is 'x', not a number"),
    ("time,metric,value", f"{T1},a,-inf", "value is '-inf', not a finite number"),
    ("time,metric,value", "1969-01-01,a,1", "'1969-01-01' is not a time of a run: it is before 1970"),
    ("time,metric,value", f"{T1},a", "2 fields, and the header has 3"),
    ("time,metric,value", f"{T1},a,1,2", "4 fields, and the header has 3"),
    ("time,metric,value,better", f"{T1},a,1,more", "better is 'more': write lower, higher or neither"),
    ("time,metric,value,n", f"{T1},a,1,-1", "n is '-1', not a number of values"),
    ("time,metric,value,n", f"{T1},a,1,1000000000000001", "n is '1000000000000001', not a number of values"),
    ("time,metric,value,error", f"{T1},a,1,x", "error is 'x', not a number"),
    ("time,metric,value,n_effective", f"{T1},a,1,x", "n_effective is 'x', not a number"),
    ("time,metric,value,labels", f"{T1},a,1,gpu", "labels are 'gpu': write {name=\"value\"}"),
    ("time,metric,value,labels", f'{T1},a,1,"a=""1"",b"', 'labels are \'a="1",b\': write {name="value"}'),
    ("time,metric,value,unit", f"{T1},a,1e308,h", LARGE),
    ("time,metric,value,unit,error", f"{T1},a,1,h,1e308", LARGE),
]


@pytest.mark.parametrize(("header", "row", "why"), WRONG)
def test_a_wrong_row_is_left_out(header: str, row: str, why: str) -> None:
    good = f"{T1},a,1" + "," * (header.count(",") - 2)
    runs, problems, refs = imported(f"{header}\n{row}\n\n{good}\n")
    assert problems == [f"a.csv:2: error: {why}"]
    assert ([run.time for run in runs], refs) == ([T1], {None: 1})


def test_an_unknown_unit_and_a_cut_line() -> None:
    runs, problems, _ = imported(f'time,metric,value,unit,error\n{T1},a,5,parsec,2\n{T1},"b,1')
    assert [(one.unit, one.value, one.error) for run in runs for one in run.values] == [("1", 5.0, 2.0)]
    assert problems == [
        "a.csv:2: warning: 'parsec' is not a unit that perfgate knows: its numbers are kept without a unit",
        "a.csv:3: error: is not CSV: unexpected end of data",
    ]


# --- the runs of many rows -------------------------------------------------------------------------------------------


def rows_of(*rows: tuple[str, str, str]) -> WaitingRows:
    """Rows of a time, a metric and the id of a run; the commit is the metric's first letter."""
    waiting = WaitingRows()
    for time, metric, run in rows:
        waiting.add(AboutRun(time, metric[0], metric[0]), numbered(metric, 1.0, "s", None), run)
    return waiting


def shown(waiting: WaitingRows) -> list[tuple[str, str, str | None]]:
    return [(run.time, " ".join(str(one.name.key) for one in run.values), run.id) for run in waiting]


MANY = [(T3, "a", ""), (T2, "b1", "r2"), (T1, "c", ""), (T2, "b2", "r2"), (T1, "d", "r1"), (T1, "c2", "")]
IN_ORDER = [(T1, "c c2", None), (T1, "d", "r1"), (T2, "b1 b2", "r2"), (T3, "a", None)]


@pytest.mark.parametrize("most", [1, 2, 3, 4, 6, 7])
def test_rows_are_runs_in_the_order_of_time(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv, "_MOST_ROWS", most)
    waiting = rows_of(*MANY)
    assert shown(waiting) == shown(waiting) == IN_ORDER
    assert waiting.refs == {"a": 1, "b": 1, "c": 1, "d": 1}


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        # two runs of one id: two commits, a metric twice, or two months
        ([(T1, "a", "r"), (T1, "b", "r")], [(T1, "a", None), (T1, "b", None)]),
        ([(T1, "a", "r"), (T1, "a", "r")], [(T1, "a", None), (T1, "a", None)]),
        ([(T1, "a", "r"), (T3, "a", "r")], [(T1, "a", None), (T3, "a", None)]),
        ([(T1, "a", "r"), (T2, "a", "s")], [(T1, "a", "r"), (T2, "a", "s")]),
        ([(T2, "a", "r"), (T1, "a", "s"), (T1, "b", "")], [(T1, "b", None), (T1, "a", "s"), (T2, "a", "r")]),
    ],
)
def test_the_id_of_a_run_is_used_if_it_is_clear(
    rows: Sequence[tuple[str, str, str]], found: Sequence[tuple[str, str, str | None]]
) -> None:
    assert shown(rows_of(*rows)) == found


def test_few_rows_are_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv, "_MOST_ROWS", 3)
    waiting, count = WaitingRows(), []
    for _ in range(7):
        waiting.add(AboutRun(T1, None), numbered("a", 1.0, "s", None), "")
        count.append(sum(map(len, waiting._rows.values())))
    assert count == [1, 2, 0, 1, 2, 0, 1]


def test_a_long_file_has_16384_rows_in_memory() -> None:
    waiting, about, value = WaitingRows(), AboutRun(T1, None), numbered("a", 1.0, "s", None)
    for _ in range(16383):
        waiting.add(about, value, "")
    assert len(waiting._rows["2026-01"]) == 16383
    waiting.add(about, value, "")
    assert waiting._rows == {}


def test_places_name_the_line() -> None:
    _, problems, _ = imported('time,metric,value\n\n1,"a\nb",1\n1,a\n')
    assert problems == [f"{Location('a.csv', 5)}: error: 2 fields, and the header has 3"]
