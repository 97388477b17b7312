"""A text page of fixed width for a terminal, and the parts that the short and the whole report share.

rich wraps, aligns and colours the text.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from io import StringIO
from typing import TypeAlias

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from perfgate.core import Outcome, Problem, Report, Verdict
from perfgate.core.wording import one_line, plural, without_commands
from perfgate.words import answer, numbers

#: A table cell: its text, or its lines, each with the style of its column or with its own.
Cell: TypeAlias = str | Sequence[str | tuple[str, str]]
#: Blanks between two columns.
GAP = 2
#: The widest paragraph, because longer lines are hard to read.
_LONGEST_LINE = 110


class Page:
    """Lines of at most `width` terminal cells, except `verbatim` ones. `one_line` makes untrusted text safe here."""

    def __init__(self, width: int, *, colour: bool = False, ascii_only: bool = False) -> None:
        self.width = width
        #: The width of a paragraph.
        self.line = min(width, _LONGEST_LINE)
        self.ascii_only = ascii_only
        self._lines = StringIO()
        self._blank_is_due = False
        # rich reads every option that is missing here from environment variables.
        self._console = Console(
            file=self._lines,
            width=width,
            height=25,
            force_terminal=colour,
            force_jupyter=False,
            force_interactive=False,
            color_system="standard" if colour else None,
            no_color=not colour,
            legacy_windows=False,
            markup=False,
            emoji=False,
            highlight=False,
        )

    def outcome(self, outcome: Outcome, words: str | None = None) -> str:
        """Return words, or the outcome itself, with the sign of the outcome."""
        return f"{(answer.ASCII_SIGNS if self.ascii_only else answer.SIGNS)[outcome]} {words or outcome}"

    def cells(self, text: str) -> int:
        """Return the width of a text on this page, in terminal cells."""
        return cell_len(one_line(text, ascii_only=self.ascii_only))

    def paragraph(self, text: str, style: str = "", *, indent: int = 0) -> None:
        """Write a text that wraps between words, with every line indented; nothing for an empty text."""
        if text:
            shown = Text(one_line(text, ascii_only=self.ascii_only), style)
            self._print(Padding(shown, (0, 0, 0, indent)), self.line)

    def table(self, heads: Sequence[str], rows: Sequence[Sequence[str]], *, wraps: int = 0, least: int = 16) -> None:
        """Write the heads and the rows; see `widths`."""
        widths = self.widths([heads, *rows], wraps=wraps, least=least)
        self.row(heads, widths, "dim")
        for row in rows:
            self.row(row, widths)

    def widths(
        self, rows: Sequence[Sequence[str]], *, wraps: int = 0, least: int = 16, width: int | None = None
    ) -> list[int]:
        """Return the width of each column: that of its widest cell.

        Only column number `wraps` may be narrower: it gets what the others leave of `width`, but at least `least`.
        """
        widths = [max(map(self.cells, column)) for column in zip(*rows, strict=True)]
        longest, widths[wraps] = widths[wraps], 0
        room = (self.width if width is None else width) - sum(widths) - GAP * (len(widths) - 1)
        widths[wraps] = max(least, min(longest, room))
        return widths

    def row(
        self, cells: Sequence[Cell], widths: Sequence[int], styles: str | Sequence[str] = "", *, indent: int = 0
    ) -> None:
        """Write cells side by side, in one style or each in its own. The lines of each cell wrap within its width."""
        grid = Table(box=None, show_header=False, pad_edge=False, padding=(0, GAP, 0, 0))
        for width in widths:
            grid.add_column(width=width, overflow="fold")
        texts = []
        for cell, style in zip(cells, [styles] * len(cells) if isinstance(styles, str) else styles, strict=True):
            lines = [cell] if isinstance(cell, str) else cell
            styled = [(line, style) if isinstance(line, str) else line for line in lines]
            shown = [Text(one_line(line, ascii_only=self.ascii_only), own) for line, own in styled]
            texts.append(Text("\n").join(shown))
        grid.add_row(*texts)
        self._print(Padding(grid, (0, 0, 0, indent)), self.width)

    def verbatim(self, line: str, *, indent: int = 0) -> None:
        """Write one line as it is, such as a command to copy, also if it is wider than the page."""
        if self._blank_is_due:
            self._lines.write("\n")
            self._blank_is_due = False
        self._lines.write(" " * indent + one_line(line, ascii_only=self.ascii_only) + "\n")

    def mark(self) -> int:
        """Return how much is written; more after the next text."""
        return self._lines.tell()

    def blank(self) -> None:
        """Write one empty line before the next text, unless the page is empty."""
        self._blank_is_due = self._lines.tell() > 0

    def finished(self) -> str:
        """Return the page without blanks at the ends of its lines, and without commands for a CI system."""
        lines = self._lines.getvalue().split("\n")
        return without_commands("\n".join(line.rstrip(" ") for line in lines))

    def _print(self, what: RenderableType, width: int) -> None:
        if self._blank_is_due:
            self._lines.write("\n")
            self._blank_is_due = False
        self._console.print(what, width=width)


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
    for shown in (whole, answer.headline(report, in_short=True)[1], *shorter):
        if page.cells(f"{word}  {shown}") <= page.line:
            break
    colour = "red" if report.exit_code else "green" if report.outcome == "pass" else "yellow"
    page.paragraph(f"{word}  {shown}", f"bold {colour}")


def write_policy(page: Page, report: Report) -> None:
    """Write how the working tree differs from the policy (the rules and baselines that judged)."""
    for line in answer.rule_differences(report.policy) if report.policy.changes else ():  # usually none: one call less
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
    """Return an interval and the allowed ends on an axis of their own: `··│··━━●━━··`; empty without an estimate."""
    seen = verdict.change if verdict.kind == "change" else verdict.new
    allowed = [end for end in numbers.allowed_range(verdict) if end is not None]
    if seen is None or seen.estimate is None or not allowed:
        return ""
    places = [*allowed, *(end for end in (seen.low, seen.high) if end is not None), seen.estimate]
    lowest = min(places)
    span = max(places) / 2 - lowest / 2  # halves, because the whole may be beyond every float
    shares = {number: (number / 2 - lowest / 2) / span if span else 0.5 for number in places}
    # The first and the last cell are for an interval without an end.
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
