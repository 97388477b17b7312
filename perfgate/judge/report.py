"""The exit codes of verdicts and of a whole report.

Only `with_outcome` gives a report its outcome and its exit code. `check`, `compare`, `report`, `run` and the comparison
of two rule sources all call it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from perfgate.core import QUARANTINED, MeanChange, Outcome, Problem, Quarantine, Report, Severity, Verdict

#: Reasons that are mistakes in a rule, not in the data: exit code 2.
USAGE_REASONS = ("no-unit", "improving-side")
#: Reasons for a skipped verdict that count as judged, because the user asked for the skip.
_SKIPPED_ON_REQUEST = ("no-baseline", "metric-absent")
#: If several codes apply: internal error, usage, failure, could not judge, nothing blocks.
_WORST_FIRST = (4, 2, 1, 3, 0)


def verdict_exit_code(outcome: Outcome, reason: str, severity: Severity, quarantine: Quarantine | None = None) -> int:
    """The exit code that one verdict alone would give."""
    if quarantine is not None and not quarantine.ended and outcome in QUARANTINED:
        return 0
    if outcome == "error":
        return 2 if reason in USAGE_REASONS else 3
    if outcome in ("pass", "skipped") or severity == "warning":
        return 0
    return 1 if outcome == "fail" else 3


def stored_exit_code(verdict: Verdict) -> int:
    """The exit code that a verdict from a stored report should have, whatever the file states."""
    return verdict_exit_code(verdict.outcome, verdict.reason, verdict.severity, verdict.quarantine)


def worst_exit_code(codes: Iterable[int]) -> int:
    """The exit code of several; the order is 4, 2, 1, 3, 0."""
    return min(codes, key=_WORST_FIRST.index, default=0)


def with_outcome(report: Report, at_least: int = 0) -> Report:
    """The report with the outcome and the exit code that its verdicts and problems give.

    Every error-level problem is exit code 3. So is a report without a judged verdict: all were skipped by `when`,
    `--only` or `expect_fail`. `at_least` is an exit code that is known already.
    """
    codes = [at_least, *(verdict.exit_code for verdict in report.verdicts)]
    if any(problem.severity == "error" for problem in report.problems):
        codes.append(3)
    skipped = (one.outcome == "skipped" and one.reason not in _SKIPPED_ON_REQUEST for one in report.verdicts)
    if not report.identical and all(skipped):
        codes.append(3)
    code = worst_exit_code(codes)
    is_whole = not any(problem.severity == "error" for problem in report.problems)
    deciding = {verdict.outcome for verdict in report.verdicts if code in (0, verdict.exit_code)}
    outcome: Outcome = {0: "pass", 1: "fail"}.get(code, "error")  # type: ignore[assignment]
    if code == 0 and deciding == {"skipped"}:
        outcome = "skipped"
    elif code == 3 and deciding == {"undecided"} and is_whole:
        outcome = "undecided"
    return replace(report, exit_code=code, outcome=outcome)


def with_problems(report: Report, problems: Sequence[Problem]) -> Report:
    """The report with further problems; its exit code can only get worse."""
    return with_outcome(replace(report, problems=(*report.problems, *problems)), at_least=report.exit_code)


def geometric_means(verdicts: Sequence[Verdict]) -> tuple[MeanChange, ...]:
    """The geometric mean of new/base for each unit with at least two verdicts, sorted by unit.

    Unlike other means it does not depend on which side is the base (Fleming and Wallace, "How not to lie with
    statistics", 1986). Metrics of one unit have the same better direction; rates and times do not.
    """
    logs: dict[str, list[float]] = {}
    for verdict in verdicts:
        change = verdict.change.estimate if verdict.change else None
        if change is not None and change > -1:
            logs.setdefault(verdict.unit or "1", []).append(math.log1p(change))
    several = sorted((unit, found) for unit, found in logs.items() if len(found) > 1)
    return tuple(MeanChange(unit, len(found), math.expm1(sum(found) / len(found))) for unit, found in several)
