"""`perfgate compare`: two sets of runs, no rules."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Done, steady, write_log, write_results

Command = Callable[..., Done]


@pytest.fixture
def logs(folder: Path) -> Path:
    for seed in range(1, 11):
        write_log(folder / f"base{seed}.log", forward=steady(100, seed=seed), old=steady(1, seed=seed))
    write_log(folder / "same.log", forward=steady(100, seed=4), fresh=steady(2))
    write_log(folder / "slow.log", forward=steady(130, seed=5), fresh=steady(2))
    return folder


BASE = tuple(f"base{seed}.log" for seed in range(1, 11))


@pytest.mark.parametrize(
    ("words", "code", "outcome"),
    [
        ([*BASE, "--new", "same.log"], 0, "pass"),
        ([*BASE, "--new", "slow.log"], 1, "fail"),
        ([*BASE, "--new", "slow.log", "--tolerance", "50%"], 0, "pass"),
        ([*BASE, "--new", "slow.log", "--statistic", "mean"], 1, "fail"),
        (["--tolerance", "50%", *BASE, "--new", "slow.log"], 0, "pass"),
        (["--new", "slow.log", "--quiet", "same.log", "--json=r2.json", "base1.log"], 2, None),  # no base left
        ([*BASE, "--new", "slow.log", "same.log"], 3, "undecided"),
        ([*BASE, "--new", "slow.log", "--new", "same.log"], 3, "undecided"),
        ([*BASE, "--new=slow.log", "same.log"], 3, "undecided"),
        ([*BASE, "--no-github", "--new", "slow.log", "--no-github", "same.log"], 3, "undecided"),
        ([*BASE, "--new", "slow.log", "-vv", "same.log"], 3, "undecided"),
    ],
)
def test_the_sides_and_their_outcome(
    perfgate: Command, logs: Path, words: list[str], code: int, outcome: str | None
) -> None:
    done = perfgate("compare", *words, "--json", "report.json")
    assert done.code == code
    if outcome:
        (verdict,) = json.loads((logs / "report.json").read_text())["verdicts"]
        assert (verdict["metric"], verdict["outcome"]) == ("forward", outcome)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["base1.log", "--new", "base1.log"], 2, "given twice"),
        (["base1.log", "--new", "same.log", "--tolerance", "2 ms"], 2, "percentage"),
        (["base1.log", "--new", "same.log", "--statistic", "best"], 2, "no such statistic"),
        (["base1.log"], 2, "--new"),
        (
            ["base1.log", "--new", "absent.log"],
            3,
            "file not found; did you mean base9.log?\n\nERROR  nothing was judged, 1 problem",
        ),
    ],
)
def test_what_cannot_be_compared(perfgate: Command, logs: Path, words: list[str], code: int, said: str) -> None:
    done = perfgate("compare", *words)
    assert done.code == code
    assert said in done.said


def test_what_only_one_side_holds_is_said(perfgate: Command, logs: Path) -> None:
    done = perfgate("compare", *BASE, "--new", "same.log")
    assert "only the base side has old" in done.out
    assert "only the new side has fresh" in done.out


def test_metrics_that_are_0_or_absent_in_some_runs_are_said(perfgate: Command, folder: Path) -> None:
    """They were said to be on one side only."""
    forward = {"metric": "forward", "unit": "s", "values": steady(0.1)}
    wait = {"metric": "wait", "unit": "s", "values": [0.0] * 9}
    base = [write_results(folder / "base.json", forward, wait)]
    new = write_results(folder / "new.json", forward, {**wait, "values": [5.0] * 9})
    lacking = write_results(folder / "lacking.json", forward)
    done = perfgate("compare", *base, "--new", new)
    assert "not compared, because some runs have no value or only 0: wait" in done.said
    assert "only the" not in done.said
    assert "some runs have no value or only 0: wait" in perfgate("compare", *base, "--new", new, lacking).said
    assert "only the base side has wait" in perfgate("compare", *base, "--new", lacking).said


def test_sides_without_a_common_metric_are_not_a_pass(perfgate: Command, logs: Path) -> None:
    (logs / "other.log").write_text("[Rank 0] time (ms) | other: 1.00\n" * 20)
    done = perfgate("compare", *BASE, "--new", "other.log")
    assert (done.code, "the two sides have no metric in common" in done.said) == (3, True)


def test_a_metric_that_holds_no_number_any_more_is_not_a_pass(perfgate: Command, logs: Path) -> None:
    (logs / "nan.log").write_text("[Rank 0] time (ms) | forward: nan | old: 1.00\n" * 20)
    assert perfgate("compare", *BASE, "--new", "nan.log").code == 3


def test_the_metrics_of_one_unit_are_summed_up(perfgate: Command, folder: Path) -> None:
    for name, forward, backward in (("base", 100, 200), ("new", 110, 200)):
        times = [
            {"metric": metric, "unit": "ms", "values": [float(value)] * 30}
            for metric, value in (("forward", forward), ("backward", backward))
        ]
        rate = {"metric": "rate", "unit": "samples/s", "values": [1000.0] * 30}
        write_results(folder / f"{name}.json", *times, rate)
    done = perfgate("compare", "base.json", "--new", "new.json", "--json", "report.json")
    assert "geometric mean of 2 metrics in s: +4.9%" in done.out
    (mean,) = json.loads((folder / "report.json").read_text())["geometric_means"]
    assert (mean["unit"], mean["verdicts"], mean["change"]) == ("s", 2, pytest.approx(1.1**0.5 - 1))
    assert "geometric mean of 2 metrics in s: +4.9%" in perfgate("report", "report.json").out
