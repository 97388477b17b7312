"""A clause with its metric and runs: direction, statistic, unit, known noise, and the rank that a verdict names."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from stories import bare, evidence_of, run_of, series

from perfgate.core import CalibratedPrior, Key, RememberedRuns, Run, Series, read_only
from perfgate.judge.evidence import CannotJudge, Evidence, direction
from perfgate.judge.measure import Member
from perfgate.judge.pairs import PRIORS
from perfgate.stats.history import DEFAULT

NAN = math.nan


def asked_of(rule: str, new: list[Run], base: list[Run] | None = None, **fields: Any) -> Evidence:
    """The evidence of a rule with one metric; `fields` are those of the baseline."""
    return evidence_of(bare(rule, new, base or [], **fields))


def run(metric: str = "x", *values: float, unit: str = "s", **labels: str) -> Run:
    return run_of(series(metric, unit, [*values] or [1.0] * 9, **labels))


def number(metric: str = "x", unit: str = "s") -> Run:
    return run_of(Series(Key(metric), unit, "value", read_only(np.array([2.0]))))


# --- the better direction --------------------------------------------------------------------------------------------

DIRECTIONS = [
    # metric, unit, direction of the rule, direction
    *((f"gpu.{name}", "1", None, "higher") for name in ("utilization", "efficiency", "occupancy", "overlap")),
    *((name, "1", None, "higher") for name in ("tensor_core_share", "mfu", "hfu", "goodput", "a.mfu")),
    ("mfu.spread", "1", None, None),
    ("mfu", "s", None, "lower"),
    ("x", "1", None, None),
    ("x", "s", None, "lower"),
    ("x", "1/s", None, "higher"),
    ("warmup.steps", "1", None, "lower"),
    ("warmup.other", "1", None, None),
    ("x", "s", "higher", "higher"),
    ("mfu", "1", "neither", "neither"),
]


@pytest.mark.parametrize(("metric", "unit", "override", "better"), DIRECTIONS)
def test_the_better_direction(metric: str, unit: str, override: Any, better: str | None) -> None:
    assert direction(metric, unit, override) == better


@pytest.mark.parametrize(
    ("metric", "unit", "statistic", "better"),
    [
        ("x", "1/s", "stddev", "lower"),
        ("mfu", "1", "stddev", "lower"),
        ("mfu", "1", "cv", "lower"),
        ("x", "1", "cv", None),
        ("x", "s", "stddev", "lower"),
        ("x", "1/s", "p99", "higher"),
    ],
)
def test_less_spread_is_better(metric: str, unit: str, statistic: str, better: str | None) -> None:
    """Three times the noise of a rate was an improvement."""
    assert direction(metric, unit, None, statistic) == better
    assert direction(metric, unit, "higher", statistic) == "higher"


@pytest.mark.parametrize(
    ("metric", "unit", "statistic"), [("x", "1/s", "stddev"), ("mfu", "1", "stddev"), ("mfu", "1", "cv")]
)
@pytest.mark.parametrize("asks", ["within 5% of baseline", "under 9"])
def test_the_spread_of_a_rate_is_measured_after_its_slow_start(
    metric: str, unit: str, statistic: str, asks: str
) -> None:
    """Less spread is better, but a low rate is still slow."""
    new = run(metric, 1.0, 2.0, 4.0, *[10.0, 10.05, 10.1] * 10, unit=unit)
    found = asked_of(f"{metric} {statistic} {asks}", [new], [run(metric, unit=unit)])
    assert (found.method.better, found.method.measure(found.series).dropped) == ("lower", 3)


METHODS: list[tuple[str, Run, str, str]] = [
    # a rule, the run, its statistic, and the better direction
    ("x under 9 s", run(), "median", "lower"),
    ("x at least 9 s", run(), "median", "higher"),
    ("x p90 at most 9 s", run(), "p90", "lower"),
    ("work.syncs at most 9", run("work.syncs", unit="1"), "max", "lower"),
    ("work.syncs at least 9", run("work.syncs", unit="1"), "min", "higher"),
    ("work.syncs mean at most 9", run("work.syncs", unit="1"), "mean", "lower"),
    ("work.syncs at most 9", number("work.syncs", "1"), "mean", "lower"),
    ("work.syncs within 5% of baseline", run("work.syncs", unit="1"), "median", "neither"),
    ("no more work.syncs than baseline", run("work.syncs", unit="1"), "median", "lower"),
    ("x within 5% of baseline", run(), "median", "lower"),
    ("x within 5% of baseline", run(unit="1/s"), "median", "higher"),
    ("x within 5% of baseline", run(unit="1"), "median", "neither"),
    ("x within ±5% of baseline", run(unit="1"), "median", "lower"),
    ("x within ±5% of baseline", run(unit="1/s"), "median", "higher"),
    ("x count within 5% of baseline", run(), "count", "neither"),
    ("x stddev within 5% of baseline", run(unit="1/s"), "stddev", "lower"),
    ("x at most 105% of baseline", run(unit="1"), "median", "lower"),
    ("x at most 105% of baseline", run(), "median", "lower"),
    ("x at least 95% of baseline", run(unit="1"), "median", "higher"),
    ("x at least 95% of baseline", run(unit="1/s"), "median", "higher"),
    ("{assert: x at least 95% of baseline, better: neither}", run(), "median", "higher"),
    ("{assert: x at most 105% of baseline, better: neither}", run(), "median", "lower"),
    ("{assert: x within 5% of baseline, better: higher}", run(), "median", "higher"),
    ("{assert: x within 5% of baseline, better: lower}", run(unit="1/s"), "median", "lower"),
]


@pytest.mark.parametrize(("rule", "of", "statistic", "better"), METHODS)
def test_the_statistic_and_the_direction_of_a_clause(rule: str, of: Run, statistic: str, better: str) -> None:
    method = asked_of(rule, [of], [of]).method
    assert (method.statistic, method.better, method.warmup) == (statistic, better, "auto")


@pytest.mark.parametrize(
    ("bound", "metric", "unit", "known"),
    [
        ("at least 95%", "x", "s", "lower"),
        ("at most 105%", "x", "1/s", "higher"),
        ("at most 105%", "mfu", "1", "higher"),
    ],
)
def test_a_bound_on_the_improving_side_is_refused(bound: str, metric: str, unit: str, known: str) -> None:
    asked = asked_of(f"{metric} {bound} of baseline", [run(metric, unit=unit)], [run(metric, unit=unit)])
    with pytest.raises(CannotJudge) as raised:
        _ = asked.method
    assert str(raised.value) == f"`{bound} of baseline` bounds the improving side of {metric}: {known} is better"
    assert raised.value.reason == "improving-side"


def test_of_a_sweep_more_load_is_better() -> None:
    loads = [series("ttft", "s", [0.1] * 9, request_rate=rate) for rate in ("1", "2")]
    rule = "the largest request_rate with ttft under 500 ms within 5% of baseline"
    assert asked_of(rule, [run_of(*loads)], [run_of(*loads)]).method.better == "higher"


def test_the_method_has_the_settings_of_the_rule_and_one_cache() -> None:
    asked = asked_of("{assert: x under 9 s, warmup: 3}", [run()])
    assert asked.method.warmup == 3
    assert asked.method.cache is asked.runs.cache


# --- what a verdict shows --------------------------------------------------------------------------------------------

UNITS: list[tuple[str, Run, str, str | None]] = [
    # a rule, the run, the base unit, and the unit that is shown
    ("x under 9 ms", run(), "s", "ms"),
    ("x within 9 us of baseline", run(), "s", "us"),
    ("x within 5% of baseline", run(), "s", None),
    ("x under 9", run(unit="1"), "1", None),
    ("x under 90%", run(unit="1"), "1", "%"),
    ("x within 5 pp of baseline", run(unit="1"), "1", "%"),
    ("x within 5% of baseline", run(unit="1"), "1", None),
    ("gpu.utilization within 5% of baseline", run("gpu.utilization", unit="1"), "1", "%"),
    ("gpu.utilization over 0.5", run("gpu.utilization", unit="1"), "1", "%"),
    ("gpu.utilization over 0.5x", run("gpu.utilization", unit="1"), "1", "x"),
    ("gpu.utilization within 5% of baseline", run("gpu.utilization"), "s", None),
    ("warmup.other within 5% of baseline", run("warmup.other", unit="1"), "1", None),
    ("clock.sm within 5% of baseline", run("clock.sm", unit="1/s"), "1/s", "MHz"),
    ("clock.sm over 5 Hz", run("clock.sm", unit="1/s"), "1/s", "Hz"),
    ("clock.sm within 5% of baseline", run("clock.sm"), "s", None),
    ("clock.sm count within 5% of baseline", run("clock.sm", unit="1/s"), "1", None),
    ("x within 5% of baseline", run(unit="1/s"), "1/s", None),
    ("x count at least 9", run(), "1", None),
]


@pytest.mark.parametrize(("rule", "of", "unit", "shown"), UNITS)
def test_the_unit_that_is_shown(rule: str, of: Run, unit: str, shown: str | None) -> None:
    asked = asked_of(rule, [of], [of])
    assert (asked.unit, asked.shown_unit) == (unit, shown)


STATISTICS: list[tuple[str, Run, str | None]] = [
    ("x under 9 s", run(), "median"),
    ("x p90 under 9 s", run(), "p90"),
    ("x under 9 s", number(), None),
    ("x mean under 9 s", number(), "mean"),
]


@pytest.mark.parametrize(("rule", "of", "shown"), STATISTICS)
def test_the_statistic_that_is_shown(rule: str, of: Run, shown: str | None) -> None:
    assert asked_of(rule, [of]).shown_statistic == shown


def ranks(*values: float, unit: str = "s") -> Run:
    return run_of(*(series("x", unit, [value] * 9, rank=str(i)) for i, value in enumerate(values)))


SHOWN: list[tuple[str, list[Run], str | None]] = [
    # a rule, the runs, and the rank that the verdict names
    ("x under 9 s", [ranks(1.0, 3.0), ranks(4.0, 2.0)], "0"),
    ("x under 9 s", [ranks(4.0, 2.0), ranks(1.0, 3.0)], "0"),
    ("x over 9 s", [ranks(1.0, 3.0), ranks(4.0, 2.0)], "0"),
    ("x over 9 s", [ranks(4.0, 2.0), ranks(1.0, 0.5)], "1"),
    ("x over 9 s", [ranks(4.0, -0.5), ranks(-1.0, 0.5)], "0"),
    ("x under 9 s", [ranks(NAN, 1.0), ranks(1.0, 3.0)], "0"),
    ("x under 9 s", [ranks(1.0, 3.0), ranks(NAN, 1.0)], "0"),
    ("x across ranks under 9 s", [ranks(1.0, 3.0)], None),
    ("x under 9 s", [run()], None),
]


@pytest.mark.parametrize(("rule", "new", "rank"), SHOWN)
def test_the_rank_of_the_worst_run_is_shown(rule: str, new: list[Run], rank: str | None) -> None:
    asked = asked_of(rule, new)
    member: Member = () if rank is None else (("rank", rank),)
    assert asked.shown_member(asked.measured(asked.new)) == member


def test_a_series_is_named_with_its_labels_its_statistic_and_its_rank() -> None:
    asked = asked_of("x under 9 s", [run("x", size="8", rank="3")])
    assert asked.name((("rank", "3"),), "p95") == 'x{size="8"} p95 on rank 3'
    assert asked.name(()) == 'x{size="8"}'


# --- the runs --------------------------------------------------------------------------------------------------------


def test_a_clause_has_the_runs_that_it_refers_to() -> None:
    new, base, first = run(), run("x", 2.0), run("x", 3.0)
    found = {
        clause: asked_of(f"x {clause}", [new], [base], anchor=(first,)).base
        for clause in ("under 9 s", "within 5% of baseline", "within 5% of anchor", "within 5% of the median rank")
    }
    assert [[one[()] for one in side] for side in found.values()] == [[], [*base.series], [*first.series], []]
    assert asked_of("x under 9 s", [new]).new == ({(): new.series[0]},)


def test_each_rank_of_either_side_has_its_evidence() -> None:
    asked = asked_of("x on each rank within 5% of baseline", [ranks(1.0, 2.0)], [ranks(3.0), ranks(4.0, 5.0, 6.0)])
    found = {
        one.member[0][1]: [[value.values[0] for value in run.values()] for run in (*one.new, *one.base)]
        for one in asked.each_rank()
    }
    assert found == {"0": [[1.0], [3.0], [4.0]], "1": [[2.0], [], [5.0]], "2": [[], [], [6.0]]}


@pytest.mark.parametrize(
    ("of", "rank"), [("x", "worst"), ("x on the median rank", "median"), ("x on each rank", "each")]
)
def test_the_choice_of_the_rank(of: str, rank: str) -> None:
    assert asked_of(f"{of} under 9 s", [run()]).rank == rank


# --- the noise between runs ------------------------------------------------------------------------------------------


def noise(s0: float, **fields: Any) -> CalibratedPrior:
    given: dict[str, Any] = {"key": Key("x"), "statistic": "median", "rank": "worst", "d0": 6.0, "runs": 5}
    return CalibratedPrior(s0=s0, **(given | fields))


OTHERS = tuple(
    noise(0.5, **fields)
    for fields in (
        {"key": Key("y")},
        {"key": Key.of("x", size="8")},
        {"statistic": "mean"},
        {"rank": "median"},
        {"pairing": "in-turn"},
    )
)
FEW, MANY = [run("x", 1.0)] * 2, [run("x", 1.0), run("x", 2.0)]
EMPTY = run_of(series("y", "s", [1.0]))
#: Runs that print only a maximum, so that their median is unknown.
UNKNOWN = [run_of(Series(Key("x"), "s", "aggregate", read_only(np.empty(0)), aggregate={"max": 1.0}))] * 2

KNOWN: list[tuple[tuple[CalibratedPrior, ...], list[Run], list[Run], bool]] = [
    # what is calibrated, the new runs, the stored ones, and whether the noise is known
    ((*OTHERS, noise(0.01)), FEW, FEW, True),
    (OTHERS, FEW, FEW, False),
    ((), FEW, FEW, False),
    ((noise(0.01),), MANY, MANY, True),
    ((noise(0.01, learned_from="main"),), FEW, FEW, True),
    ((noise(0.01, learned_from="main"),), MANY, FEW, False),
    ((noise(0.01, learned_from="main"),), FEW, MANY, False),
    ((noise(1.0, learned_from="main"),), MANY, MANY, True),
    ((noise(0.01, learned_from="main"),), MANY, [EMPTY], False),
    ((noise(0.01, learned_from="main"),), FEW, [*MANY, EMPTY], True),
]


@pytest.mark.parametrize(("priors", "new", "base", "is_known"), KNOWN)
def test_known_noise_belongs_to_one_series_and_its_runs_do_not_contradict_it(
    priors: tuple[CalibratedPrior, ...], new: list[Run], base: list[Run], is_known: bool
) -> None:
    asked = asked_of("x within 5% of baseline", new, base, priors=priors)
    assert asked.calibrated() == (priors[-1] if is_known else None)
    assert asked.calibrated(is_believed=True) == (priors[-1] if priors and priors != OTHERS else None)
    assert asked.prior() == ((priors[-1].s0, 6.0) if is_known else (DEFAULT.s0, DEFAULT.d0))


def test_the_noise_of_pairs_is_that_of_their_kind() -> None:
    asked = asked_of("x within 5% of baseline", FEW, FEW, priors=(noise(0.01), noise(0.3, pairing="whole-runs")))
    assert asked.prior("in-turn") == PRIORS["in-turn"]
    assert asked.prior("whole-runs") == (0.3, 6.0)


def test_runs_that_cannot_be_measured_do_not_contradict_a_noise() -> None:
    prior = noise(0.01, learned_from="main")
    asked = asked_of("x median within 5% of baseline", UNKNOWN, UNKNOWN, priors=(prior,))
    assert asked.calibrated() == prior


def test_the_remembered_runs_of_a_series_are_found() -> None:
    rows = [
        RememberedRuns(Key(metric), statistic, rank, "main", (1.0,), (0.0,), ("a",), is_measured=True)
        for metric, statistic, rank in (("y", "median", "worst"), ("x", "mean", "worst"), ("x", "median", "fastest"))
    ]
    asked = asked_of("x within 5% of baseline", FEW, FEW)
    assert asked.of_series(rows) is None
    own = RememberedRuns(Key("x"), "median", "worst", "main", (2.0,), (0.0,), ("a",), is_measured=True)
    assert asked.of_series([*rows, own]) == own


# --- what cannot be judged -------------------------------------------------------------------------------------------

BAD: list[tuple[str, int, str, str]] = [
    # the reason, min_samples, the message and the next step
    ("too-few-samples", 1, "x has no value after warm-up", "run more steps"),
    ("too-few-samples", 2, "x has fewer than 2 values after warm-up", "run more steps, or set min_samples"),
    ("not-a-number", 1, "x has values that are not finite numbers", "see `perfgate inspect`"),
    (
        "not-positive",
        1,
        "x has values of zero or less, so a relative change does not exist",
        "use a limit, or an absolute tolerance, such as `within 1 ms of baseline`",
    ),
    (
        "tolerance-too-small",
        1,
        "x: a tolerance of 0.5% is too small for pairs: order and memory layout alone move unchanged code by up to "
        "0.6%",
        "write `within 1% of baseline` or more",
    ),
    ("strange", 1, "x cannot be judged: strange", "see `perfgate inspect`"),
]


@pytest.mark.parametrize(("reason", "least", "message", "step"), BAD)
def test_bad_values_are_named_with_the_next_step(reason: str, least: int, message: str, step: str) -> None:
    asked = asked_of(f"{{assert: x under 9 s, min_samples: {least}}}", [run()])
    error = asked.bad_values(reason, "x", 0.005)
    assert (error.reason, str(error), error.next_step.text) == (reason, message, step)


def test_a_tolerance_that_is_unknown_counts_as_none() -> None:
    asked = asked_of("x under 9 s", [run()])
    assert str(asked.bad_values("tolerance-too-small", "x")).startswith("x: a tolerance of 0% is too small")


def test_a_refusal_is_an_error_with_its_reason() -> None:
    side = asked_of("x under 9 s", [run()]).measured(())
    error = CannotJudge("no-data", "nothing", "look", side)
    answer = error.as_answer()
    assert (answer.outcome, answer.reason, answer.message, answer.next_step.text) == (
        "error",
        "no-data",
        "nothing",
        "look",
    )
    assert (answer.is_of_runs, answer.new) == (False, side)
    assert error.as_answer(is_of_runs=True).is_of_runs


def test_a_case_does_not_accept_a_missing_baseline_by_default() -> None:
    assert bare("x under 9 s", []).missing_baseline == "error"
