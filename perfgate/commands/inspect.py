"""`perfgate inspect`: what was read, before any rule."""

from __future__ import annotations

from collections.abc import Sequence

from perfgate.commands.trace_view import trace_view
from perfgate.core import Run, RunSummary
from perfgate.judge.measure import summary
from perfgate.readers.source import TraceMode
from perfgate.workspace.inputs import read_runs


def inspect(
    paths: Sequence[str], format: str | None, trace_mode: TraceMode, *, with_values: bool = False
) -> tuple[list[RunSummary], int]:
    """Summaries of every run, and the exit code: 3 when a run holds nothing or an error-level problem was met."""
    runs = read_runs(paths, format, trace_mode, as_given=True)
    bad = any(not run.series or any(problem.severity == "error" for problem in run.problems) for run in runs)
    return [_summary(run, with_values) for run in runs], 3 if bad else 0


def _summary(run: Run, with_values: bool) -> RunSummary:
    series = tuple(summary(one, with_values=with_values) for one in sorted(run.series, key=lambda one: one.key))
    facts = dict(sorted(run.environment.items()))
    return RunSummary(run.source, run.part, run.format, run.recognised_by, facts, series, run.problems, trace_view(run))
