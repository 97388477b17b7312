"""What all reports say in the same words: the order of verdicts, their numbers, and the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from perfgate.core import (
    OUTCOMES,
    Estimate,
    Key,
    Outcome,
    Problem,
    RelativeChange,
    Report,
    RunEstimate,
    Share,
    Verdict,
)
from perfgate.core.units import UNITS, Unit, display_unit, format_change, format_number, format_value
from perfgate.core.wording import member_name, plural, series_name

#: A sign for every outcome, so that they can be told apart without colour.
SIGNS: dict[Outcome, str] = {
    "fail": "✗",
    "error": "!",
    "suspect": "~",
    "inconclusive": "?",
    "skipped": "-",
    "pass": "✓",
}
ASCII_SIGNS: dict[Outcome, str] = {**SIGNS, "fail": "x", "pass": "+"}

_COUNTED_AS: dict[Outcome, str] = {"fail": "failed", "pass": "passed"}
_NOT_MEASURED = "not measured"


def worst_first(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Verdicts by outcome, the worst first; those of one outcome stay in the order of the rules."""
    return sorted(verdicts, key=badness)


def badness(verdict: Verdict) -> int:
    """The place of a verdict in reports: 0 is the worst."""
    return OUTCOMES.index(verdict.outcome)


def by_rule(verdicts: Iterable[Verdict]) -> list[list[Verdict]]:
    """Verdicts grouped by rule: the rule with the worst verdict first, and in each group the worst verdict."""
    groups: dict[object, list[Verdict]] = {}
    for verdict in worst_first(verdicts):
        groups.setdefault((verdict.rule, verdict.at, verdict.source), []).append(verdict)
    return list(groups.values())


def is_news(verdict: Verdict) -> bool:
    """Whether a verdict is more than a pass or a rule that was left out."""
    return verdict.outcome not in ("pass", "skipped")


def is_told(verdict: Verdict) -> bool:
    """Whether there is more to say of a verdict than its row: the notes of a plain pass are for `--verbose`."""
    return verdict.outcome != "pass" or verdict.improved or verdict.reason == "allowed"


def is_warning(verdict: Verdict) -> bool:
    """Whether a verdict is news that blocks nothing."""
    return is_news(verdict) and verdict.exit_code == 0


def effect(verdict: Verdict) -> str:
    """Why news blocks nothing: its severity, or what the rule says of not being able to tell."""
    if not is_warning(verdict):
        return ""
    return " (warning only)" if verdict.severity == "warning" else " (does not block)"


def loose_errors(report: Report) -> list[Problem]:
    """The error-level problems that concern no metric that was judged."""
    judged = {Key.of(verdict.metric, **verdict.labels).without_members() for verdict in report.verdicts}
    errors = [problem for problem in report.problems if problem.severity == "error"]
    return [problem for problem in errors if not problem.key or problem.key.without_members() not in judged]


def complaint(problem: Problem) -> str:
    """The message of a problem, and the series that it concerns where the message does not name it."""
    if problem.key is None or str(problem.key) in problem.message:
        return problem.message
    return f"{problem.message} ({problem.key})"


def answer(report: Report) -> tuple[str, str]:
    """The report as a word and a line: `("FAIL", "1 failed, 3 passed (exit 1)")`."""
    return report.outcome.upper(), f"{', '.join(tally(report))} (exit {report.exit_code})"


def tally(report: Report) -> list[str]:
    """How many verdicts had each outcome, the worst first, and how many problems there are."""
    parts = [] if report.verdicts else ["nothing was judged"]
    for outcome in OUTCOMES:
        found = [verdict for verdict in report.verdicts if verdict.outcome == outcome]
        warnings = sum(map(is_warning, found)) if outcome == "fail" else 0
        aside = f" ({warnings} as a warning)" if warnings else ""
        parts += [_counted(outcome, len(found)) + aside] if found else []
    errors = sum(problem.severity == "error" for problem in report.problems)
    return [*parts, plural(errors, "problem")] if errors else parts


