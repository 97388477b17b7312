"""The sentences about a change and about a limit: what was measured, how it compares, and the next step.

Of a result, `of_numbers` is the answer of the statistics alone, and `outcome` the one after allowances and doubts.
`at_worst` is the change that a pass has to exclude; None if the rule asks for no such proof.
"""

from __future__ import annotations

import math

from perfgate.core import NO_STEP, Acceptance, NextStep, PooledRuns
from perfgate.core.results import LOOKS, RUNS_FOR_A_PROMISE, RUNS_THAT_SHOW_NOISE, ChangeResult, LimitResult
from perfgate.core.units import format_change, format_confidence, format_number, format_value
from perfgate.core.wording import listed, plural
from perfgate.words.answer import rounded_up
from perfgate.words.steps import accept_change, hold_gain

#: The reference of pairs.
PAIRED_BASE = "paired base"
_PAIRS = "compare base and new in pairs with `perfgate run --paired`"


def change_message(
    name: str, result: ChangeResult, reference: str, units: tuple[str, str | None], tolerance: str, dropped: int = 0
) -> str:
    """Return the distance of the new runs from the reference.

    `units`: the base unit, and the unit to show. `dropped`: the number of warm-up values of the new runs.
    """
    found = result.of_numbers
    base, new = (format_value(number, *units) for number in (result.base_value, result.new_value))
    warmup = f", {plural(dropped, 'value')} dropped as warm-up" if dropped else ""
    if result.estimate is None and result.base_value == result.new_value:
        return f"{name} is {new}, as in the {reference}{warmup}"
    change = "" if result.estimate is None else f": {format_change(result.estimate)}"
    if change and found.reason != "exact":
        change += f" [{format_change(result.low)}, {format_change(result.high)}]"
    if found.reason == "thin-tail":
        relation = f"but there are too few values beyond this percentile to compare it with {tolerance}"
    elif found.suspect and found.outcome != "fail":
        # Where a pass needs proof, one suspect run leads to more runs, which then are the proof.
        doubt = "not certain" if result.new_runs > 1 or result.at_worst is None else "one run is not proof"
        relation = f"probably beyond the tolerance of {tolerance}, but {doubt}"
    elif found.outcome == "undecided":
        relation = _open_relation(result, tolerance, in_pairs=reference == PAIRED_BASE)
    elif result.improved:
        relation = f"an improvement beyond the tolerance of {tolerance}"
    else:
        relation = f"{'beyond' if found.outcome == 'fail' else 'within'} the tolerance of {tolerance}"
    runs = f"{plural(result.base_runs, 'base run')}, {plural(result.new_runs, 'new run')}"
    return f"{name} went from {base} in the {reference} to {new}{change}, {relation}; {runs}{warmup}"


def _open_relation(result: ChangeResult, tolerance: str, *, in_pairs: bool) -> str:
    """Return what an open change excludes, in words."""
    if result.at_worst is None and result.outcome == "pass":
        return f"not clearly beyond the tolerance of {tolerance}"
    if result.at_worst is None:
        return f"so it is not known whether it is within {tolerance}"
    worst = f"{format_number(100 * result.at_worst, 3)}%"
    if result.of_numbers.reason == "noise-unknown" and in_pairs:
        return "but one pair does not show the noise between pairs, so nothing is excluded"
    if result.of_numbers.reason == "noise-unknown":
        runs = result.base_runs + result.new_runs
        return f"but {plural(runs, 'run')} of both sides do not show the noise between runs, so nothing is excluded"
    if result.of_numbers.reason == "cannot-exclude":
        doubt, high = format_change(result.not_excluded), max(abs(result.low or 0.0), abs(result.high or math.inf))
        accepted = f"the rule accepts doubt up to {worst}"
        # The shown interval excludes it, but the bound of a pass is wider, or is around 0 (`Bounds.not_excluded`).
        if abs(result.not_excluded or math.inf) > high:
            return f"but these runs are too few to exclude a change of {doubt}: {accepted}"
        return f"so a change of {doubt} cannot be excluded: {accepted}"
    edge = rounded_up(abs(result.not_excluded or result.at_worst))  # every larger change is excluded
    return f"so a change of {edge} or more is excluded, but not one beyond the tolerance of {tolerance}"


