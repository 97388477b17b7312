"""What each format of an export contains, and what a service is sent: the text itself, or the calls of its client."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

from perfgate.core import Fact, Key, read_only
from perfgate.core.history_events import EventChange, HistoryEvent
from perfgate.core.remembered_runs import CommitLine, CommitNote, HistoryRun, SeriesName
from perfgate.core.run_history import (
    COLUMNS,
    ChangePoint,
    EnvironmentHistory,
    HistoryChange,
    HistorySeries,
    LoadedHistory,
)
from perfgate.core.units import BASE_UNITS
from perfgate.history import exports
from perfgate.history.exports import (
    names_for_mlflow,
    render_benchmark_data,
    render_csv,
    render_openmetrics,
    render_parquet,
    send_to_mlflow,
    send_to_wandb,
)
from perfgate.history.imports.csv import read
from perfgate.history.imports.imported_runs import ImportFile
from perfgate.rules.ruleset import Ruleset

#: 2026-01-01T00:00:00Z as seconds since 1970.
BEGIN = 1767225600


def time(number: int) -> str:
    """The time of the run with this number: one each second."""
    return f"2026-01-01T00:00:{number:02}Z"


RUNS = tuple(HistoryRun(f"r{number}", time(number), f"{number}" * 40, "main") for number in range(4))


def series(name: str, *values: float, runs: Sequence[HistoryRun] = RUNS, **about: Any) -> HistorySeries:
    """A series of these numbers; its labels are `labels`."""
    n = len(values)
    key = Key(name, about.pop("labels", ()))
    fields: dict[str, Any] = {"unit": "s", "better": "lower", "kind": "samples", "changes": ()}
    nothing = read_only(np.full(n, np.nan))
    fields |= {"errors": nothing, "n_effective": nothing, "n": read_only(np.zeros(n))} | about
    full = SeriesName(key, fields.pop("statistic", "mean"))
    numbers = read_only(np.array(values, np.float64))
    return HistorySeries(
        "gpt", "h200", full, runs=tuple(runs[:n]), values=numbers, missing_since=0, noise=np.nan, **fields
    )


def history(*own: HistorySeries, runs: Sequence[HistoryRun] = RUNS, environment: str = "h200") -> LoadedHistory:
    identity: dict[str, Fact | None] = {"gpu": "H200", "gpu_count": 8, "world_size": None}
    return LoadedHistory((EnvironmentHistory("gpt", environment, identity, tuple(runs), own, (), ()),), ())


def change(index: int, ratio: float) -> HistoryChange:
    """A lasting change that began in a run."""
    point = ChangePoint(index, ratio, ratio, ratio, 1.0, 1.0, 1.0 + ratio, index, index, True)
    return HistoryChange(point, RUNS[index], RUNS[index - 1], RUNS[index], 1, None, None, ())


# --- files -----------------------------------------------------------------------------------------------------------


def test_the_formats_and_the_services() -> None:
    names = {**exports.FILES, **exports.SERVICES}
    csv, parquet, openmetrics, data, mlflow, wandb = names.values()
    assert [*names] == ["csv", "parquet", exports.OPENMETRICS, "github-action-benchmark", "mlflow", "wandb"]
    assert exports.OPENMETRICS == "openmetrics"
    assert (csv, parquet, openmetrics, data) == (render_csv, render_parquet, render_openmetrics, render_benchmark_data)
    assert (mlflow, wandb) == (send_to_mlflow, send_to_wandb)
    assert exports.LOST.keys() == {"wandb"}  # it raises no error if a server loses data
    assert render_openmetrics(LoadedHistory((), ())) == b"# EOF\n"


FULL = HistoryRun("r9", time(9), "c9", "main", ("v1", "v2"), {"host": "gpu-0"})


def test_csv_has_every_number_and_no_formula() -> None:
    known = {"errors": read_only(np.array([0.25])), "n_effective": read_only(np.array([30.5])), "n": np.array([40.0])}
    about: dict[str, Any] = {"runs": [FULL], "labels": (("gpu", "0"),), "changes": (), **known}
    found = history(series("-loss", -0.125, unit="1", better="neither", **about), series("'=x", 2.0, runs=[RUNS[0]]))
    assert render_csv(found).decode() == (
        ",".join(COLUMNS) + "\n"
        f"{time(9)},c9,'-loss,-0.125,1,0.25,40,30.5,neither,mean,worst,"
        '"gpu=""0""",main,gpu-0,r9,gpt,h200,v1 v2,0\n'
        f"{time(0)},{'0' * 40},''=x,2.0,s,,,,lower,mean,worst,,main,,r0,gpt,h200,,0\n"
    )


