"""What a self-test proves of rules, and what a plan says that they would see."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from stories import CALIBRATED, SHORT, as_dict, bare, case, check_golden, run, run_of, series, told

from perfgate.analysis import selftest
from perfgate.analysis.plan import plans
from perfgate.analysis.selftest import exit_code, self_test
from perfgate.core import CalibratedPrior, Key, Series, Verdict, read_only
from perfgate.judge.evidence import Case
from perfgate.judge.verdicts import judge

PROVEN = {
    "changes": """\
  - step.time within 5% of baseline
  - slow within 5% and 2 ms of baseline
  - both within 5% of baseline and within 10% of anchor
  - samples_per_second at least 95% of baseline
  - gpu.utilization within ±5% of baseline
  - memory within 1% of baseline
  - load within 5% of baseline
  - {assert: slow within 5% of baseline, severity: warning}
  - {assert: slow within 5% of baseline, on_missing: skip}
  - {assert: slow within 5% of baseline, when: {gpu: "*A100*"}}
  - {assert: slow within 1% of baseline, on_inconclusive: error}
  - {assert: samples_per_second within 100% of baseline}
""",
    "limits": """\
  - backward p90 under 300 ms
  - backward on each rank under 300 ms
  - forward on the fastest rank under 0.2 s
  - forward min over 50 ms
  - forward min over 0 s
  - gpu.utilization at least 80%
  - forward count at most 100
  - forward count at least 40
  - backward on each rank under 205 ms
  - {assert: backward on each rank under 205 ms, severity: warning}
  - p95(forward) / p50(forward) under 1.1
  - forward cv under 5%
  - comm_share under 20%
  - zero max under 1 ms
  - load mean under 1 s
  - backward on the slowest rank at most 1.1x the median rank
  - {assert: gone under 1 s, on_missing: warn}
  - {assert: forward p99 under 1 s}
  - {assert: forward under 1 s, expect_fail: {reason: known, until: "2026-06-01"}}
