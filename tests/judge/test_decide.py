"""Questions as they are, without rules and runs: what outranks the statistics, and what only stands beside them."""

from __future__ import annotations

import math
from typing import Any

import pytest
from conftest import answer_of
from msgspec.structs import replace

from perfgate.core import Key, RememberedRuns
from perfgate.core.results import ChangeResult, Doubt
from perfgate.judge.decide.bounds import ComparedRuns, bounds_of
from perfgate.judge.decide.change import judge_runs
from perfgate.judge.decide.outcome import decide
from perfgate.judge.question import ChangeQuestion, Exceptions, MachineDifference, MeasuredSide
from perfgate.judge.terms import ChangeTerms
from perfgate.stats.statistics import RunMeasure

QUIET = (0.997, 0.9985, 1.0, 1.0015, 1.003)


def side(*values: float) -> MeasuredSide:
    return MeasuredSide((), (), (), tuple(RunMeasure(value, 1, None, 0.0, 0, True) for value in values))


def question(*new: float, base: tuple[float, ...] = QUIET, **terms: Any) -> ChangeQuestion:
    return ChangeQuestion(ChangeTerms(**{"tolerance": 0.05, "min_samples": 1, **terms}), side(*base), side(*new))


def answer(asked: ChangeQuestion) -> ChangeResult:
    (found,) = decide([asked])
    assert isinstance(found, ChangeResult)
    return found


CLOCK = Doubt("machine", "clock", 1e9, 0.9e9, decides=True)
LOST = Doubt("machine", "lost", 0.0, 0.1, decides=True)
MACHINE = [
    # the new run; the factor that makes the machines alike; the outcome and its reason
    (1.0, 1.0, "pass interval"),
    (1.0, 1.04, "pass interval"),
    (1.0, 1.048, "pass interval"),  # alike it would be open, but still exclude `at_worst`
    (1.0, 1.2, "suspect machine"),
    (1.2, 1 / 1.2, "suspect machine"),
    (1.2, 1 / 1.02, "fail interval"),
]


@pytest.mark.parametrize(("new", "factor", "expected"), MACHINE)
def test_a_difference_of_the_machine_decides_if_equal_machines_answer_otherwise(
    new: float, factor: float, expected: str
) -> None:
    is_red = new > 1.05
    lost = replace(LOST, base=0.0 if is_red else 0.1, new=0.1 if is_red else 0.0)
    machine = MachineDifference((1.0,) * len(QUIET), (factor,), (lost,))
    found = answer(replace(question(new), machine=(machine,)))
    assert f"{answer_of(found)} {found.reason}" == expected
    assert [doubt.what for doubt in found.doubts] == ["lost"]  # only a clock and a host name their change


def test_lost_time_of_the_better_side_explains_nothing() -> None:
    machine = MachineDifference((1.0,) * len(QUIET), (1 / 1.2,), (replace(LOST, base=0.1, new=0.0),))
    assert answer(replace(question(1.2), machine=(machine,))).outcome == "fail"


@pytest.mark.parametrize(("new", "name"), [(1.0, "interval"), (1.3, "red")])
def test_the_interval_of_a_failure_is_not_wider_than_its_bound(new: float, name: str) -> None:
    asked = question(new, base=(0.97, 0.99, 1.0, 1.01, 1.03), tolerance=0.2)
    runs = ComparedRuns(asked.base.measures, asked.new.measures)
    found = judge_runs(asked.base.measures, asked.new.measures, asked.terms)
    bounds = bounds_of(runs, (asked.terms.tolerated(1.0), asked.terms.doubted(1.0)), asked.terms)
    reach = min([bounds.interval.distance, *([] if name == "interval" else [bounds.red.distance])])
    assert bounds.red.distance != bounds.interval.distance
    assert found.high == pytest.approx(math.expm1(bounds.change.log_change + reach), rel=1e-6)


def test_red_of_known_noise_is_the_rarer_the_better_the_noise_is_known() -> None:
    """The error rate of red is divided by the degrees of freedom, which more base runs raise."""

    def p_of_red(base_runs: int) -> float:
        terms = {"prior": (0.02, 4.0), "noise_known": True, "tolerance": 0.0, "looks": (1,)}
        steps = [1 + i / 1000 for i in range(400)]
        found = (answer(question(new, base=(1.0,) * base_runs, **terms)) for new in steps)
        first = next(one for one in found if one.outcome == "fail")
        assert first.p_no_change is not None
        return first.p_no_change

    assert p_of_red(20) < 0.6 * p_of_red(5)


@pytest.mark.parametrize("exact", [True, False])
def test_only_values_with_noise_are_compared_with_the_branch(exact: bool) -> None:
    remembered = RememberedRuns(Key("x"), "median", "worst", "main", (1.08,) * 8, (0.0,) * 8, ("a",) * 8, False)
    asked = question(1.08, base=(1.0, 1.0, 1.0) if exact else (0.999, 1.0, 1.001), exact=exact)
    found = answer(replace(asked, remembered=remembered))
    assert answer_of(found) in ("fail", "suspect")
    assert (found.pooled is None) == exact


def test_both_directions_name_the_farther_end() -> None:
    up, down = (answer(question(new, two_sided=True)) for new in (1.02, 0.98))
    assert up.not_excluded is not None
    assert down.not_excluded is not None
    assert up.not_excluded > 0 > down.not_excluded


@pytest.mark.parametrize(("new", "factor"), [(1.0, 1 / 1.3), (1.2, 1.3)])
def test_a_machine_that_makes_the_answer_surer_raises_no_doubt(new: float, factor: float) -> None:
    """Noise differs between the sides, so that the answer of equal machines may be open."""
    noisy = MachineDifference(tuple(1 + 0.1 * (i - 2) for i in range(len(QUIET))), (factor,), (CLOCK,), "cycles")
    asked = replace(question(new), machine=(noisy,))
    assert answer(asked).outcome == answer(question(new)).outcome


WIDE = (0.9, 0.95, 1.0, 1.05, 1.1)
OPEN: list[tuple[tuple[float, ...], dict[str, Any], Any, str]] = [
    # the base runs, terms, `on_inconclusive`, and the answer to an unchanged run
    (WIDE, {"at_worst": 0.5}, None, "pass interval"),
    (WIDE, {"at_worst": 0.5}, "warn", "pass interval"),
    (WIDE, {"at_worst": 0.5}, "fail", "fail interval"),
    (WIDE, {"at_worst": 0.5}, "error", "undecided interval"),
    # what breaks the promise of a green answer never passes
    (WIDE, {}, None, "undecided cannot-exclude"),
    (WIDE, {}, "warn", "undecided cannot-exclude"),
    (WIDE, {}, "fail", "fail cannot-exclude"),
    ((1.0,), {}, "warn", "undecided noise-unknown"),
]


@pytest.mark.parametrize(("base", "terms", "on_open", "expected"), OPEN)
def test_the_author_of_a_rule_decides_about_open_answers(
    base: tuple[float, ...], terms: dict[str, Any], on_open: Any, expected: str
) -> None:
    found = answer(replace(question(1.0, base=base, **terms), exceptions=Exceptions(on_open=on_open)))
    assert f"{answer_of(found)} {found.reason}" == expected
    assert found.of_numbers.outcome == "undecided"


def test_a_suspicion_is_not_for_the_author_to_pass() -> None:
    found = answer(replace(question(1.06), exceptions=Exceptions(on_open="warn")))
    assert answer_of(found) == "suspect"
