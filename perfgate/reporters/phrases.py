"""The words that all reports share: names and numbers of verdicts, their order, and the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from perfgate.core import (
    OUTCOMES,
    Estimate,
    Key,
    KnownNoise,
    NextStep,
    Outcome,
    Policy,
    PolicyChange,
    Problem,
    RelativeChange,
    Report,
    RunEstimate,
    Share,
    Verdict,
)
from perfgate.core.units import (
    UNITS,
    Unit,
    display_unit,
    format_change,
    format_confidence,
    format_number,
    format_value,
    printed_base,
)
from perfgate.core.wording import clip, member_name, one_line, plural, series_name

if TYPE_CHECKING:
    from perfgate.core.summaries import Plan

#: A sign for every outcome, because a reader may see no colours.
SIGNS: dict[Outcome, str]
SIGNS = {"fail": "✗", "error": "!", "suspect": "~", "inconclusive": "?", "skipped": "-", "pass": "✓"}
ASCII_SIGNS: dict[Outcome, str] = {**SIGNS, "fail": "x", "pass": "+"}

_COUNTED_AS: dict[Outcome, str] = {"fail": "failed", "pass": "passed"}
_NOT_MEASURED = "not measured"
#: The largest number of policy differences in a report.
_DIFFERENCES_SHOWN = 20
#: Up to this many metrics are named with their noise.
_NOISES_SHOWN = 3
#: The longest name of a metric that no rule names, in characters: names of kernels fill half a page.
LONGEST_UNRULED = 100


def worst_first(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Return the verdicts with the worst outcome first, and within one outcome in the order of the rules."""
    return sorted(verdicts, key=lambda verdict: OUTCOMES.index(verdict.outcome))


def by_rule(verdicts: Iterable[Verdict]) -> list[list[Verdict]]:
    """Return the verdicts in one group per rule. The worst group and the worst verdict of each group come first."""
    groups: dict[object, list[Verdict]] = {}
    for verdict in worst_first(verdicts):
        groups.setdefault((verdict.rule, verdict.at, verdict.source), []).append(verdict)
    return list(groups.values())


def needs_attention(verdict: Verdict) -> bool:
    """Return True if a verdict is neither a pass nor skipped."""
    return verdict.outcome not in ("pass", "skipped")


def shows_notes(verdict: Verdict) -> bool:
    """Return True if the notes of a verdict are shown; those of a plain pass need `--verbose`."""
    return verdict.outcome != "pass" or verdict.improved or verdict.doubtful or verdict.reason == "allowed"


def is_warning(verdict: Verdict) -> bool:
    """Return True if a verdict needs attention but does not block."""
    return needs_attention(verdict) and verdict.exit_code == 0


def effect(verdict: Verdict) -> str:
    """Return ` (quarantined)`, ` (warning only)` or ` (does not block)` for a warning, else nothing."""
    if not is_warning(verdict):
        return ""
    if verdict.quarantine and verdict.is_quarantined:
        return " (quarantined)"
    return " (warning only)" if verdict.severity == "warning" else " (does not block)"


def unrelated_errors(report: Report) -> list[Problem]:
    """Return the problems of severity error that do not belong to a judged metric."""
    judged = {Key.of(verdict.metric, **verdict.labels).without_members() for verdict in report.verdicts}
    errors = [problem for problem in report.problems if problem.severity == "error"]
    return [problem for problem in errors if not problem.key or problem.key.without_members() not in judged]


def unread_runs(report: Report) -> list[Problem]:
    """Return the errors that left the runs without a metric, so that no verdict says more; else an empty list.

    "no measurements" is left out if another error of the file says why.
    """
    waiting = [verdict for verdict in report.verdicts if verdict.outcome != "skipped"]
    errors = [problem for problem in report.problems if problem.severity == "error"]
    has_more = report.causes is not None or (report.verdicts and not waiting)
    if not errors or has_more or any(verdict.reason != "no-data" for verdict in waiting):
        return []
    explained = {problem.at.file for problem in errors if problem.message != "no measurements"}
    return [one for one in report.problems if one.message != "no measurements" or one.at.file not in explained]


def not_judged(report: Report) -> str:
    """Return how many rules were not judged, for runs without a metric: `nothing was measured: 5 rules not judged`."""
    return f"nothing was measured: {plural(len(by_rule(report.verdicts)), 'rule')} not judged"


def problem_text(problem: Problem) -> str:
    """Return the message of a problem, with its series if the message does not name it."""
    if problem.key is None or str(problem.key) in problem.message:
        return problem.message
    return f"{problem.message} ({problem.key})"


def answer(report: Report) -> tuple[str, str]:
    """Return the outcome and the counts of a report: `("FAIL", "1 failed, 3 passed (exit 1)")`."""
    return report.outcome.upper(), f"{', '.join(tally(report))} (exit {report.exit_code})"


