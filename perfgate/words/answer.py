"""The words about a whole report: the order of its verdicts, the headline, and the lines beside the verdicts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from perfgate.core import OUTCOMES, Key, NextStep, Outcome, Policy, PolicyChange, Problem, Report, Verdict
from perfgate.core.units import display_unit, format_change, format_number, format_value, printed_base
from perfgate.core.wording import one_line, plural, series_name, short_call, shortened

if TYPE_CHECKING:
    from perfgate.core.summaries import Plan

#: A sign for every outcome, because a reader may see no colours.
SIGNS: dict[Outcome, str]
SIGNS = {"fail": "✗", "error": "!", "undecided": "?", "skipped": "-", "pass": "✓"}
ASCII_SIGNS: dict[Outcome, str] = {**SIGNS, "fail": "x", "pass": "+"}
_COUNTED_AS: dict[Outcome, str] = {"fail": "failed", "pass": "passed"}
#: The headline names the metric that excludes the smallest change, if others only exclude one this many times larger.
_MUCH = 1.5
#: In percent, a larger change is beyond every float.
_LARGEST = 1e300
#: The most policy differences in a report, and the most metrics that are named with their noise.
_DIFFERENCES_SHOWN, _NOISES_SHOWN = 20, 3
#: The most facts in a line, and the longest value of a fact, or name of a metric in the headline, in characters.
_FACTS_SHOWN, _LONGEST_FACT = 12, 60
#: The longest name of a metric that no rule names, in characters: names of kernels fill half a page.
LONGEST_UNRULED = 100


def worst_first(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Return the verdicts with the worst outcome first, and within one outcome in the order of the rules."""
    return sorted(verdicts, key=lambda verdict: OUTCOMES.index(verdict.outcome))


def by_rule(verdicts: Iterable[Verdict]) -> list[list[Verdict]]:
    """Return the verdicts in one group per rule. The worst group and the worst verdict of each group come first."""
    # Two rules may have the same text, and several merged reports (`source`) the same rule.
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
    """Return ` (quarantined)` or ` (warning only)` for a warning, else nothing."""
    if not is_warning(verdict):
        return ""
    return " (quarantined)" if verdict.is_quarantined else " (warning only)"


def unrelated_errors(report: Report) -> list[Problem]:
    """Return the problems of severity error that do not belong to a judged metric, on any of its ranks."""
    judged = {Key.of(verdict.metric, **verdict.labels).without_members() for verdict in report.verdicts}
    errors = [problem for problem in report.problems if problem.severity == "error"]
    return [problem for problem in errors if not problem.key or problem.key.without_members() not in judged]


def unread_runs(report: Report) -> list[Problem]:
    """Return the problems of runs without any metric; nothing if causes, or a verdict with another reason, say more.

    "no measurements" is left out if another error of the file says why. Reports only ask at exit code 3: any other has
    a reason beside the missing measurements.
    """
    unskipped = [verdict for verdict in report.verdicts if verdict.outcome != "skipped"]
    errors = [problem for problem in report.problems if problem.severity == "error"]
    has_more = report.causes is not None or (report.verdicts and not unskipped)  # verdicts that are all skipped say why
    if not errors or has_more or any(verdict.reason != "no-data" for verdict in unskipped):
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


def headline(report: Report, *, in_short: bool = False) -> tuple[str, str]:
    """Return the outcome and what it is about: `("PASS", "7 rules; no slowdown of 8% or more (exit 0)")`."""
    excluded = excluded_change(report.verdicts, in_short=in_short) if report.outcome == "pass" else []
    return report.outcome.upper(), f"{'; '.join([', '.join(counts(report)), *excluded])} (exit {report.exit_code})"


