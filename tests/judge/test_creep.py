"""Slow creep along a history: the warning, the anchor and its budget, through the judge and the command line."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from conftest import Done, steady, write_log, write_rules
from msgspec.structs import replace

from perfgate.analysis import stored_runs
from perfgate.analysis.stored_runs import drifts
from perfgate.core import Baseline, Key, Location, Run, Series
from perfgate.core.run_history import ChangePoint
from perfgate.judge.evidence import Case
from perfgate.judge.measure import Method
from perfgate.judge.subjects import JudgedRuns
from perfgate.judge.verdicts import judge
from perfgate.rules.ruleset import Rule, Ruleset, Settings
from perfgate.rules.syntax.grammar import parse_sentence
from perfgate.stats import change_points

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
    case = case_at(history, 30, "forward within 5% of baseline")
    evidence = JudgedRuns.of(case.new, case.baseline, {})
    (problem,) = drifts(case, evidence)
    assert (problem.severity, problem.key, problem.at.line) == ("warning", Key("forward"), 3)
    for words in ("forward rose by 9.", "at run 6 of the 16 kept runs (s/e/level/020.json)", "`within 5% of anchor`"):
        assert words in problem.message
    assert judge(case, evidence)[0].exit_code == 0


def warnings(values: list[float], sentence: str = "forward within 5% of baseline") -> list[str]:
    """The warnings of one history; each run has a commit."""
    runs = [replace(run(i, x), commit=f"{i:040x}") for i, x in enumerate(values)]
    rule = Rule(parse_sentence(sentence), Location("rules.yaml", 3))
    case = Case(Ruleset("default", (rule,), {}), (runs[-1],), Baseline("s/e/level", tuple(runs[:-1])), date(2026, 1, 1))
    return [problem.message for problem in drifts(case, JudgedRuns.of(case.new, case.baseline, {}))]


WANDER = [1.0, 1.004, 0.997, 1.002, 0.998, 1.003, 1.001]
UP = [1.06 * x for x in WANDER]
HISTORIES = [
    # the history, and the beginning of its warnings
    ("a step", WANDER + UP, ["rose by 6.0% ("]),
    ("a step that went back", WANDER * 2 + UP * 2 + WANDER * 2, []),
    ("a step back of a part", WANDER * 2 + UP * 2 + [1.03 * x for x in WANDER] * 2, []),
    ("two steps", WANDER * 2 + UP * 2 + [1.2 * x for x in WANDER] * 2, ["rose by 6.0% (", "rose by 13.2% ("]),
    ("better, then worse", UP * 2 + WANDER * 2 + UP * 2, ["rose by 6.0% ("]),
    ("better", UP + WANDER, []),
    ("four runs", WANDER + UP[:4], []),
    ("five runs", WANDER + UP[:5], ["rose by 5.9% ("]),
    ("nothing", WANDER * 4, []),
]


@pytest.mark.parametrize(("values", "expected"), [case[1:] for case in HISTORIES], ids=[case[0] for case in HISTORIES])
def test_a_lasting_change_for_the_worse_is_a_warning(values: list[float], expected: list[str]) -> None:
    found = [message.removeprefix("forward ") for message in warnings(values)]
    assert [message[: message.index("(") + 1] for message in found] == expected


def test_the_warning_names_the_commit() -> None:
    (message,) = warnings(WANDER + UP)
    assert "at run 8 of the 14 kept runs (s/e/level/007.json, commit 000000000000)" in message


def test_either_direction_is_worse_if_the_rule_says_so() -> None:
    (message,) = warnings(UP + WANDER, "forward within ±2% of baseline")
    assert message.startswith("forward fell by 5.7% (")


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


def drifting(runs: list[Run], anchor: list[Run], place: str = "s/e/level") -> list[str]:
    """The metrics that drift, of which the last run is new."""
    rule = Rule(parse_sentence("forward within 5% of baseline"), Location("rules.yaml", 3))
    baseline = Baseline(place, tuple(runs[:-1]), tuple(anchor))
    case = Case(Ruleset("default", (rule,), {}), (runs[-1],), baseline, date(2026, 1, 1))
    return [problem.key.metric for problem in drifts(case, JudgedRuns.of(case.new, case.baseline, {})) if problem.key]


LATER = [
    # what follows five runs of 1 s, and whether it drifts
    ([1.0] * 6, False),
    ([1.2] * 6, True),
    ([1.2] * 5 + [0.0], False),
    ([1.2, 1.2, 0.0, 1.2, 1.2, 1.2], False),
    ([1.2, 1.2, None, 1.2, 1.2], False),
    ([1.2, 1.2, None, 1.2, 1.2, 1.2], True),
    ([1.2, 1.2, 1.2, 1.2, 1.2, None], True),
]


@pytest.mark.parametrize(("later", "drifts_away"), LATER)
def test_runs_without_the_metric_are_left_out(later: list[float | None], drifts_away: bool) -> None:
    held = [run(i, 1.0 if x is None else x) for i, x in enumerate([1.0] * 5 + later)]
    runs = [replace(one, series=()) if x is None else one for one, x in zip(held, [1.0] * 5 + later, strict=True)]
    assert drifting(runs, []) == ["forward"] * drifts_away


def test_an_anchor_of_another_level_is_no_part_of_the_history() -> None:
    runs = [run(i, x) for i, x in enumerate([1.0] * 5 + [1.2] * 6)]
    assert drifting(runs, runs[:3], "s/e/other") == ["forward"]
    assert drifting(runs[5:], runs[:5], "s/e/other") == []
    assert drifting(runs[5:], runs[:5]) == ["forward"]
    assert drifting(runs[3:], runs[:5]) == ["forward"]  # a run of the anchor is stored once


Searched = list[tuple[list[float], list[float]]]


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> Searched:
    """The values and errors that are searched for changes; each search finds the same two."""
    found: Searched = []
    points = [
        ChangePoint(5, 0.5, 0.4, 0.6, 0.999, 1.0, 1.5, 5, 5, True),
        ChangePoint(7, 0, 0, 0, 0.98, 1, 1, 7, 7, True),
    ]

    def find(values: list[float], *, errors: list[float], better: str) -> tuple[ChangePoint, ...]:
        found.append((values, errors))
        return tuple(points)

    monkeypatch.setattr(change_points, "find_change_points", find)
    return found


def noisy(number: int) -> Run:
    values = np.array(steady(1.0, n=40, spread=0.1, seed=number))
    return Run(f"s/e/level/{number:03}.json", "test", (Series(Key("forward"), "s", "samples", values),))


def test_what_is_searched_for_changes_are_the_runs_with_their_errors(searched: Searched) -> None:
    runs = [*(run(i, 1.0) for i in range(5)), *(noisy(i) for i in range(5, 10))]
    assert drifting(runs, []) == ["forward"]
    ((values, errors),) = searched
    measures = [Method("mean").measure(one.series[0]) for one in runs]
    assert values == [one.value for one in measures]
    assert errors[:5] == [0.0] * 5
    expected = [(one.value or 0.0) * (one.within_variance or 0.0) ** 0.5 for one in measures[5:]]
    assert errors[5:] == pytest.approx(expected)
    assert min(errors[5:]) == pytest.approx(0.1 / 40**0.5, rel=0.5)


def test_fewer_than_ten_runs_are_not_searched(searched: Searched) -> None:
    assert drifting([run(i, 1.0) for i in range(9)], []) == []
    assert not searched
    assert drifting([run(i, 1.0) for i in range(10)], []) == ["forward"]


@pytest.mark.parametrize(("least", "count"), [(0.97, 2), (0.98, 1), (0.99, 1), (0.999, 0)])
def test_only_likely_changes_are_reported(
    searched: Searched, monkeypatch: pytest.MonkeyPatch, least: float, count: int
) -> None:
    monkeypatch.setattr(stored_runs, "LEAST_PROBABILITY", least)
    assert len(drifting([run(i, 1.0) for i in range(10)], [])) == count
    assert len(searched) == 1


@pytest.mark.parametrize(("levels", "outcome"), [((1.17, 1.172), "fail"), ((1.17,), "pass"), ((1.0, 1.001), "pass")])
def test_several_new_runs_are_compared_with_the_anchor_alone_too(levels: tuple[float, ...], outcome: str) -> None:
    """The latest five runs are three of the level and two new ones: together they are within 10 %."""
    rule = Rule(parse_sentence("forward within 10% of anchor"), Location("rules.yaml", 3), Settings())
    stored = tuple(run(i, 1 + 0.001 * (i % 3)) for i in range(3))
    new = tuple(run(10 + i, level) for i, level in enumerate(levels))
    (verdict,) = judge(
        Case(Ruleset("default", (rule,), {}), new, Baseline("s/e/level", stored, stored), date(2026, 1, 1))
    )
    assert verdict.outcome == outcome
    assert sum(one.side == "new" for one in verdict.runs) == (2 if outcome == "fail" else 3 + len(levels))


def test_an_anchor_that_is_partly_of_another_level_is_no_reference() -> None:
    level = [run(i, 1.2) for i in range(11)]
    own, other = [run(i, 1.0) for i in range(5)], [replace(run(9, 1.0), source="s/e/other/009.json")]
    assert drifting(level, own) == ["forward"]
    assert drifting(level, [*own, *other]) == []


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
    assert "warning: forward median rose by " in said