def pooled_note(pooled: PooledRuns) -> str:
    """Return the note about a change of a branch from its baseline, from its remembered runs."""
    runs, branch = plural(len(pooled.commits), "run"), pooled.branch
    if pooled.decides:
        return f"pooled with {runs} of {branch} since the baseline: {listed(pooled.commits)}"
    interval = f"[{format_change(pooled.low)}, {format_change(pooled.high)}]"
    change = f"{format_change(pooled.change)} {interval}"
    return f"{branch} itself is {change} since the baseline ({runs}): this is not from this change"


def change_next_step(result: ChangeResult, accept: Acceptance, reference: str = "baseline") -> NextStep:
    """Return the shortest next step after the outcome of a change from a reference."""
    if result.of_numbers.outcome == "fail":
        return accept_change(accept, reference)
    if result.outcome == "pass" or result.of_numbers.outcome != "undecided":  # a doubt that decides has its own step
        return hold_gain(accept) if result.improved else NO_STEP
    if result.at_worst is not None and (step := _promise_next_step(result)):
        return step
    if result.of_numbers.suspect:
        return NextStep("run-again", "run the new code again: the latest runs are judged together")
    if result.of_numbers.reason == "thin-tail":
        return NextStep("run-longer", "run longer, or compare a statistic nearer to the middle (p90, median)")
    if result.runs_needed and result.runs_needed <= result.new_runs:  # unchanged code would probably have passed
        return NextStep("run-again", "not enough evidence: run the new code twice more")
    if result.runs_needed:
        runs = plural(result.runs_needed, "new run")
        return NextStep("run-again", f"give {runs} in all: enough for unchanged code to pass")
    text = "add base runs, calibrate the noise or widen the tolerance: even twenty new runs are not enough"
    return NextStep("add-base-runs", text)


def _promise_next_step(result: ChangeResult) -> NextStep | None:
    """Return the step that settles an open change where a pass needs proof; None if its reason has its own step."""
    left = LOOKS - result.new_runs  # at most two, because there are three looks
    more = {1: "once", 2: "twice"}.get(left, "")
    if result.of_numbers.suspect:
        if left > 0:
            return NextStep("run-again", f"run the new code {more} more and give all {LOOKS} runs together")
        return NextStep("run-paired", f"{_PAIRS}: single runs do not settle it")
    if result.of_numbers.reason == "noise-unknown":
        missing = RUNS_FOR_A_PROMISE - result.base_runs - result.new_runs
        needed = f"{RUNS_FOR_A_PROMISE} runs of both sides are needed"
        return NextStep("run-again", f"give {plural(missing, 'more new run')}, or add base runs: {needed}")
    if result.of_numbers.reason == "cannot-exclude":
        if left > 0 and result.runs_needed is not None and result.runs_needed <= LOOKS:
            return NextStep("run-again", f"run the new code {more} more, or {_PAIRS}")
        if result.base_runs < RUNS_THAT_SHOW_NOISE:
            return NextStep("add-base-runs", f"add base runs (there are {result.base_runs}), or {_PAIRS}")
        return NextStep("run-paired", f"{_PAIRS}, calibrate the noise, or raise `at_worst`")
    return NO_STEP if result.excluded else None  # `at_worst` is excluded: only `on_inconclusive` blocks


def paired_next_step(result: ChangeResult, most: int | None = None) -> NextStep:
    """Return the shortest next step after the outcome of a change between pairs, whose base needs no approval.

    most: the pairs of the last look; None if no plan has them. If `at_worst` is excluded, only
    `on_inconclusive` can block an open answer, which has no step.
    """
    if result.of_numbers.outcome == "fail":
        return NextStep("merge", "if the change is intended, merge it: later pairs compare with it")
    if result.outcome == "pass" or result.of_numbers.outcome != "undecided" or result.excluded:
        return NO_STEP
    suspect, needed = result.of_numbers.suspect, result.runs_needed
    if not suspect and not needed:
        text = "take more steps in each pair, or widen the tolerance: even twenty pairs are not enough"
        return NextStep("run-longer", text)
    if not suspect and needed and needed > result.new_runs:
        return NextStep("run-again", f"make {plural(needed, 'pair')} in all: enough for unchanged code to pass")
    if most is not None and result.new_runs >= most:
        return NextStep("run-again", f"run again on a quieter machine, or with more pairs (`--runs {2 * most}`)")
    return NextStep("run-again", "make two more pairs" if suspect else "not enough evidence: make two more pairs")