def counts(report: Report) -> list[str]:
    """Return what the headline counts: for a pass the rules, and why some do not count; else the outcomes."""
    if report.outcome != "pass" or not report.verdicts:
        return tally(report)
    found = Counter(map(_counted_as, by_rule(report.verdicts)))
    passed = found.pop("rule", 0)
    parts = [plural(passed, "rule")] if passed else []
    return parts + [plural(n, word) if word == "warning" else f"{n} {word}" for word, n in sorted(found.items())]


def _counted_as(verdicts: list[Verdict]) -> str:
    """Return `rule` for a rule that passes, or why it does not count; the worst verdict comes first."""
    judged = [verdict for verdict in verdicts if verdict.outcome != "skipped"]
    if not judged:
        return "skipped"
    if judged[0].outcome == "pass":
        return "rule"
    return "quarantined" if judged[0].is_quarantined else "warning"


def excluded_change(verdicts: Iterable[Verdict], *, in_short: bool = False) -> list[str]:
    """Return the change that all passed comparisons exclude, with a metric that excludes a much smaller one: one text.

    Comparisons without a promise (exact ones, those with the anchor) do not count. If there are no others, the list is
    empty. With `in_short`, the text names no metric.
    """
    passed = [(verdict, _not_excluded(verdict)) for verdict in verdicts if verdict.outcome == "pass"]
    found = [(verdict, change) for verdict, change in passed if change > 0]
    if not found:
        return []
    largest = max(change for _, change in found)  # all of them exclude a larger one
    best, smallest = min(found, key=lambda pair: pair[1])
    is_time = all(verdict.unit == "s" or (verdict.unit or "").endswith("/s") for verdict, _ in found)
    said = f"{'no slowdown of' if is_time else 'nothing worse by'} {rounded_up(largest)} or more"
    name = shortened(short_call(best.metric), _LONGEST_FACT)
    return [said if in_short or smallest > largest / _MUCH else f"{said}, {name} {rounded_up(smallest)}"]


def _not_excluded(verdict: Verdict) -> float:
    """Return the change for the worse that a verdict does not exclude, as a positive share; 0 if only gains remain."""
    change = verdict.not_excluded or 0.0
    if verdict.two_sided:
        return abs(change)
    return max(-change if verdict.better == "higher" else change, 0.0)


def rounded_up(change: float) -> str:
    """Return a change in percent, rounded up to two digits, so that it is excluded for sure."""
    percent = 100 * min(change, _LARGEST)
    # One unit of the second digit; the rounding error of floats (1e-9) does not count.
    step = 10.0 ** (math.floor(math.log10(percent)) - 1)
    return f"{format_number(math.ceil(percent / step - 1e-9) * step, 3)}%"


def tally(report: Report) -> list[str]:
    """Return the number of verdicts with each outcome, the worst first, and of the problems that a report lists."""
    by_outcome: dict[Outcome, list[Verdict]] = {}
    for verdict in worst_first(report.verdicts):
        by_outcome.setdefault(verdict.outcome, []).append(verdict)
    parts = [_counted(outcome, verdicts) for outcome, verdicts in by_outcome.items()] or ["nothing was judged"]
    # At exit code 3, reports list no others if there are unread runs.
    problems = (unread_runs(report) if report.exit_code == 3 else []) or report.problems
    errors = [problem for problem in problems if problem.severity == "error"]
    return [*parts, plural(len(errors), "problem")] if errors else parts


def _counted(outcome: Outcome, verdicts: list[Verdict]) -> str:
    """Return the number of verdicts with an outcome: `3 failed (1 quarantined, 1 as a warning)`."""
    if outcome == "error":
        return plural(len(verdicts), "error")
    count = f"{len(verdicts)} {_COUNTED_AS.get(outcome, outcome)}"
    warnings = list(filter(is_warning, verdicts))
    quarantined = len([verdict for verdict in warnings if verdict.is_quarantined])
    asides = [f"{quarantined} quarantined"] if quarantined else []
    if len(warnings) > quarantined:
        asides.append(f"{len(warnings) - quarantined} as a warning")
    return f"{count} ({', '.join(asides)})" if asides else count


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