def tally(report: Report) -> list[str]:
    """Return the number of verdicts with each outcome, the worst first, and the number of problems."""
    parts = [] if report.verdicts else ["nothing was judged"]
    for outcome in OUTCOMES:
        found = [verdict for verdict in report.verdicts if verdict.outcome == outcome]
        warnings = sum(map(is_warning, found)) if outcome == "fail" else 0
        quarantined = sum(verdict.is_quarantined for verdict in found) if warnings else 0
        asides = [f"{quarantined} quarantined"] if quarantined else []
        asides += [f"{warnings - quarantined} as a warning"] if warnings > quarantined else []
        aside = f" ({', '.join(asides)})" if asides else ""
        word = _COUNTED_AS.get(outcome, outcome)
        count = plural(len(found), word) if outcome == "error" else f"{len(found)} {word}"
        parts += [count + aside] if found else []
    counted = (unread_runs(report) if report.exit_code == 3 else []) or report.problems
    errors = sum(problem.severity == "error" for problem in counted)
    return [*parts, plural(errors, "problem")] if errors else parts


def origin(report: Report) -> list[tuple[str, str]]:
    """Return the suite, the baseline, the policy and the trace mode of a report, without those that are empty."""
    mode = str(report.environment.get("trace_mode", ""))
    pairs = {"suite": report.suite, "baseline": report.baseline, "policy": _shown(report.policy), "trace mode": mode}
    return [(name, value) for name, value in pairs.items() if value]


def _shown(policy: Policy) -> str | None:
    """Return the ref and its short commit; None for the working tree."""
    return f"{policy.ref} ({policy.commit[:12]})" if policy.ref and policy.commit else policy.ref


def next_step(step: NextStep, words: Callable[[str], str] = str, code: Callable[[str], str] = str) -> str:
    """Return a next step with its command, or nothing; `words` and `code` mark them up. Every report shows this."""
    return f"{words(step.text)}: {code(step.command)}" if step.command else words(step.text)


def approval_intro(report: Report) -> str:
    """Return the line above the command that approves the results, or that allows them on the policy's branch."""
    return f"{report.accept.text}:"


def rule_differences(policy: Policy) -> list[str]:
    """Return the differences between the working tree and the policy, as lines; empty if they are the same."""
    if not policy.changes:
        return []
    head = f"policy {_shown(policy)} was used; the working tree differs from it:"
    lines = [f"  {difference(change)}" for change in policy.changes[:_DIFFERENCES_SHOWN]]
    more = len(policy.changes) - _DIFFERENCES_SHOWN
    lines += [f"  and {more} more differences"] if more > 0 else []
    if policy.own_outcome:
        lines.append(f"  with the policy of the working tree the outcome would be: {policy.own_outcome}")
    return [one_line(line) for line in (head, *lines)]


def difference(change: PolicyChange) -> str:
    """Return one difference as a line: the change, its place, and its effect on the judged runs."""
    effect = f"; {change.effect}" if change.effect else ""
    where = f" ({change.at})" if change.rule or change.own_rule else ""
    return one_line(f"{change.message}{where}{effect}")


def what(verdict: Verdict) -> str:
    """Return the name of a verdict: `forward{stage="train"} p95 on rank 3`, with its report if several are merged."""
    source = f" in {verdict.source}" if verdict.source is not None else ""
    return series_name(verdict.metric, verdict.labels, verdict.statistic, verdict.member) + source


def measured(verdict: Verdict) -> list[str]:
    """Return the measured values as one or two texts.

    A limit: `72.6 ms [58.1, 123.1]`. A change: `361 → 372 ms` and `+3.1% [+1.2%, +5.0%]`.
    """
    new, base, change = verdict.new, verdict.base, verdict.change
    if verdict.kind == "limit":
        if new is None or new.estimate is None:
            return [_NOT_MEASURED]
        factor = unit_for(new.estimate, verdict).factor
        return [value_text(new.estimate, verdict) + _bounds(new, lambda bound: format_number(bound / factor))]
    texts = [_sides(base.estimate if base else None, new.estimate if new else None, verdict)]
    return [*texts, format_change(change.estimate) + _bounds(change, format_change)] if change else texts


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


def unruled(report: Report) -> list[str]:
    """Return what changed and no rule looks at: a head, and a line for each metric that is listed."""
    more = report.unruled_count - len(report.unruled)
    count = f"{plural(report.unruled_count, 'metric')} by more than 10%" + (f", {more} not listed" if more else "")
    lines = [f"Changed, and no rule looks: {count}"] if report.unruled else []
    for one in report.unruled:
        unit = display_unit(max(one.base, one.new, key=abs), printed_base(one.metric, one.unit))
        values = f"{format_number(one.base / unit.factor)} → {format_value(one.new, unit.base, unit.symbol)}"
        share = "" if one.share is None else f", {format_number(100 * one.share, 2)}% of the time of the steps"
        name = clip(series_name(one.metric, one.labels), LONGEST_UNRULED)
        lines.append(f"{name} {format_change(one.change)} ({values}{share})")
    return lines


def unknown_facts(report: Report) -> list[str]:
    """Return a line about the facts that no side knows; empty if all are known, or no change needs attention."""
    for verdict in report.verdicts if report.unknown_facts else ():
        if verdict.kind == "change" and shows_notes(verdict):
            return [f"unknown on both sides: {', '.join(report.unknown_facts)}"]
    return []


