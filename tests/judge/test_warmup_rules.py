"""Warm-up as a metric, and slow starts that a pass would hide."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from conftest import answer_of, steady
from msgspec.structs import replace
from stories import bare, run_of, series

from perfgate.core import Allowance, Run
from perfgate.judge.verdicts import judge


def slow_start(seed: int, steps: int = 0, times: float = 1.0, unit: str = "s", n: int = 100, **labels: str) -> Run:
    """A run of `x` whose first steps take so many times as long."""
    values = steady(0.1, n=n, spread=0.01, seed=seed)
    values = [value * times if i < steps else value for i, value in enumerate(values)]
    return run_of(
        series("x", unit, [1 / v for v in values] if unit == "1/s" else values, **labels), source=f"{seed}.json"
    )


BASE = [slow_start(seed, 3, 4.0) for seed in range(5)]

STARTS = [
    # rule; steps and times of the slow start; outcome, reason and exit code; a part of the message or the notes
    ("x within 5% of baseline", 3, 4.0, "pass interval 0", None),
    ("x within 5% of baseline", 25, 10.0, "suspect warm-up 3", "the warm-up took 24.8"),
    ("x within 5% of baseline", 25, 10.0, "suspect warm-up 3", "and at most 1.2"),
    ("x under 150 ms", 25, 10.0, "suspect warm-up 3", "the warm-up took 24.8"),
    ("x p90 under 10 s", 14, 5.0, "suspect warm-up 3", "the warm-up took"),
    ("x within 5% of baseline", 22, 1.9, "pass interval 0", "the mean of all values, warm-up included"),
    ("x within 5% of baseline", 4, 2.0, "pass interval 0", None),
    ("x mean within 5% of baseline", 3, 5.0, "pass interval 0", None),
    ("x max under 900 ms", 25, 10.0, "fail exact 1", None),
    ("{assert: x within 5% of baseline, warmup: 25}", 25, 10.0, "suspect warm-up 3", "the warm-up took"),
    ("{assert: x within 5% of baseline, severity: warning}", 25, 10.0, "suspect warm-up 0", "the warm-up took"),
]


@pytest.mark.parametrize(("rule", "steps", "times", "expected", "said"), STARTS)
def test_a_slow_start_is_not_a_pass(rule: str, steps: int, times: float, expected: str, said: str | None) -> None:
    (found,) = judge(bare(rule, [slow_start(50, steps, times)], BASE))
    assert f"{answer_of(found)} {found.reason} {found.exit_code}" == expected
    assert found.doubtful == (said is not None)
    assert said is None or said in found.message + "; ".join(found.notes)


def test_a_slow_start_fails_if_strict_and_may_be_allowed() -> None:
    asked = bare("x within 5% of baseline", [slow_start(50, 25, 10.0)], BASE)
    (strict,) = judge(replace(asked, strict=True))
    assert (strict.outcome, strict.exit_code) == ("fail", 1)
    allowance = Allowance("x", 0.1, "ada", "compiles more", date(2026, 12, 31))
    (allowed,) = judge(replace(asked, baseline=replace(asked.baseline, allowances=(allowance,))))
    assert (allowed.outcome, allowed.reason) == ("pass", "allowed")
    smaller = replace(asked.baseline, allowances=(Allowance("x", 0.01, "ada", "noise", date(2026, 12, 31)),))
    (found,) = judge(replace(asked, strict=False, baseline=smaller))
    assert (answer_of(found), found.reason) == ("suspect", "warm-up")


def test_values_that_end_at_zero_have_a_slow_start_too() -> None:
    """A queue that is empty after the start: the median without warm-up is zero, and no ratio to it exists."""
    past = [run_of(series("x", "1", [5.0] * 40 + [0.0] * 160), source=f"{seed}.json") for seed in range(4)]
    found = judge(bare("x under 9", past[:1], past[1:])) + judge(bare("x within 1 of baseline", past[:1], past[1:]))
    assert [one.outcome for one in found] == ["pass", "pass"]


def test_one_slow_start_of_three_is_no_change_of_the_program() -> None:
    new = [slow_start(50, 25, 10.0), slow_start(51, 3, 4.0), slow_start(52, 3, 4.0)]
    (found,) = judge(bare("x within 5% of baseline", new, BASE))
    assert found.outcome == "pass"
    (two,) = judge(bare("x within 5% of baseline", new[:2], BASE))
    assert answer_of(two) == "suspect"


def test_a_slow_start_on_a_rank_that_is_not_the_worst() -> None:
    def ranks(seed: int, steps: int) -> Run:
        slow = slow_start(seed, steps, 10.0, rank="0").series[0]
        return run_of(slow, series("x", "s", steady(0.102, n=100, spread=0.01, seed=900 + seed), rank="1"))

    (found,) = judge(bare("x within 5% of baseline", [ranks(50, 25)], [ranks(seed, 2) for seed in range(5)]))
    assert (answer_of(found), found.reason) == ("suspect", "warm-up")


def test_a_slow_start_in_rates() -> None:
    base = [slow_start(seed, 3, 4.0, "1/s") for seed in range(5)]
    (found,) = judge(bare("x within 5% of baseline", [slow_start(50, 25, 10.0, "1/s")], base))
    assert (answer_of(found), found.reason) == ("suspect", "warm-up")
    assert "the warm-up took 25 steps, and at most 3 in" in found.message


def test_a_pass_says_that_a_quarter_was_dropped() -> None:
    (found,) = judge(bare("x under 500 ms", [slow_start(50, 25, 10.0)]))
    assert (found.outcome, found.doubtful) == ("pass", True)
    assert "25 of 100 values were dropped as warm-up" in found.notes


def test_a_limit_that_the_dropped_quarter_would_break_does_not_pass() -> None:
    (found,) = judge(bare("x under 150 ms", [slow_start(50, 25, 10.0)]))
    assert (answer_of(found), found.reason, found.exit_code) == ("suspect", "warm-up", 3)
    assert found.message.startswith("25 of 100 values were dropped as warm-up")
    assert "set `warmup: 25` in the rule" in found.next_step.text


LONG_STARTS = [
    # steps of 200 and times of the slow start
    (50, 10.0),
    (90, 10.0),
    (99, 10.0),
    (90, 2.0),
]


@pytest.mark.parametrize(("steps", "times"), LONG_STARTS)
@pytest.mark.parametrize("rule", ["x within 5% of baseline", "x p95 within 5% of baseline"])
def test_a_slow_start_beyond_the_first_quarter_is_never_a_pass(steps: int, times: float, rule: str) -> None:
    base = [slow_start(seed, n=200) for seed in range(5)]
    (found,) = judge(bare(rule, [slow_start(50, steps, times, n=200)], base))
    assert found.exit_code in (1, 3), found.message


NAMED = [
    # rule; the outcome with and without the slow start in the base, too
    ("{assert: x within 5% of baseline, warmup: 10}", "suspect warm-up", "pass interval"),
    ("{assert: x under 112 ms, warmup: 10}", "suspect warm-up", "pass interval"),
    ("{assert: x under 200 ms, warmup: 10}", "pass interval", "pass interval"),
    ("{assert: x within 5% of baseline, warmup: 60}", "suspect warm-up", "pass interval"),
]


@pytest.mark.parametrize(("rule", "once", "always"), NAMED)
def test_a_median_after_a_named_warm_up_hides_no_slow_start(rule: str, once: str, always: str) -> None:
    new = [slow_start(50, 60, 1.5, n=200)]
    for steps, expected in ((0, once), (60, always)):
        (found,) = judge(bare(rule, new, [slow_start(seed, steps, 1.5, n=200) for seed in range(5)]))
        assert f"{answer_of(found)} {found.reason}" == expected, found.message
    (found,) = judge(bare(NAMED[0][0], new, [slow_start(seed, n=200) for seed in range(5)]))
    assert found.message.startswith("the first 57 of 200 values are slow, more than the rule's `warmup`")
    assert "set `warmup: 57` in the rule" in found.next_step.text
    assert any("the mean of all values, after the warm-up, went from" in note for note in found.notes)


def test_a_job_that_always_starts_slowly_still_passes() -> None:
    base = [slow_start(seed, 90, 10.0, n=200) for seed in range(5)]
    (found,) = judge(bare("x within 5% of baseline", [slow_start(50, 90, 10.0, n=200)], base))
    assert (found.outcome, found.exit_code) == ("pass", 0)


METRICS = [
    # rule; its metric, labels and value
    ('warmup.steps{of="x"} at most 20', "fail", {"of": "x"}, 25.0),
    ('warmup.steps{of="x"} at most 30', "pass", {"of": "x"}, 25.0),
    ("warmup.time under 10 s", "fail", {"of": "x"}, 24.9),
    ("warmup.t* under 10 s", "fail", {"of": "x"}, 24.9),
    ('warmup.time{of="x"} within 50% of baseline', "fail", {"of": "x"}, 24.9),
    ('warmup.time{of="x"} within 3000% of baseline', "pass", {"of": "x"}, 24.9),
]


@pytest.mark.parametrize(("rule", "outcome", "labels", "value"), METRICS)
def test_warm_up_is_a_metric(rule: str, outcome: str, labels: dict[str, Any], value: float) -> None:
    (found,) = judge(bare(f"'{rule}'", [slow_start(50, 25, 10.0)], BASE))
    assert (found.outcome, found.labels) == (outcome, labels)
    assert found.new is not None
    assert found.new.estimate == pytest.approx(value, rel=0.01)


def test_warm_up_of_an_unknown_metric_is_an_error_and_no_glob_for_all() -> None:
    (found,) = judge(bare("'warmup.steps{of=\"y\"} at most 20'", [slow_start(50)]))
    assert (found.outcome, found.reason) == ("error", "metric-absent")
    assert 'it has {of="x"}' in found.message
    everything = judge(bare("'* within 5% of baseline'", [slow_start(50)], BASE))
    assert [verdict.metric for verdict in everything] == ["x"]
