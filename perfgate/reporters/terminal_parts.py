"""The parts that the short and the whole report of a terminal share: the answer, the problems, the bar of a verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence

from perfgate.core import Problem, Report, Verdict
from perfgate.core.wording import plural
from perfgate.reporters.terminal_page import Page
from perfgate.words import answer, numbers

#: The largest number of verdicts, and of problems, on a screen.
MOST_SHOWN = 500
LEFT_OUT = "{}: --json FILE writes them all"
#: The indent of the lines below a verdict or a problem.
INDENT = 4

#: The width of a bar in characters.
BAR_WIDTH = 16
#: The axis, the allowed ends, the interval, the estimate, and an interval without an end on the left and on the right.
_BAR_SIGNS = ("·", "│", "━", "●", "◀", "▶")
_BAR_SIGNS_IN_ASCII = (".", "|", "=", "o", "<", ">")


def write_answer(page: Page, report: Report) -> None:
    """Write the answer on one line; a narrow page omits its end."""
    word, whole = answer.headline(report)
    counts = answer.counts(report)
    shorter = (f"{', '.join(counts[:kept])}, ... (exit {report.exit_code})" for kept in range(len(counts), 0, -1))
    for shown in (whole, *shorter):
        if page.cells(f"{word}  {shown}") <= page.line:
            break
    colour = "red" if report.exit_code else "green" if report.outcome == "pass" else "yellow"
    page.paragraph(f"{word}  {shown}", f"bold {colour}")


def write_policy(page: Page, report: Report) -> None:
    """Write how the working tree differs from the policy."""
    for line in answer.rule_differences(report.policy) if report.policy.changes else ():
        page.paragraph(line.strip(), "yellow", indent=INDENT if line.startswith(" ") else 0)


def write_problems(page: Page, problems: Sequence[Problem], *, verbose: bool) -> None:
    """Write errors and warnings, each with the lines of its file."""
    page.blank()
    for problem in problems[:MOST_SHOWN]:
        style = "red" if problem.severity == "error" else "yellow"
        page.paragraph(f"{problem.at}: {problem.severity}: {answer.problem_text(problem)}", style)
        for line in problem.excerpt.split("\n") if problem.excerpt else []:
            page.paragraph(line, indent=INDENT)
        if verbose and problem.details:
            page.paragraph(problem.details, indent=INDENT)
    if not verbose and any(problem.details for problem in problems):
        page.paragraph("--verbose lists the formats that were searched for", "dim", indent=INDENT)
    if len(problems) > MOST_SHOWN:
        page.paragraph(LEFT_OUT.format(plural(len(problems) - MOST_SHOWN, "more problem")))


def style_of(verdict: Verdict) -> str:
    """Return the style of a verdict: red blocks, yellow is a warning, green passes, and a skipped rule is dim."""
    if not answer.needs_attention(verdict):
        return "green" if verdict.outcome == "pass" else "dim"
    return "yellow" if answer.is_warning(verdict) else "bold red"


def bar(verdict: Verdict, *, ascii_only: bool = False) -> str:
    """Return an interval and the allowed ends on one axis: `··│··━━●━━··`; empty without an estimate.

    Every bar has its own axis, from the smallest to the largest of the numbers on it.
    """
    seen = verdict.change if verdict.kind == "change" else verdict.new
    allowed = [end for end in numbers.allowed_range(verdict) if end is not None]
    if seen is None or seen.estimate is None or not allowed:
        return ""
    places = [*allowed, *(end for end in (seen.low, seen.high) if end is not None), seen.estimate]
    lowest = min(places)
    span = max(places) / 2 - lowest / 2  # halves, because the whole may be beyond every float
    shares = {number: (number / 2 - lowest / 2) / span if span else 0.5 for number in places}
    place = {number: 1 + math.floor(share * (BAR_WIDTH - 3) + 0.5) for number, share in shares.items()}
    axis, bound, interval, estimate, left, right = _BAR_SIGNS_IN_ASCII if ascii_only else _BAR_SIGNS
    cells = [axis] * BAR_WIDTH
    first = 0 if seen.low is None else place[seen.low]
    last = BAR_WIDTH - 1 if seen.high is None else place[seen.high]
    cells[first : last + 1] = [interval] * (last + 1 - first)
    if seen.low is None:
        cells[0] = left
    if seen.high is None:
        cells[-1] = right
    for end in allowed:
        cells[place[end]] = bound
    cells[place[seen.estimate]] = estimate
    return "".join(cells)
