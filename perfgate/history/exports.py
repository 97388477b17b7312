"""Histories for other tools: a row in `FILES` for each format, and in `SERVICES` for each service and its package."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from math import isnan

from perfgate.core import fact_text
from perfgate.core.history_events import HistoryEvent
from perfgate.core.remembered_runs import CommitLine, HistoryRun
from perfgate.core.run_history import COLUMNS, EnvironmentHistory, HistorySeries, LoadedHistory
from perfgate.core.units import display_unit, format_value
from perfgate.core.wording import one_line, without_bracket_commands, without_commands

#: A text that a spreadsheet takes for a formula, also after apostrophes: the import removes one apostrophe.
_FORMULA = re.compile(r"'*[=+\-@]")
#: For each better direction: the name of github-action-benchmark, and the end of the suite's name.
_DIRECTIONS = (
    ("lower", "customSmallerIsBetter", ""),
    ("higher", "customBiggerIsBetter", " (higher is better)"),
    ("neither", "customSmallerIsBetter", " (no direction)"),
)
OPENMETRICS = "openmetrics"
#: The name of a family for each base unit, and the unit that its name must end with.
_FAMILIES = {
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
#: The tag of a run in MLflow with the id of the remembered run.
_TAG = "perfgate.run"
#: MLflow uses a name as a path, and refuses all metrics of a run if one has `..`, or `/` at an end or twice.
_NOT_ALLOWED = re.compile(r"[^\w\-. :/]|(?<![^/])\.{1,2}(?![^/])|^\.\.|^/|/(?=/)|/$")
#: The longest name in MLflow, and the most metrics and the most tags at once.
_LONGEST, _METRICS, _TAGS = 250, 1000, 100


def render_csv(found: LoadedHistory) -> bytes:
    """Return a line for each number, with all its digits. `perfgate history import` reads it again.

    A text that a spreadsheet would take for a formula begins with an apostrophe, which the import takes off.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for one in found.series:
        writer.writerows(
            [f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) else cell for cell in row]
            for row in one.rows()
        )
    return text.getvalue().encode("utf-8", "backslashreplace")


def render_parquet(found: LoadedHistory) -> bytes:
    """Return the same table as Apache Parquet, with times as such. Raises ImportError without pyarrow."""
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise ImportError("Parquet needs pyarrow: pip install 'perfgate[history]'") from None
    kinds = {str: pa.string(), int: pa.int64(), float: pa.float64()}
    columns = found.columns()
    times = [datetime.fromisoformat(str(time).replace("Z", "+00:00")) for time in columns.pop("time")]
    arrays = {"time": pa.array(times, pa.timestamp("s", tz="UTC"))}
    arrays |= {name: pa.array(cells, kinds[COLUMNS[name]]) for name, cells in columns.items()}
    file = io.BytesIO()
    parquet.write_table(pa.table(arrays), file)
    return file.getvalue()


def render_benchmark_data(found: LoadedHistory) -> bytes:
    """Return `data.js` of github-action-benchmark, whose page then draws the history.

    A suite of the tool has one direction, so metrics that are better when they are higher are in a suite of their own.
    """
    entries: dict[str, list[dict[str, object]]] = {}
    for place in found.environments:
        for better, tool, tail in _DIRECTIONS:
            own = [one for one in place.series if one.better == better]
            if own:
                entries[f"{place.suite} {place.environment}{tail}"] = _entries(own, place.runs, tool, found.line)
    newest = max((run.time for place in found.environments for run in place.runs), default="1970-01-01T00:00:00Z")
    document = {"lastUpdate": _milliseconds(newest), "repoUrl": "", "entries": entries}
    return (  # without commands of a CI system, because a job may print it; `\u0023` is `#` in JSON
        b"window.BENCHMARK_DATA = %b\n" % without_bracket_commands(json.dumps(document, indent=2), "\\u0023").encode()
    )


def _entries(
    series: list[HistorySeries], runs: tuple[HistoryRun, ...], tool: str, line: CommitLine | None
) -> list[dict[str, object]]:
    """Return the entries of a suite in `data.js`: one for each run that has numbers."""
    benches: dict[str, list[dict[str, str | float]]] = {run.id: [] for run in runs}
    for one in (one for one in series if one.runs):
        unit = display_unit(float(one.values[0]), one.unit)
        for run, value, error in zip(one.runs, one.values.tolist(), one.errors.tolist(), strict=True):
            bench: dict[str, str | float] = {"name": str(one.name), "value": value / unit.factor, "unit": unit.symbol}
            if not isnan(error):
                bench["range"] = f"± {format_value(error, one.unit, unit.symbol)}"
            benches[run.id].append(bench)
    entries = []
    for run in (run for run in runs if benches[run.id]):
        place = line.place(run.commit) if line else None
        known = line.commits[place] if line is not None and place is not None else None
        name, subject = (known.author, known.subject) if known else ("", "")
        who = {"name": name, "username": name}
        about = {"id": run.commit or run.id, "message": subject, "timestamp": run.time, "url": ""}
        commit = {**about, "author": who, "committer": who}
        entries.append({"commit": commit, "date": _milliseconds(run.time), "tool": tool, "benches": benches[run.id]})
    return entries


