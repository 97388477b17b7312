"""The short answer of a report: what is wrong, one line for each metric, and one next step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from perfgate.core import NO_STEP, NextStep, Report, Verdict
from perfgate.core.units import format_change
from perfgate.core.wording import listed, member_name, series_name, short_call, shortened
from perfgate.words import answer, numbers
from perfgate.words.notes import NOT_CALIBRATED, ONE_BASE_RUN, ONE_RUN, PAIRED_BASE, STALLS
from perfgate.words.work import first_difference

#: The most labels, statistics or ranks that one line names.
_NAMED = 4
#: The longest name of a changed metric, in characters, and the most changes of one line.
_LONGEST_NAME = 40
_LARGEST = 3


class ShortLine(Struct, frozen=True):
    """The verdicts about one metric with one outcome, as one line.

    `worst` is the verdict that is drawn. `message` replaces the numbers if nothing was measured. For a pass, it says
    why the pass is worth a line.
    """

    worst: Verdict
    name: str
    measured: str
    allowed: str
    message: str = ""


def lines(report: Report) -> list[ShortLine]:
    """Return what needs attention, and the passes with another change than expected; or why all rules are skipped."""
    groups: dict[object, list[Verdict]] = {}
    nothing_judged = report.exit_code and all(one.outcome == "skipped" for one in report.verdicts)
    shown = answer.worst_first(report.verdicts if nothing_judged else filter(_is_shown, report.verdicts))
    # A warning about work is left out if the failures name all of its counts.
    blocking = {count.metric for one in shown if one.exit_code for count in one.work}
    told = [one for one in shown if one.exit_code or not one.work or {each.metric for each in one.work} - blocking]
    for verdict in map(_with_short_name, told):
        # Verdicts without numbers are on one line if they say the same.
        about = verdict.metric if _has_numbers(verdict) else _without_labels(verdict).replace(verdict.metric, "")
        groups.setdefault((verdict.outcome, answer.effect(verdict), about, verdict.source), []).append(verdict)
    # The medians of both sides of pairs are not what was judged: their ratios are.
    is_paired = (report.baseline or "").startswith(PAIRED_BASE)
    return [_line(group, is_paired=is_paired) for group in groups.values()]


def _with_short_name(verdict: Verdict) -> Verdict:
    name = short_call(verdict.metric)
    if name == verdict.metric:
        return verdict
    return replace(verdict, metric=name, message=verdict.message.replace(verdict.metric, name))


def _without_labels(verdict: Verdict) -> str:
    """Return the message of a verdict without the labels of its metric."""
    return verdict.message.replace(series_name(verdict.metric, verdict.labels), verdict.metric)


def _is_shown(verdict: Verdict) -> bool:
    if verdict.outcome == "skipped":  # it has a next step only if a fact of the judged file alone skipped it
        return bool(verdict.next_step.text)
    return answer.needs_attention(verdict) or verdict.improved or verdict.reason == "allowed"


def names(verdicts: Iterable[Verdict]) -> str:
    """Return the names of verdicts, those of one metric with their labels joined: `took on GET, POST, warm`."""
    groups: dict[str, list[Verdict]] = {}
    for verdict in map(_with_short_name, verdicts):
        groups.setdefault(verdict.metric, []).append(verdict)
    return listed([_name(group) for group in groups.values()], _NAMED)


def doubts(report: Report) -> list[str]:
    """Return the reasons to doubt a pass, such as pressure on the machine, each once and without the usual notes."""
    passed = (one for one in report.verdicts if one.outcome == "pass" and one.doubtful and not _is_shown(one))
    found = dict.fromkeys(note for one in passed for note in one.notes)
    return [note for note in found if note not in (ONE_RUN, ONE_BASE_RUN) and not note.startswith(NOT_CALIBRATED)]


def next_step(report: Report) -> NextStep:
    """Return the next step: to accept the whole result, or the step of the worst verdict that has one."""
    # To hold a gain is a next step only if nothing blocks.
    acting = [one for one in report.verdicts if one.exit_code or (one.improved and not report.exit_code)]
    # Beside failures, the steps of other verdicts do not count.
    worst = [one for one in acting if one.exit_code == 1] or answer.worst_first(acting)
    steps = list(dict.fromkeys(one.next_step for one in worst if one.next_step.text))
    if len(steps) > 1 and report.accept.command is not None:  # one command instead of several steps
        return report.accept
    return steps[0] if steps else NO_STEP


def unruled(report: Report) -> str:
    """Return the largest changes of metrics without a rule, in one line; empty if there are none."""
    if not report.unruled:
        return ""
    first = report.unruled[:2]
    names = [_changed(series_name(one.metric, one.labels), one.change) for one in first]
    rest = report.unruled_count - len(names)
    return f"changed by more than 10%, without a rule: {', '.join(names)}{f' and {rest} more' if rest else ''}"


def largest_changes(verdicts: Iterable[Verdict]) -> str:
    """Return the largest changes of some verdicts in one line; empty if none has a change."""
    sized = [(verdict.change.estimate, verdict) for verdict in verdicts if verdict.change and verdict.change.estimate]
    largest = sorted(sized, key=lambda one: -abs(one[0]))[:_LARGEST]
    names = [_changed(numbers.what(verdict), change) for change, verdict in largest]
    return f"largest changes: {', '.join(names)}" if names else ""


def _changed(name: str, change: float) -> str:
    return f"{shortened(short_call(name), _LONGEST_NAME)} {format_change(change)}"


def _line(group: Sequence[Verdict], *, is_paired: bool) -> ShortLine:
    """Return the line of a group of verdicts: its numbers, its difference in work, or its message."""
    worst = max(group, key=_size)
    effect = answer.effect(worst)
    if worst.work:
        return ShortLine(worst, first_difference(worst) + effect, "", "")
    if not _has_numbers(worst):
        message = worst.message if len(group) == 1 else _without_labels(worst)
        # The line begins with the name, so a message that ends with it does not repeat it.
        return ShortLine(worst, _name(group) + effect, "", "", message.removesuffix(f": {worst.metric}"))
    allowed = listed(list(dict.fromkeys(map(numbers.allowed, group))), _NAMED)
    said = [numbers.attributed(worst), *(note for one in group for note in one.notes if note.startswith(STALLS))]
    message = "; ".join(worst.notes if worst.outcome == "pass" else filter(None, dict.fromkeys(said)))
    return ShortLine(worst, _name(group) + effect, _measured(worst, group, is_paired=is_paired), allowed, message)


def _has_numbers(verdict: Verdict) -> bool:
    """Return whether a verdict has counts, a value or a change to show."""
    seen = verdict.new if verdict.kind == "limit" or verdict.base else verdict.change
    return bool(verdict.work) or (seen is not None and seen.estimate is not None)


def _size(verdict: Verdict) -> float:
    """Return a number that is larger for the worse of two verdicts about one metric."""
    if verdict.change is not None and verdict.change.estimate is not None:
        change = verdict.change.estimate
        if verdict.two_sided:
            return abs(change)
        return -change if verdict.better == "higher" else change
    if verdict.new is None or verdict.new.estimate is None or verdict.bound is None:
        return 0.0
    beyond = (verdict.new.estimate - verdict.bound) / (abs(verdict.bound) or 1.0)
    return -beyond if verdict.comparator in ("over", "at least") else beyond


def _measured(worst: Verdict, group: Sequence[Verdict], *, is_paired: bool) -> str:
    """Return the range of the changes of several verdicts, or the numbers of the worst; for pairs only its change."""
    changes = [one.change.estimate for one in group if one.change is not None and one.change.estimate is not None]
    if len(group) == 1 or len(changes) < len(group):
        shown = numbers.measured(worst, intervals=False)
        return "  ".join(shown[-1:] if is_paired else shown)
    least, most = format_change(min(changes)), format_change(max(changes))
    return least if least == most else f"{least} to {most}"


def _name(group: Sequence[Verdict]) -> str:
    """Return the name of a group: what all share, and the labels in which they differ: `took on GET, POST`."""
    first = group[0]
    names = dict.fromkeys(map(numbers.what, group))
    if len(names) == 1 or len({verdict.metric for verdict in group}) > 1:
        return listed(list(names), _NAMED)
    common = {name: text for name, text in first.labels.items() if all(one.labels.get(name) == text for one in group)}
    statistics = {verdict.statistic for verdict in group}
    subject = series_name(first.metric, common, first.statistic if len(statistics) == 1 else None)
    differing: dict[str, None] = {}
    for verdict in group:
        labels = [value for name, value in verdict.labels.items() if name not in common]
        differing[" ".join([*labels, member_name(verdict.member)]).strip()] = None
    differing.pop("", None)
    return f"{subject} on {listed(list(differing), _NAMED)}" if differing else subject
