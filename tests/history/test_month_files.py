"""The files of the history: the runs of a month in one file, and what is said about a file that cannot be used."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import msgspec
import pytest
from histories import at, record, value
from msgspec.structs import replace

from perfgate.core import Key, Location, Problem
from perfgate.core.remembered_runs import HistoryRecord, HistoryRun, HistoryValue, SeriesName
from perfgate.history import files as module
from perfgate.history.files import REMEDY, HistoryFile, MonthColumn, decode, month_file, records_of
from perfgate.history.records import run_file


def number(metric: str, one: float, **about: Any) -> HistoryValue:
    """A number that a tool printed, with two labels."""
    name = SeriesName(Key(metric, (("a", "1"), ("b", "2"))), "p95", "across")
    return HistoryValue(name, "1/s", "higher", "value", one, **about)


RUNS = (
    HistoryRun("1", at(0), "c0", "main", ("v1", "v2"), {"host": "n1", "driver": 570}, None),
    HistoryRun("2", at(1), None, None, (), {"driver": 570, "host": "n1"}, "asv"),
    HistoryRun("3", at(2), "c2", "main", (), {"host": "n2"}, None),
)
IDENTITY = {"gpu": "H200", "gpu_count": None}
VALUES = (
    (number("50%", 7.0), value("forward", 0.1)),
    (value("backward", 5.0), value("forward", 0.2)),
    (replace(value("forward", 0.0), error=None, n=None, n_effective=None),),
)
RECORDS = [HistoryRecord("gpt", IDENTITY, run, values) for run, values in zip(RUNS, VALUES, strict=True)]
TEXT = """{"schema": "perfgate.history-month/1",
"tool": "perfgate 1",
"suite": "gpt",
"identity": {"gpu":"H200","gpu_count":null},
"contexts": [{"driver":570,"host":"n1"},{"host":"n2"}],
"runs": [["1","2026-01-01T00:00:00Z","c0","main",["v1","v2"],0,null],\
["2","2026-01-01T01:00:00Z",null,null,[],0,"asv"],\
["3","2026-01-01T02:00:00Z","c2","main",[],1,null]],
"metrics": {
"50%": [{"labels":{"a":"1","b":"2"},"statistic":"p95","rank":"across","unit":"1/s","better":"higher","kind":"value",\
"values":[7.0],"at":[0]}],
"backward": [{"labels":{},"statistic":"median","rank":"worst","unit":"s","better":"lower","kind":"samples",\
"values":[5.0],"at":[1],"errors":[0.01],"n":[200],"n_effective":[150.0]}],
"forward": [{"labels":{},"statistic":"median","rank":"worst","unit":"s","better":"lower","kind":"samples",\
"values":[0.1,0.2,0.0],"errors":[0.0002,0.0004,null],"n":[200,200,null],"n_effective":[150.0,150.0,null]}]},
"content_sha256": ""}
"""


def signed(text: str) -> bytes:
    """The file with the hash of this text."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    return text.replace('"content_sha256": ""', f'"content_sha256": "{digest}"').encode()


def changed(old: str, new: str) -> bytes:
    """A file that somebody wrote with other content."""
    assert old in TEXT
    return signed(TEXT.replace(old, new, 1))


# --- what is written --------------------------------------------------------------------------------------------------


def test_a_month_is_written_by_metric_with_the_hash_of_its_text() -> None:
    assert month_file(RECORDS, "perfgate 1") == signed(TEXT)


def test_runs_without_numbers_are_a_month_too() -> None:
    (empty,) = (replace(one, values=()) for one in RECORDS[:1])
    data = month_file([empty], "perfgate 1")
    assert b'"metrics": {},\n' in data
    file, problems = decode("m.json", data)
    assert problems == []
    assert file is not None
    assert records_of(file) == [empty]


def test_numbers_are_written_with_their_digits() -> None:
    name = SeriesName(Key("x"), "mean")
    long = HistoryValue(name, "s", "lower", "samples", math.pi / 10, math.pi / 100, 3, math.pi)
    data = month_file([replace(RECORDS[0], values=(long,))], "perfgate 1")
    assert b'"values":[0.314159265359],"errors":[0.0314],"n":[3],"n_effective":[3.142]}' in data


# --- what is read -----------------------------------------------------------------------------------------------------


def test_a_month_is_read_as_it_was_written() -> None:
    file, problems = decode("m.json", signed(TEXT))
    assert problems == []
    assert file is not None
    assert records_of(file) == RECORDS
    assert (file.metrics, file.values) == (("50%", "backward", "forward"), ())
    assert file.sha256 == hashlib.sha256(TEXT.encode()).hexdigest()