def test_csv_has_no_letter_that_utf_8_does_not_have() -> None:
    assert "x\\udc80é".encode() in render_csv(history(series("x\udc80é", 1.0)))


LABELS = (("a", 'say "x"'), ("b", "C:\\dir\\"), ("c", "x,y}"), ("d", "\\\\"), ("e", ""))


def test_the_import_reads_every_label_of_an_export() -> None:
    found = history(series("=loss", 2.0, 3.0, labels=LABELS, statistic="p95"))
    lines = render_csv(found).decode().splitlines(keepends=True)
    imported = read(ImportFile("a.csv", lambda: iter(lines), Ruleset("gpt", (), {})))
    assert imported.problems == ()
    assert [(run.id, one.name) for run in imported.runs for one in run.values] == [
        (run.id, found.series[0].name) for run in RUNS[:2]
    ]


def fake_pyarrow() -> SimpleNamespace:
    """A pyarrow that knows the types of columns, and writes a table as its text."""

    def array(cells: Sequence[object], kind: str) -> tuple[str, list[object]]:
        return kind, [*cells]

    def write_table(table: Mapping[str, object], file: Any) -> None:
        file.write(repr(table).encode())

    kinds = {name: lambda name=name: name for name in ("string", "int64", "float64")}
    parquet = SimpleNamespace(write_table=write_table)
    return SimpleNamespace(**kinds, timestamp=lambda unit, tz: f"{unit} {tz}", array=array, table=dict, parquet=parquet)


def test_parquet_has_the_columns_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", fake_pyarrow())
    found = history(series("loss", 2.0, 3.0))
    columns = {**found.columns(), "time": [datetime(2026, 1, 1, 0, 0, i, tzinfo=timezone.utc) for i in range(2)]}
    kinds = {str: "string", int: "int64", float: "float64"}
    table = {name: (kinds[COLUMNS[name]], cells) for name, cells in columns.items()}
    assert render_parquet(found).decode() == repr({**table, "time": ("s UTC", columns["time"])})


@pytest.mark.parametrize(
    ("module", "render", "why"),
    [
        ("pyarrow", render_parquet, "Parquet needs pyarrow: pip install 'perfgate[history]'"),
        ("mlflow", send_to_mlflow, "the export to MLflow needs mlflow: pip install 'perfgate[mlflow]'"),
        ("wandb", send_to_wandb, "the export to Weights & Biases needs wandb: pip install 'perfgate[wandb]'"),
    ],
)
def test_a_package_that_is_absent_is_named(
    module: str, render: Callable[..., object], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError) as raised:
        render(history(), *([] if module == "pyarrow" else ["target"]))
    assert str(raised.value) == why


# --- data.js ---------------------------------------------------------------------------------------------------------


def data_js(found: LoadedHistory) -> dict[str, Any]:
    text = render_benchmark_data(found).decode()
    assert text.splitlines()[1].startswith('  "')
    assert text.startswith("window.BENCHMARK_DATA = {\n  ")
    assert text.endswith("}\n")
    document: dict[str, Any] = json.loads(text.removeprefix("window.BENCHMARK_DATA = "))
    return document


