"""Histories as files for other tools: a row in `FILES` for each format."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from math import isnan
from typing import TypeAlias

from perfgate.core.history_events import HistoryEvent
from perfgate.core.remembered_runs import CommitLine, HistoryRun
from perfgate.core.run_history import COLUMNS, HistorySeries, LoadedHistory
from perfgate.core.units import display_unit, format_value

_FORMULA = re.compile(r"'*[=+\-@]")


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


_TOOLS = {"higher": "customBiggerIsBetter"}
_Bench: TypeAlias = dict[str, str | float]


def render_benchmark_data(found: LoadedHistory) -> bytes:
    """Return `data.js` of github-action-benchmark, whose page then draws the history.

    A suite of the tool has one direction, so metrics that are better when they are higher are in a suite of their own.
    """
    entries: dict[str, list[dict[str, object]]] = {}
    for place in found.environments:
        for better, tail in (("lower", ""), ("higher", " (higher is better)"), ("neither", " (no direction)")):
            own = [one for one in place.series if one.better == better]
            if own:
                name = f"{place.suite} {place.environment}{tail}"
                entries[name] = _entries(own, place.runs, _TOOLS.get(better, "customSmallerIsBetter"), found.line)
    newest = max((run.time for place in found.environments for run in place.runs), default="1970-01-01T00:00:00Z")
    document = {"lastUpdate": milliseconds(newest), "repoUrl": "", "entries": entries}
    return f"window.BENCHMARK_DATA = {json.dumps(document, indent=2)}\n".encode()


def _entries(
    series: list[HistorySeries], runs: tuple[HistoryRun, ...], tool: str, line: CommitLine | None
) -> list[dict[str, object]]:
    benches: dict[str, list[_Bench]] = {run.id: [] for run in runs}
    for one in series:
        unit = display_unit(float(one.values[0]), one.unit) if one.runs else None
        for run, value, error in zip(one.runs, one.values.tolist(), one.errors.tolist(), strict=True):
            assert unit is not None
            bench: _Bench = {"name": str(one.name), "value": value / unit.factor, "unit": unit.symbol}
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
        entries.append({"commit": commit, "date": milliseconds(run.time), "tool": tool, "benches": benches[run.id]})
    return entries


def milliseconds(time: str) -> int:
    """Return a time of a run as milliseconds since 1970."""
    return round(datetime.fromisoformat(time.replace("Z", "+00:00")).timestamp() * 1000)


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


def render_openmetrics(
    found: LoadedHistory, events: Sequence[HistoryEvent] = (), *, newest_alone: bool = False
) -> bytes:
    """Return OpenMetrics text 1.0.0, for Prometheus and Grafana (prometheus.io/docs/specs/om/open_metrics_spec).

        perfgate_seconds{suite="gpt",environment="h200",metric="forward",statistic="median",rank="worst"} 0.1 1767225600

    Every number has the time of its run, so the text is for `promtool tsdb create-blocks-from openmetrics`. With
    `newest_alone`, for the textfile collector or a push gateway, it has the newest number of each series, timeless.
    The newest lasting change of each series is `perfgate_change_ratio`, with the time when it began. An event is
    `perfgate_event_seconds`, the time when it began, with its id, kind, state and number of metrics.
    """
    lines: list[str] = []
    by_family: dict[tuple[str, str], list[HistorySeries]] = {}
    for one in found.series:
        by_family.setdefault(_FAMILIES.get(one.unit, _FAMILIES["1"]), []).append(one)
    for (family, unit), own in sorted(by_family.items()):
        lines += _head(family, "A number of a run of main.", unit)
        lines += (line for one in own for line in _samples(family, one, newest_alone))
    changed = [one for one in found.series if one.changes]
    if changed:
        lines += _head("perfgate_change_ratio", "The newest lasting change: 0.05 is +5 %.", "ratio")
        lines += (_sample("perfgate_change_ratio", one, one.changes[-1].point.change) for one in changed)
        lines += _head("perfgate_change_seconds", "When the newest lasting change began, since 1970.", "seconds")
        times = ((one, milliseconds(one.changes[-1].likely.time) // 1000) for one in changed)
        lines += (_sample("perfgate_change_seconds", one, time) for one, time in times)
    if events:
        lines += _head("perfgate_event_seconds", "When a change of one or more metrics began, since 1970.", "seconds")
        for event in events:
            about = {"event": event.id, "kind": event.kind, "state": event.state, "metrics": str(len(event.changes))}
            began = milliseconds(event.likely.time) // 1000
            lines.append(f"perfgate_event_seconds{{{_labelled(about)}}} {began}")
    return "".join(f"{line}\n" for line in [*lines, "# EOF"]).encode("utf-8", "backslashreplace")


def _head(family: str, what: str, unit: str) -> Iterable[str]:
    yield f"# TYPE {family} gauge"
    if unit:
        yield f"# UNIT {family} {unit}"
    yield f"# HELP {family} {what}"


def _samples(family: str, one: HistorySeries, newest_alone: bool) -> Iterator[str]:
    """Yield the numbers of a series. Their times must rise, so the last of two in one second counts."""
    by_time = {run.time: float(value) for run, value in zip(one.runs, one.values, strict=True)}
    if newest_alone:
        yield from [_sample(family, one, float(one.values[-1]))] if one.runs else []
        return
    for time in sorted(by_time):
        yield f"{_sample(family, one, by_time[time])} {milliseconds(time) // 1000}"


def _sample(family: str, one: HistorySeries, value: float) -> str:
    about = {
        "suite": one.suite,
        "environment": one.environment,
        "metric": one.name.key.metric,
        "statistic": one.name.statistic,
        "rank": one.name.rank,
        # OpenMetrics allows these letters in the name of a label.
        **{f"label_{re.sub('[^A-Za-z0-9_]', '_', name)}": text for name, text in one.name.key.labels},
    }
    return f"{family}{{{_labelled(about)}}} {value!r}"


def _labelled(about: Mapping[str, str]) -> str:
    """Return labels as OpenMetrics writes them."""
    escaped = {
        name: text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") for name, text in about.items()
    }
    return ",".join(f'{name}="{text}"' for name, text in escaped.items())


FILES: dict[str, Callable[[LoadedHistory], bytes]] = {
    "csv": render_csv,
    "parquet": render_parquet,
    OPENMETRICS: render_openmetrics,
    "github-action-benchmark": render_benchmark_data,
}