def _milliseconds(time: str) -> int:
    """Return a time of a run as milliseconds since 1970."""
    return round(datetime.fromisoformat(time.replace("Z", "+00:00")).timestamp() * 1000)


def render_openmetrics(
    found: LoadedHistory, events: Sequence[HistoryEvent] = (), *, newest_alone: bool = False
) -> bytes:
    """Return OpenMetrics text 1.0.0, for Prometheus and Grafana (prometheus.io/docs/specs/om/open_metrics_spec).

        perfgate_seconds{suite="gpt",environment="h200",metric="forward",statistic="median",rank="worst"} 0.1 1767225600

    Every number has the time of its run, for `promtool tsdb create-blocks-from openmetrics`. With `newest_alone`, for
    the textfile collector or a push gateway, there is only the newest number of each series, without a time. The newest
    lasting change of each series is `perfgate_change_ratio`, and `perfgate_change_seconds` is the time when it began.
    `perfgate_event_seconds` is the time when an event began, with its id, kind, state and number of metrics.
    """
    lines: list[str] = []
    by_family: dict[tuple[str, str], list[HistorySeries]] = {}
    for one in found.series:
        by_family.setdefault(_FAMILIES.get(one.unit, _FAMILIES["1"]), []).append(one)
    for (family, unit), own in sorted(by_family.items()):
        lines += _head(family, "A number of a run of main.", unit)
        lines += (line for one in own for line in _samples(family, one, newest_alone))
    if changed := [one for one in found.series if one.changes]:
        lines += _head("perfgate_change_ratio", "The newest lasting change: 0.05 is +5 %.", "ratio")
        lines += (_sample("perfgate_change_ratio", one, one.changes[-1].point.change) for one in changed)
        lines += _head("perfgate_change_seconds", "When the newest lasting change began, since 1970.", "seconds")
        for one in changed:
            lines.append(_sample("perfgate_change_seconds", one, _milliseconds(one.changes[-1].likely.time) // 1000))
    if events:
        lines += _head("perfgate_event_seconds", "When a change of one or more metrics began, since 1970.", "seconds")
        for event in events:
            about = {"event": event.id, "kind": event.kind, "state": event.state, "metrics": str(len(event.changes))}
            lines.append(f"perfgate_event_seconds{{{_labelled(about)}}} {_milliseconds(event.likely.time) // 1000}")
    return "".join(f"{line}\n" for line in [*lines, "# EOF"]).encode()


def _head(family: str, what: str, unit: str) -> Sequence[str]:
    return f"# TYPE {family} gauge", *([f"# UNIT {family} {unit}"] if unit else []), f"# HELP {family} {what}"


def _samples(family: str, one: HistorySeries, newest_alone: bool) -> list[str]:
    """Return the lines of a series. Times must rise, so of two numbers in one second only the last one is written."""
    if newest_alone:
        return [_sample(family, one, float(one.values[-1]))] if one.runs else []
    by_time = {run.time: float(value) for run, value in zip(one.runs, one.values, strict=True)}
    return [f"{_sample(family, one, by_time[time])} {_milliseconds(time) // 1000}" for time in sorted(by_time)]


def _sample(family: str, one: HistorySeries, value: float) -> str:
    """Return the line of a number, without its time."""
    key = one.name.key
    about = {"suite": one.suite, "environment": one.environment, "metric": key.metric}
    about |= {"statistic": one.name.statistic, "rank": one.name.rank}
    about |= {f"label_{re.sub('[^A-Za-z0-9_]', '_', name)}": text for name, text in key.labels}
    return f"{family}{{{_labelled(about)}}} {value!r}"


def _labelled(about: Mapping[str, str]) -> str:
    # a job may print the labels, so no line of them is a command of a CI system
    safe = ([without_commands(one_line(line)) for line in text.split("\n")] for text in about.values())
    escaped = ("\n".join(lines).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") for lines in safe)
    return ",".join(f'{name}="{text}"' for name, text in zip(about, escaped, strict=True))


FILES: dict[str, Callable[[LoadedHistory], bytes]] = {
    "csv": render_csv,
    "parquet": render_parquet,
    OPENMETRICS: render_openmetrics,
    "github-action-benchmark": render_benchmark_data,
}


# --- services: each function runs in a process of its own (`perfgate.workspace.services`) ---------------------------


def send_to_mlflow(found: LoadedHistory, target: str) -> list[str]:
    """Write an experiment for each suite and environment, with a run for each remembered run that has numbers.

    Returns the lines to print. `target`: a folder, `sqlite:///FILE` or the URL of a tracking server. Metrics are in
    base units; their names are those of series, with the letters that MLflow allows. A run that has the tag
    `perfgate.run`, which is written last, is complete, and not written again. Raises ImportError without mlflow.
    """
    try:
        from mlflow import MlflowClient
        from mlflow.entities import Metric, RunTag
    except ImportError:
        raise ImportError("the export to MLflow needs mlflow: pip install 'perfgate[mlflow]'") from None
    client = MlflowClient(tracking_uri=target)
    lines = []
    for place in found.environments:
        name = f"perfgate {place.suite} {place.environment}"
        known = client.get_experiment_by_name(name)
        experiment = known.experiment_id if known else client.create_experiment(name)
        there, token = set[str](), None
        while token != "":
            page = client.search_runs([experiment], filter_string=f"tags.`{_TAG}` != ''", page_token=token)
            there, token = there | {run.data.tags[_TAG] for run in page}, page.token or ""
        tagged = {f"machine.{fact}" for run in place.runs for fact in run.context}
        names, numbers = names_for_mlflow([*tagged, *(str(one.name) for one in place.series)]), _numbers(place)
        missing = [(i, run) for i, run in enumerate(place.runs) if run.id not in there and run.id in numbers]
        for step, run in missing:
            time = max(_milliseconds(run.time), 0)  # MLflow knows no earlier one
            facts = {names[f"machine.{name}"]: fact_text(fact) for name, fact in run.context.items()}
            git = {"mlflow.source.git.commit": run.commit, "mlflow.source.git.branch": run.ref}
            tags = [RunTag(key, value) for key, value in {**facts, **git, _TAG: run.id}.items() if value]
            begun = client.create_run(experiment, start_time=time, run_name=run.label)
            metrics = [Metric(names[key], value, time, step) for key, value in numbers[run.id].items()]
            for start in range(0, len(metrics), _METRICS):
                client.log_batch(begun.info.run_id, metrics=metrics[start : start + _METRICS])
            for start in range(0, len(tags), _TAGS):
                client.log_batch(begun.info.run_id, tags=tags[start : start + _TAGS])
            client.set_terminated(begun.info.run_id, end_time=time)
        lines.append(f"{name}: {len(missing)} runs written, {len(there)} were there already")
    return lines


def _numbers(place: EnvironmentHistory) -> dict[str, dict[str, float]]:
    """Return the numbers of each run: by id of the run, then by name of the series."""
    found: dict[str, dict[str, float]] = {}
    for one in place.series:
        for run, value in zip(one.runs, one.values.tolist(), strict=True):
            found.setdefault(run.id, {})[str(one.name)] = value
    return found


def names_for_mlflow(names: Iterable[str]) -> dict[str, str]:
    """Return for each name one that MLflow allows: `_` for other letters; a hash if it is too long or not unique."""
    found = {name: _NOT_ALLOWED.sub("_", name) for name in names}
    count = Counter(found.values())
    for name, new in found.items():
        data, whole = (one.encode("utf-8", "backslashreplace") for one in (new, name))
        if count[new] > 1 or len(data) > _LONGEST:
            found[name] = f"{data[:200].decode('utf-8', 'ignore')}-{hashlib.sha256(whole).hexdigest()[:12]}"
    return found


def send_to_wandb(found: LoadedHistory, target: str) -> list[str]:
    """Write a project for each suite, with a run for each environment and a step for each remembered run.

    Returns the lines to print. The id of a run is a hash of the suite and the environment, so a later export replaces
    it. Nothing about this machine is written, which was not measured. Raises ImportError without wandb.
    `target`: the folder of an offline run (`wandb sync` uploads it), or `online`, for the server of wandb's login.
    """
    try:
        import wandb
    except ImportError:
        raise ImportError("the export to Weights & Biases needs wandb: pip install 'perfgate[wandb]'") from None
    lines = []
    for place in found.environments:
        numbers = _numbers(place)
        with wandb.init(
            project=f"perfgate-{place.suite}",
            name=place.environment,
            id=hashlib.sha256(f"{place.suite}/{place.environment}".encode()).hexdigest()[:16],
            config={name: fact for name, fact in place.identity.items() if fact is not None},
            mode="online" if target == "online" else "offline",
            dir=None if target == "online" else target,
            settings=wandb.Settings(silent=True, console="off", disable_git=True, x_disable_machine_info=True),
        ) as written:
            for step, run in enumerate(place.runs):
                written.log({**numbers.get(run.id, {}), "commit": run.commit, "time": run.time}, step=step)
        lines.append(f"perfgate-{place.suite}/{place.environment}: {len(place.runs)} steps written")
    return lines


SERVICES: dict[str, Callable[[LoadedHistory, str], list[str]]] = {"mlflow": send_to_mlflow, "wandb": send_to_wandb}
#: By service: the text that its package prints if the server did not take everything. Other packages raise an error.
LOST = {"wandb": "not be synced"}