def test_data_js_has_an_entry_for_each_run_with_numbers() -> None:
    line = CommitLine.of(
        "main", [CommitNote("0" * 40, time(0), "ada", "begin"), CommitNote("1" * 40, time(1), "bob", "x")]
    )
    lone = HistoryRun("r9", time(9))
    one = series("loss", 0.5, 2.0, runs=[RUNS[1], lone], errors=read_only(np.array([0.001, np.nan])))
    found = LoadedHistory(history(one, runs=[RUNS[0], RUNS[1], lone]).environments, (), line)

    def about(commit: str, author: str, subject: str, number: int) -> dict[str, object]:
        who = {"name": author, "username": author}
        shown = {"id": commit, "message": subject, "timestamp": time(number), "url": ""}
        return {**shown, "author": who, "committer": who}

    benches = [{"name": "loss mean", "value": 500.0, "unit": "ms", "range": "± 1 ms"}]
    later = [{"name": "loss mean", "value": 2000.0, "unit": "ms"}]
    rows = [
        {"commit": about("1" * 40, "bob", "x", 1), "date": 1000 * (BEGIN + 1), "benches": benches},
        {"commit": about("r9", "", "", 9), "date": 1000 * (BEGIN + 9), "benches": later},
    ]
    entries = {"gpt h200": [{**row, "tool": "customSmallerIsBetter"} for row in rows]}
    assert data_js(found) == {"lastUpdate": 1000 * (BEGIN + 9), "repoUrl": "", "entries": entries}
    without = data_js(history(one, runs=[RUNS[0], RUNS[1], lone]))["entries"]["gpt h200"]
    assert [row["commit"]["author"]["name"] for row in without] == ["", ""]


def test_data_js_has_a_suite_for_each_direction() -> None:
    a, b, c = (
        series(name, 1.0, unit=unit, better=better)
        for name, unit, better in (("a", "s", "lower"), ("b", "1/s", "higher"), ("c", "1", "neither"))
    )
    found = data_js(LoadedHistory((*history(c, b, a).environments, *history(a, environment="a100").environments), ()))
    assert [(name, rows[0]["tool"], rows[0]["benches"][0]["name"]) for name, rows in found["entries"].items()] == [
        ("gpt h200", "customSmallerIsBetter", "a mean"),
        ("gpt h200 (higher is better)", "customBiggerIsBetter", "b mean"),
        ("gpt h200 (no direction)", "customSmallerIsBetter", "c mean"),
        ("gpt a100", "customSmallerIsBetter", "a mean"),
    ]


def test_data_js_without_runs() -> None:
    assert data_js(LoadedHistory((), ())) == {"lastUpdate": 0, "repoUrl": "", "entries": {}}
    assert data_js(history(series("a"), runs=()))["entries"] == {"gpt h200": []}


# --- OpenMetrics -----------------------------------------------------------------------------------------------------

FAMILIES = {
    "s": ("perfgate_seconds", "seconds"),
    "B": ("perfgate_bytes", "bytes"),
    "1/s": ("perfgate_per_second", "per_second"),
    "B/s": ("perfgate_bytes_per_second", "bytes_per_second"),
    "FLOP": ("perfgate_flop", "flop"),
    "FLOP/s": ("perfgate_flop_per_second", "flop_per_second"),
    "J": ("perfgate_joules", "joules"),
    "W": ("perfgate_watts", "watts"),
    "1/J": ("perfgate_per_joule", "per_joule"),
    "°C": ("perfgate_celsius", "celsius"),
    "$": ("perfgate_dollars", "dollars"),
    "count": ("perfgate_count", ""),
    "1": ("perfgate_value", ""),
}


