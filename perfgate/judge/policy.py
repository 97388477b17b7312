"""From outcomes to what blocks: the exit code of one verdict and of a whole report."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from perfgate.core import Outcome, Problem, Verdict
from perfgate.rules.ruleset import Settings

#: Reasons that are the rule author's mistake, not the data's: usage, exit 2.
USAGE_REASONS = ("no-unit", "improving-side")

#: When several hold: internal error, usage, failure, could not judge, nothing.
_ORDER = (4, 2, 1, 3, 0)


def verdict_exit_code(outcome: Outcome, reason: str, settings: Settings) -> int:
    """What one verdict alone would make the command exit with."""
    warning = settings.severity == "warning"
    if outcome == "fail":
        return 0 if warning else 1
    if outcome == "error":
        return 2 if reason in USAGE_REASONS else 3
    if outcome == "suspect":
        return 0 if warning else 3
    if outcome == "inconclusive":
        policy = settings.on_inconclusive or ("error" if reason == "thin-tail" else "warn")
        return 0 if warning else {"warn": 0, "fail": 1, "error": 3}[policy]
    return 0


def stored_exit_code(verdict: Verdict) -> int:
    """What a verdict that was stored makes the command exit with, whatever it states.

    Only what its rule said of not being able to tell is taken from what it states: nothing else tells of that.
    """
    policies: dict[int, Literal["warn", "fail", "error"]] = {0: "warn", 1: "fail", 3: "error"}
    stated = policies.get(verdict.exit_code)
    return verdict_exit_code(
        verdict.outcome, verdict.reason, Settings(severity=verdict.severity, on_inconclusive=stated)
    )


def worst_exit_code(codes: Iterable[int]) -> int:
    """The exit code of several: the order is 4, 2, 1, 3, 0."""
    return min(codes, key=_ORDER.index, default=0)


def report_exit_code(verdicts: Iterable[Verdict], problems: Iterable[Problem]) -> int:
    """The exit code of a report: of its verdicts, and of problems that belong to no series.

    Nothing judged at all is 3: every rule was skipped because of `when`, `--only` or `expect_fail`.
    """
    verdicts = list(verdicts)
    codes = [verdict.exit_code for verdict in verdicts]
    if any(problem.severity == "error" and problem.key is None for problem in problems):
        codes.append(3)
    allowed = ("no-baseline", "metric-absent")  # skipped because somebody asked for it
    if all(verdict.outcome == "skipped" and verdict.reason not in allowed for verdict in verdicts):
        codes.append(3)
    return worst_exit_code(codes)


def report_outcome(exit_code: int, verdicts: Iterable[Verdict]) -> Outcome:
    """One word for a report: why it blocks, or, when nothing does, whether anything was left open."""
    outcomes = [verdict.outcome for verdict in verdicts if exit_code in (0, verdict.exit_code)]
    if exit_code == 1:
        return "fail"
    if exit_code in (2, 4):
        return "error"
    if exit_code == 3:
        undecided: tuple[Outcome, ...] = ("suspect", "inconclusive")
        return next((word for word in undecided if outcomes and set(outcomes) <= {word}), "error")
    if "inconclusive" in outcomes:
        return "inconclusive"
    return "skipped" if set(outcomes) == {"skipped"} else "pass"
