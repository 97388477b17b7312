"""What somebody said of a rule beforehand, one row a case: which outcome, which reason, and what to do next."""

from __future__ import annotations

import pytest
from stories import case, run

from perfgate.judge.verdicts import judge

EXPECTED = [
    # the other settings of a rule that is expected to fail until today, how much slower; outcome, reason, next step
    ("", 1.3, "skipped", "expected-failure", ""),
    ("", 1.0, "skipped", "expected-failure", "it passes now: remove expect_fail"),
    ("when: {gpu: '*A100*'}, ", 1.3, "skipped", "when", ""),
    ("when: {gpu: '>= 8'}, ", 1.3, "error", "unknown-fact", "correct the fact or the rule"),
    ("when: {colour: red}, ", 1.3, "error", "unknown-fact", "give it with --env colour=VALUE"),
]


@pytest.mark.parametrize(("settings", "slower", "outcome", "reason", "step"), EXPECTED)
def test_a_failure_is_expected_up_to_its_day(
    settings: str, slower: float, outcome: str, reason: str, step: str
) -> None:
    expected = "expect_fail: {reason: known, until: '2026-01-01'}"
    rule = f"  - {{assert: slow within 5% of baseline, {settings}{expected}}}\n"
    (found,) = judge(case(rule, run(50, slower=slower)))
    assert (found.outcome, found.reason, found.next_step.text) == (outcome, reason, step)
