"""What a plan advises, and what it shows: runs whose noise is known, so that the cheapest way out is, too."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import steady
from msgspec.structs import replace
from stories import TODAY, case, ruleset, series

from perfgate.analysis import plan as planning
from perfgate.analysis.plan import pairs_fail_from, plans, seen_changes
from perfgate.core import Baseline, Better, CalibratedPrior, Key, Run, Series, read_only
from perfgate.core.summaries import Plan
from perfgate.judge.evidence import Case
from perfgate.measuring.until_settled import MeasuringOptions


def value(metric: str, number: float) -> Series:
    return Series(Key(metric), "s", "value", read_only(np.array([number])))


def plan(rules: str, *stored: Series, s0: float | None = None, wander: float = 0.0, **facts: str) -> list[Plan]:
    """The plans of rules for stored runs that hold one series each; `s0` is the noise that was calibrated."""
    runs = tuple(Run(f"run{i}", "test", (one,)) for i, one in enumerate(stored))
    named = [("a", statistic) for statistic in ("mean", "median")]
    priors = (
        () if s0 is None else tuple(CalibratedPrior(Key(m), s, "worst", s0, 2.0, 5, wander=wander) for m, s in named)
    )
    return list(plans(Case(ruleset(rules), (), Baseline("s/e/l", runs, priors=priors), TODAY, facts=facts)))


CHEAPER = "; pairs (`perfgate run --paired`) are cheaper"
NOTHING = "pairs are cheaper (`perfgate run --paired`), or use a wider tolerance: more runs do not help"
ADVICE = [
    # the noise between runs, how many are stored, and the way that takes the fewest runs to exclude twice the tolerance
    (0.01, 1, "enough: an unchanged program passes with 1 new run"),
    (0.02, 1, "more runs: an unchanged program passes with 2 new ones"),
    (0.03, 1, "more base runs: with 2 of them, an unchanged program passes with 2 new runs"),
    (0.04, 2, "more runs: an unchanged program passes with 3 new ones"),
    (0.045, 2, f"more runs: an unchanged program passes with 4 new ones{CHEAPER}"),
    (0.05, 2, f"more base runs: with 3 of them, an unchanged program passes with 3 new runs{CHEAPER}"),
    (0.09, 1, f"more base runs: with 10 of them, an unchanged program passes with 15 new runs{CHEAPER}"),
    (0.1, 1, NOTHING),
    (0.07, 10, "enough: an unchanged program passes with 1 new run"),
    (0.22, 10, f"more runs: an unchanged program passes with 18 new ones{CHEAPER}"),
    (0.25, 10, NOTHING),
]


@pytest.mark.parametrize(("s0", "stored", "advice"), ADVICE)
def test_the_cheapest_way_to_see_more_is_advised(s0: float, stored: int, advice: str) -> None:
    (found,) = plan("  - a within 5% of baseline\n", *[value("a", 1.0)] * stored, s0=s0)
    assert found.advice == advice
    assert (found.base_runs, found.new_runs, found.calibrated) == (stored, 1, True)


SEEN = [
    # With K equal base runs, the noise of a run is s0 sqrt(d0 / (d0 + K - 1)). A change beyond the tolerance of 5 % is
    # seen if its logarithm reaches further than the quantiles of the level and of the power (of t with d0 + K + m - 2
    # degrees of freedom) times the standard error with m new runs: one for `detectable`, three for `fails_from`. The
    # numbers are made with scipy. Without a calibration, `between` has a prior of 1 %, `detectable` that of green
    # (d0 2.5, s0 31 % of ln(1.1)), and `fails_from` that of the sharp bound of red (d0 0.5, s0 15 % of ln(1.05)).
    # rule                          K  s0     wander between   detectable fails_from
    ("a within 5% of baseline", 1, 0.01, 0.0, 0.01, 0.110805, 0.108977),
    ("a within 5% of baseline", 4, 0.01, 0.0, 0.0063246, 0.072016, 0.0711860),
    ("a within 5% of baseline", 5, 0.01, 0.0, 0.0057735, 0.069090, 0.066059),
    ("a within 5% of baseline", 1, 0.01, 0.01, 0.01, 0.137012, 0.144760),
    ("a within 5% of baseline", 5, 0.01, 0.01, 0.0057735, 0.097379, 0.1072880),
    ("a within 5% of baseline", 4, None, 0.0, 0.0063246, 0.119735, 0.06123480),
    ("a within 5% of baseline", 5, None, 0.0, 0.0057735, 0.111087, 0.0581674),
    ("a within 5% of baseline", 10, None, 0.0, 0.0042640, 0.091183, 0.0546456),
    ("{assert: a within 5% of baseline, confidence: 90%}", 5, None, 0.0, 0.0057735, 0.100203, 0.0572487),
]


@pytest.mark.parametrize(("rule", "stored", "s0", "wander", "between", "detectable", "fails_from"), SEEN)
def test_the_changes_that_are_seen(
    rule: str, stored: int, s0: float | None, wander: float, between: float, detectable: float, fails_from: float
) -> None:
    (found,) = plan(f"  - {rule}\n", *[value("a", 1.0)] * stored, s0=s0, wander=wander)
    numbers = found.noise_between, found.noise_within, found.detectable, found.fails_from
    assert numbers == pytest.approx((between, 0.0, detectable, fails_from), rel=1e-4)
    assert (found.calibrated, found.at_worst is None) == (s0 is not None, False)


def test_the_latest_runs_are_compared_with_the_anchor() -> None:
    stored = tuple(Run(f"run{i}", "test", (value("a", 1.0),)) for i in range(3))
    prior = CalibratedPrior(Key("a"), "mean", "worst", 0.01, 2.0, 5)
    baseline = Baseline("s/e/l", stored, stored[:2], priors=(prior,))
    (found,) = plans(Case(ruleset("  - a within 5% of anchor\n"), (), baseline, TODAY))
    assert (found.base_runs, found.new_runs, found.confidence) == (2, 5, 0.99)
    assert (found.fails_from, found.at_worst, found.runs_needed) == (None, None, 2)
    assert found.advice == "enough: an unchanged program passes with 2 new runs"


def test_the_changes_that_rules_see_are_named_by_rule_metric_and_clause() -> None:
    rows = (value("a", 1.0), series("b", "s", [1.0] * 20, kind="x"))
    asked = case("  - a within 5% of baseline\n  - b within 5% of baseline\n  - a under 9 s\n", runs=0)
    found = seen_changes(replace(asked, baseline=replace(asked.baseline, runs=(Run("run", "test", rows),) * 5)))
    assert found == {
        ("a within 5% of baseline", "a", "within 5% of baseline"): pytest.approx(0.0581674, rel=1e-4),
        ("b within 5% of baseline", 'b{kind="x"}', "within 5% of baseline"): pytest.approx(0.0581674, rel=1e-4),
    }


#: The quantiles of t for 98 % and 90 % are 4.849 and 1.886 with 2 degrees of freedom, 2.398 and 1.383 with 9.
OF_PAIRS: list[tuple[int, Better, float, float]] = [
    # pairs, better, the spread of a pair, and the smallest change that fails at a tolerance of 5 %
    (3, "lower", 0.03, 0.179903),
    (10, "lower", 0.03, 0.088352),
    (10, "lower", 0.06, 0.128104),
    (10, "higher", 0.03, 0.083476),
    (10, "neither", 0.03, 0.088352),
]


@pytest.mark.parametrize(("pairs", "better", "spread", "change"), OF_PAIRS)
def test_the_change_that_pairs_fail(pairs: int, better: Better, spread: float, change: float) -> None:
    assert pairs_fail_from(0.05, pairs, better, spread) == pytest.approx(change, rel=1e-4)


def test_the_pairs_of_a_gate() -> None:
    """Where stored runs are called poor, the pairs of a gate see less on a busy machine, whose pairs spread by 3 %."""
    assert MeasuringOptions().most_runs == planning.PAIRS
    assert planning.SPREAD_OF_PAIRS == 0.03
    found = pairs_fail_from(0.1, planning.PAIRS, "lower", planning.SPREAD_OF_PAIRS)
    assert found == pytest.approx(0.1402, abs=1e-4)
    assert 0.145 < planning.POOR < 0.155


def test_longer_runs_are_advised_where_the_noise_is_inside() -> None:
    (found,) = plan("  - a within 5% of baseline\n", series("a", "s", steady(1.0, n=40, spread=0.2)), s0=0.001)
    assert found.advice == "more steps: the noise is inside the runs, so 3 times the steps help more than 3 runs"
    assert found.noise_within is not None
    assert found.noise_between is not None
    assert found.noise_within > 0.02 > found.noise_between


def test_a_longer_run_is_held_against_as_many_runs_that_take_as_long() -> None:
    """Noise on both sides: a run of three times the steps does not help, and one more on each side does."""
    (found,) = plan("  - a within 5% of baseline\n", series("a", "s", steady(1.0, n=40, spread=0.14)), s0=0.01)
    assert found.noise_within == pytest.approx(0.026, rel=0.1)
    assert found.advice == "more base runs: with 2 of them, an unchanged program passes with 2 new runs"


LIMITS = [
    # a limit, the stored values after a warm-up of one, those that are needed, and the advice
    ("a p90 under 2 s", [50, 60, 29], 29, "enough: a run like the stored ones can pass"),
    ("a p90 under 2 s", [50, 60, 28], 29, "more steps: 1.1 times as many, or 2 runs"),
    ("a p90 under 2 s", [29], 29, "enough: a run like the stored ones can pass"),
    ("a p10 over 0.5 s", [10], 29, "more steps: 2.9 times as many, or 3 runs"),
    ("a p25 under 2 s", [10], 3, "enough: a run like the stored ones can pass"),
    ("a p75 under 2 s", [11], 11, "enough: a run like the stored ones can pass"),
]


@pytest.mark.parametrize(("rule", "held", "needed", "advice"), LIMITS)
def test_the_values_that_a_percentile_takes(rule: str, held: list[int], needed: int, advice: str) -> None:
    (found,) = plan(f"  - {rule}\n", *(series("a", "s", [1.0] * (1 + n)) for n in held))
    assert (found.values_needed, found.values_held, found.advice) == (needed, held[-1], advice)


NOT_PLANNED = [
    # a rule, and why there is no plan, or None
    ("a within 5% of baseline", None),
    ("a mean under 2 s", "it needs no plan: only a limit on a percentile needs enough steps"),
    ("b p90 under 2 s", "p90 is not available: b is a single number"),
    ("b under 2 s", "it needs no plan: only a limit on a percentile needs enough steps"),
    ("c within 5% of baseline", "the stored values have no relative change: use a limit instead"),
    ("c * 0 within 5% of baseline", "the stored values have no relative change: use a limit instead"),
    ("a within 5 of baseline", "5 has no unit, and a is measured in s"),
    ("a within 5% of anchor", "no stored run has a"),
    ("gone within 5% of baseline", "the stored runs have no metric gone"),
    ("no more work than baseline", "exact: one run shows every change"),
    ("d within 5% of baseline", "it is compared without noise: one run shows every change"),
    ("a on the slowest rank within 5% of the median rank", "it compares the ranks of one run with each other"),
]


@pytest.mark.parametrize(("rule", "trouble"), NOT_PLANNED)
def test_why_there_is_no_plan(rule: str, trouble: str | None) -> None:
    memory = series("d", "B", [1.0] * 20)
    rows = [(series("a", "s", [1.0] * 20), value("b", 1.0), value("c", number), memory) for number in (1.0, 0.0)]
    runs = tuple(Run(f"run{i}", "test", held) for i, held in enumerate(rows))
    asked = case(f"  - {rule}\n", runs=0)
    (found,) = plans(replace(asked, baseline=replace(asked.baseline, runs=runs)))
    assert (found.trouble or "").startswith(trouble or "")
    assert (found.trouble is None, bool(found.advice)) == (trouble is None, trouble is None)
    assert (found.rule, found.at.line, found.baseline) == (rule, 7, "gpt/h100/level")


@pytest.mark.parametrize(
    ("conditions", "planned"),
    [
        ("gpu: '*H100*'", True),
        ("gpu: '*A100*'", False),
        ("gpu: '*H100*', host: x", False),
        ("gpu: '*H100*', colour: red", True),
    ],
)
def test_rules_that_do_not_apply_are_not_planned(conditions: str, planned: bool) -> None:
    rule = f"  - {{assert: a within 5% of baseline, when: {{{conditions}}}}}\n"
    assert len(plan(rule, value("a", 1.0), gpu="NVIDIA H100", host="y")) == planned


def test_parts_that_cannot_be_joined_are_told() -> None:
    held = (series("a", "s", [1.0] * 20, kind="x"), series("b", "s", [1.0] * 20, kind="y"))
    asked = case("  - a / b within 5% of baseline\n", runs=0)
    stored = (Run("run", "test", held),)
    (found,) = plans(replace(asked, baseline=replace(asked.baseline, runs=stored)))
    assert found.trouble == "the parts of an expression have no labels (such as ranks) in common"
