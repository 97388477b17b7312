"""The command, the benchmark of detection and the function for plain numbers give one answer about the same runs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from conftest import Done, write_results

from perfgate import judge_change, judge_limit
from perfgate.core import Baseline
from perfgate.core.results import ChangeResult, Result
from perfgate.stats.steady import RunValues

FOLDER = Path(__file__).resolve().parent.parent / "benchmarks" / "detection"
Sides = tuple[list[RunValues], list[RunValues]]

#: A rule about `time`, the same as options of `judge_change` or `judge_limit`, and what is done to the runs.
CASES: list[tuple[str, dict[str, Any], str]] = [
    ("time within 5% of baseline", {"tolerance": 0.05}, ""),
    ("time within 2% of baseline", {"tolerance": 0.02}, ""),
    ("time within 5% of baseline", {"tolerance": 0.05}, "single numbers"),
    ("{assert: time within 5% of baseline, better: higher}", {"tolerance": 0.05, "better": "higher"}, ""),
    ("time within ±5% of baseline", {"tolerance": 0.05, "two_sided": True}, ""),
    ("time p95 within 10% of baseline", {"tolerance": 0.1, "statistic": "p95"}, ""),
    ("time mean within 5% of baseline", {"tolerance": 0.05, "statistic": "mean"}, ""),
    ("{assert: time within 5% of baseline, at_worst: 7%}", {"tolerance": 0.05, "at_worst": 0.07}, ""),
    ("time within 2% and 4 s of baseline", {"tolerance": 0.02, "tolerance_absolute": 4.0}, ""),
    ("time within 5% of baseline", {"tolerance": 0.05}, "slow start"),
    ("time within 5% of baseline", {"tolerance": 0.05}, "few values"),
    ("time within 5% of baseline", {"tolerance": 0.05}, "large gain"),
    ("time within 5% of baseline", {"tolerance": 0.05}, "one run twice as slow"),
    ("time under 102 s", {"bound": 102.0}, ""),
    ("time p95 at least 100 s", {"bound": 100.0, "statistic": "p95", "comparator": "at least"}, ""),
]


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module of the benchmark that asks perfgate."""
    monkeypatch.syspath_prepend(FOLDER)
    yield __import__("gate")
    sys.modules.pop("gate", None)


def drawn(number: int, base_runs: int, new_runs: int, what: str) -> Sides:
    """Runs of both sides with a noise and a change of their own."""
    rng = np.random.default_rng([number, base_runs, new_runs, len(what)])
    noise, change = rng.choice([0.002, 0.01, 0.03]), rng.choice([0.0, 0.03, 0.07, 0.12, -0.15])

    def run(level: float) -> RunValues:
        level *= float(np.exp(noise * rng.standard_normal()))
        return level if what == "single numbers" else level * np.exp(0.02 * rng.standard_normal(80))

    base, new = [run(100.0) for _ in range(base_runs)], [run(100.0 * (1 + change)) for _ in range(new_runs)]
    if what == "slow start":
        new = [np.concatenate([3 * values[:16], values[16:]]) for values in map(np.asarray, new)]
    elif what == "few values":
        new = [np.asarray(values)[:30] for values in new]
    elif what == "large gain":
        new = [np.asarray(values) / 20 for values in new]
    elif what == "one run twice as slow":
        new[-1] = 2 * np.asarray(new[-1])
    return base, new


def write_side(path: Path, runs: list[RunValues], labels: list[dict[str, str]]) -> str:
    """Write a file in which each run is a metric."""
    series = [
        {"metric": f"time{i % len(CASES)}", "labels": marks, "unit": "s"}
        | ({"value": values} if np.ndim(values) == 0 else {"values": np.asarray(values).tolist()})
        for i, (values, marks) in enumerate(zip(runs, labels, strict=True))
    ]
    return write_results(path, *series).name


def checked(perfgate: Callable[..., Done], folder: Path, sides: list[Sides], pairing: str | None) -> dict[str, Any]:
    """Return the verdicts of one check of all cases by their metrics."""
    rules = "".join(f"  - {rule.replace('time', f'time{i}')}\n" for i, (rule, _, _) in enumerate(CASES))
    (folder / "rules").mkdir()
    (folder / "rules" / "rules.yaml").write_text(f"version: 1\nrules:\n{rules}", encoding="utf-8")
    count, plain = len(sides[0][1]), [dict[str, str]()] * len(CASES)
    if pairing is None:
        base = [write_side(folder / f"b{i}.json", [b[i] for b, _ in sides], plain) for i in range(len(sides[0][0]))]
        assert perfgate("baseline", "approve", *base, "--reason", "first").code == 0
        new = [write_side(folder / f"n{i}.json", [n[i] for _, n in sides], plain) for i in range(count)]
    else:
        new = []
        for i in range(count):
            marks = [{"side": side, "pair": str(i + 1), "pairing": pairing} for side in ("base", "new")]
            runs = [b[i] for b, _ in sides] + [n[i] for _, n in sides]
            new.append(write_side(folder / f"p{i}.json", runs, [mark for mark in marks for _ in CASES]))
    done = perfgate("check", *new, "--json", "report.json")
    assert done.code in (0, 1, 3), done.said
    return {one["metric"]: one for one in json.loads((folder / "report.json").read_text())["verdicts"]}


@pytest.mark.parametrize(
    ("base_runs", "new_runs", "pairing"),
    [
        (1, 1, None),
        (3, 1, None),
        (5, 1, None),
        (10, 3, None),
        (2, 2, "in-turn"),
        (3, 3, "one-process"),
        (6, 6, "whole-runs"),
    ],
)
def test_command_benchmark_and_function_agree(
    perfgate: Callable[..., Done], folder: Path, gate: ModuleType, base_runs: int, new_runs: int, pairing: Any
) -> None:
    sides = [drawn(i, base_runs, new_runs, what) for i, (_, _, what) in enumerate(CASES)]
    said = checked(perfgate, folder, sides, pairing)
    for i, ((rule, terms, what), (base, new)) in enumerate(zip(CASES, sides, strict=True)):
        verdict, case = said[f"time{i}"], (rule, what)
        (asked,) = gate.ask(rule, base, new, Baseline(pairing=pairing))
        assert (asked.outcome, asked.reason, asked.exit_code) == outcome(verdict), case
        found: Result = (
            judge_limit(new, **terms) if "bound" in terms else judge_change(base, new, pairing=pairing, **terms)
        )
        assert (found.outcome, found.reason, code(found)) == outcome(verdict), case
        shown = verdict.get("change")
        if isinstance(found, ChangeResult) and shown and shown["low"] is not None:
            assert (found.low, found.high) == pytest.approx((shown["low"], shown["high"])), case


def outcome(verdict: dict[str, Any]) -> tuple[str, str, int]:
    """Return what a verdict decides."""
    return verdict["outcome"], verdict["reason"], verdict["exit_code"]


def code(found: Result) -> int:
    """Return the exit code that the documentation of the functions promises."""
    if found.outcome == "fail":
        return 1
    is_excluded = found.excluded if isinstance(found, ChangeResult) else found.reason != "cannot-exclude"
    return 0 if found.outcome == "pass" or (found.outcome == "inconclusive" and is_excluded) else 3
