"""Text on a page of a fixed width: rich wraps, aligns and colours it."""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO
from typing import TypeAlias

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from perfgate.core.wording import one_line, without_commands

#: The lines of one cell, each with the style of its column or with its own.
Cell: TypeAlias = Sequence[str | tuple[str, str]]

#: Blanks between two columns.
GAP = 2
#: Paragraphs wrap here on wider pages, because longer lines are hard to read.
_LONGEST_LINE = 110


class Page:
    """Lines of at most `width` cells. Untrusted text may be written on it: it is made visible first."""

    def __init__(self, width: int, *, colour: bool = False, ascii_only: bool = False) -> None:
        self.width = width
        self.ascii_only = ascii_only
        self._lines = StringIO()
        self._blank_is_due = False
        # What is not said here, rich would look up in environment variables.
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

    @property
    def line(self) -> int:
        """How many cells a line of a paragraph may take."""
        return min(self.width, _LONGEST_LINE)

    def cell_width(self, lines: Cell) -> int:
        """How many cells of a terminal the widest line of a cell takes."""
        return max((self.cells(line if isinstance(line, str) else line[0]) for line in lines), default=0)

    def cells(self, text: str) -> int:
        """How many cells of a terminal the text takes on this page."""
        return cell_len(self._one_line(text))

    def paragraph(self, text: str, style: str = "", *, indent: int = 0) -> None:
        """Text that wraps between words, all of it indented."""
        paragraph = Padding(Text(self._one_line(text), style), (0, 0, 0, indent))
        self._print(paragraph, self.line)

    def row(self, cells: Sequence[Cell], widths: Sequence[int], styles: Sequence[str], *, indent: int = 0) -> None:
        """Cells side by side; the lines of each wrap within its width, and a line may have a style of its own."""
        grid = Table(box=None, show_header=False, pad_edge=False, padding=(0, GAP, 0, 0))
        for width in widths:
            grid.add_column(width=width, overflow="fold")
        grid.add_row(*(self._cell(lines, style) for lines, style in zip(cells, styles, strict=True)))
        self._print(Padding(grid, (0, 0, 0, indent)), self.width)

    def blank(self) -> None:
        """One empty line before whatever comes next, unless nothing stands above it."""
        self._blank_is_due = self._lines.tell() > 0

    def finished(self) -> str:
        """The page, with no blanks at the ends of its lines."""
        lines = self._lines.getvalue().split("\n")
        return without_commands("\n".join(line.rstrip(" ") for line in lines))

    def _print(self, what: RenderableType, width: int) -> None:
        if self._blank_is_due:
            self._lines.write("\n")
            self._blank_is_due = False
        self._console.print(what, width=width)

    def _cell(self, lines: Cell, style: str) -> Text:
        styled = [(line, style) if isinstance(line, str) else line for line in lines]
        return Text("\n").join(Text(self._one_line(line), own) for line, own in styled)

    def _one_line(self, text: str) -> str:
        return one_line(text, ascii_only=self.ascii_only)
