"""Histories for other tools: what is written is read again, by us or by their own packages."""

from __future__ import annotations

import csv
import json
import posixpath
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Done, write_results
from histories import filled, record, steps, store_at, value

from perfgate.baselines.stores import open_store
from perfgate.core.remembered_runs import HistoryRecord
from perfgate.core.run_history import HistorySeries
from perfgate.history.exports import SERVICES
from perfgate.history.load import load
from perfgate.history.store import add

Command = Callable[..., Done]
NUMBERS = steps((12, 0.1), (12, 0.11), noise=0.001)


@pytest.fixture
def team(folder: Path) -> Path:
    """A history with a change, and a metric that is better when it is higher."""
    store = filled(folder, NUMBERS)
    add(store, record(30, {"forward": 0.11}, tags=("v1", "v2")))
    return folder


def numbers(one: HistorySeries) -> list[tuple[str | None, str, float]]:
    return [(run.commit, run.time, value) for run, value in zip(one.runs, one.values.tolist(), strict=True)]


def test_a_place_that_cannot_be_written_is_named(team: Path, perfgate: Command) -> None:
    done = perfgate("history", "export", "--to", "absent/history.csv")
    assert (done.code, done.err) == (
        2,
        "error: --to absent/history.csv: cannot write there: No such file or directory\n",
    )


@pytest.mark.parametrize("how", ["csv", "github-action-benchmark"])
def test_an_export_can_be_imported(team: Path, perfgate: Command, how: str) -> None:
    done = perfgate("history", "export", "--format", how, "--to", "history.out")
    assert (done.code, done.out[:17]) == (0, "wrote history.out")
    assert perfgate("history", "import", "history.out", "--baselines", "copy", "--suite", "gpt").code == 0
    (before,) = load(store_at(team)).series
    (after,) = load(open_store("copy")).series
    assert [row[:2] for row in numbers(after)] == [row[:2] for row in numbers(before)]
    assert after.values.tolist() == pytest.approx(before.values.tolist(), rel=1e-12)
    assert [change.point.index for change in after.changes] == [change.point.index for change in before.changes]
    if how == "csv":
        assert (after.name, after.errors.tolist()) == (before.name, before.errors.tolist())
        assert [run.id for run in after.runs] == [run.id for run in before.runs]


FORMULAS = ["=HYPERLINK(0)", "+1", "-1+1", "@sum", "'=1", "''@x", "'plain", "a=b"]


def test_no_cell_of_a_spreadsheet_is_a_formula(folder: Path, perfgate: Command) -> None:
    store = store_at(folder)
    for number, name in enumerate(FORMULAS):
        add(store, record(number, {name: 0.1}))
    assert perfgate("history", "export", "--to", "history.csv").code == 0
    rows = list(csv.DictReader(Path("history.csv").read_text().splitlines()))
    assert [row["metric"] for row in rows if row["metric"][0] in "=+-@"] == []
    assert perfgate("history", "import", "history.csv", "--baselines", "copy", "--suite", "gpt").code == 0
    assert sorted(one.name.key.metric for one in load(open_store("copy")).series) == sorted(FORMULAS)


@pytest.mark.parametrize("where", ["metric", "host"])
def test_no_name_begins_a_line_of_an_export(folder: Path, perfgate: Command, where: str) -> None:
    text = "x\n::error::fake"
    names = {"metric": "forward", "host": "gpu-01", where: text}
    series = {"metric": names["metric"], "unit": "s", "values": [0.5] * 20}
    write_results(folder / "run.json", series, environment={"host": names["host"]})
    done = perfgate("history", "add", "run.json")
    assert (done.code, "has a line break: write it as one line" in done.err) == (3, True), done.said
    with Path("runs.csv").open("w", newline="") as file:
        row = {"time": "2026-01-01", "value": 0.1, **names}
        writer = csv.DictWriter(file, row)
        writer.writeheader()
        writer.writerow(row)
    done = perfgate("history", "import", "runs.csv")
    assert (done.code, "has a line break" in done.err) == (3, True), done.said
    assert not (folder / "baselines").exists()


@pytest.mark.parametrize("how", ["csv", "openmetrics", "github-action-benchmark"])
@pytest.mark.parametrize("name", ["a\x1b[2Jb", "##vso[task.complete]", "##teamcity[x]", "::error::x", "a\u202eb"])
def test_no_name_is_a_command_or_an_escape_where_an_export_is_printed(
    folder: Path, perfgate: Command, how: str, name: str
) -> None:
    series = {"metric": name, "unit": "s", "values": [0.5] * 20, "labels": {"x": name}}
    write_results(folder / "run.json", series, environment={"host": name})
    assert perfgate("history", "add", "run.json").code == 0
    done = perfgate("history", "export", "--format", how)
    assert (done.code, any(bad in done.out for bad in ("\x1b", "##vso[", "##team", "\u202e", "\n::"))) == (0, False)
    assert perfgate("history", "export", "--to", "out.csv").code == 0
    assert name in Path("out.csv").read_text()
    if how == "github-action-benchmark" and name.isprintable():
        assert name in str(json.loads(done.out.removeprefix("window.BENCHMARK_DATA = ")))


