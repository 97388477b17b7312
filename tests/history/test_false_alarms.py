"""`perfgate history quarantine`: which rules raise false alarms in remembered runs of unchanged code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import Done, write_rules
from scipy import stats

from perfgate.stats.distributions import share_bounds

Command = Callable[..., Done]
NORMAL = np.random.default_rng(5).standard_normal(120)
STALLS = 0.4 * (np.arange(120) % 13 == 12)


@pytest.fixture
def remembered(perfgate: Command, folder: Path) -> Callable[[np.ndarray], None]:
    """A function that remembers runs of main with these logarithms of times around 100 ms."""

    def remember(logs: np.ndarray) -> None:
        rows = [
            f"2026-{1 + i // 28:02}-{1 + i % 28:02}T00:00:00Z,{i:010x},forward,{100 * np.exp(log)},ms,main"
            for i, log in enumerate(logs)
        ]
        (folder / "old.csv").write_text("\n".join(["time,commit,metric,value,unit,ref", *rows]))
        assert perfgate("history", "import", "old.csv").code == 0

    return remember


@pytest.mark.parametrize(
    ("logs", "rule", "red"),
    [
        (0.01 * NORMAL, "forward within 5% of baseline", 0),
        (0.01 * NORMAL + STALLS, "forward within 5% of baseline", 9),
        (0.01 * NORMAL + STALLS, "forward under 130 ms", 9),
        (0.01 * NORMAL + 0.1 * (np.arange(120) >= 60), "forward within 5% of baseline", 0),  # a real change
        (0.01 * NORMAL + 0.1 * (np.arange(120) >= 60), "forward under 105 ms", 0),  # broken by every run of a level
        (0.01 * NORMAL + 0.3 * np.isin(np.arange(120), (70, 71, 72)), "forward within 5% of baseline", 1),
    ],
    ids=["noise", "stalls", "stalls above a limit", "change", "broken limit", "excursion"],
)
def test_only_red_runs_of_unchanged_code_are_false_alarms(
    perfgate: Command, folder: Path, remembered: Callable[[np.ndarray], None], logs: np.ndarray, rule: str, red: int
) -> None:
    write_rules(folder, rule)
    remembered(logs)
    done = perfgate("history", "quarantine")
    (row,) = [line.split("mean") for line in done.out.splitlines() if line.startswith(rule)]
    assert int(row[-1].split()[0]) == red
    assert ("    quarantine: {until: 2026-01-31, reason: " in done.out) == (red > 3)


def test_the_proposed_line_is_a_setting_of_the_rule(
    perfgate: Command, folder: Path, remembered: Callable[[np.ndarray], None]
) -> None:
    write_rules(folder, "forward under 130 ms")
    remembered(0.01 * NORMAL + STALLS)
    (line,) = [line for line in perfgate("history", "quarantine").out.splitlines() if "quarantine: {" in line]
    assert line == '    quarantine: {until: 2026-01-31, reason: "9 of 115 unchanged runs of main were red"}'
    Path("rules/rules.yaml").write_text(f"version: 1\nrules:\n  - assert: forward under 130 ms\n{line}\n")
    assert "does not block until 2026-01-31 (quarantine): 9 of 115" in perfgate("rules", "explain").out


def test_nothing_to_replay_is_said(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward within 5% of baseline")
    done = perfgate("history", "quarantine")
    assert done.code == 3
    assert "no rule of default can be replayed with the history in baselines" in done.said


def test_rules_of_another_suite_are_named(perfgate: Command, folder: Path) -> None:
    Path("old.csv").write_text("time,commit,metric,value\n2026-01-01,0a1b2c3,forward,1\n")
    assert perfgate("history", "import", "old.csv", "--baselines", "old").code == 0
    write_rules(folder, "forward under 130 ms", head="suite: gpt\n")
    done = perfgate("history", "quarantine", "--baselines", "old")
    assert done.code == 3
    assert "the rules are of the suite gpt, and the history in old is of default: correct `suite`" in done.err


@pytest.mark.parametrize(("alarms", "runs"), [(0, 80), (6, 80), (80, 80)])
def test_the_interval_is_that_of_scipy(alarms: int, runs: int) -> None:
    exact = stats.binomtest(alarms, runs).proportion_ci(0.9, method="exact")
    assert share_bounds(alarms, runs) == pytest.approx((exact.low, exact.high), abs=1e-6)
