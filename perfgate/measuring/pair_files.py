"""The two runs of a pair as one `perfgate.results/1` document, whose series are labelled with side and pair."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from perfgate.core import Key, Run, Series
from perfgate.judge.pairs import Pairing
from perfgate.measuring.one_run import Unfinished
from perfgate.workspace import inputs
from perfgate.workspace.output_files import replace_file


def write_pair(path: Path, base: Path, new: Path, number: int, pairing: Pairing, format: str | None) -> list[str]:
    """Write a pair, and return what was noticed. Raises Unfinished where a side cannot be read.

    Steps that one side alone has taken were not taken by turns: of samples the pair holds as many as both sides have.
    """
    runs = {"base": _read(base, "base", format), "new": _read(new, "new", format)}
    lengths: dict[Key, int] = {}
    for run in runs.values():
        for series in run.series:
            lengths[series.key] = min(lengths.get(series.key, len(series.values)), len(series.values))
    cut = pairing == "in-turn"
    document = {
        "schema": "perfgate.results/1",
        "environment": dict(runs["new"].environment),
        "series": [
            _row(series, {"side": side, "pair": str(number), "pairing": pairing}, lengths[series.key] if cut else None)
            for side, run in runs.items()
            for series in run.series
        ],
    }
    replace_file(str(path), (json.dumps(document) + "\n").encode())
    return _noticed(runs, lengths, number)


def _read(path: Path, side: str, format: str | None) -> Run:
    runs = inputs.read_runs([str(path)], format)
    if len(runs) != 1:
        raise Unfinished(f"the {side} side wrote {len(runs)} runs: one process is one run")
    bad = [problem for problem in runs[0].problems if problem.severity == "error"]
    if bad or not runs[0].series:
        raise Unfinished(f"the {side} side wrote nothing that can be read" + (f": {bad[0]}" if bad else ""))
    return runs[0]


def _row(series: Series, marks: dict[str, str], most: int | None) -> dict[str, Any]:
    labels = {**dict(series.key.labels), **marks}
    row: dict[str, Any] = {"metric": series.key.metric, "labels": labels, "unit": series.unit}
    if series.kind == "aggregate":
        return {**row, "aggregate": dict(series.aggregate)}
    if series.kind == "value":
        return {**row, "value": float(series.values[0])}
    steps = {} if series.steps is None else {"steps": series.steps[:most].tolist()}
    return {**row, "values": series.values[:most].tolist(), **steps}


def _noticed(runs: dict[str, Run], lengths: dict[Key, int], number: int) -> list[str]:
    """Sides of different length, and sides whose recording ended early."""
    lines = [f"pair {number}: {problem}" for run in runs.values() for problem in run.problems]
    for side, run in runs.items():
        longer = [series for series in run.series if len(series.values) > lengths[series.key]]
        if longer:
            one = longer[0]
            counts = f"{len(one.values)} steps of {one.key.metric}, the other side {lengths[one.key]}"
            lines.append(f"pair {number}: the {side} side took {counts}: the shorter one decides")
    return lines
