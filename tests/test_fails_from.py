"""The smallest change that fails in 8 of 10 cases: what `init` and `plan` print is what the judge does."""

from __future__ import annotations

from datetime import date
from functools import partial

import numpy as np
import pytest

from perfgate import judge_change
from perfgate.analysis.plan import SPREAD_OF_PAIRS, pairs_fail_from, plans
from perfgate.core import Baseline, Key, Location, Run, Series, read_only
from perfgate.judge.evidence import Case
from perfgate.rules.ruleset import Rule, Ruleset
from perfgate.rules.syntax.grammar import parse_sentence

judge_pairs = partial(judge_change, pairing="one-process", tolerance=0.02)

#: Base runs, noise between runs, tolerance in percent.
CELLS = [(1, 0.01, 5), (3, 0.01, 3), (3, 0.03, 10), (3, 0.05, 10), (5, 0.01, 3), (5, 0.03, 10), (10, 0.03, 10)]


def planned(values: list[float], percent: int) -> float:
    runs = tuple(
        Run(f"r{i}", "test", (Series(Key("t"), "s", "value", read_only(np.array([value]))),))
        for i, value in enumerate(values)
    )
    rule = Rule(parse_sentence(f"t within {percent}% of baseline"), Location("rules"))
    (plan,) = plans(Case(Ruleset("x", (rule,), {}), (), Baseline(runs=runs), date(2026, 1, 1)))
    assert plan.fails_from is not None
    return plan.fails_from


def fails(base: list[float], new: list[float], tolerance: float) -> bool:
    """Return whether one of up to three looks ends in exit 1."""
    for count in (1, 2, 3):
        found = judge_change(base, new[:count], tolerance=tolerance)
        if found.outcome == "fail":
            return True
        if found.outcome == "pass" or found.excluded:
            return False
    return False


@pytest.mark.slow
@pytest.mark.parametrize(("base_runs", "noise", "percent"), CELLS)
def test_that_change_fails_in_8_of_10_cases(base_runs: int, noise: float, percent: int) -> None:
    source = np.random.default_rng(7)

    def run(centre: float) -> float:
        return float(centre * np.exp(noise * source.standard_normal()))

    hits = 0
    for _ in range(200):
        base = [run(1.0) for _ in range(base_runs)]
        change = planned(base, percent)
        hits += fails(base, [run(1 + change) for _ in range(3)], percent / 100)
    assert hits >= 155  # 160 but for chance


@pytest.mark.parametrize("percent", [5, 10])
def test_pairs_fail_as_often(percent: int) -> None:
    source = np.random.default_rng(3)
    change = pairs_fail_from(percent / 100, 10, "lower")
    assert change is not None
    hits = 0
    for _ in range(40):
        ratios = [float(x) for x in (1 + change) * np.exp(SPREAD_OF_PAIRS * source.standard_normal(10))]
        looks = (judge_pairs([1.0] * k, ratios[:k], tolerance=percent / 100, looks=10) for k in range(2, 11))
        hits += any(found.outcome == "fail" for found in looks)
    assert hits >= 28


def test_more_base_runs_show_smaller_changes() -> None:
    values = [1.0, 1.01, 0.99, 1.005, 0.995]
    assert planned(values[:3], 5) > planned(values, 5) > 0.05
