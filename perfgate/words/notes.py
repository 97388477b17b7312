"""Notes below a verdict, the words before its message, and the doubts about what was measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from perfgate.core import Acceptance, Allowance, HostDifference, NextStep, Outcome, PooledRuns, Quarantine
from perfgate.core.results import Doubt
from perfgate.core.units import format_change, format_number, format_value
from perfgate.core.wording import listed, percent_of, plural

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
#: The note about stalls in means begins so.
STALLS = "twice as slow as the median"
#: The ways to make pairs.
PAIRINGS = {
    "one-process": "steps by turns in one process",
    "in-turn": "steps by turns in two processes",
    "whole-runs": "whole runs by turns",
}


def unstored_parts(parts: Sequence[str]) -> str:
    """Return that the part of a metric that became slower is unknown."""
    return f"the slower part is unknown: the baseline was stored without {listed(parts)}; a run stored now has them"


def uncalibrated(*, has_looks: bool, can_calibrate: bool, history: float | None) -> str:
    """Return where the noise between runs comes from; `history` is the noise that the runs contradict."""
    advice = ": `perfgate rules --calibrate` measures it from the stored runs" if can_calibrate else ""
    if history is not None:
        advice = f": these runs differ by more than the {format_number(100 * history, 2)}% of the history"
    source = "estimated from these few runs" if has_looks else "assumed to be 1%"
    return f"{NOT_CALIBRATED} {source}, not calibrated{advice}"


def allowance(allowance: Allowance, effect: Literal["none", "expired", "not-enough", "eased"]) -> str:
    """Return what an allowance did."""
    if effect == "eased":
        return f"allowed by {allowance.by}: {allowance.reason}"
    failed = f"expired on {allowance.expires}" if effect == "expired" else "is not enough"
    return f"the allowance of {100 * allowance.up_to:g}% by {allowance.by} {failed}"


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
    """Return how many values are left out."""
    return f"left out: {plural(count, 'value')} of steps that stalled"


def stalls(new: tuple[int, int], base: tuple[int, int], change: str) -> str:
    """Return how many of all values of each side are stalls, which a mean includes, and the change without them."""
    sides = ", ".join(f"{count} of {total} {side} values" for side, (count, total) in (("new", new), ("base", base)))
    return f"{STALLS}: {sides}; without them the mean changes by {change}"


def left_out(names: Sequence[str]) -> str:
    """Return the metrics of a glob whose unit does not fit the quantity."""
    return f"not judged by this rule, because the unit does not fit: {listed([*dict.fromkeys(names)])}"


def of_best_values(statistic: str) -> str | None:
    """Return that a percentile above the median looks at the best values, where larger is better; None for others."""
    percent = percent_of(statistic)
    if percent is None or not 50 < percent < 100:
        return None
    return f"larger is better here, so {statistic} looks at the best values; the worst ones are in p{100 - percent:g}"


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


def less_work(change: float | None, metric: str, share: float) -> str:
    """Return that a gain comes with less work: `better by 30%, with 31% less work (work.flops)`."""
    gain = "" if change is None else f" by {format_number(100 * abs(change), 2)}%"
    return f"better{gain}, with {format_number(100 * share, 2)}% less work ({metric})"


#: The kinds of series in words.
_KINDS = {
    "samples": "single values",
    "summary": "single values",
    "aggregate": "printed statistics",
    "value": "one number",
}
#: What a share is a share of.
_WHOLES = {
    "ranks": "the job's ranks were measured",
    "steps": "the steps from the first to the last have a value",
    "joined": "the steps have all parts of this metric",
}


def doubt_sentence(doubt: Doubt, unit: str, shown: str | None) -> str:
    """Return the difference of both sides in words; `unit` is the base unit, `shown` the unit to show.

    `Doubt` says for each `what` which numbers `base` and `new` are.
    """
    if doubt.reason == "machine":
        return _machine_sentence(doubt, unit, shown)
    base, new, what = doubt.base, doubt.new, doubt.what
    if isinstance(base, str) or isinstance(new, str):
        return f"the new runs have {_KINDS[str(new)]}, the baseline's runs have {_KINDS[str(base)]}"
    if what in ("ranks", "steps", "joined"):
        share = f"{format_number(100 * new, 3)}% of {_WHOLES[what]}"
        return share if base == 1 else f"{share}, and {format_number(100 * base, 3)}% in the baseline's runs"
    if what == "quarter":
        of_rule = f"the first {new:g} of {base:g} values are slow, more than the rule's `warmup`"
        return of_rule if doubt.of else f"{new:g} of {base:g} values were dropped as warm-up"
    if what == "warm-up time":
        return (
            f"the warm-up took {format_value(new, 's')}, and at most {format_value(base, 's')} in the baseline's runs"
        )
    if what == "warm-up steps":
        return f"the warm-up took {new:g} steps, and at most {base:g} in the baseline's runs"
    if what in ("values", "calls", "more-ranks"):
        word = "more" if new > base else "fewer"
        return f"{word} {what.removeprefix('more-')} than in the baseline: {new:g} instead of {base:g}"
    was, is_now = format_value(base, unit, shown), format_value(new, unit, shown)
    if what == "mean":
        which = "after the warm-up" if doubt.of else "warm-up included"
        return f"the mean of all values, {which}, went from {was} to {is_now} ({format_change(new / base - 1)})"
    if what == "gain":
        least, most = sorted((base, new))
        how = f"{format_number(most / least, 3)} times better" if least > 0 else "it became 0"
        return f"{how} ({was} in the baseline, {is_now} now), which is more likely a mistake in the measurement"
    # `new-runs` or `base-runs`
    return f"the {what.removesuffix('-runs')} runs disagree: from {was} to {is_now}, which is more than noise explains"


def _machine_sentence(doubt: Doubt, unit: str, shown: str | None) -> str:
    """Return how the state of the machine differs between the two sides."""
    base, new = doubt.base, doubt.new
    if doubt.hosts is not None:
        return _host_sentence(doubt.hosts, doubt.of, unit, shown)
    if doubt.what == "same-host" and isinstance(new, float):
        return f"without the difference of the hosts, the change is {format_change(new)}"
    if isinstance(base, str) or isinstance(new, str):
        return f"the new runs are from machine {new}, the base runs from {base}"
    if doubt.what == "cycles":
        return f"counted in clock cycles, the change is {format_change(new)}"
    if doubt.what == "clock":
        was, is_now = (format_value(value, "1/s", "MHz") for value in (base, new))
        side, change = ("new", new / base - 1) if new < base else ("base", base / new - 1)
        return f"the clock was {format_change(abs(change)).lstrip('+')} slower in the {side} runs ({was} → {is_now})"
    one, other = (f"{format_number(100 * share, 3)}%" for share in (new, base))  # `lost` time
    return f"{doubt.of}: {one} of the time in the new runs, {other} in the base runs"


def _host_sentence(known: HostDifference, word: str, unit: str, shown: str | None) -> str:
    """Return the difference of the hosts, with the level and the noise of each."""
    both = (known.new, known.base)
    sizes = (f"{format_value(one.level, unit, shown)} ± {format_number(100 * one.noise, 2)}%" for one in both)
    new, base = (" and ".join(one.hosts) for one in both)
    size = format_change(abs(math.expm1(known.log_difference))).lstrip("+")
    runs = f"{known.base.runs + known.new.runs} remembered runs" + (f" of {known.branch}" if known.branch else "")
    return f"host {new} is {size} {word} than {base} in {runs} ({' and '.join(sizes)})"


def doubt_next_step(doubt: Doubt, accept: Acceptance, *, has_base: bool) -> NextStep:
    """Return the next step after a doubt that decides; `accept` has the command that approves the new runs."""
    if doubt.reason == "machine":
        return _machine_next_step(doubt)
    intended, command = "", None  # how to accept the new runs
    if accept.has_store and accept.ref is None:
        intended, command = "; if it is intended, approve it", accept.approve
    elif accept.has_store:
        intended = f"; if it is intended, someone who may write to {accept.ref} can approve it"
    if doubt.what == "new-runs":
        return NextStep("run-again", "the new runs disagree: run again; if they do again, see what one did differently")
    if doubt.what == "quarter":
        text = f"find out why the start is slow; if these steps are warm-up, set `warmup: {doubt.new:g}` in the rule"
        return NextStep("find-cause", text)
    if doubt.reason == "warm-up":
        text = f"run the new code twice more and give all three runs together{intended}"
        return NextStep("run-again", text, command=command)
    if doubt.what == "gain":
        text = f"check that the program still does the work and measures all of it{intended}"
        return NextStep("approve" if accept.has_store else "find-cause", text, command=command)
    if doubt.what == "ranks" and not has_base:
        text = 'give the files of all ranks, or name the measured ranks in the rule: `{rank="0"}`'
        return NextStep("fix-input", text)
    if doubt.what == "values":
        text = f"the job seems to have died early: run it again to its end{intended}"
        return NextStep("run-again", text, command=command)
    return NextStep("run-again", f"find out why less was measured, and run it again{intended}", command=command)


def _machine_next_step(doubt: Doubt) -> NextStep:
    how = "measure again"
    if doubt.hosts is not None:
        how = f"measure again on {' or '.join(doubt.hosts.base.hosts)}"
    elif doubt.what == "clock":
        how = "lock the clocks (`nvidia-smi -lgc`) and measure again"
    return NextStep("run-again", f"{how}, or compare on one machine: `perfgate run --paired`")
