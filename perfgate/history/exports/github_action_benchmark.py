"""`data.js` of github-action-benchmark, whose page then draws the history.

A suite of the tool has one direction, so metrics that are better when they are higher are in a suite of their own.
"""

from __future__ import annotations

import json
from datetime import datetime
from math import isnan
from typing import TypeAlias

from perfgate.core.branch import CommitLine
from perfgate.core.remembered_runs import HistoryRun
from perfgate.core.run_history import HistorySeries, LoadedHistory
from perfgate.core.units import display_unit, format_value

NAME = "github-action-benchmark"
_TOOLS = {"higher": "customBiggerIsBetter"}
_Bench: TypeAlias = dict[str, str | float]


def render(found: LoadedHistory) -> bytes:
    """Return the script."""
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