@pytest.mark.parametrize("unit", BASE_UNITS)
def test_each_base_unit_has_a_family(unit: str) -> None:
    family, name = FAMILIES[unit]
    lines = render_openmetrics(history(series("x", 2.5, unit=unit))).decode().splitlines()
    assert lines[0] == f"# TYPE {family} gauge"
    assert lines[1:-3] == ([f"# UNIT {family} {name}"] if name else [])
    assert (lines[-2].partition("{")[0], lines[-1]) == (family, "# EOF")
    assert family.endswith(name)  # as OpenMetrics demands


PLACE = 'suite="gpt",environment="h200"'


def test_the_text_of_openmetrics() -> None:
    again = HistoryRun("r8", time(1))  # in the same second as another run
    a = series(
        "a", 0.5, 0.25, 0.75, runs=[RUNS[1], again, RUNS[0]], changes=(change(1, 9.0), change(2, 0.5), change(3, 0.05))
    )
    b = series("b", 3.0, unit="1", labels=(("gpu.id", 'x"\\'), ("size", "two\nlines")), statistic="p95")
    empty = series("c")
    moved = EventChange("gpt", "h200", a.name, "s", 1.0, 2.0, 1.0, 1.0, 1.0, True)
    event = HistoryEvent("e1", "code", "open", RUNS[0], RUNS[1], RUNS[2], 1, (moved, moved))
    is_a = f'{PLACE},metric="a",statistic="mean",rank="worst"'
    is_b = f'{PLACE},metric="b",statistic="p95",rank="worst",label_gpu_id="x\\"\\\\",label_size="two\\nlines"'
    head_a = [
        "# TYPE perfgate_seconds gauge",
        "# UNIT perfgate_seconds seconds",
        "# HELP perfgate_seconds A number of a run of main.",
    ]
    head_b = ["# TYPE perfgate_value gauge", "# HELP perfgate_value A number of a run of main."]
    changes = [
        "# TYPE perfgate_change_ratio gauge",
        "# UNIT perfgate_change_ratio ratio",
        "# HELP perfgate_change_ratio The newest lasting change: 0.05 is +5 %.",
        f"perfgate_change_ratio{{{is_a}}} 0.05",
        "# TYPE perfgate_change_seconds gauge",
        "# UNIT perfgate_change_seconds seconds",
        "# HELP perfgate_change_seconds When the newest lasting change began, since 1970.",
        f"perfgate_change_seconds{{{is_a}}} {BEGIN + 3}",
    ]
    events = [
        "# TYPE perfgate_event_seconds gauge",
        "# UNIT perfgate_event_seconds seconds",
        "# HELP perfgate_event_seconds When a change of one or more metrics began, since 1970.",
        f'perfgate_event_seconds{{event="e1",kind="code",state="open",metrics="2"}} {BEGIN + 2}',
    ]
    in_order = [f"perfgate_seconds{{{is_a}}} 0.75 {BEGIN}", f"perfgate_seconds{{{is_a}}} 0.25 {BEGIN + 1}"]
    numbers = [*head_a, *in_order, *head_b, f"perfgate_value{{{is_b}}} 3.0 {BEGIN}"]
    newest = [*head_a, f"perfgate_seconds{{{is_a}}} 0.75", *head_b, f"perfgate_value{{{is_b}}} 3.0"]
    found = history(b, a, empty)
    assert render_openmetrics(found, [event]).decode().splitlines() == [*numbers, *changes, *events, "# EOF"]
    assert render_openmetrics(found, newest_alone=True).decode().splitlines() == [*newest, *changes, "# EOF"]
    assert render_openmetrics(history(b)).decode().splitlines() == [*numbers[5:], "# EOF"]


def test_openmetrics_has_no_letter_that_utf_8_does_not_have() -> None:
    assert 'metric="x\\\\udc80é"'.encode() in render_openmetrics(history(series("x\udc80é", 1.0)))


# --- MLflow ----------------------------------------------------------------------------------------------------------


