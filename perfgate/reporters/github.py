"""The parts of a report for GitHub: annotations, which mark the lines of the rules, and a chart.

The syntax of a command and its escapes come from the runner (`ActionCommand.cs` of actions/runner). A step shows ten
annotations of each level and silently drops the rest. So perfgate writes nine, and one that counts the others.

The chart is Mermaid text, which GitHub draws: one line through the runs, and one where the tolerance ends. They are
lines because the axis does not begin at 0, and a bar would have a length without a meaning.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from msgspec import Struct

from perfgate.core import Location, Problem, Report, RunEstimate, Verdict
from perfgate.core.units import display_unit, format_number
from perfgate.core.wording import clip, one_line, without_commands
from perfgate.words import answer, cause_words, numbers
from perfgate.words.cause_words import CauseGroup

_Level = Literal["error", "warning", "notice"]
_LEVELS: tuple[_Level, ...] = ("error", "warning", "notice")
#: The largest number of annotations of each level, without the one that counts the others.
MOST_ANNOTATIONS = 9
#: The longest title, and the longest line of a message, in characters.
_LONGEST_TITLE, _LONGEST_LINE = 200, 2_000
#: The largest number of verdicts that are named in the annotation of their cause, and of next steps.
_MOST_NAMED, _MOST_STEPS = 8, 2
#: The escapes of a message, and those of a property such as the title.
_DATA = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_PROPERTY = _DATA | str.maketrans({":": "%3A", ",": "%2C"})


class _Annotation(Struct, frozen=True):
    """One annotation: a title and the lines below it, shown at a line of a file if `at` is known."""

    level: _Level
    title: str
    lines: list[str]
    at: Location | None = None


def render(report: Report) -> str:
    """Return the report as workflow commands, one per line, errors first; empty if there are only plain passes."""
    if report.exit_code == 3 and (unread := answer.unread_runs(report)):
        # Every rule would only repeat why nothing was measured.
        aside = [_Annotation("notice", "perfgate", [answer.not_judged(report)])] if report.verdicts else []
        return _commands([*map(_of_problem, unread), *aside])
    groups = [group for group in cause_words.groups(report) if group.verdicts]
    rest = cause_words.unexplained(report)
    found = [*map(_of_cause, groups), *_of_verdicts(rest), *map(_of_problem, report.problems)]
    if report.exit_code and not any(annotation.level == "error" for annotation in found):
        found.append(_Annotation("error", "perfgate", [": ".join(answer.headline(report))]))
    return _commands(found)


def _commands(found: Sequence[_Annotation]) -> str:
    commands: list[str] = []
    for level in _LEVELS:
        same = [annotation for annotation in found if annotation.level == level]
        rest = len(same) - MOST_ANNOTATIONS
        counted = [_Annotation(level, "perfgate", [f"{rest} more: see the report"])] if rest > 0 else []
        commands += map(_command, same[:MOST_ANNOTATIONS] + counted)
    return "".join(f"{command}\n" for command in commands)


def _of_cause(group: CauseGroup) -> _Annotation:
    """Return one annotation for all verdicts that follow from a cause, at the rule of the worst."""
    cause, verdicts = group.cause, group.verdicts
    named = [f"{verdict.outcome}: {cause_words.brief(verdict)}" for verdict in verdicts[:_MOST_NAMED]]
    more = [f"and {len(verdicts) - _MOST_NAMED} more"] if len(verdicts) > _MOST_NAMED else []
    details = [f"{label}: {text}" for label, text in cause_words.details(cause)]
    steps = [f"→ {step}" for step in cause_words.steps(group)[:_MOST_STEPS]]
    lines = [f"{cause_words.title(cause)}, {cause_words.cost(cause)}", *details, *named, *more, *steps]
    level: _Level = "error" if any(verdict.exit_code for verdict in verdicts) else "warning"
    at = next((verdict.at for verdict in verdicts if verdict.exit_code), verdicts[0].at)
    return _Annotation(level, cause_words.title(cause), lines, at)


def _of_verdicts(verdicts: Iterable[Verdict]) -> Iterator[_Annotation]:
    for verdict in answer.worst_first(verdicts):
        if answer.needs_attention(verdict) or verdict.improved:
            level: _Level = "error" if verdict.exit_code else "warning" if answer.needs_attention(verdict) else "notice"
            step = [f"→ {answer.next_step(verdict.next_step)}"] if verdict.next_step.text else []
            lines = [verdict.message or verdict.outcome, *step, *numbers.explanation(verdict)]
            title = f"{verdict.outcome}: {numbers.what(verdict)}"
            yield _Annotation(level, title, lines, verdict.at)


def _of_problem(problem: Problem) -> _Annotation:
    level: _Level = "error" if problem.severity == "error" else "warning"
    return _Annotation(level, problem.severity, [answer.problem_text(problem)], problem.at)


def _command(annotation: _Annotation) -> str:
    properties = {"title": clip(annotation.title, _LONGEST_TITLE)}
    if annotation.at is not None:
        places = {"file": annotation.at.file, "line": annotation.at.line, "col": annotation.at.column}
        properties = {name: str(value) for name, value in places.items() if value} | properties
    written = ",".join(f"{name}={_harmless(text).translate(_PROPERTY)}" for name, text in properties.items())
    text = "\n".join(_harmless(clip(line, _LONGEST_LINE)) for line in annotation.lines)
    return f"::{annotation.level} {written}::{text.translate(_DATA)}"


def _harmless(text: str) -> str:
    return without_commands(one_line(text))


#: The table already shows everything about fewer runs.
_FEWEST_RUNS = 3
_MOST_RUNS = 20
_LONGEST_CHART_TITLE = 60
_DECIMAL = re.compile(r"-?[0-9]+(\.[0-9]+)?")


def chart(report: Report) -> list[str]:
    """Return a fenced chart of the worst change with enough runs that needs attention, as lines; empty without one."""
    for verdict in answer.worst_first(report.verdicts):
        runs = [run for run in verdict.runs if run.estimate is not None][-_MOST_RUNS:]
        if answer.needs_attention(verdict) and verdict.kind == "change" and len(runs) >= _FEWEST_RUNS:
            return _fenced(verdict, runs)
    return []


def _fenced(verdict: Verdict, runs: Sequence[RunEstimate]) -> list[str]:
    """Return the chart of a verdict; empty if Mermaid cannot read its numbers."""
    values = [run.estimate or 0.0 for run in runs]
    unit = display_unit(max(values, key=abs), verdict.unit or "1")
    limits: list[float] = []  # the value at which the tolerance ends, in the worse direction
    if verdict.base is not None and verdict.base.estimate is not None and verdict.tolerance is not None:
        worse = -verdict.tolerance if verdict.better == "higher" else verdict.tolerance
        limits.append(verdict.base.estimate * (1 + worse))
    counts = {"base": itertools.count(1), "new": itertools.count(1)}  # `base 1`, `base 2`, `new 1`
    names = ", ".join(f'"{run.side} {next(counts[run.side])}"' for run in runs)
    drawn = [values, *([limit] * len(runs) for limit in limits)]
    lines = [[format_number(value / unit.factor) for value in line] for line in drawn]
    low, high = min(*values, *limits), max(*values, *limits)
    # A quarter more on each side, so that differences are visible; equal values need an axis with a length, too.
    room = (high - low) / 4 or abs(high) / 4 or 1.0
    axis = [format_number(end / unit.factor) for end in (low - room, high + room)]
    if not all(_DECIMAL.fullmatch(number) for line in (*lines, axis) for number in line):
        return []  # a number has an exponent
    return [
        "```mermaid",
        "xychart-beta",
        f'  title "{_safe(numbers.what(verdict))} by run"',
        f"  x-axis [{names}]",
        f'  y-axis "{_safe(unit.symbol) or "value"}" {axis[0]} --> {axis[1]}',
        *(f"  line [{', '.join(line)}]" for line in lines),
        "```",
    ]


def _safe(text: str) -> str:
    """Return the text without characters that have a meaning in Mermaid."""
    return re.sub(r"[^A-Za-z0-9_./% -]", "_", text.replace("µ", "u"))[:_LONGEST_CHART_TITLE]
