"""The sentences about the promise of exit code 0, and the next step if it cannot be promised."""

from __future__ import annotations

import math

from perfgate.core import NO_STEP, NextStep
from perfgate.core.units import format_change, format_number
from perfgate.core.wording import plural
from perfgate.judge.decide_promise import LOOKS, RUNS_THAT_SHOW_NOISE, PromiseResult
from perfgate.judge.promise_bounds import RUNS_FOR_A_PROMISE

_PAIRS = "compare base and new in pairs with `perfgate run --paired`"


def promise_relation(result: PromiseResult, tolerance: str) -> str | None:
    """Return the promise of an undecided change in words; None if it adds nothing to the outcome."""
    if result.outcome == "suspect" and result.new_runs > 1:
        return f"probably beyond the tolerance of {tolerance}, but not certain"
    if result.outcome != "inconclusive" or result.at_worst is None:
        return None
    worst = f"{format_number(100 * result.at_worst, 3)}%"
    if result.reason == "noise-unknown":
        runs = result.base_runs + result.new_runs
        return f"but {plural(runs, 'run')} of both sides do not show the noise between runs, so nothing is excluded"
    if result.reason == "cannot-exclude":
        doubt, high = format_change(result.not_excluded), max(abs(result.low or 0.0), abs(result.high or math.inf))
        what = f"a change of {doubt} cannot be excluded: the rule accepts doubt up to {worst}"
        if abs(result.not_excluded or math.inf) > high:
            return f"but these runs are too few: {what}"
        return f"so {what}"
    return f"so it is not known whether it is within {tolerance}, but a change of {worst} or more is excluded"


def promise_next_step(result: PromiseResult) -> NextStep | None:
    """Return the step that settles an undecided change; None if the outcome has a step of its own."""
    left = LOOKS - result.new_runs
    if result.outcome == "suspect":
        if left > 0:
            more = {1: "once", 2: "twice"}[left]
            return NextStep("run-again", f"run the new code {more} more and give all {LOOKS} runs together")
        return NextStep("run-paired", f"{_PAIRS}: single runs do not settle it")
    if result.outcome != "inconclusive":
        return None
    if result.reason == "noise-unknown":
        missing = RUNS_FOR_A_PROMISE - result.base_runs - result.new_runs
        needed = f"{RUNS_FOR_A_PROMISE} runs of both sides are needed"
        text = f"give {plural(missing, 'more new run')}, or add base runs: {needed}"
        return NextStep("run-again", text)
    if result.reason == "cannot-exclude":
        if left > 0 and result.runs_needed is not None and result.runs_needed <= LOOKS:
            more = {1: "once", 2: "twice"}[left]
            return NextStep("run-again", f"run the new code {more} more, or {_PAIRS}")
        if result.base_runs < RUNS_THAT_SHOW_NOISE:
            return NextStep("add-base-runs", f"add base runs (there are {result.base_runs}), or {_PAIRS}")
        return NextStep("run-paired", f"{_PAIRS}, calibrate the noise, or raise `at_worst`")
    return NO_STEP if result.excluded else None