@pytest.mark.parametrize(
    ("wanted", "found"), [(["forward"], ["forward"]), ([], []), (None, ["50%", "backward", "forward"])]
)
def test_only_wanted_metrics_are_read(wanted: list[str] | None, found: list[str]) -> None:
    is_wanted = None if wanted is None else wanted.__contains__
    month, _ = decode("m.json", signed(TEXT), is_wanted)
    run, _ = decode("r.json", run_file(replace(RECORDS[1], values=(*VALUES[0], VALUES[1][0])), "perfgate 1"), is_wanted)
    assert month is not None
    assert run is not None
    assert [metric for metric, _ in month.columns] == found
    assert [one.name.key.metric for _, one in run.values] == found
    assert sorted(month.metrics) == sorted(run.metrics) == ["50%", "backward", "forward"]


def test_the_file_of_a_run_is_read_as_it_was_written() -> None:
    one = record(3, {"forward": 0.5})
    data = run_file(one, "perfgate 1")
    file, problems = decode("r.json", data)
    (digest,) = (line.split('"')[3] for line in data.decode().splitlines() if "content_sha256" in line)
    assert problems == []
    assert file == HistoryFile(
        *(one.suite, one.identity, (one.run,), ((0, one.values[0]),)), metrics=("forward",), sha256=digest
    )
    assert records_of(file) == [one]
    other_layout = msgspec.json.encode(msgspec.json.decode(data))
    assert decode("r.json", other_layout) == (file, [])


WRITTEN = [
    (signed(TEXT), True),
    (signed(TEXT)[:-1], False),
    (signed(TEXT.rstrip("\n")), True),
    (signed('{"content_sha256": "",\n"b": 1}'), False),
    (signed('{"a": {"content_sha256": ""}, "content_sha256": ""}'), False),
    (signed(TEXT).replace(b"n1", b"n2"), False),
    (signed(TEXT).rstrip(b"\n") + b"\n\n", False),
    (TEXT.encode(), False),
    (b"", False),
]


@pytest.mark.parametrize(("data", "whole"), WRITTEN)
def test_the_last_field_is_the_hash_of_the_rest(data: bytes, whole: bool) -> None:
    assert module._is_as_written(data) is whole


# --- what cannot be used ----------------------------------------------------------------------------------------------

ALTERED = "is cut off, or was altered after it was written"
FORM = "does not have the form of a history: "
FORWARD = "the numbers of forward contradict each other"
UNUSABLE = [
    (signed(TEXT)[:-5], ALTERED),
    (signed(TEXT).replace(b"0.1,0.2", b"0.1,0.3"), ALTERED),
    (changed("01:00:00Z", "01:00"), f"{FORM}an impossible time"),
    (changed("02:00:00Z", "02:00:00Z "), f"{FORM}an impossible time"),
    (changed("[],1,null", "[],2,null"), f"{FORM}a run without its facts"),
    (changed("[],1,null", "[],-1,null"), f"{FORM}a run without its facts"),
    (changed("[0.1,0.2,0.0]", "[0.1,0.2]"), FORM + FORWARD),
    (changed('"at":[0]', '"at":[3]'), f"{FORM}the numbers of 50% contradict each other"),
    (changed('"unit":"1/s"', '"unit":"ms"'), f"{FORM}the numbers of 50% contradict each other"),
    (changed('"tool"', '"more": 1,\n"tool"'), f"{FORM}unknown field 'more'"),
    (changed('"values"', '"more": 1,\n"values"'), f"{FORM}unknown field 'more'"),
    (changed('0,null],["2"', '0,null,1],["2"'), f"{FORM}Expected 'array' of at most length 7"),
    (changed('"suite": "gpt",\n', ""), f"{FORM}the field 'suite' is missing"),
]


@pytest.mark.parametrize(("data", "why"), UNUSABLE)
def test_what_is_said_about_a_month_that_cannot_be_used(data: bytes, why: str) -> None:
    assert decode("m.json", data) == (None, [Problem("error", f"{why}; {REMEDY}", Location("m.json"))])


def test_a_metric_that_is_not_wanted_is_not_checked() -> None:
    for data in (changed("[0.1,0.2,0.0]", "[0.1,0.2]"), changed('"values":[0.1', '"more":1,"values":[0.1')):
        assert decode("m.json", data, lambda metric: metric != "forward")[1] == []
        assert decode("m.json", data, lambda metric: metric == "forward")[0] is None
    one = replace(RECORDS[0], values=VALUES[0][1:] * 2)
    twice = run_file(one, "perfgate 1")
    assert decode("r.json", twice, lambda metric: metric != "forward")[1] == []
    assert decode("r.json", twice, lambda metric: metric == "forward")[0] is None


