"""Histories of other tools: what is read of each, and what is said about a mistake."""

from __future__ import annotations

import builtins
import io
import json
import os
import subprocess
from collections.abc import Callable
from errno import EACCES
from functools import partial
from pathlib import Path

import pytest
from conftest import Done
from histories import at, steps, store_at

from perfgate.core.run_history import HistorySeries
from perfgate.history.load import load

Command = Callable[..., Done]
ONE, TWO = "45d78258e495044a551046f50604da3c893052ce", "b840614fd88743f234aac0dc747a0a70616f450f"

CSV = f"""time,commit,metric,value,unit
2026-01-01T00:00:00Z,{ONE},forward,100,ms
2026-01-01T00:00:00Z,{ONE},rate,5,it/s
1767312000,{TWO},forward,0.11,s
"""
DATA_JS = {
    "lastUpdate": 1,
    "entries": {
        "Rust": [
            {
                "commit": {"id": commit, "message": "m", "timestamp": "2026-01-01T00:00:00Z"},
                "date": date,
                "tool": "cargo",
                "benches": [
                    {"name": "forward", "value": value, "range": "± 35", "unit": "ms/iter"},
                    {"name": "rate", "value": 5, "unit": "iter/sec"},
                ],
            }
            for commit, date, value in ((ONE, 1767225600000, 100), (TWO, 1767312000000, 110))
        ]
    },
}


def bencher(branch: str, metric: str, measure: str, units: str, *values: float) -> dict[str, object]:
    """One line of `bencher perf`."""
    points = [
        {"start_time": time, "version": {"number": 1, "hash": commit}, "metric": {"value": value}}
        for time, commit, value in zip(
            ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"), (ONE, TWO), values, strict=False
        )
    ]
    names = {"branch": {"name": branch}, "testbed": {"name": "h200"}, "benchmark": {"name": metric}}
    return {**names, "measure": {"slug": measure, "units": units}, "metrics": points}


BENCHER = {
    "project": {},
    "results": [
        bencher("main", "forward", "latency", "nanoseconds (ns)", 1e8, 1.1e8),
        bencher("main", "rate", "throughput", "operations / second (ops/s)", 5),
        bencher("feature", "forward", "latency", "nanoseconds (ns)", 9e9),
    ],
}


def asv(commit: str, date: int, value: float) -> dict[str, object]:
    """A result of asv."""
    results = {"time_forward": [[value]], "track_failed": None}
    about = {"commit_hash": commit, "date": date, "env_name": "py3.12", "params": {"machine": "cheetah"}}
    return {"version": 2, **about, "python": "3.12", "result_columns": ["result"], "results": results}


def stored(commit: str, when: str, value: float) -> dict[str, object]:
    """A result of pytest-benchmark."""
    stats = {"min": value, "max": value, "mean": value, "median": value, "stddev": 0.0, "rounds": 5, "total": 5 * value}
    bench = {"fullname": "test_forward", "name": "test_forward", "stats": stats}
    return {"machine_info": {"cpu": {}}, "commit_info": {"id": commit}, "benchmarks": [bench], "datetime": when}


def series(folder: Path) -> dict[str, HistorySeries]:
    return {str(one.name): one for one in load(store_at(folder)).series}