""",
}


@pytest.mark.parametrize("theme", PROVEN)
def test_self_test(theme: str) -> None:
    proofs = self_test(case(PROVEN[theme], run(50, n=36)))
    # Of a reason, what follows the colon are words of the judge.
    shown = [{**as_dict(proof), "reason": proof.reason.partition(": ")[0]} for proof in proofs]
    check_golden(f"selftest-{theme}", *shown)
    assert exit_code(proofs) == 1


@pytest.mark.parametrize(
    ("rules", "code"),
    [
        ("  - slow within 20% of baseline\n", 0),
        ("  - slow under 1 ms\n", 1),
        ("  - other under 1 ms\n", 3),
        ("  - slow within 20% of baseline\n  - other under 1 ms\n", 3),
        ("  - forward min over 0 s\n  - other under 1 ms\n", 1),
        ("  - {assert: slow within 20% of baseline, severity: warning}\n", 1),
        ("  - {assert: slow within 20% of baseline, severity: warning}\n  - step.time under 9 s\n", 0),
    ],
)
def test_the_exit_code_of_a_self_test(rules: str, code: int) -> None:
    assert exit_code(self_test(case(rules, run(50, n=36)))) == code


def test_plan() -> None:
    calibrated = case(SHORT)
    calibrated = replace(calibrated, baseline=replace(calibrated.baseline, priors=CALIBRATED[1:]))
    for name, asked in {"plan": calibrated, "plan-one": case(SHORT, runs=1)}.items():
        shown = [as_dict(plan) for plan in plans(asked)]
        few = [{**plan, "advice": ""} for plan in shown]
        check_golden(name, *few)


def test_plan_without_an_anchor_or_with_damage() -> None:
    asked = case("  - slow within 5% of anchor\n  - zero within 5% of baseline\n  - gone under 1 s\n", runs=3)
    found = plans(replace(asked, baseline=replace(asked.baseline, anchor=())))
    assert [plan.trouble for plan in found] == [
        "no stored run has slow",
        "the stored values have no relative change: use a limit instead",
        "the stored runs have no metric gone",
    ]
    assert [plan.metric for plan in found] == ["slow", "zero", "gone"]
    assert [plan.detectable for plan in found] == [None] * 3


STOPPED = {
    # what no change makes fail, and what is said of it
    "step.time within 5% of baseline": None,
    "forward min over 0 s": "forward is never below 0, so this limit cannot fail",
    "forward min at least 0 s": "forward is never below 0, so this limit cannot fail",
    "load count at most 50": "no change of its metrics makes it fail",
    "load mean at most 9 s": None,
    "samples_per_second within 100% of baseline": "no metric can decrease by more than 100%",
    "{assert: gone under 1 s, on_missing: warn}": "it is never judged (on_missing: warn)",
    "{assert: slow p99 within 5% of baseline, on_inconclusive: warn}": "even 1000 times worse, it passes (on",
}


@pytest.mark.parametrize("rule", STOPPED)
def test_a_rule_that_cannot_fail_says_why(rule: str) -> None:
    (proof,) = self_test(case(f"  - {rule}\n", run(50, n=36)))
    said = STOPPED[rule]
    assert (proof.state == "unable") == (said is not None)
    assert proof.reason.startswith(said or "")


X = run_of(series("x", "s", [1.0] * 20))
HALVES = run_of(series("a", "s", [0.5] * 20), series("b", "s", [0.5] * 20))
SMALL = run_of(series("a", "s", [0.001] * 20), series("b", "s", [1.0] * 20))
PRINTED = run_of(Series(Key("x"), "s", "aggregate", read_only(np.array([])), aggregate={"mean": 1.0, "count": 40.0}))

QUIET, LOUD, WILD = ((CalibratedPrior(Key("x"), "median", "worst", s0, 20.0, 9),) for s0 in (0.003, 0.031, 4.0))
EXACTLY: list[tuple[str, dict[str, Any], str, float | None, str]] = [
    # a rule, the runs, the state, the change (of a limit, the value) that is the first to fail, and what is said
    ("x within 5% of baseline", {"new": [X], "base": [X] * 3}, "proven", 0.071, ""),
    ("x within 5% of baseline", {"new": [X], "base": [X] * 5, "priors": QUIET}, "proven", 0.071, ""),
    ("x within 4% of baseline", {"new": [X], "base": [X] * 5}, "proven", 0.0608, ""),
    ("x within 8% of baseline", {"new": [X], "base": [X] * 5}, "proven", 0.1016, ""),
    # Two runs do not show the noise, so no answer is green.
    (
        "x within 5% of baseline",
        {"new": [X], "base": [X]},
        "blocked",
        None,
        "unchanged, it is undecided: x median went from 1 s in the baseline to 1 s: 0% [",
    ),
    ("x under 9 s", {"new": [X]}, "proven", 9.45, ""),
    # One part three times as long makes the sum twice as long, which is twice the tolerance and no more.
    ("a + b within 50% of baseline", {"new": [HALVES], "base": [HALVES] * 5}, "proven", 1.0, ""),
    # Not being able to tell blocks, too.
    (
        "{assert: x within 3% of baseline, confidence: 70%, on_inconclusive: fail}",
        {"new": [X], "base": [X] * 5, "priors": LOUD},
        "proven",
        0.03103,
        "",
    ),
    # The stored runs drift along: without them, the last five would not have gone so far.
    ("a + b within 20% of anchor", {"new": [SMALL] * 4, "base": [SMALL], "anchor": (SMALL,) * 20}, "proven", 0.998, ""),
    (
        "{assert: x within 5% of baseline, at_worst: 400000%}",
        {"new": [X], "base": [X] * 5, "priors": WILD},
        "unable",
        None,
        "even 1000 times worse, it is undecided (on_inconclusive: warn): "
        "x median went from 1 s in the baseline to 1050 s: +104900%",
    ),
    ("x count at least 1", {"new": [PRINTED]}, "unable", None, "no change of its metrics makes it fail"),
]


@pytest.mark.parametrize(("rule", "runs", "state", "fails_at", "reason"), EXACTLY)
def test_where_a_rule_is_the_first_to_fail(
    rule: str, runs: dict[str, Any], state: str, fails_at: float | None, reason: str
) -> None:
    (proof,) = self_test(bare(rule, **runs))
    assert (proof.state, proof.misses) == (state, True)
    assert told(proof.fails_at) == fails_at
    assert proof.reason.startswith(reason)
    assert bool(proof.reason) == bool(reason)


#: One rank against five runs of 1 s: 4 % slower is open, 6 % a suspicion.
RANKS = [
    # the values of the ranks, a setting of the rule, the exit code, and which rank is told of
    ((1.0, 1.06), "", 3, "undecided: x median on rank 1"),
    ((1.06, 1.0), "", 3, "undecided: x median on rank 0"),
    ((1.06, 1.06), "", 3, "undecided: x median on rank 0"),
    ((1.06, 1.04), "on_inconclusive: fail", 1, "fail: x median on rank 1"),
    ((1.04, 1.06), "on_inconclusive: fail", 1, "fail: x median on rank 0"),
    ((1.06, 1.04), "on_inconclusive: warn", 3, "undecided: x median on rank 0"),
    ((1.06, 1.5), "", 1, "fail: x median on rank 1"),
]


@pytest.mark.parametrize(("values", "setting", "code", "said"), RANKS)
def test_of_several_ranks_the_one_that_blocks_most_is_told(
    values: tuple[float, float], setting: str, code: int, said: str
) -> None:
    new, base = (
        run_of(*(series("x", "s", [value] * 20, rank=str(rank)) for rank, value in enumerate(side)))
        for side in (values, (1.0, 1.0))
    )
    (proof,) = self_test(bare(f"{{assert: x on each rank within 5% of baseline, {setting}}}", [new], [base] * 5))
    assert (proof.state, proof.exit_code) == ("blocked", code)
    assert proof.reason.startswith(f"unchanged, it is {said}")


@pytest.mark.parametrize("values", [(1.0, 2.0), (2.0, 1.0)])
def test_of_several_ranks_the_one_that_fails_is_told_though_it_does_not_block(values: tuple[float, float]) -> None:
    new = run_of(*(series("x", "s", [value] * 20, rank=str(rank)) for rank, value in enumerate(values)))
    (proof,) = self_test(bare("{assert: x on each rank under 1.5 s, severity: warning}", [new]))
    assert (proof.state, told(proof.fails_at)) == ("by-choice", 1.575)


def test_a_clause_of_the_anchor_is_proven_beside_one_of_the_baseline() -> None:
    """One new run is a third of what is held against the anchor: the stored ones drift along."""
    rule = "x within 5% of baseline and within 20% of anchor"
    _, anchor = self_test(bare(rule, [X], [X] * 2, anchor=(X,) * 2))
    assert (anchor.state, told(anchor.fails_at)) == ("proven", 0.224)


def test_what_is_not_judged_for_want_of_a_baseline_is_unable() -> None:
    (proof,) = self_test(replace(bare("x within 5% of baseline", [X]), missing_baseline="skip"))
    assert (proof.state, proof.misses) == ("unable", True)
    assert proof.reason == "it is not judged: not judged: there is no baseline to compare x with"


def test_a_glob_of_which_one_metric_alone_is_asked_for_does_not_notice_that_it_is_gone() -> None:
    (proof,) = self_test(replace(bare("x* under 9 s", [X]), only=("x",)))
    assert (proof.state, proof.misses) == ("unable", False)
    assert proof.reason == "on_missing: error: a missing x does not block"


BY_CHOICE = [
    # a setting of the rule, and why its failure does not block
    ("severity: warning", "severity: warning: a failure is reported but does not block"),
    ('quarantine: {until: "2026-02-01", reason: noisy}', "quarantined until 2026-02-01 (noisy)"),
    ('quarantine: {until: "2025-12-01", reason: noisy}', ""),
    (
        'severity: warning, quarantine: {until: "2025-12-01", reason: noisy}',
        "severity: warning: a failure is reported but does not block",
    ),
    ("on_missing: warn", "on_missing: warn: a missing x does not block"),
]


@pytest.mark.parametrize(("setting", "reason"), BY_CHOICE)
def test_a_failure_that_does_not_block_by_choice(setting: str, reason: str) -> None:
    held = run_of(*X.series, series("y", "s", [1.0]))
    (proof,) = self_test(bare(f"{{assert: x under 1.5 s, {setting}}}", [held]))
    assert (proof.state, proof.reason) == ("by-choice" if reason else "proven", reason)


def test_an_expected_failure_is_not_tested() -> None:
    (proof,) = self_test(bare('{assert: x under 0.5 s, expect_fail: {reason: known, until: "2026-06-01"}}', [X]))
    assert (proof.state, proof.fails_at) == ("by-choice", None)
    assert "known" in proof.reason


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[Case]:
    """The cases that a self-test judges."""
    found: list[Case] = []

    def keep(asked: Case) -> tuple[Verdict, ...]:
        found.append(asked)
        return judge(asked)

    monkeypatch.setattr(selftest, "judge", keep)
    return found


@pytest.mark.parametrize(("runs", "looked_at", "pairs"), [(1, 3, 10), (2, 4, 10), (3, 3, 12), (4, 4, 12), (11, 11, 11)])
def test_runs_are_repeated_as_a_gate_measures_again(judged: list[Case], runs: int, looked_at: int, pairs: int) -> None:
    """Up to three runs are compared with stored ones, and up to ten pairs are made; a limit is judged as it is."""
    self_test(bare("x within 5% of baseline", [X] * runs, [X] * 5))
    assert {len(asked.new) for asked in judged} == {runs, looked_at}
    judged.clear()
    self_test(bare("x within 5% of baseline", [X] * runs, [X] * runs, pairing="one-process"))
    assert {(len(asked.new), len(asked.baseline.runs)) for asked in judged} == {(pairs, pairs)}
    judged.clear()
    self_test(bare("x under 9 s", [X] * runs))
    assert {len(asked.new) for asked in judged} == {runs}


def test_without_a_run_nothing_can_fail() -> None:
    for more in ({}, {"pairing": "one-process"}):
        (proof,) = self_test(bare("x within 5% of baseline", [], [X] * 5, **more))
        assert (proof.state, proof.exit_code) == ("blocked", 3)


WORK = [
    # a rule, and how often runs are judged
    ("x under 9 s", 2 + 1 + 3),  # unchanged, without x, 1000 times as long, and up to 1.05 times the limit
    ("x count at most 50", 2 + 5 * 3 + 1 + 10),  # five ways never fail; three times as many values do
    ("load count at most 50", 1 + 7 * 3 + 7),  # seven ways never fail; the largest amount of each is asked why
]


@pytest.mark.parametrize(("rule", "times"), WORK)
def test_a_way_that_fails_nothing_is_not_tried_at_every_amount(judged: list[Case], rule: str, times: int) -> None:
    self_test(bare(rule, [run_of(*X.series, replace(PRINTED.series[0], key=Key("load")))]))
    assert len(judged) == times
