"""Text on a page of a fixed width: rich wraps, aligns and colours it."""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from perfgate.reporters.text import one_line, without_commands

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

    def cells(self, text: str) -> int:
        """How many cells of a terminal the text takes on this page."""
        return cell_len(self._one_line(text))

    def paragraph(self, text: str, style: str = "", *, indent: int = 0) -> None:
        """Text that wraps between words, all of it indented."""
        paragraph = Padding(Text(self._one_line(text), style), (0, 0, 0, indent))
        self._print(paragraph, min(self.width, _LONGEST_LINE))

    def row(self, cells: Sequence[Sequence[str]], widths: Sequence[int], styles: Sequence[str]) -> None:
        """Cells side by side; each is a list of lines that wrap within the cell's width."""
        grid = Table(box=None, show_header=False, pad_edge=False, padding=(0, GAP, 0, 0))
        for width in widths:
            grid.add_column(width=width, overflow="fold")
        texts = ["\n".join(self._one_line(line) for line in lines) for lines in cells]
        grid.add_row(*(Text(text, style) for text, style in zip(texts, styles, strict=True)))
        self._print(grid, self.width)

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

    def _one_line(self, text: str) -> str:
        return one_line(text, ascii_only=self.ascii_only)