@pytest.mark.parametrize(
    ("name", "text", "forward", "rate"),
    [
        ("history.csv", CSV, "forward mean", "rate mean"),
        ("data.js", f"window.BENCHMARK_DATA = {json.dumps(DATA_JS)};\n", "forward mean", "rate mean"),
        ("data.json", json.dumps(DATA_JS), "forward mean", "rate mean"),
        ("perf.json", json.dumps(BENCHER), "forward.latency mean", "rate.throughput mean"),
    ],
    ids=["csv", "data.js", "its JSON", "bencher"],
)
def test_a_file_of_many_runs(folder: Path, perfgate: Command, name: str, text: str, forward: str, rate: str) -> None:
    Path(name).write_text(text)
    done = perfgate("history", "import", name)
    assert done.code == 0, done.said
    assert "imported 2 runs with 2 metrics, 2026-01-01 to 2026-01-02" in done.out
    found = series(folder)
    assert (found[forward].unit, found[forward].better) == ("s", "lower")
    assert found[forward].values.tolist() == pytest.approx([0.1, 0.11])
    assert [run.commit for run in found[forward].runs] == [ONE, TWO]
    assert [run.time for run in found[forward].runs] == ["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"]
    assert (found[rate].unit, found[rate].better, found[rate].values[0]) == ("1/s", "higher", 5.0)
    again = perfgate("history", "import", name)
    assert (again.code, again.out) == (0, again.out[: again.out.index("2 runs")] + "2 runs in the history already\n")


@pytest.mark.parametrize("tool", ["asv", "pytest-benchmark"])
def test_a_folder_of_files(folder: Path, perfgate: Command, tool: str) -> None:
    if tool == "asv":
        place, metric = folder / "results" / "cheetah", "time_forward"
        files = [asv(ONE, 1767225600000, 0.1), asv(TWO, 1767312000000, 0.11)]
    else:
        place, metric = folder / ".benchmarks" / "Linux-CPython-3.12-64bit", "test_forward"
        files = [stored(ONE, "2026-01-01T00:00:00", 0.1), stored(TWO, "2026-01-02T00:00:00+00:00", 0.11)]
    place.mkdir(parents=True)
    for number, content in enumerate(files):
        (place / f"{number}.json").write_text(json.dumps(content))
    (place / "machine.json").write_text("{}")
    done = perfgate("history", "import", place.parent)
    assert done.code == 0, done.said
    assert ("1 result is missing, because its benchmark failed" in done.err) == (tool == "asv")
    assert "machine-cheetah" in done.out or "linux-cpython-3.12-64bit" in done.out
    (one,) = series(folder).values()
    assert (one.name.key.metric, one.unit, one.values.tolist()) == (metric, "s", [0.1, 0.11])
    assert [run.commit for run in one.runs] == [ONE, TWO]


