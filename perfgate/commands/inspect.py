"""`perfgate inspect`: what was read, before any rule is applied."""

from __future__ import annotations

from perfgate.commands.trace_view import trace_view
from perfgate.core import Run, RunSummary
from perfgate.judge.measure import summary
from perfgate.workspace.inputs import read_runs
from perfgate.workspace.options import CommandOptions


def inspect(options: CommandOptions, *, with_values: bool = False) -> tuple[list[RunSummary], int]:
    """Return a summary of every run, and the exit code: 3 for a run without metrics or with an error-level problem."""
    runs = read_runs(options.runs, options.format, options.trace_mode, as_given=True)
    bad = any(not run.series or any(problem.severity == "error" for problem in run.problems) for run in runs)
    return [_summary(run, with_values) for run in runs], 3 if bad else 0


def _summary(run: Run, with_values: bool) -> RunSummary:
    series = tuple(summary(one, with_values=with_values) for one in sorted(run.series, key=lambda one: one.key))
    facts = dict(sorted(run.environment.items()))
    return RunSummary(run.source, run.part, run.format, run.recognised_by, facts, series, run.problems, trace_view(run))
