"""`perfgate rules`: what it says of each rule, before any new run is made."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import Done, approve_steady, steady, write_log, write_results, write_rules

Command = Callable[..., Done]


def approve(perfgate: Command, folder: Path, *rules: str, runs: int = 5, spread: float = 0.01, n: int = 200) -> None:
    """A level of `runs` runs whose forward differs by `spread` from run to run."""
    rng = np.random.default_rng(4)
    write_rules(folder, *rules)
    names = [f"run{i}.log" for i in range(runs)]
    for i, name in enumerate(names):
        centre = 100 * math.exp(spread * rng.standard_normal())
        write_log(folder / name, forward=steady(centre, n=n, seed=i), noisy=steady(10, n=n, spread=0.2, seed=i))
    assert perfgate("baseline", "approve", *names, "--reason", "first").code == 0


def plans(perfgate: Command, *words: str) -> list[dict[str, object]]:
    done = perfgate("rules", "--json", *words)
    return [plan for table in json.loads(done.out)["tables"] for plan in table["plans"]]


def test_what_is_planned_is_what_check_then_says(perfgate: Command, folder: Path) -> None:
    approve(perfgate, folder, "forward within 5% of baseline")
    write_log(folder / "new.log", forward=steady(100, seed=99), noisy=[1, 2, 3, 4, 5])
    (plan,) = plans(perfgate)
    verdict = json.loads(perfgate("check", "new.log", "--json", "-").out)["verdicts"][0]
    assert plan["runs_needed"] == verdict["runs_needed"]
    assert plan["detectable"] == pytest.approx(verdict["minimum_detectable_change"], rel=0.02)  # its own noise adds
    assert plan["base_runs"] == 5


def test_the_change_that_is_seen_is_seen_by_check(perfgate: Command, folder: Path) -> None:
    """Twenty new runs, each as much slower as the plan says: about 80 % do not pass."""
    approve(perfgate, folder, "forward within 5% of baseline", spread=0.02)
    (plan,) = plans(perfgate)
    rng, seen = np.random.default_rng(8), 0
    for i in range(20):
        centre = 100 * (1 + plan["detectable"]) * math.exp(0.02 * rng.standard_normal())
        write_log(folder / "new.log", forward=steady(centre, seed=100 + i))
        said = perfgate("check", "new.log", "-q").out
        seen += said.startswith(("FAIL", "UNDECIDED"))
    assert 12 <= seen <= 20


RULES = [
    # rule                                  runs  spread  n     what the plan says
    ("forward within 10% of baseline", 5, 0.01, 200, "enough: an unchanged program passes with 1 new run"),
    ("forward within 50% of baseline", 1, 0.01, 200, "more base runs: with 2 of them"),
    ("forward within 2% of baseline", 5, 0.015, 200, "more runs: an unchanged program passes with"),
    (
        "forward within 2% of baseline",
        1,
        0.01,
        200,
        "more base runs: with 2 of them, an unchanged program passes with 2",
    ),
    ("forward within 1% of baseline", 5, 0.1, 200, "pairs are cheaper (`perfgate run --paired`)"),
    ("noisy within 1% of baseline", 5, 0.01, 200, "more steps: the noise is inside the runs"),
    ("forward p95 under 200 ms", 1, 0.01, 200, "enough: a run like the stored ones can pass"),
    ("forward p99 under 200 ms", 1, 0.01, 200, "more steps: 1.6 times as many, or 2 runs"),
    ("forward mean under 200 ms", 1, 0.01, 200, "it needs no plan"),
    ("forward at most 1.1x the median rank", 1, 0.01, 200, "compares the ranks of one run"),
    ("forward count within 1% of baseline", 3, 0.01, 200, "compared without noise"),
    ("forward - 200 * forward within 1% of baseline", 3, 0.01, 200, "no relative change"),
    ("forwrad within 1% of baseline", 3, 0.01, 200, "the stored runs have no metric forwrad"),
]


@pytest.mark.parametrize(("rule", "runs", "spread", "n", "said"), RULES, ids=[f"{row[0]}: {row[-1]}" for row in RULES])
def test_what_would_help(
    perfgate: Command, folder: Path, rule: str, runs: int, spread: float, n: int, said: str
) -> None:
    approve(perfgate, folder, rule, "forward max under 1 h", "noisy max under 1 h", runs=runs, spread=spread, n=n)
    plan = plans(perfgate)[0]
    assert said in str(plan["trouble"] or plan["advice"])
    is_enough = plan["trouble"] or "enough" in said
    assert is_enough or said in " ".join(perfgate("rules").out.split())


@pytest.mark.parametrize(
    ("sentence", "head", "at_worst"),
    [
        ("forward within 5% of baseline", "", 0.1),
        ("forward within 5% of baseline", "defaults: {at_worst: 30%}\n", 0.3),
        ("forward within 5 ms of baseline", "", 0.1),
        ("forward within 5% of anchor", "", None),
        ("forward under 1 s", "", None),
    ],
)
def test_a_plan_says_what_exit_0_excludes(
    perfgate: Command, folder: Path, sentence: str, head: str, at_worst: float | None
) -> None:
    write_rules(folder, sentence, head=head)
    approve_steady(perfgate, write_log(folder / "base.log", forward=steady(100)), 5)
    (plan,) = plans(perfgate)
    assert plan["at_worst"] == (None if at_worst is None else pytest.approx(at_worst, rel=0.01))


@pytest.mark.parametrize(("runs", "needed"), [(1, 2), (2, 1), (3, 1)])
def test_a_plan_counts_the_three_runs_that_show_some_noise(
    perfgate: Command, folder: Path, runs: int, needed: int
) -> None:
    write_rules(folder, "forward within 5% of baseline", head="defaults: {at_worst: 1000%}\n")
    approve_steady(perfgate, write_log(folder / "base.log", forward=steady(100)), runs)
    assert plans(perfgate)[0]["runs_needed"] == needed


def test_a_calibrated_prior_is_planned_with(perfgate: Command, folder: Path) -> None:
    approve(perfgate, folder, "forward within 5% of baseline", runs=6)
    before = plans(perfgate)[0]
    assert perfgate("rules", "--calibrate", *(f"run{i}.log" for i in range(6))).code == 0
    after = plans(perfgate)[0]
    assert (before["calibrated"], after["calibrated"]) == (False, True)
    assert after["detectable"] < before["detectable"]


def test_every_environment_is_planned_and_facts_choose(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward within 5% of baseline", "forward within 10% of anchor")
    for gpu in ("A", "B"):
        series = {"metric": "forward", "unit": "ms", "values": steady(100, seed=ord(gpu))}
        write_results(folder / f"{gpu}.json", series, environment={"gpu": gpu})
        perfgate("baseline", "approve", f"{gpu}.json", "--reason", "first")
    assert len(plans(perfgate)) == 4
    chosen = plans(perfgate, "--env", "gpu=A")
    assert len(chosen) == 2
    assert all("gpu-a" in plan["baseline"] for plan in chosen)
    assert [plan["new_runs"] for plan in chosen] == [1, 5]
    assert [plan["confidence"] for plan in chosen] == [0.95, 0.99]
    assert perfgate("rules", "--env", "gpu=C").code == 3


def test_without_stored_runs_there_is_nothing_to_plan(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward within 5% of baseline")
    done = perfgate("rules")
    assert (done.code, "approve a first run" in done.err) == (3, True)


def test_damage_is_said_and_exits_3(perfgate: Command, folder: Path) -> None:
    approve(perfgate, folder, "forward within 5% of baseline")
    path = next(folder.glob("baselines/*/*/*/*.json"))
    path.write_text("{")
    done = perfgate("rules")
    assert (done.code, path.name in done.err) == (3, True)


def test_mistakes_in_the_rules_are_usage(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward within of baseline")
    assert perfgate("rules").code == 2


@pytest.mark.parametrize("columns", [60, 100, 160])
def test_the_table_fits_the_terminal(
    perfgate: Command, folder: Path, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    approve(perfgate, folder, "forward within 5% and 2 ms of baseline", "forward p99 under 200 ms")
    lines = perfgate("rules").out.splitlines()
    assert max(map(len, lines)) <= columns
    assert any("299 values, has " in line for line in lines)
