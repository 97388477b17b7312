"""Exit codes, one row a case: of one verdict, of one that was stored, and of a whole report."""

from __future__ import annotations

from typing import Any

import pytest

from perfgate.core import Key, Location, Problem, Report, Verdict
from perfgate.judge.report import stored_exit_code, verdict_exit_code, with_outcome, worst_exit_code

HERE = Location("rules.yaml", 1)


def verdict(outcome: Any, reason: str = "interval", code: int = 0, severity: Any = "error") -> Verdict:
    return Verdict("r", "m", {}, None, outcome, reason, severity, code, "limit", "s", "", "", HERE)


VERDICTS = [
    # outcome    reason             severity   exit code
    ("pass", "interval", "error", 0),
    ("skipped", "when", "error", 0),
    ("fail", "interval", "error", 1),
    ("fail", "interval", "warning", 0),
    ("error", "no-baseline", "error", 3),
    ("error", "metric-absent", "warning", 3),
    ("error", "no-unit", "error", 2),
    ("error", "improving-side", "warning", 2),
    ("undecided", "interval", "error", 3),
    ("undecided", "interval", "warning", 0),
]


@pytest.mark.parametrize(("outcome", "reason", "severity", "code"), VERDICTS)
def test_one_verdict(outcome: Any, reason: str, severity: Any, code: int) -> None:
    assert verdict_exit_code(outcome, reason, severity) == code


STORED = [
    # as it was stored: outcome, reason, exit code; and what it is worth
    ("pass", "interval", 0, 0),
    ("pass", "interval", 3, 0),
    ("fail", "interval", 1, 1),
    ("fail", "interval", 0, 1),
    ("error", "no-baseline", 0, 3),
    ("undecided", "interval", 0, 3),
]


@pytest.mark.parametrize(("outcome", "reason", "stated", "code"), STORED)
def test_the_exit_code_of_a_stored_verdict_is_that_of_its_outcome(
    outcome: Any, reason: str, stated: int, code: int
) -> None:
    assert stored_exit_code(verdict(outcome, reason, stated)) == code


def test_a_stored_warning_stays_one() -> None:
    assert stored_exit_code(verdict("fail", severity="warning")) == 0


@pytest.mark.parametrize(
    ("codes", "worst"), [([], 0), ([0, 3], 3), ([3, 1, 0], 1), ([1, 2, 3], 2), ([2, 4, 1], 4), ([0, 0], 0)]
)
def test_the_worst_of_several(codes: list[int], worst: int) -> None:
    assert worst_exit_code(codes) == worst


PASSED, FAILED = verdict("pass"), verdict("fail", code=1)
SKIPPED, ASKED = verdict("skipped", "when"), verdict("skipped", "no-baseline")
OPEN, ABSENT = verdict("undecided", code=3), verdict("error", "metric-absent", 3)
UNKNOWN, WARNED = verdict("error", "no-unit", 2), verdict("undecided", severity="warning")
BROKEN, OF_A_SERIES = Problem("error", "cut", HERE), Problem("error", "NaN", HERE, Key("m"))
HINT = Problem("warning", "cut", HERE)

REPORTS = [
    # verdicts                problems       exit code, outcome
    ([PASSED], [], "0 pass"),
    ([PASSED, FAILED], [], "1 fail"),
    ([PASSED], [BROKEN], "3 error"),
    ([PASSED], [HINT], "0 pass"),
    ([PASSED], [OF_A_SERIES, HINT], "3 error"),
    ([FAILED], [BROKEN], "1 fail"),
    ([FAILED, UNKNOWN], [], "2 error"),
    ([], [], "3 error"),
    ([SKIPPED], [], "3 error"),
    ([SKIPPED, SKIPPED], [], "3 error"),
    ([SKIPPED, PASSED], [], "0 pass"),
    ([SKIPPED, ASKED], [], "0 skipped"),
    ([ASKED], [], "0 skipped"),
    ([verdict("skipped", "metric-absent")], [], "0 skipped"),
    ([WARNED, PASSED], [], "0 pass"),
    ([OPEN, PASSED], [], "3 undecided"),
    ([OPEN, OPEN], [], "3 undecided"),
    ([OPEN], [BROKEN], "3 error"),
    ([OPEN, FAILED], [], "1 fail"),
    ([verdict("fail", severity="warning")], [], "0 pass"),
    ([verdict("fail", severity="warning"), SKIPPED], [], "0 pass"),
    ([ABSENT, OPEN], [], "3 error"),
]


@pytest.mark.parametrize(("verdicts", "problems", "expected"), REPORTS)
def test_a_report(verdicts: list[Verdict], problems: list[Problem], expected: str) -> None:
    found = with_outcome(Report(verdicts=tuple(verdicts), problems=tuple(problems)))
    assert f"{found.exit_code} {found.outcome}" == expected


@pytest.mark.parametrize(("at_least", "expected"), [(0, "0 pass"), (3, "3 error"), (1, "1 fail"), (4, "4 error")])
def test_an_exit_code_that_is_known_already_stays(at_least: int, expected: str) -> None:
    found = with_outcome(Report(verdicts=(PASSED,)), at_least=at_least)
    assert f"{found.exit_code} {found.outcome}" == expected


def test_a_report_that_was_never_settled_is_an_internal_error() -> None:
    assert (Report().outcome, Report().exit_code) == ("error", 4)
