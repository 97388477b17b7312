"""What all importers share: times, units, runs of numbers, result files, and the mistakes of a file."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import numpy as np
import pytest

from perfgate.core import Key, Location, Problem, Run, Series, TimeAndPlace, read_only
from perfgate.core.remembered_runs import HistoryValue, SeriesName
from perfgate.documents.json import load_json
from perfgate.history.imports import imported_runs
from perfgate.history.imports.imported_runs import (
    AboutRun,
    Faults,
    ImportFile,
    finite,
    in_base_unit,
    numbered,
    objects,
    of_results,
    of_runs,
    time_at,
    utc_of,
    utc_time,
    values_by_run,
)
from perfgate.rules.ruleset import Ruleset

AT = Location("a.json", 3)


def file(text: str = "{}", time: str | None = None, commit: str | None = None) -> ImportFile:
    lines = text.splitlines(keepends=True)
    return ImportFile("a.json", lambda: iter(lines), Ruleset("gpt", (), {}), time, commit)


def run(*names: str, problems: Sequence[Problem] = (), commit: str | None = None, time: object = "") -> Run:
    """A run with one number for each name; `time` is that in its file, if the file has a place for it."""
    values = read_only(np.array([0.5]))
    series = tuple(Series(Key(name), "s", "value", values) for name in names)
    measured = None if time == "" else TimeAndPlace(time, "date", {"machine": "cheetah"})
    return Run("a.json", "asv", series, tuple(problems), {"driver": "570"}, commit=commit, measured=measured)


def said(problems: Sequence[Problem]) -> list[str]:
    return [str(problem) for problem in problems]


# --- times -----------------------------------------------------------------------------------------------------------

NOT_A_TIME = "is not a time: write 2026-11-22T14:15:00Z, or seconds since 1970"
TIMES: list[tuple[str | float, str]] = [
    ("2026-01-02", "2026-01-02T00:00:00Z"),
    (" 2026-01-02T03:04:05Z ", "2026-01-02T03:04:05Z"),
    ("2026-01-02T03:04:05z", "2026-01-02T03:04:05Z"),
    ("2026-01-02T03:04:05.678", "2026-01-02T03:04:05Z"),
    ("2026-01-02T03:04:05+02:00", "2026-01-02T01:04:05Z"),
    (" 20260102 ", "2026-01-02T00:00:00Z"),
    ("1767225600", "2026-01-01T00:00:00Z"),
    ("100000000", "1973-03-03T09:46:40Z"),
    ("9999999", "1970-04-26T17:46:39Z"),
    (20260102, "1970-08-23T11:48:22Z"),
    (" 1767225600.5 ", "2026-01-01T00:00:00Z"),
    (1767225600, "2026-01-01T00:00:00Z"),
    (1767225600000, "2026-01-01T00:00:00Z"),
    ("1767225600000", "2026-01-01T00:00:00Z"),
    (1e11, "5138-11-16T09:46:40Z"),
    (100_000_000_001, "1973-03-03T09:46:40Z"),
    (0, "1970-01-01T00:00:00Z"),
    ("1970-06-01", "1970-06-01T00:00:00Z"),
]
NOT_TIMES: list[tuple[str | float, str]] = [
    ("1969-12-31T23:59:59Z", "'1969-12-31T23:59:59Z' is not a time of a run: it is before 1970"),
    ("-1", "'-1' is not a time of a run: it is before 1970"),
    ("never", f"'never' {NOT_A_TIME}"),
    ("20261301", f"'20261301' {NOT_A_TIME}"),
    ("", f"'' {NOT_A_TIME}"),
    ("9999-12-31T23:59:59-01:00", f"'9999-12-31T23:59:59-01:00' {NOT_A_TIME}"),
    (1e300, "1e+300 is not a time: the number of seconds is too large"),
    (float("inf"), "inf is not a time: the number of seconds is too large"),
]


@pytest.mark.parametrize(("time", "found"), TIMES)
def test_a_time_is_utc_without_fractions(time: str | float, found: str) -> None:
    assert utc_time(time) == utc_of(time) == found


@pytest.mark.parametrize(("text", "why"), NOT_TIMES)
def test_why_a_text_is_not_a_time(text: str | float, why: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(why)}$"):
        utc_time(text)


@pytest.mark.parametrize("value", [None, True, [1767225600], {}])
def test_another_value_is_no_time(value: object) -> None:
    with pytest.raises(ValueError, match=r"^the time is missing$"):
        utc_of(value)


def test_a_wrong_time_is_recorded_with_its_place() -> None:
    document, faults = load_json('{"a": 1,\n "date": "x"}', "a.json"), Faults("a.json")
    assert time_at(document, ("date",), "x", faults) is None
    assert time_at(document, ("a",), 1, faults) == "1970-01-01T00:00:01Z"
    assert said(faults.problems) == [f"a.json:2:10: error: 'x' {NOT_A_TIME}"]


# --- numbers and units -----------------------------------------------------------------------------------------------

UNITS = [
    ("ms", (0.25, "s")),
    (" ms ", (0.25, "s")),
    ("milliseconds (ms)", (0.25, "s")),
    ("time (wall) ( ms )", (0.25, "s")),
    ("min", (15000.0, "s")),
    ("", (250.0, "1")),
    (" ", (250.0, "1")),
    ("1", (250.0, "1")),
    ("count (1)", (250.0, "1")),
    ("parsec", None),
    ("(ms", None),
    ("ms)", None),
]


@pytest.mark.parametrize(("unit", "found"), UNITS)
def test_a_number_in_its_base_unit(unit: str, found: tuple[float, str] | None) -> None:
    assert in_base_unit(250.0, unit) == found
    faults = Faults("a.json")
    assert faults.in_base_unit(250.0, unit, lambda: AT) == (found or (250.0, "1"))
    known = f"{unit!r} is not a unit that perfgate knows: its numbers are kept without a unit"
    assert said(faults.problems) == ([] if found else [f"a.json:3: warning: {known}"])


@pytest.mark.parametrize(("number", "unit"), [(None, "parsec"), (1e308, "h"), (-1e308, "h")])
def test_a_number_that_is_not_finite_in_its_base_unit_is_left_out(number: float | None, unit: str) -> None:
    faults = Faults("a.json")
    assert faults.in_base_unit(number, unit, lambda: AT) is None
    assert faults.problems == ()


FINITE = [(2, 2.0), (-0.5, -0.5), (True, None), ("2", None), (None, None), (float("nan"), None), (float("inf"), None)]


@pytest.mark.parametrize(("value", "found"), FINITE)
def test_a_finite_number_is_a_float(value: object, found: float | None) -> None:
    assert (finite(value), type(finite(value))) == (found, type(found))


def test_a_number_has_the_direction_of_its_unit_if_none_is_given() -> None:
    name = SeriesName(Key("a", (("gpu", "0"), ("size", "big"))), "mean")
    assert numbered("a", 2.0, "s", None, {"size": "big", "gpu": "0"}) == HistoryValue(name, "s", "lower", "value", 2.0)
    assert numbered("a", 2.0, "1", None).better == "neither"
    assert numbered("a", 2.0, "s", "higher").better == "higher"
    assert numbered("a", 2.0, "s", None).name == SeriesName(Key("a"), "mean")


# --- mistakes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "more"), [(20, []), (21, ["1 more mistakes"]), (22, ["2 more mistakes"])])
def test_the_first_twenty_mistakes_are_shown(count: int, more: Sequence[str]) -> None:
    faults = Faults("a.json")
    for number in range(count):
        faults.say(f"wrong {number}", AT)
    shown = [f"a.json:3: error: wrong {number}" for number in range(20)]
    assert said(faults.problems) == [*shown, *(f"a.json: error: {text} like these" for text in more)]


def test_an_unknown_unit_is_named_once_and_only_twenty_are() -> None:
    faults = Faults("a.json")
    for unit in [*(f"u{number}" for number in range(21)), "u0"]:
        faults.unknown_unit(unit, AT)
    assert [(one.severity, one.message.split()[0]) for one in faults.problems] == [
        ("warning", f"'u{number}'") for number in range(20)
    ]


def test_only_objects_of_a_list_are_read() -> None:
    document, faults = load_json('{"rows": [{"a": 1}, 2, {}], "b": {}}', "a.json"), Faults("a.json")
    assert [*objects(document, document.data["rows"], ("rows",), faults)] == [
        (("rows", 0), {"a": 1}),
        (("rows", 2), {}),
    ]
    assert [*objects(document, document.data["b"], ("b",), faults)] == []
    assert said(faults.problems) == [
        "a.json:1:21: error: is not an object",
        "a.json:1:34: error: a list of objects is missing",
    ]


# --- runs ------------------------------------------------------------------------------------------------------------


def test_numbers_of_one_time_commit_branch_and_host_are_a_run() -> None:
    late, early = AboutRun("2026-01-02T00:00:00Z", "c2"), AboutRun("2026-01-01T00:00:00Z", "c1", "main", "gpu-0")
    a, b, c, d = (
        numbered(name, number, "s", None) for name, number in (("a", 1.0), ("b", 2.0), ("a", 3.0), ("a", 4.0))
    )
    found = values_by_run([(late, a), (early, a), (early, b), (late, c), (late, d), (late, b)])
    assert [(one.time, one.commit, one.ref, one.facts, one.values) for one in found] == [
        (early.time, "c1", "main", {"host": "gpu-0"}, (a, b)),
        (late.time, "c2", None, {}, (a, b)),  # the second number of a series begins another run
        (late.time, "c2", None, {}, (c,)),
        (late.time, "c2", None, {}, (d,)),
    ]


ERROR, WARNING = Problem("error", "broken", AT), Problem("warning", "odd", AT)
NO_TIME = "a.json: error: has no time of its own: give it with --time"
EMPTY = "a.json: warning: has no numbers; left out"


def test_the_runs_of_a_file_have_its_time_and_place() -> None:
    runs = [run("a", commit="c1", time=5), run("a", "b"), run()]
    found = of_runs(file(), runs, [WARNING], "2026-01-01T00:00:00Z")
    assert [(one.time, one.commit, len(one.values), one.facts, one.place) for one in found.runs] == [
        ("2026-01-01T00:00:00Z", "c1", 1, {"driver": "570"}, {"machine": "cheetah"}),
        ("2026-01-01T00:00:00Z", None, 2, {"driver": "570"}, {}),
    ]
    assert found.problems == (WARNING,)
    (given,) = of_runs(file(time="2026-01-02T00:00:00Z", commit="c9"), runs[:1], [], "2026-01-01T00:00:00Z").runs
    assert (given.time, given.commit) == ("2026-01-02T00:00:00Z", "c9")


@pytest.mark.parametrize(
    ("time", "names", "problems", "found"),
    [
        (None, ["a"], [WARNING], [str(WARNING), NO_TIME]),
        ("2026-01-01T00:00:00Z", ["a"], [ERROR], [str(ERROR)]),
        ("2026-01-01T00:00:00Z", ["a"], [], []),
        ("2026-01-01T00:00:00Z", [], [], [EMPTY]),
        ("2026-01-01T00:00:00Z", [], [WARNING], [str(WARNING), EMPTY]),
        ("2026-01-01T00:00:00Z", [], [WARNING, ERROR], [str(WARNING), str(ERROR)]),
    ],
)
def test_a_file_without_a_time_or_without_numbers(
    time: str | None, names: Sequence[str], problems: Sequence[Problem], found: Sequence[str]
) -> None:
    imported = of_runs(file(), [run(*names)], problems, time)
    assert said(imported.problems) == found
    assert len([*imported.runs]) == (time is not None and len(names))


def failed(name: str, severity: str = "error") -> Problem:
    return Problem(severity, f"{name} failed", AT, Key(name))  # type: ignore[arg-type]


GONE = "a.json: warning: 1 result is missing, because its benchmark failed"
RESULTS: list[tuple[Sequence[Run], Sequence[str]]] = [
    ([run("a", time=5)], []),
    ([run("a", time=5, problems=[ERROR])], [str(ERROR)]),
    ([run("a", time=5, problems=[ERROR, failed("b")])], [str(ERROR), GONE]),
    (
        [run("a", time=5, problems=[failed("b"), failed("c")])],
        [GONE.replace("1 result is", "2 results are").replace(", because its benchmark", ": benchmarks")],
    ),
    ([run("a", time=5, problems=[failed("b", "warning")])], []),
    # without any result, only the gaps matter
    ([run(time=5, problems=[ERROR, failed("b")])], [GONE, EMPTY]),
    ([run(time=5, problems=[ERROR])], [str(ERROR)]),
    ([run("a", time=5, problems=[ERROR]), run(problems=[failed("b")])], [str(ERROR), GONE]),
    ([run("a")], [NO_TIME]),
    ([run("a", time=None)], ["a.json:2:9: error: the time is missing"]),
    ([run("a", time="x", problems=[ERROR])], [f"a.json:2:9: error: 'x' {NOT_A_TIME}"]),
]


@pytest.mark.parametrize(("runs", "found"), RESULTS)
def test_what_is_said_about_a_result_file(
    runs: Sequence[Run], found: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imported_runs, "read", lambda source, format: runs)
    imported = of_results(file('{"a": 1,\n"date": NaN}'), "asv")
    assert said(imported.problems) == found
    has_time = not any("time" in text for text in found)
    assert [one.time for one in imported.runs] == ["1970-01-01T00:00:05Z"] * (has_time and bool(runs[0].series))


@pytest.mark.parametrize(("most", "lost"), [(3, ""), (2, "1 number"), (1, "3 numbers")])
def test_numbers_without_room_are_said(monkeypatch: pytest.MonkeyPatch, most: int, lost: str) -> None:
    monkeypatch.setattr("perfgate.history.records.MOST_VALUES", most)
    earlier = Problem("warning", "earlier", AT)
    found = of_runs(file(time="2026-01-01T00:00:00Z"), [run("a", "b", "c"), run("d", "e")], [earlier])
    assert [len(one.values) for one in found.runs] == [min(most, 3), min(most, 2)]
    first, *more = found.problems
    assert first == earlier
    message = f"left out, because there is no room: {lost}; name a metric in a rule to keep it"
    assert more == ([Problem("warning", message, Location("a.json"))] if lost else [])


def test_a_given_time_replaces_that_of_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imported_runs, "read", lambda source, format: [run("a", time="x")])
    found = of_results(file(time="2026-01-02T00:00:00Z"), "asv")
    assert ([one.time for one in found.runs], found.problems) == (["2026-01-02T00:00:00Z"], ())


def test_a_result_file_is_read_by_its_reader() -> None:
    results = {"time_forward": [[0.1]], "track_failed": None}
    about = {"commit_hash": "c1" * 20, "date": 1767225600000, "env_name": "py3.12", "params": {"machine": "cheetah"}}
    text = json.dumps({"version": 2, **about, "python": "3.12", "result_columns": ["result"], "results": results})
    found = of_results(file(text.replace(", ", ",\n")), "asv")
    (one,) = found.runs
    assert (one.time, one.commit, one.place["machine"]) == ("2026-01-01T00:00:00Z", "c1" * 20, "cheetah")
    assert [(value.name.key.metric, value.value) for value in one.values] == [("time_forward", 0.1)]
    assert said(found.problems) == [GONE]
