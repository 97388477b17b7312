"""`perfgate history quarantine`: which rules raise false alarms in remembered runs of unchanged code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from conftest import Done, write_rules
from histories import value
from msgspec.structs import replace
from scipy import stats

from perfgate.core import Better
from perfgate.history import false_alarms as module
from perfgate.history.false_alarms import false_alarms
from perfgate.history.noise import noise_between_runs
from perfgate.history.store import HistoryColumn
from perfgate.judge.terms import ChangeTerms
from perfgate.rules.load import load_rules
from perfgate.rules.ruleset import Rule
from perfgate.rules.syntax.sentence import ChangeClause
from perfgate.stats.distributions import share_bounds
from perfgate.stats.statistics import RunMeasure

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


# --- the count -------------------------------------------------------------------------------------------------------


def rule_of(text: str) -> Rule:
    found, problems = load_rules([("rules.yaml", f"version: 1\nrules:\n  - {text}\n".encode())])
    assert found is not None, problems
    return found.rules[0]


def column_of(
    values: Sequence[float],
    errors: Sequence[float] = (),
    *,
    unit: str = "s",
    better: Better = "lower",
    statistic: str = "median",
) -> HistoryColumn:
    """A series of x; its errors are not known if they are not given."""
    unknown = np.full(len(values), np.nan)
    name = replace(value("x", 1.0).name, statistic=statistic)
    known = np.array(errors) if len(errors) else unknown
    return HistoryColumn(
        name, unit, better, "samples", np.arange(len(values)), np.array(values, np.float64), known, unknown, unknown
    )


LOW, NAN = [100.0] * 5, float("nan")
UNDER, OVER = "x under 105 s", "x at least 95 s"
COUNTED: list[tuple[str, list[float], list[float], tuple[int, int]]] = [
    # a rule, the values, their errors, the number of alarms and of judged runs
    (UNDER, [], [], (0, 0)),
    (UNDER, LOW, [], (0, 0)),
    (UNDER, [*LOW, 100], [], (0, 1)),
    (UNDER, [*LOW, 100, 110], [], (1, 2)),
    (UNDER, [*LOW, 110], [], (0, 0)),
    (UNDER, [110, *LOW, 100], [], (0, 2)),
    # red runs in a row are one alarm; a limit that most runs break is not a false alarm
    (UNDER, [*LOW, 110, 100, 110, 100], [], (2, 4)),
    (UNDER, [*LOW, 110, 110, 100, 100], [], (1, 4)),
    (UNDER, [*LOW, 100, 100, 110, 110], [], (1, 4)),
    (UNDER, [*LOW, 110, 110, 100, 110], [], (0, 0)),
    # what has no logarithm is not judged
    (UNDER, [*LOW, NAN, 110, 100], [], (0, 0)),
    (UNDER, [0, *LOW, 110, 100], [], (0, 0)),
    (UNDER, [-1, *LOW, 110, 100], [], (0, 0)),
    ("x under 0.5 s", [0.1] * 5 + [0.6, 0.1], [], (1, 2)),
    # 1.64 standard errors beyond the limit
    (UNDER, [*LOW, 110, 100], [3.0] * 7, (1, 2)),
    (UNDER, [*LOW, 110, 100], [3.1] * 7, (0, 2)),
    (UNDER, [*LOW, 110, 100], [NAN] * 5 + [3.0, NAN], (1, 2)),
    ("{assert: x under 105 s, confidence: 99%}", [*LOW, 110, 100], [2.1] * 7, (1, 2)),
    ("{assert: x under 105 s, confidence: 99%}", [*LOW, 110, 100], [2.2] * 7, (0, 2)),
    (OVER, [*LOW, 90, 100], [3.0] * 7, (1, 2)),
    (OVER, [*LOW, 90, 100], [3.1] * 7, (0, 2)),
    # a value at the limit
    ("x under 105 s", [*LOW, 105, 100], [], (1, 2)),
    ("x at most 105 s", [*LOW, 105, 100], [], (0, 2)),
    ("x over 95 s", [*LOW, 95, 100], [], (1, 2)),
    ("x at least 95 s", [*LOW, 95, 100], [], (0, 2)),
    # a run is red if one clause is
    ("x under 105 s and over 95 s", [*LOW, 110, 100, 90, 100], [], (2, 4)),
    ("no more work than baseline", [*LOW, 110, 100], [], (0, 0)),
    ("x within 5% of anchor", [*LOW, 110, 100], [], (0, 0)),
    ("x within 5% of slowest rank", [*LOW, 110, 100], [], (0, 0)),
    ("x within 5% of anchor and under 105 s", [*LOW, 110, 100], [], (1, 2)),
    # a level for each part between change points
    (UNDER, [*LOW, 110, 100, 100, 100, 100] + [50.0] * 8 + [110.0, 50.0], [], (2, 10)),
]


@pytest.mark.parametrize(("rule", "values", "errors", "expected"), COUNTED)
def test_the_number_of_false_alarms(
    rule: str, values: list[float], errors: list[float], expected: tuple[int, int]
) -> None:
    assert false_alarms(rule_of(rule), column_of(values, errors), range(len(values))) == expected


def test_only_the_given_runs_are_judged() -> None:
    values = [*LOW, 110.0, 110.0, 110.0, 110.0, 100.0]
    assert false_alarms(rule_of(UNDER), column_of(values), [0, 1, 2, 3, 4, 5, 9]) == (1, 2)


OUTCOMES = [("fail", "x within 5% of baseline", 1), ("pass", "x within 5% of baseline", 0),
            ("undecided", "x within 5% of baseline", 0)]  # fmt: skip


@pytest.mark.parametrize(("outcome", "rule", "alarms"), OUTCOMES)
def test_each_run_is_judged_against_at_most_ten_runs_before_it(outcome: str, rule: str, alarms: int) -> None:
    values = [100 + i * 7 % 5 for i in range(18)]
    errors = [0.5] * 18
    judged = []

    def judge_runs(base: Sequence[RunMeasure], new: Sequence[RunMeasure], terms: ChangeTerms) -> SimpleNamespace:
        judged.append((base, new))
        # two of the runs, one after the other
        return SimpleNamespace(outcome=outcome if len(judged) in (8, 9) else "not judged")

    with patch.object(module, "judge_runs", judge_runs):
        assert false_alarms(rule_of(rule), column_of(values, errors), range(18)) == (alarms, 13)
    measures = [RunMeasure(one, 1, None, (0.5 / one) ** 2, 0, True) for one in values]
    assert judged == [(measures[max(i - 10, 0) : i], [measures[i]]) for i in range(5, 18)]


TERMS: list[tuple[str, HistoryColumn, dict[str, Any]]] = [
    # a rule, a series, and how its terms differ from those of 5 %
    ("x within 5% of baseline", column_of([1.5]), {}),
    ("x within 5% of baseline", column_of([1.5], better="higher"), {"better": "higher"}),
    ("{assert: x within 5% of baseline, better: higher}", column_of([1.5]), {"better": "higher"}),
    ("x at most 105% of baseline", column_of([1.5], better="higher"), {"better": "lower"}),
    ("x at least 95% of baseline", column_of([1.5]), {"better": "higher"}),
    ("x within ±5% of baseline", column_of([1.5]), {"two_sided": True}),
    ("x within 5% and 2 ms of baseline", column_of([1.5]), {"tolerance_absolute": 0.002}),
    ("x within 2 ms of baseline", column_of([1.5]), {"tolerance": None, "tolerance_absolute": 0.002}),
    ("{assert: x within 5% of baseline, confidence: 99%}", column_of([1.5]), {"confidence": 0.99}),
    ("x p95 within 5% of baseline", column_of([1.5], statistic="p95"), {"statistic": "p95"}),
    # bytes, operations and counts have no noise
    ("x within 5% of baseline", column_of([1.5], unit="B"), {"exact": True}),
    ("x within 5% of baseline", column_of([1.5], unit="FLOP"), {"exact": True}),
    ("x within 5% of baseline", column_of([1.5], unit="count"), {"exact": True}),
    ("x count within 5% of baseline", column_of([1.5], statistic="count"), {"exact": True, "statistic": "count"}),
    ("x within 5% of baseline", column_of([2.0, 3.0], unit="1"), {"exact": True}),
    ("x within 5% of baseline", column_of([2.0, 3.5], unit="1"), {}),
]


@pytest.mark.parametrize(("rule", "column", "differs"), TERMS)
def test_the_terms_of_a_change(rule: str, column: HistoryColumn, differs: dict[str, Any]) -> None:
    own = rule_of(rule)
    asks = own.clauses[0].asks
    assert isinstance(asks, ChangeClause)
    tolerance = differs.get("tolerance", 0.05)
    for prior, known in ((None, {}), ((0.02, 9.0), {"prior": (0.02, 9.0), "noise_known": True})):
        found = module._terms(own, asks, column, prior)
        assert found.tolerance == pytest.approx(tolerance)
        assert replace(found, tolerance=tolerance) == replace(ChangeTerms(tolerance=0.05), **(differs | known))


def test_the_noise_of_all_runs_is_known_to_each_comparison() -> None:
    values = np.exp(0.01 * NORMAL[:30])
    asked = []

    def judge_runs(base: object, new: object, terms: ChangeTerms) -> SimpleNamespace:
        asked.append((terms.prior, terms.noise_known))
        return SimpleNamespace(outcome="pass")

    noise = noise_between_runs(values)
    assert noise is not None
    with patch.object(module, "judge_runs", judge_runs):
        false_alarms(rule_of("x within 5% of baseline"), column_of(values.tolist()), range(30))
        assert set(asked) == {((noise.prior.s0, noise.prior.d0), True)}
        asked.clear()
        false_alarms(rule_of("x within 5% of baseline"), column_of(values.tolist()), range(9))
        assert set(asked) == {((0.01, 2.0), False)}
