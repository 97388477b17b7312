"""Slow creep along a history: the warning, the anchor and its budget, through the judge and the command line."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from conftest import Done, steady, write_log, write_rules

from perfgate.analysis.drift import drifts
from perfgate.core import Baseline, CalibratedPrior, Key, Location, Run, Series
from perfgate.judge.case import Case
from perfgate.judge.subjects import JudgedRuns
from perfgate.judge.verdicts import judge
from perfgate.rules.ruleset import Rule, Ruleset, Settings
from perfgate.rules.syntax.grammar import parse_sentence

Command = Callable[..., Done]


def run(number: int, centre: float) -> Run:
    values = np.array([centre])
    return Run(f"s/e/level/{number:03}.json", "test", (Series(Key("forward"), "s", "value", values),))


def histories(count: int, creep: float, seed: int, spread: float = 0.007) -> list[list[Run]]:
    """Histories of 60 runs that differ by `spread`, each `creep` slower than the one before."""
    rng = np.random.default_rng(seed)
    logs = spread * rng.standard_normal((count, 60)) + creep * np.arange(60)
    return [[run(i, float(x)) for i, x in enumerate(np.exp(one))] for one in logs]


def case_at(history: list[Run], n: int, sentence: str, budget: float | None = None) -> Case:
    """Run n is checked; the level keeps its first five runs, for the anchor, and the last ten before it."""
    rule = Rule(parse_sentence(sentence), Location("rules.yaml", 3), Settings(budget=budget))
    stored = tuple(history[max(0, n - 10) : n])
    baseline = Baseline("s/e/level", stored, tuple(history[:5]))
    return Case(Ruleset("default", (rule,), {}), (history[n],), baseline, date(2026, 1, 1))


def first_failure(history: list[Run]) -> int | None:
    """The first run that fails its budget of 2 % against the anchor, though a rolling baseline accepts each one."""
    for n in range(6, 60, 2):
        rolling, budget = judge(case_at(history, n, "forward within 5% of baseline", budget=0.02))
        assert rolling.outcome != "fail"
        assert budget.against == "anchor"
        if budget.outcome == "fail":
            return n
    return None


def test_a_creep_that_no_comparison_sees_exceeds_its_budget_within_25_runs() -> None:
    found = [first_failure(history) for history in histories(20, 0.002, seed=11)]
    assert all(n is not None and n <= 30 for n in found)  # 25 runs after the anchor's five
    assert np.median(found) <= 26


def test_an_unchanged_history_keeps_its_budget() -> None:
    assert sum(first_failure(history) is not None for history in histories(20, 0.0, seed=12)) == 0


def test_the_warning_says_what_it_saw() -> None:
    (history,) = histories(1, 0.004, seed=13)
    case = case_at(history, 20, "forward within 5% of baseline")
    evidence = JudgedRuns.of(case.new, case.baseline, {})
    (problem,) = drifts(case, evidence)
    assert (problem.severity, problem.key, problem.at.line) == ("warning", Key("forward"), 3)
    for words in ("forward drifts", "the last 11 runs are on average +", "the warning starts at 8"):
        assert words in problem.message
    assert judge(case, evidence)[0].exit_code == 0


@pytest.mark.parametrize("sentence", ["forward under 1 h", "forward - 2 * forward within 5% of baseline"])
def test_what_is_not_compared_or_has_no_logarithm_does_not_drift(sentence: str) -> None:
    (history,) = histories(1, 0.004, seed=13)
    case = case_at(history, 20, sentence)
    assert drifts(case, JudgedRuns.of(case.new, case.baseline, {})) == []


def test_an_approved_step_is_no_drift() -> None:
    """The runs of a new level are measured from its own first runs, wherever the anchor is."""
    old, new = histories(2, 0.0, seed=14)
    slower = [run(i, 1.1 * float(found.series[0].values[0])) for i, found in enumerate(new)]
    stored = tuple(slower[:10])
    rule = Rule(parse_sentence("forward within 5% of baseline"), Location("rules.yaml", 3))
    for place, expected in (("s/e/level", 1), ("s/e/later", 0)):
        baseline = Baseline(place, stored, tuple(old[:5]) if place == "s/e/later" else tuple(old[55:]))
        case = Case(Ruleset("default", (rule,), {}), (slower[11],), baseline, date(2026, 1, 1))
        assert len(drifts(case, JudgedRuns.of(case.new, case.baseline, {}))) == expected


def drifting(runs: list[Run], anchor: list[Run], *priors: CalibratedPrior) -> list[str]:
    """The metrics that drift, of which the last run is new."""
    rule = Rule(parse_sentence("forward within 5% of baseline"), Location("rules.yaml", 3))
    baseline = Baseline("s/e/level", tuple(runs[:-1]), tuple(anchor), priors=priors)
    case = Case(Ruleset("default", (rule,), {}), (runs[-1],), baseline, date(2026, 1, 1))
    return [problem.key.metric for problem in drifts(case, JudgedRuns.of(case.new, case.baseline, {})) if problem.key]


LATER = [
    # what follows five runs of 1 s, and whether it drifts
    ([1.0] * 6, False),
    ([1.2] * 6, True),
    ([1.2] * 5 + [0.0], False),
    ([1.2, 1.2, 0.0, 1.2, 1.2, 1.2], False),
    ([1.2, 1.2, None, 1.2, 1.2, 1.2], False),
    ([1.2, 1.2, 1.2, 1.2, 1.2, None], False),
]


@pytest.mark.parametrize(("later", "drifts_away"), LATER)
def test_runs_that_lack_the_metric_or_hold_nothing_are_no_history(later: list[float | None], drifts_away: bool) -> None:
    held = [run(i, 1.0 if x is None else x) for i, x in enumerate([1.0] * 5 + later)]
    runs = [replace(one, series=()) if x is None else one for one, x in zip(held, [1.0] * 5 + later, strict=True)]
    assert drifting(runs, []) == ["forward"] * drifts_away


def test_an_anchor_that_is_partly_of_another_level_is_no_reference() -> None:
    level = [run(i, 1.2) for i in range(11)]
    own, other = [run(i, 1.0) for i in range(5)], [replace(run(9, 1.0), source="s/e/other/009.json")]
    assert drifting(level, own) == ["forward"]
    assert drifting(level, [*own, *other]) == []


@pytest.mark.parametrize(("later", "drifts_away"), [(4, False), (5, True)])
def test_a_sum_of_exactly_what_warns_does_not_warn(later: int, drifts_away: bool) -> None:
    """Each later run is 2.5 standard deviations off, of which 0.5 are slack: four of them sum up to 8."""
    noise = CalibratedPrior(Key("forward"), "mean", "worst", 1.5, 0.5, 5)  # with five equal runs, half of 1
    centre = math.exp(1.25)
    assert math.log(centre) == 1.25
    runs = [run(i, 1.0 if i < 5 else centre) for i in range(5 + later)]
    assert drifting(runs, [], noise) == ["forward"] * drifts_away


def test_rotation_keeps_the_anchor_so_that_a_creep_is_found(
    perfgate: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through the command line: 30 runs, each .4 % slower, each added in place of the oldest."""
    rng = np.random.default_rng(15)
    write_rules(folder, "forward within 20% of baseline")
    budget = write_rules(folder, "forward within 5% of anchor", name="budget/rules.yaml")
    names = []
    for i in range(30):
        centre = 100 * math.exp(0.004 * i + 0.003 * rng.standard_normal())
        names.append(write_log(folder / f"run{i}.log", forward=steady(centre, n=60, seed=i)).name)
    assert perfgate("baseline", "approve", *names[:5], "--reason", "first").code == 0
    anchor = sorted(path.name for path in folder.glob("baselines/*/*/*/*.json"))
    for day, name in enumerate(names[5:29], 1):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", str(1767225600 + 86400 * day))
        assert perfgate("baseline", "add", name, "--rotate").code == 0
    kept = sorted(path.name for path in folder.glob("baselines/*/*/*/*.json"))
    assert len(kept) == 15  # the newest ten, and the five of the anchor
    assert kept[:5] == anchor
    done = perfgate("check", names[29], "--rules", budget, "--json", "-")
    (verdict,) = json.loads(done.out)["verdicts"]
    assert (verdict["outcome"], verdict["against"]) == ("fail", "anchor")
    said = " ".join(perfgate("check", names[29]).out.split())
    assert "warning: forward median drifts" in said
