"""Runs that are made because the first one left a doubt are all judged, also if time ends or a run fails meanwhile."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from perfgate.measuring import until_settled as module
from perfgate.measuring.until_settled import MeasuringOptions, run_again_if_suspect, until_settled


@pytest.mark.parametrize(
    ("budget", "judged"),
    [
        (None, [1, 5]),  # the first run, then all of them
        (35, [1, 3]),  # the time ends after the third
        (55, [1, 3]),  # the third was twice as long, and so might be the fourth
        (5, [1]),
    ],
)
def test_all_runs_are_judged(
    monkeypatch: pytest.MonkeyPatch, folder: Path, budget: float | None, judged: list[int]
) -> None:
    clock = [0.0]
    numbers: list[int] = []

    def measure(number: int) -> list[Path]:
        clock[0] += 10 if number < 3 else 20
        return [Path(str(at)) for at in range(number)]

    def judge(paths: Any, facts: Any) -> Any:
        numbers.append(len(paths))
        return SimpleNamespace(verdicts=["in doubt"], problems=[])

    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(module, "is_open", lambda verdict: True)
    monkeypatch.setattr(module.in_short, "names", str)
    options = MeasuringOptions(keep=str(folder), most_runs=5, stop="unless-suspect", time_budget=budget)
    until_settled(options, measure, judge, "run", lambda line: None)
    assert numbers == judged


def test_runs_before_a_failed_one_are_judged(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    program = (
        "import os; n = int(os.environ['PERFGATE_RUN']); n < 4 and open('out.json', 'x').write(str(n)); exit(n > 3)"
    )
    judged: list[list[str]] = []

    def judge(paths: Any, facts: Any) -> Any:
        judged.append([path.read_text() for path in paths])
        return SimpleNamespace(verdicts=["in doubt"], problems=[])

    monkeypatch.setattr(module, "is_open", lambda verdict: True)
    monkeypatch.setattr(module.in_short, "names", str)
    monkeypatch.setattr(module, "with_problems", lambda report, problems: problems)
    options = MeasuringOptions(results=("out.json",), most_runs=6, stop="unless-suspect")
    words = (sys.executable, "-c", program)
    problems: Any = run_again_if_suspect(options, words, (), judge, lambda line: None)
    assert judged == [["1"], ["1", "2", "3"]]
    assert "run 4: the command ended with" in problems[0].message


@pytest.mark.parametrize("is_absolute", [False, True])
def test_no_glob_finds_the_folder_of_the_runs(folder: Path, is_absolute: bool) -> None:
    keep = Path("perfgate-runs").absolute() if is_absolute else Path("perfgate-runs")
    (keep / "1").mkdir(parents=True)
    for path in (keep / "1" / "old.json", Path("profile.json")):
        path.write_text("{}")
    assert module._matches("p*", keep) == module._matches("**/*.json", keep) == [Path("profile.json")]


def test_old_results_that_two_globs_match_move_once(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    Path("out.json").write_text("old")
    monkeypatch.setattr(module, "is_open", lambda verdict: True)
    options = MeasuringOptions(results=("*.json", "o*.json"), most_runs=1, stop="unless-suspect")
    judged: list[list[str]] = []

    def judge(paths: Any, facts: Any) -> Any:
        judged.append([path.read_text() for path in paths])
        return SimpleNamespace(verdicts=[], problems=[])

    words = (sys.executable, "-c", "open('out.json', 'x').write('new')")
    run_again_if_suspect(options, words, (), judge, lambda line: None)
    assert judged == [["new"]]
    assert Path("perfgate-runs/before/out.json").read_text() == "old"