def learned_noise(judged: Iterable[Verdict | Plan]) -> list[str]:
    """Return a line about the noise that the history showed: `noise between runs: 1.4%, from 43 runs of main`."""
    found = [(one, one.noise) for one in judged if one.noise is not None and one.noise.source == "history"]
    if not found:
        return []
    by_name = {series_name(one.metric, one.labels, one.statistic): noise.deviation for one, noise in found}
    sizes = [f"{format_number(100 * size, 2)}%" for size in sorted(by_name.values())]
    if len(by_name) == 1:
        text = sizes[0]
    elif len(by_name) <= _NOISES_SHOWN:
        text = ", ".join(f"{name} {format_number(100 * size, 2)}%" for name, size in by_name.items())
    else:
        text = f"{sizes[0]} to {sizes[-1]}"
    counts = sorted({noise.runs for _, noise in found})
    runs = plural(counts[0], "run") if len(counts) == 1 else f"{counts[0]} to {counts[-1]} runs"
    branches = " and ".join(dict.fromkeys(noise.branch for _, noise in found if noise.branch)) or "the history"
    without = _without_hosts(max(noise.hosts for _, noise in found))
    return [f"noise between runs: {text}, from {runs} of {branches}{without}"]


def _without_hosts(count: int) -> str:
    """Return that the differences between hosts are not part of the noise, if they were taken out."""
    return f", without the differences between {count + 1} hosts" if count else ""


def facts(verdict: Verdict) -> list[tuple[str, str]]:
    """Return the details of a verdict as pairs of a label and a text."""
    texts = {
        "measured": ", ".join(measured(verdict)),
        "allowed": allowed(verdict),
        "explained by": "; ".join(explanation(verdict)),
        "data": _data(verdict),
        "noise between runs": "" if verdict.noise is None else _noise(verdict.noise),
        "rule": f"{verdict.at} {verdict.rule}{effect(verdict)}",
        "why": verdict.why or "",
        "owner": verdict.owner or "",
        "note": "; ".join(verdict.notes),
    }
    return [(label, text) for label, text in texts.items() if text]


def _noise(noise: KnownNoise) -> str:
    """The known noise between runs: `1.4%, from 43 runs of main`, or `1.4%, calibrated with 20 runs`."""
    size, runs = f"{format_number(100 * noise.deviation, 2)}%", plural(noise.runs, "run")
    if noise.source == "calibration":
        return f"{size}, calibrated with {runs}"
    return f"{size}, from {runs} of {noise.branch or 'the history'}{_without_hosts(noise.hosts)}"


def _data(verdict: Verdict) -> str:
    """The amount of data behind a verdict: `1662 values in 1 run (effective sample size 567), 95% confidence`."""
    sides = (("", verdict.new), ("base ", verdict.base))
    parts = [prefix + _amount(side) for prefix, side in sides if side]
    if verdict.share and verdict.allowed_share is not None:
        beyond = _percent(verdict.share.estimate) + _bounds(verdict.share, _percent)
        parts.append(f"{beyond} of the values are beyond the bound ({_percent(verdict.allowed_share)} allowed)")
    if dropped := sum(run.dropped for run in verdict.runs):
        parts.append(f"{plural(dropped, 'value')} dropped as warm-up")
    if verdict.minimum_detectable_change is not None:
        parts.append(f"smallest detectable change {_percent(verdict.minimum_detectable_change)}")
    return ", ".join([*parts, f"{format_confidence(verdict.confidence)} confidence"]) if parts else ""


def explanation(verdict: Verdict) -> list[str]:
    """Return the parts that explain a failed change: `backward 93% [88%, 98%] of the change (200 → 244.8 ms)`."""
    return [*(_share(share, verdict) for share in verdict.explained_by), *_move(verdict.explained_by)]


def _share(share: Share, verdict: Verdict) -> str:
    name = member_name(share.member) or share.metric
    within = "" if share.within is None else f"within {share.within}: "
    estimate, low, high = (f"{format_number(100 * part, 3)}%" for part in (share.share, share.low, share.high))
    return f"{within}{name} {estimate} [{low}, {high}] of the change ({_sides(share.base, share.new, verdict)})"


def _move(shares: Iterable[Share]) -> list[str]:
    """A line for work that moved: one part grew while another shrank."""
    direct = [share for share in shares if share.within is None]
    grew, shrank = (
        ", ".join(member_name(share.member) or share.metric for share in direct if (share.new > share.base) == larger)
        for larger in (True, False)
    )
    return [f"work moved: {grew} grew while {shrank} shrank"] if grew and shrank else []


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
    """Both sides of a change in one unit: `361 → 372 ms`."""
    if base is None and new is None:
        return _NOT_MEASURED
    if base is None:
        return value_text(new, verdict)
    if new is None:
        return f"{value_text(base, verdict)} → unknown"
    unit = unit_for(max(base, new, key=abs), verdict)
    return f"{format_number(base / unit.factor)} → {format_value(new, unit.base, unit.symbol)}"


def _bounds(seen: Estimate | RelativeChange, show: Callable[[float], str]) -> str:
    """Bounds in brackets; nothing if they are equal or both are unknown."""
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