def _counted(outcome: Outcome, count: int) -> str:
    if outcome == "error":
        return plural(count, "error")
    return f"{count} {_COUNTED_AS.get(outcome, outcome)}"


def origin(report: Report) -> list[tuple[str, str]]:
    """What was judged and by what: the suite, the baseline and the policy, as far as there are any."""
    mode = str(report.environment.get("trace_mode", ""))
    pairs = [
        ("suite", report.suite),
        ("baseline", report.baseline),
        ("policy", report.policy.ref),
        ("trace mode", mode),
    ]
    return [(name, value) for name, value in pairs if value]


def what(verdict: Verdict) -> str:
    """What was judged: `backward_allreduce{stage="train"} p95 on rank 3`, and in which report if there are several."""
    source = f" in {verdict.source}" if verdict.source is not None else ""
    return series_name(verdict.metric, verdict.labels, verdict.statistic, verdict.member) + source


def name_of(verdict: Verdict) -> str:
    """The metric with its labels, which does not depend on what was measured."""
    return series_name(verdict.metric, verdict.labels)


def measured(verdict: Verdict) -> list[str]:
    """What was seen, as one or two texts that may stand side by side.

    A limit: `72.6 ms [58.1, 123.1]`. A change: `361 → 372 ms` and `+3.1% [+1.2%, +5.0%]`.
    """
    new, base, change = verdict.new, verdict.base, verdict.change
    if verdict.kind == "limit":
        return [_NOT_MEASURED if new is None or new.estimate is None else _estimate(new, verdict)]
    texts = [_sides(base.estimate if base else None, new.estimate if new else None, verdict)]
    return [*texts, format_change(change.estimate) + _bounds(change, format_change)] if change else texts


def to_accept(report: Report) -> str:
    """What the command does that follows: approve here, or allow where the policy is."""
    allows = report.policy.ref is not None and " allow " in (report.approve_command or "")
    return f"To allow what was seen, on {report.policy.ref}:" if allows else "To approve what was seen:"


def allowed(verdict: Verdict) -> str:
    """What the rule asks for: `under 50 ms`, `within 5%`, `within 10% of anchor`."""
    return verdict.asks.removesuffix(" of baseline") if verdict.asks.startswith("within") else verdict.asks


def n_effective(verdict: Verdict) -> str:
    """How many independent values the new side is worth, or nothing where that is not known."""
    known = verdict.new.n_effective if verdict.new else None
    return "" if known is None else format_number(known, 3)


def facts(verdict: Verdict) -> list[tuple[str, str]]:
    """Everything else that there is to say of a verdict, as pairs of a word and a text."""
    warning = effect(verdict)
    pairs = [
        ("measured", ", ".join(measured(verdict))),
        ("allowed", allowed(verdict)),
        ("explained by", "; ".join(explanation(verdict))),
        ("evidence", evidence(verdict)),
        ("rule", f"{verdict.at} {verdict.rule}{warning}"),
        ("why", verdict.why or ""),
        *([("note", "; ".join(verdict.notes))] if verdict.notes else []),
    ]
    return [(word, text) for word, text in pairs if text]


def evidence(verdict: Verdict) -> str:
    """What the numbers rest on: `567 independent of 1662 values in 1 run, bounds at 95%`."""
    sides = (("", verdict.new), ("base ", verdict.base))
    parts = [prefix + _amount(side) for prefix, side in sides if side]
    if verdict.share and verdict.allowed_share is not None:
        beyond = _percent(verdict.share.estimate) + _bounds(verdict.share, _percent)
        parts.append(f"{beyond} of the values are beyond the bound and {_percent(verdict.allowed_share)} may be")
    dropped = sum(run.dropped for run in verdict.runs)
    if dropped:
        parts.append(f"{plural(dropped, 'value')} dropped as warm-up")
    if verdict.minimum_detectable_change is not None:
        parts.append(f"a change of {_percent(verdict.minimum_detectable_change)} would be seen")
    return ", ".join([*parts, f"bounds at {_percent(verdict.confidence)}"]) if parts else ""