def hashed(short: str, name: str) -> str:
    return f"{short}-{hashlib.sha256(name.encode('utf-8', 'backslashreplace')).hexdigest()[:12]}"


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["a mean", "b/c: p95"], ["a mean", "b/c: p95"]),
        (["a[0]"], ["a_0_"]),
        (["a?b", "a*b", "c?"], [hashed("a_b", "a?b"), hashed("a_b", "a*b"), "c_"]),
        (["x" * 250, "y" * 251], ["x" * 250, hashed("y" * 200, "y" * 251)]),
        (["é" * 126], [hashed("é" * 100, "é" * 126)]),
        (["a\udc80", "a?"], [hashed("a_", "a\udc80"), hashed("a_", "a?")]),
    ],
)
def test_a_name_for_mlflow(names: Sequence[str], found: Sequence[str]) -> None:
    assert names_for_mlflow(names) == dict(zip(names, found, strict=True))


class Metric(NamedTuple):
    """A metric as MLflow takes it."""

    key: str
    value: float
    timestamp: int
    step: int


class RunTag(NamedTuple):
    """A tag as MLflow takes it."""

    key: str
    value: str


class Page(list[Any]):
    """A page of runs, with the token of the next one."""

    token: str | None = None


class Client:
    """A client of MLflow with one experiment, that refuses what a server refuses and records the rest."""

    def __init__(self, there: Sequence[Sequence[str]], experiment: str | None) -> None:
        self.there, self.experiment = there, experiment
        self.created: list[str] = []
        self.runs: list[dict[str, Any]] = []

    def get_experiment_by_name(self, name: str) -> SimpleNamespace | None:
        return SimpleNamespace(experiment_id="7") if name == self.experiment else None

    def create_experiment(self, name: str) -> str:
        self.created.append(name)
        return "8"

    def search_runs(self, experiments: list[str], filter_string: str, page_token: str | None) -> Page:
        assert (experiments, filter_string) == (["7" if self.experiment else "8"], "tags.`perfgate.run` != ''")
        number = int(page_token or 0)
        tags = self.there[number : number + 1] or [[]]
        page = Page(SimpleNamespace(data=SimpleNamespace(tags={"perfgate.run": one})) for one in tags[0])
        page.token = str(number + 1) if number + 1 < len(self.there) else None
        return page

    def create_run(self, experiment: str, **about: object) -> SimpleNamespace:
        assert experiment == ("7" if self.experiment else "8")
        self.runs.append({**about, "metrics": [], "tags": [], "end_time": None})
        return SimpleNamespace(info=SimpleNamespace(run_id=len(self.runs) - 1))

    def log_batch(self, run: int, metrics: Sequence[Metric] = (), tags: Sequence[RunTag] = ()) -> None:
        assert "perfgate.run" not in dict(self.runs[run]["tags"])  # it says that all of the run is there
        assert 0 < len(metrics) <= 1000 or 0 < len(tags) <= 100
        self.runs[run]["metrics"] += metrics
        self.runs[run]["tags"] += tags

    def set_terminated(self, run: int, end_time: int) -> None:
        self.runs[run]["end_time"] = end_time


def sent_to_mlflow(
    monkeypatch: pytest.MonkeyPatch,
    found: LoadedHistory,
    there: Sequence[Sequence[str]] = (),
    experiment: str | None = None,
) -> tuple[list[str], Client]:
    """The lines to print, and the client with what it was sent."""
    client = Client(there, experiment)
    entities = SimpleNamespace(Metric=Metric, RunTag=RunTag)
    at = {"sqlite:///x": client}
    monkeypatch.setitem(sys.modules, "mlflow", SimpleNamespace(MlflowClient=lambda tracking_uri: at[tracking_uri]))
    monkeypatch.setitem(sys.modules, "mlflow.entities", entities)
    return send_to_mlflow(found, "sqlite:///x"), client


