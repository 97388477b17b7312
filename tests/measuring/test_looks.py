"""Judging after every run: the rate of wrong answers over all looks, with the stopping rule that `perfgate run` has."""

from __future__ import annotations

from datetime import date
from functools import lru_cache

import numpy as np
import pytest

from perfgate.commands.check import shared_among
from perfgate.core import Baseline, Key, Run, Series, Verdict, read_only
from perfgate.judge.case import Case
from perfgate.judge.verdicts import judge
from perfgate.measuring.until_settled import is_open
from perfgate.rules.load import load_rules
from perfgate.rules.ruleset import Ruleset

NOISE = 0.01
TRIALS = 60


def run(rng: np.random.Generator, centre: float) -> Run:
    """A run that is known by one number, with 1 % between runs."""
    value = read_only(np.array([centre * np.exp(rng.normal(0, NOISE))]))
    return Run("run", "perfgate", (Series(Key("t"), "s", "value", value),))


@lru_cache
def rules(tolerance: str, looks: int) -> Ruleset:
    """One rule, at the share of its error rate that each look has."""
    ruleset, _ = load_rules([("r.yaml", f"version: 1\nrules: [t within {tolerance} of baseline]\n".encode())], None)
    assert ruleset is not None
    return shared_among(ruleset, looks)


def last_verdict(change: float, tolerance: str, seed: int, looks: int = 6) -> tuple[Verdict, int]:
    """What is said of a change in the end, and after how many runs; the base has five."""
    ruleset = rules(tolerance, looks)
    rng = np.random.default_rng(seed)
    base = tuple(run(rng, 1.0) for _ in range(5))
    new: list[Run] = []
    for _ in range(looks):
        new.append(run(rng, 1 + change))
        case = Case(ruleset, tuple(new), Baseline(runs=base), date(2026, 1, 1))
        (verdict,) = judge(case)
        if not is_open(verdict):
            break
    return verdict, len(new)


@pytest.mark.parametrize(
    ("change", "tolerance", "wrong", "most"),
    [
        (0.0, "5%", "fail", 0.01),
        (0.0, "1%", "fail", 0.05),
        (0.05, "5%", "pass", 0.05),
        (0.05, "5%", "fail early", 0.05),
    ],
)
def test_the_rate_of_wrong_answers_is_kept_over_all_looks(
    change: float, tolerance: str, wrong: str, most: float
) -> None:
    verdicts = [last_verdict(change, tolerance, seed)[0] for seed in range(TRIALS)]
    early = wrong == "fail early"  # at the tolerance itself, a suspicion at the last look is even odds
    hits = sum(v.outcome == wrong.split(maxsplit=1)[0] and not (early and v.suspect) for v in verdicts)
    assert hits / TRIALS <= most + 2 * (most * (1 - most) / TRIALS) ** 0.5


def test_clear_cases_stop_early() -> None:
    counts = [last_verdict(change, "5%", seed)[1] for change in (0.0, 0.2) for seed in range(20)]
    assert np.mean(counts) < 3
