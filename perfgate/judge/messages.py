"""The words of a verdict: what was measured, against what, the interval, and the shortest next step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perfgate.core import Key, show_labels
from perfgate.core.units import format_change, format_number, format_value
from perfgate.core.wording import plural
from perfgate.judge.change import ChangeResult
from perfgate.judge.limit import LimitResult


def what(key: Key, statistic: str | None, member: Mapping[str, str]) -> str:
    """The subject of a message: `p95 of forward{name="small"} on rank 3`."""
    place = " ".join(f"{name} {value}" for name, value in member.items())
    return (
        (f"{statistic} of " if statistic else "")
        + key.metric
        + show_labels(key.labels)
        + (f" on {place}" if place else "")
    )


def limit_message(
    subject: str, result: LimitResult, asks: str, unit: str, shown: str | None, *, confidence: float
) -> str:
    """What a limit was held against, and what it means."""
    value, low, high = (format_value(number, unit, shown) for number in (result.estimate, result.low, result.high))
    exact = result.low is not None and result.low == result.high
    interval = "" if exact else f" [{low}, {high}] at {format_number(100 * confidence)}% confidence"
    relation = {
        "pass": f"it keeps `{asks}`",
        "fail": f"it breaks `{asks}`",
        "inconclusive": f"that interval holds the bound, so the data cannot tell whether it is {asks}",
    }[result.outcome]
    return f"{subject} is {value}{interval}: {relation}; {_values(result)}"


def _values(result: LimitResult) -> str:
    runs = plural(result.runs, "run")
    if result.n is None:
        return runs
    worth = "" if result.n_effective is None else f", worth {format_number(result.n_effective, 3)} independent ones"
    return f"{plural(result.n, 'value')}{worth}, of {runs}"


def warmup(dropped: Sequence[int]) -> str:
    """What is said of the warm-up of new runs where their numbers stand; nothing where none was dropped."""
    return f", {plural(sum(dropped), 'value')} dropped as warm-up" if any(dropped) else ""


def change_message(
    subject: str, result: ChangeResult, reference: str, units: tuple[str, str | None], tolerance: str
) -> str:
    """How far the new runs are from the reference, and what it means; `units` are the base unit and the shown one."""
    base, new = (format_value(number, *units) for number in (result.base_value, result.new_value))
    if result.estimate is None:
        return f"{subject} is {new}, as in the {reference}"
    runs = f"{plural(result.base_runs, 'base run')}, {plural(result.new_runs, 'new run')}"
    interval = "" if result.reason == "exact" else f" [{format_change(result.low)}, {format_change(result.high)}]"
    change = f"{format_change(result.estimate)}{interval}"
    return f"{subject} went from {base} in the {reference} to {new}: {change}, {_relation(result, tolerance)}; {runs}"


def _relation(result: ChangeResult, tolerance: str) -> str:
    if result.reason == "thin-tail":
        return f"but the tail is too thin for this percentile: a run needs more values to be held to {tolerance}"
    if result.improved:
        return f"an improvement beyond the tolerance of {tolerance}"
    return {
        "pass": f"within the tolerance of {tolerance}",
        "fail": f"beyond the tolerance of {tolerance}",
        "suspect": f"which looks worse than the tolerance of {tolerance} allows, but one look cannot convict",
        "inconclusive": f"so the data cannot tell whether it is within {tolerance}",
    }[result.outcome]


def change_next_step(result: ChangeResult, approve: str) -> str:
    """The shortest way on from the outcome of a change."""
    if result.outcome == "fail":
        return f"find what made it worse; if the change is meant, approve it: {approve}"
    if result.outcome == "suspect":
        return "run the new side twice more and give all runs together: three runs settle it"
    if result.reason == "thin-tail":
        return "run longer, or hold a statistic nearer the middle (p90, median) to the tolerance"
    if result.outcome == "inconclusive" and result.runs_needed and result.runs_needed <= result.new_runs:
        return "an unchanged program would most likely pass with this many runs: look at what changed, or give two more"
    if result.outcome == "inconclusive" and result.runs_needed:
        return f"{plural(result.runs_needed, 'new run')} in all would settle an unchanged program at this tolerance"
    if result.outcome == "inconclusive":
        return "more base runs, a calibrated prior or a wider tolerance is needed: twenty new runs would not settle it"
    return f"approve it to hold the gain: {approve}" if result.improved else ""


def paired_next_step(result: ChangeResult) -> str:
    """The shortest way on from the outcome of a change between pairs; a base that moves along needs no approval."""
    if result.outcome == "fail":
        return "find what made it worse; if the change is meant, merge it: later pairs are held against it"
    if result.outcome == "suspect":
        return "make two pairs more: three settle it"
    if result.outcome == "inconclusive" and result.runs_needed and result.runs_needed > result.new_runs:
        return f"{plural(result.runs_needed, 'pair')} in all would settle an unchanged program at this tolerance"
    if result.outcome == "inconclusive" and not result.runs_needed:
        return "more steps a pair or a wider tolerance is needed: twenty pairs would not settle it"
    if result.outcome == "inconclusive":
        return (
            "an unchanged program would most likely pass with this many pairs: look at what changed, or make two more"
        )
    return ""


def limit_next_step(result: LimitResult, asks: str, place: str, needed: int | None) -> str:
    """The shortest way on from the outcome of a limit."""
    if result.outcome == "fail":
        return f"bring it {asks}, or change the rule at {place}"
    if result.outcome == "inconclusive":
        enough = f": about {needed} independent values would settle it" if needed else ""
        return f"run longer or give more runs{enough}"
    return ""
