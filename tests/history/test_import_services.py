"""Bencher's JSON and `data.js` of github-action-benchmark: what is claimed, read, and said about a mistake."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from perfgate.history.imports.benchmark_services import claims_bencher, claims_data_js, read_bencher, read_data_js
from perfgate.history.imports.imported_runs import Imported, ImportFile
from perfgate.rules.ruleset import Ruleset

T1, T2 = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def file(text: str, time: str | None = None) -> ImportFile:
    lines = text.splitlines(keepends=True)
    return ImportFile("a.json", lambda: iter(lines), Ruleset("gpt", (), {}), time)


def said(found: Imported) -> list[str]:
    return [str(problem) for problem in found.problems]


def numbers(found: Imported) -> list[tuple[str, str | None, str, float, str]]:
    """The time, commit, metric, value and unit of each number."""
    return [(run.time, run.commit, str(one.name.key), one.value, one.unit) for run in found.runs for one in run.values]


# --- Bencher ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("head", "is_claimed"),
    [
        ('{"results": [{"testbed": {}, "benchmark": {}', True),
        ('[{"results": [{"testbed": {}, "benchmark": {}', True),
        ('{"results": [{"testbed": {}', False),
        ('{"results": [{"benchmark": {}', False),
        ('{"testbed": {}, "benchmark": {}', False),
        ('\n {"forward": {"latency": {"value": 1', True),
        ('[{"forward": {"latency": {"value": 1', False),
        ('{"forward": {"latency": {"mean": 1', False),
        ('{"forward": {"bandwidth": {"value": 1', False),
    ],
)
def test_a_file_of_bencher_is_known_by_its_words(head: str, is_claimed: bool) -> None:
    assert claims_bencher("a.json", head) is is_claimed


def point(value: object, *, time: object = T1, commit: str = "c1", newer: bool = False) -> dict[str, object]:
    found = {"metrics": {"value": value}} if newer else {"metric": {"value": value}}
    return {"start_time": time, "version": {"hash": commit}, **found}


def line(
    *points: object, measure: object = "latency", name: str | None = "forward", **more: object
) -> dict[str, object]:
    """A line of `bencher perf`; a measure that is a text is its slug."""
    what = {"slug": measure} if isinstance(measure, str) else measure
    names = {"branch": {"name": "main"}, "testbed": {"name": "h200"}, "benchmark": {"name": name}}
    return {**names, "measure": what, "metrics": [*points], **more}


def perf(*lines: object) -> Imported:
    """What is read of these lines of `bencher perf`."""
    return read_bencher(file(json.dumps({"results": [*lines]})))


MEASURES: list[tuple[object, str, float, str]] = [
    ("latency", "latency", 2.5e-7, "s"),
    ("throughput", "throughput", 250.0, "1/s"),
    ("file-size", "file-size", 250.0, "B"),
    ("build-time", "build-time", 250.0, "s"),
    ("allocated", "allocated", 250.0, "B"),
    ("instructions", "instructions", 250.0, "1"),
    ("loss", "loss", 250.0, "1"),
    ({"slug": "latency", "units": "milliseconds (ms)"}, "latency", 0.25, "s"),
    ({"slug": "latency", "name": "Latency"}, "latency", 2.5e-7, "s"),
    ({"slug": "", "name": "loss"}, "loss", 250.0, "1"),
    ({"name": "loss", "units": ""}, "loss", 250.0, "1"),
]


@pytest.mark.parametrize(("measure", "name", "value", "unit"), MEASURES)
def test_the_name_and_the_unit_of_a_measure(measure: object, name: str, value: float, unit: str) -> None:
    now = line(point(250), measure=measure)
    for found in (perf(now), perf({**now, "measure": None, "metric_kind": now["measure"]})):
        assert numbers(found) == [(T1, "c1", f"forward.{name}", value, unit)]
        assert found.problems == ()


def test_each_testbed_is_an_environment_and_each_commit_a_run() -> None:
    other = line(point(4e9), testbed={"name": "a100"}, branch={"name": "feature"})
    nowhere = line(point(5e9), testbed=None, branch={})
    found = perf(
        line(point(2e9, time=T2, commit="c2"), point(1e9, newer=True)), line(point(3e9), name="x"), other, nowhere
    )
    assert [
        (run.time, run.commit, run.ref, run.place, [one.value for one in run.values], run.facts) for run in found.runs
    ] == [
        (T1, "c1", "main", {"testbed": "h200"}, [1.0, 3.0], {}),
        (T2, "c2", "main", {"testbed": "h200"}, [2.0], {}),
        (T1, "c1", "feature", {"testbed": "a100"}, [4.0], {}),
        (T1, "c1", None, {}, [5.0], {}),
    ]
    assert found.problems == ()


@pytest.mark.parametrize(
    ("found", "value"),
    [
        ({"metric": {"value": 2}}, 2.0),
        ({"metric": {"value": 2}, "metrics": {"value": 3}}, 2.0),
        ({"metric": {"mean": 2}, "metrics": {"value": 3}}, 3.0),
        ({"metric": 2, "metrics": {"value": 3}}, 3.0),
        ({"metrics": {"value": {"value": 3}}}, 3.0),
        ({"metric": {"value": None}, "metrics": {"value": 3}}, None),
        ({"metric": {"value": "2"}}, None),
        ({"metrics": {"value": {"mean": 3}}}, None),
        ({"metrics": {"mean": 3}}, None),
        ({"metrics": 3}, None),
        ({}, None),
    ],
)
def test_the_value_of_a_point(found: dict[str, Any], value: float | None) -> None:
    imported = perf(line({"start_time": T1, **found}, measure="loss"))
    assert [one[:2] + one[3:4] for one in numbers(imported)] == ([] if value is None else [(T1, None, value)])
    assert [text.split(": ")[-1] for text in said(imported)] == (
        ["a metric has no finite value; left out"] if value is None else []
    )


INCOMPLETE = "a result needs a benchmark and a measure; left out"


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("[1]", ["a.json: error: is not an object"]),
        ("[1", ["a.json:1:3: error: the JSON document is cut off"]),
        ('{"results": {}}', ["a.json:1:13: error: a list of objects is missing"]),
        ('{"results":\n[1]}', ["a.json:2:2: error: is not an object"]),
        ('{"results":\n[{"benchmark": {"name": "a"}, "metrics": 1}]}', [f"a.json:2:2: error: {INCOMPLETE}"]),
        ('{"results":\n[{"measure": {"slug": "a"}, "metrics": 1}]}', [f"a.json:2:2: error: {INCOMPLETE}"]),
        (
            '{"results": [{"benchmark": {"name": "a"}, "measure": {"name": "b"},\n"metrics": 1}]}',
            ["a.json:2:12: error: a list of objects is missing"],
        ),
        (
            '{"results": [{"benchmark": {"name": "a"}, "measure": {"name": "b"}, "metrics": [\n'
            '{"metric": {"value": NaN}, "start_time": "2026-01-01"},\n'
            '{"metric": {"value": 1}, "start_time": "x"}]}]}',
            [
                "a.json:2:1: error: a metric has no finite value; left out",
                "a.json:3:40: error: 'x' is not a time: write 2026-11-22T14:15:00Z, or seconds since 1970",
            ],
        ),
        (
            '{"results": [{"benchmark": {"name": "a"}, "measure": {"name": "b", "units": "h"}, "metrics": [\n'
            '{"metric": {"value": 1e308}, "start_time": "2026-01-01"}]}]}',
            ["a.json:2:1: error: a metric has no finite value; left out"],
        ),
        ('{"results": [], "results":\n[]}', ["a.json:2:1: error: the key 'results' occurs twice; the last one counts"]),
    ],
)
def test_a_mistake_in_a_file_of_bencher(text: str, problems: Sequence[str]) -> None:
    found = read_bencher(file(text))
    assert ([*found.runs], said(found)) == ([], problems)


def test_an_unknown_unit_of_bencher_is_a_warning() -> None:
    found = perf(line(point(2), measure={"slug": "far", "units": "parsec"}))
    assert numbers(found) == [(T1, "c1", "forward.far", 2.0, "1")]
    ((problem,), text) = found.problems, json.dumps({"results": [line(measure={"slug": "far", "units": "parsec"})]})
    assert (problem.severity, problem.at.column) == ("warning", text.index('"metrics": [') + 13)


def test_a_report_of_bencher_has_the_given_time() -> None:
    found = read_bencher(file('{"forward": {"latency": {"value": 2e9}}}', T1))
    assert (numbers(found), found.problems) == ([(T1, None, "forward.latency", 2.0, "s")], ())


# --- data.js ---------------------------------------------------------------------------------------------------------

PREFIX = "window.BENCHMARK_DATA ="


@pytest.mark.parametrize(
    ("head", "is_claimed"),
    [
        (f"{PREFIX} {{", True),
        (f"\n {PREFIX}{{", True),
        ('{"entries": {"a": [{"benches"', True),
        ('{"entries": {"a": [', False),
        ('{"benches": [', False),
        ("window.DATA = {", False),
    ],
)
def test_data_js_is_known_by_its_words(head: str, is_claimed: bool) -> None:
    assert claims_data_js("data.js", head) is is_claimed


def entry(
    *benches: object, commit: object = "c1", date: object = 1767225600000, tool: str = "cargo"
) -> dict[str, object]:
    return {"commit": {"id": commit}, "date": date, "tool": tool, "benches": [*benches]}


def bench(name: object = "forward", value: object = 250, unit: object = "ms/iter") -> dict[str, object]:
    return {"name": name, "value": value, "unit": unit}


def suites(**entries: object) -> Imported:
    return read_data_js(file(json.dumps({"entries": entries})))


ONE = json.dumps({"entries": {"a": [entry(bench())]}})


@pytest.mark.parametrize(
    "text",
    [ONE, f"{PREFIX} {ONE}", f"{PREFIX}{ONE};\n", f" \n{PREFIX}\n{ONE} ;", f"// the data\n{PREFIX} {ONE}", f"{ONE};"],
)
def test_data_js_is_read_with_and_without_its_prefix(text: str) -> None:
    found = read_data_js(file(text))
    assert (numbers(found), found.problems) == ([(T1, "c1", "forward", 0.25, "s")], ())


def test_the_prefix_in_the_text_of_a_commit_is_no_prefix() -> None:
    row = {**entry(bench()), "commit": {"id": "c1", "message": f"write {PREFIX} again"}}
    assert numbers(suites(a=[row])) == [(T1, "c1", "forward", 0.25, "s")]
    text = json.dumps({"entries": {"a": [row]}})
    assert numbers(read_data_js(file(f"{PREFIX} {text}"))) == [(T1, "c1", "forward", 0.25, "s")]


def test_several_suites_are_labels() -> None:
    rows = [entry(bench()), entry(bench(value=500), commit="c2", date=1767312000000)]
    assert numbers(suites(a=rows)) == [(T1, "c1", "forward", 0.25, "s"), (T2, "c2", "forward", 0.5, "s")]
    assert numbers(suites(a=rows[:1], b=rows[1:])) == [
        (T1, "c1", 'forward{suite="a"}', 0.25, "s"),
        (T2, "c2", 'forward{suite="b"}', 0.5, "s"),
    ]


@pytest.mark.parametrize(
    ("tool", "unit", "better"),
    [
        ("customBiggerIsBetter", "ms", "higher"),
        ("customSmallerIsBetter", "iter/sec", "lower"),
        ("cargo", "ms", "lower"),
        ("cargo", "iter/sec", "higher"),
        ("cargo", "", "neither"),
    ],
)
def test_the_direction_of_a_tool_or_of_the_unit(tool: str, unit: str, better: str) -> None:
    ((run,), problems) = (found := suites(a=[entry(bench(unit=unit), tool=tool)])).runs, found.problems
    assert ([one.better for one in run.values], problems) == ([better], ())


@pytest.mark.parametrize("commit", [None, "", 5])
def test_a_commit_that_is_not_a_text_is_unknown(commit: object) -> None:
    assert numbers(suites(a=[entry(bench(), commit=commit)])) == [(T1, None, "forward", 0.25, "s")]
    assert numbers(suites(a=[{**entry(bench()), "commit": commit}])) == [(T1, None, "forward", 0.25, "s")]


NAMELESS = "a benchmark needs a name and a finite value; left out"
BENCHES: list[tuple[Sequence[object], Sequence[float], Sequence[str]]] = [
    ([bench(), bench("b", 5, None)], [0.25, 5.0], []),
    ([bench(), bench(value=500)], [0.25], ["1:2: error: forward is in this run twice; the first one counts"]),
    ([bench(), bench(""), bench("b")], [0.25, 0.25], [f"1:2: error: {NAMELESS}"]),
    ([bench(), bench(None)], [0.25], [f"1:2: error: {NAMELESS}"]),
    ([bench(), bench("b", None)], [0.25], [f"1:2: error: {NAMELESS}"]),
    ([bench(), bench("b", float("nan"))], [0.25], [f"1:2: error: {NAMELESS}"]),
    ([bench(), bench("b", 1e308, "h")], [0.25], [f"1:2: error: {NAMELESS}"]),
    ([bench(), 5], [0.25], ["1:2: error: is not an object"]),
    ([bench("", 500), bench("", 600)], [], [f"0:2: error: {NAMELESS}", f"1:2: error: {NAMELESS}"]),
]


@pytest.mark.parametrize(("benches", "values", "problems"), BENCHES)
def test_the_benchmarks_of_an_entry(
    benches: Sequence[object], values: Sequence[float], problems: Sequence[str]
) -> None:
    rows = ",\n ".join(json.dumps(one) for one in benches)
    date = '"date": 1767225600000'
    found = read_data_js(file(f'{{"entries": {{"a": [{{{date}, "benches": [\n {rows}]}}]}}}}'))
    assert [one[3] for one in numbers(found)] == values
    assert said(found) == [f"a.json:{int(text[0]) + 2}{text[1:]}" for text in problems]
    assert len([*found.runs]) == bool(values)  # an entry without a number is no run


NOT_ENTRIES = "a.json: error: has no object 'entries'"


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("[]", [NOT_ENTRIES]),
        ("{}", [NOT_ENTRIES]),
        ('{"entries": []}', [NOT_ENTRIES]),
        ("", ["a.json:1:1: error: the JSON document is cut off"]),
        (
            f"\n{PREFIX} {{]",
            ["a.json:2:26: error: this is not JSON: Expecting property name enclosed in double quotes"],
        ),
        (f'{PREFIX} {{"entries": {{"a": 1}}}}', ["a.json:1:43: error: a list of objects is missing"]),
        (f'{PREFIX}\n{{"entries": {{"a": [2]}}}}', ["a.json:2:20: error: is not an object"]),
        (
            '{"entries": {"a": [{"benches": [],\n"date": "x"}]}}',
            ["a.json:2:9: error: 'x' is not a time: write 2026-11-22T14:15:00Z, or seconds since 1970"],
        ),
        ('{"entries": {"a": [{"date": 1,\n"benches": 5}]}}', ["a.json:2:12: error: a list of objects is missing"]),
        ('{"entries": {}, "entries":\n{}}', ["a.json:2:1: error: the key 'entries' occurs twice; the last one counts"]),
    ],
)
def test_a_mistake_in_data_js(text: str, problems: Sequence[str]) -> None:
    found = read_data_js(file(text))
    assert ([*found.runs], said(found)) == ([], problems)


def test_an_unknown_unit_of_data_js_is_a_warning() -> None:
    found = read_data_js(file(ONE.replace('"ms/iter"', '\n"parsec"')))
    assert numbers(found) == [(T1, "c1", "forward", 250.0, "1")]
    known = "'parsec' is not a unit that perfgate knows: its numbers are kept without a unit"
    assert said(found) == [f"a.json:2:1: warning: {known}"]
