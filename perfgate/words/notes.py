"""Notes below a verdict, and the words before its message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from perfgate.core import Allowance, Outcome, PooledRuns, Quarantine
from perfgate.core.units import format_number, format_value
from perfgate.core.wording import listed, plural

ONE_RUN = "one run: the interval does not include the noise between runs"
ONE_BASE_RUN = "one base run: weak evidence"
#: The note about noise that was not measured before begins so.
NOT_CALIBRATED = "run-to-run noise is"
ONE_PAIR = "one pair: the random memory layout of its processes does not average out"
IMPROVED = "an improvement beyond the tolerance"
UNSETTLED = "the warm-up of a run did not end: a quarter of its values was dropped"
CANNOT_FAIL = "this rule cannot fail: nothing falls by 100% or more"
NO_DIRECTION = "the better direction is unknown, so both are judged: set `better:` in the rule"
#: The name of the base that pairs bring with them begins so.
PAIRED_BASE = "paired base"
#: The ways to make pairs.
PAIRINGS = {
    "one-process": "steps by turns in one process",
    "in-turn": "steps by turns in two processes",
    "whole-runs": "whole runs by turns",
}


def unstored_parts(parts: Sequence[str]) -> str:
    """Return that the part of a metric that became slower is unknown."""
    return f"the slower part is unknown: the baseline has none of {listed(parts)}; a run that is stored now has them"


def uncalibrated(*, has_looks: bool, can_calibrate: bool, history: float | None) -> str:
    """Return where the noise between runs comes from; `history` is the noise that the runs contradict."""
    advice = ": `perfgate rules --calibrate` measures it from the stored runs" if can_calibrate else ""
    if history is not None:
        advice = f": these runs differ by more than the {format_number(100 * history, 2)}% of the history"
    source = "estimated from these few runs" if has_looks else "assumed to be 1%"
    return f"{NOT_CALIBRATED} {source}, not calibrated{advice}"


def allowance(allowance: Allowance, effect: Literal["none", "expired", "not-enough", "eased"]) -> str:
    """Return what an allowance did."""
    allowed = f"{100 * allowance.up_to:g}% by {allowance.by}"
    if effect == "eased":
        return f"allowed by {allowance.by}: {allowance.reason}"
    return f"the allowance of {allowed} " + (
        f"expired on {allowance.expires}" if effect == "expired" else "is not enough"
    )


def one_of_many(count: int, confidence: float) -> str:
    """Return that a verdict was corrected for multiple comparisons."""
    return f"one of {count} metrics of a glob, corrected with Benjamini-Hochberg at {100 * (1 - confidence):g}%"


def paired(pairs: int, pairing: str, known_pairs: int | None) -> str:
    """Return how the pairs were made; `known_pairs` showed their noise."""
    measured = f"; noise measured on {plural(known_pairs, 'pair')}" if known_pairs is not None else ""
    return f"judged against the paired base: {plural(pairs, 'pair')}, {PAIRINGS[pairing]}{measured}"


def order_effect(bias: float, tolerance: float) -> str:
    """Return the cost of going second."""
    is_large = abs(bias) > tolerance
    effect = "more than the tolerance, so look at what a step leaves to the next" if is_large else "removed"
    return f"order effect: {format_number(100 * abs(bias), 2)}% ({effect})"


def two_modes(low: float, high: float, low_share: float, unit: str) -> str:
    """Return that the values are two groups with these centres."""
    shares = ((low_share, low), (1 - low_share, high))
    groups = ", ".join(f"{100 * share:.0f}% near {format_value(centre, unit)}" for share, centre in shares)
    return f"two modes: {groups}; the median can jump: use p90 or mean"


def stalled(count: int) -> str:
    """Return how many values of both sides are left out."""
    return f"left out: {plural(count, 'value')} of steps that stalled"


def left_out(names: Sequence[str]) -> str:
    """Return the metrics of a glob whose unit does not fit the quantity."""
    return f"not judged by this rule, because the unit does not fit: {listed([*dict.fromkeys(names)])}"


def quarantine_over(quarantine: Quarantine) -> str:
    """Return that the quarantine of a rule that passes has ended."""
    return f"the quarantine of this rule ended on {quarantine.until}: remove it"


def in_quarantine(quarantine: Quarantine, message: str) -> str:
    """Return the message of a verdict that the quarantine keeps from blocking, or that blocks again."""
    said = "the quarantine ended on" if quarantine.ended else "quarantined until"
    return f"{said} {quarantine.until} ({quarantine.reason}): {message}"


def accepted_missing(policy: Literal["warn", "skip"], message: str) -> str:
    """Return the message of a verdict without data that the user accepted."""
    return ("warning: " if policy == "warn" else "") + f"not judged: {message}"


def expected_failure(until: object, reason: str, otherwise: Outcome, message: str) -> str:
    """Return the message of a rule that is known to fail."""
    return f"expected to fail until {until} ({reason}); now: {otherwise}: {message}"


def with_earlier_runs(pooled: PooledRuns, message: str) -> str:
    """Return the message of a failure that earlier runs confirm."""
    return f"with {plural(len(pooled.commits), 'earlier run')} of {pooled.branch}: {message}"


def allowed_up_to(allowance: Allowance, message: str) -> str:
    """Return the message of a change that an allowance accepts."""
    until = f"until {allowance.expires} ({allowance.reason})"
    return f"allowed up to {100 * allowance.up_to:g}% by {allowance.by} {until}: {message}"


def less_work(change: float, metric: str, share: float) -> str:
    """Return that a gain comes with less work: `faster by 30%, with 31% less work (work.flops)`."""
    gain = format_number(100 * abs(change), 2)
    return f"better by {gain}%, with {format_number(100 * share, 2)}% less work ({metric})"
