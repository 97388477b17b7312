"""The sentences of doubts about what was measured, and the next step of a verdict that they decide."""

from __future__ import annotations

import math

from perfgate.core import Acceptance, HostDifference, NextStep
from perfgate.core.results import Doubt
from perfgate.core.units import format_change, format_number, format_value

_KINDS = {
    "samples": "single values",
    "summary": "single values",
    "aggregate": "printed statistics",
    "value": "one number",
}


def doubt_sentence(doubt: Doubt, unit: str, shown: str | None) -> str:
    """Return the difference in words, the new runs first; `unit` is the base unit, `shown` the unit to show."""
    if doubt.reason == "machine":
        return _machine_sentence(doubt, unit, shown)
    if isinstance(doubt.base, str) or isinstance(doubt.new, str):
        return f"the new runs have {_KINDS[str(doubt.new)]}, the baseline's runs have {_KINDS[str(doubt.base)]}"
    base, new = doubt.base, doubt.new
    if doubt.what in ("new-runs", "base-runs"):
        whose, (low, high) = doubt.what.partition("-")[0], (format_value(value, unit, shown) for value in (base, new))
        return f"the {whose} runs disagree: from {low} to {high}, which is more than noise explains"
    if doubt.what == "gain":
        was, is_now = (format_value(value, unit, shown) for value in (base, new))
        ratio = max(base, new) / min(base, new) if min(base, new) > 0 else None
        how = "it became 0" if ratio is None else f"{format_number(ratio, 3)} times better"
        return f"{how} ({was} in the baseline, {is_now} now), which is more likely a mistake in the measurement"
    if doubt.what == "mean":
        was, is_now = (format_value(value, unit, shown) for value in (base, new))
        which = "after the warm-up" if doubt.of else "warm-up included"
        return f"the mean of all values, {which}, went from {was} to {is_now} ({format_change(new / base - 1)})"
    if doubt.what == "quarter":
        of_rule = f"the first {new:g} of {base:g} values are slow, more than the rule's `warmup`"
        return of_rule if doubt.of else f"{new:g} of {base:g} values were dropped as warm-up"
    if doubt.what == "warm-up time":
        was, is_now = (format_value(value, "s") for value in (base, new))
        return f"the warm-up took {is_now}, and at most {was} in the baseline's runs"
    if doubt.what == "warm-up steps":
        return f"the warm-up took {new:g} steps, and at most {base:g} in the baseline's runs"
    if doubt.what in ("values", "calls"):
        word = "more" if new > base else "fewer"
        return f"{word} {doubt.what} than in the baseline: {new:g} instead of {base:g}"
    if doubt.what == "more-ranks":
        return f"more ranks than in the baseline: {new:g} instead of {base:g}"
    one, other = (f"{format_number(100 * share, 3)}%" for share in (new, base))
    known = "" if base == 1 else f", and {other} in the baseline's runs"
    if doubt.what == "ranks":
        return f"{one} of the job's ranks were measured{known}"
    if doubt.what == "steps":
        return f"{one} of the steps from the first to the last have a value{known}"
    return f"{one} of the steps have all parts of this metric{known}"


def _machine_sentence(doubt: Doubt, unit: str, shown: str | None) -> str:
    """Return how the state of the machine differs between the two sides."""
    base, new = doubt.base, doubt.new
    if doubt.hosts is not None:
        return _host_sentence(doubt.hosts, doubt.of, unit, shown)
    if doubt.what == "same-host" and isinstance(new, float):
        return f"without the difference of the hosts, the change is {format_change(new)}"
    if isinstance(base, str) or isinstance(new, str):
        return f"the new runs are of another machine: {new}, and the base runs of {base}"
    if doubt.what == "cycles":
        return f"counted in clock cycles, the change is {format_change(new)}"
    if doubt.what == "clock":
        was, is_now = (format_value(value, "1/s", "MHz") for value in (base, new))
        side, change = ("new", new / base - 1) if new < base else ("base", base / new - 1)
        return f"the clock was {format_change(abs(change)).lstrip('+')} slower in the {side} runs ({was} → {is_now})"
    one, other = (f"{format_number(100 * share, 3)}%" for share in (new, base))
    return f"{doubt.of}: {one} of the time in the new runs, {other} in the base runs"


def _host_sentence(known: HostDifference, word: str, unit: str, shown: str | None) -> str:
    """Return the difference of the hosts, with the level and the noise of each."""
    sizes = [
        f"{format_value(one.level, unit, shown)} ± {format_number(100 * one.noise, 2)}%"
        for one in (known.new, known.base)
    ]
    new, base = (" and ".join(one.hosts) for one in (known.new, known.base))
    size = format_change(abs(math.expm1(known.log_difference))).lstrip("+")
    of = f" of {known.branch}" if known.branch else ""
    return (
        f"host {new} is {size} {word} than {base} in {known.base.runs + known.new.runs} remembered runs{of}"
        f" ({sizes[0]} and {sizes[1]})"
    )


def doubt_next_step(doubt: Doubt, accept: Acceptance, *, has_base: bool) -> NextStep:
    """Return the next step after a doubt that decides; `accept` has the command that approves the new runs."""
    if doubt.reason == "machine":
        if doubt.hosts is not None:
            there = " or ".join(doubt.hosts.base.hosts)
            return NextStep(
                "run-again", f"measure again on {there}, or compare on one machine: `perfgate run --paired`"
            )
        steady = "lock the clocks (`nvidia-smi -lgc`) and " if doubt.what == "clock" else ""
        return NextStep("run-again", f"{steady}measure again, or compare on one machine: `perfgate run --paired`")
    others = "" if accept.ref is None else f"someone who may write to {accept.ref} can "
    intended = f"; if it is intended, {others}approve it" if accept.has_store else ""
    command = accept.approve if accept.has_store and accept.ref is None else None
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
        return NextStep(
            "fix-input", 'give the files of all ranks, or name the measured ranks in the rule: `{rank="0"}`'
        )
    if doubt.what == "values":
        text = f"the job seems to have died early: run it again to its end{intended}"
        return NextStep("run-again", text, command=command)
    return NextStep("run-again", f"find out why less was measured, and run it again{intended}", command=command)
