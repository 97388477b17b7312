"""What `inspect` found, as JSON (perfgate.inspect/1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perfgate.core.summaries import RunSummary, SeriesSummary
from perfgate.core.wording import synonyms
from perfgate.reporters.plain_json import encode, problem


def render_json(runs: Sequence[RunSummary]) -> str:
    """Return every run with its series in base units, and with the values if the summaries have them."""
    return encode({"schema": "perfgate.inspect/1", "runs": [_run(run) for run in runs]})


def _run(run: RunSummary) -> dict[str, Any]:
    part = {} if run.part is None else {"part": run.part}
    return {
        "source": run.source,
        **part,
        "format": run.format,
        "recognised_by": run.recognised_by,
        "environment": dict(run.environment),
        "series": [_series(summary) for summary in run.series],
        "problems": [problem(found) for found in run.problems],
        **({"coverage": run.coverage} if run.coverage else {}),
    }


def _series(summary: SeriesSummary) -> dict[str, Any]:
    row: dict[str, Any] = {
        "metric": summary.key.metric,
        "labels": dict(summary.key.labels),
        "unit": summary.unit,
        "kind": summary.kind,
        "n": summary.n,
        "statistics": dict(summary.statistics),
    }
    if summary.printed_as:
        row["printed_as"] = summary.printed_as
    if other := synonyms(summary.key.metric):
        row["also_called"] = list(other)
    if summary.warmup_steps is not None:
        row["warmup"] = {"steps": summary.warmup_steps, "time": summary.warmup_time}
    if summary.values is not None:
        row["values"] = list(summary.values)
    return row
