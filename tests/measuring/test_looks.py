"""Judging after every run: the rate of wrong answers over all looks, with the stopping rule that `perfgate run` has."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from functools import lru_cache

import numpy as np
import pytest
from msgspec.structs import replace

from perfgate.core import Baseline, Key, Run, Series, Verdict, read_only
from perfgate.judge.evidence import Case
from perfgate.judge.verdicts import judge
from perfgate.measuring.until_settled import is_open
from perfgate.rules.load import load_rules
from perfgate.rules.ruleset import Ruleset

TRIALS = 100
BASE_RUNS = 5


def run(rng: np.random.Generator, centre: float, noise: float) -> Run:
    """A run that is known by one number."""
    value = read_only(np.array([centre * np.exp(rng.normal(0, noise))]))
    return Run("run", "perfgate", (Series(Key("t"), "s", "value", value),))


@lru_cache
def rules(tolerance: str) -> Ruleset:
    ruleset, _ = load_rules([("r.yaml", f"version: 1\nrules: [t within {tolerance} of baseline]\n".encode())], None)
    assert ruleset is not None
    return ruleset


@dataclass(frozen=True)
class Plan:
    """A true change, and how often it is measured at most."""

    change: float
    tolerance: str = "5%"
    noise: float = 0.01
    looks: int = 6

    def last(self, seed: int) -> tuple[Verdict, int]:
        """Return the last outcome of the change, and the number of runs before it."""
        rng = np.random.default_rng(seed)
        base = tuple(run(rng, 1.0, self.noise) for _ in range(BASE_RUNS))
        looks = tuple(range(1, self.looks + 1))
        new: list[Run] = []
        for _ in looks:
            new.append(run(rng, 1 + self.change, self.noise))
            case = Case(rules(self.tolerance), tuple(new), Baseline(runs=base), date(2026, 1, 1), looks=looks)
            (verdict,) = judge(case)
            if not is_open(verdict):
                break
        return verdict, len(new)

    def rate(self, outcome: str) -> float:
        """Return the rate of an ending: an outcome, or `green` for exit 0."""
        verdicts = [self.last(seed)[0] for seed in range(TRIALS)]
        return sum(outcome == ("green" if v.exit_code == 0 else v.outcome) for v in verdicts) / TRIALS


@pytest.mark.parametrize(
    ("plan", "wrong", "most"),
    [
        # an unchanged program
        (Plan(0.0), "fail", 0.01),
        (Plan(0.0, "1%"), "fail", 0.02),
        (Plan(0.0, noise=0.05, looks=3), "fail", 0.02),
        # a change of at_worst, which exit 0 excludes
        (Plan(0.1), "green", 0.05),
        (Plan(0.1, noise=0.03, looks=3), "green", 0.05),
        (Plan(0.1, noise=0.05), "green", 0.05),
        (Plan(0.02, "1%"), "green", 0.05),
    ],
)
def test_the_rate_of_wrong_answers_is_kept_over_all_looks(plan: Plan, wrong: str, most: float) -> None:
    assert plan.rate(wrong) <= most + 2 * (most * (1 - most) / TRIALS) ** 0.5


def test_a_change_of_the_tolerance_rarely_passes() -> None:
    """A pass that leaves nothing open excludes the tolerance itself, and not only at_worst."""
    plan = Plan(0.05)
    passes = sum("within the tolerance" in plan.last(seed)[0].message for seed in range(TRIALS)) / TRIALS
    assert passes <= 0.05 + 2 * (0.05 * 0.95 / TRIALS) ** 0.5


def test_clear_cases_stop_early() -> None:
    counts = [Plan(change).last(seed)[1] for change in (0.0, 0.3) for seed in range(20)]
    assert np.mean(counts) < 3


def test_a_failure_of_one_run_is_measured_again() -> None:
    """One new run never ends in red while another look is planned."""
    ends = [Plan(0.5, noise=0.003).last(seed) for seed in range(10)]
    assert {verdict.outcome for verdict, _ in ends} == {"fail"}
    assert min(count for _, count in ends) == 2


def test_the_looks_share_one_rate() -> None:
    """The more looks are planned, the less each may use: the same runs exclude less."""
    rng = np.random.default_rng(1)
    baseline = Baseline(runs=tuple(run(rng, 1.0, 0.02) for _ in range(BASE_RUNS)))
    case = Case(rules("5%"), (run(rng, 1.0, 0.02),), baseline, date(2026, 1, 1))
    plans = [tuple(range(1, looks + 1)) for looks in (1, 3, 10)]
    doubts = [judge(replace(case, looks=looks))[0].not_excluded or 0.0 for looks in plans]
    assert doubts == sorted(set(doubts))