@pytest.mark.parametrize("name", ["golden_values_dev.json", 'golden_values_"größer".json'])  # git quotes the second
def test_each_version_of_golden_values_is_a_run(
    folder: Path, perfgate: Command, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def git(*words: str) -> str:
        return subprocess.run(["git", *words], check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q", "-b", "main")
    commits = []
    for number, value in enumerate((1.6, 1.7)):
        values = {str(step): value for step in range(1, 11)}
        golden = {"iteration-time": {"start_step": 1, "end_step": 10, "step_interval": 1, "values": values}}
        Path(name).write_text(json.dumps(golden))
        git("add", name)
        monkeypatch.setenv("GIT_COMMITTER_DATE", f"2026-01-0{number + 1}T00:00:00+00:00")
        git("-c", "user.name=ada", "-c", "user.email=ada@example.org", "commit", "-q", "-m", "golden")
        commits.append(git("rev-parse", "HEAD"))
    done = perfgate("history", "import", name)
    assert done.code == 0, done.said
    (one,) = series(folder).values()
    assert ([run.commit for run in one.runs], one.values.tolist()) == (commits, [1.6, 1.7])
    assert one.name.key.metric == "iteration_time"


def test_a_report_of_bencher_needs_a_time(folder: Path, perfgate: Command) -> None:
    Path("report.json").write_text(json.dumps({"forward": {"latency": {"value": 1e8}}}))
    done = perfgate("history", "import", "report.json")
    assert (done.code, done.err.strip()) == (3, "report.json: error: has no time of its own: give it with --time")
    assert perfgate("history", "import", "report.json", "--time", "2026-01-01", "--head", ONE).code == 0
    (one,) = series(folder).values()
    assert (one.values.tolist(), one.runs[0].commit) == ([0.1], ONE)


def test_the_branch_can_be_chosen(folder: Path, perfgate: Command) -> None:
    Path("perf.json").write_text(json.dumps(BENCHER))
    done = perfgate("history", "import", "perf.json")
    assert "left out: 1 run of other branches (feature); --ref chooses the branch" in done.out
    assert perfgate("history", "import", "perf.json", "--ref", "nosuch").code == 3


def test_two_runs_of_a_commit_stay_two(folder: Path, perfgate: Command) -> None:
    Path("history.csv").write_text(f"time,commit,metric,value\n2026-01-01,{ONE},a,1\n2026-01-01,{ONE},a,2\n")
    assert perfgate("history", "import", "history.csv").code == 0
    assert sorted(series(folder)["a mean"].values.tolist()) == [1.0, 2.0]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.csv", "", "a.csv:1: error: the file is empty: its first line must be time,commit,metric,value,unit"),
        ("a.csv", "time,metric\n", "a.csv:1: error: the first line is 'time,metric', without value: write the columns"),
        (
            "a.csv",
            "time;metric;value\n",
            "a.csv:1: error: its columns are separated by ';': write commas, and decimal points in the numbers",
        ),
        ("a.csv", "time,metric,value\n", "a.csv: error: has no run to import"),
        ("a.csv", "time,metric,value\nnever,a,1\n", "a.csv:2: error: 'never' is not a time"),
        ("a.csv", "time,metric,value\n2026-01-01,a,x\n", "a.csv:2: error: value is 'x', not a number"),
        ("a.csv", "time,metric,value\n2026-01-01,a,nan\n", "a.csv:2: error: value is 'nan', not a finite number"),
        ("a.csv", "time,metric,value\n2026-01-01,a\n", "a.csv:2: error: 2 fields, and the header has 3"),
        ("a.csv", "time,metric,value\n2026-01-01,,1\n", "a.csv:2: error: the metric is empty"),
        ("a.csv", "time,metric,value,colour\n", "a.csv:1: error: the column 'colour' is not known"),
        ("a.csv", 'time,metric,value\n2026-01-01,"a,1\n', "a.csv:2: error: is not CSV"),
        ("a.csv", "time,metric,value,unit\n2026-01-01,a,1,parsec\n", "a.csv:2: warning: 'parsec' is not a unit"),
        ("data.js", "window.BENCHMARK_DATA = {", "data.js:1:"),
        (
            "data.js",
            'window.BENCHMARK_DATA = {"entries": {"a": [{"date": "x"}]}}',
            "data.js:1:53: error: 'x' is not a time",
        ),
        ("a.json", "{}", "a.json: error: has no history that perfgate knows"),
    ],
)
def test_a_mistake_names_its_place(folder: Path, perfgate: Command, name: str, text: str, said: str) -> None:
    Path(name).write_text(text)
    done = perfgate("history", "import", name)
    assert said in done.err
    assert done.code == (0 if "warning" in said else 3)


def test_an_empty_folder_has_nothing_to_import(folder: Path, perfgate: Command) -> None:
    Path("empty").mkdir()
    done = perfgate("history", "import", "empty")
    assert (done.code, "empty: error: has no run to import" in done.err) == (3, True)


def test_good_rows_beside_a_bad_one_are_imported(folder: Path, perfgate: Command) -> None:
    Path("history.csv").write_text(CSV + "2026-01-03,x,forward,?,ms\n")
    done = perfgate("history", "import", "history.csv")
    assert (done.code, "imported 2 runs" in done.out) == (3, True)