def test_openmetrics_has_every_number_with_its_time(team: Path, perfgate: Command) -> None:
    lines = perfgate("history", "export", "--format", "openmetrics").out.splitlines()
    assert lines[:3] == [
        "# TYPE perfgate_seconds gauge",
        "# UNIT perfgate_seconds seconds",
        "# HELP perfgate_seconds A number of a run of main.",
    ]
    samples = [line for line in lines if line.startswith("perfgate_seconds{")]
    assert len(samples) == len(NUMBERS) + 1
    times = [int(line.split()[-1]) for line in samples]
    assert times == sorted(set(times))
    assert 'metric="forward",statistic="median",rank="worst"}' in samples[0]
    assert any(line.startswith("perfgate_change_ratio{") for line in lines)
    assert lines[-1] == "# EOF"


def test_openmetrics_of_the_newest_run_has_no_time(team: Path, perfgate: Command) -> None:
    done = perfgate("history", "export", "--format", "openmetrics", "--newest")
    (sample,) = [line for line in done.out.splitlines() if line.startswith("perfgate_seconds{")]
    assert sample.endswith("} 0.11")
    assert perfgate("history", "export", "--newest").code == 2
    assert "wandb has every number" in perfgate("history", "export", "--newest", "--format", "wandb").err


def test_data_js_has_a_suite_for_each_direction(folder: Path, perfgate: Command) -> None:
    one = record(1, {"forward": 0.1})
    rate = value("rate", 5.0, unit="1/s", better="higher")
    add(store_at(folder), HistoryRecord(one.suite, one.identity, one.run, (*one.values, rate)))
    text = perfgate("history", "export", "--format", "github-action-benchmark").out
    entries = json.loads(text.removeprefix("window.BENCHMARK_DATA = "))["entries"]
    assert [(name.partition(" ")[2].partition(" ")[2], own[0]["tool"]) for name, own in entries.items()] == [
        ("", "customSmallerIsBetter"),
        ("(higher is better)", "customBiggerIsBetter"),
    ]
    assert next(iter(entries.values()))[0]["benches"][0] == {
        "name": "forward median",
        "value": 100.0,
        "unit": "ms",
        "range": "± 0.2 ms",
    }


@pytest.mark.parametrize("how", ["mlflow", "wandb"])
def test_a_service_needs_its_target(team: Path, perfgate: Command, how: str) -> None:
    done = perfgate("history", "export", "--format", how)
    assert (done.code, f"--format {how} needs --to" in done.err) == (2, True)


@pytest.mark.parametrize(
    "name", ["../../x", "a/../b", "/etc/x", "a//b", "./a", "a/", "..", ".. p95", "..x", "/", "a/./b", "loss [%]"]
)
def test_no_name_is_a_path_for_mlflow(name: str) -> None:
    from perfgate.history.exports import names_for_mlflow

    found = names_for_mlflow([name])[name]
    assert posixpath.normpath(found) == found
    assert not found.startswith(("/", ".."))
    assert names_for_mlflow(["x.y/z-1: 2"]) == {"x.y/z-1: 2": "x.y/z-1: 2"}


def test_no_metric_replaces_another_in_mlflow() -> None:
    from perfgate.history.exports import names_for_mlflow

    found = names_for_mlflow(["a?b", "a*b", "a_b", "a.b", "x" * 300, "x" * 299 + "y", "é" * 200])
    assert found["a.b"] == "a.b"
    assert len({*found.values()}) == 7
    assert max(len(name.encode()) for name in found.values()) <= 250


def test_no_fact_and_no_time_of_a_run_stops_the_export_to_mlflow(
    folder: Path, perfgate: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A results file chooses its facts. MLflow refuses tags that are paths, and times before 1970."""
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    names = ("../../x", "a/../b", "\0", "$(id)", "x" * 300)
    about = {"time": "1969-01-01T00:00:00Z", "context": dict.fromkeys(names, "x")}
    add(store_at(folder), record(1, {"é" * 300: 0.1}, **about))
    done = perfgate("history", "export", "--format", "mlflow", "--to", str(folder / "mlruns"))
    assert (done.code, "1 runs written" in done.out) == (0, True), done.said


def test_committed_settings_do_not_choose_who_gets_the_key(
    team: Path, perfgate: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SERVICES, "wandb", lambda found, target: ["sent"])
    monkeypatch.setattr("threading.active_count", lambda: 1)  # as a fork, another process has this function
    words = ("history", "export", "--format", "wandb", "--to", "online")
    (team / "wandb").mkdir()
    (team / "wandb" / "settings").write_text("[default]\nbase_url = https://elsewhere.example\n")
    assert perfgate(*words).out == "sent\n"
    for place in ("git init -q", "git add -f wandb/settings"):
        subprocess.run(place.split(), cwd=team, check=True)
    done = perfgate(*words)
    assert (done.code, "git tracks wandb/settings" in done.err) == (2, True)
    (team / "wandb").rename(team / "other")
    (team / "wandb").symlink_to("other")
    subprocess.run(["git", "add", "-A"], cwd=team, check=True)
    assert perfgate(*words).code == 2
    monkeypatch.setenv("WANDB_BASE_URL", "https://mine.example")
    assert perfgate(*words).out == "sent\n"
