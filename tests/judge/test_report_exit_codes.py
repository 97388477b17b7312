"""Exit codes, one row a case: of one verdict, of one that was stored, and of a whole report."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from perfgate.core import NO_STEP, Key, Location, Problem, Quarantine, RelativeChange, Report, Verdict
from perfgate.judge.report import (
    geometric_means,
    stored_exit_code,
    verdict_exit_code,
    with_outcome,
    with_problems,
    worst_exit_code,
)

HERE = Location("rules.yaml", 1)


def verdict(outcome: Any, reason: str = "interval", code: int = 0, severity: Any = "error") -> Verdict:
    return Verdict("r", "m", {}, None, outcome, reason, severity, code, "limit", "s", "", NO_STEP, HERE)


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


QUARANTINES = [
    # outcome, whether the quarantine has ended, exit code
    ("fail", False, 0),
    ("undecided", False, 0),
    ("error", False, 3),
    ("pass", False, 0),
    ("fail", True, 1),
    ("undecided", True, 3),
]


@pytest.mark.parametrize(("outcome", "ended", "code"), QUARANTINES)
def test_a_rule_in_quarantine_blocks_only_with_an_error(outcome: Any, ended: bool, code: int) -> None:
    quarantine = Quarantine("2026-01-01", "flaky", ended)
    assert verdict_exit_code(outcome, "interval", "error", quarantine) == code
    assert stored_exit_code(replace(verdict(outcome), quarantine=quarantine)) == code


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


@pytest.mark.parametrize(
    ("problems", "expected"), [([], "0 pass"), ([HINT], "0 pass"), ([BROKEN], "3 error"), ([HINT, BROKEN], "3 error")]
)
def test_further_problems_of_a_report(problems: list[Problem], expected: str) -> None:
    found = with_problems(with_outcome(Report(verdicts=(PASSED,), problems=(HINT,))), problems)
    assert f"{found.exit_code} {found.outcome}" == expected
    assert found.problems == (HINT, *problems)
    assert with_problems(with_outcome(Report(verdicts=(FAILED,))), problems).exit_code == 1


def test_the_mean_change_of_each_unit_with_two_verdicts() -> None:
    def changed(unit: str | None, *changes: float | None) -> list[Verdict]:
        return [replace(PASSED, unit=unit, change=RelativeChange(change, None, None)) for change in changes]

    verdicts = [*changed("s", 1.0, -0.5), *changed(None, 3.0, 0.0), *changed("B", 1.0, None, -1.0), PASSED, PASSED]
    means = geometric_means(verdicts)
    assert [(mean.unit, mean.verdicts) for mean in means] == [("1", 2), ("s", 2)]
    assert [mean.change for mean in means] == pytest.approx([1.0, 0.0])


def test_a_report_that_was_never_settled_is_an_internal_error() -> None:
    assert (Report().outcome, Report().exit_code) == ("error", 4)
