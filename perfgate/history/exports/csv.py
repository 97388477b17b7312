"""CSV with a header, which `perfgate history import` reads again.

A text that a spreadsheet would take for a formula begins with an apostrophe, which the import takes off.
"""

from __future__ import annotations

import csv
import io
import re

from perfgate.core.run_history import COLUMNS, Cell, LoadedHistory

NAME = "csv"
_FORMULA = re.compile(r"'*[=+\-@]")


def render(found: LoadedHistory) -> bytes:
    """Return a line for each number. Numbers have all their digits."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for one in found.series:
        writer.writerows(map(_plain, row) for row in one.rows())
    return text.getvalue().encode("utf-8", "backslashreplace")


def _plain(cell: Cell) -> Cell:
    return f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) else cell
