"""A text page of fixed width for a terminal; rich wraps, aligns and colours the text."""

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

#: The lines of one table cell, each with the style of its column or with its own.
Cell: TypeAlias = Sequence[str | tuple[str, str]]

#: Blanks between two columns.
GAP = 2
#: The widest paragraph, because longer lines are hard to read.
_LONGEST_LINE = 110


class Page:
    """Lines of at most `width` terminal cells. Untrusted text is safe here: `one_line` is applied to all of it."""

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

    def cells(self, text: str) -> int:
        """The width of a text on this page, in terminal cells."""
        return cell_len(one_line(text, ascii_only=self.ascii_only))

    def paragraph(self, text: str, style: str = "", *, indent: int = 0) -> None:
        """Write a text that wraps between words, with every line indented; nothing for an empty text."""
        if text:
            shown = Text(one_line(text, ascii_only=self.ascii_only), style)
            self._print(Padding(shown, (0, 0, 0, indent)), self.line)

    def row(self, cells: Sequence[Cell], widths: Sequence[int], styles: Sequence[str], *, indent: int = 0) -> None:
        """Write cells side by side. The lines of each cell wrap within its width."""
        grid = Table(box=None, show_header=False, pad_edge=False, padding=(0, GAP, 0, 0))
        for width in widths:
            grid.add_column(width=width, overflow="fold")
        texts = []
        for lines, style in zip(cells, styles, strict=True):
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
        """Return the page without blanks at the ends of its lines."""
        lines = self._lines.getvalue().split("\n")
        return without_commands("\n".join(line.rstrip(" ") for line in lines))

    def _print(self, what: RenderableType, width: int) -> None:
        if self._blank_is_due:
            self._lines.write("\n")
            self._blank_is_due = False
        self._console.print(what, width=width)
