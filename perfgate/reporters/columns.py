"""The columns of the terminal's table: what stands in them, and how wide they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import TypeAlias

from perfgate.core import Outcome, Verdict
from perfgate.reporters import bar, phrases
from perfgate.reporters.page import GAP, Cell, Page

#: The names of metrics get this much room, or all that they need, before everything else stands on one line.
_ROOM_FOR_NAMES = 40
#: And this much before the numbers stand beside them at all.
_LEAST_ROOM = 28
#: What rules ask for wraps here where there is room, and where there is none.
_WIDE_TERMS, _NARROW_TERMS = 26, 16

#: What the columns after the outcome hold of a verdict.
Columns: TypeAlias = Callable[[Page, Verdict], list[Cell]]


@dataclass(frozen=True, slots=True)
class Layout:
    """How the verdicts of a page are arranged: what the columns after the outcome hold, the heads and widths of all.

    With `name_above` the name of a metric stands on a line of its own, over the numbers, and has no column.
    """

    columns: Columns
    heads: list[str]
    widths: list[int]
    name_above: bool = False


def _side_by_side(page: Page, verdict: Verdict) -> list[Cell]:
    terms = _wrapped(phrases.allowed(verdict), _WIDE_TERMS)
    return [[phrases.what(verdict)], ["  ".join(phrases.measured(verdict))], _bar(page, verdict), terms]


def _stacked(page: Page, verdict: Verdict, widest_terms: int = _WIDE_TERMS) -> list[Cell]:
    terms = _wrapped(phrases.allowed(verdict), widest_terms)
    return [[phrases.what(verdict)], phrases.measured(verdict), [*terms, *_bar(page, verdict)]]


def _squeezed(page: Page, verdict: Verdict) -> list[Cell]:
    return _stacked(page, verdict, _NARROW_TERMS)


#: From the widest to the narrowest: the heads, the cells under them, and the room for names that they want.
_ARRANGEMENTS: tuple[tuple[list[str], Columns, int], ...] = (
    (["metric", "measured", "", "allowed"], _side_by_side, _ROOM_FOR_NAMES),
    (["metric", "measured", "allowed"], _stacked, _ROOM_FOR_NAMES),
    (["metric", "measured", "allowed"], _squeezed, _LEAST_ROOM),
)


def _wrapped(text: str, width: int) -> list[str]:
    return wrap(text, width, break_long_words=False, break_on_hyphens=False)


def _bar(page: Page, verdict: Verdict) -> Cell:
    drawn = bar.draw(verdict, ascii_only=page.ascii_only)
    return [(drawn, style(verdict))] if drawn else []


def arranged(page: Page, verdicts: Sequence[Verdict]) -> Layout:
    """The widest arrangement that leaves room for the names of metrics; else they stand above their numbers."""
    outcome = max(len("outcome"), *(page.cells(sign(page, verdict.outcome)) for verdict in verdicts))
    for heads, columns, wanted in _ARRANGEMENTS:
        rows = [[[head] for head in heads], *(columns(page, verdict) for verdict in verdicts)]
        name, *numbers = (max(map(page.cell_width, column)) for column in zip(*rows, strict=True))
        room = page.width - outcome - sum(numbers) - GAP * (1 + len(numbers))
        if room >= min(name, wanted):
            return Layout(columns, ["outcome", *heads], [outcome, min(name, room), *numbers])
    room = page.width - outcome - 2 * GAP
    measured = min(numbers[0], room - _NARROW_TERMS)
    columns = _stacked if room - measured >= _WIDE_TERMS else _squeezed
    return Layout(columns, ["outcome", *heads[1:]], [outcome, measured, room - measured], name_above=True)


def sign(page: Page, outcome: Outcome) -> str:
    """An outcome with its sign, in what the page can show."""
    return f"{(phrases.ASCII_SIGNS if page.ascii_only else phrases.SIGNS)[outcome]} {outcome}"


def style(verdict: Verdict) -> str:
    """Red blocks, yellow is news that does not, green passes, and dim was left out."""
    if not phrases.is_news(verdict):
        return "green" if verdict.outcome == "pass" else "dim"
    return "yellow" if phrases.is_warning(verdict) else "bold red"
