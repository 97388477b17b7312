"""Every reference case of ../shared/reference, field by field.

The reference is older than five decisions: fewer than four values are no error, `max`, `total` and `count` are facts
about the whole run, a limit whose estimate is beyond its bound is at least suspect, three runs do not turn a suspicion
into a failure, and an open answer is undecided, or a pass where the author of a limit accepts it. Its changes are
single comparisons. `updated` says what each decision changes in a case, and nothing else.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from single import compare_once

import perfgate

SHARED = Path(__file__).resolve().parents[2].parent / "shared"
FUNCTIONS = {
    "change": lambda case: compare_once(_runs(case["base"]), _runs(case["new"]), **case["options"]),
    "limit": lambda case: perfgate.judge_limit(_runs(case["new"]), **case["options"]),
    "run": lambda case: perfgate.measure_run(_run(case["values"]), **case["options"]),
    "warmup": lambda case: perfgate.warmup_length(_run(case["values"]), **case["options"]),
    "prior": lambda case: perfgate.calibrate_prior(_runs(case["runs"]), **case["options"]),
}


@cache
def cases() -> list[dict[str, Any]]:
    """All reference cases; none where the folder is absent."""
    path = SHARED / "reference" / "statistics.jsonl"
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


def differences(case: dict[str, Any]) -> list[str]:
    """Each field in which the answer is not the expected one."""
    case = updated(case)
    got = FUNCTIONS[case["kind"]](case)
    return [
        f"{name}: expected {expected!r}, got {getattr(got, name)!r}"
        for name, expected in case["expected"].items()
        if not _agree(expected, getattr(got, name))
    ]


def updated(case: dict[str, Any]) -> dict[str, Any]:
    """The case under the decisions that are younger than the reference."""
    expected = dict(case["expected"])
    if case["kind"] in ("change", "limit"):
        case = {**case, "options": {"min_samples": 4, **case.get("options", {})}}
    options = case.get("options", {})
    if options.get("statistic") in ("max", "p100", "total", "count") and options.get("warmup", "auto") == "auto":
        # Given the values that the reference kept, the statistic of the whole run is the reference's.
        sides = {side: [_kept(run, options) for run in case[side]] for side in ("base", "new") if side in case}
        case = {**case, **sides, **({"values": _kept(case["values"], options)} if "values" in case else {})}
        expected |= {"dropped": 0, "settled": True} if case["kind"] == "run" else {}
    if case["kind"] == "change" and expected["suspect"] and not options.get("strict"):
        expected |= {"outcome": "undecided"}
    if case["kind"] == "change" and expected["outcome"] == "inconclusive":
        expected |= {"outcome": "undecided"}
    if case["kind"] == "limit" and expected["outcome"] == "inconclusive":
        estimate, bound, comparator = expected["estimate"], options["bound"], options.get("comparator", "under")
        beyond = estimate > bound if comparator in ("under", "at most") else estimate < bound
        if expected["share"] == 1:
            expected |= {"outcome": "fail", "reason": "every-value"}
        else:
            expected |= {"outcome": "undecided" if beyond else "pass", "suspect": beyond}
    return {**case, "expected": expected}


def _kept(run: Any, options: dict[str, Any]) -> Any:
    """The values of a run after the warm-up that the reference drops."""
    values = _run(run)
    upper = options.get("comparator", "under") in ("under", "at most")
    better = options.get("better", "lower" if upper else "higher")
    dropped = perfgate.warmup_length(values, better).dropped if isinstance(values, list) else 0
    return values[dropped:] if dropped else values


def _agree(expected: object, got: object) -> bool:
    """1e-8 relative, 1e-10 absolute below .01, all else exactly."""
    if not isinstance(expected, float) or not isinstance(got, (int, float)):
        return expected == got
    if abs(expected) < 0.01:
        return abs(got - expected) <= 1e-10
    return math.isclose(got, expected, rel_tol=1e-8)


def _runs(runs: list[Any]) -> list[Any]:
    return [_run(run) for run in runs]


def _run(run: Any) -> Any:
    """A run as it stands, or a piece of the seed log."""
    return seed_log()[run["timer"]][run["from"] : run["to"]] if isinstance(run, dict) else run


@cache
def seed_log() -> dict[str, list[float]]:
    """The timers of the seed log in milliseconds, one value per step in the order of the file."""
    [path] = (SHARED / "seeds").glob("001*.txt")
    timers: dict[str, list[float]] = defaultdict(list)
    for line in path.read_text("utf-8").splitlines():
        if "rank=0 time (ms) |" in line:
            for name, value in re.findall(r"(\w+): ([\d.]+)", line.split("time (ms) |")[1]):
                timers[name].append(float(value))
    timers["forward_backward"] = [f + b for f, b in zip(timers["forward"], timers["backward"], strict=True)]
    return timers


@pytest.mark.shared
@pytest.mark.skipif(not cases(), reason="../shared/reference is not here")
@pytest.mark.parametrize("case", cases(), ids=lambda case: case["id"])
def test_agrees_with_the_reference(case):
    wrong = differences(case)
    assert not wrong, f"{case['id']} ({case['what']}): " + "; ".join(wrong)