def test_a_host_that_alternates_is_named_once(folder: Path, perfgate: Command) -> None:
    levels = steps((20, 0.1), (20, 0.12), noise=0.002)
    rows = [f"{at(i)},{i:08},forward,{number},s,gpu-{i % 2}" for i, number in enumerate(levels)]
    Path("old.csv").write_text("\n".join(["time,commit,metric,value,unit,host", *rows]))
    assert perfgate("history", "import", "old.csv").code == 0
    (one,) = series(folder).values()
    assert [run.context for run in one.runs] == [{"host": f"gpu-{i % 2}"} for i in range(40)]
    said = perfgate("history", "forward").out
    assert "1 lasting change" in said
    assert "facts that change too often to be named at a change: host (39 times in 40 runs)" in said
    assert "the machine changed" not in said
    assert "too often" not in perfgate("history", "show").out
    perfgate("history", "export", "--to", "again.csv")
    assert perfgate("history", "import", "again.csv").out == "40 runs in the history already\n"


def test_rows_of_two_hosts_are_two_runs(folder: Path, perfgate: Command) -> None:
    Path("old.csv").write_text("time,metric,value,host\n2026-01-01,a,1,gpu-0\n2026-01-01,b,2,gpu-1\n2026-01-01,b,3,\n")
    assert "imported 3 runs with 2 metrics" in perfgate("history", "import", "old.csv").out


@pytest.mark.parametrize("name", ["old.csv", "data.js"])
def test_add_names_the_command_for_a_history(folder: Path, perfgate: Command, name: str) -> None:
    text = CSV if name == "old.csv" else f"window.BENCHMARK_DATA = {json.dumps(DATA_JS)}"
    Path(name).write_text(text)
    done = perfgate("history", "add", name)
    assert done.code == 3
    assert f"{name} is a history, not one run: perfgate history import {name}" in done.err
    assert "inspect --suggest" not in done.err


def test_add_says_why_a_file_cannot_be_read(folder: Path, perfgate: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("old.csv").write_text(CSV)

    def refuse(real: Callable[..., object], path: object, *words: object, **more: object) -> object:
        if str(path).endswith("old.csv"):
            raise PermissionError(EACCES, "Permission denied", path)
        return real(path, *words, **more)

    for module in (builtins, io, os):
        monkeypatch.setattr(module, "open", partial(refuse, module.open))
    done = perfgate("history", "add", "old.csv")
    assert (done.code, "old.csv: error: cannot be read: Permission denied" in done.err) == (3, True), done.said


def test_a_long_file_is_imported_in_parts(folder: Path, perfgate: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    head = "time,commit,metric,value,run"
    rows = [f"{at(24 * day)},{day:08},m{m},{day + m},r{day}" for day in range(90) for m in (0, 1)]
    Path("old.csv").write_text("\n".join([head, *rows[::-1], *rows[:2]]) + "\n")
    assert perfgate("history", "import", "old.csv", "--baselines", "whole").code == 0
    monkeypatch.setattr("perfgate.history.imports.csv._MOST_ROWS", 7)
    monkeypatch.setattr("perfgate.history.writing._NUMBERS_OF_PART", 5)
    assert "imported 91 runs with 2 metrics" in perfgate("history", "import", "old.csv", "--baselines", "parts").out
    whole, parts = ({path.name: path.read_bytes() for path in Path(top).rglob("*.json")} for top in ("whole", "parts"))
    assert whole == parts
    assert len({name[:7] for name in whole}) == len(whole) > 2  # a file for each month


def test_a_file_that_is_not_text_at_its_end_has_no_run(folder: Path, perfgate: Command) -> None:
    Path("old.csv").write_bytes(CSV.encode() + b"2026-01-03," * 10_000 + b"\xff,a,1\n")
    done = perfgate("history", "import", "old.csv")
    assert (done.code, "old.csv: error: cannot be read: it is not UTF-8 text" in done.err) == (3, True)
    assert not Path("baselines").exists()


def test_a_pipe_is_read_once(folder: Path, perfgate: Command) -> None:
    reading, writing = os.pipe()
    with open(writing, "w", encoding="utf-8") as file:
        file.write(CSV)
    done = perfgate("history", "import", f"/dev/fd/{reading}")
    os.close(reading)
    assert (done.code, "imported 2 runs" in done.out) == (0, True), done.said
