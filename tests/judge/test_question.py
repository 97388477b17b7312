"""What is asked of one metric: how it is named, which rank speaks, and what the values themselves refuse."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import steady
from msgspec.structs import replace
from stories import bare, run_of, series

from perfgate.analysis.plan import plans
from perfgate.core import NO_STEP, Key, Run, Series, read_only
from perfgate.core.details import WorkDifference
from perfgate.judge import question
from perfgate.judge.terms import ChangeTerms
from perfgate.judge.verdicts import judge

#: Two modes, 30 % of the values near 100 ms.
MODES = [0.1 + 0.02 * (i % 10 > 2) + 0.0001 * (i % 7) for i in range(60)]
NOTE = "two modes: 30% near 100.3 ms, 70% near 120.3 ms; the median can jump: use p90 or mean"


@pytest.mark.parametrize(
    ("rule", "notes"),
    [("x under 1 s", 1), ("x median within 50% of baseline", 1), ("x mean under 1 s", 0), ("x p50 under 1 s", 0)],
)
def test_two_modes_are_told_of_a_median_alone(rule: str, notes: int) -> None:
    new = run_of(series("x", "s", MODES))
    (found,) = judge(bare(f"{{assert: {rule}, warmup: 0}}", [run_of(series("x", "s", [0.1] * 60)), new], [new]))
    assert [note for note in found.notes if "modes" in note] == [NOTE] * notes


def number(value: float, unit: str = "s") -> Series:
    return Series(Key("x"), unit, "value", read_only(np.array([value])))


NAMED = [
    # a rule, the series that it reads, and its statistic as reports show it
    ("x under 9 s", number(2.0), None),
    ("x mean under 9 s", number(2.0), "mean"),
    ("x under 9 s", series("x", "s", [2.0] * 9), "median"),
    ("x max under 9 s", series("x", "s", [2.0] * 9), "max"),
    ("mean(x) / p50(x) under 9", series("x", "s", [2.0] * 9), None),
]


@pytest.mark.parametrize(("rule", "row", "statistic"), NAMED)
def test_a_single_number_has_no_statistic_but_the_one_that_is_asked_for(
    rule: str, row: Series, statistic: str | None
) -> None:
    (found,) = judge(bare(rule, [run_of(row)]))
    assert (found.outcome, found.statistic) == ("pass", statistic)
    assert found.message.startswith(f"x {statistic} is" if statistic else rule.partition(" under")[0] + " is")


@pytest.mark.parametrize(
    ("unit", "rule", "speaker"),
    [
        ("s", "x under 9 s", "3"),
        ("1/s", "x over 0.1 /s", "0"),
        ("s", "x across ranks under 9 s", None),
        ("s", "x on the median rank under 9 s", "1"),
    ],
)
def test_the_rank_of_the_worst_run_is_named(unit: str, rule: str, speaker: str | None) -> None:
    """Of two runs the worse one, of its ranks the worst."""

    def ranks(*values: float) -> Run:
        return run_of(*(series("x", unit, [value] * 9, rank=str(i)) for i, value in enumerate(values)))

    (found,) = judge(bare(rule, [ranks(0.9, 2.0, 2.5, 3.1), ranks(3.0, 1.9, 2.0, 1.0)]))
    assert found.outcome == "pass"
    assert dict(found.member) == ({"rank": speaker} if speaker else {})


@pytest.mark.parametrize(("worst", "member"), [(2.0, {"rank": "0"}), (1.2, {})])
def test_a_series_without_a_rank_may_speak_beside_ranks(worst: float, member: dict[str, str]) -> None:
    new = [
        run_of(series("x", "s", [alone] * 9), series("x", "s", [of_rank] * 9, rank="0"))
        for alone, of_rank in ((1.0, worst), (1.5, 1.0))
    ]
    (found,) = judge(bare("x under 9 s", new))
    assert dict(found.member) == member


REFUSED = [
    # a rule, what it reads, and what is said of it
    ("x under 9 s", series("x", "s", []), "too-few-samples: x median has no value after warm-up. run more steps"),
    ("x under 9 s", number(np.nan), "not-a-number: x has values that are not finite numbers. see `perfgate inspect`"),
    (
        "x within 5% of baseline",
        series("x", "1", [0.0] * 8 + [-1.0] * 9),
        "not-positive: x median has values of zero or less, so a relative change does not exist. "
        "use a limit, or an absolute tolerance, such as `within 1 ms of baseline`",
    ),
    (
        "{assert: x under 9 s, min_runs: 3}",
        series("x", "s", [1.0] * 9),
        "too-few-runs: the rule needs 3 runs; the new side has 1. give 2 more",
    ),
    (
        "{assert: x within 5% of baseline, min_runs: 2}",
        series("x", "s", [1.0] * 9),
        "too-few-runs: the rule needs 2 runs; the baseline side has 1. give 1 more",
    ),
    (
        "x under 9",
        series("x", "s", [1.0] * 9),
        "no-unit: 9 has no unit, and x is measured in s. write a quantity in ns, us, µs, ms, s, min, h, such as 9 ms",
    ),
    (
        "x within 9 of baseline",
        series("x", "s", [1.0] * 9),
        "no-unit: 9 has no unit, and x is measured in s. "
        "write 9%, or a quantity in ns, us, µs, ms, s, min, h, such as 9 ms",
    ),
    (
        "x under 9 /s",
        series("x", "s", [1.0] * 9),
        "unit-mismatch: 9 /s does not fit x, which is measured in s. write a quantity in ns, us, µs, ms, s, min, h",
    ),
    (
        "x at least 95% of baseline",
        series("x", "s", [1.0] * 9),
        "improving-side: `at least 95% of baseline` bounds the improving side of x: lower is better. "
        "write `within 5% of baseline`, or set `better:`",
    ),
]


@pytest.mark.parametrize(("rule", "row", "said"), REFUSED)
def test_what_cannot_be_judged_is_said_with_the_way_on(rule: str, row: Series, said: str) -> None:
    (found,) = judge(bare(rule, [run_of(row)], [run_of(replace(row, values=read_only(row.values + 1)))]))
    assert found.outcome == "error"
    assert f"{found.reason}: {found.message}. {found.next_step.text}" == said


def test_a_rule_that_makes_no_sense_is_refused_before_a_baseline_is_looked_for() -> None:
    new = run_of(series("x", "s", [1.0] * 9))
    (found,) = judge(bare("x at least 95% of baseline", [new], [new, run_of()]))
    assert (found.reason, found.exit_code) == ("improving-side", 2)


SURE = [
    # a confidence, how many ranks there are, and what the limit of the worst of them is held at
    ("95%", 1, 0.95),
    ("95%", 4, 1 - 0.05 / 4),
    ("99.99999999999999%", 4, 1 - 1e-12),
]


@pytest.mark.parametrize(("confidence", "ranks", "held"), SURE)
def test_no_limit_is_held_at_more_than_floats_can_tell(confidence: str, ranks: int, held: float) -> None:
    new = run_of(*(series("x", "s", steady(1.0, n=40, seed=i), rank=str(i)) for i in range(ranks)))
    (found,) = judge(bare(f"{{assert: x mean under 9 s, confidence: {confidence}}}", [new]))
    assert (found.outcome, found.confidence) == ("pass", held)


def test_a_limit_is_planned_for_the_most_ranks_that_a_stored_run_has() -> None:
    base = [
        run_of(*(series("x", "s", steady(1.0, n=40, seed=i), rank=str(i)) for i in range(ranks))) for ranks in (1, 4, 2)
    ]
    (plan,) = plans(bare("x p90 under 9 s", [], base))
    assert plan.confidence == 1 - 0.05 / 4


def test_a_question_asks_for_nothing_that_is_not_said() -> None:
    side, terms = question.MeasuredSide((), (), (), ()), ChangeTerms(tolerance=0.05)
    plain = question.Exceptions()
    assert (plain.on_open, plain.quarantine) == (None, None)
    assert (plain.improvement_fails, plain.failure_expected) == (False, False)
    asked = question.ChangeQuestion(terms, side, side)
    assert (asked.reference, asked.alone, asked.ratios, asked.doubts, asked.machine) == ("baseline", (), None, (), ())
    assert (asked.allowance, asked.is_expired, asked.remembered, asked.is_one_of_many) == (None, False, None, False)
    missing = question.NotJudged(outcome="error", reason="no-data", message="none", next_step=NO_STEP)
    assert (missing.new, missing.accepted_missing, missing.is_of_runs) == (None, None, False)
    asked_of_work = question.WorkQuestion((), is_same=False, base_runs=1, new_runs=1)
    assert [asked_of_work.allows(WorkDifference("work.ops", {}, {}, 1.0, new)) for new in (1.0, 1.001)] == [True, False]
