"""The sentences about a limit: what was measured, how it compares with the bound, and the next step."""

from __future__ import annotations

from perfgate.core import NO_STEP, NextStep
from perfgate.core.results import LimitResult
from perfgate.core.units import format_confidence, format_number, format_value
from perfgate.core.wording import plural


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
    is_open: bool = False,
) -> NextStep:
    """The shortest next step after the outcome of a limit in a rule of `ref`, or of the working tree."""
    if result.of_numbers.outcome == "fail":
        return NextStep(
            "find-cause", f"{_to(name, asks)}, or change the rule at {place}" + (f" on {ref}" if ref else "")
        )
    enough = f": about {needed} independent values are needed" if needed else ""
    if result.of_numbers.outcome == "undecided" and result.of_numbers.suspect:
        again = (
            "run it again, and give both runs together"
            if result.of_numbers.reason == "one-run"
            else "run it again, longer"
        )
        return NextStep("run-again", f"{again}{enough}")
    if result.of_numbers.outcome == "undecided":
        blocking = "; to block until then, set `on_inconclusive: error`" if is_open else ""
        return NextStep("run-longer", f"run longer or give more runs{enough}{blocking}")
    return NO_STEP


def _to(name: str, asks: str) -> str:
    """Return what to do about a broken limit: `reduce forward p95 to under 5 ms`, `raise mfu to at least 40%`."""
    return f"{'raise' if asks.startswith(('over', 'at least')) else 'reduce'} {name} to {asks}"