def test_each_run_is_sent_to_mlflow(monkeypatch: pytest.MonkeyPatch) -> None:
    old = HistoryRun("old", "1969-12-31T23:59:59Z", None, None, (), {"gpu?": 8, "driver": "570"})
    runs = [old, *RUNS]
    found = history(series("a[0]", 1.0, 2.0, runs=runs), series("b", 3.0, runs=RUNS[:1]), runs=runs)
    lines, client = sent_to_mlflow(monkeypatch, found)
    assert (lines, client.created) == (
        ["perfgate gpt h200: 2 runs written, 0 were there already"],
        ["perfgate gpt h200"],
    )
    at = 1000 * BEGIN
    assert client.runs == [
        {
            "start_time": 0,
            "end_time": 0,
            "run_name": "1969-12-31T23:59:59Z",
            "metrics": [("a_0_ mean", 1.0, 0, 0)],
            "tags": [("machine.gpu_", "8"), ("machine.driver", "570"), ("perfgate.run", "old")],
        },
        {
            "start_time": at,
            "end_time": at,
            "run_name": "0" * 10,
            "metrics": [("a_0_ mean", 2.0, at, 1), ("b mean", 3.0, at, 1)],
            "tags": [
                ("mlflow.source.git.commit", "0" * 40),
                ("mlflow.source.git.branch", "main"),
                ("perfgate.run", "r0"),
            ],
        },
    ]


def test_a_run_is_sent_to_mlflow_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found = history(series("a", 1.0, 2.0, 3.0, 4.0))
    lines, client = sent_to_mlflow(monkeypatch, found, [["r0", "x"], ["r2"]], "perfgate gpt h200")
    assert [dict(run["tags"])["perfgate.run"] for run in client.runs] == ["r1", "r3"]
    assert (lines, client.created) == (["perfgate gpt h200: 2 runs written, 3 were there already"], [])


def test_a_large_run_is_sent_to_mlflow_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    run = HistoryRun("r9", time(9), None, None, (), {f"f{number}": 1 for number in range(100)})
    found = history(*(series(f"m{number}", 1.0, runs=[run]) for number in range(1001)), runs=[run])
    _, client = sent_to_mlflow(monkeypatch, found)
    assert len({one.key for one in client.runs[0]["metrics"]}) == 1001
    assert [one.key for one in client.runs[0]["tags"]] == [*(f"machine.f{i}" for i in range(100)), "perfgate.run"]


# --- Weights & Biases ------------------------------------------------------------------------------------------------


class Written:
    """A run of wandb that records its steps."""

    def __init__(self, about: Mapping[str, object]) -> None:
        self.about, self.steps = about, list[tuple[int, dict[str, object]]]()

    def __enter__(self) -> Written:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def log(self, numbers: dict[str, object], step: int) -> None:
        self.steps.append((step, numbers))


@pytest.mark.parametrize(
    ("target", "mode", "folder"),
    [("online", "online", None), ("out", "offline", "out"), ("offline", "offline", "offline")],
)
def test_each_run_is_a_step_of_wandb(
    target: str, mode: str, folder: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Written] = []

    def init(**about: object) -> Written:
        sent.append(Written(about))
        return sent[-1]

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init, Settings=dict))
    lines = send_to_wandb(history(series("a", 1.0), series("b", 2.0), runs=RUNS[:2]), target)
    assert lines == ["perfgate-gpt/h200: 2 steps written"]
    (one,) = sent
    assert one.about == {
        "project": "perfgate-gpt",
        "name": "h200",
        "id": hashlib.sha256(b"gpt/h200").hexdigest()[:16],
        "config": {"gpu": "H200", "gpu_count": 8},
        "mode": mode,
        "dir": folder,
        "settings": {"silent": True, "console": "off", "disable_git": True, "x_disable_machine_info": True},
    }
    assert one.steps == [
        (0, {"a mean": 1.0, "b mean": 2.0, "commit": "0" * 40, "time": time(0)}),
        (1, {"commit": "1" * 40, "time": time(1)}),
    ]
