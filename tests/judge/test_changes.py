"""Rules that compare with stored runs: what is missing, what is noted, and which numbers a verdict holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import answer_of, steady
from msgspec.structs import replace
from stories import bare, run_of, series

from perfgate.core import Acceptance, Estimate, Key, NextStep, Run, Series, Verdict, read_only
from perfgate.judge.verdicts import judge
from perfgate.words.answer import next_step

RULE = "x within 5% of baseline"


def run(values: list[float], unit: str = "s") -> Run:
    return run_of(series("x", unit, values))


def single(rule: str, new: list[Run], base: list[Run], **fields: Any) -> Verdict:
    (found,) = judge(bare(rule, new, base, **fields))
    return found


SAME = run(steady(1.0, n=40))
#: A run that falls by a tenth with each value never settles.
FALLING = run([100 * 0.9**i for i in range(40)])

ONE = "one base run: weak evidence"
ESTIMATED = "run-to-run noise is estimated from these few runs, not calibrated"
UNSETTLED = "the warm-up of a run did not end: a quarter of its values was dropped"
QUARTER = "10 of 40 values were dropped as warm-up"
GAINED = "an improvement beyond the tolerance"

NOTES: list[tuple[str, list[Run], list[Run], list[str]]] = [
    # a rule, new runs and stored ones, and all that is noted
    (RULE, [SAME], [SAME, SAME], [ESTIMATED]),
    (RULE, [SAME], [SAME], [ONE]),
    (RULE, [SAME, FALLING], [SAME, SAME], [UNSETTLED, ESTIMATED, QUARTER]),
    (RULE, [SAME], [SAME, FALLING], [UNSETTLED, ESTIMATED]),
    (RULE, [FALLING], [FALLING, FALLING], [UNSETTLED, ESTIMATED, QUARTER]),
    (RULE, [run([0.5] * 40)], [SAME, SAME], [GAINED, ESTIMATED]),
    ("x within 1% of baseline", [run([4e9] * 9, "B")], [run([4e9] * 9, "B")] * 2, []),
    (
        "{assert: x within 100% of baseline, better: higher}",
        [SAME],
        [SAME, SAME],
        [ESTIMATED, "this rule cannot fail: nothing falls by 100% or more"],
    ),
    ("{assert: x within 99% of baseline, better: higher}", [SAME], [SAME, SAME], [ESTIMATED]),
    ("{assert: x within 0% of baseline, better: higher}", [SAME], [SAME, SAME], [ESTIMATED]),
    ("x within 100% of baseline", [SAME], [SAME, SAME], [ESTIMATED]),
    (
        RULE,
        [run(steady(3.0, n=40), "1")],
        [run(steady(3.0, n=40), "1")] * 2,
        [ESTIMATED, "the better direction is unknown, so both are judged: set `better:` in the rule"],
    ),
]


@pytest.mark.parametrize(("rule", "new", "base", "notes"), NOTES)
def test_what_is_noted(rule: str, new: list[Run], base: list[Run], notes: list[str]) -> None:
    assert list(single(rule, new, base).notes) == notes


COUNTS: list[tuple[str, list[list[float]], list[list[float]], str]] = [
    # a unit, the values of the stored runs and of the new ones, and the outcome
    ("1", [[7.0] * 9] * 5, [[7.0] * 9], "pass exact"),
    ("1", [[7.0] * 9] * 5, [[8.0] * 9], "fail exact"),
    ("1", [[7.0] * 9] * 5, [[9.5] * 9] * 3, "fail interval"),
    ("1", [[9.5] * 9] * 5, [[7.0] * 9] * 3, "fail interval"),
    ("1", [[7.5] * 9] * 5, [[7.5] * 9], "pass interval"),
    ("B", [[7.5] * 9] * 5, [[7.5] * 9], "pass exact"),
    ("FLOP", [[7.5] * 9] * 5, [[7.5] * 9], "pass exact"),
    ("s", [[7.0] * 9] * 5, [[7.0] * 9], "pass interval"),
]


@pytest.mark.parametrize(("unit", "base", "new", "expected"), COUNTS)
def test_counts_are_known_by_whole_numbers_in_every_run(
    unit: str, base: list[list[float]], new: list[list[float]], expected: str
) -> None:
    found = single(RULE, [run(one, unit) for one in new], [run(one, unit) for one in base])
    assert f"{found.outcome} {found.reason}" == expected


def test_a_count_of_a_thinned_run_is_exact_though_it_is_no_whole_number() -> None:
    thinned = run_of(replace(series("x", "s", [1.0] * 30), thinned_from=100))
    found = single("{assert: x count within 5% of baseline, warmup: 1}", [thinned], [thinned] * 2)
    assert found.new is not None
    assert (found.outcome, found.reason) == ("pass", "exact")
    assert found.new.estimate == pytest.approx(29 * 100 / 30)


APPROVE = 'perfgate baseline approve new.json --reason "..."'
ADD = (
    "add the source files of the stored runs again; if they are gone or incomplete, measure main and add that run: "
    "perfgate baseline add RUN..."
)
ABSENT: list[tuple[str, dict[str, Any], str]] = [
    # a rule, the baseline, and what is said
    (RULE, {"base": [run_of(series("y", "s", [1.0] * 9))]}, f"the baseline gpt/h100/level has no metric x. {ADD}"),
    (RULE, {"base": [SAME, run_of(series("y", "s", [1.0] * 9))]}, f"some runs of the baseline have no metric x. {ADD}"),
    (RULE, {"base": []}, f"there is no baseline to compare x with. make one: {APPROVE}"),
    (RULE, {"base": [], "missing": "no level fits", "next_step": NextStep("fix-input", "go")}, "no level fits. go"),
    ("x within 5% of anchor", {"base": [SAME]}, f"there is no anchor to compare x with. make one: {APPROVE}"),
]


@pytest.mark.parametrize(("rule", "baseline", "said"), ABSENT)
def test_without_stored_values_there_is_no_change(rule: str, baseline: dict[str, Any], said: str) -> None:
    (found,) = judge(replace(bare(rule, [SAME], **baseline), accept=Acceptance(runs=("new.json",))))
    assert (found.outcome, found.reason) == ("error", "no-baseline")
    assert f"{found.message}. {next_step(found.next_step)}" == said


def test_without_a_baseline_what_was_measured_is_shown() -> None:
    """The mean over the runs, the rank of the worst one, and each run by itself."""
    new = [
        run_of(*(series("x", "s", [value * factor] * 20, rank=str(rank)) for rank, value in enumerate((1.0, 2.0))))
        for factor in (1.0, 1.5)
    ]
    found = single("{assert: x within 5% of baseline, warmup: 0}", new, [])
    assert found.new == Estimate(2.5, None, None, 40, 40.0, 2)
    assert (found.unit, found.statistic, dict(found.member)) == ("s", "median", {"rank": "1"})
    assert [(one.side, one.estimate, one.n) for one in found.runs] == [("new", 2.0, 20), ("new", 3.0, 20)]


def test_the_numbers_of_a_change() -> None:
    base, new = [run([2.0] * 30)] * 4 + [run([2.0] * 20)], [run([3.0] * 25)]
    found = single("{assert: x within ±5% of baseline, warmup: 0}", new, base)
    assert found.base == Estimate(2.0, None, None, 140, 140.0, 5)
    assert found.new == Estimate(3.0, None, None, 25, 25.0, 1)
    assert found.change is not None
    assert found.change.estimate == pytest.approx(0.5)
    assert (found.outcome, found.tolerance, found.two_sided, found.better) == ("fail", 0.05, True, "lower")
    assert found.message.startswith("x median went from 2 s in the baseline to 3 s: +50.0% [")
    assert "beyond the tolerance of ±5%; 5 base runs, 1 new run" in found.message


def test_single_numbers_have_no_values_to_count() -> None:
    number = run_of(Series(Key("x"), "s", "value", read_only(np.array([2.0]))))
    found = single(RULE, [number, run([2.0] * 20)], [number] * 3)  # the first value is warm-up
    assert found.base == Estimate(2.0, None, None, None, None, 3)
    assert found.new == Estimate(2.0, None, None, 20, None, 2)


TOLERANCES = [
    ("x within 5% of baseline", "5%"),
    ("x within ±2.5% of baseline", "±2.5%"),
    ("x within 5% and 20 ms of baseline", "5% and 20 ms"),
    ("x within 20 ms of baseline", "20 ms"),
]


@pytest.mark.parametrize(("rule", "words"), TOLERANCES)
def test_a_tolerance_is_told_in_its_authors_words(rule: str, words: str) -> None:
    assert f", within the tolerance of {words};" in single(rule, [run([1.0] * 20)], [run([1.0] * 20)] * 5).message


def test_a_suspicion_against_the_anchor_never_fails() -> None:
    """`strict` makes it fail against the baseline alone; more runs than planned do not."""
    base, new = [run([value] * 9) for value in (1.0, 1.04, 0.96, 1.02, 0.98)], [run([1.065] * 9)] * 5
    rules = "x within 5% of baseline\nx within 5% of anchor"
    asked = bare(rules, new, base, anchor=tuple(base))
    for strict, outcome in ((False, "suspect"), (True, "fail")):
        baseline, anchor = judge(replace(asked, strict=strict))
        assert (answer_of(baseline), baseline.confidence, anchor.confidence) == (outcome, 0.95, 0.99)
        assert (answer_of(anchor), anchor.exit_code) == ("suspect", 3)