def limit_message(
    name: str,
    result: LimitResult,
    asks: str,
    units: tuple[str, str | None],
    *,
    confidence: float,
    dropped: int = 0,
    is_open: bool = False,
) -> str:
    """Return the measured value with its interval, and how it compares with the bound.

    `units` are the base unit and the unit to show; `dropped` values were warm-up. The interval `is_open` if there are
    too few values to exclude any bad one.
    """
    value, low, high = (format_value(number, *units) for number in (result.estimate, result.low, result.high))
    exact = result.low is not None and result.low == result.high
    interval = "" if exact else f" [{low}, {high}] at {format_confidence(confidence)} confidence"
    relation = _relation(result, asks, is_open=is_open)
    size = plural(result.runs, "run")
    if result.n is not None:
        effective = result.n_effective
        note = "" if effective is None else f" (effective sample size {format_number(effective, 3)})"
        size = f"{plural(result.n, 'value')}{note}, {size}"
    warmup = f", {plural(dropped, 'value')} dropped as warm-up" if dropped else ""
    return f"{name} is {value}{interval}: {relation}; {size}{warmup}"


def _relation(result: LimitResult, asks: str, *, is_open: bool) -> str:
    """Return how the interval compares with the bound, in words."""
    found = result.of_numbers
    where = "these values are too few to exclude anything" if is_open else "the interval includes the bound"
    if found.reason == "cannot-exclude":
        return f"the interval reaches `at_worst`, so it is not known whether it is {asks}"
    if found.outcome != "undecided":
        subject = "every value" if found.reason == "every-value" else "it"
        return f"{subject} {'meets' if found.outcome == 'pass' else 'breaks'} `{asks}`"
    if found.reason == "one-run":
        return f"it breaks `{asks}` by less than runs differ"
    if found.suspect:
        return f"it probably breaks `{asks}`, but {where}"
    if result.outcome != "pass":
        return f"{where}, so it is not known whether it is {asks}"
    if result.share == 0:
        return f"all values are {asks}, but they are too few to be sure of the percentile"
    return f"it does not clearly break `{asks}`: {where}"


def rank_values(name: str, values: tuple[float, float], unit: str, rank: str, reference: str) -> str:
    """Return the values of the judged rank and of the reference rank, before the sentence about their ratio."""
    one, two = (format_value(value, unit) for value in values)
    return f"{name} is {one} on the {rank} rank, {two} on the {reference}: "


def limit_next_step(
    name: str,
    result: LimitResult,
    asks: str,
    place: str,
    needed: int | None,
    ref: str | None = None,
    *,
    may_pass: bool = False,
) -> NextStep:
    """Return the shortest next step after the outcome of a limit in the rule at `place`, of `ref` if it is given.

    `may_pass`: the interval is open and the rule has no `on_inconclusive`, so that an undecided limit does not block.
    """
    if result.of_numbers.outcome == "fail":
        what_to_do = f"{'raise' if asks.startswith(('over', 'at least')) else 'reduce'} {name} to {asks}"
        return NextStep("find-cause", f"{what_to_do}, or change the rule at {place}" + (f" on {ref}" if ref else ""))
    enough = f": about {needed} independent values are needed" if needed else ""
    if result.of_numbers.outcome == "undecided" and result.of_numbers.suspect:
        how = ", and give both runs together" if result.of_numbers.reason == "one-run" else ", longer"
        return NextStep("run-again", f"run it again{how}{enough}")
    if result.of_numbers.outcome == "undecided":
        blocking = "; to block until then, set `on_inconclusive: error`" if may_pass else ""
        return NextStep("run-longer", f"run longer or give more runs{enough}{blocking}")
    return NO_STEP
