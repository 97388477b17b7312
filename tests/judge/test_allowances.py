"""An allowance for one commit: the verdicts that it changes, and those that it does not."""

from __future__ import annotations

from datetime import date

import pytest
from conftest import answer_of
from msgspec.structs import replace
from stories import CALIBRATED, TODAY, case, run

from perfgate.core import Allowance
from perfgate.judge.verdicts import judge

ALLOWED = [
    # metric, up to, expires; slower by; outcome and reason of `step.time within 5% of baseline`
    (None, 0.0, TODAY, 1.3, "fail interval"),
    ("step.time", 0.2, TODAY, 1.3, "pass allowed"),
    ("step.*", 0.2, TODAY, 1.3, "pass allowed"),
    ("step.tim", 0.2, TODAY, 1.3, "fail interval"),
    ("step.time", 0.2, date(2025, 12, 31), 1.3, "fail interval"),
    ("step.time", 0.01, TODAY, 1.3, "fail interval"),
    ("step.time", 0.065, TODAY, 1.3, "suspect interval"),
    ("step.time", 0.075, TODAY, 1.3, "pass interval"),
    ("step.time", 0.2, TODAY, 1.2, "pass allowed"),  # it was open
    ("step.time", 0.2, TODAY, 1.23, "pass allowed"),  # it was a suspicion
    ("step.time", 0.2, TODAY, 1.0, "pass interval"),
]


@pytest.mark.parametrize(("metric", "up_to", "expires", "slower", "expected"), ALLOWED)
def test_what_was_allowed(metric: str | None, up_to: float, expires: date, slower: float, expected: str) -> None:
    given = (Allowance(metric, up_to, "ada", "worth it", expires),) if metric else ()
    asked = case("  - step.time within 5% of baseline\n", run(50, slower=slower))
    (found,) = judge(replace(asked, baseline=replace(asked.baseline, allowances=given, priors=CALIBRATED)))
    assert f"{answer_of(found)} {found.reason}" == expected
    said = " ".join((found.message, *found.notes))
    assert ("allow" in said) == (metric in ("step.time", "step.*") and slower > 1)
    assert (found.allowed_by == "ada") == ("allowed up to" in said)


UNDER = [
    # a rule, what was allowed, how much slower the new run is; outcome, who allowed it, and a part of the message
    ("within 5%", 0.01, 1.3, "fail", None, "the allowance of 1% by ada is not enough"),
    ("within 5%", 0.01, 1.2, "pass", None, "the allowance of 1% by ada is not enough"),
    ("within 1 ms", 0.02, 1.3, "fail", None, "the allowance of 2% by ada is not enough"),
    ("within 1 ms", 0.2, 1.3, "pass", "ada", "allowed by ada: worth it"),
    ("within 5%", 0.2, 1.3, "pass", "ada", "allowed by ada: worth it"),
]


@pytest.mark.parametrize(("rule", "up_to", "slower", "outcome", "by", "note"), UNDER)
def test_what_was_allowed_stands_in_for_the_tolerance(
    rule: str, up_to: float, slower: float, outcome: str, by: str | None, note: str
) -> None:
    given = (Allowance("step.time", up_to, "ada", "worth it", TODAY),)
    asked = case(f"  - step.time {rule} of baseline\n", run(50, slower=slower))
    (found,) = judge(replace(asked, baseline=replace(asked.baseline, allowances=given, priors=CALIBRATED)))
    assert (found.outcome, found.allowed_by) == (outcome, by)
    assert note in found.notes
    assert found.message.startswith("allowed up to 20% by ada until 2026-01-01 (worth it): step.time median") == bool(
        by
    )


PAST = date(2025, 12, 31)


@pytest.mark.parametrize(
    ("given", "says"),
    [  # the metrics, the shares and the last days of several allowances; the largest valid one counts
        ([("step.time", 0.2, PAST), ("step.*", 0.2, TODAY)], "allowed up to 20% by ada until 2026-01-01"),
        ([("step.time", 0.01, TODAY), ("step.*", 0.2, TODAY)], "allowed up to 20% by ada until 2026-01-01"),
        ([("step.*", 0.2, TODAY), ("step.time", 0.01, TODAY)], "allowed up to 20% by ada until 2026-01-01"),
        ([("step.time", 0.9, PAST), ("step.*", 0.01, TODAY)], "the allowance of 1% by ada is not enough"),
        ([("step.time", 0.9, PAST), ("step.*", 0.2, PAST)], "the allowance of 90% by ada expired on 2025-12-31"),
    ],
)
def test_of_several_allowances_the_largest_valid_one_counts(given: list[tuple[str, float, date]], says: str) -> None:
    allowances = tuple(Allowance(metric, up_to, "ada", "worth it", until) for metric, up_to, until in given)
    asked = case("  - step.time within 5% of baseline\n", run(50, slower=1.3))
    (found,) = judge(replace(asked, baseline=replace(asked.baseline, allowances=allowances, priors=CALIBRATED)))
    assert says in " ".join((found.message, *found.notes))


@pytest.mark.parametrize(("up_to", "outcome"), [(0.051, "undecided"), (0.08, "pass")])
def test_an_allowance_moves_what_must_be_excluded(up_to: float, outcome: str) -> None:
    """Exit 0 excludes twice the tolerance, and the allowance takes its place."""
    given = (Allowance("step.time", up_to, "ada", "worth it", TODAY),)
    asked = case("  - step.time within 5% of baseline\n", run(50, slower=1.2))
    unknown = replace(CALIBRATED[1], s0=0.03, d0=20.0)
    (found,) = judge(replace(asked, baseline=replace(asked.baseline, allowances=given, priors=(unknown,))))
    assert answer_of(found) == outcome


def test_an_allowance_is_for_the_baseline_alone() -> None:
    given = (Allowance("*", 9.0, "ada", "worth it", TODAY),)
    rules = "  - step.time within 5% of anchor\n  - slow under 1 ms\n  - slow within 5% of baseline\n"
    asked = case(rules, *(run(50 + i, slower=1.5) for i in range(5)))
    found = judge(replace(asked, baseline=replace(asked.baseline, allowances=given)))
    assert [verdict.reason for verdict in found] == ["interval", "interval", "allowed"]
    assert [verdict.outcome for verdict in found] == ["fail", "fail", "pass"]