def unruled(report: Report) -> list[str]:
    """Return what changed and no rule looks at: a head, and a line for each metric that is listed."""
    more = report.unruled_count - len(report.unruled)
    count = f"{plural(report.unruled_count, 'metric')} by more than 10%" + (f", {more} not listed" if more else "")
    lines = [f"Changed, and no rule looks: {count}"] if report.unruled else []
    for change in report.unruled:
        unit = display_unit(max(change.base, change.new, key=abs), printed_base(change.metric, change.unit))
        values = f"{format_number(change.base / unit.factor)} → {format_value(change.new, unit.base, unit.symbol)}"
        share = "" if change.share is None else f", {format_number(100 * change.share, 2)}% of the time of the steps"
        name = shortened(series_name(change.metric, change.labels), LONGEST_UNRULED)
        lines.append(f"{name} {format_change(change.change)} ({values}{share})")
    return lines


def unknown_facts(report: Report) -> list[str]:
    """Return a line about the facts that no side knows; empty if all are known, or no change shows its notes."""
    has_doubt = any(verdict.kind == "change" and shows_notes(verdict) for verdict in report.verdicts)
    return [f"unknown on both sides: {', '.join(report.unknown_facts)}"] if has_doubt and report.unknown_facts else []


def what_else(report: Report) -> str:
    """Return the line about facts that differ: `what else changed: driver 550.54 → 560.28, host a → b`; or nothing."""
    shown = sorted(report.fact_changes, key=lambda fact: fact.claimed)
    changes: dict[bool, list[str]] = {False: [], True: []}
    for fact in shown[:_FACTS_SHOWN]:
        sides = (" or ".join(shortened(value, _LONGEST_FACT) for value in side) for side in (fact.base, fact.new))
        changes[fact.claimed].append(f"{fact.name} {' → '.join(sides)}")
    parts = [", ".join(changes[False])] if changes[False] else []
    parts += [f"claimed by the judged files alone: {', '.join(changes[True])}"] if changes[True] else []
    parts += [f"and {len(shown) - _FACTS_SHOWN} more"] if len(shown) > _FACTS_SHOWN else []
    return f"what else changed: {'; '.join(parts)}" if parts else ""


def learned_noise(judged: Iterable[Verdict | Plan]) -> list[str]:
    """Return a line about the noise that the history showed: `noise between runs: 1.4%, from 43 runs of main`."""
    found = [(one, one.noise) for one in judged if one.noise is not None and one.noise.source == "history"]
    if not found:
        return []
    sizes = {series_name(one.metric, one.labels, one.statistic): noise.deviation for one, noise in found}
    least, most = (f"{format_number(100 * size, 2)}%" for size in (min(sizes.values()), max(sizes.values())))
    text = f"{least} to {most}"
    if len(sizes) == 1:
        text = least
    elif len(sizes) <= _NOISES_SHOWN:
        text = ", ".join(f"{name} {format_number(100 * size, 2)}%" for name, size in sizes.items())
    noises = [noise for _, noise in found]
    counts = sorted({noise.runs for noise in noises})
    runs = plural(counts[0], "run") if len(counts) == 1 else f"{counts[0]} to {counts[-1]} runs"
    branches = " and ".join(dict.fromkeys(noise.branch for noise in noises if noise.branch)) or "the history"
    without = without_hosts(max(noise.hosts for noise in noises))
    wander = wandering(max(noise.wander for noise in noises))
    return [f"noise between runs: {text}, from {runs} of {branches}{without}{wander}"]


def without_hosts(count: int) -> str:
    """Return that the noise is without the differences of `count` hosts from the usual host; nothing for none."""
    return f", without the differences between {count + 1} hosts" if count else ""


def wandering(size: float) -> str:
    """Return that the level wanders, beside the noise: more runs do not help against that."""
    return f"; the level wanders by {format_number(100 * size, 2)}%" if size else ""
