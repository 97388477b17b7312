"""The tolerance that fits a metric of some runs, and the noise of runs and of pairs of one program."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date
from typing import Any

import numpy as np
import pytest
from small_runs import plan, printed, runs_of, samples, value

from perfgate.analysis import tolerances as module
from perfgate.analysis.proposals import about
from perfgate.analysis.tolerances import Fit, Trial, noise_of, spread_of, spread_of_pairs, value_of
from perfgate.core import Plan, Series
from perfgate.core.advice import ProposedRule
from perfgate.judge.pairs import Pairing, Pairs

TODAY = date(2026, 1, 1)
#: A warm-up for a metric whose smaller values are better.
SLOW_START = [5.0] * 10 + [float(x) for x in np.linspace(1, 2, 70)]
MIDDLE = 1.5

# --- a tolerance and its plans ----------------------------------------------------------------------------------------

EXACT = "it is compared without noise: one run shows every change"
FITS: list[tuple[list[Plan], float | None, float | None]] = [
    # plans of labels, the largest noise, and the smallest change that fails
    ([], None, 0.0),
    ([plan(trouble=EXACT)], None, 0.0),
    ([plan(noise_between=0.0, fails_from=0.02)], 0.0, 0.02),
    (
        [plan(noise_between=0.03, noise_within=0.04, fails_from=0.1), plan(noise_between=0.045, fails_from=0.2)],
        0.05,
        0.2,
    ),
    ([plan(noise_between=0.01, fails_from=0.2), plan(noise_between=0.02, fails_from=0.1)], 0.02, 0.2),
    ([plan(noise_between=0.01, fails_from=0.2), plan(trouble=EXACT)], 0.01, 0.2),
    ([plan(noise_between=0.01, fails_from=0.2), plan(noise_between=0.02)], 0.02, None),
]


@pytest.mark.parametrize(("plans", "noise", "fails_from"), FITS)
def test_a_rule_is_as_good_as_with_its_noisiest_labels(
    plans: list[Plan], noise: float | None, fails_from: float | None
) -> None:
    fit = Fit("x within 8% of baseline", 8, tuple(plans))
    assert fit.proposed("sum", "x median", "x under 1 s") == ProposedRule(
        "sum", "x within 8% of baseline", "x median", "within 8%", fails_from, 8, noise, limit="x under 1 s"
    )


ONE_RUN = [
    # a plan of a rule within 4 %, and whether one run of an unchanged program is enough
    (plan(trouble=EXACT), True),
    (plan(trouble="the stored values have no relative change: use a limit instead"), False),
    (plan(base_runs=1, tolerance=0.04, noise_between=0.01, runs_needed=9), True),
    (plan(base_runs=2, tolerance=0.04, noise_within=0.01), True),
    (plan(base_runs=2, tolerance=0.04, noise_between=0.0101, runs_needed=1), False),
    (plan(base_runs=2, noise_between=0.01), False),
    (plan(base_runs=3, tolerance=0.04, noise_between=0.5, runs_needed=1), True),
    (plan(base_runs=3, tolerance=0.04, noise_between=0.01, runs_needed=2), False),
    (plan(base_runs=3, tolerance=0.04, noise_between=0.01), False),
]


@pytest.mark.parametrize(("planned", "enough"), ONE_RUN)
def test_one_run_of_an_unchanged_program_is_enough(planned: Plan, enough: bool) -> None:
    assert module._passes_with_one_run(planned) is enough


def trial(*numbers: float, unit: str = "s") -> Trial:
    return Trial.of(runs_of(*([value("x", unit, number)] for number in numbers)), {"x"}, TODAY)


def test_the_usual_tolerances_are_tried() -> None:
    assert module.TOLERANCES == (3, 5, 8, 10, 15, 20, 25, 30, 40, 50)
    asked: list[str] = []
    assert trial(1.0).fitted(asked.append) == "a rule cannot name them"
    assert asked == [f"within {percent}% of baseline" for percent in module.TOLERANCES]
    assert noise_of(plan()) == 0.0


PASSES = [
    # the runs, a rule, and whether they pass it, together and each alone
    ((1.0,), "x within 3% of baseline", True),  # the noise is unknown
    ((1.0, 1.01, 1.0), "x within 5% of baseline", True),
    ((1.0, 1.05), "x within 5% of baseline", False),  # undecided
    ((1.0, 1.0, 1.0, 1.0, 1.3), "x within 5% of baseline", False),
    ((1.0, 1.2), "x under 1.3 s", True),
    ((1.0, 1.2), "x under 1.1 s", False),
    ((1.0, 1.2), "y within 3% of baseline", False),
]


@pytest.mark.parametrize(("numbers", "sentence", "passes"), PASSES)
def test_runs_pass_their_own_rule(numbers: tuple[float, ...], sentence: str, passes: bool) -> None:
    assert trial(*numbers).passes(sentence) is passes


def test_a_run_without_some_labels_is_an_error() -> None:
    rows = [[value("x", "s", 1.0, size="1"), value("x", "s", 2.0, size="2")], [value("x", "s", 1.0, size="1")]]
    assert Trial.of(runs_of(*rows), {"x"}, TODAY).fitted(about("x")) == "metric absent in a run"


def test_a_plan_with_trouble_says_why_no_tolerance_fits() -> None:
    """Not one without noise, which every tolerance fits."""
    trouble = "the stored values have no relative change: use a limit instead"
    planned = [plan(trouble=EXACT), plan(noise_between=0.01), plan(trouble=trouble)]
    two = trial(1.0, 2.0)
    assert two._why_none_fits(planned, "x within 5% of baseline") == trouble
    assert two._why_none_fits(planned[:2], "x within 5% of baseline") == module.TOO_NOISY


LIMITS: list[tuple[str, Sequence[float], bool, float, str | None]] = [
    # unit, the runs, if smaller is better, the room, and the limit
    ("s", [1.9, 2.0], True, 1.5, "x under 3 s"),
    ("s", [0.1234], True, 1.0, "x under 130 ms"),
    ("1/s", [1.1, 1.0], False, 1.6, "x over 0.62 /s"),
    ("1/s", [0.0567], False, 1.0, "x over 0.056 /s"),
    ("1", [0.403], False, 1.0, "x over 40%"),
    ("1", [0.457], True, 1.0, "x under 46%"),
    ("B", [3000.0], True, 1.0, "x under 3 KiB"),
    ("s", [1.0, 2.0], True, 1.2, None),  # undecided
    ("s", [0.0], True, 1.5, None),
    ("s", [-1.0], True, 1.5, None),
    ("s", [math.nan], True, 1.5, None),
]


@pytest.mark.parametrize(("unit", "numbers", "upper", "room", "limit"), LIMITS)
def test_a_limit_has_two_digits_beyond_the_worst_run(
    unit: str, numbers: Sequence[float], upper: bool, room: float, limit: str | None
) -> None:
    tried = trial(*numbers, unit=unit)
    series = [one for run in tried.runs for one in run.series]
    assert tried.limit(about("x"), series, "mean", upper, room) == limit
    assert tried.limit(about("x"), series, "p95", upper, room) is None
    assert tried.limit(lambda rest: None, series, "mean", upper, room) is None


# --- numbers of series ------------------------------------------------------------------------------------------------

SPREADS: list[tuple[list[Series], str, float | None]] = [
    ([value("x", "s", 2.0), value("x", "s", 5.0), value("x", "s", 4.0)], "mean", 1.5),
    ([value("x", "s", 0.5), value("x", "s", 0.25)], "mean", 1.0),
    ([value("x", "s", 2.0)], "mean", None),
    ([value("x", "s", 2.0), value("x", "s", 0.0)], "mean", None),
    ([value("x", "s", 2.0), value("x", "s", math.inf)], "mean", None),
    ([value("x", "s", 2.0), value("x", "s", 3.0)], "p95", None),
    ([samples("x", "s", SLOW_START), value("x", "s", MIDDLE)], "mean", 0.0),
]


@pytest.mark.parametrize(("series", "statistic", "spread"), SPREADS)
def test_the_spread_of_runs(series: list[Series], statistic: str, spread: float | None) -> None:
    assert spread_of(series, statistic) == (None if spread is None else pytest.approx(spread))


def test_the_value_of_a_run_is_without_its_warmup() -> None:
    assert value_of(samples("x", "s", SLOW_START), "mean") == pytest.approx(MIDDLE)
    assert value_of(printed("x", "s", max=2.0), "max") == 2.0
    assert value_of(printed("x", "s", max=2.0), "mean") is None


# --- the noise of pairs -----------------------------------------------------------------------------------------------


def pairs(*rows: tuple[Sequence[Series], Sequence[Series]], pairing: Pairing = "whole-runs") -> Pairs:
    base, new = zip(*rows, strict=True)
    return Pairs(tuple(runs_of(*base)), tuple(runs_of(*new)), pairing)


def pair(base: float, new: float, metric: str = "x", **labels: str) -> tuple[list[Series], list[Series]]:
    return [value(metric, "s", base, **labels)], [value(metric, "s", new, **labels)]


def of_logs(*logs: float, scale: float = 0.02, freedom: int = 2) -> float:
    """The standard deviation around 1, averaged with the prior of the judge."""
    return math.sqrt((freedom * scale**2 + sum(log**2 for log in logs)) / (freedom + len(logs)))


L2, L3 = math.log(2), math.log(3)
#: Steps of two lengths, of which the first is warm-up: the medians have the ratio 2, and the ratios the median sqrt(2).
BY_TURNS = (samples("x", "s", [2.0, 1.0] * 10), samples("x", "s", [2.0] * 20))
PAIRS: list[tuple[Any, float | None]] = [
    (None, None),
    (pairs(pair(1.0, 2.0)), of_logs(L2)),
    (pairs(pair(2.0, 1.0), pair(1.0, 3.0)), of_logs(L2, L3)),
    (pairs(pair(1.0, 1.0)), of_logs(0)),
    (pairs(pair(1.0, 2.0), pairing="one-process"), of_logs(L2, scale=0.003)),
    # the noisiest labels
    (pairs(pair(1.0, 3.0, of="a"), pair(1.0, 2.0, of="b"), pair(1.0, 1.0, of="b")), of_logs(L3)),
    # what is not compared: another metric, one that is not on both sides, one of no time, and one without a number
    (pairs(pair(1.0, 2.0), pair(1.0, 9.0, "y")), of_logs(L2)),
    (pairs(pair(1.0, 2.0), (pair(1.0, 9.0)[0], [])), of_logs(L2)),
    (pairs(pair(1.0, 2.0), ([], pair(1.0, 9.0)[0])), of_logs(L2)),
    (pairs(pair(1.0, 2.0), pair(0.0, 9.0)), of_logs(L2)),
    (pairs(pair(1.0, 2.0), pair(9.0, 0.0)), of_logs(L2)),
    (pairs(pair(1.0, 2.0), ([printed("x", "s", max=1.0)], [printed("x", "s", max=9.0)])), of_logs(L2)),
    (pairs(pair(1.0, 2.0, "y")), None),
    # without the warm-up of each side
    (pairs(([samples("x", "s", SLOW_START)], [value("x", "s", 2 * MIDDLE)])), of_logs(L2)),
    # whole runs by their medians, steps that took turns by their ratios
    (pairs(([BY_TURNS[0]], [BY_TURNS[1]])), of_logs(L2)),
    (pairs(([BY_TURNS[0]], [BY_TURNS[1]]), pairing="in-turn"), of_logs(L2 / 2)),
]


@pytest.mark.parametrize(("made", "spread"), PAIRS)
def test_the_noise_of_pairs(made: Pairs | None, spread: float | None) -> None:
    assert spread_of_pairs(made, "x") == (None if spread is None else pytest.approx(spread))
