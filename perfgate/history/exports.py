"""Histories as files for other tools: a row in `FILES` for each format."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from datetime import datetime
from math import isnan
from typing import TypeAlias

from perfgate.core.remembered_runs import CommitLine, HistoryRun
from perfgate.core.run_history import COLUMNS, Cell, HistorySeries, LoadedHistory
from perfgate.core.units import display_unit, format_value
from perfgate.history import openmetrics

_FORMULA = re.compile(r"'*[=+\-@]")


def render_csv(found: LoadedHistory) -> bytes:
    """Return a line for each number, with all its digits. `perfgate history import` reads it again.

    A text that a spreadsheet would take for a formula begins with an apostrophe, which the import takes off.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for one in found.series:
        writer.writerows(map(_plain, row) for row in one.rows())
    return text.getvalue().encode("utf-8", "backslashreplace")


def _plain(cell: Cell) -> Cell:
    return f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) else cell


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
    document = {"lastUpdate": _milliseconds(newest), "repoUrl": "", "entries": entries}
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
    return [
        {"commit": _commit(run, line), "date": _milliseconds(run.time), "tool": tool, "benches": benches[run.id]}
        for run in runs
        if benches[run.id]
    ]


def _commit(run: HistoryRun, line: CommitLine | None) -> dict[str, object]:
    place = line.place(run.commit) if line else None
    known = line.commits[place] if line is not None and place is not None else None
    name, subject = (known.author, known.subject) if known else ("", "")
    who = {"name": name, "username": name}
    about = {"id": run.commit or run.id, "message": subject, "timestamp": run.time, "url": ""}
    return {**about, "author": who, "committer": who}


def _milliseconds(time: str) -> int:
    return round(datetime.fromisoformat(time.replace("Z", "+00:00")).timestamp() * 1000)


FILES: dict[str, Callable[[LoadedHistory], bytes]] = {
    "csv": render_csv,
    "parquet": render_parquet,
    openmetrics.NAME: openmetrics.render,
    "github-action-benchmark": render_benchmark_data,
}
