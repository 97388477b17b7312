"""The name, the numbers and the details of one verdict in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from perfgate.core import Estimate, KnownNoise, RelativeChange, RunEstimate, Verdict
from perfgate.core.calculations import Attribution, Changed
from perfgate.core.units import UNITS, Unit, display_unit, format_change, format_confidence, format_number, format_value
from perfgate.core.wording import member_name, plural, series_name
from perfgate.words.answer import effect, wandering, without_hosts
from perfgate.words.work import is_work, largest_difference

_CHANGED: Mapping[Changed, str] = {
    "code": "changed by the code",
    "environment": "changed by the environment",
    "both": "changed by both",
    "neither": "changed by neither",
    "unclear": "changed by code or environment, more repetitions are needed to say which",
}
#: The combinations of code and environment that may not run.
_COMBINATIONS = {
    "new-code": "the new code does not run in the old environment",
    "new-environment": "the old code does not run in the new environment",
}
#: Where each effect was measured, if a combination does not run.
_MEASURED = {
    "new-code": "the code was compared in the new environment, and the environment with the old code",
    "new-environment": "the code was compared in the old environment, and the environment with the new code",
}


def attribution(found: Attribution) -> str:
    """Return what changed, and the effects: `changed by the code: code +4.9% [+4.0%, +5.9%], environment ...`."""
    code, environment = (
        f"{format_change(one.estimate)} [{format_change(one.low)}, {format_change(one.high)}]"
        for one in (found.code, found.environment)
    )
    size = f"({found.repetitions} repetitions, {format_confidence(found.confidence)} confidence)"
    parts = [f"{_CHANGED[found.changed]}: code {code}, environment {environment} {size}"]
    if found.interaction is not None:
        more = format_change(found.interaction.estimate)
        parts.append(f"in the new environment the effect of the code is larger by {more}")
    if found.missing is not None:
        parts.append(_MEASURED[found.missing])
    return "; ".join(parts)


def does_not_run(cell: str, why: str, *, alone: bool) -> str:
    """Return the warning about a combination of new and old that does not run; `alone` if the other one runs."""
    left = "their interaction is unknown" if alone else "only the whole change is known, not whose it is"
    return f"{_COMBINATIONS[cell]} ({why}): {left}"


def nothing_to_attribute() -> str:
    """Return the warning if no rule compares with the base."""
    return (
        "nothing to attribute: no rule compares with the baseline; add one, such as `step.time within 5% of baseline`"
    )


_NOT_MEASURED = "not measured"


def what(verdict: Verdict) -> str:
    """Return the name of a verdict: `forward{stage="train"} p95 on rank 3`, with its report if several are merged."""
    source = f" in {verdict.source}" if verdict.source is not None else ""
    return series_name(verdict.metric, verdict.labels, verdict.statistic, verdict.member) + source


def measured(verdict: Verdict, *, intervals: bool = True) -> list[str]:
    """Return the measured values as one or two texts, with their intervals or without.

    A limit: `72.6 ms [58.1, 123.1]`. A change: `361 → 372 ms` and, if they have a ratio, `+3.1% [+1.2%, +5.0%]`.
    """
    new, base, change = verdict.new, verdict.base, verdict.change
    if is_work(verdict):
        return [largest_difference(verdict)]
    if verdict.kind == "limit":
        if new is None or new.estimate is None:
            return [_NOT_MEASURED]
        factor = unit_for(new.estimate, verdict).factor
        bounds = _bounds(new, lambda bound: format_number(bound / factor)) if intervals else ""
        return [value_text(new.estimate, verdict) + bounds]
    texts = [_sides(base.estimate if base else None, new.estimate if new else None, verdict)]
    if change is None or change.estimate is None:  # a value of 0 or less, or without a base, has no ratio
        return texts
    return [*texts, format_change(change.estimate) + (_bounds(change, format_change) if intervals else "")]


def allowed(verdict: Verdict) -> str:
    """Return what the rule allows: `under 50 ms`, `within 5%`, `within 10% of anchor`."""
    return verdict.asks.removesuffix(" of baseline") if verdict.asks.startswith("within") else verdict.asks


def allowed_range(verdict: Verdict) -> tuple[float | None, float | None]:
    """Return the lowest and the highest allowed value: base units for a limit, a relative change for a change."""
    if verdict.kind == "limit":
        return (None, verdict.bound) if verdict.comparator in ("under", "at most") else (verdict.bound, None)
    tolerance = verdict.tolerance
    if tolerance is None or verdict.two_sided:
        return None if tolerance is None else -tolerance, tolerance
    return (-tolerance, None) if verdict.better == "higher" else (None, tolerance)


def facts(verdict: Verdict) -> list[tuple[str, str]]:
    """Return the details of a verdict as pairs of a label and a text."""
    texts = {
        "measured": ", ".join(measured(verdict)),
        "allowed": allowed(verdict),
        "code or environment": attributed(verdict),
        "explained by": "; ".join(explanation(verdict)),
        "data": _data(verdict),
        "noise between runs": "" if verdict.noise is None else _noise(verdict.noise),
        "rule": f"{verdict.at} {verdict.rule}{effect(verdict)}",
        "why": verdict.why or "",
        "owner": verdict.owner or "",
        "note": "; ".join(verdict.notes),
    }
    return [(label, text) for label, text in texts.items() if text]


def attributed(verdict: Verdict) -> str:
    """Return a line about the effects of code and environment; empty if they were not measured."""
    return "" if verdict.attribution is None else attribution(verdict.attribution)


def _noise(noise: KnownNoise) -> str:
    """Return the known noise between runs: `1.4%, from 43 runs of main`, or `1.4%, calibrated with 20 runs`."""
    size, runs = f"{format_number(100 * noise.deviation, 2)}%", plural(noise.runs, "run")
    if noise.source == "calibration":
        return f"{size}, calibrated with {runs}"
    beside = without_hosts(noise.hosts) + wandering(noise.wander)
    return f"{size}, from {runs} of {noise.branch or 'the history'}{beside}"


def _data(verdict: Verdict) -> str:
    """Return the amount of data of a verdict: `1662 values in 1 run (effective sample size 567), 95% confidence`."""
    parts = [prefix + _amount(side) for prefix, side in (("", verdict.new), ("base ", verdict.base)) if side]
    if verdict.share and verdict.allowed_share is not None:
        beyond = _percent(verdict.share.estimate) + _bounds(verdict.share, _percent)
        parts.append(f"{beyond} of the values are beyond the bound ({_percent(verdict.allowed_share)} allowed)")
    if dropped := sum(run.dropped for run in verdict.runs):
        parts.append(f"{plural(dropped, 'value')} dropped as warm-up")
    if verdict.minimum_detectable_change is not None:
        parts.append(f"smallest detectable change {_percent(verdict.minimum_detectable_change)}")
    return ", ".join([*parts, f"{format_confidence(verdict.confidence)} confidence"]) if parts else ""


def explanation(verdict: Verdict) -> list[str]:
    """Return the parts that explain a failed change: `backward 93% [88%, 98%] of the change (200 → 244.8 ms)`.

    The last line is about work that moved: one part grew while another shrank.
    """
    lines, grew, shrank = [], list[str](), list[str]()
    for share in verdict.explained_by:
        name = member_name(share.member) or share.metric
        within = "" if share.within is None else f"within {share.within}: "
        estimate, low, high = (f"{format_number(100 * part, 3)}%" for part in (share.share, share.low, share.high))
        sides = _sides(share.base, share.new, verdict)
        lines.append(f"{within}{name} {estimate} [{low}, {high}] of the change ({sides})")
        if share.within is None:
            (grew if share.new > share.base else shrank).append(name)
    return (
        [*lines, f"work moved: {', '.join(grew)} grew while {', '.join(shrank)} shrank"] if grew and shrank else lines
    )


def run_row(run: RunEstimate, verdict: Verdict) -> tuple[str, str, str, str]:
    """Return the columns of one run: side and name, estimate, number of values, and values dropped as warm-up."""
    name = run.source.rpartition("/")[2] if run.side == "base" else run.source
    dropped = f"{run.dropped}" if run.settled else f"{run.dropped}, warm-up did not end"
    return f"{run.side} {name}", value_text(run.estimate, verdict), str(run.n), dropped


def _amount(side: Estimate) -> str:
    runs = plural(side.runs, "run")
    if side.n is None:
        return runs
    size = "" if side.n_effective is None else f" (effective sample size {format_number(side.n_effective, 3)})"
    return f"{plural(side.n, 'value')} in {runs}{size}"


def _sides(base: float | None, new: float | None, verdict: Verdict) -> str:
    """Return both sides of a change in one unit: `361 → 372 ms`."""
    if base is None and new is None:
        return _NOT_MEASURED
    if base is None:
        return value_text(new, verdict)
    if new is None:
        return f"{value_text(base, verdict)} → unknown"
    unit = unit_for(max(base, new, key=abs), verdict)
    return f"{format_number(base / unit.factor)} → {format_value(new, unit.base, unit.symbol)}"


def _bounds(seen: Estimate | RelativeChange, show: Callable[[float], str]) -> str:
    """Return bounds in brackets; nothing if they are equal or both are unknown."""
    if seen.low == seen.high:
        return ""
    low, high = ("unbounded" if bound is None else show(bound) for bound in (seen.low, seen.high))
    return f" [{low}, {high}]"


def value_text(value: float | None, verdict: Verdict) -> str:
    """Return a value of the verdict's metric with its unit."""
    return "unknown" if value is None else format_value(value, verdict.unit or "1", unit_for(value, verdict).symbol)


def unit_for(value: float, verdict: Verdict) -> Unit:
    """Return the unit of the rule's author if it fits the metric, else a unit that fits the value."""
    base = verdict.unit or "1"
    shown = UNITS.get(verdict.shown_unit or "")
    if shown is None or shown.base != base:
        return display_unit(value, base)
    return UNITS["%"] if shown.symbol == "pp" else shown  # pp is for differences of shares


def _percent(share: float | None) -> str:
    return format_value(share, "1", "%")