def explanation(verdict: Verdict) -> list[str]:
    """The parts that account for a failed change: `backward 93% [88%, 98%] of it (200 → 244.8 ms)`, and a move."""
    return [*(_share(share, verdict) for share in verdict.explained_by), *_move(verdict.explained_by)]


def _share(share: Share, verdict: Verdict) -> str:
    name = member_name(share.member) or share.metric
    within = "" if share.within is None else f"within {share.within}: "
    estimate, low, high = (f"{format_number(100 * part, 3)}%" for part in (share.share, share.low, share.high))
    return f"{within}{name} {estimate} [{low}, {high}] of it ({_sides(share.base, share.new, verdict)})"


def _move(shares: Iterable[Share]) -> list[str]:
    """What is said where one part grew while another shrank: work went from one to the other."""
    direct = [share for share in shares if share.within is None]
    grew, shrank = (
        ", ".join(member_name(share.member) or share.metric for share in direct if (share.new > share.base) == larger)
        for larger in (True, False)
    )
    return [f"a move: {grew} grew while {shrank} shrank"] if grew and shrank else []


def run_row(run: RunEstimate, verdict: Verdict) -> tuple[str, str, str, str]:
    """One run behind a verdict: its side and name, its estimate, its values, and what was dropped as warm-up."""
    name = run.source.rpartition("/")[2] if run.side == "base" else run.source
    dropped = f"{run.dropped}" if run.settled else f"{run.dropped}, not settled"
    return f"{run.side} {name}", _value(run.estimate, verdict), str(run.n), dropped


def _amount(side: Estimate) -> str:
    runs = plural(side.runs, "run")
    if side.n is None:
        return runs
    worth = "" if side.n_effective is None else f"{format_number(side.n_effective, 3)} independent of "
    return f"{worth}{plural(side.n, 'value')} in {runs}"


def _sides(base: float | None, new: float | None, verdict: Verdict) -> str:
    """Both sides of a change in one unit: `361 → 372 ms`."""
    if base is None and new is None:
        return _NOT_MEASURED
    if base is None:
        return _value(new, verdict)
    if new is None:
        return f"{_value(base, verdict)} → unknown"
    unit = unit_for(max(base, new, key=abs), verdict)
    return f"{format_number(base / unit.factor)} → {format_value(new, unit.base, unit.symbol)}"


def _estimate(estimate: Estimate, verdict: Verdict) -> str:
    """An estimate with its bounds in one unit: `72.6 ms [58.1, 123.1]`."""
    factor = unit_for(estimate.estimate or 0.0, verdict).factor
    return _value(estimate.estimate, verdict) + _bounds(estimate, lambda bound: format_number(bound / factor))


def _bounds(seen: Estimate | RelativeChange, show: Callable[[float], str]) -> str:
    """Bounds in brackets; nothing where there are none, or where there is no noise between them."""
    if seen.low == seen.high:
        return ""
    low, high = ("unbounded" if bound is None else show(bound) for bound in (seen.low, seen.high))
    return f" [{low}, {high}]"


def _value(value: float | None, verdict: Verdict) -> str:
    if value is None:
        return "unknown"
    return format_value(value, verdict.unit or "1", unit_for(value, verdict).symbol)


def unit_for(value: float, verdict: Verdict) -> Unit:
    """The author's unit where it can show what was measured, else one that fits the value."""
    base = verdict.unit or "1"
    shown = UNITS.get(verdict.shown_unit or "")
    if shown is None or shown.base != base:
        return display_unit(value, base)
    return UNITS["%"] if shown.symbol == "pp" else shown  # points tell shares apart, but a share is in percent


def _percent(share: float | None) -> str:
    return format_value(share, "1", "%")