def test_each_column_of_a_metric_is_checked() -> None:
    """`forward` has a second statistic with one number less."""
    start = TEXT.index('[{"labels":{},"statistic":"median"', TEXT.index('"forward"')) + 1
    column = TEXT[start : TEXT.index("]},", start)]
    more = column.replace("median", "mean").replace("0.1,", "")
    data = changed(column, f"{column},{more}")
    assert decode("m.json", data)[1][0].message == f"{FORM}{FORWARD}; {REMEDY}"
    good = changed(column, f"{column},{column.replace('median', 'mean')}")
    file, _ = decode("m.json", good)
    assert file is not None
    assert [len(one.values) for one in records_of(file)] == [3, 3, 2]


RUN = run_file(record(1, {"x": 1.0}), "perfgate 1").decode()


def run_with(old: str, new: str) -> bytes:
    """The file of a run that somebody wrote with other content."""
    assert old in RUN
    digest = RUN.split('"')[-2]
    return signed(RUN.replace(old, new, 1).replace(digest, ""))


SCHEMA = "has the schema 'perfgate.history/2'; this perfgate reads perfgate.history/1: use the version that wrote it"
RUNS_OF_OTHERS = [
    (RUN.encode()[:-5], "is damaged: "),
    (RUN.replace("1.0", "2.0").encode(), "was altered after it was written"),
    (run_with("perfgate.history/1", "perfgate.history/2"), SCHEMA),
    (run_with('perfgate.history/1",', 'perfgate.history/2", "more": 1,'), SCHEMA),
    (run_with("2026-01-01T01:00:00Z", "2026"), "has a metric twice, or an impossible number or time"),
    (run_with('"tool"', '"more": 1, "tool"'), "does not have the form of perfgate.history/1: unknown field 'more'"),
    (changed("history-month/1", "history-month/2"), "has the schema 'perfgate.history-month/2'"),
    (b"[1]", "has the schema None"),
    (b"\xff", "is not UTF-8 text"),
    (signed('{"a": "?", "content_sha256": ""}').replace(b"?", b"\xff"), "is not UTF-8 text"),
]


@pytest.mark.parametrize(("data", "why"), RUNS_OF_OTHERS)
def test_what_is_said_about_the_file_of_a_run_that_cannot_be_used(data: bytes, why: str) -> None:
    file, (problem,) = decode("r.json", data)
    assert file is None
    assert problem.message.startswith(why)


# --- one column -------------------------------------------------------------------------------------------------------

COLUMN = MonthColumn({"b": "2", "a": "1"}, "mean", "worst", "s", "lower", "samples", [1.0, 2.0])
SOUND = [
    ({}, 2, True),
    ({}, 3, False),
    ({}, 1, False),
    ({"at": [0, 1]}, 5, True),
    ({"at": [3, 4]}, 5, True),
    ({"at": [4, 5]}, 5, False),
    ({"at": [-1, 0]}, 5, False),
    ({"at": [0]}, 5, False),
    ({"at": [0, 1, 2]}, 5, False),
    ({"errors": [0.1, None], "n": [1, None], "n_effective": [None, 2.0]}, 2, True),
    ({"errors": [0.1], "n": [1, None], "n_effective": [None, 2.0]}, 2, False),
    ({"errors": [0.1, None], "n": [1]}, 2, False),
    ({"n_effective": [None]}, 2, False),
    ({"unit": "ms"}, 2, False),
    ({"values": [], "at": []}, 5, True),
]


@pytest.mark.parametrize(("differs", "runs", "sound"), SOUND)
def test_a_column_has_one_length_and_runs_of_its_file(differs: dict[str, Any], runs: int, sound: bool) -> None:
    assert replace(COLUMN, **differs).is_sound(runs) is sound


def test_a_column_has_its_name_places_and_numbers() -> None:
    assert module.name_of("x", COLUMN) == SeriesName(Key("x", (("a", "1"), ("b", "2"))), "mean", "worst")
    assert [*module.places_of(COLUMN)] == [0, 1]
    assert [*module.places_of(replace(COLUMN, at=[4, 7]))] == [4, 7]
    full = replace(COLUMN, errors=[0.1, None], n=[3, 4], n_effective=[None, 2.0])
    rows = [(one.value, one.error, one.n, one.n_effective) for one in module.values_of("x", full)]
    assert rows == [(1.0, 0.1, 3, None), (2.0, None, 4, 2.0)]
    assert [(one.error, one.n, one.n_effective) for one in module.values_of("x", COLUMN)] == [(None, None, None)] * 2
    first = next(iter(module.values_of("x", full)))
    assert (first.unit, first.better, first.kind) == ("s", "lower", "samples")
