"""The setting `at_worst`: how it is written, what is refused, and how a rule with it is explained."""

from __future__ import annotations

import pytest

from perfgate.rules.explain import explain
from perfgate.rules.load import load_rules
from perfgate.rules.ruleset import Ruleset


def load(rule: str, at_worst: str, defaults: str = "") -> tuple[Ruleset | None, list[str]]:
    """A file with one rule, and what is wrong with it."""
    setting = f", at_worst: {at_worst}" if at_worst else ""
    text = f"version: 1\ndefaults: {{{defaults}}}\nrules:\n  - {{assert: {rule}{setting}}}\n"
    ruleset, problems = load_rules([("r.yaml", text.encode())])
    return ruleset, [f"{problem.at}: {problem.message}" for problem in problems]


CHANGE = "x within 5% of baseline"
BOTH = "x within 5% and 2 ms of baseline"
WRITTEN = [
    # a rule, at_worst, its share, and its quantity in base units
    (CHANGE, "10%", 0.1, None),
    (CHANGE, "5%", 0.05, None),
    (CHANGE, "12.5 %", 0.125, None),
    (BOTH, "10% and 4 ms", 0.1, 0.004),
    (BOTH, "4 ms", None, 0.004),
    ("x under 50 ms", "60 ms", None, 0.06),
    ("x over 50 /s", "40 /s", None, 40.0),
]


@pytest.mark.parametrize(("rule", "at_worst", "share", "quantity"), WRITTEN)
def test_it_is_written_as_a_tolerance_is(rule: str, at_worst: str, share: float | None, quantity: float | None) -> None:
    ruleset, problems = load(rule, at_worst)
    assert ruleset is not None, problems
    found = ruleset.rules[0].settings.at_worst
    assert found is not None
    assert found.relative == (None if share is None else pytest.approx(share))
    assert (found.absolute.value if found.absolute else None) == quantity


REFUSED = [
    # a rule, at_worst, and the error
    (CHANGE, "ten percent", "at_worst 'ten percent' is not a size: write 10%, 4 ms, or 10% and 4 ms"),
    (CHANGE, "±10%", "at_worst '±10%' is not a size"),
    (CHANGE, "10% of baseline and within 3%", "is not a size"),
    (CHANGE, "4%", f"at_worst 4% is below what `{CHANGE[2:]}` tolerates: raise it, or leave it out"),
    (BOTH, "10% and 1 ms", f"at_worst 10% and 1 ms is below what `{BOTH[2:]}` tolerates"),
    ("x under 50 ms", "50 ms", "at_worst 50 ms is below what `under 50 ms` tolerates"),
    ("x over 50 /s", "60 /s", "at_worst 60 /s is above what `over 50 /s` tolerates: lower it, or leave it out"),
]


@pytest.mark.parametrize(("rule", "at_worst", "message"), REFUSED)
def test_what_promises_less_than_the_rule_is_refused(rule: str, at_worst: str, message: str) -> None:
    ruleset, problems = load(rule, at_worst)
    assert ruleset is None
    (problem,) = problems
    assert message in problem
    assert problem.startswith("r.yaml:4:")


def test_a_number_is_a_mistake_of_type() -> None:
    ruleset, problems = load(CHANGE, "0.1")
    assert ruleset is None
    assert "at_worst" in problems[0]


def test_defaults_hold_for_rules_without_it_and_are_held_to_them() -> None:
    ruleset, problems = load(CHANGE, "", "at_worst: 7%")
    assert ruleset is not None, problems
    assert ruleset.rules[0].settings.at_worst is not None
    assert ruleset.rules[0].settings.at_worst.text == "7%"
    ruleset, problems = load("x within 8% of baseline", "", "at_worst: 7%")
    assert ruleset is None
    assert "at_worst 7% is below what `within 8% of baseline` tolerates" in problems[0]


EXPLAINED = [
    # a rule, at_worst, and what exit 0 promises
    (CHANGE, "", "exit 0 promises: a change of 10% or more is excluded at 95% confidence; if not, exit 3"),
    (CHANGE, "7%", "exit 0 promises: a change of 7% or more is excluded at 95% confidence; if not, exit 3"),
    (BOTH, "", "exit 0 promises: a change of 10% and also 4 ms or more is excluded"),
    ("x under 50 ms", "60 ms", "exit 0 promises: 60 ms or worse is excluded; if not, exit 3"),
]


@pytest.mark.parametrize(("rule", "at_worst", "words"), EXPLAINED)
def test_a_rule_says_what_exit_0_promises(rule: str, at_worst: str, words: str) -> None:
    ruleset, problems = load(rule, at_worst)
    assert ruleset is not None, problems
    assert words in explain(ruleset.rules[0], ruleset)


def test_a_limit_without_it_a_comparison_with_the_anchor_and_a_warning_promise_nothing() -> None:
    for rule in ("x under 50 ms", "x within 5% of anchor", f"{CHANGE}, severity: warning"):
        ruleset, problems = load(rule, "")
        assert ruleset is not None, problems
        assert "exit 0 promises" not in explain(ruleset.rules[0], ruleset)
