"""`perfgate check`: read rules, runs and the baseline, judge, and return one report."""

from __future__ import annotations

from perfgate.commands.judging import judged
from perfgate.commands.preparing import CheckRequest, prepare, read_new
from perfgate.core import Report


def check(request: CheckRequest) -> Report:
    """Judge new runs by the rules. Mistakes in rules give a report, too. Raises Refused for usage errors."""
    prepared = prepare(request)
    if isinstance(prepared, Report):
        return prepared
    return judged(prepared, read_new(prepared, request.options.runs))
