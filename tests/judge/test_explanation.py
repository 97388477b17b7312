"""The parts that explain a change: which they are, how each is measured, and which of them are named."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from stories import bare, run_of, series

from perfgate.core import Key, Location, Series, Share, read_only
from perfgate.core.results import ChangeResult
from perfgate.judge.ask import ask
from perfgate.judge.evidence import Case, Evidence
from perfgate.judge.explanation import _largest, _part_names, _Search, explained_by, part_globs, parts_not_stored
from perfgate.judge.question import ChangeQuestion
from perfgate.judge.subjects import JudgedRuns, find_subjects
from perfgate.rules.ruleset import DerivedMetric
from perfgate.rules.syntax.sentence import Arithmetic, Expression, Number, Selector, StatisticOf
from perfgate.stats.statistics import RunMeasure

NAN, INF = math.nan, math.inf

# --- names -----------------------------------------------------------------------------------------------------------

A, B, C, ONE = Selector("a"), Selector("b"), Selector("c"), Number(1.0)


def plus(left: Expression, right: Expression) -> Expression:
    return Arithmetic("+", left, right)


def minus(left: Expression, right: Expression) -> Expression:
    return Arithmetic("-", left, right)


SUM = {"sum": DerivedMetric("sum", plus(A, B), "a + b", Location("rules.yaml"))}
TIMERS = "forward backward backward_inner backward_allreduce forward_backward.x step step.x"
EPOCH = "a.x epoch epoch.a epoch.a.x epoch.b epoch.time epochs.a"
STEPS = "collective.x kernel.x step.communication step.kernel step.kernel.x step.time"

NAMES: list[tuple[Expression, str, str]] = [
    # what is judged, the metrics that there are, and the parts
    (plus(A, B), "", "a b"),
    (plus(plus(A, B), C), "", "a b c"),
    (Selector("sum"), "", "a b"),
    (A, "", ""),
    (minus(A, B), "", ""),
    (plus(minus(A, B), C), "", ""),
    (plus(A, minus(B, C)), "", ""),
    (plus(ONE, A), "", ""),
    (plus(A, ONE), "", ""),
    (ONE, "", ""),
    (StatisticOf("mean", A), "", ""),
    (Selector("forward_backward"), TIMERS, "backward forward"),
    (Selector("backward"), TIMERS, "backward_allreduce backward_inner"),
    (Selector("bwd"), TIMERS, "backward_allreduce backward_inner"),
    (Selector("train_batch"), TIMERS, "backward forward step"),
    (Selector("step"), TIMERS, "step.x"),
    (Selector("epoch"), EPOCH, "epoch.a epoch.b epoch.time"),
    (Selector("epoch.time"), EPOCH, "epoch.a epoch.b"),
    (Selector("step.time"), STEPS, "step.communication step.kernel"),
    (Selector("step.kernel"), STEPS, "kernel.x"),
    (Selector("step.communication"), STEPS, "collective.x"),
]


@pytest.mark.parametrize(("judged", "known", "parts"), NAMES)
def test_the_names_of_the_parts(judged: Expression, known: str, parts: str) -> None:
    assert sorted(_part_names(judged, SUM, known.split())) == parts.split()


GLOBS = [
    # a metric or a glob, and the globs of its parts and of theirs
    ("epoch", "epoch.*"),
    ("epoch.time", "epoch.*"),
    ("step.time", "collective.* kernel.* step.*"),
    ("step", "collective.* kernel.* step.*"),
    ("step.kernel", "kernel.* step.kernel.*"),
    ("step.*", "collective.* kernel.* step.*.*"),
    ("*.k*", "*.k*.* kernel.*"),
]


@pytest.mark.parametrize(("name", "globs"), GLOBS)
def test_the_globs_of_the_parts(name: str, globs: str) -> None:
    assert " ".join(sorted(part_globs(name))) == globs


# --- shares ----------------------------------------------------------------------------------------------------------

Rows = dict[str, Any]


def asked(case: Case) -> tuple[Evidence, ChangeQuestion]:
    """The evidence and the question of a case with one rule and one metric."""
    rule = case.ruleset.rules[0]
    runs = JudgedRuns.of(case.new, case.baseline, case.ruleset.metrics, case.ruleset.conditions)
    (subject,) = find_subjects(rule.sentence, runs)
    evidence = Evidence.of(rule, rule.clauses[0], subject, case, runs)
    question = ask(evidence)
    assert isinstance(question, ChangeQuestion)
    return evidence, question


def result(base: float | None, new: float | None) -> ChangeResult:
    return ChangeResult(
        outcome="fail", reason="interval", base_runs=3, new_runs=3, tolerance=0.05, base_value=base, new_value=new
    )


def held(rows: Rows, unit: str) -> list[Series]:
    """A series for each name: of a number or of numbers, on each rank of a mapping."""
    found = []
    for name, of in rows.items():
        if isinstance(of, Series):
            found.append(of)
            continue
        for rank, numbers in of.items() if isinstance(of, dict) else [("", of)]:
            values = list(numbers) if isinstance(numbers, tuple) else [numbers] * 9
            found.append(series(name, unit, values, **({"rank": rank} if rank else {})))
    return found


def both(base: Rows, new: Rows, rule: str = "x within 5% of baseline", unit: str = "B") -> tuple[Evidence, Any]:
    return asked(bare(rule, *([run_of(*held(rows, unit), source=f"{i}") for i in range(3)] for rows in (new, base))))


def told(shares: Sequence[Share]) -> str:
    def one(share: Share) -> str:
        rank = "".join(f" {name} {value}" for name, value in share.member.items())
        return f"{share.metric}{rank} {share.share:.2f}{f' in {share.within}' if share.within else ''}"

    return ", ".join(map(one, shares))


def explained(base: Rows, new: Rows, whole: tuple[float, float], **how: Any) -> str:
    """The parts with their shares, if the metric changes from one value to another."""
    return told(explained_by(*both(base, new, **how), result(*whole)))


def printed(name: str, unit: str = "B", **statistics: float) -> Series:
    return Series(Key(name), unit, "aggregate", read_only(np.empty(0)), aggregate=statistics)


WHOLE = (10.0, 20.0)
X, X2 = {"x": 10.0}, {"x": 20.0}
MORE = {"x.a": 4.0, "x.b": 6.0}
SHARES: list[tuple[Rows, Rows, str]] = [
    # the series of the base and of the new runs, and what explains the change of x from 10 to 20
    (X | MORE, X2 | MORE | {"x.a": 14.0}, "x.a 1.00"),
    (X | MORE, X2 | {"x.a": 10.0, "x.b": 10.0}, "x.a 0.60, x.b 0.40"),
    (X | MORE, X2 | {"x.a": 2.0, "x.b": 18.0}, "x.b 1.20, x.a -0.20"),
    (X | MORE, X2 | {"x.a": 9.0, "x.b": 11.0}, "x.a 0.50, x.b 0.50"),
    (X | MORE, X2 | MORE, ""),
    (X | {"x.b": 6.0}, X2 | {"x.a": 9.0, "x.b": 11.0}, "x.b 0.50"),
    (X | {"x.a.c": 1.0}, X2 | {"x.a": 9.0, "x.a.c": 6.0}, "x.a.c 0.50"),
    (X, X2 | {"x.a": 9.0}, ""),
    # a share below a hundredth is not named, and no more than five parts are
    (X | {"x.a": 4.0}, X2 | {"x.a": 4.101}, "x.a 0.01"),
    (X | {"x.a": 4.0}, X2 | {"x.a": 4.099}, ""),
    (
        X | {f"x.{name}": 1.0 for name in "abcdef"},
        X2 | {f"x.{name}": 2.0 for name in "abcdef"},
        "x.a 0.10, x.b 0.10, x.c 0.10, x.d 0.10, x.e 0.10",
    ),
    # the parts of the largest part follow
    (
        X | {"x.a": 2.0, "x.b": 2.0, "x.a.c": 1.0, "x.b.c": 1.0},
        X2 | {"x.a": 4.0, "x.b": 8.0, "x.a.c": 3.0, "x.b.c": 5.0},
        "x.b 0.60, x.a 0.20, x.b.c 0.40 in x.b",
    ),
    (
        X | {f"x.{name}": 1.0 for name in ("a", "b", "c", "d", "d.e", "d.f")},
        X2 | {f"x.{name}": 2.0 for name in ("a", "b", "c", "d", "d.e", "d.f")} | {"x.d": 3.0},
        "x.d 0.20, x.a 0.10, x.b 0.10, x.c 0.10, x.d.e 0.10 in x.d",
    ),
    # the name of a part is no glob
    (X | {"x.?": 1.0, "x.a": 5.0}, X2 | {"x.?": 6.0, "x.a": 5.0}, "x.? 0.50"),
    (
        X | {"x.?": 1.0, "x.?.c": 1.0, "x.a.c": 1.0},
        X2 | {"x.?": 6.0, "x.?.c": 3.0, "x.a.c": 4.0},
        "x.? 0.50, x.a.c 0.30, x.?.c 0.20 in x.?",
    ),
    # parts that cannot be compared
    (X | {"x.a": printed("x.a", "s", mean=4.0)}, X2 | {"x.a": printed("x.a", "s", mean=9.0)}, ""),
    (X | {"x.a": 0.0, "x.b": 6.0}, X2 | {"x.a": 4.0, "x.b": 12.0}, "x.b 0.60"),
    # a part that occurs more often, or less, than the metric
    (X | {"x.a": (1.0,) * 18}, X2 | {"x.a": (3.0,) * 18}, "x.a 0.40"),
    (X | {"x.a": (3.0, 3.0, 3.0)}, X2 | {"x.a": (6.0, 6.0, 6.0)}, "x.a 0.10"),
    (X | {"x.a": printed("x.a", mean=2.0, count=18)}, X2 | {"x.a": printed("x.a", mean=4.0, count=18)}, "x.a 0.40"),
    (X | {"x.a": printed("x.a", mean=18.0)}, X2 | {"x.a": printed("x.a", mean=36.0)}, "x.a 0.20"),
    (
        {"x": printed("x", mean=10.0), "x.a": printed("x.a", mean=1.0, count=2)},
        {"x": printed("x", mean=20.0), "x.a": printed("x.a", mean=2.0, count=2)},
        "x.a 0.20",
    ),
]


@pytest.mark.parametrize(("base", "new", "parts"), SHARES)
def test_the_parts_with_their_shares(base: Rows, new: Rows, parts: str) -> None:
    assert explained(base, new, WHOLE) == parts


WHOLES: list[tuple[tuple[float | None, float | None], str]] = [
    # the metric on both sides, and the share of a part that grew from 4 to 14
    ((10.0, 20.0), "x.a 1.00"),
    ((10.0, 30.0), "x.a 0.50"),
    ((10.0, 10.0), ""),
    ((10.0, INF), ""),
    ((None, 10.0), "x.a 1.00"),
    ((10.0, None), "x.a -1.00"),
    ((NAN, 10.0), ""),
]


@pytest.mark.parametrize(("whole", "parts"), WHOLES)
def test_the_change_that_is_explained(whole: tuple[Any, Any], parts: str) -> None:
    assert explained(X | MORE, X2 | MORE | {"x.a": 14.0}, whole) == parts


@pytest.mark.parametrize(("unit", "parts"), [("s", "x.a 1.00"), ("B", "x.a 1.00"), ("FLOP", "x.a 1.00"), ("1", "")])
def test_only_quantities_that_add_up_have_parts(unit: str, parts: str) -> None:
    base, new = X | MORE, X2 | MORE | {"x.a": 14.0}
    assert explained(base, new, WHOLE, rule="{assert: x within 5% of baseline, better: lower}", unit=unit) == parts
    stored = parts_not_stored(*both(X, new, rule="{assert: x within 5% of baseline, better: lower}", unit=unit))
    assert stored == (["x.a", "x.b"] if parts else [])


@pytest.mark.parametrize(("unit", "parts"), [("s", ""), ("B", "x.a 0.05"), ("FLOP", "x.a 0.05")])
def test_exact_quantities_have_little_noise(unit: str, parts: str) -> None:
    rule = "{assert: x within 5% of baseline, better: lower}"
    assert explained(X | {"x.a": 4.0}, X2 | {"x.a": 4.02}, (10.0, 10.4), rule=rule, unit=unit) == parts


def test_a_share_of_a_hundredth_is_named() -> None:
    shares = [Share(f"x.{share}", {}, 1.0, 2.0, share, share, share) for share in (0.0099, 0.01, -0.01, -0.0099)]
    assert [one.share for one in _largest(shares)] == [-0.01, 0.01]


def test_parts_of_which_the_baseline_has_none() -> None:
    assert parts_not_stored(*both(X | {"x.a": 1.0}, X2 | MORE)) == []
    assert parts_not_stored(*both(X | {"x.c": 1.0}, X2 | MORE)) == ["x.a", "x.b"]
    assert parts_not_stored(*both(X | MORE, X2)) == []


STATISTICS = [
    # a statistic of x, and the number of a part whose values are 30 times 2, and 10 times 6
    ("median", 2.0),
    ("p50", 2.0),
    ("mean", 3.0),
    ("trimmed_mean", 7 / 3),
    ("total", 120.0),
    ("p90", 3.0),
    ("max", 3.0),
]


@pytest.mark.parametrize(("statistic", "value"), STATISTICS)
def test_a_part_is_measured_like_the_metric_if_the_statistic_of_parts_adds_up(statistic: str, value: float) -> None:
    one = (2.0, 2.0, 6.0, 2.0) * 10
    rule = f"{{assert: x {statistic} within 5% of baseline, warmup: 0}}"
    base, new = ({"x": one, "x.a": tuple(times * number for number in one)} for times in (1, 2))
    (share,) = explained_by(*both(base, new, rule=rule), result(10.0, 20.0))
    assert (share.base, share.new) == pytest.approx((value, 2 * value), rel=1e-3)


# --- ranks -----------------------------------------------------------------------------------------------------------


def ranks(*values: float) -> dict[str, float]:
    return {str(rank): value for rank, value in enumerate(values)}


EACH = "x on the slowest rank within 5% of baseline"
ACROSS = "{assert: x mean across ranks within 5% of baseline, warmup: 0}"
ON_RANKS: list[tuple[str, Rows, Rows, str]] = [
    # a rule, the series on both sides, and what explains the change of x from 10 to 20; rank 1 is the slowest
    (EACH, {"x": ranks(9, 10), "x.a": ranks(4, 4)}, {"x": ranks(9, 20), "x.a": ranks(9, 14)}, "x.a 1.00"),
    (EACH, {"x": ranks(9, 10), "x.a": 4.0}, {"x": ranks(9, 20), "x.a": 9.0}, "x.a 0.50"),
    (
        EACH,
        {"x": ranks(9, 10), "x.a": {"": 4.0, "1": 4.0}},
        {"x": ranks(9, 20), "x.a": {"": 9.0, "1": 14.0}},
        "x.a 1.00",
    ),
    (EACH, {"x": ranks(9, 10), "x.a": {"0": 4.0}}, {"x": ranks(9, 20), "x.a": {"0": 9.0}}, "x rank 1 1.00"),
    (ACROSS, {"x": ranks(10, 10), "x.a": ranks(4, 4)}, {"x": ranks(20, 20), "x.a": ranks(9, 19)}, "x.a 1.00"),
    (ACROSS, {"x": ranks(10, 10), "x.a": 4.0}, {"x": ranks(20, 20), "x.a": 9.0}, "x.a 0.25"),
    # without parts
    (EACH, {"x": ranks(10, 10, 10, 10)}, {"x": ranks(10, 20, 10, 10)}, "x rank 1 1.00"),
    (EACH, {"x": ranks(10, 10)}, {"x": ranks(10, 20)}, "x rank 1 1.00"),
    (EACH, {"x": ranks(10)}, {"x": ranks(20)}, ""),
    (EACH, {"x": ranks(10, 10, 10, 10)}, {"x": ranks(20, 20, 20, 20)}, ""),
    (EACH, {"x": ranks(10, 10)}, {"x": ranks(16, 18)}, ""),
    (EACH, {"x": ranks(10, 10)}, {"x": ranks(12, 18)}, "x rank 1 0.80, x rank 0 0.20"),
    (EACH, {"x": ranks(10, 10)}, {"x": ranks(12, 16)}, "x rank 1 0.75, x rank 0 0.25"),
    (EACH, {"x": ranks(10, 10, 10)}, {"x": ranks(19, 20, 10)}, "x rank 1 0.53, x rank 0 0.47"),
    (EACH, {"x": ranks(10, 10, 10)}, {"x": ranks(5, 20, 10)}, "x rank 1 2.00, x rank 0 -1.00"),
    (EACH, {"x": ranks(10, 10, 0)}, {"x": ranks(10, 20, 0)}, "x rank 1 1.00"),
    (EACH, {"x": ranks(10, 10, 0)}, {"x": ranks(10, 20, 10)}, "x rank 1 0.50"),
    (EACH, {"x": ranks(10, 10, 5)}, {"x": ranks(10, 20, 0)}, "x rank 1 2.00"),
    # only the ranks that all runs have
    (EACH, {"x": ranks(10, 10)}, {"x": ranks(10, 20, 90)}, "x rank 1 1.00"),
]


@pytest.mark.parametrize(("rule", "base", "new", "parts"), ON_RANKS)
def test_the_ranks_and_parts_on_ranks(rule: str, base: Rows, new: Rows, parts: str) -> None:
    assert explained(base, new, WHOLE, rule=rule) == parts


@pytest.mark.parametrize("whole", [(10.0, 10.0), (10.0, INF), (NAN, 20.0)])
def test_ranks_do_not_explain_what_did_not_change(whole: tuple[float, float]) -> None:
    assert explained({"x": ranks(10, 10)}, {"x": ranks(10, 20)}, whole, rule=EACH) == ""


def one(value: float | None, variance: float | None = 0.0) -> RunMeasure:
    return RunMeasure(value, 9, 9.0, variance, 0, settled=True)


FAR = math.exp(350.0)
COMPARED: list[tuple[Sequence[RunMeasure], Sequence[RunMeasure], float, float | None]] = [
    # a part in the base runs and in the new runs, the change of the metric, and the share
    ([one(4.0)] * 3, [one(14.0)] * 3, 20.0, 0.5),
    ([one(4.0)] * 3, [one(14.0)] * 3, -20.0, -0.5),
    ([one(4.0)] * 3, [one(14.0)] * 3, 0.0, None),
    ([one(4.0)] * 3, [one(4.0)] * 3, 20.0, None),
    ([one(4.0), one(8.0), one(2.0)], [one(5.0)] * 3, 20.0, None),
    ([one(4.0), one(0.0), one(4.0)], [one(14.0)] * 3, 20.0, None),
    ([one(4.0)] * 3, [one(14.0), one(None), one(14.0)], 20.0, None),
    ([one(4.0)] * 3, [one(14.0), one(14.0, None), one(14.0)], 20.0, None),
    ([one(1 / FAR)] * 3, [one(FAR / math.e)] * 3, FAR, 1 / math.e),
    ([one(1 / FAR)] * 3, [one(FAR * 1.5)] * 3, FAR, None),
    ([one(1 / FAR)] * 3, [one(FAR * 9e3)] * 3, FAR, None),
    ([one(math.exp(power)) for power in (-390.0, -350.0, -310.0)], [one(math.exp(340.0))] * 3, 1.0, None),
    ([one(1e300)] * 3, [one(1e307)] * 3, 1e-9, None),
    ([one(1e300)] * 3, [one(1e307)] * 3, 0.05565, None),
]


@pytest.mark.parametrize(("base", "new", "whole", "share"), COMPARED)
def test_the_share_of_a_part(
    base: Sequence[RunMeasure], new: Sequence[RunMeasure], whole: float, share: float | None
) -> None:
    evidence, question = both(X, X2)
    found = _Search(evidence, whole, question.base, question.new).compared("x.a", {}, list(base), list(new), whole)
    assert (found and found.share) == (share and pytest.approx(share))
    if found:
        assert found.low < found.share < found.high
