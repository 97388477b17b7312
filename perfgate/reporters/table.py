"""The report for a terminal: a calm table, the worst first, and the answer as its last line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from textwrap import wrap

from perfgate.model import Outcome, Problem, Report, Verdict
from perfgate.reporters import phrases
from perfgate.reporters.page import GAP, Page
from perfgate.reporters.text import plural, shell_lines

#: The narrowest page: outcomes and numbers do not fit on less.
_NARROWEST = 60
#: The names of metrics get this much room, or all that they need, before the numbers may spread.
_ROOM_FOR_NAMES = 22
#: And this much where not even the numbers fit in one column.
_LEAST_ROOM = 16
#: What rules ask for wraps here.
_WIDEST_TERMS = 16
#: So many passes of one rule are shown one by one.
_PASSES_SHOWN = 3
#: More verdicts, and more problems, are for programs: nobody reads them one by one on a screen.
_MOST_SHOWN = 500
#: What is said of a verdict stands this far under it.
_INDENT = 4


def render(
    report: Report,
    *,
    width: int = 100,
    colour: bool = False,
    ascii_only: bool = False,
    verbose: bool = False,
    quiet: bool = False,
) -> str:
    """The report in lines of at most `width` cells, and of 60 on narrower terminals.

    `verbose` says all there is to say of every verdict, `quiet` only the last line.
    """
    page = Page(max(width, _NARROWEST), colour=colour, ascii_only=ascii_only)
    if not quiet:
        page.paragraph(", ".join(f"{name} {value}" for name, value in phrases.origin(report)), "dim")
        if report.verdicts:
            _write_verdicts(page, report.verdicts, verbose=verbose)
        _write_problems(page, report.problems)
        if verbose:
            _write_environment(page, report)
        _write_approval(page, report)
        page.blank()
    word, counts = phrases.answer(report)
    page.paragraph(f"{word}  {counts}", f"bold {_answer_colour(report)}")
    return page.finished()


def _answer_colour(report: Report) -> str:
    if report.exit_code:
        return "red"
    return "green" if report.outcome == "pass" else "yellow"


@dataclass(frozen=True, slots=True)
class _Layout:
    """What the columns after the outcome hold, their heads, and the widths of all columns."""

    cells: Callable[[Verdict], list[list[str]]]
    heads: tuple[str, ...]
    widths: list[int]


def _side_by_side(verdict: Verdict) -> list[list[str]]:
    numbers = "  ".join(phrases.measured(verdict))
    terms = wrap(phrases.allowed(verdict), _WIDEST_TERMS, break_long_words=False, break_on_hyphens=False)
    return [[phrases.what(verdict)], [numbers], terms, [phrases.n_effective(verdict)]]


def _stacked(verdict: Verdict) -> list[list[str]]:
    name, _, *rest = _side_by_side(verdict)
    return [name, phrases.measured(verdict), *rest]


def _in_one_column(verdict: Verdict) -> list[list[str]]:
    n_effective = phrases.n_effective(verdict)
    terms = phrases.allowed(verdict) + (f", n_eff {n_effective}" if n_effective else "")
    return [[phrases.what(verdict)], [*phrases.measured(verdict), terms]]


#: From the widest to the narrowest.
_ARRANGEMENTS = (
    (_side_by_side, ("metric", "measured", "allowed", "n_eff")),
    (_stacked, ("metric", "measured", "allowed", "n_eff")),
    (_in_one_column, ("metric", "measured, allowed")),
)


def _layout(page: Page, verdicts: Sequence[Verdict]) -> _Layout:
    """The widest arrangement that leaves room for the names of metrics."""
    outcome = max(len("outcome"), *(page.cells(_sign(page, verdict.outcome)) for verdict in verdicts))
    for cells, heads in _ARRANGEMENTS:
        rows = [[[head] for head in heads], *(cells(verdict) for verdict in verdicts)]
        name, *numbers = (
            max(page.cells(line) for lines in column for line in lines or [""]) for column in zip(*rows, strict=True)
        )
        room = page.width - outcome - sum(numbers) - GAP * (1 + len(numbers))
        if room >= min(name, _ROOM_FOR_NAMES):
            break
    else:
        room = max(room, _LEAST_ROOM)
        numbers = [page.width - outcome - room - 2 * GAP]
    return _Layout(cells, heads, [outcome, min(name, room), *numbers])


def _write_verdicts(page: Page, verdicts: Sequence[Verdict], *, verbose: bool) -> None:
    layout = _layout(page, verdicts)
    heads = ("outcome", *layout.heads)
    page.blank()
    page.row([[head] for head in heads], layout.widths, ["dim"] * len(heads))
    room, left_out = _MOST_SHOWN, 0
    for group in phrases.by_rule(verdicts):
        told = [verdict for verdict in group if phrases.is_told(verdict)]
        shown = group if verbose or len(group) - len(told) <= _PASSES_SHOWN else told
        left_out += max(0, len(shown) - room)
        if len(group) == 1 and room:
            _write_verdict(page, group[0], layout, verbose=verbose, alone=True)
        elif room:
            _write_group(page, group, shown[:room], len(group) - len(shown), layout, verbose=verbose)
        room = max(0, room - len(shown))
    _write_left_out(page, left_out, "verdict")


def _write_group(
    page: Page, group: list[Verdict], shown: list[Verdict], passes: int, layout: _Layout, *, verbose: bool
) -> None:
    """The verdicts of one rule under its name; many passes are only counted."""
    page.blank()
    page.paragraph(f"{group[0].rule} ({group[0].at})", "bold")
    for verdict in shown:
        _write_verdict(page, verdict, layout, verbose=verbose, alone=False)
    if passes:
        count = f"{passes} more" if shown else f"all {passes}"
        page.row([[_sign(page, "pass")], [count]], layout.widths[:2], ["green", ""])
    page.blank()


def _write_left_out(page: Page, count: int, noun: str) -> None:
    if count:
        page.paragraph(f"and {plural(count, f'more {noun}')}: --json FILE holds them all")


def _write_verdict(page: Page, verdict: Verdict, layout: _Layout, *, verbose: bool, alone: bool) -> None:
    """A row, and under it what is to be said of it; the verdicts of a group have their rule above them."""
    is_told = verbose or phrases.is_news(verdict)
    if is_told:
        page.blank()
    cells = [[_sign(page, verdict.outcome)], *layout.cells(verdict)]
    page.row(cells, layout.widths, [_style(verdict), *[""] * len(layout.heads)])
    if is_told:
        page.paragraph(verdict.message, indent=_INDENT)
        if verdict.next_step:
            page.paragraph(f"→ {verdict.next_step}", "bold", indent=_INDENT)
    elif verdict.outcome == "skipped":
        page.paragraph(verdict.message, "dim", indent=_INDENT)
    names_rule = alone or phrases.is_warning(verdict)
    shown = {
        "note": verbose or phrases.is_told(verdict),
        "why": is_told,
        "evidence": verbose,
        "rule": is_told and names_rule,
    }
    for name, text in phrases.facts(verdict):
        if shown.get(name):
            page.paragraph(f"{name}: {text}", "dim", indent=_INDENT)
    if is_told:
        page.blank()


def _sign(page: Page, outcome: Outcome) -> str:
    return f"{(phrases.ASCII_SIGNS if page.ascii_only else phrases.SIGNS)[outcome]} {outcome}"


def _style(verdict: Verdict) -> str:
    if not phrases.is_news(verdict):
        return "green" if verdict.outcome == "pass" else "dim"
    return "yellow" if phrases.is_warning(verdict) else "bold red"


def _write_problems(page: Page, problems: Sequence[Problem]) -> None:
    page.blank()
    for problem in problems[:_MOST_SHOWN]:
        style = "red" if problem.severity == "error" else "yellow"
        page.paragraph(f"{problem.at}: {problem.severity}: {phrases.complaint(problem)}", style)
        for line in problem.excerpt.split("\n") if problem.excerpt else []:
            page.paragraph(line, indent=_INDENT)
    _write_left_out(page, len(problems) - _MOST_SHOWN if len(problems) > _MOST_SHOWN else 0, "problem")


def _write_environment(page: Page, report: Report) -> None:
    page.blank()
    facts = ", ".join(f"{name} {value}" for name, value in sorted(report.environment.items()))
    page.paragraph(f"Environment: {facts or 'unknown'}", "dim")


def _write_approval(page: Page, report: Report) -> None:
    if not report.approve_command or report.outcome == "pass":
        return
    page.blank()
    page.paragraph("To approve what was seen:")
    for line in shell_lines(report.approve_command, page.width - _INDENT):
        page.paragraph(line, indent=_INDENT)
